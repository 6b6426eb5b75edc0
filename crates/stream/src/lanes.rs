//! Messages that wait for a handler, in lanes. A lane has one handler at a time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Lanes of waiting messages. Messages of one key share a lane, so they are handled in order.
#[derive(Debug)]
pub(crate) struct Lanes<T> {
    lanes: Vec<Lane<T>>,
    /// Idle lanes that hold a whole batch, in the order in which they were filled.
    full: VecDeque<usize>,
    batch_max: usize,
    fill_timeout: Duration,
    waiting: usize,
}

#[derive(Debug)]
struct Lane<T> {
    waiting: VecDeque<(Instant, T)>,
    /// A handler works on a batch of this lane.
    busy: bool,
    /// The lane is in `full`.
    listed: bool,
}

impl<T> Lanes<T> {
    /// `batch_max`: messages that a handler gets at most, from 1. `fill_timeout`: how long the
    /// first message of a batch waits for others at most.
    pub(crate) fn new(lanes: usize, batch_max: usize, fill_timeout: Duration) -> Self {
        let lane = || Lane { waiting: VecDeque::new(), busy: false, listed: false };
        Self {
            lanes: (0..lanes).map(|_| lane()).collect(),
            full: VecDeque::new(),
            batch_max,
            fill_timeout,
            waiting: 0,
        }
    }

    /// The number of messages that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    pub(crate) fn push(&mut self, lane: usize, message: T, now: Instant) {
        self.waiting += 1;
        self.lanes[lane].waiting.push_back((now, message));
        self.list_if_full(lane);
    }

    fn list_if_full(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        let is_full = self.batch_max <= lane.waiting.len()
            || (self.fill_timeout.is_zero() && !lane.waiting.is_empty());
        if is_full && !lane.busy && !lane.listed {
            lane.listed = true;
            self.full.push_back(number);
        }
    }

    /// A batch for a handler, with the number of its lane, which is busy from now on.
    pub(crate) fn take(&mut self, now: Instant) -> Option<(usize, Vec<T>)> {
        let number = match self.full.pop_front() {
            Some(number) => number,
            None => self.overdue(now)?,
        };
        let lane = &mut self.lanes[number];
        lane.listed = false;
        lane.busy = true;
        let count = lane.waiting.len().min(self.batch_max);
        self.waiting -= count;
        let batch = lane.waiting.drain(..count).map(|(_, message)| message).collect();
        Some((number, batch))
    }

    /// An idle lane whose first message has waited for the fill timeout.
    fn overdue(&self, now: Instant) -> Option<usize> {
        if self.waiting == 0 {
            return None;
        }
        self.lanes.iter().position(|lane| self.due(lane).is_some_and(|due| due <= now))
    }

    /// When an idle lane must give its messages to a handler.
    fn due(&self, lane: &Lane<T>) -> Option<Instant> {
        let (since, _) = lane.waiting.front().filter(|_| !lane.busy)?;
        Some(*since + self.fill_timeout)
    }

    /// When [`Self::take`] will return a batch if no message is added.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.lanes.iter().filter_map(|lane| self.due(lane)).min()
    }

    /// Records that the handler of a lane is done.
    pub(crate) fn finish(&mut self, number: usize) {
        self.lanes[number].busy = false;
        self.list_if_full(number);
    }

    /// The messages that wait.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.lanes.iter().flat_map(|lane| &lane.waiting).map(|(_, message)| message)
    }

    /// Removes the waiting messages that do not satisfy the condition.
    pub(crate) fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        for lane in &mut self.lanes {
            lane.waiting.retain(|(_, message)| keep(message));
            lane.listed = false;
        }
        self.waiting = self.lanes.iter().map(|lane| lane.waiting.len()).sum();
        self.full.clear();
        for number in 0..self.lanes.len() {
            self.list_if_full(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILL: Duration = Duration::from_millis(10);

    fn lanes(count: usize, batch_max: usize, fill_timeout: Duration) -> (Lanes<u32>, Instant) {
        (Lanes::new(count, batch_max, fill_timeout), Instant::now())
    }

    #[test]
    fn lane_has_one_handler_at_a_time() {
        let (mut lanes, now) = lanes(2, 1, Duration::ZERO);
        for (lane, message) in [(0, 1), (0, 2), (1, 3)] {
            lanes.push(lane, message, now);
        }
        assert_eq!(lanes.take(now), Some((0, vec![1])));
        assert_eq!(lanes.take(now), Some((1, vec![3])));
        assert_eq!(lanes.take(now), None);
        lanes.finish(0);
        assert_eq!(lanes.take(now), Some((0, vec![2])));
        assert_eq!(lanes.waiting(), 0);
    }

    #[test]
    fn batch_waits_until_it_is_full_or_overdue() {
        let (mut lanes, now) = lanes(1, 3, FILL);
        lanes.push(0, 1, now);
        lanes.push(0, 2, now + FILL / 2);
        assert_eq!(lanes.take(now + FILL / 2), None);
        assert_eq!(lanes.next_due(), Some(now + FILL));
        assert_eq!(lanes.take(now + FILL), Some((0, vec![1, 2])));
        lanes.finish(0);
        for message in 3..=6 {
            lanes.push(0, message, now);
        }
        assert_eq!(lanes.take(now), Some((0, vec![3, 4, 5])));
    }

    #[test]
    fn removed_messages_are_not_handled() {
        let (mut lanes, now) = lanes(1, 2, FILL);
        lanes.push(0, 1, now);
        lanes.push(0, 2, now);
        lanes.retain(|message| *message == 2);
        assert_eq!((lanes.waiting(), lanes.take(now)), (1, None));
        assert_eq!(lanes.take(now + FILL), Some((0, vec![2])));
    }
}
