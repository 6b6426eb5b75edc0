//! Requeues a dead letter with a new set of attempts.

use crate::change::Redeliver;
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;

impl Decide for Redeliver {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        match context.state.outbox.requeue(self.notice) {
            None => AdminOutcome::DeadLetterNotFound,
            Some(notice) => {
                context.requeue_notice(notice);
                AdminOutcome::Accepted
            }
        }
    }
}
