//! `upesi oracle`: the registry of oracles of a running switch, through its admin API.

use ledger::Currency;
use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::table::{Align, Table};
use crate::operate::apply::scheme::{callable, currency_of};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi oracle list
  upesi oracle add MSISDN http://oracle.example:3000 --currency XOF
  upesi oracle remove 1 --reason 'replaced'";

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
    /// Remove an oracle.
    Remove(RemoveArguments),
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
    /// Use it for requests that name no type.
    #[arg(long)]
    default: bool,
}

#[derive(clap::Args)]
struct RemoveArguments {
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
        OracleCommand::Remove(RemoveArguments { id }) => {
            let known = client.call("GET", "/oracles", None)?.value;
            if find(&known, |oracle| oracle["oracleId"] == json!(id)).is_none() {
                return Err(CliError::new(format!("{id}: there is no oracle with this number")));
            }
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
