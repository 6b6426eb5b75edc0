//! `upesi erase`: erases the contents of recorded messages, on a running switch, through its admin
//! API.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::table::{Align, Table};
use crate::cli::units::{Bytes, counted};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi erase --transfer b51ec534-ee48-4575-b6a9-000000000001 --dry-run
  upesi erase --transfer b51ec534-ee48-4575-b6a9-000000000001 --reason 'request 31'
  upesi erase --before 2024-01-01T00:00:00Z --reason 'retention'
  upesi erase --party MSISDN 254700000001 --reason 'request 32'
  upesi erase list --token amina.token
If operators have names, another one approves: `upesi proposal approve ID`.";

/// Longest wait for an answer: a search for a party reads the whole log.
const PATIENCE: Duration = Duration::from_mins(30);

/// Arguments of `erase`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct EraseArguments {
    #[command(subcommand)]
    command: Option<EraseCommand>,
    /// Erase the messages of this payment, with its quotes and its request to pay.
    #[arg(long, value_name = "TRANSFER_ID", required_unless_present_any = ["before", "party"])]
    transfer: Option<String>,
    /// Erase all messages that were recorded before this time.
    #[arg(long, value_name = "TIME", conflicts_with = "transfer")]
    before: Option<String>,
    /// Erase the messages that name this party, with those of its payments.
    ///
    /// Reads the whole log. A party that is registered must be released first.
    #[arg(long, num_args = 2, value_names = ["TYPE", "ID"], conflicts_with_all = ["transfer", "before"])]
    party: Option<Vec<String>>,
    /// Only messages with this sub-identifier of the party [default: any].
    #[arg(long, alias = "sub", value_name = "ID", requires = "party")]
    sub_id: Option<String>,
    /// Only show what would be erased.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    connection: AdminConnection,
}

#[derive(clap::Subcommand)]
enum EraseCommand {
    /// List erasures with their progress, newest first.
    List,
}

impl EraseArguments {
    /// The members of a request that select contents.
    fn selection(&self) -> Vec<(&'static str, &str)> {
        let party = self.party.as_deref().unwrap_or_default();
        let members = [
            ("transferId", self.transfer.as_deref()),
            ("before", self.before.as_deref()),
            ("partyIdType", party.first().map(String::as_str)),
            ("partyIdentifier", party.get(1).map(String::as_str)),
            ("partySubIdOrType", self.sub_id.as_deref()),
        ];
        members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

pub(crate) fn erase(arguments: &EraseArguments) -> Result<(), CliError> {
    let connection = &arguments.connection;
    let mut client = AdminClient::new(connection)?.waiting(PATIENCE);
    if matches!(arguments.command, Some(EraseCommand::List)) {
        let answer = client.call("GET", "/erasures", None)?;
        connection.print(&answer.text, || print!("{}", list(&answer.value)));
        return Ok(());
    }
    let selection = arguments.selection();
    let pairs = selection
        .iter()
        .map(|(name, value)| format!("{name}={}", fspiop::percent_encode(value)))
        .collect::<Vec<_>>();
    let plan = client.call("GET", &format!("/erasures/plan?{}", pairs.join("&")), None)?;
    if arguments.dry_run {
        connection.print(&plan.text, || print!("{}", planned(&plan.value)));
        return Ok(());
    }
    if connection.reason().is_none() {
        return Err(CliError::new("--reason is missing: an erasure cannot be undone"));
    }
    let body: Map<String, Value> =
        selection.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let answer = client.call("POST", "/erasures", Some(&Value::Object(body)))?;
    connection.print(&answer.text, || {
        println!("{}ordered; see `upesi erase list`", planned(&plan.value));
    });
    answer.finish()
}

fn planned(plan: &Value) -> String {
    let number = |name: &str| plan[name].as_u64().unwrap_or_default();
    let mut text = format!(
        "  contents   {}\n  segments   {} of the log, {} of them archived, {}\n",
        counted(number("contents"), "message"),
        number("segments"),
        number("archivedSegments"),
        Bytes(number("bytes"))
    );
    if plan["isRegistered"] == true {
        text += "  directory  the party is registered: release it first, `upesi party release`\n";
    }
    for (name, what) in [
        ("directoryRecords", "change of the party directory"),
        ("bulkMessages", "message of bulk transfers"),
    ] {
        if number(name) != 0 {
            text += &format!("  kept       {what}: {}\n", number(name));
        }
    }
    text
}

fn list(answer: &Value) -> String {
    let all = entries(answer);
    if all.is_empty() {
        return "no erasures\n".to_owned();
    }
    let mut table = Table::new([
        ("record", Align::Right),
        ("ordered", Align::Left),
        ("state", Align::Left),
        ("segments left", Align::Right),
        ("waiting", Align::Right),
        ("what", Align::Left),
        ("by", Align::Left),
        ("reason", Align::Left),
    ]);
    for it in all {
        let [record, ordered, state, left, waiting, subject, by, approved, reason] = [
            "logIndex",
            "orderedDate",
            "state",
            "segmentsLeft",
            "contentsWaiting",
            "subject",
            "orderedBy",
            "approvedBy",
            "reason",
        ]
        .map(|name| member(it, name));
        let what = match &*member(it, "form") {
            "BEFORE" => format!("before {subject}"),
            "PARTY" => format!("a party, {subject}"),
            "RETAINED_PAYMENTS" => format!("payments before {subject}"),
            "RETAINED_REGISTRATIONS" => format!("registrations before {subject}"),
            _ => format!("payment {subject}"),
        };
        let by = if approved.is_empty() { by } else { format!("{by}, {approved}") };
        table.add([record, ordered, state, left, waiting, what, by, reason]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_and_lists_are_shown() {
        let plan = json!({"contents": 4, "segments": 2, "archivedSegments": 1, "bytes": 2_000_000});
        let expected = "  contents   4 messages\n  \
                          segments   2 of the log, 1 of them archived, 1.9 MiB\n";
        assert_eq!(planned(&plan), expected);
        let erasure = json!({
            "logIndex": 77, "orderedDate": "2026-01-01T10:00:00.000Z", "form": "TRANSFER",
            "subject": "b51ec534-ee48-4575-b6a9-000000000001", "contents": 4,
            "orderedBy": "amina", "approvedBy": "benta", "reason": "request 31",
            "state": "RUNNING", "segmentsLeft": 1, "contentsWaiting": 2
        });
        let shown = list(&json!([erasure]));
        let row = shown.lines().nth(1).expect("a row under the head");
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
        assert_eq!(
            cells,
            [
                "77",
                "2026-01-01T10:00:00.000Z",
                "RUNNING",
                "1",
                "2",
                "payment b51ec534-ee48-4575-b6a9-000000000001",
                "amina, benta",
                "request 31",
            ]
        );
        assert_eq!(list(&json!([])), "no erasures\n");
    }
}
