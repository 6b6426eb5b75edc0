//! `/oracles`: the registry of oracles (hub-semantics 6.1). The I/O threads call them for look-ups
//! and registrations.
//!
//! Bodies follow the interface document of the reference's look-up service, whose rules are not
//! those of the other admin resources: unknown members are ignored, and a value that is not in
//! its list is 3100.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{
    AdminOutcome, CreateOracle, Currency, DeleteOracle, Oracle, OracleId, State, UpdateOracle,
};
use serde_json::json;

use crate::body::{CURRENCY_OR_NULL, Custom, FLAG, Object, Optional, body, single_line};
use crate::body_reader::{BodyReader, known_currency, refuse};
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};

/// Types of identifiers that an oracle can be asked for (hub-semantics 1.6).
const ID_TYPES: [&str; 10] = [
    "MSISDN",
    "EMAIL",
    "PERSONAL_ID",
    "BUSINESS",
    "DEVICE",
    "ACCOUNT_ID",
    "IBAN",
    "ALIAS",
    "CONSENT",
    "THIRD_PARTY_LINK",
];
/// The only type of endpoint.
const URL: &str = "URL";
/// Longest address, in characters.
const ENDPOINT_CHARACTERS_MAX: usize = 1_024;

/// The number of an oracle in a path; a text that cannot be one names none.
const ID: Parameter<Option<OracleId>> =
    Parameter::new("id", "The oracle's number, as the list shows it.", schema::some_text, |text| {
        let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        Ok(number.map(OracleId))
    })
    .example("\"1\"");

const TYPE: Parameter<String> = Parameter::text("type", "Only this type of identifier.");

/// The query parameter `currency`: of one that is not known there are no oracles.
const ANY_CURRENCY: Parameter<Option<Currency>> =
    Parameter::new("currency", "Only this currency.", schema::any_text, |code| {
        Ok(known_currency(code))
    });

routes! {
    "/oracles" {
        read GET listOracles = list, "All oracles" {
            text: "The list is empty for an unknown currency and for one without an oracle.",
            query: [TYPE, ANY_CURRENCY],
            responses: [200: Vec<OracleResponse> = "Oracles, oldest first."],
        }
        change POST createOracle = create(NewOracle), "Add an oracle" {
            records: CreateOracle,
            text: "\
                One oracle per type and currency; no currency counts as a currency of its own. \
                Look-ups and registrations of the type use the oracle from the next message on. \
                A second oracle gets 500 with 2001. The address must follow the rules of \
                participants' endpoints; otherwise 3100.",
            needs_accept: true,
            example: {
                "oracleIdType": "MSISDN",
                "endpoint": {"value": "http://oracle.example", "endpointType": "URL"},
                "currency": "XOF",
                "isDefault": true
            },
            responses: [201: () = "Added."],
        }
    }
    "/oracles/{id}" [ID] {
        change DELETE deleteOracle = delete, "Remove an oracle" {
            records: DeleteOracle,
            text: "\
                Removing an unknown or already removed oracle also gets 204. Numbers are never \
                reused.",
            needs_accept: true,
            responses: [204: () = "Removed."],
        }
        change PUT updateOracle = update(OracleUpdate), "Change an oracle" {
            records: UpdateOracle,
            text: "Absent members keep their values. The endpoint is required.",
            example: {"endpoint": {"value": "http://oracle-2.example", "endpointType": "URL"}},
            responses: [204: () = "Changed."],
        }
    }
}

body! {
    Open NewOracle {
        oracle_id_type: String = ID_TYPE,
        endpoint: Endpoint = Object::<Endpoint>::RULE,
        currency: Option<Currency> = Optional(CURRENCY_OR_NULL),
        is_default: Option<bool> = Optional(FLAG),
    }
}

body! {
    Open OracleUpdate {
        oracle_id_type: Option<String> = Optional(ID_TYPE),
        endpoint: Endpoint = Object::<Endpoint>::RULE,
        currency: Option<Currency> = Optional(CURRENCY_OR_NULL),
        is_default: Option<bool> = Optional(FLAG),
    }
}

body! {
    Open Endpoint {
        value: String = single_line(ENDPOINT_CHARACTERS_MAX),
        _endpoint_type as "endpointType": () = Custom {
            take: endpoint_type,
            schema: || schema::one_of(&[URL]),
        },
    }
}

const ID_TYPE: Custom<String> = Custom { take: id_type, schema: || schema::one_of(&ID_TYPES) };

response_type! {
    struct OracleResponse as "Oracle" {
        oracle_id: u32,
        oracle_id_type: String,
        endpoint: EndpointShape,
        #[serde(skip_serializing_if = "Option::is_none")]
        currency: Option<String> = schema::currency(),
        is_default: u8 = json!({"type": "integer", "minimum": 0, "maximum": 1}),
    }
}

response_type! {
    struct EndpointShape {
        value: String,
        endpoint_type: &'static str,
    }
}

/// `GET /oracles`: all of them, or those of a type, of a currency.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let (wanted, currency) = (request.query(&TYPE)?, request.query(&ANY_CURRENCY)?);
    if currency == Some(None) {
        return Ok(AdminResponse::ok(&[(); 0]));
    }
    let currency = currency.flatten();
    let found = request.query_state(move |state: &State| {
        let oracles = state.registry().oracles().iter();
        let wanted = oracles.filter(|(_, oracle)| {
            wanted.as_ref().is_none_or(|wanted| *wanted == oracle.id_type)
                && (currency.is_none() || currency == oracle.currency)
        });
        wanted.map(response).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&found.await?))
}

/// `POST /oracles`: one per type and currency.
async fn create(request: &AdminRequest<'_>, body: NewOracle) -> HandlerResult {
    request.may_call("endpoint.value", &body.endpoint.value)?;
    let oracle = Oracle {
        id_type: body.oracle_id_type,
        endpoint: body.endpoint.value,
        currency: body.currency,
        default: body.is_default.unwrap_or(false),
    };
    request.change(CreateOracle { oracle }).await?;
    Ok(AdminResponse::empty(StatusCode::CREATED))
}

/// `PUT /oracles/{id}`: what is absent stays, but the endpoint must be given.
async fn update(request: &AdminRequest<'_>, body: OracleUpdate) -> HandlerResult {
    request.may_call("endpoint.value", &body.endpoint.value)?;
    let update = ledger::OracleUpdate {
        id_type: body.oracle_id_type,
        endpoint: Some(body.endpoint.value),
        currency: body.currency,
        default: body.is_default,
    };
    let not_found = || outcome_errors::from_outcome(AdminOutcome::OracleNotFound);
    let id = request.path(&ID)?.ok_or_else(|| not_found().expect("it is a refusal"))?;
    request.change(UpdateOracle { id, update }).await?;
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}

/// `DELETE /oracles/{id}`: succeeds also if no oracle has this id.
async fn delete(request: &AdminRequest<'_>) -> HandlerResult {
    if let Some(id) = request.path(&ID)? {
        request.change(DeleteOracle { id }).await?;
    }
    Ok(AdminResponse::empty(StatusCode::NO_CONTENT))
}

fn response((id, oracle): &(OracleId, Oracle)) -> OracleResponse {
    OracleResponse {
        oracle_id: id.0,
        oracle_id_type: oracle.id_type.clone(),
        endpoint: EndpointShape { value: oracle.endpoint.clone(), endpoint_type: URL },
        currency: oracle.currency.map(|currency| currency.to_string()),
        is_default: oracle.default.into(),
    }
}

fn id_type(reader: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
    match reader.text(name, 1..=32)? {
        Some(text) if !ID_TYPES.contains(&text.as_str()) => {
            let what = format!("must be one of [{}]", ID_TYPES.join(", "));
            Err(refuse(ErrorCode::VALIDATION, name, &what))
        }
        text => Ok(text),
    }
}

/// The only endpoint type. The rules of its address are those of participants' endpoints.
fn endpoint_type(reader: &mut BodyReader<'_>, name: &str) -> Result<Option<()>, Refusal> {
    match reader.text(name, 1..=32)?.as_deref() {
        None => Ok(None),
        Some(URL) => Ok(Some(())),
        Some(_) => Err(refuse(ErrorCode::VALIDATION, "endpoint.endpointType", "must be URL")),
    }
}
