//! Measurements of a driver: latencies of the whole run and of its steady part, and the figures of
//! each second. All times are microseconds. There is no allocation per unit.
//!
//! A unit belongs to the steady part by its intended start (runs of a given length) or by its
//! number among the ended units (runs of a given count). The rate counts the units that ended in
//! the steady part. Single seconds are kept up to [`SECONDS_MAX`].

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dfsp::Outcome;
use hdrhistogram::Histogram;
use serde::Serialize;

/// Maximum number of single seconds that are kept; later ones are in the totals only.
pub const SECONDS_MAX: usize = 86_400;
/// Maximum number of end times that are kept.
const ENDS_MAX: usize = 4_000_000;
const LATENCY_MICROS_MAX: u64 = 3_600_000_000;

/// Latencies in microseconds.
#[derive(Clone)]
pub struct Latencies {
    pub whole: Histogram<u64>,
    pub accepted: Histogram<u64>,
    pub lookup: Histogram<u64>,
    pub quote: Histogram<u64>,
    pub transfer: Histogram<u64>,
    /// From a payer's message to the call of its payee, for bulks.
    pub payee_called: Histogram<u64>,
}

/// One second of the measured part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Second {
    /// Its number, from 0.
    pub second: u32,
    /// Units that succeeded in it.
    pub ended: u64,
    /// Units that failed in it.
    pub failed: u64,
    /// Units due in it that were not started, because too many were in flight.
    pub dropped: u64,
    /// Median latency of the successful units, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile of their latency, in milliseconds.
    pub p99_ms: f64,
}

/// The bounds of the steady part, as used by a driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bounds {
    /// There is no steady part.
    #[default]
    None,
    /// Times after the start.
    Time(Duration, Duration),
    /// Numbers among the ended units.
    Count(u64, u64),
}

/// The measured steady part.
#[derive(Clone)]
pub struct Steady {
    pub whole: Histogram<u64>,
    /// Units that succeeded in it.
    pub ended: u64,
    /// Start and end of it, after the start of the run.
    pub span: Option<(Duration, Duration)>,
}

/// All measurements of one driver.
pub struct Histograms {
    pub latencies: Latencies,
    pub steady: Steady,
    /// Latencies since the last progress update.
    pub recent: Histogram<u64>,
    /// Failures by leg and cause: the number, and one id.
    pub failures: BTreeMap<String, (u64, String)>,
    /// Time and group of each successful unit, if kept.
    pub ends: Option<Vec<(Instant, u16)>>,
    bounds: Bounds,
    from: Option<Instant>,
    ended: u64,
    seconds: Vec<Second>,
    current: Second,
    current_latency: Histogram<u64>,
}

/// The result of a unit of the measured part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Good,
    Failed,
    Dropped,
}

impl Histograms {
    pub fn new(keeps_ends: bool) -> Self {
        Self {
            ends: keeps_ends.then(Vec::new),
            latencies: Latencies::new(),
            steady: Steady { whole: histogram(), ended: 0, span: None },
            recent: histogram(),
            failures: BTreeMap::new(),
            bounds: Bounds::None,
            from: None,
            ended: 0,
            seconds: Vec::new(),
            current: Second::default(),
            current_latency: histogram(),
        }
    }

    /// Starts the measured part.
    pub fn begin(&mut self, from: Instant, bounds: Bounds) {
        self.from = Some(from);
        self.bounds = bounds;
        if let Bounds::Time(first, last) = bounds {
            self.steady.span = Some((first, last));
        }
    }

    /// Records a unit of the measured part that succeeded now.
    pub fn good(&mut self, outcome: &Outcome, group: usize, now: Instant) {
        self.latencies.record(outcome);
        if let Some(ends) = self.ends.as_mut().filter(|ends| ends.len() < ENDS_MAX) {
            ends.push((now, u16::try_from(group).unwrap_or(u16::MAX)));
        }
        let Some(from) = self.from else { return };
        let (end, intended) =
            (now - from, outcome.payment.intended.saturating_duration_since(from));
        self.ended += 1;
        match self.bounds {
            Bounds::None => {}
            Bounds::Time(first, last) => {
                self.steady.ended += u64::from((first..last).contains(&end));
                if (first..last).contains(&intended) {
                    record(&mut self.steady.whole, outcome.whole);
                }
            }
            Bounds::Count(first, last) => {
                if (first..last).contains(&self.ended) {
                    self.steady.ended += 1;
                    record(&mut self.steady.whole, outcome.whole);
                    self.steady.span = Some((self.steady.span.map_or(end, |it| it.0), end));
                }
            }
        }
        self.note(end, Fate::Good);
        record(&mut self.current_latency, outcome.whole);
    }

    /// Records a unit of the measured part that failed or was dropped now.
    pub fn bad(&mut self, fate: Fate, now: Instant) {
        if let Some(from) = self.from {
            self.note(now.saturating_duration_since(from), fate);
        }
    }

    /// The seconds so far, including the current one.
    pub fn seconds(&self) -> Vec<Second> {
        let mut seconds = self.seconds.clone();
        if self.from.is_some() && seconds.len() < SECONDS_MAX {
            seconds.push(self.closed());
        }
        seconds
    }

    fn note(&mut self, end: Duration, fate: Fate) {
        let second = u32::try_from(end.as_secs()).unwrap_or(u32::MAX);
        while self.current.second < second && self.seconds.len() < SECONDS_MAX {
            self.seconds.push(self.closed());
            self.current_latency.reset();
            let next = self.current.second + 1;
            self.current = Second { second: next, ..Second::default() };
        }
        match fate {
            Fate::Good => self.current.ended += 1,
            Fate::Failed => self.current.failed += 1,
            Fate::Dropped => self.current.dropped += 1,
        }
    }

    fn closed(&self) -> Second {
        let at = |quantile| self.current_latency.value_at_quantile(quantile) as f64 / 1e3;
        let empty = self.current_latency.is_empty();
        let [p50_ms, p99_ms] = if empty { [0.0; 2] } else { [at(0.5), at(0.99)] };
        Second { p50_ms, p99_ms, ..self.current }
    }
}

/// Adds the seconds of one driver to those of another. Percentiles are those of the slower one.
pub fn add_seconds(all: &mut Vec<Second>, more: &[Second]) {
    for (index, second) in more.iter().enumerate() {
        if all.len() <= index {
            all.push(Second { second: second.second, ..Second::default() });
        }
        let sum = &mut all[index];
        sum.ended += second.ended;
        sum.failed += second.failed;
        sum.dropped += second.dropped;
        sum.p50_ms = sum.p50_ms.max(second.p50_ms);
        sum.p99_ms = sum.p99_ms.max(second.p99_ms);
    }
}

impl Steady {
    pub fn add(&mut self, other: &Self) {
        self.whole.add(&other.whole).expect("all histograms have the same bounds");
        self.ended += other.ended;
        self.span = match (self.span, other.span) {
            (Some(one), Some(two)) => Some((one.0.min(two.0), one.1.max(two.1))),
            (one, two) => one.or(two),
        };
    }
}

impl Latencies {
    pub(crate) fn new() -> Self {
        let [whole, accepted, lookup, quote, transfer, payee_called] =
            std::array::from_fn(|_| histogram());
        Self { whole, accepted, lookup, quote, transfer, payee_called }
    }

    fn parts(&mut self) -> [&mut Histogram<u64>; 6] {
        let Self { whole, accepted, lookup, quote, transfer, payee_called } = self;
        [whole, accepted, lookup, quote, transfer, payee_called]
    }

    fn record(&mut self, outcome: &Outcome) {
        let Outcome { whole, accepted, lookup, quote, transfer_time, payee_called, .. } = *outcome;
        let times = [Some(whole), accepted, lookup, quote, transfer_time, payee_called];
        for (part, time) in self.parts().into_iter().zip(times) {
            time.into_iter().for_each(|time| record(part, time));
        }
    }

    pub fn add(&mut self, mut other: Self) {
        for (mine, theirs) in self.parts().into_iter().zip(other.parts()) {
            mine.add(&*theirs).expect("all histograms have the same bounds");
        }
    }
}

pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MICROS_MAX, 3).expect("the bounds are in order")
}

pub fn record(histogram: &mut Histogram<u64>, time: Duration) {
    histogram.saturating_record(time.as_micros() as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use dfsp::{End, Payment, PaymentFlow};
    use ledger::{Amount, TransferId};

    /// A unit that should have started `intended` and ended `end` after the start of the run.
    fn outcome(from: Instant, intended: u64, end: u64) -> (Outcome, Instant) {
        let moment = |millis| from + Duration::from_millis(millis);
        let payment = Payment {
            flow: PaymentFlow::Lookup,
            payer_msisdn: 1,
            payee_msisdn: 2,
            amount: Amount::ZERO,
            intended: moment(intended),
        };
        let id = "00000000-0000-4000-8000-000000000001";
        let outcome = Outcome {
            transfer: TransferId::parse(id).expect("an id"),
            payment,
            started: moment(intended),
            accepted: None,
            lookup: None,
            quote: None,
            payee_called: None,
            transfer_time: None,
            whole: Duration::from_millis(end - intended),
            end: End::Reached,
        };
        (outcome, moment(end))
    }

    fn records(bounds: Bounds, units: &[(u64, u64)]) -> Histograms {
        let from = Instant::now();
        let mut records = Histograms::new(true);
        records.begin(from, bounds);
        for &(intended, end) in units {
            let (outcome, end) = outcome(from, intended, end);
            records.good(&outcome, 0, end);
        }
        records
    }

    #[test]
    fn steady_part_selects_units_by_intended_start_and_rate_by_end() {
        let bounds = Bounds::Time(Duration::from_millis(1_000), Duration::from_millis(2_000));
        // The second unit should have started before the window and was late. The fourth one ends
        // after it.
        let units = [(100, 110), (900, 1_500), (1_100, 1_200), (1_900, 2_500)];
        let steady = records(bounds, &units).steady;
        assert_eq!((steady.ended, steady.whole.len()), (2, 2));
        assert!(steady.whole.max() >= 600_000, "the late unit of the window counts");
    }

    #[test]
    fn steady_part_of_a_count_selects_units_by_number() {
        let units: Vec<_> = (1..=10).map(|number| (number * 10, number * 10 + 5)).collect();
        let steady = records(Bounds::Count(3, 9), &units).steady;
        assert_eq!((steady.ended, steady.whole.len()), (6, 6));
        let span = (Duration::from_millis(35), Duration::from_millis(85));
        assert_eq!(steady.span, Some(span));
    }

    #[test]
    fn seconds_without_a_unit_are_kept_too() {
        let units = [(10, 20), (10, 30), (3_000, 3_100)];
        let seconds = records(Bounds::None, &units).seconds();
        let ended: Vec<u64> = seconds.iter().map(|second| second.ended).collect();
        assert_eq!(ended, [2, 0, 0, 1]);
        assert_eq!(seconds[3].second, 3);
        let mut all = Vec::new();
        add_seconds(&mut all, &seconds);
        add_seconds(&mut all, &seconds[..2]);
        assert_eq!((all[0].ended, all[3].ended, all.len()), (4, 1, 4));
    }
}
