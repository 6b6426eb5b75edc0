//! Signed chain heads: published while the switch runs, and compared with a log by its auditor.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::signatures::pem;
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Home, PROGRAM, Printed, files, finish};

/// The auditor's directory: chain heads, and the hub's keys.
struct Auditor {
    directory: TempDir,
}

impl Auditor {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("heads")).unwrap();
        for (name, form) in [("ec", "private"), ("ec", "public"), ("rsa", "public")] {
            let path = directory.path().join(format!("{name}.{form}"));
            fs::write(&path, pem(name, form)).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn configuration(&self) -> String {
        format!(
            "[chain_heads]\nto = \"{}\"\nevery_seconds = 1\nkey = \"{}\"\n",
            self.path("heads").display(),
            self.path("ec.private").display()
        )
    }

    fn verify(&self, data: &Path, key: &str) -> Output {
        self.verify_with(data, self.path("heads").to_str().unwrap(), key)
    }

    fn verify_with(&self, data: &Path, heads: &str, key: &str) -> Output {
        let mut command = Command::new(PROGRAM);
        command.args(["audit", "verify", "--json", "--data"]).arg(data);
        command.args(["--heads", heads]).arg("--key").arg(self.path(key));
        finish(command)
    }

    /// The faults that are found in a log.
    #[track_caller]
    fn faults(&self, data: &Path) -> Vec<String> {
        let output = self.verify(data, "ec.public");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let faults = report["faults"].as_array().unwrap().iter();
        faults.map(|fault| fault.as_str().unwrap().to_owned()).collect()
    }

    /// The published statements, oldest first.
    fn statements(&self) -> Vec<PathBuf> {
        let mut found = files(&self.path("heads/heads"));
        found.sort();
        found
    }
}

/// Waits until the end of the log is signed.
fn wait_until_signed(admin: &Admin) -> u64 {
    let log_index = admin.quiet_state()["logIndex"].as_u64().unwrap();
    admin.wait_for("upesi_chain_head_log_index", |signed| log_index <= signed);
    log_index
}

fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-r").args([from, to]).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_log_matches_the_chain_heads_that_its_switch_signed() {
    let auditor = Auditor::new();
    let scheme = Scheme::configured(&auditor.configuration());
    scheme.pay("1");
    scheme.wait_until_delivered();
    let signed = wait_until_signed(&scheme.admin);
    let report = auditor.verify(&scheme.home.data(), "ec.public").succeeds().json();
    assert_eq!(report["ok"], true, "{report}");
    assert!(signed <= report["covered"]["log_index"].as_u64().unwrap(), "{report}");
    assert_eq!(report["faults"], json!([]));
    assert_eq!(scheme.admin.json("/storage")["chainHeads"].get("failing"), None);
    assert_eq!(scheme.admin.metric("upesi_chain_heads_failing"), 0);

    let output = auditor.verify(&scheme.home.data(), "rsa.public");
    assert!(String::from_utf8_lossy(&output.stdout).contains("alg does not fit the key"));
    scheme.end();
}

/// The operator replaces the log by one that is valid, too: an earlier copy that was continued.
#[test]
fn another_history_of_the_same_log_is_found() {
    let auditor = Auditor::new();
    let scheme = Scheme::configured(&auditor.configuration());
    scheme.pay("1");
    scheme.wait_until_delivered();
    wait_until_signed(&scheme.admin);
    scheme.switch.stop(Signal::TERM);
    let earlier = auditor.path("earlier");
    copy(&scheme.home.data(), &earlier);
    let switch = scheme.home.serve();
    let admin = Admin::new(&scheme.home, &switch);
    admin.set_limit("payerfsp", "5000");
    let signed = wait_until_signed(&admin);
    switch.stop(Signal::TERM);
    assert_eq!(auditor.verify(&scheme.home.data(), "ec.public").succeeds().json()["ok"], true);

    let cut = auditor.faults(&earlier);
    assert!(cut.iter().all(|fault| fault.contains("was signed at")), "{cut:?}");

    let forged = Home::new();
    copy(&earlier, &forged.data());
    let switch = forged.serve();
    let admin = Admin::new(&forged, &switch);
    for limit in ["6000", "7000", "8000"] {
        admin.set_limit("payerfsp", limit);
    }
    assert!(signed <= admin.quiet_state()["logIndex"].as_u64().unwrap());
    switch.stop(Signal::TERM);
    assert!(forged.verify().status.success(), "it follows the rules");
    let changed = auditor.faults(&forged.data());
    // Whether a batch of the other history ends at the same record depends on its timing.
    let differs = |fault: &String| {
        fault.contains("were changed after") || fault.contains("ended a batch when it was signed")
    };
    assert!(changed.iter().any(differs), "{changed:?}");
}

#[test]
fn changed_and_renamed_statements_are_found() {
    let auditor = Auditor::new();
    let scheme = Scheme::configured(&auditor.configuration());
    wait_until_signed(&scheme.admin);
    let home = &scheme.home;
    let statements = auditor.statements();
    let first = &statements[0];
    let text = fs::read_to_string(first).unwrap();

    let renamed = first.with_file_name("00000000000099999999.jws");
    fs::copy(first, &renamed).unwrap();
    let faults = auditor.faults(&home.data());
    assert!(faults.iter().any(|fault| fault.contains("not the record in its name")), "{faults:?}");
    fs::remove_file(renamed).unwrap();

    let [header, payload, signature] = text.split('.').collect::<Vec<_>>()[..] else { panic!() };
    let (last, rest) = (payload.chars().last().unwrap(), &payload[..payload.len() - 4]);
    fs::write(first, format!("{header}.{rest}AAA{last}.{signature}")).unwrap();
    let faults = auditor.faults(&home.data());
    assert!(faults.iter().any(|fault| fault.starts_with("statement 000")), "{faults:?}");
    fs::remove_dir_all(auditor.path("heads/heads")).unwrap();
    let error = auditor.verify(&home.data(), "ec.public").fails();
    assert!(error.contains("holds no signed chain heads"), "{error}");
    scheme.end();
}

/// Payments continue while no chain head can be published, and the next attempt signs them.
#[test]
fn an_unreachable_destination_stops_no_payment() {
    let auditor = Auditor::new();
    let (heads, away) = (auditor.path("heads"), auditor.path("away"));
    fs::rename(&heads, &away).unwrap();
    let scheme = Scheme::configured(&auditor.configuration());
    scheme.admin.wait_for("upesi_chain_heads_failing", |failing| failing == 1);
    let storage = scheme.admin.json("/storage");
    assert!(storage["chainHeads"]["failing"].is_string(), "{storage}");
    scheme.pay("1");
    scheme.wait_until_delivered();
    scheme.end();
}

/// A third party that has only the messages of the topic and the public key verifies a log.
#[cfg(feature = "real-brokers")]
#[test]
fn a_log_matches_the_chain_heads_in_a_topic() {
    use kafka_testkit::{Cluster, ClusterOptions};
    use stream::{Producer, ProducerSettings, Properties, Record};

    let auditor = Auditor::new();
    let options = ClusterOptions::new(1, auditor.path("brokers"));
    let cluster = Cluster::start(options, &mut |line| println!("{line}")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (brokers, properties) = (cluster.bootstrap(), Properties::new());
    let created = runtime.block_on(stream::create_topic(brokers, &properties, "heads", 3, 1));
    assert!(created.unwrap());
    let topic = format!("kafka://{}/heads", cluster.bootstrap());
    let scheme = Scheme::configured(&format!(
        "[chain_heads]\ntopic = \"{topic}\"\nevery_seconds = 1\nkey = \"{}\"\n",
        auditor.path("ec.private").display()
    ));
    scheme.pay("1");
    scheme.wait_until_delivered();
    let signed = wait_until_signed(&scheme.admin);

    let data = scheme.home.data();
    let report = auditor.verify_with(&data, &topic, "ec.public").succeeds().json();
    assert_eq!((&report["ok"], &report["faults"]), (&json!(true), &json!([])), "{report}");
    assert!(signed <= report["covered"]["log_index"].as_u64().unwrap(), "{report}");

    let missing = auditor.verify_with(&data, &format!("{topic}s"), "ec.public").fails();
    assert!(missing.contains("topic headss does not exist"), "{missing}");
    let producer = Producer::connect(ProducerSettings::new(brokers)).unwrap();
    runtime.block_on(producer.send(&Record::to("heads", b"not signed".to_vec()))).unwrap();
    let output = auditor.verify_with(&data, &topic, "ec.public");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let fault = report["faults"][0].as_str().unwrap();
    assert!(fault.starts_with("message at offset "), "{fault}");
    scheme.end();
}
