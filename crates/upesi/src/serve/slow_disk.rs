//! A log on a slower disk than the one that is there, to measure what disks cost.
//!
//! Everything goes to the real log; only a sync returns later, by a fixed delay, or not before the
//! pace of so many syncs a second allows it. Without either, a sync costs one branch more. The
//! waiting is a sleep, which may be some 0.06 ms longer than asked.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ports::{LogError, LogObserver, ObservedLog};

/// How much slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncDelay {
    delay: Duration,
    /// From the begin of one sync to that of the next at least.
    distance: Duration,
}

/// A log whose syncs take longer.
pub(crate) type DelayedLog<L> = ObservedLog<L, Delay>;

/// Delays syncs, or does nothing.
#[derive(Debug)]
pub(crate) struct Delay {
    slowness: Option<SyncDelay>,
    next: Instant,
}

/// Hidden arguments of `serve`.
#[derive(clap::Args)]
pub(crate) struct SlownessArguments {
    /// Delay each sync of the log by this time; only to measure slower disks.
    #[arg(long, value_name = "MICROSECONDS", hide = true,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    inject_sync_delay_us: Option<u64>,
    /// Limit the syncs of the log per second; only to measure slower disks.
    #[arg(long, value_name = "SYNCS", hide = true,
        value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    inject_sync_per_second: Option<u32>,
}

impl SyncDelay {
    /// The delay that the hidden arguments request.
    pub(crate) fn from_arguments(arguments: &SlownessArguments) -> Option<Self> {
        let per_second = arguments.inject_sync_per_second;
        if arguments.inject_sync_delay_us.is_none() && per_second.is_none() {
            return None;
        }
        Some(Self {
            delay: Duration::from_micros(arguments.inject_sync_delay_us.unwrap_or(0)),
            distance: per_second.map_or(Duration::ZERO, |syncs| Duration::from_secs(1) / syncs),
        })
    }
}

impl From<Option<SyncDelay>> for Delay {
    fn from(slowness: Option<SyncDelay>) -> Self {
        Self { slowness, next: Instant::now() }
    }
}

impl LogObserver for Delay {
    fn sync(&mut self, sync: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        let Some(slowness) = self.slowness else { return sync() };
        let begin = Instant::now().max(self.next);
        sleep(begin.saturating_duration_since(Instant::now()));
        self.next = begin + slowness.distance;
        let synced = sync();
        sleep(slowness.delay);
        synced
    }
}

impl fmt::Display for SyncDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.delay.is_zero() {
            parts.push(format!("each sync takes {:?} longer", self.delay));
        }
        if !self.distance.is_zero() {
            parts.push(format!("one sync every {:?} at most", self.distance));
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::{FileLog, MemoryDisk, Options};
    use ports::Log;
    use record::frame::LogIdentity;

    #[test]
    fn syncs_take_as_long_as_asked() {
        let ms = Duration::from_millis;
        for (delay, distance, least) in [(3, 0, 15), (0, 4, 16), (2, 5, 20)] {
            let slowness = SyncDelay { delay: ms(delay), distance: ms(distance) };
            let opened = FileLog::open_or_create(
                MemoryDisk::new(1),
                LogIdentity([1; 16]),
                Options::default(),
            );
            let mut log = DelayedLog::new(opened.expect("a new disk has room").0, Some(slowness));
            let start = Instant::now();
            for _ in 0..5 {
                log.sync().expect("nothing breaks");
            }
            assert!(start.elapsed() >= ms(least), "{slowness}: {:?}", start.elapsed());
        }
    }

    #[test]
    fn what_is_injected_is_told() {
        let delay = Duration::from_micros(140);
        let both = SyncDelay { delay, distance: Duration::from_millis(2) };
        assert_eq!(both.to_string(), "each sync takes 140µs longer, one sync every 2ms at most");
    }
}
