//! Recorded decisions on disk: three keyspaces, written in the order of the log, so that compaction
//! moves almost none of it.
//!
//! - `decisions`: the decisions, some dozens per block, under the record of the first.
//! - `deliveries`: the records of finished deliveries, grouped by notice, under the first of them.
//! - `traces`: the records about a transfer that its row does not name: resends, refusals, and
//!   transfers that stay reserved for long.
//!
//! The newest records without a row are kept in memory, because most of them are prepares whose row
//! follows soon: at most [`UNTRACED_MAX`], among the last [`UNTRACED_SPAN`] records. `about` names
//! the first of them. When the store is opened, they are read from the blocks.
//!
//! Costs: two decisions in a shared block for a transfer that becomes final in time; a key of 25
//! bytes more for any other. A query reads one key per record about the transfer.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fjall::{Database, Keyspace, OwnedWriteBatch};
use ledger::{Decision, FinalTransfer, LogIndex, NoticeId, TransferId};
use ports::{StoreError, WriteBatch};
use record::decision;

use crate::disk::{buffering_ranges, of_library};
use crate::memory::damaged;

/// Bytes after which a block of decisions is closed, at the end of its record.
const BLOCK_BYTES: usize = 8 << 10;
/// Bytes of a write buffer.
const BUFFER: u64 = 4 << 20;
/// Maximum number of records without a trace. They are copied with each write, a megabyte at most.
const UNTRACED_MAX: usize = 32_768;
/// Number of records before the mark, among which they are. A start reads the decisions of these,
/// some 15 MB.
const UNTRACED_SPAN: u64 = 131_072;

/// A record of the log about a transfer.
type RecordOfTransfer = (LogIndex, TransferId);

/// The keyspaces.
pub(crate) struct DecisionKeyspaces {
    decisions: Keyspace,
    deliveries: Keyspace,
    traces: Keyspace,
    /// The records that neither a row nor a trace names, in the order of the log. After a start
    /// also some that a row names.
    untraced: Mutex<Vec<RecordOfTransfer>>,
}

/// The records without a trace after a batch.
pub(crate) struct Untraced(Vec<RecordOfTransfer>);

impl Untraced {
    /// The first of them.
    pub(crate) fn first(&self) -> Option<LogIndex> {
        self.0.first().map(|(log_index, _)| *log_index)
    }
}

impl DecisionKeyspaces {
    pub(crate) fn open(database: &Database) -> Result<Self, fjall::Error> {
        let open = |name| database.keyspace(name, || buffering_ranges(BUFFER));
        let (decisions, deliveries) = (open("decisions")?, open("deliveries")?);
        Ok(Self { decisions, deliveries, traces: open("traces")?, untraced: Mutex::default() })
    }

    /// Reads the records without a trace; `first` is the first of them.
    pub(crate) fn load(&self, first: LogIndex) -> Result<(), StoreError> {
        let mut untraced = Vec::new();
        // A record has a block that begins with it or with an earlier one.
        let block = self.decisions.range(FIRST_BLOCK..=first.0.to_be_bytes()).next_back();
        let begin = block.map_or(Ok(FIRST_BLOCK.into()), fjall::Guard::key);
        for block in self.decisions.range(begin.map_err(|error| of_library(&error))?..) {
            let value = block.value().map_err(|error| of_library(&error))?;
            let all = decision::read_all(&value).map_err(damaged)?;
            untraced.extend(all.iter().map(|decision| (decision.log_index, decision.transfer)));
        }
        untraced.retain(|(log_index, _)| first <= *log_index);
        untraced.sort_unstable();
        untraced.dedup();
        *self.untraced() = untraced;
        Ok(())
    }

    fn untraced(&self) -> MutexGuard<'_, Vec<RecordOfTransfer>> {
        self.untraced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records without a trace about a transfer. They are read before its row, because a batch
    /// with the row removes them.
    pub(crate) fn untraced_of(&self, id: &TransferId) -> Vec<LogIndex> {
        let untraced = self.untraced();
        untraced.iter().filter(|(_, transfer)| transfer == id).map(|(at, _)| *at).collect()
    }

    /// The keyspaces with their names.
    pub(crate) fn named(&self) -> [(&'static str, &Keyspace); 3] {
        [("decisions", &self.decisions), ("deliveries", &self.deliveries), ("traces", &self.traces)]
    }

    /// Adds decisions and ends of deliveries to a database batch. Returns the records without a
    /// trace after it, for [`Self::committed`].
    pub(crate) fn write(
        &self,
        batch: &WriteBatch,
        database_batch: &mut OwnedWriteBatch,
    ) -> Untraced {
        let named = named_records(&batch.rows);
        let mut untraced = self.untraced().clone();
        let mut rest = &named[..];
        untraced.retain(|record| !is_named(&mut rest, record));
        self.write_decisions(batch, (&named, &mut untraced), database_batch);
        self.write_ends(&batch.decisions.ends, database_batch);
        // Only batches that are written again are not in order.
        untraced.sort_unstable();
        untraced.dedup();
        self.write_traces(&mut untraced, batch.mark.log_index, database_batch);
        Untraced(untraced)
    }

    /// Continues with these records, once the batch with them was written.
    pub(crate) fn committed(&self, untraced: Untraced) {
        *self.untraced() = untraced.0;
    }

    /// Adds decisions in blocks, and their records to `untraced` if no row names them.
    fn write_decisions(
        &self,
        batch: &WriteBatch,
        (named, untraced): (&[RecordOfTransfer], &mut Vec<RecordOfTransfer>),
        database_batch: &mut OwnedWriteBatch,
    ) {
        let mut rest = named;
        let mut block = Vec::with_capacity(2 * BLOCK_BYTES);
        let (mut begin, mut last) = (LogIndex(0), LogIndex(0));
        for (transfer, log_index, bytes) in batch.decisions.decisions() {
            if BLOCK_BYTES <= block.len() && last < log_index {
                database_batch.insert(&self.decisions, begin.0.to_be_bytes(), &*block);
                block.clear();
            }
            if block.is_empty() {
                decision::begin(&mut block);
                begin = log_index;
            }
            block.extend_from_slice(bytes);
            last = log_index;
            if !is_named(&mut rest, &(log_index, transfer)) {
                untraced.push((log_index, transfer));
            }
        }
        if !block.is_empty() {
            database_batch.insert(&self.decisions, begin.0.to_be_bytes(), &*block);
        }
    }

    /// Removes the oldest records and adds traces of them, sorted.
    fn write_traces(
        &self,
        untraced: &mut Vec<RecordOfTransfer>,
        mark: LogIndex,
        database_batch: &mut OwnedWriteBatch,
    ) {
        let oldest = LogIndex(mark.0.saturating_sub(UNTRACED_SPAN));
        let old = untraced.partition_point(|(log_index, _)| *log_index <= oldest);
        let surplus = untraced.len().saturating_sub(UNTRACED_MAX);
        let removed = untraced.drain(..old.max(surplus));
        let mut keys: Vec<_> = removed.map(|(log_index, id)| trace(&id, log_index)).collect();
        keys.sort_unstable();
        keys.into_iter().for_each(|key| database_batch.insert(&self.traces, key, []));
    }

    fn write_ends(&self, ends: &[(NoticeId, LogIndex)], database_batch: &mut OwnedWriteBatch) {
        let mut ends = ends.to_vec();
        ends.sort_unstable_by_key(|(notice, log_index)| (decision::group_of(*notice), *log_index));
        let mut value = Vec::new();
        for group in
            ends.chunk_by(|one, next| decision::group_of(one.0) == decision::group_of(next.0))
        {
            let (notice, base) = group[0];
            decision::write_ends(base, group, &mut value);
            database_batch.insert(
                &self.deliveries,
                delivery(decision::group_of(notice), base),
                &*value,
            );
        }
    }

    /// All decisions about a transfer, with these records without a trace.
    pub(crate) fn of(
        &self,
        id: &TransferId,
        mut records: Vec<LogIndex>,
    ) -> Result<Vec<Decision>, StoreError> {
        for trace in self.traces.prefix(id.to_bytes()) {
            let key = trace.key().map_err(|error| of_library(&error))?;
            records.push(last_index(&key)?);
        }
        records.sort_unstable();
        records.dedup();
        let mut decisions = Vec::new();
        for log_index in records {
            decisions.extend(self.of_record(id, log_index)?);
        }
        Ok(decisions)
    }

    /// The decisions about a transfer in one record.
    fn of_record(&self, id: &TransferId, log_index: LogIndex) -> Result<Vec<Decision>, StoreError> {
        let Some(block) = self.decisions.range(FIRST_BLOCK..=log_index.0.to_be_bytes()).next_back()
        else {
            return Ok(Vec::new());
        };
        let (_, value) = block.into_inner().map_err(|error| of_library(&error))?;
        let mut all = decision::read_all(&value).map_err(damaged)?;
        all.retain(|decision| decision.transfer == *id && decision.log_index == log_index);
        Ok(all)
    }

    pub(crate) fn delivery_records(&self, notice: NoticeId) -> Result<Vec<LogIndex>, StoreError> {
        let mut ends = Vec::new();
        for entry in self.deliveries.prefix(decision::group_of(notice).to_be_bytes()) {
            let (key, value) = entry.into_inner().map_err(|error| of_library(&error))?;
            ends.extend(decision::ends_of(notice, last_index(&key)?, &value).map_err(damaged)?);
        }
        ends.sort_unstable();
        ends.dedup();
        Ok(ends)
    }
}

/// The records that rows name, with the transfer, in the order of the log.
fn named_records(rows: &[FinalTransfer]) -> Vec<(LogIndex, TransferId)> {
    let mut named = Vec::with_capacity(2 * rows.len());
    // Rows are mostly in the order of their changes and of their prepares, so sorting merges.
    named.extend(rows.iter().map(|row| (row.prepare, row.id)));
    named.extend(rows.iter().map(|row| (row.changed, row.id)));
    let responses = rows.iter().filter_map(|row| Some((row.response?.log_index, row.id, row)));
    named.extend(responses.filter(|it| it.0 != it.2.changed).map(|it| (it.0, it.1)));
    named.sort();
    named
}

/// Whether `sorted` has the record of a transfer. Records are asked for in the order of the log:
/// earlier ones are removed from the front.
fn is_named(sorted: &mut &[(LogIndex, TransferId)], wanted: &(LogIndex, TransferId)) -> bool {
    let earlier = sorted.iter().position(|it| wanted.0 <= it.0).unwrap_or(sorted.len());
    *sorted = &sorted[earlier..];
    let same = match sorted.get(1) {
        Some(second) if second.0 == wanted.0 => sorted.partition_point(|it| it.0 == wanted.0),
        _ => sorted.len().min(1),
    };
    sorted[..same].binary_search(wanted).is_ok()
}

/// Key of the first possible block of decisions. The name of the keyspace has a shorter key.
const FIRST_BLOCK: [u8; 8] = [0; 8];

fn trace(transfer: &TransferId, log_index: LogIndex) -> [u8; 25] {
    let mut key = [0; 25];
    key[..17].copy_from_slice(&transfer.to_bytes());
    key[17..].copy_from_slice(&log_index.0.to_be_bytes());
    key
}

fn delivery(group: u64, base: LogIndex) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&group.to_be_bytes());
    key[8..].copy_from_slice(&base.0.to_be_bytes());
    key
}

/// The record that a key ends with.
fn last_index(key: &[u8]) -> Result<LogIndex, StoreError> {
    let bytes = key.last_chunk().ok_or(StoreError::Damaged("a key is too short".into()))?;
    Ok(LogIndex(u64::from_be_bytes(*bytes)))
}
