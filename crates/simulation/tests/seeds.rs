//! Seeds that once found something, seeds never seen before, and what all of them together reach.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::time::{Duration, Instant};

use ledger::Outcome;
use simulation::{ReducedRun, Regression, Report, RunOptions, reachable, run, shrink};

/// Real time for fresh seeds, unless `UPESI_PROOF_SECONDS` gives another.
const FRESH_SECONDS: u64 = 60;
const COMMAND: &str = "repeat it with: cargo run --release -p simulation -- --verbose --seed";

fn check(seed: u64, options: &RunOptions) -> Report {
    println!("seed {seed}, {} transfers", options.transfers);
    let report = run(seed, options);
    let RunOptions { transfers, .. } = options;
    if let Some(failure) = &report.failure {
        panic!("seed {seed}: {failure}\n{report}\n{COMMAND} {seed} --transfers {transfers}");
    }
    report
}

/// The runs in `regressions` fail when the bug that each describes is put back.
#[test]
fn regressions_pass() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    let files = std::fs::read_dir(directory).expect("the directory is there");
    let mut played = 0;
    for file in files {
        let path = file.expect("it is listed").path();
        let text = std::fs::read_to_string(&path).expect("it is read");
        let regression: Regression =
            text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("{}: {}", path.display(), regression.failure);
        check(regression.seed, &regression.options);
        played += 1;
    }
    assert!(0 < played, "there are regressions");
}

/// Any property of a run can serve as a failure: here, a notice that reports an unknown error code
/// of the payee.
#[test]
fn shrinking_keeps_the_failure() {
    let wanted = |report: &Report| {
        let is_wanted = |(outcome, count): &(Outcome, u64)| {
            *outcome == Outcome::AbortedWithUnknownCode && 0 < *count
        };
        report.failure.is_none() && report.outcomes.iter().any(is_wanted)
    };
    let options = RunOptions { transfers: 60, ..RunOptions::default() };
    let found = (1..).map(|seed| run(seed, &options)).filter(wanted);
    let left = |small: &ReducedRun| {
        small.options.transfers as usize - small.options.without.transfers.len()
    };
    // Of some seeds little can be left out: all of a run hangs together.
    let small = found.take(4).map(|first| shrink(&options, first, 300, &wanted));
    let small = small.min_by_key(left).expect("seeds are many");
    assert!(wanted(&small.report), "it still has what was wanted");
    let left = left(&small);
    assert!(left <= 5, "{left} transfers are left: {:?}", small.options);
    assert_eq!(run(small.report.seed, &small.options), small.report, "it is the same run again");
}

#[test]
fn fresh_seeds_pass() {
    let given = std::env::var("UPESI_PROOF_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(given.unwrap_or(FRESH_SECONDS));
    let start = Instant::now();
    let first = RandomState::new().hash_one(0) >> 16;
    let mut seed = first;
    while start.elapsed() < time {
        check(seed, &RunOptions::default());
        seed += 1;
    }
    assert!(first < seed, "there is time for at least one run");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let options = RunOptions { transfers: 100, ..RunOptions::default() };
    let mut traces = Vec::new();
    for seed in 1..=12 {
        let (once, again) = (check(seed, &options), check(seed, &options));
        assert_eq!(once, again, "seed {seed}");
        traces.push((once.trace, once.state));
    }
    traces.sort_unstable_by_key(|(trace, _)| *trace);
    traces.dedup();
    assert_eq!(traces.len(), 12, "every seed has a run of its own");
}

/// Outcomes that these seeds do not reach are not proved.
#[test]
fn eighty_seeds_reach_every_kind_of_fault_and_every_outcome() {
    let mut outcomes: BTreeMap<Outcome, u64> = BTreeMap::new();
    let mut reached: BTreeMap<&str, u64> = BTreeMap::new();
    let mut changed = BTreeSet::new();
    for seed in 1..=80 {
        let report = check(seed, &RunOptions::default());
        for (outcome, count) in report.outcomes {
            *outcomes.entry(outcome).or_default() += count;
        }
        changed.extend(report.changed);
        let counts = report.counts;
        for (kind, count) in [
            ("power cuts", counts.power_cuts),
            ("kills", counts.kills),
            ("stops", counts.stops),
            ("cuts within an operation of the disk", counts.cut_within),
            ("failed syncs", counts.syncs_failed),
            ("failed starts", counts.failed_starts),
            ("records lost", counts.records_lost),
            ("full disks", counts.full),
            ("full inboxes", counts.refused),
            ("messages read from the log", counts.reloads),
            ("withdrawn prepares", counts.withdrawn),
            ("dead letters sent again", counts.redelivered),
            ("repeated notices", counts.repeats),
            ("snapshots", counts.snapshots),
            ("failed snapshots", counts.snapshots_failed),
            ("starts from snapshots", counts.snapshot_starts),
            ("archived segments", counts.archived),
            ("failures of the archiver", counts.archiving_failed),
            ("transfers read from the store", counts.prefetched),
            ("caps beside accounts that are off", counts.begun_while_off),
            ("outflows ended through another account", counts.ends_misaddressed),
            ("windows closed", counts.settlement.windows_closed),
            ("bulk transfers", counts.bulks),
            ("entries of the directory compared", counts.look_ups),
            ("entries of the directory lost to others", counts.entries_lost),
            ("settlements settled", counts.settlement.settled),
            ("settlements aborted", counts.settlement.aborted),
            ("settlements archived", counts.settlement.archived),
            ("rows read back from the archive", counts.settlement.read_back),
            ("transfers settled at once", counts.settlement.at_once),
            ("fees", counts.settlement.fees),
            ("slow disks", counts.slow),
            ("damaged copies refused", counts.damage_refused),
            ("bits flipped", counts.bits_flipped),
            ("writes to a wrong place", counts.writes_misdirected),
            ("messages lost", counts.messages_lost),
            ("messages twice", counts.messages_twice),
            ("jumps of the clock", counts.clock_jumps),
            ("slow answers", counts.slow_answers),
            ("refusals by an FSP", counts.refusals),
            ("silent FSPs", counts.silences),
            ("FSPs that are down", counts.no_connections),
            ("broken connections", counts.broken_connections),
        ] {
            *reached.entry(kind).or_default() += count;
        }
    }
    let never: Vec<_> = reached.iter().filter(|(_, count)| **count == 0).collect();
    assert!(never.is_empty(), "never reached: {never:?}");
    let missing = outcomes.iter().filter(|(_, count)| **count == 0);
    let missing: Vec<_> = missing.map(|(outcome, _)| *outcome).collect();
    assert!(missing.is_empty(), "no seed reaches {missing:?}");
    let missing: Vec<_> = reachable().filter(|change| !changed.contains(change)).collect();
    assert!(missing.is_empty(), "no seed reaches {missing:?}");
}
