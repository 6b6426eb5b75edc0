//! A node that is stopped leaves the cluster explicitly: no session timeout is needed, and
//! delivered callbacks are not delivered again.

use std::time::{Duration, Instant};

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::kafka::send;
use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::Home;

#[test]
fn stopping_node_hands_over_its_lanes() {
    let directory = TempDir::new().unwrap();
    let cluster =
        Cluster::start(ClusterOptions::new(1, directory.path()), &mut |line| println!("{line}"))
            .unwrap();
    let log = format!("kafka://{}/leaving", cluster.bootstrap());
    let mut scheme = Scheme::at(Home::new().with_arguments(&["--log", &log, "--node", "a"]));
    let home = Home::new().with_arguments(&["--log", &log, "--node", "b"]);
    let b = home.serve();
    let admin = Admin::new(&home, &b);
    // The lanes by node name: the node that is stopped serves the payee.
    let lanes = |admin: &Admin| -> Value { admin.json("/cluster") };
    let owner = |admin: &Admin| -> String {
        let output_text = lanes(admin);
        let mut all = output_text["lanes"].as_array().unwrap().iter();
        let lane = all.find(|lane| lane["participant"] == "payeefsp").unwrap();
        lane["node"].as_str().unwrap().to_owned()
    };
    while lanes(&scheme.admin)["nodes"].as_array().unwrap().len() < 2 {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (mut stays, admin, ends) = match owner(&scheme.admin).as_str() {
        "b" => {
            let Scheme { switch, admin, home, payer, payee, other } = scheme;
            let a_admin = Admin::new(&home, &switch);
            scheme = Scheme { switch: b, admin, home, payer, payee, other };
            (switch, a_admin, "b")
        }
        _ => (b, admin, "a"),
    };
    // A transfer just before the stop: its callbacks are in flight or not yet recorded when the
    // node exits.
    let before = Transfer::of("5");
    send(stays.fspiop, &before.prepare(), 202);
    scheme.payee.wait("POST", "/transfers");
    let stopped_at = Instant::now();
    let leaver = scheme.switch;
    leaver.signal(Signal::TERM);
    let after = Transfer::of("5");
    send(stays.fspiop, &after.prepare(), 202);
    let deadline = stopped_at + Duration::from_secs(60);
    while !scheme.payee.received().iter().any(|callback| callback.text().contains(&after.id)) {
        assert!(Instant::now() < deadline, "nobody serves the payee");
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("a callback came {:.2} s after the stop", stopped_at.elapsed().as_secs_f64());
    let (status, output_text) = leaver.end();
    assert!(status.success() && output_text.is_empty(), "{output_text}");
    let line = stays.next_line();
    assert_eq!(line, format!("upesi: {ends} has left: other nodes take over its lanes"));
    assert_eq!(lanes(&admin)["lastTakeover"]["gone"][0], ends);
    for transfer in [&before, &after] {
        send(stays.fspiop, &transfer.fulfil("COMMITTED"), 200);
        scheme.payer.wait("PUT", &transfer.path());
    }
    admin.wait_for("upesi_notices_owed", |owed| owed == 0);
    let received = scheme.payee.received();
    for transfer in [&before, &after] {
        let of_it = |text: &str| text.contains(&transfer.id) && text.contains("ilpPacket");
        let times = received.iter().filter(|callback| of_it(&callback.text())).count();
        assert_eq!(times, 1, "{}", transfer.id);
    }
    stays.stop(Signal::TERM);
}
