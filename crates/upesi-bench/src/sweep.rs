//! Sweeps: several runs that answer a question for which figures are published, ours beside
//! theirs.
//!
//! Phases: check that the files can be written, make the runs one after the other, each with a
//! switch of its own on a fresh log, print the table, write the files. A run that is void is named
//! and makes the sweep void; the others are still made. An interrupt ends the run and the sweep,
//! and what there is is shown.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::{Deserialize, Serialize};

use crate::bench::run;
use crate::bench_report::OverOneSecond;
use crate::options::count_or_none;
use crate::pages;
use crate::sweep::expiry::expiry;
use crate::sweep::plans::{Plan, Plans, plans};
use crate::sweep::report::{Step, SweepReport};
use crate::sweep::stored_transfers::growth;
use harness::error::HarnessError;
use harness::histograms::Second;
use harness::interrupt::Interrupt;
use harness::options::count;
use harness::output::{check_writable, tell};
use harness::switch_process::SwitchCommand;

mod aliases;
mod disk_events;
mod expiry;
mod offline;
mod plans;
pub(crate) mod report;
mod stored_transfers;
mod tables;

/// A question, and how its runs shall be.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Sweep {
    /// Concurrency and batch 1 to 16, as in the report on the concurrency of handlers (2020).
    /// Takes --count (1000), or --seconds instead.
    Coil(TableOptions),
    /// With and without batches, 30 to 100 users: S1 to S10 of the page on batch processing (2023).
    /// Takes --seconds (10).
    Batching(TableOptions),
    /// A million whole transactions: rate over time, p99, memory, bytes of log. Takes --count,
    /// --concurrency (64), or --rate instead.
    Million(TableOptions),
    /// Slower disks: each sync of the log takes longer, or there are few a second. Takes --seconds
    /// (10), --concurrency (100), --syncs-per-second (500).
    Disk(TableOptions),
    /// Many reserved transfers expire within a second while others go on.
    Expiry(ExpiryOptions),
    /// Few and many stored transfers: rate, p99, start, memory and disk, beside the goals.
    Growth(GrowthOptions),
    /// An hour at a constant rate: the share of transfers over one second. Takes --seconds (3600),
    /// --rate (1000).
    Hour(TableOptions),
}

/// Options of every sweep.
#[derive(Args, Clone, Debug)]
pub(crate) struct SweepOutput {
    /// Small enough to take well under a minute, to try it; the figures mean little.
    #[arg(long)]
    pub quick: bool,
    /// Write the results as JSON to this file, or without a name to the output.
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub json: Option<Option<PathBuf>>,
    /// Write a report with charts to this file: one page of HTML that needs nothing else.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Program of the switch, instead of the `upesi` next to this program.
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Options of the sweeps in `sweeps.json`; each table has its own defaults and takes some of them.
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
    /// Units started a second, whatever the answers.
    #[arg(long, conflicts_with = "concurrency")]
    pub rate: Option<f64>,
    /// The most syncs a second in the last run.
    #[arg(long)]
    pub syncs_per_second: Option<u32>,
}

/// Expiry under load.
#[derive(Args, Clone, Debug)]
pub(crate) struct ExpiryOptions {
    /// Transfers that expire.
    #[arg(long, default_value_t = 100_000, conflicts_with = "quick")]
    pub count: usize,
    /// Seconds within which they expire, evenly spread; 0 for all at the same moment.
    #[arg(long, default_value_t = 1.0)]
    pub within: f64,
    /// Transfers a second that go on meanwhile.
    #[arg(long, default_value_t = 1_000.0, conflicts_with = "quick")]
    pub rate: f64,
    /// Seconds allowed for reserving them; without it 5 and one for each 2000.
    #[arg(long)]
    pub reserve: Option<f64>,
    /// Options of every sweep.
    #[command(flatten)]
    pub output: SweepOutput,
}

/// Stored transfers.
#[derive(Args, Clone, Debug)]
pub(crate) struct GrowthOptions {
    /// Transfers stored, smallest and largest compared; k and M as in 0.1M. A million takes some
    /// 2.5 GB of disk.
    #[arg(long, value_name = "COUNT,COUNT", default_value = "0.1M,1M,10M",
        conflicts_with = "quick", value_delimiter = ',', value_parser = count)]
    pub sizes: Vec<u64>,
    /// Entries of the party directory that are compared with ten thousand; 0 leaves it out.
    #[arg(long, value_name = "COUNT", default_value = "10M", value_parser = count_or_none)]
    pub aliases: u64,
    /// Length of each run, in seconds: two or three for each size and round.
    #[arg(long, default_value_t = 10.0, conflicts_with = "quick")]
    pub seconds: f64,
    /// Rounds, of which the median counts.
    #[arg(long, default_value_t = 3, conflicts_with = "quick")]
    pub rounds: usize,
    /// Keep the filled directories in this one and take them again; without it temporary ones,
    /// removed at the end.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Options of every sweep.
    #[command(flatten)]
    pub output: SweepOutput,
}

/// Makes the runs of a sweep, prints them beside the published figures, and writes the files
/// asked for. Whether it counts is told by [`SweepReport::valid`].
///
/// # Errors
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
    tell(&report, output.json.as_ref())?;
    if let Some(path) = &output.report {
        std::fs::write(path, pages::of_sweep(&report)).map_err(HarnessError::file(path))?;
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

/// What the runs say beyond the table.
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

/// Of those that were due, transfers and units; one that failed or was dropped never ended well,
/// however long one waits.
fn over_one_second_percent(over: OverOneSecond, (ended, never): (u64, u64)) -> [f64; 2] {
    let due = (ended + never).max(1) as f64;
    [over.transfers, over.units].map(|over| (over + never) as f64 * 100.0 / due)
}

/// Mean of the p99 of single seconds, at the begin and at the end of a run.
fn first_and_last_tenth(seconds: &[Second]) -> [f64; 2] {
    let tenth = seconds.len().div_ceil(10);
    let mean = |part: &[Second]| {
        part.iter().map(|second| second.p99_ms).sum::<f64>() / part.len().max(1) as f64
    };
    // The last second is not whole.
    let whole = &seconds[..seconds.len().saturating_sub(1).max(seconds.len().min(1))];
    [mean(&whole[..tenth.min(whole.len())]), mean(&whole[whole.len().saturating_sub(tenth)..])]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_or_was_dropped_took_longer_than_a_second() {
        let over = OverOneSecond { units: 3, transfers: 1 };
        assert_eq!(over_one_second_percent(over, (100, 0)), [1.0, 3.0]);
        assert_eq!(over_one_second_percent(over, (80, 20)), [21.0, 23.0]);
    }

    #[test]
    fn tenths_are_of_whole_seconds() {
        let second = |number: u32, p99_ms| Second { second: number, p99_ms, ..Second::default() };
        let mut seconds: Vec<_> = (0..20).map(|number| second(number, f64::from(number))).collect();
        seconds.push(second(20, 1e6));
        assert_eq!(first_and_last_tenth(&seconds), [1.0, 18.0]);
        assert_eq!(first_and_last_tenth(&seconds[..1]), [0.0, 0.0]);
        assert_eq!(first_and_last_tenth(&[]), [0.0, 0.0]);
    }
}
