//! Rows of recorded quotes.

use super::{StateBuilder, TableRow};
use crate::field::{InvalidState, Row};
use crate::quotes::QuoteRow;
use crate::state::State;

impl TableRow for QuoteRow {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.quotes.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let answered = self.answer.iter().map(|answer| answer.record);
        answered.chain([self.request]).try_for_each(|record| builder.check_record(record))?;
        builder.check_participants([self.source, self.destination])?;
        if self.answer.is_some_and(|answer| answer.record <= self.request) {
            return Err(InvalidState("a quote was answered before it was asked for"));
        }
        if builder.last_quote >= self.request {
            return Err(InvalidState("quotes are out of order"));
        }
        if builder.quotes.find(&self.id).is_some() {
            return Err(InvalidState("a quote occurs twice"));
        }
        builder.last_quote = self.request;
        builder.quotes.insert(self);
        Ok(())
    }
}
