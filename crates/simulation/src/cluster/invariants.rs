//! Invariants of a group of nodes, which hold under every fault.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{Digest, LogIndex, Notice, NoticeId, NoticeKind, Outcome, TransferId};
use model::Model;
use ports::Log;
use sequencer::{LEASE_US, Replay};

use crate::balance::check_balance;
use crate::transfers::Request;
use crate::workload::settlement::SettlementCounts;

/// An epoch of a node.
pub(crate) type NodeRun = (usize, u32);

/// Observations of all nodes so far.
#[derive(Default)]
pub(crate) struct Invariants {
    /// The chain at the end of each batch, from the node that applied it first.
    chains: BTreeMap<LogIndex, Digest>,
    /// The node that took each lane last, and how often it was taken.
    owners: BTreeMap<u32, NodeRun>,
    takes: BTreeMap<u32, u64>,
    /// When a node first owed a notice with the end of a transfer.
    ends: BTreeMap<TransferId, u64>,
    /// The epochs that have attempted a notice.
    attempted: BTreeSet<(NoticeId, NodeRun)>,
    /// The sender of the last received copy of a notice.
    receipts: BTreeMap<NoticeId, NodeRun>,
    /// Notices received again from another epoch, by lane.
    repeats: BTreeMap<u32, u64>,
    /// The end of a transfer that each FSP was notified of.
    notified: BTreeMap<(u32, TransferId), bool>,
    /// The outcomes that senders got.
    answers: Vec<(Request, Outcome)>,
}

impl Invariants {
    /// A node has applied the log up to here: every node gets the same chain.
    pub(crate) fn applied(&mut self, node: usize, log_index: LogIndex, chain: Digest) {
        let known = *self.chains.entry(log_index).or_insert(chain);
        assert_eq!(known, chain, "node {node} has another log at record {}", log_index.0);
    }

    pub(crate) fn answered(&mut self, request: Request, outcome: Outcome) {
        self.answers.push((request, outcome));
    }

    pub(crate) fn taken(&mut self, lane: u32, by: NodeRun) {
        self.owners.insert(lane, by);
        *self.takes.entry(lane).or_default() += 1;
    }

    /// A node is to send a notice.
    pub(crate) fn is_owed(&mut self, notice: &Notice, now: u64) {
        if end_of(notice.kind).is_some() || notice.outcome == Outcome::Expired {
            notice.transfer.map(|transfer| *self.ends.entry(transfer).or_insert(now));
        }
    }

    /// An attempt begins.
    pub(crate) fn attempt(&mut self, notice: &Notice, by: NodeRun, now: u64) {
        let lane = notice.recipient.0;
        assert_eq!(self.owners.get(&lane), Some(&by), "lane {lane} is another's: {notice:?}");
        // A failed attempt is retried, and may follow the notice of the end.
        if self.attempted.insert((notice.id, by)) && notice.kind == NoticeKind::Prepare {
            let end = notice.transfer.and_then(|transfer| self.ends.get(&transfer));
            let is_late = end.is_some_and(|end| end + LEASE_US < now);
            assert!(!is_late, "{by:?} sends a prepare long after the end: {notice:?}");
        }
    }

    /// An FSP received a notice.
    pub(crate) fn received(&mut self, notice: &Notice, from: NodeRun) {
        let lane = notice.recipient.0;
        if let Some(before) = self.receipts.insert(notice.id, from)
            && before != from
        {
            *self.repeats.entry(lane).or_default() += 1;
        }
        let (Some(end), Some(transfer)) = (end_of(notice.kind), notice.transfer) else { return };
        let notified = *self.notified.entry((lane, transfer)).or_insert(end);
        assert_eq!(notified, end, "an FSP was notified of two ends: {notice:?}");
    }

    /// The sender learned that an attempt failed. The notice is still owed, received or not, so a
    /// retry does not count as a repeat.
    pub(crate) fn failed(&mut self, notice: &Notice) {
        self.receipts.remove(&notice.id);
    }

    /// Notices received again from another epoch.
    pub(crate) fn repeats(&self) -> u64 {
        self.repeats.values().sum()
    }

    pub(crate) fn takes(&self) -> u64 {
        self.takes.values().sum()
    }

    /// At rest: each lane repeated at most its window whenever it was taken.
    pub(crate) fn check_repeats(&self, window: u32) {
        for (lane, repeats) in &self.repeats {
            let takes = self.takes.get(lane).copied().unwrap_or(0);
            assert!(
                *repeats <= takes * u64::from(window),
                "{repeats} notices of lane {lane} were repeated, which was taken {takes} times"
            );
        }
    }

    /// Replays the log alone: the model predicts every outcome, and every outcome that was answered
    /// is in the log. Returns the hash of its state, and what
    /// it has settled.
    pub(crate) fn check_log(&self, log: &mut impl Log) -> (Digest, SettlementCounts) {
        let (mut replay, mut model) = (Replay::new(), Model::default());
        let mut decided = BTreeSet::new();
        let replayed = log.replay(LogIndex(1), &mut |frame| {
            replay.apply(frame, &mut |_, _, _| {}).expect("a log replays");
            model.begin(frame.header().batch.stamp);
            replay.observe(frame, &mut |applied| {
                let predicted = model.decide(applied.command);
                let (outcome, command) = (applied.outcome, applied.command);
                assert_eq!(outcome, predicted, "the model disagrees on {command:?}");
                if let record::frame::Payload::Stored(payload) = applied.record.payload {
                    decided.insert((payload[..8].to_vec(), outcome.number()));
                }
            });
            model.compare(replay.state(), replay.effects());
            check_balance(replay.state());
            Ok(())
        });
        replayed.expect("a log in memory is read");
        for (request, outcome) in &self.answers {
            let key = (request.payload()[..8].to_vec(), outcome.number());
            assert!(decided.contains(&key), "{request:?} was answered {outcome:?}, and is gone");
        }
        (replay.state().hash(), SettlementCounts::of(replay.state(), &model))
    }
}

/// True if a notice reports a commit, false if it reports an abort.
fn end_of(kind: NoticeKind) -> Option<bool> {
    use NoticeKind::*;
    match kind {
        Fulfil | FulfilCopy | Committed | PatchCommitted => Some(true),
        Abort | AbortCopy | AbortedState | PatchAborted => Some(false),
        Prepare | Reserved | Error | PartiesChanged | BulkPrepare | BulkResult | BulkError => None,
    }
}
