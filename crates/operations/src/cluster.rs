//! `GET /cluster`: the nodes that share the log, as seen by the queried node. An addition
//! to the reference's API.

use crate::reports::Cluster;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;

routes! {
    "/cluster" {
        read GET cluster = show, "List the nodes that share the log" {
            text: "\
                As seen by the queried node: the live nodes, the log index that each has applied, \
                the node that delivers to each participant, and the last removal of a node. Empty \
                if the log is not shared.",
            responses: [200: Cluster = "The nodes, less than 1 s old."],
        }
    }
}

/// `GET /cluster`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&request.backend.cluster()))
}
