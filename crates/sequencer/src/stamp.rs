//! The clock for batch timestamps (DESIGN contract 3). It never runs backwards. It follows the
//! monotonic clock and is corrected towards wall time by a bounded slew, so that a jump of the wall
//! clock neither expires transfers early nor keeps them from expiring.

use ledger::Stamp;
use ports::ClockReading;

/// The stamp gains or loses at most 1/20 of the elapsed time against the monotonic clock.
pub const SLEW_DIVISOR: u64 = 20;

/// Makes stamps from two clocks.
#[derive(Clone, Copy, Debug)]
pub struct StampClock {
    last: Stamp,
    /// Monotonic microseconds at which `last` was made.
    at: u64,
}

impl StampClock {
    /// Begins at wall time, or at the last stamp in the log if that is later.
    #[must_use]
    pub fn new(now: ClockReading, last_in_log: Stamp) -> Self {
        Self { last: now.wall.max(last_in_log), at: now.monotonic_us }
    }

    /// The stamp of a batch sealed now; never before an earlier one.
    pub fn stamp(&mut self, now: ClockReading) -> Stamp {
        let elapsed = now.monotonic_us.saturating_sub(self.at);
        let straight = self.last.0.saturating_add(elapsed);
        let slew = elapsed / SLEW_DIVISOR;
        let bounded =
            now.wall.0.clamp(straight - slew.min(straight), straight.saturating_add(slew));
        self.last = Stamp(bounded.max(self.last.0));
        self.at = self.at.max(now.monotonic_us);
        self.last
    }

    /// The stamp that a batch would have now.
    #[must_use]
    pub fn at(&self, now: ClockReading) -> Stamp {
        let mut clock = *self;
        clock.stamp(now)
    }

    /// Microseconds from `now` until stamps reach `due`, at the slowest rate of the slew.
    #[must_use]
    pub fn wait_us(&self, now: ClockReading, due: Stamp) -> u64 {
        let elapsed = now.monotonic_us.saturating_sub(self.at);
        let remaining = due.0.saturating_sub(self.last.0.saturating_add(elapsed));
        remaining.saturating_add(remaining / (SLEW_DIVISOR - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now(monotonic_us: u64, wall: u64) -> ClockReading {
        ClockReading { monotonic_us, wall: Stamp(wall) }
    }

    #[test]
    fn stamps_follow_a_true_wall_clock() {
        let mut clock = StampClock::new(now(0, 1_000_000), Stamp(0));
        assert_eq!(clock.stamp(now(500, 1_000_500)), Stamp(1_000_500));
        assert_eq!(clock.stamp(now(500, 1_000_500)), Stamp(1_000_500));
    }

    #[test]
    fn a_wall_clock_that_jumps_is_followed_slowly() {
        for (wall, expected) in [(9_000_000, 1_002_100), (0, 1_001_900)] {
            let mut clock = StampClock::new(now(0, 1_000_000), Stamp(0));
            assert_eq!(clock.stamp(now(2_000, wall)), Stamp(expected), "wall {wall}");
        }
    }

    #[test]
    fn a_log_from_the_future_is_continued_not_repeated() {
        let mut clock = StampClock::new(now(0, 1_000), Stamp(5_000));
        assert_eq!(clock.stamp(now(0, 1_000)), Stamp(5_000));
        assert!(clock.stamp(now(1_000, 2_000)) > Stamp(5_000));
    }

    #[test]
    fn wait_us_reaches_the_deadline_for_any_wall_clock() {
        for wall in [0, 1_000_000, 9_000_000] {
            let mut clock = StampClock::new(now(0, 1_000_000), Stamp(0));
            let due = Stamp(1_250_000);
            let wait = clock.wait_us(now(0, 1_000_000), due);
            assert!(wait <= 250_000 + 250_000 / 19, "no longer than the slowest rate asks for");
            assert!(due <= clock.stamp(now(wait + 1, wall)), "wall {wall}");
        }
    }
}
