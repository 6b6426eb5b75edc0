//! `upesi statement`: statements of windows, settlements and participants, as a table, JSON, CSV or
//! camt.053.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use harness::Admin;
use ledger::{Currency, FspName, Stamp, WindowId};
use operations::{EntryDetail, ParticipantStatementRequest, StatementFormat, StatementPeriod};
use serde_json::Value;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::inspect::replay::Until;
use crate::inspect::statements::compute_offline;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi statement settlement 1
  upesi statement window 3 --participant greenbank
  upesi statement settlement 1 --format camt053 --output settlement-1.xml
  upesi statement participant greenbank --from 2026-05-01T00:00:00Z --to 2026-05-02T00:00:00Z \\
      --token data/admin-token
  upesi statement participant greenbank --window 3 --data /var/lib/upesi
Amounts have the signs of the ledger: above zero the account owes, below zero it is owed.";

/// Longest wait for a statement that the switch computes from its log.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// Time after which a wait is reported.
const QUIET: Duration = Duration::from_secs(2);

/// Arguments of `statement`.
#[derive(clap::Args)]
pub(crate) struct StatementArguments {
    #[command(subcommand)]
    subject: SubjectArguments,
    /// Form of the statement.
    #[arg(long, value_enum, default_value_t = Form::Table, global = true)]
    format: Form,
    /// Write the statement to this file [default: standard output].
    #[arg(long, value_name = "FILE", global = true)]
    output: Option<PathBuf>,
    #[command(flatten)]
    switch: AdminAddress,
}

#[derive(clap::Subcommand)]
enum SubjectArguments {
    /// The net of each account in a settlement, with its state and reference.
    Settlement(NumberArguments),
    /// The sums of each account in a settlement window.
    Window(NumberArguments),
    /// The accounts of a participant over a period, computed from the log.
    ///
    /// The period is given by --from and --to, by --window or by --settlement; without them it is
    /// the whole log. A running switch reads its log; with --data the command reads a log itself,
    /// from the first record, and holds the whole state in memory.
    Participant(ParticipantArguments),
}

#[derive(clap::Args)]
struct NumberArguments {
    /// Its number.
    #[arg(value_name = "ID")]
    id: u32,
    /// Only the accounts of this participant.
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
}

#[derive(clap::Args)]
struct ParticipantArguments {
    /// Its name.
    #[arg(value_name = "NAME", value_parser = participant_name)]
    name: FspName,
    /// Only accounts in this currency.
    #[arg(long, value_name = "CODE", value_parser = currency)]
    currency: Option<Currency>,
    /// First time of the period, such as 2026-05-01T00:00:00Z.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["window", "settlement"])]
    from: Option<Until>,
    /// Time before which the period ends.
    #[arg(long, value_name = "TIME", conflicts_with_all = ["window", "settlement"])]
    to: Option<Until>,
    /// The time while this window was open.
    #[arg(long, value_name = "WINDOW", conflicts_with = "settlement")]
    window: Option<u32>,
    /// From the opening of this settlement's oldest window on; of a running switch.
    #[arg(long, value_name = "SETTLEMENT", conflicts_with = "data")]
    settlement: Option<u32>,
    /// One entry per transfer, instead of sums per window and direction.
    #[arg(long)]
    each: bool,
    /// Read the log in this directory, instead of asking a switch. One may be running on it.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
}

pub(super) fn participant_name(text: &str) -> Result<FspName, String> {
    FspName::new(text).ok_or_else(|| "expected the name of a participant".into())
}

pub(super) fn currency(text: &str) -> Result<Currency, String> {
    Currency::parse(text).ok_or_else(|| "expected three upper-case letters".into())
}

/// The form of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For people.
    Table,
    /// One JSON document, with amounts as texts.
    Json,
    /// One row per balance, entry and total.
    Csv,
    /// ISO 20022 camt.053.001.08, one `Stmt` per account.
    Camt053,
}

impl Form {
    /// The form that the switch writes.
    const fn requested(self) -> StatementFormat {
        match self {
            Self::Table | Self::Json => StatementFormat::Json,
            Self::Csv => StatementFormat::Csv,
            Self::Camt053 => StatementFormat::Camt053,
        }
    }
}

pub(crate) fn statement(arguments: &StatementArguments) -> Result<(), CliError> {
    let StatementArguments { subject, format, output, switch } = arguments;
    let form = format.requested();
    let fetch = |path: &str| StatementClient::at(switch)?.fetch(path);
    let text = match subject {
        SubjectArguments::Settlement(number) => fetch(&path_of("settlements", number, form))?,
        SubjectArguments::Window(number) => fetch(&path_of("settlementWindows", number, form))?,
        SubjectArguments::Participant(participant) => match &participant.data {
            None => fetch(&participant.path(form)?)?,
            Some(data) => participant.compute(data, form)?,
        },
    };
    let text = match format {
        Form::Table => table::render(&parsed(&text)?).into_bytes(),
        Form::Json | Form::Csv | Form::Camt053 => text,
    };
    write(output.as_deref(), &text)
}

/// The path of the statement of a window or settlement in the admin API, with its query.
fn path_of(resource: &str, arguments: &NumberArguments, form: StatementFormat) -> String {
    let NumberArguments { id, participant } = arguments;
    let mut path = format!("/v2/{resource}/{id}/statement?format={}", form.name());
    if let Some(name) = participant {
        path += &format!("&participant={}", encoded(name));
    }
    path
}

impl ParticipantArguments {
    fn request(&self) -> Result<ParticipantStatementRequest, CliError> {
        let (from, to) = times(self.from, self.to)?;
        let times = StatementPeriod::Times { from, to };
        Ok(ParticipantStatementRequest {
            participant: self.name,
            currency: self.currency,
            period: self.window.map_or(times, |id| StatementPeriod::Window(WindowId(id))),
            detail: if self.each { EntryDetail::Each } else { EntryDetail::Summed },
        })
    }

    /// The path in the admin API, with its query.
    fn path(&self, form: StatementFormat) -> Result<String, CliError> {
        let path = query(&self.request()?, form);
        Ok(match self.settlement {
            None => path,
            Some(id) => format!("{path}&settlementId={id}"),
        })
    }

    /// Computes the statement from a log.
    fn compute(&self, data: &Path, form: StatementFormat) -> Result<Vec<u8>, CliError> {
        let statement = compute_offline(data, self.request()?)?;
        let written = statement.write(form);
        written.map(Vec::from).map_err(|error| CliError::new(error.to_string()))
    }
}

/// The path of a participant's statement in the admin API, with its query.
pub(super) fn query(request: &ParticipantStatementRequest, form: StatementFormat) -> String {
    let name = encoded(request.participant.as_str());
    let mut path = format!("/participants/{name}/statement?format={}", form.name());
    let mut add = |name: &str, value: Option<String>| {
        value.into_iter().for_each(|value| path += &format!("&{name}={}", encoded(&value)));
    };
    add("currency", request.currency.map(|currency| currency.to_string()));
    match request.period {
        StatementPeriod::Times { from, to } => {
            add("from", from.map(moment));
            add("to", to.map(moment));
        }
        StatementPeriod::Window(WindowId(id)) => add("windowId", Some(id.to_string())),
        // The admin API has no such parameter.
        StatementPeriod::Records { .. } => {}
    }
    add("entries", (request.detail == EntryDetail::Each).then(|| "each".to_owned()));
    path
}

/// The times of `--from` and `--to`.
pub(super) fn times(
    from: Option<Until>,
    to: Option<Until>,
) -> Result<(Option<Stamp>, Option<Stamp>), CliError> {
    let time = |until: Option<Until>, option: &str| match until {
        None => Ok(None),
        Some(Until::Time(stamp)) => Ok(Some(stamp)),
        Some(_) => Err(CliError::new(format!("{option}: expected a time"))),
    };
    let (from, to) = (time(from, "--from")?, time(to, "--to")?);
    match from.zip(to).is_some_and(|(from, to)| to <= from) {
        true => Err(CliError::new("--to: is not later than --from")),
        false => Ok((from, to)),
    }
}

/// A time for a query, in milliseconds.
fn moment(stamp: Stamp) -> String {
    let text = crate::cli::stdout::moment(stamp);
    format!("{}Z", text.get(..23).unwrap_or(&text))
}

pub(super) fn parsed(text: &[u8]) -> Result<Value, CliError> {
    let parsed = serde_json::from_slice(text);
    parsed.map_err(|error| CliError::new(format!("the statement is not JSON: {error}")))
}

/// Fetches statements from a running switch.
pub(super) struct StatementClient(Admin);

impl StatementClient {
    pub(super) fn at(switch: &AdminAddress) -> Result<Self, CliError> {
        Ok(Self(switch.client()?.waiting(PATIENCE)))
    }

    /// The body of a response. A long wait is reported.
    pub(super) fn fetch(&mut self, path: &str) -> Result<Vec<u8>, CliError> {
        let (done, is_done) = mpsc::sync_channel::<()>(1);
        let notifier = thread::spawn(move || {
            if is_done.recv_timeout(QUIET) == Err(mpsc::RecvTimeoutError::Timeout) {
                eprintln!("upesi: waiting for the switch, which reads its log");
            }
        });
        let answer = self.0.call("GET", path, None);
        drop(done);
        let _joined = notifier.join();
        let answer = answer.map_err(CliError::from)?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
        let text = value["errorInformation"]["errorDescription"].as_str();
        let text = text.unwrap_or("no description");
        let hint = if answer.status == 401 { "; name the token file with --token" } else { "" };
        Err(CliError::new(format!("GET {path}: status {}: {text}{hint}", answer.status)))
    }
}

fn write(output: Option<&Path>, text: &[u8]) -> Result<(), CliError> {
    let Some(path) = output else {
        print!("{}", String::from_utf8_lossy(text));
        return Ok(());
    };
    fs::write(path, text).map_err(|error| CliError::new(format!("{}: {error}", path.display())))
}

/// Percent-encodes the value of a query parameter.
fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}
