//! Clocks, medians and percentiles.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::Error;
use crate::report::Row;

/// The duration of a piece of work.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measurement {
    pub(crate) wall: Duration,
    /// CPU time of the calling thread.
    pub(crate) cpu: Duration,
}

/// Runs `work` and measures it.
pub(crate) fn time(work: impl FnOnce()) -> Measurement {
    let (wall, cpu) = (Instant::now(), thread_cpu());
    work();
    Measurement { cpu: thread_cpu().saturating_sub(cpu), wall: wall.elapsed() }
}

/// Runs and measures `work` that may fail.
pub(crate) fn try_time(work: impl FnOnce() -> Result<(), Error>) -> Result<Measurement, Error> {
    let mut done = Ok(());
    let took = time(|| done = work());
    done.map(|()| took)
}

/// One case of a table, measured in rounds.
pub(crate) struct Case<'a> {
    pub(crate) name: String,
    /// Measures a round: one value for each column.
    pub(crate) round: Box<dyn FnMut() -> Result<Vec<f64>, Error> + 'a>,
}

/// Runs all cases in turn, round by round. The figures of a row are the medians of its rounds.
pub(crate) fn take_turns(mut cases: Vec<Case<'_>>, rounds: u32) -> Result<Vec<Row>, Error> {
    let mut measured = vec![Vec::new(); cases.len()];
    for _ in 0..rounds {
        for (case, measured) in cases.iter_mut().zip(&mut measured) {
            measured.push((case.round)()?);
        }
    }
    let row = |(case, rounds): (Case<'_>, Vec<Vec<f64>>)| {
        let columns = rounds.first().map_or(0, Vec::len);
        let column = |at: usize| median(rounds.iter().map(|round| round[at]).collect());
        Row { case: case.name, figures: (0..columns).map(column).collect() }
    };
    Ok(cases.into_iter().zip(measured).map(row).collect())
}

/// The median; the lower one of two.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

/// Durations, for their percentiles in microseconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations(Vec<u64>);

impl Durations {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(took.as_nanos() as u64);
    }

    pub(crate) fn append(&mut self, mut others: Self) {
        self.0.append(&mut others.0);
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.iter().sum())
    }

    /// The smallest value that at least this many per mille do not exceed, in microseconds.
    pub(crate) fn per_mille_us(&self, per_mille: usize) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * per_mille).div_ceil(1_000).saturating_sub(1);
        sorted.get(at).map_or(0.0, |nanos| *nanos as f64 / 1e3)
    }
}

fn thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

/// CPU time of all threads so far.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_a_measured_value() {
        for (values, expected) in
            [(vec![], 0.0), (vec![3.0], 3.0), (vec![9.0, 1.0, 5.0], 5.0), (vec![2.0, 1.0], 1.0)]
        {
            assert_eq!(median(values.clone()), expected, "{values:?}");
        }
    }

    #[test]
    fn percentiles_are_measured_values() {
        let mut durations = Durations::default();
        (1..=1_000).rev().for_each(|micros| durations.add(Duration::from_micros(micros)));
        for (per_mille, expected) in [(500, 500.0), (990, 990.0), (999, 999.0), (1_000, 1_000.0)] {
            assert_eq!(durations.per_mille_us(per_mille), expected, "{per_mille}");
        }
    }
}
