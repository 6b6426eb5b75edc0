//! A short demonstration: a whole scheme from an empty directory to a verified ledger.

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
