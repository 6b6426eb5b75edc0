//! Combinations of faults: a node killed, a broker killed, a node suspended, a node disconnected
//! from the brokers. Each round is a measurement by `upesi-bench` with three nodes and three
//! brokers. It counts only if all of its checks pass: positions match the FSPs' counts, every
//! message answered 2xx is in the log of every node, each log is verified, and all have the same
//! state.
//!
//! One round, unless `UPESI_PROOF_SECONDS` allows more, and then at least [`ROUNDS_MIN`]. With
//! `UPESI_PROOF_TALLY` it continues after the last counted round.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::support::namespaces::{Need, apart_within, run};
use crate::support::switch::{Printed, finish_within, laboratory};

const FAULTS: [&str; 4] = ["node", "broker", "pause", "cut"];
/// Number of non-empty sets of faults.
const COMBINATIONS: u64 = 15;
/// Minimum number of rounds of a proof: each combination, and some in another order.
const ROUNDS_MIN: u64 = 20;
/// Longest duration of a round.
const ROUND: Duration = Duration::from_secs(240);
/// Longest outage by a single fault: a session timeout and 3 s for the take-over, with a margin for
/// a busy machine.
const ALONE_MS: f64 = 12_000.0;
/// Name in the tally.
const ROUNDS: &str = "kafka-fault-rounds";

#[test]
fn combined_faults_lose_nothing() {
    let test = "kafka_matrix::combined_faults_lose_nothing";
    let within = budget() + ROUND * (rounds_min() as u32 + 1);
    apart_within(test, (Need::Network, within), || {
        // Without a fault that disconnects a node, all traffic uses the loopback interface.
        run("ip", &["link", "set", "lo", "up"]);
        let (started, first) = (Instant::now(), rounds_so_far());
        for round in first.. {
            play(round);
            count();
            if first + rounds_min() <= round + 1 && budget() <= started.elapsed() {
                return;
            }
        }
    });
}

/// The faults of a round, in their order. Later rounds start with other faults. The full set comes
/// first, and single faults are placed between sets.
fn faults(round: u64) -> Vec<&'static str> {
    let set = 1 + (7 * round + 14) % COMBINATIONS;
    let mut faults: Vec<_> =
        (0..FAULTS.len()).filter(|at| set >> at & 1 == 1).map(|at| FAULTS[at]).collect();
    let turn = (round / COMBINATIONS) as usize % faults.len();
    faults.rotate_left(turn);
    faults
}

fn play(round: u64) {
    let faults = faults(round);
    let home = TempDir::new().unwrap();
    let json = home.path().join("result.json");
    let mut command = laboratory();
    command.args(["transfer", "--nodes", "3", "--brokers", "3"]);
    command.args(["--kill", &faults.join(","), "--seconds", &seconds(&faults).to_string()]);
    // No transaction may time out, even on a slow machine.
    command.args(["--concurrency", "16", "--timeout", "120"]);
    command.arg("--data").arg(home.path().join("data")).arg("--json").arg(&json);
    let output = finish_within(command, ROUND);
    let output_text = output.out();
    let complained = output.err();
    assert!(output.status.success(), "round {round}, {faults:?}: {output_text}{complained}");
    let result: Value = serde_json::from_slice(&fs::read(&json).unwrap()).unwrap();
    let nodes = &result["nodes"];
    let outages = nodes["outages"].as_array().unwrap();
    assert_eq!(outages.len(), faults.len(), "{nodes}");
    assert!(0 < nodes["acknowledged"].as_u64().unwrap(), "{nodes}");
    // Several faults may overlap. Only the outage of a single one has a stated limit.
    if let [alone] = &outages[..] {
        assert!(alone["outage_ms"].as_f64().unwrap() < ALONE_MS, "{alone}");
    }
    let outages: Vec<_> = outages.iter().map(outage).collect();
    println!("round {round}: {} acknowledged; {}", nodes["acknowledged"], outages.join(", "));
}

/// Long enough that each fault lasts longer than a session timeout.
fn seconds(faults: &[&str]) -> usize {
    16 + 4 * faults.len()
}

fn outage(outage: &Value) -> String {
    let fault = outage["fault"].as_str().unwrap();
    format!("{fault} {:.0} ms", outage["outage_ms"].as_f64().unwrap())
}

fn rounds_min() -> u64 {
    if budget().is_zero() { 1 } else { ROUNDS_MIN }
}

fn budget() -> Duration {
    let seconds = std::env::var("UPESI_PROOF_SECONDS").ok();
    Duration::from_secs(seconds.and_then(|text| text.parse().ok()).unwrap_or(0))
}

/// Rounds of all previous runs, if a tally file is configured.
fn rounds_so_far() -> u64 {
    let tally = std::env::var_os("UPESI_PROOF_TALLY").map(fs::read_to_string);
    let tally = tally.and_then(Result::ok).unwrap_or_default();
    let count = |line: &str| line.strip_prefix(ROUNDS)?.trim().parse::<u64>().ok();
    tally.lines().filter_map(count).sum()
}

fn count() {
    let Some(path) = std::env::var_os("UPESI_PROOF_TALLY") else { return };
    let file = OpenOptions::new().create(true).append(true).open(path);
    let added = file.and_then(|mut file| writeln!(file, "{ROUNDS} 1"));
    added.expect("the tally can be written");
}

#[test]
fn fifteen_rounds_cover_every_combination_once() {
    let mut sets: Vec<_> = (0..COMBINATIONS).map(faults).collect();
    assert!(sets.iter().all(|set| !set.is_empty()));
    sets.sort();
    sets.dedup();
    assert_eq!(sets.len() as u64, COMBINATIONS);
    assert_eq!(faults(0), FAULTS);
    assert_eq!(faults(15), ["broker", "pause", "cut", "node"]);
}
