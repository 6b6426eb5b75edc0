//! One participant's lane: its counters, its lists, and whether it may send.

use ledger::{NoticeId, ParticipantIndex};

use crate::notice::{AttemptResult, NoticePriority, WaitReason};
use crate::policy::{MonotonicTime, Policy};
use crate::slab::{EntryStage, List};

/// The state of a lane, for the admin API and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneState {
    /// The participant.
    pub recipient: ParticipantIndex,
    /// Entries that could be sent or wait for an earlier one of their transfer.
    pub waiting: u32,
    /// Attempts in flight.
    pub in_flight: u32,
    /// Finished deliveries whose report is not yet durable.
    pub unrecorded: u32,
    /// Entries that wait for their next attempt's time.
    pub backing_off: u32,
    /// Entries that wait until their recipient registers an address.
    pub parked: u32,
    /// Entries whose message is only in the log.
    pub spilled: u32,
    /// Message bytes kept.
    pub bytes: u64,
    /// Different notices that failed since the last delivery, up to [`Policy::probe_after`].
    pub consecutive_failures: u32,
    /// How it sends.
    pub mode: LaneMode,
    /// Notices delivered, ever.
    pub delivered: u64,
    /// The result of the last attempt.
    pub last: Option<AttemptResult>,
    /// It sends nothing before this time, because its recipient asked for a pause.
    pub paused_until: MonotonicTime,
}

/// How a lane sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneMode {
    /// Up to its window.
    Open,
    /// One attempt at a time until the recipient takes or refuses a notice.
    Probing {
        /// Earliest time of the next probe.
        next: MonotonicTime,
    },
}

/// The due action and the progress of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneProgress {
    /// The participant.
    pub recipient: ParticipantIndex,
    /// The next action; `None` if nothing is due, as in a lane that waits for the time of a retry
    /// or a probe.
    pub due: Option<DueAction>,
    /// Entries that could be sent or wait for an earlier one.
    pub waiting: u32,
    /// Changes with every step of the lane.
    pub done: (u64, u32, u32),
}

/// The next action of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DueAction {
    /// Make an attempt, now.
    Attempt,
    /// Get the confirmation that finished deliveries are recorded. Until then the window is full.
    Record,
    /// Get the results of attempts in flight.
    Result,
}

#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) state: LaneState,
    /// Results of attempts, ever.
    pub(crate) results: u64,
    /// Probes that failed since the lane began to probe.
    pub(crate) probes_failed: u32,
    /// The notices that are counted as failures.
    pub(crate) failing: Vec<NoticeId>,
    /// The last failure was an HTTP response: the recipient runs and refuses notices.
    pub(crate) answers: bool,
    /// A first attempt has failed since the last success. Other new entries will probably fail too.
    pub(crate) new_failed: bool,
    /// Whether resumed entries are next, if there are resumed and new ones.
    pub(crate) resumed_next: bool,
    /// Entries never attempted, in order of arrival.
    pub(crate) fresh: List,
    /// Entries whose pause or predecessor is over.
    pub(crate) resumed: List,
    /// Patient entries, attempted or not.
    pub(crate) patient: List,
    /// Whether it is in the queue of lanes to poll.
    pub(crate) queued: bool,
    /// Whether it is in the queue of lanes to poll for a patient entry.
    pub(crate) queued_patient: bool,
    /// Whether it is counted as starved.
    pub(crate) starved: bool,
    /// Whether another node serves it now.
    pub(crate) lost: bool,
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
                parked: 0,
                spilled: 0,
                bytes: 0,
                consecutive_failures: 0,
                mode: LaneMode::Open,
                delivered: 0,
                last: None,
                paused_until: MonotonicTime::default(),
            },
            results: 0,
            probes_failed: 0,
            failing: Vec::new(),
            answers: false,
            new_failed: false,
            resumed_next: true,
            fresh: List::default(),
            resumed: List::default(),
            patient: List::default(),
            queued: false,
            queued_patient: false,
            starved: false,
            lost: false,
        }
    }

    /// The list of an entry in this stage, if any.
    pub(crate) fn list(&mut self, stage: EntryStage, purpose: NoticePriority) -> Option<&mut List> {
        match (stage, purpose) {
            (EntryStage::Fresh | EntryStage::Resumed, NoticePriority::Patient) => {
                Some(&mut self.patient)
            }
            (EntryStage::Fresh, _) => Some(&mut self.fresh),
            (EntryStage::Resumed, _) => Some(&mut self.resumed),
            _ => None,
        }
    }

    pub(crate) fn work(&self, policy: &Policy, now: MonotonicTime) -> LaneProgress {
        let LaneState { recipient, waiting, in_flight, unrecorded, .. } = self.state;
        let may_send = self.may_send_at(policy, now) || self.may_send_patient_at(policy, now);
        let due = if may_send {
            Some(DueAction::Attempt)
        } else if 0 < in_flight {
            Some(DueAction::Result)
        } else {
            self.is_starved(policy).then_some(DueAction::Record)
        };
        LaneProgress { recipient, due, waiting, done: (self.results, in_flight, unrecorded) }
    }

    /// Whether it could send at the time of its next probe.
    pub(crate) fn can_send(&self, policy: &Policy) -> bool {
        self.has_sendable() && self.taken() < u64::from(policy.window) && self.is_open_for_one()
    }

    /// The same for a patient entry.
    pub(crate) fn can_send_patient(&self, policy: &Policy) -> bool {
        let room = self.taken() < u64::from(policy.patient_window());
        !self.patient.is_empty() && room && self.is_open_for_one()
    }

    pub(crate) fn may_send_at(&self, policy: &Policy, now: MonotonicTime) -> bool {
        self.is_due(now) && self.can_send(policy)
    }

    pub(crate) fn may_send_patient_at(&self, policy: &Policy, now: MonotonicTime) -> bool {
        self.is_due(now) && self.can_send_patient(policy)
    }

    /// Half a window of unrecorded deliveries is worth a record. A full one without attempts in
    /// flight would make no progress without it.
    pub(crate) fn is_starved(&self, policy: &Policy) -> bool {
        let window = match (self.has_sendable(), self.patient.is_empty()) {
            (true, _) => u64::from(policy.window),
            (false, false) => u64::from(policy.patient_window()),
            (false, true) => return false,
        };
        window <= self.taken() && window <= 2 * u64::from(self.state.unrecorded)
    }

    /// Earlier failures hold back only their own entries: the first new entry since the last
    /// success need not wait for the next probe.
    fn is_due(&self, now: MonotonicTime) -> bool {
        let new = !self.new_failed && !self.fresh.is_empty();
        self.state.paused_until <= now && (self.probe_is_due(now) || new)
    }

    /// Whether the lane is open, or the time of its next probe has come.
    pub(crate) fn probe_is_due(&self, now: MonotonicTime) -> bool {
        match self.state.mode {
            LaneMode::Open => true,
            LaneMode::Probing { next } => next <= now,
        }
    }

    /// Counts a failure of a notice. Returns whether an open lane must now probe.
    pub(crate) fn note_failure(&mut self, notice: NoticeId, policy: &Policy) -> bool {
        let most = policy.probe_after as usize;
        if self.failing.len() < most && !self.failing.contains(&notice) {
            self.failing.push(notice);
        }
        self.state.consecutive_failures = self.failing.len() as u32;
        self.state.mode == LaneMode::Open && most <= self.failing.len()
    }

    /// Whether new and resumed entries take turns. They do not in the lane of a silent recipient,
    /// where an entry that always fails must not keep the lane closed for all others.
    pub(crate) fn takes_turns(&self) -> bool {
        self.state.mode == LaneMode::Open || self.answers
    }

    /// Opens the lane: the recipient took a notice or refused it for good, so it works.
    pub(crate) fn open(&mut self) {
        self.failing.clear();
        self.new_failed = false;
        (self.state.consecutive_failures, self.state.mode) = (0, LaneMode::Open);
    }

    /// The reason why a sendable entry waits.
    pub(crate) fn turn_at(&self, now: MonotonicTime) -> WaitReason {
        let probe = match self.state.mode {
            LaneMode::Open => MonotonicTime::default(),
            LaneMode::Probing { next } => next,
        };
        match self.state.paused_until.max(probe) {
            until if now < until => WaitReason::Until(until),
            _ => WaitReason::Turn,
        }
    }

    fn is_open_for_one(&self) -> bool {
        self.state.mode == LaneMode::Open || self.state.in_flight == 0
    }

    fn has_sendable(&self) -> bool {
        !self.fresh.is_empty() || !self.resumed.is_empty()
    }

    /// Window slots in use.
    fn taken(&self) -> u64 {
        u64::from(self.state.in_flight) + u64::from(self.state.unrecorded)
    }
}
