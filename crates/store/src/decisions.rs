//! Recorded decisions on disk: three keyspaces, written in the order of the log, so that compaction
//! moves almost none of it.
//!
//! - `decisions`: the decisions, some dozens per block, under the record of the first.
//! - `deliveries`: the records of finished deliveries, grouped by notice, under the first of them.
//! - `traces`: the records about a transfer that its row does not name: resends, refusals, and
//!   transfers that were still reserved when their prepare was written.
//!
//! Costs: two decisions in a shared block for a transfer that becomes final within a batch; a key
//! of 25 bytes more for any other. A query reads one key per record about the transfer.

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

/// The keyspaces.
pub(crate) struct DecisionKeyspaces {
    decisions: Keyspace,
    deliveries: Keyspace,
    traces: Keyspace,
}

impl DecisionKeyspaces {
    pub(crate) fn open(database: &Database) -> Result<Self, fjall::Error> {
        let open = |name| database.keyspace(name, || buffering_ranges(BUFFER));
        let (decisions, deliveries) = (open("decisions")?, open("deliveries")?);
        Ok(Self { decisions, deliveries, traces: open("traces")? })
    }

    /// The keyspaces with their names.
    pub(crate) fn named(&self) -> [(&'static str, &Keyspace); 3] {
        [("decisions", &self.decisions), ("deliveries", &self.deliveries), ("traces", &self.traces)]
    }

    pub(crate) fn write(&self, batch: &WriteBatch, database_batch: &mut OwnedWriteBatch) {
        let named = named_records(&batch.rows);
        let mut rest = &named[..];
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
            let is_named = is_named(&mut rest, &(log_index, transfer));
            if !is_named {
                database_batch.insert(&self.traces, trace(&transfer, log_index), []);
            }
        }
        if !block.is_empty() {
            database_batch.insert(&self.decisions, begin.0.to_be_bytes(), &*block);
        }
        self.write_ends(&batch.decisions.ends, database_batch);
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

    /// All decisions about a transfer, whose row names these records.
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
        let Some(block) = self.decisions.range([0; 8]..=log_index.0.to_be_bytes()).next_back()
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
