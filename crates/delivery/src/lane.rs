//! One participant's lane: its counters, its lists, and whether it may send.

use ledger::ParticipantIndex;

use crate::policy::{Moment, Policy};
use crate::slab::List;

/// A lane as admin and metrics show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// Whose lane it is.
    pub recipient: ParticipantIndex,
    /// Entries that could be sent or wait for an earlier one of their transfer.
    pub waiting: u32,
    /// Attempts under way.
    pub in_flight: u32,
    /// Finished deliveries whose report is not yet durable.
    pub unrecorded: u32,
    /// Entries that wait for their next attempt's time.
    pub backing_off: u32,
    /// Entries whose message is only in the log.
    pub spilled: u32,
    /// Message bytes kept.
    pub bytes: u64,
    /// Attempts in a row that ended without an HTTP answer.
    pub consecutive_failures: u32,
    /// How it sends.
    pub mode: LaneMode,
}

/// How a lane sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneMode {
    /// Up to its window.
    Open,
    /// One attempt at a time until an HTTP answer comes.
    Probing {
        /// The next probe is sent at this moment at the earliest.
        next: Moment,
    },
}

/// Whether a lane has something to do, and what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneWork {
    /// Whose lane it is.
    pub recipient: ParticipantIndex,
    /// What is to be done next; none when nothing is due, as in a lane that only waits for the
    /// time of a retry or of a probe.
    pub due: Option<Due>,
    /// Entries that could be sent or wait for an earlier one.
    pub waiting: u32,
    /// Rises or changes with whatever the lane does.
    pub done: (u64, u32, u32),
}

/// What a lane must do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// Make an attempt, now.
    Attempt,
    /// Hear that finished deliveries are on record; until then its window is full.
    Record,
    /// Hear how attempts under way end.
    Result,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) state: LaneState,
    /// Results of attempts, ever.
    pub(crate) results: u64,
    /// Probes that failed since the lane began to probe.
    pub(crate) probes_failed: u32,
    /// Entries never attempted, in order of arrival.
    pub(crate) fresh: List,
    /// Entries whose pause or predecessor is over.
    pub(crate) resumed: List,
    /// It is in the queue of lanes to poll.
    pub(crate) queued: bool,
    /// It is counted as starved.
    pub(crate) starved: bool,
    /// Another node sends what it holds.
    pub(crate) left: bool,
}

impl Lane {
    pub(crate) fn new(recipient: ParticipantIndex) -> Self {
        Self {
            state: LaneState {
                recipient,
                waiting: 0,
                in_flight: 0,
                unrecorded: 0,
                backing_off: 0,
                spilled: 0,
                bytes: 0,
                consecutive_failures: 0,
                mode: LaneMode::Open,
            },
            results: 0,
            probes_failed: 0,
            fresh: List::default(),
            resumed: List::default(),
            queued: false,
            starved: false,
            left: false,
        }
    }

    pub(crate) fn work(&self, policy: &Policy, now: Moment) -> LaneWork {
        let LaneState { recipient, waiting, in_flight, unrecorded, .. } = self.state;
        let due = if self.may_send_at(policy, now) {
            Some(Due::Attempt)
        } else if 0 < in_flight {
            Some(Due::Result)
        } else {
            self.is_starved(policy).then_some(Due::Record)
        };
        LaneWork { recipient, due, waiting, done: (self.results, in_flight, unrecorded) }
    }

    /// Whether it could send once any probe's time has come.
    pub(crate) fn can_send(&self, policy: &Policy) -> bool {
        let probing = self.state.mode != LaneMode::Open;
        self.has_sendable() && !self.is_full(policy) && (!probing || self.state.in_flight == 0)
    }

    pub(crate) fn may_send_at(&self, policy: &Policy, now: Moment) -> bool {
        let due = match self.state.mode {
            LaneMode::Open => true,
            LaneMode::Probing { next } => next <= now,
        };
        due && self.can_send(policy)
    }

    /// Half a window of unrecorded deliveries is worth a record; a full one without attempts in
    /// flight would stand still without it.
    pub(crate) fn is_starved(&self, policy: &Policy) -> bool {
        let half = u64::from(policy.window) <= 2 * u64::from(self.state.unrecorded);
        self.has_sendable() && self.is_full(policy) && half
    }

    fn has_sendable(&self) -> bool {
        !self.fresh.is_empty() || !self.resumed.is_empty()
    }

    fn is_full(&self, policy: &Policy) -> bool {
        u64::from(policy.window)
            <= u64::from(self.state.in_flight) + u64::from(self.state.unrecorded)
    }
}
