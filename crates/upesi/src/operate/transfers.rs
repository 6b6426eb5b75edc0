//! `upesi transfer`: payments of a running switch by participant, state, time and amount.

use serde_json::{Value, json};

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_client::{AdminClient, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::table::{Align, Table};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi transfer list --state aborted
  upesi transfer list --participant greenbank --cause refused --from 2026-05-03T10:00:00Z
  upesi transfer list --currency USD --amount-min 10000 --limit 200 --json
  upesi transfer list --trace 0af7651916cd43dd8448eb211c80319c --from 2026-05-03T08:00:00Z
  upesi transfer show b51ec534-ee48-4575-b6a9-000000000001
The list is newest first. `upesi transfer show` shows why a payment failed, like `upesi explain`.";

/// Longest list, and the size of its pages.
const ROWS_MAX: u32 = 1_000_000;
const PAGE_MAX: usize = 1_000;

/// Arguments of `transfer`.
#[derive(clap::Args)]
pub(crate) struct TransferArguments {
    #[command(subcommand)]
    command: TransferCommand,
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the answer of the switch as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum TransferCommand {
    /// List payments that the filters select, newest first.
    List(ListArguments),
    /// Show the history of a payment and the reason of its end.
    Show(IdArgument),
}

#[derive(clap::Args)]
struct IdArgument {
    /// Id of the transfer.
    #[arg(value_name = "TRANSFER_ID")]
    id: String,
}

#[derive(clap::Args)]
struct ListArguments {
    /// Only payments with this payer or payee.
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
    /// Only payments in this state.
    #[arg(long, value_enum)]
    state: Option<StateName>,
    /// Only payments that ended like this.
    #[arg(long, value_enum)]
    cause: Option<CauseName>,
    /// Only payments that last changed at this time or later, as in RFC 3339.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Only payments that last changed before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only payments of at least this amount.
    #[arg(long, value_name = "AMOUNT")]
    amount_min: Option<String>,
    /// Only payments of at most this amount.
    #[arg(long, value_name = "AMOUNT")]
    amount_max: Option<String>,
    /// Only payments in this currency.
    #[arg(long, value_name = "CODE")]
    currency: Option<String>,
    /// Maximum number of payments.
    #[arg(long, value_name = "COUNT", default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(ROWS_MAX)))]
    limit: u32,
    /// Find the payments of this trace: its id, or a whole `traceparent`.
    ///
    /// Searches the recorded messages from --from on, by default the last hour of the log. Look-ups
    /// and unrecorded quotes have no record.
    #[arg(long, value_name = "ID", conflicts_with_all = ["participant", "state", "cause",
        "amount_min", "amount_max", "currency", "limit", "cursor"])]
    trace: Option<String>,
    /// Continue a list: the value that it printed after its last row.
    #[arg(long, value_name = "CURSOR")]
    cursor: Option<String>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum StateName {
    /// Not answered yet.
    Reserved,
    /// Paid.
    Committed,
    /// Not paid: refused, aborted or expired.
    Aborted,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum CauseName {
    /// Refused on arrival, for example above a cap.
    Refused,
    /// Aborted by the payee, or for a wrong response.
    Aborted,
    /// Not answered before the deadline.
    Expired,
}

impl ListArguments {
    /// The filters as parameters of a query, each with a leading `&`.
    fn query(&self) -> String {
        let state = self.state.map(|state| match state {
            StateName::Reserved => "RESERVED",
            StateName::Committed => "COMMITTED",
            StateName::Aborted => "ABORTED",
        });
        let cause = self.cause.map(|cause| match cause {
            CauseName::Refused => "REFUSED",
            CauseName::Aborted => "ABORTED",
            CauseName::Expired => "EXPIRED",
        });
        let filters = [
            ("participant", self.participant.as_deref()),
            ("state", state),
            ("cause", cause),
            ("from", self.from.as_deref()),
            ("to", self.to.as_deref()),
            ("amountMin", self.amount_min.as_deref()),
            ("amountMax", self.amount_max.as_deref()),
            ("currency", self.currency.as_deref()),
        ];
        let given = filters.into_iter().filter_map(|(name, value)| Some((name, value?)));
        given.map(|(name, value)| format!("&{name}={}", query_value(value))).collect()
    }
}

pub(crate) fn transfer(arguments: &TransferArguments) -> Result<(), CliError> {
    let mut client = AdminClient::at(&arguments.switch)?;
    match &arguments.command {
        TransferCommand::List(list) if list.trace.is_some() => {
            find_trace(&mut client, list, arguments.json)
        }
        TransferCommand::List(list) => print_list(&mut client, list, arguments.json),
        TransferCommand::Show(IdArgument { id }) => {
            let format = if arguments.json { "json" } else { "text" };
            let id = fspiop::percent_encode(id);
            let path = format!("/transfers/{id}/explanation?format={format}");
            println!("{}", client.call("GET", &path, None)?.text);
            Ok(())
        }
    }
}

/// Searches the log for a trace, page by page, until payments are found or the period ends.
fn find_trace(
    client: &mut AdminClient,
    list: &ListArguments,
    is_json: bool,
) -> Result<(), CliError> {
    let trace = query_value(list.trace.as_deref().unwrap_or_default());
    let filters = [("from", &list.from), ("to", &list.to)];
    let filters = filters.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let filters: String =
        filters.map(|(name, value)| format!("&{name}={}", query_value(value))).collect();
    let (mut first, mut after) = (None, String::new());
    let page = loop {
        let page = client.call("GET", &format!("/traces/{trace}?{filters}{after}"), None)?.value;
        first.get_or_insert_with(|| page["after"].clone());
        if !entries(&page["messages"]).is_empty() || page["next"] == page["end"] {
            break page;
        }
        after = format!("&after={}", page["next"]);
    };
    if is_json {
        println!("{page}");
        return Ok(());
    }
    let searched = first.as_ref().and_then(Value::as_u64).unwrap_or_default() + 1;
    let messages = entries(&page["messages"]);
    if messages.is_empty() {
        println!("no message has this trace id in records {searched} to {}", page["next"]);
        println!("search earlier ones with --from TIME");
        return Ok(());
    }
    let mut table = Table::new([
        ("recorded", Align::Left),
        ("transfer", Align::Left),
        ("record", Align::Right),
    ]);
    for message in messages {
        table.add(["recordedDate", "transferId", "logIndex"].map(|name| member(message, name)));
    }
    table.print();
    Ok(())
}

/// Reads pages until the list is complete or has enough rows.
fn print_list(
    client: &mut AdminClient,
    list: &ListArguments,
    is_json: bool,
) -> Result<(), CliError> {
    let (limit, filters) = (list.limit as usize, list.query());
    let (mut rows, mut next) = (Vec::new(), list.cursor.clone());
    let missing = loop {
        let size = (limit - rows.len()).min(PAGE_MAX);
        let cursor = next.map(|cursor| format!("&cursor={}", query_value(&cursor)));
        let cursor = cursor.unwrap_or_default();
        let page =
            client.call("GET", &format!("/transfers?limit={size}{filters}{cursor}"), None)?;
        rows.extend_from_slice(entries(&page.value["transfers"]));
        next = page.value["next"].as_str().map(str::to_owned);
        if next.is_none() || limit <= rows.len() {
            break page.value["missingUpTo"].clone();
        }
    };
    if is_json {
        let mut list = json!({"transfers": rows});
        for (name, value) in [("next", json!(next)), ("missingUpTo", missing)] {
            if !value.is_null() {
                list[name] = value;
            }
        }
        println!("{list}");
        return Ok(());
    }
    print_rows(&rows);
    if let Some(next) = next {
        println!("older payments: --cursor {next}");
    }
    if !missing.is_null() {
        println!(
            "payments that ended up to record {missing} may be missing; see \
             docs/operating/transfers.md"
        );
    }
    Ok(())
}

fn print_rows(rows: &[Value]) {
    if rows.is_empty() {
        println!("no payment matches");
        return;
    }
    let mut table = Table::new([
        ("changed", Align::Left),
        ("transfer", Align::Left),
        ("payer", Align::Left),
        ("payee", Align::Left),
        ("amount", Align::Right),
        ("state", Align::Left),
        ("code", Align::Right),
        ("reason", Align::Left),
    ]);
    for row in rows {
        table.add([
            member(row, "changedDate"),
            member(row, "transferId"),
            party(row, "payer"),
            party(row, "payee"),
            format!("{} {}", member(row, "amount"), member(row, "currency")),
            member(row, "transferState"),
            member(row, "errorCode"),
            member(row, "reason"),
        ]);
    }
    table.print();
}

/// Name of a party; one that is not a participant has none.
fn party(row: &Value, name: &str) -> String {
    row[name].as_str().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_become_a_query() {
        let none = ListArguments {
            participant: None,
            state: None,
            cause: None,
            from: None,
            to: None,
            amount_min: None,
            amount_max: None,
            currency: None,
            limit: 50,
            trace: None,
            cursor: None,
        };
        assert_eq!(none.query(), "");
        let some = ListArguments {
            participant: Some("a&b".into()),
            cause: Some(CauseName::Expired),
            amount_min: Some("10.5".into()),
            ..none
        };
        assert_eq!(some.query(), "&participant=a%26b&cause=EXPIRED&amountMin=10.5");
    }
}
