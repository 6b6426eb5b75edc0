//! `upesi erase`: erases the contents of recorded messages, on a running switch, through its admin
//! API.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member, proposed};
use crate::cli::admin_get::query_value;
use crate::cli::table::{Align, Table};
use crate::cli::units::{Bytes, counted};

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi erase --transfer b51ec534-ee48-4575-b6a9-000000000001 --dry-run
  upesi erase --transfer b51ec534-ee48-4575-b6a9-000000000001 --reason 'request 31'
  upesi erase --before 2024-01-01T00:00:00Z --reason 'retention'
  upesi erase --party MSISDN 254700000001 --reason 'request 32'
  upesi erase list --token amina.token
  upesi erase list --json > erasures.json
  upesi erase --again erasures.json       after a restore of an older copy
If operators have names, another one approves: `upesi proposal approve ID`.";

/// Longest wait for an answer: a search for a party reads the whole log.
const PATIENCE: Duration = Duration::from_mins(30);

/// Arguments of `erase`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(group = clap::ArgGroup::new("selection").required(true).multiple(true)
    .args(["transfer", "before", "party", "participant", "again"]))]
pub(crate) struct EraseArguments {
    #[command(subcommand)]
    command: Option<EraseCommand>,
    /// Erase the messages of this payment, with its quotes and its request to pay.
    #[arg(long, value_name = "TRANSFER_ID")]
    transfer: Option<String>,
    /// Erase all messages that were recorded before this time.
    #[arg(long, value_name = "TIME", conflicts_with = "transfer")]
    before: Option<String>,
    /// Erase the messages that name this party, with those of its payments.
    ///
    /// Reads the whole log. A party that is registered must be released first.
    #[arg(long, num_args = 2, value_names = ["TYPE", "ID"],
        conflicts_with_all = ["transfer", "before"])]
    party: Option<Vec<String>>,
    /// Erase the messages that this participant sent, with --before only older ones.
    ///
    /// Registrations of its parties by operators are erased too. Messages that others sent to it
    /// stay: they are contents of their senders. Reads the log up to the time.
    #[arg(long, value_name = "FSP", conflicts_with_all = ["transfer", "party"])]
    participant: Option<String>,
    /// Only messages with this sub-identifier of the party [default: any].
    #[arg(long, alias = "sub", value_name = "ID", requires = "party")]
    sub_id: Option<String>,
    /// Order the erasures of a list again, after a restore of an older copy.
    ///
    /// The list is the output of `upesi erase list --json`. Erasures that the log has are left out.
    #[arg(long, value_name = "FILE",
        conflicts_with_all = ["transfer", "before", "party", "participant"])]
    again: Option<PathBuf>,
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
    /// Show an erasure: its order, its records and its progress.
    Show {
        /// The record that ordered it.
        #[arg(value_name = "RECORD")]
        record: u64,
    },
}

impl EraseArguments {
    /// The members of a request that select contents.
    fn selection(&self) -> Vec<(&'static str, &str)> {
        let party = self.party.as_deref().unwrap_or_default();
        let members = [
            ("transferId", self.transfer.as_deref()),
            ("before", self.before.as_deref()),
            ("participant", self.participant.as_deref()),
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
    match arguments.command {
        Some(EraseCommand::List) => {
            let all = all_erasures(&mut client)?;
            connection.print(&all.to_string(), || print!("{}", list(&all)));
            return Ok(());
        }
        Some(EraseCommand::Show { record }) => return show(&mut client, (connection, record)),
        None => {}
    }
    if let Some(file) = &arguments.again {
        return order_again(file, (connection, &mut client, arguments.dry_run));
    }
    let selection = arguments.selection();
    let pairs = selection
        .iter()
        .map(|(name, value)| format!("{name}={}", query_value(value)))
        .collect::<Vec<_>>();
    let plan = client.call("GET", &format!("/erasures/plan?{}", pairs.join("&")), None)?;
    if arguments.dry_run {
        connection.print(&plan.text, || print!("{}", planned(&plan.value)));
        return Ok(());
    }
    if plan.value["contents"] == 0 {
        connection
            .print(&plan.text, || println!("nothing to erase: no stored message is selected"));
        return Ok(());
    }
    if connection.reason().is_none_or(|reason| reason.trim().is_empty()) {
        return Err(CliError::new("--reason is missing: an erasure cannot be undone"));
    }
    let body: Map<String, Value> =
        selection.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    let answer = client.call("POST", "/erasures", Some(&Value::Object(body)))?;
    connection.print(&answer.text, || {
        let plan = planned(&plan.value);
        println!("{plan}ordered; see `upesi erase list`");
    });
    answer.finish()
}

/// All erasures, newest first.
fn all_erasures(client: &mut AdminClient) -> Result<Value, CliError> {
    let mut all = Vec::new();
    let mut path = "/erasures".to_owned();
    loop {
        let page = client.call("GET", &path, None)?.value;
        let Some(last) = entries(&page).last().and_then(|it| it["logIndex"].as_u64()) else {
            return Ok(Value::Array(all));
        };
        all.extend(entries(&page).iter().cloned());
        path = page_before(last);
    }
}

fn page_before(record: u64) -> String {
    format!("/erasures?beforeRecord={record}")
}

fn show(
    client: &mut AdminClient,
    (connection, record): (&AdminConnection, u64),
) -> Result<(), CliError> {
    // The newest one before the next record.
    let answer = client.call("GET", &page_before(record.saturating_add(1)), None)?;
    let found = entries(&answer.value).first().filter(|it| it["logIndex"] == record);
    let found =
        found.ok_or_else(|| CliError::new(format!("record {record} ordered no erasure")))?;
    connection.print(&found.to_string(), || print!("{}", shown(found)));
    Ok(())
}

/// The order of an erasure with its progress.
fn shown(erasure: &Value) -> String {
    let text = |name: &str| member(erasure, name);
    let number = |name: &str| erasure[name].as_u64().unwrap_or_default();
    let ranges = entries(&erasure["records"]).iter().map(|range| {
        let [first, last] = ["first", "last"].map(|name| member(range, name));
        if first == last { first } else { format!("{first}-{last}") }
    });
    let mut records = ranges.collect::<Vec<_>>().join(", ");
    let count = number("recordRanges");
    if entries(&erasure["records"]).len() as u64 != count {
        records += &format!(", ... ({count} ranges)");
    }
    let approved = match &*text("approvedBy") {
        "" => String::new(),
        name => format!("  approved   by {name}\n"),
    };
    let copy = match &*text("state") {
        "RUNNING" => "after the log",
        "IN_COPY" => "replaced by the next run of the backup",
        _ => "replaced, or backup.to is not set",
    };
    format!(
        "erasure {}: {}\n  what       {}\n  ordered    {} by {}\n{approved}  reason     {}\n  \
         records    {records}\n  contents   {}, {} of them waiting\n  log        {} left, {} of \
         them archived\n  copy       {copy}\n",
        text("logIndex"),
        text("state"),
        what(erasure),
        text("orderedDate"),
        text("orderedBy"),
        text("reason"),
        counted(number("contents"), "message"),
        number("contentsWaiting"),
        counted(number("segmentsLeft"), "segment"),
        number("archivedSegmentsLeft"),
    )
}

/// Orders the erasures of a list that the log does not have.
fn order_again(
    file: &Path,
    (connection, client, dry_run): (&AdminConnection, &mut AdminClient, bool),
) -> Result<(), CliError> {
    let listed = read_list(file)?;
    let known = all_erasures(client)?;
    let is_known = |it: &Value| entries(&known).iter().any(|own| covers(own, it));
    let (mut proposals, mut refused, mut without_name) = (Vec::new(), 0, 0);
    // The oldest first.
    for it in entries(&listed).iter().rev().filter(|it| !is_known(it)) {
        // The switch orders these by its settings.
        if member(it, "form").starts_with("RETAINED_") {
            continue;
        }
        let Some(body) = selection_of(it) else {
            without_name += 1;
            continue;
        };
        println!("  again      {}, {}", what(it), member(it, "reason"));
        if dry_run {
            continue;
        }
        let reason = connection.reason().map_or_else(|| member(it, "reason"), ToOwned::to_owned);
        let mut client = AdminClient::because(connection, &reason)?.waiting(PATIENCE);
        let (status, answer) = client.status_of("POST", "/erasures", Some(&body))?;
        let described = &answer.value["errorInformation"]["errorDescription"];
        match (status, proposed(&answer.value)) {
            (202, Some(text)) => proposals.push(text),
            (..300, _) => {}
            _ => {
                refused += 1;
                println!("  refused    {}", described.as_str().unwrap_or_default());
            }
        }
    }
    end_of_again((refused, without_name), &proposals)
}

/// The request that makes a listed order again; `None` if the list does not have its selection.
fn selection_of(listed: &Value) -> Option<Value> {
    let subject = member(listed, "subject");
    match &*member(listed, "form") {
        "TRANSFER" => Some(json!({ "transferId": subject })),
        "BEFORE" => Some(json!({ "before": subject })),
        "PARTICIPANT" => {
            let (name, before) = subject.split_once(" before ")?;
            Some(json!({ "participant": name, "before": before }))
        }
        _ => None,
    }
}

/// The error of a list of which a part was refused, has no name, or waits for an approval.
fn end_of_again((refused, without_name): (u64, u64), proposals: &[String]) -> Result<(), CliError> {
    if refused == 0 && without_name == 0 {
        return match proposals {
            [] => Ok(()),
            proposals => Err(CliError::proposed(proposals.join("\n"))),
        };
    }
    proposals.iter().for_each(|text| println!("  {text}"));
    let mut problems = Vec::new();
    if refused != 0 {
        problems.push(format!("{} refused", counted(refused, "erasure")));
    }
    if without_name != 0 {
        problems.push(format!(
            "{} of a party: the list has no identifiers; order them again with --party",
            counted(without_name, "erasure")
        ));
    }
    Err(CliError::new(problems.join("; ")))
}

/// Whether an order of the log is a listed one, or the same selection ordered later.
fn covers(own: &Value, listed: &Value) -> bool {
    let is_same = |names: [&str; 2]| names.iter().all(|name| own[name] == listed[name]);
    let is_later = member(listed, "orderedDate") < member(own, "orderedDate");
    is_same(["logIndex", "orderedDate"]) || is_same(["form", "subject"]) && is_later
}

fn read_list(file: &Path) -> Result<Value, CliError> {
    let failed = |error: String| CliError::new(format!("{}: {error}", file.display()));
    let text = fs::read(file).map_err(|error| failed(error.to_string()))?;
    let listed: Value = serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
    match listed.is_array() {
        true => Ok(listed),
        false => Err(failed("not a list of erasures".to_owned())),
    }
}

/// The selection of an erasure.
fn what(erasure: &Value) -> String {
    let subject = member(erasure, "subject");
    match &*member(erasure, "form") {
        "BEFORE" => format!("before {subject}"),
        "PARTY" => format!("a party, {subject}"),
        "PARTICIPANT" => format!("participant {subject}"),
        "RETAINED_PAYMENTS" => format!("payments before {subject}"),
        "RETAINED_REGISTRATIONS" => format!("registrations before {subject}"),
        _ => format!("payment {subject}"),
    }
}

/// A plan in words.
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
        text +=
            "  directory  the party is registered: release it first, also its sub-identifiers\n";
    }
    if number("bulkMessages") != 0 {
        let messages = counted(number("bulkMessages"), "message");
        text += &format!("  bulk       {messages} of them, with all items\n");
    }
    if number("directoryRecords") != 0 {
        let changes = number("directoryRecords");
        text += &format!("  kept       change of the party directory: {changes}\n");
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
        let [record, ordered, state, left, waiting, by, approved, reason] = [
            "logIndex",
            "orderedDate",
            "state",
            "segmentsLeft",
            "contentsWaiting",
            "orderedBy",
            "approvedBy",
            "reason",
        ]
        .map(|name| member(it, name));
        let by = if approved.is_empty() { by } else { format!("{by}, {approved}") };
        table.add([record, ordered, state, left, waiting, what(it), by, reason]);
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
        let listed = list(&json!([erasure.clone()]));
        let row = listed.lines().nth(1).expect("a row under the head");
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
        let mut erasure = erasure;
        erasure["records"] = json!([{"first": 7, "last": 9}, {"first": 11, "last": 11}]);
        erasure["recordRanges"] = json!(3);
        let shown = shown(&erasure);
        assert!(shown.contains("  records    7-9, 11, ... (3 ranges)\n"), "{shown}");
        assert!(shown.contains("  approved   by benta\n"), "{shown}");
    }

    #[test]
    fn listed_orders_are_made_again_by_their_selection() {
        let of =
            |form: &str, subject: &str| selection_of(&json!({"form": form, "subject": subject}));
        let time = "2026-01-01T10:00:00.000Z";
        assert_eq!(of("TRANSFER", "t"), Some(json!({"transferId": "t"})));
        assert_eq!(of("BEFORE", time), Some(json!({"before": time})));
        let expected = json!({"participant": "payerfsp", "before": time});
        assert_eq!(of("PARTICIPANT", &format!("payerfsp before {time}")), Some(expected));
        assert_eq!(of("PARTICIPANT", "payerfsp"), None);
        assert_eq!(of("PARTY", "MSISDN"), None);
    }

    #[test]
    fn a_list_of_which_a_part_is_not_ordered_is_an_error() {
        let proposal = ["proposed as 9".to_owned()];
        assert!(end_of_again((0, 0), &[]).is_ok());
        for (counts, proposals, expected) in [
            ((0, 0), &proposal[..], "proposed as 9"),
            ((2, 0), &proposal[..], "2 erasures refused"),
            ((1, 0), &[][..], "1 erasure refused"),
            ((0, 1), &[][..], "1 erasure of a party: the list has no identifiers"),
        ] {
            let error = end_of_again(counts, proposals).expect_err("a part is not ordered");
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }
}
