//! The demonstration with nodes and brokers: its output, and the end of all its processes.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::support::switch::{PROGRAM, Printed, finish_within};

const LONG: Duration = Duration::from_secs(240);

fn demonstration(data: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(["demo", "--nodes", "3", "--brokers", "3", "--seconds", "15"]);
    command.args(["--concurrency", "8", "--subscribers", "20", "--timeout", "120"]);
    command.arg("--data").arg(data);
    command
}

#[test]
fn demo_survives_a_killed_node_and_broker() {
    let home = TempDir::new().unwrap();
    let json = home.path().join("out.json");
    let mut command = demonstration(&home.path().join("data"));
    command.arg("--json").arg(&json);
    let output = finish_within(command, LONG);
    let (text, errors) = (output.out(), output.err());
    assert!(output.status.success(), "{text}{errors}");
    for part in ["is killed", "is started again", "the leader of the topic, is killed"] {
        assert!(errors.contains(part) && text.contains(part), "{part}: {text}{errors}");
    }
    let result: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    assert_eq!((&result["failed"], &result["verified"]), (&Value::from(0), &Value::from(true)));
    let nodes = &result["nodes"];
    let faults: Vec<_> =
        nodes["outages"].as_array().unwrap().iter().map(|outage| &outage["fault"]).collect();
    assert_eq!(faults, ["node", "broker"], "{nodes}");
    assert!(nodes["state_hash"].as_str().is_some_and(|hash| hash.len() == 64), "{nodes}");
    assert_eq!(running_in(home.path()), Vec::<String>::new());
}

#[test]
fn interrupted_demo_stops_all_its_processes() {
    let home = TempDir::new().unwrap();
    let mut command = demonstration(&home.path().join("data"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("measuring")), "the measured part never began");
    assert!(6 <= running_in(home.path()).len(), "three nodes and three brokers");
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).unwrap();
    kill_process(id, Signal::INT).unwrap();
    // Reads until the process has ended.
    lines.for_each(drop);
    assert!(!child.wait().unwrap().success());
    assert_eq!(running_in(home.path()), Vec::<String>::new());
}

/// Command lines of processes with a path in this directory.
fn running_in(directory: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    let name = directory.to_str().unwrap();
    lines.filter(|line| line.contains(name) && !line.contains(" demo ")).collect()
}
