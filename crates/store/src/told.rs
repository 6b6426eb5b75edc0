//! What is told of decisions, on disk: three keyspaces, written in the order of the log, so that
//! nearly nothing of it is ever moved again.
//!
//! - `decisions`: the decisions themselves, some dozens of them together under the record of the
//!   first.
//! - `deliveries`: where deliveries ended, together under the group of their notices and the
//!   first of those records.
//! - `traces`: which records are about a transfer, where its row does not name them: resends,
//!   refusals, what was still in flight when its prepare was written.
//!
//! Costs: for a transfer that ends within a portion two decisions in a block that is written
//! anyway; for one that does not, a key of 25 bytes. A question reads one key for each record about
//! the transfer.

use std::collections::HashMap;

use fjall::{Database, Keyspace, OwnedWriteBatch};
use ledger::{Decided, Ended, NoticeId, Position, TransferId};
use ports::{Portion, StoreError};
use record::told;

use crate::disk::{buffering, of_library};
use crate::memory::damaged;

/// A block of decisions is closed behind the first record that makes it so long.
const BLOCK_BYTES: usize = 8 << 10;
/// Bytes of a write buffer.
const BUFFER: u64 = 4 << 20;

/// The keyspaces.
pub(crate) struct Tales {
    decisions: Keyspace,
    deliveries: Keyspace,
    traces: Keyspace,
}

impl Tales {
    pub(crate) fn open(database: &Database) -> Result<Self, fjall::Error> {
        let open = |name| database.keyspace(name, || buffering(BUFFER));
        let (decisions, deliveries) = (open("decisions")?, open("deliveries")?);
        Ok(Self { decisions, deliveries, traces: open("traces")? })
    }

    /// The keyspaces with their names.
    pub(crate) fn named(&self) -> [(&'static str, &Keyspace); 3] {
        [("decisions", &self.decisions), ("deliveries", &self.deliveries), ("traces", &self.traces)]
    }

    pub(crate) fn write(&self, portion: &Portion, batch: &mut OwnedWriteBatch) {
        let rows: HashMap<TransferId, &Ended> =
            portion.rows.iter().map(|row| (row.id, row)).collect();
        let mut block = Vec::with_capacity(2 * BLOCK_BYTES);
        let (mut begin, mut last) = (Position(0), Position(0));
        for (transfer, position, bytes) in portion.told.decisions() {
            if BLOCK_BYTES <= block.len() && last < position {
                batch.insert(&self.decisions, begin.0.to_be_bytes(), &*block);
                block.clear();
            }
            if block.is_empty() {
                told::begin(&mut block);
                begin = position;
            }
            block.extend_from_slice(bytes);
            last = position;
            if !rows.get(&transfer).is_some_and(|row| names(row, position)) {
                batch.insert(&self.traces, trace(&transfer, position), []);
            }
        }
        if !block.is_empty() {
            batch.insert(&self.decisions, begin.0.to_be_bytes(), &*block);
        }
        self.write_ends(&portion.told.ends, batch);
    }

    fn write_ends(&self, ends: &[(NoticeId, Position)], batch: &mut OwnedWriteBatch) {
        let mut ends = ends.to_vec();
        ends.sort_unstable_by_key(|(notice, position)| (told::group_of(*notice), *position));
        let mut value = Vec::new();
        for group in ends.chunk_by(|one, next| told::group_of(one.0) == told::group_of(next.0)) {
            let (notice, base) = group[0];
            told::write_ends(base, group, &mut value);
            batch.insert(&self.deliveries, delivery(told::group_of(notice), base), &*value);
        }
    }

    /// Everything told of a transfer whose row names these records.
    pub(crate) fn of(
        &self,
        id: &TransferId,
        mut records: Vec<Position>,
    ) -> Result<Vec<Decided>, StoreError> {
        for trace in self.traces.prefix(id.to_bytes()) {
            let key = trace.key().map_err(|error| of_library(&error))?;
            records.push(last_position(&key)?);
        }
        records.sort_unstable();
        records.dedup();
        let mut tale = Vec::new();
        for position in records {
            tale.extend(self.decided(id, position)?);
        }
        Ok(tale)
    }

    /// What was decided about a transfer on one record, or when it came.
    fn decided(&self, id: &TransferId, position: Position) -> Result<Vec<Decided>, StoreError> {
        let Some(block) = self.decisions.range([0; 8]..=position.0.to_be_bytes()).next_back()
        else {
            return Ok(Vec::new());
        };
        let (_, value) = block.into_inner().map_err(|error| of_library(&error))?;
        let mut all = told::read_all(&value).map_err(damaged)?;
        all.retain(|told| told.transfer == *id && told.position == position);
        Ok(all)
    }

    pub(crate) fn ends(&self, notice: NoticeId) -> Result<Vec<Position>, StoreError> {
        let mut ends = Vec::new();
        for entry in self.deliveries.prefix(told::group_of(notice).to_be_bytes()) {
            let (key, value) = entry.into_inner().map_err(|error| of_library(&error))?;
            ends.extend(told::ends_of(notice, last_position(&key)?, &value).map_err(damaged)?);
        }
        ends.sort_unstable();
        ends.dedup();
        Ok(ends)
    }
}

/// Whether a row says that the record is about its transfer.
fn names(row: &Ended, position: Position) -> bool {
    row.prepare == position
        || row.changed == position
        || row.answer.is_some_and(|answer| answer.position == position)
}

fn trace(transfer: &TransferId, position: Position) -> [u8; 25] {
    let mut key = [0; 25];
    key[..17].copy_from_slice(&transfer.to_bytes());
    key[17..].copy_from_slice(&position.0.to_be_bytes());
    key
}

fn delivery(group: u64, base: Position) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&group.to_be_bytes());
    key[8..].copy_from_slice(&base.0.to_be_bytes());
    key
}

/// The record that a key ends with.
fn last_position(key: &[u8]) -> Result<Position, StoreError> {
    let bytes = key.last_chunk().ok_or(StoreError::Damaged("a key is too short".into()))?;
    Ok(Position(u64::from_be_bytes(*bytes)))
}
