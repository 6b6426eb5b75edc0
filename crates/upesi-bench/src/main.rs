//! The laboratory: measures a switch, and makes histories to measure it with. It starts the program
//! `upesi` next to its own file as the switch.

mod generate;

use std::ffi::OsString;
use std::fmt;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::{Parser, Subcommand};
use harness::{BenchOptions, Origin, OverheadOptions, Progress, Scenario, Sweep, SwitchCommand};
use microbench::Done;
use serde::Serialize;
use upesi::CliError;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const EXAMPLES: &str = "\
Examples:
  upesi-bench transfer --rate 1000   latency of transfers at a constant rate, and their cost
  upesi-bench sweep batching         a published table, and our figures
  upesi-bench core                   kernel, log, stored forms and signatures, without sockets
  upesi-bench preload --data big --total 1M
                                     a directory with a million final transfers";

/// Measure a hub: rate, latency, cost, and whether the run is valid.
#[derive(Parser)]
#[command(version = harness::VERSION, about, after_help = EXAMPLES, arg_required_else_help = true)]
struct Arguments {
    /// Measure a switch whose log is on Kafka: kafka://HOST:PORT,HOST:PORT/PREFIX. It gets a new
    /// topic, whose name begins with the prefix and which stays there.
    #[arg(long, value_name = "URL")]
    log: Option<String>,
    #[command(subcommand)]
    what: What,
}

/// What is measured.
#[derive(Subcommand)]
enum What {
    /// Transfers: POST /transfers to the notice of the commit at the payer.
    Transfer(Box<BenchOptions>),
    /// Prepares: POST /transfers until the payee has received it.
    Prepare(Box<BenchOptions>),
    /// Fulfilments: PUT /transfers by the payee to the notice of the commit at the payer.
    Fulfil(Box<BenchOptions>),
    /// Look-ups: GET /parties to the party's callback.
    Lookup(Box<BenchOptions>),
    /// Quotes: POST /quotes to the quote's callback.
    Quote(Box<BenchOptions>),
    /// Whole transactions: look-up, quote and transfer.
    Whole(Box<BenchOptions>),
    /// The tables of the field: several runs that answer one question, beside published figures.
    Sweep(SweepArguments),
    /// The instrument itself: exchanges with a server that only says 202, and whole transactions
    /// through a hub that only forwards.
    Harness(OverheadOptions),
    /// The core without sockets: kernel, log, stored forms, FSPIOP messages, signatures.
    Core(microbench::Options),
    /// Put many ended transfers into a data directory, to measure a switch that has them.
    ///
    /// The FSPs are those of a measurement, so that it runs on the directory at once. Every
    /// transfer has real messages with random ids, names, amounts and conditions, and went through
    /// the switch's own checks, sequencer and log: `verify` proves them. Never for money.
    #[command(after_help = generate::EXAMPLES)]
    Preload(generate::PreloadArguments),
}

/// Arguments of `sweep`.
#[derive(clap::Args)]
struct SweepArguments {
    #[command(subcommand)]
    sweep: Sweep,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    upesi::end_with_reader(|| carry_out(&arguments))
}

fn carry_out(arguments: &Arguments) -> Result<(), CliError> {
    let (scenario, options) = match &arguments.what {
        What::Transfer(options) => (Scenario::Transfer, options),
        What::Prepare(options) => (Scenario::Prepare, options),
        What::Fulfil(options) => (Scenario::Fulfil, options),
        What::Lookup(options) => (Scenario::Lookup, options),
        What::Quote(options) => (Scenario::Quote, options),
        What::Whole(options) => (Scenario::Whole, options),
        _ if arguments.log.is_some() && !arguments.what.has_one_switch() => {
            return Err(CliError::new("--log is for measurements of one switch: transfer"));
        }
        What::Sweep(arguments) => return sweep(&arguments.sweep),
        What::Core(options) => return core(options),
        What::Preload(arguments) => return generate::preload(arguments),
        What::Harness(options) => {
            return harness::bench_harness(options)
                .map_err(|error| CliError::new(error.to_string()));
        }
    };
    let mut command = switch_command()?;
    if let Some(log) = &arguments.log {
        if options.hub.is_some() || options.nodes.nodes.is_some() {
            let what = "--log is for one switch that is started here, not for --hub or --nodes";
            return Err(CliError::new(what));
        }
        on_kafka(&mut command, log)?;
    }
    measure(scenario, options, &command)
}

impl What {
    fn has_one_switch(&self) -> bool {
        !matches!(self, Self::Sweep(_) | Self::Core(_) | Self::Harness(_) | Self::Preload(_))
    }
}

/// Has each switch that is started write to a topic of its own: its port is in the name.
fn on_kafka(command: &mut SwitchCommand, log: &str) -> Result<(), CliError> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_err(|error| CliError::new(error.to_string()))?.as_secs();
    let log = format!("{log}-{now}-{{fspiop_port}}");
    command.serve.extend(["--log", &log, "--node", "bench"].map(OsString::from));
    command.durability = "replicas in sync have it in memory before 202 (Kafka)".to_owned();
    command.is_on_topic = true;
    Ok(())
}

fn measure(
    scenario: Scenario,
    options: &BenchOptions,
    command: &SwitchCommand,
) -> Result<(), CliError> {
    let report = harness::bench(scenario, options, command)
        .map_err(|error| CliError::new(error.to_string()))?;
    verdict("run", report.valid, &report.invalid_because)
}

fn sweep(sweep: &Sweep) -> Result<(), CliError> {
    let report = harness::sweep(sweep, &switch_command()?)
        .map_err(|error| CliError::new(error.to_string()))?;
    verdict("sweep", report.valid, &report.invalid_because)
}

fn switch_command() -> Result<SwitchCommand, CliError> {
    let program = SwitchCommand::beside().map_err(|error| CliError::new(error.to_string()))?;
    Ok(SwitchCommand::standard(program))
}

fn verdict(what: &str, valid: bool, invalid_because: &[String]) -> Result<(), CliError> {
    if valid {
        return Ok(());
    }
    let why = invalid_because.first().map_or("see above", |why| why);
    Err(CliError::new(format!("the {what} is VOID: {why}")))
}

/// What `core` measured, where, and with which options.
#[derive(Serialize)]
struct CoreReport<'a> {
    #[serde(flatten)]
    report: microbench::Report,
    #[serde(flatten)]
    origin: Origin,
    configuration: &'a microbench::Options,
}

impl fmt::Display for CoreReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&harness::text::fields(self, &[]))
    }
}

fn core(options: &microbench::Options) -> Result<(), CliError> {
    let failed = |error: harness::HarnessError| CliError::new(error.to_string());
    harness::check_json(options.json.as_ref()).map_err(failed)?;
    let origin = Origin::here(Some(&options.data));
    let data = options.data.clone();
    harness::end_when_interrupted(move || microbench::remove_files(&data));
    let mut shown = Shown::default();
    let report = microbench::run(options, &mut |done| shown.show(done));
    shown.end();
    let report = report.map_err(|error| CliError::new(error.to_string()))?;
    let report = CoreReport { report, origin, configuration: options };
    harness::tell(&report, options.json.as_ref()).map_err(failed)
}

/// The line that tells how far a part is.
#[derive(Default)]
struct Shown {
    progress: Option<Progress>,
    last: u64,
}

impl Shown {
    /// Fewer than before, or others: something new has begun.
    fn show(&mut self, done: Done) {
        if done.done < self.last {
            self.end();
        }
        self.last = done.done;
        let begin = || Progress::new(done.what, Some(done.all));
        let progress = self.progress.get_or_insert_with(begin);
        progress.expect(done.all);
        progress.show(done.done);
    }

    fn end(&mut self) {
        if let Some(mut progress) = self.progress.take() {
            progress.end();
        }
    }
}
