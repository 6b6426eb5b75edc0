//! A dead letter is sent again, with a fresh set of attempts.

use crate::context::Context;
use crate::ids::NoticeId;
use crate::outcome::Outcome;

pub(super) fn redeliver(context: &mut Context<'_>, id: NoticeId) -> Outcome {
    match context.state.outbox.exhume(id) {
        None => Outcome::DeadLetterNotFound,
        Some(notice) => {
            context.owe_again(notice);
            Outcome::Accepted
        }
    }
}
