//! `/snapshots`: lists the snapshots of the state, and takes one on demand. An addition to the
//! reference's API.

use http::StatusCode;

use crate::reports::Snapshots;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;

routes! {
    "/snapshots" {
        read GET listSnapshots = list, "List snapshots" {
            text: "A start continues from the newest valid snapshot and does not need the others.",
            responses: [200: Snapshots = "The snapshots and their status."],
        }
        action POST takeSnapshot = take, "Take a snapshot" {
            text: "\
                The snapshot is written by a separate thread, at the configured share of a core, \
                and is complete when `busy` is false. No snapshot is taken if nothing was \
                recorded since the last one. Needs no body.",
            responses: [202: Snapshots = "Requested."],
        }
    }
}

/// `GET /snapshots`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&request.backend.snapshots()))
}

/// `POST /snapshots`: 202 at once; a separate thread takes it. Not recorded in the log, because it
/// does not affect money.
async fn take(request: &AdminRequest<'_>) -> HandlerResult {
    request.backend.take_snapshot();
    Ok(AdminResponse::json(StatusCode::ACCEPTED, &request.backend.snapshots()))
}
