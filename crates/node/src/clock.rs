//! The machine's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ledger::Stamp;
use ports::{Clock, ClockReading};

/// The real clocks. Copies share their origin, so that their readings can be compared.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// Clocks whose monotonic origin is now.
    #[must_use]
    pub fn new() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> ClockReading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ClockReading {
            monotonic_us: self.origin.elapsed().as_micros() as u64,
            wall: Stamp(wall.as_micros() as u64),
        }
    }
}
