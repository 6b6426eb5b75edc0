//! A change touches no part of the state besides those that it declares. Every change of a scenario
//! is compared.

use alloc::vec::Vec;
use core::convert::Infallible;

use crate::field::{Field, Row};
use crate::snapshot::{Table, TableVisitor};
use crate::{Change, State, StatePart};

/// A digest of something in the state, and the parts of which it is made.
type Part = (&'static [StatePart], blake3::Hash);

/// Parts of a state.
pub(super) struct Digests(Vec<Part>);

impl Digests {
    pub(super) fn of(state: &State) -> Self {
        let head = state.parts().head();
        let mut digests = Self(Vec::new());
        digests.add(&[StatePart::Settings], &head.settings);
        digests.add(&[StatePart::Rules], &head.rules_version);
        digests.add(&[StatePart::Transfers, StatePart::Notices], &head.counters);
        digests.add(&[StatePart::Notices], &head.last_notice);
        digests.add(&[StatePart::Oracles], &head.last_oracle);
        let Ok(()) = state.parts().tables(&mut digests);
        digests
    }

    fn add(&mut self, parts: &'static [StatePart], value: &impl Field) {
        let mut hasher = blake3::Hasher::new();
        value.write(&mut hasher);
        self.0.push((parts, hasher.finalize()));
    }

    /// These are of the state before the change, `after` of the one after it.
    #[track_caller]
    pub(super) fn check(&self, after: &Self, change: &Change) {
        let touched = change.declaration().touches;
        for ((parts, before), (_, after)) in self.0.iter().zip(&after.0) {
            let is_declared = parts.iter().any(|part| touched.contains(part));
            assert!(before == after || is_declared, "{change:?} touches undeclared {parts:?}");
        }
    }
}

impl TableVisitor for Digests {
    type Error = Infallible;

    fn table<R: Row>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Infallible> {
        let mut hasher = blake3::Hasher::new();
        rows.into_iter().for_each(|row| row.write_row(&mut hasher));
        self.0.push((parts_in(table), hasher.finalize()));
        Ok(())
    }
}

/// The parts of the state that the rows of a table are made of.
const fn parts_in(table: Table) -> &'static [StatePart] {
    use StatePart::*;
    match table {
        Table::Accounts => &[Accounts, Balances],
        Table::Participants => &[Participants, Accounts, Limits],
        Table::SettlementModels => &[SettlementModels],
        Table::Oracles => &[Oracles],
        Table::LedgerAccountTypes => &[LedgerAccountTypes],
        Table::Active | Table::Outflows | Table::Ended => &[Transfers],
        Table::Notices | Table::DeadLetters => &[Notices],
    }
}
