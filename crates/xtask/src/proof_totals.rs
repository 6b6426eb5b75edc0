//! Totals of the longer proofs over all runs: each run adds to them.
//!
//! The file is in the build directory, which git ignores: a line `NAME NUMBER` for every part of a
//! proof that passed, appended by its program. A proof in a process of its own finds the file by
//! the variable [`VARIABLE`]; without the variable, it counts nothing. The totals are the sums over
//! all lines. Deleting the file resets them.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Names the file to child processes: `simulation`, and the proof of kills in `upesi`'s tests.
pub(crate) const VARIABLE: &str = "UPESI_PROOF_TALLY";
const FILE: &str = "proof-tally.txt";

/// Written by `simulation`.
const TRANSFERS: &str = "simulated-transfers";
/// Written by the test `kill`.
const KILLS: &str = "sigkill-cycles";
/// Processor time, followed by the target's name; written by the step `fuzz`.
const FUZZ_SECONDS: &str = "fuzz-cpu-seconds:";

/// Written by the test `kafka_matrix`.
const FAULT_ROUNDS: &str = "kafka-fault-rounds";

const TRANSFERS_GOAL: f64 = 10_000_000.0;
const KILLS_GOAL: f64 = 1_000.0;
const FAULT_ROUNDS_GOAL: f64 = 20.0;
const FUZZ_MINUTES_GOAL: f64 = 30.0;

/// Path of the file.
pub(crate) fn path(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    root.join(target).join(FILE)
}

/// Adds processor time of a fuzz target that found nothing.
pub(crate) fn add_fuzz(root: &Path, target: &str, seconds: f64) {
    let path = path(root);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let added = file.and_then(|mut file| writeln!(file, "{FUZZ_SECONDS}{target} {seconds:.0}"));
    if let Err(error) = added {
        eprintln!("{}: {error}; this run is not counted", path.display());
    }
}

/// Processor time that each target has had, in seconds.
pub(crate) fn fuzzed(root: &Path) -> BTreeMap<String, f64> {
    let sums = read(root).into_iter();
    sums.filter_map(|(name, sum)| Some((name.strip_prefix(FUZZ_SECONDS)?.to_owned(), sum)))
        .collect()
}

/// Totals of all runs, with their goals.
pub(crate) fn table(root: &Path, targets: &[String]) -> String {
    render(&read(root), targets)
}

fn render(sums: &BTreeMap<String, f64>, targets: &[String]) -> String {
    let sum = |name: &str| sums.get(name).copied().unwrap_or(0.0);
    let mut text = format!("{:<32} {:>12} {:>12}\n", "all runs together", "so far", "goal");
    let mut line = |name: &str, so_far: f64, goal: f64| {
        let reached = if so_far < goal { "" } else { "  reached" };
        text += &format!("{name:<32} {so_far:>12.0} {goal:>12.0}{reached}\n");
    };
    line("SIGKILL cycles", sum(KILLS), KILLS_GOAL);
    line("simulated transfers", sum(TRANSFERS), TRANSFERS_GOAL);
    line("rounds of faults on brokers", sum(FAULT_ROUNDS), FAULT_ROUNDS_GOAL);
    for target in targets {
        let minutes = sum(&format!("{FUZZ_SECONDS}{target}")) / 60.0;
        line(&format!("CPU minutes of fuzz {target}"), minutes, FUZZ_MINUTES_GOAL);
    }
    text
}

fn read(root: &Path) -> BTreeMap<String, f64> {
    // No file yet is an empty one.
    parse(&fs::read_to_string(path(root)).unwrap_or_default())
}

/// An invalid line, as an interrupted run may leave, is ignored.
fn parse(text: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let Some((name, number)) = line.split_once(' ') else { continue };
        let Ok(number) = number.parse::<f64>() else { continue };
        *sums.entry(name.to_owned()).or_default() += number;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_add_up_against_their_goals() {
        let text = "sigkill-cycles 600\nsimulated-transfers 250000\nfuzz-cpu-seconds:prepare 90\n\
                    sigkill-cycles 500\nkafka-fault-rounds 1\ncut sho\n\n\
                    fuzz-cpu-seconds:prepare 1710\nsimulated-tra";
        let targets = ["prepare".to_owned(), "quote".to_owned()];
        let expected = "\
all runs together                      so far         goal
SIGKILL cycles                           1100         1000  reached
simulated transfers                    250000     10000000
rounds of faults on brokers                 1           20
CPU minutes of fuzz prepare                30           30  reached
CPU minutes of fuzz quote                   0           30
";
        assert_eq!(render(&parse(text), &targets), expected);
    }
}
