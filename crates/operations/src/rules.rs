//! `/rules`: by which rules the ledger decides, and later ones from now on. An addition to the
//! reference's API.
//!
//! A program that meets rules which it does not know stops. So later ones are refused while a node
//! that is there does not know them; one that was away meanwhile hears it at its start.

use fspiop::{ErrorCode, Refusal};
use ledger::{Activate, State, rules_known};

use crate::body::{VERSION, body};
use crate::body_reader::refuse;
use crate::reports::Cluster;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, shape};

const MEMBER: &str = "rulesVersion";

routes! {
    "/rules" {
        read GET showRules = show, "By which rules the ledger decides" {
            text: "And the newest that the hub knows which is asked.",
            answers: [200: RulesResponse = "As it stands."],
        }
        change PUT activateRules = activate(RulesVersion), "Have later rules decide from now on" {
            records: Activate,
            text: "\
                Once every node runs a program that knows them: refused as long as one that is \
                there does not. It cannot be taken back: an older program does not read the log \
                any more.",
            example: {"rulesVersion": 1},
            answers: [200: RulesResponse = "They decide."],
        }
    }
}

body! {
    Closed RulesVersion {
        rules_version: u32 = VERSION,
    }
}

shape! {
    struct RulesResponse as "Rules" {
        /// What decides.
        rules_version: u32 = schema::version(),
        /// What could, as far as the hub that is asked knows.
        rules_known: u32 = schema::version(),
    }
}

/// `GET /rules`.
async fn show(call: &AdminRequest<'_>) -> HandlerResult {
    let rules_version = call.ask(State::rules_version).await?;
    Ok(AdminResponse::ok(&RulesResponse { rules_version, rules_known: rules_known() }))
}

/// `PUT /rules`: in force with the next batch, on every node.
async fn activate(call: &AdminRequest<'_>, body: RulesVersion) -> HandlerResult {
    let RulesVersion { rules_version } = body;
    all_must_know(rules_version, &call.hub.cluster())?;
    call.change(Activate { rules_version }).await?;
    show(call).await
}

/// Refuses rules that somebody who is there does not know.
fn all_must_know(version: u32, cluster: &Cluster) -> Result<(), Refusal> {
    let known = rules_known();
    if known < version {
        let what = format!("this program knows rules up to {known}: start a newer one first");
        return Err(refuse(ErrorCode::VALIDATION, MEMBER, &what));
    }
    let Some(node) = cluster.nodes.iter().find(|node| node.rules < version) else { return Ok(()) };
    let name = &node.name;
    let what = match node.rules {
        0 => format!("node {name} has not said yet which rules it knows: ask again in a second"),
        known => {
            format!("node {name} knows rules up to {known}: start a newer program there first")
        }
    };
    Err(refuse(ErrorCode::VALIDATION, MEMBER, &what))
}
