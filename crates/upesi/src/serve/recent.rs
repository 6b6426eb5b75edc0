//! Rates and latencies of the last seconds, for `GET /status`.
//!
//! The thread `liquidity` samples counters and histograms that other threads maintain anyway, once
//! a second. A sample takes 4 KiB; [`WINDOW`] of them are kept.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ledger::Counters;
use metrics::{Distribution, Histogram};
use node::{Handle, NodeStatus};
use operations::{HISTORY_MAX, LogActivity, Rate};

/// Seconds over which rates are computed.
const WINDOW: usize = 10;
/// Interval of the samples, in microseconds.
const INTERVAL_US: u64 = 1_000_000;
/// 99th percentile and median, in thousandths.
const P99: u64 = 990;
const P50: u64 = 500;

/// The samples of the last seconds.
#[derive(Debug, Default)]
pub(crate) struct RecentActivity(Mutex<Samples>);

#[derive(Debug, Default)]
struct Samples {
    /// Oldest first, at most [`WINDOW`] and one.
    recent: VecDeque<Sample>,
    history: VecDeque<Rate>,
}

/// Counters and durations since the start, at one time.
#[derive(Clone, Debug, Default)]
struct Sample {
    at_us: u64,
    counters: Counters,
    records: u64,
    commit: Distribution,
    sync: Distribution,
}

impl RecentActivity {
    /// Takes a sample, unless the last one is less than a second old.
    pub(crate) fn sample<M: Send + Sync + 'static>(&self, node: &Handle<M>, now_us: u64) {
        let last = self.samples().recent.back().map(|sample| sample.at_us);
        if last.is_some_and(|last| now_us.saturating_sub(last) < INTERVAL_US) {
            return;
        }
        let (status, times) = (node.status(), node.stage_times());
        let (commit, sync) = (sum(&times.commit), sum(&times.sync));
        self.samples().add(Sample { at_us: now_us, commit, sync, ..Sample::of(&status) });
    }

    /// The rate of the last seconds, that of each second before, and the log.
    pub(crate) fn rates(&self, node: &NodeStatus) -> (Rate, Vec<Rate>, LogActivity) {
        let samples = self.samples();
        let log = LogActivity {
            index: node.log_index.0,
            store_index: node.stored.0,
            ..LogActivity::default()
        };
        let (Some(first), Some(last)) = (samples.recent.front(), samples.recent.back()) else {
            return (Rate::default(), Vec::new(), log);
        };
        let syncs = last.sync.since(&first.sync);
        let log = LogActivity {
            records: last.per_second(first, |sample| sample.records),
            sync_p50_ms: milliseconds(&syncs, P50),
            sync_p99_ms: milliseconds(&syncs, P99),
            ..log
        };
        (last.rate_since(first), samples.history.iter().cloned().collect(), log)
    }

    fn samples(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Samples {
    fn add(&mut self, sample: Sample) {
        if let Some(last) = self.recent.back() {
            self.history.push_back(sample.rate_since(last));
        }
        self.recent.push_back(sample);
        while WINDOW + 1 < self.recent.len() {
            self.recent.pop_front();
        }
        while HISTORY_MAX < self.history.len() {
            self.history.pop_front();
        }
    }
}

impl Sample {
    fn of(node: &NodeStatus) -> Self {
        Self { counters: node.counters, records: node.log_index.0, ..Self::default() }
    }

    fn seconds_since(&self, earlier: &Self) -> f64 {
        self.at_us.saturating_sub(earlier.at_us) as f64 / 1e6
    }

    fn per_second(&self, earlier: &Self, count: impl Fn(&Self) -> u64) -> f64 {
        let seconds = self.seconds_since(earlier);
        match 0.0 < seconds {
            true => tenths(count(self).saturating_sub(count(earlier)) as f64 / seconds, 10.0),
            false => 0.0,
        }
    }

    fn rate_since(&self, earlier: &Self) -> Rate {
        let commits = self.commit.since(&earlier.commit);
        Rate {
            seconds: tenths(self.seconds_since(earlier), 10.0),
            reserved: self.per_second(earlier, |sample| sample.counters.reserved),
            committed: self.per_second(earlier, |sample| sample.counters.committed),
            aborted: self.per_second(earlier, |sample| sample.counters.aborted),
            refused: self.per_second(earlier, |sample| sample.counters.refused),
            expired: self.per_second(earlier, |sample| sample.counters.expired),
            commit_p50_ms: milliseconds(&commits, P50),
            commit_p99_ms: milliseconds(&commits, P99),
        }
    }
}

fn sum(histogram: &Histogram) -> Distribution {
    let mut sum = Distribution::default();
    sum.add(histogram);
    sum
}

fn milliseconds(durations: &Distribution, per_mille: u64) -> Option<f64> {
    durations.quantile(per_mille).map(|nanoseconds| tenths(nanoseconds as f64 / 1e6, 1_000.0))
}

/// A number rounded to the steps of which the whole has this many.
fn tenths(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(second: u64, committed: u64) -> Sample {
        let counters = Counters { committed, ..Counters::default() };
        Sample { at_us: second * INTERVAL_US, counters, ..Sample::default() }
    }

    #[test]
    fn rates_are_those_of_the_last_seconds() {
        let mut samples = Samples::default();
        // 5 per second for a minute and more, then 100 per second.
        let mut committed = 0;
        for second in 0..100 {
            samples.add(sample(second, committed));
            committed += if second < 94 { 5 } else { 100 };
        }
        assert_eq!((samples.recent.len(), samples.history.len()), (WINDOW + 1, HISTORY_MAX));
        let (first, last) = (&samples.recent[0], &samples.recent[WINDOW]);
        let rate = last.rate_since(first);
        assert_eq!((rate.seconds, rate.committed), (10.0, 52.5));
        assert_eq!(rate.commit_p99_ms, None, "nothing was measured");
        let ends = (samples.history[0].committed, samples.history[HISTORY_MAX - 1].committed);
        assert_eq!(ends, (5.0, 100.0));
    }
}
