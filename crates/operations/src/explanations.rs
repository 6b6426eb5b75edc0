//! `GET /transfers/{transferId}/explanation`: the history of a transfer of any age, from its stored
//! decisions and its records. An addition to the reference's API.
//!
//! `format=text` gives the same for people. It shows messages of participants, so reading it
//! requires the token, and without the permission `audit` free texts of participants are masked.
//! Costs: one record read from the log per event, on a separate thread. The hub limits concurrent
//! explanations and answers further requests 503.

use bytes::Bytes;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use serde_json::{Value, json};

use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::request::{AdminRequest, TRANSFER};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::{self, Content, Extent, Schema};

/// Media type of an explanation for people.
const TEXT: &str = "text/plain; charset=utf-8";

/// The wanted explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExplanationOptions {
    /// Its form.
    pub format: ExplanationFormat,
    /// Whether free texts of participants are masked.
    pub masked: bool,
}

/// The form of an explanation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExplanationFormat {
    /// A JSON document.
    #[default]
    Json,
    /// Lines of text.
    Text,
}

const FORMATS: [(&str, ExplanationFormat); 2] =
    [("json", ExplanationFormat::Json), ("text", ExplanationFormat::Text)];

/// The query parameter `format`.
const FORMAT: Parameter<ExplanationFormat> = Parameter::new(
    "format",
    "`json` (default) or `text`.",
    || schema::one_of(&schema::names(&FORMATS)),
    |text| {
        let found = FORMATS.iter().find(|(name, _)| *name == text).map(|(_, format)| *format);
        let wrong = || refuse(ErrorCode::MALFORMED_SYNTAX, "format", "must be json or text");
        found.ok_or_else(wrong)
    },
);

routes! {
    "/transfers/{transferId}/explanation" [TRANSFER] {
        guarded GET explainTransfer = show, "Explain a transfer" {
            unmasks: Audit,
            text: "\
                The complete history of a transfer of any age: its messages, including resends \
                and refused ones; the decision on each, with position, cover and cap before and \
                after; its postings; its notices and their delivery. If quotes are recorded, the \
                id of a quote, transaction or transaction request gives the whole payment too. \
                Same content as `upesi explain`. Without the permission `audit`, descriptions of \
                errors that participants wrote are masked. Concurrent requests are limited; retry \
                after a 503.",
            query: [FORMAT],
            responses: [200: Explanation = "The history of the transfer."],
            refusals: [400 MALFORMED_SYNTAX, 404 TRANSFER_NOT_FOUND],
        }
    }
}

/// The JSON document of the backend.
struct Explanation;

impl Schema for Explanation {
    const NAME: &'static str = "Explanation";

    const CONTENT: Content = Content::OneOrText((Self::NAME, Self::schema), &["text/plain"]);

    fn schema() -> Value {
        let list = |of: &str| json!({"type": "array", "items": {"type": of}});
        let states = schema::one_of(&["RESERVED", "COMMITTED", "ABORTED"]);
        schema::object(
            [
                ("events".to_owned(), true, list("object")),
                ("transfer".to_owned(), false, schema::any_text()),
                ("payment".to_owned(), false, json!({"type": "object"})),
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
    let format = request.query(&FORMAT)?.unwrap_or_default();
    let options = ExplanationOptions { format, masked: request.is_masked() };
    let explanation: Result<Option<Bytes>, _> =
        request.backend.explanation(transfer, options).await;
    let explanation = explanation.map_err(outcome_errors::from_unavailable)?;
    let response = explanation.map(|text| match format {
        ExplanationFormat::Json => AdminResponse::document(text),
        ExplanationFormat::Text => AdminResponse::of_media(TEXT, text),
    });
    response.ok_or_else(|| {
        let refusal = Refusal::new(ErrorCode::TRANSFER_NOT_FOUND, "transfer not found in the log");
        Refusal { status: StatusCode::NOT_FOUND, ..refusal }
    })
}
