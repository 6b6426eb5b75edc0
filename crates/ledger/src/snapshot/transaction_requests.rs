//! Rows of recorded transaction requests.

use super::{StateBuilder, TableRow};
use crate::field::{InvalidState, Row};
use crate::state::State;
use crate::transaction_requests::TransactionRequestRow;

impl TableRow for TransactionRequestRow {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.requests.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let answered = self.answer.iter().map(|answer| answer.record);
        answered.chain([self.request]).try_for_each(|record| builder.check_record(record))?;
        builder.check_participants([self.source, self.destination])?;
        if self.answer.is_some_and(|answer| answer.record <= self.request) {
            return Err(InvalidState("a transaction request was answered before it was made"));
        }
        if builder.last_request >= self.request {
            return Err(InvalidState("transaction requests are out of order"));
        }
        if builder.requests.find(&self.id).is_some() {
            return Err(InvalidState("a transaction request occurs twice"));
        }
        builder.last_request = self.request;
        builder.requests.insert(self);
        Ok(())
    }
}
