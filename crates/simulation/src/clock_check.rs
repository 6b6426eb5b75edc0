//! Whether the hub's time keeps pace with its monotonic clock, whatever the wall clock does, and
//! whether it wakes when a deadline is met.

use ledger::{Stamp, State};
use ports::ClockReading;

/// Time is drawn towards the wall clock by at most one part in this many.
const SLEW: u64 = 20;
/// Each stamp may be rounded.
const ROUNDING_US: u64 = 1_000;

/// The time of one epoch.
#[derive(Debug)]
pub(crate) struct ClockCheck {
    /// The start of the epoch: the wall clock, or the last stamp of the log if that is later.
    began: Stamp,
    /// The last batch, and when it was, by the monotonic clock.
    last: (Stamp, u64),
    /// Transfers that had expired by then.
    expired: u64,
}

impl ClockCheck {
    pub(crate) fn new(state: &State, now: ClockReading) -> Self {
        let began = state.stamp().max(now.wall);
        let expired = state.counters().expired;
        Self { began, last: (began, now.monotonic_us), expired }
    }

    /// A batch was decided. It may be stamped with less than the time if more than a few deadlines
    /// are due, of which some are then met.
    pub(crate) fn decided(&mut self, state: &State, now: ClockReading) {
        let passed = now.monotonic_us;
        let most = self.began.0 + passed + passed / SLEW;
        let stamp = state.stamp();
        assert!(stamp.0 <= most, "{stamp:?} runs ahead of the clock, which allows {most}");
        let (least, expired) = (self.least(now), state.counters().expired);
        let is_kept = least <= stamp.0 || self.expired < expired;
        assert!(is_kept, "{stamp:?} is below the clock, which requires {least}");
        (self.last, self.expired) = ((stamp, passed), expired);
    }

    /// The hub slept until now because nothing was to do.
    pub(crate) fn woke(&self, state: &State, now: ClockReading) {
        let least = self.least(now);
        let late = state.next_deadline().is_some_and(|due| due.0 < least);
        assert!(!late, "it is {least}, and {:?} is not met", state.next_deadline());
    }

    /// The time that it must be by now, however the wall clock draws.
    fn least(&self, now: ClockReading) -> u64 {
        let (stamp, at) = self.last;
        let passed = now.monotonic_us - at;
        (stamp.0 + passed - passed / SLEW).saturating_sub(ROUNDING_US)
    }
}
