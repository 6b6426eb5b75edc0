//! Ordered erasures ([`Erase`]) and the closed segments that do not comply with them yet.
//!
//! The caller reads the orders from the state and the log, names the records whose contents are
//! still needed, and keeps backups and the archiver away while a segment is rewritten.
//!
//! # Phases, for each pass
//! 1. [`OrderedErasures::due`]: the closed segments with contents to erase.
//! 2. [`OrderedErasures::erase`] for each of them, unless its contents wait
//!    ([`OrderedErasures::waits`]). The progress is durable before the next segment.
//! 3. [`OrderedErasures::remaining`]: the rest of each order.
//!
//! A crash at any point leaves complete segments, and the next pass continues.
//!
//! # Costs and bounds
//! Memory: the ranges of all orders, and the records that made contents wait.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    Erase, FspName, LogIndex, Notice, NoticeKind, Proposal, ProposalState, State, TransferId,
};
use ports::Disk;
use record::command::is_from_participant;
use record::frame::Record;

use crate::archive::{ArchiveError, PendingSegment, ProgressObserver};
use crate::erasure::{ErasedSegment, ErasureProgress, erase_segment};
use crate::tiered::{SegmentInfo, Tier, TieredDisk};

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureOrder {
    /// The record that ordered it.
    pub record: LogIndex,
    /// The records whose contents it erases.
    pub erase: Erase,
}

impl ErasureOrder {
    /// Whether it erases the contents of a record. The fields of a record are read if the order is
    /// of a participant's contents.
    fn erases(&self, record: &Record<'_>) -> bool {
        let fields = (record.kind, record.version, record.fields);
        let is_from = |name: &FspName| is_from_participant(fields, name);
        self.erase.erases(record.log_index, record.kind, is_from)
    }

    fn touches(&self, first: LogIndex, last: LogIndex) -> bool {
        let records = &self.erase.records;
        let at = records.partition_point(|range| range.last < first);
        records.get(at).is_some_and(|range| range.first <= last)
    }
}

/// The part of an order that is not carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemainingErasure {
    /// Segments that do not comply.
    pub segments: u64,
    /// Those of them that are in an archive.
    pub archived: u64,
    /// Contents that are still needed.
    pub waiting: u64,
}

/// The accepted orders, oldest first, and what the last attempts left.
#[derive(Debug, Default)]
pub struct OrderedErasures {
    orders: Vec<ErasureOrder>,
    /// By segment, the last attempt that left contents.
    waiting: BTreeMap<LogIndex, Waiting>,
}

/// An attempt that left contents which are still needed.
#[derive(Debug, PartialEq, Eq)]
struct Attempt {
    /// The newest order at that time.
    newest: LogIndex,
    /// The records that were needed.
    held: BTreeSet<LogIndex>,
}

/// The last attempt on a segment that left contents.
#[derive(Debug)]
struct Waiting {
    attempt: Attempt,
    /// By order, the number of its contents that are left.
    left: BTreeMap<LogIndex, u64>,
}

impl OrderedErasures {
    /// Adds an order that is newer than the known ones.
    pub fn push(&mut self, order: ErasureOrder) {
        assert!(self.newest() < Some(order.record), "orders are added in order of the log");
        self.orders.push(order);
    }

    /// The orders, oldest first.
    #[must_use]
    pub fn orders(&self) -> &[ErasureOrder] {
        &self.orders
    }

    /// The record of the newest order.
    #[must_use]
    pub fn newest(&self) -> Option<LogIndex> {
        self.orders.last().map(|order| order.record)
    }

    /// The closed segments with contents that an order erases.
    #[must_use]
    pub fn due(&self, segments: &[SegmentInfo], progress: &ErasureProgress) -> Vec<PendingSegment> {
        let closed = segments.iter().zip(segments.iter().skip(1));
        let due = closed.filter(|(segment, next)| {
            let through = progress.through(segment);
            let is_due = |order: &ErasureOrder| {
                through < order.record && order.touches(segment.first, next.base.end)
            };
            self.orders.iter().any(is_due)
        });
        due.map(|(it, next)| PendingSegment { segment: it.clone(), after: next.base }).collect()
    }

    /// Whether some order touches the segment that is being written.
    #[must_use]
    pub fn touch_open(&self, open: &SegmentInfo) -> bool {
        self.orders.iter().any(|order| order.touches(open.first, LogIndex(u64::MAX)))
    }

    /// Whether the last attempt left the contents that would be left now.
    #[must_use]
    pub fn waits(&self, due: &PendingSegment, needed: &BTreeSet<LogIndex>) -> bool {
        let last = self.waiting.get(&due.segment.first);
        last.is_some_and(|waiting| waiting.attempt == self.attempt(due, needed))
    }

    /// Erases the ordered contents of a segment, except of the needed records, and stores the
    /// progress. `moved` is called whenever readers must reopen the segment.
    ///
    /// # Errors
    /// Any [`ArchiveError`]; the segment is then readable, old or new.
    ///
    /// # Panics
    /// Without an order.
    pub fn erase<D: Disk>(
        &mut self,
        log: &TieredDisk<D>,
        (due, needed): (&PendingSegment, &BTreeSet<LogIndex>),
        progress: &mut ErasureProgress,
        (moved, watch): (&dyn Fn(LogIndex), &mut ProgressObserver<'_>),
    ) -> Result<ErasedSegment, ArchiveError> {
        let attempt = self.attempt(due, needed);
        let orders = &self.orders;
        let mut left = BTreeMap::new();
        let mut select = |record: &Record<'_>| {
            let mut erasing = orders.iter().filter(|order| order.erases(record)).peekable();
            if erasing.peek().is_none() {
                return false;
            }
            let is_held = attempt.held.contains(&record.log_index);
            if is_held {
                erasing.for_each(|order| *left.entry(order.record).or_default() += 1);
            }
            !is_held
        };
        let erased = erase_segment(log, due, (&mut select, moved), watch)?;
        progress.note(&erased, through(orders, left.keys().next()));
        progress.store(log.below())?;
        match left.is_empty() {
            true => self.waiting.remove(&erased.first),
            false => self.waiting.insert(erased.first, Waiting { attempt, left }),
        };
        Ok(erased)
    }

    /// The part of each order that is not carried out.
    #[must_use]
    pub fn remaining(
        &self,
        segments: &[SegmentInfo],
        progress: &ErasureProgress,
    ) -> BTreeMap<LogIndex, RemainingErasure> {
        let remaining = self.orders.iter().map(|order| {
            let mut remaining = RemainingErasure::default();
            let left = with_ends(segments).filter(|(segment, last)| {
                order.touches(segment.first, *last) && progress.through(segment) < order.record
            });
            for (segment, _) in left {
                let waiting = self.waiting.get(&segment.first);
                let waiting = waiting.and_then(|waiting| waiting.left.get(&order.record));
                remaining.segments += 1;
                remaining.archived += u64::from(matches!(segment.tier, Tier::Archived(_)));
                remaining.waiting += waiting.copied().unwrap_or_default();
            }
            (order.record, remaining)
        });
        remaining.collect()
    }

    fn attempt(&self, due: &PendingSegment, needed: &BTreeSet<LogIndex>) -> Attempt {
        let newest = self.newest().expect("a segment is due because of an order");
        let held = needed.range(due.segment.first..=due.after.end).copied().collect();
        Attempt { newest, held }
    }
}

/// The order through which a segment complies, given the first one with contents that are left.
/// The segment complies with the orders before that one, as it may have done before.
fn through(orders: &[ErasureOrder], first_left: Option<&LogIndex>) -> LogIndex {
    let complying = match first_left {
        None => orders.len(),
        Some(first) => orders.partition_point(|order| order.record < *first),
    };
    complying.checked_sub(1).map_or(LogIndex(0), |last| orders[last].record)
}

/// Records whose contents notices, dead letters, payments in flight, open bulk transfers and open
/// proposals need. Those of results whose bulk transfer was evicted are missing: see
/// [`evicted_results`].
#[must_use]
pub fn needed_records(state: &State) -> BTreeSet<LogIndex> {
    let sources = unfinished_notices(state).map(|notice| notice.source);
    let in_flight = state.in_flight().map(|transfer| transfer.prepare);
    let answers = state.open_bulks().filter_map(|bulk| bulk.response);
    let answers = answers.map(|response| response.log_index);
    let results = results(state).flat_map(|bulk| records_of_bulk(state, &bulk));
    // Other proposals have no contents.
    let is_open = |it: &&Proposal| {
        it.state(state.stamp()) == ProposalState::Open && !it.change.named_parties().is_empty()
    };
    let open = state.proposals().iter().filter(is_open).map(|proposal| proposal.record);
    sources.chain(in_flight).chain(answers).chain(results).chain(open).collect()
}

/// The bulk transfers of results that are owed or dead letters, without a row in memory. After
/// their rows were restored, [`records_of_bulk`] has the records.
#[must_use]
pub fn evicted_results(state: &State) -> BTreeSet<TransferId> {
    results(state).filter(|bulk| state.bulk_view(bulk).is_none()).collect()
}

/// The messages from which the result of a bulk transfer is made; empty if its row is not in
/// memory.
pub fn records_of_bulk(state: &State, bulk: &TransferId) -> impl Iterator<Item = LogIndex> + use<> {
    let view = state.bulk_view(bulk);
    view.into_iter().flat_map(|view| [Some(view.prepare), view.response]).flatten()
}

fn results(state: &State) -> impl Iterator<Item = TransferId> {
    let results = unfinished_notices(state).filter(|it| it.kind == NoticeKind::BulkResult);
    results.filter_map(|notice| notice.transfer)
}

fn unfinished_notices(state: &State) -> impl Iterator<Item = &Notice> {
    state.notices_owed().chain(state.dead_letters().map(|letter| &letter.notice))
}

/// Segments with their last records; the last one is open.
pub fn with_ends(segments: &[SegmentInfo]) -> impl Iterator<Item = (&SegmentInfo, LogIndex)> {
    let ends = segments.iter().skip(1).map(|next| next.base.end);
    segments.iter().zip(ends.chain([LogIndex(u64::MAX)]))
}
