//! The offsets of one partition between their delivery to a handler and their commit.

use std::collections::VecDeque;

/// Offsets that were taken from a partition, in order, and which of them are done.
///
/// The position to commit is the first offset that is not done. A commit therefore never covers a
/// message that a handler still works on, in whatever order handlers finish.
#[derive(Debug, Default)]
pub(crate) struct Offsets {
    /// Taken and not yet part of [`Self::position`].
    taken: VecDeque<Taken>,
    /// One after the last offset before which all are done.
    position: Option<i64>,
    /// The highest offset that was given to a handler.
    started: Option<i64>,
    /// The last position for which a commit was requested.
    requested: Option<i64>,
}

#[derive(Debug)]
struct Taken {
    offset: i64,
    done: bool,
}

impl Offsets {
    /// Whether this offset is above all earlier ones.
    pub(crate) fn is_next(&self, offset: i64) -> bool {
        let last = self.taken.back().map(|taken| taken.offset);
        last.or(self.position.map(|position| position - 1)).is_none_or(|last| last < offset)
    }

    /// Records that a message was received.
    ///
    /// # Panics
    /// If the offset is not above all earlier ones.
    pub(crate) fn take(&mut self, offset: i64) {
        assert!(self.is_next(offset), "offset {offset} was taken before");
        self.taken.push_back(Taken { offset, done: false });
    }

    /// Records that a message was given to a handler.
    pub(crate) fn start(&mut self, offset: i64) {
        self.started = self.started.max(Some(offset));
    }

    /// Whether a later message was given to a handler.
    pub(crate) fn is_before_started(&self, offset: i64) -> bool {
        self.started.is_some_and(|started| offset < started)
    }

    /// Records that a message needs no further work.
    ///
    /// # Panics
    /// If the offset was not taken, or is done already.
    pub(crate) fn done(&mut self, offset: i64) {
        let at = match self.taken.front() {
            Some(first) if first.offset == offset => 0,
            _ => {
                let at = self.taken.binary_search_by_key(&offset, |taken| taken.offset);
                at.unwrap_or_else(|_| panic!("offset {offset} was not taken"))
            }
        };
        assert!(!self.taken[at].done, "offset {offset} is done twice");
        self.taken[at].done = true;
        while self.taken.front().is_some_and(|first| first.done) {
            self.position = self.taken.pop_front().map(|first| first.offset + 1);
        }
    }

    /// The messages that are not done.
    pub(crate) fn unfinished(&self) -> usize {
        self.taken.iter().filter(|taken| !taken.done).count()
    }

    /// The position to commit, if it is above the last one that was requested.
    pub(crate) fn to_commit(&self) -> Option<i64> {
        self.position.filter(|position| self.requested.is_none_or(|last| last < *position))
    }

    /// Records that a commit of this position was requested.
    pub(crate) fn requested(&mut self, position: i64) {
        self.requested = Some(position);
    }

    /// Records that a commit failed: its position is offered again.
    pub(crate) fn commit_failed(&mut self) {
        self.requested = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_is_the_first_offset_that_is_not_done() {
        let mut offsets = Offsets::default();
        for offset in [5, 6, 9] {
            offsets.take(offset);
        }
        offsets.done(6);
        assert_eq!(offsets.to_commit(), None);
        offsets.done(5);
        assert_eq!(offsets.to_commit(), Some(7));
        offsets.requested(7);
        assert_eq!(offsets.to_commit(), None);
        offsets.done(9);
        assert_eq!(offsets.to_commit(), Some(10));
        assert!(offsets.is_next(10) && !offsets.is_next(9));
    }

    #[test]
    fn failed_commit_is_offered_again() {
        let mut offsets = Offsets::default();
        offsets.take(0);
        offsets.done(0);
        offsets.requested(1);
        offsets.commit_failed();
        assert_eq!(offsets.to_commit(), Some(1));
    }

    #[test]
    #[should_panic(expected = "offset 3 is done twice")]
    fn message_is_done_once() {
        let mut offsets = Offsets::default();
        offsets.take(2);
        offsets.take(3);
        offsets.done(3);
        offsets.done(3);
    }
}
