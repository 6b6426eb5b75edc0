//! `GET /cluster`: the nodes that share the log, as the node that is asked sees them. An addition
//! to the reference's API.

use crate::reports::Cluster;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;

routes! {
    "/cluster" {
        read GET cluster = show, "The nodes that share the log" {
            text: "\
                As the node that is asked sees them: who is there, up to where each has applied \
                the log, which node sends to which participant, and when one was last found to \
                be gone. Nobody where the log is not shared.",
            answers: [200: Cluster = "As of a fraction of a second ago."],
        }
    }
}

/// `GET /cluster`.
async fn show(call: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&call.hub.cluster()))
}
