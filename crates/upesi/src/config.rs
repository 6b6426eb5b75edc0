//! The configuration file. Every setting has a default, and unknown names are errors.

mod alerts;
mod callers;
pub(crate) mod check;
mod events;
mod kafka;
mod secrets;
mod settings;
mod table;
mod tls;
pub(crate) mod traces;
mod values;

use std::borrow::Cow;
use std::fmt::Display;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fspiop::egress_policy::{EgressPolicy, EncryptedCalls, Loopback, Network};
use fspiop::quote_rules::QuoteRules;
use ledger::{FspName, Settings};
use switch::{ConnectionLimits, HelperThreads};

pub(crate) use self::alerts::AlertReceivers;
pub(crate) use self::callers::Issuer;
#[cfg(feature = "kafka")]
pub(crate) use self::settings::Events;
pub(crate) use self::settings::{
    Admin, Archive, Config, Delivery, Encryption, Fspiop, Health, Jws, Logging, settings,
};
pub(crate) use self::table::{Setting, TakesEffect};
pub(crate) use self::values::{
    AuditedReads, Auth, LogFormat, LogLevels, MojaloopNames, Ownership, ProbeListener, Watchdog,
};
use self::values::{Callers, NetworkEntry, PairText, ParticipantName, Resource};
#[cfg(feature = "kafka")]
pub(crate) use self::values::{Envelope, EventStart};
use crate::CliError;

/// Minimum of `transfers.expiration_max`. A lower limit would refuse nearly every transfer.
const EXPIRATION_MAX_LEAST: Duration = Duration::from_secs(1);

/// Address of health probes next to an admin API at its default address.
const PROBES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3002);

/// Optional features that settings need.
#[derive(Clone, Copy)]
struct Features {
    compression: bool,
    signatures: bool,
    kafka: bool,
}

/// The features of this build.
const FEATURES: Features = Features {
    compression: journal::CAN_COMPRESS,
    signatures: jws::IS_AVAILABLE,
    kafka: cfg!(feature = "kafka"),
};

impl Jws {
    /// Whether directory entries can be deleted without a signature although other messages need
    /// one.
    pub(crate) fn allows_unsigned_delete(&self) -> bool {
        self.unsigned_delete && self.validate.contains(&Resource::Participants)
    }

    pub(crate) fn policy(&self) -> jws::Policy {
        let resource = |it: &Resource| match it {
            Resource::Participants => fspiop::Resource::Participants,
            Resource::Parties => fspiop::Resource::Parties,
            Resource::Quotes => fspiop::Resource::Quotes,
            Resource::BulkQuotes => fspiop::Resource::BulkQuotes,
            Resource::TransactionRequests => fspiop::Resource::TransactionRequests,
            Resource::Authorizations => fspiop::Resource::Authorizations,
            Resource::Transactions => fspiop::Resource::Transactions,
            Resource::Transfers => fspiop::Resource::Transfers,
            Resource::BulkTransfers => fspiop::Resource::BulkTransfers,
            Resource::Services => fspiop::Resource::Services,
        };
        jws::Policy {
            validate: self.validate.iter().map(resource).collect(),
            sign: self.sign.iter().map(resource).collect(),
            unsigned_delete: self.unsigned_delete,
        }
    }
}

/// Known names that an error message lists at most.
const LISTED_NAMES_MAX: usize = 12;

/// A message about an unknown name, without the list of all known ones if that is long.
fn without_long_list(message: &str) -> Cow<'_, str> {
    match message.split_once(", expected one of ") {
        Some((fault, names)) if LISTED_NAMES_MAX < names.split(", ").count() => {
            Cow::Owned(format!("{fault}: docs/configuration.md lists the settings"))
        }
        _ => Cow::Borrowed(message),
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
                    let (line, setting) = locate(&text, error.span().map_or(0, |span| span.start));
                    let message = without_long_list(error.message());
                    CliError::new(format!("{name}, line {line}: {setting}{message}"))
                })?
            }
        };
        config.check()?;
        Ok(config)
    }

    /// The protections that participants on other machines do not have. A gateway may provide those
    /// of connections.
    pub(crate) fn missing_protections(&self) -> Vec<&'static str> {
        let is_direct = self.gateways().is_empty();
        let missing = [
            (is_direct && self.fspiop.tls_certificate_file.is_none(), "TLS"),
            (is_direct && self.fspiop.callers == Callers::Anyone, "identified callers"),
            (self.jws.validate.is_empty(), "verified signatures"),
            (self.jws.sign.is_empty(), "signatures of the hub"),
        ];
        let is_local = self.fspiop.listen.ip().is_loopback();
        let missing = missing.into_iter().filter(|(applies, _)| *applies && !is_local);
        missing.map(|(_, name)| name).collect()
    }

    /// Bounds on the requests of one participant.
    pub(crate) fn participant_limits(&self) -> switch::ParticipantLimits {
        switch::ParticipantLimits {
            rate: NonZeroU32::new(self.fspiop.participant_rate_max),
            in_progress: NonZeroU32::new(self.fspiop.participant_requests_max),
        }
    }

    /// The setting and the file of the key that signs chain heads.
    pub(crate) fn chain_heads_key(&self) -> Option<(&'static str, &Path)> {
        let own = self.chain_heads.key.as_deref().map(|path| ("chain_heads.key", path));
        own.or_else(|| self.jws.signing_key.as_deref().map(|path| ("jws.signing_key", path)))
    }

    pub(crate) fn hub_name(&self) -> Result<FspName, CliError> {
        FspName::new(&self.hub.name)
            .filter(|name| 2 <= name.as_str().len())
            .ok_or_else(|| CliError::new("hub.name must have 2 to 32 bytes"))
    }

    /// Names of the settings that a running switch with this configuration does not take over from
    /// another one. Of a file or directory it reads the content again, but not another path.
    pub(crate) fn changed_until_restart(&self, other: &Self) -> Vec<&'static str> {
        const TAKEN_OVER: [&str; 2] = ["logging.level", "traces.ratio"];
        let [running, other] = [self, other]
            .map(|config| toml::Table::try_from(config).expect("settings are TOML values"));
        let is_changed = |name: &&str| {
            let (section, key) = name.split_once('.').expect("a name has a section");
            let value = |table: &toml::Table| table.get(section)?.get(key).cloned();
            !TAKEN_OVER.contains(name) && value(&running) != value(&other)
        };
        settings().into_iter().map(|setting| setting.name).filter(is_changed).collect()
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

    /// The schedule of snapshots.
    pub(crate) fn snapshots_due(&self) -> snapshots::SnapshotSchedule {
        snapshots::SnapshotSchedule {
            every_records: self.snapshot.every_records,
            every_bytes: self.snapshot.every_mib << 20,
            cpu_percent: self.snapshot.cpu_percent,
        }
    }

    /// Number of I/O threads with listeners and lanes: by default half of the cores, rounded up.
    /// The others are for the sequencer, the operating system, and helper threads.
    pub(crate) fn threads(&self) -> usize {
        or_half_of_the_cores(self.fspiop.threads)
    }

    /// The helper threads: by default one for each I/O thread, as far as there are cores.
    pub(crate) fn helper_threads(&self) -> HelperThreads {
        let left = cores().saturating_sub(self.threads());
        let count = self.fspiop.helper_threads.unwrap_or(left).min(self.threads());
        HelperThreads { count, busy_percent: self.fspiop.busy_percent }
    }

    /// Number of threads that sign messages of the hub.
    pub(crate) fn signing_threads(&self) -> usize {
        or_half_of_the_cores(self.jws.signing_threads)
    }

    /// Limits of the connections from participants.
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

    /// Networks of the gateways.
    pub(crate) fn gateways(&self) -> Arc<[Network]> {
        self.fspiop.gateways.iter().map(|NetworkEntry(network)| *network).collect()
    }

    /// Address of health probes: the configured one, or 127.0.0.1:3002 if the admin API has its
    /// default address.
    pub(crate) fn probes(&self) -> Option<SocketAddr> {
        match self.health.listen {
            Some(ProbeListener::At(address)) => Some(address),
            Some(ProbeListener::Disabled) => None,
            None => (self.admin.listen == Admin::default().listen).then_some(PROBES),
        }
    }

    /// The policy for calls to participants, without the hub's own listeners. Loopback addresses
    /// are only allowed if the hub itself listens on loopback.
    pub(crate) fn reach(&self, own: Vec<SocketAddr>) -> EgressPolicy {
        let networks =
            |listed: &[NetworkEntry]| listed.iter().map(|NetworkEntry(network)| *network).collect();
        EgressPolicy {
            networks: networks(&self.endpoints.networks),
            denied: networks(&self.endpoints.denied_networks),
            ports: self.endpoints.ports.clone(),
            loopback: match self.fspiop.listen.ip().is_loopback() {
                true => Loopback::Allowed,
                false => Loopback::Denied,
            },
            own,
            encrypted: match (self.endpoints.https_only, ::tls::IS_AVAILABLE) {
                (true, _) => EncryptedCalls::Required,
                (false, true) => EncryptedCalls::Supported,
                (false, false) => EncryptedCalls::Unsupported,
            },
        }
    }

    pub(crate) fn check(&self) -> Result<(), CliError> {
        self.hub_name()?;
        let fault = self.out_of_bounds().or_else(|| self.contradiction());
        let fault = fault
            .or_else(|| self.tls_fault())
            .or_else(|| self.missing_feature(FEATURES))
            .or_else(|| self.fault_of_places());
        let policy = || self.policy().fault().map(|fault| format!("delivery: {fault}"));
        fault.or_else(policy).map_or(Ok(()), |fault| Err(CliError::new(fault)))
    }

    /// The first contradiction between settings.
    fn contradiction(&self) -> Option<String> {
        let Delivery { backoff_base_ms, backoff_max_ms, .. } = self.delivery;
        let faults = [
            (
                !self.jws.sign.is_empty() && self.jws.signing_key.is_none(),
                "jws.sign needs jws.signing_key, the file with the hub's private key",
            ),
            (
                self.chain_heads.to.is_some() && self.chain_heads_key().is_none(),
                "chain_heads.to needs chain_heads.key or jws.signing_key, the file with a private \
                 key",
            ),
            (
                self.chain_heads.topic.is_some() && self.chain_heads_key().is_none(),
                "chain_heads.topic needs chain_heads.key or jws.signing_key, the file with a \
                 private key",
            ),
            (
                self.transfers.expiration_max.is_some_and(|span| span.0 < EXPIRATION_MAX_LEAST),
                "transfers.expiration_max must be at least 1s",
            ),
            (
                self.quotes.bind_transfers && !self.quotes.persist,
                "quotes.bind_transfers needs quotes.persist: a transfer is compared with the \
                 recorded quote",
            ),
            (
                self.events.publishes_quotes() && !self.quotes.persist,
                "events.kinds has quotes, which needs quotes.persist: quotes are only counted \
                 otherwise",
            ),
            (
                !(1..=backoff_max_ms).contains(&backoff_base_ms),
                "delivery.backoff_base_ms must be between 1 and delivery.backoff_max_ms",
            ),
        ];
        let fault = faults.iter().find(|(fault, _)| *fault).map(|(_, text)| *text);
        fault
            .or_else(|| self.alerts.fault())
            .map(str::to_owned)
            .or_else(|| self.kafka.access().fault())
            .or_else(|| self.events.fault())
    }

    /// The error about the first setting that needs a missing feature of this build.
    fn missing_feature(&self, features: Features) -> Option<String> {
        let (archive, keys) = (&self.archive, &self.jws);
        let Features { compression, signatures, kafka } = features;
        let needs = [
            (archive.to.is_some(), "archive.to", "compression", compression),
            (archive.compress, "archive.compress", "compression", compression),
            (self.backup.to.is_some(), "backup.to", "compression", compression),
            (keys.keys.is_some(), "jws.keys", "signatures", signatures),
            (keys.signing_key.is_some(), "jws.signing_key", "signatures", signatures),
            (self.chain_heads.to.is_some(), "chain_heads.to", "signatures", signatures),
            (self.chain_heads.topic.is_some(), "chain_heads.topic", "signatures", signatures),
            (self.fspiop_issuer().is_some(), "fspiop.callers", "signatures", signatures),
            (self.admin_issuer().is_some(), "admin.oidc_issuer", "signatures", signatures),
            (self.events.brokers.is_some(), "events.brokers", "kafka", kafka),
        ];
        let (_, setting, feature, _) = needs.into_iter().find(|(set, _, _, has)| *set && !has)?;
        Some(format!(
            "{setting}: this binary was built without {feature}; build it with `cargo build \
             --profile dist --package upesi`"
        ))
    }

    fn fault_of_places(&self) -> Option<String> {
        let places = [
            ("archive.to", &self.archive.to),
            ("backup.to", &self.backup.to),
            ("chain_heads.to", &self.chain_heads.to),
        ];
        places.into_iter().find_map(|(name, url)| {
            let error = journal::open_blob_store(url.as_deref()?).err()?;
            Some(format!("{name}: {error}"))
        })
    }

    /// The rules for quotes.
    ///
    /// # Errors
    /// The file cannot be read, or has a fault, which is named with its place.
    pub(crate) fn quote_rules(&self) -> Result<Option<Arc<QuoteRules>>, CliError> {
        let Some(path) = &self.quotes.rules_file else { return Ok(None) };
        let fault = |fault: &dyn Display| {
            CliError::new(format!("quotes.rules_file: {}: {fault}", path.display()))
        };
        let text = fs::read_to_string(path).map_err(|error| fault(&error))?;
        let rules = QuoteRules::parse(&text).map_err(|error| fault(&error))?;
        Ok(Some(Arc::new(rules)).filter(|rules| !rules.is_empty()))
    }

    /// The participants that convert currencies.
    pub(crate) fn conversions(&self) -> Arc<[switch::Conversion]> {
        let conversion = |(provider, pairs): (&ParticipantName, &Vec<PairText>)| {
            let pairs = pairs.iter().map(|pair| pair.0).collect();
            switch::Conversion { provider: provider.0, pairs }
        };
        self.services.fxp.iter().map(conversion).collect()
    }

    /// How quotes are recorded; `None` if they are only forwarded.
    pub(crate) fn quotes(&self) -> Option<switch::QuoteOptions> {
        let quotes = &self.quotes;
        quotes.persist.then(|| switch::QuoteOptions {
            keep: Duration::from_secs(quotes.keep_seconds),
            binds_transfers: quotes.bind_transfers,
        })
    }

    /// Limits of the calls to oracles.
    pub(crate) fn oracles(&self) -> switch::OracleOptions {
        let oracles = &self.oracles;
        switch::OracleOptions {
            is_on: oracles.call,
            connect: Duration::from_millis(oracles.connect_timeout_ms),
            answer: Duration::from_millis(oracles.answer_timeout_ms),
            calls_max: oracles.calls as usize,
            cache: Duration::from_secs(oracles.cache_seconds),
            negative_cache: Duration::from_secs(oracles.negative_cache_seconds),
            cache_entries: oracles.cache_entries as usize,
            ..switch::OracleOptions::default()
        }
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

/// The setting with the participants whose contents have data keys of their own.
const PARTICIPANT_KEYS: &str = "encryption.participant_keys";
/// Maximum number of such participants: each new data key is one for each of them too.
const PARTICIPANT_KEYS_MAX: usize = 256;

impl Encryption {
    /// The participants whose contents have data keys of their own.
    ///
    /// # Errors
    /// There are too many, or a name cannot be written to the file of data keys.
    pub(crate) fn participants(&self) -> Result<Vec<FspName>, CliError> {
        let names = &self.participant_keys;
        if PARTICIPANT_KEYS_MAX < names.len() {
            return Err(CliError::new(format!(
                "{PARTICIPANT_KEYS} has {} names; at most {PARTICIPANT_KEYS_MAX} are possible",
                names.len()
            )));
        }
        let mut participants: Vec<FspName> = Vec::new();
        for ParticipantName(name) in names {
            if !name.as_bytes().iter().all(u8::is_ascii_graphic) {
                return Err(CliError::new(format!(
                    "{PARTICIPANT_KEYS}: {:?} has other characters than ASCII letters, digits and \
                     signs",
                    name.as_str()
                )));
            }
            if participants.iter().any(|other| other.matches(name)) {
                return Err(CliError::new(format!("{PARTICIPANT_KEYS} names {name} twice")));
            }
            participants.push(*name);
        }
        Ok(participants)
    }
}

fn or_half_of_the_cores(threads: usize) -> usize {
    match threads {
        0 => cores().div_ceil(2),
        threads => threads,
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

/// The line number of a byte in a file, and the name of the setting there.
fn locate(text: &str, byte: usize) -> (usize, String) {
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

    use super::values::TimeSpan;
    use super::*;

    /// UPDATE_EXPECT=1 writes the table anew.
    #[test]
    fn missing_protections_concern_other_machines() {
        let check = |text: &str, expected: &[&str]| {
            let config: Config = toml::from_str(text).expect("a good file");
            assert_eq!(config.missing_protections(), expected, "{text}");
        };
        let all = ["TLS", "identified callers", "verified signatures", "signatures of the hub"];
        check("", &all);
        check("[fspiop]\nlisten = \"127.0.0.1:4000\"", &[]);
        check("[fspiop]\ngateways = [\"10.0.0.0/8\"]", &all[2..]);
        check("[fspiop]\ncallers = \"certificate\"\n[jws]\nsign = [\"quotes\"]", &[all[0], all[2]]);
    }

    #[test]
    fn manual_lists_each_setting() {
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
    fn empty_file_has_all_defaults() {
        let config: Config = toml::from_str("").expect("an empty file is valid");
        assert_eq!(config.fspiop.listen.port(), 4000);
        assert_eq!(config.admin.listen.to_string(), "127.0.0.1:3001");
        assert!(config.transfers.confirm_to_payee);
        config.check().expect("the defaults are valid");
    }

    #[test]
    fn delivery_limits_are_checked() {
        let check = |setting: &str, wanted: Option<&str>| {
            let text = format!("[delivery]\n{setting}");
            let config: Config = toml::from_str(&text).expect("it is a number");
            let error = config.check().err().map(|error| error.to_string());
            let named = error.as_deref().zip(wanted).map(|(error, wanted)| error.contains(wanted));
            assert_eq!(error.is_some(), wanted.is_some(), "{setting}: {error:?}");
            assert!(named.unwrap_or(true), "{setting}: {error:?}");
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
    fn duration_has_a_unit() {
        let parsed = |text: &str| TimeSpan::parse(text).map(|span| span.0.as_millis());
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
    fn unknown_name_is_an_error() {
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
    fn invalid_value_is_reported_with_its_line() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("upesi.toml");
        for (text, expected) in [
            ("[hub]\nname = 7\n", "line 2: hub.name: invalid type: integer"),
            ("[log]\n\nsegment_mib = -1", "line 3: log.segment_mib: invalid value: integer"),
            ("admin.auth = \"no\"", "line 1: admin.auth: unknown variant `no`"),
            ("[hub\n", "line 1: "),
            ("[transferz]\n", "line 1: unknown field `transferz`"),
            (
                "[fspiop]\nport = 1",
                "unknown field `port`: docs/configuration.md lists the settings",
            ),
            ("[hub]\nname = \"\"\n", "hub.name must have 2 to 32 bytes"),
            ("[delivery]\nwindow = 0\n", "delivery.window must be between 1 and 65536"),
        ] {
            fs::write(&path, text).expect("written");
            let error = Config::read(Some(&path)).expect_err("it is wrong").to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn setting_of_a_missing_feature_is_refused() {
        let none = Features { compression: false, signatures: false, kafka: false };
        for (text, feature) in [
            ("[archive]\nto = \"file:///mnt/archive\"", "compression"),
            ("[archive]\ncompress = true", "compression"),
            ("[backup]\nto = \"file:///mnt/backup\"", "compression"),
            ("[jws]\nkeys = \"keys\"", "signatures"),
            ("[jws]\nsigning_key = \"hub.pem\"", "signatures"),
            ("[events]\nbrokers = \"a:1\"", "kafka"),
        ] {
            let config: Config = toml::from_str(text).expect("known words");
            let error = config.missing_feature(none).expect(text);
            assert!(error.contains(&format!("built without {feature}; build it with")), "{error}");
            let all = Features { compression: true, signatures: true, kafka: true };
            assert_eq!(config.missing_feature(all), None, "{text}");
        }
        assert_eq!(Config::default().missing_feature(none), None);
    }

    #[test]
    fn signing_needs_a_key() {
        let config: Config = toml::from_str("[jws]\nsign = [\"transfers\"]").expect("known words");
        let error = config.check().expect_err("there is no key").to_string();
        assert!(error.contains("jws.signing_key"), "{error}");
    }

    #[test]
    fn binding_and_events_need_recorded_quotes() {
        let read = |text: &str| toml::from_str::<Config>(text).expect("known words");
        let error = read("[quotes]\nbind_transfers = true").check().expect_err("none is recorded");
        assert!(error.to_string().contains("needs quotes.persist"), "{error}");
        assert!(read("[quotes]\nbind_transfers = true\npersist = true").check().is_ok());
        let events = "[events]\nbrokers = \"a:1\"\nkinds = [\"quotes\"]\n";
        let error = read(events).check().expect_err("none is recorded");
        assert!(error.to_string().contains("needs quotes.persist"), "{error}");
        assert!(read(&format!("{events}[quotes]\npersist = true")).check().is_ok());
    }
}
