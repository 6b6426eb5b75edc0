//! Three nodes that share a log on real brokers. Each node accepts each request, and nodes, brokers
//! and directories may be lost.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;
use testkit::http::Connection;
use testkit::server::Reply;

use crate::support::message::{Message, Transfer};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Ports, Printed, Switch, files, finish};

/// Longest wait for an expected event.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time in which the loss of a node or broker is noticed and its work is continued elsewhere, on an
/// otherwise idle machine. Tests also run on busy machines.
pub(crate) const BACK_WITHIN: Duration = Duration::from_secs(20);

pub(crate) fn home(cluster: &Cluster, node: &str) -> Home {
    let log = format!("kafka://{}/scheme", cluster.bootstrap());
    Home::new().with_arguments(&["--log", &log, "--node", node])
}

pub(crate) fn start_brokers(directory: &TempDir) -> Cluster {
    let options = ClusterOptions::new(3, directory.path());
    Cluster::start(options, &mut |line| println!("{line}")).unwrap()
}

/// A node in addition to that of the scheme.
pub(crate) struct Node {
    pub(crate) home: Home,
    pub(crate) switch: Switch,
}

impl Node {
    pub(crate) fn start(cluster: &Cluster, name: &str) -> Self {
        let home = home(cluster, name);
        let switch = home.serve();
        Self { home, switch }
    }

    pub(crate) fn admin(&self) -> Admin {
        Admin::new(&self.home, &self.switch)
    }
}

pub(crate) fn send(address: SocketAddr, message: &Message, status: u16) {
    let answer = Connection::open(address).unwrap().exchange(&message.render()).unwrap();
    assert_eq!(answer.status, status, "{message:?}: {}", answer.text());
}

/// One complete transfer: its prepare at one node, its fulfilment at another. Both sides are
/// notified.
pub(crate) fn play(
    scheme: &Scheme,
    [prepare_at, fulfil_at]: [SocketAddr; 2],
    amount: &str,
) -> Transfer {
    let transfer = Transfer::of(amount);
    prepare(scheme, prepare_at, &transfer);
    fulfil(scheme, fulfil_at, &transfer);
    transfer
}

/// Sends a prepare, and waits until the payee has received it.
pub(crate) fn prepare(scheme: &Scheme, at: SocketAddr, transfer: &Transfer) {
    send(at, &transfer.prepare(), 202);
    wait_for_prepare(scheme, transfer);
}

/// Sends the fulfilment, and waits until the payer has received the commit notice.
pub(crate) fn fulfil(scheme: &Scheme, at: SocketAddr, transfer: &Transfer) {
    send(at, &transfer.fulfil("COMMITTED"), 200);
    scheme.payer.wait("PUT", &transfer.path());
}

pub(crate) fn wait_for_prepare(scheme: &Scheme, transfer: &Transfer) {
    let deadline = Instant::now() + PATIENCE;
    while prepares(scheme, transfer) == 0 {
        assert!(Instant::now() < deadline, "the payee hears nothing of {}", transfer.id);
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Number of prepares that the payee has received.
pub(crate) fn prepares(scheme: &Scheme, transfer: &Transfer) -> usize {
    let received = scheme.payee.received();
    received.iter().filter(|callback| callback.text().contains(&transfer.id)).count()
}

/// The response of `GET /cluster`, once it lists this number of nodes.
pub(crate) fn cluster_of(admin: &Admin, count: usize) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let output_text = admin.json("/cluster");
        if output_text["nodes"].as_array().is_some_and(|nodes| nodes.len() == count) {
            return output_text;
        }
        assert!(Instant::now() < deadline, "there are never {count}: {output_text}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The node that serves the lane of a participant.
pub(crate) fn owner(admin: &Admin, participant: &str, count: usize) -> String {
    let output_text = cluster_of(admin, count);
    let lanes = output_text["lanes"].as_array().unwrap();
    let lane = lanes.iter().find(|lane| lane["participant"] == participant).unwrap();
    lane["node"].as_str().unwrap().to_owned()
}

/// Verifies every log, and compares the copies byte by byte up to the shortest one.
pub(crate) fn prove(homes: &[&Home]) {
    prove_as(&[], homes);
}

/// Verifies with additional arguments.
pub(crate) fn prove_as(more: &[&str], homes: &[&Home]) {
    let mut copies = Vec::new();
    for home in homes {
        let output = home.offline(&[more, &["verify", "--json"][..]].concat());
        let output_text = output.out();
        assert!(output.status.success(), "{output_text} {}", output.err());
        let mut segments: Vec<_> = files(&home.data())
            .into_iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "segment"))
            .collect();
        segments.sort();
        let bytes: Vec<u8> =
            segments.iter().flat_map(|segment| fs::read(segment).unwrap()).collect();
        assert!(!bytes.is_empty(), "{:?}", files(&home.data()));
        copies.push(bytes);
    }
    for pair in copies.windows(2) {
        let common = pair[0].len().min(pair[1].len());
        assert!(pair[0][..common] == pair[1][..common], "two copies differ");
    }
}

#[test]
fn one_of_three_nodes_is_killed() {
    let directory = TempDir::new().unwrap();
    let cluster = start_brokers(&directory);
    let scheme = Scheme::at(home(&cluster, "a"));
    assert!(
        scheme
            .switch
            .greeting
            .contains("topic scheme, just created: 3 brokers, 3 replicas; a record"),
        "{}",
        scheme.switch.greeting
    );
    let (b, c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    let [at_a, at_b, at_c] = [&scheme.switch, &b.switch, &c.switch].map(|switch| switch.fspiop);
    for (number, pair) in [[at_a, at_b], [at_b, at_c], [at_c, at_a]].into_iter().enumerate() {
        play(&scheme, pair, "10");
        // Each node has applied every acknowledged command.
        let position = format!("{}", 10 * (number + 1));
        for admin in [&scheme.admin, &b.admin(), &c.admin()] {
            assert_eq!(admin.position("payerfsp"), position);
        }
    }
    let output_text = cluster_of(&scheme.admin, 3);
    assert_eq!(output_text["node"], "a");
    let status = finish(status_command(&c.switch));
    let text = status.out();
    assert!(status.status.success() && text.contains("seen by c at record"), "{text}");

    // Kills the node that serves the payee by the order of names.
    assert_eq!(owner(&scheme.admin, "payeefsp", 3), "b");
    let ports = b.switch.ports();
    b.switch.kill();
    let killed = Instant::now();
    let transfer = play(&scheme, [at_a, at_c], "5");
    println!("a transfer was whole {:.1} s after the kill", killed.elapsed().as_secs_f64());
    assert!(killed.elapsed() < BACK_WITHIN, "{:?}", killed.elapsed());
    scheme.wait_until_delivered();
    assert_eq!(prepares(&scheme, &transfer), 1, "nothing of it was under way");
    assert_eq!(cluster_of(&scheme.admin, 2)["lastTakeover"]["gone"][0], "b");
    let b = Node { switch: b.home.serve_on(ports), home: b.home };
    // Every node recognizes a resend.
    for address in [at_a, at_b, at_c] {
        send(address, &transfer.prepare(), 202);
    }
    scheme.positions("35", "-35");
    play(&scheme, [at_b, at_a], "5");
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home, &c.home]);
    assert_without_topic_refused(&scheme.home);
}

/// A participant that was created through one node is known to every node. Its messages are neither
/// dropped nor refused as those of an unknown sender.
#[test]
fn new_participant_is_known_to_every_node_at_once() {
    let directory = TempDir::new().unwrap();
    let cluster = start_brokers(&directory);
    let scheme = Scheme::at(home(&cluster, "a"));
    let b = Node::start(&cluster, "b");
    let mut to_b = Connection::open(b.switch.fspiop).unwrap();
    for number in 0..10 {
        let name = format!("newfsp{number}");
        let question = Transfer::of("1").get(&name).render();
        let body = format!("{{\"name\":\"{name}\",\"currency\":\"USD\"}}");
        // After a suspension, the thread that answers runs before the thread that follows the log
        // has caught up.
        b.switch.signal(Signal::STOP);
        scheme.admin.must("POST", "/participants", &body, 201);
        to_b.write(&question).unwrap();
        b.switch.signal(Signal::CONT);
        let answer = to_b.read_response().unwrap().expect("an answer");
        assert_eq!(answer.status, 202, "{name}");
    }
    assert_eq!(b.admin().metric("upesi_unknown_senders_total"), 0);
    let base = format!("http://{}", scheme.other.address());
    scheme.admin.onboard("latefsp", &base, "10", "10");
    let transfer = Transfer { payer: "latefsp".into(), ..Transfer::of("1") };
    prepare(&scheme, b.switch.fspiop, &transfer);
    let unknown = Transfer { payer: "strangerfsp".into(), ..Transfer::of("1") };
    send(b.switch.fspiop, &unknown.prepare(), 202);
    assert_eq!(b.admin().metric("upesi_unknown_senders_total"), 1);
    send(b.switch.fspiop, &Transfer { payer: "payerfsp".into(), ..unknown }.prepare(), 202);
    scheme.wait_until_delivered();
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home]);
}

/// Asks a node for the status of all nodes.
fn status_command(switch: &Switch) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["cluster", "status", "--admin", &format!("http://{}", switch.admin)]);
    command
}

/// Without `--log` the directory of a copy is refused.
fn assert_without_topic_refused(home: &Home) {
    let mut command = Command::new(PROGRAM);
    command.arg("serve").arg("--data").arg(home.data());
    command.args(["--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let output_text = finish(command).fails();
    assert!(
        output_text.contains("holds the copy of a log on Kafka, topic scheme"),
        "{output_text}"
    );
}

/// Several threads send prepares to all nodes while nodes and brokers are killed. Every transfer
/// that was answered 202 is recorded, and none twice.
#[test]
fn kills_under_load() {
    let directory = TempDir::new().unwrap();
    let mut cluster = start_brokers(&directory);
    let scheme = Scheme::at(home(&cluster, "a"));
    scheme.admin.set_limit("payerfsp", "2000");
    let (b, c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    let addresses = [&scheme.switch, &b.switch, &c.switch].map(|switch| switch.fspiop);
    let (sent, accepted) = (Mutex::new(Vec::new()), Mutex::new(BTreeSet::new()));
    let done = AtomicBool::new(false);
    let b = std::thread::scope(|scope| {
        for address in addresses {
            let (sent, accepted, done) = (&sent, &accepted, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) && sent.lock().unwrap().len() < 1_800 {
                    let transfer = Transfer::of("1");
                    let id = transfer.id.clone();
                    let message = transfer.prepare();
                    sent.lock().unwrap().push(transfer);
                    let answer = Connection::open(address)
                        .and_then(|mut connection| connection.exchange(&message.render()));
                    match answer {
                        Ok(answer) if answer.status == 202 => {
                            accepted.lock().unwrap().insert(id);
                        }
                        _ => std::thread::sleep(Duration::from_millis(50)),
                    }
                }
            });
        }
        wait_until(|| 30 < accepted.lock().unwrap().len());
        let ports = b.switch.ports();
        let Node { home, switch } = b;
        switch.kill();
        let after = accepted.lock().unwrap().len();
        wait_until(|| after + 30 < accepted.lock().unwrap().len());
        let b = Node { switch: home.serve_on(ports), home };
        cluster.kill(1);
        let after = accepted.lock().unwrap().len();
        wait_until(|| after + 30 < accepted.lock().unwrap().len());
        cluster.restart(1).unwrap();
        done.store(true, Ordering::Release);
        b
    });
    let (sent, accepted) = (sent.into_inner().unwrap(), accepted.into_inner().unwrap());
    println!("{} prepares sent, {} answered 202", sent.len(), accepted.len());
    let admin = Admin::new(&scheme.home, &scheme.switch);
    let reserved = admin.metric("upesi_transfers_reserved_total");
    assert!((accepted.len() as u64..=sent.len() as u64).contains(&reserved), "{reserved}");
    // Unanswered ones are resent. Afterwards all are recorded, each once.
    for transfer in &sent {
        send(addresses[2], &transfer.prepare(), 202);
    }
    assert_eq!(admin.metric("upesi_transfers_reserved_total"), sent.len() as u64);
    admin.wait_for("upesi_notices_owed", |owed| owed == 0);
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home, &c.home]);
}

/// A node that was suspended for longer than its lease does not send its pending callbacks.
#[test]
fn suspended_node_is_replaced_and_recovers() {
    let directory = TempDir::new().unwrap();
    let cluster = start_brokers(&directory);
    let scheme = Scheme::at(home(&cluster, "a"));
    let (b, c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    let victim = owner(&scheme.admin, "payeefsp", 3);
    let nodes = [("a", &scheme.switch), ("b", &b.switch), ("c", &c.switch)];
    let (_, paused) = nodes.iter().find(|(name, _)| *name == victim).unwrap();
    let (_, other) = nodes.iter().find(|(name, _)| *name != victim).unwrap();
    let admin = match other.admin {
        at if at == scheme.switch.admin => Admin::new(&scheme.home, &scheme.switch),
        at if at == b.switch.admin => b.admin(),
        _ => c.admin(),
    };
    // Its first attempt fails, so that a retry is pending.
    scheme.payee.answer(|_| Reply::Status(503));
    let transfer = Transfer::of("7").expiring(2_000);
    send(other.fspiop, &transfer.prepare(), 202);
    wait_for_prepare(&scheme, &transfer);
    paused.signal(Signal::STOP);
    // Meanwhile the transfer ends, the payer is notified, and the lane moves to another node.
    scheme.payer.wait("PUT", &format!("{}/error", transfer.path()));
    cluster_of(&admin, 2);
    scheme.payee.answer(|_| Reply::Accept);
    let received = prepares(&scheme, &transfer);
    paused.signal(Signal::CONT);
    cluster_of(&admin, 3);
    wait_until(|| owner(&admin, "payeefsp", 3) == victim);
    // The node serves again, and has not sent the prepare of the final transfer.
    play(&scheme, [other.fspiop, paused.fspiop], "5");
    assert_eq!(prepares(&scheme, &transfer), received, "a prepare after the end");
    assert_eq!(admin.position("payerfsp"), "5");
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    prove(&[&scheme.home, &b.home, &c.home]);
}

/// Two nodes with one name, lost directories, restarted brokers, and no brokers.
#[test]
fn node_start_checks_names_directories_and_brokers() {
    let directory = TempDir::new().unwrap();
    let mut cluster = start_brokers(&directory);
    let mut scheme = Scheme::at(home(&cluster, "a"));
    let b = Node::start(&cluster, "b");
    play(&scheme, [scheme.switch.fspiop, b.switch.fspiop], "10");

    // The running node continues, and the second one exits with a reason. A supervisor may retry
    // this forever.
    let refused = |home: &Home| {
        let output_text = home.serve_in_vain(Ports::free()).fails();
        assert!(
            output_text.contains("another node with the name b is live in its epoch 1"),
            "{output_text}"
        );
        assert!(
            output_text.contains("with another data directory: stop that one first"),
            "{output_text}"
        );
    };
    let second = home(&cluster, "b");
    refused(&second);
    play(&scheme, [scheme.switch.fspiop, b.switch.fspiop], "10");
    // The machine is lost with its directory. Another node takes over after the session timeout.
    b.switch.kill();
    let namesake = Node { switch: second.serve(), home: second };
    assert!(namesake.switch.greeting.contains("waits 3 s for a sign"), "at once");
    play(&scheme, [scheme.switch.fspiop, namesake.switch.fspiop], "10");
    let output_text = b.home.serve_in_vain(Ports::free()).err();
    assert!(
        output_text.contains("another node with the name b is live in its epoch 2"),
        "{output_text}"
    );

    scheme.switch.stop(Signal::TERM);
    scheme.home = home(&cluster, "a");
    scheme.switch = scheme.home.serve();
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    assert!(scheme.switch.greeting.contains("messages that are missing in the local copy"));
    scheme.positions("30", "-30");

    cluster.restart_all().unwrap();
    play(&scheme, [namesake.switch.fspiop, scheme.switch.fspiop], "10");
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    scheme.positions("40", "-40");

    (1..=3).for_each(|broker| cluster.kill(broker));
    let body = "{\"name\":\"latefsp\",\"currency\":\"USD\"}";
    let answer = Admin::new(&scheme.home, &scheme.switch).call("POST", "/participants", body);
    assert_eq!(answer.status, 503, "{}", answer.text());
    assert!(answer.text().contains("did not answer in time"), "{}", answer.text());
    let status = finish(status_command(&scheme.switch)).out();
    assert!(status.contains("NO MESSAGE FROM THE BROKERS for "), "{status}");
    let fresh = Home::new();
    let with_topic = |topic: &str| {
        let mut command = fresh.command(Ports::free());
        command.args(["--log", &format!("kafka://{}/{topic}", cluster.bootstrap())]);
        command.args(["--node", "c"]);
        command
    };
    let output_text = finish(with_topic("misspelt")).err();
    assert!(output_text.contains("no broker of 127.0.0.1:"), "{output_text}");
    let other = with_topic("other");
    cluster.restart_all().unwrap();
    // The failed start left nothing behind: the directory can be used for another topic.
    let elsewhere = fresh.started(other);
    assert!(elsewhere.greeting.contains("topic other, just created"), "{}", elsewhere.greeting);
    elsewhere.stop(Signal::TERM);
    let admin = Admin::new(&scheme.home, &scheme.switch);
    wait_until(|| admin.call("POST", "/participants", body).status != 503);
    play(&scheme, [scheme.switch.fspiop, namesake.switch.fspiop], "10");
    assert_eq!(admin.position("payerfsp"), "50");
    for switch in [scheme.switch, namesake.switch] {
        let output_text = end_of(switch);
        assert!(output_text.contains("is stuck: the brokers hand out nothing"), "{output_text}");
        let is_about_it = |line: &str| line.contains("stage=log seconds=10");
        assert!(output_text.lines().all(is_about_it), "{output_text}");
    }
    prove(&[&scheme.home, &b.home, &namesake.home]);
}

/// Stops a switch. Returns its complaints.
fn end_of(switch: Switch) -> String {
    switch.signal(Signal::TERM);
    let (status, output_text) = switch.end();
    assert!(status.success(), "{status}: {output_text}");
    output_text
}

pub(crate) fn wait_until(mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "it did not come");
        std::thread::sleep(Duration::from_millis(20));
    }
}
