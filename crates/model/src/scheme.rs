//! The model's scheme: participants, accounts and net debit caps (hub-semantics 4.1 to 4.5).

use ledger::{
    AccountId, AccountKind, AlertKind, CreateHubAccount, CreateParticipant, CreateSettlementModel,
    Currency, ENDPOINTS_MAX, FspName, Outcome, SETTLEMENT_MODELS_MAX, SetAccountActive,
    SetEndpoint, SetInitialPositionAndLimits, SetLimit, SetParticipantActive,
    SetSettlementModelActive, SettlementModel, Stamp, State,
};

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
pub(super) struct Holding {
    currency: Currency,
    pub(super) position: usize,
    pub(super) settlement: usize,
    pub(super) cap: Option<(Money, Money)>,
}

#[derive(Clone, Debug)]
pub(super) struct Participant {
    name: FspName,
    pub(super) active: bool,
    created: Stamp,
    holdings: Vec<Holding>,
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

    pub(super) fn join(&mut self, name: FspName) {
        self.participants.push(Participant {
            name,
            active: true,
            created: self.stamp,
            holdings: Vec::new(),
            accounts: Vec::new(),
            endpoints: Vec::new(),
        });
    }

    pub(super) fn index_of(&self, name: &FspName) -> Option<u32> {
        self.place_of(name).map(|place| place as u32)
    }

    /// A participant other than the hub.
    pub(super) fn fsp(&self, name: &FspName) -> Option<&Participant> {
        let place = self.place_of(name).filter(|place| *place != 0)?;
        Some(&self.participants[place])
    }

    /// The participant, other than the hub, that a message names as its sender. Case is ignored.
    pub(super) fn sender(&self, name: &FspName) -> Option<FspName> {
        if self.fsp(name).is_some() {
            return Some(*name);
        }
        let fsps = self.participants.iter().skip(1).map(|it| it.name);
        fsps.into_iter().find(|it| it.as_str().eq_ignore_ascii_case(name.as_str()))
    }

    pub(super) fn holding(&self, name: &FspName, currency: Currency) -> Option<&Holding> {
        let place = self.place_of(name)?;
        self.participants[place].holdings.iter().find(|held| held.currency == currency)
    }

    /// The account, if it is one of the participant's.
    pub(super) fn is_switched_off(&self, name: &FspName) -> bool {
        self.place_of(name).is_some_and(|place| !self.participants[place].active)
    }

    pub(super) fn account_of(&self, name: &FspName, id: AccountId) -> Result<usize, Outcome> {
        let place = self.place_of(name).ok_or(Outcome::ParticipantNotFound)?;
        let account = (id.0 as usize).wrapping_sub(1);
        let owned = self.participants[place].accounts.contains(&account);
        if owned { Ok(account) } else { Err(Outcome::AccountNotFound) }
    }

    /// Position, and net debit cap with its alarm percentage, of a participant in a currency.
    pub(super) fn liquidity(
        &self,
        participant: u32,
        currency: Currency,
    ) -> Option<(Money, Option<(Money, Money)>)> {
        let mut holdings = self.participants[participant as usize].holdings.iter();
        let holding = holdings.find(|held| held.currency == currency)?;
        Some((self.accounts[holding.position].value, holding.cap))
    }

    pub(super) fn hub_account(&self, currency: Currency, kind: AccountKind) -> Option<usize> {
        let of_kind = |place: &usize| {
            let account = &self.accounts[*place];
            account.currency == currency && account.kind == kind
        };
        self.participants[0].accounts.iter().copied().find(of_kind)
    }

    /// The POSITION for a SETTLEMENT account.
    pub(super) fn position_beside(&self, settlement: usize) -> Money {
        let owner = self.accounts[settlement].owner;
        let mut holdings = self.participants[owner].holdings.iter();
        let holding = holdings.find(|held| held.settlement == settlement);
        holding.map_or(0, |held| self.accounts[held.position].value)
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

    /// Whether an active bilateral net model serves transfers in a currency.
    pub(super) fn is_netted_in_pairs(&self, currency: Currency) -> bool {
        let bilateral = |model: &&SettlementModel| model.active && model.net && !model.multilateral;
        let content = (AccountKind::Position, currency);
        self.models.iter().filter(bilateral).any(|model| self.is_served_by(model, content))
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
    pub(super) fn account_beside(&self, account: usize, kind: AccountKind) -> Option<usize> {
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
        let holdings = &self.participants[account.owner].holdings;
        let holding = holdings.iter().find(|held| held.position == position);
        let cap = holding.and_then(|held| held.cap);
        cap.is_some_and(|(cap, _)| cap < account.value + by)
    }

    /// Raises the net debit cap of a POSITION, if it has one.
    pub(super) fn raise_cap(&mut self, position: usize, by: Money) {
        let owner = self.accounts[position].owner;
        let mut holdings = self.participants[owner].holdings.iter_mut();
        let holding = holdings.find(|held| held.position == position);
        if let Some((cap, _)) = holding.and_then(|held| held.cap.as_mut()) {
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
        let register = state.register();
        assert_eq!(register.iter().count(), self.participants.len(), "participants");
        for ((_, kept), own) in register.iter().zip(&self.participants) {
            let accounts = kept.accounts.iter().map(|id| id.0 as usize - 1);
            assert_eq!((kept.name, kept.active), (own.name, own.active), "{own:?}");
            assert_eq!(kept.created, own.created, "when {} joined", own.name);
            assert!(accounts.eq(own.accounts.iter().copied()), "accounts of {kept:?}: {own:?}");
            assert_eq!(kept.endpoints, own.endpoints, "endpoints of {}", own.name);
            let caps = kept.holdings.iter().map(|held| {
                let cap = held.limit.map(|it| (it.value.units(), it.alarm_percentage.units()));
                (held.currency, held.position.0 as usize - 1, held.settlement.0 as usize - 1, cap)
            });
            let mine = own.holdings.iter();
            let mine = mine.map(|held| (held.currency, held.position, held.settlement, held.cap));
            assert!(caps.eq(mine), "holdings of {kept:?}: {own:?}");
        }
        assert_eq!(register.models(), self.models, "settlement models");
        assert_eq!(state.books().iter().count(), self.accounts.len(), "accounts");
        for (at, account) in self.accounts.iter().enumerate() {
            if account.kind.name().is_some() {
                self.compare_account(state, at);
            }
        }
    }

    fn compare_account(&self, state: &State, at: usize) {
        let own = &self.accounts[at];
        let kept = state.books().get(AccountId(at as u32 + 1)).expect("it was opened");
        let name = self.participants[own.owner].name;
        let times = (kept.created, kept.changed);
        let kept = (kept.owner.at(), kept.kind, kept.currency, kept.active, kept.value.units());
        let expected = (own.owner, own.kind, own.currency, own.active, own.value);
        assert_eq!(
            kept,
            expected,
            "account {} of {name}: owner, kind, currency, active, value",
            at + 1
        );
        let expected = (own.created, own.changed);
        assert_eq!(times, expected, "account {} of {name}: created, changed", at + 1);
    }

    fn place_of(&self, name: &FspName) -> Option<usize> {
        self.participants.iter().position(|known| known.name == *name)
    }

    fn known(&self, name: &FspName) -> Result<usize, Outcome> {
        self.place_of(name).ok_or(Outcome::ParticipantNotFound)
    }

    fn held(&mut self, name: &FspName, currency: Currency) -> Result<&mut Holding, Outcome> {
        let place = self.known(name)?;
        let mut holdings = self.participants[place].holdings.iter_mut();
        holdings.find(|held| held.currency == currency).ok_or(Outcome::AccountNotFound)
    }

    /// 4.1: only some kinds, and each once per currency.
    fn open_of_hub(&mut self, currency: Currency, kind: AccountKind) -> Result<(), Outcome> {
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

    fn add_model(&mut self, model: &SettlementModel) -> Result<(), Outcome> {
        use AccountKind::*;
        let of_fsps = [Position, Settlement, InterchangeFee, InterchangeFeeSettlement];
        if self.models.iter().any(|known| known.name == model.name) {
            return Err(Outcome::SettlementModelExists);
        }
        if ![model.ledger_account, model.settlement_account].iter().all(|it| of_fsps.contains(it)) {
            return Err(Outcome::AccountKindWrong);
        }
        if self.models.len() == SETTLEMENT_MODELS_MAX {
            return Err(Outcome::RegisterFull);
        }
        self.models.push(model.clone());
        Ok(())
    }

    /// 4.3: a participant with its accounts in a currency, all inactive.
    fn create(&mut self, name: FspName, currency: Currency) -> Result<(), Outcome> {
        let lower = |name: &FspName| name.as_str().to_ascii_lowercase();
        let known = self.place_of(&name);
        let alike = self.participants.iter().any(|other| lower(&other.name) == lower(&name));
        let has = known.is_some_and(|place| place == 0 || self.holding(&name, currency).is_some());
        if has || (known.is_none() && alike) {
            return Err(Outcome::ParticipantCurrencyExists);
        }
        let hub = |kind| self.hub_account(currency, kind).is_some();
        if !hub(AccountKind::HubReconciliation) || !hub(AccountKind::HubMultilateralSettlement) {
            return Err(Outcome::HubAccountsMissing);
        }
        let kinds = self.kinds_for(currency).ok_or(Outcome::SettlementModelMissing)?;
        let place = known.unwrap_or_else(|| {
            self.join(name);
            self.participants.len() - 1
        });
        let opened: Vec<(AccountKind, usize)> =
            kinds.iter().map(|kind| (*kind, self.open((place, *kind), currency, false))).collect();
        let of = |kind| opened.iter().find(|(known, _)| *known == kind).expect("it is opened").1;
        let (position, settlement) = (of(AccountKind::Position), of(AccountKind::Settlement));
        let holding = Holding { currency, position, settlement, cap: None };
        self.participants[place].holdings.push(holding);
        Ok(())
    }

    /// Account kinds named by the models of a currency, or otherwise the default ones; `None` if no
    /// model serves transfers.
    fn kinds_for(&self, currency: Currency) -> Option<Vec<AccountKind>> {
        let of = |wanted| {
            let fits = move |it: &&SettlementModel| it.active && it.currency == wanted;
            self.models.iter().filter(fits).collect::<Vec<_>>()
        };
        let own = of(Some(currency));
        let models = if own.is_empty() { of(None) } else { own };
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
    fn begin_holding(
        &mut self,
        (name, currency): (&FspName, Currency),
        cap: Money,
        position: Money,
    ) -> Result<(), Outcome> {
        let held = self.held(name, currency)?;
        if held.cap.is_some() {
            return Err(Outcome::LimitsExist);
        }
        held.cap = Some((cap, ALARM));
        let account = held.position;
        let place = self.known(name)?;
        for at in self.participants[place].accounts.clone() {
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
        let place = self.known(name)?;
        let endpoints = &mut self.participants[place].endpoints;
        match endpoints.iter().position(|(known, _)| known == kind) {
            Some(at) => endpoints[at].1 = value.to_owned(),
            None if endpoints.len() == ENDPOINTS_MAX => return Err(Outcome::RegisterFull),
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
        predicted(model.scheme.open_of_hub(self.currency, self.kind))
    }
}

impl Predict for CreateSettlementModel {
    fn predict(&self, model: &mut Model) -> Outcome {
        predicted(model.scheme.add_model(&self.model))
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
        predicted(model.scheme.create(self.name, self.currency))
    }
}

impl Predict for SetParticipantActive {
    fn predict(&self, model: &mut Model) -> Outcome {
        let place = match model.scheme.known(&self.name) {
            Ok(place) => place,
            Err(outcome) => return outcome,
        };
        model.scheme.participants[place].active = self.active;
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
        let holding = (&self.name, self.currency);
        let (cap, position) = (self.limit.units(), self.position.units());
        predicted(model.scheme.begin_holding(holding, cap, position))
    }
}

impl Predict for SetLimit {
    fn predict(&self, model: &mut Model) -> Outcome {
        let position = model.scheme.held(&self.name, self.currency).and_then(|held| {
            let cap = held.cap.as_mut().ok_or(Outcome::LimitsMissing)?;
            *cap = (self.limit.units(), self.alarm_percentage.units());
            Ok(held.position)
        });
        let participant = model.scheme.index_of(&self.name);
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
