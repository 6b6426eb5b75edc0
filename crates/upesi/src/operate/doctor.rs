//! `upesi doctor`: checks a machine, a configuration and a running switch, with a remedy for each
//! finding.
//!
//! Nothing is changed, but for a file that is written and removed to measure syncs.

mod encryption;
mod finding;
mod machine;

use std::fs::{File, TryLockError};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};

use serde_json::Value;

use self::finding::{Finding, Gravity};
use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_client::{entries, member};
use crate::cli::admin_get::admin_get;
use crate::cli::stdout::print_json;
use crate::cli::terminal::{Colour, coloured};
use crate::cli::units::counted;
use crate::config::Config;
use crate::config::check::check_start;
use crate::operate::liquidity::now_ms;
use crate::serve::certificates::Certificates;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi doctor --config /etc/upesi/upesi.toml --data /var/lib/upesi
  upesi doctor --config scheme/upesi.toml --data scheme/data \
    --admin https://localhost:3001 --ca scheme/tls/ca.pem --token anna.token
  upesi doctor --json
Exit codes: 0 no problem, 1 at least one problem. Warnings do not change it.";

/// Days before the end of a certificate from which it is a warning, and a problem.
const CERTIFICATE_DAYS: [i64; 2] = [30, 7];
/// Difference of two clocks that is a problem, in milliseconds.
const CLOCK_DIFFERENCE_MS: u64 = 1_000;
/// Seconds of a day.
const DAY: i64 = 86_400;

/// Arguments of `doctor`.
#[derive(clap::Args)]
pub(crate) struct DoctorArguments {
    /// Configuration file, as for `serve --config` [default: built-in defaults].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory of the switch, or one that it will get.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/upesi")]
    data: PathBuf,
    #[command(flatten)]
    switch: AdminAddress,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn doctor(arguments: &DoctorArguments) -> Result<(), CliError> {
    let DoctorArguments { config: file, data, switch, json } = arguments;
    let running = status(switch);
    let is_running = running.is_ok() || is_in_use(data);
    let mut findings = Vec::new();
    match Config::read(file.as_deref()).and_then(|config| check_start(&config).map(|()| config)) {
        Err(error) => findings.push(Finding::problem(
            "configuration",
            error.to_string(),
            "correct it; `upesi check-config FILE` explains every setting",
        )),
        Ok(config) => {
            findings.push(configuration(&config));
            findings.extend(ports(&config, is_running));
            findings.extend(certificates(&config)?);
            findings.push(machine::descriptors(&config));
            findings.extend(encryption::rotation(&config, data));
            findings.extend(encryption::plain_files(&config, data));
        }
    }
    findings.extend(machine::disk(data));
    findings.push(machine::memory());
    findings.push(machine::clock());
    findings.extend(match &running {
        Ok(status) => of_running(status),
        Err(reason) => vec![without_status(switch, is_running.then_some((&**data, reason)))],
    });
    match json {
        true => print_json(&findings)?,
        false => findings.iter().for_each(print),
    }
    let problems = findings.iter().filter(|it| it.gravity == Gravity::Problem).count();
    match problems {
        0 => Ok(()),
        count => Err(CliError::new(format!("{} found", counted(count as u64, "problem")))),
    }
}

/// The status of the running switch, or the reason why it cannot be read.
fn status(switch: &AdminAddress) -> Result<Value, String> {
    let text = admin_get(switch, "/status").map_err(|error| error.to_string())?;
    serde_json::from_str(&text).map_err(|_| format!("{}: not the API of a switch", switch.admin))
}

/// Whether a switch, or another command that needs it for itself, has locked the directory.
fn is_in_use(data: &Path) -> bool {
    let lock = File::open(data.join(journal::LOCK_FILE)).map(|file| file.try_lock_shared());
    matches!(lock, Ok(Err(TryLockError::WouldBlock)))
}

fn configuration(config: &Config) -> Finding {
    let missing = config.missing_protections();
    match missing.is_empty() {
        true => Finding::ok("configuration", "valid"),
        false => Finding::warning(
            "configuration",
            format!("valid, without these protections: {}", missing.join(", ")),
            "see docs/security/README.md; `upesi init` writes a configuration with all of them",
        ),
    }
}

/// Whether the ports are free, or belong to the running switch.
fn ports(config: &Config, is_running: bool) -> Vec<Finding> {
    let mut listeners =
        vec![("fspiop.listen", config.fspiop.listen), ("admin.listen", config.admin.listen)];
    listeners.extend(config.probes().map(|address| ("health.listen", address)));
    let check = |(name, address): (&str, SocketAddr)| match TcpListener::bind(address) {
        Ok(_) if is_running => Finding::warning(
            "ports",
            format!("{name} {address} is free, but a switch is running"),
            "name the configuration of that switch with --config",
        ),
        Ok(_) => Finding::ok("ports", format!("{name} {address} is free")),
        Err(_) if is_running => {
            Finding::ok("ports", format!("{name} {address} is in use while a switch is running"))
        }
        Err(error) => Finding::problem(
            "ports",
            format!("{name} {address}: {error}"),
            "end the other program, or choose another address",
        ),
    };
    listeners.into_iter().map(check).collect()
}

/// Days until each certificate and revocation list expires.
fn certificates(config: &Config) -> Result<Vec<Finding>, CliError> {
    let now = i64::try_from(now_ms() / 1_000).unwrap_or(i64::MAX);
    let certificates = Certificates::open(config)?;
    let finding = |(labels, expires): (::metrics::Labels, ::metrics::Number)| {
        let names: Vec<_> = labels.iter().map(|(_, value)| &**value).collect();
        let days = (expires.to_f64() as i64 - now).div_euclid(DAY);
        let found = format!("{}: days left: {days}", names.join(" "));
        let [warning, problem] = CERTIFICATE_DAYS;
        let remedy = "renew it; the switch loads a changed file by itself";
        match days {
            days if days < problem => Finding::problem("certificates", found, remedy),
            days if days < warning => Finding::warning("certificates", found, remedy),
            _ => Finding::ok("certificates", found),
        }
    };
    Ok(certificates.expiries().into_iter().map(finding).collect())
}

/// No status of a switch: none is running, or one uses the directory and did not give it.
fn without_status(switch: &AdminAddress, running: Option<(&Path, &String)>) -> Finding {
    let Some((data, reason)) = running else {
        let found = format!("{}: no switch answers", switch.admin);
        return Finding::warning("switch", found, "start it, or name it with --admin");
    };
    let found = format!("{} is in use, but its status cannot be read: {reason}", data.display());
    let remedy = "name its admin API with --admin https://HOST:PORT, --ca FILE and --token FILE";
    Finding::warning("switch", found, remedy)
}

/// Version, clock and alarms of the running switch.
fn of_running(status: &Value) -> Vec<Finding> {
    let mut findings = vec![version(&member(status, "version"))];
    let time = fspiop::time::parse_date_time(&member(status, "time"));
    if let Some(difference) = time.map(|time| time.abs_diff(now_ms())) {
        let found = format!("differs from that of the switch by {difference} ms");
        findings.push(match difference < CLOCK_DIFFERENCE_MS {
            true => Finding::ok("clock", found),
            false => Finding::problem("clock", found, "synchronize both clocks with NTP"),
        });
    }
    let alarms = entries(&status["alarms"]);
    findings.extend(alarms.iter().map(|alarm| {
        let found = format!("{}: {}", member(alarm, "subject"), member(alarm, "text"));
        let remedy = "see `upesi status` and docs/operating/runbook.md";
        match &*member(alarm, "severity") {
            "CRITICAL" => Finding::problem("alarms", found, remedy),
            _ => Finding::warning("alarms", found, remedy),
        }
    }));
    if alarms.is_empty() {
        findings.push(Finding::ok("alarms", "none"));
    }
    findings
}

fn version(running: &str) -> Finding {
    let own = env!("CARGO_PKG_VERSION");
    match own == running {
        true => Finding::ok("version", own),
        false => Finding::warning(
            "version",
            format!("the switch is version {running}, this program is {own}"),
            "use the program of the switch",
        ),
    }
}

fn print(finding: &Finding) {
    let Finding { check, gravity, found, remedy } = finding;
    let gravity = match gravity {
        Gravity::Ok => coloured("ok      ", Colour::Green),
        Gravity::Warning => coloured("warning ", Colour::Yellow),
        Gravity::Problem => coloured("PROBLEM ", Colour::Red),
    };
    println!("{gravity} {check:<14} {found}");
    if let Some(remedy) = remedy {
        println!("         {:<14} do: {remedy}", "");
    }
}
