//! Which lanes this node serves. A lane that it has lost is left at once; one that it has gained
//! is taken only when everybody else who is there has said that he knows of the change, and a
//! former life of this node, which cannot say so, has had its time. So no two nodes that run serve
//! one lane; that a node which stood still does not either is the lease's work
//! ([`crate::LEASE_US`]).

use ledger::{LogIndex, ParticipantIndex};
use ports::Log;

use crate::Replica;
use crate::membership::{Membership, SESSION_US};

/// The lanes of one node.
#[derive(Clone, Debug, Default)]
pub struct LaneAssignment {
    served: Vec<bool>,
    /// The last change that not everybody is known to have heard of.
    unheard: Option<LogIndex>,
}

/// Lanes that a node has gained and lost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaneTransfers {
    /// To be served from now on.
    pub taken: Vec<ParticipantIndex>,
    /// Not any more.
    pub left: Vec<ParticipantIndex>,
}

impl LaneAssignment {
    /// Whether this node serves the lane.
    #[must_use]
    pub fn serves(&self, lane: ParticipantIndex) -> bool {
        self.served.get(lane.at()).copied().unwrap_or(false)
    }

    /// How many lanes were looked at.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.served.len()
    }

    /// Who is there has changed with the record at `position`.
    pub fn note_change(&mut self, log_index: LogIndex) {
        self.unheard = Some(log_index);
    }

    /// Whether a change is not known to everybody.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.unheard.is_some()
    }

    /// Looks again: after a change, a claim, or a new participant. `count`: how many lanes there
    /// are.
    pub fn look<L: Log>(&mut self, replica: &Replica<L>, count: usize) -> LaneTransfers {
        let me = replica.name().node;
        let claimed = |node| replica.claimed(node);
        self.look_among(me, replica.members(), (count, replica.former_us()), claimed)
    }

    fn look_among(
        &mut self,
        me: u32,
        members: &Membership,
        (count, former_us): (usize, Option<u64>),
        claimed: impl Fn(u32) -> Option<LogIndex>,
    ) -> LaneTransfers {
        self.served.resize(self.served.len().max(count), false);
        if let Some(log_index) = self.unheard {
            let others = members.iter().filter(|(node, _)| *node != me);
            let mut heard = others.map(|(node, _)| claimed(node));
            let all_heard = heard.all(|claimed| claimed.is_some_and(|at| log_index <= at));
            let former_is_gone = former_us.is_none_or(|at| at + SESSION_US < members.now_us());
            if all_heard && former_is_gone {
                self.unheard = None;
            }
        }
        let mut moves = LaneTransfers::default();
        for (at, served) in self.served.iter_mut().enumerate() {
            let lane = ParticipantIndex(at as u32);
            let is_mine = members.owner(lane.0) == Some(me);
            if *served && !is_mine {
                *served = false;
                moves.left.push(lane);
            } else if is_mine && !*served && self.unheard.is_none() {
                *served = true;
                moves.taken.push(lane);
            }
        }
        moves
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
    fn a_lane_is_left_at_once_and_taken_when_all_have_heard() {
        let (one, both) = (members(&[1]), members(&[1, 2]));
        let mut first = LaneAssignment::default();
        first.note_change(LogIndex(1));
        assert_eq!(
            first.look_among(1, &one, (20, None), |_| None).taken.len(),
            20,
            "there is nobody else"
        );

        let mut second = LaneAssignment::default();
        second.note_change(LogIndex(5));
        first.note_change(LogIndex(5));
        assert_eq!(
            second.look_among(2, &both, (20, None), |_| Some(LogIndex(4))),
            LaneTransfers::default()
        );
        let left = first.look_among(1, &both, (20, None), |_| None).left;
        assert!(!left.is_empty() && left.len() < 20, "{left:?}");
        assert_eq!(second.look_among(2, &both, (20, None), |_| Some(LogIndex(5))).taken, left);
    }

    #[test]
    fn a_former_life_has_its_time() {
        let mut members = members(&[1]);
        let later = Writer { node: 1, epoch: 2 };
        members.see(later, 1, Stamp(500_000));
        let mut lanes = LaneAssignment::default();
        lanes.note_change(LogIndex(2));
        assert_eq!(lanes.look_among(1, &members, (3, Some(1)), |_| None), LaneTransfers::default());
        for tenth in 6..=37 {
            members.see(later, 1, Stamp(tenth * 100_000));
        }
        assert_eq!(lanes.look_among(1, &members, (3, Some(1)), |_| None).taken.len(), 3);
    }
}
