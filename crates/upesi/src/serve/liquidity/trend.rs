//! Samples of positions, from which the trend of the last hour is computed.
//!
//! The trend is that of transfers: when the operator or a settlement moves a position, its earlier
//! samples are moved by the same amount.
//!
//! The samples are in memory only: after a start there is no trend until two exist. Memory: 8 bytes
//! per sample, at most [`SAMPLES_MAX`] per participant and currency.

use std::collections::{HashMap, VecDeque};

use ledger::{Amount, Currency, ParticipantIndex, Stamp};
use operations::PositionTrend;
use ports::ClockReading;

/// Samples that are kept of a position: those of an hour.
const SAMPLES_MAX: usize = 60;
/// Time between two samples, in microseconds.
const INTERVAL_US: u64 = 60 * 1_000_000;
/// Microseconds of an hour.
const HOUR_US: f64 = 3_600e6;

/// A position.
pub(super) type PositionKey = (ParticipantIndex, Currency);

/// The samples of all positions.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Times of the samples on the monotonic clock, in microseconds.
    times: VecDeque<u64>,
    /// Time of the newest sample.
    at: Stamp,
    /// Positions in ten-thousandths. The last one is of the newest sample.
    positions: HashMap<PositionKey, VecDeque<f64>>,
}

impl Samples {
    /// Whether the next sample is due.
    pub(super) fn is_due(&self, now: ClockReading) -> bool {
        let last = self.times.back();
        last.is_none_or(|last| last + INTERVAL_US <= now.monotonic_us)
    }

    /// Adds a sample of all positions. Positions that are not in it are removed.
    pub(super) fn add(&mut self, now: ClockReading, sample: &[(PositionKey, Amount)]) {
        self.times.push_back(now.monotonic_us);
        self.at = now.wall;
        let mut known = std::mem::take(&mut self.positions);
        for (key, position) in sample {
            let mut series = known.remove(key).unwrap_or_default();
            series.push_back(position.units() as f64);
            self.positions.insert(*key, series);
        }
        if SAMPLES_MAX < self.times.len() {
            self.times.pop_front();
        }
        for series in self.positions.values_mut().filter(|series| SAMPLES_MAX < series.len()) {
            series.pop_front();
        }
    }

    /// Moves the samples of a position by an amount that no transfer has moved.
    pub(super) fn shift(&mut self, key: PositionKey, amount: Amount) {
        let series = self.positions.get_mut(&key).into_iter().flatten();
        series.for_each(|position| *position += amount.units() as f64);
    }

    /// The trend of a position; `None` without two samples.
    pub(crate) fn trend(&self, key: PositionKey) -> Option<PositionTrend> {
        let series = self.positions.get(&key)?;
        let times = self.times.iter().skip(self.times.len() - series.len());
        let start = *times.clone().next()?;
        let hours = times.map(|time| (time - start) as f64 / HOUR_US);
        let points: Vec<_> = hours.zip(series.iter().copied()).collect();
        let per_hour = Amount::from_units(slope(&points)?.round() as i128);
        Some(PositionTrend { per_hour, at: self.at })
    }
}

/// The slope of the line with the least squares; `None` if all points have the same x.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let products = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    let squares = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    (0.0 < squares).then(|| products / squares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(index: u32) -> PositionKey {
        (ParticipantIndex(index), Currency::parse("USD").expect("a currency"))
    }

    fn minute(number: u64) -> ClockReading {
        let us = number * INTERVAL_US;
        ClockReading { wall: Stamp(1_000 + us), monotonic_us: us }
    }

    /// The trend per hour of positions in whole units, one a minute.
    fn trend(positions: &[i128]) -> Option<String> {
        let mut samples = Samples::default();
        for (number, position) in positions.iter().enumerate() {
            let position = Amount::from_units(position * 10_000);
            samples.add(minute(number as u64), &[(key(1), position)]);
        }
        samples.trend(key(1)).map(|trend| trend.per_hour.to_string())
    }

    #[test]
    fn trend_is_the_slope_of_the_last_hour() {
        let check = |positions: &[i128], expected: Option<&str>| {
            assert_eq!(trend(positions).as_deref(), expected, "{positions:?}");
        };
        check(&[], None);
        check(&[5], None);
        check(&[5, 5], Some("0"));
        check(&[0, 10], Some("600"));
        check(&[10, 0], Some("-600"));
        check(&[0, 1, 2, 3], Some("60"));
        check(&[1, 3, 4, 4], Some("60"));
        let old = (0..60).map(|_| 1_000_000);
        let new = (0..60).map(|minute| minute * 7);
        check(&old.chain(new).collect::<Vec<_>>(), Some("420"));
        check(&[i128::from(i64::MAX), i128::from(i64::MAX)], Some("0"));
    }

    #[test]
    fn changes_other_than_transfers_are_no_trend() {
        let mut samples = Samples::default();
        let amount = |whole: i128| Amount::from_units(whole * 10_000);
        let trend = |samples: &Samples| samples.trend(key(1)).map(|trend| trend.per_hour);
        samples.shift(key(1), amount(7));
        for number in 0..3 {
            samples.add(minute(number), &[(key(1), amount(100 + number as i128))]);
        }
        assert_eq!(trend(&samples), Some(amount(60)));
        samples.shift(key(1), amount(-100));
        assert_eq!(trend(&samples), Some(amount(60)));
        for number in 3..6 {
            samples.add(minute(number), &[(key(1), amount(number as i128))]);
        }
        assert_eq!(trend(&samples), Some(amount(60)));
        samples.shift(key(2), amount(5));
        assert_eq!(samples.trend(key(2)), None);
    }

    #[test]
    fn late_and_removed_positions_have_their_own_series() {
        let mut samples = Samples::default();
        let amount = |whole: i128| Amount::from_units(whole * 10_000);
        for number in 0..3 {
            assert!(samples.is_due(minute(number)));
            samples.add(minute(number), &[(key(1), amount(0))]);
            assert!(!samples.is_due(minute(number)));
        }
        samples.add(minute(3), &[(key(1), amount(0)), (key(2), amount(5))]);
        assert_eq!(samples.trend(key(2)), None);
        samples.add(minute(4), &[(key(2), amount(6))]);
        let trend = PositionTrend { per_hour: amount(60), at: minute(4).wall };
        assert_eq!(samples.trend(key(2)), Some(trend));
        assert_eq!(samples.trend(key(1)), None);
    }
}
