//! Removes finished deliveries from the outbox. Failed ones about a transfer become dead letters.

use crate::command::{DeliveryResult, FinishedDelivery};
use crate::context::Context;
use crate::notice::DeadLetter;
use crate::outcome::Outcome;

/// Ignores notices that are not owed (delivered twice after a take-over).
pub(super) fn finish(context: &mut Context<'_>, ends: &[FinishedDelivery]) -> Outcome {
    let state = &mut *context.state;
    for end in ends {
        let Some(notice) = state.outbox.remove(end.notice) else { continue };
        // Counted from 0, as in all earlier digests.
        state.batch_digest.note::<9>(&[&end.notice.0.to_le_bytes(), &[end.result.number() - 1]]);
        match end.result {
            DeliveryResult::Delivered => state.counters.delivered += 1,
            DeliveryResult::Dead => state.outbox.dead_letter(DeadLetter { notice, end: *end }),
            DeliveryResult::GivenUp => state.counters.given_up += 1,
            DeliveryResult::Withdrawn => {}
        }
    }
    Outcome::Accepted
}
