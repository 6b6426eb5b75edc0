//! `upesi statement`: statements of windows and settlements, as a table, JSON or CSV.

mod table;

use std::fs;
use std::path::{Path, PathBuf};

use harness::Admin;
use serde_json::Value;

use crate::CliError;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi statement settlement 1
  upesi statement window 3 --participant greenbank
  upesi statement settlement 1 --format csv --output settlement-1.csv
Amounts have the signs of the ledger: above zero the account owes, below zero it is owed.";

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
    /// Address of the switch's admin API.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:3001", global = true)]
    admin: String,
    /// File with the admin token: admin-token in the data directory.
    #[arg(long, value_name = "FILE", global = true)]
    token: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum SubjectArguments {
    /// The net of each account in a settlement, with its state and reference.
    Settlement(NumberArguments),
    /// The sums of each account in a settlement window.
    Window(NumberArguments),
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

/// The form of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    /// For people.
    Table,
    /// One JSON document, with amounts as texts.
    Json,
    /// One row per balance, entry and total.
    Csv,
}

impl Form {
    /// The form that the switch writes.
    const fn requested(self) -> &'static str {
        match self {
            Self::Table | Self::Json => "json",
            Self::Csv => "csv",
        }
    }
}

pub(crate) fn statement(arguments: &StatementArguments) -> Result<(), CliError> {
    let StatementArguments { subject, format, output, admin, token } = arguments;
    let path = path_of(subject, *format);
    let text = fetch(admin, token.as_deref(), &path)?;
    let text = match format {
        Form::Table => {
            let statement: Value = serde_json::from_slice(&text)
                .map_err(|error| CliError::new(format!("{path}: not JSON: {error}")))?;
            table::render(&statement).into_bytes()
        }
        Form::Json | Form::Csv => text,
    };
    write(output.as_deref(), &text)
}

/// The path of a statement in the admin API, with its query.
fn path_of(subject: &SubjectArguments, format: Form) -> String {
    let (resource, NumberArguments { id, participant }) = match subject {
        SubjectArguments::Settlement(number) => ("settlements", number),
        SubjectArguments::Window(number) => ("settlementWindows", number),
    };
    let mut path = format!("/v2/{resource}/{id}/statement?format={}", format.requested());
    if let Some(name) = participant {
        path += &format!("&participant={}", encoded(name));
    }
    path
}

/// The body of a response.
fn fetch(admin: &str, token: Option<&Path>, path: &str) -> Result<Vec<u8>, CliError> {
    let failed = |error: harness::HarnessError| CliError::new(error.to_string());
    let mut admin = Admin::at(admin, token).map_err(failed)?;
    let answer = admin.call("GET", path, None).map_err(failed)?;
    if answer.status == 200 {
        return Ok(answer.body);
    }
    let value = serde_json::from_slice::<Value>(&answer.body).unwrap_or(Value::Null);
    let text = value["errorInformation"]["errorDescription"].as_str().unwrap_or("no description");
    let hint = if answer.status == 401 { "; name the token file with --token" } else { "" };
    Err(CliError::new(format!("GET {path}: status {}: {text}{hint}", answer.status)))
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
