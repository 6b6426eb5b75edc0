//! Random histories against a model that keeps a flat list and scans it for every question.

use proptest::prelude::*;

use super::*;
use crate::Report;

const LANES: u32 = 3;
const TRANSFERS: u8 = 4;

#[derive(Clone, Debug)]
enum Step {
    Enqueue { lane: u32, about: u8, purpose: Purpose, bytes: u32, message: bool },
    Poll { attempts: usize },
    Finish { which: usize, result: AttemptResult },
    Record { which: usize, count: usize },
    Withdraw { which: usize },
    Wait { micros: u64 },
    Move { lane: u32 },
}

fn purpose() -> impl Strategy<Value = Purpose> {
    prop_oneof![Just(Purpose::Prepare), Just(Purpose::Owed), Just(Purpose::Patient)]
}

fn step() -> impl Strategy<Value = Step> {
    let result = prop_oneof![
        3 => Just(AttemptResult::Status(200)),
        1 => Just(AttemptResult::Status(404)),
        2 => Just(AttemptResult::Status(503)),
        2 => Just(AttemptResult::TimedOut),
        2 => Just(AttemptResult::ConnectFailed),
        1 => Just(AttemptResult::Broken),
        1 => Just(AttemptResult::Unsent),
    ];
    prop_oneof![
        6 => (0..LANES, 0..TRANSFERS, purpose(), 0..100u32, any::<bool>()).prop_map(
            |(lane, about, purpose, bytes, message)| {
                Step::Enqueue { lane, about, purpose, bytes, message }
            }
        ),
        4 => (1..5usize).prop_map(|attempts| Step::Poll { attempts }),
        8 => (any::<usize>(), result).prop_map(|(which, result)| Step::Finish { which, result }),
        3 => (any::<usize>(), 1..5usize).prop_map(|(which, count)| Step::Record { which, count }),
        2 => any::<usize>().prop_map(|which| Step::Withdraw { which }),
        3 => (0..400_000u64).prop_map(|micros| Step::Wait { micros }),
        1 => (0..LANES).prop_map(|lane| Step::Move { lane }),
    ]
}

fn policy() -> impl Strategy<Value = Policy> {
    (1..5u32, 1..5u32, 1..4u32, 50..400u64, 1..3u32, 0..200_000u64).prop_map(
        |(window, attempts_max, probe_after, bytes_max, patient_max, patient_micros)| Policy {
            window,
            attempts_max,
            probe_after,
            bytes_max,
            patient_max,
            patient_micros,
            backoff_base_micros: 100_000,
            backoff_max_micros: 500_000,
        },
    )
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting { not_before: Moment },
    InFlight,
    Delivered,
    Dead,
    Withdrawn,
}

#[derive(Debug)]
struct Item {
    entry: Entry<u64>,
    state: State,
    attempts: u32,
    recorded: bool,
    held: bool,
    /// When its last attempt began.
    began: Moment,
    /// It had a pause.
    paused: bool,
    /// Every attempt that has ended.
    tried: Vec<Tried>,
}

impl Item {
    fn is_patient(&self) -> bool {
        self.entry.purpose == Purpose::Patient
    }

    fn finished(&self) -> bool {
        matches!(self.state, State::Delivered | State::Dead | State::Withdrawn)
    }

    fn takes_slot(&self) -> bool {
        match self.state {
            State::InFlight => true,
            State::Delivered | State::Dead => !self.recorded,
            State::Waiting { .. } | State::Withdrawn => false,
        }
    }
}

struct Pair {
    policy: Policy,
    real: Delivery<u64>,
    items: Vec<Item>,
    /// Results in a row without an answer, per lane.
    failures: [u32; LANES as usize],
    probing: [bool; LANES as usize],
    now: Moment,
}

impl Pair {
    fn new(policy: Policy, seed: u64) -> Self {
        Self {
            real: Delivery::new(policy.clone(), seed),
            policy,
            items: Vec::new(),
            failures: [0; LANES as usize],
            probing: [false; LANES as usize],
            now: Moment(0),
        }
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Enqueue { lane, about, purpose, bytes, message } => {
                let notice = self.items.len() as u64;
                self.enqueue(Entry {
                    bytes,
                    purpose,
                    message: message.then_some(notice),
                    ..owed(notice, ParticipantIndex(lane), about)
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
                let all = self.select(|item| !item.recorded && item.takes_slot());
                let unrecorded: Vec<_> =
                    all.into_iter().filter(|at| self.items[*at].state != State::InFlight).collect();
                let skipped = which % (unrecorded.len() + 1);
                self.record(unrecorded.into_iter().skip(skipped).take(count).collect());
            }
            Step::Withdraw { which } if !self.items.is_empty() => {
                self.withdraw(which % self.items.len());
            }
            Step::Withdraw { .. } => (),
            Step::Wait { micros } => self.now = self.now.after_micros(micros),
            Step::Move { lane } => self.move_away(lane),
        }
        self.invariants();
    }

    fn select(&self, wanted: impl Fn(&Item) -> bool) -> Vec<usize> {
        (0..self.items.len()).filter(|at| wanted(&self.items[*at])).collect()
    }

    fn enqueue(&mut self, entry: Entry<u64>) {
        let bytes: u64 = self
            .lane(entry.recipient.at())
            .filter(|item| item.held && !item.finished())
            .map(|item| u64::from(item.entry.bytes))
            .sum();
        let held =
            entry.message.is_some() && bytes + u64::from(entry.bytes) <= self.policy.bytes_max;
        let expected = if held { Enqueued::Held } else { Enqueued::Spilled };
        assert_eq!(self.real.enqueue(entry.clone()), expected);
        assert_eq!(self.real.enqueue(entry.clone()), Enqueued::Repeated);
        let state = State::Waiting { not_before: self.now };
        let began = self.now;
        self.items.push(Item {
            entry,
            state,
            attempts: 0,
            recorded: false,
            held,
            began,
            tried: Vec::new(),
            paused: false,
        });
    }

    fn poll(&mut self) {
        let mut allowed = self.select(|item| !item.is_patient() && self.may_be_sent(item));
        if allowed.is_empty() && self.patience_ends().is_none() {
            allowed = self.select(|item| item.is_patient() && self.may_be_sent(item));
        }
        let Some(attempt) = self.real.poll(self.now) else {
            assert_eq!(allowed, [] as [usize; 0], "something can be sent at {:?}", self.now);
            return;
        };
        let at = attempt.notice.0 as usize;
        assert!(allowed.contains(&at), "{at} is sent, allowed are {allowed:?}");
        let item = &mut self.items[at];
        item.attempts += 1;
        item.began = self.now;
        item.state = State::InFlight;
        assert_eq!(attempt.recipient, item.entry.recipient);
        assert_eq!(attempt.transfer, item.entry.transfer);
        assert_eq!(attempt.number, item.attempts);
        assert!(item.attempts <= self.policy.attempts_max);
        assert_eq!(attempt.message, item.entry.message.filter(|_| item.held));
    }

    fn may_be_sent(&self, item: &Item) -> bool {
        let State::Waiting { not_before } = item.state else { return false };
        let lane = item.entry.recipient.at();
        let gate = match self.state(lane).map(|state| state.mode) {
            Some(LaneMode::Probing { next }) => {
                next <= self.now && !self.lane(lane).any(|other| other.state == State::InFlight)
            }
            Some(LaneMode::Open) | None => true,
        };
        let taken = self.lane(lane).filter(|other| other.takes_slot()).count();
        not_before <= self.now && self.is_first(item) && gate && taken < self.window(item) as usize
    }

    fn window(&self, item: &Item) -> u32 {
        if item.is_patient() { self.policy.window.div_ceil(2) } else { self.policy.window }
    }

    /// When the next patient entry may go, if not now.
    fn patience_ends(&self) -> Option<Moment> {
        let until = |item: &Item| item.began.after_micros(self.policy.patient_micros);
        let under_way = |item: &&Item| item.is_patient() && item.state == State::InFlight;
        let mut ends: Vec<_> = self.items.iter().filter(under_way).map(until).collect();
        ends.retain(|until| self.now < *until);
        ends.sort();
        let surplus = ends.len().checked_sub(self.policy.patient_max as usize)?;
        assert_eq!(surplus, 0, "too many at once");
        ends.first().copied()
    }

    /// Whether it is unfinished and no earlier entry of its transfer is, within its lane.
    fn is_first(&self, item: &Item) -> bool {
        let earlier = self.lane(item.entry.recipient.at()).any(|other| {
            other.entry.notice < item.entry.notice
                && other.entry.transfer == item.entry.transfer
                && !other.finished()
        });
        !item.finished() && !earlier
    }

    fn finish(&mut self, at: usize, result: AttemptResult) {
        let lane = self.items[at].entry.recipient.at();
        if result == AttemptResult::Unsent {
            self.items[at].attempts -= 1;
        } else if result.status().is_some() {
            self.failures[lane] = 0;
            self.probing[lane] = false;
        } else {
            self.failures[lane] += 1;
            self.probing[lane] |= self.policy.probe_after <= self.failures[lane];
        }
        let verdict = self.real.finished(NoticeId(at as u64), result, self.now);
        self.check_tried(at, result);
        let last = self.items[at].attempts == self.policy.attempts_max;
        let expected = match result {
            AttemptResult::Status(200) => "delivered",
            AttemptResult::Status(404) => "dead",
            AttemptResult::Unsent => "retry",
            _ if last => "dead",
            _ => "retry",
        };
        assert_eq!(word(verdict), expected, "{result:?} of {:?}", self.items[at]);
        self.items[at].state = match verdict {
            Verdict::Delivered(report) => self.reported(report, State::Delivered),
            Verdict::Dead(report) => self.reported(report, State::Dead),
            Verdict::Left => panic!("no lane was left"),
            Verdict::RetryAt(not_before) => {
                let pause = not_before.0 - self.now.0;
                assert!((50_000..=500_000).contains(&pause), "a pause of {pause}");
                self.items[at].paused = true;
                State::Waiting { not_before }
            }
        };
    }

    fn check_tried(&mut self, at: usize, result: AttemptResult) {
        let item = &mut self.items[at];
        if result != AttemptResult::Unsent {
            item.tried.push(Tried { began: item.began, ended: self.now, result });
        }
        let told = match &*item.tried {
            [Tried { result: AttemptResult::Status(200), .. }] => &[],
            all => &all[all.len().saturating_sub(TRIED_MAX)..],
        };
        assert_eq!(self.real.tried(NoticeId(at as u64)), told);
    }

    fn reported(&self, report: Report, state: State) -> State {
        assert_eq!(report.attempts, self.items[report.notice.0 as usize].attempts);
        assert_eq!(report.finished, self.now);
        state
    }

    fn record(&mut self, which: Vec<usize>) {
        let notices: Vec<_> = which.iter().map(|at| NoticeId(*at as u64)).collect();
        self.real.recorded(&notices);
        assert!(notices.iter().all(|notice| self.real.tried(*notice).is_empty()));
        which.into_iter().for_each(|at| self.items[at].recorded = true);
    }

    fn withdraw(&mut self, at: usize) {
        let item = &mut self.items[at];
        let expected = match item.state {
            _ if item.recorded || item.state == State::Withdrawn => Withdrawal::Unknown,
            State::Waiting { .. } if item.attempts == 0 => match item.entry.purpose {
                Purpose::Prepare => Withdrawal::Dropped,
                Purpose::Owed | Purpose::Patient => Withdrawal::Kept,
            },
            _ => Withdrawal::Kept,
        };
        assert_eq!(self.real.withdraw(NoticeId(at as u64)), expected, "{item:?}");
        if expected == Withdrawal::Dropped {
            item.state = State::Withdrawn;
        }
    }

    /// The recipient is reached elsewhere: its pauses are over and its failures forgotten.
    fn move_away(&mut self, lane: u32) {
        self.real.address_changed(ParticipantIndex(lane), self.now);
        (self.failures[lane as usize], self.probing[lane as usize]) = (0, false);
        let now = self.now;
        for item in self.items.iter_mut().filter(|item| item.entry.recipient.0 == lane) {
            if let State::Waiting { not_before } = &mut item.state {
                *not_before = now.min(*not_before);
            }
        }
    }

    fn lane(&self, lane: usize) -> impl Iterator<Item = &Item> {
        self.items.iter().filter(move |item| item.entry.recipient.at() == lane)
    }

    fn state(&self, lane: usize) -> Option<LaneState> {
        self.real.lane_states().find(|state| state.recipient.at() == lane)
    }

    fn invariants(&self) {
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
            let open = count(|item| matches!(item.state, State::Waiting { .. }));
            assert_eq!(state.waiting + state.backing_off, open);
            assert_eq!(state.spilled, count(|item| !item.held && !item.finished()));
            assert!(state.bytes <= self.policy.bytes_max);
            assert_eq!(state.consecutive_failures, self.failures[lane]);
            assert_eq!(state.mode != LaneMode::Open, self.probing[lane]);
            starved |= in_flight == 0 && self.is_full(lane, taken);
        }
        assert!(self.real.starved() || !starved, "a lane stands still unnoticed");
    }

    /// Whether what could go next has no place in the window. Patient entries count when nothing
    /// else is there.
    fn is_full(&self, lane: usize, taken: u32) -> bool {
        let first = || self.lane(lane).filter(|item| self.is_first(item));
        let patient = first().all(Item::is_patient);
        let mut counted = first()
            .filter(|item| !item.paused && item.attempts == 0 && item.is_patient() == patient);
        counted.any(|item| self.window(item) <= taken)
    }

    /// Answers everything until nothing is left; records only when a lane asks for it or at
    /// rest, and jumps from deadline to deadline, so that a forgotten wake-up shows.
    fn run_out(&mut self, answer: AttemptResult) {
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
            let unrecorded = self.select(|item| item.takes_slot());
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
        assert!(self.real.is_empty(), "something is left");
        assert!(self.items.iter().all(Item::finished), "an entry did not end");
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
        ],
    ) {
        let mut pair = Pair::new(policy, seed);
        for step in steps {
            pair.apply(step);
        }
        pair.run_out(answer);
    }
}
