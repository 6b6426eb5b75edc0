//! The commands of `upesi`, with their help.

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use switch::TransferMode;

use crate::CliError;
use crate::cli::help::{HelpGroup, with_command_groups};
use crate::cli::shell_files::{
    CompletionsArguments, ManArguments, print_completions, write_man_pages,
};
use crate::cli::stdout;
use crate::cli::table_form;
use crate::cli::units::counted;
use crate::data::{archive, backup, keys, migrate, restore, snapshot};
use crate::inspect::{audit, events, explain, replay, verify, what_if};
use crate::operate::{
    adapter, apply, callbacks, certificates, cluster, conformance, doctor, drill, erasures, funds,
    health, init, liquidity, login, operators, oracles, participant_names, participants, parties,
    proposals, quarantine, reconcile, retention, settlement, statement, status, transfers,
};
use crate::{config, serve};

/// Instant-payments switch for FSPIOP: look-ups, quotes, transfers, settlement.
#[derive(Parser)]
#[command(name = "upesi", version = harness::VERSION, about, after_help = EXAMPLES)]
#[command(arg_required_else_help = true)]
struct Arguments {
    /// Pretend to be a later version that knows rules up to VERSION; only to test upgrades.
    ///
    /// The added rules decide as the newest rules that this version really knows.
    #[cfg(feature = "rehearsed-rules")]
    #[arg(long, value_name = "VERSION", hide = true, global = true,
        value_parser = clap::value_parser!(u32).range(1..=65_535))]
    inject_rules: Option<u32>,
    /// Source of the master key of an encrypted data directory.
    ///
    /// `file:PATH`, `env:NAME`, `command:PROGRAM ARGUMENTS` or a `pkcs11:` URI. Overrides the
    /// environment variable UPESI_ENCRYPTION_KEY and the setting encryption.key.
    #[arg(long, value_name = "SOURCE", global = true, hide_short_help = true)]
    encryption_key: Option<String>,
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  upesi demo                           a whole scheme with eight DFSPs
  upesi demo --hold                    the same, and a console to look around in
  upesi transfer list --state aborted  payments that failed; `upesi explain ID` has all of one
  upesi demo --seconds 60 --json r.json
  upesi serve --data /var/lib/upesi    FSPIOP on port 4000, admin API on port 3001
  upesi serve --data copy --log kafka://broker:9092/upesi --node a
  upesi verify --data /var/lib/upesi
  upesi restore --from /backup/upesi --data /var/lib/upesi
  upesi openapi fspiop";

const GROUPS: &[HelpGroup] = &[
    ("Run", &["init", "serve", "adapter", "conformance", "demo", "simulate"]),
    (
        "Operate",
        &[
            "status",
            "top",
            "apply",
            "export",
            "check-config",
            "doctor",
            "health",
            "cluster",
            "participant",
            "funds",
            "transfer",
            "callback",
            "party",
            "oracle",
            "settlement",
            "statement",
            "reconcile",
            "liquidity",
            "proposal",
            "certificate",
            "four-eyes",
            "quarantine",
            "erase",
            "retention",
        ],
    ),
    ("Access", &["login", "logout", "operator", "role", "token"]),
    ("Inspect", &["verify", "audit", "events", "explain", "replay", "what-if"]),
    (
        "Move and back up",
        &["backup", "restore", "drill", "snapshot", "archive", "keys", "export-log", "import-log"],
    ),
    ("Measure", &["waterfall"]),
    ("Generate", &["openapi", "completions", "man"]),
];

#[derive(Subcommand)]
enum Command {
    /// Run a scheme adapter: a synchronous API for the back end of a DFSP.
    ///
    /// The back end pays with one request, `POST /transfers`. The adapter looks up the party,
    /// requests the quote and sends the transfer over FSPIOP, and asks the back end about incoming
    /// quotes and transfers. Its state is on disk: a restart continues payments in flight.
    #[command(after_help = adapter::EXAMPLES)]
    Adapter(adapter::AdapterArguments),
    /// Check the FSPIOP server of a DFSP against the specification.
    ///
    /// Plays what a hub sends: look-ups, quotes, transfers, notices, errors, and wrong messages.
    /// Shows each request, the required answer with its section of FSPIOP 1.1, the received answer
    /// and the verdict. Some checks move the amount of a payment to the party.
    #[command(after_help = conformance::EXAMPLES)]
    Conformance(conformance::ConformanceArguments),
    /// Compress closed log segments, or move them to an archive.
    ///
    /// Segments are compressed, written to the archive, read back and compared before the local
    /// files are removed. Without --to they stay in the data directory. `serve`, `verify`,
    /// `explain` and `replay` read archived segments from the archive.
    Archive(archive::ArchiveArguments),
    /// List administrative requests, or verify a log with its signed chain heads.
    Audit(audit::AuditArguments),
    /// Write keys, certificates and a secure configuration for a new scheme.
    ///
    /// The configuration has TLS with certificates on both sides, signatures, operators with roles,
    /// bounds, an audit file and signed chain heads. Nothing is overwritten.
    #[command(after_help = init::EXAMPLES)]
    Init(init::InitArguments),
    /// Copy the log to a backup; a switch may be running.
    ///
    /// Copies the records added since the previous run, up to the last complete batch. `restore`
    /// creates a new data directory from the copy.
    Backup(backup::BackupArguments),
    /// Show the nodes that share a log over Kafka, or trim their topic.
    Cluster(cluster::ClusterArguments),
    /// Run a whole scheme on this machine, then verify its ledger.
    ///
    /// Starts the switch and eight simulated DFSPs, sends real transfers over HTTP at the highest
    /// rate that this machine sustains, and verifies the ledger afterwards.
    Demo(harness::DemoOptions),
    /// Run the switch: FSPIOP on port 4000, admin API on port 3001.
    Serve(serve::ServeArguments),
    /// Run a switch that forwards transfers without recording or deciding them.
    ///
    /// `upesi-bench --ceiling` measures it as the upper bound. Never use it for real money.
    #[command(hide = true)]
    NullSwitch(serve::ServeArguments),
    /// Check a machine, a configuration and a running switch, and name remedies.
    ///
    /// Configuration, ports, certificates, limits, disk and its syncs, memory, clock, version, and
    /// the alarms of the running switch.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorArguments),
    /// Restore the newest copy into a scratch directory, and measure the recovery.
    ///
    /// The copy is verified as by `restore`: every checksum, the hash chain, and every decision.
    /// Prints the recovery point and the recovery time, and removes the scratch directory.
    #[command(after_help = drill::EXAMPLES)]
    Drill(drill::DrillArguments),
    /// Print an API as an OpenAPI document, as served on the admin port.
    Openapi(OpenapiArguments),
    /// Run simulated DFSPs against any FSPIOP hub.
    Simulate(harness::SimulateOptions),
    /// Show the duration of each stage of a transfer, and the gaps.
    ///
    /// The stages are those inside the switch and the processing time of the participants. Gaps
    /// are times in which no stage was active.
    Waterfall(harness::WaterfallOptions),
    /// Check a configuration file and explain its settings.
    ///
    /// Prints every setting, warns about dangerous combinations with a safer value, and computes
    /// the longest time that a message can take by its timeouts.
    CheckConfig(config::check::CheckConfigArguments),
    /// Erase contents of recorded messages from the log, its archives and copies.
    ///
    /// Headers and bodies of messages go; amounts, states, participants and times stay, and the log
    /// still verifies. If operators have names, two of them order an erasure. A background job
    /// of the switch carries it out.
    #[command(after_help = erasures::EXAMPLES)]
    Erase(erasures::EraseArguments),
    /// Show the contents that are erased by age.
    #[command(subcommand, after_help = retention::EXAMPLES)]
    Retention(retention::RetentionCommand),
    /// Show what a running switch has decided, as events.
    ///
    /// Each change of a transfer, of a balance and of a settlement, each notice, and each request
    /// of an operator, in the order of the log. Personal data is left out.
    #[command(after_help = events::EXAMPLES)]
    Events(events::EventsArguments),
    /// Show why a payment failed or succeeded: its history, with all numbers; read-only.
    ///
    /// Shows each message, each decision with its inputs (positions, cover, cap, deadline), the
    /// postings, the callbacks with their deliveries, resends and refusals. Movements of funds have
    /// a transfer id too and are shown the same way.
    ///
    /// Decisions are read from the cold store, so the length of the log does not matter. Decisions
    /// that the store does not have are replayed, which takes as long as a start of the switch.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::ExplainArguments),
    /// Move a log with its history from files to a Kafka topic.
    ///
    /// The switch must be stopped. The topic is created. An existing topic must be empty, or hold
    /// the messages of an interrupted export of the same log. Each record keeps its log index and
    /// its time, and the ids of all past requests stay known.
    ///
    /// The topic is read back and compared byte by byte. Then the directory becomes a copy of the
    /// topic: `serve --log` continues from it at once, and other nodes start with empty
    /// directories.
    #[command(after_help = migrate::EXPORT_EXAMPLES)]
    ExportLog(migrate::ExportArguments),
    /// Check a running switch; exit code 0 if healthy, otherwise 1.
    ///
    /// For containers and supervisors, whose images have neither a shell nor curl.
    #[command(after_help = health::EXAMPLES)]
    Health(health::HealthArguments),
    /// Move a log with its history from a Kafka topic to files.
    ///
    /// Writes a final message to the topic. No node appends records after it, and running nodes
    /// stop when they read it. All records before it belong to the log. The directory may be empty
    /// or hold the copy of a stopped node, which is faster. If interrupted, run the same command
    /// again.
    #[command(after_help = migrate::IMPORT_EXAMPLES)]
    ImportLog(migrate::ImportArguments),
    /// Bring a running switch to the scheme in a file.
    ///
    /// The file names currencies and settlement models of the hub, and participants with caps,
    /// funds, endpoints and public keys. Every part is compared with the hub first. Equal parts are
    /// skipped and missing ones created. Caps and endpoints that differ are updated; any other
    /// difference is shown and nothing is changed. Funds move once per participant and currency,
    /// however often the command runs.
    #[command(after_help = apply::EXAMPLES)]
    Apply(apply::ApplyArguments),
    /// Write the scheme file of a running switch.
    #[command(after_help = apply::export::EXAMPLES)]
    Export(apply::export::ExportArguments),
    /// Log in to a running switch with a password; other commands then use the session.
    ///
    /// The token of the session is stored below ~/.config/upesi, in a file that only you can read.
    /// It is sent only to the address that gave it. A session lasts for 12 h.
    #[command(after_help = login::EXAMPLES)]
    Login(login::LoginArguments),
    /// Delete the session that `upesi login` stored.
    Logout(login::LogoutArguments),
    /// List, add and disable operators of a running switch.
    ///
    /// An operator is a person or a service that uses the admin API. It has roles, which grant
    /// permissions, and tokens. The roles apply with admin.auth = "roles".
    #[command(after_help = operators::EXAMPLES)]
    Operator(operators::OperatorArguments),
    /// List, define and remove roles of operators, on a running switch.
    ///
    /// A role is a set of permissions. Each route of the admin API needs one permission.
    #[command(after_help = operators::roles::EXAMPLES)]
    Role(operators::roles::RoleArguments),
    /// List, create and revoke tokens of operators, on a running switch.
    ///
    /// The log has only a hash of a token. A lost token cannot be recovered; create another.
    #[command(after_help = operators::tokens::EXAMPLES)]
    Token(operators::tokens::TokenArguments),
    /// Skip a record that breaks an invariant and prevents every start.
    ///
    /// Only the first record at which the replay stops can be quarantined, and only if the records
    /// after it are valid. The file quarantine.json next to the log records the operator, the time
    /// and the reason. The next start writes the same entry to the log. `serve`, `verify`,
    /// `explain` and `replay` then skip the record, and `verify` reports it. The quarantine is
    /// permanent once the switch has started.
    #[command(after_help = quarantine::EXAMPLES)]
    Quarantine(quarantine::QuarantineArguments),
    /// Show the state at a record or a time; read-only.
    ///
    /// Shows the participants, the accounts with their balances, the transfers in flight, the
    /// pending callbacks and the state hash.
    #[command(after_help = replay::EXAMPLES)]
    Replay(replay::ReplayArguments),
    /// Create a data directory from a backup, and verify it.
    ///
    /// Overwrites nothing.
    ///
    /// Verifies every checksum, the hash chain and the last record that the backup names, replays
    /// every record, and compares the snapshots with the replayed state. The source is a
    /// destination of `backup`, or a plain copy of a data directory.
    Restore(restore::RestoreArguments),
    /// Show positions, net debit caps and headroom of a running switch.
    ///
    /// Rows with the highest use come first. The headroom is the amount that a participant can
    /// still send: the net debit cap or the liquidity cover, whichever is lower, less the position.
    #[command(after_help = liquidity::EXAMPLES)]
    Liquidity(liquidity::LiquidityArguments),
    /// List proposed changes of a running switch; approve or reject them.
    ///
    /// A change of a listed group (`upesi four-eyes`) is proposed by one operator and made when
    /// another one approves it. Both need the permission of the change.
    #[command(after_help = proposals::PROPOSAL_EXAMPLES)]
    Proposal(proposals::ProposalArguments),
    /// Request, sign and show certificates of participants, on a running switch.
    ///
    /// A participant calls the switch with a certificate of its name. Its request is signed by the
    /// hub's authority (`enrolment.ca_key_file`), or elsewhere and uploaded.
    #[command(after_help = certificates::EXAMPLES)]
    Certificate(certificates::CertificateArguments),
    /// Show or choose which changes need a second operator.
    ///
    /// Requires operators with names: `admin.auth = "roles"`.
    #[command(after_help = proposals::FOUR_EYES_EXAMPLES)]
    FourEyes(proposals::FourEyesArguments),
    /// Close windows and settle them, on a running switch.
    #[command(after_help = settlement::EXAMPLES)]
    Settlement(settlement::SettlementArguments),
    /// Compare the statement of the settlement bank with the SETTLEMENT accounts.
    ///
    /// Lists entries that both have, entries that only one has, entries with different amounts, and
    /// different closing balances. Changes nothing.
    #[command(after_help = reconcile::EXAMPLES)]
    Reconcile(reconcile::ReconcileArguments),
    /// Print the statement of a settlement, of a window or of a participant.
    ///
    /// Opening balance, entries and closing balance per account, and the records of the log between
    /// which they hold.
    #[command(after_help = statement::EXAMPLES)]
    Statement(statement::StatementArguments),
    /// Show a running switch on one screen: health, rate, queues, alarms.
    ///
    /// Rates and latencies are those of the last 10 s. The exit code is 1 if a stage is down.
    #[command(after_help = status::EXAMPLES)]
    Status(status::StatusArguments),
    /// Show a running switch on one screen, once a second.
    #[command(after_help = status::TOP_EXAMPLES)]
    Top(status::TopArguments),
    /// Take a snapshot of a stopped switch, for a faster start.
    ///
    /// The next start continues from the snapshot instead of replaying the whole log. The command
    /// itself continues from the newest valid snapshot. The two newest snapshots are kept. A
    /// snapshot only saves time: the log alone is sufficient.
    #[command(after_help = snapshot::EXAMPLES)]
    Snapshot(snapshot::SnapshotArguments),
    /// List and make data keys of an encrypted directory; change its master key.
    #[command(after_help = keys::EXAMPLES)]
    Keys(keys::KeysArguments),
    /// Add, list and change participants of a running switch.
    #[command(after_help = participants::EXAMPLES)]
    Participant(participants::ParticipantArguments),
    /// List payments of a running switch by participant, state, time and amount.
    ///
    /// Payments of any age, also those in flight. `show` prints the history of one of them.
    #[command(after_help = transfers::EXAMPLES)]
    Transfer(transfers::TransferArguments),
    /// List callbacks that are owed or were given up; resend and drop the latter.
    #[command(after_help = callbacks::EXAMPLES)]
    Callback(callbacks::CallbackArguments),
    /// Record deposits and withdrawals of participants, on a running switch.
    #[command(after_help = funds::EXAMPLES)]
    Funds(funds::FundsArguments),
    /// Import parties from a CSV file; find or release one.
    Party(parties::PartyArguments),
    /// List, add, test and remove oracles of a running switch.
    #[command(after_help = oracles::EXAMPLES)]
    Oracle(oracles::OracleArguments),
    /// Verify the hash chain and every decision of a log; read-only.
    ///
    /// Replays the log and compares it with independent accounts. Verifies that the hash chain is
    /// unbroken; that every stored message matches its digest and its decoded fields; that every
    /// decision is reproduced; that after each batch every account equals the sum of its postings
    /// and every currency sums to zero; that no transfer was reserved beyond its cover or cap, and
    /// none has two final states; that every commit has a fulfilment that hashes to its condition;
    /// that every notice was delivered, withdrawn, abandoned or is pending; and that every snapshot
    /// equals the replayed state at its record.
    ///
    /// Stops at the first fault with a non-zero exit code and names its segment, byte, record and
    /// transfer. The log is read as a stream in bounded memory: about 185 bytes per transfer up to
    /// four million records, and a directory for temporary files beyond (see `--scratch`).
    /// Transfers in flight, caches and buffers add about 120 MB.
    #[command(after_help = verify::EXAMPLES)]
    Verify(verify::VerifyArguments),
    /// Replay a period with other caps or deposits; read-only.
    ///
    /// Shows which refusals would change, the peak positions and the remaining headroom. A switch
    /// may be running on the directory.
    ///
    /// The duration is proportional to the log. Memory: up to four times that of `replay`, about
    /// 700 bytes per transfer of the period and 240 bytes per transfer that ended before it.
    #[command(after_help = what_if::EXAMPLES)]
    WhatIf(what_if::WhatIfArguments),
    /// Print a completion script for a shell.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions(CompletionsArguments),
    /// Print names of participants for the completion of a shell.
    #[command(hide = true)]
    ParticipantNames(participant_names::NamesArguments),
    /// Write man pages for all commands to a directory.
    Man(ManArguments),
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  upesi completions bash > /usr/share/bash-completion/completions/upesi
  upesi completions zsh > /usr/local/share/zsh/site-functions/_upesi
  upesi completions fish > ~/.config/fish/completions/upesi.fish";

/// Arguments of `openapi`.
#[derive(clap::Args)]
struct OpenapiArguments {
    /// API to describe.
    #[arg(value_enum)]
    api: DescribedApi,
}

/// An API with an OpenAPI document.
#[derive(Clone, Copy, clap::ValueEnum)]
enum DescribedApi {
    /// API of participants, port 4000.
    Fspiop,
    /// API of operators, port 3001.
    Admin,
}

/// Carries out the command that the arguments of this process name.
#[must_use]
pub fn run() -> ExitCode {
    let matches = command_line().get_matches();
    table_form::apply(&matches);
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    #[cfg(feature = "rehearsed-rules")]
    arguments.inject_rules.into_iter().for_each(ledger::claim_rules);
    crate::data::encryption::note_argument(arguments.encryption_key);
    let command = arguments.command;
    match command {
        Command::Serve(_) | Command::NullSwitch(_) => stdout::exit_code(command.carry_out()),
        _ => {
            serve::logging::start_for_command();
            stdout::end_with_reader(|| command.carry_out())
        }
    }
}

pub(crate) fn command_line() -> clap::Command {
    with_command_groups(table_form::with_table_form(Arguments::command()), GROUPS)
}

impl Command {
    fn carry_out(self) -> Result<(), CliError> {
        match self {
            Self::Adapter(arguments) => adapter::adapter(&arguments),
            Self::Archive(arguments) => archive::archive(&arguments),
            Self::Audit(arguments) => audit::run(&arguments),
            Self::Backup(arguments) => backup::backup(&arguments),
            Self::Init(arguments) => init::init(&arguments),
            Self::Cluster(arguments) => cluster::run(&arguments),
            Self::Conformance(arguments) => conformance::conformance(&arguments),
            Self::Completions(arguments) => {
                print_completions(&arguments, command_line());
                Ok(())
            }
            Self::ParticipantNames(arguments) => participant_names::print_names(&arguments),
            Self::Demo(options) => demo(&options),
            Self::Man(arguments) => write_man_pages(&arguments, command_line()),
            Self::Serve(arguments) => serve::serve(&arguments, TransferMode::ChangeReply),
            Self::NullSwitch(arguments) => serve::serve(&arguments, TransferMode::Passthrough),
            Self::Openapi(arguments) => {
                print!("{}", document(arguments.api));
                Ok(())
            }
            Self::Simulate(options) => {
                harness::simulate(&options).map_err(|error| CliError::new(error.to_string()))
            }
            Self::Waterfall(options) => waterfall(&options),
            Self::Doctor(arguments) => doctor::doctor(&arguments),
            Self::Drill(arguments) => drill::drill(&arguments),
            Self::CheckConfig(arguments) => config::check::check_config(&arguments),
            Self::Events(arguments) => events::events(&arguments),
            Self::Explain(arguments) => explain::explain(&arguments),
            Self::ExportLog(arguments) => migrate::export(&arguments),
            Self::Health(arguments) => health::health(&arguments),
            Self::Settlement(arguments) => settlement::settlement(&arguments),
            Self::Liquidity(arguments) => liquidity::liquidity(&arguments),
            Self::Erase(arguments) => erasures::erase(&arguments),
            Self::Retention(command) => retention::retention(&command),
            Self::Proposal(arguments) => proposals::proposal(&arguments),
            Self::Certificate(arguments) => certificates::certificate(&arguments),
            Self::FourEyes(arguments) => proposals::four_eyes(&arguments),
            Self::Statement(arguments) => statement::statement(&arguments),
            Self::Status(arguments) => status::status(&arguments),
            Self::Top(arguments) => status::top(&arguments),
            Self::ImportLog(arguments) => migrate::import(&arguments),
            Self::Apply(arguments) => apply::apply(&arguments),
            Self::Export(arguments) => apply::export::export(&arguments),
            Self::Login(arguments) => login::login(&arguments),
            Self::Logout(arguments) => login::logout(&arguments),
            Self::Operator(arguments) => operators::operator(&arguments),
            Self::Role(arguments) => operators::roles::role(&arguments),
            Self::Token(arguments) => operators::tokens::token(&arguments),
            Self::Participant(arguments) => participants::participant(&arguments),
            Self::Transfer(arguments) => transfers::transfer(&arguments),
            Self::Callback(arguments) => callbacks::callback(&arguments),
            Self::Funds(arguments) => funds::funds(&arguments),
            Self::Party(arguments) => parties::party(&arguments),
            Self::Oracle(arguments) => oracles::oracle(&arguments),
            Self::Quarantine(arguments) => quarantine::quarantine(&arguments),
            Self::Reconcile(arguments) => reconcile::reconcile(&arguments),
            Self::Replay(arguments) => replay::replay(&arguments),
            Self::Restore(arguments) => restore::restore(&arguments),
            Self::Keys(arguments) => keys::keys(&arguments),
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
    harness::waterfall(options, &own_switch_command()?)
        .map_err(|error| CliError::new(error.to_string()))
}

fn demo(options: &harness::DemoOptions) -> Result<(), CliError> {
    let command = own_switch_command()?;
    let results = match options.secure {
        Some(_) => {
            harness::secure_demo(options, &command).map(|report| (report.failed, report.verified))
        }
        None => harness::demo(options, &command).map(|report| (report.failed, report.verified)),
    };
    match results.map_err(|error| CliError::new(error.to_string()))? {
        (0, true) => Ok(()),
        (0, false) => Err(CliError::new("demo: the ledger was not verified; see above")),
        (failed, _) => {
            let failed = counted(failed, "transaction");
            Err(CliError::new(format!("demo: {failed} failed; see above")))
        }
    }
}

/// Starts this program as the switch.
fn own_switch_command() -> Result<harness::SwitchCommand, CliError> {
    let program = std::env::current_exe()
        .map_err(|error| CliError::new(format!("cannot locate this program's file: {error}")))?;
    let mut command = harness::SwitchCommand::standard(program);
    command.encryption_key = crate::data::encryption::argument();
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_follows_the_rules() {
        let faults =
            testkit::cli_help::faults(&table_form::with_table_form(Arguments::command()), GROUPS);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }

    #[test]
    fn command_line_is_consistent() {
        command_line().debug_assert();
    }
}
