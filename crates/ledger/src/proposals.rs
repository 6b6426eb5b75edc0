//! Four eyes: changes that one operator proposes and another one approves.
//!
//! The list of kinds that need a second person is part of the state ([`FourEyes`]). A change of a
//! listed kind is decided only as part of its approval; on its own it is refused. A list that is
//! not empty can itself be changed by an approval only. The kernel compares the names of the two
//! persons; the admin API authenticates them.
//!
//! A change that only takes rights from operators never needs a second person: it must not wait.
//!
//! A proposal is open until it is decided or its time has passed. The stamp of the batch decides
//! whether it has: no record and no timer ends it.
//!
//! Costs: a scan of the proposals per proposal and per decision. Bounds: [`PROPOSALS_OPEN_MAX`],
//! [`PROPOSALS_MAX`], [`PROPOSALS_BYTES_MAX`]. The oldest ended proposals are removed to make room.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::change::{
    Change, ChangeDeclaration, ChangeNumbers, PROPOSAL_TEXT_MAX, ProposableChange, RemoveRole,
    SetFourEyes, SetRole,
};
use crate::field::{ByteSink, Field, SHORT, Text, numbered, stored};
use crate::ids::{LogIndex, ProposalId, Stamp};
use crate::operators::OperatorBook;
use crate::outcome::Outcome;

/// Maximum number of open proposals.
pub const PROPOSALS_OPEN_MAX: usize = 1_000;
/// Maximum number of proposals, ended ones included: at least the newest 1,000 of these are kept.
pub const PROPOSALS_MAX: usize = 2_000;
/// Maximum length of the stored form of a proposed change, in bytes.
pub const PROPOSAL_BYTES_MAX: usize = 1 << 20;
/// Maximum length of the stored forms of all proposed changes, in bytes.
pub const PROPOSALS_BYTES_MAX: usize = 64 << 20;

stored! {
    /// The kinds of changes that need a second person.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct FourEyes {
        /// Numbers of changes, ascending.
        pub changes: Vec<u8> as ChangeNumbers,
        /// The newest proposal. Numbers are never reused.
        pub last_proposal: ProposalId,
    }
}

stored! {
    /// A proposed change.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Proposal {
        /// Its number.
        pub id: ProposalId,
        /// The operator who proposed it.
        pub by: String as Text<SHORT>,
        /// The reason.
        pub reason: String as Text<PROPOSAL_TEXT_MAX>,
        /// The request that asked for the change, as the admin API describes it.
        pub request: String as Text<PROPOSAL_TEXT_MAX>,
        /// The change.
        pub change: Arc<Change> as ProposableChange,
        /// When it was proposed.
        pub proposed: Stamp,
        /// The record that proposed it.
        pub record: LogIndex,
        /// From this time on it can no longer be decided.
        pub expires: Stamp,
        /// How it was decided.
        pub decision: Option<ProposalDecision>,
    }
}

stored! {
    /// The decision on a proposal.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ProposalDecision {
        /// Its kind.
        pub kind: ProposalEnd,
        /// The operator who decided.
        pub by: String as Text<SHORT>,
        /// The reason.
        pub reason: String as Text<PROPOSAL_TEXT_MAX>,
        /// When it was decided.
        pub at: Stamp,
        /// The record of the decision.
        pub record: LogIndex,
        /// The outcome of an approved change; `Accepted` for other decisions.
        pub outcome: Outcome,
    }
}

numbered! {
    /// The kinds of decisions on a proposal.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ProposalEnd: u8 {
        /// Approved by another operator; the change was decided at once.
        Approved = 1,
        /// Rejected by another operator.
        Rejected = 2,
        /// Withdrawn by the operator who proposed it.
        Withdrawn = 3,
    }
}

/// The state of a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProposalState {
    /// It waits for a decision.
    Open,
    /// It was not decided in time.
    Expired,
    /// It was decided.
    Decided(ProposalEnd),
}

impl Proposal {
    /// Its state at this time.
    #[must_use]
    pub fn state(&self, now: Stamp) -> ProposalState {
        match &self.decision {
            Some(decision) => ProposalState::Decided(decision.kind),
            None if self.expires <= now => ProposalState::Expired,
            None => ProposalState::Open,
        }
    }

    pub(crate) fn is_open(&self, now: Stamp) -> bool {
        self.state(now) == ProposalState::Open
    }
}

/// The kinds of changes that need a second person, and the proposals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proposals {
    pub(crate) four_eyes: FourEyes,
    pub(crate) rows: VecDeque<Proposal>,
}

/// Whether no operator and no participant has more rights after a change, and one may have fewer.
pub(crate) fn takes_rights_away(book: &OperatorBook, change: &Change) -> bool {
    if let Change::SetOperator(new) = change {
        let old = book.operator(&new.name);
        return old.is_some_and(|old| {
            (old.active || !new.active) && new.roles.iter().all(|role| old.roles.contains(role))
        });
    }
    if let Change::SetRole(SetRole { role: new }) = change {
        let old = book.role(&new.name);
        return old.is_some_and(|old| {
            new.permissions.iter().all(|permission| old.permissions.contains(permission))
        });
    }
    if let Change::EndEnrolment(new) = change {
        return new.certificate.is_none();
    }
    if let Change::SetPassword(new) = change {
        return new.hash.is_empty();
    }
    change.number() == RemoveRole::DECLARATION.number
}

impl Proposals {
    /// The kinds of changes that need a second person.
    #[must_use]
    pub const fn four_eyes(&self) -> &FourEyes {
        &self.four_eyes
    }

    /// Open and ended proposals, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Proposal> {
        self.rows.iter()
    }

    /// The proposal with this number.
    #[must_use]
    pub fn get(&self, id: ProposalId) -> Option<&Proposal> {
        let at = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
        self.rows.get(at)
    }

    /// Whether a change of this kind needs a second person.
    #[must_use]
    pub fn needs(&self, change: &ChangeDeclaration) -> bool {
        let listed = &self.four_eyes.changes;
        listed.contains(&change.number)
            || (!listed.is_empty() && change.number == SetFourEyes::DECLARATION.number)
    }

    pub(crate) fn get_mut(&mut self, id: ProposalId) -> Option<&mut Proposal> {
        let at = self.rows.binary_search_by_key(&id, |row| row.id).ok()?;
        self.rows.get_mut(at)
    }

    /// Removes the oldest ended proposals until one more with a change of this length fits. Returns
    /// false, and removes none, if the open ones leave no room.
    pub(crate) fn make_room(&mut self, bytes: usize, now: Stamp) -> bool {
        let size_of = |row: &Proposal| stored_bytes(&*row.change);
        let open = self.rows.iter().filter(|row| row.is_open(now));
        let (count, used) =
            open.fold((0, 0), |(count, used), row| (count + 1, used + size_of(row)));
        if PROPOSALS_OPEN_MAX <= count || PROPOSALS_BYTES_MAX < used + bytes {
            return false;
        }
        let mut all: usize = self.rows.iter().map(size_of).sum();
        while PROPOSALS_MAX <= self.rows.len() || PROPOSALS_BYTES_MAX < all + bytes {
            let ended = self.rows.iter().position(|row| !row.is_open(now));
            let ended = ended.and_then(|at| self.rows.remove(at)).expect("the open ones fit");
            all -= size_of(&ended);
        }
        true
    }
}

/// Counts bytes.
struct ByteCount(usize);

impl ByteSink for ByteCount {
    fn bytes(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Length of the stored form of a value, in bytes.
#[must_use]
pub fn stored_bytes(value: &impl Field) -> usize {
    let mut count = ByteCount(0);
    value.write(&mut count);
    count.0
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;
    use crate::change::{CloseWindow, CreateSettlement};
    use crate::ids::WindowId;

    fn proposal(id: u32, reason: usize, expires: u64) -> Proposal {
        let reason = "x".repeat(reason);
        Proposal {
            id: ProposalId(id),
            by: "amina".into(),
            reason: String::new(),
            request: String::new(),
            change: Arc::new(CloseWindow { window: WindowId(id), reason }.into()),
            proposed: Stamp(1),
            record: LogIndex(u64::from(id)),
            expires: Stamp(expires),
            decision: None,
        }
    }

    #[test]
    fn oldest_ended_proposals_make_room() {
        let mut proposals = Proposals::default();
        let expires = |id| if id == 1 || 500 < id { 10 } else { 5 };
        proposals.rows.extend((1..=2_000).map(|id| proposal(id, 0, expires(id))));
        let now = Stamp(5);
        assert!(!proposals.make_room(10, now), "1,501 are open");
        proposals.rows.truncate(1_499);
        assert!(!proposals.make_room(10, now), "1,000 are open");
        proposals.rows.truncate(1_498);
        assert!(proposals.make_room(10, now));
        assert_eq!(proposals.rows.len(), 1_498, "there was room");
        let more = (1_499..=2_000).map(|id| proposal(id, 0, 5));
        proposals.rows.extend(more);
        assert!(proposals.make_room(10, now));
        let ids: Vec<_> = proposals.iter().take(3).map(|row| row.id.0).collect();
        assert_eq!((proposals.rows.len(), ids), (1_999, vec![1, 3, 4]));
        assert!(proposals.get(ProposalId(2)).is_none());
        assert_eq!(proposals.get(ProposalId(2_000)).map(|row| row.id.0), Some(2_000));
    }

    #[test]
    fn proposals_are_bounded_in_bytes() {
        let mut proposals = Proposals::default();
        let large = 65_000;
        let fit = (PROPOSALS_BYTES_MAX / (large + 7)) as u32;
        assert!(fit as usize > PROPOSALS_OPEN_MAX);
        let expires = |id| if id <= 40 { 5 } else { 10 };
        proposals.rows.extend((1..=fit).map(|id| proposal(id, large, expires(id))));
        assert!(!proposals.make_room(large + 7, Stamp(1)), "too many are open");
        proposals.rows.retain(|row| row.id.0 <= 1_000);
        assert!(!proposals.make_room(10, Stamp(1)), "1,000 are open");
        assert!(proposals.make_room(large, Stamp(5)));
        assert_eq!(proposals.rows.len(), 1_000);
        assert!(proposals.make_room(3 << 20, Stamp(5)));
        assert_eq!(proposals.rows.len(), 983);
        assert!(!proposals.make_room(PROPOSALS_BYTES_MAX, Stamp(5)), "960 are open");
        assert_eq!(proposals.rows.len(), 983, "none was removed in vain");
    }

    #[test]
    fn stored_bytes_are_counted() {
        let (model, reason) = ("A".into(), "night".into());
        let change = CreateSettlement { model, reason, windows: vec![WindowId(1), WindowId(2)] };
        assert_eq!(stored_bytes(&Change::from(change)), 1 + 2 + 7 + 4 + 8);
    }
}
