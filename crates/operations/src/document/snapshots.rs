//! States stored beside the log.

use openapi::schema::reference;
use openapi::{Answer, Operation};

use super::{Describe, order, question};

const TAG: &str = "hub";

pub(super) fn operations() -> Vec<Operation> {
    let path = "/snapshots";
    let snapshots = || reference("Snapshots");
    vec![
        question(path, "listSnapshots", TAG, "States stored beside the log")
            .says("A start goes on from the newest good one, and needs no others.")
            .answers(Answer::json(200, "As it stands.", snapshots())),
        order("post", path, "takeSnapshot", TAG, "Store the state now")
            .says(
                "On a thread of its own, at the share of a core that is configured; it is there \
                 once `busy` is false. Nothing happens when nothing was recorded since the last \
                 one. Needs no body.",
            )
            .answers(Answer::json(202, "It will be taken.", snapshots())),
    ]
}
