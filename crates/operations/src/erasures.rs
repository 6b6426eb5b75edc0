//! `/erasures`: contents of recorded messages that are erased from the log, its archives and its
//! backups. An addition to the reference's API.
//!
//! A request selects records; the order is a record of the log ([`ledger::Erase`]), and a
//! background job carries it out. Two persons order an erasure if operators have names.

use fspiop::{ErrorCode, PartyIdType, Refusal};
use http::StatusCode;
use ledger::{
    ERASED_RANGES_MAX, Erase, ErasureForm, FspName, LogIndex, RecordRange, Stamp, TransferId,
};

use crate::audit_log::parse_audit_time;
use crate::body::{Custom, Optional, TRANSFER_ID, body};
use crate::body_reader::refuse;
use crate::interchange_fee_rules::FSP;
use crate::outcome_errors;
use crate::parties::{id_type, identifier};
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};
use crate::settlement_queries::MOMENT_FORM;

/// Maximum number of erasures in one response.
pub const ERASURES_LISTED_MAX: usize = 1_000;

const ONLY_TRANSFER: Parameter<TransferId> = Parameter::new(
    "transferId",
    "The payment whose messages would be erased.",
    || openapi::schema::reference("TransferId"),
    |text| {
        let what = "must be a UUID or a ULID";
        TransferId::parse(text)
            .ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "transferId", what))
    },
);

const BEFORE: Parameter<Stamp> = Parameter::new(
    "before",
    "Messages that were recorded before this time would be erased.",
    schema::date_time,
    |text| {
        parse_audit_time(text)
            .ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "before", MOMENT_FORM))
    },
);

const BEFORE_RECORD: Parameter<LogIndex> = Parameter::new(
    "beforeRecord",
    "Only erasures that an earlier record than this one ordered.",
    schema::count,
    |text| {
        let what = "must be the number of a record";
        let record = text.parse().map(LogIndex);
        record.map_err(|_| refuse(ErrorCode::MALFORMED_SYNTAX, "beforeRecord", what))
    },
);

const PARTICIPANT: Parameter<FspName> = Parameter::new(
    "participant",
    "The participant whose messages would be erased; with `before`, those before the time.",
    schema::some_text,
    |text| {
        let what = "must be the name of a participant";
        FspName::new(text).ok_or_else(|| refuse(ErrorCode::MALFORMED_SYNTAX, "participant", what))
    },
);

const PARTY_TYPE: Parameter<PartyIdType> = Parameter::new(
    "partyIdType",
    "The type of the party's identifier.",
    || schema::one_of(PartyIdType::NAMES),
    |text| id_type("partyIdType", text),
);

const PARTY_ID: Parameter<String> = Parameter::some_text(
    "partyIdentifier",
    "The party whose messages would be erased, with the other messages of its payments.",
);

const PARTY_SUB_ID: Parameter<String> = Parameter::some_text(
    "partySubIdOrType",
    "Only messages with this sub-identifier. Without it, messages with any.",
);

routes! {
    "/erasures" {
        guarded GET listErasures = list, "List erasures of message contents" {
            text: "\
                Newest first, at most 1,000, with their progress; older ones with `beforeRecord`. \
                The progress is the segments of the log that \
                still hold contents, the contents that are still needed, and the copy of \
                `backup.to`.",
            query: [BEFORE_RECORD],
            responses: [200: Vec<ErasureResponse> = "Erasures."],
            refusals: [400 MALFORMED_SYNTAX],
        }
        change POST orderErasure = order(NewErasure), "Erase message contents" {
            permission: Erase,
            records: Erase,
            text: "\
                Erases headers and bodies of recorded messages: those of one payment \
                (`transferId`), all that were recorded before a time (`before`), those that a \
                participant sent (`participant`, perhaps with `before`) with operators' \
                registrations of its parties, or those that \
                name a party (`partyIdType`, `partyIdentifier` and perhaps `partySubIdOrType`) \
                with the other messages of its payments. A party that is still registered is \
                refused: release it first. The order does not contain the identifier. A reason \
                with an identifier that the messages name is refused. Amounts, states, \
                participants and times stay, and so do all proofs of the log. If operators have \
                names, the request is answered 202 with a proposal, which another operator \
                approves. A background job erases them from the log, its archives and its \
                backups; contents that a payment in flight or a notice still needs are erased \
                when it has ended. See `GET /erasures` for the progress.",
            example: {"transferId": "b51ec534-ee48-4575-b6a9-ead2955b8069"},
            responses: [201: () = "Ordered."],
            refusals: [400 VALIDATION, 400 ID_NOT_FOUND],
        }
    }
    "/erasures/plan" {
        guarded GET planErasure = plan, "Show what an erasure would erase" {
            text: "\
                Needs `transferId`, `before`, `participant`, or `partyIdType` with \
                `partyIdentifier`, as `POST /erasures`. Changes nothing. For a party or a \
                participant, the whole log is read.",
            query: [ONLY_TRANSFER, BEFORE, PARTICIPANT, PARTY_TYPE, PARTY_ID, PARTY_SUB_ID],
            responses: [200: ErasurePlanResponse = "The records, and where they are."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND],
        }
    }
    "/erasures/retention" {
        guarded GET planRetention = plan_retention, "Show erasures by age" {
            text: "\
                For each kind of contents the setting, and the contents that have become older \
                since the last erasure. With the query, those of another setting. Changes nothing.",
            query: [PAYMENTS_DAYS, REGISTRATIONS_DAYS],
            responses: [200: Vec<RetentionResponse> = "The kinds."],
            refusals: [400 MALFORMED_SYNTAX],
        }
    }
}

const PAYMENTS_DAYS: Parameter<u32> = Parameter::new(
    "paymentsDays",
    "Instead of the setting `retention.payments_days`.",
    schema::count,
    |text| read_days("paymentsDays", text),
);

const REGISTRATIONS_DAYS: Parameter<u32> = Parameter::new(
    "registrationsDays",
    "Instead of the setting `retention.registrations_days`.",
    schema::count,
    |text| read_days("registrationsDays", text),
);

fn read_days(name: &str, text: &str) -> Result<u32, Refusal> {
    let what = "must be a number of days";
    text.parse().map_err(|_| refuse(ErrorCode::MALFORMED_SYNTAX, name, what))
}

body! {
    Closed NewErasure {
        transfer_id: Option<TransferId> = Optional(TRANSFER_ID),
        before: Option<Stamp> = Optional(MOMENT),
        participant: Option<FspName> = Optional(FSP),
        party_id_type: Option<PartyIdType> = Optional(ID_TYPE),
        party_identifier: Option<String> = Optional(IDENTIFIER),
        party_sub_id_or_type: Option<String> = Optional(IDENTIFIER),
    }
}

const ID_TYPE: Custom<PartyIdType> = Custom {
    take: |reader, name| {
        let Some(text) = reader.text(name, 1..=32)? else { return Ok(None) };
        id_type(name, &text).map(Some)
    },
    schema: || schema::one_of(PartyIdType::NAMES),
};

const IDENTIFIER: Custom<String> = Custom { take: identifier, schema: schema::some_text };

/// A time, as in the queries.
const MOMENT: Custom<Stamp> = Custom {
    take: |reader, name| {
        let Some(text) = reader.text(name, 1..=64)? else { return Ok(None) };
        let parsed = parse_audit_time(&text);
        parsed.map(Some).ok_or_else(|| reader.malformed(name, MOMENT_FORM))
    },
    schema: schema::date_time,
};

/// The name of a party.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyName {
    /// Identifier type.
    pub id_type: String,
    /// The identifier.
    pub id: String,
    /// Sub-identifier; without it, messages with any are selected.
    pub sub_id: Option<String>,
}

/// The contents to be erased.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErasureSelection {
    /// The messages of one payment.
    Transfer(TransferId),
    /// The messages that were recorded before a time.
    Before(Stamp),
    /// The messages that a participant sent before a time, with registrations of its parties by
    /// operators.
    Participant(FspName, Stamp),
    /// The messages that name a party, with the other messages of their payments.
    Party(PartyName),
}

/// The records that an erasure would affect.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasurePlan {
    /// The records, ascending and apart.
    pub records: Vec<RecordRange>,
    /// Number of contents.
    pub contents: u64,
    /// Those of them that are messages about bulk transfers, with all items.
    pub bulks: u64,
    /// Segments of the log that hold them.
    pub segments: u64,
    /// Those of them that are in an archive.
    pub archived: u64,
    /// Length of these segments in bytes, uncompressed.
    pub bytes: u64,
    /// Whether the reason has an identifier of a party that the contents name.
    pub is_named_in_reason: bool,
    /// The findings about a party.
    pub party: PartyFindings,
}

/// The places of a party other than the selected contents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartyFindings {
    /// Whether the party is in the party directory.
    pub is_registered: bool,
    /// Changes of the party directory whose fields name it.
    pub changes: u64,
    /// Whether the search ended before the end of the log, because it had found too much.
    pub is_cut: bool,
}

/// An erasure with its progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureReport {
    /// The record that ordered it.
    pub record: u64,
    /// When it was ordered.
    pub at: Stamp,
    /// The order.
    pub order: Erase,
    /// The operator who ordered it.
    pub by: String,
    /// The operator who approved it; empty if one person ordered it.
    pub approved_by: String,
    /// The reason.
    pub reason: String,
    /// Segments that are not rewritten yet.
    pub segments_left: u64,
    /// Those of them that are in an archive.
    pub archived_left: u64,
    /// Contents that a payment in flight or a notice still needs.
    pub contents_waiting: u64,
    /// Whether the copy of `backup.to` still has the contents, until its next run.
    pub in_copy: bool,
}

response_type! {
    /// The extent of an erasure.
    struct ErasurePlanResponse as "ErasurePlan" {
        /// Number of contents.
        contents: u64,
        /// Segments of the log that would be rewritten.
        segments: u64,
        /// Those of them that are in an archive.
        archived_segments: u64,
        /// Length of these segments in bytes, uncompressed.
        bytes: u64,
        /// Whether the party is still registered: it must be released before the order.
        is_registered: bool,
        /// Changes of the party directory whose fields name the party. They are not erased.
        directory_records: u64,
        /// Messages about bulk transfers among the contents: they are erased with all items.
        bulk_messages: u64,
    }
}

response_type! {
    /// An erasure of message contents.
    struct ErasureResponse as "Erasure" {
        /// The record that ordered it.
        log_index: u64,
        ordered_date: Timestamp,
        form: &'static str = schema::one_of(&FORMS),
        /// The payment or the time, the type of the party's identifier, or the participant and the
        /// time.
        subject: String,
        contents: u64,
        ordered_by: String,
        approved_by: String,
        reason: String,
        /// `IN_COPY`: done, except for the copy of `backup.to`, which its next run replaces.
        state: &'static str = schema::one_of(&["RUNNING", "IN_COPY", "DONE"]),
        /// Segments of the log that are not rewritten yet.
        segments_left: u64,
        /// Those of them that are in an archive.
        archived_segments_left: u64,
        /// Contents that a payment in flight or a notice still needs.
        contents_waiting: u64,
        /// The records, as ranges; at most 100 of them.
        records: Vec<RecordRangeResponse>,
        /// Number of ranges.
        record_ranges: usize,
    }
}

response_type! {
    /// Consecutive records.
    struct RecordRangeResponse as "RecordRange" {
        first: u64,
        last: u64,
    }
}

/// Maximum number of ranges of records in the response about an erasure.
const RANGES_SHOWN_MAX: usize = 100;

/// The forms of erasures.
const FORMS: [&str; 6] =
    ["TRANSFER", "BEFORE", "PARTY", "RETAINED_PAYMENTS", "RETAINED_REGISTRATIONS", "PARTICIPANT"];

impl ErasureResponse {
    fn of(report: ErasureReport) -> Self {
        let ErasureReport { record, at, order, by, approved_by, reason, .. } = report;
        let state = match (report.segments_left, report.in_copy) {
            (0, false) => "DONE",
            (0, true) => "IN_COPY",
            _ => "RUNNING",
        };
        let range = |it: &RecordRange| RecordRangeResponse { first: it.first.0, last: it.last.0 };
        let shown = order.records.iter().take(RANGES_SHOWN_MAX).map(range).collect();
        let record_ranges = order.records.len();
        Self {
            log_index: record,
            ordered_date: Timestamp(at),
            form: order.form.name(),
            subject: order.subject,
            contents: u64::from(order.contents),
            ordered_by: by,
            approved_by,
            reason,
            state,
            segments_left: report.segments_left,
            archived_segments_left: report.archived_left,
            contents_waiting: report.contents_waiting,
            records: shown,
            record_ranges,
        }
    }
}

/// Settings to plan with, instead of those in force.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionOverride {
    /// `retention.payments_days`.
    pub payments: Option<u32>,
    /// `retention.registrations_days`.
    pub registrations: Option<u32>,
}

impl RetentionOverride {
    /// The days of a kind.
    #[must_use]
    pub fn days(&self, kind: &str) -> Option<u32> {
        match kind {
            "payments" => self.payments,
            _ => self.registrations,
        }
    }
}

/// A kind of contents that is erased by age.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetentionReport {
    /// The kind.
    pub kind: &'static str,
    /// The name of its setting.
    pub setting: &'static str,
    /// Its value; 0 if contents are kept.
    pub days: u32,
    /// Contents recorded before this time are too old.
    pub before: Option<Stamp>,
    /// The time of the first content that has become too old since the last order.
    pub oldest: Option<Stamp>,
    /// These contents, and the segments that hold them.
    pub extent: ErasurePlan,
    /// The last record that earlier orders name.
    pub erased_through: u64,
    /// When the next order is made.
    pub next: Option<Stamp>,
}

response_type! {
    /// A kind of contents that is erased by age.
    struct RetentionResponse as "Retention" {
        kind: &'static str = schema::one_of(&["payments", "registrations"]),
        /// The name of its setting.
        setting: &'static str,
        /// Its value; 0 if contents are kept.
        days: u32,
        /// Contents recorded before this time are too old.
        #[serde(skip_serializing_if = "Option::is_none")]
        before_date: Option<Timestamp>,
        /// Contents of the kind that have become too old since the last order.
        contents: u64,
        /// The time of the first of them.
        #[serde(skip_serializing_if = "Option::is_none")]
        oldest_date: Option<Timestamp>,
        /// Segments of the log that hold them.
        segments: u64,
        archived_segments: u64,
        /// Length of these segments in bytes, uncompressed.
        bytes: u64,
        /// The last record that earlier orders name.
        erased_through: u64,
        /// When the next order is made, at the earliest.
        #[serde(skip_serializing_if = "Option::is_none")]
        next_date: Option<Timestamp>,
    }
}

impl RetentionResponse {
    fn of(report: RetentionReport) -> Self {
        let RetentionReport { kind, setting, days, erased_through, .. } = report;
        Self {
            kind,
            setting,
            days,
            before_date: report.before.map(Timestamp),
            contents: report.extent.contents,
            oldest_date: report.oldest.map(Timestamp),
            segments: report.extent.segments,
            archived_segments: report.extent.archived,
            bytes: report.extent.bytes,
            erased_through,
            next_date: report.next.map(Timestamp),
        }
    }
}

/// `GET /erasures/retention`.
async fn plan_retention(request: &AdminRequest<'_>) -> HandlerResult {
    let other = RetentionOverride {
        payments: request.query(&PAYMENTS_DAYS)?,
        registrations: request.query(&REGISTRATIONS_DAYS)?,
    };
    let plan = request.backend.plan_retention(other).await;
    let plan = plan.map_err(outcome_errors::from_unavailable)?;
    let plan: Vec<_> = plan.into_iter().map(RetentionResponse::of).collect();
    Ok(AdminResponse::ok(&plan))
}

/// `GET /erasures`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let before = request.query(&BEFORE_RECORD)?;
    let all = request.backend.erasures(before).await.map_err(outcome_errors::from_unavailable)?;
    let all: Vec<_> = all.into_iter().map(ErasureResponse::of).collect();
    Ok(AdminResponse::ok(&all))
}

/// `GET /erasures/plan`.
async fn plan(request: &AdminRequest<'_>) -> HandlerResult {
    let selected = NewErasure {
        transfer_id: request.query(&ONLY_TRANSFER)?,
        before: request.query(&BEFORE)?,
        participant: request.query(&PARTICIPANT)?,
        party_id_type: request.query(&PARTY_TYPE)?,
        party_identifier: request.query(&PARTY_ID)?,
        party_sub_id_or_type: request.query(&PARTY_SUB_ID)?,
    };
    let selection = selection(request, selected, None).await?;
    has_identifier_in_reason(request, &selection);
    let plan = find(request, &selection).await?;
    Ok(AdminResponse::ok(&ErasurePlanResponse {
        contents: plan.contents,
        segments: plan.segments,
        archived_segments: plan.archived,
        bytes: plan.bytes,
        is_registered: plan.party.is_registered,
        directory_records: plan.party.changes,
        bulk_messages: plan.bulks,
    }))
}

/// Whether the reason has the identifier of the party. Then the audit trail does not get it.
fn has_identifier_in_reason(request: &AdminRequest<'_>, selection: &ErasureSelection) -> bool {
    let ErasureSelection::Party(party) = selection else { return false };
    let is_in_reason = request.identity.reason.contains(party.id.trim_start_matches('+'));
    if is_in_reason {
        request.audit.hide_reason();
    }
    is_in_reason
}

/// Refuses a reason for a decision about an erasure that has an identifier of a party in the
/// contents.
pub(crate) async fn check_reason(
    request: &AdminRequest<'_>,
    erase: &Erase,
    reason: &str,
) -> Result<(), Refusal> {
    let found = request.backend.names_party(erase.clone(), reason.to_owned()).await;
    if !found.map_err(outcome_errors::from_unavailable)? {
        return Ok(());
    }
    request.audit.hide_reason();
    Err(Refusal::new(ErrorCode::VALIDATION, NAMED_IN_REASON))
}

const NAMED_IN_REASON: &str = "the reason must not contain an identifier of a party in the \
                               contents: it is never erased";

/// `POST /erasures`.
async fn order(request: &AdminRequest<'_>, body: NewErasure) -> HandlerResult {
    let replaced = match body.participant {
        Some(name) => request.backend.replace_key_of(name).await,
        None => Ok(None),
    };
    let replaced = replaced.map_err(outcome_errors::from_unavailable)?;
    let selection = selection(request, body, replaced).await?;
    let refused = |what: &str| Err(Refusal::new(ErrorCode::VALIDATION, what));
    if has_identifier_in_reason(request, &selection) {
        return refused("the reason must not contain the identifier: it is never erased");
    }
    let plan = find(request, &selection).await?;
    if plan.is_named_in_reason {
        return refused(NAMED_IN_REASON);
    }
    if plan.party.is_registered {
        return refused(
            "the party is registered; release it first: `upesi party release`, with --sub-id for \
             each of its sub-identifiers",
        );
    }
    if plan.party.is_cut || ERASED_RANGES_MAX < plan.records.len() {
        return refused("the selection has too many messages");
    }
    if plan.contents == 0 {
        return refused("no recorded message is selected");
    }
    let (form, subject) = match selection {
        ErasureSelection::Transfer(id) => (ErasureForm::Transfer, id.to_string()),
        ErasureSelection::Before(time) => (ErasureForm::Before, Timestamp(time).to_string()),
        ErasureSelection::Participant(name, time) => {
            let subject = Erase::participant_subject(&name, &Timestamp(time).to_string());
            (ErasureForm::Participant, subject)
        }
        ErasureSelection::Party(party) => (ErasureForm::Party, party.id_type),
    };
    let contents = u32::try_from(plan.contents).unwrap_or(u32::MAX);
    request.change(Erase { form, subject, records: plan.records, contents }).await?;
    Ok(AdminResponse::empty(StatusCode::CREATED))
}

/// The selection of a request. All contents of a participant are those before a time after `now`.
async fn selection(
    request: &AdminRequest<'_>,
    selected: NewErasure,
    now: Option<Stamp>,
) -> Result<ErasureSelection, Refusal> {
    let NewErasure { transfer_id, before, participant, .. } = selected;
    let party = selected.party_id_type.zip(selected.party_identifier).map(|(kind, id)| {
        let sub_id = selected.party_sub_id_or_type;
        PartyName { id_type: kind.as_str().to_owned(), id, sub_id }
    });
    match (transfer_id, before, participant, party) {
        (Some(id), None, None, None) => Ok(ErasureSelection::Transfer(id)),
        (None, Some(time), None, None) => Ok(ErasureSelection::Before(time)),
        (None, before, Some(name), None) => of_participant(request, name, (before, now)).await,
        (None, None, None, Some(party)) => Ok(ErasureSelection::Party(party)),
        _ => {
            let what = "needs one of transferId, before, participant (perhaps with before), and \
                        partyIdType with partyIdentifier";
            Err(Refusal::new(ErrorCode::VALIDATION, what))
        }
    }
}

/// The contents of a participant, under its registered name. Without a time, all that are recorded:
/// the order has a time after them, so that it can be made again.
async fn of_participant(
    request: &AdminRequest<'_>,
    name: FspName,
    (before, now): (Option<Stamp>, Option<Stamp>),
) -> Result<ErasureSelection, Refusal> {
    let found = request.query_state(move |state| {
        let registry = state.registry();
        let known = registry.sender(&name).map(|index| registry.get(index).name);
        // In milliseconds, as in the order.
        let now = now.unwrap_or_default().max(state.stamp());
        let after_all = Stamp((now.0 / 1_000 + 1) * 1_000);
        (known, state.hub().matches(&name), after_all)
    });
    match found.await? {
        (_, true, _) => Err(Refusal::new(ErrorCode::VALIDATION, "the hub sends no messages")),
        (None, false, _) => Err(outcome_errors::participant_not_found()),
        (Some(name), false, after_all) => {
            Ok(ErasureSelection::Participant(name, before.unwrap_or(after_all)))
        }
    }
}

async fn find(
    request: &AdminRequest<'_>,
    selection: &ErasureSelection,
) -> Result<ErasurePlan, Refusal> {
    let reason = request.identity.reason.clone();
    let found = request.backend.plan_erasure(selection.clone(), reason).await;
    let found = found.map_err(outcome_errors::from_unavailable)?;
    if found.as_ref().is_some_and(|plan| plan.is_named_in_reason) {
        request.audit.hide_reason();
    }
    found.ok_or_else(|| Refusal::new(ErrorCode::ID_NOT_FOUND, "no record is about this transfer"))
}
