//! Rows of open bulk transfers.

use super::{StateBuilder, TableRow};
use crate::bulks::OpenBulk;
use crate::field::{InvalidState, Row};
use crate::state::State;
use crate::transfers::TransferLocation;

const INVALID: InvalidState = InvalidState("a bulk transfer does not match its items");

impl TableRow for OpenBulk {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.bulks.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_record(self.prepare)?;
        builder.check_participants([self.payer, self.payee])?;
        builder.check_new(&self.id)?;
        let is_in_flight = |id| match builder.transfers.find(id) {
            TransferLocation::Reserved(slot) => {
                let item = builder.transfers.reserved(slot);
                item.prepare == self.prepare && (item.payer, item.payee) == (self.payer, self.payee)
            }
            _ => false,
        };
        let open = self.items.iter().filter(|id| is_in_flight(id)).count();
        let ended = self.items.len() - open;
        let is_known = builder.bulks.find(&self.id).is_some()
            || builder.bulks.of_record(self.prepare).is_some();
        if is_known || open == 0 || open != self.open as usize || ended < self.committed as usize {
            return Err(INVALID);
        }
        // The first item in flight of each record is not counted.
        builder.items_in_flight = builder.items_in_flight.checked_sub(open - 1).ok_or(INVALID)?;
        builder.bulks.insert(self);
        Ok(())
    }
}
