//! `/fourEyes`, `/proposals`: changes that need a second person.

use alloc::string::String;

use super::decide_change;
use crate::change::{ApproveProposal, Change, Propose, RejectProposal, SetFourEyes};
use crate::context::{Context, Decide};
use crate::ids::{ProposalId, Stamp};
use crate::outcome::AdminOutcome;
use crate::proposals::{
    PROPOSAL_BYTES_MAX, Proposal, ProposalDecision, ProposalEnd, ProposalState, stored_bytes,
};
use crate::rules::OPERATORS;
use crate::state::{ChangeResult, State};

/// Earlier rules know no four eyes.
impl Decide for SetFourEyes {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let is_ascending = self.changes.is_sorted_by(|one, next| one < next);
        let is_known = self.changes.iter().all(|number| Change::is_proposable(*number));
        if context.state.rules_version < OPERATORS || !is_ascending || !is_known {
            return AdminOutcome::FourEyesRefused;
        }
        context.state.proposals.four_eyes.changes.clone_from(&self.changes);
        AdminOutcome::Accepted
    }
}

impl Decide for Propose {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        if !context.state.needs_approval(&self.change) {
            return AdminOutcome::ProposalNotNeeded;
        }
        let State { proposals, stamp, .. } = &mut *context.state;
        let now = *stamp;
        let bytes = stored_bytes(&*self.change);
        if PROPOSAL_BYTES_MAX < bytes {
            return AdminOutcome::ProposalTooLarge;
        }
        let is_same =
            |row: &&Proposal| row.is_open(now) && row.by == self.by && row.change == self.change;
        if let Some(id) = proposals.iter().find(is_same).map(|row| row.id) {
            context.effects.results.push((context.log_index, ChangeResult::Proposed(id)));
            return AdminOutcome::ProposalRepeated;
        }
        if !proposals.make_room(bytes, now) {
            return AdminOutcome::RegistryFull;
        }
        let id = ProposalId(proposals.four_eyes.last_proposal.0 + 1);
        proposals.four_eyes.last_proposal = id;
        proposals.rows.push_back(Proposal {
            id,
            by: self.by.clone(),
            reason: self.reason.clone(),
            request: self.request.clone(),
            change: self.change.clone(),
            proposed: now,
            record: context.log_index,
            expires: Stamp(now.0.saturating_add(u64::from(self.seconds) * 1_000_000)),
            decision: None,
        });
        context.effects.results.push((context.log_index, ChangeResult::Proposed(id)));
        AdminOutcome::Accepted
    }
}

/// Decides the proposed change in the same step. Its outcome is that of the approval.
impl Decide for ApproveProposal {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let proposal = match open(context.state, self.proposal) {
            Ok(proposal) => proposal,
            Err(refusal) => return refusal,
        };
        if proposal.by == self.by {
            return AdminOutcome::ProposerCannotApprove;
        }
        if proposal.change != self.change {
            return AdminOutcome::ProposalDiffers;
        }
        let outcome = decide_change(context, &self.change);
        end(context, self.proposal, (&self.by, &self.reason), (ProposalEnd::Approved, outcome));
        outcome
    }
}

impl Decide for RejectProposal {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let kind = match open(context.state, self.proposal) {
            Ok(proposal) if proposal.by == self.by => ProposalEnd::Withdrawn,
            Ok(_) => ProposalEnd::Rejected,
            Err(refusal) => return refusal,
        };
        let outcome = AdminOutcome::Accepted;
        end(context, self.proposal, (&self.by, &self.reason), (kind, outcome));
        outcome
    }
}

/// The proposal, if it can be decided.
fn open(state: &State, id: ProposalId) -> Result<&Proposal, AdminOutcome> {
    let proposal = state.proposals.get(id).ok_or(AdminOutcome::ProposalNotFound)?;
    match proposal.state(state.stamp) {
        ProposalState::Open => Ok(proposal),
        ProposalState::Expired => Err(AdminOutcome::ProposalExpired),
        ProposalState::Decided(_) => Err(AdminOutcome::ProposalEnded),
    }
}

/// Records the decision on an open proposal.
fn end(
    context: &mut Context<'_>,
    id: ProposalId,
    (by, reason): (&String, &String),
    (kind, outcome): (ProposalEnd, AdminOutcome),
) {
    let (at, record) = (context.state.stamp, context.log_index);
    let proposal = context.state.proposals.get_mut(id).expect("it was found just now");
    let (by, reason, outcome) = (by.clone(), reason.clone(), outcome.into());
    proposal.decision = Some(ProposalDecision { kind, by, reason, at, record, outcome });
}
