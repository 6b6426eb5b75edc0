//! `upesi health`: health check of a running switch for containers and supervisors, whose images
//! have neither a shell nor curl.

use std::path::PathBuf;

use harness::Admin;
use serde_json::Value;

use crate::CliError;
use crate::cli::admin_address::TlsFiles;

/// Default address of the listener for health probes.
const PROBES: &str = "http://127.0.0.1:3002";
/// Default address of the admin API, which is asked if the probe listener does not answer.
const ADMIN: &str = "http://127.0.0.1:3001";

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi health                     exit code 0 if no stage is stalled, otherwise 1
  upesi health --alive             exit code 0 if the switch answers, healthy or not
  upesi health --health http://10.0.0.5:3002
  upesi health --admin https://10.0.0.5:3001 --ca ca.pem
Route traffic to a switch while the first returns 0. Restart it only when the second returns 1.
While it reads its log at a start, the first returns 1 and the second 0.";

/// Arguments of `health`.
#[derive(clap::Args)]
pub(crate) struct HealthArguments {
    /// Address of the health listener [default: http://127.0.0.1:3002, then port 3001].
    #[arg(long, value_name = "URL", conflicts_with = "admin")]
    health: Option<String>,
    /// Query the admin API or the FSPIOP port at this address instead.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Accept any answer as alive.
    ///
    /// A restart does not repair a full disk or an unreachable broker.
    #[arg(long)]
    alive: bool,
    /// Token file, for an admin API that needs one [default: that of `upesi login`].
    #[arg(long, value_name = "FILE")]
    token: Option<PathBuf>,
    #[command(flatten)]
    files: TlsFiles,
}

/// Prints the answer of `GET /health`; fails if a service is down.
pub(crate) fn health(arguments: &HealthArguments) -> Result<(), CliError> {
    let ask = |url: &str| {
        let mut admin = arguments.files.apply(url, Admin::at(url, arguments.token.as_deref())?)?;
        Ok::<_, CliError>(admin.call("GET", "/health", None)?)
    };
    let answered = match arguments.health.as_deref().or(arguments.admin.as_deref()) {
        Some(url) => ask(url),
        None => ask(PROBES).or_else(|_| ask(ADMIN)),
    };
    let answered = answered?;
    let text = String::from_utf8_lossy(&answered.body);
    if answered.status == 200 || arguments.alive {
        println!("{text}");
        return Ok(());
    }
    Err(CliError::new(format!("switch: unhealthy ({}): {}", answered.status, services_down(&text))))
}

/// The names of the services that are down, or the whole text if it is not a switch's answer.
fn services_down(text: &str) -> String {
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
    fn services_that_are_down_are_named() {
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
            assert_eq!(services_down(text), expected);
        }
    }
}
