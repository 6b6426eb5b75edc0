//! Exemplars: for each classic bucket of a histogram, one recent duration with its trace.
//!
//! One thread records and scrapes read. A sequence number that is odd during a change lets a
//! reader skip an exemplar that is being replaced. An exemplar is kept for a second, so that most
//! durations cost one comparison.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::histogram::{CLASSIC_BOUNDS, classic_bucket};

/// How long an exemplar is kept, in milliseconds.
const KEPT_MS: u64 = 1_000;

/// A duration with its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    /// W3C trace id.
    pub trace: [u8; 16],
    /// The duration, in nanoseconds.
    pub nanoseconds: u64,
    /// When it was recorded, in milliseconds since 1970.
    pub at_ms: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// Odd while the other fields change; 0 before the first exemplar.
    sequence: AtomicU64,
    trace: [AtomicU64; 2],
    nanoseconds: AtomicU64,
    at_ms: AtomicU64,
}

/// The exemplars of a histogram: one per classic bucket, and one for longer durations.
#[derive(Debug, Default)]
pub struct Exemplars([Slot; CLASSIC_BOUNDS.len() + 1]);

impl Exemplars {
    /// Records a duration if its bucket has no recent exemplar; only the thread that owns the
    /// exemplars may call this.
    #[inline]
    pub fn record(&self, exemplar: &Exemplar) {
        let slot = &self.0[classic_bucket(exemplar.nanoseconds)];
        let kept_until = slot.at_ms.load(Ordering::Relaxed) + KEPT_MS;
        if kept_until <= exemplar.at_ms {
            slot.replace(exemplar);
        }
    }

    /// The exemplar of a classic bucket, if it is newer than `found`.
    pub(crate) fn newer(&self, bucket: usize, found: Option<Exemplar>) -> Option<Exemplar> {
        let own = self.0[bucket].read();
        own.filter(|own| found.is_none_or(|found| found.at_ms < own.at_ms)).or(found)
    }
}

impl Slot {
    #[cold]
    fn replace(&self, exemplar: &Exemplar) {
        let sequence = self.sequence.load(Ordering::Relaxed);
        self.sequence.store(sequence + 1, Ordering::Relaxed);
        fence(Ordering::Release);
        let trace = u128::from_be_bytes(exemplar.trace);
        self.trace[0].store((trace >> 64) as u64, Ordering::Relaxed);
        self.trace[1].store(trace as u64, Ordering::Relaxed);
        self.nanoseconds.store(exemplar.nanoseconds, Ordering::Relaxed);
        self.at_ms.store(exemplar.at_ms, Ordering::Relaxed);
        self.sequence.store(sequence + 2, Ordering::Release);
    }

    fn read(&self) -> Option<Exemplar> {
        let before = self.sequence.load(Ordering::Acquire);
        if before == 0 || before % 2 == 1 {
            return None;
        }
        let [high, low] = &self.trace;
        let trace = u128::from(high.load(Ordering::Relaxed)) << 64
            | u128::from(low.load(Ordering::Relaxed));
        let exemplar = Exemplar {
            trace: trace.to_be_bytes(),
            nanoseconds: self.nanoseconds.load(Ordering::Relaxed),
            at_ms: self.at_ms.load(Ordering::Relaxed),
        };
        fence(Ordering::Acquire);
        (self.sequence.load(Ordering::Relaxed) == before).then_some(exemplar)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exemplar_is_replaced_after_a_second() {
        let exemplars = Exemplars::default();
        let exemplar = |at_ms| Exemplar { trace: [7; 16], nanoseconds: 3_000_000, at_ms };
        let bucket = classic_bucket(3_000_000);
        assert_eq!(exemplars.newer(bucket, None), None);
        for (at_ms, kept) in [(5_000, 5_000), (5_999, 5_000), (6_000, 6_000)] {
            exemplars.record(&exemplar(at_ms));
            assert_eq!(exemplars.newer(bucket, None), Some(exemplar(kept)));
        }
        assert_eq!(exemplars.newer(bucket, Some(exemplar(9_000))), Some(exemplar(9_000)));
        assert_eq!(exemplars.newer(bucket + 1, None), None);
    }
}
