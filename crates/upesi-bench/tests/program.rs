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
