//! A topic on real brokers: what every topic promises, and what can be wrong with one.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use brokers::Cluster;
use journal::{CopyLog, RealDisk};
use kafka::{Address, Founding, OpenError, Opened, Options, Stream, open};
use ledger::{Command, FspName, Genesis, Position, Stamp};
use ports::{Arrival, Log, Now, Topic};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use record::bundle::Bundle;
use record::frame::LogIdentity;
use sequencer::{Delivered, Durability, Name, Quarantine, Replica, Sequencer, Submission};
use tempfile::TempDir;

/// More than any test here sends.
const ARRIVALS_MAX: usize = 4_096;
/// Longest wait for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(brokers: u32, home: &TempDir) -> Cluster {
    let options = brokers::Options::new(brokers, home.path().join("brokers"));
    Cluster::start(options, &mut |line| println!("{line}")).unwrap()
}

fn address(cluster: &Cluster, topic: &str) -> Address {
    Address { brokers: cluster.bootstrap().to_owned(), topic: topic.to_owned() }
}

fn options(node: &str, patience: Duration) -> Options {
    Options { node: node.to_owned(), patience, copy: journal::Options::default() }
}

fn founding(node: u32) -> Founding {
    let hub = FspName::new("Hub").unwrap();
    let genesis = Genesis { seed: [1; 16], hub };
    Founding { identity: LogIdentity([node as u8; 16]), genesis, node, wall: Stamp(1) }
}

fn try_open(
    address: &Address,
    copy: &TempDir,
    (node, patience): (u32, Duration),
) -> Result<Opened<RealDisk>, OpenError> {
    let disk = RealDisk::open(copy.path()).unwrap();
    open(address, disk, &options(&format!("node-{node}"), patience), &founding(node))
}

/// A node without a switch around it.
struct Node {
    replica: Replica<CopyLog<RealDisk>>,
    stream: Stream,
    arrivals: Receiver<Arrival>,
    /// The offset of the next message.
    next: i64,
    behind: u64,
}

impl Node {
    fn open(address: &Address, copy: &TempDir, node: u32) -> Self {
        let opened = try_open(address, copy, (node, PATIENCE)).unwrap();
        let Opened { copy, next, last, report } = opened;
        let sequencer = Sequencer::open(copy, node, Now::default(), &mut |_| ()).unwrap();
        let name = Name { name: format!("node-{node}"), node, instance: 1, ended: 0 };
        let replica = Replica::new(sequencer, name, Quarantine::default(), last).unwrap();
        let (sink, arrivals) = sync_channel(ARRIVALS_MAX);
        let options = options("any", PATIENCE);
        let sink = move |arrival| sink.send(arrival).is_ok();
        let stream = Stream::start(address, &options, next, sink).unwrap();
        Self { replica, stream, arrivals, next, behind: report.behind }
    }

    fn hear(&self) -> Arrival {
        self.arrivals.recv_timeout(PATIENCE).unwrap()
    }

    /// Applies everything up to where the topic ends now. How many messages were no part of the
    /// log.
    fn catch_up(&mut self) -> usize {
        let (mut until, mut passed) = (None, 0);
        self.stream.ask_end(1);
        while until.is_none_or(|until| self.next < until) {
            match self.hear() {
                Arrival::End { number: 1, offset: Some(offset) } => until = Some(offset),
                // While a broker is dead nobody may know it: it is asked again.
                Arrival::End { number: 1, offset: None } => self.stream.ask_end(1),
                Arrival::Message { offset, at, bytes } => {
                    assert_eq!(offset, self.next, "no message is left out");
                    self.next = offset + 1;
                    let framed = Bundle::parse(&bytes).is_ok_and(|bundle| {
                        let delivered = self.replica.deliver(&bundle, at).unwrap();
                        matches!(delivered, Delivered::Framed { .. })
                    });
                    passed += usize::from(!framed);
                }
                other => panic!("{other:?}"),
            }
        }
        passed
    }

    fn begin(&mut self) {
        self.catch_up();
        self.replica.begin_life();
    }

    fn propose(&mut self, count: usize) {
        let mut waiting: VecDeque<Submission<()>> = (0..count)
            .map(|_| Submission::without_payload(Command::Tick, Durability::Synced, ()))
            .collect::<Result<_, _>>()
            .unwrap();
        let mut bytes = Vec::new();
        let tag = self.replica.propose(&mut waiting, &mut Vec::new(), Stamp(1), &mut bytes);
        self.stream.send(&bytes, tag).unwrap();
    }

    fn end(&self) -> (Position, ledger::Digest) {
        let tail = self.replica.sequencer().log().tail();
        (tail.end, tail.chain)
    }
}

#[test]
fn one_broker() {
    let home = TempDir::new().unwrap();
    let cluster = start(1, &home);
    nodes_make_one_log(&cluster);
    a_copy_of_another_log_is_refused(&cluster);
    an_unsafe_topic_is_refused(&cluster);
    no_brokers(cluster);
}

/// Two nodes begin a topic, and write to it with somebody else's messages between; both have the
/// same log, and so has a third one, that begins later, and the first one with what it had.
fn nodes_make_one_log(cluster: &Cluster) {
    let address = address(cluster, "shared");
    let copies = [(); 3].map(|()| TempDir::new().unwrap());
    let mut first = Node::open(&address, &copies[0], 1);
    let mut second = Node::open(&address, &copies[1], 2);
    first.begin();
    second.begin();
    for round in 0..20 {
        first.propose(1 + round % 3);
        second.propose(1);
        if round == 10 {
            produce(&address, b"hello");
        }
    }
    drain(&mut [&mut first, &mut second], 1 + 20 + 20 + 1);
    let (end, _) = first.end();
    assert_eq!((end, first.end()), (Position(1 + 39 + 20), second.end()));
    drop(first);

    second.propose(5);
    drain(&mut [&mut second], 1 + 20 + 20 + 1 + 1);
    let mut again = Node::open(&address, &copies[0], 1);
    assert_eq!(again.behind, 1);
    again.begin();
    assert_eq!(again.end(), second.end());
    let mut third = Node::open(&address, &copies[2], 3);
    assert_eq!(third.catch_up(), 1, "somebody else's message");
    assert_eq!(third.end(), second.end());
}

/// Has the nodes take all that was sent, which makes so many messages.
fn drain(nodes: &mut [&mut Node], messages: i64) {
    let deadline = Instant::now() + PATIENCE;
    for node in nodes {
        while node.next < messages {
            assert!(Instant::now() < deadline, "{} of {messages} came", node.next);
            node.catch_up();
        }
    }
}

fn a_copy_of_another_log_is_refused(cluster: &Cluster) {
    let (one, other) = (address(cluster, "one"), address(cluster, "other"));
    let copy = TempDir::new().unwrap();
    let mut node = Node::open(&one, &copy, 1);
    node.begin();
    drop(node);
    let away = TempDir::new().unwrap();
    drop(Node::open(&other, &away, 2));
    let refused = try_open(&other, &copy, (1, PATIENCE)).unwrap_err();
    assert!(matches!(refused, OpenError::Another { .. }), "{refused}");
}

fn produce(address: &Address, bytes: &[u8]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &address.brokers).create().unwrap();
    producer.send(BaseRecord::<(), _, ()>::to(&address.topic).payload(bytes)).unwrap();
    producer.flush(PATIENCE).unwrap();
}

fn an_unsafe_topic_is_refused(cluster: &Cluster) {
    let address = address(cluster, "unsafe");
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &address.brokers).create().unwrap();
    let topic = NewTopic::new("unsafe", 1, TopicReplication::Fixed(1));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options_of_question = AdminOptions::new();
    let made = runtime.block_on(admin.create_topics([&topic], &options_of_question)).unwrap();
    assert!(made[0].is_ok(), "{made:?}");
    let copy = TempDir::new().unwrap();
    let refused = wait_for(|| match try_open(&address, &copy, (1, PATIENCE)) {
        Err(OpenError::Brokers(_)) => None,
        other => Some(other.unwrap_err().to_string()),
    });
    for part in [
        "retention.ms is 604800000 and must be -1",
        "message.timestamp.type is CreateTime and must be LogAppendTime",
        "max.message.bytes is 1048588 and must be 16778240",
        "kafka-configs.sh",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}

/// Without brokers a message is given up in the time it was given, and so is a start.
fn no_brokers(mut cluster: Cluster) {
    let address = address(&cluster, "gone");
    let copy = TempDir::new().unwrap();
    let short = Duration::from_secs(2);
    drop(Node::open(&address, &copy, 1));
    let (sink, arrivals) = sync_channel(ARRIVALS_MAX);
    let sink = move |arrival| sink.send(arrival).is_ok();
    let mut stream = Stream::start(&address, &options("a", short), 0, sink).unwrap();
    assert!(matches!(arrivals.recv_timeout(PATIENCE), Ok(Arrival::Message { offset: 0, .. })));
    cluster.kill(1);
    stream.send(b"a message", 7).unwrap();
    let since = Instant::now();
    match arrivals.recv_timeout(PATIENCE).unwrap() {
        Arrival::Lost { tag: 7, reason } => {
            assert!(reason.contains("the brokers acknowledged nothing"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    stream.ask_end(3);
    let end = arrivals.recv_timeout(PATIENCE).unwrap();
    assert_eq!(end, Arrival::End { number: 3, offset: None });
    drop(stream);
    let refused = try_open(&address, &copy, (1, short)).unwrap_err();
    assert!(matches!(refused, OpenError::Unreachable { seconds: 2, .. }), "{refused}");
}

/// Any of three brokers may die: what was sent before and after is there, once and in order.
#[test]
fn three_brokers() {
    let home = TempDir::new().unwrap();
    let mut cluster = start(3, &home);
    let address = address(&cluster, "three");
    let copy = TempDir::new().unwrap();
    let mut node = Node::open(&address, &copy, 1);
    node.begin();
    for round in 0..3 {
        for number in 0..20 {
            node.propose(1);
            if number == 10 {
                cluster.kill(round + 1);
            }
        }
        drain(&mut [&mut node], 1 + 20 * i64::from(round + 1));
        cluster.restart(round + 1).unwrap();
    }
    assert_eq!(node.end().0, Position(61));
    let fresh = TempDir::new().unwrap();
    let mut other = Node::open(&address, &fresh, 2);
    assert_eq!(other.catch_up(), 0);
    assert_eq!(other.end(), node.end());
}

fn wait_for<R>(mut get: impl FnMut() -> Option<R>) -> R {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = get() {
            return found;
        }
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
