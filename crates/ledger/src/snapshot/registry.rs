//! Rows of accounts, participants and reference data.

use super::{StateBuilder, TableRow};
use crate::accounts::Account;
use crate::change::{LedgerAccountType, Oracle, SettlementModel};
use crate::field::{InvalidState, Row};
use crate::ids::OracleId;
use crate::registry::Participant;
use crate::state::State;

impl TableRow for Account {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.accounts.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.accounts.push(self);
        Ok(())
    }
}

impl TableRow for Participant {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.registry.iter().map(|(_, participant)| participant)
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.participants.push(self);
        Ok(())
    }
}

impl TableRow for SettlementModel {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.registry.models()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.catalogue.models.push(self);
        Ok(())
    }
}

impl TableRow for (OracleId, Oracle) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.registry.oracles()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let last = builder.catalogue.oracles.last().map(|(id, _)| *id);
        if Some(self.0) <= last || builder.catalogue.last_oracle < self.0 {
            return Err(InvalidState("an oracle has an invalid number"));
        }
        builder.catalogue.oracles.push(self);
        Ok(())
    }
}

impl TableRow for LedgerAccountType {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.registry.account_types()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.catalogue.account_types.push(self);
        Ok(())
    }
}
