//! A store in memory, in the stored form: for tests and the simulator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{PoisonError, RwLock};

use ledger::{Ended, NoticeId, Outcome, Position, TransferId};
use ports::{ColdStore, Mark, PartyRow, Portion, StoreError};
use record::cold;
use record::told::{self, Told};

/// A store in memory. A copy is a store of its own: what a crash leaves is a copy made before.
#[derive(Debug, Default)]
pub struct Memory {
    tables: RwLock<Tables>,
}

#[derive(Clone, Debug, Default)]
struct Tables {
    transfers: BTreeMap<[u8; 17], Vec<u8>>,
    parties: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Two decisions of one record about one transfer differ: an expiry, and the answer behind it.
    told: BTreeMap<(TransferId, Position, bool), Told>,
    ends: BTreeSet<(NoticeId, Position)>,
    mark: Mark,
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
    fn mark(&self) -> Mark {
        self.tables().mark
    }

    fn read(&self, id: &TransferId, at: Position) -> Result<Option<Ended>, StoreError> {
        match self.tables().transfers.get(&id.to_bytes()) {
            None => Ok(None),
            Some(stored) => cold::version_at(id, stored, at).map_err(damaged),
        }
    }

    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        self.tables().parties.get(key).map(|stored| party_row(stored)).transpose()
    }

    fn told_after(&self) -> Position {
        Position(0)
    }

    fn tale(&self, id: &TransferId) -> Result<Vec<Told>, StoreError> {
        let all = (*id, Position(0), false)..=(*id, Position(u64::MAX), true);
        Ok(self.tables().told.range(all).map(|(_, told)| told.clone()).collect())
    }

    fn ends(&self, notice: NoticeId) -> Result<Vec<Position>, StoreError> {
        let all = (notice, Position(0))..=(notice, Position(u64::MAX));
        Ok(self.tables().ends.range(all).map(|(_, position)| *position).collect())
    }

    fn write(&self, portion: &Portion) -> Result<(), StoreError> {
        let mut tables = self.tables.write().unwrap_or_else(PoisonError::into_inner);
        for row in &portion.rows {
            let stored = tables.transfers.entry(row.id.to_bytes()).or_default();
            let mut value = Vec::new();
            cold::add_version(stored, row, &mut value).map_err(damaged)?;
            *stored = value;
        }
        for change in &portion.parties {
            match party_value(change.row.as_ref()) {
                Some(value) => tables.parties.insert(change.key.clone(), value),
                None => tables.parties.remove(&change.key),
            };
        }
        for (transfer, position, bytes) in portion.told.decisions() {
            let told = told::read_one(bytes).map_err(damaged)?;
            let answered = told.decided.outcome != Outcome::Expired;
            tables.told.insert((transfer, position, answered), told);
        }
        tables.ends.extend(&portion.told.ends);
        tables.mark = portion.mark;
        Ok(())
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

/// The stored form of an entry; `None` for one that goes.
pub(crate) fn party_value(row: Option<&PartyRow>) -> Option<Vec<u8>> {
    let row = row?;
    let mut value = Vec::new();
    cold::write_party(row.currency, &row.fsp, &mut value);
    Some(value)
}

pub(crate) fn party_row(stored: &[u8]) -> Result<PartyRow, StoreError> {
    let (currency, fsp) = cold::read_party(stored).map_err(damaged)?;
    Ok(PartyRow { currency, fsp })
}

pub(crate) fn damaged(error: record::FieldError) -> StoreError {
    StoreError::Damaged(error.to_string())
}
