//! Rows of roles, operators and their tokens.

use super::{StateBuilder, TableRow};
use crate::field::{InvalidState, Row};
use crate::operators::{Operator, OperatorRole, OperatorToken};
use crate::state::State;

impl TableRow for OperatorRole {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.operators.roles()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let roles = &mut builder.operators.roles;
        if roles.last_key_value().is_some_and(|(last, _)| self.name <= *last) {
            return Err(InvalidState("roles are out of order"));
        }
        roles.insert(self.name.clone(), self);
        Ok(())
    }
}

impl TableRow for Operator {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.operators.operators()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let operators = &mut builder.operators.operators;
        if operators.last_key_value().is_some_and(|(last, _)| self.name <= *last) {
            return Err(InvalidState("operators are out of order"));
        }
        if super::SMALL_END <= self.generation {
            return Err(InvalidState("an operator has too many generations"));
        }
        operators.insert(self.name.clone(), self);
        Ok(())
    }
}

impl TableRow for OperatorToken {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.operators.tokens()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let book = &mut builder.operators;
        if book.tokens.last_key_value().is_some_and(|(last, _)| self.id <= *last) {
            return Err(InvalidState("tokens are out of order"));
        }
        if !book.operators.contains_key(&self.operator) {
            return Err(InvalidState("a token belongs to no operator"));
        }
        book.tokens.insert(self.id, self);
        Ok(())
    }
}
