//! `upesi events`: the events of a running switch.

use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::admin_get::query_value;
use crate::cli::printable::printable;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi events                                   all events, as a table
  upesi events --after 4711 --kind transfers
  upesi events --follow --json --token viewer.token";

/// Pause before the stream is opened again, after the switch has ended it.
const FOLLOW_PAUSE: Duration = Duration::from_millis(250);
/// Events of one request.
const PAGE: usize = 1_000;

/// Arguments of `events`.
#[derive(clap::Args)]
pub(crate) struct EventsArguments {
    /// Only later events: the id of an event, or a record.
    #[arg(long, value_name = "POSITION", default_value = "0", value_parser = position)]
    after: String,
    /// Only of these kinds, separated by commas [default: all but quotes].
    ///
    /// transfers, funds, positions, notifications, settlement, admin, quotes.
    #[arg(long, value_name = "KINDS")]
    kind: Option<String>,
    /// Show at most this number of events.
    #[arg(long, value_name = "COUNT")]
    limit: Option<usize>,
    /// Wait for further events at the end of the log.
    #[arg(long)]
    follow: bool,
    #[command(flatten)]
    connection: AdminConnection,
}

fn position(text: &str) -> Result<String, String> {
    let parsed = events::Position::parse(text).ok_or("expected a record, or the id of an event")?;
    Ok(parsed.to_string())
}

/// Prints events, one per line.
pub(crate) fn events(arguments: &EventsArguments) -> Result<(), CliError> {
    let mut client = AdminClient::new(&arguments.connection)?;
    let kind = arguments.kind.as_deref().map(|kind| format!("&kind={}", query_value(kind)));
    let kind = kind.unwrap_or_default();
    let mut after = arguments.after.clone();
    let mut left = arguments.limit.unwrap_or(usize::MAX);
    if arguments.follow {
        // Its error names a wrong argument.
        client.call("GET", &format!("/events?after={after}&limit=1{kind}"), None)?;
    }
    while arguments.follow && 0 < left {
        let path = format!("/events?after={after}{kind}");
        arguments.connection.bare()?.follow(&path, &mut |id, data| {
            let event = serde_json::from_str(data).unwrap_or_default();
            arguments.connection.print(data, || println!("{}", printable(&line(&event))));
            id.clone_into(&mut after);
            left -= 1;
            0 < left
        })?;
        if 0 < left {
            thread::sleep(FOLLOW_PAUSE);
        }
    }
    while 0 < left {
        let path = format!("/events?after={after}&limit={}{kind}", left.min(PAGE));
        let page = client.call("GET", &path, None)?.value;
        for event in entries(&page["events"]) {
            let print = || println!("{}", line(event));
            arguments.connection.print(&event.to_string(), print);
        }
        left -= entries(&page["events"]).len();
        let next = member(&page, "next");
        if next == after {
            return Ok(());
        }
        after = next;
    }
    Ok(())
}

/// An event as a line: its id, time and type, then its data without the number of the record.
fn line(event: &Value) -> String {
    let [id, time, of_type] = ["id", "time", "type"].map(|name| member(event, name));
    let data = event["data"].as_object().into_iter().flatten();
    let data = data.filter(|(name, _)| *name != "logIndex");
    let data: Vec<_> =
        data.map(|(name, _)| format!("{name}={}", member(&event["data"], name))).collect();
    format!("{id:<10} {time}  {of_type:<30} {}", data.join(" "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn events_are_lines() {
        let event = json!({
            "id": "7.1", "time": "2026-01-01T10:00:00.000Z", "type": "upesi.window.closed",
            "data": {"logIndex": 7, "settlementWindowId": 3, "state": "CLOSED"}
        });
        assert_eq!(
            line(&event),
            "7.1        2026-01-01T10:00:00.000Z  upesi.window.closed            \
             settlementWindowId=3 state=CLOSED"
        );
    }
}
