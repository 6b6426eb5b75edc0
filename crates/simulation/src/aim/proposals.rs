//! How runs reach the outcomes of four eyes: one aim lists a kind of change, proposes changes of
//! it, decides them in every way, and empties the list again. A list that a crash has left is
//! emptied first, because it refuses the changes of other aims.

use std::sync::Arc;

use ledger::{
    AccountId, AccountStep, AdminOutcome, AdvanceSettlement, ApproveProposal, Change, DeleteOracle,
    FourEyes, OracleId, ProposalId, Propose, RejectProposal, SetFourEyes, SettlementId,
    SettlementState,
};

use super::{By, Reach, Reached, Situation};

const TOO_SHORT: &str = "a run is too short to fill the table";

impl Reach for SetFourEyes {
    const REACHED: Reached = &[
        (AdminOutcome::FourEyesRefused, By::Aim(decide_in_every_way)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for Propose {
    const REACHED: Reached = &[
        (AdminOutcome::ProposalNotNeeded, By::Chance),
        (AdminOutcome::ProposalTooLarge, By::Chance),
        (AdminOutcome::ProposalRepeated, By::Chance),
        (AdminOutcome::RegistryFull, By::Nothing(TOO_SHORT)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for ApproveProposal {
    const REACHED: Reached = &[
        (AdminOutcome::ProposalNotFound, By::Chance),
        (AdminOutcome::ProposalEnded, By::Chance),
        (AdminOutcome::ProposalExpired, By::Chance),
        (AdminOutcome::ProposerCannotApprove, By::Chance),
        (AdminOutcome::ProposalDiffers, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for RejectProposal {
    const REACHED: Reached = &[
        (AdminOutcome::ProposalNotFound, By::Chance),
        (AdminOutcome::ProposalEnded, By::Chance),
        (AdminOutcome::ProposalExpired, By::Chance),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

fn decide_in_every_way(situation: &mut Situation<'_>) -> Vec<Change> {
    let Some(state) = situation.state else { return Vec::new() };
    let FourEyes { changes, last_proposal } = state.proposals().four_eyes().clone();
    let next = |after| ProposalId(last_proposal.0 + after);
    let empty: Change = SetFourEyes { changes: Vec::new() }.into();
    let emptied = |id| [propose("anna", 60, &empty), approve("bert", id, &empty)];
    if !changes.is_empty() {
        return emptied(next(1)).into();
    }
    let number = DeleteOracle::DECLARATION.number;
    let delete = |id| Change::from(DeleteOracle { id: OracleId(u32::MAX - id) });
    let mut all = vec![
        SetFourEyes { changes: vec![number, number] }.into(),
        propose("anna", 60, &delete(0)),
        SetFourEyes { changes: vec![number, AdvanceSettlement::DECLARATION.number] }.into(),
        propose("anna", 60, &large()),
        delete(0),
        propose("anna", 60, &delete(0)),
        propose("anna", 60, &delete(0)),
        approve("anna", next(1), &delete(0)),
        approve("bert", next(1), &delete(1)),
        approve("bert", next(1), &delete(0)),
        approve("bert", next(1), &delete(0)),
        reject(next(1)),
        approve("bert", ProposalId(u32::MAX), &delete(0)),
        reject(ProposalId(u32::MAX)),
        propose("anna", 0, &delete(2)),
        approve("bert", next(2), &delete(2)),
        reject(next(2)),
        propose("anna", 60, &delete(3)),
        reject(next(3)),
    ];
    all.extend(emptied(next(4)));
    all
}

/// A change of more than a mebibyte.
fn large() -> Change {
    let step = AccountStep {
        participant: 2,
        account: AccountId(6),
        state: SettlementState::PsTransfersRecorded,
        reason: "x".repeat(62_000),
        external_reference: String::new(),
    };
    AdvanceSettlement { settlement: SettlementId(1), steps: vec![step; 17] }.into()
}

fn propose(by: &str, seconds: u32, change: &Change) -> Change {
    let (by, change) = (by.to_owned(), Arc::new(change.clone()));
    let (reason, request) = ("simulated".to_owned(), "DELETE /oracles".to_owned());
    Propose { by, reason, request, seconds, change }.into()
}

fn approve(by: &str, proposal: ProposalId, change: &Change) -> Change {
    let (by, change) = (by.to_owned(), Arc::new(change.clone()));
    ApproveProposal { proposal, by, reason: "simulated".to_owned(), change }.into()
}

fn reject(proposal: ProposalId) -> Change {
    let (by, reason) = ("bert".to_owned(), "simulated".to_owned());
    RejectProposal { proposal, by, reason }.into()
}
