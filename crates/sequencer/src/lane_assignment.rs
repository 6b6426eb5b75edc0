//! The assignment of lanes to this node.
//!
//! A node stops serving a lost lane immediately. It starts serving a gained lane only after every
//! other live node has acknowledged the change and the session of this node's previous epoch has
//! expired. So no two running nodes serve the same lane. The lease ([`crate::LEASE_US`]) ensures it
//! for a node that was suspended.

use ledger::{LogIndex, ParticipantIndex};
use ports::Log;

use crate::Replica;
use crate::membership::{Membership, SESSION_US};

/// The lanes of one node.
#[derive(Clone, Debug, Default)]
pub struct LaneAssignment {
    served: Vec<bool>,
    /// The last membership change that not every node has acknowledged.
    unacknowledged: Option<LogIndex>,
}

/// Lanes that a node has gained and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneTransfers {
    /// Lanes that this node serves from now on.
    pub gained: Vec<ParticipantIndex>,
    /// Lanes that this node no longer serves.
    pub lost: Vec<ParticipantIndex>,
}

impl LaneAssignment {
    /// Whether this node serves the lane.
    #[must_use]
    pub fn serves(&self, lane: ParticipantIndex) -> bool {
        self.served.get(lane.at()).copied().unwrap_or(false)
    }

    /// The number of lanes examined so far.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.served.len()
    }

    /// The record at `log_index` has changed the membership.
    pub fn note_change(&mut self, log_index: LogIndex) {
        self.unacknowledged = Some(log_index);
    }

    /// Whether a membership change is not yet acknowledged by every node.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.unacknowledged.is_some()
    }

    /// Updates the assignment after a membership change, a claim or a new participant. `count` is
    /// the number of lanes.
    pub fn update<L: Log>(&mut self, replica: &Replica<L>, count: usize) -> LaneTransfers {
        let me = replica.name().node;
        let claimed = |node| replica.claimed(node);
        self.update_among(me, replica.members(), (count, replica.former_us()), claimed)
    }

    fn update_among(
        &mut self,
        me: u32,
        members: &Membership,
        (count, former_us): (usize, Option<u64>),
        claimed: impl Fn(u32) -> Option<LogIndex>,
    ) -> LaneTransfers {
        self.served.resize(self.served.len().max(count), false);
        if let Some(log_index) = self.unacknowledged {
            let others = members.iter().filter(|(node, _)| *node != me);
            let mut claims = others.map(|(node, _)| claimed(node));
            let all_acknowledged = claims.all(|claimed| claimed.is_some_and(|at| log_index <= at));
            let former_is_gone = former_us.is_none_or(|at| at + SESSION_US < members.now_us());
            if all_acknowledged && former_is_gone {
                self.unacknowledged = None;
            }
        }
        let mut transfers = LaneTransfers::default();
        for (at, served) in self.served.iter_mut().enumerate() {
            let lane = ParticipantIndex(at as u32);
            let is_mine = members.owner(lane.0) == Some(me);
            if *served && !is_mine {
                *served = false;
                transfers.lost.push(lane);
            } else if is_mine && !*served && self.unacknowledged.is_none() {
                *served = true;
                transfers.gained.push(lane);
            }
        }
        transfers
    }
}

#[cfg(test)]
mod tests {
    use ledger::Stamp;

    use super::*;
    use crate::Writer;

    fn members(nodes: &[u32]) -> Membership {
        let mut members = Membership::default();
        for node in nodes {
            members.see(Writer { node: *node, epoch: 1 }, 1, Stamp(1));
        }
        members
    }

    #[test]
    fn a_lane_is_lost_at_once_and_gained_when_all_have_acknowledged() {
        let (one, both) = (members(&[1]), members(&[1, 2]));
        let mut first = LaneAssignment::default();
        first.note_change(LogIndex(1));
        assert_eq!(
            first.update_among(1, &one, (20, None), |_| None).gained.len(),
            20,
            "it is the only node"
        );

        let mut second = LaneAssignment::default();
        second.note_change(LogIndex(5));
        first.note_change(LogIndex(5));
        assert_eq!(
            second.update_among(2, &both, (20, None), |_| Some(LogIndex(4))),
            LaneTransfers::default()
        );
        let lost = first.update_among(1, &both, (20, None), |_| None).lost;
        assert!(!lost.is_empty() && lost.len() < 20, "{lost:?}");
        assert_eq!(second.update_among(2, &both, (20, None), |_| Some(LogIndex(5))).gained, lost);
    }

    #[test]
    fn lanes_are_gained_after_the_session_of_the_previous_epoch() {
        let mut members = members(&[1]);
        let later = Writer { node: 1, epoch: 2 };
        members.see(later, 1, Stamp(500_000));
        let mut lanes = LaneAssignment::default();
        lanes.note_change(LogIndex(2));
        assert_eq!(
            lanes.update_among(1, &members, (3, Some(1)), |_| None),
            LaneTransfers::default()
        );
        for tenth in 6..=37 {
            members.see(later, 1, Stamp(tenth * 100_000));
        }
        assert_eq!(lanes.update_among(1, &members, (3, Some(1)), |_| None).gained.len(), 3);
    }
}
