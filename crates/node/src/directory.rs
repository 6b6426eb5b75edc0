//! The party directory: the FSP that serves each party identifier. A read model, built from the
//! accepted [`ChangeParties`] commands in the log's order and rebuilt by replay.
//!
//! Entries are in the cold store, which the sequencer writes asynchronously. Changes that are not
//! written yet are kept here, so that a look-up sees every acknowledged registration. I/O threads
//! read without a lock while no change is pending, which is nearly always.
//!
//! Costs: a look-up is one read of the store by key: some microseconds, or a disk access for an
//! entry that is not cached. Bound: pending changes are bounded by the store's queue.

use std::collections::{HashMap, VecDeque};

use ledger::{Currency, LogIndex, PartyBinding, PartyChangeForm};
use ports::{ColdStore, PartyEffect, PartyRow, StoreError};

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, PoisonError, RwLock};

/// Bindings by identifier and sub-identifier.
#[derive(Debug, Default)]
pub struct Directory {
    store: Option<Arc<dyn ColdStore>>,
    recent: RwLock<UnstoredChanges>,
    /// Number of identifiers in `recent`.
    waiting: AtomicUsize,
}

/// Changes that the store may not show yet.
#[derive(Debug, Default)]
struct UnstoredChanges {
    rows: HashMap<Vec<u8>, (LogIndex, Change)>,
    /// In the order in which the store will show them.
    order: VecDeque<(LogIndex, Vec<u8>)>,
}

/// The net change of an entry since the store last showed it.
#[derive(Clone, Debug)]
enum Change {
    /// Its new value.
    To(Option<PartyRow>),
    /// Released in these currencies, and otherwise unchanged.
    Narrowed(Vec<Currency>),
}

impl Change {
    fn then(self, effect: PartyEffect) -> Self {
        match (self, effect) {
            (Self::To(row), effect) => Self::To(effect.apply(row)),
            (Self::Narrowed(mut currencies), PartyEffect::ReleaseIn(currency)) => {
                if !currencies.contains(&currency) {
                    currencies.push(currency);
                }
                Self::Narrowed(currencies)
            }
            (Self::Narrowed(_), effect) => Self::To(effect.apply(None)),
        }
    }
}

impl Directory {
    /// The directory of a store, and changes that will be applied to it.
    #[must_use]
    pub fn new(store: Arc<dyn ColdStore>) -> Self {
        Self { store: Some(store), ..Self::default() }
    }

    /// The store with the entries.
    pub(crate) fn store(&self) -> Option<&Arc<dyn ColdStore>> {
        self.store.as_ref()
    }

    /// Applies an accepted change, recorded at `log_index`.
    pub fn apply(&self, change: (PartyChangeForm, &[PartyBinding]), log_index: LogIndex) {
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        for party in sequencer::party_changes(change) {
            recent.order.push_back((log_index, party.key.clone()));
            let before = recent.rows.remove(&party.key).map(|(_, change)| change);
            let change = before.unwrap_or(Change::Narrowed(Vec::new())).then(party.effect);
            recent.rows.insert(party.key, (log_index, change));
        }
        self.waiting.store(recent.rows.len(), Ordering::Release);
    }

    /// The binding of exactly this identifier and sub-identifier. `None` matches only `None`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub fn find(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Option<PartyRow>, StoreError> {
        let key = record::cold_rows::party_key(id_type, id, sub_id);
        if 0 < self.waiting.load(Ordering::Acquire) {
            let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
            match recent.rows.get(&key) {
                None => {}
                Some((_, Change::To(row))) => return Ok(*row),
                // Under the lock, the store shows no change that is missing here.
                Some((_, Change::Narrowed(currencies))) => {
                    let release =
                        |row, currency: &Currency| PartyEffect::ReleaseIn(*currency).apply(row);
                    return Ok(currencies.iter().fold(self.stored(&key)?, release));
                }
            }
        }
        self.stored(&key)
    }

    fn stored(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        match &self.store {
            None => Ok(None),
            Some(store) => store.party(key),
        }
    }

    /// Drops changes up to `visible`: the store shows them.
    pub fn forget(&self, visible: LogIndex) {
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        let recent = &mut *recent;
        while recent.order.front().is_some_and(|(log_index, _)| *log_index <= visible) {
            let (log_index, key) = recent.order.pop_front().expect("there is a front");
            if recent.rows.get(&key).is_some_and(|(newest, _)| *newest == log_index) {
                recent.rows.remove(&key);
            }
        }
        self.waiting.store(recent.rows.len(), Ordering::Release);
    }

    /// Approximate bytes of the store on disk.
    #[must_use]
    pub fn store_bytes(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.bytes())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::collections::BTreeMap;

    use ledger::{ChangeParties, FspName};
    use ports::{StoreMark, WriteBatch};
    use store::Memory;

    use super::*;

    fn entries(change: &ChangeParties) -> (PartyChangeForm, &[PartyBinding]) {
        (change.form, &change.parties)
    }

    fn change(form: PartyChangeForm, sub_id: Option<&str>, fsp: &str) -> ChangeParties {
        let (fsp, currency) = fsp.split_once(' ').unwrap_or((fsp, ""));
        let fsp = FspName::new(fsp).expect("a name");
        let party = PartyBinding {
            id_type: "MSISDN".into(),
            id: "+123".into(),
            sub_id: sub_id.map(Into::into),
            currency: Currency::parse(currency),
            fsp,
        };
        ChangeParties { source: fsp, form, parties: vec![party], trace: [0; 16] }
    }

    fn served_by(directory: &Directory, sub_id: Option<&str>) -> Option<String> {
        let found = directory.find("MSISDN", "123", sub_id).expect("it reads");
        found.map(|row| row.fsp.to_string())
    }

    /// The latest registration wins, and sub-identifiers are independent, for changes that are not
    /// written yet, written but still in memory, or only in the store.
    #[test]
    fn changes_are_visible_at_once_and_remain_visible() {
        use PartyChangeForm::{Batch, Delete, Single};
        for lag in 0..4 {
            let store = Arc::new(Memory::default());
            let directory = Directory::new(Arc::clone(&store) as _);
            let mut expected: BTreeMap<Option<&str>, &str> = BTreeMap::new();
            let is_released = |released: &str, bound: &str| {
                let currency = |text: &str| text.split_once(' ').map(|(_, it)| it.to_owned());
                let (released, bound) = (currency(released), currency(bound));
                released.is_none() || bound.is_none() || released == bound
            };
            let mut waiting = VecDeque::new();
            for (at, (form, sub_id, fsp)) in [
                (Single, None, "dfsp1"),
                (Single, Some("shop"), "dfsp3"),
                (Batch, None, "dfsp2"),
                (Delete, None, "dfsp2"),
                (Single, None, "dfsp4"),
                (Delete, Some("shop"), "dfsp3"),
                (Delete, None, "dfsp4 EUR"),
                (Single, None, "dfsp4 USD"),
                (Delete, None, "dfsp4 EUR"),
                (Delete, None, "dfsp4 KES"),
                (Delete, None, "dfsp4 EUR"),
                (Delete, None, "dfsp4 USD"),
                (Single, None, "dfsp1 USD"),
                (Delete, None, "dfsp1 EUR"),
                (Single, None, "dfsp2 EUR"),
                (Delete, None, "dfsp1 USD"),
                (Delete, None, "dfsp4"),
            ]
            .into_iter()
            .enumerate()
            {
                let log_index = LogIndex(at as u64 + 1);
                let change = change(form, sub_id, fsp);
                directory.apply(entries(&change), log_index);
                match form {
                    Delete => {
                        expected.retain(|of, bound| *of != sub_id || !is_released(fsp, bound))
                    }
                    Single | Batch => drop(expected.insert(sub_id, fsp)),
                }
                let parties = sequencer::party_changes(entries(&change)).collect();
                let mark = StoreMark { log_index, ..StoreMark::default() };
                waiting.push_back(WriteBatch { parties, mark, ..WriteBatch::default() });
                if lag < waiting.len() {
                    let portion = waiting.pop_front().expect("one was just added");
                    store.write(&portion).expect("it writes");
                    if at.is_multiple_of(2) {
                        directory.forget(portion.mark.log_index);
                    }
                }
                for sub_id in [None, Some("shop")] {
                    let known = expected.get(&sub_id);
                    let known = known.map(|fsp| fsp.split(' ').take(1).collect::<String>());
                    assert_eq!(served_by(&directory, sub_id), known, "lag {lag}, change {at}");
                }
            }
        }
    }

    #[test]
    fn without_a_store_all_changes_stay_in_memory() {
        let directory = Directory::default();
        let change = change(PartyChangeForm::Single, None, "dfsp1");
        directory.apply(entries(&change), LogIndex(1));
        assert_eq!(served_by(&directory, None).as_deref(), Some("dfsp1"));
        assert_eq!((served_by(&directory, Some("x")), directory.store_bytes()), (None, 0));
    }
}
