//! Sweeps: several runs that answer one question, with published figures for comparison.
//!
//! Phases: check that the files can be written, make the runs one after the other, each with its
//! own switch on a new log, print the table, write the files. A void run is named and makes the
//! sweep void; the other runs are still made. An interrupt ends the sweep, and the results so far
//! are shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use crate::bench::run;
use crate::bench_report::OverOneSecond;
use crate::html_report;
use crate::options::count_or_none;
use crate::sweep::expiry::expiry;
use crate::sweep::plans::{Plan, Plans, plans};
use crate::sweep::report::{Step, SweepReport};
use crate::sweep::stored_transfers::growth;
use harness::error::HarnessError;
use harness::histograms::Second;
use harness::interrupt::Interrupt;
use harness::options::count;
use harness::output::{check_writable, print_results};
use harness::switch_process::SwitchCommand;

mod aliases;
mod disk_events;
mod expiry;
mod offline;
mod plans;
pub(crate) mod report;
pub(crate) mod stored_transfers;
mod tables;

/// A sweep and its options.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Sweep {
    /// Concurrency and batch size 1 to 16, as in Coil's report (2020).
    ///
    /// Options: --count [default: 1000], or --seconds instead.
    Coil(TableOptions),
    /// With and without batches, 30 to 100 users: S1 to S10 of the reference (2023).
    ///
    /// Compares with Mojaloop's page on batch processing. Options: --seconds [default: 10].
    Batching(TableOptions),
    /// A million whole transactions: rate over time, p99, memory, log size.
    ///
    /// Options: --count, and --concurrency [default: 64] or --rate.
    Million(TableOptions),
    /// Slower disks: longer syncs, or a limit of syncs per second.
    ///
    /// Options: --seconds [default: 10], --concurrency [default: 100], --syncs-per-second [default:
    /// 500].
    Disk(TableOptions),
    /// Many reserved transfers expire within a second while others continue.
    Expiry(ExpiryOptions),
    /// Few and many stored transfers: rate, p99, start, memory and disk.
    Growth(GrowthOptions),
    /// One hour at a constant rate: the share of transfers over one second.
    ///
    /// Options: --seconds [default: 3600], --rate [default: 1000].
    Hour(TableOptions),
}

/// Options of every sweep.
#[derive(Args, Clone, Debug)]
pub(crate) struct SweepOutput {
    /// A short trial run of under a minute; the figures are not meaningful.
    #[arg(long)]
    pub quick: bool,
    /// Write the results as JSON to FILE, or to standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub json: Option<Option<PathBuf>>,
    /// Write a report with charts to FILE, as one self-contained HTML page.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Program of the switch [default: `upesi` next to this program].
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Options of the sweeps in `sweeps.json`. Each table accepts some of them, with its own defaults.
#[derive(Args, Clone, Debug)]
pub(crate) struct TableOptions {
    /// Length and load of the runs.
    #[command(flatten)]
    pub load: TableLoad,
    /// Options of every sweep.
    #[command(flatten)]
    pub output: SweepOutput,
}

/// The load of the runs of a table.
#[derive(Args, Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableLoad {
    /// Units in each run.
    #[arg(long, conflicts_with = "seconds")]
    pub count: Option<u64>,
    /// Length of each run, in seconds.
    #[arg(long)]
    pub seconds: Option<f64>,
    /// Units in flight.
    #[arg(long)]
    pub concurrency: Option<usize>,
    /// Units to start per second, independent of responses.
    #[arg(long, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// Maximum syncs per second in the last run.
    #[arg(long)]
    pub syncs_per_second: Option<u32>,
}

/// Options of the expiry sweep.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExpiryOptions {
    /// Transfers that expire.
    #[arg(long, default_value_t = 100_000, conflicts_with = "quick")]
    pub count: usize,
    /// Seconds within which they expire, evenly spread; 0 for all at once.
    #[arg(long, default_value_t = 1.0)]
    pub within: f64,
    /// Transfers per second that continue meanwhile.
    #[arg(long, default_value_t = 1_000.0, conflicts_with = "quick")]
    pub rate: f64,
    /// Seconds to reserve them [default: 5, plus 1 for each 2000 transfers].
    #[arg(long)]
    pub reserve: Option<f64>,
    /// Options of every sweep.
    #[command(flatten)]
    pub output: SweepOutput,
}

/// Options of the growth sweep.
#[derive(Args, Clone, Debug)]
pub(crate) struct GrowthOptions {
    /// Numbers of stored transfers to compare, such as 0.1M,1M.
    ///
    /// The smallest and the largest are compared. A million takes about 2.5 GB of disk.
    #[arg(long, value_name = "COUNT,COUNT", default_value = "0.1M,1M,10M",
        conflicts_with = "quick", value_delimiter = ',', value_parser = count)]
    pub sizes: Vec<u64>,
    /// Party directory entries to compare with ten thousand; 0 skips the comparison.
    #[arg(long, value_name = "COUNT", default_value = "10M", value_parser = count_or_none)]
    pub aliases: u64,
    /// Length of each run, in seconds: two or three runs per size and round.
    #[arg(long, default_value_t = 10.0, conflicts_with = "quick")]
    pub seconds: f64,
    /// Number of rounds; the median counts.
    #[arg(long, default_value_t = 3, conflicts_with = "quick")]
    pub rounds: usize,
    /// Directory for the filled data directories, kept and reused [default: temporary].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Options of every sweep.
    #[command(flatten)]
    pub output: SweepOutput,
}

/// Makes the runs of a sweep, prints them with the published figures, and writes the requested
/// files. The sweep counts only if [`SweepReport::valid`] is set.
///
/// # Errors
///
/// The first run could not be set up, or a file cannot be written.
pub(crate) fn sweep(sweep: &Sweep, command: &SwitchCommand) -> Result<SweepReport, HarnessError> {
    let output = sweep.output();
    for path in output.json.iter().flatten().chain(&output.report) {
        check_writable(path)?;
    }
    let mut command = command.clone();
    command.program = output.program.clone().unwrap_or(command.program);
    let report = match sweep {
        Sweep::Coil(options) => table("coil", options, &command),
        Sweep::Batching(options) => table("batching", options, &command),
        Sweep::Million(options) => table("million", options, &command),
        Sweep::Disk(options) => table("disk", options, &command),
        Sweep::Hour(options) => table("hour", options, &command),
        Sweep::Expiry(options) => expiry(options, &command),
        Sweep::Growth(options) => growth(options, &command),
    }?;
    print_results(&report, output.json.as_ref())?;
    if let Some(path) = &output.report {
        std::fs::write(path, html_report::sweep_page(&report)).map_err(HarnessError::file(path))?;
    }
    Ok(report)
}

impl Sweep {
    /// Options of every sweep.
    fn output(&self) -> &SweepOutput {
        match self {
            Self::Expiry(options) => &options.output,
            Self::Growth(options) => &options.output,
            Self::Coil(options)
            | Self::Batching(options)
            | Self::Million(options)
            | Self::Disk(options)
            | Self::Hour(options) => &options.output,
        }
    }
}

/// Makes the runs of a table, after checking the options of all of them.
fn table(
    name: &'static str,
    options: &TableOptions,
    command: &SwitchCommand,
) -> Result<SweepReport, HarnessError> {
    let Plans { question, sources, plans } = plans(name, options)?;
    plans.iter().try_for_each(|plan| plan.options.check(plan.scenario))?;
    let interrupt = Interrupt::listen();
    let (mut steps, mut invalid_because): (Vec<Step>, _) = (Vec::new(), Vec::new());
    let all = plans.len();
    for (index, plan) in plans.into_iter().enumerate() {
        eprintln!("sweep {}, run {} of {all}: {}", name, index + 1, plan.name);
        let run = plan.name.clone();
        match step(plan, command) {
            Ok(step) => {
                invalid_because.extend(step.problem());
                steps.push(step);
            }
            Err(error) if steps.is_empty() => return Err(error),
            Err(error) => invalid_because.push(format!("{run}: {error}")),
        }
        if interrupt.seen() {
            invalid_because.push(format!("interrupted in run {} of {all}", index + 1));
            break;
        }
    }
    Ok(SweepReport {
        sweep: name,
        question,
        valid: invalid_because.is_empty(),
        invalid_because,
        published: sources,
        facts: facts(name, &steps),
        tables: Vec::new(),
        goals: Vec::new(),
        steps,
    })
}

/// Makes one run.
fn step(plan: Plan, command: &SwitchCommand) -> Result<Step, HarnessError> {
    let mut command = command.clone();
    if !plan.configuration.is_empty() {
        command = command.configured(&plan.configuration);
    }
    if let Some((argument, durability)) = plan.injected {
        command.serve.push(argument.into());
        command.durability = durability;
    }
    let result = run(plan.scenario, &plan.options, &command)?;
    let Plan { name, group, at, published, .. } = plan;
    Ok(Step { name, group, at, published, result })
}

/// Figures of the runs that are not in the table.
fn facts(sweep: &str, steps: &[Step]) -> BTreeMap<&'static str, f64> {
    let Some(result) = steps.first().map(|step| &step.result) else { return BTreeMap::new() };
    let ended = result.whole_run.ended.max(1) as f64;
    match sweep {
        "million" => {
            let bytes = result.summary.log_bytes_per_tx.unwrap_or(0.0);
            let [first, last] = first_and_last_tenth(&result.seconds_one_by_one);
            BTreeMap::from([
                ("log_megabytes", bytes * ended / 1e6),
                ("log_bytes_per_transaction", bytes),
                ("switch_memory_megabytes", result.summary.switch_rss_mb),
                ("p99_first_tenth_ms", first),
                ("p99_last_tenth_ms", last),
            ])
        }
        "hour" => {
            let failed = result.seconds_one_by_one.iter().map(|second| second.failed).sum::<u64>();
            let counted = (result.whole_run.ended, result.dropped + failed);
            let [transfers, units] = over_one_second_percent(result.over_one_second, counted);
            BTreeMap::from([
                ("transfers_over_one_second_percent", transfers),
                ("whole_transactions_over_one_second_percent", units),
                ("switch_memory_megabytes", result.summary.switch_rss_mb),
            ])
        }
        _ => BTreeMap::new(),
    }
}

/// Percentages of the transfers and units that were due. A unit that failed or was dropped counts
/// as longer than one second.
fn over_one_second_percent(over: OverOneSecond, (ended, never): (u64, u64)) -> [f64; 2] {
    let due = (ended + never).max(1) as f64;
    [over.transfers, over.units].map(|over| (over + never) as f64 * 100.0 / due)
}

/// Mean of the p99 of single seconds, at the start and at the end of a run.
fn first_and_last_tenth(seconds: &[Second]) -> [f64; 2] {
    let tenth = seconds.len().div_ceil(10);
    let mean = |part: &[Second]| {
        part.iter().map(|second| second.p99_ms).sum::<f64>() / part.len().max(1) as f64
    };
    // The last second is incomplete.
    let whole = &seconds[..seconds.len().saturating_sub(1).max(seconds.len().min(1))];
    [mean(&whole[..tenth.min(whole.len())]), mean(&whole[whole.len().saturating_sub(tenth)..])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_and_dropped_units_count_as_over_one_second() {
        let over = OverOneSecond { units: 3, transfers: 1 };
        assert_eq!(over_one_second_percent(over, (100, 0)), [1.0, 3.0]);
        assert_eq!(over_one_second_percent(over, (80, 20)), [21.0, 23.0]);
    }

    #[test]
    fn tenths_exclude_the_incomplete_last_second() {
        let second = |number: u32, p99_ms| Second { second: number, p99_ms, ..Second::default() };
        let mut seconds: Vec<_> = (0..20).map(|number| second(number, f64::from(number))).collect();
        seconds.push(second(20, 1e6));
        assert_eq!(first_and_last_tenth(&seconds), [1.0, 18.0]);
        assert_eq!(first_and_last_tenth(&seconds[..1]), [0.0, 0.0]);
        assert_eq!(first_and_last_tenth(&[]), [0.0, 0.0]);
    }
}
