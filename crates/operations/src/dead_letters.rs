//! `/deadletters`: notices whose delivery was given up, and their redelivery (DESIGN 2).
//!
//! Costs: a list walks from the newest dead letter on the sequencer's thread until its page is
//! full. Groups, and filters that select few, walk over all of them, some 20 ms per million.
//! Bounds: a page has [`PAGE_MAX`] entries, a request resends or drops [`PAGE_MAX`] letters, and a
//! response has [`GROUPS_MAX`] groups.

use std::collections::BTreeMap;
use std::task::Poll;

use events::message_of;
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{
    AdminOutcome, Change, DeadLetter, DropDeadLetter, FspName, NoticeId, ParticipantIndex,
    Redeliver, Stamp, State,
};
use serde_json::json;

use crate::audit_log::parse_audit_time;
use crate::body_reader::refuse;
use crate::request::{AdminRequest, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{DeadLetterResponse, Timestamp};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};
use crate::settlement_queries::MOMENT_FORM;

/// Maximum number of entries in one response, and of dead letters that a request resends.
pub(crate) const PAGE_MAX: u64 = 1_000;
/// Maximum number of groups in one response.
const GROUPS_MAX: usize = 1_000;
/// Changes that are requested at a time.
const CHANGES_MAX: usize = 100;

/// The dead letter in a path.
const LETTER: Parameter<NoticeId> =
    Parameter::new("id", "Dead letter id, as in the list.", schema::count, |text| {
        number("id", text).map(NoticeId)
    })
    .example("1");

pub(crate) const LIMIT: Parameter<u64> = Parameter::new(
    "limit",
    "Maximum number of entries; 1,000 by default.",
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

pub(crate) const PARTICIPANT: Parameter<FspName> = Parameter::new(
    "participant",
    "Only callbacks of this recipient.",
    schema::some_text,
    participant_name,
);

const CODE: Parameter<u16> = Parameter::new(
    "code",
    "Only with this HTTP status of the last attempt; 0 for attempts without a response.",
    || json!({"type": "integer", "minimum": 0, "maximum": 999}),
    |text| match number("code", text)? {
        code @ 0..=999 => Ok(code as u16),
        _ => Err(refuse(ErrorCode::VALIDATION, "code", "is out of range")),
    },
);

pub(crate) const FROM: Parameter<Stamp> =
    Parameter::new("from", "Created at this time or later.", schema::date_time, |text| {
        moment("from", text)
    });

pub(crate) const TO: Parameter<Stamp> =
    Parameter::new("to", "Created before this time.", schema::date_time, |text| moment("to", text));

routes! {
    "/deadletters" {
        read GET listDeadLetters = list, "List dead letters" {
            text: "Newest first. For the next page, set `before` to the last id of this one.",
            query: [LIMIT, BEFORE, PARTICIPANT, CODE, FROM, TO],
            responses: [200: Vec<DeadLetterResponse> = "Dead letters."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND],
        }
    }
    "/deadletters/groups" {
        read GET listDeadLetterGroups = groups, "Count dead letters by cause" {
            text: "\
                Groups of one recipient, message and status of the last attempt, largest first, \
                at most 1,000.",
            query: [PARTICIPANT, CODE, FROM, TO],
            responses: [200: Vec<DeadLetterGroup> = "Groups."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND],
        }
    }
    "/deadletters/resend" {
        change POST resendDeadLetters = resend_all, "Resend dead letters" {
            records: Redeliver,
            text: "\
                Starts new attempts of the newest dead letters that the query selects, at most \
                `limit`, in order of id. Each is a record of the log. Repeat the request with \
                `before` = `last` while `more` is true. Needs no body.",
            query: [LIMIT, BEFORE, PARTICIPANT, CODE, FROM, TO],
            responses: [200: DeadLettersChanged = "Queued for delivery."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND],
        }
    }
    "/deadletters/{id}/resend" [LETTER] {
        change POST resend = resend, "Resend a dead letter" {
            records: Redeliver,
            text: "Starts a new series of attempts. Needs no body.",
            responses: [202: () = "Queued for delivery."],
        }
    }
    "/deadletters/drop" {
        change POST dropDeadLetters = drop_all, "Drop dead letters" {
            records: DropDeadLetter,
            text: "\
                Removes the newest dead letters that the query selects, at most `limit`, in order \
                of id. They are not sent any more; the payments are unchanged. Each is a record of \
                the log. Repeat the request with `before` = `last` while `more` is true. Needs no \
                body.",
            query: [LIMIT, BEFORE, PARTICIPANT, CODE, FROM, TO],
            responses: [200: DeadLettersChanged = "Dropped."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND],
        }
    }
    "/deadletters/{id}/drop" [LETTER] {
        change POST dropDeadLetter = drop_one, "Drop a dead letter" {
            records: DropDeadLetter,
            text: "It is not sent any more; the payment is unchanged. Needs no body.",
            responses: [202: () = "Dropped."],
        }
    }
}

response_type! {
    /// Dead letters of one recipient, message and status.
    struct DeadLetterGroup as "DeadLetterGroup" {
        recipient: String,
        message: &'static str,
        last_status: Option<u16>,
        count: u64,
        oldest_id: u64,
        newest_id: u64,
        oldest_date: Timestamp,
        newest_date: Timestamp,
    }
}

response_type! {
    /// The result of a request for several dead letters.
    struct DeadLettersChanged as "DeadLettersChanged" {
        /// Number of letters that were resent or dropped.
        done: u64,
        /// The last one; the next request continues before it.
        #[serde(skip_serializing_if = "Option::is_none")]
        last: Option<u64>,
        /// Whether the query may select others.
        more: bool,
    }
}

/// The dead letters that a query selects.
#[derive(Clone, Copy, Debug)]
struct Filter {
    recipient: Option<ParticipantIndex>,
    code: Option<u16>,
    from: Option<Stamp>,
    to: Option<Stamp>,
}

impl Filter {
    async fn of(request: &AdminRequest<'_>) -> Result<Self, Refusal> {
        let (code, from, to) = (request.query(&CODE)?, request.query(&FROM)?, request.query(&TO)?);
        let recipient = request.query_party(&PARTICIPANT).await?;
        Ok(Self { recipient, code, from, to })
    }

    fn selects(&self, DeadLetter { notice, end }: &DeadLetter) -> bool {
        self.recipient.is_none_or(|recipient| recipient == notice.recipient)
            && self.code.is_none_or(|code| code == end.status)
            && self.from.is_none_or(|from| from <= notice.at)
            && self.to.is_none_or(|to| notice.at < to)
    }
}

/// Filter, limit and cursor of a request.
async fn selection(request: &AdminRequest<'_>) -> Result<(Filter, usize, NoticeId), Refusal> {
    let limit = request.query(&LIMIT)?.unwrap_or(PAGE_MAX);
    let before = request.query(&BEFORE)?.unwrap_or(u64::MAX);
    Ok((Filter::of(request).await?, limit as usize, NoticeId(before)))
}

/// The last `limit` selected letters below an id, oldest first, and whether there are others.
fn newest_before<'s>(
    state: &'s State,
    (filter, limit, before): (&Filter, usize, NoticeId),
) -> (Vec<&'s DeadLetter>, bool) {
    let all = state.dead_letters_before(before).filter(|letter| filter.selects(letter));
    let mut page: Vec<_> = all.take(limit + 1).collect();
    let more = limit < page.len();
    page.truncate(limit);
    page.reverse();
    (page, more)
}

/// `GET /deadletters`: newest first; `before` is the last id of the previous page.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let (filter, limit, before) = selection(request).await?;
    let page = request.query_state(move |state| {
        let (page, _) = newest_before(state, (&filter, limit, before));
        page.iter().rev().map(|letter| DeadLetterResponse::of(state, letter)).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&page.await?))
}

/// `GET /deadletters/groups`.
async fn groups(request: &AdminRequest<'_>) -> HandlerResult {
    let filter = Filter::of(request).await?;
    let groups = request.query_state(move |state| {
        let mut groups = BTreeMap::new();
        for letter in state.dead_letters().filter(|letter| filter.selects(letter)) {
            let DeadLetter { notice, end } = letter;
            let key = (notice.recipient, message_of(notice.kind), end.status);
            let group = groups.entry(key).or_insert_with(|| DeadLetterGroup::begin(state, letter));
            group.add(letter);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        groups.truncate(GROUPS_MAX);
        groups
    });
    Ok(AdminResponse::ok(&groups.await?))
}

impl DeadLetterGroup {
    /// A group without a letter, for letters like this one.
    fn begin(state: &State, DeadLetter { notice, end }: &DeadLetter) -> Self {
        Self {
            recipient: state.registry().get(notice.recipient).name.to_string(),
            message: message_of(notice.kind),
            last_status: (end.status != 0).then_some(end.status),
            count: 0,
            oldest_id: notice.id.0,
            newest_id: notice.id.0,
            oldest_date: Timestamp(notice.at),
            newest_date: Timestamp(notice.at),
        }
    }

    /// Adds a newer letter.
    fn add(&mut self, letter: &DeadLetter) {
        self.count += 1;
        (self.newest_id, self.newest_date) = (letter.notice.id.0, Timestamp(letter.notice.at));
    }
}

/// `POST /deadletters/resend`.
async fn resend_all(request: &AdminRequest<'_>) -> HandlerResult {
    change_all(request, |notice| Redeliver { notice }.into()).await
}

/// `POST /deadletters/drop`.
async fn drop_all(request: &AdminRequest<'_>) -> HandlerResult {
    change_all(request, |notice| DropDeadLetter { notice }.into()).await
}

/// Changes the selected letters. One that was resent or dropped meanwhile is skipped.
async fn change_all(
    request: &AdminRequest<'_>,
    change: impl Fn(NoticeId) -> Change,
) -> HandlerResult {
    let (filter, limit, before) = selection(request).await?;
    let letters = request.query_state(move |state| {
        let (page, more) = newest_before(state, (&filter, limit, before));
        (page.iter().map(|letter| letter.notice.id).collect::<Vec<_>>(), more)
    });
    let (letters, more) = letters.await?;
    let mut done = 0;
    for some in letters.chunks(CHANGES_MAX) {
        let decide =
            |notice: &NoticeId| request.decide(request.identity.reason.clone(), change(*notice));
        for decided in join_all(some.iter().map(decide)).await {
            let (outcome, _) = decided?;
            done += u64::from(outcome == AdminOutcome::Accepted);
        }
    }
    let last = letters.first().map(|id| id.0);
    Ok(AdminResponse::ok(&DeadLettersChanged { done, last, more }))
}

/// Waits for all futures, which make progress together.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(Box::pin).collect();
    let mut results: Vec<_> = futures.iter().map(|_| None).collect();
    let all = std::future::poll_fn(|context| {
        let mut is_ready = true;
        for (future, result) in futures.iter_mut().zip(&mut results) {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    Poll::Ready(value) => *result = Some(value),
                    Poll::Pending => is_ready = false,
                }
            }
        }
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    });
    all.await;
    results.into_iter().flatten().collect()
}

/// `POST /deadletters/{id}/resend`: starts a new series of attempts.
async fn resend(request: &AdminRequest<'_>) -> HandlerResult {
    let notice = request.path(&LETTER)?;
    request.change(Redeliver { notice }).await?;
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}

/// `POST /deadletters/{id}/drop`.
async fn drop_one(request: &AdminRequest<'_>) -> HandlerResult {
    let notice = request.path(&LETTER)?;
    request.change(DropDeadLetter { notice }).await?;
    Ok(AdminResponse::empty(StatusCode::ACCEPTED))
}

fn moment(name: &str, text: &str) -> Result<Stamp, Refusal> {
    parse_audit_time(text).ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, name, MOMENT_FORM))
}

pub(crate) fn number(name: &str, text: &str) -> Result<u64, Refusal> {
    text.parse().map_err(|_| refuse(ErrorCode::MALFORMED_SYNTAX, name, "must be an integer"))
}
