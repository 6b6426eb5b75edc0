//! The result of a comparison as tables.

use std::fmt::{self, Display, Formatter};

use crate::cli::table::{Align, Table};
use crate::operate::reconcile::matching::{BalanceLine, BankLine, Comparison, Line};

impl Display for Comparison {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (name, lines) in [
            ("in both", &self.both),
            ("only at the bank", &self.only_bank),
            ("only in the switch", &self.only_switch),
            ("amounts differ", &self.amounts_differ),
        ] {
            writeln!(f, "{name}: {}", lines.len())?;
            if !lines.is_empty() {
                writeln!(f, "{}", table(lines))?;
            }
        }
        for (name, lines) in [
            ("closing balances equal", &self.closing_balances_equal),
            ("closing balances differ", &self.closing_balances_differ),
        ] {
            writeln!(f, "{name}: {}", lines.len())?;
            if !lines.is_empty() {
                writeln!(f, "{}", balances(lines))?;
            }
        }
        for line in &self.skipped {
            let (kind, account) = (&line.ledger_account_type, &line.account);
            let (owner, place) = (&line.participant, &line.place);
            writeln!(f, "skipped: {place}: account {account} of {owner} is of type {kind}")?;
        }
        Ok(())
    }
}

impl Display for BankLine {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.bank_file, self.bank_line)
    }
}

fn table(lines: &[Line]) -> Table<9> {
    let mut table = Table::new([
        ("date", Align::Left),
        ("participant", Align::Left),
        ("bank", Align::Right),
        ("switch", Align::Right),
        ("currency", Align::Left),
        ("bank line", Align::Left),
        ("record", Align::Right),
        ("cause", Align::Left),
        ("reference", Align::Left),
    ]);
    let number = |value: Option<u64>| value.map(|it| it.to_string()).unwrap_or_default();
    for line in lines {
        table.add([
            line.date.clone(),
            line.participant.clone(),
            line.bank_amount.clone().unwrap_or_default(),
            line.switch_amount.clone().unwrap_or_default(),
            line.currency.clone(),
            line.place.as_ref().map(BankLine::to_string).unwrap_or_default(),
            number(line.log_index),
            line.cause.clone(),
            line.reference.clone(),
        ]);
    }
    table
}

fn balances(lines: &[BalanceLine]) -> Table<6> {
    let mut table = Table::new([
        ("date", Align::Left),
        ("participant", Align::Left),
        ("bank", Align::Right),
        ("switch", Align::Right),
        ("currency", Align::Left),
        ("bank line", Align::Left),
    ]);
    for line in lines {
        table.add([
            line.date.clone(),
            line.participant.clone(),
            line.bank.clone(),
            line.switch.clone().unwrap_or_else(|| "no account".to_owned()),
            line.currency.clone(),
            line.place.to_string(),
        ]);
    }
    table
}
