//! An erasure over Kafka: each node carries the order out in its own files.

use std::thread;
use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use tempfile::TempDir;
use testkit::http::PATIENCE;

use crate::erasure::{holders, prepare_with_note, run_at};
use crate::kafka::{Node, cluster_of, fulfil, home, send, wait_for_prepare};
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::Printed;

#[test]
fn each_node_erases_its_own_files() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(ClusterOptions::new(1, directory.path()), &mut |_| ()).unwrap();
    let scheme = Scheme::at(home(&cluster, "a"));
    let (b, c) = (Node::start(&cluster, "b"), Node::start(&cluster, "c"));
    cluster_of(&scheme.admin, 3);
    let transfer = Transfer::of("10");
    send(b.switch.fspiop, &prepare_with_note(&transfer), 202);
    wait_for_prepare(&scheme, &transfer);
    fulfil(&scheme, c.switch.fspiop, &transfer);
    scheme.wait_until_delivered();
    let homes = [&scheme.home, &b.home, &c.home];
    for home in homes {
        assert!(!holders(&home.data()).is_empty(), "each node has the note");
    }
    let order = ["erase", "--transfer", &transfer.id, "--reason", "request 51"];
    run_at((&b.home, &b.switch), &order).succeeds();
    let admins = [Admin::new(&scheme.home, &scheme.switch), b.admin(), c.admin()];
    let deadline = Instant::now() + PATIENCE;
    for admin in &admins {
        while admin.json("/erasures")[0]["state"] != "DONE" {
            assert!(Instant::now() < deadline, "{}", admin.json("/erasures"));
            // The record of a change closes the segment that a node writes.
            scheme.admin.set_limit("payerfsp", "1000");
            thread::sleep(Duration::from_millis(200));
        }
    }
    for home in homes {
        assert!(holders(&home.data()).is_empty(), "{:?}", holders(&home.data()));
    }
    for switch in [scheme.switch, b.switch, c.switch] {
        switch.stop(Signal::TERM);
    }
    for home in [&scheme.home, &b.home, &c.home] {
        let proof = home.offline(&["verify", "--json"]).succeeds().json();
        assert_eq!(proof["messages_erased"], 2, "{proof}");
        assert_eq!(proof["erasures"][0]["reason"], "request 51", "{proof}");
    }
}
