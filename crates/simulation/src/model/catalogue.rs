//! The model of what no transfer looks at: oracles, types of accounts and public keys.

use std::collections::BTreeMap;

use ledger::{
    AddKey, Change, CreateLedgerAccountType, CreateOracle, DeleteOracle, Digest, FspName, KEYS_MAX,
    LEDGER_ACCOUNT_TYPES_MAX, LedgerAccountType, ORACLES_MAX, Oracle, Outcome, RemoveKey, State,
    UpdateOracle,
};

/// Types of accounts that every scheme has (4.3).
const OWN_TYPES: [&str; 7] = [
    "POSITION",
    "SETTLEMENT",
    "HUB_RECONCILIATION",
    "HUB_MULTILATERAL_SETTLEMENT",
    "INTERCHANGE_FEE",
    "INTERCHANGE_FEE_SETTLEMENT",
    "HUB_FEE",
];

/// The account.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue {
    oracles: BTreeMap<u32, Oracle>,
    /// Numbers given out.
    numbered: u32,
    types: Vec<LedgerAccountType>,
    keys: BTreeMap<FspName, Vec<Digest>>,
}

impl Catalogue {
    /// What becomes of a change, and makes it; nothing for changes of another kind.
    pub(super) fn decide(
        &mut self,
        change: &Change,
        is_known: impl Fn(&FspName) -> bool,
    ) -> Option<Outcome> {
        let outcome = self.predict(change, is_known)?;
        if outcome == Outcome::Accepted {
            self.make(change);
        }
        Some(outcome)
    }

    /// The register holds what was accepted, and nothing else.
    pub(super) fn compare(&self, state: &State) {
        let register = state.register();
        let kept = register.oracles().iter().map(|(id, oracle)| (&id.0, oracle));
        assert!(kept.eq(&self.oracles), "oracles: {:?}, not {:?}", register.oracles(), self);
        assert_eq!(register.account_types(), self.types, "types of accounts");
        for (_, participant) in register.iter() {
            let expected = self.keys.get(&participant.name).map_or(&[][..], Vec::as_slice);
            let kept = participant.keys.iter().map(|key| &key.id);
            assert!(kept.eq(expected), "keys of {}: {:?}", participant.name, participant.keys);
        }
    }

    fn predict(&self, change: &Change, is_known: impl Fn(&FspName) -> bool) -> Option<Outcome> {
        let checks = match change {
            Change::CreateOracle(CreateOracle { oracle }) => vec![
                (self.is_taken(oracle, 0), Outcome::OracleExists),
                (self.oracles.len() == ORACLES_MAX, Outcome::RegisterFull),
            ],
            Change::UpdateOracle(UpdateOracle { id, .. }) => {
                let changed = self.changed(change);
                let taken = changed.is_some_and(|oracle| self.is_taken(&oracle, id.0));
                let is_there = self.oracles.contains_key(&id.0);
                vec![(!is_there, Outcome::OracleNotFound), (taken, Outcome::OracleExists)]
            }
            Change::DeleteOracle(_) => Vec::new(),
            Change::CreateLedgerAccountType(CreateLedgerAccountType { account_type: added }) => {
                let known = self.types.iter().any(|known| known.name == added.name);
                let own = OWN_TYPES.contains(&added.name.as_str());
                let full = self.types.len() == LEDGER_ACCOUNT_TYPES_MAX;
                vec![
                    (known || own, Outcome::LedgerAccountTypeExists),
                    (full, Outcome::RegisterFull),
                ]
            }
            Change::AddKey(AddKey { name, id, .. }) => {
                let keys = self.keys.get(name).map_or(&[][..], Vec::as_slice);
                let full = keys.len() == KEYS_MAX && !keys.contains(id);
                vec![(!is_known(name), Outcome::ParticipantNotFound), (full, Outcome::KeysFull)]
            }
            Change::RemoveKey(RemoveKey { name, id }) => {
                let held = self.keys.get(name).is_some_and(|keys| keys.contains(id));
                vec![(!is_known(name), Outcome::ParticipantNotFound), (!held, Outcome::KeyNotFound)]
            }
            _ => return None,
        };
        let refusal = checks.iter().find(|(refused, _)| *refused);
        Some(refusal.map_or(Outcome::Accepted, |(_, outcome)| *outcome))
    }

    fn is_taken(&self, oracle: &Oracle, except: u32) -> bool {
        let key = |oracle: &Oracle| (oracle.id_type.clone(), oracle.currency);
        let mut others = self.oracles.iter().filter(|(id, _)| **id != except);
        others.any(|(_, known)| key(known) == key(oracle))
    }

    /// The oracle of an update as it would be.
    fn changed(&self, change: &Change) -> Option<Oracle> {
        let Change::UpdateOracle(UpdateOracle { id, update }) = change else { return None };
        let mut oracle = self.oracles.get(&id.0)?.clone();
        oracle.id_type = update.id_type.clone().unwrap_or(oracle.id_type);
        oracle.endpoint = update.endpoint.clone().unwrap_or(oracle.endpoint);
        oracle.currency = update.currency.or(oracle.currency);
        oracle.default = update.default.unwrap_or(oracle.default);
        Some(oracle)
    }

    fn make(&mut self, change: &Change) {
        match change {
            Change::CreateOracle(CreateOracle { oracle }) => {
                self.numbered += 1;
                self.oracles.insert(self.numbered, oracle.clone());
            }
            Change::UpdateOracle(UpdateOracle { id, .. }) => {
                let changed = self.changed(change).expect("the kernel accepted it");
                self.oracles.insert(id.0, changed);
            }
            Change::DeleteOracle(DeleteOracle { id }) => _ = self.oracles.remove(&id.0),
            Change::CreateLedgerAccountType(CreateLedgerAccountType { account_type: added }) => {
                self.types.push(added.clone())
            }
            Change::AddKey(AddKey { name, id, .. }) => {
                let keys = self.keys.entry(*name).or_default();
                if !keys.contains(id) {
                    keys.push(*id);
                }
            }
            Change::RemoveKey(RemoveKey { name, id }) => {
                self.keys.entry(*name).or_default().retain(|held| held != id);
            }
            _ => {}
        }
    }
}
