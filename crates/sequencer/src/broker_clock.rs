//! The stamp of a batch from a topic: the brokers' time of its arrival, unless that has jumped
//! ahead and no other node confirms it.
//!
//! The stamp depends only on the log's last stamp and on the topic's last message that became part
//! of the log, so that a node that starts anywhere continues like the others:
//! - `held` is the distance from the last stamp to the arrival of its message; usually 0.
//! - A message that arrives more than [`CLOCK_JUMP_US_MIN`] after the previous one adds that pause
//!   to `held`: for the log, no time has passed.
//! - While `held` is above 0, time continues from the last stamp. `held` returns to 0, and the
//!   stamp to the time of arrival, with a later message whose node's clock agrees with its arrival
//!   within [`CLOCK_AGREEMENT_US_MAX`], if the previous message agreed as well and came from
//!   another node, or if its node is the only one.
//! - When the brokers' time steps back, the stamp stays the same until that time has caught up.

use ledger::Stamp;

/// An arrival this much later than the previous one is not trusted at first, in microseconds.
pub const CLOCK_JUMP_US_MIN: u64 = 5_000_000;
/// Maximum difference between a node's clock and the arrival time to count as agreement, in
/// microseconds.
pub const CLOCK_AGREEMENT_US_MAX: u64 = 1_000_000;

/// The data of the last message that the next stamp depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastMessage {
    /// When the brokers appended it.
    pub at: Stamp,
    /// Its node.
    pub node: u32,
    /// Its node's clock.
    pub wall: Stamp,
}

impl LastMessage {
    fn agrees(&self) -> bool {
        self.wall.0.abs_diff(self.at.0) <= CLOCK_AGREEMENT_US_MAX
    }
}

/// Makes stamps from arrival times.
#[derive(Clone, Copy, Debug, Default)]
pub struct BrokerClock {
    last: Option<LastMessage>,
}

impl BrokerClock {
    /// Continues after a message; `None` before the first.
    #[must_use]
    pub const fn after(last: Option<LastMessage>) -> Self {
        Self { last }
    }

    /// The part of the brokers' time that is not trusted, in microseconds; `before` is the log's
    /// last stamp.
    #[must_use]
    pub fn held_us(&self, before: Stamp) -> u64 {
        self.last.map_or(0, |last| last.at.0.saturating_sub(before.0))
    }

    /// The stamp of a message after a log that ends with the stamp `before`. `is_alone`: no other
    /// live node could confirm the time.
    pub fn stamp(&mut self, before: Stamp, message: LastMessage, is_alone: bool) -> Stamp {
        let held = self.held_us(before);
        let Some(last) = self.last.replace(message) else { return before.max(message.at) };
        let step = message.at.0.saturating_sub(last.at.0);
        let is_second = is_alone || (last.agrees() && last.node != message.node);
        let held = if CLOCK_JUMP_US_MIN < step {
            held + step
        } else if 0 < held && message.agrees() && is_second {
            0
        } else {
            held
        };
        before.max(Stamp(message.at.0.saturating_sub(held)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// Stamps, in tenths of a second, of messages (arrival and the node's clock likewise, node).
    fn stamps(messages: &[(u64, u64, u32)], is_alone: bool) -> Vec<u64> {
        let tenth = SECOND / 10;
        let mut clock = BrokerClock::default();
        let mut before = Stamp(0);
        let stamp = |&(at, wall, node): &(u64, u64, u32)| {
            // A node that starts at any message continues in the same way.
            clock = BrokerClock::after(clock.last);
            let (at, wall) = (Stamp(at * tenth), Stamp(wall * tenth));
            before = clock.stamp(before, LastMessage { at, node, wall }, is_alone);
            before.0 / tenth
        };
        messages.iter().map(stamp).collect()
    }

    #[test]
    fn the_stamp_is_the_time_of_arrival() {
        assert_eq!(stamps(&[(100, 0, 1), (150, 0, 1), (200, 0, 2)], false), [100, 150, 200]);
    }

    #[test]
    fn time_never_steps_back() {
        let messages = [(100, 100, 1), (90, 90, 1), (99, 99, 2), (101, 101, 2)];
        assert_eq!(stamps(&messages, false), [100, 100, 100, 101]);
    }

    #[test]
    fn a_jump_counts_when_two_nodes_have_confirmed_it() {
        let messages = [
            (100, 100, 1),
            (6_100, 6_100, 1), // the jump
            (6_110, 6_110, 1), // its own clock alone is not enough
            (6_120, 120, 2),   // another one that does not agree
            (6_130, 6_130, 1),
            (6_140, 6_140, 2), // the second
            (6_150, 6_150, 1),
        ];
        assert_eq!(stamps(&messages, false), [100, 100, 110, 120, 130, 6_140, 6_150]);
    }

    #[test]
    fn a_single_node_confirms_by_itself_but_later() {
        let messages = [(100, 100, 1), (6_100, 6_100, 1), (6_110, 6_110, 1), (6_120, 6_120, 1)];
        assert_eq!(stamps(&messages, true), [100, 100, 6_110, 6_120]);
    }

    #[test]
    fn a_clock_of_the_brokers_that_is_wrong_stays_held() {
        let messages = [(100, 100, 1), (6_100, 110, 2), (6_120, 130, 1), (6_150, 160, 2)];
        assert_eq!(stamps(&messages, false), [100, 100, 120, 150]);
        // After the clock is corrected, the stamp waits until it has caught up with the log.
        let back = [(100, 100, 1), (6_100, 110, 2), (6_120, 130, 1), (140, 140, 2), (150, 150, 1)];
        assert_eq!(stamps(&back, false), [100, 100, 120, 120, 150]);
    }
}
