//! Three nodes that share a log over a model of Kafka, among faults, in virtual time, all from one
//! seed.
//!
//! The kernel, the replicas, the sequencer's thread ([`node::ReplicatedNode`]) and the outboxes
//! with their lanes are the production code. The brokers are a model (module `brokers`): three of
//! them replicate from a leader, crash, recover and elect another leader. Uncommitted messages may
//! be truncated, committed ones never are. Messages are delayed, may be appended twice, and are
//! given up after a timeout although they may still arrive. Nodes are killed and continue from
//! their copy, lose it, are asked to leave, pause with all their threads, are partitioned from the
//! brokers, and have wrong clocks.
//!
//! # What is watched (module `proof`)
//! - At every record every node has the same chain, and at rest the same state; the hashes that
//!   they compare each minute are the same.
//! - Only the node that took a lane last sends to it, even if another one was paused.
//! - No prepare begins long after the transfer's end, and no FSP is notified of two ends.
//! - At rest each lane was repeated at most its window for each time that it was taken.
//! - Every outcome that a sender got is in the log. The independent model predicts the same for
//!   every command and for every notice that follows.
//! - Within a bounded time after the faults stop, every transfer has ended, every notice was
//!   delivered or is a dead letter, every request was answered, and all nodes are live.

mod brokers;
mod faults;
mod invariants;
mod node;
mod workload;

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use ledger::{Change, Digest, FspName, Genesis, Notice, Outcome, Stamp};
use ports::{Arrival, Clock, ClockReading, Log};
use record::frame::LogIdentity;
use sequencer::GenesisMessage;

use crate::clock::{SimClock, wall};
use crate::event::Queue;
use crate::outbox_driver::{Host, IoAction, OutgoingNotice};
use crate::parameters::{Parameters, SECOND};
use crate::random::{Random, mix, spread16};
use crate::transfers::{Actors, Request, TransferPlan};
use crate::workload::operator::OperatorWorkload;
use crate::workload::settlement::{SettlementCounts, SettlementWorkload};
use crate::{FAILED_AT, panic_message};
use ::node::Turn;
use ::node::outbox::{Outbox, RECORD_PATIENCE};
use brokers::{BROKERS, Brokers, Duplicates};
use delivery::AttemptResult;
use invariants::{Invariants, NodeRun};
use journal::MemoryDisk;
use node::{PendingMessage, RunningNode, TopicRequest, open_log_copy};
use workload::key_of;

const NODES: usize = 3;
/// How long a message may take to be acknowledged before it is given up.
const PATIENCE_US: u64 = 8 * SECOND;
/// A broker that is down is noticed after so long.
const BROKER_SESSION_US: u64 = 3 * SECOND;
/// Between two attempts to hand the brokers what they have not acknowledged.
const RESEND_US: u64 = SECOND / 5;
/// Messages handed to a node at once.
const FETCH_MAX: usize = 200;
/// Within this time after the faults stopped everything must be at rest. Most of it is for the
/// brokers' clock, which may have run ahead by as much. Until real time has caught up, stamps do
/// not advance and no node's session ends.
const REST_US: u64 = 1_200 * SECOND;

#[derive(Clone, Debug)]
enum Event {
    Turn(usize, u32),
    Mail(usize, u32),
    Record(usize, u32),
    Produce(usize, u32),
    Fetch(usize, u32),
    End(usize, u32, u64),
    Replicate(usize),
    Elect,
    Arrive(usize, Request),
    Reply(Request, Option<Outcome>),
    Again(Request),
    Receive(usize, u32, Box<Notice>),
    Attempted(usize, u32, Box<Notice>, AttemptResult),
    NewTransfer,
    Settlement,
    Fault,
    Start(usize),
    Leave(usize),
    Uncut(usize),
    BrokerStarts(usize),
    CheckRest,
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterReport {
    /// The run.
    pub seed: u64,
    /// Of all events, in order.
    pub trace: u64,
    /// Of the state at the end.
    pub state: Digest,
    /// The failed check, and its source location.
    pub failure: Option<(String, String)>,
    /// How long it was.
    pub virtual_us: u64,
    /// Counts of events.
    pub counts: ClusterCounts,
}

/// Counts of events in a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the documentation")]
pub struct ClusterCounts {
    pub transfers: u64,
    pub records: u64,
    pub messages: u64,
    pub kills: u64,
    pub lost_copies: u64,
    pub leaves: u64,
    pub pauses: u64,
    pub cuts: u64,
    pub brokers_down: u64,
    pub jumps: u64,
    pub given_up: u64,
    pub cut_off: u64,
    pub taken_twice: u64,
    pub stops: u64,
    pub takes: u64,
    pub repeats: u64,
    pub same_states: u64,
    pub settlement: SettlementCounts,
}

impl fmt::Display for ClusterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, trace, state, virtual_us, counts, .. } = self;
        write!(
            f,
            "seed {seed}: {} s, trace {trace:016x}, state {}, {counts:?}",
            virtual_us / SECOND,
            &state.to_string()[..16]
        )
    }
}

/// Makes the run of a seed over three nodes and reports on it.
#[must_use]
pub fn run_cluster(seed: u64, transfers: u32, verbose: bool) -> ClusterReport {
    crate::watch_panics();
    let mut simulation = ClusterSimulation::new(seed, transfers, verbose);
    FAILED_AT.set(Some(String::new()));
    let failure = catch_unwind(AssertUnwindSafe(|| simulation.run())).err();
    let place = FAILED_AT.take().unwrap_or_default();
    let failure = failure.map(|panic| (panic_message(&*panic), place));
    simulation.counts.cut_off = simulation.brokers.cut_off;
    simulation.counts.takes = simulation.invariants.takes();
    simulation.counts.repeats = simulation.invariants.repeats();
    simulation.counts.messages = simulation.brokers.committed() as u64;
    ClusterReport {
        seed,
        trace: simulation.trace,
        state: simulation.state,
        failure,
        virtual_us: simulation.now,
        counts: simulation.counts,
    }
}

/// A machine with a node on it, or none just now.
struct Machine {
    disk: MemoryDisk,
    up: Option<RunningNode>,
    epochs: u32,
    clock: SimClock,
    /// How much its wall clock is wrong.
    skew_us: i64,
    /// All threads of the node are paused until then.
    paused_until: u64,
    is_cut: bool,
    is_leaving: bool,
    /// The node was asked to leave.
    leave_requested: bool,
    /// The next turn is already due by then.
    turn_at: u64,
    mail_at: u64,
    /// When the last request on its connection arrives at the brokers.
    sent_until: u64,
}

struct ClusterSimulation {
    now: u64,
    queue: Queue<Event>,
    random: Random,
    parameters: Parameters,
    actors: Actors,
    plans: Vec<TransferPlan>,
    changes: Vec<Change>,
    settlement: SettlementWorkload,
    has_begun: bool,
    funded: bool,
    answered: u32,
    waiting: BTreeSet<(u8, u32, u32)>,
    payees_asked: BTreeSet<u32>,
    brokers: Brokers,
    machines: Vec<Machine>,
    invariants: Invariants,
    counts: ClusterCounts,
    transfers: u32,
    calm_since: Option<u64>,
    jumped_at: u64,
    trace: u64,
    state: Digest,
    seed: u64,
    is_over: bool,
    verbose: bool,
}

impl ClusterSimulation {
    fn new(seed: u64, transfers: u32, verbose: bool) -> Self {
        let mut random = Random::new(mix(seed ^ 0x6b61_666b_6120));
        let mut parameters = Parameters::draw(&mut random, transfers);
        parameters.interval_us = random.pick(&[50_000, 200_000, 600_000]);
        parameters.network_us = random.pick(&[(100, 1_000), (200, 5_000), (300, 40_000)]);
        parameters.lifetime_ms = random.pick(&[(2_000, 8_000), (5_000, 20_000)]);
        let mut actors = Actors::new(random.next(), &parameters);
        let changes = OperatorWorkload::new(&actors).changes().to_vec();
        let traffic_us = parameters.interval_us * u64::from(transfers);
        let settlement = SettlementWorkload::new(seed, workload::STREAM, (700, traffic_us));
        actors.has_fees = settlement.arrivals.is_active();
        let machine = |number: usize| Machine {
            disk: MemoryDisk::new(seed ^ number as u64),
            up: None,
            epochs: 0,
            clock: SimClock::default(),
            skew_us: 0,
            paused_until: 0,
            is_cut: false,
            is_leaving: false,
            leave_requested: false,
            turn_at: u64::MAX,
            mail_at: u64::MAX,
            sent_until: 0,
        };
        let machines = (0..NODES).map(machine).collect();
        Self {
            now: 0,
            queue: Queue::default(),
            random,
            parameters,
            actors,
            plans: Vec::new(),
            changes,
            settlement,
            has_begun: false,
            funded: false,
            answered: 0,
            waiting: BTreeSet::new(),
            payees_asked: BTreeSet::new(),
            brokers: Brokers::new(),
            machines,
            invariants: Invariants::default(),
            counts: ClusterCounts::default(),
            transfers,
            calm_since: None,
            jumped_at: 0,
            trace: seed,
            state: Digest::default(),
            seed,
            is_over: false,
            verbose,
        }
    }

    fn identity(&self) -> LogIdentity {
        LogIdentity(spread16(self.seed ^ 2))
    }

    fn after(&mut self, wait: u64, event: Event) {
        self.queue.add(self.now + wait, event);
    }

    fn net(&mut self) -> u64 {
        let ends = self.parameters.network_us;
        self.random.between(ends)
    }

    fn run(&mut self) {
        self.create_log();
        (0..NODES).for_each(|at| self.after(at as u64 * 1_000, Event::Start(at)));
        self.after(2 * SECOND, Event::Fault);
        self.run_operator_step();
        while !self.is_over {
            let (now, event) = self.queue.pop().expect("a run ends with a check");
            self.now = now;
            for Machine { clock, skew_us, .. } in &self.machines {
                clock.set(ClockReading { wall: wall(now, *skew_us), monotonic_us: now + 1 });
            }
            if self.verbose {
                println!("{now:>12} {event:?}");
            }
            self.handle(event);
        }
    }

    /// The log begins.
    fn create_log(&mut self) {
        let hub = FspName::new("Hub").expect("a short name");
        let genesis = Genesis { seed: spread16(self.seed ^ 1), hub };
        let founding =
            GenesisMessage { identity: self.identity(), genesis, node: 1, wall: Stamp(0) };
        let bytes = founding.bundle("founder");
        self.brokers.append(0, (u64::MAX, 0), &bytes, Duplicates::No);
        (0..BROKERS).for_each(|broker| _ = self.brokers.replicate(broker));
    }

    fn handle(&mut self, event: Event) {
        if let Some((at, epoch)) = node_of(&event) {
            let machine = &self.machines[at];
            let is_gone = machine.up.as_ref().is_none_or(|up| up.epoch.1 != epoch);
            if is_gone {
                return;
            }
            if self.now < machine.paused_until && !matches!(event, Event::Receive(..)) {
                let wait = machine.paused_until - self.now;
                return self.after(wait, event);
            }
        }
        match event {
            // Another one was due before: this one is not wanted any more.
            Event::Turn(at, _) if self.now < self.machines[at].turn_at => {}
            Event::Mail(at, _) if self.now < self.machines[at].mail_at => {}
            Event::Turn(at, _) => self.turn(at),
            Event::Mail(at, _) => self.mail(at),
            Event::Record(at, _) => self.run_io(at, |outbox, host| outbox.record_when_idle(host)),
            Event::Produce(at, _) => self.produce(at),
            Event::Fetch(at, _) => self.fetch(at),
            Event::End(at, _, number) => self.answer_end(at, number),
            Event::Replicate(broker) => self.replicate(broker),
            Event::Elect => self.elect(),
            Event::Arrive(at, request) => self.arrive(at, request),
            Event::Reply(request, outcome) => self.receive_answer(request, outcome),
            Event::Again(request) => {
                if self.waiting.contains(&key_of(request)) {
                    self.send(request);
                }
            }
            Event::Receive(at, epoch, notice) => self.receive((at, epoch), notice),
            Event::Attempted(at, _, notice, result) => {
                if !matches!(result, AttemptResult::Status(200..500)) {
                    self.invariants.failed(&notice);
                }
                self.run_io(at, |outbox, host| {
                    outbox.attempted(notice.id, result, host);
                    outbox.start_due_attempts(host);
                });
            }
            Event::NewTransfer => self.new_transfer(),
            Event::Settlement => self.settle(),
            Event::Fault => self.fault(),
            Event::Start(at) => self.start(at),
            Event::Leave(at) => self.leave(at),
            Event::Uncut(at) => {
                self.machines[at].is_cut = false;
                self.fetch_soon(at);
                self.produce_soon(at);
            }
            Event::BrokerStarts(broker) => self.broker_starts(broker),
            Event::CheckRest => self.check_rest(),
        }
    }

    fn up(&mut self, at: usize) -> &mut RunningNode {
        self.machines[at].up.as_mut().expect("events of the dead are dropped")
    }

    fn epoch(&self, at: usize) -> u32 {
        self.machines[at].epochs
    }

    fn start(&mut self, at: usize) {
        if self.machines[at].up.is_some() {
            return;
        }
        let identity = self.identity();
        let seed = self.random.next();
        let topic = self.brokers.all();
        let machine = &mut self.machines[at];
        let copy = open_log_copy(&machine.disk, identity);
        let copy = copy.unwrap_or_else(|| {
            // The end of a copy may be damaged: it is begun with an empty directory.
            self.counts.lost_copies += 1;
            machine.disk = MemoryDisk::new(seed);
            open_log_copy(&machine.disk, identity).expect("an empty disk takes a log")
        });
        machine.epochs += 1;
        let epoch = (at, machine.epochs);
        let about = (machine.clock.clone(), self.parameters.policy.clone(), seed);
        machine.up = Some(RunningNode::start(epoch, copy, &topic, about));
        (machine.is_leaving, machine.leave_requested, machine.paused_until) = (false, false, 0);
        (machine.turn_at, machine.mail_at) = (u64::MAX, u64::MAX);
        self.turn_soon(at, 1);
        self.fetch_soon(at);
    }

    fn turn_soon(&mut self, at: usize, wait: u64) {
        let (due, epoch) = (self.now + wait, self.epoch(at));
        if due < self.machines[at].turn_at {
            self.machines[at].turn_at = due;
            self.after(wait, Event::Turn(at, epoch));
        }
    }

    fn mail_soon(&mut self, at: usize, wait: u64) {
        let (due, epoch) = (self.now + wait, self.epoch(at));
        if due < self.machines[at].mail_at {
            self.machines[at].mail_at = due;
            self.after(wait, Event::Mail(at, epoch));
        }
    }

    fn fetch_soon(&mut self, at: usize) {
        let (wait, epoch) = (self.net(), self.epoch(at));
        self.after(wait, Event::Fetch(at, epoch));
    }

    fn produce_soon(&mut self, at: usize) {
        let (due, epoch) = (self.now + self.net(), self.epoch(at));
        // One connection: requests arrive in the order in which they were sent.
        let due = due.max(self.machines[at].sent_until + 1);
        self.machines[at].sent_until = due;
        self.after(due - self.now, Event::Produce(at, epoch));
    }

    fn turn(&mut self, at: usize) {
        self.machines[at].turn_at = u64::MAX;
        let now = self.now;
        let up = self.up(at);
        let turn = up.node.turn(Some(Duration::ZERO), &mut |_, _, _| {});
        let sent_requests = up.sent_requests();
        for one in sent_requests {
            match one {
                TopicRequest::Send { tag, bytes } => {
                    let up = self.up(at);
                    let number = up.sent;
                    up.sent += 1;
                    up.unsent.push_back(PendingMessage { number, tag, bytes, since: now });
                    self.produce_soon(at);
                }
                TopicRequest::AskEnd(number) => {
                    let (wait, epoch) = (self.net(), self.epoch(at));
                    self.after(wait, Event::End(at, epoch, number));
                }
            }
        }
        let tail = self.up(at).node.replica().sequencer().log().tail();
        self.invariants.applied(at, tail.end, tail.chain);
        let head = tail.chain.0.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        self.trace = mix(self.trace ^ self.now ^ head);
        if matches!(turn, Ok(Turn::Ended) | Err(_)) {
            return self.ended(at);
        }
        let patience = self.up(at).node.patience().unwrap_or_default();
        self.turn_soon(at, (patience.as_micros() as u64).max(50));
        let wait = self.random.below(200);
        self.mail_soon(at, wait);
    }

    /// The sequencer's thread has ended: in order, or because it must not continue.
    fn ended(&mut self, at: usize) {
        let reason = self.up(at).node.handle().status().stopped;
        if let Some(reason) = reason {
            assert!(reason.contains("could not join"), "node {at} gave up: {reason}");
            self.counts.stops += 1;
        }
        self.machines[at].disk = self.machines[at].disk.kill();
        self.machines[at].up = None;
        let wait = self.random.between((SECOND / 10, 3 * SECOND));
        self.after(wait, Event::Start(at));
    }

    fn mail(&mut self, at: usize) {
        self.machines[at].mail_at = u64::MAX;
        self.run_io(at, |outbox, host| outbox.start_due_attempts(host));
        self.continue_leaving(at);
    }

    /// The I/O thread of a node works; what follows from it is on its way.
    fn run_io(
        &mut self,
        at: usize,
        work: impl FnOnce(&mut Outbox<Request, OutgoingNotice>, &mut Host<'_>),
    ) {
        let Machine { up, clock, .. } = &mut self.machines[at];
        let up = up.as_mut().expect("events of the dead are dropped");
        let (now, epoch) = (clock.now(), up.epoch);
        for act in up.work(now, &mut self.invariants, work) {
            self.carry_out((at, epoch), now.monotonic_us, act);
        }
    }

    fn carry_out(&mut self, (at, epoch): (usize, NodeRun), now_us: u64, act: IoAction) {
        match act {
            IoAction::Reply(request, _, outcome) => {
                if let Some(outcome) = outcome {
                    self.invariants.answered(request, outcome);
                }
                let wait = self.net();
                self.after(wait, Event::Reply(request, outcome));
            }
            IoAction::NoticeOwed(notice) => self.invariants.is_owed(&notice, now_us),
            IoAction::Attempt(attempt) => {
                let parcel = attempt.message.expect("a lane keeps its messages");
                self.invariants.attempt(&parcel.notice, epoch, now_us);
                let wait = self.net();
                self.after(wait, Event::Receive(at, epoch.1, Box::new(parcel.notice)));
            }
            IoAction::Record => {
                let wait = RECORD_PATIENCE.as_micros() as u64;
                self.after(wait, Event::Record(at, epoch.1));
            }
            IoAction::Retry(due) => self.mail_soon(at, due.0.saturating_sub(self.now).max(1_000)),
            IoAction::Submit(_) => self.turn_soon(at, 1),
            // Whatever the thread does, it flushes in the end.
            IoAction::Flush | IoAction::DeliveryFinished(_) => {}
        }
    }

    /// The node was asked to leave. No new callback begins. Once those in flight have ended and
    /// their records are submitted, the node itself leaves.
    fn leave(&mut self, at: usize) {
        let now_us = self.now;
        let machine = &mut self.machines[at];
        if machine.up.is_none() || machine.is_leaving || now_us < machine.paused_until {
            return;
        }
        machine.is_leaving = true;
        self.counts.leaves += 1;
        self.up(at).outbox_driver.outbox.stop();
        self.mail_soon(at, 1);
    }

    fn continue_leaving(&mut self, at: usize) {
        let Machine { is_leaving, leave_requested, .. } = self.machines[at];
        if !is_leaving || leave_requested || 0 < self.up(at).outbox_driver.outbox.attempts() {
            return;
        }
        self.machines[at].leave_requested = true;
        self.run_io(at, |outbox, host| outbox.record_now(host));
        self.up(at).node.close();
        self.turn_soon(at, 1);
    }

    fn produce(&mut self, at: usize) {
        if self.machines[at].is_cut {
            return self.produce_later(at);
        }
        let Machine { up, epochs, .. } = &mut self.machines[at];
        let up = up.as_mut().expect("events of the dead are dropped");
        let producer = (at as u64) << 32 | u64::from(*epochs);
        let mut has_taken = false;
        for unsent in &up.unsent {
            let again = match self.random.chance(3) {
                true => Duplicates::Yes,
                false => Duplicates::No,
            };
            let source = (producer, unsent.number);
            let is_taken = self.brokers.append(self.now, source, &unsent.bytes, again);
            has_taken |= is_taken;
            self.counts.taken_twice += u64::from(is_taken && again == Duplicates::Yes);
            if !is_taken {
                break;
            }
        }
        if has_taken {
            self.replicate_soon();
        }
        self.produce_later(at);
    }

    /// Again, as long as something is not acknowledged; or it is given up.
    fn produce_later(&mut self, at: usize) {
        let Machine { up, epochs, .. } = &mut self.machines[at];
        let up = up.as_mut().expect("events of the dead are dropped");
        let producer = (at as u64) << 32 | u64::from(*epochs);
        let (epoch, now) = (*epochs, self.now);
        let brokers = &self.brokers;
        up.unsent.retain(|unsent| !brokers.has((producer, unsent.number)));
        let mut lost = Vec::new();
        while up.unsent.front().is_some_and(|unsent| unsent.since + PATIENCE_US < now) {
            lost.extend(up.unsent.pop_front());
        }
        let is_empty = up.unsent.is_empty();
        for unsent in &lost {
            let reason = "no acknowledgement from the brokers".to_owned();
            up.arrivals.push(Arrival::Lost { tag: unsent.tag, reason });
        }
        self.counts.given_up += lost.len() as u64;
        if !lost.is_empty() {
            self.turn_soon(at, 1);
        }
        if !is_empty {
            self.after(RESEND_US, Event::Produce(at, epoch));
        }
    }

    fn replicate_soon(&mut self) {
        for broker in 0..BROKERS {
            let wait = self.net();
            self.after(wait, Event::Replicate(broker));
        }
    }

    fn replicate(&mut self, broker: usize) {
        if self.brokers.replicate(broker) {
            for at in 0..NODES {
                if self.machines[at].up.is_some() {
                    self.fetch_soon(at);
                }
            }
        }
    }

    fn fetch(&mut self, at: usize) {
        let Machine { up, is_cut, .. } = &mut self.machines[at];
        let up = up.as_mut().expect("events of the dead are dropped");
        if *is_cut {
            return;
        }
        let mut count = 0;
        while count < FETCH_MAX
            && let Some(entry) = self.brokers.read(up.fetched)
        {
            let (offset, bytes) = (up.fetched as i64, entry.bytes.clone());
            up.arrivals.push(Arrival::Message { offset, at: entry.at, bytes });
            up.fetched += 1;
            count += 1;
        }
        if 0 < count {
            let wait = 1 + self.random.below(100);
            self.turn_soon(at, wait);
        }
        if count == FETCH_MAX {
            self.fetch_soon(at);
        }
    }

    fn answer_end(&mut self, at: usize, number: u64) {
        let is_known = !self.machines[at].is_cut && self.brokers.leader().is_some();
        let offset = is_known.then_some(self.brokers.committed() as i64);
        self.up(at).arrivals.push(Arrival::End { number, offset });
        let wait = if offset.is_some() { 1 } else { SECOND / 10 };
        self.turn_soon(at, wait);
    }

    fn elect(&mut self) {
        if self.brokers.elect() {
            self.replicate_soon();
        }
    }

    fn broker_starts(&mut self, broker: usize) {
        self.brokers.start(broker);
        if self.brokers.leader().is_none() {
            self.elect();
        }
        self.replicate_soon();
    }

    fn check_rest(&mut self) {
        match self.calm_since {
            None => self.stop_faults_and_wait(),
            Some(_) if self.is_at_rest() => return self.finish(),
            Some(since) => assert!(
                self.now < since + REST_US,
                "nothing is at rest {} s after the faults stopped: {}",
                REST_US / SECOND,
                self.describe_unrest()
            ),
        }
        self.after(SECOND / 2, Event::CheckRest);
    }

    fn stop_faults_and_wait(&mut self) {
        self.calm_since = Some(self.now);
        for broker in 0..BROKERS {
            if !self.brokers.is_up(broker) {
                self.broker_starts(broker);
            }
        }
        self.replicate_soon();
        for at in 0..NODES {
            self.machines[at].paused_until = self.now;
            self.machines[at].skew_us = 0;
            self.after(0, Event::Uncut(at));
            if self.machines[at].up.is_none() {
                self.after(0, Event::Start(at));
            }
        }
    }

    fn is_at_rest(&self) -> bool {
        let is_all_made = self.plans.len() as u32 == self.transfers;
        let mut hashes = BTreeSet::new();
        for machine in &self.machines {
            let Some(up) = &machine.up else { return false };
            let replica = up.node.replica();
            let state = replica.sequencer().state();
            let is_quiet = state.reserved_transfer_count() == 0 && state.notices_owed_count() == 0;
            let all_there = replica.members().iter().count() == NODES;
            if !is_quiet || !all_there || !up.is_idle() || !up.node.is_live() {
                return false;
            }
            hashes.insert((state.log_index(), state.hash().0));
        }
        is_all_made && self.waiting.is_empty() && hashes.len() == 1
    }

    fn describe_unrest(&self) -> String {
        let each = self.machines.iter().map(|machine| match &machine.up {
            None => "down".to_owned(),
            Some(up) => {
                let replica = up.node.replica();
                let state = replica.sequencer().state();
                format!(
                    "at {}, there {}, members {}, {} in flight, {} owed, idle {}",
                    state.log_index().0,
                    up.node.is_live(),
                    replica.members().iter().count(),
                    state.reserved_transfer_count(),
                    state.notices_owed_count(),
                    up.is_idle()
                )
            }
        });
        let each: Vec<_> = each.collect();
        let waiting: Vec<_> = self.waiting.iter().take(5).collect();
        format!("{each:?}, waiting {waiting:?}, committed {}", self.brokers.committed())
    }

    fn finish(&mut self) {
        self.invariants.check_repeats(self.parameters.policy.window);
        let identity = self.identity();
        let mut hashes = BTreeSet::new();
        for machine in &mut self.machines {
            let up = machine.up.take().expect("a node at rest is up");
            let hash = up.node.replica().sequencer().state().hash();
            self.counts.same_states += u64::from(up.node.replica().agreed().is_some());
            drop(up);
            let mut copy =
                open_log_copy(&machine.disk.kill(), identity).expect("a sound copy opens");
            let (alone, settlement) = self.invariants.check_log(&mut copy);
            assert_eq!(alone, hash, "the log alone gives another state");
            self.counts.settlement = settlement;
            self.counts.records = copy.tail().end.0;
            hashes.insert(hash.0);
            self.state = hash;
        }
        assert_eq!(hashes.len(), 1, "nodes at rest have one state");
        self.is_over = true;
    }
}

/// The epoch that an event is for, if it is for one.
fn node_of(event: &Event) -> Option<(usize, u32)> {
    match event {
        Event::Turn(at, epoch)
        | Event::Mail(at, epoch)
        | Event::Record(at, epoch)
        | Event::Produce(at, epoch)
        | Event::Fetch(at, epoch)
        | Event::End(at, epoch, _)
        | Event::Attempted(at, epoch, ..) => Some((*at, *epoch)),
        _ => None,
    }
}
