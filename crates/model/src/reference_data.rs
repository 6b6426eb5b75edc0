//! The model of reference data that transfers do not use: oracles, account types and public keys.

use std::collections::BTreeMap;

use ledger::{
    AddKey, CreateLedgerAccountType, CreateOracle, DeleteOracle, Digest, FspName, KEYS_MAX,
    LEDGER_ACCOUNT_TYPES_MAX, LedgerAccountType, ORACLES_MAX, Oracle, Outcome, RemoveKey, State,
    UpdateOracle,
};

use super::{Model, Predict};

/// Account types of every scheme (4.3).
const OWN_TYPES: [&str; 7] = [
    "POSITION",
    "SETTLEMENT",
    "HUB_RECONCILIATION",
    "HUB_MULTILATERAL_SETTLEMENT",
    "INTERCHANGE_FEE",
    "INTERCHANGE_FEE_SETTLEMENT",
    "HUB_FEE",
];

/// The reference data.
#[derive(Clone, Debug, Default)]
pub(super) struct ReferenceData {
    oracles: BTreeMap<u32, Oracle>,
    /// Newest number of an oracle.
    numbered: u32,
    types: Vec<LedgerAccountType>,
    keys: BTreeMap<FspName, Vec<Digest>>,
}

impl ReferenceData {
    /// The registry holds exactly the accepted entries.
    pub(super) fn compare(&self, state: &State) {
        let registry = state.registry();
        let actual = registry.oracles().iter().map(|(id, oracle)| (&id.0, oracle));
        assert!(actual.eq(&self.oracles), "oracles: {:?}, not {:?}", registry.oracles(), self);
        assert_eq!(registry.account_types(), self.types, "types of accounts");
        for (_, participant) in registry.iter() {
            let expected = self.keys.get(&participant.name).map_or(&[][..], Vec::as_slice);
            let actual = participant.keys.iter().map(|key| &key.id);
            assert!(actual.eq(expected), "keys of {}: {:?}", participant.name, participant.keys);
        }
    }

    fn is_taken(&self, oracle: &Oracle, except: u32) -> bool {
        let key = |oracle: &Oracle| (oracle.id_type.clone(), oracle.currency);
        let mut others = self.oracles.iter().filter(|(id, _)| **id != except);
        others.any(|(_, known)| key(known) == key(oracle))
    }

    fn keys_of(&mut self, name: &FspName) -> &mut Vec<Digest> {
        self.keys.entry(*name).or_default()
    }
}

impl Predict for CreateOracle {
    fn predict(&self, model: &mut Model) -> Outcome {
        let known = &mut model.reference_data;
        if known.is_taken(&self.oracle, 0) {
            return Outcome::OracleExists;
        }
        if known.oracles.len() == ORACLES_MAX {
            return Outcome::RegistryFull;
        }
        known.numbered += 1;
        known.oracles.insert(known.numbered, self.oracle.clone());
        Outcome::Accepted
    }
}

impl Predict for UpdateOracle {
    fn predict(&self, model: &mut Model) -> Outcome {
        let (known, update) = (&mut model.reference_data, &self.update);
        let Some(mut oracle) = known.oracles.get(&self.id.0).cloned() else {
            return Outcome::OracleNotFound;
        };
        oracle.id_type = update.id_type.clone().unwrap_or(oracle.id_type);
        oracle.endpoint = update.endpoint.clone().unwrap_or(oracle.endpoint);
        oracle.currency = update.currency.or(oracle.currency);
        oracle.default = update.default.unwrap_or(oracle.default);
        if known.is_taken(&oracle, self.id.0) {
            return Outcome::OracleExists;
        }
        known.oracles.insert(self.id.0, oracle);
        Outcome::Accepted
    }
}

impl Predict for DeleteOracle {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.reference_data.oracles.remove(&self.id.0);
        Outcome::Accepted
    }
}

impl Predict for CreateLedgerAccountType {
    fn predict(&self, model: &mut Model) -> Outcome {
        let (types, added) = (&mut model.reference_data.types, &self.account_type);
        let known = types.iter().any(|known| known.name == added.name);
        if known || OWN_TYPES.contains(&added.name.as_str()) {
            return Outcome::LedgerAccountTypeExists;
        }
        if types.len() == LEDGER_ACCOUNT_TYPES_MAX {
            return Outcome::RegistryFull;
        }
        types.push(added.clone());
        Outcome::Accepted
    }
}

impl Predict for AddKey {
    fn predict(&self, model: &mut Model) -> Outcome {
        if model.scheme.participant_number(&self.name).is_none() {
            return Outcome::ParticipantNotFound;
        }
        let keys = model.reference_data.keys_of(&self.name);
        if keys.contains(&self.id) {
            return Outcome::Accepted;
        }
        if keys.len() == KEYS_MAX {
            return Outcome::KeysFull;
        }
        keys.push(self.id);
        Outcome::Accepted
    }
}

impl Predict for RemoveKey {
    fn predict(&self, model: &mut Model) -> Outcome {
        if model.scheme.participant_number(&self.name).is_none() {
            return Outcome::ParticipantNotFound;
        }
        let keys = model.reference_data.keys_of(&self.name);
        let Some(at) = keys.iter().position(|held| *held == self.id) else {
            return Outcome::KeyNotFound;
        };
        keys.remove(at);
        Outcome::Accepted
    }
}
