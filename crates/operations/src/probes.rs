//! The probes of supervisors, on a listener of their own: `GET /live`, `GET /startup`,
//! `GET /ready` and `GET /health`.
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

/// Answers a request to the listener for probes. Without a backend the node is starting: it is
/// alive, and neither started nor ready.
pub(crate) fn reply(backend: Option<&dyn AdminBackend>, head: &Parts) -> HandlerResult {
    let path = head.uri.path();
    if !matches!(path, "/live" | "/startup" | "/ready" | "/health") {
        return Err(Refusal::unknown_uri());
    }
    if !is_reading(&head.method) {
        return Err(Refusal::method_not_allowed());
    }
    let unavailable = |word| Ok(short(StatusCode::SERVICE_UNAVAILABLE, word));
    match (path, backend) {
        // Only reports that the process responds.
        ("/live", _) | ("/startup", Some(_)) => Ok(short(StatusCode::OK, "OK")),
        (_, None) => unavailable("STARTING"),
        ("/ready", Some(backend)) if backend.health().is_well() => Ok(short(StatusCode::OK, "OK")),
        ("/ready", Some(_)) => unavailable("DOWN"),
        (_, Some(backend)) => monitoring::health(&backend.health(), &backend.storage()),
    }
}

fn short(status: StatusCode, word: &'static str) -> AdminResponse {
    AdminResponse::json(status, &StatusResponse { status: word })
}
