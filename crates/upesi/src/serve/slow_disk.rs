//! Simulates a slower disk, to measure the effect of disks.
//!
//! A sync of the real log returns later: by a fixed delay, or by a limit of syncs per second.
//! Without either, a sync costs one branch more. The delay is a sleep, which may take 0.06 ms
//! longer than requested.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ports::{LogError, LogObserver, ObservedLog};

/// Delay of syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SyncDelay {
    delay: Duration,
    /// Minimum time between the beginnings of two syncs.
    interval: Duration,
}

/// A log with delayed syncs.
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
            interval: per_second.map_or(Duration::ZERO, |syncs| Duration::from_secs(1) / syncs),
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
        self.next = begin + slowness.interval;
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
        if !self.interval.is_zero() {
            parts.push(format!("one sync every {:?} at most", self.interval));
        }
        f.write_str(&parts.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use journal::{FileLog, LogOptions, MemoryDisk};
    use ports::Log;
    use record::frame::LogIdentity;

    #[test]
    fn syncs_are_delayed() {
        let ms = Duration::from_millis;
        for (delay, interval, least) in [(3, 0, 15), (0, 4, 16), (2, 5, 20)] {
            let slowness = SyncDelay { delay: ms(delay), interval: ms(interval) };
            let opened = FileLog::open_or_create(
                MemoryDisk::new(1),
                LogIdentity([1; 16]),
                LogOptions::default(),
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
    fn delay_is_described() {
        let delay = Duration::from_micros(140);
        let both = SyncDelay { delay, interval: Duration::from_millis(2) };
        assert_eq!(both.to_string(), "each sync takes 140µs longer, one sync every 2ms at most");
    }
}
