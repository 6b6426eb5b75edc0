//! Rows of enrolments.

use super::{StateBuilder, TableRow};
use crate::enrolments::Enrolment;
use crate::field::{InvalidState, Row};
use crate::state::State;

impl TableRow for Enrolment {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.enrolments.iter()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let ended = self.end.iter().map(|end| end.record);
        ended.chain([self.id]).try_for_each(|record| builder.check_record(record))?;
        let is_known = builder.participants.iter().any(|it| it.name == self.name);
        let rows = &mut builder.enrolments.rows;
        if rows.last_key_value().is_some_and(|(last, _)| self.id <= *last) {
            return Err(InvalidState("enrolments are out of order"));
        }
        if !is_known {
            return Err(InvalidState("an enrolment belongs to no participant"));
        }
        rows.insert(self.id, self);
        Ok(())
    }
}
