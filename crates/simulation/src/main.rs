//! Runs simulations: `simulation --seed N [--runs K] [--seconds S] [--transfers T] [--verbose]`;
//! with `--cluster` of three nodes over a model of Kafka.
//!
//! Without `--runs` and `--seconds` one run is made. With `--seconds` runs are made, seed after
//! seed, until the time is over. The first failure ends it: its seed comes first, then what went
//! wrong, then the run made small, as a text to be committed; the exit status is 1.
//!
//! `--regression FILE` plays such a text again. `--outcomes` adds a table of how often each
//! outcome of the kernel was reached. `--bugs`, in a build with the feature `planted-bugs`,
//! plants each deliberate bug and shows how it is caught.

#[cfg(feature = "planted-bugs")]
mod bugs;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use ledger::Outcome;
use simulation::{Reduction, Regression, Report, RunOptions, run, run_cluster, shrink};

/// The switch's own; a run is a great many small allocations.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(about = "The deterministic simulator of the hub")]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    runs: Option<u64>,
    /// Run for SECONDS of real time.
    #[arg(long)]
    seconds: Option<u64>,
    /// Transfers in each run.
    #[arg(long, default_value_t = RunOptions::default().transfers)]
    transfers: u32,
    /// Plays a regression, a text as a failing run leaves one, instead of a seed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["seed", "runs", "seconds", "transfers"])]
    regression: Option<PathBuf>,
    /// Most runs that making a failing run small may take; 0 leaves it as it is.
    #[arg(long, default_value_t = 10_000, value_name = "RUNS")]
    shrink: u32,
    /// Prints every event.
    #[arg(long)]
    verbose: bool,
    /// Prints a line per run.
    #[arg(long)]
    each: bool,
    /// Runs three nodes over a model of Kafka instead of one hub over a disk.
    #[arg(long, conflicts_with_all = ["regression", "outcomes"])]
    cluster: bool,
    /// Prints how often each outcome was reached.
    #[arg(long)]
    outcomes: bool,
    /// Plants each deliberate bug, and shows how it is caught.
    #[cfg(feature = "planted-bugs")]
    #[arg(long)]
    bugs: bool,
}

/// The totals of all runs.
#[derive(Default)]
struct Total {
    runs: u64,
    transfers: u64,
    outcomes: BTreeMap<Outcome, u64>,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.runs += 1;
        self.transfers += report.counts.transfers;
        for (outcome, count) in &report.outcomes {
            *self.outcomes.entry(*outcome).or_default() += count;
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "planted-bugs")]
    if arguments.bugs {
        return bugs::plant_all(arguments.seed);
    }
    if arguments.cluster {
        return run_clusters(&arguments);
    }
    let without = Reduction::default();
    let mut options =
        RunOptions { transfers: arguments.transfers, verbose: arguments.verbose, without };
    let mut seed = arguments.seed;
    if let Some(path) = &arguments.regression {
        let read = read(path);
        let Ok(Regression { seed: its_seed, options: its_options, .. }) = read else {
            eprintln!("{}: {}", path.display(), read.err().unwrap_or_default());
            return ExitCode::FAILURE;
        };
        seed = its_seed;
        options = RunOptions { verbose: arguments.verbose, ..its_options };
    }
    println!("seed {seed}, {} transfers a run", options.transfers);
    let (start, before, mut total) = (Instant::now(), cpu_time_us(), Total::default());
    while is_wanted(&arguments, total.runs, start.elapsed()) {
        let report = run(seed.wrapping_add(total.runs), &options);
        total.add(&report);
        if report.failure.is_some() {
            print_failure(report, &options, arguments.shrink);
            return ExitCode::FAILURE;
        }
        if arguments.each || arguments.verbose {
            println!("{report}");
        }
    }
    print_total(&total, seed, (start.elapsed(), cpu_time_us() - before));
    count(total.transfers);
    if arguments.outcomes {
        total.outcomes.iter().for_each(|(outcome, count)| println!("{count:>10}  {outcome:?}"));
    }
    ExitCode::SUCCESS
}

/// Runs of three nodes, seed after seed.
fn run_clusters(arguments: &Arguments) -> ExitCode {
    let Arguments { seed, transfers, verbose, .. } = *arguments;
    println!("seed {seed}, three nodes, {transfers} transfers a run");
    let (start, mut runs, mut made) = (Instant::now(), 0, 0);
    while is_wanted(arguments, runs, start.elapsed()) {
        let report = run_cluster(seed.wrapping_add(runs), transfers, verbose);
        runs += 1;
        made += report.counts.transfers;
        if let Some((failure, place)) = &report.failure {
            println!("seed {} failed at {} microseconds:", report.seed, report.virtual_us);
            println!("{failure}\n  at {place}\n  {report}");
            println!(
                "Repeat it with: cargo run --release -p simulation -- --cluster --verbose \
                 --seed {} --transfers {transfers}",
                report.seed
            );
            return ExitCode::FAILURE;
        }
        if arguments.each {
            println!("{report}");
        }
    }
    let took = start.elapsed().as_millis();
    println!(
        "{runs} runs of three nodes from seed {seed}, {made} transfers in {took} ms; all passed"
    );
    count(made);
    ExitCode::SUCCESS
}

fn read(path: &Path) -> Result<Regression, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())?.parse()
}

fn is_wanted(arguments: &Arguments, runs: u64, elapsed: Duration) -> bool {
    let counted = arguments.runs.is_some_and(|wanted| wanted <= runs);
    let timed = arguments.seconds.is_some_and(|most| Duration::from_secs(most) <= elapsed);
    let single = arguments.runs.is_none() && arguments.seconds.is_none() && runs == 1;
    !(counted || timed || single)
}

/// Time of the processor so far, that of whatever this process was before included, as cargo.
fn cpu_time_us() -> u64 {
    let worked = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    worked.tv_sec as u64 * 1_000_000 + worked.tv_nsec as u64 / 1_000
}

/// The rate is that of the processor's time, which other programs do not take part in.
fn print_total(total: &Total, seed: u64, (took, cpu_time_us): (Duration, u64)) {
    let Total { runs, transfers, .. } = total;
    let rate = transfers * 1_000_000 / cpu_time_us.max(1);
    println!(
        "{runs} runs from seed {seed}, {transfers} transfers in {} ms, {rate} per second of the \
         processor; all passed",
        took.as_millis()
    );
}

/// Adds to the transfers of all runs, if the totals are kept.
fn count(transfers: u64) {
    let Some(path) = std::env::var_os("UPESI_PROOF_TALLY") else { return };
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let added = file.and_then(|mut file| writeln!(file, "simulated-transfers {transfers}"));
    if let Err(error) = added {
        eprintln!("{}: {error}; this run is not counted", Path::new(&path).display());
    }
}

fn print_failure(report: Report, options: &RunOptions, runs_max: u32) {
    let (seed, place) = (report.seed, report.place.clone());
    let failure = report.failure.clone().unwrap_or_default();
    println!("seed {seed} failed at {} microseconds:", report.virtual_us);
    println!("{failure}\n  at {place}\n  {report}");
    println!("shrinking it, in at most {runs_max} runs ...");
    let same = |report: &Report| report.failure.is_some() && report.place == place;
    let shrunk = shrink(options, report, runs_max, &same);
    let failure = format!("{}\nat {place}", shrunk.report.failure.clone().unwrap_or_default());
    let left = shrunk.options.transfers - shrunk.options.without.transfers.len() as u32;
    let options = RunOptions { verbose: false, ..shrunk.options };
    println!("{left} transfers are left after {} runs, with this failure:\n", shrunk.runs);
    println!("{}", Regression { failure, seed, options });
    println!(
        "Keep these lines as crates/simulation/regressions/NAME.seed: the gate plays every file \
         there.\nRepeat it with: cargo run --release -p simulation -- --verbose --regression FILE"
    );
}
