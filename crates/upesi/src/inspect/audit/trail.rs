//! `upesi audit list`, `show` and `export`: administrative requests, of a running switch or of a
//! log in a directory. Both give the same entries.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ledger::LogIndex;
use operations::{AUDIT_ENTRIES_MAX, AuditOutcome, AuditQuery, parse_audit_time};
use record::frame::Frame;
use serde_json::Value;

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::table::{Align, Table};
use crate::inspect::audit::entries::visit_entries;
use crate::inspect::audit::values::ValuesCollector;
use crate::inspect::offline::{Continue, OfflineLog};

pub(super) const LIST_EXAMPLES: &str = "\
Examples:
  upesi audit list --token auditor.token
  upesi audit list --outcome refused --from 2026-03-01T00:00:00Z --data /var/lib/upesi";

pub(super) const SHOW_EXAMPLES: &str = "\
Examples:
  upesi audit show 4711 --token auditor.token
  upesi audit show 4711 --data /var/lib/upesi";

pub(super) const EXPORT_EXAMPLES: &str = "\
Examples:
  upesi audit export --token auditor.token > audit.ndjson
  upesi audit export --csv --data /var/lib/upesi > audit.csv";

/// Columns of the CSV form: members of an entry.
const COLUMNS: [&str; 15] = [
    "logIndex",
    "date",
    "outcome",
    "actor",
    "reason",
    "change",
    "description",
    "method",
    "path",
    "status",
    "errorCode",
    "requests",
    "record",
    "chainLogIndex",
    "chainHead",
];

/// Arguments of `audit list`.
#[derive(clap::Args)]
pub(super) struct ListArguments {
    /// Show at most this number of entries, the newest ones.
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    last: usize,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    source: Source,
}

/// Arguments of `audit show`.
#[derive(clap::Args)]
pub(super) struct ShowArguments {
    /// Log index of the entry.
    #[arg(value_name = "RECORD")]
    record: u64,
    #[command(flatten)]
    source: Source,
}

/// Arguments of `audit export`.
#[derive(clap::Args)]
pub(super) struct ExportArguments {
    /// Write CSV instead of one JSON object per line.
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Add the values before and after each change, from a replay of the log.
    #[arg(long)]
    values: bool,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    source: Source,
}

#[derive(clap::Args)]
struct Filters {
    /// Only entries of later records.
    #[arg(long, value_name = "RECORD", default_value_t = 0)]
    after: u64,
    /// Only of this operator, or of `unauthenticated`.
    #[arg(long, value_name = "NAME")]
    actor: Option<String>,
    /// Recorded at this time or later.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Recorded before this time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Only this outcome.
    #[arg(long, value_name = "OUTCOME", value_parser = ["recorded", "allowed", "refused"])]
    outcome: Option<String>,
    /// Only requests without a change whose path begins with this.
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
}

#[derive(clap::Args)]
struct Source {
    /// Read the log in this directory instead of a running switch.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["admin", "token"])]
    data: Option<PathBuf>,
    #[command(flatten)]
    connection: AdminConnection,
}

/// Whether entries of changes have the values before and after.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    Wanted,
    LeftOut,
}

/// Handles one entry, as JSON.
type Visit<'v> = dyn FnMut(Value) -> Result<(), CliError> + 'v;

pub(super) fn list(arguments: &ListArguments) -> Result<(), CliError> {
    let mut last = VecDeque::new();
    arguments.source.visit((&arguments.filters, Values::LeftOut), &mut |entry| {
        last.push_back(entry);
        if arguments.last < last.len() {
            last.pop_front();
        }
        Ok(())
    })?;
    let entries = Value::Array(last.into());
    arguments.source.connection.print(&entries.to_string(), || print!("{}", table(&entries)));
    Ok(())
}

pub(super) fn show(arguments: &ShowArguments) -> Result<(), CliError> {
    let ShowArguments { record, source } = arguments;
    let entry = source.entry(*record)?;
    source.connection.print(&entry.to_string(), || print!("{}", details(&entry)));
    Ok(())
}

pub(super) fn export(arguments: &ExportArguments) -> Result<(), CliError> {
    let ExportArguments { csv, values, filters, source } = arguments;
    let wanted = (filters, if *values { Values::Wanted } else { Values::LeftOut });
    if !csv {
        return source.visit(wanted, &mut |entry| {
            println!("{entry}");
            Ok(())
        });
    }
    let mut output = io::stdout().lock();
    let columns = || COLUMNS.into_iter().chain(values.then_some("values"));
    write_row(&mut output, columns().map(str::to_owned))?;
    source.visit(wanted, &mut |entry| {
        write_row(&mut output, columns().map(|name| harmless(cell(&entry, name))))
    })
}

impl Filters {
    fn query(&self, values: Values) -> Result<AuditQuery, CliError> {
        let time = |option: &str, text: &Option<String>| {
            let wrong = |text| CliError::new(format!("{option} {text}: not a time of RFC 3339"));
            let parsed =
                text.as_ref().map(|text| parse_audit_time(text).ok_or_else(|| wrong(text)));
            parsed.transpose()
        };
        Ok(AuditQuery {
            after: LogIndex(self.after),
            limit: usize::MAX,
            from: time("--from", &self.from)?,
            to: time("--to", &self.to)?,
            actor: self.actor.clone(),
            path: self.path.clone(),
            outcome: self.outcome.as_deref().and_then(AuditOutcome::parse),
            with_values: values == Values::Wanted,
        })
    }

    /// The query of `GET /audit`, without `after` and `limit`.
    fn text(&self) -> String {
        let given = [
            ("actor", &self.actor),
            ("from", &self.from),
            ("to", &self.to),
            ("outcome", &self.outcome),
            ("path", &self.path),
        ];
        let pair = |(name, value): (&str, &Option<String>)| {
            Some(format!("&{name}={}", query_value(value.as_deref()?)))
        };
        given.into_iter().filter_map(pair).collect()
    }
}

impl Source {
    /// Passes the entries to `visit`, oldest first.
    fn visit(
        &self,
        (filters, values): (&Filters, Values),
        visit: &mut Visit<'_>,
    ) -> Result<(), CliError> {
        let query = filters.query(values)?;
        match &self.data {
            Some(data) => visit_log(data, &query, visit),
            None => self.visit_pages((filters, values), visit),
        }
    }

    /// Reads page after page, up to the end of the log at the time of the first one: reading adds
    /// entries itself.
    fn visit_pages(
        &self,
        (filters, values): (&Filters, Values),
        visit: &mut Visit<'_>,
    ) -> Result<(), CliError> {
        let mut client = AdminClient::new(&self.connection)?;
        let (mut after, mut last) = (filters.after, None);
        let values = if values == Values::Wanted { "&values=true" } else { "" };
        loop {
            let limit = AUDIT_ENTRIES_MAX;
            let path = format!("/audit?after={after}&limit={limit}{values}{}", filters.text());
            let page = client.call("GET", &path, None)?.value;
            let number = |name: &str| page[name].as_u64().unwrap_or_default();
            let end = *last.get_or_insert(number("end"));
            let is_old = |entry: &&Value| entry["logIndex"].as_u64().is_some_and(|it| it <= end);
            for entry in entries(&page["entries"]).iter().filter(is_old) {
                visit(entry.clone())?;
            }
            // A page that reads nothing ends the list.
            if end <= number("next") || number("next") <= after {
                return Ok(());
            }
            after = number("next");
        }
    }

    fn entry(&self, record: u64) -> Result<Value, CliError> {
        let none = || CliError::new(format!("record {record}: not an administrative request"));
        let before = record.checked_sub(1).ok_or_else(none)?;
        let Some(data) = &self.data else {
            let path = format!("/audit/{record}");
            return Ok(AdminClient::new(&self.connection)?.call("GET", &path, None)?.value);
        };
        let after = LogIndex(before);
        let query = AuditQuery { after, limit: 1, with_values: true, ..AuditQuery::all() };
        let mut found = None;
        visit_log(data, &query, &mut |entry| {
            found = Some(entry);
            Ok(())
        })?;
        found.filter(|entry| entry["logIndex"] == record).ok_or_else(none)
    }
}

/// Reads the log in a directory. A switch may be running on it.
fn visit_log(data: &Path, query: &AuditQuery, visit: &mut Visit<'_>) -> Result<(), CliError> {
    let log = OfflineLog::open_live(data)?;
    let (mut result, mut visited) = (Ok(()), 0);
    let mut collector = ValuesCollector::new(query.after);
    let mut pass = |frame: &Frame<'_>, collector: &mut ValuesCollector| {
        visit_entries(frame, query, &mut |mut entry| {
            if result.is_ok() && visited < query.limit {
                collector.add_to(&mut entry);
                visited += 1;
                result = visit(entry.to_json());
            }
        });
        collector.clear();
        if result.is_ok() && visited < query.limit { Continue::On } else { Continue::Stop }
    };
    let read = match query.with_values {
        true => {
            let replayed = log.replay(&mut |replay, placed| {
                replay.apply(placed.frame, &mut |step, state, _| collector.watch(step, state))?;
                Ok(pass(placed.frame, &mut collector))
            });
            replayed.map(drop)
        }
        false => {
            let walked = log.walk(&mut |placed| match pass(placed.frame, &mut collector) {
                Continue::On => Ok(()),
                Continue::Stop => Err(ports::StopReading),
            });
            walked.map_err(|error| log.failure(error)).map(drop)
        }
    };
    result.and(read)
}

fn table(list: &Value) -> String {
    if entries(list).is_empty() {
        return "no such entries\n".to_owned();
    }
    let mut table = Table::new([
        ("record", Align::Right),
        ("date", Align::Left),
        ("outcome", Align::Left),
        ("by", Align::Left),
        ("request", Align::Left),
        ("reason", Align::Left),
    ]);
    for entry in entries(list) {
        let name = |name| member(entry, name);
        let row = ["logIndex", "date", "outcome", "actor"].map(name);
        let [record, date, outcome, actor] = row;
        table.add([record, date, outcome, actor, summary(entry), name("reason")]);
    }
    table.to_string()
}

/// The change in words, or the request with its status.
fn summary(entry: &Value) -> String {
    let name = |name| member(entry, name);
    if !entry["change"].is_null() {
        return name("description");
    }
    let times = match entry["requests"].as_u64() {
        Some(0 | 1) | None => String::new(),
        Some(count) => format!(", the last of {count}"),
    };
    format!("{} {}: {}{times}", name("method"), name("path"), name("status"))
}

fn details(entry: &Value) -> String {
    let mut lines = String::new();
    for column in COLUMNS {
        let value = member(entry, column);
        if !value.is_empty() {
            lines += &format!("  {column:<15}{value}\n");
        }
    }
    lines + &changed_values(entry)
}

/// The decision on a change, and the values before and after it.
fn changed_values(entry: &Value) -> String {
    let mut lines = String::new();
    let missing = member(entry, "valuesMissing");
    if !missing.is_empty() {
        lines += &format!("  {:<15}{missing}\n", "no values");
    }
    let values = &entry["values"];
    let decision = member(values, "decision");
    if !decision.is_empty() {
        lines += &format!("  {:<15}{decision}\n", "decision");
    }
    for row in entries(&values["rows"]) {
        let key = entries_of(&row["key"]).map(|(_, value)| plain(value)).collect::<Vec<_>>();
        lines += &format!("  {} {}\n", member(row, "table"), key.join(" "));
        let names = entries_of(&row["before"]).chain(entries_of(&row["after"]));
        let mut names: Vec<_> = names.map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let [before, after] = ["before", "after"].map(|side| plain(&row[side][name]));
            lines += &format!("    {name:<19}{before} -> {after}\n");
        }
    }
    let left_out = values["leftOut"].as_u64().unwrap_or_default();
    if 0 < left_out {
        lines += &format!("  and {left_out} further rows\n");
    }
    lines
}

fn entries_of(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// A value without the quotation marks of a text.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => "(none)".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// The text of a column.
fn cell(entry: &Value, name: &str) -> String {
    match &entry[name] {
        object @ Value::Object(_) => object.to_string(),
        _ => member(entry, name),
    }
}

/// A cell that no spreadsheet takes for a formula.
fn harmless(text: String) -> String {
    match text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        true => format!("'{text}"),
        false => text,
    }
}

fn write_row(
    output: &mut impl Write,
    row: impl IntoIterator<Item = String>,
) -> Result<(), CliError> {
    let mut writer =
        csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(Vec::new());
    let written = writer.write_record(row).map_err(|error| error.to_string());
    let bytes = written.and_then(|()| writer.into_inner().map_err(|error| error.to_string()));
    let failed = |error| CliError::new(format!("CSV: {error}"));
    let text = String::from_utf8_lossy(&bytes.map_err(failed)?).into_owned();
    output.write_all(text.as_bytes()).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_are_shown_in_words() {
        let change = json!({
            "logIndex": 7, "date": "2026-01-01T10:00:00.000Z", "outcome": "recorded",
            "actor": "anna (token:1) 10.0.0.1", "reason": "advice", "change": "SetLimit",
            "description": "net debit cap", "requests": 1, "chainLogIndex": 8, "chainHead": "ab"
        });
        let refused = json!({
            "logIndex": 9, "date": "2026-01-01T11:00:00.000Z", "outcome": "refused",
            "actor": "unauthenticated 10.0.0.2", "reason": "", "description": "invalid token",
            "method": "POST", "path": "/participants", "status": 401, "errorCode": 3000,
            "requests": 40, "chainLogIndex": 9, "chainHead": "cd"
        });
        expect![[r#"
            entries:
              record  date                      outcome   by                        request                                  reason
                   7  2026-01-01T10:00:00.000Z  recorded  anna (token:1) 10.0.0.1   net debit cap                            advice
                   9  2026-01-01T11:00:00.000Z  refused   unauthenticated 10.0.0.2  POST /participants: 401, the last of 40
        "#]]
        .assert_eq(&format!("entries:\n{}", table(&json!([change, refused]))));
        assert_eq!(table(&json!([])), "no such entries\n");
        assert!(details(&refused).contains("  chainHead      cd\n"), "{}", details(&refused));
    }

    #[test]
    fn cells_are_no_formulas() {
        for (text, cell) in [("=1+1", "'=1+1"), ("@x", "'@x"), ("a=1", "a=1"), ("", "")] {
            assert_eq!(harmless(text.to_owned()), cell);
        }
    }
}
