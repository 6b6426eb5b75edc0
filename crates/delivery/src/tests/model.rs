//! Random histories against a model that keeps a flat list and scans it for every question.

use proptest::prelude::*;

use super::*;

const LANES: u32 = 3;
const TRANSFERS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Enqueue {
        lane: u32,
        about: Option<u8>,
        purpose: NoticePriority,
        left: u64,
        message: Option<u32>,
    },
    Poll {
        attempts: usize,
    },
    Finish {
        which: usize,
        result: AttemptResult,
    },
    Record {
        which: usize,
        count: usize,
    },
    Withdraw {
        which: usize,
    },
    Wait {
        micros: u64,
    },
    Move {
        lane: u32,
    },
    Pause {
        lane: u32,
        micros: u64,
    },
    Leave {
        lane: u32,
    },
    Take {
        lane: u32,
    },
    Elsewhere {
        which: usize,
        count: usize,
    },
}

/// The first pause; also the longest pause of a probing recipient that answers.
const PAUSE_BASE: u64 = 100_000;
/// The longest pause.
const PAUSE_MAX: u64 = 500_000;

fn purpose() -> impl Strategy<Value = NoticePriority> {
    prop_oneof![
        Just(NoticePriority::Prepare),
        Just(NoticePriority::Owed),
        Just(NoticePriority::Patient)
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let result = prop_oneof![
        3 => Just(AttemptResult::Status(200)),
        1 => Just(AttemptResult::Status(400)),
        1 => Just(AttemptResult::Status(404)),
        2 => Just(AttemptResult::Status(503)),
        2 => Just(AttemptResult::TimedOut),
        2 => Just(AttemptResult::ConnectFailed),
        1 => Just(AttemptResult::Broken),
        1 => Just(AttemptResult::Unsent),
        2 => Just(AttemptResult::NoAddress),
    ];
    let about = prop::option::weighted(0.8, 0..TRANSFERS);
    let message = prop::option::of(0..100u32);
    prop_oneof![
        6 => (0..LANES, about, purpose(), 0..3_000_000u64, message).prop_map(
            |(lane, about, purpose, left, message)| {
                Step::Enqueue { lane, about, purpose, left, message }
            }
        ),
        4 => (1..5usize).prop_map(|attempts| Step::Poll { attempts }),
        8 => (any::<usize>(), result).prop_map(|(which, result)| Step::Finish { which, result }),
        3 => (any::<usize>(), 1..5usize).prop_map(|(which, count)| Step::Record { which, count }),
        2 => any::<usize>().prop_map(|which| Step::Withdraw { which }),
        3 => (0..400_000u64).prop_map(|micros| Step::Wait { micros }),
        1 => (0..LANES).prop_map(|lane| Step::Move { lane }),
        1 => (0..LANES, 0..900_000u64).prop_map(|(lane, micros)| Step::Pause { lane, micros }),
        1 => (0..LANES).prop_map(|lane| Step::Leave { lane }),
        2 => (0..LANES).prop_map(|lane| Step::Take { lane }),
        1 => (any::<usize>(), 1..4usize)
            .prop_map(|(which, count)| Step::Elsewhere { which, count }),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    (1..5u32, 1..4u32, 50..400u64, 1..3u32, 0..200_000u64).prop_map(
        |(window, probe_after, bytes_max, patient_max, patient_micros)| Policy {
            window,
            probe_after,
            bytes_max,
            patient_max,
            patient_micros,
            backoff_base_micros: PAUSE_BASE,
            backoff_max_micros: PAUSE_MAX,
            probe_max_micros: PAUSE_MAX,
            ..Policy::default()
        },
    )
}

/// Another node sends dropped notices, and has delivered those that ended elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting { not_before: MonotonicTime },
    Parked,
    InFlight,
    Ended(DeliveryResult),
    Dropped,
    Elsewhere,
}

#[derive(Debug)]
struct Item {
    entry: QueuedNotice<u64>,
    state: State,
    attempts: u32,
    recorded: bool,
    held: bool,
    /// Its transfer is final.
    unwanted: bool,
    /// A later notice of its transfer that was in flight when it was queued, and so precedes it.
    preceded_by: Option<NoticeId>,
    /// It ended with an attempt.
    has_slot: bool,
    last: Option<AttemptResult>,
    /// Time of its last attempt.
    began: MonotonicTime,
    /// Whether its last attempt was a probe.
    probe: bool,
    /// It had a pause.
    paused: bool,
    /// Every attempt that has ended.
    ended_attempts: Vec<EndedAttempt>,
}

/// Times at which a probing lane sends an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Gate {
    /// At the next probe's time.
    Strict,
    /// Also before it, if allowed.
    Early,
}

impl Health {
    fn succeeded(&mut self) {
        *self = Self { paused_until: self.paused_until, left: self.left, ..Self::default() };
    }

    fn failed(&mut self, (notice, attempts): (u64, u32), probe_after: u32) {
        if self.failing.len() < probe_after as usize && !self.failing.contains(&notice) {
            self.failing.push(notice);
        }
        self.new_failed |= attempts == 1;
        self.probing |= self.failing.len() == probe_after as usize;
    }
}

impl Item {
    fn end(&mut self, report: DeliveryReport, result: DeliveryResult, has_slot: bool) {
        assert_eq!((report.result, report.attempts), (result, self.attempts), "{self:?}");
        assert_eq!((report.last, report.transfer), (self.last, self.entry.transfer), "{self:?}");
        (self.state, self.has_slot) = (State::Ended(result), has_slot);
    }

    fn is_patient(&self) -> bool {
        self.entry.purpose == NoticePriority::Patient
    }

    fn finished(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }

    /// Whether this node has forgotten it.
    fn gone(&self) -> bool {
        self.recorded || matches!(self.state, State::Dropped | State::Elsewhere)
    }

    /// Whether it waits for its turn, a time or an address.
    fn idle(&self) -> bool {
        self.waits() || self.state == State::Parked
    }

    fn waits(&self) -> bool {
        matches!(self.state, State::Waiting { .. })
    }

    fn takes_slot(&self) -> bool {
        match self.state {
            State::InFlight => true,
            State::Ended(_) => self.has_slot && !self.recorded,
            State::Waiting { .. } | State::Parked | State::Dropped | State::Elsewhere => false,
        }
    }

    /// Its result if it is not delivered.
    fn loss(&self) -> DeliveryResult {
        match self.entry.transfer {
            Some(_) if !self.unwanted => DeliveryResult::Dead,
            _ => DeliveryResult::GivenUp,
        }
    }

    /// The same without an attempt in flight.
    fn quiet_loss(&self) -> DeliveryResult {
        match self.unwanted && self.attempts == 0 {
            true => DeliveryResult::Withdrawn,
            false => self.loss(),
        }
    }
}

struct Pair {
    policy: Policy,
    real: Delivery<u64>,
    items: Vec<Item>,
    lanes: [Health; LANES as usize],
    now: MonotonicTime,
}

/// The model of one recipient's health.
#[derive(Clone, Debug, Default)]
struct Health {
    /// Notices that failed since the last success.
    failing: Vec<u64>,
    probing: bool,
    new_failed: bool,
    paused_until: MonotonicTime,
    /// Whether another node serves it.
    left: bool,
}

impl Pair {
    fn new(policy: Policy, seed: u64) -> Self {
        Self {
            real: Delivery::new(policy.clone(), seed),
            policy,
            items: Vec::new(),
            lanes: <[Health; LANES as usize]>::default(),
            now: MonotonicTime(0),
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Enqueue { lane, .. } if self.lanes[lane as usize].left => (),
            Step::Enqueue { lane, about, purpose, left, message } => {
                let notice = self.items.len() as u64;
                self.enqueue(QueuedNotice {
                    bytes: message.unwrap_or(7),
                    purpose,
                    transfer: about.map(transfer),
                    until: self.now.after_micros(left),
                    message: message.map(|_| notice),
                    ..owed(notice, ParticipantIndex(lane), 0)
                });
            }
            Step::Poll { attempts } => {
                for _ in 0..attempts {
                    self.poll();
                }
            }
            Step::Finish { which, result } => {
                let in_flight = self.select(|item| item.state == State::InFlight);
                if !in_flight.is_empty() {
                    self.finish(in_flight[which % in_flight.len()], result);
                }
            }
            Step::Record { which, count } => {
                let unrecorded = self.select(|item| !item.recorded && item.finished());
                let skipped = which % (unrecorded.len() + 1);
                self.record(unrecorded.into_iter().skip(skipped).take(count).collect());
            }
            Step::Withdraw { which } if !self.items.is_empty() => {
                self.withdraw(which % self.items.len());
            }
            Step::Withdraw { .. } => (),
            Step::Wait { micros } => self.now = self.now.after_micros(micros),
            Step::Move { lane } => self.move_away(lane),
            Step::Pause { lane, micros } => self.pause(lane, micros),
            Step::Leave { lane } => self.leave(lane),
            Step::Take { lane } => self.take(lane),
            Step::Elsewhere { which, count } => self.elsewhere(which, count),
        }
        self.invariants();
    }

    fn select(&self, wanted: impl Fn(&Item) -> bool) -> Vec<usize> {
        (0..self.items.len()).filter(|at| wanted(&self.items[*at])).collect()
    }

    fn enqueue(&mut self, entry: QueuedNotice<u64>) {
        let bytes: u64 = self
            .lane(entry.recipient.at())
            .filter(|item| item.held && !item.finished() && !item.gone())
            .map(|item| u64::from(item.entry.bytes))
            .sum();
        let held =
            entry.message.is_some() && bytes + u64::from(entry.bytes) <= self.policy.bytes_max;
        let expected = if held { Enqueued::Held } else { Enqueued::Spilled };
        assert_eq!(self.real.enqueue(entry.clone()), expected);
        assert_eq!(self.real.enqueue(entry.clone()), Enqueued::Repeated);
        let state = State::Waiting { not_before: self.now };
        let began = self.now;
        let later = |item: &&Item| {
            item.state == State::InFlight
                && item.entry.transfer == entry.transfer
                && entry.notice < item.entry.notice
        };
        let preceded_by = self.lane(entry.recipient.at()).find(later).map(|item| item.entry.notice);
        let item = Item {
            entry,
            state,
            attempts: 0,
            recorded: false,
            held,
            unwanted: false,
            preceded_by,
            has_slot: false,
            last: None,
            began,
            probe: false,
            ended_attempts: Vec::new(),
            paused: false,
        };
        let at = item.entry.notice.0 as usize;
        match self.items.get_mut(at) {
            Some(known) => *known = item,
            None => self.items.push(item),
        }
    }

    fn poll(&mut self) {
        let polled = self.real.poll(self.now);
        self.take_lapsed();
        let mut due =
            self.select(|item| !item.is_patient() && self.may_be_sent(item, Gate::Strict));
        let mut allowed =
            self.select(|item| !item.is_patient() && self.may_be_sent(item, Gate::Early));
        if due.is_empty() && self.patience_ends().is_none() {
            due = self.select(|item| item.is_patient() && self.may_be_sent(item, Gate::Strict));
            allowed.extend(due.iter().copied());
        }
        let Some(attempt) = polled else {
            assert_eq!(due, [] as [usize; 0], "something can be sent at {:?}", self.now);
            return;
        };
        let at = attempt.notice.0 as usize;
        assert!(allowed.contains(&at), "{at} is sent, allowed are {allowed:?}");
        let item = &mut self.items[at];
        item.attempts += 1;
        item.began = self.now;
        item.probe = self.lanes[item.entry.recipient.at()].probing;
        item.state = State::InFlight;
        assert_eq!(attempt.recipient, item.entry.recipient);
        assert_eq!(attempt.transfer, item.entry.transfer);
        assert_eq!(attempt.number, item.attempts);
        assert_eq!(attempt.message, item.entry.message.filter(|_| item.held));
    }

    fn may_be_sent(&self, item: &Item, gate: Gate) -> bool {
        let State::Waiting { not_before } = item.state else { return false };
        let lane = item.entry.recipient.at();
        let known = &self.lanes[lane];
        // A new entry may go before the next probe's time, unless one has failed.
        let early = gate == Gate::Early && !known.new_failed && item.attempts == 0;
        let opens = match self.state(lane).map(|state| state.mode) {
            Some(LaneMode::Probing { next }) => {
                let one = !self.lane(lane).any(|other| other.state == State::InFlight);
                one && (next <= self.now || early)
            }
            Some(LaneMode::Open) | None => true,
        };
        let taken = self.lane(lane).filter(|other| other.takes_slot()).count();
        let is_due = not_before.max(known.paused_until) <= self.now;
        is_due && self.is_first(item) && opens && taken < self.window(item) as usize
    }

    fn window(&self, item: &Item) -> u32 {
        if item.is_patient() { self.policy.window.div_ceil(2) } else { self.policy.window }
    }

    /// Time at which the next patient entry may be sent, if not now.
    fn patience_ends(&self) -> Option<MonotonicTime> {
        let until = |item: &Item| item.began.after_micros(self.policy.patient_micros);
        let in_flight = |item: &&Item| item.is_patient() && item.state == State::InFlight;
        let mut ends: Vec<_> = self.items.iter().filter(in_flight).map(until).collect();
        ends.retain(|until| self.now < *until);
        ends.sort();
        let surplus = ends.len().checked_sub(self.policy.patient_max as usize)?;
        assert_eq!(surplus, 0, "too many at once");
        ends.first().copied()
    }

    /// Whether it waits for no other notice of its transfer within its lane: none in flight, and no
    /// earlier one with an address.
    fn is_first(&self, item: &Item) -> bool {
        let blocked = self.lane(item.entry.recipient.at()).any(|other| {
            let (this, that) = (item.entry.notice, other.entry.notice);
            let before = that < this && other.preceded_by != Some(this);
            let goes_first = other.waits() && (before || item.preceded_by == Some(that));
            item.entry.transfer.is_some()
                && other.entry.transfer == item.entry.transfer
                && (goes_first || other.state == State::InFlight)
        });
        item.waits() && !blocked
    }

    fn finish(&mut self, at: usize, result: AttemptResult) {
        use AttemptResult::{NoAddress, Status, Unsent};
        let is_sent = !matches!(result, Unsent | NoAddress);
        let item = &mut self.items[at];
        item.last = Some(result);
        item.attempts -= u32::from(!is_sent);
        let (lane, attempts) = (item.entry.recipient.at(), item.attempts);
        match result {
            Unsent | NoAddress => {}
            Status(200 | 400) => self.lanes[lane].succeeded(),
            _ => self.lanes[lane].failed((at as u64, attempts), self.policy.probe_after),
        }
        let verdict = self.real.finished(NoticeId(at as u64), result, self.now);
        self.check_tried(at, result, verdict);
        let now = self.now;
        let left = self.lanes[lane].left;
        let mode = self.state(lane).map(|state| state.mode);
        let item = &mut self.items[at];
        if let Some(LaneMode::Probing { next }) = mode
            && item.probe
            && is_sent
        {
            // The next probe follows after a pause, which is short if the recipient answers.
            let most = if result.status().is_some() { PAUSE_BASE } else { PAUSE_MAX };
            let pause = next.0 - now.0;
            assert!((PAUSE_BASE / 2..=most).contains(&pause), "a pause of {pause}");
        }
        let late = item.entry.until <= now.after_micros(PAUSE_MAX);
        match (result, verdict) {
            (Status(200), Verdict::Ended(report)) => {
                item.end(report, DeliveryResult::Delivered, true);
            }
            (Status(400), Verdict::Ended(report)) => item.end(report, item.loss(), true),
            (_, Verdict::LaneLost) => {
                assert!(left, "{item:?}");
                item.state = State::Dropped;
            }
            _ if left => panic!("{verdict:?} in a lane that was left"),
            (Unsent | NoAddress, Verdict::Ended(report)) => {
                let over = result == NoAddress && item.entry.until <= now;
                assert!(item.unwanted || over, "{result:?} of {item:?}");
                item.end(report, item.quiet_loss(), false);
            }
            (NoAddress, Verdict::Parked) => {
                assert!(!item.unwanted && now < item.entry.until, "{item:?}");
                (item.state, item.paused) = (State::Parked, true);
            }
            (_, Verdict::Ended(report)) => {
                assert!(item.unwanted || late, "{result:?} of {item:?}");
                item.end(report, item.loss(), true);
            }
            (_, Verdict::RetryAt(not_before)) => {
                assert!(!matches!(result, Status(200 | 400) | NoAddress), "{result:?}");
                assert!(!item.unwanted, "{item:?}");
                assert!(!is_sent || not_before < item.entry.until, "{item:?}");
                let pause = not_before.0 - now.0;
                assert!((PAUSE_BASE / 2..=PAUSE_MAX).contains(&pause), "a pause of {pause}");
                // Only the lane holds back an unanswered probe.
                let by_lane = item.probe && is_sent && result.status().is_none();
                if by_lane {
                    assert_eq!(mode, Some(LaneMode::Probing { next: not_before }), "{item:?}");
                }
                let not_before = if by_lane { now } else { not_before };
                (item.state, item.paused) = (State::Waiting { not_before }, true);
            }
            (_, other) => panic!("{other:?} after {result:?} of {item:?}"),
        }
    }

    /// Takes the deliveries that ended because their time was over.
    fn take_lapsed(&mut self) {
        while let Some(report) = self.real.next_lapsed() {
            let item = &mut self.items[report.notice.0 as usize];
            assert!(item.waits() || item.state == State::Parked, "{item:?}");
            assert!(item.entry.until <= self.now, "{item:?}");
            assert_ne!(item.last, Some(AttemptResult::Unsent), "its message is waited for");
            item.end(report, item.quiet_loss(), false);
        }
    }

    fn check_tried(&mut self, at: usize, result: AttemptResult, verdict: Verdict) {
        let item = &mut self.items[at];
        if !matches!(result, AttemptResult::Unsent | AttemptResult::NoAddress) {
            item.ended_attempts.push(EndedAttempt { began: item.began, ended: self.now, result });
        }
        let expected = match &*item.ended_attempts {
            _ if verdict == Verdict::LaneLost => &[],
            [EndedAttempt { result: AttemptResult::Status(200), .. }] => &[],
            all => &all[all.len().saturating_sub(ENDED_ATTEMPTS_MAX)..],
        };
        assert_eq!(self.real.ended_attempts(NoticeId(at as u64)), expected);
    }

    fn record(&mut self, which: Vec<usize>) {
        let notices: Vec<_> = which.iter().map(|at| NoticeId(*at as u64)).collect();
        self.real.recorded(&notices);
        assert!(notices.iter().all(|notice| self.real.ended_attempts(*notice).is_empty()));
        which.into_iter().for_each(|at| self.items[at].recorded = true);
    }

    fn withdraw(&mut self, at: usize) {
        let withdrawal = self.real.withdraw(NoticeId(at as u64));
        let item = &mut self.items[at];
        let is_prepare = item.entry.purpose == NoticePriority::Prepare;
        item.unwanted |= is_prepare && !item.finished();
        match item.state {
            _ if item.gone() => assert_eq!(withdrawal, Withdrawal::Unknown, "{item:?}"),
            State::Waiting { .. } | State::Parked if is_prepare => {
                let Withdrawal::Ended(report) = withdrawal else { panic!("{withdrawal:?}") };
                item.end(report, item.quiet_loss(), false);
            }
            _ => assert_eq!(withdrawal, Withdrawal::Kept, "{item:?}"),
        }
    }

    /// The recipient has a new address: its pauses end and its failures are forgotten.
    fn move_away(&mut self, lane: u32) {
        self.real.address_changed(ParticipantIndex(lane), self.now);
        let known = &mut self.lanes[lane as usize];
        *known = Health { left: known.left, ..Health::default() };
        let now = self.now;
        let in_flight: Vec<_> = self
            .lane(lane as usize)
            .filter(|item| item.state == State::InFlight)
            .map(|item| (item.entry.transfer, item.entry.notice))
            .collect();
        for item in self.items.iter_mut().filter(|item| item.entry.recipient.0 == lane) {
            let same = in_flight.iter().find(|(transfer, _)| *transfer == item.entry.transfer);
            item.preceded_by =
                same.map(|(_, notice)| *notice).filter(|one| item.entry.notice < *one);
            item.probe = false;
            match &mut item.state {
                State::Waiting { not_before } => *not_before = now.min(*not_before),
                state @ State::Parked => *state = State::Waiting { not_before: now },
                State::InFlight | State::Ended(_) | State::Dropped | State::Elsewhere => (),
            }
        }
    }

    fn leave(&mut self, lane: u32) {
        self.real.lose_lanes(&[ParticipantIndex(lane)]);
        self.lanes[lane as usize].left = self.state(lane as usize).is_some();
        for item in self.items.iter_mut().filter(|item| item.entry.recipient.0 == lane) {
            if item.idle() {
                item.state = State::Dropped;
            }
        }
    }

    /// Owed notices are queued again, ordered by id.
    fn take(&mut self, lane: u32) {
        self.real.gain_lanes(&[ParticipantIndex(lane)]);
        self.lanes[lane as usize].left = false;
        let dropped = |item: &Item| item.entry.recipient.0 == lane && item.state == State::Dropped;
        for at in self.select(dropped) {
            self.enqueue(self.items[at].entry.clone());
        }
    }

    fn elsewhere(&mut self, which: usize, count: usize) {
        let first = which % (self.items.len() + 1);
        let last = (first + count).min(self.items.len());
        let notices: Vec<_> = (first..last).map(|at| NoticeId(at as u64)).collect();
        self.real.delivered_elsewhere(&notices);
        for item in &mut self.items[first..last] {
            if item.idle() || item.state == State::Dropped {
                item.state = State::Elsewhere;
            }
        }
    }

    fn pause(&mut self, lane: u32, micros: u64) {
        self.real.pause_asked(ParticipantIndex(lane), micros, self.now);
        let until = self.now.after_micros(micros.min(PAUSE_MAX));
        let known = &mut self.lanes[lane as usize].paused_until;
        *known = until.max(*known);
    }

    fn lane(&self, lane: usize) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| item.entry.recipient.at() == lane)
    }

    fn state(&self, lane: usize) -> Option<LaneState> {
        self.real.lane_states().find(|state| state.recipient.at() == lane)
    }

    fn invariants(&mut self) {
        self.take_lapsed();
        let mut starved = false;
        for state in self.real.lane_states() {
            let lane = state.recipient.at();
            let count = |wanted: fn(&Item) -> bool| {
                self.lane(lane).filter(|item| wanted(item)).count() as u32
            };
            let in_flight = count(|item| item.state == State::InFlight);
            let taken = count(Item::takes_slot);
            assert_eq!(state.in_flight, in_flight);
            assert_eq!(state.unrecorded, taken - in_flight);
            assert!(taken <= self.policy.window, "{taken} slots taken");
            assert_eq!(state.waiting + state.backing_off, count(Item::waits));
            assert_eq!(state.parked, count(|item| item.state == State::Parked));
            assert_eq!(state.spilled, count(|item| !item.held && !item.finished() && !item.gone()));
            assert!(state.bytes <= self.policy.bytes_max);
            let known = &self.lanes[lane];
            assert_eq!(state.consecutive_failures, known.failing.len() as u32);
            assert_eq!(state.mode != LaneMode::Open, known.probing);
            assert_eq!(state.paused_until, known.paused_until);
            starved |= in_flight == 0 && self.is_full(lane, taken);
        }
        assert!(
            self.real.starved() || !starved,
            "a lane without progress is not reported as starved"
        );
    }

    /// Whether the next entry has no window slot. Patient entries count if there are no others.
    fn is_full(&self, lane: usize, taken: u32) -> bool {
        let first = || self.lane(lane).filter(|item| self.is_first(item));
        let patient = first().all(Item::is_patient);
        let mut counted = first()
            .filter(|item| !item.paused && item.attempts == 0 && item.is_patient() == patient);
        counted.any(|item| self.window(item) <= taken)
    }

    /// Answers every attempt until nothing is left. Records only when a lane is starved or nothing
    /// else happens, and jumps from deadline to deadline, so that a lost wake-up is noticed.
    fn run_out(&mut self, answer: AttemptResult) {
        (0..LANES).for_each(|lane| self.take(lane));
        for _ in 0..100_000 {
            let before = self.select(|item| item.state == State::InFlight).len();
            self.poll();
            let in_flight = self.select(|item| item.state == State::InFlight);
            if before < in_flight.len() {
                continue;
            }
            for at in in_flight.iter().copied() {
                self.finish(at, answer);
            }
            if !in_flight.is_empty() {
                continue;
            }
            let unrecorded = self.select(|item| item.finished() && !item.recorded);
            if self.real.starved() {
                self.record(unrecorded);
            } else if let Some(deadline) = self.real.next_deadline() {
                self.now = self.now.max(deadline);
            } else {
                self.record(unrecorded);
                break;
            }
        }
        self.invariants();
        assert!(self.real.is_empty(), "an entry is left");
        assert!(self.items.iter().all(Item::gone), "an entry did not end");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_histories_agree_with_the_model(
        policy in policy(),
        seed in any::<u64>(),
        steps in proptest::collection::vec(step(), 1..300),
        answer in prop_oneof![
            Just(AttemptResult::Status(200)),
            Just(AttemptResult::Status(503)),
            Just(AttemptResult::ConnectFailed),
            Just(AttemptResult::NoAddress),
        ],
    ) {
        let mut pair = Pair::new(policy, seed);
        for step in steps {
            pair.apply(step);
        }
        pair.run_out(answer);
    }
}
