//! `upesi check-config`: explains every setting with its value, warns about dangerous combinations,
//! and computes the longest times that result from the timeouts.

mod kafka_clients;
mod warnings;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use self::warnings::{Warning, warnings};
use crate::CliError;
use crate::cli::units::{Bytes, Count, Milliseconds};
use crate::config::{self, Auth, Config, TakesEffect};
use crate::serve;
use crate::serve::certificates::Certificates;
use crate::serve::{chain_heads, issuers, signatures};

/// Arguments of `check-config`.
#[derive(clap::Args)]
pub(crate) struct CheckConfigArguments {
    /// Configuration file, as for `serve --config` [default: built-in defaults].
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Check Kafka clients of central-services-stream instead: their settings as JSON.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    kafka: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct ConfigReport {
    settings: Vec<Setting>,
    warnings: Vec<Warning>,
    bounds: Vec<LongestTime>,
}

/// A setting with its value.
#[derive(Serialize)]
struct Setting {
    name: &'static str,
    value: String,
    /// Whether the file sets it.
    given: bool,
    meaning: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bounds: Option<String>,
    change: TakesEffect,
    /// An effect that the setting has together with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// The longest duration of something with these settings.
#[derive(Serialize)]
struct LongestTime {
    what: &'static str,
    milliseconds: u64,
    made_of: String,
}

/// Explains a configuration file; fails if the switch would not start with it.
pub(crate) fn check_config(arguments: &CheckConfigArguments) -> Result<(), CliError> {
    if let Some(clients) = &arguments.kafka {
        return kafka_clients::check(clients, arguments.json);
    }
    let config = Config::read(arguments.file.as_deref())?;
    check_start(&config)?;
    let report = ConfigReport::of(arguments.file.as_deref(), &config)?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&report).expect("plain data")),
        false => print(&report),
    }
    Ok(())
}

/// The report of a running switch as JSON, without values that may contain secrets.
pub(crate) fn report(file: Option<&Path>, config: &Config) -> Result<String, CliError> {
    let mut report = ConfigReport::of(file, config)?;
    for setting in &mut report.settings {
        let is_hidden = HIDDEN.contains(&setting.name) || has_user(&setting.value);
        if is_hidden && setting.given {
            setting.value = "(hidden)".to_owned();
        }
    }
    Ok(serde_json::to_string(&report).expect("plain data"))
}

/// Settings with addresses that are secrets at some services.
const HIDDEN: [&str; 1] = ["alerts.webhook_url"];

/// Whether a value is an address with a user, and perhaps a password.
fn has_user(value: &str) -> bool {
    value.split_once("://").is_some_and(|(_, rest)| {
        rest.split(['/', '?', '#']).next().is_some_and(|authority| authority.contains('@'))
    })
}

impl ConfigReport {
    fn of(file: Option<&Path>, config: &Config) -> Result<Self, CliError> {
        let text = file.map_or(Ok(String::new()), |file| {
            let cannot =
                |error| CliError::new(format!("{}: cannot be read: {error}", file.display()));
            fs::read_to_string(file).map_err(cannot)
        })?;
        Ok(Self {
            settings: with_notes(settings(&settings_in(&text)), config),
            warnings: warnings(config),
            bounds: bounds(config),
        })
    }
}

/// Makes those start checks of `serve` that need no running thread.
pub(crate) fn check_start(config: &Config) -> Result<(), CliError> {
    let own = [("fspiop.listen", config.fspiop.listen), ("admin.listen", config.admin.listen)];
    let oracle_api = config.oracle_api.listen.map(|it| ("oracle_api.listen", it));
    let probes = config.probes().map(|it| ("health.listen", it));
    let own: Vec<_> = own.into_iter().chain(probes).chain(oracle_api).collect();
    for (at, (name, first)) in own.iter().enumerate() {
        let clash = own[at + 1..].iter().find(|(_, second)| is_same_port(*first, *second));
        if let Some((other, second)) = clash {
            return Err(CliError::new(format!(
                "{name} = \"{first}\" and {other} = \"{second}\" are the same port; use \
                 different ports such as 4000, 3001 and 3002"
            )));
        }
    }
    if config.admin.auth != Auth::None {
        serve::given_token(config)?;
    }
    config.quote_rules()?;
    config.encryption.participants()?;
    if config.admin.auth == Auth::Roles {
        serve::given_secrets_key(config)?;
    }
    Certificates::open(config)?.receivers(config)?;
    config.traces.export(&config::traces::variable, "")?;
    issuers::check(config)?;
    chain_heads::check(config)?;
    signatures::check(config)
}

fn is_same_port(one: SocketAddr, other: SocketAddr) -> bool {
    let same_host =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_host
}

fn print(report: &ConfigReport) {
    println!("Settings (* set in the file)\n");
    println!("   {:<40} {:<26} {:<22} takes effect", "setting", "value", "allowed");
    for Setting { name, value, given, meaning, bounds, change, note } in &report.settings {
        let mark = if *given { "*" } else { " " };
        let bounds = bounds.as_deref().unwrap_or("-");
        let value = with_unit(name, value);
        println!(" {mark} {name:<40} {value:<26} {bounds:<22} {}\n       {meaning}", change.name());
        if let Some(note) = note {
            println!("       note: {note}");
        }
    }
    println!("\nWarnings\n");
    for Warning { what, instead } in &report.warnings {
        println!("   {what}\n       instead: {instead}");
    }
    if report.warnings.is_empty() {
        println!("   none");
    }
    println!("\nLongest times with these settings\n");
    for LongestTime { what, milliseconds, made_of } in &report.bounds {
        println!("   {:<60} {:>9}   {made_of}", what, Milliseconds(*milliseconds).to_string());
    }
}

/// A value of the file, with a human unit if the setting's name ends in one.
fn with_unit(name: &str, value: &str) -> String {
    let Ok(number) = value.parse::<u64>() else { return value.to_owned() };
    let milliseconds = [("_ms", 1), ("_seconds", 1_000), ("_hours", 3_600_000)];
    let milliseconds = milliseconds.into_iter().find(|(end, _)| name.ends_with(end));
    match milliseconds.and_then(|(_, factor)| number.checked_mul(factor)) {
        Some(0) => "0".to_owned(),
        Some(milliseconds) => format!("{number} ({})", Milliseconds(milliseconds)),
        None if name.ends_with("_mib") && number < 1 << 43 => {
            format!("{number} ({})", Bytes(number << 20))
        }
        None => Count(number).to_string(),
    }
}

/// The settings in a file, by name.
fn settings_in(text: &str) -> BTreeMap<String, String> {
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    let mut given = BTreeMap::new();
    for (section, settings) in &table {
        for (name, value) in settings.as_table().into_iter().flatten() {
            given.insert(format!("{section}.{name}"), value.to_string());
        }
    }
    given
}

/// All settings, with the values of a file.
fn settings(given: &BTreeMap<String, String>) -> Vec<Setting> {
    let setting = |declared: config::Setting| {
        let config::Setting { name, default, bounds, change, meaning } = declared;
        let in_file = given.get(name).cloned();
        let (is_given, value) = (in_file.is_some(), in_file.unwrap_or(default));
        Setting { name, value, given: is_given, meaning, bounds, change, note: None }
    };
    config::settings().into_iter().map(setting).collect()
}

const LOOPBACK_ALLOWED: &str = "loopback endpoints are allowed, because fspiop.listen is a \
                                loopback address and endpoints.networks is empty; for a gateway \
                                on the same host, list the networks of the participants in \
                                endpoints.networks, or 127.0.0.0/8 and ::1 in \
                                endpoints.denied_networks";

/// Adds the notes that follow from the whole configuration.
fn with_notes(mut settings: Vec<Setting>, config: &Config) -> Vec<Setting> {
    let networks = settings.iter_mut().find(|setting| setting.name == "endpoints.networks");
    if let Some(networks) = networks
        && config.reach(Vec::new()).assumes_loopback()
    {
        networks.note = Some(LOOPBACK_ALLOWED);
    }
    settings
}

/// Sums of the timeouts. A transfer whose participants answer never waits for a timeout.
fn bounds(config: &Config) -> Vec<LongestTime> {
    let policy = config.policy();
    let attempt = config.delivery.connect_timeout_ms + config.delivery.answer_timeout_ms;
    let sweep = switch::TIMEOUT_GRAIN.as_millis() as u64;
    let horizon = policy.horizon_micros / 1_000;
    let (pause, probe) = (policy.backoff_max_micros / 1_000, policy.probe_max_micros / 1_000);
    let probe = probe.min(pause);
    let bound = |what, milliseconds, made_of| LongestTime { what, milliseconds, made_of };
    vec![
        bound(
            "a slow request, until it is complete or rejected",
            config.fspiop.header_timeout_ms + config.fspiop.body_timeout_ms,
            "header_timeout_ms + body_timeout_ms, from its first byte".into(),
        ),
        bound(
            "waiting for a timer, if participants answer",
            0,
            "batches are written at once; a busy node of a cluster waits 10 ms between two".into(),
        ),
        bound(
            "one attempt to a silent participant",
            attempt + sweep,
            "connect_timeout_ms + answer_timeout_ms, detected within 0.25 s".into(),
        ),
        bound(
            "a recovered participant, until it gets callbacks again",
            probe,
            "longest pause while every callback to it fails".into(),
        ),
        bound(
            "a single failed callback, until it is retried",
            pause,
            "backoff_max_ms; limits Retry-After of 429 and 503".into(),
        ),
        bound(
            "a callback that is never accepted, until it is a dead letter",
            horizon + attempt + sweep,
            format!(
                "horizon_seconds ({}) from its creation, restarts included, and one attempt",
                Milliseconds(horizon)
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_users_are_hidden() {
        for (value, expected) in [
            ("\"kafka://user:secret@10.0.0.1/topic\"", true),
            ("\"https://10.0.0.1/a@b\"", false),
            ("17", false),
        ] {
            assert_eq!(has_user(value), expected, "{value}");
        }
    }

    #[test]
    fn default_loopback_endpoints_have_a_note() {
        let local = "[fspiop]\nlisten = \"127.0.0.1:4000\"\n[endpoints]\n";
        let networks = format!("{local}networks = [\"10.0.0.0/8\"]");
        let denied = format!("{local}denied_networks = [\"127.0.0.0/8\", \"::1\"]");
        let half_denied = format!("{local}denied_networks = [\"127.0.0.0/8\"]");
        for (text, expected) in
            [("", false), (local, true), (&networks, false), (&denied, false), (&half_denied, true)]
        {
            let config: Config = toml::from_str(text).expect("a good file");
            let settings = with_notes(settings(&settings_in(text)), &config);
            let with_note: Vec<_> = settings.iter().filter(|it| it.note.is_some()).collect();
            let names: Vec<_> = with_note.iter().map(|it| it.name).collect();
            let wanted: &[&str] = if expected { &["endpoints.networks"] } else { &[] };
            assert_eq!(names, wanted, "{text}");
            assert!(with_note.iter().all(|it| it.note == Some(LOOPBACK_ALLOWED)), "{text}");
        }
    }

    #[test]
    fn settings_that_prevent_a_start_are_errors() {
        let place = tempfile::tempdir().expect("a directory");
        let gone = place.path().join("gone");
        let gone = gone.to_str().expect("its name is text");
        let problem_of = |text: &str| {
            let config: Config = toml::from_str(text).expect("a good file");
            check_start(&config).err().map_or_else(String::new, |error| error.to_string())
        };
        assert_eq!(problem_of(""), "");
        for text in [
            "[fspiop]\nlisten = \"127.0.0.1:3001\"",
            "[fspiop]\nlisten = \"0.0.0.0:3001\"",
            "[admin]\nlisten = \"127.0.0.1:4000\"",
            "[fspiop]\nlisten = \"0.0.0.0:3002\"",
            "[health]\nlisten = \"127.0.0.1:3001\"",
            "[health]\nlisten = \"0.0.0.0:4000\"",
        ] {
            assert!(problem_of(text).contains("are the same port"), "{text}: {}", problem_of(text));
        }
        let free = "[fspiop]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"";
        assert_eq!(problem_of(free), "", "each takes a free one");
        let off = "[fspiop]\nlisten = \"0.0.0.0:3002\"\n[health]\nlisten = \"none\"";
        assert_eq!(problem_of(off), "", "no listener for probes");
        for (section, name) in [("jws", "keys"), ("jws", "signing_key"), ("admin", "token_file")] {
            let problem = problem_of(&format!("[{section}]\n{name} = \"{gone}\""));
            let named = problem.contains(&format!("{section}.{name}")) && problem.contains(gone);
            assert!(named, "{section}.{name}: {problem}");
        }
    }

    #[test]
    fn bounds_follow_the_timeouts() {
        let text = "[delivery]\nhorizon_seconds = 7200\nbackoff_max_ms = 60000\n\
                    connect_timeout_ms = 1000\nanswer_timeout_ms = 2000";
        let config: Config = toml::from_str(text).expect("a good file");
        let found: Vec<_> = bounds(&config).iter().map(|bound| bound.milliseconds).collect();
        let attempt = 1_000 + 2_000 + 250;
        let expected = [15_000 + 15_000, 0, attempt, 30_000, 60_000, 7_200_000 + attempt];
        assert_eq!(found, expected);
        let most = "[delivery]\nwindow = 65536\nhorizon_seconds = 2592000\n\
                    backoff_max_ms = 3600000\n\
                    connect_timeout_ms = 3600000\nanswer_timeout_ms = 3600000";
        let config: Config = toml::from_str(most).expect("a good file");
        config.check().expect("these are the bounds");
        let longest = bounds(&config).iter().map(|bound| bound.milliseconds).max();
        assert_eq!(longest, Some(2_592_000_000 + 7_200_250));
    }
}
