//! `/parties`: registers parties in bulk, and shows the FSP that serves a party.
//!
//! A scheme that migrates to the hub may have millions of registered parties, which participants
//! would otherwise register one by one through FSPIOP. The valid rows become one command; the
//! response lists the error of each other row. Identical rows change nothing. No callback is sent.

use std::collections::BTreeSet;

use fspiop::{ErrorCode, IDENTIFIER_CHARS_MAX, PartyIdType, Refusal, is_identifier};
use ledger::{
    AssignParties, Currency, ENTRIES_MAX, FormerOwner, FspName, PartyBinding, PartyChangeForm,
};
use serde_json::json;
use serde_json::value::RawValue;

use crate::body::{CURRENCY_OR_NULL, Custom, Rule, body};
use crate::body_reader::{BodyReader, known_currency, refuse};
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

/// Rows of one request.
const ROWS_MAX: usize = 1_000;
const _: () = assert!(ROWS_MAX == 1_000, "the description names 1000");

/// The type of a party's identifier, in a path.
const TYPE: Parameter<PartyIdType> = Parameter::new(
    "Type",
    "The type of the identifier.",
    || schema::one_of(PartyIdType::NAMES),
    |text| id_type("Type", text),
)
.example("\"MSISDN\"");

/// The same in a path below `/participants`, where other words name other resources.
const PARTY_TYPE: Parameter<PartyIdType> =
    Parameter::new("Type", TYPE.info.text, TYPE.info.schema, |text| {
        PartyIdType::parse(text).ok_or_else(Refusal::unknown_uri)
    })
    .example("\"MSISDN\"");

/// The identifier of a party, in a path.
const ID: Parameter<String> =
    Parameter::some_text("ID", "The identifier.").example("\"254700000001\"");

const SUB_ID: Parameter<String> = Parameter::text("subId", "Sub-identifier of the party.");

const PARTY_SUB_ID: Parameter<String> =
    Parameter::text("partySubIdOrType", "Sub-identifier of the party.");

const FSP: Parameter<String> = Parameter::text("fspId", "Only the entries of this FSP.");

const CURRENCY: Parameter<Currency> = Parameter::new(
    "currency",
    "Only the entries that serve this currency.",
    schema::currency,
    |code| {
        known_currency(code).ok_or_else(|| {
            refuse(ErrorCode::VALIDATION, "currency", "must be an ISO 4217 currency code")
        })
    },
);

routes! {
    "/parties" {
        change POST registerParties = register(Registrations), "Register parties in bulk" {
            records: AssignParties,
            text: "\
                Up to 1000 parties, recorded as one change; the FSPs get no callback. A row has \
                `partyIdType`, `partyIdentifier` and `fspId`, and optionally `partySubIdOrType` \
                and `currency`, with the rules of FSPIOP's `POST /participants`. An invalid row \
                is skipped and reported with its index, from 0, and its error: 3100 for an \
                invalid value, 3101 for a value that is not a string, 3102 for a missing member, \
                3103 for an unknown member, 3200 for an FSP that is not a participant. Valid \
                rows are registered. An identifier has one FSP per currency: a registration \
                replaces those of other FSPs in its currency, and one without a currency those \
                in all. The last registration wins, within a request as well. An FSP that loses \
                an identifier gets a callback. An identical request changes nothing.",
            example: {"parties": [
                {"partyIdType": "MSISDN", "partyIdentifier": "254700000001", "fspId": "payerfsp"},
                {
                    "partyIdType": "ACCOUNT_ID",
                    "partyIdentifier": "0012345",
                    "partySubIdOrType": "SAVINGS",
                    "fspId": "payerfsp",
                    "currency": "XOF"
                }
            ]},
            responses: [
                200: RegistrationResult = "Number of registered parties, errors of skipped rows.",
            ],
            refusals: [400 VALIDATION],
        }
    }
    "/parties/{Type}/{ID}" [TYPE, ID] {
        guarded GET findParty = find, "Find the FSPs that serve a party" {
            text: "\
                Empty if no FSP serves it. An entry without a currency serves every currency. \
                Requires the token: the answer is personal data.",
            query: [SUB_ID, FSP, CURRENCY],
            responses: [200: Vec<PartyResponse> = "The entries, as look-ups see them."],
        }
        change DELETE releaseParty = release, "Release a party" {
            records: AssignParties,
            text: "\
                Removes the entries of the identifier, or of its sub-identifier `subId`: all of \
                them, or those of the FSP, those that serve the currency. Their FSPs get a \
                callback. Without such an entry nothing is recorded.",
            query: [SUB_ID, FSP, CURRENCY],
            responses: [200: Vec<PartyResponse> = "The removed entries."],
        }
    }
    "/participants/{Type}/{ID}" [PARTY_TYPE, ID] {
        guarded GET listPartyFsps = list_fsps, "Find the FSPs of a party as an oracle answers" {
            text: "\
                The entries of the hub's own directory, in the form of an oracle's answer. \
                Registered oracles are not asked; see `upesi oracle test`. Requires the token: the \
                answer is personal data.",
            query: [PARTY_SUB_ID, CURRENCY],
            responses: [200: PartyListResponse = "The entries, perhaps an empty list."],
            refusals: [404 UNKNOWN_URI],
        }
    }
}

body! {
    Closed Registrations {
        /// Each row is a party or an error. Errors are reported per row, so the schema does not
        /// constrain rows.
        parties: Vec<Result<PartyBinding, Refusal>> = Custom {
            take: rows,
            schema: || json!({
                "type": "array",
                "items": {"type": "object"},
                "minItems": 1,
                "maxItems": ROWS_MAX,
            }),
        },
    }
}

response_type! {
    /// Result of a request.
    struct RegistrationResult as "RegistrationResult" {
        registered: usize,
        refused: Vec<RefusedRow>,
    }
}

response_type! {
    /// A row that was not registered.
    struct RefusedRow {
        /// Its index among the rows, from 0.
        row: usize,
        error_information: RowError,
    }
}

response_type! {
    struct RowError {
        error_code: String,
        error_description: String,
    }
}

response_type! {
    /// A party in a response.
    struct PartyResponse as "PartyBinding" {
        party_id_type: String = schema::one_of(PartyIdType::NAMES),
        party_identifier: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        party_sub_id_or_type: Option<String>,
        fsp_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        currency: Option<String> = schema::currency(),
    }
}

response_type! {
    /// The answer of an oracle.
    pub(crate) struct PartyListResponse as "PartyList" {
        party_list: Vec<PartyFspResponse>,
    }
}

response_type! {
    pub(crate) struct PartyFspResponse {
        fsp_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        currency: Option<String> = schema::currency(),
        #[serde(skip_serializing_if = "Option::is_none")]
        party_sub_id_or_type: Option<String>,
    }
}

/// `POST /parties`: registers up to [`ROWS_MAX`] parties.
async fn register(request: &AdminRequest<'_>, body: Registrations) -> HandlerResult {
    let rows = body.parties;
    let named: BTreeSet<FspName> = rows.iter().flatten().map(|party| party.fsp).collect();
    let known = request
        .query_state(move |state| {
            let hub = *state.hub();
            let is_fsp = |name: &FspName| *name != hub && state.registry().find(name).is_some();
            named.into_iter().filter(is_fsp).collect::<BTreeSet<_>>()
        })
        .await?;
    let (mut parties, mut refused) = (Vec::new(), Vec::new());
    for (row, party) in rows.into_iter().enumerate() {
        match party {
            Ok(party) if known.contains(&party.fsp) => parties.push(party),
            Ok(party) => refused.push(RefusedRow::new(row, &unknown_fsp(&party.fsp))),
            Err(refusal) => refused.push(RefusedRow::new(row, &refusal)),
        }
    }
    let registered = parties.len();
    if registered > 0 {
        let former = former_owners(request, &parties)?;
        request.change(AssignParties { form: PartyChangeForm::Batch, parties, former }).await?;
    }
    Ok(AdminResponse::ok(&RegistrationResult { registered, refused }))
}

/// `GET /parties/{Type}/{ID}`: the FSPs that serve the party, or its sub-identifier `subId`.
async fn find(request: &AdminRequest<'_>) -> HandlerResult {
    let found: Vec<_> = named_entries(request)?.into_iter().map(PartyResponse::of).collect();
    Ok(AdminResponse::ok(&found))
}

/// `GET /participants/{Type}/{ID}`: the same in the form of an oracle's answer.
async fn list_fsps(request: &AdminRequest<'_>) -> HandlerResult {
    let (kind, id) = (request.path(&PARTY_TYPE)?, request.path(&ID)?);
    let (sub_id, currency) = (request.query(&PARTY_SUB_ID)?, request.query(&CURRENCY)?);
    let found = request.backend.find_party(kind.as_str(), &id, sub_id.as_deref());
    let found = found.map_err(outcome_errors::from_unavailable)?.into_iter();
    Ok(AdminResponse::ok(&PartyListResponse::of(found.filter(|it| serves(it, currency)))))
}

/// `DELETE /parties/{Type}/{ID}`: removes these entries.
async fn release(request: &AdminRequest<'_>) -> HandlerResult {
    let found = named_entries(request)?;
    if !found.is_empty() {
        let currency = request.query(&CURRENCY)?;
        let parties: Vec<_> =
            found.iter().map(|party| PartyBinding { currency, ..party.clone() }).collect();
        let former = (0..).zip(&parties).map(|(party, it)| FormerOwner { party, fsp: it.fsp });
        let (form, former) = (PartyChangeForm::Delete, former.collect());
        request.change(AssignParties { form, parties, former }).await?;
    }
    let released: Vec<_> = found.into_iter().map(PartyResponse::of).collect();
    Ok(AdminResponse::ok(&released))
}

/// The entries that the path and the query name.
fn named_entries(request: &AdminRequest<'_>) -> Result<Vec<PartyBinding>, Refusal> {
    let (kind, id, sub_id) = (request.path(&TYPE)?, request.path(&ID)?, request.query(&SUB_ID)?);
    let (fsp, currency) = (request.query(&FSP)?, request.query(&CURRENCY)?);
    let found = request.backend.find_party(kind.as_str(), &id, sub_id.as_deref());
    let mut found = found.map_err(outcome_errors::from_unavailable)?;
    found.retain(|party| {
        fsp.as_deref().is_none_or(|fsp| fsp == party.fsp.as_str()) && serves(party, currency)
    });
    Ok(found)
}

/// The FSPs that lose an entry to these registrations. Entries of the same request are not
/// compared with each other.
fn former_owners(
    request: &AdminRequest<'_>,
    parties: &[PartyBinding],
) -> Result<Vec<FormerOwner>, Refusal> {
    let mut former = Vec::new();
    for (number, party) in (0..).zip(parties) {
        let backend = request.backend;
        let found = backend.find_party(&party.id_type, &party.id, party.sub_id.as_deref());
        let found = found.map_err(outcome_errors::from_unavailable)?;
        let lost = found.iter().filter(|it| it.fsp != party.fsp && serves(it, party.currency));
        former.extend(lost.map(|it| FormerOwner { party: number, fsp: it.fsp }));
    }
    former.truncate(ENTRIES_MAX);
    Ok(former)
}

/// Whether the entry serves the currency.
pub(crate) fn serves(party: &PartyBinding, currency: Option<Currency>) -> bool {
    party.currency.is_none() || currency.is_none() || party.currency == currency
}

impl RefusedRow {
    fn new(row: usize, refusal: &Refusal) -> Self {
        let error_information = RowError {
            error_code: refusal.code.to_string(),
            error_description: refusal.description.to_string(),
        };
        Self { row, error_information }
    }
}

impl PartyListResponse {
    pub(crate) fn of(entries: impl Iterator<Item = PartyBinding>) -> Self {
        let entry = |party: PartyBinding| PartyFspResponse {
            fsp_id: party.fsp.to_string(),
            currency: party.currency.map(|currency| currency.to_string()),
            party_sub_id_or_type: party.sub_id,
        };
        Self { party_list: entries.map(entry).collect() }
    }
}

impl PartyResponse {
    fn of(party: PartyBinding) -> Self {
        Self {
            party_id_type: party.id_type,
            party_identifier: party.id,
            party_sub_id_or_type: party.sub_id,
            fsp_id: party.fsp.to_string(),
            currency: party.currency.map(|currency| currency.to_string()),
        }
    }
}

fn rows(
    reader: &mut BodyReader<'_>,
    name: &str,
) -> Result<Option<Vec<Result<PartyBinding, Refusal>>>, Refusal> {
    let Some(rows) = reader.array(name, ROWS_MAX)? else { return Ok(None) };
    if !(1..=ROWS_MAX).contains(&rows.len()) {
        let what = format!("must have 1 to {ROWS_MAX} items");
        return Err(refuse(ErrorCode::VALIDATION, name, &what));
    }
    rows.into_iter().map(binding).collect::<Result<_, _>>().map(Some)
}

/// Reads a row. Its error is its own; a row that is not an object is an error of the whole request.
fn binding(row: &RawValue) -> Result<Result<PartyBinding, Refusal>, Refusal> {
    if !row.get().starts_with('{') {
        return Err(refuse(ErrorCode::MALFORMED_SYNTAX, "parties", "must have objects as items"));
    }
    Ok(BodyReader::of(row, "parties", String::new()).and_then(read))
}

fn read(mut reader: BodyReader<'_>) -> Result<PartyBinding, Refusal> {
    reader.drop_null("partySubIdOrType");
    let kind = reader.required("partyIdType", |reader, name| reader.text(name, 1..=32))?;
    let kind = id_type("partyIdType", &kind)?;
    let id = reader.required("partyIdentifier", identifier)?;
    if !kind.allows(&id) {
        return Err(refuse(ErrorCode::VALIDATION, "partyIdentifier", kind.form()));
    }
    let sub_id = identifier(&mut reader, "partySubIdOrType")?;
    let fsp = reader.required("fspId", |reader, name| reader.text(name, 1..=32))?;
    let fsp = FspName::new(&fsp)
        .ok_or_else(|| refuse(ErrorCode::VALIDATION, "fspId", "must have 1 to 32 bytes"))?;
    let currency = CURRENCY_OR_NULL.take(&mut reader, "currency")?;
    reader.finish()?;
    Ok(PartyBinding { id_type: kind.as_str().into(), id, sub_id, currency, fsp })
}

pub(crate) fn id_type(name: &str, text: &str) -> Result<PartyIdType, Refusal> {
    // The list of all types is too long for an error text.
    let what = "must be an identifier type such as MSISDN; see /openapi/admin.json";
    PartyIdType::parse(text).ok_or_else(|| refuse(ErrorCode::VALIDATION, name, what))
}

/// An identifier that a look-up can request.
pub(crate) fn identifier(
    reader: &mut BodyReader<'_>,
    name: &str,
) -> Result<Option<String>, Refusal> {
    match reader.text(name, 1..=IDENTIFIER_CHARS_MAX)? {
        Some(text) if !is_identifier(&text) => {
            let what = "must not have blanks, controls or any of {}<>`\\, or consist of dots only";
            Err(refuse(ErrorCode::VALIDATION, name, what))
        }
        text => Ok(text),
    }
}

fn unknown_fsp(name: &FspName) -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, &format!("\"fspId\" {name} is not a participant"))
}
