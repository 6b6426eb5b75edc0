//! The result of a comparison as tables.

use std::fmt::{self, Display, Formatter};

use crate::cli::table::{Align, Table};
use crate::operate::reconcile::matching::{Comparison, Line};

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
        writeln!(f, "closing balances differ: {}", self.closing_balances_differ.len())?;
        if !self.closing_balances_differ.is_empty() {
            write!(f, "{}", self.balances())?;
        }
        Ok(())
    }
}

fn table(lines: &[Line]) -> Table<9> {
    let mut table = Table::new([
        ("date", Align::Left),
        ("participant", Align::Left),
        ("bank", Align::Right),
        ("switch", Align::Right),
        ("currency", Align::Left),
        ("line", Align::Right),
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
            number(line.bank_line),
            number(line.log_index),
            line.cause.clone(),
            line.reference.clone(),
        ]);
    }
    table
}

impl Comparison {
    fn balances(&self) -> Table<5> {
        let mut table = Table::new([
            ("participant", Align::Left),
            ("bank", Align::Right),
            ("switch", Align::Right),
            ("currency", Align::Left),
            ("line", Align::Right),
        ]);
        for line in &self.closing_balances_differ {
            table.add([
                line.participant.clone(),
                line.bank.clone(),
                line.switch.clone().unwrap_or_else(|| "no account".to_owned()),
                line.currency.clone(),
                line.bank_line.to_string(),
            ]);
        }
        table
    }
}
