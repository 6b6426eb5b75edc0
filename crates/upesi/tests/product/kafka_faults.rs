//! More faults of nodes over real brokers: the disk of a broker or a node is full; a node is
//! suspended for a minute, returns with an old disk, loses power or diverges; another program
//! writes to the topic.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::kafka::{
    BACK_WITHIN, Node, cluster_of, home, owner, play, prove, start_brokers, wait_until,
};
use crate::support::namespaces::{Mounted, Need, apart_within};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Ports, Printed, files, set_aside_in};

/// The topic of these tests.
const TOPIC: &str = "scheme";
const MINUTE: Duration = Duration::from_secs(60);
const LONG: Duration = Duration::from_secs(300);
/// Interval between transfers of a test that waits for another event.
const PAUSE: Duration = Duration::from_millis(50);
/// Disk space of each broker.
const MEBIBYTES: u32 = 96;

/// A broker that cannot write exits, and is treated as a failed broker.
#[test]
fn full_broker_disk_loses_nothing() {
    let test = "kafka_faults::full_broker_disk_loses_nothing";
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

/// Fills a file system with a file.
pub(crate) fn fill_up(path: &Path) {
    let mut file = File::create(path).unwrap();
    for length in [1 << 16, 1 << 12, 1] {
        while file.write_all(&vec![1; length]).is_ok() {}
    }
}

/// A node that cannot write its copy stops. The others continue. With free space it catches up.
#[test]
fn node_with_a_full_disk_stops_and_recovers() {
    let test = "kafka_faults::node_with_a_full_disk_stops_and_recovers";
    apart_within(test, (Need::Memory, LONG), || {
        let directory = TempDir::new().unwrap();
        let cluster =
            Cluster::start(ClusterOptions::new(1, directory.path()), &mut |_| ()).unwrap();
        let scheme = Scheme::at(home(&cluster, "a"));
        let small = home(&cluster, "b");
        let _disk = Mounted::memory(&small.data(), MEBIBYTES);
        let mut b = small.serve();
        play(&scheme, [scheme.switch.fspiop, b.fspiop], "1");
        let ballast = small.data().join("ballast");
        fill_up(&ballast);
        let since = Instant::now();
        let mut played = 1;
        while !b.has_ended() {
            assert!(since.elapsed() < MINUTE, "it goes on: {}", b.complaints());
            play(&scheme, [scheme.switch.fspiop; 2], "1");
            std::thread::sleep(PAUSE);
            played += 1;
        }
        println!("it ended {:.1} s after its disk was full", since.elapsed().as_secs_f64());
        let (status, output_text) = b.end();
        assert!(
            !status.success() && output_text.contains("the disk is full"),
            "{status}: {output_text}"
        );
        play(&scheme, [scheme.switch.fspiop; 2], "1");
        let output_text = small.serve_in_vain(Ports::free());
        assert!(!output_text.status.success(), "there is no room yet");
        fs::remove_file(ballast).unwrap();
        let b = Node { switch: small.serve(), home: small };
        let position = (played + 1).to_string();
        assert_eq!(b.admin().position("payerfsp"), position);
        play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "1");
        scheme.switch.stop(Signal::TERM);
        b.switch.stop(Signal::TERM);
        prove(&[&scheme.home, &b.home]);
    });
}

/// A copy is not synced, so a power loss can destroy any part of its end. A start continues from
/// the intact part, or reports that the directory must be empty, and what to do.
#[test]
fn node_recovers_from_a_power_loss() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(ClusterOptions::new(1, directory.path()), &mut |_| ()).unwrap();
    let scheme = Scheme::at(home(&cluster, "a"));
    let mut b = Node::start(&cluster, "b");
    let mut total = 0;
    for (what, harm) in LOSSES {
        play(&scheme, [scheme.switch.fspiop, b.switch.fspiop], "10");
        b.switch.signal(Signal::KILL);
        let home = b.home;
        drop(b.switch);
        harm(&newest_segment(&home));
        play(&scheme, [scheme.switch.fspiop; 2], "10");
        let switch = home.serve_or_not().unwrap_or_else(|output_text| {
            println!("{what}: {output_text}");
            assert!(output_text.contains("start with an empty one"), "{what}: {output_text}");
            fs::remove_dir_all(home.data()).unwrap();
            home.serve()
        });
        total += 20;
        b = Node { switch, home };
        assert_eq!(b.admin().position("payerfsp"), total.to_string(), "{what}");
    }
    play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "10");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home]);
}

/// The loss of data in a segment, and the function that causes it.
type Loss = (&'static str, fn(&Path));

/// Different losses of the last pages.
const LOSSES: [Loss; 4] = [
    ("half of its last frame", |segment| cut(segment, 100)),
    ("its last pages", |segment| cut(segment, 3 * 4_096)),
    ("pages in the middle of its end", |segment| overwrite_with_zeros(segment, 2 * 4_096, 4_096)),
    ("all but its length", |segment| overwrite_with_zeros(segment, 4_096, 4_096)),
];

fn cut(path: &Path, bytes: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

fn overwrite_with_zeros(path: &Path, before_end: u64, bytes: usize) {
    let file = File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.write_all_at(&vec![0; bytes], length - before_end).unwrap();
}

fn newest_segment(home: &Home) -> PathBuf {
    let all = files(&home.data()).into_iter();
    all.filter(|path| path.extension().is_some_and(|it| it == "segment")).max().unwrap()
}

/// The broker that leads the topic fails, or is suspended with open connections. Another one takes
/// over, and service is restored long before any request is refused.
#[test]
fn killed_and_suspended_leaders_lose_nothing() {
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

/// A node is suspended for a minute. Its work continues on other nodes. When it resumes, it catches
/// up and gets its lanes back.
#[test]
fn node_suspended_for_a_minute_recovers() {
    let directory = TempDir::new().unwrap();
    let cluster = start_brokers(&directory);
    let scheme = Scheme::at(home(&cluster, "a"));
    let (b, c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    let served = owner(&scheme.admin, "payeefsp", 3);
    // The admin API of node a is used, so the other node with pending callbacks is suspended.
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
    // The previous connection has been closed meanwhile.
    let admin = Admin::new(&scheme.home, &scheme.switch);
    cluster_of(&admin, 3);
    wait_until(|| owner(&admin, "payeefsp", 3) == served);
    // After more than a minute, the other nodes have compared their states.
    assert!(cluster_of(&admin, 3)["sameStateAt"].is_u64(), "{}", cluster_of(&admin, 3));
    play(&scheme, [still.switch.fspiop, scheme.switch.fspiop], "1");
    let total = (count + 1).to_string();
    assert_eq!(still.admin().position("payerfsp"), total, "it has applied what it missed");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home, &c.home]);
}

/// A node that reads a record differently from all others has diverged. It stops and reports the
/// record. With an empty directory it joins again.
#[test]
fn diverging_node_is_detected() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(ClusterOptions::new(1, directory.path()), &mut |_| ()).unwrap();
    let scheme = Scheme::at(home(&cluster, "a"));
    let (b, c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    let doors = [scheme.switch.fspiop, b.switch.fspiop];
    play(&scheme, doors, "10");
    cluster_of(&scheme.admin, 3);
    c.switch.stop(Signal::TERM);
    let transfer = play(&scheme, doors, "10");
    b.switch.stop(Signal::TERM);
    let log_index = set_aside_in(&c.home, &b.home, &transfer.id);
    let b = Node { switch: b.home.serve(), home: b.home };
    // Both other nodes have published their state hashes of that index.
    let admin = Admin::new(&scheme.home, &scheme.switch);
    let has_published =
        |node: &serde_json::Value| log_index + 4 < node["logIndex"].as_u64().unwrap();
    wait_until(|| cluster_of(&admin, 2)["nodes"].as_array().unwrap().iter().all(has_published));

    let output_text = c.home.serve_in_vain(Ports::free()).fails();
    assert!(output_text.contains("replica: state differs from "), "{output_text}");
    assert!(output_text.contains("start it with an empty one"), "{output_text}");
    play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "10");
    fs::remove_dir_all(c.home.data()).unwrap();
    let c = Node { switch: c.home.serve(), home: c.home };
    assert_eq!(c.admin().position("payerfsp"), "30");
    let output_text = cluster_of(&admin, 3);
    let against = |node: &serde_json::Value| node["contradictsAt"].is_null();
    assert!(output_text["nodes"].as_array().unwrap().iter().all(against), "{output_text}");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home, &c.home]);
}

/// A directory of the previous day catches up from the topic. Foreign messages in the topic are
/// skipped, reported once and counted. The start message of a late node is ignored.
#[test]
fn stale_disk_and_foreign_messages_are_refused() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(ClusterOptions::new(1, directory.path()), &mut |_| ()).unwrap();
    let scheme = Scheme::at(home(&cluster, "a"));
    let b = Node::start(&cluster, "b");
    play(&scheme, [scheme.switch.fspiop, b.switch.fspiop], "10");
    b.switch.stop(Signal::TERM);
    let old = TempDir::new().unwrap();
    copy(&b.home, old.path());
    let b = Node { switch: b.home.serve(), home: b.home };
    play(&scheme, [scheme.switch.fspiop, b.switch.fspiop], "10");
    publish_foreign_messages(&cluster);
    play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "10");
    // The figures are updated with a short delay.
    wait_until(|| cluster_of(&scheme.admin, 2)["foreignMessages"] != 0);
    b.switch.stop(Signal::TERM);

    fs::remove_dir_all(b.home.data()).unwrap();
    fs::rename(old.path(), b.home.data()).unwrap();
    let b = Node { switch: b.home.serve(), home: b.home };
    assert!(
        b.switch.greeting.contains("messages that are missing in the local copy"),
        "{}",
        b.switch.greeting
    );
    assert_eq!(b.admin().position("payerfsp"), "30");
    let admin = Admin::new(&scheme.home, &scheme.switch);
    assert_eq!(cluster_of(&admin, 2)["foreignMessages"], 1);
    play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "10");
    assert_eq!(admin.position("payerfsp"), "40");

    // A record that only a later program can read stops every node, and each start, with advice in
    // the message.
    let mut later = [0; 144];
    later[..6].copy_from_slice(b"UpBu\x09\x00");
    later[8] = 144;
    publish(&cluster, &[&later]);
    let advice = "was written by a newer program";
    for switch in [scheme.switch, b.switch] {
        let (status, output_text) = switch.end();
        assert!(!status.success() && output_text.contains(advice), "{output_text}");
    }
    let output_text = b.home.serve_in_vain(Ports::free()).err();
    assert!(
        output_text.contains(advice) && output_text.contains("upgrade this node"),
        "{output_text}"
    );
    prove(&[&scheme.home, &b.home]);
}

/// Writes messages to the topic that no node writes, and one of a node that found no log there.
fn publish_foreign_messages(cluster: &Cluster) {
    let hub = ledger::FspName::new("Hub").unwrap();
    let founding = sequencer::GenesisMessage {
        identity: record::frame::LogIdentity([8; 16]),
        genesis: ledger::Genesis { seed: [8; 16], hub },
        node: 8,
        wall: ledger::Stamp(1),
    };
    publish(cluster, &[&founding.bundle("late"), b"hello"]);
}

/// Writes to the topic, and waits until the messages are stored.
fn publish(cluster: &Cluster, messages: &[&[u8]]) {
    use ports::Topic;

    let address: kafka::Address =
        format!("kafka://{}/{TOPIC}", cluster.bootstrap()).parse().unwrap();
    let copy = journal::LogOptions::default();
    let security = kafka::Security::default();
    let options =
        kafka::TopicOptions { node: "stranger".to_owned(), patience: MINUTE, copy, security };
    let (sink, arrivals) = std::sync::mpsc::sync_channel(4_096);
    let sink = move |arrival| sink.send(arrival).is_ok();
    let mut stream = kafka::TopicStream::start(&address, &options, 0, sink).unwrap();
    for (tag, message) in messages.iter().enumerate() {
        stream.send(message, tag as u64).unwrap();
    }
    let last = messages.last().expect("at least one message");
    loop {
        match arrivals.recv_timeout(MINUTE).unwrap() {
            ports::Arrival::Message { bytes, .. } if bytes == *last => return,
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
