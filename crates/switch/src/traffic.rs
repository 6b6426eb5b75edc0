//! State of the I/O threads for operators: counters, lanes, and notices in flight.

use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ledger::NoticeId;
use node::stall::{IoSample, Stall};
use tokio::sync::Notify;

use crate::breaker::{Breakers, OpenBreaker};
use crate::counters::{Counter, Counters, Totals};
use crate::delivery_status::{DeliveryQueries, DeliveryQuery, DeliveryStatus};
use crate::stalled::StalledLanes;

/// State that a thread shows to others in addition to its counters.
#[derive(Debug, Default)]
pub(crate) struct ThreadStatus {
    /// How often the loop has turned, as far as the sweep can tell.
    pub(crate) turns: Counter,
    /// Lanes that are stuck, and lanes whose participant takes no notice, as of the last look.
    lanes: Mutex<(Vec<Stall>, StalledLanes)>,
    /// What operators want to know of its notices.
    pub(crate) inquiries: DeliveryQueries,
}

impl ThreadStatus {
    /// Shows what a look at the lanes has found.
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
    /// Other state of each thread.
    pub(crate) threads: Vec<Arc<ThreadStatus>>,
    /// Wakes each of them.
    pub(crate) mail: Vec<Arc<Notify>>,
    pub(crate) breakers: Arc<Breakers>,
}

impl Traffic {
    /// How the threads are, as of now, in their order.
    #[must_use]
    pub fn pulses(&self) -> Vec<IoSample> {
        let pulse = |shown: &Arc<ThreadStatus>| IoSample {
            turns: shown.turns.get(),
            lanes: shown.lanes().0.clone(),
        };
        self.threads.iter().map(pulse).collect()
    }

    /// Lanes of all threads whose participant takes no notice, as of their last looks.
    #[must_use]
    pub fn stalled_lanes(&self) -> StalledLanes {
        let mut all = StalledLanes::default();
        self.threads.iter().for_each(|shown| all.add(shown.lanes().1.clone()));
        all
    }

    /// Participants to which forwards fail at once, those first that stopped answering first.
    #[must_use]
    pub fn open_breakers(&self) -> Vec<OpenBreaker> {
        self.breakers.open()
    }

    /// Sums over all threads, as of now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        self.counters.iter().for_each(|thread| sum.add(thread));
        sum
    }

    /// How far these notices are. Those that ended, or are another node's to send, are left out; so
    /// are those of a thread that has not answered when `patience` ends. Blocks.
    #[must_use]
    pub fn underway(&self, notices: &[NoticeId], patience: Duration) -> Vec<DeliveryStatus> {
        let deadline = Instant::now() + patience;
        let notices: Arc<[NoticeId]> = notices.into();
        let mut found = self.ask_all(deadline, |answer| DeliveryQuery::Underway {
            notices: Arc::clone(&notices),
            answer,
        });
        found.sort_by_key(|underway| underway.notice);
        found
    }

    /// Notices that wait for an address, the oldest `most` of them. Those of a thread that has not
    /// answered when `patience` ends are left out. Blocks.
    #[must_use]
    pub fn parked(&self, most: usize, patience: Duration) -> Vec<NoticeId> {
        let deadline = Instant::now() + patience;
        let mut found = self.ask_all(deadline, |answer| DeliveryQuery::Parked { most, answer });
        found.sort_unstable();
        found.truncate(most);
        found
    }

    /// Asks each thread, which answers once.
    fn ask_all<T>(
        &self,
        deadline: Instant,
        inquiry: impl Fn(SyncSender<Vec<T>>) -> DeliveryQuery,
    ) -> Vec<T> {
        let (answer, answers) = sync_channel(self.threads.len());
        for (shown, mail) in self.threads.iter().zip(&self.mail) {
            shown.inquiries.ask(inquiry(answer.clone()));
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
