//! The statement of the settlement bank, as read from one file or several.

use ledger::{Amount, Currency};

/// The type of the accounts that are compared.
pub(super) const SETTLEMENT: &str = "SETTLEMENT";
/// Exit code if nothing was compared.
pub(super) const NOT_COMPARED: u8 = 2;

/// The statement of a bank.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BankStatement {
    pub(super) entries: Vec<BankEntry>,
    pub(super) closings: Vec<BankBalance>,
    /// The statements of accounts that are not compared.
    pub(super) skipped: Vec<SkippedAccount>,
}

impl BankStatement {
    /// Adds the statement of another file.
    pub(super) fn append(&mut self, other: Self) {
        self.entries.extend(other.entries);
        self.closings.extend(other.closings);
        self.skipped.extend(other.skipped);
    }
}

/// A line of one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SourceLine {
    /// The number of the file, from 0 in the order of the command.
    pub(super) file: usize,
    /// The line in the file, from 1.
    pub(super) line: u64,
}

/// A movement. Above zero, the deposit rises.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BankEntry {
    pub(super) place: SourceLine,
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
    pub(super) place: SourceLine,
    pub(super) holder: Holder,
    /// The day at whose end it holds: `2026-05-01`.
    pub(super) date: String,
    pub(super) currency: Currency,
    pub(super) amount: Amount,
}

/// An account whose statement is not compared, because it is no SETTLEMENT account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SkippedAccount {
    pub(super) place: SourceLine,
    pub(super) holder: Holder,
    /// The type of the account in the switch.
    pub(super) kind: String,
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

/// Numbers of lines at rising positions. A line ends with LF, CR LF or CR.
pub(super) struct LineCounter<'t> {
    text: &'t [u8],
    counted: usize,
    line: u64,
}

impl<'t> LineCounter<'t> {
    pub(super) const fn new(text: &'t str) -> Self {
        Self { text: text.as_bytes(), counted: 0, line: 1 }
    }

    /// The line of the byte at a position.
    pub(super) fn at(&mut self, position: u64) -> u64 {
        let end = usize::try_from(position).unwrap_or(usize::MAX).min(self.text.len());
        while self.counted < end {
            self.line += u64::from(self.is_end(self.counted));
            self.counted += 1;
        }
        self.line
    }

    /// The line of the first byte from a position on that is not the end of a line.
    pub(super) fn at_text(&mut self, position: u64) -> u64 {
        let mut start = usize::try_from(position).unwrap_or(usize::MAX).min(self.text.len());
        while self.text.get(start).is_some_and(|byte| b"\r\n".contains(byte)) {
            start += 1;
        }
        self.at(start as u64)
    }

    /// Whether the byte at a place is the last one of a line.
    fn is_end(&self, at: usize) -> bool {
        match self.text[at] {
            b'\n' => true,
            b'\r' => self.text.get(at + 1) != Some(&b'\n'),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_three_kinds_of_ends() {
        for end in ["\n", "\r\n", "\r"] {
            let text = ["a", "", "", "b"].join(end);
            let mut lines = LineCounter::new(&text);
            assert_eq!((lines.at(0), lines.at(1)), (1, 1), "{end:?}");
            let empty = 1 + end.len() as u64;
            assert_eq!(lines.at(empty), 2, "{end:?}");
            assert_eq!(lines.at_text(empty), 4, "{end:?}");
            assert_eq!(lines.at(u64::MAX), 4, "{end:?}");
        }
    }
}
