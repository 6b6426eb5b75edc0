//! The contents of a statement, independent of its form.
//!
//! Signs are those of the ledger: above zero the account owes, below zero it is owed. The opening
//! balance of an account and its entries sum to its closing balance ([`Statement::check`]).

use std::collections::BTreeMap;

use ledger::{
    AccountId, AccountKind, Amount, Currency, LogIndex, SettlementId, SettlementState, Stamp,
    State, TransferId, WindowId, WindowState,
};

/// Maximum number of entries in one statement.
pub const STATEMENT_ENTRIES_MAX: usize = 100_000;

/// Balances and movements of accounts between two records of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The subject.
    pub subject: StatementSubject,
    /// The record after which the opening balances hold.
    pub from: LogPoint,
    /// The record after which the closing balances hold.
    pub to: LogPoint,
    /// The accounts, in order of number.
    pub accounts: Vec<AccountStatement>,
}

/// The subject of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementSubject {
    /// A settlement window: its sums, closed or so far.
    Window {
        /// Its number.
        id: WindowId,
        /// Its state.
        state: WindowState,
    },
    /// A settlement: the nets of its accounts.
    Settlement {
        /// Its number.
        id: SettlementId,
        /// Its state.
        state: SettlementState,
        /// Name of its model.
        model: String,
    },
    /// Accounts of a participant.
    Participant {
        /// Its name.
        name: String,
    },
}

impl StatementSubject {
    /// Its kind: `window`, `settlement` or `participant`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Window { .. } => "window",
            Self::Settlement { .. } => "settlement",
            Self::Participant { .. } => "participant",
        }
    }

    /// Its number or name.
    #[must_use]
    pub fn id(&self) -> String {
        match self {
            Self::Window { id, .. } => id.0.to_string(),
            Self::Settlement { id, .. } => id.0.to_string(),
            Self::Participant { name } => name.clone(),
        }
    }

    /// The name of its state, if it has one.
    #[must_use]
    pub const fn state(&self) -> Option<&'static str> {
        match self {
            Self::Window { state, .. } => Some(state.name()),
            Self::Settlement { state, .. } => Some(state.name()),
            Self::Participant { .. } => None,
        }
    }
}

/// A record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPoint {
    /// Its number; 0 before the first record.
    pub log_index: LogIndex,
    /// Its stamp.
    pub stamp: Stamp,
}

impl LogPoint {
    /// The last record of a state.
    #[must_use]
    pub const fn of(state: &State) -> Self {
        Self { log_index: state.log_index(), stamp: state.stamp() }
    }
}

/// An account between two records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountStatement {
    /// Name of its owner.
    pub participant: String,
    /// Its number.
    pub account: AccountId,
    /// Its type.
    pub kind: AccountKind,
    /// Its currency.
    pub currency: Currency,
    /// The balance after the first record.
    pub opening: Balance,
    /// The movements, in order of the log.
    pub entries: Vec<Entry>,
    /// The balance after the last record.
    pub closing: Balance,
    /// Its part in the settlement, in the statement of one.
    pub part: Option<SettlementPart>,
}

/// A balance. The ledger's balance of the account is the sum of both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// The final part.
    pub booked: Amount,
    /// The part that is reserved for transfers and withdrawals in progress.
    pub reserved: Amount,
}

/// The state of an account in a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettlementPart {
    /// Its state.
    pub state: SettlementState,
    /// The reason for its last change of state.
    pub reason: String,
    /// The operator's reference of the payment.
    pub external_reference: String,
    /// When its state last changed.
    pub changed: Stamp,
}

/// One movement, or the sum of several with the same cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The cause in plain words, such as `transfers paid` or `funds in`.
    pub cause: String,
    /// The change of the booked balance.
    pub amount: Amount,
    /// Number of movements in it.
    pub count: u64,
    /// The last record of these movements.
    pub at: LogPoint,
    /// The settlement window.
    pub window: Option<WindowId>,
    /// The settlement.
    pub settlement: Option<SettlementId>,
    /// The transfer, if it is only one.
    pub transfer: Option<TransferId>,
    /// The operator's reference.
    pub reference: Option<String>,
}

/// The sums of the accounts of one type in one currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Sum of the entries above zero.
    pub debits: Amount,
    /// Sum of the entries below zero, without the sign.
    pub credits: Amount,
    /// Sum of the changes of the booked balances.
    pub net: Amount,
}

/// The reason why a statement cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// The opening balance and the entries of an account do not sum to its closing balance.
    #[error(
        "account {0}: opening balance and entries do not sum to the closing balance; please report \
         this defect of the hub"
    )]
    Unbalanced(u32),
    /// A sum is beyond the range of the ledger.
    #[error("a sum is beyond the range of the ledger")]
    Range,
    /// There is no account.
    #[error("no account: camt.053 needs at least one; choose format=json or format=csv")]
    Empty,
    /// An amount has more digits than the form allows.
    #[error("{0}: camt.053 allows 18 digits; choose format=json or format=csv")]
    Digits(Amount),
}

impl Statement {
    /// Checks that the entries explain the balances.
    ///
    /// # Errors
    /// [`StatementError::Unbalanced`], and [`StatementError::Range`].
    pub fn check(&self) -> Result<(), StatementError> {
        for account in &self.accounts {
            let mut balance = account.opening.booked;
            for entry in &account.entries {
                balance = sum(balance, entry.amount)?;
            }
            if balance != account.closing.booked {
                return Err(StatementError::Unbalanced(account.account.0));
            }
        }
        Ok(())
    }

    /// The totals per account type and currency.
    ///
    /// # Errors
    /// [`StatementError::Range`].
    pub fn totals(&self) -> Result<BTreeMap<(Currency, AccountKind), Total>, StatementError> {
        let mut totals: BTreeMap<_, Total> = BTreeMap::new();
        for account in &self.accounts {
            let total = totals.entry((account.currency, account.kind)).or_default();
            for entry in &account.entries {
                total.add(entry.amount)?;
            }
        }
        Ok(totals)
    }

    /// Whether it is of one participant.
    pub(crate) fn retain_participant(&mut self, name: &str) {
        self.accounts.retain(|account| account.participant == name);
    }

    /// The number of entries.
    pub(crate) fn entry_count(&self) -> usize {
        self.accounts.iter().map(|account| account.entries.len()).sum()
    }
}

impl Total {
    pub(crate) fn add(&mut self, amount: Amount) -> Result<(), StatementError> {
        match amount < Amount::ZERO {
            true => self.credits = sum(self.credits, -amount)?,
            false => self.debits = sum(self.debits, amount)?,
        }
        self.net = sum(self.net, amount)?;
        Ok(())
    }
}

pub(crate) fn sum(left: Amount, right: Amount) -> Result<Amount, StatementError> {
    left.checked_add(right).ok_or(StatementError::Range)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_must_explain_the_closing_balance() {
        let amount = |text| Amount::parse_decimal(text).unwrap();
        let at = LogPoint { log_index: LogIndex(3), stamp: Stamp(3) };
        let entry = |text| Entry {
            cause: "transfers paid".into(),
            amount: amount(text),
            count: 1,
            at,
            window: None,
            settlement: None,
            transfer: None,
            reference: None,
        };
        let balance = |text| Balance { booked: amount(text), reserved: Amount::ZERO };
        let account = AccountStatement {
            participant: "dfsp1".into(),
            account: AccountId(7),
            kind: AccountKind::Position,
            currency: Currency::parse("USD").unwrap(),
            opening: balance("-3"),
            entries: vec![entry("10.5"), entry("-4")],
            closing: balance("3.5"),
            part: None,
        };
        let subject = StatementSubject::Participant { name: "dfsp1".into() };
        let mut statement = Statement { subject, from: at, to: at, accounts: vec![account] };
        assert_eq!(statement.check(), Ok(()));
        let totals: Vec<_> = statement.totals().unwrap().into_values().collect();
        let expected = Total { debits: amount("10.5"), credits: amount("4"), net: amount("6.5") };
        assert_eq!(totals, [expected]);
        statement.accounts[0].closing = balance("3.4");
        assert_eq!(statement.check(), Err(StatementError::Unbalanced(7)));
    }
}
