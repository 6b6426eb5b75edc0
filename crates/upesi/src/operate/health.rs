//! `upesi health`: asks a running switch how it is and ends with 0 or 1, for what supervises
//! containers: their image has neither a shell nor curl.

use harness::Admin;
use serde_json::Value;

use crate::CliError;

/// Where a switch with default addresses answers probes.
const PROBES: &str = "http://127.0.0.1:3002";
/// Its admin API, which is asked where nothing answers there.
const ADMIN: &str = "http://127.0.0.1:3001";

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi health                     0 when every stage that has work gets on with it, else 1
  upesi health --alive             0 when the switch answers at all, well or not
  upesi health --health http://10.0.0.5:3002
  upesi health --admin http://10.0.0.5:3001
Send messages to a switch while the first is 0; start it again only when the second is 1. A switch
that still reads its log answers neither: give it time.";

/// Arguments of `health`.
#[derive(clap::Args)]
pub(crate) struct HealthArguments {
    /// Ask the listener for health probes. [default: http://127.0.0.1:3002, then port 3001]
    #[arg(long, value_name = "URL", conflicts_with = "admin")]
    health: Option<String>,
    /// Ask the admin API instead, or the FSPIOP port, whose answer names no participant.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Take any answer for life: a full disk, or a broker that is away, is no reason to start a
    /// switch again.
    #[arg(long)]
    alive: bool,
}

/// Prints what `GET /health` says; fails when that is not good enough.
pub(crate) fn health(arguments: &HealthArguments) -> Result<(), CliError> {
    let failed = |error: harness::HarnessError| CliError::new(error.to_string());
    let ask = |url: &str| Admin::at(url, None)?.call("GET", "/health", None);
    let answered = match arguments.health.as_deref().or(arguments.admin.as_deref()) {
        Some(url) => ask(url),
        None => ask(PROBES).or_else(|_| ask(ADMIN)),
    };
    let answered = answered.map_err(failed)?;
    let text = String::from_utf8_lossy(&answered.body);
    if answered.status == 200 || arguments.alive {
        println!("{text}");
        return Ok(());
    }
    Err(CliError::new(format!("answered {}: {}", answered.status, what_is_down(&text))))
}

/// The services that are down, by name; the whole text when it is no answer of a switch.
fn what_is_down(text: &str) -> String {
    let answer: Value = serde_json::from_str(text).unwrap_or_default();
    let services = answer["services"].as_array().map_or(&[][..], Vec::as_slice);
    let down = services.iter().filter(|service| service["status"] == "DOWN");
    let names: Vec<_> = down.filter_map(|service| service["name"].as_str()).collect();
    match names.is_empty() {
        true => text.to_owned(),
        false => format!("{} DOWN", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_down_is_named() {
        for (text, expected) in [
            ("", ""),
            ("<html>", "<html>"),
            (r#"{"services":[{"name":"datastore","status":"OK"}]}"#, ""),
            (
                r#"{"services":[{"name":"broker","status":"OK"},{"name":"log","status":"DOWN"},
                    {"name":"lane a","status":"DOWN"}]}"#,
                "log, lane a DOWN",
            ),
        ] {
            let expected = if expected.is_empty() { text } else { expected };
            assert_eq!(what_is_down(text), expected);
        }
    }
}
