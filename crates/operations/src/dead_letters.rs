//! `/deadletters`: notices whose delivery was given up, and their redelivery (DESIGN 2).
//! `/undeliverable`: notices that wait for an endpoint.

use std::collections::VecDeque;

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{DeadLetter, NoticeId, Redeliver, State};
use serde_json::json;

use crate::body_reader::refuse;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{DeadLetterResponse, UndeliverableResponse};
use crate::route::{Parameter, routes};
use crate::schema;

/// Maximum number of dead letters in one response.
const PAGE_MAX: u64 = 1_000;

/// The dead letter in a path.
const LETTER: Parameter<NoticeId> =
    Parameter::new("id", "Dead letter id, as in the list.", schema::count, |text| {
        number("id", text).map(NoticeId)
    })
    .example("1");

const LIMIT: Parameter<u64> = Parameter::new(
    "limit",
    "Maximum number of entries.",
    || json!({"type": "integer", "minimum": 1, "maximum": PAGE_MAX}),
    |text| match number("limit", text)? {
        limit @ 1..=PAGE_MAX => Ok(limit),
        _ => Err(refuse(ErrorCode::VALIDATION, "limit", "is out of range")),
    },
)
.example("100");

const BEFORE: Parameter<u64> =
    Parameter::new("before", "Only entries with a lower id.", schema::count, |text| {
        number("before", text)
    });

routes! {
    "/deadletters" {
        read GET listDeadLetters = list, "List dead letters" {
            text: "Newest first. For the next page, set `before` to the last id of this one.",
            query: [LIMIT, BEFORE],
            responses: [200: Vec<DeadLetterResponse> = "Dead letters."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX],
        }
    }
    "/deadletters/{id}/resend" [LETTER] {
        change POST resend = resend, "Resend a dead letter" {
            records: Redeliver,
            text: "Starts a new series of attempts. Needs no body.",
            responses: [202: () = "Queued for delivery."],
        }
    }
    "/undeliverable" {
        read GET listUndeliverable = undeliverable, "List notices without an endpoint" {
            text: "\
                The hub sends them when their recipient registers an endpoint. Oldest first, at \
                most 1,000; the metric `upesi_notices_without_address` counts all of them.",
            responses: [200: Vec<UndeliverableResponse> = "Notices."],
        }
    }
}

/// `GET /deadletters[?limit=1..1000][&before=id]`: newest first; `before` is the last id of
/// the previous page.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let limit = request.query(&LIMIT)?.unwrap_or(PAGE_MAX);
    let before = request.query(&BEFORE)?.unwrap_or(u64::MAX);
    let page = request.query_state(move |state| {
        newest_before(state, before, limit as usize)
            .iter()
            .rev()
            .map(|letter| DeadLetterResponse::of(state, letter))
            .collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&page.await?))
}

/// `GET /undeliverable`: notices that wait until their recipient registers an endpoint, oldest
/// first, at most [`crate::backend::PARKED_MAX`]. They are sent when it does.
async fn undeliverable(request: &AdminRequest<'_>) -> HandlerResult {
    let parked = request.backend.parked_notices().await;
    let shown = request.query_state(move |state| {
        let owed = parked.iter().filter_map(|id| state.notice(*id));
        owed.map(|notice| UndeliverableResponse::of(state, notice)).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&shown.await?))
}

/// `POST /deadletters/{id}/resend`: starts a new series of attempts.
async fn resend(request: &AdminRequest<'_>) -> HandlerResult {
    let notice = request.path(&LETTER)?;
    request.change(Redeliver { notice }).await?;
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}

/// The last `limit` letters below an id, oldest first; walks over all dead letters up to it.
fn newest_before(state: &State, before: u64, limit: usize) -> VecDeque<&DeadLetter> {
    let mut page = VecDeque::with_capacity(limit);
    for letter in state.dead_letters().take_while(|letter| letter.notice.id.0 < before) {
        if page.len() == limit {
            page.pop_front();
        }
        page.push_back(letter);
    }
    page
}

fn number(name: &str, text: &str) -> Result<u64, Refusal> {
    text.parse().map_err(|_| refuse(ErrorCode::MALFORMED_SYNTAX, name, "must be an integer"))
}
