//! Rows of accounts, participants and the catalogues of the scheme.

use super::{Builder, TableRow};
use crate::accounts::Account;
use crate::change::{LedgerAccountType, Oracle, SettlementModel};
use crate::field::{Inconsistent, Row};
use crate::ids::OracleId;
use crate::register::Participant;
use crate::state::State;

impl TableRow for Account {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.books.iter()
    }

    fn restore(self, builder: &mut Builder) -> Result<(), Inconsistent> {
        builder.accounts.push(self);
        Ok(())
    }
}

impl TableRow for Participant {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.register.iter().map(|(_, participant)| participant)
    }

    fn restore(self, builder: &mut Builder) -> Result<(), Inconsistent> {
        builder.participants.push(self);
        Ok(())
    }
}

impl TableRow for SettlementModel {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.register.models()
    }

    fn restore(self, builder: &mut Builder) -> Result<(), Inconsistent> {
        builder.catalogue.models.push(self);
        Ok(())
    }
}

impl TableRow for (OracleId, Oracle) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.register.oracles()
    }

    fn restore(self, builder: &mut Builder) -> Result<(), Inconsistent> {
        let last = builder.catalogue.oracles.last().map(|(id, _)| *id);
        if Some(self.0) <= last || builder.catalogue.last_oracle < self.0 {
            return Err(Inconsistent("an oracle has a number that it can not have"));
        }
        builder.catalogue.oracles.push(self);
        Ok(())
    }
}

impl TableRow for LedgerAccountType {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.register.account_types()
    }

    fn restore(self, builder: &mut Builder) -> Result<(), Inconsistent> {
        builder.catalogue.account_types.push(self);
        Ok(())
    }
}
