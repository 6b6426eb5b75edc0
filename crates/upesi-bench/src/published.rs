//! `upesi-bench published`: the published load scripts, through adapters on both sides.
//!
//! A hub, the adapter of four payers, the adapter of four payees, and simulated back ends, each a
//! process. An iteration is that of the published k6 script: `GET /parties`, `POST /quotes` and
//! `POST /simpleTransfers` at the payer's adapter, at a constant rate of arrivals.

mod load;
mod programs;
mod scheme;
mod summary;

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};
use harness::error::HarnessError;
use harness::interrupt::Interrupt;
use harness::options::require;
use harness::output::{check_json, print_results};
use harness::proc_stats::Origin;
use harness::simulators::runtime;
use harness::status_line::StatusLine;
use harness::switch_process::SwitchCommand;
use serde::Serialize;

use self::load::{LoadPlan, Measurements, run_load};
use self::scheme::PublishedScheme;
pub(crate) use self::summary::PublishedReport;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi-bench published --tps 500 --minutes 1
  upesi-bench published --tps 1000 --minutes 20 --json published.json
  upesi-bench published --flow discovery --tps 2000";

/// The highest rate that may be asked for.
const TPS_MAX: u32 = 100_000;
const MINUTES_MAX: f64 = 24.0 * 60.0;
const WARM_UP_SECONDS_MAX: f64 = 600.0;
/// Longest wait for the iterations in flight after the last start.
const DRAIN: Duration = Duration::from_secs(60);

/// Options of `published`. The results contain them.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct PublishedOptions {
    /// Iterations to start per second.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) tps: u32,
    /// Duration of the measured part, in minutes.
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    pub(crate) minutes: f64,
    /// The steps of an iteration.
    #[arg(long, value_enum, default_value_t = Flow::All)]
    pub(crate) flow: Flow,
    /// Iterations in flight above which new ones are dropped and counted.
    ///
    /// Default: 5 times --tps, and at least 2000, as in the published script.
    #[arg(long, value_name = "N")]
    pub(crate) vus: Option<usize>,
    /// Load before the measured part, in seconds.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub(crate) warmup: f64,
    /// Directory for the files of the scheme [default: temporary].
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Write the results as JSON to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    json: Option<Option<PathBuf>>,
}

/// The steps of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Flow {
    /// Look-up, quote and transfer.
    All,
    /// The look-up alone.
    Discovery,
    /// The quote alone.
    Quotes,
    /// The transfer alone. Its quote is requested before, and is not measured.
    Transfers,
}

impl Flow {
    fn has_discovery(self) -> bool {
        matches!(self, Self::All | Self::Discovery)
    }

    fn has_quote(self) -> bool {
        self != Self::Discovery
    }

    fn has_transfer(self) -> bool {
        matches!(self, Self::All | Self::Transfers)
    }
}

impl PublishedOptions {
    fn check(&self) -> Result<(), HarnessError> {
        require((1..=TPS_MAX).contains(&self.tps), "--tps: expected 1 to 100000")?;
        let is_length = 0.0 < self.minutes && self.minutes <= MINUTES_MAX;
        require(is_length, "--minutes: expected more than 0, and at most 1440")?;
        let is_warm_up = (0.0..=WARM_UP_SECONDS_MAX).contains(&self.warmup);
        require(is_warm_up, "--warmup: expected 0 to 600")?;
        require(self.vus != Some(0), "--vus: expected at least 1")
    }

    fn vus_max(&self) -> usize {
        self.vus.unwrap_or((5 * self.tps as usize).max(2_000))
    }

    /// Iterations of the measured part.
    fn target(&self) -> u64 {
        (f64::from(self.tps) * self.minutes * 60.0).ceil() as u64
    }
}

/// Measures, prints the results, and writes the requested file.
///
/// # Errors
///
/// The options are invalid, the scheme could not be set up, or a file cannot be written.
pub(crate) fn bench(
    options: &PublishedOptions,
    command: &SwitchCommand,
) -> Result<PublishedReport, HarnessError> {
    options.check()?;
    check_json(options.json.as_ref())?;
    let interrupt = Interrupt::listen();
    let temporary = tempfile::tempdir().map_err(HarnessError::file("a temporary directory"))?;
    let directory = options.data.as_deref().unwrap_or(temporary.path());
    let origin = Origin::here(Some(directory));
    let report = measure(options, command, directory, (&interrupt, origin))?;
    print_results(&report, options.json.as_ref())?;
    Ok(report)
}

fn measure(
    options: &PublishedOptions,
    command: &SwitchCommand,
    directory: &Path,
    (interrupt, origin): (&Interrupt, Origin),
) -> Result<PublishedReport, HarnessError> {
    let mut live = StatusLine::on_stderr();
    live.step("starting a hub, two adapters and back ends");
    let mut scheme = PublishedScheme::start(command, directory, interrupt)?;
    let runtime = runtime()?;
    live.step("registering 4,000 parties");
    runtime.block_on(scheme.register(interrupt))?;
    let plan = |iterations| LoadPlan {
        flow: options.flow,
        tps: options.tps,
        iterations,
        vus_max: options.vus_max(),
    };
    let warm_up = (f64::from(options.tps) * options.warmup) as u64;
    live.step("warming up");
    let early = runtime.block_on(run_load(&plan(warm_up), &scheme, interrupt))?;
    live.step(&format!("measuring {} iterations", options.target()));
    let before = scheme.figures();
    let measured = runtime.block_on(run_load(&plan(options.target()), &scheme, interrupt))?;
    let usage = scheme.usage_since(&before);
    let commits = scheme.commits()?;
    let mut invalid_because = check_commits(options.flow, &[&early, &measured], commits);
    scheme.stop()?;
    live.step("verifying the hub's log");
    invalid_because.extend(command.verify(&scheme::hub_directory(directory)).err());
    Ok(PublishedReport::new(options, measured, (usage, commits), (invalid_because, origin)))
}

/// Every completed transfer must be committed by the hub, and no other one but those whose answer
/// was an error or late.
fn check_commits(flow: Flow, parts: &[&Measurements], commits: u64) -> Vec<String> {
    let sum = |of: &dyn Fn(&Measurements) -> u64| parts.iter().map(|part| of(part)).sum::<u64>();
    let (completed, failed) = match flow.has_transfer() {
        true => (sum(&|part| part.completed), sum(&|part| part.failed)),
        false => (0, 0),
    };
    match (completed..=completed + failed).contains(&commits) {
        true => Vec::new(),
        false => vec![format!(
            "the hub committed {commits} transfers, the payers counted {completed} and {failed} \
             without success"
        )],
    }
}
