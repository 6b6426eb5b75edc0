//! `GET /events`: the decisions of the hub as CloudEvents. An addition to the reference's API.
//!
//! A page is made from the log on a separate thread. Costs: at most [`EVENTS_READ_MAX`] records are
//! decided again for a page, after those between the newest snapshot and the position. Clients that
//! accept `text/event-stream` get the pages as they become durable.

use ::events::{Event, EventKind, Position};
use fspiop::{ErrorCode, Refusal};
use http::header::{ACCEPT, HeaderMap};
use ledger::LogIndex;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::body_reader::refuse;
use crate::event_stream::EventStream;
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::{self, Schema, response_type};

/// Maximum number of events in a page.
pub const EVENTS_MAX: usize = 1_000;
/// Number of events in a page without `limit`.
const EVENTS: usize = 100;
/// Maximum number of records that are read for a page after its position.
pub const EVENTS_READ_MAX: u64 = 200_000;

/// The wanted events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventQuery {
    /// Only later ones.
    pub after: Position,
    /// Maximum number of events.
    pub limit: usize,
    /// Only of these kinds; empty for [`EventKind::DEFAULT`].
    pub kinds: Vec<EventKind>,
}

impl EventQuery {
    /// Whether an event is of a wanted kind.
    #[must_use]
    pub fn accepts(&self, event: &Event) -> bool {
        let kind = event.data.kind();
        match self.kinds.is_empty() {
            true => EventKind::DEFAULT.contains(&kind),
            false => self.kinds.contains(&kind),
        }
    }
}

/// An event in a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PagedEvent {
    /// Its position.
    pub position: Position,
    /// Its JSON object.
    pub json: String,
}

/// A page of events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventPage {
    /// Events in their order.
    pub events: Vec<PagedEvent>,
    /// The position after which the next page begins.
    pub next: Position,
    /// The last record of the log.
    pub end: LogIndex,
}

response_type! {
    /// The progress of the publisher of events.
    #[derive(Clone, PartialEq, Eq)]
    pub struct EventPublishing {
        /// Its state.
        pub state: PublishingState,
        /// All events up to this record are published; absent before the first connection.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub log_index: Option<u64>,
        /// Records of the log after it.
        pub records_after: u64,
        /// At most this time has passed since the oldest record after it.
        pub lag_seconds: u64,
        /// Events published since the start.
        pub published: u64,
        /// Why none can be published now.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub failing: Option<String>,
    }
}

/// The state of the publisher of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PublishingState {
    /// It has not connected yet.
    Connecting,
    /// It publishes.
    Publishing,
    /// Another node of the shared log publishes.
    Standby,
    /// It cannot publish now, and retries.
    Failing,
    /// Another process publishes the events of this log.
    Fenced,
}

impl Schema for PublishingState {
    fn schema() -> Value {
        schema::one_of(&["CONNECTING", "PUBLISHING", "STANDBY", "FAILING", "FENCED"])
    }
}

routes! {
    "/events" {
        guarded GET listEvents = list, "List events" {
            text: "\
                Events of the log, oldest first, as CloudEvents 1.0 without personal data. A page \
                ends after `limit` events, after 200,000 records of the log, or at its end. \
                Continue with `after` = `next`; at the end of the log a page is empty. The same \
                position always gives the same events. With `Accept: text/event-stream` the \
                response does not end: each event is a server-sent event whose `id` is its \
                position. `Last-Event-ID` replaces `after`, and `limit` is ignored. At most 8 \
                clients can follow; one more gets 503.",
            query: [AFTER, LIMIT, KIND],
            responses: [200: EventPageResponse = "A page of events."],
            refusals: [400 MALFORMED_SYNTAX],
        }
    }
}

const AFTER: Parameter<Position> = Parameter::new(
    "after",
    "Only later events: `next` of the page before, or the `id` of an event; 0 for all.",
    position_schema,
    |text| {
        let what = "must be a record number, or the id of an event";
        let wrong = || refuse(ErrorCode::MALFORMED_SYNTAX, "after", what);
        Position::parse(text).ok_or_else(wrong)
    },
)
.example("\"0\"");

const LIMIT: Parameter<usize> = Parameter::new(
    "limit",
    "Maximum number of events; 100 by default.",
    || json!({"type": "integer", "minimum": 1, "maximum": EVENTS_MAX}),
    |text| match text.parse() {
        Ok(limit) if (1..=EVENTS_MAX).contains(&limit) => Ok(limit),
        _ => {
            let what = format!("must be an integer from 1 to {EVENTS_MAX}");
            Err(refuse(ErrorCode::MALFORMED_SYNTAX, "limit", &what))
        }
    },
)
.example("10");

const KIND: Parameter<Vec<EventKind>> = Parameter::new(
    "kind",
    "Only of these kinds, separated by commas: transfers, funds, positions, notifications, \
     settlement, admin, quotes. Without it, all but quotes.",
    schema::some_text,
    read_kinds,
);

response_type! {
    /// A page of events.
    struct EventPageResponse as "EventPage" {
        events: Vec<Box<RawValue>> = json!({"type": "array", "items": {"type": "object"}}),
        /// The position after which the next page begins.
        next: String = position_schema(),
        /// The last record of the log.
        end: u64,
    }
}

fn position_schema() -> Value {
    json!({"type": "string", "pattern": "^(0|[1-9][0-9]*)(\\.[1-9][0-9]*)?$"})
}

fn read_kinds(text: &str) -> Result<Vec<EventKind>, Refusal> {
    let read = |name| {
        let names: Vec<_> = EventKind::NAMED.iter().map(|(name, _)| *name).collect();
        let what = format!("must be of {}", names.join(", "));
        EventKind::parse(name).ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "kind", &what))
    };
    text.split(',').map(read).collect()
}

/// `GET /events`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let is_stream = accepts_stream(request.headers);
    let resumed = if is_stream { last_event(request.headers)? } else { None };
    let query = EventQuery {
        after: resumed.or(request.query(&AFTER)?).unwrap_or_default(),
        limit: request.query(&LIMIT)?.unwrap_or(EVENTS),
        kinds: request.query(&KIND)?.unwrap_or_default(),
    };
    let after = query.after;
    let page = request.backend.events_page(query.clone()).await;
    let page = page.map_err(outcome_errors::from_unavailable)?;
    if page.end < after.record {
        let what = format!("is after the last record of the log, {}", page.end.0);
        return Err(refuse(ErrorCode::MALFORMED_SYNTAX, "after", &what));
    }
    if is_stream {
        let later = EventQuery { after: page.next, ..query };
        let pages = request.backend.follow_events(later);
        let pages = pages.map_err(outcome_errors::from_unavailable)?;
        return Ok(AdminResponse::event_stream(EventStream::new(&page, pages)));
    }
    let EventPage { events, next, end } = page;
    let object =
        |event: PagedEvent| RawValue::from_string(event.json).expect("an event is a JSON object");
    let events = events.into_iter().map(object).collect();
    Ok(AdminResponse::ok(&EventPageResponse { events, next: next.to_string(), end: end.0 }))
}

/// Whether the client wants server-sent events.
pub(crate) fn accepts_stream(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let types = accepted.flat_map(|value| value.split(','));
    types
        .into_iter()
        .any(|media| media.split(';').next().is_some_and(|it| it.trim() == "text/event-stream"))
}

/// The position that a client has, which connects again.
fn last_event(headers: &HeaderMap) -> Result<Option<Position>, Refusal> {
    let mut values = headers.get_all("last-event-id").iter();
    let Some(value) = values.next() else { return Ok(None) };
    let is_one = values.next().is_none();
    let position = value.to_str().ok().filter(|_| is_one).and_then(Position::parse);
    position.map(Some).ok_or_else(|| {
        let what = "must be a record number, or the id of an event";
        refuse(ErrorCode::MALFORMED_SYNTAX, "Last-Event-ID", what)
    })
}
