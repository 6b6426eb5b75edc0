//! A cold store in memory, in the stored form, for tests and the simulator.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::{Arc, PoisonError, RwLock};

use ledger::{
    ArchiveKind, ArchivedSettlement, Decision, FinalTransfer, LogIndex, NoticeId, TransferId,
};
use ports::{
    ColdStore, PartyChange, PartyEntry, PartyRow, StoreError, StoreMark, TransferPage,
    TransferQuery, WriteBatch,
};
use record::cold_rows;
use record::decision::{self, DecisionWriter};
use record::transfer_index::TransferEntry;

/// Typical bytes of a row's version.
const ROW_BYTES: usize = 160;

/// A store in memory. A clone is independent. Tests take one as the state that a crash leaves.
#[derive(Debug, Default)]
pub struct Memory {
    tables: RwLock<Tables>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    transfers: BTreeMap<[u8; 17], Vec<u8>>,
    parties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Decisions per write batch, by their first record. They are rarely read.
    decisions: BTreeMap<LogIndex, Arc<DecisionWriter>>,
    settlements: BTreeMap<[u8; 5], Vec<u8>>,
    mark: StoreMark,
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        Self { tables: RwLock::new(self.tables().clone()) }
    }
}

impl Memory {
    fn tables(&self) -> std::sync::RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ColdStore for Memory {
    fn mark(&self) -> StoreMark {
        self.tables().mark
    }

    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        match self.tables().transfers.get(&id.to_bytes()) {
            None => Ok(None),
            Some(stored) => cold_rows::version_at(id, stored, at).map_err(damaged),
        }
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        let tables = self.tables();
        ids.retain(|id| tables.transfers.contains_key(&id.to_bytes()));
        Ok(())
    }

    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        self.tables().parties.get(key).map(|stored| party_row(stored)).transpose()
    }

    fn decisions(&self, id: &TransferId) -> Result<Vec<Decision>, StoreError> {
        let mut found = Vec::new();
        for writer in self.tables().decisions.values() {
            let own = writer.decisions().filter(|(transfer, _, _)| transfer == id);
            for (_, _, bytes) in own {
                found.push(decision::read_one(bytes).map_err(damaged)?);
            }
        }
        // Batches that are written again may be divided differently.
        found.sort_by_key(|decision| decision.log_index);
        found.dedup();
        Ok(found)
    }

    fn delivery_records(&self, notice: NoticeId) -> Result<Vec<LogIndex>, StoreError> {
        let tables = self.tables();
        let all = tables.decisions.values().flat_map(|writer| &writer.ends);
        let own: BTreeSet<_> = all.filter(|(of, _)| *of == notice).map(|(_, at)| *at).collect();
        Ok(own.into_iter().collect())
    }

    fn settlements(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
        limit: usize,
    ) -> Result<Vec<ArchivedSettlement>, StoreError> {
        let tables = self.tables();
        let key = |number: &u32| cold_rows::archive_key(kind, *number);
        let found = tables.settlements.range(key(numbers.start())..=key(numbers.end()));
        let read = |(_, stored): (_, &Vec<u8>)| cold_rows::read_archived(kind, stored);
        found.take(limit).map(read).collect::<Result<_, _>>().map_err(damaged)
    }

    fn transfers(&self, query: &TransferQuery) -> Result<TransferPage, StoreError> {
        let tables = self.tables();
        let mut found = Vec::new();
        for (id, stored) in &tables.transfers {
            let id = TransferId::from_bytes(*id).ok_or(StoreError::Damaged("an id".into()))?;
            let first = cold_rows::first_version(&id, stored).map_err(damaged)?;
            found.extend(first.as_ref().and_then(TransferEntry::of));
        }
        found.retain(|entry| query.selects(entry));
        found.sort_by_key(|entry| Reverse(entry.place));
        let is_cut = query.limit <= found.len();
        found.truncate(query.limit);
        let next = found.last().filter(|_| is_cut).map(|entry| entry.place);
        Ok(TransferPage { entries: found, next, ..TransferPage::default() })
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        for row in &batch.rows {
            let stored = tables.transfers.entry(row.id.to_bytes()).or_default();
            let mut value = Vec::with_capacity(stored.len() + ROW_BYTES);
            cold_rows::add_version(stored, row, &mut value).map_err(damaged)?;
            *stored = value;
        }
        let stored = |key: &[u8]| tables.parties.get(key).map(|it| party_row(it)).transpose();
        for (key, row) in rows_after(&batch.parties, stored)? {
            tables.parties.insert(key.to_vec(), party_value(&row));
        }
        for row in &batch.settlements {
            let mut value = Vec::new();
            cold_rows::write_archived(row, &mut value);
            tables.settlements.insert(cold_rows::archive_key(row.kind(), row.number()), value);
        }
        let first = batch.decisions.decisions().next().map(|(_, log_index, _)| log_index);
        if let Some(first) = first.or(batch.decisions.ends.first().map(|(_, log_index)| *log_index))
        {
            tables.decisions.insert(first, Arc::new(batch.decisions.clone()));
        }
        tables.mark = batch.mark;
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

/// The rows after these changes, one per identifier. `stored` reads a row before the changes.
pub(crate) fn rows_after(
    changes: &[PartyChange],
    stored: impl Fn(&[u8]) -> Result<Option<PartyRow>, StoreError>,
) -> Result<HashMap<&[u8], PartyRow>, StoreError> {
    let mut rows: HashMap<&[u8], PartyRow> = HashMap::with_capacity(changes.len());
    for change in changes {
        let row = match rows.entry(&change.key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(stored(&change.key)?.unwrap_or_default()),
        };
        row.apply(&change.effect, change.at);
    }
    Ok(rows)
}

/// The stored form of a row.
pub(crate) fn party_value(row: &PartyRow) -> Vec<u8> {
    let mut value = Vec::new();
    let entries = row.entries.iter().map(|entry| (entry.currency, &entry.fsp));
    cold_rows::write_party(row.at, entries, &mut value);
    value
}

pub(crate) fn party_row(stored: &[u8]) -> Result<PartyRow, StoreError> {
    let (at, entries) = cold_rows::read_party(stored).map_err(damaged)?;
    let entries = entries.into_iter().map(|(currency, fsp)| PartyEntry { currency, fsp });
    Ok(PartyRow { at, entries: entries.collect() })
}

pub(crate) fn damaged(error: record::FieldError) -> StoreError {
    StoreError::Damaged(error.to_string())
}
