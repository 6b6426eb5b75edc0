//! The laboratory as a program, without a switch next to it.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

#[test]
fn a_missing_switch_is_named_with_its_remedy() {
    let place = TempDir::new().unwrap();
    let alone = place.path().join("upesi-bench");
    fs::copy(env!("CARGO_BIN_EXE_upesi-bench"), &alone).unwrap();
    let data = place.path().join("data");
    let mut command = Command::new(&alone);
    command.args(["transfer", "--count", "1", "--data"]).arg(&data);
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{errors}");
    let missing = format!("{} does not exist: build it", place.path().join("upesi").display());
    assert!(errors.contains(&missing), "{errors}");
}

#[cfg(feature = "real-brokers")]
#[test]
fn stream_scenarios_lose_repeat_and_reorder_nothing() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_upesi-bench"));
    command.args(["stream", "--seconds", "0.3", "--json"]);
    for name in ["s00-01", "s00-02", "s06-02", "s09", "x-keyed", "x-batch"] {
        command.args(["--scenario", name]);
    }
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let scenarios = report["scenarios"].as_array().unwrap();
    assert_eq!(scenarios.len(), 6);
    for scenario in scenarios {
        let read = scenario["consumer"]["messages"].as_u64().unwrap();
        assert!(10 < read, "{scenario}");
    }
}
