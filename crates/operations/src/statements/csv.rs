//! Statements as CSV (RFC 4180): one row per balance, entry and total.

use csv::Terminator;
use ledger::Amount;

use crate::responses::Timestamp;
use crate::statements::json::kind_name;
use crate::statements::statement::{
    AccountStatement, Balance, Entry, LogPoint, Statement, StatementError,
};

const COLUMNS: [&str; 16] = [
    "participant",
    "account",
    "type",
    "currency",
    "row",
    "cause",
    "amount",
    "reserved",
    "count",
    "time",
    "log_index",
    "window",
    "settlement",
    "transfer",
    "reference",
    "state",
];

/// A row: the columns after those of the account.
#[derive(Default)]
struct Row {
    row: &'static str,
    cause: String,
    amount: Amount,
    reserved: Option<Amount>,
    count: Option<u64>,
    at: Option<LogPoint>,
    window: Option<u32>,
    settlement: Option<u32>,
    transfer: String,
    reference: String,
    state: &'static str,
}

/// Writes a statement.
pub(crate) fn write(statement: &Statement) -> Result<Vec<u8>, StatementError> {
    let totals = statement.totals()?;
    let mut table = vec![COLUMNS.map(str::to_owned)];
    for account in &statement.accounts {
        let of = [
            account.participant.clone(),
            account.account.0.to_string(),
            kind_name(account.kind).to_owned(),
            account.currency.to_string(),
        ];
        table.extend(rows(statement, account).map(|row| row.cells(of.clone())));
    }
    for ((currency, kind), total) in totals {
        let of = [String::new(), String::new(), kind_name(kind).to_owned(), currency.to_string()];
        for (cause, amount) in
            [("debits", total.debits), ("credits", total.credits), ("net", total.net)]
        {
            let row = Row { row: "total", cause: cause.to_owned(), amount, ..Row::default() };
            table.push(row.cells(of.clone()));
        }
    }
    let mut writer = csv::WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for row in table {
        writer.write_record(row).expect("memory is writable, and rows have equal lengths");
    }
    Ok(writer.into_inner().expect("memory is writable"))
}

fn rows(statement: &Statement, account: &AccountStatement) -> impl Iterator<Item = Row> {
    let opening = Row::of_balance("opening", account.opening, statement.from);
    let closing = Row::of_balance("closing", account.closing, statement.to);
    let part = account.part.as_ref();
    let closing = Row {
        state: part.map_or("", |part| part.state.name()),
        reference: part.map(|part| part.external_reference.clone()).unwrap_or_default(),
        ..closing
    };
    let entries = account.entries.iter().map(Row::of_entry);
    [opening].into_iter().chain(entries).chain([closing])
}

impl Row {
    fn of_balance(row: &'static str, balance: Balance, at: LogPoint) -> Self {
        let Balance { booked, reserved } = balance;
        Self { row, amount: booked, reserved: Some(reserved), at: Some(at), ..Self::default() }
    }

    fn of_entry(entry: &Entry) -> Self {
        Self {
            row: "entry",
            cause: entry.cause.clone(),
            amount: entry.amount,
            reserved: None,
            count: Some(entry.count),
            at: Some(entry.at),
            window: entry.window.map(|id| id.0),
            settlement: entry.settlement.map(|id| id.0),
            transfer: entry.transfer.map(|id| id.to_string()).unwrap_or_default(),
            reference: entry.reference.clone().unwrap_or_default(),
            state: "",
        }
    }

    fn cells(self, [participant, account, kind, currency]: [String; 4]) -> [String; 16] {
        [
            plain(participant),
            account,
            kind,
            currency,
            self.row.to_owned(),
            plain(self.cause),
            self.amount.to_string(),
            text(self.reserved),
            text(self.count),
            text(self.at.map(|at| Timestamp(at.stamp))),
            text(self.at.map(|at| at.log_index.0)),
            text(self.window),
            text(self.settlement),
            self.transfer,
            plain(self.reference),
            self.state.to_owned(),
        ]
    }
}

/// A text that a spreadsheet does not take for a formula.
fn plain(text: String) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text,
    }
}

fn text(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_no_formulas() {
        for (text, expected) in [
            ("advice 4711", "advice 4711"),
            ("", ""),
            ("=1+1", "'=1+1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@a", "'@a"),
            ("a=1", "a=1"),
        ] {
            assert_eq!(plain(text.to_owned()), expected);
        }
    }
}
