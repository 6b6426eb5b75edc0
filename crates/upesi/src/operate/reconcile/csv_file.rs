//! The statement of a bank as CSV, with a line of column names: `date`, `reference`,
//! `participant` or `account` or both, `amount`, `currency` and `direction`, in any order. Further
//! columns are ignored. A row with the reference `closing balance` is one.

use csv::{ReaderBuilder, StringRecord, Trim};

use crate::operate::reconcile::bank::{
    BankBalance, BankEntry, BankStatement, Holder, LineFault, amount, currency, date, signed,
};

/// The reference of a row with a closing balance.
const CLOSING: &str = "closing balance";

/// The places of the columns.
struct Columns {
    date: usize,
    reference: usize,
    participant: Option<usize>,
    account: Option<usize>,
    amount: usize,
    currency: usize,
    direction: usize,
}

impl Columns {
    fn of(heading: &StringRecord) -> Result<Self, Vec<LineFault>> {
        let place = |name: &str| heading.iter().position(|it| it.eq_ignore_ascii_case(name));
        let mut faults = Vec::new();
        let mut needed = |name: &str| {
            let found = place(name);
            if found.is_none() {
                faults.push(LineFault::new(1, format!("column {name} is missing")));
            }
            found.unwrap_or_default()
        };
        let columns = Self {
            date: needed("date"),
            reference: needed("reference"),
            participant: place("participant"),
            account: place("account"),
            amount: needed("amount"),
            currency: needed("currency"),
            direction: needed("direction"),
        };
        if columns.participant.is_none() && columns.account.is_none() {
            faults.push(LineFault::new(1, "column participant or account is missing"));
        }
        if faults.is_empty() { Ok(columns) } else { Err(faults) }
    }
}

/// Reads a file. The error names every unreadable line.
pub(super) fn parse(text: &str) -> Result<BankStatement, Vec<LineFault>> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text.as_bytes());
    let heading = reader.headers().map_err(|error| vec![fault_of(&error)])?;
    let columns = Columns::of(heading)?;
    let (mut statement, mut faults) = (BankStatement::default(), Vec::new());
    for record in reader.records() {
        let added = match &record {
            Ok(record) => add(&mut statement, &columns, record),
            Err(error) => Err(fault_of(error)),
        };
        faults.extend(added.err());
    }
    if faults.is_empty() { Ok(statement) } else { Err(faults) }
}

fn add(
    statement: &mut BankStatement,
    columns: &Columns,
    record: &StringRecord,
) -> Result<(), LineFault> {
    let line = record.position().map_or(0, csv::Position::line);
    let cell = |at: usize| record.get(at).unwrap_or_default();
    let optional = |at: Option<usize>| {
        let text = at.map(cell).filter(|text| !text.is_empty());
        text.map(str::to_owned)
    };
    let holder =
        Holder { participant: optional(columns.participant), account: optional(columns.account) };
    if holder == Holder::default() {
        return Err(LineFault::new(line, "neither participant nor account"));
    }
    let currency = currency(line, cell(columns.currency))?;
    let amount = amount(line, cell(columns.amount))?;
    let amount = signed(line, amount, cell(columns.direction))?;
    let date = date(line, cell(columns.date))?;
    let reference = cell(columns.reference);
    if reference.eq_ignore_ascii_case(CLOSING) {
        statement.closings.push(BankBalance { line, holder, currency, amount });
        return Ok(());
    }
    let references = [reference].into_iter().filter(|text| !text.is_empty());
    let references = references.map(str::to_owned).collect();
    statement.entries.push(BankEntry { line, holder, date, currency, amount, references });
    Ok(())
}

fn fault_of(error: &csv::Error) -> LineFault {
    let line = error.position().map_or(1, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            LineFault::new(line, format!("{len} columns, {expected_len} expected"))
        }
        _ => LineFault::new(line, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_closing_balances_are_read() {
        let text = "Date,Reference,Participant,Amount,Currency,Direction\n\
            2026-05-01,advice 1,dfsp1,12.5,USD,credit\n\
            2026-05-02T10:00:00Z,,dfsp1,3,USD,DBIT\n\
            2026-05-02,closing balance,dfsp1,9.5,USD,credit\n";
        let statement = parse(text).unwrap();
        let lines: Vec<_> = statement
            .entries
            .iter()
            .map(|it| format!("{} {} {} {:?}", it.line, it.date, it.amount, it.references))
            .collect();
        assert_eq!(lines, ["2 2026-05-01 12.5 [\"advice 1\"]", "3 2026-05-02 -3 []"]);
        assert_eq!(statement.closings[0].amount.to_string(), "9.5");
    }

    #[test]
    fn every_unreadable_line_is_named() {
        let check = |text: &str, expected: &[(u64, &str)]| {
            let faults = parse(text).unwrap_err();
            assert_eq!(faults.len(), expected.len(), "{faults:?}");
            for (fault, (line, what)) in faults.iter().zip(expected) {
                assert!(fault.line == *line && fault.what.contains(what), "{fault:?}: {what}");
            }
        };
        let missing = [
            (1, "column reference is missing"),
            (1, "column currency is missing"),
            (1, "column direction is missing"),
            (1, "column participant or account is missing"),
        ];
        check("date,amount\n", &missing);
        check(
            "date,reference,account,amount,currency,direction\n\
            2026-05-01,a,7,1,USD,credit\n\
            yesterday,a,7,1,USD,credit\n\
            2026-05-01,a,7,-1,USD,credit\n\
            2026-05-01,a,7,1,usd,credit\n\
            2026-05-01,a,7,1,USD,up\n\
            2026-05-01,a,,1,USD,credit\n\
            2026-05-01,a,7,1\n\
            2026-02-30,a,7,1,USD,credit\n",
            &[
                (3, "date \"yesterday\""),
                (4, "amount \"-1\""),
                (5, "currency \"usd\""),
                (6, "direction \"up\""),
                (7, "neither participant nor account"),
                (8, "4 columns, 6 expected"),
                (9, "date \"2026-02-30\""),
            ],
        );
    }
}
