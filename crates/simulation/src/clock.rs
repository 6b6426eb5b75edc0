//! The clocks of one machine, set to virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ledger::Stamp;
use ports::{Clock, ClockReading};

use crate::parameters::EPOCH_US;

/// Clones show the same time.
#[derive(Clone, Debug, Default)]
pub(crate) struct SimClock(Arc<(AtomicU64, AtomicU64)>);

impl SimClock {
    pub(crate) fn set(&self, now: ClockReading) {
        self.0.0.store(now.monotonic_us, Ordering::Relaxed);
        self.0.1.store(now.wall.0, Ordering::Relaxed);
    }
}

impl Clock for SimClock {
    fn now(&self) -> ClockReading {
        let wall = Stamp(self.0.1.load(Ordering::Relaxed));
        ClockReading { monotonic_us: self.0.0.load(Ordering::Relaxed), wall }
    }
}

/// The time of day at a virtual time, on a wall clock that is wrong by `skew_us`.
pub(crate) fn wall(now: u64, skew_us: i64) -> Stamp {
    Stamp((EPOCH_US + now).saturating_add_signed(skew_us))
}
