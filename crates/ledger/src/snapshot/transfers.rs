//! Rows of transfers and of movements of funds.

use alloc::vec::Vec;

use super::{StateBuilder, TableRow, add};
use crate::accounts::AccountKind;
use crate::field::{InvalidState, Row};
use crate::ids::TransferId;
use crate::state::State;
use crate::transfers::{FinalTransfer, Outflow, ReservedTransfer};

impl TableRow for ReservedTransfer {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        let mut rows: Vec<_> = state.transfers.iter_reserved().collect();
        if state.bulks.is_empty() {
            rows.sort_unstable_by_key(|row| row.prepare);
            return rows;
        }
        // Items of a bulk are in the order of its list, in which they were reserved.
        let places = state.bulks.places();
        rows.sort_by_cached_key(|row| (row.prepare, places.get(&row.id).copied()));
        rows
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_record(self.prepare)?;
        if self.prepare < builder.last_prepare || self.id.is_bulk() {
            return Err(InvalidState("transfers in flight are not in order of prepare"));
        }
        builder.check_participants([self.payer, self.payee])?;
        let kind = AccountKind::Position;
        let from = builder.check_account(self.payer_account, (self.payer, kind))?;
        let to = builder.check_account(self.payee_account, (self.payee, kind))?;
        if from.currency != to.currency {
            return Err(InvalidState("a transfer has accounts in two currencies"));
        }
        builder.check_new(&self.id)?;
        add(&mut builder.reserved, self.payer_account, self.amount)?;
        builder.items_in_flight += usize::from(self.prepare == builder.last_prepare);
        builder.last_prepare = self.prepare;
        builder.transfers.insert_reserved(self);
        Ok(())
    }
}

impl TableRow for (TransferId, Outflow) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.transfers.iter_outflows()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let (id, outflow) = self;
        builder.check_record(outflow.record)?;
        let owner = (outflow.participant, AccountKind::Settlement);
        builder.check_account(outflow.settlement, owner)?;
        builder.check_participants([outflow.participant])?;
        builder.check_new(&id)?;
        add(&mut builder.flowing, outflow.settlement, outflow.amount)?;
        builder.transfers.reserve_outflow(id, outflow);
        Ok(())
    }
}

impl TableRow for FinalTransfer {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.transfers.iter_final()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_record(self.prepare)?;
        builder.check_record(self.changed)?;
        builder.check_participants(self.payer.into_iter().chain(self.payee))?;
        builder.check_new(&self.id)?;
        builder.transfers.insert_final(self);
        Ok(())
    }
}
