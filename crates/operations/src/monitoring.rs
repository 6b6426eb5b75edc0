//! `GET /health` (hub-semantics 8.4), `GET /metrics` (8.3, Prometheus text) and `GET /state`.

use std::fmt::Write;
use std::fs;

use http::StatusCode;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::hub::{
    Health, Metrics, OpenBreaker, ServiceStatus, Snapshots, StalledLane, Storage, StuckStage,
};
use crate::shapes::Moment;
use crate::storage;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HealthShape {
    status: &'static str,
    uptime: Box<RawValue>,
    start_time: Moment,
    version_number: &'static str,
    services: Vec<ServiceShape>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stuck: Vec<StuckShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stalled_lanes: Option<StalledLanesShape>,
    #[serde(skip_serializing_if = "Option::is_none")]
    open_breakers: Option<OpenBreakersShape>,
    storage: &'static str,
}

#[derive(Serialize)]
struct StalledLanesShape {
    count: u64,
    owed: u64,
    lanes: Vec<StalledLaneShape>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StalledLaneShape {
    participant: String,
    owed: u64,
    since: Moment,
    seconds: u64,
    last_attempt: String,
}

#[derive(Serialize)]
struct OpenBreakersShape {
    count: u64,
    breakers: Vec<OpenBreakerShape>,
}

#[derive(Serialize)]
struct OpenBreakerShape {
    participant: String,
    since: Moment,
    failures: u32,
}

#[derive(Serialize)]
struct StuckShape {
    stage: String,
    seconds: u64,
    detail: String,
}

#[derive(Serialize)]
struct ServiceShape {
    name: String,
    status: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StateShape {
    position: u64,
    stamp: Moment,
    state_hash: String,
    content_hash: String,
    outcome_digest: String,
}

/// `GET /state`: hashes of the state, to be compared with another node's or with what
/// `upesi verify` prints for the same position. Needs the token, for it is not free: the hashes
/// are computed on the thread that decides about money, which takes about a microsecond for each
/// transfer kept.
pub(crate) async fn state(call: &Call<'_>) -> Reply {
    let shape = call.ask(|state| {
        let hashes = state.hashes();
        StateShape {
            position: state.position().0,
            stamp: Moment(state.stamp()),
            state_hash: hashes.state.to_string(),
            content_hash: hashes.content.to_string(),
            outcome_digest: state.digest().to_string(),
        }
    });
    Ok(Answer::ok(&shape.await?))
}

/// 200 while every part works, 502 as soon as one does not. A stage that is stuck is listed among
/// the services, and with the work it should be doing under `stuck`. `storage` is the status of
/// `GET /storage`: a disk that fills up, or a record that cannot be read, is no reason to send
/// messages elsewhere while there is room. Participants that do not answer are listed and change no
/// status: a restart of the hub would not help them.
pub(crate) fn health(health: &Health, storage: &Storage) -> Reply {
    let whole = if health.is_well() { ServiceStatus::Ok } else { ServiceStatus::Down };
    let service =
        |name: &str, status| ServiceShape { name: name.to_owned(), status: status_name(status) };
    let services =
        [service("datastore", health.datastore), service("broker", health.broker)].into_iter();
    let stuck = |stage: &StuckStage| StuckShape {
        stage: stage.name.clone(),
        seconds: stage.idle.as_secs(),
        detail: stage.detail.clone(),
    };
    let uptime = format!("{}.{:03}", health.uptime.as_secs(), health.uptime.subsec_millis());
    let shape = HealthShape {
        status: status_name(whole),
        uptime: RawValue::from_string(uptime).expect("seconds with decimals are a JSON number"),
        start_time: Moment(health.started),
        version_number: health.version,
        services: services
            .chain(health.stuck.iter().map(|stage| service(&stage.name, ServiceStatus::Down)))
            .collect(),
        stuck: health.stuck.iter().map(stuck).collect(),
        stalled_lanes: stalled_lanes(health),
        open_breakers: open_breakers(health),
        storage: storage.status(),
    };
    let status = match whole {
        ServiceStatus::Ok => StatusCode::OK,
        ServiceStatus::Down => StatusCode::BAD_GATEWAY,
    };
    Ok(Answer::json(status, &shape))
}

fn stalled_lanes(health: &Health) -> Option<StalledLanesShape> {
    let stalled = &health.stalled_lanes;
    let shown = |lane: &StalledLane| StalledLaneShape {
        participant: lane.participant.clone(),
        owed: lane.owed,
        since: Moment(lane.since),
        seconds: lane.idle.as_secs(),
        last_attempt: lane.last_attempt.clone(),
    };
    let lanes = stalled.shown.iter().map(shown).collect();
    (0 < stalled.count).then_some(StalledLanesShape {
        count: stalled.count,
        owed: stalled.owed,
        lanes,
    })
}

fn open_breakers(health: &Health) -> Option<OpenBreakersShape> {
    let open = &health.open_breakers;
    let shown = |breaker: &OpenBreaker| OpenBreakerShape {
        participant: breaker.participant.clone(),
        since: Moment(breaker.since),
        failures: breaker.failures,
    };
    let breakers = open.shown.iter().map(shown).collect();
    (0 < open.count).then_some(OpenBreakersShape { count: open.count, breakers })
}

/// All counters and gauges, how many parts are not well, and the process's own: its start, and its
/// use of processor and memory.
pub(crate) fn metrics(call: &Call<'_>) -> Reply {
    let (hub, health) = (call.hub, call.hub.health());
    let mut text = render(&hub.metrics(), &hub.snapshots(), &hub.storage(), &call.figures);
    let help = "Parts that are not well, as /health names them.";
    sample(&mut text, Kind::Gauge, "upesi_parts_down", help, &parts_down(&health).to_string());
    let started = health.started.0;
    let seconds = format!("{}.{:06}", started / 1_000_000, started % 1_000_000);
    let help = "When the process started, in seconds since 1970.";
    sample(&mut text, Kind::Gauge, "process_start_time_seconds", help, &seconds);
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = format!("{}.{:09}", used.tv_sec, used.tv_nsec);
    let help = "Processor time used, in seconds.";
    sample(&mut text, Kind::Counter, "process_cpu_seconds_total", help, &seconds);
    if let Some(bytes) = resident_bytes() {
        let help = "Resident memory, in bytes.";
        sample(&mut text, Kind::Gauge, "process_resident_memory_bytes", help, &bytes.to_string());
    }
    Ok(Answer::metrics(text))
}

fn parts_down(health: &Health) -> usize {
    let services = [health.datastore, health.broker];
    let down = services.into_iter().filter(|service| *service == ServiceStatus::Down);
    down.count() + health.stuck.len()
}

#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Counter,
    Gauge,
}

/// Kind, name, help and value.
pub(crate) type Figure = (Kind, &'static str, &'static str, u64);

/// What the admin API counts of its own connections and tokens, since the start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdminFigures {
    pub(crate) connections_evicted: u64,
    pub(crate) connections_refused: u64,
    pub(crate) tokens_refused: u64,
}

fn render(now: &Metrics, snapshots: &Snapshots, storage: &Storage, admin: &AdminFigures) -> String {
    let figures = figures_of_the_ledger(now).into_iter();
    let figures = figures.chain(figures_of_the_store(now));
    let figures = figures.chain(figures_of_lanes(now)).chain(figures_of_the_edge(now));
    let figures = figures.chain(figures_of_signatures(now));
    let figures = figures.chain(figures_of_snapshots(snapshots));
    let figures = figures.chain(figures_of_the_admin_api(admin));
    let mut text = String::with_capacity(4_096);
    let figures = figures.chain(storage::figures(storage));
    for (kind, name, help, value) in figures {
        sample(&mut text, kind, name, help, &value.to_string());
    }
    text
}

fn figures_of_the_ledger(now: &Metrics) -> [Figure; 17] {
    use Kind::{Counter, Gauge};
    [
        (Counter, "upesi_log_syncs_total", "Syncs of the log.", now.log_syncs),
        (Counter, "upesi_log_bytes_total", "Bytes appended to the log.", now.log_bytes),
        (Gauge, "upesi_log_position", "Position of the last record applied.", now.log_position),
        (Counter, "upesi_batches_total", "Batches appended.", now.batches),
        (Counter, "upesi_records_total", "Records appended.", now.records),
        (Counter, "upesi_transfers_reserved_total", "Transfers reserved.", now.transfers_reserved),
        (Counter, "upesi_transfers_refused_total", "Prepares refused.", now.transfers_refused),
        (
            Counter,
            "upesi_transfers_committed_total",
            "Transfers committed.",
            now.transfers_committed,
        ),
        (Counter, "upesi_transfers_aborted_total", "Transfers aborted.", now.transfers_aborted),
        (Counter, "upesi_transfers_expired_total", "Transfers expired.", now.transfers_expired),
        (Gauge, "upesi_transfers_in_flight", "Transfers not ended.", now.transfers_in_flight),
        (Gauge, "upesi_transfers_ended", "Transfers ended and kept.", now.transfers_ended),
        (Gauge, "upesi_notices_owed", "Notices owed to participants.", now.notices_owed),
        (Counter, "upesi_notices_delivered_total", "Notices delivered.", now.notices_delivered),
        (
            Counter,
            "upesi_notices_given_up_total",
            "Notices given up that lose nothing: no dead letters.",
            now.notices_given_up,
        ),
        (
            Gauge,
            "upesi_notices_without_address",
            "Notices that wait until their recipient registers an address.",
            now.notices_parked,
        ),
        (Gauge, "upesi_dead_letters", "Notices given up.", now.dead_letters),
    ]
}

fn figures_of_the_store(now: &Metrics) -> [Figure; 6] {
    use Kind::{Counter, Gauge};
    [
        (
            Gauge,
            "upesi_transfers_ended_in_memory",
            "Transfers ended whose rows are in memory.",
            now.transfers_hot,
        ),
        (
            Gauge,
            "upesi_store_position",
            "Position up to which the cold store is complete.",
            now.store_position,
        ),
        (
            Counter,
            "upesi_store_reads_total",
            "Questions to the cold store for transfers not in memory.",
            now.store_reads,
        ),
        (
            Counter,
            "upesi_store_reads_found_total",
            "Questions to the cold store that found a transfer.",
            now.store_found,
        ),
        (
            Counter,
            "upesi_store_waits_total",
            "Times that decisions waited for the cold store.",
            now.store_waits,
        ),
        (Gauge, "upesi_store_bytes", "Bytes of the cold store on disk.", now.store_bytes),
    ]
}

fn figures_of_lanes(now: &Metrics) -> [Figure; 3] {
    use Kind::Gauge;
    [
        (
            Gauge,
            "upesi_lanes_stalled",
            "Participants to which notices are owed and none is delivered.",
            now.lanes_stalled,
        ),
        (
            Gauge,
            "upesi_lanes_stalled_notices",
            "Notices owed to these participants.",
            now.lanes_stalled_notices,
        ),
        (
            Gauge,
            "upesi_forward_breakers_open",
            "Participants to which forwards fail at once, as they do not answer.",
            now.forward_breakers_open,
        ),
    ]
}

fn figures_of_the_edge(now: &Metrics) -> [Figure; 14] {
    use Kind::Counter;
    [
        (Counter, "upesi_inbox_refused_total", "Commands refused, inbox full.", now.inbox_refused),
        (Counter, "upesi_requests_total", "FSPIOP requests accepted.", now.requests),
        (Counter, "upesi_requests_refused_total", "FSPIOP requests refused.", now.requests_refused),
        (Counter, "upesi_forwards_total", "Messages forwarded unrecorded.", now.forwards),
        (Counter, "upesi_forwards_failed_total", "Forwards that failed.", now.forwards_failed),
        (
            Counter,
            "upesi_attempts_total",
            "Tries to deliver a notice, those too for which its message could not be read.",
            now.attempts,
        ),
        (Counter, "upesi_connections_total", "FSPIOP connections taken.", now.connections),
        (
            Counter,
            "upesi_connections_refused_total",
            "FSPIOP connections turned away.",
            now.connections_refused,
        ),
        (
            Counter,
            "upesi_connections_evicted_total",
            "Silent FSPIOP connections that lost their place to a new one.",
            now.connections_evicted,
        ),
        (
            Counter,
            "upesi_malformed_requests_total",
            "FSPIOP requests that were not whole, or no HTTP.",
            now.malformed,
        ),
        (
            Counter,
            "upesi_socket_reads_total",
            "System calls that read from a socket of FSPIOP and found something.",
            now.socket_reads,
        ),
        (
            Counter,
            "upesi_socket_writes_total",
            "System calls that wrote to a socket of FSPIOP.",
            now.socket_writes,
        ),
        (
            Counter,
            "upesi_calls_denied_total",
            "Calls to addresses that are not allowed.",
            now.calls_denied,
        ),
        (
            Counter,
            "upesi_unknown_senders_total",
            "Messages that changed nothing: their sender is not a participant.",
            now.unknown_senders,
        ),
    ]
}

fn figures_of_signatures(now: &Metrics) -> [Figure; 5] {
    use Kind::{Counter, Gauge};
    [
        (
            Counter,
            "upesi_signatures_verified_total",
            "Good signatures of participants.",
            now.signatures_verified,
        ),
        (
            Counter,
            "upesi_signatures_refused_total",
            "Messages refused for their signature.",
            now.signatures_refused,
        ),
        (Counter, "upesi_signatures_made_total", "Own messages signed.", now.signatures_made),
        (
            Counter,
            "upesi_signatures_failed_total",
            "Own messages that could not be signed.",
            now.signatures_failed,
        ),
        (
            Gauge,
            "upesi_signatures_waiting",
            "Own messages waiting for their signature.",
            now.signatures_waiting,
        ),
    ]
}

fn figures_of_the_admin_api(now: &AdminFigures) -> [Figure; 3] {
    use Kind::Counter;
    [
        (
            Counter,
            "upesi_admin_connections_evicted_total",
            "Silent connections to the admin API that lost their place to a new one.",
            now.connections_evicted,
        ),
        (
            Counter,
            "upesi_admin_connections_refused_total",
            "Connections to the admin API turned away.",
            now.connections_refused,
        ),
        (
            Counter,
            "upesi_admin_tokens_refused_total",
            "Requests to the admin API without a good token.",
            now.tokens_refused,
        ),
    ]
}

fn figures_of_snapshots(now: &Snapshots) -> [Figure; 5] {
    use Kind::{Counter, Gauge};
    let position = now.files.first().map_or(0, |(position, _)| *position);
    [
        (Gauge, "upesi_snapshot_position", "Record of the newest snapshot.", position),
        (Gauge, "upesi_snapshot_bytes", "Length of the last one taken.", now.last_bytes),
        (Gauge, "upesi_snapshot_milliseconds", "How long that took.", now.last_millis),
        (Counter, "upesi_snapshots_taken_total", "Snapshots taken.", now.taken),
        (Counter, "upesi_snapshots_failed_total", "Snapshots not taken.", now.failed),
    ]
}

fn sample(text: &mut String, kind: Kind, name: &str, help: &str, value: &str) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
    };
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}")
        .expect("writing to memory cannot fail");
}

const fn status_name(status: ServiceStatus) -> &'static str {
    match status {
        ServiceStatus::Ok => "OK",
        ServiceStatus::Down => "DOWN",
    }
}

/// Resident memory as the kernel counts it; `None` where it does not say so.
fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    Some(kilobytes * 1_024)
}
