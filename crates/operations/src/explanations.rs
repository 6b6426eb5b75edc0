//! `GET /transfers/{transferId}/explanation`: the life of a transfer of any age, from what was
//! noted when it was decided and from its records. An addition to the reference's API.
//!
//! It shows messages of participants, so that reading it needs the token. Costs: a record read from
//! the log for each event, beside the threads that carry traffic; the hub does few at a time and
//! answers the others 503.

use bytes::Bytes;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use serde_json::{Value, json};

use crate::outcome_errors;
use crate::request::{AdminRequest, TRANSFER};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::routes;
use crate::schema::{self, Extent, Schema};

routes! {
    "/transfers/{transferId}/explanation" [TRANSFER] {
        guarded GET explainTransfer = show, "What became of a transfer" {
            text: "\
                Its whole life, whatever its age: its messages, resends and refused ones among \
                them; what was decided on each, with position, cover and cap before and after; \
                its postings; the notices that it made owed and how they were delivered. The \
                same as `upesi explain`. Few are answered at a time; 503 means to ask again.",
            answers: [200: Explanation = "What is known."],
            refusals: [400 MALFORMED_SYNTAX, 404 TRANSFER_NOT_FOUND],
        }
    }
}

/// The document that the hub gives.
struct Explanation;

impl Schema for Explanation {
    const NAME: &'static str = "Explanation";

    fn schema() -> Value {
        let list = |of: &str| json!({"type": "array", "items": {"type": of}});
        let states = schema::one_of(&["RESERVED", "COMMITTED", "ABORTED"]);
        schema::object(
            [
                ("events".to_owned(), true, list("object")),
                ("transfer".to_owned(), false, schema::any_text()),
                ("state".to_owned(), false, states),
                ("left_out".to_owned(), false, json!({"type": "integer", "minimum": 1})),
                ("notices_pending".to_owned(), false, list("integer")),
                ("dead_letters".to_owned(), false, list("integer")),
                ("under_way".to_owned(), false, list("object")),
            ],
            Extent::Open,
        )
    }
}

/// The life of a transfer.
async fn show(call: &AdminRequest<'_>) -> HandlerResult {
    let transfer = call.path(&TRANSFER)?;
    let told: Option<Bytes> =
        call.hub.explanation(transfer).await.map_err(outcome_errors::of_unavailable)?;
    told.map(AdminResponse::document).ok_or_else(|| {
        let refusal =
            Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, "no record is about this transfer");
        Refusal { status: StatusCode::NOT_FOUND, ..refusal }
    })
}
