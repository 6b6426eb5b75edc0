//! The party directory: the FSP that serves each party identifier. A read model, built from the
//! accepted [`ChangeParties`] commands in the log's order and rebuilt by replay.
//!
//! Entries are in the cold store, which the sequencer writes asynchronously. Changes that are not
//! written yet are kept here, so that a look-up sees every acknowledged registration. I/O threads
//! read without a lock while no change is pending, which is nearly always.
//!
//! Costs: a look-up is one read of the store by key: some microseconds, or a disk access for an
//! entry that is not cached. Bound: pending changes are bounded by the store's queue.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::OnceLock;

use ledger::{LogIndex, PartyChangeView};
use ports::{ColdStore, PartyEffect, PartyRow, StoreError};
use record::party_names::PartyKey;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, PoisonError, RwLock};

/// Entries by identifier and sub-identifier.
#[derive(Debug, Default)]
pub struct Directory {
    store: Option<Arc<dyn ColdStore>>,
    /// The key of the hashes of identifiers; unset before the genesis record.
    key: OnceLock<PartyKey>,
    recent: RwLock<UnstoredChanges>,
    /// Number of identifiers in `recent`.
    waiting: AtomicUsize,
}

/// Changes that the store may not show yet.
#[derive(Debug, Default)]
struct UnstoredChanges {
    /// Per identifier, in the order of the log.
    changes: HashMap<Vec<u8>, VecDeque<(LogIndex, PartyEffect)>>,
    /// In the order in which the store will show them.
    order: VecDeque<(LogIndex, Vec<u8>)>,
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

    /// Sets the key of the log, once.
    pub fn begin(&self, key: PartyKey) {
        let _only_once = self.key.set(key);
    }

    /// Applies an accepted change, recorded at `log_index`.
    ///
    /// # Panics
    /// Without a key: a change follows the genesis record.
    pub fn apply(&self, change: PartyChangeView<'_>, log_index: LogIndex) {
        let key = self.key.get().expect("a change of the directory follows the genesis record");
        let mut recent = self.recent.write().unwrap_or_else(PoisonError::into_inner);
        for party in sequencer::party_changes(key, change, log_index) {
            recent.order.push_back((log_index, party.key.clone()));
            let waiting = recent.changes.entry(party.key).or_default();
            waiting.push_back((log_index, party.effect));
        }
        self.waiting.store(recent.changes.len(), Ordering::Release);
    }

    /// The entries of exactly this identifier and sub-identifier, in clear or as hashes. `None`
    /// matches only `None`.
    ///
    /// # Errors
    /// [`StoreError`] when the store cannot be read.
    pub fn find(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<PartyRow, StoreError> {
        let Some(key) = self.key.get() else { return Ok(PartyRow::default()) };
        let key = key.row_key(id_type, id, sub_id);
        if 0 < self.waiting.load(Ordering::Acquire) {
            let recent = self.recent.read().unwrap_or_else(PoisonError::into_inner);
            if let Some(waiting) = recent.changes.get(&key) {
                // Under the lock, the store shows no change that is missing here. The row skips
                // those that it has already.
                let mut row = self.stored(&key)?;
                waiting.iter().for_each(|(at, effect)| row.apply(effect, *at));
                return Ok(row);
            }
        }
        self.stored(&key)
    }

    fn stored(&self, key: &[u8]) -> Result<PartyRow, StoreError> {
        match &self.store {
            None => Ok(PartyRow::default()),
            Some(store) => Ok(store.party(key)?.unwrap_or_default()),
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
            let (_, key) = recent.order.pop_front().expect("there is a front");
            if let Entry::Occupied(mut waiting) = recent.changes.entry(key) {
                waiting.get_mut().pop_front();
                if waiting.get().is_empty() {
                    waiting.remove();
                }
            }
        }
        self.waiting.store(recent.changes.len(), Ordering::Release);
    }

    /// Approximate bytes of the store on disk.
    #[must_use]
    pub fn store_bytes(&self) -> u64 {
        self.store.as_ref().map_or(0, |store| store.bytes())
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use ledger::{ChangeParties, Currency, FspName, PartyBinding, PartyChangeForm};
    use ledger::{PartyOwnership, PartyRule};
    use ports::{PARTY_ENTRIES_MAX, StoreMark, WriteBatch};
    use store::Memory;

    use super::*;

    fn key() -> PartyKey {
        PartyKey::of_seed(&[7; 16])
    }

    /// A change by this line: the form, the sender, the FSP and the currency.
    fn change(line: &str, ownership: Option<PartyOwnership>) -> ChangeParties {
        let words: Vec<_> = line.split(' ').collect();
        let name = |text| FspName::new(text).expect("a name");
        let form = match words[0] {
            "register" => PartyChangeForm::Single,
            "batch" => PartyChangeForm::Batch,
            "release" => PartyChangeForm::Delete,
            other => panic!("no form {other}"),
        };
        let party = PartyBinding {
            id_type: "MSISDN".into(),
            id: "+123".into(),
            sub_id: words[1].split_once('/').map(|(_, sub_id)| sub_id.into()),
            currency: words.get(3).and_then(|text| Currency::parse(text)),
            fsp: name(words[2]),
        };
        let source = name(words[1].split('/').next().unwrap_or_default());
        let rule = ownership.map(|ownership| PartyRule { ownership, former: Vec::new() });
        ChangeParties { source, form, parties: vec![party], trace: [0; 16], rule }
    }

    fn served_by(directory: &Directory, sub_id: Option<&str>) -> String {
        let found = directory.find("MSISDN", "123", sub_id).expect("it reads");
        let entries = found.entries.iter().map(|entry| match entry.currency {
            None => entry.fsp.to_string(),
            Some(currency) => format!("{} {currency}", entry.fsp),
        });
        entries.collect::<Vec<_>>().join(", ")
    }

    /// Changes and the entries after each, without and with a sub-identifier. They are visible at
    /// once and remain visible: not written yet, written but still in memory, or only in the store.
    fn check(ownership: Option<PartyOwnership>, table: &[(&str, &str, &str)]) {
        for lag in 0..4 {
            let store = Arc::new(Memory::default());
            let directory = Directory::new(Arc::clone(&store) as _);
            directory.begin(key());
            let mut waiting = VecDeque::new();
            for (at, (line, plain, shop)) in table.iter().enumerate() {
                let log_index = LogIndex(at as u64 + 1);
                let change = change(line, ownership);
                directory.apply(change.view(), log_index);
                let parties = sequencer::party_changes(&key(), change.view(), log_index).collect();
                let mark = StoreMark { log_index, ..StoreMark::default() };
                waiting.push_back(WriteBatch { parties, mark, ..WriteBatch::default() });
                if lag < waiting.len() {
                    let portion = waiting.pop_front().expect("one was just added");
                    store.write(&portion).expect("it writes");
                    if at.is_multiple_of(2) {
                        directory.forget(portion.mark.log_index);
                    }
                }
                let found = [None, Some("shop")].map(|sub_id| served_by(&directory, sub_id));
                assert_eq!(found, [*plain, *shop], "lag {lag}, change {at}: {line}");
            }
        }
    }

    /// A record with hashes changes the entries of an older one in clear, and the other way round.
    #[test]
    fn changes_with_hashes_and_in_clear_meet_in_one_row() {
        let directory = Directory::default();
        directory.begin(key());
        let lines = [
            ("register dfsp1/shop dfsp1 USD", "dfsp1 USD"),
            ("release dfsp1/shop dfsp1", ""),
            ("register dfsp1/shop dfsp1 USD", "dfsp1 USD"),
        ];
        for (at, (line, expected)) in (1..).zip(lines) {
            let mut change = change(line, Some(PartyOwnership::OwnerOnly));
            if at == 2 {
                let names = key().conceal(&mut change.parties).expect("there are names");
                assert_eq!(names.0[0].id.as_deref(), Some("+123"));
            }
            directory.apply(change.view(), LogIndex(at));
            assert_eq!(served_by(&directory, Some("shop")), expected, "{line}");
        }
    }

    /// Records of older versions, which have no rule.
    #[test]
    fn without_a_rule_the_latest_registration_replaces_all_entries() {
        check(
            None,
            &[
                ("register dfsp1 dfsp1", "dfsp1", ""),
                ("register dfsp3/shop dfsp3", "dfsp1", "dfsp3"),
                ("batch dfsp2 dfsp2", "dfsp2", "dfsp3"),
                ("release dfsp1 dfsp1", "", "dfsp3"),
                ("register dfsp4 dfsp4", "dfsp4", "dfsp3"),
                ("release dfsp3/shop dfsp3", "dfsp4", ""),
                ("release dfsp4 dfsp4 EUR", "", ""),
                ("register dfsp4 dfsp4 USD", "dfsp4 USD", ""),
                ("release dfsp4 dfsp4 EUR", "dfsp4 USD", ""),
                ("release dfsp1 dfsp1 KES", "dfsp4 USD", ""),
                ("release dfsp1 dfsp1 USD", "", ""),
                ("register dfsp1 dfsp1 USD", "dfsp1 USD", ""),
                ("register dfsp2 dfsp2 EUR", "dfsp2 EUR", ""),
            ],
        );
    }

    #[test]
    fn an_identifier_has_one_owner() {
        check(
            Some(PartyOwnership::OwnerOnly),
            &[
                ("register dfsp1 dfsp1 USD", "dfsp1 USD", ""),
                ("register dfsp2 dfsp2 KES", "dfsp1 USD", ""),
                ("batch dfsp2 dfsp2", "dfsp1 USD", ""),
                ("register dfsp1 dfsp1 KES", "dfsp1 USD, dfsp1 KES", ""),
                ("release dfsp2 dfsp2 KES", "dfsp1 USD, dfsp1 KES", ""),
                ("register dfsp2/shop dfsp2 KES", "dfsp1 USD, dfsp1 KES", "dfsp2 KES"),
                ("release dfsp1 dfsp1 USD", "dfsp1 KES", "dfsp2 KES"),
                ("register dfsp2 dfsp2 USD", "dfsp1 KES", "dfsp2 KES"),
                ("release dfsp1 dfsp1", "", "dfsp2 KES"),
                ("register dfsp2 dfsp2 USD", "dfsp2 USD", "dfsp2 KES"),
            ],
        );
    }

    #[test]
    fn an_identifier_has_one_owner_per_currency() {
        check(
            Some(PartyOwnership::OwnerPerCurrency),
            &[
                ("register dfsp1 dfsp1 USD", "dfsp1 USD", ""),
                ("register dfsp2 dfsp2 USD", "dfsp1 USD", ""),
                ("register dfsp2 dfsp2", "dfsp1 USD", ""),
                ("register dfsp2 dfsp2 KES", "dfsp1 USD, dfsp2 KES", ""),
                ("batch dfsp2 dfsp2 EUR", "dfsp1 USD, dfsp2 KES, dfsp2 EUR", ""),
                ("release dfsp1 dfsp1 KES", "dfsp1 USD, dfsp2 KES, dfsp2 EUR", ""),
                ("release dfsp2 dfsp2 KES", "dfsp1 USD, dfsp2 EUR", ""),
                ("register dfsp1/shop dfsp1", "dfsp1 USD, dfsp2 EUR", "dfsp1"),
                ("register dfsp2/shop dfsp2 KES", "dfsp1 USD, dfsp2 EUR", "dfsp1"),
                ("register dfsp1/shop dfsp2 KES", "dfsp1 USD, dfsp2 EUR", "dfsp2 KES"),
                ("release dfsp1 dfsp1", "dfsp2 EUR", "dfsp2 KES"),
                ("register dfsp1 dfsp1", "dfsp2 EUR", "dfsp2 KES"),
                ("release dfsp2 dfsp2", "", "dfsp2 KES"),
                ("register dfsp1 dfsp1", "dfsp1", "dfsp2 KES"),
                ("release dfsp1 dfsp1 XOF", "", "dfsp2 KES"),
            ],
        );
    }

    #[test]
    fn the_latest_registration_in_a_currency_wins() {
        check(
            Some(PartyOwnership::LatestWins),
            &[
                ("register dfsp1 dfsp1 USD", "dfsp1 USD", ""),
                ("register dfsp2 dfsp2 KES", "dfsp1 USD, dfsp2 KES", ""),
                ("register dfsp3 dfsp3 USD", "dfsp2 KES, dfsp3 USD", ""),
                ("register dfsp2 dfsp2", "dfsp2 KES, dfsp2", ""),
                ("register dfsp1 dfsp1 USD", "dfsp2 KES, dfsp1 USD", ""),
                ("release dfsp3 dfsp3 KES", "dfsp1 USD", ""),
                ("release dfsp3 dfsp3", "", ""),
            ],
        );
    }

    #[test]
    fn entries_of_an_identifier_are_bounded() {
        let directory = Directory::default();
        directory.begin(key());
        let all = ["USD", "EUR", "KES", "XOF", "TZS", "UGX", "RWF", "ZMW", "NGN", "GHS"];
        let more = ["MWK", "MZN", "ZAR", "BWP", "ETB", "EGP", "MAD", "TND"];
        for (at, currency) in (1..).zip(all.iter().chain(&more)) {
            let line = format!("register dfsp1 dfsp1 {currency}");
            let change = change(&line, Some(PartyOwnership::OwnerOnly));
            directory.apply(change.view(), LogIndex(at));
        }
        let found = directory.find("MSISDN", "123", None).expect("it reads");
        assert_eq!(found.entries.len(), PARTY_ENTRIES_MAX);
    }

    #[test]
    fn without_a_store_all_changes_stay_in_memory() {
        let directory = Directory::default();
        directory.begin(key());
        directory.apply(change("register dfsp1 dfsp1", None).view(), LogIndex(1));
        assert_eq!(served_by(&directory, None), "dfsp1");
        assert_eq!((served_by(&directory, Some("x")), directory.store_bytes()), ("".into(), 0));
    }
}
