//! `/parties`: who serves which party, many at once.
//!
//! For what a scheme has before its hub: registrations of millions of parties, which participants
//! would otherwise make one by one through FSPIOP. The rows without a fault become one command;
//! each other row is answered with what is wrong with it. The same rows again change nothing.
//! Nobody is sent a callback.

use std::collections::BTreeSet;

use fspiop::{ErrorCode, IDENTIFIER_CHARS_MAX, PartyIdType, Refusal, is_identifier};
use ledger::{ChangeParties, FspName, PartyBinding, PartyChangeForm};
use serde_json::json;
use serde_json::value::RawValue;

use crate::body::{CURRENCY_OR_NULL, Custom, Rule, body};
use crate::body_reader::{BodyReader, refuse};
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::{self, shape};

/// Rows of one request.
const ROWS_MAX: usize = 1_000;
const _: () = assert!(ROWS_MAX == 1_000, "the description says 1000");

/// The type of a party's identifier, in a path.
const TYPE: Parameter<PartyIdType> = Parameter::new(
    "Type",
    "The type of the identifier.",
    || schema::one_of(PartyIdType::NAMES),
    |text| id_type("Type", text),
)
.example("\"MSISDN\"");

/// The identifier of a party, in a path.
const ID: Parameter<String> =
    Parameter::some_text("ID", "The identifier.").example("\"254700000001\"");

const SUB_ID: Parameter<String> = Parameter::text("subId", "Its part of this name.");

routes! {
    "/parties" {
        change POST registerParties = register(Registrations), "Say who serves parties" {
            text: "\
                Up to 1000 at once, recorded as one change; the FSPs are sent nothing. A row has \
                `partyIdType`, `partyIdentifier` and `fspId`, and may have `partySubIdOrType` \
                and `currency`; their rules are those of `POST /participants` of FSPIOP. A row \
                with a fault is left out and answered with its place, from 0, and what is wrong: \
                3100 for a value, 3101 for what is no text, 3102 for what is missing, 3103 for \
                what nobody knows, 3200 for an FSP that is no participant; the others are \
                registered. The last registration of a party holds, within a request as well. \
                The same request again changes nothing.",
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
            answers: [200: Registered = "What was registered."],
            refusals: [400 VALIDATION],
        }
    }
    "/parties/{Type}/{ID}" [TYPE, ID] {
        guarded GET findParty = find, "Who serves a party" {
            text: "An empty list when nobody does. Needs the token, for it tells of people.",
            query: [SUB_ID],
            answers: [200: Vec<PartyResponse> = "At most one, as look-ups see it."],
        }
    }
}

body! {
    Closed Registrations {
        /// Each a party, or what is wrong with it: that is answered with the row, so that the form
        /// of rows is told in words.
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

shape! {
    /// Result of a request.
    struct Registered as "Registered" {
        registered: usize,
        refused: Vec<RefusedRow>,
    }
}

shape! {
    /// A row that was not registered.
    struct RefusedRow {
        /// Its place among the rows, from 0.
        row: usize,
        error_information: Fault,
    }
}

shape! {
    struct Fault {
        error_code: String,
        error_description: String,
    }
}

shape! {
    /// A party as it is shown.
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

/// `POST /parties`: registers up to [`ROWS_MAX`] parties.
async fn register(call: &AdminRequest<'_>, body: Registrations) -> HandlerResult {
    let rows = body.parties;
    let named: BTreeSet<FspName> = rows.iter().flatten().map(|party| party.fsp).collect();
    let (hub, known) = call
        .ask(move |state| {
            let hub = *state.hub();
            let is_fsp = |name: &FspName| *name != hub && state.register().find(name).is_some();
            (hub, named.into_iter().filter(is_fsp).collect::<BTreeSet<_>>())
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
        let form = PartyChangeForm::Batch;
        let change = ChangeParties { source: hub, form, parties, trace: [0; 16] };
        let told = call.identity.clone();
        let outcome =
            call.hub.change_parties(change, told).await.map_err(outcome_errors::of_unavailable)?;
        outcome_errors::of_parties(outcome)?;
    }
    Ok(AdminResponse::ok(&Registered { registered, refused }))
}

/// `GET /parties/{Type}/{ID}`: who serves the party; with `subId` its part of that name.
async fn find(call: &AdminRequest<'_>) -> HandlerResult {
    let (kind, id, sub_id) = (call.path(&TYPE)?, call.path(&ID)?, call.query(&SUB_ID)?);
    let found = call.hub.find_party(kind.as_str(), &id, sub_id.as_deref());
    let found = found.map_err(outcome_errors::of_unavailable)?;
    let found: Vec<_> = found.into_iter().map(PartyResponse::of).collect();
    Ok(AdminResponse::ok(&found))
}

impl RefusedRow {
    fn new(row: usize, refusal: &Refusal) -> Self {
        let error_information = Fault {
            error_code: refusal.code.to_string(),
            error_description: refusal.description.to_string(),
        };
        Self { row, error_information }
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
    form: &mut BodyReader<'_>,
    name: &str,
) -> Result<Option<Vec<Result<PartyBinding, Refusal>>>, Refusal> {
    let Some(rows) = form.array(name)? else { return Ok(None) };
    if !(1..=ROWS_MAX).contains(&rows.len()) {
        let what = format!("must have 1 to {ROWS_MAX} items");
        return Err(refuse(ErrorCode::VALIDATION, name, &what));
    }
    rows.into_iter().map(binding).collect::<Result<_, _>>().map(Some)
}

/// A row: a fault of its own, or one of the whole request when it is no object.
fn binding(row: &RawValue) -> Result<Result<PartyBinding, Refusal>, Refusal> {
    if !row.get().starts_with('{') {
        return Err(refuse(ErrorCode::MALFORMED_SYNTAX, "parties", "must have objects as items"));
    }
    Ok(BodyReader::of(row, "parties", String::new()).and_then(read))
}

fn read(mut form: BodyReader<'_>) -> Result<PartyBinding, Refusal> {
    form.drop_null("partySubIdOrType");
    let kind = form.required("partyIdType", |form, name| form.text(name, 1..=32))?;
    let kind = id_type("partyIdType", &kind)?;
    let id = form.required("partyIdentifier", identifier)?;
    if !kind.allows(&id) {
        return Err(refuse(ErrorCode::VALIDATION, "partyIdentifier", kind.form()));
    }
    let sub_id = identifier(&mut form, "partySubIdOrType")?;
    let fsp = form.required("fspId", |form, name| form.text(name, 1..=32))?;
    let fsp = FspName::new(&fsp)
        .ok_or_else(|| refuse(ErrorCode::VALIDATION, "fspId", "must have 1 to 32 bytes"))?;
    let currency = CURRENCY_OR_NULL.take(&mut form, "currency")?;
    form.finish()?;
    Ok(PartyBinding { id_type: kind.as_str().into(), id, sub_id, currency, fsp })
}

fn id_type(name: &str, text: &str) -> Result<PartyIdType, Refusal> {
    // All of them are too long for the text of an error.
    let what = "must be a type of identifier such as MSISDN; /openapi/admin.json has them";
    PartyIdType::parse(text).ok_or_else(|| refuse(ErrorCode::VALIDATION, name, what))
}

/// What a look-up can ask for.
fn identifier(form: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
    match form.text(name, 1..=IDENTIFIER_CHARS_MAX)? {
        Some(text) if !is_identifier(&text) => {
            let what = "must have no blanks, controls or any of {}<>`\\, and be more than dots";
            Err(refuse(ErrorCode::VALIDATION, name, what))
        }
        text => Ok(text),
    }
}

fn unknown_fsp(name: &FspName) -> Refusal {
    Refusal::new(ErrorCode::ID_NOT_FOUND, &format!("\"fspId\" {name} is no participant"))
}
