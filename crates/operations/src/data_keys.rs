//! `/dataKeys`: the keys that encrypt the data directory. An addition to the reference's API.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;

use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::response_type;

routes! {
    "/dataKeys" {
        action POST rotateDataKey = rotate, "Make a new data key" {
            permission: Security,
            text: "\
                The new key encrypts everything written from now on; nothing is rewritten. \
                Gets 3100 if the data directory is not encrypted. If the master key is out of \
                reach, the old data key stays in use, and the request gets 2003. Needs no body.",
            responses: [201: RotatedKey = "The new key."],
            refusals: [400 VALIDATION],
        }
    }
}

response_type! {
    /// A new data key.
    #[derive(Clone, PartialEq, Eq)]
    pub struct RotatedKey as "DataKey" {
        /// Its id.
        pub id: String,
        /// The name of the master key that wrapped it.
        pub master_key: String,
    }
}

/// `POST /dataKeys`. Not recorded in the log, because it does not affect money; the audit trail of
/// requests has it.
async fn rotate(request: &AdminRequest<'_>) -> HandlerResult {
    let rotated = request.backend.rotate_data_key().await;
    let rotated = rotated.map_err(outcome_errors::from_unavailable)?;
    let none = || Refusal::new(ErrorCode::VALIDATION, "the data directory is not encrypted");
    Ok(AdminResponse::json(StatusCode::CREATED, &rotated.ok_or_else(none)?))
}
