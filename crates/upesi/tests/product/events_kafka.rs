//! Events on real brokers: each once for readers of committed messages, in order per key, whatever
//! ends or fails.

mod counts;
mod faults;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use kafka_testkit::{Cluster, ClusterOptions};
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{Headers as _, Message as _};
use rdkafka::{Offset, TopicPartitionList};
use serde_json::Value;
use tempfile::TempDir;
use testkit::http::Connection;

use crate::events::all;
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Printed, finish_within};

/// Longest wait for brokers and the publisher.
const PATIENCE: Duration = Duration::from_secs(90);
const TOPIC: &str = "upesi-events";
/// The content type of messages of another program.
const FOREIGN: &str = "text/plain";
/// Kills of the switch in a build, and in a proof.
const KILLS: u64 = 3;
const KILLS_OF_PROOF: u64 = 20;
/// The packages of the reference's library, as `upesi-bench stream --against reference` has them.
const PACKAGES: &str = include_str!("../../../upesi-bench/src/stream/reference/package.json");
const CONSUMER: &str = include_str!("events_kafka/consume.cjs");

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
    assert_equal(committed(cluster, topic), expected);
}

fn assert_equal(mut read: Vec<Read>, expected: &[Value]) {
    read.retain(|message| message.content_type != FOREIGN);
    let id = |event: &Value| event["id"].as_str().unwrap().to_owned();
    let places: BTreeMap<String, usize> =
        expected.iter().enumerate().map(|(at, event)| (id(event), at)).collect();
    let mut seen = BTreeSet::new();
    let mut last: BTreeMap<String, (i32, usize)> = BTreeMap::new();
    for Read { partition, key, value, .. } in &read {
        let id = id(value);
        let place = *places.get(&id).unwrap_or_else(|| panic!("{id} is no event: {value}"));
        assert_eq!(*value, expected[place]);
        assert!(seen.insert(id.clone()), "{id} is there twice");
        if let Some((before_in, before)) = last.insert(key.clone(), (*partition, place)) {
            assert_eq!(before_in, *partition, "{key} has one partition");
            assert!(before < place, "{key} is in order");
        }
    }
    let missing: Vec<_> = places.keys().filter(|id| !seen.contains(*id)).collect();
    assert!(missing.is_empty(), "not published: {missing:?}");
}

/// Waits until all is published, and compares the topic with the events of the admin API.
fn assert_all_published(cluster: &Cluster, admin: &Admin) -> usize {
    let deadline = Instant::now() + PATIENCE;
    loop {
        wait_until_published(admin);
        // Results of deliveries may be recorded meanwhile, so both are read only once.
        let (expected, read) = (all(admin, 1_000), committed(cluster, TOPIC));
        let count = read.len();
        if expected.len() == count || deadline < Instant::now() {
            assert_equal(read, &expected);
            return count;
        }
    }
}

/// Waits until the publisher has a state, and returns its report.
fn wait_for_state(admin: &Admin, state: &str) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let publishing = admin.json("/status")["eventPublishing"].clone();
        if publishing["state"] == state {
            return publishing;
        }
        assert!(Instant::now() < deadline, "never {state}: {publishing}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn delete_topic(cluster: &Cluster, topic: &str) {
    let admin: AdminClient<DefaultClientContext> =
        ClientConfig::new().set("bootstrap.servers", cluster.bootstrap()).create().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let deleted = runtime.block_on(admin.delete_topics(&[topic], &AdminOptions::new())).unwrap();
    assert!(deleted[0].is_ok(), "{deleted:?}");
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

/// Two threads that play transfers while the switch is killed and started again.
struct Load {
    address: Arc<Mutex<SocketAddr>>,
    committed: Arc<AtomicU64>,
    stopped: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(address: SocketAddr) -> Self {
        let address = Arc::new(Mutex::new(address));
        let (committed, stopped) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let worker = |_| {
            let (address, committed) = (Arc::clone(&address), Arc::clone(&committed));
            let stopped = Arc::clone(&stopped);
            std::thread::spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    let address = *address.lock().unwrap();
                    // A killed switch answers nothing.
                    if pay_once(address).is_ok() {
                        committed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        };
        let threads = (0..2).map(worker).collect();
        Self { address, committed, stopped, threads }
    }

    fn wait_for(&self, more: u64) {
        let wanted = self.committed.load(Ordering::Relaxed) + more;
        let deadline = Instant::now() + PATIENCE;
        while self.committed.load(Ordering::Relaxed) < wanted {
            assert!(Instant::now() < deadline, "no transfers");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

fn pay_once(address: SocketAddr) -> std::io::Result<()> {
    let transfer = Transfer::of("0.01");
    let mut connection = Connection::open(address)?;
    for message in [transfer.prepare(), transfer.fulfil("COMMITTED")] {
        connection.exchange(&message.render())?;
    }
    Ok(())
}

#[test]
fn every_event_is_published_once_when_the_switch_is_killed_under_load() {
    let kills = std::env::var("UPESI_PROOF_SECONDS").map_or(KILLS, |_| KILLS_OF_PROOF);
    let directory = TempDir::new().unwrap();
    let cluster = start_broker(&directory);
    let mut scheme = Scheme::configured(&configuration(&cluster, ""));
    let load = Load::start(scheme.switch.fspiop);
    let started = Instant::now();
    for _ in 0..kills {
        // Random enough: the lowest bits of the time.
        load.wait_for(1 + u64::from(started.elapsed().subsec_micros()) % 100);
        scheme.switch.kill();
        scheme.switch = scheme.home.serve();
        *load.address.lock().unwrap() = scheme.switch.fspiop;
        scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    }
    load.stop();
    scheme.wait_until_delivered();
    let count = assert_all_published(&cluster, &scheme.admin);
    println!("{count} events, {kills} kills");
    scheme.end();
}

#[test]
fn brokers_and_topics_that_fail_lose_and_repeat_nothing() {
    let directory = TempDir::new().unwrap();
    let mut cluster = start_broker(&directory);
    let scheme = Scheme::configured(&configuration(&cluster, ""));
    scheme.pay("1");
    wait_until_published(&scheme.admin);
    cluster.pause(1);
    scheme.pay("2");
    scheme.wait_until_delivered();
    let failing = wait_for_state(&scheme.admin, "FAILING");
    assert!(0 < failing["recordsAfter"].as_u64().unwrap(), "{failing}");
    let alarms = scheme.admin.json("/status")["alarms"].clone();
    assert!(alarms.as_array().unwrap().iter().any(|alarm| alarm["subject"] == "events"));
    cluster.resume(1);
    assert_all_published(&cluster, &scheme.admin);
    cluster.kill(1);
    scheme.pay("3");
    wait_for_state(&scheme.admin, "FAILING");
    cluster.restart(1).unwrap();
    assert_all_published(&cluster, &scheme.admin);

    let before = all(&scheme.admin, 1_000).len();
    delete_topic(&cluster, TOPIC);
    scheme.pay("4");
    scheme.wait_until_delivered();
    wait_until_published(&scheme.admin);
    let events = all(&scheme.admin, 1_000);
    assert_published(&cluster, TOPIC, &events[before..]);

    delete_topic(&cluster, "upesi-events-position");
    scheme.pay("5");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let failing = wait_for_state(&scheme.admin, "FAILING");
        if failing["failing"].as_str().unwrap().contains("has lost the position") {
            break;
        }
        assert!(Instant::now() < deadline, "{failing}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_older_one_of_two_publishers_is_fenced_and_stops() {
    let directory = TempDir::new().unwrap();
    let cluster = start_broker(&directory);
    let text = configuration(&cluster, "kinds = [\"transfers\"]\n");
    let mut scheme = Scheme::configured(&text);
    scheme.pay("1");
    wait_until_published(&scheme.admin);
    scheme.switch.stop(rustix::process::Signal::TERM);
    let copy = Home::configured(&text);
    let copied = Command::new("cp").arg("-a").args([scheme.home.data(), copy.data()]).status();
    assert!(copied.unwrap().success());
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    wait_for_state(&scheme.admin, "PUBLISHING");
    let second = copy.serve();
    wait_for_state(&Admin::new(&copy, &second), "PUBLISHING");
    scheme.pay("2");
    let fenced = wait_for_state(&scheme.admin, "FENCED");
    assert_eq!(fenced["failing"], "another process publishes the events of this log");
    assert_eq!(committed(&cluster, TOPIC).len(), 2, "the first transfer");
    scheme.pay("3");
    scheme.switch.wait_for_complaint("another process publishes the events of this log");
}

#[test]
fn another_node_continues_when_the_publishing_one_is_killed() {
    let directory = TempDir::new().unwrap();
    let cluster = start_broker(&directory);
    let log = format!("kafka://{}/scheme", cluster.bootstrap());
    let home = |node: &str| {
        let home = Home::configured(&configuration(&cluster, ""));
        home.with_arguments(&["--log", &log, "--node", node])
    };
    let scheme = Scheme::at(home("a"));
    let second_home = home("b");
    let second = second_home.serve();
    let admin = Admin::new(&second_home, &second);
    scheme.pay("1");
    wait_until_published(&scheme.admin);
    wait_for_state(&admin, "STANDBY");
    scheme.switch.kill();
    wait_for_state(&admin, "PUBLISHING");
    pay_once(second.fspiop).unwrap();
    assert_all_published(&cluster, &admin);
}

#[test]
fn consumers_of_the_reference_library_read_its_envelope() {
    let directory = TempDir::new().unwrap();
    let cluster = start_broker(&directory);
    let more = "envelope = \"mojaloop\"\nkinds = [\"transfers\", \"positions\"]\n";
    let scheme = Scheme::configured(&configuration(&cluster, more));
    let paid = scheme.pay("30.5");
    let refused = Transfer::of("99999999");
    scheme.send(&refused.prepare(), 202);
    wait_until_published(&scheme.admin);
    let read = read_with_reference(&cluster, "topic-notification-event", 3);
    let of = |transfer: &Transfer| -> Vec<&Value> {
        let its = read.iter().filter(|message| message["key"] == transfer.id.as_str());
        its.map(|message| &message["value"]).collect()
    };
    let event = |message: &Value| message["metadata"]["event"].clone();
    let actions: Vec<_> = of(&paid).into_iter().map(|it| event(it)["action"].clone()).collect();
    assert_eq!(actions, ["prepare", "commit"]);
    let first = of(&paid)[0];
    assert_eq!([&first["from"], &first["to"]], ["payerfsp", "payeefsp"]);
    assert_eq!(event(first)["state"]["status"], "success");
    let payload = first["content"]["payload"].as_str().unwrap().split_once(";base64,").unwrap().1;
    let payload: Value = serde_json::from_slice(&STANDARD.decode(payload).unwrap()).unwrap();
    assert_eq!(payload["amount"]["amount"], "30.5");
    let error = event(of(&refused)[0]);
    assert_eq!(error["state"]["status"], "error");
    assert_eq!(error["state"]["code"], "4001", "{error}");
    let positions = read_with_reference(&cluster, "topic-transfer-position", 2);
    let types: Vec<_> = positions.iter().map(|it| event(&it["value"])["type"].clone()).collect();
    assert_eq!(types, ["position", "position"]);
    scheme.end();
}

/// Reads messages with central-services-stream in Node.js.
fn read_with_reference(cluster: &Cluster, topic: &str, count: usize) -> Vec<Value> {
    let cache = kafka_testkit::default_cache();
    let packages = cache.with_file_name("central-services-stream-11.9.3");
    if !packages.join("node_modules/@mojaloop/central-services-stream").exists() {
        fs::create_dir_all(&packages).unwrap();
        fs::write(packages.join("package.json"), PACKAGES).unwrap();
        let mut npm = Command::new("npm");
        npm.args(["install", "--no-audit", "--no-fund", "--silent"]).current_dir(&packages);
        finish_within(npm, Duration::from_secs(900)).succeeds();
    }
    let mut node = Command::new("node");
    node.args(["-e", CONSUMER, "--", cluster.bootstrap(), topic, &count.to_string()]);
    node.current_dir(&packages).env("LOG_LEVEL", "error");
    let output = finish_within(node, PATIENCE);
    let output = output.succeeds().out();
    let lines = output.lines().filter(|line| line.starts_with("{\"key\""));
    let read: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read.len(), count, "{output}");
    read
}
