//! Carries out ordered erasures ([`ledger::Erase`]): a background job that rewrites the closed
//! segments of the log.
//!
//! The state has the orders, and each order is a record. So a restored log is erased again, and an
//! old segment that was put back is recognised by its length. A segment that is being written is
//! closed first, with the next record. Contents that a payment in flight, a notice or a dead letter
//! still needs stay until it has ended. [`journal::OrderedErasures`] chooses the segments and the
//! contents; the simulator runs it too.
//!
//! When the contents of a participant that has data keys of its own were erased, the job also
//! destroys the keys that no stored content needs any more.
//!
//! # Costs and bounds
//! An idle job asks the state for newer orders every few seconds. An order is one pass over each
//! affected segment. Memory: the ranges of all orders, and the records that are still needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use journal::{
    ArchiveError, ErasureOrder, ErasureProgress, OrderedErasures, PendingSegment, RealDisk,
    RemainingErasure, SegmentInfo, Tier, TieredDisk, evicted_results, needed_records,
    records_of_bulk, with_ends,
};
use ledger::{Administer, Change, Command, LogIndex, State};
use node::Handle;
use operations::{ErasurePlan, ErasureReport, parse_audit_time};
use ports::{DiskError, KeyId, OwnedRecord, RecordReader};
use switch::ForwardedMessage;

use crate::data::backup::copy_alone;
use crate::serve::segments::{JobFailure, Segments, watch};

/// Interval of the checks for orders.
pub(crate) const ERASURE_INTERVAL: Duration = Duration::from_secs(2);
/// Longest wait for an answer of the sequencer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Number of evicted rows that are read between two batches.
const ROWS_AT_ONCE: usize = 256;

/// The progress of erasures, for the admin API.
pub(crate) struct ErasureStatus {
    log: TieredDisk<RealDisk>,
    /// By the record of each order that the job has seen.
    remaining: Mutex<BTreeMap<LogIndex, RemainingErasure>>,
    /// The runs of the backup; `None` without one.
    copies: Option<CopyRuns>,
}

/// Numbers of runs of the backup, from 1.
#[derive(Debug, Default)]
struct CopyRuns {
    begun: AtomicU64,
    /// The last successful one.
    done: AtomicU64,
    /// By order, the run after which the copy complies with it.
    complies_after: Mutex<BTreeMap<LogIndex, u64>>,
}

impl CopyRuns {
    /// Notes the orders without segments left: the next run replaces their copies.
    fn note(&self, remaining: &BTreeMap<LogIndex, RemainingErasure>) {
        let next = self.begun.load(Ordering::SeqCst) + 1;
        let mut known = self.complies_after.lock().unwrap_or_else(PoisonError::into_inner);
        for (order, left) in remaining {
            match left.segments {
                0 => _ = known.entry(*order).or_insert(next),
                _ => _ = known.remove(order),
            }
        }
    }

    fn comply(&self, order: LogIndex) -> bool {
        let known = self.complies_after.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&order).is_some_and(|run| *run <= self.done.load(Ordering::SeqCst))
    }
}

impl ErasureStatus {
    pub(crate) fn new(log: TieredDisk<RealDisk>, has_backup: bool) -> Self {
        let copies = has_backup.then(CopyRuns::default);
        Self { log, remaining: Mutex::default(), copies }
    }

    /// Counts a run of the backup that begins, and returns its number.
    pub(crate) fn copy_begins(&self) -> u64 {
        self.copies.as_ref().map_or(0, |copies| copies.begun.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// Notes a successful run.
    pub(crate) fn copy_is_done(&self, run: u64) {
        if let Some(copies) = &self.copies {
            copies.done.fetch_max(run, Ordering::SeqCst);
        }
    }

    /// Adds the segments that hold the records of a plan.
    pub(crate) fn plan(&self, mut plan: ErasurePlan) -> Result<ErasurePlan, String> {
        let segments = self.log.segments().map_err(|error| error.to_string())?;
        for (segment, last) in with_ends(&segments) {
            if plan.records.iter().any(|range| range.first <= last && segment.first <= range.last) {
                plan.segments += 1;
                plan.archived += u64::from(matches!(segment.tier, Tier::Archived(_)));
                plan.bytes += segment.plain_bytes;
            }
        }
        Ok(plan)
    }

    /// Adds the progress to a report. An order that the job has not seen has everything left.
    pub(crate) fn add_to(&self, report: &mut ErasureReport) {
        let remaining = self.remaining.lock().unwrap_or_else(PoisonError::into_inner);
        let known = remaining.get(&LogIndex(report.record)).copied();
        let known = known.unwrap_or(RemainingErasure { segments: 1, ..Default::default() });
        (report.segments_left, report.contents_waiting) = (known.segments, known.waiting);
        report.archived_left = known.archived;
        let complies = |copies: &CopyRuns| copies.comply(LogIndex(report.record));
        report.in_copy = known.segments == 0 && !self.copies.as_ref().is_none_or(complies);
    }
}

/// The job.
pub(crate) struct ErasureJob {
    segments: Segments,
    handle: Handle<ForwardedMessage>,
    status: Arc<ErasureStatus>,
    orders: OrderedErasures,
    destroying: Option<KeysToDestroy>,
    /// Keys that were not destroyed, because contents need them.
    needed_keys: BTreeSet<KeyId>,
}

/// Data keys of participants whose contents were erased.
struct KeysToDestroy {
    keys: BTreeSet<KeyId>,
    /// The last record that they can have encrypted.
    last: LogIndex,
}

impl ErasureJob {
    pub(crate) fn new(
        segments: Segments,
        handle: Handle<ForwardedMessage>,
        status: Arc<ErasureStatus>,
    ) -> Self {
        let orders = OrderedErasures::default();
        Self { segments, handle, status, orders, destroying: None, needed_keys: BTreeSet::new() }
    }

    /// Carries out what can be carried out now, and returns the newest order.
    pub(crate) fn run(&mut self, stopping: &AtomicBool) -> Result<Option<LogIndex>, JobFailure> {
        self.read_orders()?;
        let Some(newest) = self.orders.newest() else { return Ok(None) };
        let failed = |error: DiskError| JobFailure::Failed(error.to_string());
        let mut progress = ErasureProgress::load(self.segments.log.below()).map_err(failed)?;
        let mut segments = self.segments.log.segments().map_err(failed)?;
        let due = self.orders.due(&segments, &progress);
        if !due.is_empty() {
            let needed = self.needed()?;
            for segment in &due {
                if !self.orders.waits(segment, &needed) {
                    self.erase((segment, &needed), &mut progress, stopping)?;
                }
            }
            // Rewritten segments have other lengths. With the old ones, no order would be done.
            segments = self.segments.log.segments().map_err(failed)?;
        }
        // Closes the segment that is being written if an order touches it.
        if segments.last().is_some_and(|open| self.orders.touch_open(open)) {
            (self.segments.rotator)();
        }
        let remaining = self.orders.remaining(&segments, &progress);
        if let Some(copies) = &self.status.copies {
            copies.note(&remaining);
        }
        let replaced = self.replaced_keys(&remaining);
        *self.status.remaining.lock().unwrap_or_else(PoisonError::into_inner) = remaining;
        self.destroy_keys(replaced, &segments, stopping)?;
        Ok(Some(newest))
    }

    /// The data keys of participants whose contents, from the whole time of the key, are erased.
    fn replaced_keys(&self, remaining: &BTreeMap<LogIndex, RemainingErasure>) -> BTreeSet<KeyId> {
        let Some(keys) = &self.segments.keys else { return BTreeSet::new() };
        let is_done = |order: &&ErasureOrder| {
            remaining.get(&order.record).is_some_and(|remaining| remaining.segments == 0)
        };
        let done = self.orders.orders().iter().filter(is_done);
        let replaced = done.filter_map(|order| {
            let participant = order.erase.participant()?;
            let before = parse_audit_time(order.erase.participant_time()?)?;
            Some(keys.replaced_keys(&participant, before.0))
        });
        replaced.flatten().filter(|key| !self.needed_keys.contains(key)).collect()
    }

    /// Destroys data keys, after reading the log to see that no content needs them. The segment
    /// that was written while they were in use is closed first.
    fn destroy_keys(
        &mut self,
        replaced: BTreeSet<KeyId>,
        segments: &[SegmentInfo],
        stopping: &AtomicBool,
    ) -> Result<(), JobFailure> {
        let Some(keys) = self.segments.keys.clone().filter(|_| !replaced.is_empty()) else {
            self.destroying = None;
            return Ok(());
        };
        if self.destroying.as_ref().is_none_or(|known| known.keys != replaced) {
            let last = self.ask(State::log_index)?;
            self.destroying = Some(KeysToDestroy { keys: replaced.clone(), last });
        }
        let last = self.destroying.as_ref().map_or(LogIndex(0), |known| known.last);
        if segments.last().is_none_or(|open| open.first <= last) {
            (self.segments.rotator)();
            return Ok(());
        }
        let alone = self.segments.moving.lock().unwrap_or_else(PoisonError::into_inner);
        let needed = journal::payload_keys(&self.segments.log, segments, &mut watch(stopping))?;
        drop(alone);
        let unneeded: Vec<_> = replaced.difference(&needed).copied().collect();
        let destroyed = keys.destroy(&unneeded);
        let destroyed = destroyed.map_err(|error| JobFailure::Failed(error.to_string()))?;
        tracing::info!(destroyed, "data keys of participants were destroyed");
        self.needed_keys.extend(replaced);
        self.destroying = None;
        Ok(())
    }

    /// Erases the ordered contents of a segment while no other job works on it.
    fn erase(
        &mut self,
        due: (&PendingSegment, &BTreeSet<LogIndex>),
        progress: &mut ErasureProgress,
        stopping: &AtomicBool,
    ) -> Result<(), JobFailure> {
        let Segments { log, closer, moving, .. } = &self.segments;
        let alone = moving.lock().unwrap_or_else(PoisonError::into_inner);
        let is_stopped = || stopping.load(Ordering::Relaxed);
        let no_backup = copy_alone(log.below(), is_stopped).map_err(ArchiveError::from)?;
        let moved = |first| closer(first);
        let erased = self.orders.erase(log, due, progress, (&moved, &mut watch(stopping)))?;
        drop((alone, no_backup));
        tracing::info!(first = erased.first.0, contents = erased.erased, "contents were erased");
        Ok(())
    }

    /// Adds the orders that are newer than the known ones.
    fn read_orders(&mut self) -> Result<(), JobFailure> {
        let last = self.orders.newest().unwrap_or(LogIndex(0));
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
                    // It may erase the contents that needed them.
                    self.needed_keys.clear();
                    let Change::Erase(erase) = administer.change.decided().clone() else {
                        continue;
                    };
                    self.orders.push(ErasureOrder { record, erase });
                }
                // Not durable yet; the next run reads it.
                None => break,
            }
        }
        Ok(())
    }

    /// The records whose contents are still needed. Results of bulk transfers that were evicted
    /// are read with their rows, some at a time.
    fn needed(&self) -> Result<BTreeSet<LogIndex>, JobFailure> {
        let (mut needed, evicted) =
            self.ask(|state| (needed_records(state), evicted_results(state)))?;
        let evicted: Vec<_> = evicted.into_iter().collect();
        for bulks in evicted.chunks(ROWS_AT_ONCE).map(<[_]>::to_vec) {
            let ids = bulks.clone();
            let (answer, answered) = sync_channel(1);
            let records = move |state: &State| {
                let found = bulks.iter().flat_map(|bulk| records_of_bulk(state, bulk));
                // The job may have ended.
                drop(answer.send(found.collect::<Vec<_>>()));
            };
            self.handle.ask_local_about(ids, records).map_err(|_| JobFailure::Stopped)?;
            let found = answered.recv_timeout(ANSWER_TIMEOUT);
            needed.extend(found.map_err(|_| JobFailure::Stopped)?);
        }
        Ok(needed)
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
