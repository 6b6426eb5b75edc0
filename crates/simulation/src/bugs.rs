//! Plants each deliberate bug in turn, and looks how long it takes until a run fails.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use ledger::planted_bugs::{ALL, Bug, plant};
use simulation::{Report, RunOptions, run, shrink};

/// Within this time of one core every bug must be caught.
const CATCH_MAX: Duration = Duration::from_secs(60);
/// Runs in which the run that caught a bug is made small.
const SHRINK_RUNS: u32 = 1_000;

/// The effect of a bug on the runs.
struct Catch {
    bug: Bug,
    report: Option<Report>,
    runs: u64,
    took: Duration,
}

/// Plants every bug and prints a table. Fails unless each is caught in time, and the run that
/// caught it passes without the bug.
pub(crate) fn plant_all(seed: u64) -> ExitCode {
    println!("deliberate bugs, from seed {seed}");
    let mut sound = true;
    for bug in ALL {
        let caught = catch(bug, seed);
        sound &= print_catch(&caught);
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn catch(bug: Bug, first: u64) -> Catch {
    plant(Some(bug));
    let (start, mut runs) = (Instant::now(), 0);
    let mut report = None;
    while report.is_none() && start.elapsed() < CATCH_MAX {
        let made = run(first + runs, &RunOptions::default());
        runs += 1;
        report = Some(made).filter(|report| report.failure.is_some());
    }
    let took = start.elapsed();
    plant(None);
    Catch { bug, report, runs, took }
}

/// Prints how it was caught; false if it was not, or if something else was.
fn print_catch(Catch { bug, report, runs, took }: &Catch) -> bool {
    let Some(report) = report else {
        println!("\n{bug}: NOT CAUGHT in {runs} runs, {} s", took.as_secs());
        return false;
    };
    let without_it = run(report.seed, &RunOptions::default());
    plant(Some(*bug));
    let same = |again: &Report| again.failure.is_some() && again.place == report.place;
    let shrunk = shrink(&RunOptions::default(), report.clone(), SHRINK_RUNS, &same);
    plant(None);
    let left = shrunk.options.transfers as usize - shrunk.options.without.transfers.len();
    println!(
        "\n{bug}: caught by seed {} after {runs} runs, {} ms, at {} virtual ms\n  {}\n  at {}\n  \
         shrunk to {left} transfers, without {:?}",
        report.seed,
        took.as_millis(),
        report.virtual_us / 1_000,
        report.failure.as_deref().unwrap_or_default().replace('\n', "\n  "),
        report.place,
        shrunk.options.without.kinds,
    );
    if let Some(other) = &without_it.failure {
        println!("  BUT the seed fails without the bug too: {other}");
    }
    without_it.failure.is_none()
}
