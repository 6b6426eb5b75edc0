//! A topic on real brokers: its guarantees and its failures.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use journal::{FileLog, RealDisk};
use kafka::{
    Address, ConnectedLog, MigrateError, MigrationObserver, MigrationStep, MissingLog, OpenError,
    Security, TopicOptions, TopicReader, TopicStream, compare, export, open,
};
use kafka_testkit::Cluster;
use ledger::{Command, FspName, Genesis, LogIndex, Stamp};
use ports::{Arrival, ClockReading, Log, Topic};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use record::frame::LogIdentity;
use record::topic_message::{LogEnd, TopicMessage};
use sequencer::{
    AppliedMessage, Durability, GenesisMessage, NodeName, Quarantine, Replica, Sequencer,
    Submission,
};
use tempfile::TempDir;

/// More than any test here sends.
const ARRIVALS_MAX: usize = 4_096;
/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);

fn start(brokers: u32, home: &TempDir) -> Cluster {
    let options = kafka_testkit::ClusterOptions::new(brokers, home.path().join("brokers"));
    Cluster::start(options, &mut |line| println!("{line}")).unwrap()
}

fn address(cluster: &Cluster, topic: &str) -> Address {
    Address { brokers: cluster.bootstrap().to_owned(), topic: topic.to_owned() }
}

fn options(node: &str, patience: Duration) -> TopicOptions {
    let copy = journal::LogOptions::default();
    TopicOptions { node: node.to_owned(), patience, copy, security: Security::default() }
}

fn genesis(node: u32) -> GenesisMessage {
    let hub = FspName::new("Hub").unwrap();
    let genesis = Genesis { seed: [1; 16], hub };
    GenesisMessage { identity: LogIdentity([node as u8; 16]), genesis, node, wall: Stamp(1) }
}

fn try_open(
    address: &Address,
    copy: &TempDir,
    (node, patience): (u32, Duration),
) -> Result<ConnectedLog<RealDisk>, OpenError> {
    let disk = RealDisk::open(copy.path()).unwrap();
    open(
        address,
        disk,
        &options(&format!("node-{node}"), patience),
        MissingLog::Create(&genesis(node)),
    )
}

/// A node without a switch.
struct Node {
    replica: Replica<FileLog<RealDisk>>,
    stream: TopicStream,
    arrivals: Receiver<Arrival>,
    /// The offset of the next message.
    next: i64,
    behind: u64,
    /// Number of offsets that may have no message.
    empty: i64,
}

impl Node {
    fn open(address: &Address, copy: &TempDir, node: u32) -> Self {
        let opened = try_open(address, copy, (node, PATIENCE)).unwrap();
        let ConnectedLog { copy, next, last, report } = opened;
        let sequencer = Sequencer::open(copy, node, ClockReading::default(), &mut |_| ()).unwrap();
        let name = NodeName { name: format!("node-{node}"), node, instance: 1, ended: 0 };
        let replica = Replica::new(sequencer, name, Quarantine::default(), last).unwrap();
        let (sink, arrivals) = sync_channel(ARRIVALS_MAX);
        let options = options("any", PATIENCE);
        let sink = move |arrival| sink.send(arrival).is_ok();
        let stream = TopicStream::start(address, &options, next, sink).unwrap();
        Self { replica, stream, arrivals, next, behind: report.behind, empty: 0 }
    }

    fn hear(&self) -> Arrival {
        self.arrivals.recv_timeout(PATIENCE).unwrap()
    }

    /// Applies everything up to the current end of the topic. Returns the number of messages that
    /// do not belong to the log.
    fn catch_up(&mut self) -> usize {
        let (mut until, mut passed) = (None, 0);
        self.stream.ask_end(1);
        while until.is_none_or(|until| self.next < until) {
            match self.hear() {
                Arrival::End { number: 1, offset: Some(offset) } => until = Some(offset),
                // While a broker is dead the end may be unknown; query again.
                Arrival::End { number: 1, offset: None } => self.stream.ask_end(1),
                Arrival::Message { offset, at, bytes } => {
                    self.empty -= offset - self.next;
                    assert!(self.next <= offset && 0 <= self.empty, "no message is left out");
                    self.next = offset + 1;
                    let delivered = match TopicMessage::parse(&bytes) {
                        Ok(TopicMessage::Bundle(bundle)) => {
                            self.replica.deliver(&bundle, at).unwrap()
                        }
                        Ok(TopicMessage::Frame(frame)) => self.replica.restore(&frame).unwrap(),
                        Ok(TopicMessage::EndOfMovedLog(end)) => {
                            assert!(self.replica.complete_migration(&end));
                            continue;
                        }
                        Ok(TopicMessage::LogMoved(_) | TopicMessage::State(_)) | Err(_) => {
                            passed += 1;
                            continue;
                        }
                    };
                    passed += usize::from(!matches!(delivered, AppliedMessage::Applied { .. }));
                }
                other => panic!("{other:?}"),
            }
        }
        passed
    }

    fn begin(&mut self) {
        self.catch_up();
        self.replica.begin_epoch();
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

    fn end(&self) -> (LogIndex, ledger::Digest) {
        let tail = self.replica.sequencer().log().tail();
        (tail.end, tail.chain)
    }
}

#[test]
fn one_broker() {
    let home = TempDir::new().unwrap();
    let cluster = start(1, &home);
    nodes_make_one_log(&cluster);
    other_clients_write_other_messages(&cluster);
    a_copy_of_another_log_is_refused(&cluster);
    an_unsafe_topic_is_refused(&cluster);
    compressed_message_ends_the_read(&cluster);
    log_is_migrated(&cluster);
    deleted_topic_ends_its_streams(&cluster);
    no_brokers(cluster);
}

/// Two nodes start a topic and write to it, with another client's messages in between. Both have
/// the same log. So have a third node that starts later, and the first one after a restart with its
/// copy.
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
    assert_eq!((end, first.end()), (LogIndex(1 + 39 + 20), second.end()));
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

/// Lets the nodes take everything that was sent, `messages` in total.
fn drain(nodes: &mut [&mut Node], messages: i64) {
    let deadline = Instant::now() + PATIENCE;
    for node in nodes {
        while node.next < messages {
            assert!(Instant::now() < deadline, "{} of {messages} came", node.next);
            node.catch_up();
        }
    }
}

/// Transactions, one of which stays open, and empty messages: nodes read past all of them, and a
/// node that starts after the end of a transaction knows that there are no more messages.
fn other_clients_write_other_messages(cluster: &Cluster) {
    let address = address(cluster, "busy");
    let copies = [(); 3].map(|()| TempDir::new().unwrap());
    let mut node = Node::open(&address, &copies[0], 1);
    node.begin();
    let open = transaction(&address);
    open.send(BaseRecord::<[u8], [u8], ()>::to(&address.topic).key(b"nothing")).unwrap();
    open.flush(PATIENCE).unwrap();
    node.propose(1);
    drain(&mut [&mut node], 1 + 2 + 1);

    transaction(&address).commit_transaction(PATIENCE).unwrap();
    wait_for_high(&address, 1 + 2 + 1 + 2);
    node.propose(1);
    node.empty = 1;
    drain(&mut [&mut node], 1 + 2 + 1 + 2 + 1);
    open.abort_transaction(PATIENCE).unwrap();
    wait_for_high(&address, 7 + 1);
    let end = node.end();
    drop(node);
    // After its copy, a message lies between two offsets without one.
    transaction(&address).commit_transaction(PATIENCE).unwrap();
    wait_for_high(&address, 8 + 2);
    let mut again = Node::open(&address, &copies[0], 1);
    again.empty = 1;
    assert_eq!((again.catch_up(), again.end()), (1, end));
    let mut fresh = Node::open(&address, &copies[1], 2);
    fresh.empty = 2;
    assert_eq!((fresh.catch_up(), fresh.end()), (4, end));
}

/// Waits until `wanted` offsets are used: the end of a transaction uses one, some time later.
fn wait_for_high(address: &Address, wanted: i64) {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", &address.brokers)
        .set("isolation.level", "read_uncommitted")
        .create()
        .unwrap();
    wait_for(|| {
        let (_, high) = consumer.fetch_watermarks(&address.topic, 0, PATIENCE).unwrap();
        assert!(high <= wanted, "{high}");
        (high == wanted).then_some(())
    });
}

/// A transaction of another client with a message in it.
fn transaction(address: &Address) -> BaseProducer {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &address.brokers)
        .set("transactional.id", format!("other-{}", COUNT.fetch_add(1, Ordering::Relaxed)))
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    producer.send(BaseRecord::<(), _, ()>::to(&address.topic).payload("hello")).unwrap();
    producer.flush(PATIENCE).unwrap();
    producer
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
    assert!(matches!(refused, OpenError::OtherLog { .. }), "{refused}");
}

/// The log of one switch is migrated in three attempts, two of which are interrupted. Two nodes
/// continue from it, one with its files and one without.
fn log_is_migrated(cluster: &Cluster) {
    let address = address(cluster, "moved");
    let home = TempDir::new().unwrap();
    let end = write_alone(&home, 300);
    let options = options("moving", PATIENCE);
    let disk = RealDisk::open(home.path()).unwrap();
    let refused = |topic: &str, watch: &mut Moving| {
        let address = Address { topic: topic.to_owned(), ..address.clone() };
        export(&address, &disk, &options, watch).unwrap_err()
    };
    let mut watch = Moving { steps: 100, has_left: false };
    assert!(matches!(refused("moved", &mut watch), MigrateError::Stopped(_)));
    watch.steps = 450;
    let mut half_way = Node::open(&address, &TempDir::new().unwrap(), 9);
    half_way.catch_up();
    assert!(half_way.replica.is_partial());
    assert_eq!(half_way.next, 101, "what was sent is there, and the step that was refused");
    assert!(half_way.end().0 < end.log_index);
    assert!(matches!(refused("moved", &mut watch), MigrateError::Stopped(_)));
    assert!(!watch.has_left);
    watch.steps = usize::MAX;
    let moved = export(&address, &disk, &options, &mut watch).unwrap();
    assert!(watch.has_left);
    assert_eq!((moved.end, moved.frames, moved.sent, moved.created), (end, 300, 0, false));
    let again = export(&address, &disk, &options, &mut watch).unwrap();
    assert_eq!((again.end, again.sent), (end, 0));
    drop(disk);
    half_way.catch_up();
    assert_eq!(half_way.end(), (end.log_index, end.chain));

    // Unsuitable topics are refused with a reason.
    let disk = RealDisk::open(home.path()).unwrap();
    produce(&self::address(cluster, "one"), b"hello");
    let refused_by = |topic, part: &str| {
        let address = self::address(cluster, topic);
        let mut watch = Moving { steps: usize::MAX, has_left: false };
        let error = export(&address, &disk, &options, &mut watch).unwrap_err().to_string();
        assert!(error.contains(part) && !watch.has_left, "{error}");
    };
    refused_by("one", "holds a log that was started there at offset 0");
    refused_by("unsafe", "retention.ms is 604800000 but must be -1");
    drop(disk);

    let fresh = TempDir::new().unwrap();
    let (mut one, mut two) = (Node::open(&address, &home, 1), Node::open(&address, &fresh, 2));
    assert_eq!((one.behind, two.behind), (1, 301));
    one.begin();
    two.begin();
    one.propose(3);
    two.propose(2);
    drain(&mut [&mut one, &mut two], 303);
    assert_eq!((one.end(), one.end().0), (two.end(), LogIndex(end.log_index.0 + 5)));
    let (same, _) = one.end();
    drop(one);
    // Its files are now those of a node; the older ones are not used as the log.
    let one = Node::open(&address, &home, 1);
    assert_eq!(one.end().0, same);
    drop(one);
    let reader = TopicReader::open(&address, &options).unwrap();
    let disk = RealDisk::open(home.path()).unwrap();
    let compared = compare(&reader, &address, &disk, &mut |_| ()).unwrap();
    assert_eq!(compared.tail.end, same);
    let error = export(&address, &disk, &options, &mut watch).unwrap_err();
    assert!(matches!(error, MigrateError::FilesChanged { .. }), "{error}");
}

/// Ends a migration after this many steps.
struct Moving {
    steps: usize,
    has_left: bool,
}

impl MigrationObserver for Moving {
    fn report_progress(&mut self, _step: MigrationStep) -> Result<(), String> {
        match self.steps.checked_sub(1) {
            Some(left) => {
                self.steps = left;
                Ok(())
            }
            None => Err("it was interrupted".into()),
        }
    }

    fn record_log_moved(&mut self) -> Result<(), String> {
        self.has_left = true;
        Ok(())
    }
}

/// A log in files with this many batches, and its end.
fn write_alone(home: &TempDir, batches: usize) -> LogEnd {
    let disk = RealDisk::open(home.path()).unwrap();
    let options = journal::LogOptions { segment_bytes: 16 << 10, ..journal::LogOptions::default() };
    let log = FileLog::create(disk, LogIdentity([77; 16]), options).unwrap();
    let mut alone = Sequencer::open(log, 0, ClockReading::default(), &mut |_| ()).unwrap();
    let genesis = Command::Genesis(genesis(1).genesis);
    for batch in 0..batches {
        let command = if batch == 0 { genesis.clone() } else { Command::Tick };
        let one = Submission::without_payload(command, Durability::Synced, ()).unwrap();
        let now = ClockReading { wall: Stamp(1_000_000), monotonic_us: 0 };
        alone.commit(&mut VecDeque::from([one]), &mut Vec::new(), now).unwrap();
    }
    let tail = alone.log().tail();
    LogEnd { identity: tail.identity, log_index: tail.end, chain: tail.chain }
}

fn produce(address: &Address, bytes: &[u8]) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &address.brokers).create().unwrap();
    producer.send(BaseRecord::<(), _, ()>::to(&address.topic).payload(bytes)).unwrap();
    producer.flush(PATIENCE).unwrap();
}

fn an_unsafe_topic_is_refused(cluster: &Cluster) {
    let address = address(cluster, "unsafe");
    make(&address, &[]);
    let copy = TempDir::new().unwrap();
    let refused = wait_for(|| match try_open(&address, &copy, (1, PATIENCE)) {
        Err(OpenError::Brokers(_)) => None,
        other => Some(other.unwrap_err().to_string()),
    });
    for part in [
        "retention.ms is 604800000 but must be -1",
        "message.timestamp.type is CreateTime but must be LogAppendTime",
        "max.message.bytes is 1048588 but must be 16778240",
        "compression.type is producer but must be uncompressed",
        "kafka-configs.sh",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
}

/// Messages that brokers compressed before the setting changed cannot be read; an error names that.
fn compressed_message_ends_the_read(cluster: &Cluster) {
    let address = address(cluster, "packed");
    make(&address, &[("compression.type", "gzip")]);
    produce(&address, b"hello");
    let said = |reason: &str| {
        let is_named = reason.contains("compression.type was not uncompressed");
        assert!(is_named && reason.contains("`upesi export-log`"), "{reason}");
    };
    let reader = TopicReader::open(&address, &options("any", PATIENCE)).unwrap();
    let refused = reader.read(0..1, &mut |_, _| panic!("it was read")).unwrap_err();
    said(&refused.to_string());
    let (sink, arrivals) = sync_channel(ARRIVALS_MAX);
    let sink = move |arrival| sink.send(arrival).is_ok();
    let _stream = TopicStream::start(&address, &options("any", PATIENCE), 0, sink).unwrap();
    match arrivals.recv_timeout(PATIENCE).unwrap() {
        Arrival::Broken { reason } => said(&reason),
        other => panic!("{other:?}"),
    }
}

/// Creates a topic with one replica.
fn make(address: &Address, settings: &[(&str, &str)]) {
    make_in_parts(address, 1, settings);
}

fn make_in_parts(address: &Address, partitions: i32, settings: &[(&str, &str)]) {
    let admin = administration(address);
    let topic = NewTopic::new(&address.topic, partitions, TopicReplication::Fixed(1));
    let topic = settings.iter().fold(topic, |topic, (name, value)| topic.set(name, value));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let made = runtime.block_on(admin.create_topics([&topic], &AdminOptions::new())).unwrap();
    assert!(made[0].is_ok(), "{made:?}");
}

fn administration(address: &Address) -> AdminClient<DefaultClientContext> {
    ClientConfig::new().set("bootstrap.servers", &address.brokers).create().unwrap()
}

/// A deleted topic accepts no messages, and its user gets an error.
fn deleted_topic_ends_its_streams(cluster: &Cluster) {
    let address = address(cluster, "deleted");
    drop(Node::open(&address, &TempDir::new().unwrap(), 1));
    let (sink, arrivals) = sync_channel(ARRIVALS_MAX);
    let sink = move |arrival| sink.send(arrival).is_ok();
    let mut stream = TopicStream::start(&address, &options("a", PATIENCE), 0, sink).unwrap();
    assert!(matches!(arrivals.recv_timeout(PATIENCE), Ok(Arrival::Message { offset: 0, .. })));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let admin = administration(&address);
    let gone = admin.delete_topics(&[&address.topic], &AdminOptions::new());
    assert!(runtime.block_on(gone).unwrap()[0].is_ok());
    let since = Instant::now();
    let reason = loop {
        if let Err(reason) = stream.send(b"a message", 7) {
            break reason;
        }
        match arrivals.recv_timeout(Duration::from_secs(1)) {
            Ok(Arrival::Broken { reason }) => break reason,
            // A broker that is slow to delete takes messages for a moment.
            Ok(Arrival::Message { .. } | Arrival::Lost { .. }) | Err(RecvTimeoutError::Timeout) => {
            }
            other => panic!("{other:?}"),
        }
        assert!(since.elapsed() < 2 * PATIENCE, "nobody says it");
    };
    println!("said after {:?}: {reason}", since.elapsed());
    assert!(reason.contains("no longer exists. It was deleted"), "{reason}");
}

/// Without brokers, a message and a start fail within their timeout.
fn no_brokers(mut cluster: Cluster) {
    let address = address(&cluster, "gone");
    let copy = TempDir::new().unwrap();
    let short = Duration::from_secs(2);
    drop(Node::open(&address, &copy, 1));
    let (sink, arrivals) = sync_channel(ARRIVALS_MAX);
    let sink = move |arrival| sink.send(arrival).is_ok();
    let mut stream = TopicStream::start(&address, &options("a", short), 0, sink).unwrap();
    assert!(matches!(arrivals.recv_timeout(PATIENCE), Ok(Arrival::Message { offset: 0, .. })));
    cluster.kill(1);
    stream.send(b"a message", 7).unwrap();
    let since = Instant::now();
    match arrivals.recv_timeout(PATIENCE).unwrap() {
        Arrival::Lost { tag: 7, reason } => {
            assert!(reason.contains("no acknowledgement from the brokers"), "{reason}");
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

/// Any of three brokers may die: messages sent before and after are read once and in order.
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
    assert_eq!(node.end().0, LogIndex(61));
    let fresh = TempDir::new().unwrap();
    let mut other = Node::open(&address, &fresh, 2);
    assert_eq!(other.catch_up(), 0);
    assert_eq!(other.end(), node.end());
    a_topic_with_few_replicas_is_refused(&cluster);
    a_topic_waits_for_all_brokers(&mut cluster);
    a_topic_waits_for_the_controllers(&mut cluster);
    let address = self::address(&cluster, "promises");
    // The first node creates the topic and starts the log.
    drop(Node::open(&address, &TempDir::new().unwrap(), 3));
    ports::contract::check(&mut Members { cluster: &mut cluster, address, members: Vec::new() });
}

/// Members of a real topic.
struct Members<'a> {
    cluster: &'a mut Cluster,
    address: Address,
    members: Vec<(TopicStream, Receiver<Arrival>)>,
}

impl ports::contract::Subject for Members<'_> {
    fn join(&mut self, next: i64) -> usize {
        let (sink, arrivals) = sync_channel(ARRIVALS_MAX);
        let sink = move |arrival| sink.send(arrival).is_ok();
        let options = options("member", PATIENCE);
        let stream = TopicStream::start(&self.address, &options, next, sink).unwrap();
        self.members.push((stream, arrivals));
        self.members.len() - 1
    }

    fn send(&mut self, member: usize, message: &[u8], tag: u64) {
        self.members[member].0.send(message, tag).unwrap();
    }

    fn ask_end(&mut self, member: usize, number: u64) {
        self.members[member].0.ask_end(number);
    }

    fn receive(&mut self, member: usize) -> Arrival {
        self.members[member].1.recv_timeout(PATIENCE).unwrap()
    }

    fn lose_leader(&mut self) {
        let leader = self.cluster.leader(&self.address.topic).unwrap();
        self.cluster.kill(leader);
    }
}

/// The topic was created for one broker, or with several partitions.
fn a_topic_with_few_replicas_is_refused(cluster: &Cluster) {
    let refused = |topic: &str, partitions| {
        let address = address(cluster, topic);
        make_in_parts(&address, partitions, &[]);
        let copy = TempDir::new().unwrap();
        wait_for(|| match try_open(&address, &copy, (1, PATIENCE)) {
            Err(OpenError::Brokers(_)) => None,
            other => Some(other.unwrap_err().to_string()),
        })
    };
    let few = refused("few", 1);
    for part in [
        "it has 1 of the 3 replicas that 3 brokers allow",
        "kafka-reassign-partitions.sh",
        "min.insync.replicas is 1 but must be 2",
    ] {
        assert!(few.contains(part), "{few}");
    }
    let parts = refused("parts", 4);
    assert!(parts.contains("it has 4 partitions, but a log needs exactly 1"), "{parts}");
}

/// While a broker is away no topic is created: it would keep two replicas.
fn a_topic_waits_for_all_brokers(cluster: &mut Cluster) {
    let address = address(cluster, "early");
    let copy = TempDir::new().unwrap();
    let short = Duration::from_secs(2);
    cluster.stop(3);
    let refused = try_open(&address, &copy, (1, short)).unwrap_err();
    assert!(matches!(refused, OpenError::TooFew { alive: 2, named: 3, .. }), "{refused}");
    let disk = RealDisk::open(copy.path()).unwrap();
    let found = open(&address, disk, &options("node-1", short), MissingLog::Refuse).unwrap_err();
    assert!(matches!(found, OpenError::NoLog(_)), "nothing was made: {found}");
    // The broker returns while a node waits for it.
    cluster.launch(3).unwrap();
    let opened = try_open(&address, &copy, (1, PATIENCE)).unwrap();
    assert!(opened.report.created);
    assert_eq!((opened.report.brokers, opened.report.replicas), (3, 3));
}

/// Brokers respond, but without most of their controllers nothing is created.
fn a_topic_waits_for_the_controllers(cluster: &mut Cluster) {
    let address = address(cluster, "undecided");
    let copy = TempDir::new().unwrap();
    (2..=3).for_each(|broker| cluster.kill(broker));
    let refused = try_open(&address, &copy, (1, Duration::from_secs(5))).unwrap_err();
    assert!(matches!(refused, OpenError::Undecided { seconds: 5 }), "{refused}");
    (2..=3).for_each(|broker| cluster.launch(broker).unwrap());
    // The topic was created meanwhile or is created again; it is one topic. One broker may take
    // longer.
    let opened = wait_for(|| {
        let opened = try_open(&address, &copy, (1, PATIENCE)).ok();
        opened.filter(|opened| opened.report.brokers == 3)
    });
    assert_eq!(opened.report.replicas, 3);
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
