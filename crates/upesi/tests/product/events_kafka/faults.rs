//! More faults of brokers: messages of other programs, jumps of the clock, a full disk.

use std::fs;
use std::time::Duration;

use kafka_testkit::{Cluster, ClusterOptions};
use rdkafka::config::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use tempfile::TempDir;

use super::{
    FOREIGN, PATIENCE, TOPIC, assert_all_published, assert_published, configuration, start_broker,
    wait_for_state, wait_until_published,
};
use crate::events::all;
use crate::kafka_faults::fill_up;
use crate::support::clock::Clocks;
use crate::support::namespaces::{Mounted, Need, apart_within};
use crate::support::scheme::{Admin, Scheme};

const BROKERS: &str = "brokers";
const TEN_MINUTES: i64 = 600;
const LONG: Duration = Duration::from_secs(300);
/// Disk space of the broker.
const MEBIBYTES: u32 = 96;

/// Sends messages of another program to the topics of events and of the position.
fn send_foreign(cluster: &Cluster) {
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", cluster.bootstrap()).create().unwrap();
    for topic in [TOPIC, "upesi-events-position"] {
        for value in ["\"of another program\"", "{\"logIndex\":1}"] {
            let header = Header { key: "content-type", value: Some(FOREIGN) };
            let headers = OwnedHeaders::new().insert(header);
            let record = BaseRecord::to(topic).key("other").payload(value).headers(headers);
            producer.send(record).unwrap();
        }
    }
    producer.flush(PATIENCE).unwrap();
}

#[test]
fn messages_of_other_programs_change_nothing() {
    let directory = TempDir::new().unwrap();
    let cluster = start_broker(&directory);
    let mut scheme = Scheme::configured(&configuration(&cluster, ""));
    for _ in 0..2 {
        scheme.pay("1");
        scheme.wait_until_delivered();
        wait_until_published(&scheme.admin);
        send_foreign(&cluster);
        scheme.switch.kill();
        scheme.switch = scheme.home.serve();
        scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    }
    wait_until_published(&scheme.admin);
    assert_published(&cluster, TOPIC, &all(&scheme.admin, 1_000));
    scheme.end();
}

/// The brokers may end a transaction at a jump. The publisher then repeats it.
#[test]
fn jumps_of_the_brokers_clock_lose_and_repeat_nothing() {
    let (directory, clocks) = (TempDir::new().unwrap(), Clocks::new());
    clocks.set(BROKERS, 0);
    let mut options = ClusterOptions::new(1, directory.path());
    options.environment.extend(clocks.variables(BROKERS));
    let cluster = Cluster::start(options, &mut |line| println!("{line}")).unwrap();
    let scheme = Scheme::configured(&configuration(&cluster, ""));
    for seconds in [0, TEN_MINUTES, 0, -TEN_MINUTES, 0] {
        clocks.set(BROKERS, seconds);
        scheme.pay("1");
        scheme.wait_until_delivered();
        assert_all_published(&cluster, &scheme.admin);
    }
}

/// A broker that cannot write exits. With free space it continues.
#[test]
fn full_disk_of_the_broker_loses_and_repeats_nothing() {
    let test = "events_kafka::faults::full_disk_of_the_broker_loses_and_repeats_nothing";
    apart_within(test, (Need::Memory, LONG), || {
        let directory = TempDir::new().unwrap();
        let place = directory.path().join("broker-1");
        let _disk = Mounted::memory(&place, MEBIBYTES);
        let mut cluster = start_broker(&directory);
        let scheme = Scheme::configured(&configuration(&cluster, ""));
        scheme.pay("1");
        wait_until_published(&scheme.admin);
        let ballast = place.join("ballast");
        fill_up(&ballast);
        // Transfers continue until the broker has no place for their events.
        while scheme.admin.json("/status")["eventPublishing"]["state"] == "PUBLISHING" {
            scheme.pay("1");
        }
        wait_for_state(&scheme.admin, "FAILING");
        scheme.pay("1");
        scheme.wait_until_delivered();
        fs::remove_file(&ballast).unwrap();
        cluster.kill(1);
        cluster.restart(1).unwrap();
        assert_all_published(&cluster, &scheme.admin);
    });
}
