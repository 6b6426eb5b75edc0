//! A node of several, turn by turn: when its bundles leave.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::{FileLog, MemoryDisk, Options};
use ledger::{Command, FspName, Genesis, Stamp};
use node::latency_trace::{LatencyTrace, TracedLog};
use node::stall::StallDetector;
use node::{
    Arrivals, Directory, InboxLimits, Mailbox, ReplicatedNode, ReplicatedNodeOptions, ReplyTo,
    Submission, SubmissionContext, Turn,
};
use ports::{Arrival, Clock, ClockReading, Topic};
use record::bundle::Bundle;
use record::frame::LogIdentity;
use sequencer::{Durability, GenesisMessage, NodeName, Quarantine, Replica, Sequencer};

const IDENTITY: LogIdentity = LogIdentity([7; 16]);
const SECOND: u64 = 1_000_000;

/// A clock that stands until it is set.
#[derive(Clone)]
struct Hand(Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> ClockReading {
        let now = self.0.load(Ordering::Relaxed);
        ClockReading { monotonic_us: now, wall: Stamp(now) }
    }
}

/// What was sent and has not come back.
#[derive(Clone, Default)]
struct Outward(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Topic for Outward {
    fn send(&mut self, message: &[u8], _tag: u64) -> Result<(), String> {
        self.0.lock().expect("nobody panics with it").push_back(message.to_vec());
        Ok(())
    }

    fn ask_end(&mut self, _number: u64) {}
}

struct World {
    driven: ReplicatedNode<FileLog<MemoryDisk>, Hand, (), Outward>,
    arrivals: Arrivals<()>,
    clock: Hand,
    outward: Outward,
    /// Bundles that were counted already.
    seen: usize,
    offset: i64,
}

impl World {
    /// A node that is there, and whom nobody waits for.
    fn new() -> Self {
        let (clock, outward) = (Hand(Arc::new(AtomicU64::new(100 * SECOND))), Outward::default());
        let disk = MemoryDisk::new(1);
        let (log, _) = FileLog::open_or_create(disk, IDENTITY, Options::default())
            .expect("a log opens on a good disk");
        let log = TracedLog::new(log.into_copy(), Arc::new(LatencyTrace::new(1)));
        let sequencer = Sequencer::open(log, 1, clock.now(), &mut |_| ()).expect("it is empty");
        let name = NodeName { name: "a".into(), node: 1, instance: 1, ended: 0 };
        let replica =
            Replica::new(sequencer, name, Quarantine::default(), None).expect("it is empty");
        let hooks = ReplicatedNodeOptions {
            message: |_: &[u8]| None,
            begin: Box::new(|_| Ok(Vec::new())),
            note_life: Box::new(|_| Ok(())),
            say: |_| {},
        };
        let mut arrivals = None;
        let connect = |from| {
            arrivals = Some(from);
            Ok(outward.clone())
        };
        let of_io = (vec![Arc::new(Mailbox::new(|| {}))], InboxLimits::default());
        let beside = (clock.clone(), Directory::default());
        let driven =
            ReplicatedNode::new(replica, 0, beside, of_io, hooks, connect).expect("it begins");
        let arrivals = arrivals.expect("it was connected");
        let mut world = Self { driven, arrivals, clock, outward, seen: 0, offset: 0 };
        world.arrivals.push(Arrival::End { number: 0, offset: Some(1) });
        world.arrive(founding());
        while world.come_back() {}
        assert!(world.driven.is_live());
        world
    }

    fn turn(&mut self) {
        let turn = self.driven.turn(Some(Duration::ZERO), &mut |_, _, _| {});
        assert_eq!(turn.expect("it goes on"), Turn::Rested);
    }

    fn arrive(&mut self, bytes: Vec<u8>) {
        let (offset, at) = (self.offset, self.clock.now().wall);
        self.offset += 1;
        self.arrivals.push(Arrival::Message { offset, at, bytes });
        self.turn();
    }

    /// The first bundle under way comes back, if there is one.
    fn come_back(&mut self) -> bool {
        let first = self.outward.0.lock().expect("nobody panics with it").pop_front();
        let Some(bytes) = first else { return false };
        self.seen = self.seen.saturating_sub(1);
        self.arrive(bytes);
        true
    }

    /// So many records are handed over. Gives the sizes of the bundles that leave.
    fn submit(&mut self, count: usize) -> Vec<u32> {
        let one = || {
            let attached = SubmissionContext { ticket: ReplyTo::None, message: None };
            Submission::without_payload(Command::Tick, Durability::Synced, attached)
                .expect("the time is short")
        };
        let mut all: Vec<_> = std::iter::repeat_with(one).take(count).collect();
        self.driven.handle().submit(&mut all).expect("there is room");
        self.turn();
        self.left()
    }

    /// Asks a question; the answer comes there, or nothing ever will.
    fn ask(&self) -> Receiver<()> {
        let (answer, answers) = std::sync::mpsc::sync_channel(1);
        let question = move |_: &_| answer.send(()).expect("it is awaited");
        self.driven.handle().ask(question).expect("there is room");
        answers
    }

    /// Time passes. Gives the sizes of the bundles that leave.
    fn pass(&mut self, microseconds: u64) -> Vec<u32> {
        self.clock.0.fetch_add(microseconds, Ordering::Relaxed);
        self.turn();
        self.left()
    }

    fn left(&mut self) -> Vec<u32> {
        let under_way = self.outward.0.lock().expect("nobody panics with it");
        let size = |bytes: &Vec<u8>| Bundle::parse(bytes).expect("it is a bundle").count;
        let left = under_way.iter().skip(self.seen).map(size).collect();
        self.seen = under_way.len();
        left
    }
}

fn founding() -> Vec<u8> {
    let hub = FspName::new("Hub").expect("a name");
    let genesis = Genesis { seed: [1; 16], hub };
    GenesisMessage { identity: IDENTITY, genesis, node: 2, wall: Stamp(100 * SECOND) }.bundle("b")
}

#[test]
fn few_records_leave_at_once_while_fewer_than_two_bundles_are_under_way() {
    let mut world = World::new();
    assert_eq!(world.submit(1), [1]);
    assert_eq!(world.submit(7), [7]);
    assert_eq!(world.submit(3), [] as [u32; 0]);
    assert_eq!(world.submit(4), [] as [u32; 0]);
    assert!(world.come_back());
    assert_eq!(world.pass(0), [7]);
}

#[test]
fn behind_a_large_bundle_the_next_one_gathers_for_a_moment() {
    let mut world = World::new();
    assert_eq!(world.submit(8), [8]);
    assert_eq!(world.submit(2), [] as [u32; 0]);
    assert_eq!(world.driven.patience(), Some(Duration::from_millis(10)));
    assert_eq!(world.pass(4_000), [] as [u32; 0]);
    // Though it has come back: what costs is the number of bundles.
    assert!(world.come_back());
    assert_eq!(world.submit(3), [] as [u32; 0]);
    assert_eq!(world.driven.patience(), Some(Duration::from_millis(6)));
    assert_eq!(world.pass(5_999), [] as [u32; 0]);
    assert_eq!(world.pass(1), [5]);
    // That one was small: nobody waits behind it.
    assert_eq!(world.submit(1), [1]);
}

#[test]
fn nobody_is_left_behind_by_a_full_bundle() {
    let mut world = World::new();
    assert_eq!(world.submit(9_000), [8_192, 808]);
    assert_eq!(world.submit(1), [] as [u32; 0]);
}

#[test]
fn who_asks_hears_in_time_that_the_brokers_are_silent() {
    let mut world = World::new();
    let answers = world.ask();
    world.pass(0);
    world.pass(9_000_000);
    assert_eq!(answers.try_recv(), Err(TryRecvError::Empty), "the brokers have time");
    world.pass(1_000_001);
    assert_eq!(answers.try_recv(), Err(TryRecvError::Disconnected), "it is given back");
    // Who asks when the brokers have answered at last is answered.
    world.arrivals.push(Arrival::End { number: 1, offset: Some(1) });
    let answers = world.ask();
    world.pass(0);
    world.arrivals.push(Arrival::End { number: 2, offset: Some(1) });
    world.pass(0);
    assert_eq!(answers.try_recv(), Ok(()));
}

#[test]
fn a_node_that_hears_nothing_of_the_topic_says_so() {
    let mut world = World::new();
    let mut watch = StallDetector::new(Duration::from_secs(3));
    let mut look = |world: &World| {
        let now_us = world.clock.now().monotonic_us;
        let stuck = watch.look(now_us, &world.driven.handle().progress(), &[]);
        stuck.into_iter().map(|one| (one.stage, one.restart_helps)).collect::<Vec<_>>()
    };
    for _ in 0..40 {
        world.pass(200_000);
        while world.come_back() {}
        assert_eq!(look(&world), []);
    }
    let silent = (0..40).map(|_| {
        world.pass(200_000);
        look(&world)
    });
    let silent: Vec<_> = silent.collect();
    assert_eq!(silent[13], [], "it is patient");
    assert_eq!(silent[39], [("log".to_owned(), false)], "nothing came for eight seconds");
    while world.come_back() {}
    assert_eq!(look(&world), []);
}
