//! `upesi callback`: callbacks that are owed or were given up, through the admin API of a switch.

use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::table::{Align, Table};
use crate::cli::units::{Count, counted};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi callback owed --participant greenbank
  upesi callback list --group
  upesi callback list --participant greenbank --code 503
  upesi callback show 17
  upesi callback resend 17 18
  upesi callback resend --participant greenbank --from 2026-05-03T10:00:00Z --dry-run
  upesi callback drop --participant greenbank --code 404 --reason 'old test messages'";

/// Arguments of `callback`.
#[derive(clap::Args)]
pub(crate) struct CallbackArguments {
    #[command(subcommand)]
    command: CallbackCommand,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum CallbackCommand {
    /// List callbacks that the hub owes and has not given up, oldest first.
    Owed(OwedArguments),
    /// List callbacks that were given up, newest first, or count them by cause.
    List(ListArguments),
    /// Show a callback that was given up.
    Show(IdArgument),
    /// Send callbacks again: those with these ids, or all that the filters select.
    Resend(SelectArguments),
    /// Drop callbacks, which are not sent any more; the payments are unchanged.
    ///
    /// Those with these ids, or all that the filters select. The reason is recorded.
    Drop(SelectArguments),
}

#[derive(clap::Args)]
struct IdArgument {
    /// Id, as `upesi callback list` shows it.
    #[arg(value_name = "ID")]
    id: u64,
}

/// Filters of dead letters.
#[derive(clap::Args)]
struct Filters {
    /// Only callbacks to this participant.
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
    /// Only with this HTTP status of the last attempt; 0 without an answer.
    #[arg(long, value_name = "STATUS")]
    code: Option<u16>,
    /// Only callbacks that are owed since this time or later, as in RFC 3339.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only callbacks that are owed since before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
}

#[derive(clap::Args)]
struct ListArguments {
    #[command(flatten)]
    filters: Filters,
    /// Count them by participant, message and status instead.
    #[arg(long)]
    group: bool,
    /// Maximum number of rows.
    #[arg(long, value_name = "COUNT", default_value_t = 100,
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Only callbacks with a lower id: the last one of the page before.
    #[arg(long, value_name = "ID")]
    before: Option<u64>,
}

#[derive(clap::Args)]
struct OwedArguments {
    /// Only callbacks to this participant.
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
    /// Only callbacks that are owed since this time or later, as in RFC 3339.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only callbacks that are owed since before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Maximum number of rows.
    #[arg(long, value_name = "COUNT", default_value_t = 100,
        value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// Only callbacks with a higher id: the last one of the page before.
    #[arg(long, value_name = "ID")]
    after: Option<u64>,
}

#[derive(clap::Args)]
struct SelectArguments {
    /// Ids, as `upesi callback list` shows them.
    #[arg(value_name = "ID")]
    ids: Vec<u64>,
    #[command(flatten)]
    filters: Filters,
    /// Show how many the filters select, and change nothing.
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn callback(arguments: &CallbackArguments) -> Result<(), CliError> {
    let CallbackArguments { command, connection } = arguments;
    let mut client = AdminClient::new(connection)?;
    match command {
        CallbackCommand::Owed(arguments) => owed(&mut client, connection, arguments),
        CallbackCommand::List(arguments) => list(&mut client, connection, arguments),
        CallbackCommand::Show(IdArgument { id }) => show(&mut client, connection, *id),
        CallbackCommand::Resend(arguments) => change(&mut client, connection, (RESEND, arguments)),
        CallbackCommand::Drop(arguments) => {
            if connection.reason().is_none() && !arguments.dry_run {
                return Err(CliError::new("name the reason with --reason"));
            }
            change(&mut client, connection, (DROP, arguments))
        }
    }
}

impl Filters {
    fn is_empty(&self) -> bool {
        self.query().is_empty()
    }

    /// As parameters of a query, each with a leading `&`.
    fn query(&self) -> String {
        let code = self.code.map(|code| code.to_string());
        parameters(&[
            ("participant", &self.participant),
            ("code", &code),
            ("from", &self.from),
            ("to", &self.to),
        ])
    }
}

impl OwedArguments {
    fn path(&self) -> String {
        let after = self.after.map(|id| id.to_string());
        let filters = parameters(&[
            ("after", &after),
            ("participant", &self.participant),
            ("from", &self.from),
            ("to", &self.to),
        ]);
        format!("/outbox?limit={}{filters}", self.limit)
    }
}

/// The given parameters of a query, each with a leading `&`.
fn parameters(all: &[(&str, &Option<String>)]) -> String {
    let given = all.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    given.map(|(name, value)| format!("&{name}={}", query_value(value))).collect()
}

/// A change of dead letters: its path, and its verb in the past.
type LetterChange = (&'static str, &'static str);

const RESEND: LetterChange = ("resend", "resent");
const DROP: LetterChange = ("drop", "dropped");

impl SelectArguments {
    /// # Errors
    /// There are both ids and filters, or neither.
    fn check(&self) -> Result<(), CliError> {
        match (self.ids.is_empty(), self.filters.is_empty()) {
            (true, true) => Err(CliError::new(
                "name callbacks by their ids, or select them with --participant, --code, --from \
                 or --to",
            )),
            (false, false) => Err(CliError::new("ids and filters cannot be combined")),
            _ => Ok(()),
        }
    }
}

fn list(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &ListArguments,
) -> Result<(), CliError> {
    let ListArguments { filters, group, limit, before } = arguments;
    if *group {
        let answer = groups(client, filters)?;
        connection.print(&answer.to_string(), || print_groups(entries(&answer)));
        return Ok(());
    }
    let before = before.map(|id| format!("&before={id}")).unwrap_or_default();
    let path = format!("/deadletters?limit={limit}{before}{}", filters.query());
    let answer = client.call("GET", &path, None)?;
    connection.print(&answer.text, || print_letters(entries(&answer.value)));
    Ok(())
}

fn owed(
    client: &mut AdminClient,
    connection: &AdminConnection,
    arguments: &OwedArguments,
) -> Result<(), CliError> {
    let answer = client.call("GET", &arguments.path(), None)?;
    connection.print(&answer.text, || print_owed(&answer.value));
    Ok(())
}

fn groups(client: &mut AdminClient, filters: &Filters) -> Result<Value, CliError> {
    let query = filters.query().replacen('&', "?", 1);
    client.call("GET", &format!("/deadletters/groups{query}"), None).map(|answer| answer.value)
}

fn show(client: &mut AdminClient, connection: &AdminConnection, id: u64) -> Result<(), CliError> {
    let path = format!("/deadletters?limit=1&before={}", id.saturating_add(1));
    let answer = client.call("GET", &path, None)?.value;
    let letter = entries(&answer).first().filter(|letter| letter["id"] == json!(id));
    let letter =
        letter.ok_or_else(|| CliError::new(format!("{id}: it was not given up, or was resent")))?;
    connection.print(&letter.to_string(), || {
        print_letters(std::slice::from_ref(letter));
        if let Some(transfer) = letter["transferId"].as_str() {
            println!("the payment: upesi explain {transfer}");
        }
    });
    Ok(())
}

/// Number of callbacks that the arguments select.
fn selected(client: &mut AdminClient, arguments: &SelectArguments) -> Result<u64, CliError> {
    if !arguments.ids.is_empty() {
        return Ok(arguments.ids.len() as u64);
    }
    let groups = groups(client, &arguments.filters)?;
    Ok(entries(&groups).iter().filter_map(|group| group["count"].as_u64()).sum())
}

fn change(
    client: &mut AdminClient,
    connection: &AdminConnection,
    (change, arguments): (LetterChange, &SelectArguments),
) -> Result<(), CliError> {
    arguments.check()?;
    let (action, done) = change;
    let (count, verb) = match (arguments.dry_run, arguments.ids.is_empty()) {
        (true, _) => (selected(client, arguments)?, format!("would {action}")),
        (false, true) => (change_selected(client, action, &arguments.filters)?, done.to_owned()),
        (false, false) => (change_each(client, action, &arguments.ids)?, done.to_owned()),
    };
    let text = format!("{verb} {}", counted(count, "callback"));
    let json = json!({"count": count, "dryRun": arguments.dry_run, "done": text});
    connection.print(&json.to_string(), || println!("{text}"));
    Ok(())
}

fn change_each(client: &mut AdminClient, action: &str, ids: &[u64]) -> Result<u64, CliError> {
    for id in ids {
        client.call("POST", &format!("/deadletters/{id}/{action}"), None)?;
    }
    Ok(ids.len() as u64)
}

/// Changes all that the filters select, page by page.
fn change_selected(
    client: &mut AdminClient,
    action: &str,
    filters: &Filters,
) -> Result<u64, CliError> {
    let (mut count, mut before) = (0, u64::MAX);
    loop {
        let page = format!("/deadletters/{action}?before={before}{}", filters.query());
        let done = client.call("POST", &page, None)?.value;
        count += done["done"].as_u64().unwrap_or_default();
        match (done["more"] == json!(true), done["last"].as_u64()) {
            (true, Some(last)) => before = last,
            _ => return Ok(count),
        }
    }
}

fn print_letters(letters: &[Value]) {
    if letters.is_empty() {
        println!("no callback was given up");
        return;
    }
    let mut table = Table::new([
        ("id", Align::Right),
        ("participant", Align::Left),
        ("message", Align::Left),
        ("transfer", Align::Left),
        ("status", Align::Right),
        ("attempts", Align::Right),
        ("owed since", Align::Left),
        ("last attempt", Align::Left),
    ]);
    for letter in letters {
        table.add([
            member(letter, "id"),
            member(letter, "recipient"),
            member(letter, "message"),
            member(letter, "transferId"),
            status(letter),
            member(letter, "attempts"),
            member(letter, "createdDate"),
            member(letter, "lastAttemptDate"),
        ]);
    }
    table.print();
}

fn print_owed(page: &Value) {
    let notices = entries(&page["notices"]);
    let all = page["owed"].as_u64().unwrap_or_default();
    if notices.is_empty() {
        println!("no callback matches; owed in all: {}", counted(all, "callback"));
        return;
    }
    let mut table = Table::new([
        ("id", Align::Right),
        ("participant", Align::Left),
        ("message", Align::Left),
        ("transfer", Align::Left),
        ("owed since", Align::Left),
        ("why it waits", Align::Left),
    ]);
    for notice in notices {
        let members = ["id", "recipient", "message", "transferId", "createdDate", "reason"];
        table.add(members.map(|name| member(notice, name)));
    }
    table.print();
    println!("owed in all: {}", counted(all, "callback"));
    if let Some(next) = page["next"].as_u64() {
        println!("more: --after {next}");
    }
}

/// The HTTP status of the last attempt.
fn status(letter: &Value) -> String {
    letter["lastStatus"].as_u64().map_or_else(|| "none".to_owned(), |status| status.to_string())
}

fn print_groups(groups: &[Value]) {
    if groups.is_empty() {
        println!("no callback was given up");
        return;
    }
    let mut table = Table::new([
        ("participant", Align::Left),
        ("message", Align::Left),
        ("status", Align::Right),
        ("callbacks", Align::Right),
        ("oldest", Align::Left),
        ("newest", Align::Left),
    ]);
    for group in groups {
        table.add([
            member(group, "recipient"),
            member(group, "message"),
            status(group),
            Count(group["count"].as_u64().unwrap_or_default()).to_string(),
            member(group, "oldestDate"),
            member(group, "newestDate"),
        ]);
    }
    table.print();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters() -> Filters {
        Filters { participant: None, code: None, from: None, to: None }
    }

    #[test]
    fn filters_become_a_query() {
        assert_eq!(filters().query(), "");
        let some = Filters { participant: Some("a&b".into()), code: Some(0), ..filters() };
        assert_eq!(some.query(), "&participant=a%26b&code=0");
    }

    #[test]
    fn owed_callbacks_are_read_in_pages() {
        let owed = |after| OwedArguments {
            participant: Some("greenbank".into()),
            from: None,
            to: None,
            limit: 50,
            after,
        };
        assert_eq!(owed(None).path(), "/outbox?limit=50&participant=greenbank");
        assert_eq!(owed(Some(7)).path(), "/outbox?limit=50&after=7&participant=greenbank");
    }

    #[test]
    fn a_change_needs_ids_or_filters() {
        let selection = |ids: &[u64], code| SelectArguments {
            ids: ids.to_vec(),
            filters: Filters { code, ..filters() },
            dry_run: false,
        };
        assert!(selection(&[], None).check().is_err());
        assert!(selection(&[1], Some(503)).check().is_err());
        assert!(selection(&[1], None).check().is_ok());
        assert!(selection(&[], Some(503)).check().is_ok());
    }
}
