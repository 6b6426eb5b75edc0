//! The demonstration, short: a whole scheme from nothing to a proved ledger.

use std::process::Command;

use serde_json::Value;

/// The members of the result that scripts rely on.
const MEMBERS: [&str; 9] = [
    "rate_per_s",
    "failed",
    "verified",
    "latency_ms",
    "legs_ms",
    "switch_cpu_ms_per_tx",
    "switch_rss_mb",
    "syncs_per_tx",
    "log_bytes_per_tx",
];

#[test]
fn a_short_demonstration_moves_money_and_proves_it() {
    let place = tempfile::tempdir().expect("a temporary directory");
    let (json, data) = (place.path().join("out.json"), place.path().join("data"));
    let output = Command::new(env!("CARGO_BIN_EXE_upesi"))
        .args(["demo", "--seconds", "1", "--concurrency", "8", "--subscribers", "20"])
        .arg("--json")
        .arg(&json)
        .arg("--data")
        .arg(&data)
        .output()
        .expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}\n{said}\n{errors}", output.status);
    let text = std::fs::read_to_string(&json).expect("the results are written");
    let result: Value = serde_json::from_str(&text).expect("the results are JSON");
    for member in MEMBERS {
        assert!(!result[member].is_null(), "{member} is missing: {text}");
    }
    assert_eq!((&result["failed"], &result["verified"]), (&Value::from(0), &Value::from(true)));
    assert!(result["rate_per_s"].as_f64().is_some_and(|rate| 0.0 < rate), "{text}");
    assert!(data.join("admin-token").exists(), "a directory that was named is kept");
}
