//! The log on real brokers: the contract of every log, and what only this one can meet.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

use std::time::{Duration, Instant};

use brokers::Cluster;
use journal::contract::{IDENTITY, Subject, check, frame_after, frames_of};
use journal::{FileLog, RealDisk};
use kafka::{Address, KafkaLog, OpenError, Options, Report, open};
use ledger::Position;
use ports::{Log, LogError};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use record::frame::LogIdentity;
use tempfile::TempDir;

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
    let copy = journal::Options::default();
    Options { node: node.to_owned(), patience, identity: IDENTITY, copy }
}

fn try_open(
    address: &Address,
    copy: &TempDir,
    options: &Options,
) -> Result<(KafkaLog<RealDisk>, Report), OpenError> {
    open(address, RealDisk::open(copy.path()).unwrap(), options)
}

fn opened(address: &Address, copy: &TempDir) -> KafkaLog<RealDisk> {
    try_open(address, copy, &options("a", PATIENCE)).unwrap().0
}

fn append(log: &mut impl Log, sizes: &[usize]) {
    log.append(&frame_after(&log.tail(), sizes)).unwrap();
}

/// A log on a topic of its own, whose copy is thrown away with every other crash.
struct OnKafka<'a> {
    cluster: &'a Cluster,
    topics: u32,
    crashes: u32,
    copy: TempDir,
}

impl Subject for OnKafka<'_> {
    type Log = KafkaLog<RealDisk>;

    fn make(&mut self) -> Self::Log {
        self.topics += 1;
        self.copy = TempDir::new().unwrap();
        opened(&address(self.cluster, &format!("contract-{}", self.topics)), &self.copy)
    }

    fn crash(&mut self, log: Self::Log) -> Self::Log {
        drop(log);
        self.crashes += 1;
        if self.crashes.is_multiple_of(2) {
            self.copy = TempDir::new().unwrap();
        }
        opened(&address(self.cluster, &format!("contract-{}", self.topics)), &self.copy)
    }
}

#[test]
fn one_broker() {
    let home = TempDir::new().unwrap();
    let cluster = start(1, &home);
    let copy = TempDir::new().unwrap();
    check(&mut OnKafka { cluster: &cluster, topics: 0, crashes: 0, copy });
    a_copy_catches_up(&cluster);
    a_second_writer_ends_the_first(&cluster);
    a_copy_of_another_log_is_refused(&cluster);
    foreign_messages_are_refused(&cluster);
    an_unsafe_topic_is_refused(&cluster);
    no_brokers(cluster);
}

/// A copy that lags is made whole from where it ends.
fn a_copy_catches_up(cluster: &Cluster) {
    let address = address(cluster, "catches-up");
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut log = opened(&address, &one);
    for round in 0..40 {
        append(&mut log, &[100 + round, 0]);
        log.sync().unwrap();
        if round == 20 {
            drop(log);
            let (behind, report) = try_open(&address, &other, &options("b", PATIENCE)).unwrap();
            assert_eq!((behind.end(), report.fetched), (Position(42), 42));
            drop(behind);
            log = opened(&address, &one);
        }
    }
    let frames = frames_of(&mut log, Position(1));
    drop(log);
    let (mut behind, report) = try_open(&address, &other, &options("b", PATIENCE)).unwrap();
    assert_eq!((report.fetched, report.late, report.created), (38, 0, false));
    assert_eq!(frames_of(&mut behind, Position(1)), frames);
}

/// Two nodes with the same end of the log: the first to write goes on, the other stops and has
/// recorded nothing.
fn a_second_writer_ends_the_first(cluster: &Cluster) {
    let address = address(cluster, "two-writers");
    let (one, other) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let mut first = opened(&address, &one);
    append(&mut first, &[10]);
    first.sync().unwrap();
    let mut second = opened(&address, &other);
    append(&mut second, &[20]);
    second.sync().unwrap();

    append(&mut first, &[30]);
    let refused = first.sync().unwrap_err();
    let LogError::Storage(reason) = &refused else { panic!("{refused}") };
    assert!(reason.contains("another node"), "{reason}");
    assert!(reason.contains("wrote record 2 to the topic"), "{reason}");
    assert_eq!(first.append(&frame_after(&first.tail(), &[1])), Err(LogError::Poisoned));
    assert_eq!(first.durable_end(), Position(1));

    // What the first wrote too late stands behind, and is no part of the log.
    append(&mut second, &[40]);
    second.sync().unwrap();
    append(&mut second, &[50]);
    second.sync().unwrap();
    let frames = frames_of(&mut second, Position(1));
    assert_eq!((second.end(), frames.len()), (Position(4), 4));
    drop((first, second));
    let fresh = TempDir::new().unwrap();
    let (mut third, report) = try_open(&address, &fresh, &options("c", PATIENCE)).unwrap();
    assert_eq!((report.fetched, report.late), (4, 1));
    assert_eq!(frames_of(&mut third, Position(1)), frames);

    // One that has nothing to write hears of it too.
    let idle = third.overtaken();
    assert!(!idle.is_true());
    let mut fourth = opened(&address, &other);
    append(&mut fourth, &[60]);
    fourth.sync().unwrap();
    wait_until(|| idle.is_true());
    assert!(!fourth.overtaken().is_true(), "the writer itself goes on");
}

fn a_copy_of_another_log_is_refused(cluster: &Cluster) {
    let address = address(cluster, "another");
    let copy = TempDir::new().unwrap();
    let mut log = opened(&address, &copy);
    append(&mut log, &[10]);
    log.sync().unwrap();
    drop(log);
    // Of the same identity, and it went another way; of another; and further than the topic.
    for (identity, sizes) in [
        (IDENTITY, &[&[11][..]][..]),
        (LogIdentity([7; 16]), &[&[10]]),
        (IDENTITY, &[&[10], &[10]]),
    ] {
        let strange = TempDir::new().unwrap();
        let disk = RealDisk::open(strange.path()).unwrap();
        let mut file = FileLog::create(disk, identity, journal::Options::default()).unwrap();
        sizes.iter().for_each(|sizes| append(&mut file, sizes));
        file.sync().unwrap();
        drop(file);
        let refused = try_open(&address, &strange, &options("a", PATIENCE)).unwrap_err();
        assert!(matches!(refused, OpenError::Another { .. }), "{refused}");
    }
}

fn foreign_messages_are_refused(cluster: &Cluster) {
    let copy = TempDir::new().unwrap();
    let strange = address(cluster, "strange");
    let mut log = opened(&strange, &copy);
    append(&mut log, &[10]);
    log.sync().unwrap();
    produce(&strange, b"hello");
    append(&mut log, &[10]);
    let refused = log.sync().unwrap_err().to_string();
    assert!(refused.contains("holds a message at offset 1 that is no record"), "{refused}");
    drop(log);
    let refused = try_open(&strange, &copy, &options("a", PATIENCE)).unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { offset: 1, .. }), "{refused}");
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
    let refused = wait_for(|| match try_open(&address, &copy, &options("a", PATIENCE)) {
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

/// Without brokers an append ends in the time it was given, and so does a start.
fn no_brokers(mut cluster: Cluster) {
    let address = address(&cluster, "gone");
    let copy = TempDir::new().unwrap();
    let short = options("a", Duration::from_secs(2));
    let mut log = try_open(&address, &copy, &options("a", PATIENCE)).unwrap().0;
    append(&mut log, &[10]);
    log.sync().unwrap();
    drop(log);
    let mut log = try_open(&address, &copy, &short).unwrap().0;
    cluster.kill(1);
    append(&mut log, &[10]);
    let since = Instant::now();
    let refused = log.sync().unwrap_err().to_string();
    assert!(refused.contains("the brokers acknowledged nothing"), "{refused}");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    assert_eq!(log.sync(), Err(LogError::Poisoned));
    drop(log);
    let refused = try_open(&address, &copy, &short).unwrap_err();
    assert!(matches!(refused, OpenError::Unreachable { seconds: 2, .. }), "{refused}");

    // What was not acknowledged may be there or not; what was, is.
    cluster.restart(1).unwrap();
    let log = opened(&address, &copy);
    assert!((1..=2).contains(&log.end().0), "{:?}", log.tail());
}

/// Any of three brokers may die: what was acknowledged stays, and writing goes on.
#[test]
fn three_brokers() {
    let home = TempDir::new().unwrap();
    let mut cluster = start(3, &home);
    let address = address(&cluster, "three");
    let copy = TempDir::new().unwrap();
    let (mut log, report) = try_open(&address, &copy, &options("a", PATIENCE)).unwrap();
    assert!(report.created);
    assert_eq!((report.brokers, report.replicas, &*report.in_sync), (3, 3, "2"));
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        for size in 0..20 {
            let frame = frame_after(&log.tail(), &[100 * size, 0]);
            log.append(&frame).unwrap();
            log.sync().unwrap();
            acknowledged.push(frame);
            if size == 10 {
                cluster.kill(round + 1);
            }
        }
        cluster.restart(round + 1).unwrap();
    }
    drop(log);
    let fresh = TempDir::new().unwrap();
    let mut log = opened(&address, &fresh);
    assert_eq!(frames_of(&mut log, Position(1)), acknowledged);
}

fn wait_until(mut holds: impl FnMut() -> bool) {
    wait_for(|| holds().then_some(()));
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
