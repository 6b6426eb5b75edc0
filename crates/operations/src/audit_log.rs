//! `GET /audit`: administrative requests, from the records of the log. An addition to the
//! reference's API.
//!
//! An entry is a change with its author, or a request that made no change
//! ([`ledger::RecordAudit`]). The log is the only store: a page is read from it, on a separate
//! thread. Costs: at most [`AUDIT_READ_MAX`] records are read for a page, about 0.2 s.

use std::collections::BTreeMap;

use fspiop::{ErrorCode, Refusal};
use ledger::{Administer, Change, Digest, LogIndex, PartyBinding, RecordAudit, Stamp};
use serde_json::{Value, json};

use crate::audit_values::{AuditValues, ValuesResponse};
use crate::backend::ChangeAuthor;
use crate::body_reader::refuse;
use crate::change_words::InWords;
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::Timestamp;
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};
use crate::settlement_queries::{MOMENT_FORM, read_moment};

/// Maximum number of entries in a page.
pub const AUDIT_ENTRIES_MAX: usize = 1_000;
/// Number of entries in a page without `limit`.
const ENTRIES: usize = 100;
/// Maximum number of records that are read for a page.
pub const AUDIT_READ_MAX: u64 = 200_000;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// A change is in the log. If the kernel refused it, a refused request follows, with its
    /// number.
    Recorded,
    /// Answered without a change.
    Allowed,
    /// Refused.
    Refused,
}

impl AuditOutcome {
    const ALL: [(&'static str, Self); 3] =
        [("recorded", Self::Recorded), ("allowed", Self::Allowed), ("refused", Self::Refused)];

    /// Reads a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, outcome)| *outcome)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// The wanted entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditQuery {
    /// Entries of later records only.
    pub after: LogIndex,
    /// Maximum number of entries.
    pub limit: usize,
    /// Not earlier.
    pub from: Option<Stamp>,
    /// Earlier than this.
    pub to: Option<Stamp>,
    /// The start of the author: a name, or `unauthenticated`.
    pub actor: Option<String>,
    /// The start of the path of a request. Changes have none.
    pub path: Option<String>,
    /// Only this outcome.
    pub outcome: Option<AuditOutcome>,
    /// Whether the entries of changes have the values before and after.
    pub with_values: bool,
}

impl AuditQuery {
    /// All entries.
    #[must_use]
    pub const fn all() -> Self {
        Self {
            after: LogIndex(0),
            limit: AUDIT_ENTRIES_MAX,
            from: None,
            to: None,
            actor: None,
            path: None,
            outcome: None,
            with_values: false,
        }
    }

    /// Whether an entry is wanted.
    #[must_use]
    pub fn accepts(&self, entry: &AuditEntryData) -> bool {
        let AuditPlace { log_index, stamp, .. } = entry.place;
        let is_of = |actor: &String| {
            let rest = entry.author.actor.strip_prefix(&**actor);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let is_under = |path: &String| match &entry.event {
            AuditEvent::Request(request) => request.path.starts_with(&**path),
            AuditEvent::Change { .. } => false,
        };
        self.after < log_index
            && self.from.is_none_or(|from| from <= stamp)
            && self.to.is_none_or(|to| stamp < to)
            && self.actor.as_ref().is_none_or(is_of)
            && self.path.as_ref().is_none_or(is_under)
            && self.outcome.is_none_or(|outcome| outcome == entry.outcome())
    }
}

/// The place of an entry in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditPlace {
    /// Its record.
    pub log_index: LogIndex,
    /// Time of the record.
    pub stamp: Stamp,
    /// The last record of its batch.
    pub batch_end: LogIndex,
    /// The chain head after that record, which a signed chain head of that record contains.
    pub chain_head: Digest,
}

/// An entry of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntryData {
    place: AuditPlace,
    author: ChangeAuthor,
    event: AuditEvent,
    values: Option<AuditValues>,
    /// Identifiers of parties by their hashes, for the values.
    names: BTreeMap<String, String>,
}

/// The request of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AuditEvent {
    Change { name: &'static str, description: String },
    Request(RecordAudit),
}

impl AuditEntryData {
    /// The entry of a change, or of a request that made none.
    #[must_use]
    pub fn of(place: AuditPlace, administer: &Administer) -> Self {
        let Administer { actor, reason, change } = administer;
        let event = match change {
            Change::RecordAudit(request) => AuditEvent::Request(request.clone()),
            change => AuditEvent::Change {
                name: change.declaration().name,
                description: change.in_words(),
            },
        };
        let author = ChangeAuthor { actor: actor.clone(), reason: reason.clone() };
        Self { place, author, event, values: None, names: BTreeMap::new() }
    }

    /// Notes the identifiers of the change's parties, with the texts that its record has.
    pub fn note_parties(&mut self, recorded: &[PartyBinding], known: &[PartyBinding]) {
        let texts = |party: &PartyBinding| [Some(party.id.clone()), party.sub_id.clone()];
        let pairs = recorded.iter().flat_map(texts).zip(known.iter().flat_map(texts));
        let pairs = pairs.filter_map(|(recorded, known)| Some((recorded?, known?)));
        self.names.extend(pairs.filter(|(recorded, known)| recorded != known));
    }

    /// Its place in the log.
    #[must_use]
    pub const fn place(&self) -> &AuditPlace {
        &self.place
    }

    /// Whether a replay of the log finds values before and after.
    #[must_use]
    pub const fn lacks_values(&self) -> bool {
        matches!(self.event, AuditEvent::Change { .. }) && self.values.is_none()
    }

    /// Adds the values before and after the change.
    pub fn set_values(&mut self, mut values: AuditValues) {
        values.reveal(&std::mem::take(&mut self.names));
        self.values = Some(values);
    }

    fn outcome(&self) -> AuditOutcome {
        match &self.event {
            AuditEvent::Change { .. } => AuditOutcome::Recorded,
            AuditEvent::Request(request) if request.status < 400 => AuditOutcome::Allowed,
            AuditEvent::Request(_) => AuditOutcome::Refused,
        }
    }

    /// The entry as JSON, as `GET /audit` lists it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let response = AuditEntryResponse::of(self, &None);
        serde_json::to_value(response).expect("a response is always writable")
    }
}

/// A page of the audit trail.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPage {
    /// Entries in the order of the log.
    pub entries: Vec<AuditEntryData>,
    /// The last record that was read.
    pub next: LogIndex,
    /// The last record of the log.
    pub end: LogIndex,
    /// The reason why entries lack wanted values.
    pub values_missing: Option<String>,
}

routes! {
    "/audit/{logIndex}" [LOG_INDEX] {
        guarded GET showAudit = show, "Show an administrative request" {
            permission: Audit,
            text: "\
                The entry of a record. That of a change has the decision on it and the changed \
                rows of the state before and after it. Secrets are not shown. The values are read \
                from a replay of the log, which starts from the newest snapshot before the record \
                and reads at most 10,000,000 records in 60 s. Without values, `valuesMissing` \
                states the reason. One replay runs at a time; retry after a 503.",
            responses: [200: AuditEntryResponse = "The entry."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
    "/audit" {
        guarded GET listAudit = list, "List administrative requests" {
            permission: Audit,
            text: "\
                Changes with their authors (`outcome` is `recorded`), and requests that made no \
                change (`allowed` or `refused`), oldest first. A refused change of which the log \
                has a record is listed twice: the refused request names it as `record`. A page \
                ends after `limit` entries, after 200,000 records of the log, or at its end: \
                continue with `after` = `next` until `next` is `end`. `chainHead` is the hash of \
                the log up to the record `chainLogIndex`, which a signed chain head of that record \
                contains.",
            query: [AFTER, LIMIT, FROM, TO, ACTOR, PATH, OUTCOME, VALUES],
            responses: [200: AuditPageResponse = "A page of entries."],
            refusals: [400 MALFORMED_SYNTAX],
        }
    }
}

/// The record of an entry in a path; a text that cannot be one names none.
const LOG_INDEX: Parameter<Option<LogIndex>> =
    Parameter::new("logIndex", "The record of the entry.", schema::some_text, |text| {
        Ok(read_integer("logIndex", text).ok().map(LogIndex))
    })
    .example("\"1\"");

const VALUES: Parameter<bool> = Parameter::new(
    "values",
    "Whether entries of changes have the values before and after: `true` or `false`.",
    || json!({"type": "boolean"}),
    |text| match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(refuse(ErrorCode::MALFORMED_SYNTAX, "values", "must be true or false")),
    },
);

const AFTER: Parameter<u64> = Parameter::new(
    "after",
    "Only entries of later records: `next` of the page before.",
    schema::count,
    |text| read_integer("after", text),
)
.example("0");

const LIMIT: Parameter<usize> = Parameter::new(
    "limit",
    "Maximum number of entries; 100 by default.",
    || json!({"type": "integer", "minimum": 1, "maximum": AUDIT_ENTRIES_MAX}),
    |text| match text.parse() {
        Ok(limit) if (1..=AUDIT_ENTRIES_MAX).contains(&limit) => Ok(limit),
        _ => {
            let what = format!("must be an integer from 1 to {AUDIT_ENTRIES_MAX}");
            Err(refuse(ErrorCode::MALFORMED_SYNTAX, "limit", &what))
        }
    },
)
.example("10");

const FROM: Parameter<Stamp> =
    Parameter::new("from", "Recorded at this time or later.", schema::date_time, |text| {
        read_stamp("from", text)
    });

const TO: Parameter<Stamp> =
    Parameter::new("to", "Recorded before this time.", schema::date_time, |text| {
        read_stamp("to", text)
    });

const ACTOR: Parameter<String> = Parameter::some_text(
    "actor",
    "Only of this operator; `unauthenticated` for requests without an identity.",
);

const PATH: Parameter<String> =
    Parameter::some_text("path", "Only requests without a change whose path begins with this.");

const OUTCOME: Parameter<AuditOutcome> = Parameter::new(
    "outcome",
    "Only this outcome.",
    || schema::one_of(&schema::names(&AuditOutcome::ALL)),
    |text| {
        let what = "must be recorded, allowed or refused";
        let wrong = || refuse(ErrorCode::MALFORMED_SYNTAX, "outcome", what);
        AuditOutcome::parse(text).ok_or_else(wrong)
    },
);

response_type! {
    /// A page of the audit trail.
    struct AuditPageResponse as "AuditPage" {
        entries: Vec<AuditEntryResponse>,
        /// The last record that was read.
        next: u64,
        /// The last record of the log.
        end: u64,
    }
}

response_type! {
    /// An entry of the audit trail.
    struct AuditEntryResponse as "AuditEntry" {
        log_index: u64,
        date: Timestamp,
        outcome: &'static str = schema::one_of(&schema::names(&AuditOutcome::ALL)),
        /// Name, credential and address.
        actor: String,
        reason: String,
        /// The kind of the change.
        #[serde(skip_serializing_if = "Option::is_none")]
        change: Option<&'static str>,
        /// The change in words, or the error of the request.
        description: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_code: Option<u32>,
        /// Number of requests that the entry counts; the other members describe the last one.
        requests: u32,
        /// The record of the change that was refused.
        #[serde(skip_serializing_if = "Option::is_none")]
        record: Option<u64>,
        chain_log_index: u64,
        chain_head: String = schema::hash(),
        /// The decision on the change and the changed values, if asked for.
        #[serde(skip_serializing_if = "Option::is_none")]
        values: Option<ValuesResponse>,
        /// The reason why there are no values.
        #[serde(skip_serializing_if = "Option::is_none")]
        values_missing: Option<String>,
    }
}

impl AuditEntryResponse {
    fn of(entry: &AuditEntryData, missing: &Option<String>) -> Self {
        let AuditPlace { log_index, stamp, batch_end, chain_head } = entry.place;
        let request = match &entry.event {
            AuditEvent::Request(request) => Some(request),
            AuditEvent::Change { .. } => None,
        };
        let (change, description) = match &entry.event {
            AuditEvent::Change { name, description } => (Some(*name), description.clone()),
            AuditEvent::Request(request) => (None, request.detail.clone()),
        };
        Self {
            log_index: log_index.0,
            date: Timestamp(stamp),
            outcome: entry.outcome().name(),
            actor: entry.author.actor.clone(),
            reason: entry.author.reason.clone(),
            change,
            description,
            method: request.map(|request| request.method.clone()),
            path: request.map(|request| request.path.clone()),
            status: request.map(|request| request.status.into()),
            error_code: request.map(|it| it.code.into()).filter(|code| *code != 0),
            requests: request.map_or(1, |request| request.requests),
            record: request.map(|request| request.record.0).filter(|record| *record != 0),
            chain_log_index: batch_end.0,
            chain_head: chain_head.to_string(),
            values: entry.values.as_ref().map(AuditValues::response),
            values_missing: missing.clone().filter(|_| entry.lacks_values()),
        }
    }
}

/// `GET /audit/{logIndex}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let none =
        || Refusal::new(ErrorCode::ID_NOT_FOUND, "no administrative request has this record");
    let log_index = request.path(&LOG_INDEX)?.ok_or_else(none)?;
    let after = LogIndex(log_index.0.checked_sub(1).ok_or_else(none)?);
    let query = AuditQuery { after, limit: 1, with_values: true, ..AuditQuery::all() };
    let page = request.backend.audit_page(query).await;
    let AuditPage { entries, values_missing, .. } =
        page.map_err(outcome_errors::from_unavailable)?;
    let entry = entries.first().filter(|entry| entry.place.log_index == log_index);
    Ok(AdminResponse::ok(&AuditEntryResponse::of(entry.ok_or_else(none)?, &values_missing)))
}

/// `GET /audit`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let query = AuditQuery {
        after: LogIndex(request.query(&AFTER)?.unwrap_or_default()),
        limit: request.query(&LIMIT)?.unwrap_or(ENTRIES),
        from: request.query(&FROM)?,
        to: request.query(&TO)?,
        actor: request.query(&ACTOR)?,
        path: request.query(&PATH)?,
        outcome: request.query(&OUTCOME)?,
        with_values: request.query(&VALUES)?.unwrap_or_default(),
    };
    let page = request.backend.audit_page(query).await;
    let AuditPage { entries, next, end, values_missing } =
        page.map_err(outcome_errors::from_unavailable)?;
    let entries = entries.iter().map(|entry| AuditEntryResponse::of(entry, &values_missing));
    let entries = entries.collect();
    Ok(AdminResponse::ok(&AuditPageResponse { entries, next: next.0, end: end.0 }))
}

/// A date, or a date and time of RFC 3339.
#[must_use]
pub fn parse_audit_time(text: &str) -> Option<Stamp> {
    read_moment(text).map(Stamp::from_millis)
}

fn read_integer(name: &str, text: &str) -> Result<u64, Refusal> {
    match text.parse() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
        _ => Err(refuse(ErrorCode::MALFORMED_SYNTAX, name, "must be an integer")),
    }
}

fn read_stamp(name: &str, text: &str) -> Result<Stamp, Refusal> {
    let wrong = || refuse(ErrorCode::MALFORMED_SYNTAX, name, MOMENT_FORM);
    parse_audit_time(text).ok_or_else(wrong)
}
