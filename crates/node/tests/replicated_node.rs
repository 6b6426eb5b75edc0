//! A node of a shared log, driven turn by turn: the times at which it sends bundles.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::{FileLog, LogOptions, MemoryDisk};
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

/// A clock that changes only when it is set.
#[derive(Clone)]
struct ManualClock(Arc<AtomicU64>);

impl Clock for ManualClock {
    fn now(&self) -> ClockReading {
        let now = self.0.load(Ordering::Relaxed);
        ClockReading { monotonic_us: now, wall: Stamp(now) }
    }
}

/// Sent messages that have not come back.
#[derive(Clone, Default)]
struct SentMessages(Arc<Mutex<VecDeque<Vec<u8>>>>);

impl Topic for SentMessages {
    fn send(&mut self, message: &[u8], _tag: u64) -> Result<(), String> {
        self.0.lock().expect("no thread panicked").push_back(message.to_vec());
        Ok(())
    }

    fn ask_end(&mut self, _number: u64) {}
}

struct TestNode {
    node: ReplicatedNode<FileLog<MemoryDisk>, ManualClock, (), SentMessages>,
    arrivals: Arrivals<()>,
    clock: ManualClock,
    sent: SentMessages,
    /// Bundles that were counted before.
    seen: usize,
    offset: i64,
}

impl TestNode {
    /// A live node for which no other node waits.
    fn new() -> Self {
        let (clock, sent) =
            (ManualClock(Arc::new(AtomicU64::new(100 * SECOND))), SentMessages::default());
        let disk = MemoryDisk::new(1);
        let (log, _) = FileLog::open_or_create(disk, IDENTITY, LogOptions::default())
            .expect("a log opens on a good disk");
        let log = TracedLog::new(log.into_copy(), Arc::new(LatencyTrace::new(1)));
        let sequencer = Sequencer::open(log, 1, clock.now(), &mut |_| ()).expect("it is empty");
        let name = NodeName { name: "a".into(), node: 1, instance: 1, ended: 0 };
        let replica =
            Replica::new(sequencer, name, Quarantine::default(), None).expect("it is empty");
        let options = ReplicatedNodeOptions {
            message: |_: &[u8]| None,
            first_commands: Box::new(|_| Ok(Vec::new())),
            save_epoch: Box::new(|_| Ok(())),
            log: |_| {},
        };
        let mut arrivals = None;
        let connect = |from| {
            arrivals = Some(from);
            Ok(sent.clone())
        };
        let of_io = (vec![Arc::new(Mailbox::new(|| {}))].into(), InboxLimits::default());
        let clock_and_directory = (clock.clone(), Directory::default());
        let node = ReplicatedNode::new(replica, 0, clock_and_directory, of_io, options, connect);
        let node = node.expect("it begins");
        let arrivals = arrivals.expect("it was connected");
        let mut test = Self { node, arrivals, clock, sent, seen: 0, offset: 0 };
        test.arrivals.push(Arrival::End { number: 0, offset: Some(1) });
        test.arrive(genesis());
        while test.return_bundle() {}
        assert!(test.node.is_live());
        test
    }

    fn turn(&mut self) {
        let turn = self.node.turn(Some(Duration::ZERO), &mut |_, _, _| {});
        assert_eq!(turn.expect("the node continues"), Turn::Idle);
    }

    fn arrive(&mut self, bytes: Vec<u8>) {
        let (offset, at) = (self.offset, self.clock.now().wall);
        self.offset += 1;
        self.arrivals.push(Arrival::Message { offset, at, bytes });
        self.turn();
    }

    /// Returns the first bundle in flight to the node, if there is one.
    fn return_bundle(&mut self) -> bool {
        let first = self.sent.0.lock().expect("no thread panicked").pop_front();
        let Some(bytes) = first else { return false };
        self.seen = self.seen.saturating_sub(1);
        self.arrive(bytes);
        true
    }

    /// Submits this number of records. Returns the sizes of the bundles that are sent.
    fn submit(&mut self, count: usize) -> Vec<u32> {
        let one = || {
            let attached = SubmissionContext { ticket: ReplyTo::None, message: None };
            Submission::without_payload(Command::Tick, Durability::Synced, attached)
                .expect("the time is short")
        };
        let mut all: Vec<_> = std::iter::repeat_with(one).take(count).collect();
        self.node.handle().submit(&mut all).expect("there is room");
        self.turn();
        self.new_bundles()
    }

    /// Submits a query. The receiver gets its answer, or is disconnected without one.
    fn query(&self) -> Receiver<()> {
        let (answer, answers) = std::sync::mpsc::sync_channel(1);
        let query = move |_: &_| answer.send(()).expect("it is awaited");
        self.node.handle().ask(query).expect("there is room");
        answers
    }

    /// Advances the clock. Returns the sizes of the bundles that are sent.
    fn pass(&mut self, microseconds: u64) -> Vec<u32> {
        self.clock.0.fetch_add(microseconds, Ordering::Relaxed);
        self.turn();
        self.new_bundles()
    }

    fn new_bundles(&mut self) -> Vec<u32> {
        let in_flight = self.sent.0.lock().expect("no thread panicked");
        let size = |bytes: &Vec<u8>| Bundle::parse(bytes).expect("it is a bundle").count;
        let new = in_flight.iter().skip(self.seen).map(size).collect();
        self.seen = in_flight.len();
        new
    }
}

fn genesis() -> Vec<u8> {
    let hub = FspName::new("Hub").expect("a name");
    let genesis = Genesis { seed: [1; 16], hub };
    GenesisMessage { identity: IDENTITY, genesis, node: 2, wall: Stamp(100 * SECOND) }.bundle("b")
}

#[test]
fn small_bundles_are_sent_at_once_while_fewer_than_two_are_in_flight() {
    let mut test = TestNode::new();
    assert_eq!(test.submit(1), [1]);
    assert_eq!(test.submit(7), [7]);
    assert_eq!(test.submit(3), [] as [u32; 0]);
    assert_eq!(test.submit(4), [] as [u32; 0]);
    assert!(test.return_bundle());
    assert_eq!(test.pass(0), [7]);
}

#[test]
fn after_a_large_bundle_the_next_one_collects() {
    let mut test = TestNode::new();
    assert_eq!(test.submit(8), [8]);
    assert_eq!(test.submit(2), [] as [u32; 0]);
    assert_eq!(test.node.patience(), Some(Duration::from_millis(10)));
    assert_eq!(test.pass(4_000), [] as [u32; 0]);
    // Although the bundle has come back: the cost is per bundle.
    assert!(test.return_bundle());
    assert_eq!(test.submit(3), [] as [u32; 0]);
    assert_eq!(test.node.patience(), Some(Duration::from_millis(6)));
    assert_eq!(test.pass(5_999), [] as [u32; 0]);
    assert_eq!(test.pass(1), [5]);
    // That bundle was small, so the next one does not wait.
    assert_eq!(test.submit(1), [1]);
}

#[test]
fn submissions_beyond_a_full_bundle_do_not_wait() {
    let mut test = TestNode::new();
    assert_eq!(test.submit(9_000), [8_192, 808]);
    assert_eq!(test.submit(1), [] as [u32; 0]);
}

#[test]
fn a_query_fails_in_time_if_the_brokers_do_not_answer() {
    let mut test = TestNode::new();
    let answers = test.query();
    test.pass(0);
    test.pass(9_000_000);
    assert_eq!(answers.try_recv(), Err(TryRecvError::Empty), "the time limit has not passed");
    test.pass(1_000_001);
    assert_eq!(answers.try_recv(), Err(TryRecvError::Disconnected), "the query is dropped");
    // Queries are answered once the brokers answer again.
    test.arrivals.push(Arrival::End { number: 1, offset: Some(1) });
    let answers = test.query();
    test.pass(0);
    test.arrivals.push(Arrival::End { number: 2, offset: Some(1) });
    test.pass(0);
    assert_eq!(answers.try_recv(), Ok(()));
}

#[test]
fn a_silent_topic_is_reported_as_a_stall() {
    let mut test = TestNode::new();
    let mut watch = StallDetector::new(Duration::from_secs(3));
    let mut look = |test: &TestNode| {
        let now_us = test.clock.now().monotonic_us;
        let stalls = watch.look(now_us, &test.node.handle().progress(), &[]);
        stalls.into_iter().map(|one| (one.stage, one.restart_helps)).collect::<Vec<_>>()
    };
    for _ in 0..40 {
        test.pass(200_000);
        while test.return_bundle() {}
        assert_eq!(look(&test), []);
    }
    let silent = (0..40).map(|_| {
        test.pass(200_000);
        look(&test)
    });
    let silent: Vec<_> = silent.collect();
    assert_eq!(silent[13], [], "the patience has not passed");
    assert_eq!(silent[39], [("log".to_owned(), false)], "no message for eight seconds");
    while test.return_bundle() {}
    assert_eq!(look(&test), []);
}
