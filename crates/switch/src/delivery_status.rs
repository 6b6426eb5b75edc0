//! Status of notices whose delivery has not ended. Queries come from operators and are answered by
//! the I/O threads, which own the lanes. A query costs a list entry and one wake-up, and is not on
//! the path of a message. Bound: a caller has at most one query open.

use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, PoisonError};

use delivery::{AttemptResult, Delivery, MonotonicTime, WaitReason};
use ledger::NoticeId;
use node::outbox;
use ports::ClockReading;
use record::attempts::DeliveryAttempt;

use crate::outbox::Outbox;

/// Status of an undelivered notice. Attempts are counted since this switch started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryStatus {
    /// The notice.
    pub notice: NoticeId,
    /// Number of attempts.
    pub attempts: u32,
    /// Start of the first attempt, in milliseconds since the epoch.
    pub first_attempt_ms: Option<u64>,
    /// Result of the last attempt.
    pub last: Option<AttemptResult>,
    /// Finished attempts, oldest first; only the newest ones are kept.
    pub finished_attempts: Vec<DeliveryAttempt>,
    /// The reason why it waits.
    pub wait_reason: WaitReason,
    /// Earliest start of the next attempt, if it waits for that, in milliseconds since the epoch.
    pub next_attempt_ms: Option<u64>,
}

/// Queries to one thread.
#[derive(Debug, Default)]
pub(crate) struct DeliveryQueries(Mutex<Vec<DeliveryQuery>>);

#[derive(Debug)]
pub(crate) enum DeliveryQuery {
    /// The status of these notices.
    Status { notices: Arc<[NoticeId]>, answer: SyncSender<Vec<DeliveryStatus>> },
    /// The notices that wait for an endpoint, at most this number.
    Parked { most: usize, answer: SyncSender<Vec<NoticeId>> },
}

impl DeliveryQueries {
    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<DeliveryQuery>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DeliveryQueries {
    /// Sends a query to the thread, which answers once.
    pub(crate) fn ask(&self, query: DeliveryQuery) {
        self.lock().push(query);
    }

    /// Answers the queries to this thread.
    pub(crate) fn answer(&self, outbox: &Outbox, now: ClockReading) {
        let queries = std::mem::take(&mut *self.lock());
        for query in queries {
            let outbox = outbox.state.borrow();
            let delivery = outbox.delivery();
            // The caller may have timed out.
            match query {
                DeliveryQuery::Status { notices, answer } => {
                    let found = notices.iter().filter_map(|one| status_of(delivery, *one, now));
                    drop(answer.send(found.collect()));
                }
                DeliveryQuery::Parked { most, answer } => {
                    drop(answer.send(delivery.parked().take(most).collect()));
                }
            }
        }
    }
}

fn status_of<P: Clone>(
    delivery: &Delivery<P>,
    notice: NoticeId,
    now: ClockReading,
) -> Option<DeliveryStatus> {
    let progress = delivery.progress(notice, MonotonicTime(now.monotonic_us))?;
    let at_ms = |moment| outbox::wall_ms(moment, now);
    let next_attempt_ms = match progress.waits {
        WaitReason::Until(moment) => Some(at_ms(moment)),
        _ => None,
    };
    Some(DeliveryStatus {
        notice,
        attempts: progress.attempts,
        first_attempt_ms: progress.first_attempt.map(at_ms),
        last: progress.last,
        finished_attempts: outbox::recorded_attempts(delivery.ended_attempts(notice), now),
        wait_reason: progress.waits,
        next_attempt_ms,
    })
}
