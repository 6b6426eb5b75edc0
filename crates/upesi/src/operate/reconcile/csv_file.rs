//! The statement of a bank as CSV, with a line of column names: `date`, `reference`,
//! `participant` or `account` or both, `amount`, `currency` and `direction`, in any order. Further
//! columns are ignored. A row with the reference `closing balance` is one.

use csv::{Position, ReaderBuilder, StringRecord, Trim};

use crate::operate::reconcile::bank::{
    BankBalance, BankEntry, BankStatement, Holder, LineCounter, LineFault, SourceLine, amount,
    currency, date, signed,
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

/// Reads a file with this number. The error names every unreadable line.
///
/// Lines are counted here: the reader's own numbers are wrong after CR LF.
pub(super) fn parse(text: &str, file: usize) -> Result<BankStatement, Vec<LineFault>> {
    let mut reader = ReaderBuilder::new().trim(Trim::All).from_reader(text.as_bytes());
    let heading = reader.headers().map_err(|error| vec![fault_of(&error, 1)])?;
    let columns = Columns::of(heading)?;
    let mut lines = LineCounter::new(text);
    let mut line_of =
        |position: Option<&Position>| lines.at_text(position.map_or(0, Position::byte));
    let (mut statement, mut faults) = (BankStatement::default(), Vec::new());
    for record in reader.records() {
        let added = match &record {
            Ok(record) => {
                let place = SourceLine { file, line: line_of(record.position()) };
                add(&mut statement, &columns, (record, place))
            }
            Err(error) => Err(fault_of(error, line_of(error.position()))),
        };
        faults.extend(added.err());
    }
    if faults.is_empty() { Ok(statement) } else { Err(faults) }
}

fn add(
    statement: &mut BankStatement,
    columns: &Columns,
    (record, place): (&StringRecord, SourceLine),
) -> Result<(), LineFault> {
    let line = place.line;
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
        statement.closings.push(BankBalance { place, holder, date, currency, amount });
        return Ok(());
    }
    let references = [reference].into_iter().filter(|text| !text.is_empty());
    let references = references.map(str::to_owned).collect();
    statement.entries.push(BankEntry { place, holder, date, currency, amount, references });
    Ok(())
}

fn fault_of(error: &csv::Error, line: u64) -> LineFault {
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
        let statement = parse(text, 0).unwrap();
        let lines: Vec<_> = statement
            .entries
            .iter()
            .map(|it| format!("{} {} {} {:?}", it.place.line, it.date, it.amount, it.references))
            .collect();
        assert_eq!(lines, ["2 2026-05-01 12.5 [\"advice 1\"]", "3 2026-05-02 -3 []"]);
        let closing = &statement.closings[0];
        assert_eq!((closing.amount.to_string().as_str(), &*closing.date), ("9.5", "2026-05-02"));
    }

    #[test]
    fn every_unreadable_line_is_named() {
        let check = |text: &str, expected: &[(u64, &str)]| {
            for end in ["\n", "\r\n", "\r"] {
                let faults = parse(&text.replace('\n', end), 0).unwrap_err();
                assert_eq!(faults.len(), expected.len(), "{end:?}: {faults:?}");
                for (fault, (line, what)) in faults.iter().zip(expected) {
                    let is_equal = fault.line == *line && fault.what.contains(what);
                    assert!(is_equal, "{end:?}: {fault:?}: {what}");
                }
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
            \n\
            2026-05-01,\"a\nb\",7,1,USD,credit\n\
            2026-02-30,a,7,1,USD,credit\n",
            &[
                (3, "date \"yesterday\""),
                (4, "amount \"-1\""),
                (5, "currency \"usd\""),
                (6, "direction \"up\""),
                (7, "neither participant nor account"),
                (8, "4 columns, 6 expected"),
                (12, "date \"2026-02-30\""),
            ],
        );
    }
}
