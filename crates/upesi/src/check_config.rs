//! `upesi check-config`: every setting with its value and meaning, combinations that are dangerous
//! with what to set instead, and how long a message can take by the timeouts alone.
//!
//! The meanings are those of `docs/configuration.md`, which is compiled in: there is one text.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::config::{Auth, Config, Watchdog};
use crate::{Failure, serve, signatures};

const MANUAL: &str = include_str!("../../../docs/configuration.md");

/// Arguments of `check-config`.
#[derive(clap::Args)]
pub(crate) struct CheckConfigArguments {
    /// The file that `serve --config` would be given; without one the defaults are shown.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked {
    settings: Vec<Setting>,
    warnings: Vec<Warning>,
    bounds: Vec<Bound>,
}

/// A setting, from the manual and the file.
#[derive(Serialize)]
struct Setting {
    name: &'static str,
    value: String,
    /// Whether the file says so.
    given: bool,
    meaning: &'static str,
    /// An effect that the setting has together with others.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'static str>,
}

/// A combination that is allowed and can hurt.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Warning {
    what: &'static str,
    instead: &'static str,
}

/// How long something takes at most, by the settings.
#[derive(Serialize)]
struct Bound {
    what: &'static str,
    milliseconds: u64,
    made_of: String,
}

/// Prints what a file means; fails when the switch would not start with it.
pub(crate) fn check_config(arguments: &CheckConfigArguments) -> Result<(), Failure> {
    let config = Config::read(arguments.file.as_deref())?;
    check_start(&config)?;
    let text = match &arguments.file {
        None => String::new(),
        Some(file) => fs::read_to_string(file)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", file.display())))?,
    };
    let checked = Checked {
        settings: noted(settings(&given(&text)), &config),
        warnings: warnings(&config),
        bounds: bounds(&config),
    };
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&checked).expect("plain data")),
        false => print(&checked),
    }
    Ok(())
}

/// Fails as `serve` would at its start, for what can be seen without starting anything.
fn check_start(config: &Config) -> Result<(), Failure> {
    let own = [("fspiop.listen", config.fspiop.listen), ("admin.listen", config.admin.listen)];
    let own: Vec<_> =
        own.into_iter().chain(config.probes().map(|it| ("health.listen", it))).collect();
    for (at, (name, first)) in own.iter().enumerate() {
        let clash = own[at + 1..].iter().find(|(_, second)| is_same_port(*first, *second));
        if let Some((other, second)) = clash {
            return Err(Failure::new(format!(
                "{name} = \"{first}\" and {other} = \"{second}\" are the same port: give them two, \
                 such as 4000, 3001 and 3002"
            )));
        }
    }
    if config.admin.auth == Auth::Token {
        serve::given_token(config)?;
    }
    signatures::check(config)
}

fn is_same_port(one: SocketAddr, other: SocketAddr) -> bool {
    let same_host =
        one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && same_host
}

fn print(checked: &Checked) {
    println!("Settings (* from the file)");
    for Setting { name, value, given, meaning, note } in &checked.settings {
        let mark = if *given { "*" } else { " " };
        println!(" {mark} {name:<40} {value}\n     {meaning}");
        if let Some(note) = note {
            println!("     here: {note}");
        }
    }
    println!("\nWarnings");
    for Warning { what, instead } in &checked.warnings {
        println!("   {what}\n     instead: {instead}");
    }
    if checked.warnings.is_empty() {
        println!("   none");
    }
    println!("\nHow long at most, by these settings");
    for Bound { what, milliseconds, made_of } in &checked.bounds {
        println!("   {:<58} {:>9}   {made_of}", what, duration(*milliseconds));
    }
}

/// A duration in the largest unit of which there are at least two; seconds with one decimal.
fn duration(milliseconds: u64) -> String {
    const MINUTE: u64 = 60_000;
    let whole = [(24 * 60 * MINUTE, "days"), (60 * MINUTE, "h"), (MINUTE, "min")];
    let unit = whole.into_iter().find(|(unit, _)| 2 * unit <= milliseconds);
    match unit {
        Some((unit, name)) => {
            format!("{}.{} {name}", milliseconds / unit, milliseconds % unit * 10 / unit)
        }
        None => format!("{}.{} s", milliseconds / 1_000, milliseconds % 1_000 / 100),
    }
}

/// The settings that a file writes out, by name.
fn given(text: &str) -> BTreeMap<String, String> {
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    let mut given = BTreeMap::new();
    for (section, settings) in &table {
        for (name, value) in settings.as_table().into_iter().flatten() {
            given.insert(format!("{section}.{name}"), value.to_string());
        }
    }
    given
}

/// All settings of the manual, with the values of a file.
fn settings(given: &BTreeMap<String, String>) -> Vec<Setting> {
    let rows = MANUAL.lines().filter_map(row);
    let setting = |(name, default, meaning): (&'static str, &'static str, &'static str)| {
        let said = given.get(name);
        let value = said.map_or(default, String::as_str).to_owned();
        Setting { name, value, given: said.is_some(), meaning, note: None }
    };
    rows.map(setting).collect()
}

const LOOPBACK_ALLOWED: &str = "loopback endpoints are allowed, because fspiop.listen is a \
                                loopback address and endpoints.networks is empty; for a gateway \
                                on the same host, list the networks of the participants in \
                                endpoints.networks, or 127.0.0.0/8 and ::1 in \
                                endpoints.denied_networks";

/// Adds the notes that follow from the whole configuration.
fn noted(mut settings: Vec<Setting>, config: &Config) -> Vec<Setting> {
    let networks = settings.iter_mut().find(|setting| setting.name == "endpoints.networks");
    if let Some(networks) = networks
        && config.reach(Vec::new()).assumes_loopback()
    {
        networks.note = Some(LOOPBACK_ALLOWED);
    }
    settings
}

/// A row of the manual's table: name, default, meaning.
fn row(line: &'static str) -> Option<(&'static str, &'static str, &'static str)> {
    let mut cells = line.strip_prefix("| `")?.strip_suffix(" |")?.splitn(3, " | ");
    let name = cells.next()?.strip_suffix('`').filter(|name| name.contains('.'))?;
    let default = cells.next()?.trim_matches('`');
    Some((name, default, cells.next()?))
}

fn warnings(config: &Config) -> Vec<Warning> {
    let found = warnings_about_access(config).into_iter().chain(warnings_about_work(config));
    let found = found.chain(warnings_about_the_log(config));
    let found = found.chain(warnings_about_patience(config));
    let found = found.chain(warnings_about_haste(config)).chain(warnings_about_room(config));
    let found = found.chain(warnings_about_doors(config)).chain(warnings_about_places(config));
    found.filter_map(|(applies, warning)| applies.then_some(warning)).collect()
}

/// Who could do what they must not, each with whether it is so.
fn warnings_about_access(config: &Config) -> [(bool, Warning); 6] {
    let admin_is_open = !config.admin.listen.ip().is_loopback();
    let fspiop_is_open = !config.fspiop.listen.ip().is_loopback();
    [
        (
            admin_is_open && config.admin.auth == Auth::None,
            Warning {
                what: "admin.auth = \"none\" on an address other machines reach: whoever reaches \
                       it can create participants and move funds",
                instead: "admin.auth = \"token\", or admin.listen on 127.0.0.1 behind a gateway \
                          that authenticates operators",
            },
        ),
        (
            admin_is_open && config.admin.auth == Auth::Token,
            Warning {
                what: "admin.listen is reached by other machines in plain HTTP: the bearer token \
                       can be read on the way",
                instead: "admin.listen = \"127.0.0.1:3001\" behind a gateway that ends TLS",
            },
        ),
        (
            fspiop_is_open,
            Warning {
                what: "fspiop.listen is reached by other machines: FSPIOP-Source is believed \
                       unless a gateway sets X-Client-Id",
                instead: "a gateway in front that authenticates participants and sets X-Client-Id; \
                          jws.validate where participants sign",
            },
        ),
        (
            fspiop_is_open && config.gateways().is_empty(),
            Warning {
                what: "fspiop.gateways is empty: X-Client-Id is believed from any address, so a \
                       caller that bypasses the gateway can name itself",
                instead: "fspiop.gateways = [\"10.0.0.0/8\"] with the addresses that the gateway \
                          connects from",
            },
        ),
        (
            config.jws.lets_deletes_pass(),
            Warning {
                what: "jws.unsigned_delete: entries of the directory are released without the \
                       signature that jws.validate asks of everything else",
                instead: "jws.unsigned_delete = false, unless an SDK cannot sign a DELETE",
            },
        ),
        (
            config.kafka.is_read_by_others(),
            Warning {
                what: "kafka.user without kafka.tls: whoever reads the network between node and \
                       brokers reads every transfer, and may take over the connection",
                instead: "kafka.tls = true, and a listener of the brokers with SASL_SSL",
            },
        ),
    ]
}

/// What makes the switch refuse, wait or lose more than it must, each with whether it is so.
fn warnings_about_work(config: &Config) -> [(bool, Warning); 5] {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    [
        (
            cores < config.threads(),
            Warning {
                what: "fspiop.threads is above the machine's cores: threads take turns",
                instead: "fspiop.threads = 0, which takes half of the cores",
            },
        ),
        (
            config.transfers.lane_capacity < config.delivery.window,
            Warning {
                what: "transfers.lane_capacity is below delivery.window: prepares are refused \
                       while callbacks are merely in flight",
                instead: "transfers.lane_capacity well above delivery.window (default 50000)",
            },
        ),
        (
            config.transfers.expiration_max.is_none(),
            Warning {
                what: "transfers.expiration_max is not set: a transfer that is never answered \
                       may hold the payer's position for years",
                instead: "transfers.expiration_max = \"24h\", or the longest life that the scheme \
                          rules allow",
            },
        ),
        (
            config.delivery.horizon_seconds < 3_600,
            Warning {
                what: "delivery.horizon_seconds is below an hour: callbacks to a participant that \
                       is down for maintenance become dead letters",
                instead: "delivery.horizon_seconds = 86400",
            },
        ),
        (
            60_000 < config.delivery.answer_timeout_ms,
            Warning {
                what: "delivery.answer_timeout_ms is above a minute: a silent participant holds \
                       each place of its window that long",
                instead: "delivery.answer_timeout_ms = 20000",
            },
        ),
    ]
}

/// What makes the log slower than it must be, each with whether it is so.
fn warnings_about_the_log(config: &Config) -> [(bool, Warning); 4] {
    [
        (
            config.log.segment_mib < 16,
            Warning {
                what: "log.segment_mib is below 16: at full rate a new segment every second",
                instead: "log.segment_mib = 256",
            },
        ),
        (
            config.log.batch_records_max.get() < 256,
            Warning {
                what: "log.batch_records_max is below 256: a sync is shared by few records, so the \
                       disk sets the rate",
                instead: "log.batch_records_max = 8192; a batch never waits to become full",
            },
        ),
        (
            config.health.watchdog == Watchdog::Exit && config.health.stuck_seconds < 5,
            Warning {
                what: "health.stuck_seconds is below 5 with health.watchdog = \"exit\": a disk \
                       that pauses, or GET /state of a long log, ends the process",
                instead: "health.stuck_seconds = 10",
            },
        ),
        (
            config.snapshot.every_records == 0 && config.snapshot.every_mib == 0,
            Warning {
                what: "snapshot.every_records and snapshot.every_mib are 0: a start takes longer \
                       with every transfer ever made, unless snapshots are asked for",
                instead: "snapshot.every_records = 1000000",
            },
        ),
    ]
}

/// A participant that is away for longer does not come back by itself.
const WEEK_SECONDS: u64 = 7 * 24 * 3_600;
/// Callbacks owed to one participant that take gigabytes of memory.
const LANE_MANY: u32 = 10_000_000;
const MINUTE_MS: u64 = 60_000;

/// Time-outs and counts that no longer bound anything, each with whether it is so.
fn warnings_about_patience(config: &Config) -> [(bool, Warning); 7] {
    let (fspiop, delivery) = (&config.fspiop, &config.delivery);
    [
        (
            MINUTE_MS < fspiop.header_timeout_ms,
            Warning {
                what: "fspiop.header_timeout_ms is above a minute: clients that never finish \
                       their headers hold connections that long",
                instead: "fspiop.header_timeout_ms = 15000",
            },
        ),
        (
            MINUTE_MS < fspiop.body_timeout_ms,
            Warning {
                what: "fspiop.body_timeout_ms is above a minute: clients that never finish a body \
                       hold memory that long",
                instead: "fspiop.body_timeout_ms = 15000",
            },
        ),
        (
            10 * MINUTE_MS < fspiop.idle_timeout_ms,
            Warning {
                what: "fspiop.idle_timeout_ms is above ten minutes: connections of clients that \
                       have gone count against fspiop.connections_max that long",
                instead: "fspiop.idle_timeout_ms = 75000",
            },
        ),
        (
            MINUTE_MS < delivery.connect_timeout_ms,
            Warning {
                what: "delivery.connect_timeout_ms is above a minute: a participant that cannot be \
                       reached holds each place of its window that long",
                instead: "delivery.connect_timeout_ms = 5000",
            },
        ),
        (
            WEEK_SECONDS < delivery.horizon_seconds,
            Warning {
                what: "delivery.horizon_seconds is above a week: callbacks to a participant that \
                       is gone for good stay owed that long, and fill its lane",
                instead: "delivery.horizon_seconds = 86400; POST /deadletters/{id}/resend sends \
                          again",
            },
        ),
        (
            15 * MINUTE_MS < delivery.backoff_max_ms,
            Warning {
                what: "delivery.backoff_max_ms is above 15 minutes: a callback that failed for a \
                       while arrives that long after its participant has recovered",
                instead: "delivery.backoff_max_ms = 300000",
            },
        ),
        (
            LANE_MANY < config.transfers.lane_capacity,
            Warning {
                what: "transfers.lane_capacity is above 10000000: what one participant does not \
                       take fills the memory before its payers are refused",
                instead: "transfers.lane_capacity = 50000",
            },
        ),
    ]
}

/// Below it an answer over a network, or of a busy participant, is too late.
const HASTE_MS: u64 = 1_000;

/// Time-outs that end what would have gone well, each with whether it is so.
fn warnings_about_haste(config: &Config) -> [(bool, Warning); 5] {
    let (fspiop, delivery) = (&config.fspiop, &config.delivery);
    [
        (
            fspiop.header_timeout_ms < HASTE_MS,
            Warning {
                what: "fspiop.header_timeout_ms is below a second: a client whose packets are sent \
                       twice is hung up on",
                instead: "fspiop.header_timeout_ms = 15000",
            },
        ),
        (
            fspiop.body_timeout_ms < HASTE_MS,
            Warning {
                what: "fspiop.body_timeout_ms is below a second: a client whose packets are sent \
                       twice is hung up on",
                instead: "fspiop.body_timeout_ms = 15000",
            },
        ),
        (
            fspiop.idle_timeout_ms < HASTE_MS,
            Warning {
                what: "fspiop.idle_timeout_ms is below a second: clients connect again for nearly \
                       every message, and one that is just sent may be lost",
                instead: "fspiop.idle_timeout_ms = 75000",
            },
        ),
        (
            delivery.connect_timeout_ms < HASTE_MS / 4,
            Warning {
                what: "delivery.connect_timeout_ms is below 250: participants far away, and those \
                       that are busy, count as away",
                instead: "delivery.connect_timeout_ms = 5000",
            },
        ),
        (
            delivery.answer_timeout_ms < HASTE_MS,
            Warning {
                what: "delivery.answer_timeout_ms is below a second: callbacks that a busy \
                       participant has taken are sent again, and transfers expire meanwhile",
                instead: "delivery.answer_timeout_ms = 20000",
            },
        ),
    ]
}

/// Above it a copy elsewhere, or an alarm, is too late to be of use.
const LATE_SECONDS: u64 = 300;

/// What takes more memory than there is, or comes too late, each with whether it is so.
fn warnings_about_room(config: &Config) -> [(bool, Warning); 4] {
    let memory = harness::Origin::here(None).environment.memory_bytes;
    let cache = config.store.cache_mib << 20;
    let copies = config.backup.to.is_some();
    [
        (
            0 < memory && memory / 2 < cache,
            Warning {
                what: "store.cache_mib is more than half of this machine's memory: the system may \
                       end the process when it fills",
                instead: "store.cache_mib = 32, and 1.3 more for each million of transfers",
            },
        ),
        (
            copies && LATE_SECONDS < config.backup.every_seconds,
            Warning {
                what: "backup.every_seconds is above five minutes: what was acknowledged meanwhile \
                       is lost with the disk",
                instead: "backup.every_seconds = 10",
            },
        ),
        (
            LATE_SECONDS < config.health.stuck_seconds,
            Warning {
                what: "health.stuck_seconds is above five minutes: a part that is stuck counts as \
                       well that long",
                instead: "health.stuck_seconds = 10",
            },
        ),
        (
            config.delivery.window < 4,
            Warning {
                what: "delivery.window is below 4: callbacks to a participant wait for answers to \
                       others, and its rate is that of its round trips",
                instead: "delivery.window = 64",
            },
        ),
    ]
}

/// Fewer connections cannot carry a gateway.
const CONNECTIONS_FEW: usize = 16;

/// Who could not come in or be reached, and what could go out that must not, each with whether it
/// is so.
fn warnings_about_doors(config: &Config) -> [(bool, Warning); 4] {
    let reach = config.reach(Vec::new());
    let is_open = !config.fspiop.listen.ip().is_loopback();
    [
        (
            config.connections().per_address < CONNECTIONS_FEW,
            Warning {
                what: "fspiop.connections_per_address_max, or half of fspiop.connections_max, is \
                       below 16: a gateway brings all participants from one address, and they are \
                       turned away",
                instead: "fspiop.connections_per_address_max = 0, fspiop.connections_max = 8192",
            },
        ),
        (
            is_open && reach.names_loopback(),
            Warning {
                what: "endpoints.networks allows loopback addresses, and fspiop.listen is reached \
                       by other machines: an endpoint can make the hub call services of this \
                       machine that trust it",
                instead: "endpoints.networks without 127.0.0.0/8 and ::1, outside of tests",
            },
        ),
        (
            reach.is_closed(),
            Warning {
                what: "endpoints.denied_networks, or addresses that are never called, hold all of \
                       endpoints.networks: every callback ends among the dead letters",
                instead: "endpoints.denied_networks inside of endpoints.networks, to leave parts \
                          out",
            },
        ),
        (
            !config.transfers.funds_out_covers_position,
            Warning {
                what: "transfers.funds_out_covers_position = false: a participant may take out the \
                       cover of what it owes",
                instead: "transfers.funds_out_covers_position = true",
            },
        ),
    ]
}

/// What is not there, each with whether it is so.
fn warnings_about_places(config: &Config) -> [(bool, Warning); 3] {
    let is_missing = |url: &Option<String>| {
        let path = url.as_deref().and_then(|url| url.strip_prefix("file://"));
        path.is_some_and(|path| !Path::new(path).is_dir())
    };
    [
        (
            is_missing(&config.archive.to),
            Warning {
                what: "archive.to names a directory that is not on this machine: nothing is moved \
                       there, and the disk of the log fills up",
                instead: "a directory that is there, mounted before the switch starts",
            },
        ),
        (
            is_missing(&config.backup.to),
            Warning {
                what: "backup.to names a directory that is not on this machine: no copy is kept",
                instead: "a directory that is there, mounted before the switch starts",
            },
        ),
        (
            config.kafka.tls && !cfg!(feature = "kafka-tls"),
            Warning {
                what: "kafka.tls = true, and this program was built without it: a start with --log \
                       is refused",
                instead: "a build with `cargo build --release --features kafka-tls`",
            },
        ),
    ]
}

/// What the timeouts add up to. Nothing on the way of a transfer waits for a timer, so a scheme
/// whose participants answer is bound by work alone.
fn bounds(config: &Config) -> Vec<Bound> {
    let policy = config.policy();
    let attempt = config.delivery.connect_timeout_ms + config.delivery.answer_timeout_ms;
    let sweep = switch::TIMEOUT_GRAIN.as_millis() as u64;
    let horizon = policy.horizon_micros / 1_000;
    let (pause, probe) = (policy.backoff_max_micros / 1_000, policy.probe_max_micros / 1_000);
    let probe = probe.min(pause);
    let bound = |what, milliseconds, made_of| Bound { what, milliseconds, made_of };
    vec![
        bound(
            "a message that comes in slowly, until it is here or refused",
            config.fspiop.header_timeout_ms + config.fspiop.body_timeout_ms,
            "header_timeout_ms + body_timeout_ms, from its first byte".into(),
        ),
        bound(
            "waiting for a timer, when participants answer",
            0,
            "batches leave when they can; a busy node of several lets 10 ms pass between two"
                .into(),
        ),
        bound(
            "one attempt to a silent participant",
            attempt + sweep,
            "connect_timeout_ms + answer_timeout_ms, noticed within 0.25 s".into(),
        ),
        bound(
            "a participant that is well again, until it gets callbacks",
            probe,
            "the longest pause while every callback to it fails".into(),
        ),
        bound(
            "one callback that failed alone, until it is tried again",
            pause,
            "backoff_max_ms; Retry-After of 429 and 503 is kept up to that".into(),
        ),
        bound(
            "a callback that nobody takes, until it is a dead letter",
            horizon + attempt + sweep,
            format!(
                "horizon_seconds ({}) from when it became owed, restarts included, and one attempt",
                duration(horizon)
            ),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_each_setting_once_with_its_default() {
        let mut by_section: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for Setting { name, value, .. } in settings(&BTreeMap::new()) {
            let (section, key) = name.split_once('.').expect("a row has a section");
            by_section.entry(section).or_default().push(key);
            if value == "none" {
                continue;
            }
            let text = format!("[{section}]\n{key} = {value}");
            let parsed: Result<Config, _> = toml::from_str(&text);
            assert!(parsed.is_ok(), "{text}: {}", parsed.expect_err("it failed").message());
        }
        let sections = fields_of("unknown = 1");
        assert_eq!(by_section.keys().copied().collect::<Vec<_>>(), sorted(&sections));
        for (section, keys) in by_section {
            let known = fields_of(&format!("[{section}]\nunknown = 1"));
            assert_eq!(sorted(&keys), sorted(&known), "[{section}]");
        }
    }

    /// The words that a section knows, from the error about one that it does not.
    fn fields_of(text: &str) -> Vec<String> {
        let error = toml::from_str::<Config>(text).expect_err("the word is unknown");
        let listed = error.message().split_once("expected").expect("it lists them").1;
        listed.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn sorted<T: AsRef<str>>(words: &[T]) -> Vec<&str> {
        let mut words: Vec<_> = words.iter().map(AsRef::as_ref).collect();
        words.sort_unstable();
        words
    }

    #[test]
    fn a_limit_on_expirations_ends_the_warning_about_none() {
        let limited = |text: &str| {
            let config: Config = toml::from_str(text).expect("a good file");
            !warnings(&config).iter().any(|it| it.what.starts_with("transfers.expiration_max"))
        };
        assert!(limited("[transfers]\nexpiration_max = \"24h\""));
        assert!(!limited(""));
    }

    #[test]
    fn dangerous_settings_are_named() {
        let check = |text: &str, wanted: &[&str]| {
            let config: Config = toml::from_str(text).expect("a good file");
            let mut found = warnings(&config);
            // Every file here leaves it out.
            let unlimited = |it: &Warning| it.what.starts_with("transfers.expiration_max");
            assert!(found.iter().any(unlimited), "{text}: {found:?}");
            found.retain(|it| !unlimited(it));
            assert_eq!(found.len(), wanted.len(), "{text}: {found:?}");
            for (warning, wanted) in found.iter().zip(wanted) {
                assert!(warning.what.starts_with(wanted), "{warning:?} is not {wanted}");
            }
        };
        let loopback = "[fspiop]\nlisten = \"127.0.0.1:0\"\n";
        check(loopback, &[]);
        check("", &["fspiop.listen", "fspiop.gateways"]);
        let with = |more: &str| format!("{loopback}{more}");
        let open = "[admin]\nlisten = \"0.0.0.0:3001\"\n";
        check(&with(open), &["admin.listen"]);
        check(&with(&format!("{open}auth = \"none\"")), &["admin.auth"]);
        for name in ["header", "body", "idle"] {
            let long = format!("[fspiop]\nlisten = \"127.0.0.1:0\"\n{name}_timeout_ms = 3600000");
            check(&long, &[&format!("fspiop.{name}_timeout_ms is above")]);
        }
        for (setting, value) in [
            ("connect_timeout_ms", 3_600_000),
            ("horizon_seconds", 2_592_000),
            ("backoff_max_ms", 3_600_000),
        ] {
            let text = with(&format!("[delivery]\n{setting} = {value}"));
            check(&text, &[&format!("delivery.{setting} is above")]);
        }
        for name in ["header", "body", "idle"] {
            let short = format!("[fspiop]\nlisten = \"127.0.0.1:0\"\n{name}_timeout_ms = 1");
            check(&short, &[&format!("fspiop.{name}_timeout_ms is below")]);
        }
        for setting in ["connect_timeout_ms", "answer_timeout_ms"] {
            let text = with(&format!("[delivery]\n{setting} = 1"));
            check(&text, &[&format!("delivery.{setting} is below")]);
        }
        check(&with("[delivery]\nwindow = 1"), &["delivery.window is below 4"]);
        check(&with("[store]\ncache_mib = 10000000"), &["store.cache_mib is more than half"]);
        check(&with("[health]\nstuck_seconds = 3600"), &["health.stuck_seconds is above"]);
        let copies = with("[backup]\nto = \"file:///tmp\"\nevery_seconds = 3600");
        check(&copies, &["backup.every_seconds is above"]);
        let lanes = with("[transfers]\nlane_capacity = 4000000000");
        check(&lanes, &["transfers.lane_capacity is above"]);
        for (section, name) in [("archive", "archive.to"), ("backup", "backup.to")] {
            check(&with(&format!("[{section}]\nto = \"file:///nobody/made/it\"")), &[name]);
        }
        let closed = "networks = [\"10.1.0.0/16\"]\ndenied_networks = [\"10.0.0.0/8\"]";
        check(
            &with(&format!("[endpoints]\n{closed}")),
            &["endpoints.denied_networks, or addresses"],
        );
        check(
            &with("[endpoints]\nnetworks = [\"169.254.0.0/16\"]"),
            &["endpoints.denied_networks"],
        );
        let loopback_too = "[endpoints]\nnetworks = [\"127.0.0.0/8\", \"10.0.0.0/8\"]";
        let found = ["fspiop.listen", "fspiop.gateways", "endpoints.networks allows loopback"];
        check(loopback_too, &found);
        check(&with(loopback_too), &[]);
        let part = "networks = [\"10.0.0.0/8\"]\ndenied_networks = [\"10.1.0.0/16\"]";
        check(&with(&format!("[endpoints]\n{part}")), &[]);
        for few in ["connections_max = 30", "connections_per_address_max = 1"] {
            let text = format!("[fspiop]\nlisten = \"127.0.0.1:0\"\n{few}");
            check(&text, &["fspiop.connections_per_address_max"]);
        }
        let uncovered = with("[transfers]\nfunds_out_covers_position = false");
        check(&uncovered, &["transfers.funds_out_covers_position = false"]);
        let missing: &[&str] = if cfg!(feature = "kafka-tls") { &[] } else { &["kafka.tls"] };
        check(&with("[kafka]\ntls = true"), missing);
        check(&with("[delivery]\nhorizon_seconds = 60"), &["delivery.horizon_seconds is below"]);
        check(&with("[transfers]\nlane_capacity = 9"), &["transfers.lane_capacity"]);
        check(&with("[log]\nsegment_mib = 1"), &["log.segment_mib"]);
        check(&with("[log]\nbatch_records_max = 50"), &["log.batch_records_max"]);
        check(&with("[health]\nstuck_seconds = 2"), &[]);
        let hasty = "[health]\nstuck_seconds = 2\nwatchdog = \"exit\"";
        check(&with(hasty), &["health.stuck_seconds"]);
        check(&with("[snapshot]\nevery_records = 0"), &[]);
        check(&with("[snapshot]\nevery_records = 0\nevery_mib = 0"), &["snapshot.every_records"]);
    }

    #[test]
    fn loopback_endpoints_that_are_allowed_by_default_are_noted() {
        let local = "[fspiop]\nlisten = \"127.0.0.1:4000\"\n[endpoints]\n";
        let networks = format!("{local}networks = [\"10.0.0.0/8\"]");
        let denied = format!("{local}denied_networks = [\"127.0.0.0/8\", \"::1\"]");
        let half_denied = format!("{local}denied_networks = [\"127.0.0.0/8\"]");
        for (text, expected) in
            [("", false), (local, true), (&networks, false), (&denied, false), (&half_denied, true)]
        {
            let config: Config = toml::from_str(text).expect("a good file");
            let settings = noted(settings(&given(text)), &config);
            let noted: Vec<_> = settings.iter().filter(|it| it.note.is_some()).collect();
            let names: Vec<_> = noted.iter().map(|it| it.name).collect();
            let wanted: &[&str] = if expected { &["endpoints.networks"] } else { &[] };
            assert_eq!(names, wanted, "{text}");
            assert!(noted.iter().all(|it| it.note == Some(LOOPBACK_ALLOWED)), "{text}");
        }
    }

    #[test]
    fn what_ends_a_switch_at_its_start_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let gone = place.path().join("gone");
        let gone = gone.to_str().expect("its name is text");
        let said = |text: &str| {
            let config: Config = toml::from_str(text).expect("a good file");
            check_start(&config).err().map_or_else(String::new, |error| error.to_string())
        };
        assert_eq!(said(""), "");
        for text in [
            "[fspiop]\nlisten = \"127.0.0.1:3001\"",
            "[fspiop]\nlisten = \"0.0.0.0:3001\"",
            "[admin]\nlisten = \"127.0.0.1:4000\"",
            "[fspiop]\nlisten = \"0.0.0.0:3002\"",
            "[health]\nlisten = \"127.0.0.1:3001\"",
            "[health]\nlisten = \"0.0.0.0:4000\"",
        ] {
            assert!(said(text).contains("are the same port"), "{text}: {}", said(text));
        }
        let free = "[fspiop]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"";
        assert_eq!(said(free), "", "each takes a free one");
        let off = "[fspiop]\nlisten = \"0.0.0.0:3002\"\n[health]\nlisten = \"none\"";
        assert_eq!(said(off), "", "no listener for probes");
        for (section, name) in [("jws", "keys"), ("jws", "signing_key"), ("admin", "token_file")] {
            let problem = said(&format!("[{section}]\n{name} = \"{gone}\""));
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

    #[test]
    fn durations_are_told_in_units_of_people() {
        for (milliseconds, expected) in [
            (0, "0.0 s"),
            (250, "0.2 s"),
            (119_900, "119.9 s"),
            (300_000, "5.0 min"),
            (5_400_000, "90.0 min"),
            (86_400_000, "24.0 h"),
            (86_425_250, "24.0 h"),
            (604_800_000, "7.0 days"),
        ] {
            assert_eq!(duration(milliseconds), expected);
        }
    }
}
