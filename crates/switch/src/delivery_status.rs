//! How far notices are whose delivery has not ended. Operators ask; the I/O threads answer, for the
//! lanes are their own. A question is a line in a list and one wake-up: nothing of it is on the way
//! of a message. Bound: who asks is answered, or gives up, before he asks again.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use delivery::{AttemptResult, Delivery, MonotonicTime, WaitReason};
use ledger::NoticeId;
use node::outbox;
use ports::ClockReading;
use record::attempts::DeliveryAttempt;

use crate::outbox::Outbox;

/// A notice on its way, as of now. Attempts are those since this switch started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// The notice.
    pub notice: NoticeId,
    /// Attempts begun.
    pub attempts: u32,
    /// When the first one began, in milliseconds since the epoch.
    pub first_attempt_ms: Option<u64>,
    /// How the last one ended.
    pub last: Option<AttemptResult>,
    /// Those that have ended, oldest first; the newest of many.
    pub tried: Vec<DeliveryAttempt>,
    /// What it waits for.
    pub waits: WaitReason,
    /// When the next attempt may begin, if it waits for that; in milliseconds since the epoch.
    pub next_attempt_ms: Option<u64>,
}

/// Questions to one thread.
#[derive(Debug, Default)]
pub(crate) struct DeliveryQueries(Mutex<Vec<DeliveryQuery>>);

#[derive(Debug)]
pub(crate) enum DeliveryQuery {
    /// How far these are.
    Underway { notices: Arc<[NoticeId]>, answer: SyncSender<Vec<DeliveryStatus>> },
    /// Which wait for an address, so many at most.
    Parked { most: usize, answer: SyncSender<Vec<NoticeId>> },
}

impl DeliveryQueries {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<DeliveryQuery>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeliveryQueries {
    /// Asks the thread, which answers once.
    pub(crate) fn ask(&self, inquiry: DeliveryQuery) {
        self.lock().push(inquiry);
    }

    /// Answers what this thread was asked.
    pub(crate) fn answer(&self, outbox: &Outbox, now: ClockReading) {
        let asked = std::mem::take(&mut *self.lock());
        for inquiry in asked {
            let outbox = outbox.state.borrow();
            let delivery = outbox.delivery();
            // The one who asked may have given up.
            match inquiry {
                DeliveryQuery::Underway { notices, answer } => {
                    let found = notices.iter().filter_map(|one| look(delivery, *one, now));
                    drop(answer.send(found.collect()));
                }
                DeliveryQuery::Parked { most, answer } => {
                    drop(answer.send(delivery.parked().take(most).collect()));
                }
            }
        }
    }
}

fn look<P: Clone>(
    delivery: &Delivery<P>,
    notice: NoticeId,
    now: ClockReading,
) -> Option<DeliveryStatus> {
    let course = delivery.course(notice, MonotonicTime(now.monotonic_us))?;
    let at_ms = |moment| outbox::wall_ms(moment, now);
    let next_attempt_ms = match course.waits {
        WaitReason::Until(moment) => Some(at_ms(moment)),
        _ => None,
    };
    Some(DeliveryStatus {
        notice,
        attempts: course.attempts,
        first_attempt_ms: course.first_attempt.map(at_ms),
        last: course.last,
        tried: outbox::recorded_attempts(delivery.tried(notice), now),
        waits: course.waits,
        next_attempt_ms,
    })
}
