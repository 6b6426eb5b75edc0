//! Runs simulations: `simulation --seed N [--runs K] [--seconds S] [--transfers T] [--verbose]`.
//!
//! Without `--runs` and `--seconds` one run is made. With `--seconds` runs are made, seed after
//! seed, until the time is over. The first failure ends it: its seed comes first, then what went
//! wrong, then the command that repeats it; the exit status is 1.

use std::panic;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::Parser;
use simulation::{Options, Report, run};

#[derive(Parser)]
#[command(about = "The deterministic simulator of the hub")]
struct Arguments {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many seeds, one after the other.
    #[arg(long)]
    runs: Option<u64>,
    /// How long to go on, in seconds of real time.
    #[arg(long)]
    seconds: Option<u64>,
    /// Transfers in each run.
    #[arg(long, default_value_t = Options::default().transfers)]
    transfers: u32,
    /// Prints every event.
    #[arg(long)]
    verbose: bool,
    /// Prints a line per run.
    #[arg(long)]
    each: bool,
}

/// Where the last assertion broke.
static PLACE: Mutex<String> = Mutex::new(String::new());

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options { transfers: arguments.transfers, verbose: arguments.verbose };
    panic::set_hook(Box::new(|broken| {
        let place = broken.location().map(ToString::to_string).unwrap_or_default();
        if let Ok(mut last) = PLACE.lock() {
            *last = place;
        }
    }));
    let start = Instant::now();
    let (mut runs, mut transfers) = (0, 0);
    while is_wanted(&arguments, runs, start.elapsed()) {
        let report = run(arguments.seed + runs, &options);
        runs += 1;
        transfers += report.tally.transfers;
        if let Some(failure) = &report.failure {
            print_failure(&report, failure, &options);
            return ExitCode::FAILURE;
        }
        if arguments.each || arguments.verbose {
            println!("{report}");
        }
    }
    let took = start.elapsed();
    let rate = u128::from(transfers) * 1_000_000 / took.as_micros().max(1);
    println!(
        "{runs} runs from seed {}, {transfers} transfers in {} ms: {rate} a second; all passed",
        arguments.seed,
        took.as_millis()
    );
    ExitCode::SUCCESS
}

fn is_wanted(arguments: &Arguments, runs: u64, elapsed: Duration) -> bool {
    let counted = arguments.runs.is_some_and(|wanted| wanted <= runs);
    let timed = arguments.seconds.is_some_and(|most| Duration::from_secs(most) <= elapsed);
    let single = arguments.runs.is_none() && arguments.seconds.is_none() && runs == 1;
    !(counted || timed || single)
}

fn print_failure(report: &Report, failure: &str, options: &Options) {
    let place = PLACE.lock().map(|place| place.clone()).unwrap_or_default();
    println!("seed {} failed at {} microseconds:", report.seed, report.virtual_us);
    println!("{failure}\n  at {place}\n  {report}");
    println!(
        "repeat it with: cargo run --release -p simulation -- --seed {} --transfers {} --verbose",
        report.seed, options.transfers
    );
}
