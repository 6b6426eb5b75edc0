//! Health by progress: what a consumer has done lately, not whether it is connected.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The state of a consumer, by its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It has partitions, and handles what arrives. A quiet topic is healthy.
    Working {
        /// Partitions that it has.
        partitions: usize,
        /// Messages in them that are not done, as last measured.
        lag: Option<i64>,
    },
    /// It has no partition: the group is forming, or it has more members than partitions.
    WithoutPartitions,
    /// There is work and no progress, for longer than `stall_after`.
    Stalled {
        /// For how long.
        since: Duration,
        /// The work that does not progress.
        reason: String,
    },
    /// The last request to the brokers failed.
    Unreachable {
        /// The client library's error.
        reason: String,
    },
    /// It has ended.
    Ended,
}

impl Health {
    /// Whether a supervisor should leave it alone.
    pub fn is_good(&self) -> bool {
        matches!(self, Self::Working { .. } | Self::WithoutPartitions)
    }
}

/// Numbers since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages that handlers have processed.
    pub handled: u64,
    /// Calls of handlers, with retries.
    pub calls: u64,
    /// Calls that repeated a failed one.
    pub retries: u64,
    /// Messages that were written to the dead-letter topic.
    pub dead_letters: u64,
    /// Commits that were requested.
    pub commits: u64,
    /// Commits that failed.
    pub commit_failures: u64,
    /// Changes of the assigned partitions.
    pub rebalances: u64,
}

/// State that the consumer's task writes and others read.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    pub(crate) handled: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) dead_letters: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) commit_failures: AtomicU64,
    pub(crate) rebalances: AtomicU64,
    /// Milliseconds from the start until the task last ran, and until a message was last done, or
    /// none waited.
    ran: AtomicU64,
    done: AtomicU64,
    ended: AtomicBool,
    seen: Mutex<Seen>,
}

/// The last observations of the task.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) partitions: usize,
    pub(crate) lag: Option<i64>,
    pub(crate) paused: bool,
    /// The batch whose handler has worked for the longest time.
    pub(crate) oldest: Option<(Instant, String)>,
    pub(crate) error: Option<String>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            start: Instant::now(),
            handled: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            retries: AtomicU64::new(0),
            dead_letters: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            commit_failures: AtomicU64::new(0),
            rebalances: AtomicU64::new(0),
            ran: AtomicU64::new(0),
            done: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            seen: Mutex::new(Seen::default()),
        }
    }

    fn millis(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.start).as_millis()).unwrap_or(u64::MAX)
    }

    pub(crate) fn ran(&self, now: Instant) {
        self.ran.store(self.millis(now), Ordering::Relaxed);
    }

    pub(crate) fn done(&self, messages: usize, now: Instant) {
        self.handled.fetch_add(messages as u64, Ordering::Relaxed);
        self.done.store(self.millis(now), Ordering::Relaxed);
    }

    /// Records that no message waits.
    pub(crate) fn idle(&self, now: Instant) {
        self.done.store(self.millis(now), Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    pub(crate) fn see(&self, seen: Seen) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }

    pub(crate) fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            handled: read(&self.handled),
            calls: read(&self.calls),
            retries: read(&self.retries),
            dead_letters: read(&self.dead_letters),
            commits: read(&self.commits),
            commit_failures: read(&self.commit_failures),
            rebalances: read(&self.rebalances),
        }
    }

    /// How long the value of this clock has not moved.
    fn age(&self, clock: &AtomicU64, now: Instant) -> Duration {
        Duration::from_millis(self.millis(now).saturating_sub(clock.load(Ordering::Relaxed)))
    }

    pub(crate) fn health(&self, stall_after: Duration, now: Instant) -> Health {
        if self.ended.load(Ordering::Relaxed) {
            return Health::Ended;
        }
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((since, reason)) = self.stall(&seen, now)
            && stall_after <= since
        {
            return Health::Stalled { since, reason };
        }
        match seen.error {
            Some(reason) => Health::Unreachable { reason },
            None if seen.partitions == 0 => Health::WithoutPartitions,
            None => Health::Working { partitions: seen.partitions, lag: seen.lag },
        }
    }

    /// The work that has not progressed for the longest time.
    fn stall(&self, seen: &Seen, now: Instant) -> Option<(Duration, String)> {
        let task = (self.age(&self.ran, now), "a handler blocks the task".to_owned());
        let handler = seen.oldest.as_ref().map(|(since, batch)| {
            (now.duration_since(*since), format!("the handler of {batch} has not returned"))
        });
        // While a handler works, its time counts.
        let is_waiting = !seen.paused && seen.oldest.is_none();
        let lag = seen.lag.filter(|lag| 0 < *lag && is_waiting).map(|lag| {
            (self.age(&self.done, now), format!("{lag} messages wait, and none was handled"))
        });
        [Some(task), handler, lag].into_iter().flatten().max_by_key(|(since, _)| *since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALL: Duration = Duration::from_secs(30);

    #[test]
    fn quiet_topic_is_healthy_and_lag_without_progress_is_not() {
        let progress = Progress::new();
        let later = Instant::now() + Duration::from_secs(60);
        progress.ran(later);
        let quiet = Seen { partitions: 1, lag: Some(0), ..Seen::default() };
        progress.see(quiet.clone());
        let health = progress.health(STALL, later);
        assert_eq!(health, Health::Working { partitions: 1, lag: Some(0) });
        progress.see(Seen { lag: Some(3), ..quiet.clone() });
        let health = progress.health(STALL, later);
        let Health::Stalled { since, reason } = health else { panic!("{health:?}") };
        assert!(Duration::from_secs(59) < since, "{since:?}");
        assert_eq!(reason, "3 messages wait, and none was handled");
        progress.see(Seen { lag: Some(3), paused: true, ..quiet });
        assert!(progress.health(STALL, later).is_good());
    }

    #[test]
    fn blocked_task_is_stalled() {
        let progress = Progress::new();
        progress.ran(Instant::now());
        let later = Instant::now() + Duration::from_secs(31);
        assert!(!progress.health(STALL, later).is_good());
        progress.end();
        assert_eq!(progress.health(STALL, later), Health::Ended);
    }
}
