//! Histograms of durations, which one thread records and scrapes read.
//!
//! The cells of a histogram are fine enough for both kinds of Prometheus histograms: their bounds
//! are those of a native histogram of schema 3, which grow by a factor of 2^(1/8), and the bounds
//! of the classic buckets ([`CLASSIC_BOUNDS`]). Both are exact sums of cells.
//!
//! Costs: [`Histogram::record`] finds its cell by the number of leading zeros and at most 11
//! comparisons, and adds to the cell and to the sum. A histogram takes 2 KiB.
//!
//! Bounds: durations up to 1 us share the first cell, those above 128 s the last one.

use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bounds of the classic buckets, in nanoseconds, and the text of each in seconds. They
/// contain the bounds of the reference's histograms.
pub const CLASSIC_BOUNDS: [(u64, &str); 17] = [
    (100_000, "0.0001"),
    (250_000, "0.00025"),
    (500_000, "0.0005"),
    (1_000_000, "0.001"),
    (2_500_000, "0.0025"),
    (5_000_000, "0.005"),
    (10_000_000, "0.01"),
    (25_000_000, "0.025"),
    (50_000_000, "0.05"),
    (100_000_000, "0.1"),
    (250_000_000, "0.25"),
    (500_000_000, "0.5"),
    (1_000_000_000, "1"),
    (2_000_000_000, "2"),
    (2_500_000_000, "2.5"),
    (5_000_000_000, "5"),
    (10_000_000_000, "10"),
];

/// Positions in [`CLASSIC_BOUNDS`] of the seven bounds that the reference's histograms have.
pub(crate) const COARSE_BUCKETS: [usize; 7] = [6, 8, 9, 11, 12, 13, 15];

/// Schema of the native buckets: 2^3 of them per factor of two.
pub(crate) const SCHEMA: i32 = 3;
const PER_OCTAVE: usize = 1 << SCHEMA;
/// The native bounds go from 2^-20 s to 2^7 s.
const FIRST_OCTAVE: i32 = -20;
const OCTAVES: usize = 27;
const NATIVE: usize = OCTAVES * PER_OCTAVE + 1;
/// Index of the first native bound in the schema.
pub(crate) const FIRST_NATIVE: i32 = FIRST_OCTAVE * PER_OCTAVE as i32;

/// 2^(k/8) in units of 2^-60.
const ROOTS: [u128; PER_OCTAVE] = [
    1_152_921_504_606_846_976,
    1_257_269_815_929_830_108,
    1_371_062_456_318_104_877,
    1_495_154_210_581_915_421,
    1_630_477_228_166_597_776,
    1_778_048_025_250_290_523,
    1_938_975_120_585_633_118,
    2_114_467_362_444_183_333,
];

/// Native bounds in nanoseconds, rounded down.
const fn native_bounds() -> [u64; NATIVE] {
    let mut bounds = [0; NATIVE];
    let mut at = 0;
    while at < NATIVE {
        let octave = FIRST_OCTAVE + (at / PER_OCTAVE) as i32;
        let nanoseconds = ROOTS[at % PER_OCTAVE] * 1_000_000_000;
        bounds[at] = (nanoseconds >> (60 - octave)) as u64;
        at += 1;
    }
    bounds
}

const NATIVE_BOUNDS: [u64; NATIVE] = native_bounds();

/// Number of classic bounds that are native bounds too.
const fn shared_bounds() -> usize {
    let (mut shared, mut classic) = (0, 0);
    while classic < CLASSIC_BOUNDS.len() {
        let mut native = 0;
        while native < NATIVE {
            shared += (NATIVE_BOUNDS[native] == CLASSIC_BOUNDS[classic].0) as usize;
            native += 1;
        }
        classic += 1;
    }
    shared
}

const BOUNDS: usize = NATIVE + CLASSIC_BOUNDS.len() - shared_bounds();

/// Upper bounds of the cells but the last one, in order.
const fn cell_bounds() -> [u64; BOUNDS] {
    let mut bounds = [0; BOUNDS];
    let (mut at, mut native, mut classic) = (0, 0, 0);
    while at < BOUNDS {
        let fine = if native < NATIVE { NATIVE_BOUNDS[native] } else { u64::MAX };
        let coarse =
            if classic < CLASSIC_BOUNDS.len() { CLASSIC_BOUNDS[classic].0 } else { u64::MAX };
        bounds[at] = if fine < coarse { fine } else { coarse };
        native += (fine <= coarse) as usize;
        classic += (coarse <= fine) as usize;
        at += 1;
    }
    bounds
}

const CELL_BOUNDS: [u64; BOUNDS] = cell_bounds();

/// For each number of leading zeros, the first cell whose bound is not below the smallest duration
/// with as many.
const fn first_cells() -> [u16; 65] {
    let mut cells = [0; 65];
    let mut zeros = 0;
    while zeros < 65 {
        let smallest = if zeros == 64 { 0 } else { 1 << (63 - zeros) };
        let mut cell = 0;
        while cell < BOUNDS && CELL_BOUNDS[cell] < smallest {
            cell += 1;
        }
        cells[zeros] = cell as u16;
        zeros += 1;
    }
    cells
}

const FIRST_CELLS: [u16; 65] = first_cells();

/// The cell of a duration.
#[inline]
fn cell_of(nanoseconds: u64) -> usize {
    let mut cell = FIRST_CELLS[nanoseconds.leading_zeros() as usize] as usize;
    while cell < BOUNDS && CELL_BOUNDS[cell] < nanoseconds {
        cell += 1;
    }
    cell
}

/// Index of the classic bucket of a duration; [`CLASSIC_BOUNDS`]`.len()` for the last one.
pub(crate) fn classic_bucket(nanoseconds: u64) -> usize {
    CLASSIC_BOUNDS.iter().take_while(|(bound, _)| *bound < nanoseconds).count()
}

/// A histogram that one thread records and others read.
#[derive(Debug)]
pub struct Histogram {
    cells: [AtomicU64; BOUNDS + 1],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { cells: [const { AtomicU64::new(0) }; BOUNDS + 1], sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Records a duration; only the thread that owns the histogram may call this.
    #[inline]
    pub fn record(&self, nanoseconds: u64) {
        self.record_times(nanoseconds, 1);
    }

    /// Records the same duration several times.
    #[inline]
    pub fn record_times(&self, nanoseconds: u64, times: u64) {
        // With one writer, no read-modify-write is needed.
        let add = |to: &AtomicU64, more: u64| {
            to.store(to.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
        };
        add(&self.cells[cell_of(nanoseconds)], times);
        add(&self.sum_ns, nanoseconds.saturating_mul(times));
    }
}

/// The sum of histograms at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Distribution {
    cells: Box<[u64; BOUNDS + 1]>,
    sum_ns: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        Self { cells: Box::new([0; BOUNDS + 1]), sum_ns: 0 }
    }
}

impl Distribution {
    /// Adds the recorded durations of a thread.
    pub fn add(&mut self, histogram: &Histogram) {
        for (sum, cell) in self.cells.iter_mut().zip(&histogram.cells) {
            *sum += cell.load(Ordering::Relaxed);
        }
        self.sum_ns = self.sum_ns.wrapping_add(histogram.sum_ns.load(Ordering::Relaxed));
    }

    /// Adds another sum.
    pub fn add_sum(&mut self, other: &Self) {
        for (sum, cell) in self.cells.iter_mut().zip(&*other.cells) {
            *sum += cell;
        }
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
    }

    /// The durations that were recorded after an earlier sum of the same histograms.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut later = self.clone();
        for (cell, before) in later.cells.iter_mut().zip(&*earlier.cells) {
            *cell = cell.saturating_sub(*before);
        }
        later.sum_ns = later.sum_ns.wrapping_sub(earlier.sum_ns);
        later
    }

    /// The duration in nanoseconds below which this many of a thousand durations are, rounded up to
    /// the bound of its cell, which is at most 9 % more. `None` without durations.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> Option<u64> {
        let count = u128::from(self.count());
        let rank = (count * u128::from(per_mille.min(1_000))).div_ceil(1_000).max(1);
        let mut sum = 0;
        let cell = self.cells.iter().position(|cell| {
            sum += u128::from(*cell);
            rank <= sum
        });
        cell.map(|cell| CELL_BOUNDS[cell.min(BOUNDS - 1)])
    }

    /// Number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.cells.iter().sum()
    }

    /// Sum of the durations, in nanoseconds.
    #[must_use]
    pub const fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// Number of durations up to each classic bound.
    #[must_use]
    pub fn classic(&self) -> [u64; CLASSIC_BOUNDS.len()] {
        let mut counts = [0; CLASSIC_BOUNDS.len()];
        let (mut sum, mut cell) = (0, 0);
        for (count, (bound, _)) in counts.iter_mut().zip(CLASSIC_BOUNDS) {
            while CELL_BOUNDS[cell] <= bound {
                sum += self.cells[cell];
                cell += 1;
            }
            *count = sum;
        }
        counts
    }

    /// The native buckets that are not empty: their index in the schema, and their count.
    pub(crate) fn native(&self) -> impl Iterator<Item = (i32, u64)> {
        let mut cell = 0;
        let bucket = move |(at, bound): (usize, Option<u64>)| {
            let mut count = 0;
            while cell <= BOUNDS
                && bound.is_none_or(|bound| cell < BOUNDS && CELL_BOUNDS[cell] <= bound)
            {
                count += self.cells[cell];
                cell += 1;
            }
            (FIRST_NATIVE + at as i32, count)
        };
        let bounds = NATIVE_BOUNDS.into_iter().map(Some).chain([None]);
        bounds.enumerate().map(bucket).filter(|(_, count)| *count != 0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn distribution(durations: &[u64]) -> Distribution {
        let histogram = Histogram::default();
        durations.iter().for_each(|duration| histogram.record(*duration));
        let mut sum = Distribution::default();
        sum.add(&histogram);
        sum
    }

    #[test]
    fn bounds_grow_by_the_factor_of_the_schema() {
        for (at, bound) in NATIVE_BOUNDS.into_iter().enumerate() {
            let exact = 2f64.powf(f64::from(FIRST_NATIVE + at as i32) / 8.0) * 1e9;
            assert!((exact - 1.5..exact + 0.5).contains(&(bound as f64)), "{at}: {bound} {exact}");
        }
        assert!(CELL_BOUNDS.is_sorted_by(|one, next| one < next));
        assert_eq!(shared_bounds(), 4, "0.25, 0.5, 1 and 2 s");
    }

    #[test]
    fn coarse_buckets_have_the_bounds_of_the_reference() {
        let texts = COARSE_BUCKETS.map(|at| CLASSIC_BOUNDS[at].1);
        assert_eq!(texts, ["0.01", "0.05", "0.1", "0.5", "1", "2", "5"]);
    }

    #[test]
    fn extreme_durations_have_a_cell() {
        let ends = distribution(&[0, 1, u64::MAX / 4]);
        assert_eq!(ends.count(), 3);
        assert_eq!(ends.classic(), [2; CLASSIC_BOUNDS.len()]);
        let native: Vec<_> = ends.native().collect();
        assert_eq!(native, [(FIRST_NATIVE, 2), (FIRST_NATIVE + NATIVE as i32, 1)]);
    }

    proptest! {
        #[test]
        fn buckets_count_what_was_recorded(durations in prop::collection::vec(0..1u64 << 38, 0..200)) {
            let sum = distribution(&durations);
            prop_assert_eq!(sum.count(), durations.len() as u64);
            prop_assert_eq!(sum.sum_ns(), durations.iter().sum::<u64>());
            let up_to = |bound| durations.iter().filter(|it| **it <= bound).count() as u64;
            prop_assert_eq!(sum.classic(), CLASSIC_BOUNDS.map(|(bound, _)| up_to(bound)));
            let mut native = 0;
            for (index, count) in sum.native() {
                let at = (index - FIRST_NATIVE) as usize;
                native += count;
                let bound = NATIVE_BOUNDS.get(at).copied().unwrap_or(u64::MAX);
                prop_assert_eq!(native, up_to(bound));
            }
        }
    }
}
