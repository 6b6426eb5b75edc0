//! Double-entry accounts. Every posting debits one account and credits another, so that all
//! accounts of a currency sum to zero.
//!
//! Signs are those of the reference hub (hub-semantics 3.5 and 4.3): a positive POSITION is owed by
//! the participant, a negative SETTLEMENT is money on deposit. A debit raises a value, a credit
//! lowers it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::batch_digest::BatchDigest;
use crate::field::InvalidState;
use crate::field::{numbered, stored};
use crate::ids::{ACCOUNTS_MAX, AccountId, ParticipantIndex, Stamp};
use crate::money::{Amount, Currency};

numbered! {
    /// The purpose of an account.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum AccountKind: u8 {
        /// The debt of a participant (above zero) or its claim (below zero).
        Position = 1,
        /// Funds on deposit (below zero): the liquidity cover.
        Settlement = 2,
        /// The hub's counterpart of funds in and out.
        HubReconciliation = 3,
        /// The hub's counterpart of net settlement.
        HubMultilateralSettlement = 4,
        /// Fees between participants.
        InterchangeFee = 5,
        /// Settlement of those fees.
        InterchangeFeeSettlement = 6,
        /// Fees of the hub.
        HubFee = 7,
        /// Internal: reserved transfers, between payer and payee.
        InFlight = 100,
        /// Internal: reserved outflows, between a participant's SETTLEMENT and the hub.
        Outflow = 101,
        /// Internal: counterpart of initial positions.
        Opening = 102,
    }
}

impl AccountKind {
    const VISIBLE: [(Self, &'static str); 7] = [
        (Self::Position, "POSITION"),
        (Self::Settlement, "SETTLEMENT"),
        (Self::HubReconciliation, "HUB_RECONCILIATION"),
        (Self::HubMultilateralSettlement, "HUB_MULTILATERAL_SETTLEMENT"),
        (Self::InterchangeFee, "INTERCHANGE_FEE"),
        (Self::InterchangeFeeSettlement, "INTERCHANGE_FEE_SETTLEMENT"),
        (Self::HubFee, "HUB_FEE"),
    ];
    const INTERNAL: [Self; 3] = [Self::InFlight, Self::Outflow, Self::Opening];

    /// The name the admin API uses; `None` for internal accounts, which it never shows.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        Self::VISIBLE.iter().find(|(kind, _)| *kind == self).map(|(_, name)| *name)
    }

    /// Reads the name the admin API uses.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::VISIBLE.iter().find(|(_, text)| *text == name).map(|(kind, _)| *kind)
    }

    /// Whether only the hub has such accounts.
    #[must_use]
    pub const fn is_of_hub(self) -> bool {
        !matches!(
            self,
            Self::Position
                | Self::Settlement
                | Self::InterchangeFee
                | Self::InterchangeFeeSettlement
        )
    }
}

stored! {
    /// One account.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Account {
        /// Account number.
        pub id: AccountId,
        /// The participant that owns it.
        pub owner: ParticipantIndex,
        /// Purpose of the account.
        pub kind: AccountKind,
        /// The only currency of the account.
        pub currency: Currency,
        /// Whether it may be used.
        pub active: bool,
        /// Its balance.
        pub value: Amount,
        /// When it was opened.
        pub created: Stamp,
        /// When its balance last changed.
        pub changed: Stamp,
    }
}

/// The internal accounts of a currency, and the sum of its postings, which is always zero.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CurrencyBook {
    currency: Currency,
    in_flight: AccountId,
    outflow: AccountId,
    opening: AccountId,
    drift: Amount,
    /// How a committed transfer is settled. Follows from the settlement models.
    mode: SettlementMode,
}

/// How the transfers of a currency are settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SettlementMode {
    /// Not at all: the rules in force know no settlement.
    #[default]
    Off,
    /// Later: they are added to the sums of the open window.
    Deferred,
    /// Later, by a bilateral model: they are added to the sums of their pair too.
    DeferredInPairs,
    /// At once, between the POSITION accounts and those of this kind.
    Gross(AccountKind),
}

impl CurrencyBook {
    /// Restores the book of the currency whose in-flight account is at index `at`.
    fn restore(accounts: &[Account], at: usize) -> Result<Self, InvalidState> {
        let currency = accounts[at].currency;
        let internal = |offset: usize, kind| {
            let account = accounts.get(at + offset);
            let fits = account.filter(|account| {
                account.kind == kind
                    && account.currency == currency
                    && account.owner == ParticipantIndex::HUB
            });
            fits.map(|account| account.id)
                .ok_or(InvalidState("a currency has missing internal accounts"))
        };
        Ok(Self {
            currency,
            in_flight: internal(0, AccountKind::InFlight)?,
            outflow: internal(1, AccountKind::Outflow)?,
            opening: internal(2, AccountKind::Opening)?,
            drift: Amount::ZERO,
            mode: SettlementMode::Off,
        })
    }
}

/// One movement between two accounts of a currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) debit: AccountId,
    pub(crate) credit: AccountId,
    pub(crate) amount: Amount,
}

/// An account to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewAccount {
    pub(crate) owner: ParticipantIndex,
    pub(crate) kind: AccountKind,
    pub(crate) currency: Currency,
    pub(crate) active: bool,
}

/// All accounts of all participants and of the hub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    accounts: Vec<Account>,
    currencies: Vec<CurrencyBook>,
}

impl Accounts {
    /// Restores the accounts from a list in order of number.
    ///
    /// The internal accounts of a currency have consecutive numbers, which is how they are found.
    pub(crate) fn restore(accounts: Vec<Account>) -> Result<Self, InvalidState> {
        let mut sums: BTreeMap<Currency, Amount> = BTreeMap::new();
        let mut currencies = Vec::new();
        for (at, account) in accounts.iter().enumerate() {
            if account.id.0 as usize != at + 1 {
                return Err(InvalidState("accounts are not numbered from 1 without gaps"));
            }
            let sum = match (sums.get_mut(&account.currency), account.kind) {
                (Some(sum), kind) if kind != AccountKind::InFlight => sum,
                (None, AccountKind::InFlight) => {
                    currencies.push(CurrencyBook::restore(&accounts, at)?);
                    sums.entry(account.currency).or_default()
                }
                _ => return Err(InvalidState("a currency has duplicate internal accounts")),
            };
            *sum = sum
                .checked_add(account.value)
                .ok_or(InvalidState("a currency exceeds the range of the ledger"))?;
        }
        match sums.values().all(|sum| *sum == Amount::ZERO) {
            true => Ok(Self { accounts, currencies }),
            false => Err(InvalidState("the accounts of a currency do not sum to zero")),
        }
    }

    /// The account with this number.
    #[must_use]
    pub fn get(&self, id: AccountId) -> Option<&Account> {
        self.accounts.get((id.0 as usize).checked_sub(1)?)
    }

    /// All accounts, internal ones included, in order of number.
    pub fn iter(&self) -> impl Iterator<Item = &Account> {
        self.accounts.iter()
    }

    /// The sum over all accounts of each currency; each is zero.
    pub fn sums(&self) -> impl Iterator<Item = (Currency, Amount)> + '_ {
        self.currencies.iter().map(|book| (book.currency, self.sum(book.currency)))
    }

    /// The amount that is reserved but neither committed nor returned, in a currency.
    #[must_use]
    pub fn in_flight(&self, currency: Currency) -> Amount {
        self.book(currency).map_or(Amount::ZERO, |book| -self.value(book.in_flight))
    }

    /// One of the accounts that the hub opens with each currency.
    pub(crate) fn internal_of(&self, currency: Currency, kind: AccountKind) -> Option<AccountId> {
        let book = self.book(currency)?;
        let internal = [book.in_flight, book.outflow, book.opening];
        let at = AccountKind::INTERNAL.iter().position(|internal| *internal == kind)?;
        Some(internal[at])
    }

    /// How a transfer from this account is settled.
    pub(crate) fn settlement_mode(&self, position: AccountId) -> SettlementMode {
        self.internal(position).mode
    }

    /// Sets for each currency how its transfers are settled.
    pub(crate) fn set_settlement_modes(&mut self, mode: impl Fn(Currency) -> SettlementMode) {
        self.currencies.iter_mut().for_each(|book| book.mode = mode(book.currency));
    }

    pub(crate) fn has_room_for(&self, accounts: usize) -> bool {
        self.accounts.len() + accounts <= ACCOUNTS_MAX
    }

    pub(crate) fn open(&mut self, new: NewAccount, stamp: Stamp) -> AccountId {
        if self.book(new.currency).is_none() {
            self.open_currency(new.currency, stamp);
        }
        self.push(new, stamp)
    }

    pub(crate) fn set_active(&mut self, id: AccountId, active: bool) {
        self.get_mut(id).active = active;
    }

    pub(crate) fn value(&self, id: AccountId) -> Amount {
        self.get(id).expect("an account id is only made by opening one").value
    }

    /// The payer's side of a reservation: the payer's position rises, the in-flight account falls.
    pub(crate) fn reservation(&self, payer: AccountId, amount: Amount) -> Posting {
        Posting { debit: payer, credit: self.internal(payer).in_flight, amount }
    }

    /// The payee's side of a commit: the payee's position falls, the in-flight account rises.
    pub(crate) fn commitment(&self, payee: AccountId, amount: Amount) -> Posting {
        Posting { debit: self.internal(payee).in_flight, credit: payee, amount }
    }

    /// The reservation of an outflow: the deposit shrinks.
    pub(crate) fn outflow(&self, settlement: AccountId, amount: Amount) -> Posting {
        Posting { debit: settlement, credit: self.internal(settlement).outflow, amount }
    }

    /// The end of a reserved outflow, against the hub's reconciliation account.
    pub(crate) fn outflow_end(&self, to: AccountId, amount: Amount) -> Posting {
        Posting { debit: self.internal(to).outflow, credit: to, amount }
    }

    /// An initial position, against the hub's opening account.
    pub(crate) fn opening(&self, position: AccountId, amount: Amount) -> Posting {
        Posting { debit: position, credit: self.internal(position).opening, amount }
    }

    /// Moves `amount` from `credit` to `debit`.
    ///
    /// Panics if both accounts are the same, their currencies differ, or a balance leaves the range
    /// of the ledger. The node must stop before it acknowledges anything of the batch.
    pub(crate) fn post(&mut self, posting: Posting, stamp: Stamp, batch_digest: &mut BatchDigest) {
        let Posting { debit, credit, amount } = posting;
        assert!(debit != credit, "a posting has two different accounts");
        let currency = self.get(debit).map(|account| account.currency);
        assert!(
            currency.is_some() && currency == self.get(credit).map(|account| account.currency),
            "both accounts of a posting have one currency"
        );
        let added = self.change(debit, amount, stamp);
        let removed = self.change(credit, -amount, stamp);
        let book = self.book_mut(currency.expect("asserted above"));
        book.drift = book
            .drift
            .checked_add(added)
            .and_then(|drift| drift.checked_add(removed))
            .expect("the drift of a currency stays within the range of the ledger");
        batch_digest.note::<24>(&[
            &debit.0.to_le_bytes(),
            &credit.0.to_le_bytes(),
            &amount.units().to_le_bytes(),
        ]);
    }

    /// Panics unless every currency still sums to zero.
    pub(crate) fn assert_balanced(&self) {
        for book in &self.currencies {
            assert_eq!(book.drift, Amount::ZERO, "{} does not sum to zero", book.currency);
        }
    }

    /// Panics unless every currency sums to zero over all its accounts.
    pub(crate) fn assert_balanced_in_full(&self) {
        for (currency, sum) in self.sums() {
            assert_eq!(sum, Amount::ZERO, "the accounts of {currency} do not sum to zero");
        }
    }

    /// Adds to one account and returns the actual change of its balance.
    fn change(&mut self, id: AccountId, amount: Amount, stamp: Stamp) -> Amount {
        let account = self.get_mut(id);
        let before = account.value;
        account.value =
            before.checked_add(amount).expect("a balance stays within the range of the ledger");
        account.changed = stamp;
        account.value.checked_sub(before).expect("the difference of two balances is in range")
    }

    fn open_currency(&mut self, currency: Currency, stamp: Stamp) {
        let mut internal = |kind| {
            let owner = ParticipantIndex::HUB;
            self.push(NewAccount { owner, kind, currency, active: true }, stamp)
        };
        let book = CurrencyBook {
            currency,
            in_flight: internal(AccountKind::InFlight),
            outflow: internal(AccountKind::Outflow),
            opening: internal(AccountKind::Opening),
            drift: Amount::ZERO,
            mode: SettlementMode::Off,
        };
        self.currencies.push(book);
    }

    fn push(&mut self, new: NewAccount, stamp: Stamp) -> AccountId {
        let id = AccountId(self.accounts.len() as u32 + 1);
        self.accounts.push(Account {
            id,
            owner: new.owner,
            kind: new.kind,
            currency: new.currency,
            active: new.active,
            value: Amount::ZERO,
            created: stamp,
            changed: stamp,
        });
        id
    }

    fn sum(&self, currency: Currency) -> Amount {
        self.accounts
            .iter()
            .filter(|account| account.currency == currency)
            .try_fold(Amount::ZERO, |sum, account| sum.checked_add(account.value))
            .expect("the sum of a currency is within the range of the ledger")
    }

    fn internal(&self, account: AccountId) -> &CurrencyBook {
        let account = self.get(account).expect("an account id is only made by opening one");
        self.book(account.currency).expect("a currency is opened with its first account")
    }

    fn book(&self, currency: Currency) -> Option<&CurrencyBook> {
        self.currencies.iter().find(|book| book.currency == currency)
    }

    fn book_mut(&mut self, currency: Currency) -> &mut CurrencyBook {
        self.currencies
            .iter_mut()
            .find(|book| book.currency == currency)
            .expect("a currency is opened with its first account")
    }

    fn get_mut(&mut self, id: AccountId) -> &mut Account {
        &mut self.accounts[id.0 as usize - 1]
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::string::String;

    use super::*;
    use crate::change::{Change, CreateHubAccount};
    use crate::command::{Administer, Command, Genesis};
    use crate::ids::{FspName, LogIndex};
    use crate::state::{Batch, Effects, State};

    fn currency(code: &str) -> Currency {
        Currency::parse(code).expect("a currency")
    }

    /// A scheme with the internal accounts of USD, and one more account.
    fn state() -> State {
        let mut state = State::new();
        let hub = FspName::new("Hub").expect("a name");
        apply(&mut state, &Command::Genesis(Genesis { seed: [1; 16], hub }));
        let (currency, kind) = (currency("USD"), AccountKind::HubReconciliation);
        let (actor, reason) = (String::new(), String::new());
        let change = Change::CreateHubAccount(CreateHubAccount { currency, kind });
        apply(&mut state, &Command::Administer(Box::new(Administer { actor, reason, change })));
        assert_eq!(state.accounts.accounts.len(), 4);
        state
    }

    fn apply(state: &mut State, command: &Command) {
        let first = LogIndex(state.log_index().0 + 1);
        let (stamp, sequence) = (Stamp(first.0), first.0);
        let batch = Batch { first, stamp, node: 1, epoch: 1, sequence };
        state.apply(&batch, [command], &mut Effects::default());
    }

    /// Posts between two accounts of the state, which are numbered from 1.
    fn post(state: &mut State, debit: u32, credit: u32, units: i128) {
        let (debit, credit) = (AccountId(debit), AccountId(credit));
        let posting = Posting { debit, credit, amount: Amount::from_units(units) };
        state.accounts.post(posting, Stamp(9), &mut BatchDigest::default());
    }

    #[test]
    fn posting_debits_one_account_and_credits_the_other() {
        let mut state = state();
        post(&mut state, 1, 4, 5);
        let values = state.accounts.iter().map(|account| account.value.units());
        assert_eq!(values.collect::<Vec<_>>(), [5, 0, 0, -5]);
        let changed = state.accounts.iter().map(|account| account.changed.0);
        assert_eq!(changed.collect::<Vec<_>>(), [9, 2, 2, 9]);
        assert_eq!(state.accounts.in_flight(currency("USD")).units(), -5);
        assert_eq!(state.accounts.in_flight(currency("EUR")), Amount::ZERO);
        assert_eq!(state.accounts.get(AccountId(0)), None);
        apply(&mut state, &Command::Tick);
    }

    #[test]
    #[should_panic(expected = "USD does not sum to zero")]
    fn unbalanced_batch_panics() {
        let mut state = state();
        state.accounts.currencies[0].drift = Amount::from_units(1);
        apply(&mut state, &Command::Tick);
    }

    #[test]
    #[should_panic(expected = "the accounts of USD do not sum to zero")]
    fn unbalanced_accounts_panic_at_the_full_sum() {
        let mut state = state();
        state.accounts.accounts[0].value = Amount::from_units(1);
        (0..1_024).for_each(|_| apply(&mut state, &Command::Tick));
    }

    #[test]
    #[should_panic(expected = "a posting has two different accounts")]
    fn posting_to_the_same_account_panics() {
        post(&mut state(), 4, 4, 1);
    }

    #[test]
    #[should_panic(expected = "both accounts of a posting have one currency")]
    fn posting_between_currencies_panics() {
        let mut state = state();
        state.accounts.open_currency(currency("EUR"), Stamp(1));
        post(&mut state, 4, 5, 1);
    }

    #[test]
    #[should_panic(expected = "a balance stays within the range of the ledger")]
    fn balance_overflow_panics() {
        let mut state = state();
        post(&mut state, 1, 4, i128::MAX);
        post(&mut state, 1, 4, 1);
    }

    #[test]
    fn account_kinds_have_name_number_and_owner() {
        for kind in (0..=u8::MAX).filter_map(AccountKind::from_number) {
            let visible = kind.number() < 100;
            assert_eq!(kind.name().is_some(), visible, "{kind:?}");
            assert_eq!(kind.name().and_then(AccountKind::parse), visible.then_some(kind));
            let of_participants = matches!(kind.number(), 1 | 2 | 5 | 6);
            assert_eq!(kind.is_of_hub(), !of_participants, "{kind:?}");
        }
        assert_eq!((0..=u8::MAX).filter_map(AccountKind::from_number).count(), 10);
        assert_eq!([AccountKind::parse("position"), AccountKind::parse("IN_FLIGHT")], [None; 2]);
    }
}
