//! Time, read in one place and handed on as an argument.

use ledger::Stamp;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockReading {
    /// Microseconds of a clock that never goes back and runs while the process does; its origin
    /// means nothing, so only differences within one process do.
    pub monotonic_us: u64,
    /// The machine's idea of the time of day; it can jump in either direction.
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
