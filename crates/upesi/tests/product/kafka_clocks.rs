//! Clocks that are ten minutes off: that of a node, and those of the brokers, which stamp the log.

use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::kafka::{
    Node, cluster_of, fulfil, home, owner, prepare, prepares, prove, send, wait_for_prepare,
    wait_until,
};
use crate::support::clock::Clocks;
use crate::support::message::Transfer;
use crate::support::scheme::Scheme;
use crate::support::switch::Ports;

const TEN_MINUTES: i64 = 600;
/// Names of the clocks.
const BROKERS: &str = "brokers";
const NODE: &str = "node";

/// The clock of a single node does not affect deadlines. A forward jump of the brokers' clock is
/// rejected, although that node agrees with it. A backward jump stops time. In both cases transfers
/// continue, none expires early, and time is correct again with the clocks. The loss of a node
/// while time is stopped is noticed only afterwards, so its callbacks wait.
#[test]
fn broker_clock_ten_minutes_off_is_tolerated() {
    let (directory, clocks) = (TempDir::new().unwrap(), Clocks::new());
    clocks.set(BROKERS, 0);
    clocks.set(NODE, TEN_MINUTES);
    let mut options = ClusterOptions::new(3, directory.path());
    options.environment.extend(clocks.variables(BROKERS));
    let cluster = Cluster::start(options, &mut |line| println!("{line}")).unwrap();
    let scheme = Scheme::at(home(&cluster, "a"));
    let c = Node::start(&cluster, "c");
    let b = {
        let home = home(&cluster, "b");
        let mut command = home.command(Ports::free());
        clocks.lead(NODE, &mut command);
        let switch = home.started(command);
        Node { home, switch }
    };
    let [at_a, at_b, at_c] = [&scheme.switch, &b.switch, &c.switch].map(|switch| switch.fspiop);
    let held = || cluster_of(&scheme.admin, 3)["heldMilliseconds"].as_u64().unwrap();
    let ahead = 1_000 * (TEN_MINUTES as u64 - 10);

    commit(&scheme, [at_b, at_a]);
    // It treats a current fulfilment as one of the past when it receives the message. Other nodes
    // accept it.
    let transfer = Transfer::of("1");
    prepare(&scheme, at_b, &transfer);
    send(at_b, &transfer.fulfil("COMMITTED"), 400);
    fulfil(&scheme, at_c, &transfer);
    expire(&scheme, at_b);
    assert_eq!(held(), 0, "a node's clock holds nothing");

    let transfer = Transfer::of("1").expiring(120_000);
    prepare(&scheme, at_a, &transfer);
    clocks.set(BROKERS, TEN_MINUTES);
    wait_until(|| ahead < held());
    for doors in [[at_a, at_c], [at_b, at_a], [at_c, at_a]] {
        commit(&scheme, doors);
    }
    expire(&scheme, at_c);
    assert!(ahead < held(), "one node that agrees is not enough");
    fulfil(&scheme, at_c, &transfer);

    clocks.set(BROKERS, 0);
    wait_until(|| held() == 0);
    commit(&scheme, [at_a, at_c]);
    expire(&scheme, at_a);

    clocks.set(BROKERS, -TEN_MINUTES);
    let transfer = Transfer::of("1").expiring(3_000);
    prepare(&scheme, at_b, &transfer);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(6) {
        commit(&scheme, [at_a, at_c]);
    }
    fulfil(&scheme, at_c, &transfer);

    assert_eq!(owner(&scheme.admin, "payeefsp", 3), "b");
    b.switch.kill();
    let transfer = Transfer::of("1").expiring(60_000);
    send(at_a, &transfer.prepare(), 202);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(6) {
        assert_eq!(prepares(&scheme, &transfer), 0, "nobody knows that b is gone");
        cluster_of(&scheme.admin, 3);
        std::thread::sleep(Duration::from_millis(100));
    }
    clocks.set(BROKERS, 0);
    wait_for_prepare(&scheme, &transfer);
    fulfil(&scheme, at_c, &transfer);
    let b = Node { switch: b.home.serve(), home: b.home };

    commit(&scheme, [at_c, at_a]);
    expire(&scheme, at_c);
    assert_eq!(held(), 0);
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home, &c.home]);
}

/// A transfer whose payee answers within a minute.
fn commit(scheme: &Scheme, [prepare_at, fulfil_at]: [std::net::SocketAddr; 2]) {
    let transfer = Transfer::of("1").expiring(60_000);
    prepare(scheme, prepare_at, &transfer);
    fulfil(scheme, fulfil_at, &transfer);
}

/// An unanswered transfer expires at its deadline, and not earlier.
fn expire(scheme: &Scheme, at: std::net::SocketAddr) {
    let (since, transfer) = (Instant::now(), Transfer::of("1").expiring(3_000));
    prepare(scheme, at, &transfer);
    scheme.payer.wait("PUT", &format!("{}/error", transfer.path()));
    let after = since.elapsed();
    assert!((2..30).contains(&after.as_secs()), "it ended after {after:?}");
}
