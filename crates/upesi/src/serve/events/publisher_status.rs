//! The progress of the publisher, for `GET /status` and metrics.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ledger::{LogIndex, Stamp};
use node::SystemClock;
use operations::{EventPublishing, PublishingState};
use ports::Clock as _;

/// The state of the publisher.
pub(crate) type PublisherState = PublishingState;

/// Values that the publisher's thread writes.
pub(crate) struct PublisherStatus {
    clock: SystemClock,
    values: Mutex<Values>,
}

struct Values {
    state: PublisherState,
    error: Option<String>,
    /// All events up to this record are published.
    log_index: Option<LogIndex>,
    published: u64,
    /// No record that was durable before this time waits.
    complete_at: Stamp,
}

#[cfg_attr(not(feature = "kafka"), expect(dead_code, reason = "no event is published"))]
impl PublisherStatus {
    pub(crate) fn new(clock: SystemClock) -> Self {
        let values = Values {
            state: PublisherState::Connecting,
            error: None,
            log_index: None,
            published: 0,
            complete_at: clock.now().wall,
        };
        Self { clock, values: Mutex::new(values) }
    }

    /// Sets the state. Returns whether the error is a new one. A node on standby has no lag.
    pub(crate) fn set(&self, state: PublisherState, error: Option<String>) -> bool {
        let mut values = self.lock();
        let is_new = values.error != error;
        values.state = state;
        values.error = error;
        if state == PublisherState::Standby {
            values.log_index = None;
            values.complete_at = self.clock.now().wall;
        }
        is_new
    }

    /// All events up to a record are published, `count` of them now. `stamp` is the time of the
    /// record.
    pub(crate) fn seen(&self, log_index: LogIndex, count: u64, stamp: Option<Stamp>) {
        let mut values = self.lock();
        values.log_index = Some(log_index);
        values.published += count;
        values.complete_at = stamp.unwrap_or(values.complete_at);
    }

    /// The end of the log at this time.
    pub(crate) fn seen_end(&self, end: LogIndex) {
        let now = self.clock.now().wall;
        let mut values = self.lock();
        if Some(end) == values.log_index {
            values.complete_at = now;
        }
    }

    /// The record up to which events are published, since the start of the process.
    pub(crate) fn log_index(&self) -> Option<LogIndex> {
        self.lock().log_index
    }

    /// The progress, with the end of the log.
    pub(crate) fn report(&self, end: LogIndex) -> EventPublishing {
        let now = self.clock.now().wall;
        let values = self.lock();
        let after = values.log_index.map_or(0, |log_index| end.0.saturating_sub(log_index.0));
        let is_complete = values.log_index.is_some() && after == 0;
        let waited_us = now.0.saturating_sub(values.complete_at.0);
        EventPublishing {
            state: values.state,
            log_index: values.log_index.map(|it| it.0),
            records_after: after,
            lag_seconds: if is_complete { 0 } else { waited_us / 1_000_000 },
            published: values.published,
            failing: values.error.clone(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
