//! A short demonstration: a whole scheme from an empty directory to a verified ledger.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use serde_json::Value;

use crate::bench::{MEMBERS, read};
use crate::support::switch::{PROGRAM, Printed};

/// Number of members of its result that scripts rely on: the first ones of a measurement.
const DEMO_MEMBERS: usize = 9;

#[test]
fn short_demonstration_moves_money_and_verifies_it() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (json, data) = (place.path().join("out.json"), place.path().join("data"));
    let mut command = Command::new(PROGRAM);
    command.args(["demo", "--seconds", "1", "--concurrency", "8", "--subscribers", "20"]);
    command.arg("--json").arg(&json).arg("--data").arg(&data);
    command.output().expect("started").succeeds();
    let result = read(&json);
    for member in &MEMBERS[..DEMO_MEMBERS] {
        assert!(!result[member].is_null(), "{member} is missing: {result}");
    }
    assert_eq!((&result["failed"], &result["verified"]), (&Value::from(0), &Value::from(true)));
    assert!(result["rate_per_s"].as_f64().is_some_and(|rate| 0.0 < rate), "{result}");
    assert!(data.join("admin-token").exists(), "a given directory is kept");
}

#[test]
fn demonstration_with_a_master_key_is_encrypted() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (key, data) = (place.path().join("master.key"), place.path().join("data"));
    fs::write(&key, "5a".repeat(32)).expect("written");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("private");
    let mut command = Command::new(PROGRAM);
    command.args(["demo", "--seconds", "1", "--fsps", "2", "--subscribers", "5", "--data"]);
    command.arg(&data).arg("--encryption-key").arg(format!("file:{}", key.display()));
    command.output().expect("started").succeeds();
    assert!(data.join("data.keys").exists(), "its log is encrypted");
}

/// A scheme that `upesi init` has set up moves money over TLS with signatures, and its ledger
/// agrees with the participants.
#[test]
fn secure_demonstration_compares_a_secure_scheme_with_a_plain_one() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (json, data) = (place.path().join("out.json"), place.path().join("data"));
    let mut command = Command::new(PROGRAM);
    command.args(["demo", "--seconds", "3", "--rate", "10", "--fsps", "2", "--subscribers", "5"]);
    command.arg("--data").arg(&data).arg("--json").arg(&json).args(["--secure", "p256"]);
    command.output().expect("started").succeeds();
    let result = read(&json);
    assert_eq!((&result["failed"], &result["verified"]), (&Value::from(0), &Value::from(true)));
    for kind in ["plain", "secure"] {
        let committed = &result[kind]["top"]["committed"];
        assert!(committed.as_u64().is_some_and(|count| 20 <= count), "{kind}: {result}");
    }
    assert!(result["ratios"]["switch_cpu"].as_f64().is_some_and(|ratio| 0.0 < ratio), "{result}");
    let log = fs::read_to_string(data.join("secure/data/switch.log")).expect("kept");
    assert!(log.contains("FSPIOP on https://") && log.contains("admin on https://"), "{log}");
    let key = fs::read_to_string(data.join("secure/jws/hub.pem")).expect("kept");
    assert!(key.len() < 200, "a P-256 key is short: {key}");
}
