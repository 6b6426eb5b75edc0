//! `GET /status`: the hub on one page. An addition to the reference's API.
//!
//! Costs: values that the hub has measured or copied anyway; no query of the state. Bounds: lists
//! have at most [`LISTED_MAX`] or [`HISTORY_MAX`] entries.

use bytes::Bytes;
use ledger::{Amount, Stamp};
use openapi::schema::reference;
use serde::{Serialize as _, Serializer};
use serde_json::{Value, json};

use crate::backend::AdminBackend;
use crate::events::{EventPublishing, accepts_stream};
use crate::outcome_errors;
use crate::reports::{
    BackgroundJob, Cluster, DiskStatus, Health, STATUSES, ServiceStatus, Snapshots, write_timestamp,
};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{JsonNumber, Timestamp};
use crate::route::routes;
use crate::schema::{self, Schema, response_type};

/// Maximum number of participants in a list.
pub const LISTED_MAX: usize = 10;
/// Maximum number of seconds in the history.
pub const HISTORY_MAX: usize = 60;
/// Silence of the brokers that is an alarm. Each node writes once a second.
const BROKER_SILENCE_MS: u64 = 3_000;
/// The stages that are always listed. Numbers and names are left out: `io` for `io-0`.
const STAGES: [&str; 6] = ["sequencer", "log", "store", "expiry", "io", "lane"];

routes! {
    "/status" {
        read GET status = show, "Show health, rate, queues and alarms" {
            text: "\
                The hub on one page. `rate` has transfers per second and the time from \
                reservation to commit over the last 10 s, `history` the same for each of the \
                last 60 s, oldest first. Quantiles are at most 9 % too high; they are absent if \
                nothing was committed. `queues` lists the 10 participants with the most owed \
                notices. `nearCap` lists the 10 participants and currencies that use the highest \
                share of the net debit cap or the liquidity cover, whichever is lower. `alarms` \
                lists what an operator should look at, critical ones first. Lists of \
                participants are at most 1 s old, `storage` at most 10 s. With `Accept: \
                text/event-stream` the response is a stream of server-sent events: the same \
                object at once and each second. It ends after 60 s; connect again then. At most \
                32 clients can follow; one more gets 503.",
            responses: [200: StatusResponse = "The status, also if the hub is not healthy."],
        }
    }
}

response_type! {
    struct StatusResponse<'a> as "Status" {
        status: ServiceStatus,
        version: &'static str,
        start_time: Timestamp,
        uptime_seconds: u64,
        alarms: Vec<Alarm>,
        stages: Vec<StageResponse>,
        storage: StorageSummary<'a>,
        snapshot: SnapshotSummary<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        archive: Option<JobSummary<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        backup: Option<JobSummary<'a>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cluster: Option<&'a Cluster>,
        #[serde(skip_serializing_if = "Option::is_none")]
        event_publishing: Option<&'a EventPublishing>,
        #[serde(flatten)]
        activity: &'a Activity,
    }
}

response_type! {
    /// A stage, or a group of stages of one kind.
    struct StageResponse {
        name: &'static str,
        status: ServiceStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        detail: Option<String>,
    }
}

response_type! {
    /// Something that an operator should look at.
    struct Alarm {
        severity: &'static str = schema::one_of(&[CRITICAL, WARNING]),
        subject: &'static str,
        text: String,
    }
}

const CRITICAL: &str = "CRITICAL";
const WARNING: &str = "WARNING";

response_type! {
    /// Disk space.
    struct StorageSummary<'a> {
        status: &'static str = schema::one_of(&STATUSES),
        log_bytes: u64,
        store_bytes: u64,
        free_bytes: u64,
        disk_bytes: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        hours_until_full: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        failing: Option<&'a str>,
    }
}

response_type! {
    /// The newest snapshot.
    struct SnapshotSummary<'a> {
        #[serde(skip_serializing_if = "Option::is_none")]
        log_index: Option<u64>,
        /// Records of the log that are not in it.
        records_after: u64,
        /// Absent if none was taken since the start.
        #[serde(skip_serializing_if = "Option::is_none")]
        age_seconds: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        failing: Option<&'a str>,
    }
}

response_type! {
    /// A background job that copies the log.
    struct JobSummary<'a> {
        log_index: u64,
        records_after: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        age_seconds: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        failing: Option<&'a str>,
    }
}

response_type! {
    /// Figures of the last seconds, and the queues.
    #[derive(Clone, Default, PartialEq)]
    pub struct Activity {
        /// Time of the figures.
        #[serde(serialize_with = "write_timestamp")]
        pub time: Stamp,
        /// The log.
        pub log: LogActivity,
        /// Transfers of the last 10 s.
        pub rate: Rate,
        /// The same for each of the last 60 s, oldest first.
        pub history: Vec<Rate> = bounded_list::<Rate>(HISTORY_MAX),
        /// Transfers by state.
        pub transfers: TransferCounts,
        /// Notices that the hub owes to participants.
        pub queues: Queues,
        /// Notices that were given up, and can be resent.
        pub dead_letters: u64,
        /// Participants nearest their cap or cover, highest use first.
        pub near_cap: Vec<CapUse> = bounded_list::<CapUse>(LISTED_MAX),
        /// Participants and currencies whose liquidity alarm is raised.
        pub liquidity_alarms: u64,
    }
}

response_type! {
    /// The log.
    #[derive(Clone, Default, PartialEq)]
    pub struct LogActivity {
        /// Log index of the last applied record.
        pub index: u64,
        /// Log index up to which the cold store is complete.
        pub store_index: u64,
        /// Records per second over the last 10 s.
        pub records: f64,
        /// Median of the syncs of the last 10 s.
        #[serde(rename = "syncP50Milliseconds", skip_serializing_if = "Option::is_none")]
        pub sync_p50_ms: Option<f64>,
        /// 99th percentile of the syncs of the last 10 s.
        #[serde(rename = "syncP99Milliseconds", skip_serializing_if = "Option::is_none")]
        pub sync_p99_ms: Option<f64>,
    }
}

response_type! {
    /// Transfers per second, and their time from reservation to commit.
    #[derive(Clone, Default, PartialEq)]
    pub struct Rate {
        /// Length of the period; 0 right after a start.
        pub seconds: f64,
        /// Transfers reserved per second.
        pub reserved: f64,
        /// Transfers committed per second.
        pub committed: f64,
        /// Transfers aborted per second.
        pub aborted: f64,
        /// Prepares refused per second.
        pub refused: f64,
        /// Transfers expired per second.
        pub expired: f64,
        /// Median time from reservation to commit.
        #[serde(rename = "commitP50Milliseconds", skip_serializing_if = "Option::is_none")]
        pub commit_p50_ms: Option<f64>,
        /// 99th percentile of the same.
        #[serde(rename = "commitP99Milliseconds", skip_serializing_if = "Option::is_none")]
        pub commit_p99_ms: Option<f64>,
    }
}

response_type! {
    /// Transfers by state, over the whole log.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct TransferCounts {
        /// Reserved and not final.
        pub in_flight: u64,
        /// Reserved, since the log began.
        pub reserved: u64,
        /// Committed.
        pub committed: u64,
        /// Aborted.
        pub aborted: u64,
        /// Refused prepares.
        pub refused: u64,
        /// Expired.
        pub expired: u64,
    }
}

response_type! {
    /// Notices that the hub owes to participants.
    #[derive(Clone, Default, PartialEq, Eq)]
    pub struct Queues {
        /// All of them.
        pub owed: u64,
        /// Age of the oldest one.
        pub oldest_seconds: u64,
        /// Those that wait until their recipient registers an endpoint.
        pub without_endpoint: u64,
        /// The longest queues.
        pub participants: Vec<Queue> = bounded_list::<Queue>(LISTED_MAX),
    }
}

response_type! {
    /// The queue of a participant.
    #[derive(Clone, PartialEq, Eq)]
    pub struct Queue {
        /// The participant.
        pub participant: String,
        /// Notices owed to it.
        pub owed: u64,
        /// Age of the oldest one; absent if it is not among the 10,000 oldest of all.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub oldest_seconds: Option<u64>,
    }
}

response_type! {
    /// Use of a net debit cap or of a liquidity cover.
    #[derive(Clone, PartialEq, Eq)]
    pub struct CapUse {
        /// The participant.
        pub participant: String,
        /// The currency.
        pub currency: String = schema::currency(),
        /// Its position.
        #[serde(serialize_with = "write_amount")]
        pub position: Amount = reference("Number"),
        /// The net debit cap or the liquidity cover, whichever is lower.
        #[serde(serialize_with = "write_amount")]
        pub effective_cap: Amount = reference("Number"),
        /// `cap` or `cover`.
        pub limited_by: &'static str = schema::one_of(&["cap", "cover"]),
        /// Amount that it can still send.
        #[serde(serialize_with = "write_amount")]
        pub headroom: Amount = reference("Number"),
        /// Position in percent of the effective cap, rounded down.
        pub percent_used: u64,
    }
}

/// `GET /status`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    if accepts_stream(request.headers) {
        let stream = request.status_feed.follow(request.hub);
        let stream = stream.map_err(outcome_errors::from_unavailable)?;
        return Ok(AdminResponse::status_stream(stream));
    }
    Ok(AdminResponse::document(text(request.backend)))
}

/// The status as JSON, on one line.
pub(crate) fn text(backend: &dyn AdminBackend) -> Bytes {
    let (health, storage, snapshots) = (backend.health(), backend.storage(), backend.snapshots());
    let (activity, cluster) = (backend.activity(), backend.cluster());
    let publishing = backend.event_publishing();
    let cluster = Some(&cluster).filter(|cluster| !cluster.nodes.is_empty());
    let response = StatusResponse {
        status: if health.is_well() { ServiceStatus::Ok } else { ServiceStatus::Down },
        version: health.version,
        start_time: Timestamp(health.started),
        uptime_seconds: health.uptime.as_secs(),
        alarms: alarms(&health, (&storage, &snapshots, &publishing), (&activity, cluster)),
        stages: stages(&health),
        storage: StorageSummary::of(&storage),
        snapshot: SnapshotSummary::of(&snapshots, &activity),
        archive: storage.archive.as_ref().map(|job| JobSummary::of(job, &activity)),
        backup: storage.backup.as_ref().map(|job| JobSummary::of(job, &activity)),
        cluster,
        event_publishing: publishing.as_ref(),
        activity: &activity,
    };
    serde_json::to_vec(&response).expect("a response is always writable").into()
}

/// The status of each stage; the detail is that of the first stuck stage of its kind.
fn stages(health: &Health) -> Vec<StageResponse> {
    let stage = |name: &'static str| {
        let kind = |stuck: &str| stuck.split([' ', '-']).next() == Some(name);
        let stuck = health.stuck.iter().find(|stuck| kind(&stuck.name));
        let is_log_down = name == "log" && health.broker == ServiceStatus::Down;
        let is_store_down = name == "store" && health.datastore == ServiceStatus::Down;
        let is_down = stuck.is_some() || is_log_down || is_store_down;
        StageResponse {
            name,
            status: if is_down { ServiceStatus::Down } else { ServiceStatus::Ok },
            detail: stuck.map(|stuck| {
                format!("{}, {} s: {}", stuck.name, stuck.idle.as_secs(), stuck.detail)
            }),
        }
    };
    STAGES.into_iter().map(stage).collect()
}

/// All alarms, critical ones first.
fn alarms(
    health: &Health,
    (storage, snapshots, publishing): (&DiskStatus, &Snapshots, &Option<EventPublishing>),
    (activity, cluster): (&Activity, Option<&Cluster>),
) -> Vec<Alarm> {
    let mut alarms = Vec::new();
    let mut add = |severity, subject, text: String| alarms.push(Alarm { severity, subject, text });
    for stuck in &health.stuck {
        let (name, seconds) = (&stuck.name, stuck.idle.as_secs());
        add(CRITICAL, "stage", format!("{name} is stuck for {seconds} s: {}", stuck.detail));
    }
    if health.datastore == ServiceStatus::Down {
        add(CRITICAL, "store", "the state or its store has stopped".to_owned());
    }
    if health.broker == ServiceStatus::Down {
        add(CRITICAL, "log", "the log accepts no records".to_owned());
    }
    match storage.status() {
        "OK" => {}
        "LOW" => add(WARNING, "disk", space(storage)),
        _ => add(CRITICAL, "disk", space(storage)),
    }
    if let Some(cluster) = cluster {
        for node in cluster.nodes.iter().filter(|node| node.contradicts_at.is_some()) {
            add(CRITICAL, "cluster", format!("the state of node {} differs", node.name));
        }
        if BROKER_SILENCE_MS <= cluster.unheard_ms {
            let seconds = cluster.unheard_ms / 1_000;
            add(CRITICAL, "cluster", format!("no message from the brokers for {seconds} s"));
        }
    }
    let jobs = [
        ("archive", storage.archive.as_ref().and_then(|job| job.failing.as_ref())),
        ("backup", storage.backup.as_ref().and_then(|job| job.failing.as_ref())),
        ("erasure", storage.erasure.as_ref().and_then(|job| job.failing.as_ref())),
        ("encryption", storage.encryption.as_ref().and_then(|job| job.failing.as_ref())),
        ("retention", storage.retention.as_ref().and_then(|job| job.failing.as_ref())),
        ("chain heads", storage.chain_heads.as_ref().and_then(|job| job.failing.as_ref())),
        ("snapshot", snapshots.error.as_ref()),
        ("events", publishing.as_ref().and_then(|it| it.failing.as_ref())),
    ];
    for (subject, failing) in jobs {
        failing.into_iter().for_each(|why| add(WARNING, subject, why.clone()));
    }
    of_participants(health, activity, &mut add);
    alarms
}

fn of_participants(
    health: &Health,
    activity: &Activity,
    add: &mut impl FnMut(&'static str, &'static str, String),
) {
    let (lanes, breakers) = (&health.stalled_lanes, &health.open_breakers);
    if 0 < lanes.count {
        let names = names(lanes.shown.iter().map(|lane| &*lane.participant), lanes.count);
        add(WARNING, "callbacks", format!("not delivered for 5 s or longer: {names}"));
    }
    if 0 < breakers.count {
        let names = names(breakers.shown.iter().map(|open| &*open.participant), breakers.count);
        add(WARNING, "forwards", format!("fail at once, because these do not respond: {names}"));
    }
    let counts = [
        ("dead letters", activity.dead_letters, "notices that were given up"),
        ("endpoints", activity.queues.without_endpoint, "notices without an endpoint"),
        ("liquidity", activity.liquidity_alarms, "positions at their alarm threshold"),
    ];
    for (subject, count, text) in counts.into_iter().filter(|(_, count, _)| 0 < *count) {
        add(WARNING, subject, format!("{text}: {count}"));
    }
}

/// The first names, and how many more there are.
fn names<'a>(shown: impl Iterator<Item = &'a str>, count: u64) -> String {
    let shown: Vec<_> = shown.take(LISTED_MAX).collect();
    match count.saturating_sub(shown.len() as u64) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

fn space(storage: &DiskStatus) -> String {
    let free = storage.free_bytes >> 20;
    match (&storage.failing, storage.hours_until_full) {
        (Some(failing), _) => failing.clone(),
        (None, Some(hours)) => format!("{free} MiB free, full in {hours} h"),
        (None, None) => format!("{free} MiB free"),
    }
}

impl<'a> StorageSummary<'a> {
    fn of(storage: &'a DiskStatus) -> Self {
        Self {
            status: storage.status(),
            log_bytes: storage.log_bytes,
            store_bytes: storage.store_bytes,
            free_bytes: storage.free_bytes,
            disk_bytes: storage.disk_bytes,
            hours_until_full: storage.hours_until_full,
            failing: storage.failing.as_deref(),
        }
    }
}

impl<'a> SnapshotSummary<'a> {
    fn of(snapshots: &'a Snapshots, activity: &Activity) -> Self {
        let log_index = snapshots.files.first().map(|file| file.log_index);
        Self {
            log_index,
            records_after: activity.log.index.saturating_sub(log_index.unwrap_or(0)),
            age_seconds: snapshots.last_done.map(|at| age_seconds(at, activity)),
            failing: snapshots.error.as_deref(),
        }
    }
}

impl<'a> JobSummary<'a> {
    fn of(job: &'a BackgroundJob, activity: &Activity) -> Self {
        Self {
            log_index: job.log_index,
            records_after: activity.log.index.saturating_sub(job.log_index),
            age_seconds: job.last_done.map(|at| age_seconds(at, activity)),
            failing: job.failing.as_deref(),
        }
    }
}

fn age_seconds(at: Stamp, activity: &Activity) -> u64 {
    activity.time.0.saturating_sub(at.0) / 1_000_000
}

fn bounded_list<T: Schema>(most: usize) -> Value {
    json!({"type": "array", "maxItems": most, "items": T::schema()})
}

fn write_amount<S: Serializer>(amount: &Amount, serializer: S) -> Result<S::Ok, S::Error> {
    JsonNumber(*amount).serialize(serializer)
}
