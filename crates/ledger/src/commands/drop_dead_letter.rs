//! Drops a dead letter: the hub owes it no longer. The payment is unchanged.

use crate::change::DropDeadLetter;
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;

impl Decide for DropDeadLetter {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        match context.state.outbox.drop_dead(self.notice) {
            true => AdminOutcome::Accepted,
            false => AdminOutcome::DeadLetterNotFound,
        }
    }
}
