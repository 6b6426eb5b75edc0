//! Consumers and producers on a real broker.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails at that line")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use kafka_testkit::{Cluster, ClusterOptions};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use stream::{
    Commit, Consumer, ConsumerSettings, Control, HandlerError, Health, LagLimit, Mode, Order,
    Poison, Producer, ProducerSettings, Properties, ReceivedMessage, Record, Retries, SendError,
    StreamError, TraceContext,
};
use tempfile::TempDir;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A broker that the tests share which run at a time. The last one stops it.
struct Broker {
    cluster: Cluster,
    _directory: TempDir,
}

impl Broker {
    fn get() -> Arc<Self> {
        static SHARED: Mutex<Weak<Broker>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let directory = tempfile::tempdir().unwrap();
            let options = ClusterOptions::new(1, directory.path());
            let cluster = Cluster::start(options, &mut |text| eprintln!("{text}")).unwrap();
            let broker = Arc::new(Self { cluster, _directory: directory });
            *shared = Arc::downgrade(&broker);
            broker
        })
    }

    fn address(&self) -> &str {
        self.cluster.bootstrap()
    }

    async fn topic(&self, partitions: i32) -> String {
        let name = format!("topic-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let created =
            stream::create_topic(self.address(), &Properties::new(), &name, partitions, 1).await;
        assert!(created.unwrap());
        name
    }

    fn producer(&self) -> Producer {
        Producer::connect(ProducerSettings::new(self.address())).unwrap()
    }

    /// Sends `count` messages whose values are their numbers, with `keys` keys.
    async fn fill(&self, topic: &str, count: u32, keys: u32) {
        let producer = self.producer();
        for number in 0..count {
            let value = number.to_string().into_bytes();
            let record = Record::to(topic, value).key((number % keys).to_string());
            producer.enqueue(&record).await.unwrap();
        }
        producer.flush().await.unwrap();
    }

    fn settings(&self, topic: &str) -> ConsumerSettings {
        ConsumerSettings::new(self.address(), &format!("group-of-{topic}"), &[topic])
    }
}

fn number(message: &ReceivedMessage<'_>) -> u32 {
    message.text().unwrap().parse().unwrap()
}

/// Runs a consumer until its handlers have processed this many messages.
async fn run_until<H>(settings: ConsumerSettings, count: u64, handler: H) -> stream::Counts
where
    H: AsyncFn(&[ReceivedMessage<'_>]) -> Result<(), HandlerError>,
{
    let consumer = Consumer::connect(settings).unwrap();
    let control = consumer.control();
    let watch = async {
        let start = Instant::now();
        while control.counts().handled < count {
            assert!(start.elapsed() < Duration::from_secs(60), "{:?}", control.counts());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        control.stop();
    };
    let (counts, ()) = tokio::join!(consumer.run(handler), watch);
    counts.unwrap()
}

/// The numbers by key, in the order in which handlers got them.
#[derive(Default)]
struct Seen(Mutex<BTreeMap<Vec<u8>, Vec<u32>>>);

impl Seen {
    fn add(&self, message: &ReceivedMessage<'_>) {
        let key = message.key().unwrap().to_vec();
        self.0.lock().unwrap().entry(key).or_default().push(number(message));
    }

    /// Asserts that all were seen once, in order by key.
    fn is_whole(&self, count: u32) {
        let seen = self.0.lock().unwrap();
        let all: Vec<u32> = seen.values().flatten().copied().collect();
        let distinct = all.iter().collect::<BTreeSet<_>>().len();
        assert_eq!((distinct, all.len()), (count as usize, count as usize), "distinct, all");
        let unordered = seen.iter().find(|(_, numbers)| !numbers.is_sorted());
        assert_eq!(unordered, None);
    }
}

/// Asserts that a group gets all messages once and in order, and that all of it is committed.
async fn is_handled_once(
    broker: &Broker,
    mode: Mode,
    batch_max: usize,
    commit: Commit,
    order: Order,
) {
    let topic = broker.topic(2).await;
    broker.fill(&topic, 1_000, 7).await;
    let concurrency = if order == Order::Key { 4 } else { 1 };
    let settings =
        ConsumerSettings { mode, batch_max, commit, order, concurrency, ..broker.settings(&topic) };
    let seen = Seen::default();
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        assert!(batch.len() <= batch_max);
        batch.iter().for_each(|message| seen.add(message));
        tokio::task::yield_now().await;
        Ok(())
    };
    let counts = run_until(settings.clone(), 1_000, handler).await;
    seen.is_whole(1_000);
    assert_eq!(counts.commit_failures, 0, "{settings:?}");
    broker.fill(&topic, 1, 1).await;
    let next = async |batch: &[ReceivedMessage<'_>]| {
        assert_eq!(number(&batch[0]), 0);
        Ok(())
    };
    assert_eq!(run_until(settings, 1, next).await.handled, 1);
}

#[tokio::test]
async fn each_mode_and_commit_handles_all_messages_once_and_in_order() {
    let broker = Broker::get();
    let every = Duration::from_millis(2);
    let modes = [(Mode::Flow, 1), (Mode::Poll { every }, 50), (Mode::Recursive, 10)];
    let commits = [Commit::Sync, Commit::Async, Commit::Interval(Duration::from_millis(10))];
    let orders = [Order::Partition, Order::Key];
    let all = modes.iter().flat_map(|mode| commits.iter().map(move |commit| (*mode, *commit)));
    let groups = all.zip(orders.iter().cycle()).map(|(((mode, batch_max), commit), order)| {
        is_handled_once(&broker, mode, batch_max, commit, *order)
    });
    join_all(groups).await;
}

/// A handler that fails for number 3 of ten messages.
async fn failing_third(batch: &[ReceivedMessage<'_>]) -> Result<(), HandlerError> {
    match batch.iter().any(|message| number(message) == 3) {
        true => Err(HandlerError::Failed("three".to_owned())),
        false => Ok(()),
    }
}

const FAST: Retries = Retries {
    attempts_max: 2,
    pause: Duration::from_millis(1),
    pause_max: Duration::from_millis(2),
};

#[tokio::test]
async fn poison_message_moves_to_the_dead_letters_and_delays_no_other() {
    let broker = Broker::get();
    let (source, dead) = (broker.topic(1).await, broker.topic(1).await);
    broker.fill(&source, 10, 1).await;
    let settings = ConsumerSettings {
        batch_max: 4,
        retries: FAST,
        poison: Poison::DeadLetters(dead.clone()),
        ..broker.settings(&source)
    };
    let counts = run_until(settings, 10, failing_third).await;
    // Three for its batch, one for each neighbour, three for itself.
    assert_eq!((counts.dead_letters, counts.retries), (1, 4), "{counts:?}");
    let letter = async |batch: &[ReceivedMessage<'_>]| {
        let header = |name| batch[0].header(name).unwrap();
        assert_eq!((number(&batch[0]), batch[0].key()), (3, Some(b"0".as_slice())));
        assert_eq!((header("dead-letter-topic"), header("dead-letter-offset")), (&*source, "3"));
        assert_eq!((header("dead-letter-attempts"), header("dead-letter-reason")), ("3", "three"));
        Ok(())
    };
    assert_eq!(run_until(broker.settings(&dead), 1, letter).await.handled, 1);
}

#[tokio::test]
async fn without_dead_letters_a_poison_message_ends_the_consumer_and_is_not_lost() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    broker.fill(&topic, 10, 1).await;
    let settings = ConsumerSettings { retries: FAST, ..broker.settings(&topic) };
    let consumer = Consumer::connect(settings.clone()).unwrap();
    let error = consumer.run(failing_third).await.unwrap_err();
    assert_eq!(error.to_string(), format!("message 3 of {topic}[0] failed 3 times: three"));
    assert_eq!(consumer.control().health(), Health::Ended);
    drop(consumer);
    let rest = Mutex::new(Vec::new());
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        rest.lock().unwrap().extend(batch.iter().map(number));
        Ok(())
    };
    run_until(settings, 7, handler).await;
    assert_eq!(*rest.lock().unwrap(), [3, 4, 5, 6, 7, 8, 9]);
}

#[tokio::test]
async fn undecodable_value_is_poison_at_once() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 1).await;
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        let _: Vec<u8> = batch[0].json()?;
        Ok(())
    };
    let error = Consumer::connect(broker.settings(&topic)).unwrap().run(handler).await.unwrap_err();
    let StreamError::Poison { attempts: 1, reason, .. } = error else { panic!("{error}") };
    assert!(reason.starts_with("the value is not JSON: invalid type: integer `0`"), "{reason}");
}

#[tokio::test]
async fn slow_handler_bounds_what_waits() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    broker.fill(&topic, 3_000, 1).await;
    let settings = ConsumerSettings { waiting_max: 10, ..broker.settings(&topic) };
    let seen = Seen::default();
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        batch.iter().for_each(|message| seen.add(message));
        // Longer than a full consumer waits before it stops to fetch.
        if number(&batch[0]) % 1_000 == 500 {
            tokio::time::sleep(Duration::from_millis(1_500)).await;
        }
        Ok(())
    };
    let counts = run_until(settings, 3_000, handler).await;
    seen.is_whole(3_000);
    assert_eq!(counts.handled, 3_000);
}

#[tokio::test]
async fn paused_consumer_takes_nothing_until_it_is_resumed() {
    let broker = Broker::get();
    let topic = broker.topic(2).await;
    broker.fill(&topic, 100, 5).await;
    let consumer = Consumer::connect(broker.settings(&topic)).unwrap();
    let control = consumer.control();
    let seen = Seen::default();
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        batch.iter().for_each(|message| seen.add(message));
        Ok(())
    };
    let play = async {
        let until = async |count| {
            while control.counts().handled < count {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        until(100).await;
        control.pause();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let producer = broker.producer();
        for number in 100..200 {
            let value = number.to_string().into_bytes();
            let record = Record::to(&topic, value).key((number % 5).to_string());
            producer.send(&record).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(control.counts().handled, 100);
        assert!(control.health().is_good());
        control.resume();
        until(200).await;
        control.stop();
    };
    let (counts, ()) = tokio::join!(consumer.run(handler), play);
    assert_eq!(counts.unwrap().handled, 200);
    seen.is_whole(200);
}

#[tokio::test]
async fn rebalance_loses_and_repeats_nothing_while_members_come_and_go() {
    let broker = Broker::get();
    for strategy in ["cooperative-sticky", "range"] {
        let topic = broker.topic(6).await;
        let seen = Seen::default();
        let mut settings =
            ConsumerSettings { concurrency: 3, order: Order::Key, ..broker.settings(&topic) };
        let property = ("partition.assignment.strategy".to_owned(), strategy.to_owned());
        settings.properties.extend([property]);
        let handler = async |batch: &[ReceivedMessage<'_>]| {
            tokio::time::sleep(Duration::from_millis(1)).await;
            batch.iter().for_each(|message| seen.add(message));
            Ok(())
        };
        let member = |count| run_until(settings.clone(), count, &handler);
        let steady = Consumer::connect(settings.clone()).unwrap();
        let control = steady.control();
        let is_over = AtomicBool::new(false);
        let others = async {
            member(300).await;
            tokio::join!(member(200), member(300));
            is_over.store(true, Ordering::Relaxed);
        };
        let sent = AtomicU32::new(0);
        let feed = async {
            let producer = broker.producer();
            while !is_over.load(Ordering::Relaxed) {
                let number = sent.fetch_add(1, Ordering::Relaxed);
                let record = Record::to(&topic, number.to_string().into_bytes());
                producer.enqueue(&record.key((number % 50).to_string())).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            producer.flush().await.unwrap();
            let all = sent.load(Ordering::Relaxed) as usize;
            while seen.0.lock().unwrap().values().map(Vec::len).sum::<usize>() < all {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            control.stop();
        };
        let (counts, (), ()) = tokio::join!(steady.run(&handler), others, feed);
        assert!(2 <= counts.unwrap().rebalances, "{strategy}");
        seen.is_whole(sent.into_inner());
    }
}

#[tokio::test]
async fn handler_that_hangs_is_visible_and_ends_by_its_timeout() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    broker.fill(&topic, 2, 1).await;
    let stall_after = Duration::from_millis(300);
    let settings = ConsumerSettings {
        stall_after,
        handler_timeout: Some(Duration::from_secs(2)),
        retries: FAST,
        ..broker.settings(&topic)
    };
    let consumer = Consumer::connect(settings).unwrap();
    let control = consumer.control();
    let calls = AtomicU32::new(0);
    let handler = async |_: &[ReceivedMessage<'_>]| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            std::future::pending::<()>().await;
        }
        Ok(())
    };
    let watch = async {
        let reason = loop {
            match control.health() {
                Health::Stalled { reason, .. } => break reason,
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        };
        let expected = format!("the handler of message 0 of {topic}[0] has not returned");
        assert_eq!(reason, expected);
        while control.counts().handled < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        control.stop();
    };
    let (counts, ()) = tokio::join!(consumer.run(handler), watch);
    assert_eq!(counts.unwrap().retries, 1);
}

#[tokio::test]
async fn producer_waits_for_room_instead_of_failing() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    let mut settings =
        ProducerSettings { queue_max: 10, ..ProducerSettings::new(broker.address()) };
    settings.properties.insert("queue.buffering.max.messages".to_owned(), "5".to_owned());
    let producer = Producer::connect(settings).unwrap();
    for number in 0..1_000u32 {
        let record = Record::to(&topic, number.to_string().into_bytes()).key("0");
        producer.enqueue(&record).await.unwrap();
    }
    producer.flush().await.unwrap();
    let last = producer.send(&Record::to(&topic, b"1000".to_vec()).key("0")).await.unwrap();
    assert_eq!((last.partition, last.offset), (0, 1_000));
}

#[tokio::test]
async fn producer_refuses_messages_while_its_consumers_are_late() {
    let broker = Broker::get();
    let topic = broker.topic(2).await;
    broker.fill(&topic, 10, 4).await;
    let consumer = broker.settings(&topic);
    let limit = LagLimit {
        interval: Duration::from_millis(50),
        ..LagLimit::new(&topic, &consumer.group, 9)
    };
    let settings =
        ProducerSettings { lag_limit: Some(limit), ..ProducerSettings::new(broker.address()) };
    let producer = Producer::connect(settings).unwrap();
    let record = Record::to(&topic, b"11".to_vec());
    let lagging = SendError::Lagging { topic: topic.clone(), lag: 10, lag_max: 9 };
    assert_eq!(producer.send(&record).await, Err(lagging.clone()));
    assert_eq!(producer.enqueue(&record).await, Err(lagging));
    run_until(consumer, 10, async |_: &[ReceivedMessage<'_>]| Ok(())).await;
    let start = Instant::now();
    while let Err(refused) = producer.send(&record).await {
        assert!(start.elapsed() < Duration::from_secs(60), "{refused}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn trace_of_a_message_continues_in_the_next_one() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    let sent = TraceContext::begin(true);
    let record = Record::to(&topic, b"1".to_vec()).traced(&sent);
    broker.producer().send(&record).await.unwrap();
    let received = Mutex::new(None);
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        *received.lock().unwrap() = TraceContext::of(&batch[0]);
        Ok(())
    };
    run_until(broker.settings(&topic), 1, handler).await;
    assert_eq!(received.into_inner().unwrap(), Some(sent));
}

#[tokio::test]
async fn metrics_of_a_consumer_have_its_counts_and_lag() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    broker.fill(&topic, 3, 1).await;
    let consumer = Consumer::connect(broker.settings(&topic)).unwrap();
    let control = consumer.control();
    let watch = async {
        let start = Instant::now();
        let expected = "stream_consumer_handled_total{group=\"g\"} 3\n";
        while !control.metrics("g").contains(expected) {
            assert!(start.elapsed() < Duration::from_secs(60), "{}", control.metrics("g"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(control.metrics("g").contains("stream_consumer_healthy{group=\"g\"} 1\n"));
        control.stop();
    };
    let handler = async |_: &[ReceivedMessage<'_>]| Ok(());
    let (counts, ()) = tokio::join!(consumer.run(handler), watch);
    assert_eq!(counts.unwrap().handled, 3);
}

#[tokio::test]
async fn dropped_producer_sends_what_is_in_its_queue() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    let linger = Duration::from_millis(300);
    let settings = ProducerSettings { linger, ..ProducerSettings::new(broker.address()) };
    let producer = Producer::connect(settings).unwrap();
    for number in 0..1_000u32 {
        let record = Record::to(&topic, number.to_string().into_bytes()).key("0");
        producer.enqueue(&record).await.unwrap();
    }
    drop(producer);
    let seen = Seen::default();
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        batch.iter().for_each(|message| seen.add(message));
        Ok(())
    };
    run_until(broker.settings(&topic), 1_000, handler).await;
    seen.is_whole(1_000);
}

/// Asserts that a consumer is healthy until a condition holds.
async fn is_healthy_until(control: &Control, is_over: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_over() {
        let health = control.health();
        assert!(health.is_good(), "{health:?}");
        assert!(start.elapsed() < Duration::from_secs(60), "{health:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Settings that measure often, and call one second without progress a stall.
fn impatient(settings: ConsumerSettings) -> ConsumerSettings {
    let mut impatient = ConsumerSettings { stall_after: Duration::from_secs(1), ..settings };
    impatient.properties.insert("statistics.interval.ms".to_owned(), "50".to_owned());
    impatient
}

/// A marker follows the messages of a transaction, and no handler ever gets it.
#[tokio::test]
async fn quiet_consumer_of_transactions_is_healthy_and_has_no_lag() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker.address()).set("transactional.id", &topic);
    let producer: BaseProducer = config.create().unwrap();
    let patience = Duration::from_secs(30);
    producer.init_transactions(patience).unwrap();
    producer.begin_transaction().unwrap();
    for value in ["0", "1"] {
        producer.send(BaseRecord::<str, str>::to(&topic).key("0").payload(value)).unwrap();
    }
    producer.commit_transaction(patience).unwrap();
    for _ in 0..2 {
        let consumer = Consumer::connect(impatient(broker.settings(&topic))).unwrap();
        let control = consumer.control();
        let watch = async {
            let working = Health::Working { partitions: 1, lag: Some(0) };
            is_healthy_until(&control, || control.health() == working).await;
            let quiet = Instant::now();
            is_healthy_until(&control, || Duration::from_secs(2) < quiet.elapsed()).await;
            assert_eq!(control.health(), working);
            control.stop();
        };
        let handler = async |_: &[ReceivedMessage<'_>]| Ok(());
        tokio::join!(consumer.run(handler), watch).0.unwrap();
    }
}

#[tokio::test]
async fn first_message_after_a_quiet_time_is_no_stall() {
    let broker = Broker::get();
    let topic = broker.topic(1).await;
    broker.fill(&topic, 1, 1).await;
    let consumer = Consumer::connect(impatient(broker.settings(&topic))).unwrap();
    let control = consumer.control();
    let watch = async {
        is_healthy_until(&control, || control.counts().handled == 1).await;
        let quiet = Instant::now();
        is_healthy_until(&control, || Duration::from_secs(2) < quiet.elapsed()).await;
        broker.fill(&topic, 1, 1).await;
        is_healthy_until(&control, || control.counts().handled == 2).await;
        control.stop();
    };
    let handler = async |_: &[ReceivedMessage<'_>]| {
        tokio::time::sleep(Duration::from_millis(400)).await;
        Ok(())
    };
    tokio::join!(consumer.run(handler), watch).0.unwrap();
}

#[tokio::test]
async fn faults_at_the_start_say_what_to_do() {
    let broker = Broker::get();
    let connect = |settings| Consumer::connect(settings).map(drop).unwrap_err().to_string();
    let misspelt = connect(ConsumerSettings::new(broker.address(), "group", &["no-such-topic"]));
    assert!(misspelt.starts_with("topic no-such-topic does not exist: create it"), "{misspelt}");
    let mut settings = broker.settings("no-such-topic");
    settings.properties.insert("fetch.wait.max.ms".to_owned(), "soon".to_owned());
    let property = connect(settings);
    assert!(property.starts_with("property fetch.wait.max.ms = soon: "), "{property}");
}
