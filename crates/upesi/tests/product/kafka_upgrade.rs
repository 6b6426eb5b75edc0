//! Nodes are upgraded one after the other under load. Later rules become active on request, once
//! all nodes know them. From then on an older program is refused.
//!
//! There is only one program to test. As the newer one it is started with an option that adds later
//! rules.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use tempfile::TempDir;
use testkit::http::Connection;

use crate::kafka::{Node, cluster_of, home, play, prove_as, wait_until};
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Ports, Printed, Switch};

const NEWER: [&str; 2] = ["--inject-rules", "6"];
const LATER_RULES: &str = "{\"rulesVersion\":6}";
const REFUSED: &str = "needs rules version 6, but this program knows versions up to 5";
/// Interval between two messages of one sender.
const PAUSE: Duration = Duration::from_millis(10);

#[test]
fn nodes_are_upgraded_under_load() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(ClusterOptions::new(1, directory.path()), &mut |_| ()).unwrap();
    let mut scheme = Scheme::at(home(&cluster, "a"));
    let (mut b, mut c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    let doors = [&scheme.switch, &b.switch, &c.switch].map(|switch| switch.fspiop);
    let load = Load::default();
    let (scheme, b, mut c) = std::thread::scope(|scope| {
        for sender in 0..2 {
            let load = &load;
            scope.spawn(move || load.send(doors, sender));
        }
        let _ending = Ending(&load);
        b.switch = upgraded(&b.home, b.switch);
        all_know(&b.admin(), [("a", 5), ("b", 6), ("c", 5)]);
        activate(&scheme.admin, 400, "this program knows rules up to 5");
        activate(&b.admin(), 400, "knows rules up to 5: upgrade it first");
        c.switch = upgraded(&c.home, c.switch);
        all_know(&c.admin(), [("a", 5), ("b", 6), ("c", 6)]);
        activate(&c.admin(), 400, "node a knows rules up to 5");
        scheme.switch = upgraded(&scheme.home, scheme.switch);
        scheme.admin = Admin::new(&scheme.home, &scheme.switch);
        all_know(&scheme.admin, [("a", 6), ("b", 6), ("c", 6)]);
        activate(&scheme.admin, 200, "{\"rulesVersion\":6,\"rulesKnown\":6}");
        for admin in [&b.admin(), &c.admin()] {
            assert_eq!(admin.get("/rules"), "{\"rulesVersion\":6,\"rulesKnown\":6}");
        }
        let before = load.count();
        while load.count() < before + 50 {
            std::thread::sleep(PAUSE);
        }
        (scheme, b, c)
    });
    load.print();
    assert_eq!(scheme.admin.metric("upesi_transfers_reserved_total"), load.count() as u64);

    c.switch.stop(Signal::TERM);
    refused(&c.home);
    refused(&home(&cluster, "d"));
    c.switch = c.home.started(newer(&c.home, Ports::free()));
    play(&scheme, [c.switch.fspiop, b.switch.fspiop], "1");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove_as(&NEWER, &[&scheme.home, &b.home, &c.home]);
}

/// Stops a node cleanly, and starts the newer program in its place.
fn upgraded(home: &Home, switch: Switch) -> Switch {
    let ports = switch.ports();
    switch.stop(Signal::TERM);
    home.started(newer(home, ports))
}

fn newer(home: &Home, ports: Ports) -> std::process::Command {
    let mut command = home.command(ports);
    command.args(NEWER);
    command
}

/// Waits until the node has received from all nodes which rules they know.
fn all_know(admin: &Admin, expected: [(&str, u64); 3]) {
    wait_until(|| {
        let output_text = cluster_of(admin, 3);
        let nodes = output_text["nodes"].as_array().unwrap();
        let knows = |name: &str| nodes.iter().find(|node| node["name"] == name);
        let is_so = |(name, rules): &(&str, u64)| {
            knows(name).is_some_and(|node| node["rulesKnown"] == *rules)
        };
        expected.iter().all(is_so)
    });
}

fn activate(admin: &Admin, status: u16, expected: &str) {
    let answer = admin.call("PUT", "/rules", LATER_RULES);
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.text().contains(expected), "{}", answer.text());
}

/// An older program refuses a log with later rules, with its copy or without.
fn refused(home: &Home) {
    let output_text = home.serve_in_vain(Ports::free()).fails();
    assert!(output_text.contains(REFUSED), "{output_text}");
}

/// Senders that try the next node if one does not respond.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    /// Time until each prepare was accepted by a node.
    waits: Mutex<Vec<Duration>>,
}

/// Stops the senders when it is dropped, also after a failure.
struct Ending<'a>(&'a Load);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Release);
    }
}

impl Load {
    fn send(&self, doors: [SocketAddr; 3], first: usize) {
        let mut doors = doors.iter().cycle().skip(first);
        let mut door = doors.next().expect("there is always another one");
        while !self.is_over.load(Ordering::Acquire) {
            let (message, since) = (Transfer::of("0.01").prepare().render(), Instant::now());
            while !is_accepted(*door, &message) {
                door = doors.next().expect("there is always another one");
                std::thread::sleep(PAUSE);
            }
            self.waits.lock().unwrap().push(since.elapsed());
            std::thread::sleep(PAUSE);
        }
    }

    fn count(&self) -> usize {
        self.waits.lock().unwrap().len()
    }

    fn print(&self) {
        let mut waits = self.waits.lock().unwrap();
        waits.sort_unstable();
        let longest = waits.last().expect("there was load");
        println!("{} prepares; p50 {:?}, longest {longest:?}", waits.len(), waits[waits.len() / 2]);
    }
}

fn is_accepted(door: SocketAddr, message: &[u8]) -> bool {
    let answer = Connection::open(door).and_then(|mut connection| connection.exchange(message));
    answer.is_ok_and(|answer| answer.status == 202)
}
