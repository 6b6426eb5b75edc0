//! A scheme starts on one switch, continues on nodes over real brokers, and returns to one switch,
//! each time with its whole history.

use std::fs;
use std::process::Command;

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::kafka::{play, send};
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, Switch, files, finish};

/// The output of a command that must succeed.
fn words(home: &Home, arguments: &[&str]) -> String {
    let output = home.offline(arguments);
    let output_text = output.err();
    assert!(output.status.success(), "{arguments:?}: {output_text}");
    output.out()
}

/// The JSON output of a command that must succeed.
fn done(home: &Home, arguments: &[&str]) -> Value {
    serde_json::from_str(&words(home, arguments)).unwrap()
}

/// The error of a command that must fail.
fn refused(home: &Home, arguments: &[&str]) -> String {
    home.offline(arguments).fails()
}

fn node(home: &Home, log: &str, name: &str) -> Switch {
    let mut command = home.command(Ports::free());
    command.args(["--log", log, "--node", name]);
    home.started(command)
}

/// The reason why a node refuses to start.
fn node_in_vain(home: &Home, log: &str, name: &str) -> String {
    let mut command = home.command(Ports::free());
    command.args(["--log", log, "--node", name]);
    finish(command).fails()
}

/// The concatenated segments of a home's log.
fn bytes(home: &Home) -> Vec<u8> {
    let mut segments = files(&home.data());
    segments.retain(|path| path.extension().is_some_and(|extension| extension == "segment"));
    segments.sort();
    segments.iter().flat_map(|segment| fs::read(segment).unwrap()).collect()
}

#[test]
fn scheme_migrates_to_brokers_and_back() {
    let directory = TempDir::new().unwrap();
    let cluster =
        Cluster::start(ClusterOptions::new(1, directory.path()), &mut |line| println!("{line}"))
            .unwrap();
    let log = format!("kafka://{}/moved", cluster.bootstrap());
    let to_topic = ["export-log", "--json", "--log", &log];

    // On one switch: three final transfers, and one in flight.
    let mut scheme = Scheme::start();
    let alone = scheme.switch.fspiop;
    let old: Vec<_> = (0..3).map(|_| play(&scheme, [alone, alone], "10")).collect();
    let waiting = Transfer::of("7").expiring(600_000);
    send(alone, &waiting.prepare(), 202);
    scheme.payee.wait("POST", "/transfers");
    scheme.wait_until_delivered();
    let in_use = refused(&scheme.home, &to_topic);
    assert!(in_use.contains("in use"), "{in_use}");
    scheme.switch.stop(Signal::TERM);

    // To a topic.
    let before = bytes(&scheme.home);
    let premature = node_in_vain(&scheme.home, &log, "a");
    assert!(premature.contains("topic moved does not exist or holds no log"), "{premature}");
    assert!(premature.contains("upesi export-log --data"), "{premature}");
    let moved = done(&scheme.home, &to_topic);
    let end = moved["end"].as_u64().unwrap().to_string();
    let at_end = ["replay", "--json", "--until", &end];
    let replayed = done(&scheme.home, &at_end);
    let proved = done(&scheme.home, &["verify", "--json"]);
    assert_eq!(done(&scheme.home, &to_topic)["moved"], 0, "it was there already");
    assert!(bytes(&scheme.home) == before);
    let mut command = Command::new(PROGRAM);
    command.arg("serve").arg("--data").arg(scheme.home.data());
    let output_text = String::from_utf8_lossy(&finish(command).stderr).into_owned();
    assert!(output_text.contains("holds the copy of a log on Kafka, topic moved"), "{output_text}");

    // It continues there, with a node that has the files and one with an empty directory.
    scheme.switch = node(&scheme.home, &log, "a");
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    let fresh = Home::new();
    let b = node(&fresh, &log, "b");
    let (at_a, at_b) = (scheme.switch.fspiop, b.fspiop);
    scheme.positions("37", "-30");
    for transfer in &old {
        send(at_b, &transfer.prepare(), 202);
        send(at_a, &transfer.get("payerfsp"), 202);
    }
    send(at_b, &waiting.fulfil("COMMITTED"), 200);
    scheme.payer.wait("PUT", &waiting.path());
    play(&scheme, [at_a, at_b], "5");
    // A third node starts from a backup of the log, and fetches later records.
    let kept = TempDir::new().unwrap();
    let place = format!("file://{}", kept.path().display());
    words(&scheme.home, &["backup", "--to", &place]);
    let newest = play(&scheme, [at_b, at_a], "5");
    let third = Home::new().with_arguments(&["--from", &place]);
    let c = node(&third, &log, "c");
    assert!(c.greeting.contains("started from the copy in file://"), "{}", c.greeting);
    assert!(c.greeting.contains("continued from the snapshot of record"), "{}", c.greeting);
    send(c.fspiop, &newest.prepare(), 202);
    send(c.fspiop, &old[0].prepare(), 202);
    assert_eq!(Admin::new(&third, &c).position("payerfsp"), "47");
    c.stop(Signal::TERM);
    scheme.wait_until_delivered();
    scheme.positions("47", "-47");
    scheme.switch.stop(Signal::TERM);
    let admin = Admin::new(&fresh, &b);
    admin.must("POST", "/snapshots", "", 202);
    admin.wait_for("upesi_snapshots_taken_total", |taken| 0 < taken);
    b.stop(Signal::TERM);
    // A fourth node takes over the directory of a stopped node without replay.
    let fourth = Home::new().with_arguments(&["--from", fresh.data().to_str().unwrap()]);
    let d = node(&fourth, &log, "d");
    assert!(d.greeting.contains("started from the directory of a node"), "{}", d.greeting);
    assert!(d.greeting.contains("continued from the snapshot of record"), "{}", d.greeting);
    assert!(!d.greeting.contains("decided again"), "{}", d.greeting);
    assert!(!d.greeting.contains("rebuilt"), "{}", d.greeting);
    send(d.fspiop, &old[0].prepare(), 202);
    assert_eq!(Admin::new(&fourth, &d).position("payerfsp"), "47");
    d.stop(Signal::TERM);
    for home in [&scheme.home, &fresh, &third, &fourth] {
        assert!(bytes(home).starts_with(&before), "the history is the same, byte for byte");
        let there = done(home, &at_end);
        for what in ["state_hash", "outcome_digest", "participants", "transfers_in_flight"] {
            assert_eq!(there[what], replayed[what], "{what}");
        }
    }
    assert_eq!(replayed["state_hash"], proved["state_hash"]);

    // And back, into a node's copy and into an empty directory.
    let from_topic = ["import-log", "--log", &log];
    let away = words(&fresh, &from_topic);
    let empty = Home::new();
    let second = refused(&empty, &from_topic);
    assert!(
        second.contains("topic moved: already imported into a directory other than"),
        "{second}"
    );
    let once_more = ["import-log", "--again", "--log", &log];
    let also = words(&empty, &once_more);
    let chain =
        |output_text: &str| output_text.split("chain head ").nth(1).unwrap()[..64].to_owned();
    assert_eq!(chain(&away), chain(&also));
    assert!(bytes(&empty) == bytes(&fresh));
    let gone = node_in_vain(&scheme.home, &log, "a");
    assert!(gone.contains("the log was moved from this topic after record"), "{gone}");
    let again = words(&fresh, &from_topic);
    assert_eq!(chain(&again), chain(&away), "it is there already");
    assert!(!fresh.data().join("kafka-topic").exists(), "it is no copy any more");
    let used = refused(&empty, &to_topic);
    assert!(used.contains("was moved away from topic moved: a topic cannot be reused"), "{used}");
    assert!(!used.contains("run the same command again"), "{used}");
    a_topic_that_is_gone(&scheme.home, &cluster);
    scheme.home = empty;
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    let alone = scheme.switch.fspiop;
    scheme.positions("47", "-47");
    for transfer in old.iter().chain([&waiting, &newest]) {
        send(alone, &transfer.prepare(), 202);
    }
    play(&scheme, [alone, alone], "1");
    scheme.wait_until_delivered();
    scheme.positions("48", "-48");
    scheme.end();
}

/// The copy of a deleted topic does not start another log there. The topic is recreated from the
/// copy only on request.
fn a_topic_that_is_gone(copy: &Home, cluster: &Cluster) {
    let log = format!("kafka://{}/gone", cluster.bootstrap());
    fs::write(copy.data().join("kafka-topic"), "gone").unwrap();
    let before = bytes(copy);
    for _ in 0..2 {
        let output_text = node_in_vain(copy, &log, "a");
        assert!(
            output_text.contains("topic gone does not exist or holds no log, but "),
            "{output_text}"
        );
        assert!(
            output_text.contains("Nothing was created. If the topic is lost, stop all nodes"),
            "{output_text}"
        );
    }
    let restored = Home::new();
    words(&restored, &["restore", "--from", copy.data().to_str().unwrap()]);
    let made = words(&restored, &["export-log", "--log", &log]);
    assert!(made.contains("topic gone, just created, holds the log"), "{made}");
    assert!(bytes(copy) == before);
    let again = node(copy, &log, "a");
    again.stop(Signal::TERM);
    assert!(bytes(copy).starts_with(&before));
}
