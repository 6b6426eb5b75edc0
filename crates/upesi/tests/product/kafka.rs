//! A switch whose log is on real brokers: transfers, a broker that dies, a directory that is lost,
//! a second switch, and no brokers at all.

use brokers::{Cluster, Options};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::message::Transfer;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, Ports};

fn home(cluster: &Cluster, node: &str) -> Home {
    let log = format!("kafka://{}/scheme", cluster.bootstrap());
    Home::new().told(&["--log", &log, "--node", node])
}

/// One transfer from beginning to end, which both sides hear of.
fn play(scheme: &Scheme, amount: &str) -> Transfer {
    let transfer = Transfer::of(amount);
    scheme.send(&transfer.prepare(), 202);
    scheme.payee.wait("POST", "/transfers");
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.payer.wait("PUT", &transfer.path());
    scheme.settle();
    scheme.payer.take_unchecked(0);
    scheme.payee.take_unchecked(0);
    transfer
}

#[test]
fn a_scheme_on_three_brokers() {
    let directory = TempDir::new().unwrap();
    let mut cluster =
        Cluster::start(Options::new(3, directory.path()), &mut |line| println!("{line}")).unwrap();
    let mut scheme = Scheme::at(home(&cluster, "a"));
    assert!(
        scheme.switch.greeting.contains("topic scheme, made just now: 3 brokers, 3 replicas, 2 of"),
        "{}",
        scheme.switch.greeting
    );
    let mut transfers = vec![play(&scheme, "10")];
    for broker in 1..=3 {
        cluster.kill(broker);
        transfers.push(play(&scheme, "20"));
        cluster.restart(broker).unwrap();
    }
    scheme.positions("70", "-70");

    // Killed, and started with what it has; and with nothing.
    let ports = scheme.switch.ports();
    scheme.switch.kill();
    scheme.switch = scheme.home.serve_on(ports);
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    scheme.positions("70", "-70");
    scheme.switch.stop(Signal::TERM);
    scheme.home = home(&cluster, "a");
    scheme.switch = scheme.home.serve_on(ports);
    scheme.admin = Admin::new(&scheme.home, &scheme.switch);
    assert!(scheme.switch.greeting.contains("records that the copy did not have"));
    scheme.positions("70", "-70");
    // A resend of each is known.
    for transfer in &transfers {
        scheme.send(&transfer.prepare(), 202);
    }
    scheme.settle();
    play(&scheme, "5");
    scheme.positions("75", "-75");

    // The copy is a log like any other; but not one to go on with alone.
    let other = home(&cluster, "b");
    let second = other.serve_on(Ports::free());
    let (status, said) = scheme.switch.end();
    assert!(!status.success());
    assert!(said.contains("another node"), "{said}");
    let verified = scheme.home.verify();
    assert!(verified.status.success(), "{verified:?}");
    let admin = Admin::new(&other, &second);
    assert_eq!(admin.position("payerfsp"), "75");
    second.stop(Signal::TERM);
    assert!(other.verify().status.success());
    assert_without_topic_refused(&scheme.home);
    no_brokers(cluster, &other);
}

/// Without `--log` the directory of a copy is refused.
fn assert_without_topic_refused(home: &Home) {
    let mut command = std::process::Command::new(crate::support::switch::PROGRAM);
    command.arg("serve").arg("--data").arg(home.data());
    command.args(["--fspiop", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let output = crate::support::switch::finish(command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("holds the copy of a log on Kafka, topic scheme"), "{said}");
}

/// With no broker left a transfer is refused in the end, and the switch stops and says why.
fn no_brokers(mut cluster: Cluster, home: &Home) {
    let switch = home.serve_on(Ports::free());
    (1..=3).for_each(|broker| cluster.kill(broker));
    let admin = Admin::new(home, &switch);
    let body = "{\"name\":\"latefsp\",\"currency\":\"USD\"}";
    let answer = admin.call("POST", "/participants", body);
    assert_eq!(answer.status(), 503, "{}", answer.text());
    let (status, said) = switch.end();
    assert!(!status.success());
    assert!(said.contains("the brokers acknowledged nothing"), "{said}");
    let output = home.serve_in_vain(Ports::free());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no broker of 127.0.0.1:"), "{said}");
}
