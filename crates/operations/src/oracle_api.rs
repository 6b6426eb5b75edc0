//! The oracle API (hub-semantics 6.2 and 6.3) on a listener of its own: other hubs look up,
//! register and release the parties of this hub's directory.
//!
//! A request comes from a hub, which has checked its participant. An entry of another FSP is
//! therefore replaced by `PUT` and released by `DELETE`, as by an operator; the FSP that loses it
//! gets a callback. Changes are records of the log with the caller's address and the FSP that it
//! names.
//!
//! Costs: a look-up is one read of the directory. Changes are made one at a time, so that a `POST`
//! cannot overlook an entry that is being registered; each waits for one sync of the log. A batch
//! is one record.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use fspiop::{ErrorCode, IDENTIFIER_CHARS_MAX, PartyIdType, Refusal, is_identifier};
use http::header::ACCEPT;
use http::request::Parts;
use http::{Method, StatusCode};
use ledger::{
    Administer, AssignParties, Currency, ENTRIES_MAX, FormerOwner, FspName, PartyBinding,
    PartyChangeForm, TransferId,
};
use metrics::{Exposition, Labels, Metric, Number, metrics};
use ports::PARTY_ENTRIES_MAX;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::yield_now;

use crate::backend::AdminBackend;
use crate::body::{Body, CURRENCY_OR_NULL, Custom, List, Optional, TRANSFER_ID, Text, body};
use crate::body_reader::{BodyReader, known_currency, refuse};
use crate::outcome_errors;
use crate::parties::{PartyListResponse, identifier, serves};
use crate::request::{must_be_in_force, query_state};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{decode, parameter};
use crate::schema::some_text;
use crate::{auth, monitoring};

/// Entries of one batch.
const BATCH_MAX: usize = 10_000;
const _: () = assert!(BATCH_MAX <= ENTRIES_MAX, "a batch is one record");
/// Entries of a batch that are compared with the directory before other requests have their turn.
const COMPARED_AT_ONCE: usize = 100;
/// Longest path: `/participants/{Type}/{ID}/{SubId}`.
const SEGMENTS_MAX: usize = 4;
/// The FSP on whose behalf the calling hub acts.
const SOURCE: &str = "fspiop-source";

/// The service of the listener.
pub(crate) struct OracleApi {
    backend: Arc<dyn AdminBackend>,
    /// Held while a change is compared with the directory and recorded.
    changing: Mutex<()>,
    counts: RequestCounts,
}

/// Requests by kind, and those that were refused.
#[derive(Default)]
struct RequestCounts {
    lookups: AtomicU64,
    registrations: AtomicU64,
    changes: AtomicU64,
    releases: AtomicU64,
    batches: AtomicU64,
    refused: AtomicU64,
}

/// The resource of a request.
pub(crate) enum OracleResource {
    Health,
    Metrics,
    Batch,
    Party(PartyName),
}

/// A party by its path.
pub(crate) struct PartyName {
    kind: PartyIdType,
    id: String,
    sub_id: Option<String>,
}

body! {
    Open OracleRegistration {
        fsp_id: String = Text(32),
        currency: Option<Currency> = Optional(CURRENCY_OR_NULL),
        party_sub_id_or_type: Option<String> = Optional(SUB_ID),
    }
}

body! {
    Open OracleBatch {
        _request_id as "requestId": TransferId = TRANSFER_ID,
        party_list: Vec<OracleParty> = List::<OracleParty>::of(1..=BATCH_MAX),
        currency: Option<Currency> = Optional(CURRENCY_OR_NULL),
    }
}

body! {
    Open OracleParty {
        party_id_type: String = Text(32),
        party_identifier: String = Text(IDENTIFIER_CHARS_MAX),
        party_sub_id_or_type: Option<String> = Optional(SUB_ID),
        fsp_id: Option<String> = Optional(Text(32)),
    }
}

const SUB_ID: Custom<String> = Custom { take: sub_id, schema: some_text };

/// The answer to a batch.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BatchResponse {
    party_list: Vec<PartyResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartyResult {
    party_id: PartyId,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_information: Option<ErrorInformation>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartyId {
    party_id_type: String,
    party_identifier: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fsp_id: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation {
    error_code: String,
    error_description: String,
}

/// The metrics of this listener.
static TABLE: &[Metric<RequestCounts>] = metrics! { now: RequestCounts;
    Counter "upesi_oracle_api_requests_total" "Requests to the oracle API, by kind."
        now.requests();
    Counter "upesi_oracle_api_refused_total" "Refused requests to the oracle API."
        now.refused.load(Ordering::Relaxed);
};

impl RequestCounts {
    fn requests(&self) -> Vec<(Labels, Number)> {
        let kinds = [
            ("lookup", &self.lookups),
            ("registration", &self.registrations),
            ("change", &self.changes),
            ("release", &self.releases),
            ("batch", &self.batches),
        ];
        let sample = |(kind, count): (&'static str, &AtomicU64)| {
            (vec![("kind", kind.into())], Number::Integer(count.load(Ordering::Relaxed).into()))
        };
        kinds.into_iter().map(sample).collect()
    }
}

impl OracleResource {
    /// The resource of a path.
    pub(crate) fn find(path: &str) -> Result<Self, Refusal> {
        let segments = path.strip_prefix('/').ok_or_else(Refusal::unknown_uri)?;
        let segments = segments.split('/').take(SEGMENTS_MAX + 1).map(decode);
        let segments: Vec<_> = segments.collect::<Option<_>>().ok_or_else(Refusal::unknown_uri)?;
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match segments[..] {
            ["health"] => Ok(Self::Health),
            ["metrics"] => Ok(Self::Metrics),
            ["participants"] => Ok(Self::Batch),
            ["participants", kind, id] => PartyName::parse(kind, id, None).map(Self::Party),
            ["participants", kind, id, sub_id] => {
                PartyName::parse(kind, id, Some(sub_id)).map(Self::Party)
            }
            _ => Err(Refusal::unknown_uri()),
        }
    }

    /// Its methods, as the header `Allow` lists them.
    pub(crate) const fn methods(&self) -> &'static str {
        match self {
            Self::Health | Self::Metrics => "GET, HEAD",
            Self::Batch => "POST",
            Self::Party(_) => "GET, HEAD, POST, PUT, DELETE",
        }
    }
}

impl PartyName {
    fn parse(kind: &str, id: &str, sub_id: Option<&str>) -> Result<Self, Refusal> {
        let invalid = |name: &str, form: &str| Err(Refusal::malformed(&format!("{name} {form}")));
        let Some(kind) = PartyIdType::parse(kind) else {
            return invalid("Type", "must be an identifier type such as MSISDN");
        };
        if !is_short_identifier(id) || !kind.allows(id) {
            return invalid("ID", kind.form());
        }
        if sub_id.is_some_and(|sub_id| !is_short_identifier(sub_id)) {
            return invalid("SubId", "must be an identifier");
        }
        Ok(Self { kind, id: id.to_owned(), sub_id: sub_id.map(ToOwned::to_owned) })
    }

    /// The same with the sub-identifier of the query or the body, unless the path has one.
    fn with_sub_id(self, sub_id: Option<String>) -> Self {
        Self { sub_id: self.sub_id.or(sub_id), ..self }
    }

    fn binding(self, fsp: FspName, currency: Option<Currency>) -> PartyBinding {
        let Self { kind, id, sub_id } = self;
        PartyBinding { id_type: kind.as_str().into(), id, sub_id, currency, fsp }
    }
}

impl OracleApi {
    pub(crate) fn new(backend: Arc<dyn AdminBackend>) -> Self {
        Self { backend, changing: Mutex::default(), counts: RequestCounts::default() }
    }

    /// Counts a refused request.
    pub(crate) fn count_refused(&self) {
        self.counts.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Answers a request whose head and body have been received.
    pub(crate) async fn respond(
        &self,
        resource: OracleResource,
        (head, body): (&Parts, &Bytes),
        peer: IpAddr,
    ) -> HandlerResult {
        let query = head.uri.query().unwrap_or_default();
        match (resource, &head.method) {
            (OracleResource::Health, method) if auth::is_reading(method) => {
                monitoring::health(&self.backend.health(), &self.backend.storage())
            }
            (OracleResource::Metrics, method) if auth::is_reading(method) => Ok(self.metrics(head)),
            (OracleResource::Batch, &Method::POST) => {
                count(&self.counts.batches);
                self.batch(OracleBatch::read_text(body)?, (head, peer)).await
            }
            (OracleResource::Party(party), method) if auth::is_reading(method) => {
                count(&self.counts.lookups);
                self.look_up(party.with_sub_id(queried_sub_id(query)?), queried_currency(query)?)
            }
            (OracleResource::Party(party), &Method::POST) => {
                count(&self.counts.registrations);
                self.register(party, OracleRegistration::read_text(body)?, (head, peer)).await
            }
            (OracleResource::Party(party), &Method::PUT) => {
                count(&self.counts.changes);
                self.change(party, OracleRegistration::read_text(body)?, (head, peer)).await
            }
            (OracleResource::Party(party), &Method::DELETE) => {
                count(&self.counts.releases);
                let party = party.with_sub_id(queried_sub_id(query)?);
                self.release(&party, queried_currency(query)?, (head, peer)).await
            }
            _ => Err(Refusal::method_not_allowed()),
        }
    }

    fn metrics(&self, head: &Parts) -> AdminResponse {
        let mut families = Vec::new();
        metrics::collect(TABLE, &self.counts, &mut families);
        let accept = head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
        let format = Exposition::negotiate(accept.unwrap_or_default());
        AdminResponse::metrics(format.content_type(), format.encode(&families))
    }

    /// `GET`: an empty list if no FSP serves the party.
    fn look_up(&self, party: PartyName, currency: Option<Currency>) -> HandlerResult {
        let found = self.entries(party.kind.as_str(), &party.id, party.sub_id.as_deref())?;
        let found = found.into_iter().filter(|entry| serves(entry, currency));
        Ok(AdminResponse::ok(&PartyListResponse::of(found)))
    }

    /// `POST`: 409 if the party has an FSP in the currency.
    async fn register(
        &self,
        party: PartyName,
        body: OracleRegistration,
        by: (&Parts, IpAddr),
    ) -> HandlerResult {
        let party = self.binding(party, body).await?;
        let _changing = self.changing.lock().await;
        let found = self.entries(&party.id_type, &party.id, party.sub_id.as_deref())?;
        refuse_conflict(&found, &party)?;
        self.record((PartyChangeForm::Batch, vec![party]), Vec::new(), by).await?;
        Ok(AdminResponse::empty(StatusCode::CREATED))
    }

    /// `PUT`: replaces the FSPs of the party in the currency; 404 if it has none.
    async fn change(
        &self,
        party: PartyName,
        body: OracleRegistration,
        by: (&Parts, IpAddr),
    ) -> HandlerResult {
        let party = self.binding(party, body).await?;
        let _changing = self.changing.lock().await;
        let mut found = self.entries(&party.id_type, &party.id, party.sub_id.as_deref())?;
        found.retain(|entry| serves(entry, party.currency));
        if found.is_empty() {
            return Err(not_found());
        }
        if found.iter().any(|entry| entry.fsp != party.fsp || entry.currency != party.currency) {
            let lost = found.iter().filter(|entry| entry.fsp != party.fsp);
            let former = lost.map(|entry| FormerOwner { party: 0, fsp: entry.fsp }).collect();
            self.record((PartyChangeForm::Batch, vec![party]), former, by).await?;
        }
        Ok(AdminResponse::empty(StatusCode::OK))
    }

    /// `DELETE`: 404 if the party has no FSP in the currency.
    async fn release(
        &self,
        party: &PartyName,
        currency: Option<Currency>,
        by: (&Parts, IpAddr),
    ) -> HandlerResult {
        let _changing = self.changing.lock().await;
        let mut found = self.entries(party.kind.as_str(), &party.id, party.sub_id.as_deref())?;
        found.retain(|entry| serves(entry, currency));
        if found.is_empty() {
            return Err(not_found());
        }
        found.iter_mut().for_each(|entry| entry.currency = currency);
        let former = (0..).zip(&found).map(|(party, entry)| FormerOwner { party, fsp: entry.fsp });
        let former = former.collect();
        self.record((PartyChangeForm::Delete, found), former, by).await?;
        Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
    }

    /// `POST /participants`: each entry is registered or gets an error.
    async fn batch(&self, body: OracleBatch, by: (&Parts, IpAddr)) -> HandlerResult {
        let names = body.party_list.iter().filter_map(|party| FspName::new(party.fsp_id.as_ref()?));
        let known = self.participants(names.collect()).await?;
        let _changing = self.changing.lock().await;
        let (mut parties, mut results) = (Vec::new(), Vec::new());
        let mut known_entries: HashMap<_, Vec<PartyBinding>> = HashMap::new();
        for (at, item) in body.party_list.into_iter().enumerate() {
            if at % COMPARED_AT_ONCE == COMPARED_AT_ONCE - 1 {
                yield_now().await;
            }
            let checked = item.check(body.currency, &known).and_then(|party| {
                let key = (party.id_type.clone(), digits(&party).to_owned(), party.sub_id.clone());
                let entries = match known_entries.entry(key) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(new) => {
                        let sub_id = party.sub_id.as_deref();
                        new.insert(self.entries(&party.id_type, &party.id, sub_id)?)
                    }
                };
                // A repeated batch gets the same answer.
                if entries.iter().any(|it| it.fsp == party.fsp && it.currency == party.currency) {
                    return Ok(());
                }
                refuse_conflict(entries, &party)?;
                entries.push(party.clone());
                parties.push(party);
                Ok(())
            });
            results.push(PartyResult::new(item, checked));
        }
        if !parties.is_empty() {
            self.record((PartyChangeForm::Batch, parties), Vec::new(), by).await?;
        }
        let currency = body.currency.map(|currency| currency.to_string());
        let response = BatchResponse { party_list: results, currency };
        Ok(AdminResponse::json(StatusCode::CREATED, &response))
    }

    /// The entries of exactly this identifier and sub-identifier.
    fn entries(
        &self,
        id_type: &str,
        id: &str,
        sub_id: Option<&str>,
    ) -> Result<Vec<PartyBinding>, Refusal> {
        let found = self.backend.find_party(id_type, id, sub_id);
        found.map_err(outcome_errors::from_unavailable)
    }

    /// The entry of a registration, whose FSP must be a participant.
    async fn binding(
        &self,
        party: PartyName,
        body: OracleRegistration,
    ) -> Result<PartyBinding, Refusal> {
        let fsp = fsp_name(&body.fsp_id)?;
        match self.participants(BTreeSet::from([fsp])).await?.contains(&fsp) {
            true => Ok(party.with_sub_id(body.party_sub_id_or_type).binding(fsp, body.currency)),
            false => Err(unknown_fsp(&fsp)),
        }
    }

    /// Those of the names that are participants other than the hub.
    async fn participants(&self, names: BTreeSet<FspName>) -> Result<BTreeSet<FspName>, Refusal> {
        let known = query_state(&*self.backend, move |state| {
            let hub = *state.hub();
            let is_fsp = |name: &FspName| *name != hub && state.registry().find(name).is_some();
            names.into_iter().filter(is_fsp).collect()
        });
        known.await
    }

    /// Records a change; it is durable and visible to look-ups when this returns without an error.
    async fn record(
        &self,
        (form, parties): (PartyChangeForm, Vec<PartyBinding>),
        former: Vec<FormerOwner>,
        (head, peer): (&Parts, IpAddr),
    ) -> Result<(), Refusal> {
        must_be_in_force(&*self.backend, AssignParties::DECLARATION.rules).await?;
        let source = head.headers.get(SOURCE).and_then(|source| source.to_str().ok());
        let reason = source.and_then(FspName::new).map(|source| format!("{SOURCE}: {source}"));
        let change = Administer {
            actor: format!("oracle-api {peer}"),
            reason: reason.unwrap_or_default(),
            change: AssignParties { form, parties, former }.into(),
        };
        let decided = self.backend.administer(change).await;
        let decided = decided.map_err(outcome_errors::from_unavailable)?;
        let outcome = outcome_errors::outcome_of_change(decided.outcome)?;
        outcome_errors::from_outcome(outcome).map_or(Ok(()), Err)
    }
}

impl OracleParty {
    /// The entry, whose currency is that of the batch.
    fn check(
        &self,
        currency: Option<Currency>,
        known: &BTreeSet<FspName>,
    ) -> Result<PartyBinding, Refusal> {
        let fsp = self.fsp_id.as_deref();
        let fsp = fsp.ok_or_else(|| Refusal::missing("fspId is required"))?;
        let fsp = fsp_name(fsp)?;
        if !known.contains(&fsp) {
            return Err(unknown_fsp(&fsp));
        }
        let (kind, id) = (&self.party_id_type, &self.party_identifier);
        let party = PartyName::parse(kind, id, self.party_sub_id_or_type.as_deref())?;
        Ok(party.binding(fsp, currency))
    }
}

impl PartyResult {
    fn new(party: OracleParty, result: Result<(), Refusal>) -> Self {
        let error_information = result.err().map(|refusal| ErrorInformation {
            error_code: refusal.code.to_string(),
            error_description: refusal.description.to_string(),
        });
        let party_id = PartyId {
            party_id_type: party.party_id_type,
            party_identifier: party.party_identifier,
            party_sub_id_or_type: party.party_sub_id_or_type,
            fsp_id: party.fsp_id,
        };
        Self { party_id, error_information }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// The identifier as the directory compares it: a telephone number without the leading `+`.
fn digits(party: &PartyBinding) -> &str {
    match party.id_type == PartyIdType::Msisdn.as_str() {
        true => party.id.strip_prefix('+').unwrap_or(&party.id),
        false => &party.id,
    }
}

fn is_short_identifier(text: &str) -> bool {
    is_identifier(text) && text.chars().count() <= IDENTIFIER_CHARS_MAX
}

/// Refuses an entry that would overlap another one, or be one too many.
fn refuse_conflict(found: &[PartyBinding], party: &PartyBinding) -> Result<(), Refusal> {
    let what = if found.iter().any(|entry| serves(entry, party.currency)) {
        "the identifier already has an FSP"
    } else if PARTY_ENTRIES_MAX <= found.len() {
        "the identifier already has 16 entries"
    } else {
        return Ok(());
    };
    Err(Refusal { status: StatusCode::CONFLICT, ..Refusal::new(ErrorCode::ADD_PARTY, what) })
}

fn not_found() -> Refusal {
    let what = "no FSP serves the identifier";
    Refusal { status: StatusCode::NOT_FOUND, ..Refusal::new(ErrorCode::ID_NOT_FOUND, what) }
}

fn fsp_name(text: &str) -> Result<FspName, Refusal> {
    FspName::new(text)
        .ok_or_else(|| refuse(ErrorCode::VALIDATION, "fspId", "must have 1 to 32 bytes"))
}

fn unknown_fsp(name: &FspName) -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, &format!("fspId {name} is not a participant"))
}

fn sub_id(reader: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
    reader.drop_null(name);
    identifier(reader, name)
}

fn queried_sub_id(query: &str) -> Result<Option<String>, Refusal> {
    match parameter(query, "partySubIdOrType") {
        Some(text) if !is_short_identifier(&text) => {
            Err(Refusal::malformed("partySubIdOrType must be an identifier"))
        }
        text => Ok(text),
    }
}

fn queried_currency(query: &str) -> Result<Option<Currency>, Refusal> {
    let code = parameter(query, "currency");
    let known = code.map(|code| {
        let form = "must be an ISO 4217 currency code";
        known_currency(&code).ok_or_else(|| refuse(ErrorCode::VALIDATION, "currency", form))
    });
    known.transpose()
}
