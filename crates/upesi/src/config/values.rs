//! Types of values in the configuration file.

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use events::EventKind;
use fspiop::CurrencyPair;
use fspiop::egress_policy::{Network, NoNetwork};
use ledger::{Currency, FSP_NAME_BYTES_MAX, FspName};
use serde::{Deserialize, Serialize, Serializer};
use tracing_subscriber::filter::{LevelFilter, Targets};

/// A length of time with its unit: `"1500ms"`, `"90s"`, `"15m"`, `"24h"` or `"30d"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimeSpan(pub(crate) Duration);

impl TimeSpan {
    pub(super) fn parse(text: &str) -> Option<Self> {
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

impl<'de> Deserialize<'de> for TimeSpan {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let text = format!("\"{text}\" is not a duration: write \"90s\", \"24h\" or \"30d\"");
            serde::de::Error::custom(text)
        })
    }
}

impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}ms", self.0.as_millis()))
    }
}

/// A network as the file writes it.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct NetworkEntry(pub(crate) Network);

impl TryFrom<String> for NetworkEntry {
    type Error = NoNetwork;

    fn try_from(text: String) -> Result<Self, NoNetwork> {
        text.parse().map(Self)
    }
}

impl Serialize for NetworkEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:?}", self.0))
    }
}

/// Authentication of requests to the admin API.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Auth {
    Token,
    Roles,
    None,
}

/// The reads of the admin API that are recorded in the log.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AuditedReads {
    None,
    Sensitive,
    All,
}

/// The FSPs that may change the registration of an identifier.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ownership {
    OwnerOnly,
    OwnerPerCurrency,
    LatestWins,
}

/// The lowest version of TLS.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) enum TlsVersion {
    #[serde(rename = "1.2")]
    Tls12,
    #[serde(rename = "1.3")]
    Tls13,
}

/// How the sender of a request is known.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Callers {
    Anyone,
    Certificate,
    Token,
    Gateway,
}

/// A field of a certificate that may contain the name of a participant.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CertificateName {
    Cn,
    SanDns,
    SanUri,
}

impl CertificateName {
    pub(super) const ALL: [Self; 3] = [Self::Cn, Self::SanDns, Self::SanUri];
}

/// A resource of the FSPIOP API, by its name in paths.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Resource {
    Participants,
    Parties,
    Quotes,
    BulkQuotes,
    TransactionRequests,
    Authorizations,
    Transactions,
    Transfers,
    BulkTransfers,
    Services,
}

/// The name of a participant.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String")]
pub(crate) struct ParticipantName(pub(crate) FspName);

impl TryFrom<String> for ParticipantName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let fault = || format!("\"{text}\" is not a name of 1 to {FSP_NAME_BYTES_MAX} characters");
        FspName::new(&text).map(Self).ok_or_else(fault)
    }
}

impl Serialize for ParticipantName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.as_str())
    }
}

/// A pair of currencies as the file writes it: `"USD/KES"`.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(crate) struct PairText(pub(crate) CurrencyPair);

impl TryFrom<String> for PairText {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let pair = text.split_once('/').and_then(|(source, target)| {
            let source = Currency::parse(source)?;
            Currency::parse(target).map(|target| CurrencyPair { source, target })
        });
        let fault = || format!("{text:?} is not a pair of currencies such as \"USD/KES\"");
        pair.map(Self).ok_or_else(fault)
    }
}

impl Serialize for PairText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let CurrencyPair { source, target } = self.0;
        serializer.collect_str(&format_args!("{source}/{target}"))
    }
}

/// Listener of health probes.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub(crate) enum ProbeListener {
    /// At this address.
    At(SocketAddr),
    /// No listener.
    Disabled,
}

impl TryFrom<String> for ProbeListener {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.as_str() {
            "none" => Ok(Self::Disabled),
            text => text.parse().map(Self::At).map_err(|_| {
                format!("{text:?} is not an address with a port such as 127.0.0.1:3002, or none")
            }),
        }
    }
}

impl Serialize for ProbeListener {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::At(address) => address.serialize(serializer),
            Self::Disabled => serializer.serialize_str("none"),
        }
    }
}

/// The families of names under which the reference's metrics are shown.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MojaloopNames {
    Both,
    PerService,
    Common,
    Off,
}

/// Reaction to a stuck stage.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Watchdog {
    /// `/health` and standard error name it.
    Report,
    /// The process exits too, so that a supervisor restarts it.
    Exit,
}

/// Encryption towards the mail relay.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SmtpTls {
    None,
    StartTls,
    Tls,
}

/// Protocol of the export of traces.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TraceProtocol {
    Http,
    Grpc,
}

/// Effect of the flag `sampled` of a participant.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SampledFlag {
    Ratio,
    Always,
}

/// A part of a whole, 0 to 1.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq)]
#[serde(try_from = "f64")]
pub(crate) struct Ratio(pub(crate) f64);

impl TryFrom<f64> for Ratio {
    type Error = String;

    fn try_from(value: f64) -> Result<Self, String> {
        match (0.0..=1.0).contains(&value) {
            true => Ok(Self(value)),
            false => Err(format!("{value} is not a ratio: write a number from 0.0 to 1.0")),
        }
    }
}

/// Format of log messages.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// Libraries that write log messages.
const LIBRARIES: [&str; 10] = [
    "h2",
    "hyper",
    "hyper_util",
    "fjall",
    "lsm_tree",
    "object_store",
    "reqwest",
    "rustls",
    "tonic",
    "tower",
];

/// Levels of log messages, by target.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct LogLevels {
    text: String,
    targets: Targets,
}

impl LogLevels {
    /// The levels. Messages of libraries, which a client could cause in any number, are left out
    /// unless the text names the library.
    pub(crate) fn targets(&self) -> Targets {
        let is_named = |library: &&str| self.text.split([',', '=']).any(|part| part == *library);
        let silent = LIBRARIES.iter().filter(|library| !is_named(library));
        silent
            .fold(self.targets.clone(), |all, library| all.with_target(*library, LevelFilter::OFF))
    }
}

impl Default for LogLevels {
    fn default() -> Self {
        "info".parse().expect("a level")
    }
}

impl FromStr for LogLevels {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "{text:?} is not a level: write error, warn, info, debug, trace or off, or with \
                 exceptions by target info,switch=debug"
            )
        };
        // A target alone would switch on everything of it.
        let is_level =
            |part: &str| part.rsplit('=').next().unwrap_or(part).parse::<LevelFilter>().is_ok();
        if text.is_empty() || !text.split(',').all(is_level) {
            return Err(refused());
        }
        let is_audit = |part: &str| part.split('=').next() == Some("audit");
        if text.split(',').any(|part| is_audit(part) && part != "audit=info") {
            return Err(format!("{text:?}: audit has no level; its entries are always written"));
        }
        let targets = text.parse().map_err(|_| refused())?;
        Ok(Self { text: text.to_owned(), targets })
    }
}

impl TryFrom<String> for LogLevels {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl Serialize for LogLevels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// A kind of events, by its name.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct KindName(pub(crate) EventKind);

impl TryFrom<String> for KindName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        EventKind::parse(&text).map(Self).ok_or_else(|| {
            let names = EventKind::NAMED.map(|(name, _)| name).join(", ");
            format!("\"{text}\" is not a kind of events: expected {names}")
        })
    }
}

impl From<KindName> for String {
    fn from(kind: KindName) -> Self {
        kind.0.name().to_owned()
    }
}

/// The form of events on Kafka.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Envelope {
    CloudEvents,
    Mojaloop,
}

/// The place in the log after which its first publisher begins.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EventStart {
    Beginning,
    End,
}

/// SASL mechanism, by its name in Kafka.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub(crate) enum Mechanism {
    #[default]
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    #[serde(rename = "PLAIN")]
    Plain,
}
