//! The environment that every part of a run shares: the time, the RNG, the queue of events, and the
//! network.

use std::collections::{BTreeMap, BTreeSet};

use delivery::{AttemptResult, ENDED_ATTEMPTS_MAX, EndedAttempt};
use ledger::{DeliveryResult, FinishedDelivery, Notice, NoticeId, NoticeKind, Outcome};
use ports::ClockReading;

use crate::clock::wall;
use crate::event::{Callback, Event, HubEvent, Queue};
use crate::faults::SKEW_MAX_US;
use crate::parameters::{EPOCH_US, Parameters, SECOND};
use crate::random::{Random, mix};
use crate::report::RunCounts;
use crate::transfers::Request;

/// Shared by all parts of a run.
#[derive(Debug)]
pub(crate) struct SimEnv {
    /// Virtual time since the start, in microseconds.
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) queue: Queue<Event>,
    pub(crate) parameters: Parameters,
    /// The faults have stopped.
    pub(crate) calm: bool,
    /// How each FSP treats callbacks.
    pub(crate) behaviours: Vec<CallbackBehaviour>,
    /// Offset of the wall clock from the true time, in microseconds.
    pub(crate) skew_us: i64,
    /// Until then each commit takes so much longer.
    pub(crate) slow_until: u64,
    pub(crate) slow_us: u64,
    pub(crate) counts: RunCounts,
    /// Attempts to deliver a notice since it was owed, by epoch of the hub.
    pub(crate) attempts: BTreeMap<(u32, NoticeId), Vec<AttemptResult>>,
    /// How often each outcome was decided, by its number.
    pub(crate) outcomes: Vec<u64>,
    /// Names of changes, each with an outcome that it had.
    pub(crate) changed: BTreeSet<(&'static str, Outcome)>,
    /// Digest of everything that has happened.
    pub(crate) trace: u64,
    pub(crate) verbose: bool,
}

/// How an FSP treats callbacks for the time being.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallbackBehaviour {
    Fine,
    /// It takes this long to answer, in microseconds.
    Slow(u64),
    /// It refuses connections.
    Down,
    /// It never answers; whether it reads is left to chance.
    Silent,
    /// It breaks connections off.
    Breaking,
    /// It answers with this status; below 500 it has not read the message.
    Answering(u16),
    /// It has registered no address for requests of this class ([`class_of`]).
    Unaddressed(u8),
}

/// Classes of requests that have an address of their own.
pub(crate) const CLASSES: u64 = 4;

/// Which address a notice goes to.
pub(crate) const fn class_of(kind: NoticeKind) -> u8 {
    use NoticeKind::*;
    match kind {
        Prepare | BulkPrepare => 0,
        Abort | AbortCopy | Error | BulkError => 1,
        PartiesChanged => 2,
        Fulfil | FulfilCopy | Committed | Reserved | AbortedState | PatchCommitted
        | PatchAborted | BulkResult => 3,
    }
}

/// One attempt to deliver a notice.
pub(crate) struct AttemptParams {
    pub(crate) epoch: u32,
    pub(crate) thread: u8,
    pub(crate) to: u8,
    pub(crate) notice: NoticeId,
    pub(crate) callback: Box<Callback>,
}

impl SimEnv {
    pub(crate) fn after(&mut self, wait_us: u64, event: Event) {
        self.queue.add(self.now + wait_us, event);
    }

    pub(crate) fn hub_after(&mut self, wait_us: u64, epoch: u32, event: HubEvent) {
        self.after(wait_us, Event::Hub(epoch, event));
    }

    /// Adds to the digest of what has happened.
    pub(crate) fn add_to_trace(&mut self, number: u64) {
        self.trace = mix(self.trace ^ number);
    }

    /// The two clocks of a process that was born at `born_us`.
    pub(crate) fn clock(&self, born_us: u64) -> ClockReading {
        ClockReading { monotonic_us: self.now - born_us, wall: wall(self.now, self.skew_us) }
    }

    /// How much longer a commit takes now.
    pub(crate) fn commit_delay(&self) -> u64 {
        if self.now < self.slow_until { self.slow_us } else { 0 }
    }

    /// The time of day as it really is, in milliseconds.
    pub(crate) fn true_ms(&self) -> u64 {
        (EPOCH_US + self.now) / 1_000
    }

    fn latency(&mut self) -> u64 {
        let ends = self.parameters.network_us;
        self.random.between(ends)
    }

    fn is_lost(&mut self) -> bool {
        let lost = !self.calm && self.random.chance(self.parameters.faults.loss_per_mille);
        self.counts.messages_lost += u64::from(lost);
        lost
    }

    fn is_duplicated(&mut self) -> bool {
        let twice = !self.calm && self.random.chance(self.parameters.faults.twice_per_mille);
        self.counts.messages_twice += u64::from(twice);
        twice
    }

    /// A request sets out for the hub.
    pub(crate) fn send(&mut self, request: Request) {
        self.counts.requests += 1;
        if self.is_duplicated() {
            let way = self.latency();
            self.after(way, Event::Arrive(request));
        }
        if !self.is_lost() {
            let way = self.latency();
            self.after(way, Event::Arrive(request));
        }
    }

    /// The hub's answer sets out for the sender of a request.
    pub(crate) fn answer(&mut self, request: Request, result: Option<Outcome>) {
        if !self.is_lost() {
            let way = self.latency();
            self.after(way, Event::Reply(request, result));
        }
    }

    /// A callback sets out for an FSP; that the attempt ends is certain, how is not.
    pub(crate) fn attempt(&mut self, attempt: AttemptParams) {
        self.counts.attempts += 1;
        let limit = self.parameters.attempt_us;
        let (outbound_us, return_us) = (self.latency(), self.latency());
        // A participant that joins later behaves well at first.
        match *self.behaviours.get(usize::from(attempt.to)).unwrap_or(&CallbackBehaviour::Fine) {
            CallbackBehaviour::Down => {
                self.end_attempt(&attempt, outbound_us, AttemptResult::ConnectFailed)
            }
            CallbackBehaviour::Breaking => {
                let reads = self.random.chance(500);
                self.end_attempt(&attempt, outbound_us + return_us, AttemptResult::Broken);
                self.arrive(attempt, outbound_us, reads);
            }
            CallbackBehaviour::Silent => {
                let reads = self.random.chance(500);
                self.end_attempt(&attempt, limit, AttemptResult::TimedOut);
                self.arrive(attempt, outbound_us, reads);
            }
            CallbackBehaviour::Answering(status) => {
                let result = AttemptResult::Status(status);
                let reads = (200..300).contains(&status) || (500 <= status && return_us % 2 == 0);
                self.end_attempt(&attempt, outbound_us + return_us, result);
                self.arrive(attempt, outbound_us, reads);
            }
            CallbackBehaviour::Unaddressed(_) | CallbackBehaviour::Fine => {
                self.exchange(attempt, outbound_us, return_us)
            }
            CallbackBehaviour::Slow(extra) => {
                self.counts.slow_answers += 1;
                self.exchange(attempt, outbound_us, return_us + extra);
            }
        }
    }

    /// Whether an FSP has an address for a notice.
    pub(crate) fn has_address(&self, notice: &Notice) -> bool {
        let behaviours = self.behaviours.get(notice.recipient.at() - 1).copied();
        behaviours != Some(CallbackBehaviour::Unaddressed(class_of(notice.kind)))
    }

    /// An exchange with an FSP that does its part, over a network that may not.
    fn exchange(&mut self, attempt: AttemptParams, outbound_us: u64, return_us: u64) {
        let limit = self.parameters.attempt_us;
        let (lost, unanswered) = (self.is_lost(), self.is_lost());
        match lost || unanswered || limit < outbound_us + return_us {
            true => self.end_attempt(&attempt, limit, AttemptResult::TimedOut),
            false => {
                self.end_attempt(&attempt, outbound_us + return_us, AttemptResult::Status(200))
            }
        }
        if self.is_duplicated() {
            let later = outbound_us + self.latency();
            let callback = attempt.callback.clone();
            self.after(later, Event::Callback(attempt.to, callback));
        }
        self.arrive(attempt, outbound_us, !lost);
    }

    fn arrive(&mut self, attempt: AttemptParams, outbound_us: u64, reads: bool) {
        if reads {
            self.after(outbound_us, Event::Callback(attempt.to, attempt.callback));
        }
    }

    fn end_attempt(&mut self, attempt: &AttemptParams, wait: u64, result: AttemptResult) {
        match result {
            AttemptResult::Status(200..300) => {}
            AttemptResult::Status(_) => self.counts.refusals += 1,
            AttemptResult::TimedOut => self.counts.silences += 1,
            AttemptResult::ConnectFailed | AttemptResult::TlsFailed(_) => {
                self.counts.no_connections += 1;
            }
            AttemptResult::Http2Failed(_) | AttemptResult::Broken => {
                self.counts.broken_connections += 1;
            }
            AttemptResult::Unsent | AttemptResult::NoAddress => {
                unreachable!("an attempt that was made was sent")
            }
        }
        self.attempts.entry((attempt.epoch, attempt.notice)).or_default().push(result);
        if matches!(result, AttemptResult::Status(429 | 503)) && self.random.chance(500) {
            let micros = self.random.below(10 * SECOND);
            self.counts.pauses_asked += 1;
            let event = HubEvent::PauseAsked(attempt.thread, attempt.to, micros);
            self.hub_after(wait, attempt.epoch, event);
        }
        let event = HubEvent::Attempted(attempt.thread, attempt.notice, result);
        self.hub_after(wait, attempt.epoch, event);
    }

    /// A delivery ended: the record lists all its attempts. An undelivered notice was refused for
    /// good, was owed for the longest time allowed, or is a prepare of a transfer that has ended.
    pub(crate) fn check_end(
        &mut self,
        epoch: u32,
        (notice, end): (&Notice, &FinishedDelivery),
        attempts: &[EndedAttempt],
    ) {
        let made = self.attempts.remove(&(epoch, end.notice)).unwrap_or_default();
        let tries = made.len() as u32;
        assert_eq!(u32::from(end.attempts), tries, "attempts of {end:?}");
        let recorded: Vec<_> = attempts.iter().map(|one| one.result).collect();
        let expected = match &*made {
            [AttemptResult::Status(200..300)] => &[],
            all => &all[all.len().saturating_sub(ENDED_ATTEMPTS_MAX)..],
        };
        assert_eq!(recorded, expected, "the recorded attempts of {end:?}");
        let passing = [401, 403, 404, 408, 409, 421, 425, 429];
        let for_good = end.status == 501
            || ((400..500).contains(&end.status) && !passing.contains(&end.status));
        let is_prepare = matches!(notice.kind, NoticeKind::Prepare | NoticeKind::BulkPrepare);
        let justified = match end.result {
            DeliveryResult::Delivered => (200..300).contains(&end.status),
            DeliveryResult::Dead => notice.transfer.is_some() && (for_good || self.is_late(notice)),
            DeliveryResult::Withdrawn => is_prepare && tries == 0,
            DeliveryResult::GivenUp if is_prepare => 0 < tries,
            DeliveryResult::GivenUp => {
                notice.transfer.is_none() && (for_good || self.is_late(notice))
            }
        };
        assert!(justified, "a delivery does not end like {end:?}");
    }

    /// Whether the next attempt would come after a notice's time. Clocks differ by so much.
    fn is_late(&self, notice: &Notice) -> bool {
        let policy = &self.parameters.policy;
        let latest = EPOCH_US + self.now + policy.backoff_max_micros.max(policy.probe_max_micros);
        notice.owed_at.0 + policy.horizon_micros <= latest + 2 * SKEW_MAX_US as u64
    }
}
