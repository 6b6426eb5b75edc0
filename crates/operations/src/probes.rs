//! The probes of supervisors, on a listener of their own: `GET /live`, `GET /ready`, `GET /health`.
//!
//! They need no token and no particular `Host`, change nothing and do not block, so that a
//! switch with a busy admin port still responds to its supervisor.

use fspiop::Refusal;
use http::StatusCode;
use http::request::Parts;
use serde::Serialize;

use crate::auth::is_reading;
use crate::backend::AdminBackend;
use crate::monitoring;
use crate::response::{AdminResponse, HandlerResult};

/// The methods of every probe, as the header `Allow` lists them.
pub(crate) const METHODS: &str = "GET, HEAD";

#[derive(Serialize)]
struct StatusResponse {
    status: &'static str,
}

/// Answers a request to the listener for probes.
pub(crate) fn reply(backend: &dyn AdminBackend, head: &Parts) -> HandlerResult {
    let path = head.uri.path();
    if !matches!(path, "/live" | "/ready" | "/health") {
        return Err(Refusal::unknown_uri());
    }
    if !is_reading(&head.method) {
        return Err(Refusal::method_not_allowed());
    }
    let health = backend.health();
    match path {
        // Only reports that the process responds.
        "/live" => Ok(short(StatusCode::OK, "OK")),
        "/ready" if health.is_well() => Ok(short(StatusCode::OK, "OK")),
        "/ready" => Ok(short(StatusCode::SERVICE_UNAVAILABLE, "DOWN")),
        _ => monitoring::health(&health, &backend.storage()),
    }
}

fn short(status: StatusCode, word: &'static str) -> AdminResponse {
    AdminResponse::json(status, &StatusResponse { status: word })
}
