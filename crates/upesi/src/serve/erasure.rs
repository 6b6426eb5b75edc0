//! Carries out ordered erasures ([`ledger::Erase`]): a background job that rewrites the closed
//! segments of the log ([`journal::erase_segment`]).
//!
//! The state has the orders, and each order is a record. So a restored log is erased again, and an
//! old segment that was put back is recognised by its length. A segment that is being written is
//! closed first, with the next record. Contents that a payment in flight, a notice or a dead letter
//! still needs stay until it has ended.
//!
//! # Costs and bounds
//! An idle job asks the state for newer orders every few seconds. An order is one pass over each
//! affected segment. Memory: the ranges of all orders, and the records that are still needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::{
    ArchiveError, ErasureProgress, PendingSegment, RealDisk, SegmentInfo, Tier, TieredDisk,
};
use ledger::{Administer, Change, Command, Erase, LogIndex, RecordRange, State};
use node::Handle;
use operations::{ErasurePlan, ErasureReport};
use ports::{DiskError, OwnedRecord, RecordReader};
use record::frame::Record;
use switch::ForwardedMessage;

use crate::data::backup::copy_alone;
use crate::serve::segments::{JobFailure, Segments, watch};

/// Interval of the checks for orders.
pub(crate) const ERASURE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for an answer of the sequencer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The progress of erasures, for the admin API.
pub(crate) struct ErasureStatus {
    log: TieredDisk<RealDisk>,
    /// By the record of each order that the job has seen.
    remaining: Mutex<BTreeMap<LogIndex, Remaining>>,
}

/// The part of an order that is not carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Remaining {
    segments: u64,
    waiting: u64,
}

impl ErasureStatus {
    pub(crate) fn new(log: TieredDisk<RealDisk>) -> Self {
        Self { log, remaining: Mutex::default() }
    }

    /// The segments that hold some records.
    pub(crate) fn plan(&self, records: Vec<RecordRange>) -> Result<ErasurePlan, String> {
        let segments = self.log.segments().map_err(|error| error.to_string())?;
        let mut plan = ErasurePlan::default();
        for (segment, last) in with_ends(&segments) {
            if records.iter().any(|range| range.first <= last && segment.first <= range.last) {
                plan.segments += 1;
                plan.archived += u64::from(matches!(segment.tier, Tier::Archived(_)));
                plan.bytes += segment.plain_bytes;
            }
        }
        Ok(ErasurePlan { records, ..plan })
    }

    /// Adds the progress to a report. An order that the job has not seen has everything left.
    pub(crate) fn add_to(&self, report: &mut ErasureReport) {
        let remaining = self.remaining.lock().unwrap_or_else(PoisonError::into_inner);
        let known = remaining.get(&LogIndex(report.record)).copied();
        let known = known.unwrap_or(Remaining { segments: 1, waiting: 0 });
        (report.segments_left, report.contents_waiting) = (known.segments, known.waiting);
    }
}

/// Segments with their last records; the last one is open.
fn with_ends(segments: &[SegmentInfo]) -> impl Iterator<Item = (&SegmentInfo, LogIndex)> {
    let ends = segments.iter().skip(1).map(|next| next.base.end);
    segments.iter().zip(ends.chain([LogIndex(u64::MAX)]))
}

/// An order.
struct Order {
    record: LogIndex,
    erase: Erase,
}

impl Order {
    fn touches(&self, first: LogIndex, last: LogIndex) -> bool {
        let records = &self.erase.records;
        let at = records.partition_point(|range| range.last < first);
        records.get(at).is_some_and(|range| range.first <= last)
    }
}

/// The job.
pub(crate) struct ErasureJob {
    segments: Segments,
    handle: Handle<ForwardedMessage>,
    status: Arc<ErasureStatus>,
    orders: Vec<Order>,
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

impl ErasureJob {
    pub(crate) fn new(
        segments: Segments,
        handle: Handle<ForwardedMessage>,
        status: Arc<ErasureStatus>,
    ) -> Self {
        Self { segments, handle, status, orders: Vec::new(), waiting: BTreeMap::new() }
    }

    /// Carries out what can be carried out now, and returns the newest order.
    pub(crate) fn run(&mut self, stopping: &AtomicBool) -> Result<Option<LogIndex>, JobFailure> {
        self.read_orders()?;
        let Some(newest) = self.orders.last().map(|order| order.record) else { return Ok(None) };
        let failed = |error: DiskError| JobFailure::Failed(error.to_string());
        let mut progress = ErasureProgress::load(self.segments.log.below()).map_err(failed)?;
        let segments = self.segments.log.segments().map_err(failed)?;
        let mut needed = None;
        for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
            let through = progress.through(segment);
            let is_due = |order: &Order| {
                through < order.record && order.touches(segment.first, next.base.end)
            };
            if !self.orders.iter().any(is_due) {
                continue;
            }
            if needed.is_none() {
                needed = Some(self.needed_records()?);
            }
            let range = segment.first..=next.base.end;
            let held: BTreeSet<_> =
                needed.iter().flat_map(|it| it.range(range.clone())).copied().collect();
            let attempt = Attempt { newest, held };
            if self.waiting.get(&segment.first) == Some(&attempt) {
                continue;
            }
            let due = PendingSegment { segment: segment.clone(), after: next.base };
            self.erase((&due, attempt), &mut progress, stopping)?;
        }
        self.close_open_segment(segments.last());
        self.publish(&segments, &progress);
        Ok(Some(newest))
    }

    /// Erases the ordered contents of a segment, except of records that are still needed.
    fn erase(
        &mut self,
        (due, attempt): (&PendingSegment, Attempt),
        progress: &mut ErasureProgress,
        stopping: &AtomicBool,
    ) -> Result<(), JobFailure> {
        let Segments { log, closer, moving, .. } = &self.segments;
        let mut waits = false;
        let orders = &self.orders;
        let mut select = |record: &Record<'_>| {
            let is_ordered =
                orders.iter().any(|order| order.erase.erases(record.log_index, record.kind));
            let is_held = attempt.held.contains(&record.log_index);
            waits |= is_ordered && is_held;
            is_ordered && !is_held
        };
        let alone = moving.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stopped = || stopping.load(Ordering::Relaxed);
        let no_backup = copy_alone(log.below(), is_stopped).map_err(ArchiveError::from)?;
        let moved = |first| closer(first);
        let erased = journal::erase_segment(log, due, (&mut select, &moved), &mut watch(stopping))?;
        let through = if waits { LogIndex(0) } else { attempt.newest };
        progress.note(&erased, through);
        progress.store(log.below()).map_err(ArchiveError::from)?;
        drop((alone, no_backup));
        match waits {
            true => self.waiting.insert(erased.first, attempt),
            false => self.waiting.remove(&erased.first),
        };
        tracing::info!(first = erased.first.0, contents = erased.erased, "contents were erased");
        Ok(())
    }

    /// Closes the segment that is being written if an order touches it.
    fn close_open_segment(&self, open: Option<&SegmentInfo>) {
        let Some(open) = open else { return };
        let end = LogIndex(u64::MAX);
        if self.orders.iter().any(|order| order.touches(open.first, end)) {
            (self.segments.rotator)();
        }
    }

    fn publish(&self, segments: &[SegmentInfo], progress: &ErasureProgress) {
        let remaining = self.orders.iter().map(|order| {
            let mut remaining = Remaining::default();
            for (segment, last) in with_ends(segments) {
                if order.touches(segment.first, last) && progress.through(segment) < order.record {
                    let held = self.waiting.get(&segment.first);
                    let held = held.into_iter().flat_map(|attempt| &attempt.held);
                    remaining.segments += 1;
                    remaining.waiting +=
                        held.filter(|record| order.erase.covers(**record)).count() as u64;
                }
            }
            (order.record, remaining)
        });
        let remaining = remaining.collect();
        *self.status.remaining.lock().unwrap_or_else(PoisonError::into_inner) = remaining;
    }

    /// Adds the orders that are newer than the known ones.
    fn read_orders(&mut self) -> Result<(), JobFailure> {
        let last = self.orders.last().map_or(LogIndex(0), |order| order.record);
        let newer = self.ask(move |state| {
            let newer = state.erasures().iter().rev().take_while(|it| last < it.record);
            let mut newer: Vec<_> = newer.map(|it| it.record).collect();
            newer.reverse();
            newer
        })?;
        let reader = self.handle.reader();
        for record in newer {
            match read_order(&*reader, record).map_err(JobFailure::Failed)? {
                Some((administer, _)) => {
                    let Change::Erase(erase) = administer.change.decided().clone() else {
                        continue;
                    };
                    self.orders.push(Order { record, erase });
                }
                // Not durable yet; the next run reads it.
                None => break,
            }
        }
        Ok(())
    }

    /// Records whose contents notices, dead letters and payments in flight need.
    fn needed_records(&self) -> Result<BTreeSet<LogIndex>, JobFailure> {
        self.ask(|state| {
            let owed = state.notices_owed().map(|notice| notice.source);
            let dead = state.dead_letters().map(|letter| letter.notice.source);
            let in_flight = state.in_flight().map(|transfer| transfer.prepare);
            owed.chain(dead).chain(in_flight).collect()
        })
    }

    /// The answer to a query of the state.
    fn ask<R: Send + 'static>(
        &self,
        query: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, JobFailure> {
        let (answer, answered) = sync_channel(1);
        // The job may have ended.
        let ask = move |state: &State| drop(answer.send(query(state)));
        self.handle.ask_local(ask).map_err(|_| JobFailure::Stopped)?;
        answered.recv_timeout(ANSWER_TIMEOUT).map_err(|_| JobFailure::Stopped)
    }
}

/// The record of an order, as the change that ordered it; `None` if it is not durable yet.
pub(crate) fn read_order(
    reader: &dyn RecordReader,
    record: LogIndex,
) -> Result<Option<(Administer, OwnedRecord)>, String> {
    let Some(owned) = reader.read(record).map_err(|error| error.to_string())? else {
        return Ok(None);
    };
    let command = record::command::read_fields(owned.kind, owned.version, &owned.fields);
    let Command::Administer(administer) = command.map_err(|error| error.to_string())? else {
        return Err(format!("record {} orders no erasure", record.0));
    };
    Ok(Some((*administer, owned)))
}
