//! `upesi participant`: participants of a running switch, through its admin API.

use std::path::PathBuf;

use ledger::{Amount, Currency, FspName};
use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::table::{Align, Table};
use crate::operate::apply::scheme::{
    ALARM_PERCENTAGE, HUB_ACCOUNTS, InCurrency, Participant, Scheme, amount_of, callable, cap_of,
    currency_of, endpoint_of, expanded, key_in, participant_name, percentage_of,
};
use crate::operate::apply::{Provisioning, Prune, StepOutput};
use crate::operate::liquidity;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi participant add greenbank --currency KES --cap 1000000 \\
      --callbacks http://10.0.0.7:4040 --funds-in 500000 --public-key greenbank.pem
  upesi participant list
  upesi participant show greenbank
  upesi participant limits greenbank --currency KES --cap 2000000 --reason 'season'
  upesi participant endpoints greenbank --callbacks http://10.0.0.8:4040
  upesi participant endpoints greenbank --test       # does the bank answer the switch?
  upesi participant disable greenbank --reason 'contract ended'";

/// Arguments of `participant`.
#[derive(clap::Args)]
pub(crate) struct ParticipantArguments {
    #[command(subcommand)]
    command: ParticipantCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum ParticipantCommand {
    /// Add a participant with its accounts, cap, callbacks, funds and key.
    ///
    /// Each part is compared with the switch first: equal parts are skipped, missing ones are
    /// created, and a cap or an endpoint that differs is updated. The same command again changes
    /// nothing. With another --currency an existing participant gets accounts in it too. Funds move
    /// once per participant and currency.
    Add(Box<AddArguments>),
    /// List participants with their positions and headroom.
    List,
    /// Show accounts, limits, endpoints and keys of a participant.
    Show(NameArgument),
    /// Enable a disabled participant; applies from its next message.
    Enable(NameArgument),
    /// Disable a participant: its messages are refused from the next one on.
    Disable(NameArgument),
    /// Show net debit caps, or change one.
    Limits(LimitsArguments),
    /// Show endpoints, set some, or test whether their hosts answer.
    Endpoints(EndpointsArguments),
    /// Show public keys, or add or remove one.
    Keys(KeysArguments),
}

#[derive(clap::Args)]
struct NameArgument {
    /// Name of the participant.
    #[arg(value_name = "NAME", value_parser = participant_name)]
    name: FspName,
}

#[derive(clap::Args)]
struct AddArguments {
    #[command(flatten)]
    participant: NameArgument,
    /// Currency of its accounts, a code of ISO 4217.
    #[arg(long, value_name = "CODE", value_parser = currency_of)]
    currency: Currency,
    /// Net debit cap: the highest position.
    #[arg(long, value_name = "AMOUNT", value_parser = cap_of)]
    cap: Amount,
    /// Share of the cap at which the alarm is raised, in percent [default: 10].
    #[arg(long, value_name = "PERCENT", value_parser = percentage_of)]
    alarm_percentage: Option<Amount>,
    /// Base address of all callbacks, such as http://10.0.0.7:4040.
    #[arg(long, value_name = "URL", value_parser = address_of)]
    callbacks: Option<String>,
    /// Single endpoint, instead of that below --callbacks; can be given several times.
    #[arg(long = "endpoint", value_name = "TYPE=URL", value_parser = endpoint_of)]
    endpoints: Vec<(String, String)>,
    /// Funds to record as its liquidity cover.
    #[arg(long, value_name = "AMOUNT", value_parser = amount_of)]
    funds_in: Option<Amount>,
    /// File with its public key or certificate, in PEM.
    #[arg(long, value_name = "FILE")]
    public_key: Option<PathBuf>,
    /// Compare and show what would be done; change nothing.
    #[arg(long)]
    dry_run: bool,
}

#[derive(clap::Args)]
struct LimitsArguments {
    #[command(flatten)]
    participant: NameArgument,
    /// Currency of the cap [default: the only one].
    #[arg(long, value_name = "CODE", value_parser = currency_of)]
    currency: Option<Currency>,
    /// New net debit cap.
    #[arg(long, value_name = "AMOUNT", value_parser = cap_of)]
    cap: Option<Amount>,
    /// New share of the cap at which the alarm is raised, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = percentage_of)]
    alarm_percentage: Option<Amount>,
}

#[derive(clap::Args)]
struct EndpointsArguments {
    #[command(flatten)]
    participant: NameArgument,
    /// Set all callbacks below this base address.
    #[arg(long, value_name = "URL", value_parser = address_of)]
    callbacks: Option<String>,
    /// Set a single endpoint; can be given several times.
    #[arg(long = "set", value_name = "TYPE=URL", value_parser = endpoint_of)]
    endpoints: Vec<(String, String)>,
    /// Afterwards have the switch call each host once; any status is an answer.
    #[arg(long)]
    test: bool,
}

#[derive(clap::Args)]
struct KeysArguments {
    #[command(flatten)]
    participant: NameArgument,
    /// Add the public key or certificate in this PEM file.
    #[arg(long, value_name = "FILE", conflicts_with = "remove")]
    add: Option<PathBuf>,
    /// Remove the key with this id.
    #[arg(long, value_name = "ID")]
    remove: Option<String>,
}

pub(crate) fn participant(arguments: &ParticipantArguments) -> Result<(), CliError> {
    let ParticipantArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    match command {
        ParticipantCommand::Add(arguments) => add(arguments, connection),
        ParticipantCommand::List => list(&mut client, connection),
        ParticipantCommand::Show(name) => show(&mut client, connection, &name.name),
        ParticipantCommand::Enable(name) => switch(&mut client, connection, (&name.name, true)),
        ParticipantCommand::Disable(name) => switch(&mut client, connection, (&name.name, false)),
        ParticipantCommand::Limits(arguments) => limits(&mut client, connection, arguments),
        ParticipantCommand::Endpoints(arguments) => endpoints(&mut client, connection, arguments),
        ParticipantCommand::Keys(arguments) => keys(&mut client, connection, arguments),
    }
}

fn add(arguments: &AddArguments, connection: &AdminConnection) -> Result<(), CliError> {
    let AddArguments { currency, cap, alarm_percentage, funds_in, .. } = arguments;
    let key = arguments.public_key.as_ref().map(|file| key_in(file)).transpose();
    let key = key.map_err(|fault| CliError::new(format!("--public-key: {fault}")))?;
    let in_currency = InCurrency {
        currency: *currency,
        net_debit_cap: Some(*cap),
        initial_position: Amount::ZERO,
        alarm_percentage: alarm_percentage.unwrap_or(ALARM_PERCENTAGE),
        funds_in: *funds_in,
    };
    let participant = Participant {
        name: arguments.participant.name,
        currencies: vec![in_currency],
        endpoints: wanted_endpoints(arguments.callbacks.as_deref(), &arguments.endpoints),
        keys: key.into_iter().collect(),
        active: true,
    };
    let scheme = Scheme {
        currencies: vec![*currency],
        hub_accounts: HUB_ACCOUNTS.to_vec(),
        models: Vec::new(),
        participants: vec![participant],
    };
    let subject = arguments.participant.name.to_string();
    let shown = StepOutput { dry_run: arguments.dry_run, json: connection.is_json(), asks: false };
    let provisioning = Provisioning { scheme: &scheme, subject, shown, prune: Prune::Nothing };
    provisioning.carry_out(connection.admin()?)
}

/// Endpoints below a base address; single ones replace them.
fn wanted_endpoints(base: Option<&str>, single: &[(String, String)]) -> Vec<(String, String)> {
    let mut endpoints = base.map(expanded).unwrap_or_default();
    endpoints.retain(|(kind, _)| single.iter().all(|(it, _)| it != kind));
    endpoints.extend(single.iter().cloned());
    endpoints.sort();
    endpoints
}

fn list(client: &mut AdminClient, connection: &AdminConnection) -> Result<(), CliError> {
    let all = client.call("GET", "/participants", None)?;
    if connection.is_json() {
        println!("{}", all.text);
        return Ok(());
    }
    let amounts = client.call("GET", "/liquidity?limit=1000", None)?;
    let amounts = liquidity::rows(&amounts.text)?;
    let mut table = Table::new([
        ("participant", Align::Left),
        ("status", Align::Left),
        ("currency", Align::Left),
        ("position", Align::Right),
        ("cover", Align::Right),
        ("cap", Align::Right),
        ("headroom", Align::Right),
    ]);
    // The hub is the first one.
    for participant in entries(&all.value).iter().skip(1) {
        let name = member(participant, "name");
        for currency in currencies(participant) {
            let row = amounts.iter().find(|row| row.is_of(&name, &currency));
            let [position, cover, cap, headroom] =
                row.map(liquidity::Row::amounts).unwrap_or_default();
            let status = status(participant).to_owned();
            table.add([name.clone(), status, currency, position, cover, cap, headroom]);
        }
    }
    table.print();
    Ok(())
}

/// The currencies of a participant, without those that it has twice.
fn currencies(participant: &Value) -> Vec<String> {
    let accounts = entries(&participant["accounts"]).iter();
    let mut all: Vec<_> = accounts.map(|account| member(account, "currency")).collect();
    all.sort();
    all.dedup();
    all
}

fn status(participant: &Value) -> &'static str {
    if participant["isActive"] == json!(1) { "active" } else { "disabled" }
}

fn show(
    client: &mut AdminClient,
    connection: &AdminConnection,
    name: &FspName,
) -> Result<(), CliError> {
    let participant = client.call("GET", &path(name, ""), None)?;
    let mut part = |part: &str| client.call("GET", &path(name, part), None);
    let (accounts, limits) = (part("/accounts")?, part("/limits")?);
    let (endpoints, keys) = (part("/endpoints")?, part("/keys")?);
    // The texts keep the digits of amounts.
    let all = format!(
        "{{\"participant\":{},\"accounts\":{},\"limits\":{},\"endpoints\":{},\"keys\":{}}}",
        participant.text, accounts.text, limits.text, endpoints.text, keys.text
    );
    if connection.is_json() {
        println!("{all}");
        return Ok(());
    }
    println!(
        "{name}, {}, created {}\n",
        status(&participant.value),
        member(&participant.value, "created")
    );
    accounts_table(&accounts.text)?.print();
    println!();
    limits_table(&limits.text)?.print();
    println!();
    endpoints_table(entries(&endpoints.value)).print();
    println!();
    keys_table(entries(&keys.value)).print();
    Ok(())
}

fn path(name: &FspName, part: &str) -> String {
    format!("/participants/{}{part}", fspiop::percent_encode(name.as_str()))
}

fn switch(
    client: &mut AdminClient,
    connection: &AdminConnection,
    (name, is_active): (&FspName, bool),
) -> Result<(), CliError> {
    let known = client.call("GET", &path(name, ""), None)?;
    let is_equal = known.value["isActive"] == json!(u8::from(is_active));
    let answer = match is_equal {
        true => known,
        false => client.call("PUT", &path(name, ""), Some(&json!({"isActive": is_active})))?,
    };
    let already = if is_equal { " already" } else { "" };
    connection.print(&answer.text, || println!("{name} is {}{already}", status(&answer.value)));
    Ok(())
}

fn limits(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &LimitsArguments,
) -> Result<(), CliError> {
    let name = &arguments.participant.name;
    let listed = path(name, "/limits");
    if arguments.cap.is_some() || arguments.alarm_percentage.is_some() {
        let known = read_limits(&client.call("GET", &listed, None)?.text)?;
        let (currency, known) = chosen_limit(arguments, known)?;
        change_limit(client, (arguments, &currency), known)?;
    }
    let answer = client.call("GET", &listed, None)?;
    let table = limits_table(&answer.text)?;
    connection.print(&answer.text, || table.print());
    Ok(())
}

/// The currency to change, and its present limit.
fn chosen_limit(
    arguments: &LimitsArguments,
    mut known: Vec<ListedLimit>,
) -> Result<(String, Option<ListedLimit>), CliError> {
    let name = &arguments.participant.name;
    match (&arguments.currency, known.len()) {
        (Some(currency), _) => {
            known.retain(|limit| limit.currency == currency.as_str());
            Ok((currency.to_string(), known.pop()))
        }
        (None, 1) => {
            let limit = known.pop();
            Ok((limit.as_ref().map(|it| it.currency.clone()).unwrap_or_default(), limit))
        }
        (None, count) => {
            Err(CliError::new(format!("--currency: missing; {name} has {count} caps")))
        }
    }
}

fn change_limit(
    client: &mut AdminClient,
    (arguments, currency): (&LimitsArguments, &str),
    known: Option<ListedLimit>,
) -> Result<(), CliError> {
    let name = &arguments.participant.name;
    let alarm = arguments.alarm_percentage.map(|alarm| alarm.to_string());
    let cap = arguments.cap.map(|cap| cap.to_string());
    let Some(known) = known else {
        let missing = || CliError::new(format!("--cap: missing; {name} has no cap in {currency}"));
        let cap = cap.ok_or_else(missing)?;
        let limit = json!({"type": "NET_DEBIT_CAP", "value": cap});
        let body = json!({"currency": currency, "limit": limit, "initialPosition": 0});
        client.call("POST", &path(name, "/initialPositionAndLimits"), Some(&body))?;
        let Some(alarm) = alarm else { return Ok(()) };
        return put_limit(client, name, (currency, &cap, &alarm));
    };
    let cap = cap.unwrap_or_else(|| known.limit.value.to_string());
    let alarm = alarm.unwrap_or_else(|| known.limit.alarm_percentage.to_string());
    put_limit(client, name, (currency, &cap, &alarm))
}

fn put_limit(
    client: &mut AdminClient,
    name: &FspName,
    (currency, cap, alarm): (&str, &str, &str),
) -> Result<(), CliError> {
    let limit = json!({"type": "NET_DEBIT_CAP", "value": cap, "alarmPercentage": alarm});
    let body = json!({"currency": currency, "limit": limit});
    client.call("PUT", &path(name, "/limits"), Some(&body)).map(drop)
}

fn endpoints(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &EndpointsArguments,
) -> Result<(), CliError> {
    let listed = path(&arguments.participant.name, "/endpoints");
    let known = client.call("GET", &listed, None)?;
    let wanted = wanted_endpoints(arguments.callbacks.as_deref(), &arguments.endpoints);
    let is_known = |(kind, value): &(String, String)| {
        let mut known = entries(&known.value).iter();
        known.any(|it| it["type"] == json!(kind) && it["value"] == json!(value))
    };
    for (kind, value) in wanted.iter().filter(|it| !is_known(it)) {
        client.call("POST", &listed, Some(&json!({"type": kind, "value": value})))?;
    }
    if arguments.test {
        return test_endpoints(client, connection, &listed);
    }
    let answer = client.call("GET", &listed, None)?;
    connection.print(&answer.text, || endpoints_table(entries(&answer.value)).print());
    Ok(())
}

/// Has the switch call each host of the endpoints.
fn test_endpoints(
    client: &mut AdminClient,
    connection: &AdminConnection,
    listed: &str,
) -> Result<(), CliError> {
    let answer = client.call("POST", &format!("{listed}/calls"), None)?;
    let calls = entries(&answer.value);
    connection.print(&answer.text, || calls_table(calls).print());
    match calls.iter().filter(|call| !call["error"].is_null()).count() {
        0 => Ok(()),
        failed => Err(CliError::new(format!("no answer from {failed} of {}", calls.len()))),
    }
}

fn keys(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &KeysArguments,
) -> Result<(), CliError> {
    let listed = path(&arguments.participant.name, "/keys");
    if let Some(file) = &arguments.add {
        let key = key_in(file).map_err(|fault| CliError::new(format!("--add: {fault}")))?;
        client.call("POST", &listed, Some(&json!({"publicKey": key.to_pem()})))?;
    }
    if let Some(id) = &arguments.remove {
        let one = format!("{listed}/{}", fspiop::percent_encode(id));
        client.call("DELETE", &one, None)?;
    }
    let answer = client.call("GET", &listed, None)?;
    connection.print(&answer.text, || keys_table(entries(&answer.value)).print());
    Ok(())
}

fn address_of(text: &str) -> Result<String, String> {
    callable(text).map(str::to_owned)
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedAccount {
    id: u64,
    ledger_account_type: String,
    currency: String,
    value: Box<serde_json::value::RawValue>,
    is_active: u8,
}

fn accounts_table(text: &str) -> Result<Table<5>, CliError> {
    let accounts: Vec<ListedAccount> = read(text)?;
    let mut table = Table::new([
        ("account", Align::Right),
        ("type", Align::Left),
        ("currency", Align::Left),
        ("balance", Align::Right),
        ("status", Align::Left),
    ]);
    for account in accounts {
        table.add([
            account.id.to_string(),
            account.ledger_account_type,
            account.currency,
            account.value.to_string(),
            if account.is_active == 1 { "active" } else { "inactive" }.to_owned(),
        ]);
    }
    Ok(table)
}

#[derive(serde::Deserialize)]
struct ListedLimit {
    currency: String,
    limit: LimitValues,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct LimitValues {
    value: Box<serde_json::value::RawValue>,
    alarm_percentage: Box<serde_json::value::RawValue>,
}

fn read_limits(text: &str) -> Result<Vec<ListedLimit>, CliError> {
    read(text)
}

fn limits_table(text: &str) -> Result<Table<3>, CliError> {
    let mut table = Table::new([
        ("net debit cap", Align::Right),
        ("currency", Align::Left),
        ("alarm at", Align::Right),
    ]);
    for ListedLimit { currency, limit } in read_limits(text)? {
        table.add([limit.value.to_string(), currency, format!("{} %", limit.alarm_percentage)]);
    }
    Ok(table)
}

fn endpoints_table(endpoints: &[Value]) -> Table<2> {
    let mut table = Table::new([("endpoint", Align::Left), ("value", Align::Left)]);
    for endpoint in endpoints {
        table.add([member(endpoint, "type"), member(endpoint, "value")]);
    }
    table
}

fn calls_table(calls: &[Value]) -> Table<4> {
    let mut table = Table::new([
        ("host", Align::Left),
        ("endpoints", Align::Right),
        ("answer", Align::Left),
        ("ms", Align::Right),
    ]);
    for call in calls {
        let types = call["types"].as_array().map_or(0, Vec::len);
        let answer = match call["status"].as_u64() {
            Some(status) => format!("status {status} from {}", member(call, "address")),
            None => member(call, "error"),
        };
        table.add([member(call, "to"), types.to_string(), answer, member(call, "milliseconds")]);
    }
    table
}

fn keys_table(keys: &[Value]) -> Table<4> {
    let mut table = Table::new([
        ("key", Align::Left),
        ("kind", Align::Left),
        ("source", Align::Left),
        ("added", Align::Left),
    ]);
    for key in keys {
        let kind = format!("{} {}", member(key, "kind"), member(key, "bits"));
        table.add([
            member(key, "id"),
            kind.trim_end().to_owned(),
            member(key, "source"),
            member(key, "createdDate"),
        ]);
    }
    table
}

fn read<'t, T: serde::Deserialize<'t>>(text: &'t str) -> Result<T, CliError> {
    serde_json::from_str(text)
        .map_err(|error| CliError::new(format!("invalid answer {text}: {error}")))
}
