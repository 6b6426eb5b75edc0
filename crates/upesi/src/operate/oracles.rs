//! `upesi oracle`: the registry of oracles of a running switch, through its admin API.

use std::time::Instant;

use harness::Admin;
use ledger::Currency;
use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::printable::printable;
use crate::cli::table::{Align, Table};
use crate::operate::apply::scheme::{callable, currency_of};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi oracle list
  upesi oracle add MSISDN http://oracle.example:3000 --currency XOF
  upesi oracle show 1
  upesi oracle test 1 254700000001          ask it from this machine, as the switch would
  upesi oracle remove 1 --reason 'replaced'";

/// Media type of requests to an oracle, as the switch sends it.
const ORACLE_MEDIA_TYPE: &str = "application/vnd.interoperability.participants+json;version=1.1";

/// Arguments of `oracle`.
#[derive(clap::Args)]
pub(crate) struct OracleArguments {
    #[command(subcommand)]
    command: OracleCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum OracleCommand {
    /// List oracles, oldest first.
    List,
    /// Add an oracle for a type of identifier; again, it changes nothing.
    Add(AddArguments),
    /// Show one oracle.
    Show(OracleNumber),
    /// Ask an oracle for an identifier from this machine, and check its answer.
    ///
    /// Exit code 0 if the answer is valid, also if it has no entries; otherwise 1.
    Test(TestArguments),
    /// Remove an oracle.
    Remove(OracleNumber),
}

#[derive(clap::Args)]
struct TestArguments {
    #[command(flatten)]
    oracle: OracleNumber,
    /// Identifier to look up.
    #[arg(value_name = "IDENTIFIER")]
    identifier: String,
    /// Currency of the look-up.
    #[arg(long = "in", value_name = "CODE", value_parser = currency_of)]
    currency: Option<Currency>,
    /// Sub-identifier of the party.
    #[arg(long, value_name = "SUB_ID")]
    sub_id: Option<String>,
}

#[derive(clap::Args)]
struct AddArguments {
    /// Type of identifier, such as MSISDN.
    #[arg(value_name = "TYPE")]
    id_type: String,
    /// Address of the oracle.
    #[arg(value_name = "URL", value_parser = address_of)]
    endpoint: String,
    /// Currency that it serves [default: all without an oracle of their own].
    #[arg(long, value_name = "CODE", value_parser = currency_of)]
    currency: Option<Currency>,
    /// Use it for requests that name no currency, if the type has several oracles.
    #[arg(long)]
    default: bool,
}

#[derive(clap::Args)]
struct OracleNumber {
    /// Number of the oracle, as `upesi oracle list` shows it.
    #[arg(value_name = "ID")]
    id: u32,
}

pub(crate) fn oracle(arguments: &OracleArguments) -> Result<(), CliError> {
    let OracleArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    match command {
        OracleCommand::List => {}
        OracleCommand::Add(arguments) => add(&mut client, arguments)?,
        OracleCommand::Show(number) => {
            let oracle = number.find(&mut client)?;
            connection.print(&oracle.to_string(), || print_oracles(std::slice::from_ref(&oracle)));
            return Ok(());
        }
        OracleCommand::Test(arguments) => return test(&mut client, connection, arguments),
        OracleCommand::Remove(number) => {
            number.find(&mut client)?;
            let id = number.id;
            client.call("DELETE", &format!("/oracles/{id}"), None)?;
        }
    }
    let answer = client.call("GET", "/oracles", None)?;
    connection.print(&answer.text, || print_oracles(entries(&answer.value)));
    Ok(())
}

fn add(client: &mut AdminClient, arguments: &AddArguments) -> Result<(), CliError> {
    let AddArguments { id_type, endpoint, currency, default } = arguments;
    let currency = currency.as_ref().map(Currency::as_str);
    let known = client.call("GET", "/oracles", None)?.value;
    let is_equal = |oracle: &Value| {
        oracle["oracleIdType"] == json!(id_type)
            && oracle["endpoint"]["value"] == json!(endpoint)
            && oracle["currency"].as_str() == currency
            && oracle["isDefault"] == json!(u8::from(*default))
    };
    if find(&known, is_equal).is_some() {
        return Ok(());
    }
    let body = json!({
        "oracleIdType": id_type,
        "endpoint": {"value": endpoint, "endpointType": "URL"},
        "currency": currency,
        "isDefault": default,
    });
    client.call("POST", "/oracles", Some(&body)).map(drop)
}

impl OracleNumber {
    /// The oracle as the registry has it.
    fn find(&self, client: &mut AdminClient) -> Result<Value, CliError> {
        let Self { id } = self;
        let known = client.call("GET", "/oracles", None)?.value;
        let found = find(&known, |oracle| oracle["oracleId"] == json!(id)).cloned();
        found.ok_or_else(|| CliError::new(format!("{id}: there is no oracle with this number")))
    }
}

/// Asks an oracle for an identifier.
fn test(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &TestArguments,
) -> Result<(), CliError> {
    let oracle = arguments.oracle.find(client)?;
    let endpoint = member(&oracle["endpoint"], "value");
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("http", &endpoint));
    let (authority, base) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let mut asked = Admin::without_token(&format!("{scheme}://{authority}"))?;
    asked.with("accept", ORACLE_MEDIA_TYPE);
    asked.with("content-type", ORACLE_MEDIA_TYPE);
    asked.with("fspiop-source", "upesi");
    let (id_type, id) = (member(&oracle, "oracleIdType"), &arguments.identifier);
    let id = fspiop::percent_encode(id);
    let mut path = format!("{}/participants/{id_type}/{id}", base.trim_end_matches('/'));
    let currency = arguments.currency.map(|currency| currency.to_string());
    for (name, value) in [("currency", &currency), ("partySubIdOrType", &arguments.sub_id)] {
        if let Some(value) = value {
            let mark = if path.contains('?') { '&' } else { '?' };
            path += &format!("{mark}{name}={}", query_value(value));
        }
    }
    let began = Instant::now();
    let answer = asked.call("GET", &path, None)?;
    let took = began.elapsed();
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let at = format!("{scheme}://{authority}{path}");
    if answer.status != 200 {
        return Err(CliError::new(format!("{at}: status {}: {}", answer.status, printable(&text))));
    }
    let entries = fspiop::oracle::parse_party_list(&answer.body)
        .map_err(|what| CliError::new(format!("{at}: invalid answer: {what}")))?;
    connection.print(&text, || {
        println!("{at}: valid, {} entries, {} ms", entries.len(), took.as_millis());
        for entry in &entries {
            let currency = entry.currency.map_or("all".to_owned(), |it| it.to_string());
            println!("{} {currency} {}", entry.fsp, entry.sub_id.as_deref().unwrap_or("-"));
        }
    });
    Ok(())
}

fn find(known: &Value, is_wanted: impl Fn(&Value) -> bool) -> Option<&Value> {
    entries(known).iter().find(|oracle| is_wanted(oracle))
}

fn address_of(text: &str) -> Result<String, String> {
    callable(text).map(str::to_owned)
}

fn print_oracles(oracles: &[Value]) {
    let mut table = Table::new([
        ("oracle", Align::Right),
        ("type", Align::Left),
        ("currency", Align::Left),
        ("address", Align::Left),
        ("default", Align::Left),
    ]);
    for oracle in oracles {
        table.add([
            member(oracle, "oracleId"),
            member(oracle, "oracleIdType"),
            oracle["currency"].as_str().unwrap_or("all").to_owned(),
            member(&oracle["endpoint"], "value"),
            if oracle["isDefault"] == json!(1) { "yes" } else { "no" }.to_owned(),
        ]);
    }
    table.print();
}
