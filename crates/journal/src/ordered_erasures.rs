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

use ledger::{Erase, LogIndex, State};
use ports::Disk;
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
    waiting: BTreeMap<LogIndex, Attempt>,
}

/// An attempt that left contents which are still needed.
#[derive(Debug, PartialEq, Eq)]
struct Attempt {
    /// The newest order at that time.
    newest: LogIndex,
    /// The records that were needed.
    held: BTreeSet<LogIndex>,
}

impl OrderedErasures {
    /// Adds an order that is newer than the known ones.
    pub fn push(&mut self, order: ErasureOrder) {
        assert!(self.newest() < Some(order.record), "orders are added in order of the log");
        self.orders.push(order);
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
        self.waiting.get(&due.segment.first) == Some(&self.attempt(due, needed))
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
        let (orders, mut waits) = (&self.orders, false);
        let mut select = |record: &Record<'_>| {
            let is_ordered =
                orders.iter().any(|order| order.erase.erases(record.log_index, record.kind));
            let is_held = attempt.held.contains(&record.log_index);
            waits |= is_ordered && is_held;
            is_ordered && !is_held
        };
        let erased = erase_segment(log, due, (&mut select, moved), watch)?;
        let through = if waits { LogIndex(0) } else { attempt.newest };
        progress.note(&erased, through);
        progress.store(log.below())?;
        match waits {
            true => self.waiting.insert(erased.first, attempt),
            false => self.waiting.remove(&erased.first),
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
                let held = self.waiting.get(&segment.first);
                let held = held.into_iter().flat_map(|attempt| &attempt.held);
                remaining.segments += 1;
                remaining.archived += u64::from(matches!(segment.tier, Tier::Archived(_)));
                remaining.waiting +=
                    held.filter(|record| order.erase.covers(**record)).count() as u64;
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

/// Records whose contents notices, dead letters and payments in flight need.
#[must_use]
pub fn needed_records(state: &State) -> BTreeSet<LogIndex> {
    let owed = state.notices_owed().map(|notice| notice.source);
    let dead = state.dead_letters().map(|letter| letter.notice.source);
    let in_flight = state.in_flight().map(|transfer| transfer.prepare);
    owed.chain(dead).chain(in_flight).collect()
}

/// Segments with their last records; the last one is open.
pub fn with_ends(segments: &[SegmentInfo]) -> impl Iterator<Item = (&SegmentInfo, LogIndex)> {
    let ends = segments.iter().skip(1).map(|next| next.base.end);
    segments.iter().zip(ends.chain([LogIndex(u64::MAX)]))
}
