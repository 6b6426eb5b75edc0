//! Events on real brokers: each once for readers of committed messages, in order per key, whatever
//! ends or fails.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;
use tempfile::TempDir;

use crate::events::all;
use crate::support::scheme::{Admin, Scheme};

/// Longest wait for brokers and the publisher.
const PATIENCE: Duration = Duration::from_secs(90);

fn start_broker(directory: &TempDir) -> Cluster {
    let options = ClusterOptions::new(1, directory.path());
    Cluster::start(options, &mut |line| println!("{line}")).unwrap()
}

fn configuration(cluster: &Cluster, more: &str) -> String {
    format!("[events]\nbrokers = \"{}\"\n{more}", cluster.bootstrap())
}

/// A message of a topic.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Read {
    pub(crate) partition: i32,
    pub(crate) key: String,
    pub(crate) content_type: String,
    pub(crate) value: Value,
}

/// All committed messages of a topic, by partition.
pub(crate) fn committed(cluster: &Cluster, topic: &str) -> Vec<Read> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap())
        .set("group.id", "reader")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap();
    let metadata = consumer.fetch_metadata(Some(topic), PATIENCE).unwrap();
    let partitions: Vec<i32> =
        metadata.topics()[0].partitions().iter().map(|partition| partition.id()).collect();
    let mut places = TopicPartitionList::new();
    for partition in &partitions {
        places.add_partition_offset(topic, *partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&places).unwrap();
    let (mut read, mut ended, deadline) = (Vec::new(), 0, Instant::now() + PATIENCE);
    while ended < partitions.len() {
        assert!(Instant::now() < deadline, "topic {topic} is never read to its end");
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                let text = |bytes: Option<&[u8]>| {
                    String::from_utf8(bytes.unwrap_or_default().to_vec()).unwrap()
                };
                let headers = message.headers().unwrap();
                let header = headers.iter().find(|header| header.key == "content-type").unwrap();
                read.push(Read {
                    partition: message.partition(),
                    key: text(message.key()),
                    content_type: text(header.value),
                    value: serde_json::from_slice(message.payload().unwrap()).unwrap(),
                });
            }
            Some(Err(KafkaError::PartitionEOF(_))) => ended += 1,
            Some(Err(error)) => panic!("{error}"),
            None => {}
        }
    }
    read
}

/// Waits until all events up to the end of the log are published.
pub(crate) fn wait_until_published(admin: &Admin) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let end = admin.json("/events?after=0&limit=1")["end"].as_u64().unwrap();
        let publishing = admin.json("/status")["eventPublishing"].clone();
        if publishing["logIndex"].as_u64().is_some_and(|log_index| end <= log_index) {
            return publishing;
        }
        assert!(Instant::now() < deadline, "not published up to {end}: {publishing}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Asserts that a topic has exactly these events, and those of each key in order.
fn assert_published(cluster: &Cluster, topic: &str, expected: &[Value]) {
    let read = committed(cluster, topic);
    assert_eq!(read.len(), expected.len(), "each event once");
    let mut by_key: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for message in &read {
        by_key.entry(message.key.clone()).or_default().push(&message.value);
    }
    let mut found = 0;
    for (key, values) in by_key {
        let is_of_key = |event: &&Value| values.iter().any(|value| value["id"] == event["id"]);
        let its: Vec<&Value> = expected.iter().filter(is_of_key).collect();
        assert_eq!(values, its, "events of {key} in order");
        found += its.len();
    }
    assert_eq!(found, expected.len());
}

/// The events of these kinds in `GET /events`.
fn of_kinds(admin: &Admin, kinds: &str) -> Vec<Value> {
    let wanted: Vec<&str> = kinds.split(',').collect();
    let events = all(admin, 1_000).into_iter();
    events.filter(|event| wanted.contains(&kind(event))).collect()
}

/// The second part of the type, such as `transfer`.
fn kind(event: &Value) -> &str {
    event["type"].as_str().unwrap().split('.').nth(1).unwrap()
}

#[test]
fn transfers_are_published_once_across_a_kill_and_a_restart() {
    let directory = TempDir::new().unwrap();
    let cluster = start_broker(&directory);
    let mut scheme = Scheme::configured(&configuration(&cluster, "kinds = [\"transfers\"]\n"));
    for amount in ["1", "2", "3"] {
        scheme.pay(amount);
    }
    let publishing = wait_until_published(&scheme.admin);
    assert_eq!(publishing["state"], "PUBLISHING");
    scheme.switch.kill();
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    scheme.pay("4");
    wait_until_published(&scheme.admin);
    let expected = of_kinds(&scheme.admin, "transfer");
    assert_eq!(expected.len(), 8, "reserved and committed");
    assert_published(&cluster, "upesi-events", &expected);
    let first = &committed(&cluster, "upesi-events")[0];
    assert_eq!(first.content_type, "application/cloudevents+json; charset=UTF-8");
    assert_eq!(first.key, first.value["data"]["transferId"].as_str().unwrap());
    assert_eq!(scheme.admin.metric("upesi_events_published_total"), 2, "since the start");
    assert_eq!(scheme.admin.metric("upesi_events_lag_records"), 0);
    scheme.end();
}
