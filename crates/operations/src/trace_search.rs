//! `GET /traces/{traceId}`: the payments of a W3C trace, found in the log. An addition to the
//! reference's API.
//!
//! A record keeps the trace id of its message: that of the `traceparent` that the participant sent,
//! or the one that the hub made for a message without. Nothing indexes it, so that messages cost
//! nothing more. A request reads at most [`TRACE_READ_MAX`] records, on a separate
//! thread, oldest first; without `from` and `after` those of the last hour of the log.

use fspiop::{ErrorCode, Refusal, TraceContext};
use ledger::{LogIndex, Stamp, TraceId, TransferId};
use openapi::schema::reference;

use crate::audit_log::parse_audit_time;
use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};
use crate::settlement_queries::MOMENT_FORM;

/// Maximum number of records that are read for a page.
pub const TRACE_READ_MAX: u64 = 200_000;
/// Maximum number of messages in a page.
pub const TRACED_MAX: usize = 100;
/// Period at the end of the log that is searched by default.
pub const TRACE_PERIOD_US: u64 = 3_600_000_000;

/// The wanted messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceQuery {
    /// Their trace.
    pub trace: TraceId,
    /// Only later records.
    pub after: Option<LogIndex>,
    /// Only records of this time or later.
    pub from: Option<Stamp>,
    /// Only records before this time.
    pub to: Option<Stamp>,
}

/// A message of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedMessage {
    /// The transfer, bulk transfer or quote.
    pub id: TransferId,
    /// Its record.
    pub log_index: LogIndex,
    /// Time of the record.
    pub stamp: Stamp,
}

/// The messages of a trace in a part of the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracePage {
    /// The messages, in the order of the log.
    pub messages: Vec<TracedMessage>,
    /// All records after this one, up to [`Self::next`], were read.
    pub after: LogIndex,
    /// The record after which the next page begins.
    pub next: LogIndex,
    /// The last record to read.
    pub end: LogIndex,
}

const TRACE: Parameter<TraceId> = Parameter::new(
    "traceId",
    "The trace id: 32 lower-case hexadecimal digits, or a whole `traceparent`.",
    schema::some_text,
    |text| {
        let what = "must be 32 hexadecimal digits that are not all zero";
        read_trace(text).ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "traceId", what))
    },
)
.example("\"0af7651916cd43dd8448eb211c80319c\"");

const AFTER: Parameter<LogIndex> = Parameter::new(
    "after",
    "Only later records: `next` of the page before.",
    schema::count,
    |text| {
        let wrong = || refuse(ErrorCode::MALFORMED_SYNTAX, "after", "must be an integer");
        text.parse().map(LogIndex).map_err(|_| wrong())
    },
);

const FROM: Parameter<Stamp> = Parameter::new(
    "from",
    "Recorded at this time or later; by default one hour before the end of the log.",
    schema::date_time,
    |text| moment("from", text),
);

const TO: Parameter<Stamp> =
    Parameter::new("to", "Recorded before this time.", schema::date_time, |text| {
        moment("to", text)
    });

routes! {
    "/traces/{traceId}" [TRACE] {
        guarded GET findTrace = find, "Find the payments of a trace" {
            text: "\
                Messages about transfers, bulk transfers and quotes with this trace id: that of \
                the `traceparent` that the participant sent, or that the hub made for a message \
                without one. Look-ups and unrecorded quotes are not in the log. A page reads \
                200,000 records at most. Unless `next` is `end`, continue with `after` = `next`.",
            query: [AFTER, FROM, TO],
            responses: [200: TracePageResponse = "A page of messages, oldest first."],
            refusals: [400 MALFORMED_SYNTAX],
        }
    }
}

response_type! {
    /// The messages of a trace in a part of the log.
    struct TracePageResponse as "TracePage" {
        messages: Vec<TracedMessageResponse>,
        /// All records after this one, up to `next`, were read.
        after: u64,
        /// The record after which the next page begins.
        next: u64,
        /// The last record to read.
        end: u64,
    }
}

response_type! {
    /// A message of a trace.
    struct TracedMessageResponse {
        /// The transfer, bulk transfer or quote.
        transfer_id: String = reference("TransferId"),
        log_index: u64,
        recorded_date: Timestamp,
    }
}

/// `GET /traces/{traceId}`.
async fn find(request: &AdminRequest<'_>) -> HandlerResult {
    let (after, from) = (request.query(&AFTER)?, request.query(&FROM)?);
    let query = TraceQuery { trace: request.path(&TRACE)?, after, from, to: request.query(&TO)? };
    let page = request.backend.trace_page(query).await;
    let page = page.map_err(outcome_errors::from_unavailable)?;
    let messages = page.messages.iter().map(|message| TracedMessageResponse {
        transfer_id: message.id.to_string(),
        log_index: message.log_index.0,
        recorded_date: Timestamp(message.stamp),
    });
    Ok(AdminResponse::ok(&TracePageResponse {
        messages: messages.collect(),
        after: page.after.0,
        next: page.next.0,
        end: page.end.0,
    }))
}

/// A trace id, or that of a `traceparent`.
fn read_trace(text: &str) -> Option<TraceId> {
    if text.contains('-') {
        let context = TraceContext::parse(text.as_bytes())?;
        return Some(context.trace_id);
    }
    if text.len() != 32 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let number = u128::from_str_radix(text, 16).ok().filter(|number| *number != 0)?;
    Some(number.to_be_bytes())
}

fn moment(name: &str, text: &str) -> Result<Stamp, Refusal> {
    parse_audit_time(text).ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, name, MOMENT_FORM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_ids_are_read_alone_and_within_a_traceparent() {
        let id = "0af7651916cd43dd8448eb211c80319c";
        let bytes = 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes();
        let traceparent = format!("00-{id}-b7ad6b7169203331-01");
        for (text, expected) in [
            (id, Some(bytes)),
            (&traceparent, Some(bytes)),
            (&id[1..], None),
            (&id.to_uppercase(), None),
            ("00000000000000000000000000000000", None),
            ("+af7651916cd43dd8448eb211c80319c", None),
            (&traceparent[..40], None),
        ] {
            assert_eq!(read_trace(text), expected, "{text}");
        }
    }
}
