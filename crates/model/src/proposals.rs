//! The model of four eyes, as `docs/security/four-eyes.md` has it.
//!
//! Proposals are never removed from the model: it computes which ones the hub still has.

use std::collections::BTreeMap;

use ledger::field::Field;
use ledger::{
    ApproveProposal, Change, ChangeResult, ErasureForm, Outcome, PROPOSAL_BYTES_MAX,
    PROPOSALS_BYTES_MAX, PROPOSALS_MAX, PROPOSALS_OPEN_MAX, ProposalEnd, ProposalId, Propose,
    RejectProposal, SetFourEyes, Stamp, State,
};

use super::operators::OPERATOR_RULES;
use super::{Model, Predict};

/// A proposal of a change, by whom, until when, and its end.
#[derive(Clone, Debug)]
struct KnownProposal {
    by: String,
    change: Change,
    until: Stamp,
    end: Option<(ProposalEnd, String, Outcome)>,
}

/// The listed kinds, and the proposals that the hub has.
#[derive(Clone, Debug, Default)]
pub(super) struct Proposals {
    listed: Vec<u8>,
    last: u32,
    kept: BTreeMap<u32, KnownProposal>,
}

impl KnownProposal {
    fn is_open(&self, now: Stamp) -> bool {
        self.end.is_none() && now < self.until
    }

    fn bytes(&self) -> usize {
        bytes_of(&self.change)
    }
}

impl Proposals {
    pub(super) fn compare(&self, state: &State) {
        let actual = state.proposals();
        assert_eq!(actual.four_eyes().changes, self.listed, "kinds that need a second person");
        assert_eq!(actual.four_eyes().last_proposal.0, self.last, "the newest proposal");
        let ids = actual.iter().map(|proposal| proposal.id.0);
        assert!(ids.eq(self.kept.keys().copied()), "proposals: {actual:?}, not {self:?}");
        for proposal in actual.iter() {
            let known = &self.kept[&proposal.id.0];
            assert_eq!((&proposal.by, &*proposal.change), (&known.by, &known.change));
            assert_eq!(proposal.expires, known.until);
            let end = proposal.decision.as_ref();
            let end = end.map(|end| (end.kind, end.by.clone(), end.outcome));
            assert_eq!(end, known.end, "end of proposal {}", proposal.id.0);
        }
    }

    fn must_be_approved(&self, number: u8) -> bool {
        self.listed.contains(&number) || (number == 70 && !self.listed.is_empty())
    }

    /// Whether one more proposal fits: the open ones always stay.
    fn fits(&self, bytes: usize, now: Stamp) -> bool {
        let open = self.kept.values().filter(|it| it.is_open(now));
        let sizes: Vec<_> = open.map(KnownProposal::bytes).collect();
        sizes.len() < PROPOSALS_OPEN_MAX
            && sizes.iter().sum::<usize>() + bytes <= PROPOSALS_BYTES_MAX
    }

    /// Forgets the oldest ended proposals until one more fits.
    fn forget(&mut self, bytes: usize, now: Stamp) {
        let ended = self.kept.iter().filter(|(_, it)| !it.is_open(now)).map(|(id, _)| *id);
        for oldest in ended.collect::<Vec<_>>() {
            let all: usize = self.kept.values().map(KnownProposal::bytes).sum();
            if self.kept.len() < PROPOSALS_MAX && all + bytes <= PROPOSALS_BYTES_MAX {
                return;
            }
            self.kept.remove(&oldest);
        }
    }

    /// The reason why no operator can decide the proposal.
    fn refuse(&self, id: ProposalId, now: Stamp) -> Option<Outcome> {
        match self.kept.get(&id.0) {
            None => Some(Outcome::ProposalNotFound),
            Some(known) if known.end.is_some() => Some(Outcome::ProposalEnded),
            Some(known) if !known.is_open(now) => Some(Outcome::ProposalExpired),
            Some(_) => None,
        }
    }

    fn end(&mut self, id: ProposalId, end: (ProposalEnd, String, Outcome)) {
        self.kept.get_mut(&id.0).expect("it is open").end = Some(end);
    }
}

impl Model {
    /// Whether a change is refused unless it comes by an approval.
    pub(super) fn must_be_approved(&self, change: &Change) -> bool {
        if let Change::Erase(erase) = change {
            let by_setting = [ErasureForm::RetainedPayments, ErasureForm::RetainedRegistrations];
            if by_setting.contains(&erase.form) {
                return false;
            }
            if self.operators.has_active() {
                return true;
            }
        }
        self.proposals.must_be_approved(change.number()) && !self.only_takes_rights(change)
    }
}

/// Length of the stored form.
fn bytes_of(change: &Change) -> usize {
    let mut bytes = Vec::new();
    change.write(&mut bytes);
    bytes.len()
}

impl Predict for SetFourEyes {
    fn predict(&self, model: &mut Model) -> Outcome {
        // Settings, rules, alarms, alerts, proposals and refused requests need no second person.
        let other = [1, 2, 54, 55, 71, 72, 73, 74];
        let known = |it: &u8| Change::TABLE.iter().any(|(_, number)| number == it);
        let fits = self.changes.iter().all(|it| known(it) && !other.contains(it));
        let mut sorted = self.changes.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if model.rules < OPERATOR_RULES || !fits || sorted != self.changes {
            return Outcome::FourEyesRefused;
        }
        model.proposals.listed = sorted;
        Outcome::Accepted
    }
}

impl Predict for Propose {
    fn predict(&self, model: &mut Model) -> Outcome {
        let (now, bytes) = (model.stamp, bytes_of(&self.change));
        if !model.must_be_approved(&self.change) {
            return Outcome::ProposalNotNeeded;
        }
        let proposals = &mut model.proposals;
        if PROPOSAL_BYTES_MAX < bytes {
            return Outcome::ProposalTooLarge;
        }
        let is_same = |it: &KnownProposal| {
            it.is_open(now) && (&it.by, &it.change) == (&self.by, &*self.change)
        };
        let same = proposals.kept.iter().find(|(_, it)| is_same(it)).map(|(id, _)| *id);
        if let Some(id) = same {
            model.add_result(ChangeResult::Proposed(ProposalId(id)));
            return Outcome::ProposalRepeated;
        }
        if !proposals.fits(bytes, now) {
            return Outcome::RegistryFull;
        }
        proposals.forget(bytes, now);
        proposals.last += 1;
        let id = proposals.last;
        let until = Stamp(now.0 + u64::from(self.seconds) * 1_000_000);
        let (by, change) = (self.by.clone(), (*self.change).clone());
        proposals.kept.insert(id, KnownProposal { by, change, until, end: None });
        model.add_result(ChangeResult::Proposed(ProposalId(id)));
        Outcome::Accepted
    }
}

impl Predict for ApproveProposal {
    fn predict(&self, model: &mut Model) -> Outcome {
        if let Some(refusal) = model.proposals.refuse(self.proposal, model.stamp) {
            return refusal;
        }
        let known = &model.proposals.kept[&self.proposal.0];
        if known.by == self.by {
            return Outcome::ProposerCannotApprove;
        }
        if known.change != *self.change {
            return Outcome::ProposalDiffers;
        }
        let outcome = self.change.predict(model);
        let end = (ProposalEnd::Approved, self.by.clone(), outcome);
        model.proposals.end(self.proposal, end);
        outcome
    }
}

impl Predict for RejectProposal {
    fn predict(&self, model: &mut Model) -> Outcome {
        if let Some(refusal) = model.proposals.refuse(self.proposal, model.stamp) {
            return refusal;
        }
        let end = match model.proposals.kept[&self.proposal.0].by == self.by {
            true => ProposalEnd::Withdrawn,
            false => ProposalEnd::Rejected,
        };
        let accepted = Outcome::Accepted;
        model.proposals.end(self.proposal, (end, self.by.clone(), accepted));
        accepted
    }
}
