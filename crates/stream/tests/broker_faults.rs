//! Consumers and producers while their broker is down, is suspended, or loses a topic.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails at that line")]

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use stream::{
    Consumer, ConsumerSettings, Control, Health, Producer, ProducerSettings, Properties,
    ReceivedMessage, Record, create_topic,
};
use tempfile::TempDir;

const TOPIC: &str = "payments";
const PATIENCE: Duration = Duration::from_secs(90);

fn start() -> (Cluster, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let options = ClusterOptions::new(1, directory.path());
    (Cluster::start(options, &mut |text| eprintln!("{text}")).unwrap(), directory)
}

fn settings(brokers: &str) -> ConsumerSettings {
    ConsumerSettings::new(brokers, "reports", &[TOPIC])
}

async fn create(brokers: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A topic of the same name may still be on its way out.
        match create_topic(brokers, &Properties::new(), TOPIC, 1, 1).await {
            Ok(true) => return,
            other => assert!(Instant::now() < deadline, "{other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn until(name: &str, is_true: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_true() {
        assert!(Instant::now() < deadline, "not yet: {name}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Does something to a cluster that takes time.
async fn change(mut cluster: Cluster, act: impl FnOnce(&mut Cluster) + Send + 'static) -> Cluster {
    let changed = tokio::task::spawn_blocking(move || {
        act(&mut cluster);
        cluster
    });
    changed.await.unwrap()
}

/// The numbers that were handled, each once, in the order of their first handling.
#[derive(Default)]
struct Handled(Mutex<(BTreeSet<u32>, Vec<u32>)>);

impl Handled {
    fn add(&self, batch: &[ReceivedMessage<'_>]) {
        let mut handled = self.0.lock().unwrap();
        for message in batch {
            let number = message.text().unwrap().parse().unwrap();
            if handled.0.insert(number) {
                handled.1.push(number);
            }
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.0.lock().unwrap().1.len()).unwrap()
    }
}

fn record(number: u32) -> Record {
    Record::to(TOPIC, number.to_string().into_bytes()).key("0")
}

#[tokio::test]
async fn nothing_is_lost_or_sent_twice_while_the_broker_is_killed_and_suspended() {
    let (cluster, _directory) = start();
    let brokers = cluster.bootstrap().to_owned();
    create(&brokers).await;
    let consumer = Consumer::connect(settings(&brokers)).unwrap();
    let (control, handled) = (consumer.control(), Handled::default());
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        handled.add(batch);
        Ok(())
    };
    let producer = Producer::connect(ProducerSettings::new(&brokers)).unwrap();
    let (sent, is_over) = (AtomicU32::new(0), AtomicBool::new(false));
    let feed = async {
        while !is_over.load(Ordering::Relaxed) {
            producer.enqueue(&record(sent.fetch_add(1, Ordering::Relaxed))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let more = async |name| {
        let goal = handled.count() + 200;
        until(name, || goal <= handled.count() && control.health().is_good()).await;
    };
    let faults = async {
        more("messages at first").await;
        let cluster = change(cluster, |cluster| cluster.kill(1)).await;
        let is_down = || matches!(control.health(), Health::Unreachable { .. });
        until("the broker is missed", is_down).await;
        // Longer than the interval of measurements (5 s): the state must not depend on one of them.
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(is_down(), "{:?}", control.health());
        let cluster = change(cluster, |cluster| cluster.restart(1).unwrap()).await;
        more("messages after the restart").await;
        cluster.pause(1);
        tokio::time::sleep(Duration::from_secs(3)).await;
        cluster.resume(1);
        more("messages after the suspension").await;
        is_over.store(true, Ordering::Relaxed);
        // The producer has come back too. Its messages are in the topic once.
        let all = sent.load(Ordering::Relaxed);
        producer.flush().await.unwrap();
        let last = producer.send(&record(all)).await.unwrap();
        assert_eq!(last.offset, i64::from(all));
        until("all messages", || all < handled.count()).await;
        control.stop();
        cluster
    };
    let (counts, (), _cluster) = tokio::join!(consumer.run(handler), feed, faults);
    counts.unwrap();
    let order = handled.0.into_inner().unwrap().1;
    assert!(order.is_sorted(), "a later message was handled first");
}

/// Waits for a message to be handled by a consumer that is healthy.
async fn pays(producer: &Producer, control: &Control, handled: &Handled, number: u32) {
    producer.send(&record(number)).await.unwrap();
    let is_handled = || handled.0.lock().unwrap().0.contains(&number);
    until("the message is handled", || is_handled() && control.health().is_good()).await;
}

#[tokio::test]
async fn consumer_reports_a_deleted_topic_and_continues_with_the_new_one() {
    let (cluster, _directory) = start();
    let brokers = cluster.bootstrap().to_owned();
    create(&brokers).await;
    let mut settings = settings(&brokers);
    settings.properties.insert("topic.metadata.refresh.interval.ms".to_owned(), "500".to_owned());
    let consumer = Consumer::connect(settings).unwrap();
    let (control, handled) = (consumer.control(), Handled::default());
    let handler = async |batch: &[ReceivedMessage<'_>]| {
        handled.add(batch);
        Ok(())
    };
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", &brokers).create().unwrap();
    let play = async {
        let producer = Producer::connect(ProducerSettings::new(&brokers)).unwrap();
        pays(&producer, &control, &handled, 1).await;
        admin.delete_topics(&[TOPIC], &AdminOptions::new()).await.unwrap()[0].clone().unwrap();
        let is_missed = || match control.health() {
            Health::Unreachable { reason } => reason.contains("Unknown topic"),
            _ => false,
        };
        until("the topic is missed", is_missed).await;
        create(&brokers).await;
        let producer = Producer::connect(ProducerSettings::new(&brokers)).unwrap();
        pays(&producer, &control, &handled, 2).await;
        control.stop();
    };
    let (counts, ()) = tokio::join!(consumer.run(handler), play);
    counts.unwrap();
}
