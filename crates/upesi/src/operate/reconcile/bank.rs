//! The statement of the settlement bank, as read from a file.

use ledger::{Amount, Currency};

/// The statement of a bank.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BankStatement {
    pub(super) entries: Vec<BankEntry>,
    pub(super) closings: Vec<BankBalance>,
}

/// A movement. Above zero, the deposit rises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BankEntry {
    /// The line in the file.
    pub(super) line: u64,
    pub(super) holder: Holder,
    /// `2026-05-01`.
    pub(super) date: String,
    pub(super) currency: Currency,
    pub(super) amount: Amount,
    /// References of the payment, none of them blank.
    pub(super) references: Vec<String>,
}

/// A closing balance. Above zero, money is on deposit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BankBalance {
    pub(super) line: u64,
    pub(super) holder: Holder,
    pub(super) currency: Currency,
    pub(super) amount: Amount,
}

/// The holder of an account, as the bank names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) participant: Option<String>,
    pub(super) account: Option<String>,
}

/// A line that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineFault {
    pub(super) line: u64,
    pub(super) what: String,
}

impl LineFault {
    pub(super) fn new(line: u64, what: impl Into<String>) -> Self {
        Self { line, what: what.into() }
    }
}

/// An amount above or at zero.
pub(super) fn amount(line: u64, text: &str) -> Result<Amount, LineFault> {
    let found = Amount::parse_decimal(text.trim()).filter(|amount| Amount::ZERO <= *amount);
    let what = || {
        format!("amount {text:?}: expected a number from 0, with at most 18 digits and 4 decimals")
    };
    found.ok_or_else(|| LineFault::new(line, what()))
}

pub(super) fn currency(line: u64, text: &str) -> Result<Currency, LineFault> {
    let what = || format!("currency {text:?}: expected three upper-case letters");
    Currency::parse(text.trim()).ok_or_else(|| LineFault::new(line, what()))
}

/// The date at the beginning of a text: `2026-05-01`.
pub(super) fn date(line: u64, text: &str) -> Result<String, LineFault> {
    let found = text.trim().get(..10).filter(|date| is_date(date));
    let what = || format!("date {text:?}: expected a date such as 2026-05-01");
    found.map(str::to_owned).ok_or_else(|| LineFault::new(line, what()))
}

fn is_date(text: &str) -> bool {
    fspiop::time::parse_date_time(&format!("{text}T00:00:00.000Z")).is_some()
}

/// The amount with the sign of its indicator.
pub(super) fn signed(line: u64, amount: Amount, indicator: &str) -> Result<Amount, LineFault> {
    match indicator.trim().to_ascii_lowercase().as_str() {
        "credit" | "crdt" | "c" => Ok(amount),
        "debit" | "dbit" | "d" => Ok(-amount),
        _ => {
            let what = format!("direction {indicator:?}: expected credit or debit");
            Err(LineFault::new(line, what))
        }
    }
}
