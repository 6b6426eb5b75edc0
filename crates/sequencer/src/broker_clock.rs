//! The stamp of a batch that came by a topic: the brokers' time of its arrival, unless that has
//! jumped ahead and nobody else says that it is right.
//!
//! All of it follows from the log's last stamp and the topic's last message that became part of
//! the log, so that a node that starts anywhere goes on as the others do:
//! - `held` is how far the last stamp lies before the arrival of its message. It is 0 nearly
//!   always.
//! - A message that arrives more than [`CLOCK_JUMP_US_MIN`] after the one before adds that pause to `held`:
//!   for the log, no time has passed.
//! - While something is held, time goes on from where it was. It is let go of, and the stamp is
//!   the time of arrival again, with a later message whose own node's clock agrees with its arrival
//!   within [`CLOCK_AGREEMENT_US_MAX`], when the message before agreed as well and came from another node;
//!   or when its node is the only one.
//! - Time that steps back holds the stamp where it is until it has caught up.

use ledger::Stamp;

/// An arrival this long after the one before is not believed at once, in microseconds.
pub const CLOCK_JUMP_US_MIN: u64 = 5_000_000;
/// A node's clock agrees when it differs from the time of arrival by no more, in microseconds.
pub const CLOCK_AGREEMENT_US_MAX: u64 = 1_000_000;

/// What the next stamp needs to know of the last message.
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

/// Makes stamps of arrivals.
#[derive(Clone, Copy, Debug, Default)]
pub struct BrokerClock {
    last: Option<LastMessage>,
}

impl BrokerClock {
    /// Goes on behind a message; `None` before the first.
    #[must_use]
    pub const fn after(last: Option<LastMessage>) -> Self {
        Self { last }
    }

    /// How much of the brokers' time is not believed, in microseconds, where `before` is the
    /// log's last stamp.
    #[must_use]
    pub fn held_us(&self, before: Stamp) -> u64 {
        self.last.map_or(0, |last| last.at.0.saturating_sub(before.0))
    }

    /// The stamp of a message behind a log that ends with the stamp `before`. `is_alone`: nobody
    /// else is there who could confirm the time.
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
        let mut keeper = BrokerClock::default();
        let mut before = Stamp(0);
        let stamp = |&(at, wall, node): &(u64, u64, u32)| {
            // Wherever a node begins, it goes on in the same way.
            keeper = BrokerClock::after(keeper.last);
            let (at, wall) = (Stamp(at * tenth), Stamp(wall * tenth));
            before = keeper.stamp(before, LastMessage { at, node, wall }, is_alone);
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
        // And when it is set right again, time stands until it is as late as the log.
        let back = [(100, 100, 1), (6_100, 110, 2), (6_120, 130, 1), (140, 140, 2), (150, 150, 1)];
        assert_eq!(stamps(&back, false), [100, 100, 120, 120, 150]);
    }
}
