//! `GET /transfers/{transferId}/explanation`: the history of a transfer of any age, from its stored
//! decisions and its records. An addition to the reference's API.
//!
//! It shows messages of participants, so reading it requires the token. Costs: one record read from
//! the log per event, on a separate thread. The hub limits concurrent explanations and answers
//! further requests 503.

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
        guarded GET explainTransfer = show, "Explain a transfer" {
            permission: Audit,
            text: "\
                The complete history of a transfer of any age: its messages, including resends \
                and refused ones; the decision on each, with position, cover and cap before and \
                after; its postings; its notices and their delivery. Same content as `upesi \
                explain`. Concurrent requests are limited; retry after a 503.",
            responses: [200: Explanation = "The history of the transfer."],
            refusals: [400 MALFORMED_SYNTAX, 404 TRANSFER_NOT_FOUND],
        }
    }
}

/// The JSON document of the backend.
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

/// The history of a transfer.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let transfer = request.path(&TRANSFER)?;
    let explanation: Option<Bytes> =
        request.backend.explanation(transfer).await.map_err(outcome_errors::from_unavailable)?;
    explanation.map(AdminResponse::document).ok_or_else(|| {
        let refusal = Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, "transfer not found in the log");
        Refusal { status: StatusCode::NOT_FOUND, ..refusal }
    })
}
