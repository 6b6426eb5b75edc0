//! Rows of notices owed and of dead letters.

use super::{StateBuilder, TableRow};
use crate::field::{InvalidState, Row};
use crate::notice::{DeadLetter, Notice};
use crate::state::State;

impl TableRow for Notice {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.outbox.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_notice(&self)?;
        if self.id <= builder.last_notice {
            return Err(InvalidState("notices are not in order of number"));
        }
        builder.last_notice = self.id;
        builder.outbox.add(self);
        Ok(())
    }
}

impl TableRow for DeadLetter {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.outbox.dead().values()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_notice(&self.notice)?;
        let id = self.notice.id;
        let last = builder.outbox.dead().last_key_value().map(|(id, _)| *id);
        if builder.outbox.owes(id) || Some(id) <= last || self.end.notice != id {
            return Err(InvalidState("a dead letter has the number of another notice"));
        }
        builder.outbox.dead_letter(self);
        Ok(())
    }
}
