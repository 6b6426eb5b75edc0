//! What else may go wrong with nodes over real brokers: a broker's disk is full, a node stands
//! still for a minute or comes back from an old disk, somebody else writes to the topic.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use brokers::{Cluster, Options};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::kafka::{
    BACK_WITHIN, Node, cluster_of, home, owner, play, prove, start_brokers, wait_until,
};
use crate::support::apart::{Mounted, Need, apart_within};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, files};

/// The topic of these tests.
const TOPIC: &str = "scheme";
const MINUTE: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(300);
/// Room of each broker.
const MEBIBYTES: u32 = 96;

/// A broker that cannot write any more ends, and is as one that died.
#[test]
fn a_broker_whose_disk_is_full() {
    let test = "kafka_faults::a_broker_whose_disk_is_full";
    apart_within(test, (Need::Memory, LONG), || {
        let directory = TempDir::new().unwrap();
        let place = |number: u32| directory.path().join(format!("broker-{number}"));
        let _disks: Vec<_> =
            (1..=3).map(|number| Mounted::memory(&place(number), MEBIBYTES)).collect();
        let cluster = start_brokers(&directory);
        let scheme = Scheme::at(home(&cluster, "a"));
        let b = Node::start(&cluster, "b");
        let doors = [scheme.switch.fspiop, b.switch.fspiop];
        play(&scheme, doors, "10");
        let full = cluster.leader(TOPIC).unwrap();
        fill_up(&place(full).join("ballast"));
        let since = Instant::now();
        let mut played = 0;
        while cluster.leader(TOPIC) == Some(full) {
            assert!(since.elapsed() < MINUTE, "broker {full} still leads after {played}");
            play(&scheme, doors, "1");
            played += 1;
        }
        println!("broker {full} led for {played} more, {:.1} s", since.elapsed().as_secs_f64());
        play(&scheme, doors, "10");
        scheme.positions(&(20 + played).to_string(), &format!("-{}", 20 + played));
        scheme.switch.stop(Signal::TERM);
        b.switch.stop(Signal::TERM);
        prove(&[&scheme.home, &b.home]);
    });
}

fn fill_up(path: &Path) {
    let mut file = File::create(path).unwrap();
    for length in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; length]).is_ok() {}
    }
}

/// The broker that leads the topic dies, or stands still with its connections open: another one
/// leads, and service is back long before anybody is refused.
#[test]
fn a_leader_that_dies_and_one_that_stands_still() {
    let directory = TempDir::new().unwrap();
    let mut cluster = start_brokers(&directory);
    let scheme = Scheme::at(home(&cluster, "a"));
    let b = Node::start(&cluster, "b");
    let doors = [scheme.switch.fspiop, b.switch.fspiop];
    play(&scheme, doors, "1");
    let killed = cluster.leader(TOPIC).unwrap();
    cluster.kill(killed);
    let since = Instant::now();
    play(&scheme, doors, "1");
    println!("a transfer was whole {:.1} s after the kill", since.elapsed().as_secs_f64());
    assert!(since.elapsed() < BACK_WITHIN, "{:?}", since.elapsed());
    cluster.restart(killed).unwrap();
    play(&scheme, doors, "1");

    let still = cluster.leader(TOPIC).unwrap();
    assert_ne!(still, killed);
    cluster.pause(still);
    let since = Instant::now();
    play(&scheme, doors, "1");
    println!("a transfer was whole {:.1} s after the pause", since.elapsed().as_secs_f64());
    assert!(since.elapsed() < BACK_WITHIN, "{:?}", since.elapsed());
    cluster.resume(still);
    play(&scheme, doors, "1");
    scheme.positions("5", "-5");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home]);
}

/// For a minute a node neither hears nor says anything; its work goes on elsewhere, and when it
/// goes on it catches up and has its lanes again.
#[test]
fn a_node_that_stands_still_for_a_minute() {
    let directory = TempDir::new().unwrap();
    let cluster = start_brokers(&directory);
    let scheme = Scheme::at(home(&cluster, "a"));
    let (b, c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    let served = owner(&scheme.admin, "payeefsp", 3);
    // Node a is asked; of the others the one stands still that has something to send.
    let (still, other) = if served == "c" { (&c, &b) } else { (&b, &c) };
    still.switch.signal(Signal::STOP);
    let since = Instant::now();
    cluster_of(&scheme.admin, 2);
    let mut count = 0;
    while since.elapsed() < MINUTE {
        play(&scheme, [scheme.switch.fspiop, other.switch.fspiop], "1");
        count += 1;
        std::thread::sleep(Duration::from_millis(500));
    }
    still.switch.signal(Signal::CONT);
    // The connection of before has been closed meanwhile.
    let admin = Admin::new(&scheme.home, &scheme.switch);
    cluster_of(&admin, 3);
    wait_until(|| owner(&admin, "payeefsp", 3) == served);
    play(&scheme, [still.switch.fspiop, scheme.switch.fspiop], "1");
    let total = (count + 1).to_string();
    assert_eq!(still.admin().position("payerfsp"), total, "it has applied what it missed");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home, &c.home]);
}

/// A directory of yesterday is brought up to date from the topic. What somebody else wrote there is
/// passed over, said once and counted; a node that came too late to begin the log is nobody else.
#[test]
fn an_old_disk_and_foreign_messages() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(Options::new(1, directory.path()), &mut |_| ()).unwrap();
    let scheme = Scheme::at(home(&cluster, "a"));
    let b = Node::start(&cluster, "b");
    play(&scheme, [scheme.switch.fspiop, b.switch.fspiop], "10");
    b.switch.stop(Signal::TERM);
    let old = TempDir::new().unwrap();
    copy(&b.home, old.path());
    let b = Node { switch: b.home.serve(), home: b.home };
    play(&scheme, [scheme.switch.fspiop, b.switch.fspiop], "10");
    say_something_else(&cluster);
    play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "10");
    // What is shown lags by a moment.
    wait_until(|| cluster_of(&scheme.admin, 2)["foreignMessages"] != 0);
    b.switch.stop(Signal::TERM);

    fs::remove_dir_all(b.home.data()).unwrap();
    fs::rename(old.path(), b.home.data()).unwrap();
    let b = Node { switch: b.home.serve(), home: b.home };
    assert!(
        b.switch.greeting.contains("messages that the copy does not have"),
        "{}",
        b.switch.greeting
    );
    assert_eq!(b.admin().position("payerfsp"), "30");
    let admin = Admin::new(&scheme.home, &scheme.switch);
    assert_eq!(cluster_of(&admin, 2)["foreignMessages"], 1);
    play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "10");
    assert_eq!(admin.position("payerfsp"), "40");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home]);
}

/// Writes to the topic what no node would, and what one would that found no log there.
fn say_something_else(cluster: &Cluster) {
    use ports::Topic;

    let address: kafka::Address =
        format!("kafka://{}/{TOPIC}", cluster.bootstrap()).parse().unwrap();
    let copy = journal::Options::default();
    let security = kafka::Security::default();
    let options = kafka::Options { node: "stranger".to_owned(), patience: MINUTE, copy, security };
    let (sink, arrivals) = std::sync::mpsc::sync_channel(4_096);
    let sink = move |arrival| sink.send(arrival).is_ok();
    let mut stream = kafka::Stream::start(&address, &options, 0, sink).unwrap();
    let hub = ledger::FspName::new("Hub").unwrap();
    let founding = sequencer::Founding {
        identity: record::frame::LogIdentity([8; 16]),
        genesis: ledger::Genesis { seed: [8; 16], hub },
        node: 8,
        wall: ledger::Stamp(1),
    };
    stream.send(&founding.bundle("late"), 0).unwrap();
    stream.send(b"hello", 1).unwrap();
    // It is there when it comes back.
    loop {
        match arrivals.recv_timeout(MINUTE).unwrap() {
            ports::Arrival::Message { bytes, .. } if bytes == b"hello" => return,
            _ => {}
        }
    }
}

fn copy(home: &Home, to: &Path) {
    for path in files(&home.data()) {
        let target = to.join(path.strip_prefix(home.data()).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(&path, target).unwrap();
    }
}
