//! The model's scheme: participants, accounts and net debit caps (hub-semantics 4.1 to 4.5).

use ledger::{
    AccountId, AccountKind, AlertKind, CreateHubAccount, CreateParticipant, CreateSettlementModel,
    Currency, ENDPOINTS_MAX, FspName, Outcome, SETTLEMENT_MODELS_MAX, SetAccountActive,
    SetEndpoint, SetInitialPositionAndLimits, SetLimit, SetParticipantActive,
    SetSettlementModelActive, SettlementModel, Stamp, State,
};

use super::fees::FEE_RULES;
use super::{Model, Money, Predict};

/// Default warning threshold of a net debit cap, in ten-thousandths of a percent.
const ALARM: Money = 10 * 10_000;

#[derive(Clone, Debug)]
pub(super) struct Account {
    pub(super) kind: AccountKind,
    pub(super) currency: Currency,
    pub(super) value: Money,
    pub(super) active: bool,
    /// Index of its owner among the participants.
    pub(super) owner: usize,
    created: Stamp,
    /// Time of its last posting, including postings of zero.
    changed: Stamp,
}

/// A participant's accounts in one currency, with its net debit cap and alarm.
#[derive(Clone, Copy, Debug)]
pub(super) struct CurrencyAccounts {
    currency: Currency,
    pub(super) position: usize,
    pub(super) settlement: usize,
    pub(super) net_debit_cap: Option<(Money, Money)>,
}

#[derive(Clone, Debug)]
pub(super) struct Participant {
    name: FspName,
    pub(super) active: bool,
    created: Stamp,
    by_currency: Vec<CurrencyAccounts>,
    accounts: Vec<usize>,
    endpoints: Vec<(String, String)>,
}

#[derive(Clone, Debug)]
pub(super) struct Scheme {
    /// The hub comes first.
    participants: Vec<Participant>,
    /// Every account at its number less one, internal ones included: three are opened with the
    /// first account of a currency.
    pub(super) accounts: Vec<Account>,
    models: Vec<SettlementModel>,
    /// Stamp of the current batch.
    stamp: Stamp,
    /// Accounts that it changed.
    touched: Vec<usize>,
}

impl Default for Scheme {
    /// Every scheme starts with one model, deferred net, for all currencies (the rulings).
    fn default() -> Self {
        let model = SettlementModel {
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
        };
        Self {
            participants: Vec::new(),
            accounts: Vec::new(),
            models: vec![model],
            stamp: Stamp(0),
            touched: Vec::new(),
        }
    }
}

impl Scheme {
    pub(super) fn begin(&mut self, stamp: Stamp) {
        self.stamp = stamp;
        self.touched.clear();
    }

    pub(super) fn add_participant(&mut self, name: FspName) {
        self.participants.push(Participant {
            name,
            active: true,
            created: self.stamp,
            by_currency: Vec::new(),
            accounts: Vec::new(),
            endpoints: Vec::new(),
        });
    }

    pub(super) fn participant_number(&self, name: &FspName) -> Option<u32> {
        self.find_index(name).map(|index| index as u32)
    }

    /// A participant other than the hub.
    pub(super) fn fsp(&self, name: &FspName) -> Option<&Participant> {
        let index = self.find_index(name).filter(|index| *index != 0)?;
        Some(&self.participants[index])
    }

    /// The participant, other than the hub, that a message names as its sender. Case is ignored.
    pub(super) fn sender(&self, name: &FspName) -> Option<FspName> {
        if self.fsp(name).is_some() {
            return Some(*name);
        }
        let fsps = self.participants.iter().skip(1).map(|it| it.name);
        fsps.into_iter().find(|it| it.as_str().eq_ignore_ascii_case(name.as_str()))
    }

    pub(super) fn accounts_in(
        &self,
        name: &FspName,
        currency: Currency,
    ) -> Option<&CurrencyAccounts> {
        let index = self.find_index(name)?;
        self.participants[index].by_currency.iter().find(|accounts| accounts.currency == currency)
    }

    /// The account, if it is one of the participant's.
    pub(super) fn is_inactive(&self, name: &FspName) -> bool {
        self.find_index(name).is_some_and(|index| !self.participants[index].active)
    }

    pub(super) fn account_of(&self, name: &FspName, id: AccountId) -> Result<usize, Outcome> {
        let index = self.find_index(name).ok_or(Outcome::ParticipantNotFound)?;
        let account = (id.0 as usize).wrapping_sub(1);
        let owned = self.participants[index].accounts.contains(&account);
        if owned { Ok(account) } else { Err(Outcome::AccountNotFound) }
    }

    /// Position, and net debit cap with its alarm percentage, of a participant in a currency.
    pub(super) fn liquidity(
        &self,
        participant: u32,
        currency: Currency,
    ) -> Option<(Money, Option<(Money, Money)>)> {
        let mut by_currency = self.participants[participant as usize].by_currency.iter();
        let accounts = by_currency.find(|held| held.currency == currency)?;
        Some((self.accounts[accounts.position].value, accounts.net_debit_cap))
    }

    pub(super) fn hub_account(&self, currency: Currency, kind: AccountKind) -> Option<usize> {
        let of_kind = |index: &usize| {
            let account = &self.accounts[*index];
            account.currency == currency && account.kind == kind
        };
        self.participants[0].accounts.iter().copied().find(of_kind)
    }

    /// The POSITION for a SETTLEMENT account.
    pub(super) fn position_for_settlement(&self, settlement: usize) -> Money {
        let owner = self.accounts[settlement].owner;
        let mut by_currency = self.participants[owner].by_currency.iter();
        let accounts = by_currency.find(|accounts| accounts.settlement == settlement);
        accounts.map_or(0, |accounts| self.accounts[accounts.position].value)
    }

    /// Account type and currency of every account.
    pub(super) fn kinds(&self) -> Vec<(AccountKind, Currency)> {
        self.accounts.iter().map(|account| (account.kind, account.currency)).collect()
    }

    pub(super) fn model(&self, name: &str) -> Option<&SettlementModel> {
        self.models.iter().find(|model| model.name == name)
    }

    /// Settlement 1.3: a model without a currency serves the currencies that have no own model.
    pub(super) fn is_served_by(
        &self,
        model: &SettlementModel,
        (kind, currency): (AccountKind, Currency),
    ) -> bool {
        let own = self.active_models(kind, Some(currency)).next();
        let fits = model.currency == Some(currency) || (model.currency.is_none() && own.is_none());
        fits && model.ledger_account == kind
    }

    /// Settlement 1.7: the accounts between which transfers of a currency are settled at once. A
    /// model that names POSITION itself has nothing to move.
    pub(super) fn gross_kind(&self, currency: Currency) -> Option<AccountKind> {
        let gross = |currency| {
            let models = self.active_models(AccountKind::Position, currency);
            let kinds = models.filter(|it| !it.net).map(|it| it.settlement_account);
            kinds.into_iter().find(|kind| *kind != AccountKind::Position)
        };
        let has_net = self.active_models(AccountKind::Position, Some(currency)).any(|it| it.net);
        gross(Some(currency)).or_else(|| gross(None).filter(|_| !has_net))
    }

    /// Whether an active bilateral net model serves an account type in a currency.
    pub(super) fn is_netted_in_pairs(&self, content: (AccountKind, Currency)) -> bool {
        let bilateral = |model: &&SettlementModel| model.active && model.net && !model.multilateral;
        self.models.iter().filter(bilateral).any(|model| self.is_served_by(model, content))
    }

    pub(super) fn net_deferred_models(&self) -> impl Iterator<Item = &SettlementModel> {
        self.models.iter().filter(|it| it.active && it.net && it.deferred)
    }

    fn active_models(
        &self,
        kind: AccountKind,
        currency: Option<Currency>,
    ) -> impl Iterator<Item = &SettlementModel> {
        let of_kind = self.models.iter().filter(move |it| it.active && it.ledger_account == kind);
        of_kind.filter(move |it| it.currency == currency)
    }

    /// The account of another kind, of the same participant in the same currency.
    pub(super) fn account_of_kind(&self, account: usize, kind: AccountKind) -> Option<usize> {
        let Account { owner, currency, .. } = self.accounts[account];
        let of_kind = |at: &usize| {
            let other = &self.accounts[*at];
            (other.kind, other.currency) == (kind, currency)
        };
        self.participants[owner].accounts.iter().copied().find(of_kind)
    }

    /// Whether the POSITION would exceed its net debit cap.
    pub(super) fn exceeds_cap(&self, position: usize, by: Money) -> bool {
        let account = &self.accounts[position];
        let by_currency = &self.participants[account.owner].by_currency;
        let accounts = by_currency.iter().find(|held| held.position == position);
        let cap = accounts.and_then(|held| held.net_debit_cap);
        cap.is_some_and(|(cap, _)| cap < account.value + by)
    }

    /// Raises the net debit cap of a POSITION, if it has one.
    pub(super) fn raise_cap(&mut self, position: usize, by: Money) {
        let owner = self.accounts[position].owner;
        let mut by_currency = self.participants[owner].by_currency.iter_mut();
        let accounts = by_currency.find(|held| held.position == position);
        if let Some((cap, _)) = accounts.and_then(|held| held.net_debit_cap.as_mut()) {
            *cap += by;
        }
    }

    pub(super) fn add(&mut self, account: usize, by: Money) {
        self.accounts[account].value += by;
        self.accounts[account].changed = self.stamp;
        self.touched.push(account);
    }

    /// Compares the accounts that the batch changed.
    pub(super) fn compare_touched(&self, state: &State) {
        for at in &self.touched {
            self.compare_account(state, *at);
        }
    }

    pub(super) fn compare(&self, state: &State) {
        let registry = state.registry();
        assert_eq!(registry.iter().count(), self.participants.len(), "participants");
        for ((_, actual), own) in registry.iter().zip(&self.participants) {
            let accounts = actual.accounts.iter().map(|id| id.0 as usize - 1);
            assert_eq!((actual.name, actual.active), (own.name, own.active), "{own:?}");
            assert_eq!(actual.created, own.created, "when {} joined", own.name);
            assert!(accounts.eq(own.accounts.iter().copied()), "accounts of {actual:?}: {own:?}");
            assert_eq!(actual.endpoints, own.endpoints, "endpoints of {}", own.name);
            let actual_accounts = actual.by_currency.iter().map(|accounts| {
                let net_debit_cap = accounts
                    .net_debit_cap
                    .map(|it| (it.value.units(), it.alarm_percentage.units()));
                (
                    accounts.currency,
                    accounts.position.0 as usize - 1,
                    accounts.settlement.0 as usize - 1,
                    net_debit_cap,
                )
            });
            let expected = own.by_currency.iter();
            let expected = expected.map(|accounts| {
                (accounts.currency, accounts.position, accounts.settlement, accounts.net_debit_cap)
            });
            assert!(actual_accounts.eq(expected), "accounts by currency of {actual:?}: {own:?}");
        }
        assert_eq!(registry.models(), self.models, "settlement models");
        assert_eq!(state.accounts().iter().count(), self.accounts.len(), "accounts");
        for (at, account) in self.accounts.iter().enumerate() {
            if account.kind.name().is_some() {
                self.compare_account(state, at);
            }
        }
    }

    fn compare_account(&self, state: &State, at: usize) {
        let own = &self.accounts[at];
        let actual = state.accounts().get(AccountId(at as u32 + 1)).expect("it was opened");
        let name = self.participants[own.owner].name;
        let times = (actual.created, actual.changed);
        let actual =
            (actual.owner.at(), actual.kind, actual.currency, actual.active, actual.value.units());
        let expected = (own.owner, own.kind, own.currency, own.active, own.value);
        assert_eq!(
            actual,
            expected,
            "account {} of {name}: owner, kind, currency, active, value",
            at + 1
        );
        let expected = (own.created, own.changed);
        assert_eq!(times, expected, "account {} of {name}: created, changed", at + 1);
    }

    fn find_index(&self, name: &FspName) -> Option<usize> {
        self.participants.iter().position(|known| known.name == *name)
    }

    fn known_index(&self, name: &FspName) -> Result<usize, Outcome> {
        self.find_index(name).ok_or(Outcome::ParticipantNotFound)
    }

    fn accounts_in_mut(
        &mut self,
        name: &FspName,
        currency: Currency,
    ) -> Result<&mut CurrencyAccounts, Outcome> {
        let index = self.known_index(name)?;
        let mut by_currency = self.participants[index].by_currency.iter_mut();
        by_currency.find(|accounts| accounts.currency == currency).ok_or(Outcome::AccountNotFound)
    }

    /// 4.1: only some kinds, and each once per currency.
    fn open_hub_account(&mut self, currency: Currency, kind: AccountKind) -> Result<(), Outcome> {
        use AccountKind::{HubFee, HubMultilateralSettlement, HubReconciliation};
        if !matches!(kind, HubReconciliation | HubMultilateralSettlement | HubFee) {
            return Err(Outcome::AccountKindNotForHub);
        }
        if self.hub_account(currency, kind).is_some() {
            return Err(Outcome::AccountExists);
        }
        self.open((0, kind), currency, true);
        Ok(())
    }

    fn add_model(&mut self, model: &SettlementModel, rules: u32) -> Result<(), Outcome> {
        use AccountKind::*;
        let of_fsps = [Position, Settlement, InterchangeFee, InterchangeFeeSettlement];
        if self.models.iter().any(|known| known.name == model.name) {
            return Err(Outcome::SettlementModelExists);
        }
        if ![model.ledger_account, model.settlement_account].iter().all(|it| of_fsps.contains(it)) {
            return Err(Outcome::AccountKindWrong);
        }
        if self.models.len() == SETTLEMENT_MODELS_MAX {
            return Err(Outcome::RegistryFull);
        }
        self.models.push(model.clone());
        if FEE_RULES <= rules && model.ledger_account == InterchangeFee {
            self.open_for_all(model);
        }
        Ok(())
    }

    /// The rules with fees begin, and models of fees exist already.
    pub(super) fn open_fee_accounts(&mut self) {
        for model in self.models.clone() {
            if model.ledger_account == AccountKind::InterchangeFee {
                self.open_for_all(&model);
            }
        }
    }

    /// Settlement 1.8: fee accounts appear when their model is created, for every participant and
    /// currency that it serves. They are active if the participant's others are.
    fn open_for_all(&mut self, model: &SettlementModel) {
        for owner in 0..self.participants.len() {
            for held in self.participants[owner].by_currency.clone() {
                let serves = model.currency.is_none() || model.currency == Some(held.currency);
                let mut kinds = [model.ledger_account, model.settlement_account];
                kinds.sort_unstable();
                for kind in kinds {
                    if serves && self.account_of_kind(held.position, kind).is_none() {
                        self.open((owner, kind), held.currency, held.net_debit_cap.is_some());
                    }
                }
            }
        }
    }

    /// 4.3: a participant with its accounts in a currency, all inactive.
    fn create(&mut self, name: FspName, currency: Currency, rules: u32) -> Result<(), Outcome> {
        let lower = |name: &FspName| name.as_str().to_ascii_lowercase();
        let known = self.find_index(&name);
        let alike = self.participants.iter().any(|other| lower(&other.name) == lower(&name));
        let has =
            known.is_some_and(|index| index == 0 || self.accounts_in(&name, currency).is_some());
        if has || (known.is_none() && alike) {
            return Err(Outcome::ParticipantCurrencyExists);
        }
        let hub = |kind| self.hub_account(currency, kind).is_some();
        if !hub(AccountKind::HubReconciliation) || !hub(AccountKind::HubMultilateralSettlement) {
            return Err(Outcome::HubAccountsMissing);
        }
        let kinds = self.kinds_for(currency, rules).ok_or(Outcome::SettlementModelMissing)?;
        let index = known.unwrap_or_else(|| {
            self.add_participant(name);
            self.participants.len() - 1
        });
        let opened: Vec<(AccountKind, usize)> =
            kinds.iter().map(|kind| (*kind, self.open((index, *kind), currency, false))).collect();
        let of = |kind| opened.iter().find(|(known, _)| *known == kind).expect("it is opened").1;
        let (position, settlement) = (of(AccountKind::Position), of(AccountKind::Settlement));
        let accounts = CurrencyAccounts { currency, position, settlement, net_debit_cap: None };
        self.participants[index].by_currency.push(accounts);
        Ok(())
    }

    /// Account kinds named by the models of a currency, or otherwise the default ones; `None` if no
    /// model serves transfers. Rules with fees choose them for each account type.
    fn kinds_for(&self, currency: Currency, rules: u32) -> Option<Vec<AccountKind>> {
        let of = |wanted| {
            let fits = move |it: &&SettlementModel| it.active && it.currency == wanted;
            self.models.iter().filter(fits).collect::<Vec<_>>()
        };
        let own = of(Some(currency));
        let models = if FEE_RULES <= rules {
            let has_own = |it: &&SettlementModel| {
                own.iter().any(|own| own.ledger_account == it.ledger_account)
            };
            let fits = |it: &&SettlementModel| match it.currency {
                None => it.active && !has_own(it),
                Some(only) => it.active && only == currency,
            };
            self.models.iter().filter(fits).collect()
        } else if own.is_empty() {
            of(None)
        } else {
            own
        };
        let serves = |model: &&SettlementModel| {
            (model.ledger_account, model.settlement_account)
                == (AccountKind::Position, AccountKind::Settlement)
        };
        models.iter().any(serves).then(|| {
            let mut kinds = Vec::new();
            for model in models {
                for kind in [model.ledger_account, model.settlement_account] {
                    if !kinds.contains(&kind) {
                        kinds.push(kind);
                    }
                }
            }
            kinds
        })
    }

    /// 4.3: net debit cap and position are set once, which enables the accounts.
    fn set_initial_limits(
        &mut self,
        (name, currency): (&FspName, Currency),
        net_debit_cap: Money,
        position: Money,
    ) -> Result<(), Outcome> {
        let accounts = self.accounts_in_mut(name, currency)?;
        if accounts.net_debit_cap.is_some() {
            return Err(Outcome::LimitsExist);
        }
        accounts.net_debit_cap = Some((net_debit_cap, ALARM));
        let account = accounts.position;
        let index = self.known_index(name)?;
        for at in self.participants[index].accounts.clone() {
            if self.accounts[at].currency == currency {
                self.accounts[at].active = true;
            }
            // Accounts in other currencies do not change.
            self.touched.push(at);
        }
        // A position of zero needs no posting.
        if position != 0 {
            self.add(account, position);
        }
        Ok(())
    }

    fn set_endpoint(&mut self, name: &FspName, kind: &str, value: &str) -> Result<(), Outcome> {
        let index = self.known_index(name)?;
        let endpoints = &mut self.participants[index].endpoints;
        match endpoints.iter().position(|(known, _)| known == kind) {
            Some(at) => endpoints[at].1 = value.to_owned(),
            None if endpoints.len() == ENDPOINTS_MAX => return Err(Outcome::RegistryFull),
            None => endpoints.push((kind.to_owned(), value.to_owned())),
        }
        Ok(())
    }

    /// Opens an account, and the internal ones of a new currency.
    fn open(
        &mut self,
        (owner, kind): (usize, AccountKind),
        currency: Currency,
        active: bool,
    ) -> usize {
        use AccountKind::{InFlight, Opening, Outflow};
        let (created, changed) = (self.stamp, self.stamp);
        let new = |owner, kind, active| Account {
            kind,
            currency,
            value: 0,
            active,
            owner,
            created,
            changed,
        };
        if self.accounts.iter().all(|known| known.currency != currency) {
            self.accounts.extend([InFlight, Outflow, Opening].map(|kind| new(0, kind, true)));
        }
        self.accounts.push(new(owner, kind, active));
        let at = self.accounts.len() - 1;
        self.participants[owner].accounts.push(at);
        at
    }
}

impl Predict for CreateHubAccount {
    fn predict(&self, model: &mut Model) -> Outcome {
        predicted(model.scheme.open_hub_account(self.currency, self.kind))
    }
}

impl Predict for CreateSettlementModel {
    fn predict(&self, model: &mut Model) -> Outcome {
        let rules = model.rules;
        predicted(model.scheme.add_model(&self.model, rules))
    }
}

impl Predict for SetSettlementModelActive {
    fn predict(&self, model: &mut Model) -> Outcome {
        let known = model.scheme.models.iter_mut().find(|known| known.name == self.name);
        let Some(known) = known else { return Outcome::SettlementModelNotFound };
        known.active = self.active;
        Outcome::Accepted
    }
}

impl Predict for CreateParticipant {
    fn predict(&self, model: &mut Model) -> Outcome {
        let rules = model.rules;
        predicted(model.scheme.create(self.name, self.currency, rules))
    }
}

impl Predict for SetParticipantActive {
    fn predict(&self, model: &mut Model) -> Outcome {
        let index = match model.scheme.known_index(&self.name) {
            Ok(index) => index,
            Err(outcome) => return outcome,
        };
        model.scheme.participants[index].active = self.active;
        Outcome::Accepted
    }
}

impl Predict for SetAccountActive {
    fn predict(&self, model: &mut Model) -> Outcome {
        let account = match model.scheme.account_of(&self.name, self.account) {
            Ok(account) => &mut model.scheme.accounts[account],
            Err(outcome) => return outcome,
        };
        if account.kind != AccountKind::Position {
            return Outcome::AccountKindWrong;
        }
        account.active = self.active;
        Outcome::Accepted
    }
}

impl Predict for SetInitialPositionAndLimits {
    fn predict(&self, model: &mut Model) -> Outcome {
        let owner = (&self.name, self.currency);
        let (net_debit_cap, position) = (self.net_debit_cap.units(), self.position.units());
        predicted(model.scheme.set_initial_limits(owner, net_debit_cap, position))
    }
}

impl Predict for SetLimit {
    fn predict(&self, model: &mut Model) -> Outcome {
        let position =
            model.scheme.accounts_in_mut(&self.name, self.currency).and_then(|accounts| {
                let net_debit_cap =
                    accounts.net_debit_cap.as_mut().ok_or(Outcome::LimitsMissing)?;
                *net_debit_cap = (self.net_debit_cap.units(), self.alarm_percentage.units());
                Ok(accounts.position)
            });
        let participant = model.scheme.participant_number(&self.name);
        predicted(position.map(|position| {
            model.settlement.forget_cap_raises(position);
            let participant = participant.expect("it has a position");
            model.alert(AlertKind::NetDebitCapChanged, participant, self.currency);
        }))
    }
}

impl Predict for SetEndpoint {
    fn predict(&self, model: &mut Model) -> Outcome {
        predicted(model.scheme.set_endpoint(&self.name, &self.endpoint, &self.value))
    }
}

fn predicted(made: Result<(), Outcome>) -> Outcome {
    made.err().unwrap_or(Outcome::Accepted)
}
