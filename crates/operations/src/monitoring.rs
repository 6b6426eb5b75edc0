//! `GET /health` (hub-semantics 8.4) and `GET /state`.

use http::StatusCode;
use serde_json::json;
use serde_json::value::RawValue;

use crate::reports::{
    DiskStatus, Health, OpenBreakers, STATUSES, ServiceStatus, StalledLanes, StuckStage,
};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::routes;
use crate::schema::{self, response_type};

routes! {
    "/state" {
        guarded GET showState = state, "Show hashes of the state" {
            permission: Audit,
            text: "\
                For comparison with the hashes of another node, or of `upesi verify`, at the same \
                log index. Takes about 1 µs per transfer in memory, and therefore requires the \
                token.",
            responses: [200: StateResponse = "The hashes and the log index they belong to."],
        }
    }
    "/v2/health" {
        read GET settlementHealth = show_health, "Check the health of the settlement API" {
            responses: [
                200: HealthResponse = "All services are healthy.",
                502: HealthResponse = "A service has stopped or makes no progress.",
            ],
        }
    }
    "/health" {
        read GET health = show_health, "Check the health of the hub" {
            responses: [
                200: HealthResponse = "All services are healthy.",
                502: HealthResponse = "A service has stopped or makes no progress.",
            ],
        }
    }
}

response_type! {
    struct HealthResponse<'a> as "Health" {
        status: ServiceStatus,
        uptime: Box<RawValue> = json!({"type": "number", "description": "Seconds."}),
        start_time: Timestamp,
        version_number: &'static str,
        services: Vec<ServiceResponse<'a>>,
        #[serde(skip_serializing_if = "<[_]>::is_empty")]
        stuck: &'a [StuckStage] = schema::described(
            <Vec<StuckStage>>::schema(),
            "Stages that have work and make no progress.",
        ),
        #[serde(skip_serializing_if = "Option::is_none")]
        stalled_lanes: Option<&'a StalledLanes> = schema::described(
            StalledLanes::schema(),
            "Participants with pending notices of which none has been delivered for 5 s.",
        ),
        #[serde(skip_serializing_if = "Option::is_none")]
        open_breakers: Option<&'a OpenBreakers> = schema::described(
            OpenBreakers::schema(),
            "Participants that do not respond: forwards to them fail immediately.",
        ),
        storage: &'static str = schema::one_of(&STATUSES),
    }
}

response_type! {
    struct ServiceResponse<'a> {
        name: &'a str,
        status: ServiceStatus,
    }
}

response_type! {
    struct StateResponse as "State" {
        log_index: u64,
        stamp: Timestamp,
        state_hash: String = schema::hash(),
        content_hash: String = schema::hash(),
        outcome_digest: String = schema::hash(),
    }
}

/// `GET /state`: hashes of the state, for comparison with those of another node or of
/// `upesi verify` at the same log index. Requires the token because of its cost: the hashes are
/// computed on the sequencer thread, which takes about 1 µs per transfer in memory.
async fn state(request: &AdminRequest<'_>) -> HandlerResult {
    let response = request.query_state(|state| {
        let hashes = state.hashes();
        StateResponse {
            log_index: state.log_index().0,
            stamp: Timestamp(state.stamp()),
            state_hash: hashes.state.to_string(),
            content_hash: hashes.content.to_string(),
            outcome_digest: state.digest().to_string(),
        }
    });
    Ok(AdminResponse::ok(&response.await?))
}

async fn show_health(request: &AdminRequest<'_>) -> HandlerResult {
    health(&request.backend.health(), &request.backend.storage())
}

/// 200 while all services are healthy, 502 otherwise. A stalled stage is listed among the services,
/// and with its pending work under `stuck`. `storage` is the status of `GET /storage`: a disk that
/// fills up, or an unreadable record, does not change the health while the disk has room.
/// Participants that do not respond are listed and do not change the health either: restarting the
/// hub would not help them.
pub(crate) fn health(health: &Health, storage: &DiskStatus) -> HandlerResult {
    let whole = if health.is_well() { ServiceStatus::Ok } else { ServiceStatus::Down };
    let services = [("datastore", health.datastore), ("broker", health.broker)].into_iter();
    let stuck = health.stuck.iter().map(|stage| (&*stage.name, ServiceStatus::Down));
    let services = services.chain(stuck).map(|(name, status)| ServiceResponse { name, status });
    let uptime = format!("{}.{:03}", health.uptime.as_secs(), health.uptime.subsec_millis());
    let (lanes, breakers) = (&health.stalled_lanes, &health.open_breakers);
    let response = HealthResponse {
        status: whole,
        uptime: RawValue::from_string(uptime).expect("seconds with decimals are a JSON number"),
        start_time: Timestamp(health.started),
        version_number: health.version,
        services: services.collect(),
        stuck: &health.stuck,
        stalled_lanes: (0 < lanes.count).then_some(lanes),
        open_breakers: (0 < breakers.count).then_some(breakers),
        storage: storage.status(),
    };
    let status = match whole {
        ServiceStatus::Ok => StatusCode::OK,
        ServiceStatus::Down => StatusCode::BAD_GATEWAY,
    };
    Ok(AdminResponse::json(status, &response))
}
