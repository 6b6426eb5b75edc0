//! `/rules`: the rules version by which the ledger decides, and the switch to a later one. An
//! addition to the reference's API.
//!
//! A node that meets an unknown rules version stops. Therefore a later version is refused while a
//! live node does not know it. A node that was down meanwhile stops when it starts.

use fspiop::{ErrorCode, Refusal};
use ledger::{Activate, State, rules_known};

use crate::body::{VERSION, body};
use crate::body_reader::refuse;
use crate::reports::Cluster;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, response_type};

const MEMBER: &str = "rulesVersion";

routes! {
    "/rules" {
        read GET showRules = show, "Show the rules version" {
            text: "Also shows the newest version that the queried node knows.",
            responses: [200: RulesResponse = "The active and the newest known version."],
        }
        change PUT activateRules = activate(RulesVersion), "Activate a later rules version" {
            records: Activate,
            text: "\
                Upgrade every node first: refused while a live node does not know the version. \
                Cannot be undone: an older program can no longer read the log.",
            example: {"rulesVersion": 5},
            responses: [200: RulesResponse = "The version is active."],
        }
    }
}

body! {
    Closed RulesVersion {
        rules_version: u32 = VERSION,
    }
}

response_type! {
    struct RulesResponse as "Rules" {
        /// The active version.
        rules_version: u32 = schema::version(),
        /// The newest version that the queried node knows.
        rules_known: u32 = schema::version(),
    }
}

/// `GET /rules`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let rules_version = request.query_state(State::rules_version).await?;
    Ok(AdminResponse::ok(&RulesResponse { rules_version, rules_known: rules_known() }))
}

/// `PUT /rules`: applies from the next batch, on every node.
async fn activate(request: &AdminRequest<'_>, body: RulesVersion) -> HandlerResult {
    let RulesVersion { rules_version } = body;
    all_must_know(rules_version, &request.backend.cluster())?;
    request.change(Activate { rules_version }).await?;
    show(request).await
}

/// Refuses a rules version that a live node does not know.
pub(crate) fn all_must_know(version: u32, cluster: &Cluster) -> Result<(), Refusal> {
    let known = rules_known();
    if known < version {
        let what = format!("this program knows rules up to {known}: upgrade it first");
        return Err(refuse(ErrorCode::VALIDATION, MEMBER, &what));
    }
    let Some(node) = cluster.nodes.iter().find(|node| node.rules < version) else { return Ok(()) };
    let name = &node.name;
    let what = match node.rules {
        0 => format!("node {name} has not reported the rules it knows yet: retry after 1 s"),
        known => {
            format!("node {name} knows rules up to {known}: upgrade it first")
        }
    };
    Err(refuse(ErrorCode::VALIDATION, MEMBER, &what))
}
