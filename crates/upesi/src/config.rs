//! The configuration file: every setting has a default, every unknown word is an error.

pub(crate) mod check;
mod kafka;
mod settings;
mod table;
mod values;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fspiop::egress_policy::{EgressPolicy, Loopback, Network};
use ledger::{FspName, Settings};
use switch::ConnectionLimits;

pub(crate) use self::settings::{Admin, Archive, Config, Delivery, Fspiop, Health, Jws, settings};
pub(crate) use self::table::{Change, Setting};
pub(crate) use self::values::{Auth, Probes, Watchdog};
use self::values::{Listed, Resource};
use crate::CliError;

/// A limit below it would refuse nearly every transfer: 1 s.
const EXPIRATION_MAX_LEAST: Duration = Duration::from_secs(1);

/// Address of health probes next to an admin API at its default address.
const PROBES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3002);

impl Jws {
    /// Whether entries of the directory can be released without a signature that others need.
    pub(crate) fn lets_deletes_pass(&self) -> bool {
        self.unsigned_delete && self.validate.contains(&Resource::Participants)
    }

    pub(crate) fn policy(&self) -> jws::Policy {
        let resource = |it: &Resource| match it {
            Resource::Participants => fspiop::Resource::Participants,
            Resource::Parties => fspiop::Resource::Parties,
            Resource::Quotes => fspiop::Resource::Quotes,
            Resource::Transfers => fspiop::Resource::Transfers,
        };
        jws::Policy {
            validate: self.validate.iter().map(resource).collect(),
            sign: self.sign.iter().map(resource).collect(),
            unsigned_delete: self.unsigned_delete,
        }
    }
}

impl Config {
    /// Reads the file, or takes all defaults without one.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, CliError> {
        let config: Self = match path {
            None => Self::default(),
            Some(path) => {
                let name = path.display();
                let text = fs::read_to_string(path)
                    .map_err(|error| CliError::new(format!("cannot read {name}: {error}")))?;
                toml::from_str(&text).map_err(|error| {
                    let (line, setting) = place(&text, error.span().map_or(0, |span| span.start));
                    CliError::new(format!("{name}, line {line}: {setting}{}", error.message()))
                })?
            }
        };
        config.check()?;
        Ok(config)
    }

    pub(crate) fn hub_name(&self) -> Result<FspName, CliError> {
        FspName::new(&self.hub.name)
            .filter(|name| 2 <= name.as_str().len())
            .ok_or_else(|| CliError::new("hub.name must have 2 to 32 bytes"))
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            confirm_to_payee: self.transfers.confirm_to_payee,
            on_us_transfers: self.transfers.on_us,
            put_aborted_aborts: self.transfers.put_aborted_aborts,
            funds_out_covers_position: self.transfers.funds_out_covers_position,
            lane_capacity: self.transfers.lane_capacity,
        }
    }

    /// When snapshots are taken.
    pub(crate) fn snapshots_due(&self) -> snapshots::SnapshotSchedule {
        snapshots::SnapshotSchedule {
            every_records: self.snapshot.every_records,
            every_bytes: self.snapshot.every_mib << 20,
            cpu_percent: self.snapshot.cpu_percent,
        }
    }

    /// I/O threads: half of the cores, for the other half has the sequencer and the kernel's
    /// network stack to carry.
    pub(crate) fn threads(&self) -> usize {
        or_half_of_the_cores(self.fspiop.threads)
    }

    /// Threads that sign what the hub says.
    pub(crate) fn signing_threads(&self) -> usize {
        or_half_of_the_cores(self.jws.signing_threads)
    }

    /// Bounds of the connections from participants.
    pub(crate) fn connections(&self) -> ConnectionLimits {
        let Fspiop { connections_max: total, connections_per_address_max, .. } = self.fspiop;
        let per_address = match connections_per_address_max {
            0 => total.div_ceil(2),
            most => most,
        };
        ConnectionLimits {
            total,
            per_address,
            head: Duration::from_millis(self.fspiop.header_timeout_ms),
            body: Duration::from_millis(self.fspiop.body_timeout_ms),
            idle: Duration::from_millis(self.fspiop.idle_timeout_ms),
        }
    }

    /// Where gateways connect from.
    pub(crate) fn gateways(&self) -> Arc<[Network]> {
        self.fspiop.gateways.iter().map(|Listed(network)| *network).collect()
    }

    /// Where supervisors' probes are answered, if anywhere: next to an admin API at its default
    /// address, or where the file says.
    pub(crate) fn probes(&self) -> Option<SocketAddr> {
        match self.health.listen {
            Some(Probes::At(address)) => Some(address),
            Some(Probes::Nowhere) => None,
            None => (self.admin.listen == Admin::default().listen).then_some(PROBES),
        }
    }

    /// Where participants may be called, and not the hub's own listeners. Loopback addresses are
    /// for participants of a hub that is itself reached on loopback alone.
    pub(crate) fn reach(&self, own: Vec<SocketAddr>) -> EgressPolicy {
        let networks = |listed: &[Listed]| listed.iter().map(|Listed(network)| *network).collect();
        EgressPolicy {
            networks: networks(&self.endpoints.networks),
            denied: networks(&self.endpoints.denied_networks),
            ports: self.endpoints.ports.clone(),
            loopback: match self.fspiop.listen.ip().is_loopback() {
                true => Loopback::Allowed,
                false => Loopback::Denied,
            },
            own,
        }
    }

    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.hub_name()?;
        let fault = self.out_of_bounds().or_else(|| self.contradiction().map(str::to_owned));
        let fault = fault.or_else(|| self.missing_feature()).or_else(|| self.fault_of_places());
        let policy = || self.policy().fault().map(|fault| format!("delivery: {fault}"));
        fault.or_else(policy).map_or(Ok(()), |fault| Err(CliError::new(fault)))
    }

    /// Settings that cannot be meant together.
    fn contradiction(&self) -> Option<&'static str> {
        let Delivery { backoff_base_ms, backoff_max_ms, .. } = self.delivery;
        let faults = [
            (
                !self.jws.sign.is_empty() && self.jws.signing_key.is_none(),
                "jws.sign needs jws.signing_key, the file with the hub's private key",
            ),
            (
                self.transfers.expiration_max.is_some_and(|span| span.0 < EXPIRATION_MAX_LEAST),
                "transfers.expiration_max must be at least 1s",
            ),
            (
                !(1..=backoff_max_ms).contains(&backoff_base_ms),
                "delivery.backoff_base_ms must be between 1 and delivery.backoff_max_ms",
            ),
        ];
        let fault = faults.iter().find(|(fault, _)| *fault).map(|(_, text)| *text);
        fault.or_else(|| self.kafka.fault())
    }

    /// The first setting that needs a feature that this program was built without.
    fn missing_feature(&self) -> Option<String> {
        let (archive, keys) = (&self.archive, &self.jws);
        let needs = [
            (archive.to.is_some(), "archive.to", "compression", journal::CAN_COMPRESS),
            (archive.compress, "archive.compress", "compression", journal::CAN_COMPRESS),
            (self.backup.to.is_some(), "backup.to", "compression", journal::CAN_COMPRESS),
            (keys.keys.is_some(), "jws.keys", "signatures", jws::IS_AVAILABLE),
            (keys.signing_key.is_some(), "jws.signing_key", "signatures", jws::IS_AVAILABLE),
        ];
        let (_, setting, feature, _) = needs.into_iter().find(|(set, _, _, has)| *set && !has)?;
        Some(format!(
            "{setting}: this program was built without {feature}; build it with `cargo build \
             --profile dist --package upesi`"
        ))
    }

    fn fault_of_places(&self) -> Option<String> {
        let places = [("archive.to", &self.archive.to), ("backup.to", &self.backup.to)];
        places.into_iter().find_map(|(name, url)| {
            let error = journal::open_blob_store(url.as_deref()?).err()?;
            Some(format!("{name}: {error}"))
        })
    }

    pub(crate) fn policy(&self) -> delivery::Policy {
        delivery::Policy {
            window: self.delivery.window,
            horizon_micros: self.delivery.horizon_seconds.saturating_mul(1_000_000),
            backoff_base_micros: self.delivery.backoff_base_ms.saturating_mul(1_000),
            backoff_max_micros: self.delivery.backoff_max_ms.saturating_mul(1_000),
            ..delivery::Policy::default()
        }
    }
}

fn or_half_of_the_cores(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
        threads => threads,
    }
}

/// The line of a file, from 1, that holds a byte; and the setting there, if it is one.
fn place(text: &str, byte: usize) -> (usize, String) {
    let lines: Vec<_> = text.get(..byte).unwrap_or_default().split('\n').collect();
    let number = lines.len();
    let section =
        lines.iter().rev().find_map(|line| line.trim().strip_prefix('[')?.split(']').next());
    let key =
        text.lines().nth(number - 1).and_then(|line| line.split_once('=')).map(|it| it.0.trim());
    let is_key = |key: &&str| key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let setting = match (section, key.filter(is_key)) {
        (Some(section), Some(key)) => format!("{section}.{key}: "),
        (None, Some(key)) => format!("{key}: "),
        (_, None) => String::new(),
    };
    (number, setting)
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;

    use super::values::Span;
    use super::*;

    /// UPDATE_EXPECT=1 writes the table anew.
    #[test]
    fn the_manual_has_each_setting() {
        const RULE: &str = "|---|---|---|---|---|\n";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let manual = std::fs::read_to_string(path).expect("the manual");
        let (before, rest) = manual.split_once(RULE).expect("a table");
        let (_, after) = rest.split_once("\n\n").expect("its end");
        let row = |it: Setting| {
            let default =
                if it.default == "none" { it.default } else { format!("`{}`", it.default) };
            let (bounds, change) = (it.bounds.unwrap_or_default(), it.change.name());
            format!("| `{}` | {default} | {bounds} | {change} | {} |\n", it.name, it.meaning)
        };
        let rows: String = settings().into_iter().map(row).collect();
        let page = format!("{before}{RULE}{rows}\n{after}");
        expect_file!["../../../docs/configuration.md"].assert_eq(&page);
    }

    #[test]
    fn an_empty_file_is_all_defaults() {
        let config: Config = toml::from_str("").expect("an empty file is valid");
        assert_eq!(config.fspiop.listen.port(), 4000);
        assert_eq!(config.admin.listen.to_string(), "127.0.0.1:3001");
        assert!(config.transfers.confirm_to_payee);
        config.check().expect("the defaults are valid");
    }

    #[test]
    fn limits_of_deliveries_have_bounds_that_are_named() {
        let check = |setting: &str, wanted: Option<&str>| {
            let text = format!("[delivery]\n{setting}");
            let config: Config = toml::from_str(&text).expect("it is a number");
            let said = config.check().err().map(|error| error.to_string());
            let named = said.as_deref().zip(wanted).map(|(said, wanted)| said.contains(wanted));
            assert_eq!(said.is_some(), wanted.is_some(), "{setting}: {said:?}");
            assert!(named.unwrap_or(true), "{setting}: {said:?}");
        };
        let window = Some("delivery.window must be between 1 and 65536");
        let horizon = Some("delivery.horizon_seconds must be between 1 and 2592000");
        let longest = Some("delivery.backoff_max_ms must be between 1 and 3600000");
        let first = Some("delivery.backoff_base_ms must be between 1 and delivery.backoff_max_ms");
        check("window = 1", None);
        check("window = 65536", None);
        check("window = 0", window);
        check("window = 65537", window);
        check("horizon_seconds = 1", None);
        check("horizon_seconds = 2592000", None);
        check("horizon_seconds = 0", horizon);
        check("horizon_seconds = 2592001", horizon);
        check("backoff_max_ms = 3600000", None);
        check("backoff_max_ms = 3600001", longest);
        check("backoff_max_ms = 0", longest);
        check("backoff_base_ms = 300000", None);
        check("backoff_base_ms = 300001", first);
        check("backoff_base_ms = 0", first);
    }

    #[test]
    fn a_duration_has_a_unit() {
        let parsed = |text: &str| Span::parse(text).map(|span| span.0.as_millis());
        for (text, ms) in [
            ("1500ms", 1_500),
            ("90s", 90_000),
            ("15m", 900_000),
            ("24h", 86_400_000),
            ("30d", 2_592_000_000),
        ] {
            assert_eq!(parsed(text), Some(ms), "{text}");
        }
        for text in ["", "90", "s", "-1s", "1.5h", "24 h", "1w", "99999999999999999999d"] {
            assert_eq!(parsed(text), None, "{text}");
        }
        let limit = |value: &str| {
            let config: Config = toml::from_str(&format!("[transfers]\nexpiration_max = {value}"))
                .map_err(|error| error.to_string())?;
            config.check().map_err(|error| error.to_string())
        };
        assert_eq!(limit("\"1s\""), Ok(()));
        let short = limit("\"999ms\"").expect_err("it is too short");
        assert!(short.contains("transfers.expiration_max must be at least 1s"), "{short}");
        let text = limit("\"a day\"").expect_err("it has no number");
        assert!(text.contains("\"a day\" is not a duration"), "{text}");
    }

    #[test]
    fn a_word_it_does_not_know_is_an_error_that_names_it() {
        for (text, word) in [
            ("[fspiop]\nport = 4000", "port"),
            ("[fspiop]\ngateways = [\"10.0.0.0/40\"]", "10.0.0.0/40"),
            ("[jws]\nvalidate = [\"transfer\"]", "transfer"),
            ("[jws]\nkey = \"hub.pem\"", "key"),
        ] {
            let error = toml::from_str::<Config>(text).expect_err("unknown");
            assert!(error.to_string().contains(word), "{error}");
        }
    }

    #[test]
    fn a_value_that_cannot_be_read_is_named_with_its_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("upesi.toml");
        for (text, expected) in [
            ("[hub]\nname = 7\n", "line 2: hub.name: invalid type: integer"),
            ("[log]\n\nsegment_mib = -1", "line 3: log.segment_mib: invalid value: integer"),
            ("admin.auth = \"no\"", "line 1: admin.auth: unknown variant `no`"),
            ("[hub\n", "line 1: "),
            ("[transferz]\n", "line 1: unknown field `transferz`"),
            ("[hub]\nname = \"\"\n", "hub.name must have 2 to 32 bytes"),
            ("[delivery]\nwindow = 0\n", "delivery.window must be between 1 and 65536"),
        ] {
            fs::write(&path, text).expect("written");
            let error = Config::read(Some(&path)).expect_err("it is wrong").to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn who_is_to_sign_needs_a_key() {
        let config: Config = toml::from_str("[jws]\nsign = [\"transfers\"]").expect("known words");
        let error = config.check().expect_err("there is no key").to_string();
        assert!(error.contains("jws.signing_key"), "{error}");
    }
}
