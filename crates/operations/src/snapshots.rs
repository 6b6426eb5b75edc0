//! `/snapshots`: the states stored beside the log, and one more on demand. An addition to the
//! reference's API.

use http::StatusCode;

use crate::reports::Snapshots;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;

routes! {
    "/snapshots" {
        read GET listSnapshots = list, "States stored beside the log" {
            text: "A start goes on from the newest good one, and needs no others.",
            answers: [200: Snapshots = "As it stands."],
        }
        order POST takeSnapshot = take, "Store the state now" {
            text: "\
                On a thread of its own, at the share of a core that is configured; it is there \
                once `busy` is false. Nothing happens when nothing was recorded since the last \
                one. Needs no body.",
            answers: [202: Snapshots = "It will be taken."],
        }
    }
}

/// `GET /snapshots`.
async fn list(call: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&call.hub.snapshots()))
}

/// `POST /snapshots`: 202 at once; it is taken on a thread of its own. Not recorded in the log: it
/// changes nothing about money.
async fn take(call: &AdminRequest<'_>) -> HandlerResult {
    call.hub.take_snapshot();
    Ok(AdminResponse::json(StatusCode::ACCEPTED, &call.hub.snapshots()))
}
