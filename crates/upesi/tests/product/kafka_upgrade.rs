//! Nodes are upgraded under load, one after the other: each leaves in order and starts as another
//! program, and then the rules of that program are activated. A measurement by the program itself,
//! which counts only if every check passes that it makes.
//!
//! With `UPESI_PROOF_NEXT` the other program is that one, from the root of the repository, and must
//! know rules that this build does not; without it the nodes start again as what they were.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::switch::{PROGRAM, finish_within};

const PATIENCE: Duration = Duration::from_secs(240);

#[test]
fn nodes_are_upgraded_one_by_one_under_load() {
    let next = std::env::var_os("UPESI_PROOF_NEXT").map(|path| root().join(path));
    let home = TempDir::new().unwrap();
    let (data, json) = (home.path().join("data"), home.path().join("result.json"));
    let mut command = Command::new(PROGRAM);
    command.args(["bench", "transfer", "--nodes", "3", "--brokers", "1", "--seconds", "20"]);
    // Nothing is to end by time, however slow the machine.
    command.args(["--concurrency", "16", "--timeout", "120"]);
    command.arg("--upgrade").arg(next.as_deref().unwrap_or(Path::new(PROGRAM)));
    command.arg("--data").arg(&data).arg("--json").arg(&json);
    let output = finish_within(command, PATIENCE);
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complained}");
    let result: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let nodes = &result["nodes"];
    let faults: Vec<_> =
        nodes["outages"].as_array().unwrap().iter().map(|one| one["fault"].clone()).collect();
    assert_eq!(faults, ["upgrade", "upgrade", "upgrade", "rules"], "{nodes}");
    assert!(0 < nodes["acknowledged"].as_u64().unwrap(), "{nodes}");
    let version = if next.is_some() { 2 } else { 1 };
    let decided = format!("rules of version {version} decide");
    let events = nodes["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["what"] == *decided), "{nodes}");
    if next.is_some() {
        no_way_back(&data.join("node-b"));
    }
}

/// The older program refuses the log, and says why.
fn no_way_back(data: &Path) {
    let mut command = Command::new(PROGRAM);
    command.arg("verify").arg("--data").arg(data);
    let output = finish_within(command, PATIENCE);
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    let reason = "was decided by rules version 2; this binary knows up to 1";
    assert!(said.contains(reason) || complained.contains(reason), "{said}{complained}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
