//! The switch and its tools: reads the configuration, wires the parts together, and shuts them
//! down. `upesi` and `upesi-bench` are its programs.

mod cli;
mod config;
mod data;
mod inspect;
mod operate;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use switch::TransferMode;

use crate::cli::stdout;
use crate::data::{archive, backup, migrate, restore, snapshot};
use crate::inspect::{explain, replay, verify, what_if};
use crate::operate::{cluster, health, parties, quarantine};

pub use crate::cli::failure::CliError;
pub use crate::cli::stdout::{code, end_with_reader};
pub use crate::serve::bare_node::{BareNode, RunningBareNode};

const _: () = assert!(
    !ledger::planted::ENABLED,
    "the feature planted-bugs of the ledger is for the simulator alone"
);

/// An instant-payments switch that speaks FSPIOP: look-up, quotes, transfers with positions and
/// liquidity limits, durable callbacks, admin API.
#[derive(Parser)]
#[command(version = harness::VERSION, about, after_help = EXAMPLES, arg_required_else_help = true)]
struct Arguments {
    /// Take this program for a later one, which knows rules up to this version: they decide as the
    /// newest do that it really knows. Only to prove upgrades.
    #[cfg(feature = "rehearsed-rules")]
    #[arg(long, value_name = "VERSION", hide = true, global = true,
        value_parser = clap::value_parser!(u32).range(1..=65_535))]
    inject_rules: Option<u32>,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  upesi demo                         a whole scheme on this machine: switch, eight DFSPs, money
  upesi demo --seconds 60 --json r.json
  upesi serve --data /var/lib/upesi  the switch alone: FSPIOP on 4000, admin on 3001
  upesi serve --data copy --log kafka://broker:9092/upesi --node a
                                     the same, its log on Kafka
  upesi verify --data /var/lib/upesi prove what the log says, offline
  upesi restore --from /backup/upesi --data /var/lib/upesi
                                     a data directory from a backup, with proof
  upesi openapi fspiop               the API as participants see it, as an OpenAPI document";

#[derive(Subcommand)]
enum Command {
    /// Compress closed segments of the log and move them to another place, where they are read
    /// back and compared before the local ones go; or compress them where they are. `serve`,
    /// `verify`, `explain` and `replay` read them there.
    Archive(archive::ArchiveArguments),
    /// Copy the log to another place, so that a new directory can be made of the copy: what is new
    /// since the last time, up to the last whole batch. A switch may be running.
    Backup(backup::BackupArguments),
    /// Show the nodes that share a log over Kafka.
    Cluster(cluster::ClusterArguments),
    /// Run a whole scheme on this machine: the switch, eight simulated DFSPs, real transfers over
    /// HTTP at the highest rate this machine sustains; then prove the ledger.
    Demo(harness::DemoOptions),
    /// Run the switch: FSPIOP on port 4000, admin API on port 3001.
    Serve(serve::ServeArguments),
    /// Run a switch that forwards transfers without recording or deciding them: the ceiling that
    /// `upesi-bench --ceiling` measures against. Never for money.
    #[command(hide = true)]
    NullSwitch(serve::ServeArguments),
    /// Print the OpenAPI document of an API, as the running switch serves it on its admin port.
    Openapi(OpenapiArguments),
    /// Run simulated DFSPs against any hub.
    Simulate(harness::SimulateOptions),
    /// Show where the time of a transfer went: its stages inside the switch, the participants' own
    /// time, and the gaps in which nobody worked.
    Waterfall(harness::WaterfallOptions),
    /// Explain a configuration file: every setting, dangerous combinations with what to set
    /// instead, and how long a message can take by its timeouts.
    CheckConfig(config::check::CheckConfigArguments),
    /// Tell the whole life of one transfer from the log: each message about it, each decision with
    /// the numbers it was made on (positions, cover, cap, deadline), postings, callbacks owed and
    /// how they were delivered, resends and refusals. Changes nothing.
    ///
    /// Movements of funds have a transfer id too and are told the same way. Decisions come from the
    /// cold store, whatever the length of the log; what the store does not have is decided again,
    /// which takes as long as a start of the switch.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArguments),
    /// Move a log from files to a Kafka topic, with its history: every record keeps its place and
    /// its time, and every id that was ever answered is known there.
    ///
    /// The switch must not be running. The topic is made; one that is there must be empty, or hold
    /// what an interrupted attempt sent. What was sent is read back and compared, byte by byte, and
    /// then the directory becomes a copy of the topic: `serve --log` goes on from it at once, and
    /// other nodes begin with empty directories.
    #[command(after_help = migrate::EXPORT_EXAMPLES)]
    ExportLog(migrate::ExportArguments),
    /// Ask a running switch how it is, and end with 0 or 1: for containers and supervisors.
    #[command(after_help = health::EXAMPLES)]
    Health(health::HealthArguments),
    /// Move a log from a Kafka topic to files, with its history, for one switch without Kafka.
    ///
    /// First the topic is told that the log has left: from there on no node adds to it, and each
    /// that runs stops with that word. What stands before it is all of the log. The directory may
    /// be empty, or be a node's copy, which is quicker. Interrupted, the same command goes on.
    #[command(after_help = migrate::IMPORT_EXAMPLES)]
    ImportLog(migrate::ImportArguments),
    /// Set aside a record that breaks an invariant and so stops every start of the switch, so that
    /// exactly this record decides nothing from now on.
    ///
    /// Only the first record at which the log really stops can be set aside, and only if what is
    /// behind it is sound. Who, when and why stands in the file quarantine.json beside the log,
    /// and the next start writes the same into the log; start, verify, explain and replay all skip
    /// the record, and verify says so. It cannot be taken back once the switch has started.
    #[command(after_help = quarantine::EXAMPLES)]
    Quarantine(quarantine::QuarantineArguments),
    /// Show the state as it was at a moment, or after a record: participants, accounts with their
    /// values, transfers in flight, callbacks owed, and the state hash. Changes nothing.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArguments),
    /// Make a data directory from a copy, and prove what was made: every checksum, the chain, the
    /// end that the copy names; every record is decided again, and the snapshots are held against
    /// that. The copy is a place that `backup` wrote to, or a plain copy of a data directory. Never
    /// overwrites anything.
    Restore(restore::RestoreArguments),
    /// Store the state beside the log of a switch that is not running, so that the next start goes
    /// on from there instead of deciding the whole log again.
    ///
    /// It goes on from the newest good snapshot itself, if there is one. The two newest are kept.
    /// A snapshot is never needed: it only saves time.
    #[command(after_help = snapshot::EXAMPLES)]
    Snapshot(snapshot::SnapshotArguments),
    /// Bring the parties of a file into the directory of a running switch; ask who serves one.
    Parties(parties::PartiesArguments),
    /// Prove what a log says: read all of it, decide everything again, and hold it against an
    /// account that is kept apart from the switch's own. Changes nothing.
    ///
    /// Proved is: the hash chain is unbroken; every stored message matches its digest, and its
    /// body says what was decided on; every decision comes out as recorded; every account is the
    /// sum of its postings and every currency sums to zero, after each batch; no transfer was
    /// reserved beyond cover or cap, and none has two ends; every commit has a fulfilment that
    /// hashes to its condition; every notice owed was delivered, withdrawn, given up, or is
    /// pending; every snapshot is the state that the log came to at its record.
    ///
    /// The first fault ends it with a non-zero code, and is named by segment, byte, record and
    /// transfer. It reads the log as a stream, in bounded memory: of a log of up to four million
    /// records it keeps about 185 bytes for every transfer, of a longer one these are in a
    /// directory for temporary files (see `--scratch`), and only what is in flight, caches and
    /// buffers stay (121 MB were measured at a million transfers).
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArguments),
    /// Choose a net debit cap or a deposit: decide a period again under another cap or cover, and
    /// show which refusals would have appeared or vanished, how high positions would have gone, and
    /// how much would have been left. Changes nothing, and works beside a running switch.
    ///
    /// It takes time in proportion to the log, and up to four times the memory of `replay`: about
    /// 700 bytes for each transfer of the period, and 240 for each that ended before it.
    #[command(after_help = what_if::EXAMPLES)]
    WhatIf(what_if::WhatIfArguments),
}

/// Arguments of `openapi`.
#[derive(clap::Args)]
struct OpenapiArguments {
    /// Which API.
    #[arg(value_enum)]
    api: DescribedApi,
}

/// An API that describes itself.
#[derive(Clone, Copy, clap::ValueEnum)]
enum DescribedApi {
    /// What participants call, port 4000.
    Fspiop,
    /// What operators call, port 3001.
    Admin,
}

/// Carries out the command that the arguments of this process name.
#[must_use]
pub fn run() -> ExitCode {
    let arguments = Arguments::parse();
    #[cfg(feature = "rehearsed-rules")]
    arguments.inject_rules.into_iter().for_each(ledger::claim_rules);
    let command = arguments.command;
    match command {
        Command::Serve(_) | Command::NullSwitch(_) => stdout::code(command.carry_out()),
        _ => stdout::end_with_reader(|| command.carry_out()),
    }
}

impl Command {
    fn carry_out(self) -> Result<(), CliError> {
        match self {
            Self::Archive(arguments) => archive::archive(&arguments),
            Self::Backup(arguments) => backup::backup(&arguments),
            Self::Cluster(arguments) => cluster::run(&arguments),
            Self::Demo(options) => demo(&options),
            Self::Serve(arguments) => serve::serve(&arguments, TransferMode::Real),
            Self::NullSwitch(arguments) => serve::serve(&arguments, TransferMode::Null),
            Self::Openapi(arguments) => {
                print!("{}", document(arguments.api));
                Ok(())
            }
            Self::Simulate(options) => {
                harness::simulate(&options).map_err(|error| CliError::new(error.to_string()))
            }
            Self::Waterfall(options) => waterfall(&options),
            Self::CheckConfig(arguments) => config::check::check_config(&arguments),
            Self::Explain(arguments) => explain::explain(&arguments),
            Self::ExportLog(arguments) => migrate::export(&arguments),
            Self::Health(arguments) => health::health(&arguments),
            Self::ImportLog(arguments) => migrate::import(&arguments),
            Self::Parties(arguments) => parties::parties(&arguments),
            Self::Quarantine(arguments) => quarantine::quarantine(&arguments),
            Self::Replay(arguments) => replay::replay(&arguments),
            Self::Restore(arguments) => restore::restore(&arguments),
            Self::Snapshot(arguments) => snapshot::snapshot(&arguments),
            Self::Verify(arguments) => verify::verify(&arguments),
            Self::WhatIf(arguments) => what_if::what_if(&arguments),
        }
    }
}

fn document(api: DescribedApi) -> String {
    openapi::text(&match api {
        DescribedApi::Fspiop => openapi::fspiop::document(),
        DescribedApi::Admin => operations::openapi_document::admin(),
    })
}

fn waterfall(options: &harness::WaterfallOptions) -> Result<(), CliError> {
    let program = std::env::current_exe()
        .map_err(|error| CliError::new(format!("cannot find this program's own file: {error}")))?;
    harness::waterfall(options, &harness::SwitchCommand::standard(program))
        .map_err(|error| CliError::new(error.to_string()))
}

fn demo(options: &harness::DemoOptions) -> Result<(), CliError> {
    let program = std::env::current_exe()
        .map_err(|error| CliError::new(format!("cannot find this program's own file: {error}")))?;
    let report = harness::demo(options, &harness::SwitchCommand::standard(program))
        .map_err(|error| CliError::new(error.to_string()))?;
    match (report.failed, report.verified) {
        (0, true) => Ok(()),
        (0, false) => Err(CliError::new("the ledger was not proved; see above")),
        (failed, _) => Err(CliError::new(format!("{failed} transactions failed; see above"))),
    }
}
