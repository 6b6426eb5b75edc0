//! What every part of a run needs: the time, the dice, the events to come, and the network.

use std::collections::{BTreeMap, BTreeSet};

use delivery::{AttemptResult, EndedAttempt, TRIED_MAX};
use ledger::{DeliveryResult, FinishedDelivery, Notice, NoticeId, NoticeKind, Outcome};
use ports::ClockReading;

use crate::clock::wall;
use crate::event::{Callback, Event, HubEvent, Queue};
use crate::faults::SKEW_MAX_US;
use crate::parameters::{EPOCH_US, Parameters, SECOND};
use crate::random::{Random, mix};
use crate::report::Tally;
use crate::transfers::Request;

/// Shared by all parts of a run.
#[derive(Debug)]
pub(crate) struct SimEnv {
    /// Virtual time since the start, in microseconds.
    pub(crate) now: u64,
    pub(crate) random: Random,
    pub(crate) queue: Queue<Event>,
    pub(crate) plan: Parameters,
    /// The faults have stopped.
    pub(crate) calm: bool,
    /// How each FSP treats callbacks.
    pub(crate) manners: Vec<CallbackBehaviour>,
    /// What the wall clock shows beyond the truth, in microseconds.
    pub(crate) skew_us: i64,
    /// Until then each commit takes so much longer.
    pub(crate) slow_until: u64,
    pub(crate) slow_us: u64,
    pub(crate) tally: Tally,
    /// Attempts to deliver a notice since it was owed, by life of the hub.
    pub(crate) tries: BTreeMap<(u32, NoticeId), Vec<AttemptResult>>,
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
        Prepare => 0,
        Abort | AbortCopy | Error => 1,
        PartiesChanged => 2,
        Fulfil | FulfilCopy | Committed | Reserved | AbortedState | PatchCommitted
        | PatchAborted => 3,
    }
}

/// One attempt to deliver a notice.
pub(crate) struct Attempting {
    pub(crate) life: u32,
    pub(crate) edge: u8,
    pub(crate) to: u8,
    pub(crate) notice: NoticeId,
    pub(crate) callback: Box<Callback>,
}

impl SimEnv {
    pub(crate) fn after(&mut self, wait_us: u64, event: Event) {
        self.queue.add(self.now + wait_us, event);
    }

    pub(crate) fn hub_after(&mut self, wait_us: u64, life: u32, event: HubEvent) {
        self.after(wait_us, Event::Hub(life, event));
    }

    /// Adds to the digest of what has happened.
    pub(crate) fn mark(&mut self, number: u64) {
        self.trace = mix(self.trace ^ number);
    }

    /// The two clocks of a process that was born at `born_us`.
    pub(crate) fn clock(&self, born_us: u64) -> ClockReading {
        ClockReading { monotonic_us: self.now - born_us, wall: wall(self.now, self.skew_us) }
    }

    /// How much longer a commit takes now.
    pub(crate) fn drag(&self) -> u64 {
        if self.now < self.slow_until { self.slow_us } else { 0 }
    }

    /// The time of day as it really is, in milliseconds.
    pub(crate) fn true_ms(&self) -> u64 {
        (EPOCH_US + self.now) / 1_000
    }

    fn way(&mut self) -> u64 {
        let ends = self.plan.network_us;
        self.random.between(ends)
    }

    fn is_lost(&mut self) -> bool {
        let lost = !self.calm && self.random.chance(self.plan.faults.loss_per_mille);
        self.tally.messages_lost += u64::from(lost);
        lost
    }

    fn comes_twice(&mut self) -> bool {
        let twice = !self.calm && self.random.chance(self.plan.faults.twice_per_mille);
        self.tally.messages_twice += u64::from(twice);
        twice
    }

    /// A request sets out for the hub.
    pub(crate) fn send(&mut self, request: Request) {
        self.tally.requests += 1;
        if self.comes_twice() {
            let way = self.way();
            self.after(way, Event::Arrive(request));
        }
        if !self.is_lost() {
            let way = self.way();
            self.after(way, Event::Arrive(request));
        }
    }

    /// The hub's answer sets out for the sender of a request.
    pub(crate) fn answer(&mut self, request: Request, result: Option<Outcome>) {
        if !self.is_lost() {
            let way = self.way();
            self.after(way, Event::Answer(request, result));
        }
    }

    /// A callback sets out for an FSP; that the attempt ends is certain, how is not.
    pub(crate) fn attempt(&mut self, attempting: Attempting) {
        self.tally.attempts += 1;
        let limit = self.plan.attempt_us;
        let (there, back) = (self.way(), self.way());
        // Who joins later has manners like anybody at first.
        match *self.manners.get(usize::from(attempting.to)).unwrap_or(&CallbackBehaviour::Fine) {
            CallbackBehaviour::Down => {
                self.end_attempt(&attempting, there, AttemptResult::ConnectFailed)
            }
            CallbackBehaviour::Breaking => {
                let reads = self.random.chance(500);
                self.end_attempt(&attempting, there + back, AttemptResult::Broken);
                self.arrive(attempting, there, reads);
            }
            CallbackBehaviour::Silent => {
                let reads = self.random.chance(500);
                self.end_attempt(&attempting, limit, AttemptResult::TimedOut);
                self.arrive(attempting, there, reads);
            }
            CallbackBehaviour::Answering(status) => {
                let result = AttemptResult::Status(status);
                let reads = (200..300).contains(&status) || (500 <= status && back % 2 == 0);
                self.end_attempt(&attempting, there + back, result);
                self.arrive(attempting, there, reads);
            }
            CallbackBehaviour::Unaddressed(_) | CallbackBehaviour::Fine => {
                self.exchange(attempting, there, back)
            }
            CallbackBehaviour::Slow(extra) => {
                self.tally.slow_answers += 1;
                self.exchange(attempting, there, back + extra);
            }
        }
    }

    /// Whether an FSP has an address for a notice.
    pub(crate) fn has_address(&self, notice: &Notice) -> bool {
        let manners = self.manners.get(notice.recipient.at() - 1).copied();
        manners != Some(CallbackBehaviour::Unaddressed(class_of(notice.kind)))
    }

    /// An exchange with an FSP that does its part, over a network that may not.
    fn exchange(&mut self, attempting: Attempting, there: u64, back: u64) {
        let limit = self.plan.attempt_us;
        let (lost, unanswered) = (self.is_lost(), self.is_lost());
        match lost || unanswered || limit < there + back {
            true => self.end_attempt(&attempting, limit, AttemptResult::TimedOut),
            false => self.end_attempt(&attempting, there + back, AttemptResult::Status(200)),
        }
        if self.comes_twice() {
            let later = there + self.way();
            let callback = attempting.callback.clone();
            self.after(later, Event::Callback(attempting.to, callback));
        }
        self.arrive(attempting, there, !lost);
    }

    fn arrive(&mut self, attempting: Attempting, there: u64, reads: bool) {
        if reads {
            self.after(there, Event::Callback(attempting.to, attempting.callback));
        }
    }

    fn end_attempt(&mut self, attempting: &Attempting, wait: u64, result: AttemptResult) {
        match result {
            AttemptResult::Status(200..300) => {}
            AttemptResult::Status(_) => self.tally.refusals += 1,
            AttemptResult::TimedOut => self.tally.silences += 1,
            AttemptResult::ConnectFailed => self.tally.no_connections += 1,
            AttemptResult::Broken => self.tally.broken_connections += 1,
            AttemptResult::Unsent | AttemptResult::NoAddress => {
                unreachable!("an attempt that was made was sent")
            }
        }
        self.tries.entry((attempting.life, attempting.notice)).or_default().push(result);
        if matches!(result, AttemptResult::Status(429 | 503)) && self.random.chance(500) {
            let micros = self.random.below(10 * SECOND);
            self.tally.pauses_asked += 1;
            let event = HubEvent::PauseAsked(attempting.edge, attempting.to, micros);
            self.hub_after(wait, attempting.life, event);
        }
        let event = HubEvent::Attempted(attempting.edge, attempting.notice, result);
        self.hub_after(wait, attempting.life, event);
    }

    /// A delivery ended: all its attempts are told, and one that was not delivered was refused for
    /// good, was owed for as long as may be, or is a prepare of a transfer that has ended.
    pub(crate) fn judge_end(
        &mut self,
        life: u32,
        (notice, end): (&Notice, &FinishedDelivery),
        tried: &[EndedAttempt],
    ) {
        let made = self.tries.remove(&(life, end.notice)).unwrap_or_default();
        let tries = made.len() as u32;
        assert_eq!(u32::from(end.attempts), tries, "attempts of {end:?}");
        let told: Vec<_> = tried.iter().map(|one| one.result).collect();
        let telling = match &*made {
            [AttemptResult::Status(200..300)] => &[],
            all => &all[all.len().saturating_sub(TRIED_MAX)..],
        };
        assert_eq!(told, telling, "what is told of the attempts of {end:?}");
        let passing = [401, 403, 404, 408, 409, 421, 425, 429];
        let for_good = end.status == 501
            || ((400..500).contains(&end.status) && !passing.contains(&end.status));
        let is_prepare = notice.kind == NoticeKind::Prepare;
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
        let policy = &self.plan.policy;
        let latest = EPOCH_US + self.now + policy.backoff_max_micros.max(policy.probe_max_micros);
        notice.owed_at.0 + policy.horizon_micros <= latest + 2 * SKEW_MAX_US as u64
    }
}
