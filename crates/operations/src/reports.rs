//! What the hub reports of itself, and how the admin API writes it.

use std::time::Duration;

use ledger::Stamp;
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use crate::responses::Moment;
use crate::schema::{Schema, shape};

shape! {
    /// What `GET /snapshots` says.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct Snapshots as "Snapshots" {
        /// Its files, newest first.
        #[serde(rename = "snapshots")]
        pub files: Vec<SnapshotFile>,
        /// Whether one is being taken, or will be at once.
        pub busy: bool,
        /// Taken since the start.
        pub taken: u64,
        /// Attempts that failed since the start.
        pub failed: u64,
        /// Length of the last one taken since the start, in bytes.
        pub last_bytes: u64,
        /// How long that took, in milliseconds.
        #[serde(rename = "lastMilliseconds")]
        pub last_millis: u64,
        /// Why the last attempt failed, if it did.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub error: Option<String>,
    }
}

shape! {
    /// A state stored beside the log.
    #[derive(Clone, PartialEq, Eq)]
    pub struct SnapshotFile {
        /// The last record that counts.
        pub log_index: u64,
        /// Its name.
        #[serde(rename = "file")]
        pub name: String,
    }
}

shape! {
    /// A span of time in which a part of the hub, or a participant, had a transfer in its hands.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Span {
        /// Start, nanoseconds of the machine's monotonic clock.
        #[serde(rename = "start")]
        pub start_ns: u64,
        /// End, not before the start.
        #[serde(rename = "end")]
        pub end_ns: u64,
        /// Which message and what was done to it.
        pub label: String,
    }
}

/// What was noted of a transfer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransferTrace {
    /// Where somebody worked on it, in order of their starts; empty unless all is still kept.
    pub stages: Vec<Span>,
    /// Where it waited for somebody, in order of their starts.
    pub waits: Vec<Span>,
    /// How far back notes reach, if older ones have made room.
    pub reach: Option<Duration>,
    /// Not all of it has come to its end; what is open is told up to now.
    pub under_way: bool,
}

/// Whether a part of the hub works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ServiceStatus {
    /// It works.
    Ok,
    /// It does not.
    Down,
}

/// What `GET /health` says (hub-semantics 8.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Version of the program.
    pub version: &'static str,
    /// When the process started.
    pub started: Stamp,
    /// How long it has been running.
    pub uptime: Duration,
    /// The state and what it is stored in.
    pub datastore: ServiceStatus,
    /// The log: down when it has stopped or is stuck, for then nothing can be accepted.
    pub broker: ServiceStatus,
    /// Stages that have work and make no progress; empty while all is well.
    pub stuck: Vec<StuckStage>,
    /// Participants that take no notice: no fault of the hub, which stays well.
    pub stalled_lanes: StalledLanes,
    /// Participants to which forwards fail at once, as they do not answer: no fault either.
    pub open_breakers: OpenBreakers,
}

shape! {
    /// Lanes in which notices are owed and none is delivered.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct StalledLanes {
        /// How many there are.
        pub count: u64,
        /// Notices owed to all of them.
        pub owed: u64,
        /// Those that are owed most; not all when there are many.
        #[serde(rename = "lanes")]
        pub shown: Vec<StalledLane> = some::<StalledLane>(),
    }
}

shape! {
    /// A lane in which notices are owed and none is delivered.
    #[derive(Clone, PartialEq, Eq)]
    pub struct StalledLane {
        /// Whose it is.
        pub participant: String,
        /// Notices owed.
        pub owed: u64,
        /// Since when none has been delivered.
        #[serde(serialize_with = "moment")]
        pub since: Stamp,
        /// The same as a duration.
        #[serde(rename = "seconds", serialize_with = "seconds")]
        pub idle: Duration,
        /// How the last attempt ended, in words.
        pub last_attempt: String,
    }
}

shape! {
    /// Circuit breakers of forwards that are open.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct OpenBreakers {
        /// How many there are.
        pub count: u64,
        /// Those that opened first; not all when there are many.
        #[serde(rename = "breakers")]
        pub shown: Vec<OpenBreaker> = some::<OpenBreaker>(),
    }
}

shape! {
    /// A circuit breaker that is open.
    #[derive(Clone, PartialEq, Eq)]
    pub struct OpenBreaker {
        /// Who does not answer.
        pub participant: String,
        /// When it opened.
        #[serde(serialize_with = "moment")]
        pub since: Stamp,
        /// Forwards in a row without an HTTP answer.
        pub failures: u32,
    }
}

impl Health {
    /// Whether every part works.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.parts_down() == 0
    }

    /// How many parts do not.
    pub(crate) fn parts_down(&self) -> u64 {
        let services = [self.datastore, self.broker];
        let down = services.into_iter().filter(|service| *service == ServiceStatus::Down);
        (down.count() + self.stuck.len()) as u64
    }
}

shape! {
    /// A stage that has work and makes no progress.
    #[derive(Clone, PartialEq, Eq)]
    pub struct StuckStage {
        /// Its name: `sequencer`, `log`, `store`, `expiry`, `io-0`, `lane dfsp1`.
        #[serde(rename = "stage")]
        pub name: String,
        /// For how long.
        #[serde(rename = "seconds", serialize_with = "seconds")]
        pub idle: Duration,
        /// What it should be doing.
        pub detail: String,
    }
}

/// How full the disk of the log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskUse {
    /// There is room.
    #[default]
    Ok,
    /// Below a tenth free, or full within three days at the present growth.
    Low,
    /// Below a twentieth free, or full within a day.
    Critical,
    /// No room: commands are refused.
    Full,
}

impl DiskUse {
    /// Its name in answers.
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

shape! {
    /// What `GET /cluster` says.
    #[derive(Clone, Default, PartialEq, Eq, Deserialize)]
    pub struct Cluster as "Cluster" {
        /// The node that was asked.
        pub node: String,
        /// The last record that it has applied.
        pub log_index: u64,
        /// Messages of the topic that it has not applied, as of its last look.
        pub behind: u64,
        /// How long ago the brokers handed out a message, in milliseconds.
        #[serde(rename = "unheardMilliseconds")]
        pub unheard_ms: u64,
        /// How much of the brokers' time is not believed, in milliseconds.
        #[serde(rename = "heldMilliseconds")]
        pub held_ms: u64,
        /// Messages of somebody else in the topic, as far as it has met them since it started.
        #[serde(rename = "foreignMessages")]
        pub foreign: u64,
        /// The last record after which another node said to have the same state.
        #[serde(rename = "sameStateAt", skip_serializing_if = "Option::is_none")]
        pub agreed_at: Option<u64>,
        /// The nodes that are there.
        pub nodes: Vec<ClusterNode>,
        /// Participants, and the node that sends to each.
        pub lanes: Vec<ClusterLane>,
        /// When nodes were last found to be gone.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub last_takeover: Option<Takeover>,
    }
}

shape! {
    /// A node that is there.
    #[derive(Clone, Default, PartialEq, Eq, Deserialize)]
    pub struct ClusterNode {
        /// Its name.
        pub name: String,
        /// Its life.
        pub epoch: u32,
        /// Up to where it has applied the log, as it said last.
        pub log_index: u64,
        /// How long ago it wrote last, in milliseconds.
        #[serde(rename = "silentMilliseconds")]
        pub silent_ms: u64,
        /// The newest rules that it knows, as it said last.
        #[serde(rename = "rulesKnown")]
        pub rules: u32,
        /// Where it was found to have decided otherwise than the node that was asked.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub contradicts_at: Option<u64>,
    }
}

shape! {
    /// Whose callbacks are sent from where.
    #[derive(Clone, PartialEq, Eq, Deserialize)]
    pub struct ClusterLane {
        /// The participant.
        pub participant: String,
        /// The node.
        pub node: String,
    }
}

shape! {
    /// Nodes were found to be gone.
    #[derive(Clone, PartialEq, Eq, Deserialize)]
    pub struct Takeover {
        /// The record by which they were.
        pub log_index: u64,
        /// When.
        #[serde(rename = "time", serialize_with = "moment", deserialize_with = "read_moment")]
        pub at: Stamp,
        /// Their names.
        pub gone: Vec<String>,
    }
}

shape! {
    /// What `GET /storage` says.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct DiskStatus {
        /// How full the disk is.
        #[serde(skip)]
        pub fullness: DiskUse = Value::Null,
        /// Bytes of the log in its directory, compressed segments as they are.
        pub log_bytes: u64,
        /// Segments in the directory.
        pub log_segments: u64,
        /// Bytes of the log that are in an archive only, as they are there.
        pub archived_bytes: u64,
        /// Segments that are in an archive only.
        pub archived_segments: u64,
        /// Bytes of the cold store.
        pub store_bytes: u64,
        /// Bytes of the disk.
        pub disk_bytes: u64,
        /// Bytes that can still be written.
        pub free_bytes: u64,
        /// Growth of the log, archived or not, over the last day, or over what is known of it, and
        /// of the store in proportion; `None` while less than ten minutes are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub growth_bytes_per_day: Option<u64>,
        /// When the disk is full at that growth, if nothing is moved away.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub hours_until_full: Option<u64>,
        /// Why log or store cannot be written or read at the moment, or their disk not be looked
        /// at.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failing: Option<String>,
        /// The archive, if there is to be one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub archive: Option<BackgroundJob>,
        /// The copy, if there is to be one.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub backup: Option<BackgroundJob>,
    }
}

/// What [`DiskStatus::status`] can be.
pub(crate) const STATUSES: [&str; 5] = ["OK", "LOW", "CRITICAL", "FULL", FAILING];
const FAILING: &str = "FAILING";

impl DiskStatus {
    /// One word for all of it, the same wherever it is shown.
    #[must_use]
    pub fn status(&self) -> &'static str {
        match (self.fullness, &self.failing) {
            (DiskUse::Full, _) | (_, None) => self.fullness.name(),
            (_, Some(_)) => FAILING,
        }
    }
}

shape! {
    /// Work beside the log, towards another place.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct BackgroundJob {
        /// When it went well the last time; `None` if it did not since the start.
        #[serde(skip_serializing_if = "Option::is_none", serialize_with = "moment")]
        pub last_done: Option<Stamp>,
        /// The last record that is there; 0 if it is not known.
        pub log_index: u64,
        /// Why it does not go well at the moment.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failing: Option<String>,
    }
}

/// A list that shows the first ones.
fn some<T: Schema>() -> Value {
    json!({"type": "array", "maxItems": 100, "items": T::schema()})
}

fn moment<S: Serializer>(
    at: &(impl Copy + Into<Option<Stamp>>),
    serializer: S,
) -> Result<S::Ok, S::Error> {
    (*at).into().map(Moment).serialize(serializer)
}

fn read_moment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
    let text = String::deserialize(deserializer)?;
    let millis = fspiop::time::parse_date_time(&text);
    millis.map(Stamp::from_millis).ok_or_else(|| D::Error::custom("no moment"))
}

fn seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(span.as_secs())
}
