//! Time, read in one place and passed on as an argument.

use ledger::Stamp;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Microseconds of a monotonic clock. Its origin is arbitrary: only differences within one
    /// process have a meaning.
    pub monotonic_us: u64,
    /// The machine's wall clock; it can jump in either direction.
    pub wall: Stamp,
}

/// The two clocks of a machine.
///
/// Only drivers hold a clock. State machines take a [`ClockReading`] so that a run can be repeated
/// exactly.
pub trait Clock: Send + Sync {
    /// Reads both clocks. [`ClockReading::monotonic_us`] is never less than in an earlier reading,
    /// from whatever thread.
    fn now(&self) -> ClockReading;
}
