//! Membership of a shared log, derived from its frames, and the owner of each lane.
//!
//! Every frame is a heartbeat of the node that proposed it. Silence is measured in the log's own
//! time, in which a pause of the whole log counts for at most [`LOG_PAUSE_US_MAX`]: time in which
//! no node could write does not count as silence. Membership is a function of the frames alone, and
//! the last few seconds of them are enough to compute it ([`Membership::recall`]). Number 0 belongs
//! to a standalone node whose log was later moved to a topic; it is never a member.
//!
//! A node that stops in order writes a last bundle with the highest sequence number
//! ([`LEAVE_SEQUENCE`]). It leaves with that bundle, and nothing of its epoch can follow.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ledger::{LogIndex, Stamp};
use ports::{Log, LogError};

use crate::Writer;

/// Time without a frame after which a node is gone, in microseconds of membership time.
pub const SESSION_US: u64 = 3_000_000;
/// Maximum interval between two frames of a live node, in microseconds.
pub const HEARTBEAT_US: u64 = 1_000_000;
/// Maximum membership time that a pause between two frames counts for, in microseconds.
pub const LOG_PAUSE_US_MAX: u64 = 1_000_000;
/// How long a node may begin attempts after it proposed its newest applied bundle, in microseconds
/// of its own clock. The lease ends before the session does, even if the brokers' time has
/// jumped by [`LOG_PAUSE_US_MAX`].
pub const LEASE_US: u64 = SESSION_US - LOG_PAUSE_US_MAX;

/// The sequence number of the last bundle of an epoch that ends in order.
pub const LEAVE_SEQUENCE: u64 = u64::MAX;

const _: () = assert!(HEARTBEAT_US < LEASE_US, "a node that writes in time keeps its lease");

/// A live node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiveNode {
    /// Its epoch.
    pub epoch: u32,
    /// When it last wrote, in membership time.
    pub seen_us: u64,
    /// Its previous epoch, if that did not end in order, and when that last wrote.
    pub replaced: Option<(u32, u64)>,
}

/// The live nodes after a frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    now_us: u64,
    stamp: Stamp,
    nodes: BTreeMap<u32, LiveNode>,
}

impl Membership {
    /// Applies the next frame of the log. Returns whether the set of live nodes or epochs changed.
    pub fn see(&mut self, writer: Writer, sequence: u64, stamp: Stamp) -> bool {
        let Writer { node, epoch } = writer;
        self.now_us += stamp.0.saturating_sub(self.stamp.0).min(LOG_PAUSE_US_MAX);
        self.stamp = stamp;
        let (now_us, before) = (self.now_us, self.nodes.len());
        self.nodes
            .retain(|number, member| *number == node || now_us - member.seen_us <= SESSION_US);
        let mut has_changed = self.nodes.len() != before;
        if node == 0 {
            return has_changed;
        }
        if sequence == LEAVE_SEQUENCE {
            return self.nodes.remove(&node).is_some() || has_changed;
        }
        match self.nodes.entry(node) {
            Entry::Vacant(entry) => {
                entry.insert(LiveNode { epoch, seen_us: now_us, replaced: None });
                has_changed = true;
            }
            Entry::Occupied(mut entry) => {
                let member = entry.get_mut();
                if member.epoch < epoch {
                    member.replaced = Some((member.epoch, member.seen_us));
                    member.epoch = epoch;
                    has_changed = true;
                }
                member.seen_us = now_us;
            }
        }
        has_changed
    }

    /// The members at the end of a log, from its last frames.
    ///
    /// # Errors
    /// [`LogError`] when they cannot be read.
    pub fn recall(log: &mut impl Log) -> Result<Self, LogError> {
        let tail = log.tail();
        let reader = log.reader();
        let mut back = 1_024;
        loop {
            let from = LogIndex(tail.end.0.saturating_sub(back).max(1));
            let old = reader.read(from)?.map_or(tail.stamp, |record| record.stamp);
            let is_enough = old.0 + 2 * SESSION_US < tail.stamp.0;
            if from.0 == 1 || is_enough {
                let mut members = Self::default();
                log.replay(from, &mut |frame| {
                    let batch = frame.header().batch;
                    // The node that created the log was not live at that time.
                    if LogIndex(1) < frame.header().first {
                        let writer = Writer { node: batch.node, epoch: batch.epoch };
                        members.see(writer, batch.sequence, batch.stamp);
                    }
                    Ok(())
                })?;
                // The first frame counts as one pause.
                if from.0 == 1 || SESSION_US + LOG_PAUSE_US_MAX < members.now_us {
                    return Ok(members);
                }
            }
            back *= 4;
        }
    }

    /// Membership time in microseconds.
    #[must_use]
    pub const fn now_us(&self) -> u64 {
        self.now_us
    }

    /// A live node.
    #[must_use]
    pub fn get(&self, node: u32) -> Option<&LiveNode> {
        self.nodes.get(&node)
    }

    /// All live nodes, in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &LiveNode)> {
        self.nodes.iter().map(|(node, member)| (*node, member))
    }

    /// Whether no other node than `node` is live.
    #[must_use]
    pub fn is_alone(&self, node: u32) -> bool {
        self.nodes.keys().all(|other| *other == node)
    }

    /// The number of live nodes with a lower number than `node`.
    #[must_use]
    pub fn rank(&self, node: u32) -> u64 {
        self.nodes.range(..node).count() as u64
    }

    /// The node that serves the lane with this number; `None` when no node is live.
    #[must_use]
    pub fn owner(&self, lane: u32) -> Option<u32> {
        owner(lane, self.nodes.keys().copied())
    }
}

/// The node with the highest hash for a lane (rendezvous hashing): when a node leaves, only its own
/// lanes move.
pub fn owner(lane: u32, nodes: impl Iterator<Item = u32>) -> Option<u32> {
    nodes.max_by_key(|node| (mix(u64::from(*node) << 32 | u64::from(lane)), *node))
}

/// Spreads every bit over all others (the finaliser of MurmurHash3).
pub(crate) const fn mix(mut word: u64) -> u64 {
    word = (word ^ word >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ word >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ word >> 33
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The live nodes after frames (tenths of a second, node, epoch).
    fn after(frames: &[(u64, u32, u32)]) -> (Membership, Vec<u32>) {
        let mut members = Membership::default();
        for (tenths, node, epoch) in frames {
            let writer = Writer { node: *node, epoch: *epoch };
            members.see(writer, 1, Stamp(tenths * 100_000));
        }
        let live = members.iter().map(|(node, _)| node).collect();
        (members, live)
    }

    #[test]
    fn a_node_is_live_until_its_session_expires() {
        let mut frames = vec![(0, 1, 1), (0, 2, 1)];
        frames.extend((1..=30).map(|tenth| (tenth, 1, 1)));
        assert_eq!(after(&frames).1, [1, 2]);
        frames.push((31, 1, 1));
        assert_eq!(after(&frames).1, [1]);
    }

    #[test]
    fn a_pause_of_the_whole_log_counts_as_a_second() {
        let frames = [(0, 1, 1), (0, 2, 1), (900, 1, 1), (1_800, 1, 1), (2_700, 1, 1)];
        assert_eq!(after(&frames).1, [1, 2]);
        let mut frames = frames.to_vec();
        frames.push((2_701, 1, 1));
        assert_eq!(after(&frames).1, [1]);
    }

    #[test]
    fn a_node_that_leaves_in_order_is_gone_at_once() {
        let (mut members, _) = after(&[(0, 1, 1), (0, 2, 1)]);
        let two = Writer { node: 2, epoch: 1 };
        assert!(members.see(two, LEAVE_SEQUENCE, Stamp(100_000)));
        assert!(members.get(2).is_none() && members.is_alone(1));
        // A later epoch starts without a previous one.
        assert!(members.see(Writer { epoch: 2, ..two }, 1, Stamp(200_000)));
        assert_eq!(members.get(2).expect("it is there").replaced, None);
        assert!(!members.see(Writer { node: 9, epoch: 1 }, LEAVE_SEQUENCE, Stamp(200_000)));
    }

    #[test]
    fn a_new_epoch_names_the_previous_one() {
        let (members, _) = after(&[(0, 1, 1), (5, 1, 1), (9, 1, 2)]);
        let member = members.get(1).expect("it is there");
        assert_eq!((member.epoch, member.replaced), (2, Some((1, 500_000))));
    }

    #[test]
    fn when_a_node_goes_only_its_own_lanes_move() {
        let nodes = [11, 22, 33];
        let mut count = [0; 3];
        for lane in 0..3_000 {
            let before = owner(lane, nodes.into_iter()).expect("there is one");
            count[nodes.iter().position(|node| *node == before).expect("it is one of them")] += 1;
            let after = owner(lane, nodes.into_iter().filter(|node| *node != 22));
            assert!(before == 22 || after == Some(before), "lane {lane}");
        }
        assert!(count.iter().all(|count| (800..1_200).contains(count)), "{count:?}");
    }
}
