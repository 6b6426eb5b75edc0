//! The configuration file: every setting has a default, every unknown word is an error.

mod kafka;

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fspiop::reach::{Loopback, Network, NoNetwork, Reach};
use ledger::{FspName, Settings};
use record::frame::FRAME_RECORDS_MAX;
use serde::Deserialize;
use switch::ConnectionLimits;

pub(crate) use self::kafka::Kafka;
use crate::Failure;

/// A limit below it would refuse nearly every transfer: 1 s.
const EXPIRATION_MAX_LEAST: Duration = Duration::from_secs(1);

/// Everything that can be set, by section of the TOML file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Config {
    pub(crate) fspiop: Fspiop,
    pub(crate) admin: Admin,
    pub(crate) hub: Hub,
    pub(crate) transfers: Transfers,
    pub(crate) delivery: Delivery,
    pub(crate) endpoints: Endpoints,
    pub(crate) jws: Jws,
    pub(crate) log: Log,
    pub(crate) kafka: Kafka,
    pub(crate) health: Health,
    pub(crate) snapshot: Snapshot,
    pub(crate) store: Store,
    pub(crate) archive: Archive,
    pub(crate) backup: Backup,
}

/// Where participants connect.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Fspiop {
    pub(crate) listen: SocketAddr,
    /// Threads that accept, parse and send; 0 chooses by the machine's cores.
    pub(crate) threads: usize,
    pub(crate) connections_max: usize,
    /// Of these from one address; 0 takes the half.
    pub(crate) connections_per_address_max: usize,
    /// Where gateways connect from; empty believes `X-Client-Id` from everywhere.
    gateways: Vec<Listed>,
    /// From a request's first byte to the end of its headers.
    pub(crate) header_timeout_ms: u64,
    pub(crate) body_timeout_ms: u64,
    /// Without a request.
    pub(crate) idle_timeout_ms: u64,
}

/// Where operators connect (DESIGN contract 14).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Admin {
    pub(crate) listen: SocketAddr,
    pub(crate) auth: Auth,
    /// File with the token, kept by somebody else; none keeps it in the data directory.
    pub(crate) token_file: Option<PathBuf>,
    /// Host names, beside loopback ones, under which the admin API may be addressed.
    pub(crate) hosts: Vec<String>,
    /// Origins from which a browser may call it.
    pub(crate) origins: Vec<String>,
}

/// Who may change things.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Auth {
    Token,
    None,
}

/// Who the hub is.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Hub {
    pub(crate) name: String,
}

/// Scheme rules for transfers.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Transfers {
    pub(crate) confirm_to_payee: bool,
    pub(crate) on_us: bool,
    pub(crate) put_aborted_aborts: bool,
    pub(crate) funds_out_covers_position: bool,
    /// Notices owed to one participant beyond which it is sent no further prepares.
    pub(crate) lane_capacity: u32,
    /// How far ahead a transfer may expire; no limit without it.
    pub(crate) expiration_max: Option<Span>,
}

/// A length of time with its unit: `"1500ms"`, `"90s"`, `"15m"`, `"24h"` or `"30d"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(pub(crate) Duration);

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (count, unit) = text.split_at(digits);
        let unit_ms = match unit {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        let count: u64 = count.parse().ok()?;
        Some(Self(Duration::from_millis(count.checked_mul(unit_ms)?)))
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let text = format!("\"{text}\" is not a duration: write \"90s\", \"24h\" or \"30d\"");
            serde::de::Error::custom(text)
        })
    }
}

/// How callbacks are delivered.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Delivery {
    pub(crate) window: u32,
    /// How long after a callback became owed its delivery is tried.
    pub(crate) horizon_seconds: u64,
    pub(crate) backoff_base_ms: u64,
    pub(crate) backoff_max_ms: u64,
    pub(crate) connect_timeout_ms: u64,
    pub(crate) answer_timeout_ms: u64,
}

/// Where participants may be called.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Endpoints {
    /// Only addresses in these; empty for all.
    networks: Vec<Listed>,
    /// None in these.
    denied_networks: Vec<Listed>,
    /// Only these ports; empty for all.
    ports: Vec<u16>,
}

/// A network as the file writes it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
struct Listed(Network);

impl TryFrom<String> for Listed {
    type Error = NoNetwork;

    fn try_from(text: String) -> Result<Self, NoNetwork> {
        text.parse().map(Self)
    }
}

/// Signatures of messages.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Jws {
    /// Resources whose messages are refused without a good signature.
    validate: Vec<Resource>,
    /// Whether a DELETE may come unsigned all the same.
    unsigned_delete: bool,
    /// Resources of which the hub signs its own messages.
    sign: Vec<Resource>,
    /// Directory of participants' public keys.
    pub(crate) keys: Option<PathBuf>,
    /// The hub's private key.
    pub(crate) signing_key: Option<PathBuf>,
    /// Threads that sign; 0 chooses by the machine's cores.
    signing_threads: usize,
}

/// A resource of the API, by its name in paths.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Resource {
    Participants,
    Parties,
    Quotes,
    Transfers,
}

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

/// How the log is kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Log {
    pub(crate) segment_mib: u64,
    /// Most records in one batch, and so under one sync.
    pub(crate) batch_records_max: NonZeroU32,
}

/// When the switch calls itself ill, and what follows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Health {
    /// Where probes are answered; without it the admin API's address decides.
    pub(crate) listen: Option<Probes>,
    /// How long a stage may have work and do none of it.
    pub(crate) stuck_seconds: u64,
    pub(crate) watchdog: Watchdog,
}

/// Address of health probes next to an admin API at its default address.
const PROBES: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3002);

/// Where supervisors' probes are answered.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(crate) enum Probes {
    /// At this address.
    At(SocketAddr),
    /// On no listener of their own.
    Nowhere,
}

impl TryFrom<String> for Probes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "none" => Ok(Self::Nowhere),
            text => text.parse().map(Self::At).map_err(|_| {
                format!("{text:?} is not an address with a port such as 127.0.0.1:3002, or none")
            }),
        }
    }
}

/// What follows when a stage is stuck.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Watchdog {
    /// `/health` and standard error name it.
    Report,
    /// The process ends, too, so that a supervisor starts it again.
    Exit,
}

impl Default for Health {
    fn default() -> Self {
        Self { listen: None, stuck_seconds: 10, watchdog: Watchdog::Report }
    }
}

/// When the state is stored beside the log, and how fast.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Snapshot {
    /// Once so many records were written since the last one; 0 for never.
    pub(crate) every_records: u64,
    /// Once so much was written since the last one or the start; 0 for never.
    pub(crate) every_mib: u64,
    /// Share of one core that taking one may use.
    pub(crate) cpu_percent: u8,
}

/// How transfers that ended are kept.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Store {
    /// For how long at least their rows stay in memory.
    pub(crate) keep_ended_seconds: u64,
    /// For blocks, indexes and filters of the store.
    pub(crate) cache_mib: u64,
}

/// What becomes of closed segments.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Archive {
    /// The place they go to; none keeps them.
    pub(crate) to: Option<String>,
    pub(crate) keep_segments: usize,
    pub(crate) after_hours: u64,
    /// Compresses them where they are, when there is no place.
    pub(crate) compress: bool,
}

/// The copy that is kept while the log grows.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Backup {
    /// The place; none keeps no copy.
    pub(crate) to: Option<String>,
    pub(crate) every_seconds: u64,
}

impl Default for Archive {
    fn default() -> Self {
        Self { to: None, keep_segments: 4, after_hours: 0, compress: false }
    }
}

impl Default for Backup {
    fn default() -> Self {
        Self { to: None, every_seconds: 10 }
    }
}

impl Default for Fspiop {
    fn default() -> Self {
        let limits = ConnectionLimits::default();
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 4000)),
            threads: 0,
            connections_max: limits.total,
            connections_per_address_max: 0,
            gateways: Vec::new(),
            header_timeout_ms: limits.head.as_millis() as u64,
            body_timeout_ms: limits.body.as_millis() as u64,
            idle_timeout_ms: limits.idle.as_millis() as u64,
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 3001)),
            auth: Auth::Token,
            token_file: None,
            hosts: Vec::new(),
            origins: Vec::new(),
        }
    }
}

impl Default for Hub {
    fn default() -> Self {
        Self { name: "Hub".into() }
    }
}

impl Default for Transfers {
    fn default() -> Self {
        let settings = Settings::default();
        Self {
            confirm_to_payee: settings.confirm_to_payee,
            on_us: settings.on_us_transfers,
            put_aborted_aborts: settings.put_aborted_aborts,
            funds_out_covers_position: settings.funds_out_covers_position,
            lane_capacity: settings.lane_capacity,
            expiration_max: None,
        }
    }
}

impl Default for Delivery {
    fn default() -> Self {
        let policy = delivery::Policy::default();
        let pool = switch::PoolLimits::default();
        Self {
            window: policy.window,
            horizon_seconds: policy.horizon_micros / 1_000_000,
            backoff_base_ms: policy.backoff_base_micros / 1_000,
            backoff_max_ms: policy.backoff_max_micros / 1_000,
            connect_timeout_ms: pool.connect.as_millis() as u64,
            answer_timeout_ms: pool.answer.as_millis() as u64,
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        let most = NonZeroU32::new(FRAME_RECORDS_MAX).expect("a frame holds records");
        Self { segment_mib: 256, batch_records_max: most }
    }
}

impl Default for Snapshot {
    fn default() -> Self {
        Self { every_records: 1_000_000, every_mib: 1_024, cpu_percent: 25 }
    }
}

impl Default for Store {
    fn default() -> Self {
        Self { keep_ended_seconds: 30, cache_mib: store::Options::default().cache_bytes >> 20 }
    }
}

impl Config {
    /// Reads the file, or takes all defaults without one.
    pub(crate) fn read(path: Option<&Path>) -> Result<Self, Failure> {
        let config: Self = match path {
            None => Self::default(),
            Some(path) => {
                let name = path.display();
                let text = fs::read_to_string(path)
                    .map_err(|error| Failure::new(format!("cannot read {name}: {error}")))?;
                toml::from_str(&text).map_err(|error| {
                    let line = error.span().map_or(1, |span| line_at(&text, span.start));
                    Failure::new(format!("{name}, line {line}: {}", error.message()))
                })?
            }
        };
        config.check()?;
        Ok(config)
    }

    pub(crate) fn hub_name(&self) -> Result<FspName, Failure> {
        FspName::new(&self.hub.name)
            .filter(|name| 2 <= name.as_str().len())
            .ok_or_else(|| Failure::new("hub.name must have 2 to 32 bytes"))
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
    pub(crate) fn snapshots_due(&self) -> snapshots::Due {
        snapshots::Due {
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
    pub(crate) fn reach(&self, own: Vec<SocketAddr>) -> Reach {
        let networks = |listed: &[Listed]| listed.iter().map(|Listed(network)| *network).collect();
        Reach {
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

    pub(crate) fn check(&self) -> Result<(), Failure> {
        self.hub_name()?;
        let milliseconds = 1..=3_600_000;
        let faults = [
            (
                !milliseconds.contains(&self.fspiop.header_timeout_ms),
                "fspiop.header_timeout_ms must be between 1 and 3600000",
            ),
            (
                !milliseconds.contains(&self.fspiop.body_timeout_ms),
                "fspiop.body_timeout_ms must be between 1 and 3600000",
            ),
            (
                !milliseconds.contains(&self.fspiop.idle_timeout_ms),
                "fspiop.idle_timeout_ms must be between 1 and 3600000",
            ),
            (
                !(2..=3_600).contains(&self.health.stuck_seconds),
                "health.stuck_seconds must be between 2 and 3600",
            ),
            (self.fspiop.threads > 64, "fspiop.threads must be at most 64"),
            (self.fspiop.connections_max == 0, "fspiop.connections_max must be at least 1"),
            (self.jws.signing_threads > 64, "jws.signing_threads must be at most 64"),
            (
                !self.jws.sign.is_empty() && self.jws.signing_key.is_none(),
                "jws.sign needs jws.signing_key, the file with the hub's private key",
            ),
            (self.transfers.lane_capacity == 0, "transfers.lane_capacity must be at least 1"),
            (
                self.transfers.expiration_max.is_some_and(|span| span.0 < EXPIRATION_MAX_LEAST),
                "transfers.expiration_max must be at least 1s",
            ),
            (
                !(1..=4_096).contains(&self.log.segment_mib),
                "log.segment_mib must be between 1 and 4096",
            ),
            (
                self.log.batch_records_max.get() > FRAME_RECORDS_MAX,
                "log.batch_records_max must be between 1 and 8192",
            ),
            (1 << 30 < self.snapshot.every_mib, "snapshot.every_mib must be at most 1073741824"),
            (
                !(1..=100).contains(&self.snapshot.cpu_percent),
                "snapshot.cpu_percent must be between 1 and 100",
            ),
            (
                86_400 < self.store.keep_ended_seconds,
                "store.keep_ended_seconds must be at most 86400",
            ),
            (
                !(8..=65_536).contains(&self.store.cache_mib),
                "store.cache_mib must be between 8 and 65536",
            ),
        ];
        let fault = faults.iter().find(|(fault, _)| *fault);
        let fault = fault.map(|(_, text)| *text).or_else(|| self.delivery.fault());
        let fault = fault.or_else(|| self.kafka.fault());
        match fault.map(Failure::new).or_else(|| self.fault_of_places()) {
            Some(fault) => Err(fault),
            None => match self.policy().fault() {
                Some(fault) => Err(Failure::new(format!("delivery: {fault}"))),
                None => Ok(()),
            },
        }
    }

    fn fault_of_places(&self) -> Option<Failure> {
        let Archive { keep_segments, after_hours, .. } = self.archive;
        if 1_000_000 < keep_segments || 1_000_000 < after_hours {
            let what = "archive.keep_segments and archive.after_hours must be at most 1000000";
            return Some(Failure::new(what));
        }
        if !(1..=3_600).contains(&self.backup.every_seconds) {
            return Some(Failure::new("backup.every_seconds must be between 1 and 3600"));
        }
        let places = [("archive.to", &self.archive.to), ("backup.to", &self.backup.to)];
        places.into_iter().find_map(|(name, url)| {
            let error = journal::open_place(url.as_deref()?).err()?;
            Some(Failure::new(format!("{name}: {error}")))
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

/// A month: a callback that is older tells nobody anything.
const HORIZON_SECONDS_MAX: u64 = 30 * 24 * 3_600;

impl Delivery {
    fn fault(&self) -> Option<&'static str> {
        let milliseconds = 1..=3_600_000;
        let faults = [
            (!(1..=65_536).contains(&self.window), "delivery.window must be between 1 and 65536"),
            (
                !(1..=HORIZON_SECONDS_MAX).contains(&self.horizon_seconds),
                "delivery.horizon_seconds must be between 1 and 2592000",
            ),
            (
                !milliseconds.contains(&self.backoff_max_ms),
                "delivery.backoff_max_ms must be between 1 and 3600000",
            ),
            (
                !(1..=self.backoff_max_ms).contains(&self.backoff_base_ms),
                "delivery.backoff_base_ms must be between 1 and delivery.backoff_max_ms",
            ),
            (
                !milliseconds.contains(&self.answer_timeout_ms),
                "delivery.answer_timeout_ms must be between 1 and 3600000",
            ),
            (
                !milliseconds.contains(&self.connect_timeout_ms),
                "delivery.connect_timeout_ms must be between 1 and 3600000",
            ),
        ];
        faults.into_iter().find_map(|(fault, text)| fault.then_some(text))
    }
}

fn or_half_of_the_cores(threads: usize) -> usize {
    match threads {
        0 => std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
        threads => threads,
    }
}

/// The line, from 1, that holds a byte.
fn line_at(text: &str, byte: usize) -> usize {
    1 + text.bytes().take(byte).filter(|byte| *byte == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn who_is_to_sign_needs_a_key() {
        let config: Config = toml::from_str("[jws]\nsign = [\"transfers\"]").expect("known words");
        let error = config.check().expect_err("there is no key").to_string();
        assert!(error.contains("jws.signing_key"), "{error}");
    }
}
