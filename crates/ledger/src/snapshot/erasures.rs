//! Rows of erasures.

use super::{StateBuilder, TableRow};
use crate::erasures::Erasure;
use crate::field::{InvalidState, Row};
use crate::state::State;

impl TableRow for Erasure {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.erasures.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_record(self.record)?;
        let rows = &mut builder.erasures.rows;
        if rows.last().is_some_and(|last| self.record <= last.record) {
            return Err(InvalidState("erasures are out of order"));
        }
        rows.push(self);
        Ok(())
    }
}
