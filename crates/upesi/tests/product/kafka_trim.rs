//! Messages in a backup of the log are deleted from the topic without effect on the scheme: nodes
//! continue, new ones start from the backup, and the scheme moves back to files.

use kafka_testkit::{Cluster, ClusterOptions};
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::kafka::{Node, cluster_of, home, play, prove};
use crate::support::scheme::Scheme;
use crate::support::switch::{Home, Ports, Printed};

/// Enough transfers for more than one closed segment of one MiB.
const TRANSFERS: usize = 600;
/// Records to keep in addition to those that not every node has.
const KEEP: &str = "100";

#[test]
fn topic_is_trimmed_up_to_the_backup() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(ClusterOptions::new(1, directory.path()), &mut |_| ()).unwrap();
    let log = format!("kafka://{}/scheme", cluster.bootstrap());
    let small = "[log]\nsegment_mib = 1\n";
    let home_of =
        |name: &str| Home::configured(small).with_arguments(&["--log", &log, "--node", name]);
    let scheme = Scheme::at(home_of("a"));
    let b = Node::start(&cluster, "b");
    let doors = [scheme.switch.fspiop, b.switch.fspiop];
    let old = play(&scheme, doors, "1");
    (1..TRANSFERS).for_each(|_| drop(play(&scheme, doors, "1")));
    cluster_of(&scheme.admin, 2);
    let kept = TempDir::new().unwrap();
    let place = format!("file://{}", kept.path().display());
    let admin = format!("http://{}", scheme.switch.admin);
    let trim = |more: &[&str]| {
        let arguments = ["cluster", "trim", "--log", &log, "--copy", &place, "--json"];
        scheme.home.offline(&[&arguments[..], &["--admin", &admin], more].concat())
    };
    let refused = |more: &[&str], why: &str| {
        let output_text = trim(more).fails();
        assert!(output_text.contains(why), "{output_text}");
    };
    let done = |more: &[&str]| -> Value {
        let output = trim(more);
        let output_text = output.err();
        assert!(output.status.success(), "{output_text}");
        output.json()
    };

    // Only messages that are in a backup of this log are deleted.
    refused(&["--keep", KEEP], "no backup found");
    scheme.home.offline(&["backup", "--to", &place]).succeeds();
    let object = kept.path().join("segments/00000000000000000001.packed");
    let aside = kept.path().join("aside");
    std::fs::rename(&object, &aside).unwrap();
    refused(&["--keep", KEEP], "the records from 1 on are missing");
    std::fs::rename(&aside, &object).unwrap();
    let never = done(&[]);
    assert_eq!((&never["first_record"], &never["deleted_messages"]), (&Value::Null, &0.into()));
    let planned = done(&["--keep", KEEP, "--dry-run"]);
    let messages = planned["deleted_messages"].as_u64().unwrap();
    assert!(100 < messages, "{planned}");
    let trimmed = done(&["--keep", KEEP]);
    for what in ["first_record", "deleted_messages"] {
        assert_eq!(trimmed[what], planned[what], "{trimmed}");
    }
    let first = trimmed["first_record"].as_u64().unwrap();
    assert!(100 < first, "{trimmed}");
    assert_eq!(done(&["--keep", KEEP])["deleted_messages"], 0, "it is done already");

    // The running nodes continue, a stopped one catches up, and a new one starts from the backup.
    play(&scheme, doors, "1");
    b.switch.stop(Signal::TERM);
    play(&scheme, [scheme.switch.fspiop; 2], "1");
    let b = Node { switch: b.home.serve(), home: b.home };
    play(&scheme, [b.switch.fspiop, scheme.switch.fspiop], "1");
    let c = home(&cluster, "c");
    let output_text = c.serve_in_vain(Ports::free()).err();
    assert!(output_text.contains("what stood before was deleted"), "{output_text}");
    let c = c.with_arguments(&["--from", &place]);
    let c = Node { switch: c.serve(), home: c };
    let position = (TRANSFERS + 3).to_string();
    for node in [&b, &c] {
        assert_eq!(node.admin().position("payerfsp"), position);
        crate::kafka::send(node.switch.fspiop, &old.prepare(), 202);
    }
    scheme.switch.stop(Signal::TERM);
    b.switch.stop(Signal::TERM);
    c.switch.stop(Signal::TERM);
    // The first segments of one of them are compressed.
    for home in [&scheme.home, &b.home, &c.home] {
        prove(&[home]);
    }

    // Back to files: the remaining messages of the topic are compared, and the scheme continues.
    let moved = scheme.home.offline(&["import-log", "--log", &log, "--json"]).succeeds().json();
    scheme.home.verify().succeeds();
    assert!(first < moved["end"].as_u64().unwrap(), "{moved}");
}
