//! `upesi-bench`: measures a switch, and fills data directories with a long history to measure. It
//! starts the program `upesi` next to its own file as the switch.

mod bench;
mod bench_report;
mod bulk;
mod generate;
mod html_report;
mod options;
mod overhead;
mod prepared_data;
mod published;
mod scale;
mod settlement;
mod stream;
mod sweep;

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use harness::{Origin, Progress, Scenario, SwitchCommand};
use microbench::PartProgress;
use serde::Serialize;
use upesi::{CliError, CompletionsArguments, HelpGroup, ManArguments};

use crate::options::{BenchOptions, OverheadOptions};
use crate::sweep::Sweep;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  upesi-bench transfer --rate 1000             latency at a constant rate
  upesi-bench sweep batching                   a published table and our figures
  upesi-bench core                             kernel, log and signatures
  upesi-bench preload --data big --total 1M    a million final transfers";

const GROUPS: &[HelpGroup] = &[
    ("Measure a hub", &["transfer", "prepare", "fulfil", "lookup", "quote", "whole"]),
    ("Measure parts", &["bulk", "scale", "settlement", "core", "stream", "harness"]),
    ("Compare", &["sweep", "published"]),
    ("Prepare", &["preload"]),
    ("Generate", &["completions", "man"]),
];

/// Measure an FSPIOP hub: rate, latency, cost, and whether the run is valid.
#[derive(Parser)]
#[command(name = "upesi-bench", version = harness::VERSION, about, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
struct Arguments {
    /// Put the switch's log on Kafka: kafka://HOST:PORT,HOST:PORT/PREFIX.
    ///
    /// Each run creates a topic whose name starts with PREFIX. The topic is not deleted.
    #[arg(long, value_name = "URL")]
    log: Option<String>,
    #[command(subcommand)]
    command: Command,
}

/// The commands of `upesi-bench`.
#[derive(Subcommand)]
enum Command {
    /// Transfers: from POST /transfers to the commit notice at the payer.
    Transfer(Box<BenchOptions>),
    /// Prepares: from POST /transfers to its receipt by the payee.
    Prepare(Box<BenchOptions>),
    /// Fulfilments: from PUT /transfers to the notice at the payer.
    Fulfil(Box<BenchOptions>),
    /// Look-ups: from GET /parties to its callback.
    Lookup(Box<BenchOptions>),
    /// Quotes: from POST /quotes to its callback.
    Quote(Box<BenchOptions>),
    /// Whole transactions: look-up, quote and transfer.
    Whole(Box<BenchOptions>),
    /// Bulk transfers, compared with single ones and the kernel alone.
    ///
    /// Bulks of --items transfers pass between simulated FSPs: first single transfers are measured,
    /// then bulks in all pairs, then one bulk at a time, and last the kernel alone. Each run takes
    /// --seconds and has its own switch.
    #[command(after_help = bulk::EXAMPLES)]
    Bulk(Box<bulk::BulkOptions>),
    /// The same load on 1, 2 and more cores, and what limits it next.
    ///
    /// Each run pins a new switch and the simulated FSPs to the same cores, and takes --seconds.
    /// Reported are transfers per second and core, the CPU time of each thread of the switch for a
    /// transfer, and the rate that more cores would allow if the FSPs ran elsewhere: all cores
    /// full, or the thread full that decides all transfers in one order.
    #[command(after_help = scale::EXAMPLES)]
    Scale(Box<scale::ScaleOptions>),
    /// Repeat the runs of a published table and compare the figures.
    Sweep(SweepArguments),
    /// Play the published load scripts through adapters on both sides.
    ///
    /// Starts a hub, one adapter for four payers, one for four payees, and simulated back ends.
    /// Iterations of the published k6 script start at a constant rate: GET /parties, POST /quotes
    /// and POST /simpleTransfers at the payer's adapter, with the published shares of the FSPs. The
    /// summary has the published form and thresholds. Times are from the intended start. The run is
    /// void unless the hub has committed all completed transfers and, besides failed ones, no other
    /// ones, and its log is valid. Exit code 1 if the run is void or a threshold is missed.
    #[command(after_help = published::EXAMPLES)]
    Published(published::PublishedOptions),
    /// The load generator itself, against a server that only answers 202.
    ///
    /// Also measures whole transactions through a hub that only forwards messages.
    Harness(OverheadOptions),
    /// Close windows and settle them while transfers run at full rate.
    ///
    /// At regular intervals, an operator closes the open window over the admin API, creates a
    /// settlement, and moves all of its accounts through all states. Reported are the 99th
    /// percentile of the latency in the seconds of each close, divided by that of the two seconds
    /// before and after, and the duration of each call. For comparison, the same ratio is computed
    /// for seconds in which nothing was closed. The time of a call includes HTTP, the sync of the
    /// log and the time in the queue with transfers.
    ///
    /// With --window-transfers, one window of that size is filled and settled by the kernel alone,
    /// without a log, HTTP or other load, with 1,000 participants.
    #[command(after_help = settlement::EXAMPLES)]
    Settlement(Box<settlement::SettlementOptions>),
    /// The core without sockets: kernel, log, encoding, signatures.
    Core(microbench::CoreOptions),
    /// Consumers and producers of Kafka topics, in published scenarios.
    ///
    /// Each scenario sends samples of audit messages, then a consumer reads them. Each message must
    /// arrive once and in order. Starts a broker unless --brokers is given.
    #[command(after_help = stream::EXAMPLES)]
    Stream(stream::StreamOptions),
    /// Fill a data directory with final transfers.
    ///
    /// The participants are those of a measurement, so that `upesi-bench` can measure the directory
    /// at once. Every transfer has real messages with random ids, names, amounts and conditions.
    /// They pass the switch's checks, sequencer and log, and `upesi verify` accepts the result.
    /// Never use the directory for real money.
    #[command(after_help = generate::EXAMPLES)]
    Preload(generate::PreloadArguments),
    /// Print a completion script for a shell.
    Completions(CompletionsArguments),
    /// Write man pages for all commands to a directory.
    Man(ManArguments),
}

/// Arguments of `sweep`.
#[derive(clap::Args)]
struct SweepArguments {
    #[command(subcommand)]
    sweep: Sweep,
}

fn main() -> ExitCode {
    let matches = command_line().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    upesi::end_with_reader(|| carry_out(&arguments))
}

fn command_line() -> clap::Command {
    upesi::with_command_groups(Arguments::command(), GROUPS)
}

fn carry_out(arguments: &Arguments) -> Result<(), CliError> {
    let (scenario, options) = match &arguments.command {
        Command::Transfer(options) => (Scenario::Transfer, options),
        Command::Prepare(options) => (Scenario::Prepare, options),
        Command::Fulfil(options) => (Scenario::Fulfil, options),
        Command::Lookup(options) => (Scenario::Lookup, options),
        Command::Quote(options) => (Scenario::Quote, options),
        Command::Whole(options) => (Scenario::Whole, options),
        _ if arguments.log.is_some() && !arguments.command.has_one_switch() => {
            return Err(CliError::new(
                "--log: only valid for measurements of one switch, such as `transfer`",
            ));
        }
        Command::Sweep(arguments) => return sweep(&arguments.sweep),
        Command::Core(options) => return core(options),
        Command::Bulk(options) => return bulk(options),
        Command::Scale(options) => return scale(options),
        Command::Settlement(options) => return settle(options),
        Command::Published(options) => return play_published(options),
        Command::Stream(options) => return stream::bench(options),
        Command::Preload(arguments) => return generate::preload(arguments),
        Command::Completions(arguments) => {
            upesi::print_completions(arguments, command_line());
            return Ok(());
        }
        Command::Man(arguments) => return upesi::write_man_pages(arguments, command_line()),
        Command::Harness(options) => {
            return overhead::bench_harness(options)
                .map_err(|error| CliError::new(error.to_string()));
        }
    };
    let mut command = switch_command()?;
    if let Some(log) = &arguments.log {
        if options.hub.is_some() || options.nodes.nodes.is_some() {
            return Err(CliError::new("--log: cannot be combined with --hub or --nodes"));
        }
        on_kafka(&mut command, log)?;
    }
    measure(scenario, options, &command)
}

impl Command {
    fn has_one_switch(&self) -> bool {
        use Command::{Fulfil, Lookup, Prepare, Quote, Transfer, Whole};
        matches!(self, Transfer(_) | Prepare(_) | Fulfil(_) | Lookup(_) | Quote(_) | Whole(_))
    }
}

/// Gives each started switch its own topic, whose name contains its port.
fn on_kafka(command: &mut SwitchCommand, log: &str) -> Result<(), CliError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_err(|error| CliError::new(error.to_string()))?.as_secs();
    let log = format!("{log}-{now}-{{fspiop_port}}");
    command.serve.extend(["--log", &log, "--node", "bench"].map(OsString::from));
    command.durability = "in-sync replicas have it in memory before 202 (Kafka)".to_owned();
    command.is_on_topic = true;
    Ok(())
}

fn measure(
    scenario: Scenario,
    options: &BenchOptions,
    command: &SwitchCommand,
) -> Result<(), CliError> {
    let report = bench::bench(scenario, options, command)
        .map_err(|error| CliError::new(error.to_string()))?;
    verdict("run", report.valid, &report.invalid_because)
}

fn settle(options: &settlement::SettlementOptions) -> Result<(), CliError> {
    let failed = |error: harness::HarnessError| CliError::new(error.to_string());
    if let Some(transfers) = options.window_transfers {
        return settlement::settle_one(options, transfers).map_err(failed);
    }
    let report = settlement::bench(options, &switch_command()?).map_err(failed)?;
    verdict("run", report.run.valid, &report.run.invalid_because)
}

fn bulk(options: &bulk::BulkOptions) -> Result<(), CliError> {
    let report = bulk::bench(options, &switch_command()?)
        .map_err(|error| CliError::new(error.to_string()))?;
    verdict("run", report.valid, &report.invalid_because)
}

fn scale(options: &scale::ScaleOptions) -> Result<(), CliError> {
    let report = scale::bench(options, &switch_command()?)
        .map_err(|error| CliError::new(error.to_string()))?;
    verdict("run", report.valid, &report.invalid_because)
}

fn play_published(options: &published::PublishedOptions) -> Result<(), CliError> {
    let report = published::bench(options, &switch_command()?)
        .map_err(|error| CliError::new(error.to_string()))?;
    verdict("run", report.valid, &report.invalid_because)?;
    match report.missed.first() {
        None => Ok(()),
        Some(threshold) => Err(CliError::new(format!("run: threshold missed: {threshold}"))),
    }
}

fn sweep(sweep: &Sweep) -> Result<(), CliError> {
    let report = sweep::sweep(sweep, &switch_command()?)
        .map_err(|error| CliError::new(error.to_string()))?;
    verdict("sweep", report.valid, &report.invalid_because)
}

fn switch_command() -> Result<SwitchCommand, CliError> {
    let program =
        SwitchCommand::sibling_program().map_err(|error| CliError::new(error.to_string()))?;
    Ok(SwitchCommand::standard(program))
}

fn verdict(what: &str, valid: bool, invalid_because: &[String]) -> Result<(), CliError> {
    if valid {
        return Ok(());
    }
    let why = invalid_because.first().map_or("see above", |why| why);
    Err(CliError::new(format!("{what}: VOID: {why}")))
}

/// The result of `core`, with its environment and options.
#[derive(Serialize)]
struct CoreReport<'a> {
    #[serde(flatten)]
    report: microbench::Report,
    #[serde(flatten)]
    origin: Origin,
    configuration: &'a microbench::CoreOptions,
}

impl fmt::Display for CoreReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&harness::text::fields(self, &[]))
    }
}

fn core(options: &microbench::CoreOptions) -> Result<(), CliError> {
    let failed = |error: harness::HarnessError| CliError::new(error.to_string());
    harness::check_json(options.json.as_ref()).map_err(failed)?;
    let origin = Origin::here(Some(&options.data));
    let data = options.data.clone();
    harness::end_when_interrupted(move || microbench::remove_files(&data));
    let mut line = ProgressLine::default();
    let report = microbench::run(options, &mut |part| line.show(part));
    line.end();
    let report = report.map_err(|error| CliError::new(error.to_string()))?;
    let report = CoreReport { report, origin, configuration: options };
    harness::print_results(&report, options.json.as_ref()).map_err(failed)
}

/// The progress line of the part that is being measured.
#[derive(Default)]
pub(crate) struct ProgressLine {
    progress: Option<Progress>,
    last: u64,
}

impl ProgressLine {
    /// A lower count than before means that a new part has begun.
    pub(crate) fn show(&mut self, part: PartProgress) {
        if part.done < self.last {
            self.end();
        }
        self.last = part.done;
        let begin = || Progress::new(part.items, Some(part.all));
        let progress = self.progress.get_or_insert_with(begin);
        progress.expect(part.all);
        progress.show(part.done);
    }

    pub(crate) fn end(&mut self) {
        if let Some(mut progress) = self.progress.take() {
            progress.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_follows_the_rules() {
        let faults = testkit::cli_help::faults(&Arguments::command(), GROUPS);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn command_line_is_consistent() {
        command_line().debug_assert();
    }
}
