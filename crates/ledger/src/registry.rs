//! The registry of the scheme: participants with their accounts, net debit caps and endpoints.

use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::accounts::AccountKind;
use crate::change::{KEY_BYTES_MAX, LedgerAccountType, Oracle, SettlementModel};
use crate::field::InvalidState;
use crate::field::{Bytes, LONG, Pair, RowList, SHORT, Text, stored};
use crate::hashing::KeyedHashing;
use crate::ids::{AccountId, Digest, FspName, OracleId, ParticipantIndex, Stamp};
use crate::money::{Amount, Currency};

/// Maximum number of participants.
pub const PARTICIPANTS_MAX: usize = 10_000;
/// Maximum number of endpoint types per participant.
pub const ENDPOINTS_MAX: usize = 128;
/// Maximum number of settlement models.
pub const SETTLEMENT_MODELS_MAX: usize = 256;
/// Maximum number of oracles at a time.
pub const ORACLES_MAX: usize = 1_000;
/// Maximum number of account types added to the kernel's own.
pub const LEDGER_ACCOUNT_TYPES_MAX: usize = 64;

/// The share of the threshold, in percent, at which a raised alarm is cleared.
const CLEARED_PERCENT: i128 = 95;
/// Ten-thousandths of a percent in the whole.
const WHOLE: i128 = 100 * 10_000;
/// Maximum number of public keys per participant: old and new ones during a rotation.
pub const KEYS_MAX: usize = 4;

stored! {
    /// A public key of a participant.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PublicKey {
        /// SHA-256 of `der`.
        pub id: Digest,
        /// The `SubjectPublicKeyInfo`, in DER.
        pub der: Vec<u8> as Bytes<KEY_BYTES_MAX>,
        /// Time of its addition.
        pub added: Stamp,
    }
}

stored! {
    /// A net debit cap.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct NetDebitCap {
        /// The amount.
        pub value: Amount,
        /// Share at which the operator is warned, in percent.
        pub alarm_percentage: Amount,
    }
}

impl NetDebitCap {
    /// The position at which the alarm is raised: the alarm percentage of the cap.
    #[must_use]
    pub fn threshold(&self) -> Amount {
        let product = self.value.units().checked_mul(self.alarm_percentage.units());
        Amount::from_units(product.map_or(i128::MAX, |product| product / WHOLE))
    }

    /// Whether this position raises the alarm, or keeps one that is raised.
    pub(crate) fn alarms_at(&self, position: Amount, is_raised: bool) -> bool {
        let threshold = self.threshold().units();
        let bound = match is_raised {
            true => threshold / 100 * CLEARED_PERCENT,
            false => threshold,
        };
        0 < position.units() && bound <= position.units()
    }
}

stored! {
    /// A participant's accounts in one currency.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CurrencyAccounts {
        /// The currency.
        pub currency: Currency,
        /// Its POSITION account.
        pub position: AccountId,
        /// Its SETTLEMENT account: the liquidity cover.
        pub settlement: AccountId,
        /// Its net debit cap, once set.
        pub net_debit_cap: Option<NetDebitCap>,
    }
}

stored! {
    /// A member of the scheme, or the hub.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Participant {
        /// Its name on the wire.
        pub name: FspName,
        /// Whether it may send and receive.
        pub active: bool,
        /// Time of its creation.
        pub created: Stamp,
        /// POSITION and SETTLEMENT per currency.
        pub by_currency: Vec<CurrencyAccounts> as RowList,
        /// All its visible accounts, in order of creation.
        pub accounts: Vec<AccountId> as RowList,
        /// Endpoint type and value, in order of first setting.
        pub endpoints: Vec<(String, String)> as RowList<Pair<Text<SHORT>, Text<LONG>>>,
        /// Its public keys, oldest first.
        pub keys: Vec<PublicKey> as RowList,
    }
}

impl Participant {
    fn new(name: FspName, stamp: Stamp) -> Self {
        Self {
            name,
            active: true,
            created: stamp,
            by_currency: Vec::new(),
            accounts: Vec::new(),
            endpoints: Vec::new(),
            keys: Vec::new(),
        }
    }

    /// The participant's accounts in a currency.
    #[must_use]
    pub fn accounts_in(&self, currency: Currency) -> Option<&CurrencyAccounts> {
        self.by_currency.iter().find(|accounts| accounts.currency == currency)
    }

    pub(crate) fn accounts_in_mut(&mut self, currency: Currency) -> Option<&mut CurrencyAccounts> {
        self.by_currency.iter_mut().find(|accounts| accounts.currency == currency)
    }

    /// Sets or overwrites an endpoint. Returns false if there is no room for a new type.
    pub(crate) fn set_endpoint(&mut self, endpoint: &str, value: &str) -> bool {
        if let Some(known) = self.endpoints.iter_mut().find(|(name, _)| name == endpoint) {
            known.1 = value.into();
            return true;
        }
        if self.endpoints.len() == ENDPOINTS_MAX {
            return false;
        }
        self.endpoints.push((endpoint.into(), value.into()));
        true
    }
}

/// All participants, settlement models, oracles and added account types.
#[derive(Clone, Debug)]
pub struct Registry {
    participants: Vec<Participant>,
    by_name: HashMap<FspName, ParticipantIndex, KeyedHashing>,
    /// Index by the name in lower case.
    folded: HashMap<FspName, ParticipantIndex, KeyedHashing>,
    models: Vec<SettlementModel>,
    oracles: Vec<(OracleId, Oracle)>,
    /// The newest number. Numbers are never reused.
    last_oracle: OracleId,
    account_types: Vec<LedgerAccountType>,
}

/// Reference data other than participants.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReferenceData {
    pub(crate) models: Vec<SettlementModel>,
    pub(crate) oracles: Vec<(OracleId, Oracle)>,
    pub(crate) last_oracle: OracleId,
    pub(crate) account_types: Vec<LedgerAccountType>,
}

impl Registry {
    /// Restores the registry from its rows, in order.
    pub(crate) fn restore(
        keyed: KeyedHashing,
        participants: Vec<Participant>,
        catalogue: ReferenceData,
    ) -> Result<Self, InvalidState> {
        let mut registry = Self {
            models: catalogue.models,
            oracles: catalogue.oracles,
            last_oracle: catalogue.last_oracle,
            account_types: catalogue.account_types,
            ..Self::new(keyed)
        };
        for participant in participants {
            let fits = participant.endpoints.len() <= ENDPOINTS_MAX
                && participant.keys.len() <= KEYS_MAX
                && participant.keys.iter().all(|key| key.der.len() <= KEY_BYTES_MAX);
            if !fits || registry.has_alike(&participant.name) {
                return Err(InvalidState("a participant occurs twice, or has too many entries"));
            }
            let index = registry.add(participant.name, participant.created);
            registry.participants[index.at()] = participant;
        }
        Ok(registry)
    }

    pub(crate) fn new(keyed: KeyedHashing) -> Self {
        Self {
            participants: Vec::new(),
            by_name: HashMap::with_hasher(keyed),
            folded: HashMap::with_hasher(keyed),
            models: Vec::from([default_model()]),
            oracles: Vec::new(),
            last_oracle: OracleId(0),
            account_types: Vec::new(),
        }
    }

    /// The participant with this exact name.
    #[must_use]
    pub fn find(&self, name: &FspName) -> Option<(ParticipantIndex, &Participant)> {
        let index = *self.by_name.get(name)?;
        Some((index, &self.participants[index.at()]))
    }

    /// The participant, other than the hub, that a message names as its sender. Case is ignored, as
    /// for the parties of a transfer (hub-semantics 3.6): a known participant must not become
    /// unknown by the case of its name.
    #[must_use]
    pub fn sender(&self, name: &FspName) -> Option<ParticipantIndex> {
        let index = self.by_name.get(name).or_else(|| self.folded.get(&name.folded()));
        index.copied().filter(|index| *index != ParticipantIndex::HUB)
    }

    /// The participant with this index, which must come from this registry.
    #[must_use]
    pub fn get(&self, index: ParticipantIndex) -> &Participant {
        &self.participants[index.at()]
    }

    /// All participants with their indices, the hub first.
    pub fn iter(&self) -> impl Iterator<Item = (ParticipantIndex, &Participant)> {
        self.participants
            .iter()
            .enumerate()
            .map(|(at, participant)| (ParticipantIndex(at as u32), participant))
    }

    /// All settlement models, oldest first.
    #[must_use]
    pub fn models(&self) -> &[SettlementModel] {
        &self.models
    }

    /// All oracles with their numbers, oldest first.
    #[must_use]
    pub fn oracles(&self) -> &[(OracleId, Oracle)] {
        &self.oracles
    }

    /// The newest oracle number, 0 before the first one.
    #[must_use]
    pub const fn last_oracle(&self) -> OracleId {
        self.last_oracle
    }

    /// Account types added to the kernel's own, oldest first.
    #[must_use]
    pub fn account_types(&self) -> &[LedgerAccountType] {
        &self.account_types
    }

    /// The settlement models for new accounts in `currency`: those of the currency, otherwise the
    /// default ones.
    pub(crate) fn models_for(&self, currency: Currency) -> Vec<SettlementModel> {
        let active = || self.models.iter().filter(|model| model.active);
        let own: Vec<_> =
            active().filter(|model| model.currency == Some(currency)).cloned().collect();
        if own.is_empty() {
            return active().filter(|model| model.currency.is_none()).cloned().collect();
        }
        own
    }

    /// The active models that serve their account type in a currency.
    pub(crate) fn models_serving(&self, currency: Currency) -> Vec<SettlementModel> {
        let serves = |model: &&SettlementModel| {
            model.active && self.is_served(model, (model.ledger_account, currency))
        };
        self.models.iter().filter(serves).cloned().collect()
    }

    /// Whether a model settles an account type in a currency: it names the currency, or it names
    /// none and no active model of the account type names the currency.
    #[must_use]
    pub fn is_served(&self, model: &SettlementModel, content: (AccountKind, Currency)) -> bool {
        let (kind, currency) = content;
        let is_own = |other: &SettlementModel| {
            other.active && other.ledger_account == kind && other.currency == Some(currency)
        };
        let fits = match model.currency {
            Some(only) => only == currency,
            None => !self.models.iter().any(is_own),
        };
        fits && model.ledger_account == kind
    }

    pub(crate) fn model_mut(&mut self, name: &str) -> Option<&mut SettlementModel> {
        self.models.iter_mut().find(|model| model.name == name)
    }

    pub(crate) fn add_model(&mut self, model: SettlementModel) {
        self.models.push(model);
    }

    pub(crate) fn add_oracle(&mut self, oracle: Oracle) {
        self.last_oracle = OracleId(self.last_oracle.0 + 1);
        self.oracles.push((self.last_oracle, oracle));
    }

    pub(crate) fn oracle_mut(&mut self, id: OracleId) -> Option<&mut Oracle> {
        self.oracles.iter_mut().find(|(known, _)| *known == id).map(|(_, oracle)| oracle)
    }

    pub(crate) fn remove_oracle(&mut self, id: OracleId) {
        self.oracles.retain(|(known, _)| *known != id);
    }

    pub(crate) fn add_account_type(&mut self, added: LedgerAccountType) {
        self.account_types.push(added);
    }

    pub(crate) fn add(&mut self, name: FspName, stamp: Stamp) -> ParticipantIndex {
        let index = ParticipantIndex(self.participants.len() as u32);
        self.participants.push(Participant::new(name, stamp));
        let known = self.by_name.insert(name, index);
        assert!(known.is_none(), "a participant is added once");
        let alike = self.folded.insert(name.folded(), index);
        assert!(alike.is_none(), "names differ by more than case");
        index
    }

    pub(crate) fn find_mut(
        &mut self,
        name: &FspName,
    ) -> Option<(ParticipantIndex, &mut Participant)> {
        let index = *self.by_name.get(name)?;
        Some((index, &mut self.participants[index.at()]))
    }

    /// Whether a name that differs only in case is taken.
    pub(crate) fn has_alike(&self, name: &FspName) -> bool {
        self.folded.contains_key(&name.folded())
    }

    pub(crate) fn get_mut(&mut self, index: ParticipantIndex) -> &mut Participant {
        &mut self.participants[index.at()]
    }

    pub(crate) fn len(&self) -> usize {
        self.participants.len()
    }
}

/// The initial model of every scheme, so that onboarding works without settlement.
fn default_model() -> SettlementModel {
    SettlementModel {
        name: "DEFAULTDEFERREDNET".into(),
        net: true,
        multilateral: true,
        deferred: true,
        currency: None,
        liquidity_check: true,
        auto_position_reset: true,
        ledger_account: AccountKind::Position,
        settlement_account: AccountKind::Settlement,
        active: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_is_raised_at_the_threshold_and_cleared_below_it() {
        let amount = |units: i128| Amount::from_units(units * 10_000);
        let cap = NetDebitCap { value: amount(1_000), alarm_percentage: amount(80) };
        assert_eq!(cap.threshold(), amount(800));
        let at = |position, is_raised| cap.alarms_at(amount(position), is_raised);
        assert_eq!([799, 800, 801].map(|position| at(position, false)), [false, true, true]);
        assert_eq!([759, 760, 801].map(|position| at(position, true)), [false, true, true]);
        let none = NetDebitCap { value: Amount::ZERO, ..cap };
        assert_eq!(
            [0, 1].map(|units| none.alarms_at(Amount::from_units(units), false)),
            [false, true]
        );
        let endless = NetDebitCap { alarm_percentage: Amount::from_units(i128::MAX / 2), ..cap };
        assert!(!endless.alarms_at(amount(1_000_000), false));
    }
}
