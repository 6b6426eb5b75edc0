//! Reports of the hub about itself, as the admin API serializes them.

use std::time::Duration;

use ledger::Stamp;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::responses::Timestamp;
use crate::schema::{Schema, response_type};

response_type! {
    /// The result of a test call to one host of a participant.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct EndpointCall as "EndpointCall" {
        /// Scheme, host and port, or the value of an endpoint that cannot be called.
        pub to: String,
        /// Types of the endpoints there.
        pub types: Vec<String>,
        /// The address that answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub address: Option<String>,
        /// The status of its response. Each one shows that the host answers.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub status: Option<u16>,
        /// Duration of the call.
        pub milliseconds: u64,
        /// Why there is no answer.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }
}

response_type! {
    /// Response of `GET /snapshots`.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct Snapshots as "Snapshots" {
        /// Snapshot files, newest first.
        #[serde(rename = "snapshots")]
        pub files: Vec<SnapshotFile>,
        /// Whether a snapshot is being taken or requested.
        pub busy: bool,
        /// Snapshots taken since the start.
        pub taken: u64,
        /// Attempts that failed since the start.
        pub failed: u64,
        /// Size of the last snapshot since the start, in bytes.
        pub last_bytes: u64,
        /// Duration of the last snapshot, in milliseconds.
        #[serde(rename = "lastMilliseconds")]
        pub last_millis: u64,
        /// Time at which it was complete.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "write_timestamp")]
        pub last_done: Option<Stamp>,
        /// Error of the last attempt, if it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }
}

response_type! {
    /// A snapshot file.
    #[derive(Clone, PartialEq, Eq)]
    pub struct SnapshotFile {
        /// Log index of the last record in it.
        pub log_index: u64,
        /// Its name.
        #[serde(rename = "file")]
        pub name: String,
    }
}

response_type! {
    /// A span of time in which a part of the hub, or a participant, processed a transfer.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Span {
        /// Start, nanoseconds of the machine's monotonic clock.
        #[serde(rename = "start")]
        pub start_ns: u64,
        /// End, not before the start.
        #[serde(rename = "end")]
        pub end_ns: u64,
        /// The message and the processing step.
        pub label: String,
    }
}

/// The latency trace of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferTrace {
    /// Stages of work, in order of their starts; empty unless the complete trace is in memory.
    pub stages: Vec<Span>,
    /// Stages of waiting, in order of their starts.
    pub waits: Vec<Span>,
    /// How far back traces reach, if older ones were dropped.
    pub retained: Option<Duration>,
    /// The transfer is not complete; open stages end now.
    pub under_way: bool,
}

/// Status of a part of the hub.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ServiceStatus {
    /// Working.
    Ok,
    /// Stopped or stalled.
    Down,
}

/// Response of `GET /health` (hub-semantics 8.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Version of the program.
    pub version: &'static str,
    /// Start time of the process.
    pub started: Stamp,
    /// Time since the start of the process.
    pub uptime: Duration,
    /// The state and its store.
    pub datastore: ServiceStatus,
    /// The log: down if it has stopped or is stalled, because no command can be accepted then.
    pub broker: ServiceStatus,
    /// Stalled stages.
    pub stuck: Vec<StuckStage>,
    /// Participants that accept no notices. They do not affect the hub's health.
    pub stalled_lanes: StalledLanes,
    /// Participants that do not respond, so that forwards fail at once. No effect on health either.
    pub open_breakers: OpenBreakers,
}

response_type! {
    /// Lanes with pending notices and no deliveries.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct StalledLanes {
        /// Their number.
        pub count: u64,
        /// Pending notices in all of them.
        pub owed: u64,
        /// The lanes with the most pending notices, up to a limit.
        #[serde(rename = "lanes")]
        pub shown: Vec<StalledLane> = bounded_list::<StalledLane>(),
    }
}

response_type! {
    /// A lane with pending notices and no deliveries.
    #[derive(Clone, PartialEq, Eq)]
    pub struct StalledLane {
        /// Participant of the lane.
        pub participant: String,
        /// Pending notices.
        pub owed: u64,
        /// Time since which no notice has been delivered.
        #[serde(serialize_with = "write_timestamp")]
        pub since: Stamp,
        /// The same as a duration.
        #[serde(rename = "seconds", serialize_with = "write_seconds")]
        pub idle: Duration,
        /// Result of the last attempt, as text.
        pub last_attempt: String,
    }
}

response_type! {
    /// Open circuit breakers of forwards.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct OpenBreakers {
        /// Their number.
        pub count: u64,
        /// The breakers that opened first, up to a limit.
        #[serde(rename = "breakers")]
        pub shown: Vec<OpenBreaker> = bounded_list::<OpenBreaker>(),
    }
}

response_type! {
    /// An open circuit breaker.
    #[derive(Clone, PartialEq, Eq)]
    pub struct OpenBreaker {
        /// The participant that does not respond.
        pub participant: String,
        /// Time at which it opened.
        #[serde(serialize_with = "write_timestamp")]
        pub since: Stamp,
        /// Consecutive forwards without an HTTP response.
        pub failures: u32,
    }
}

impl Health {
    /// Whether all parts are healthy.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.parts_down() == 0
    }

    /// Number of unhealthy parts.
    pub(crate) fn parts_down(&self) -> u64 {
        let services = [self.datastore, self.broker];
        let down = services.into_iter().filter(|service| *service == ServiceStatus::Down);
        (down.count() + self.stuck.len()) as u64
    }
}

response_type! {
    /// A stage that has work but makes no progress.
    #[derive(Clone, PartialEq, Eq)]
    pub struct StuckStage {
        /// Its name: `sequencer`, `log`, `store`, `expiry`, `io-0`, `lane dfsp1`.
        #[serde(rename = "stage")]
        pub name: String,
        /// Time without progress.
        #[serde(rename = "seconds", serialize_with = "write_seconds")]
        pub idle: Duration,
        /// Its pending work.
        pub detail: String,
    }
}

/// Status of the disk of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskUse {
    /// Enough free space.
    #[default]
    Ok,
    /// Less than 10 % free, or full within 3 days at the present growth.
    Low,
    /// Less than 5 % free, or full within 1 day.
    Critical,
    /// Full: commands are refused.
    Full,
}

impl DiskUse {
    /// Its name in responses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Low => "LOW",
            Self::Critical => "CRITICAL",
            Self::Full => "FULL",
        }
    }
}

response_type! {
    /// Response of `GET /cluster`.
    #[derive(Clone, Default, PartialEq, Eq, Deserialize)]
    pub struct Cluster as "Cluster" {
        /// The queried node.
        pub node: String,
        /// Log index of the last record that it has applied.
        pub log_index: u64,
        /// Messages of the topic that it has not applied, as of its last poll.
        pub behind: u64,
        /// Time since the brokers delivered a message, in milliseconds.
        #[serde(rename = "unheardMilliseconds")]
        pub unheard_ms: u64,
        /// Part of the brokers' clock that is discarded as implausible, in milliseconds.
        #[serde(rename = "heldMilliseconds")]
        pub held_ms: u64,
        /// Foreign messages that it has read in the topic since it started.
        #[serde(rename = "foreignMessages")]
        pub foreign: u64,
        /// Log index of the last record after which another node reported the same state.
        #[serde(rename = "sameStateAt", skip_serializing_if = "Option::is_none")]
        pub agreed_at: Option<u64>,
        /// The live nodes.
        pub nodes: Vec<ClusterNode>,
        /// Participants, and the node that delivers to each.
        pub lanes: Vec<ClusterLane>,
        /// The last removal of nodes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_takeover: Option<Takeover>,
    }
}

response_type! {
    /// A live node.
    #[derive(Clone, Default, PartialEq, Eq, Deserialize)]
    pub struct ClusterNode {
        /// Its name.
        pub name: String,
        /// Its epoch.
        pub epoch: u32,
        /// Log index of the last record that it has applied, by its last report.
        pub log_index: u64,
        /// Time since its last write, in milliseconds.
        #[serde(rename = "silentMilliseconds")]
        pub silent_ms: u64,
        /// The newest rules version that it knows, by its last report.
        #[serde(rename = "rulesKnown")]
        pub rules: u32,
        /// Log index at which its state differed from that of the queried node.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub contradicts_at: Option<u64>,
    }
}

response_type! {
    /// The node that delivers to a participant.
    #[derive(Clone, PartialEq, Eq, Deserialize)]
    pub struct ClusterLane {
        /// The participant.
        pub participant: String,
        /// The node.
        pub node: String,
    }
}

response_type! {
    /// The removal of nodes that stopped writing.
    #[derive(Clone, PartialEq, Eq, Deserialize)]
    pub struct Takeover {
        /// Log index of the record that removed them.
        pub log_index: u64,
        /// Its time.
        #[serde(
            rename = "time",
            serialize_with = "write_timestamp",
            deserialize_with = "read_timestamp"
        )]
        pub at: Stamp,
        /// Their names.
        pub gone: Vec<String>,
    }
}

response_type! {
    /// Response of `GET /storage`.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct DiskStatus {
        /// Status of the disk.
        #[serde(skip)]
        pub fullness: DiskUse = Value::Null,
        /// Bytes of the log in its directory, with the compressed size of compressed segments.
        pub log_bytes: u64,
        /// Segments in the directory.
        pub log_segments: u64,
        /// Bytes of the log that are in the archive only, with the compressed size.
        pub archived_bytes: u64,
        /// Segments that are in the archive only.
        pub archived_segments: u64,
        /// Bytes of the cold store.
        pub store_bytes: u64,
        /// Size of the disk in bytes.
        pub disk_bytes: u64,
        /// Free bytes on the disk.
        pub free_bytes: u64,
        /// Growth of the log over the last day, archived or not, and of the store in proportion;
        /// `None` during the first 10 minutes.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub growth_bytes_per_day: Option<u64>,
        /// Hours until the disk is full at that growth, if nothing is archived.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hours_until_full: Option<u64>,
        /// Reason why log or store cannot be written or read, or their disk cannot be inspected.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failing: Option<String>,
        /// The archive job, if configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub archive: Option<BackgroundJob>,
        /// The backup job, if configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub backup: Option<BackgroundJob>,
        /// The publication of signed chain heads, if configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub chain_heads: Option<BackgroundJob>,
        /// The job that erases message contents.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub erasure: Option<BackgroundJob>,
        /// The job that makes data keys, if the directory is encrypted.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub encryption: Option<BackgroundJob>,
        /// The job that orders erasures by age, if configured.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub retention: Option<BackgroundJob>,
    }
}

/// Values of [`DiskStatus::status`].
pub(crate) const STATUSES: [&str; 5] = ["OK", "LOW", "CRITICAL", "FULL", FAILING];
const FAILING: &str = "FAILING";

impl DiskStatus {
    /// The overall status as one word.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match (self.fullness, &self.failing) {
            (DiskUse::Full, _) | (_, None) => self.fullness.name(),
            (_, Some(_)) => FAILING,
        }
    }
}

response_type! {
    /// A background job that copies the log to another place.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct BackgroundJob {
        /// Time of the last success since the start.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "write_timestamp")]
        pub last_done: Option<Stamp>,
        /// Log index of the last copied record; 0 if unknown.
        pub log_index: u64,
        /// Error of the last run, if it failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failing: Option<String>,
    }
}

/// A list that is cut at a limit.
fn bounded_list<T: Schema>() -> Value {
    json!({"type": "array", "maxItems": 100, "items": T::schema()})
}

pub(crate) fn write_timestamp<S: Serializer>(
    at: &(impl Copy + Into<Option<Stamp>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*at).into().map(Timestamp).serialize(serializer)
}

fn read_timestamp<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let millis = fspiop::time::parse_date_time(&text);
    millis.map(Stamp::from_millis).ok_or_else(|| D::Error::custom("not a time"))
}

fn write_seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_secs())
}
