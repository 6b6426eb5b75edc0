//! `/rules`: the version of the kernel's rules that decides, what this program and the nodes beside
//! it know, and the change to a newer one. An addition to the reference's API.

use fspiop::ErrorCode;
use http::StatusCode;
use ledger::{Change, RULES_VERSION};
use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::{Form, refuse};
use crate::hub::{Cluster, Hub};

#[derive(Serialize)]
struct Shape<'a> {
    /// Decides the next message.
    active: u32,
    /// The newest one that this program knows.
    known: u32,
    /// The nodes that share the log.
    nodes: Vec<NodeShape<'a>>,
}

#[derive(Serialize)]
struct NodeShape<'a> {
    name: &'a str,
    /// The newest one that its program knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    known: Option<u32>,
}

/// `GET /rules`.
pub(crate) async fn show<H: Hub>(call: &Call<'_, H>) -> Reply {
    let active = call.ask(|state| state.rules_version()).await?;
    let cluster = call.hub.cluster();
    let shown = cluster.nodes.iter().map(|node| NodeShape { name: &node.name, known: node.rules });
    let shape = Shape { active, known: RULES_VERSION, nodes: shown.collect() };
    Ok(Answer::json(StatusCode::OK, &shape))
}

/// `POST /rules` with `{"version": N}`: they decide from the next message on, for good. Refused
/// while a node is there whose program does not know them: it would have to stop.
pub(crate) async fn activate<H: Hub>(call: &Call<'_, H>) -> Reply {
    let mut form = call.form()?;
    let version = form.required("version", Form::whole)?;
    form.finish()?;
    let invalid = |what: &str| refuse(ErrorCode::VALIDATION, "version", what);
    if RULES_VERSION < version {
        return Err(invalid(&format!("must be at most {RULES_VERSION}, which this program knows")));
    }
    if let Some(problem) = who_cannot(&call.hub.cluster(), version) {
        return Err(invalid(&problem));
    }
    let active = call.ask(|state| state.rules_version()).await?;
    if version < active {
        return Err(invalid(&format!("must be at least {active}, by which is decided already")));
    }
    call.change(Change::Activate { rules_version: version }).await?;
    show(call).await
}

/// The first node that is there and cannot decide by these rules, in words.
fn who_cannot(cluster: &Cluster, version: u32) -> Option<String> {
    let node = cluster.nodes.iter().find(|node| node.rules.is_none_or(|known| known < version))?;
    Some(match node.rules {
        Some(known) => format!(
            "cannot be {version}: node {} knows rules up to {known}; upgrade it first",
            node.name
        ),
        None => format!(
            "cannot be {version} yet: node {} has not said which rules it knows; try again in a \
             second",
            node.name
        ),
    })
}
