//! `upesi retention`: erasures by age of a running switch.

use std::path::PathBuf;

use serde_json::Value;

use crate::CliError;
use crate::cli::admin_client::{AdminClient, AdminConnection, entries, member};
use crate::cli::table::{Align, Table};
use crate::cli::units::{Bytes, counted};
use crate::config::Config;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi retention plan --token amina.token
  upesi retention plan --config new.toml      with the settings of a file";

#[derive(clap::Subcommand)]
pub(crate) enum RetentionCommand {
    /// List the contents that settings erase by age, and when.
    #[command(after_help = EXAMPLES)]
    Plan(PlanArguments),
}

/// Arguments of `retention plan`.
#[derive(clap::Args)]
pub(crate) struct PlanArguments {
    /// Plan with the settings of this configuration, before a restart with it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    connection: AdminConnection,
}

pub(crate) fn retention(command: &RetentionCommand) -> Result<(), CliError> {
    let RetentionCommand::Plan(arguments) = command;
    let mut path = "/erasures/retention".to_owned();
    if let Some(file) = &arguments.config {
        let settings = Config::read(Some(file))?.retention;
        let (payments, registrations) = (settings.payments_days, settings.registrations_days);
        path += &format!("?paymentsDays={payments}&registrationsDays={registrations}");
    }
    let answer = AdminClient::new(&arguments.connection)?.call("GET", &path, None)?;
    arguments.connection.print(&answer.text, || print!("{}", plan(&answer.value)));
    Ok(())
}

fn plan(answer: &Value) -> String {
    let mut table = Table::new([
        ("contents of", Align::Left),
        ("kept for", Align::Left),
        ("too old before", Align::Left),
        ("messages", Align::Right),
        ("oldest", Align::Left),
        ("segments", Align::Right),
        ("bytes", Align::Right),
        ("erased at", Align::Left),
    ]);
    for it in entries(answer) {
        let number = |name: &str| it[name].as_u64().unwrap_or_default();
        let text = |name: &str| member(it, name);
        let kept = match number("days") {
            0 => "ever".to_owned(),
            days => counted(days, "day"),
        };
        let erased_at = match number("contents") {
            0 => String::new(),
            _ => text("nextDate"),
        };
        table.add([
            text("kind"),
            kept,
            text("beforeDate"),
            text("contents"),
            text("oldestDate"),
            text("segments"),
            Bytes(number("bytes")).to_string(),
            erased_at,
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn plans_are_shown() {
        let plan = plan(&json!([
            {"kind": "payments", "days": 400, "beforeDate": "2026-01-01T00:00:00.000Z",
             "contents": 12, "oldestDate": "2025-12-31T00:00:00.000Z", "segments": 2,
             "bytes": 2_000_000, "nextDate": "2027-02-05T00:00:00.000Z"},
            {"kind": "registrations", "days": 0, "contents": 0, "segments": 0, "bytes": 0},
        ]));
        let cells = |line: usize| -> Vec<String> {
            let cells = plan.lines().nth(line).expect("a row").split("  ").map(str::trim);
            cells.filter(|it| !it.is_empty()).map(Into::into).collect()
        };
        let expected = [
            "payments",
            "400 days",
            "2026-01-01T00:00:00.000Z",
            "12",
            "2025-12-31T00:00:00.000Z",
            "2",
            "1.9 MiB",
            "2027-02-05T00:00:00.000Z",
        ];
        assert_eq!(cells(1), expected);
        assert_eq!(cells(2)[..3], ["registrations", "ever", "0"]);
    }
}
