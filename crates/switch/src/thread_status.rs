//! State of the I/O threads for operators: counters, lanes, and undelivered notices.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ledger::NoticeId;
use metrics::Counter;
use node::ParticipantsView;
use node::stall::{IoSample, Stall};
use tokio::sync::Notify;
use traces::{SpanCounts, SpanQueue};

use crate::breaker::{Breakers, OpenBreaker};
use crate::counters::{Counters, Totals};
use crate::delivery_status::{DeliveryQueries, DeliveryQuery, DeliveryStatus};
use crate::measurements::Measurements;
use crate::stalled_lanes::StalledLanes;
use crate::traffic_times::TrafficTimes;

/// State that a thread publishes in addition to its counters.
#[derive(Debug, Default)]
pub(crate) struct ThreadStatus {
    /// Number of sweeps, which shows that the event loop runs.
    pub(crate) turns: Counter,
    /// Stuck lanes and stalled lanes, as of the last check.
    lanes: Mutex<(Vec<Stall>, StalledLanes)>,
    /// Operators' queries about its notices.
    pub(crate) queries: DeliveryQueries,
}

impl ThreadStatus {
    /// Publishes the result of a check of the lanes.
    pub(crate) fn publish(&self, stuck: Vec<Stall>, stalled: StalledLanes) {
        *self.lanes() = (stuck, stalled);
    }

    fn lanes(&self) -> MutexGuard<'_, (Vec<Stall>, StalledLanes)> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sums of the I/O threads' counters since the start.
#[derive(Debug, Default)]
pub struct Traffic {
    pub(crate) counters: Vec<Arc<Counters>>,
    pub(crate) measurements: Vec<Arc<Measurements>>,
    /// Other state of each thread.
    pub(crate) threads: Vec<Arc<ThreadStatus>>,
    /// Wakes each of them.
    pub(crate) mail: Vec<Arc<Notify>>,
    pub(crate) breakers: Arc<Breakers>,
    /// Those of calls to oracles.
    pub(crate) oracle_breakers: Arc<Breakers>,
    /// The queue of spans, if they are exported.
    pub(crate) spans: Option<SpanQueue>,
}

impl Traffic {
    /// Current status of the threads, in their order.
    #[must_use]
    pub fn pulses(&self) -> Vec<IoSample> {
        let pulse = |shown: &Arc<ThreadStatus>| IoSample {
            turns: shown.turns.get(),
            lanes: shown.lanes().0.clone(),
        };
        self.threads.iter().map(pulse).collect()
    }

    /// Stalled lanes of all threads, as of their last checks.
    #[must_use]
    pub fn stalled_lanes(&self) -> StalledLanes {
        let mut all = StalledLanes::default();
        self.threads.iter().for_each(|shown| all.add(shown.lanes().1.clone()));
        all
    }

    /// Participants to which forwards fail at once, the longest unresponsive first.
    #[must_use]
    pub fn open_breakers(&self) -> Vec<OpenBreaker> {
        self.breakers.open()
    }

    /// Oracles to which calls fail at once.
    #[must_use]
    pub fn open_oracle_breakers(&self) -> usize {
        self.oracle_breakers.open().len()
    }

    /// Counts of spans; zeros if none are exported.
    #[must_use]
    pub fn span_counts(&self) -> SpanCounts {
        self.spans.as_ref().map(SpanQueue::counts).unwrap_or_default()
    }

    /// Current sums over all threads.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        self.counters.iter().for_each(|thread| sum.add(thread));
        sum
    }

    /// Durations and refusals since the start, over all threads. `view` has the names of the
    /// participants.
    #[must_use]
    pub fn times(&self, view: &ParticipantsView) -> TrafficTimes {
        TrafficTimes::of(&self.measurements, view)
    }

    /// Status of these notices. Finished notices, those that another node delivers, and those of a
    /// thread that does not answer within `patience` are left out. Blocks.
    #[must_use]
    pub fn delivery_status(&self, notices: &[NoticeId], patience: Duration) -> Vec<DeliveryStatus> {
        let deadline = Instant::now() + patience;
        let notices: Arc<[NoticeId]> = notices.into();
        let mut found = self.ask_all(deadline, |answer| DeliveryQuery::Status {
            notices: Arc::clone(&notices),
            answer,
        });
        found.sort_by_key(|status| status.notice);
        found
    }

    /// The oldest `most` notices that wait for an endpoint. Those of a thread that does not answer
    /// within `patience` are left out. Blocks.
    #[must_use]
    pub fn parked(&self, most: usize, patience: Duration) -> Vec<NoticeId> {
        let deadline = Instant::now() + patience;
        let mut found = self.ask_all(deadline, |answer| DeliveryQuery::Parked { most, answer });
        found.sort_unstable();
        found.truncate(most);
        found
    }

    /// Queries each thread, which answers once.
    fn ask_all<T>(
        &self,
        deadline: Instant,
        query: impl Fn(SyncSender<Vec<T>>) -> DeliveryQuery,
    ) -> Vec<T> {
        let (answer, answers) = sync_channel(self.threads.len());
        for (shown, mail) in self.threads.iter().zip(&self.mail) {
            shown.queries.ask(query(answer.clone()));
            mail.notify_one();
        }
        drop(answer);
        let mut found = Vec::new();
        for _ in &self.threads {
            let left = deadline.saturating_duration_since(Instant::now());
            match answers.recv_timeout(left) {
                Ok(some) => found.extend(some),
                Err(_) => break,
            }
        }
        found
    }
}
