//! Where a transfer's time went.

use fspiop::ErrorCode;
use openapi::schema::reference;
use openapi::{Answer, Operation};
use serde_json::json;

use super::{Describe, order, question};

const TAG: &str = "measurement";

pub(super) fn operations() -> Vec<Operation> {
    let path = "/waterfall";
    let watching = || reference("Watching");
    vec![
        question(path, "showWatching", TAG, "Whether stages of transfers are noted")
            .answers(Answer::json(200, "Whether they are.", watching())),
        order("put", path, "switchWatching", TAG, "Note stages of transfers, or no longer")
            .says("In memory, those of the last seconds; off again forgets them.")
            .takes("Watch", json!({"enabled": true}))
            .answers(Answer::json(200, "As it is now.", watching())),
        question("/waterfall/{transferId}", "showStages", TAG, "The stages of one transfer")
            .says(
                "`events`: where somebody worked on it. `waits`: where it waited for a batch, or \
                 to be sent on. While it is `underWay`, what is open ends now. 404 unless all that \
                 was noted of it is still kept; the description then says how far back that \
                 reaches.",
            )
            .answers(Answer::json(200, "Stages by their start.", reference("Waterfall")))
            .refuses(400, &[ErrorCode::MALFORMED_SYNTAX])
            .refuses(404, &[ErrorCode::TRANSFER_NOT_FOUND]),
    ]
}
