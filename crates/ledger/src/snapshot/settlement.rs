//! Rows of windows and settlements.

use alloc::vec::Vec;

use super::{StateBuilder, TableRow};
use crate::field::{Field, InvalidState, Row};
use crate::ids::{SettlementId, WindowId};
use crate::settlement::{
    AccountSums, PAIRS_MAX, PairSums, Settlement, SettlementAccount, SettlementWithAccounts, Window,
};
use crate::settlement_restore::{OUT_OF_ORDER, STRAY};
use crate::state::State;

impl TableRow for Window {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.settlement.windows().map(|entry| &entry.window)
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let rows = &mut builder.settlement;
        if rows.windows.last().is_some_and(|last| self.id <= last.id) {
            return Err(OUT_OF_ORDER);
        }
        rows.windows.push(self);
        Ok(())
    }
}

/// A row with the number of its window or settlement.
struct Numbered<'a, N, T>(N, &'a T);

impl<N: Field, T: Field> Row for Numbered<'_, N, T> {
    fn write_row(&self, to: &mut impl crate::field::ByteSink) {
        self.0.write(to);
        self.1.write(to);
    }
}

impl TableRow for (WindowId, AccountSums) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        let book = &state.settlement;
        let ids = book.windows().map(|entry| entry.window.id);
        ids.flat_map(move |id| book.sums(id).iter().map(move |sums| Numbered(id, sums)))
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.settlement.accounts.entry(self.0).or_default().push(self.1);
        Ok(())
    }
}

impl TableRow for (WindowId, PairSums) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        let book = &state.settlement;
        let ids = book.windows().map(|entry| entry.window.id);
        ids.flat_map(move |id| book.pairs(id).iter().map(move |sums| Numbered(id, sums)))
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let pairs = builder.settlement.pairs.entry(self.0).or_default();
        pairs.push(self.1);
        match pairs.len() <= PAIRS_MAX {
            true => Ok(()),
            false => Err(InvalidState("a window has too many pairs")),
        }
    }
}

impl TableRow for Settlement {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.settlement.settlements().map(|entry| &entry.settlement)
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let known = builder.catalogue.models.iter().any(|model| model.name == self.model);
        let settlements = &mut builder.settlement.settlements;
        if settlements.last_key_value().is_some_and(|(last, _)| self.id <= *last) {
            return Err(OUT_OF_ORDER);
        }
        if !known {
            return Err(InvalidState("a settlement has an unknown model"));
        }
        let entry = SettlementWithAccounts { settlement: self, accounts: Vec::new() };
        settlements.insert(entry.settlement.id, entry);
        Ok(())
    }
}

impl TableRow for (SettlementId, SettlementAccount) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.settlement.settlements().flat_map(|entry| {
            let id = entry.settlement.id;
            entry.accounts.iter().map(move |account| Numbered(id, account))
        })
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let entry = builder.settlement.settlements.get_mut(&self.0).ok_or(STRAY)?;
        if entry.accounts.last().is_some_and(|last| self.1.account <= last.account) {
            return Err(OUT_OF_ORDER);
        }
        entry.accounts.push(self.1);
        Ok(())
    }
}
