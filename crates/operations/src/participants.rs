//! `/participants`, `/participants/{name}` and `/participants/{name}/endpoints`
//! (hub-semantics 4.1).

use fspiop::endpoint::{self, EndpointType};
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{CreateParticipant, Currency, FspName, SetEndpoint, SetParticipantActive};
use serde_json::{Value, json};

use crate::body::{Activity, CURRENCY, Custom, FLAG, Optional, Rule, Word, body, line};
use crate::body_reader::{BodyReader, refuse};
use crate::request::{AdminRequest, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{EndpointShape, ParticipantResponse};
use crate::route::{Parameter, routes};
use crate::schema::{self, OneOrAll};

/// Longest value of an endpoint, in characters.
const ENDPOINT_VALUE_CHARACTERS_MAX: usize = 1_024;

/// The participant in a path.
pub(crate) const NAME: Parameter<FspName> =
    Parameter::new("name", "The participant, or `Hub`.", schema::some_text, participant_name)
        .example("\"payerfsp\"");

const IS_PROXY: Parameter<String> =
    Parameter::text("isProxy", "`true` or `1`: only proxies, of which there are none.");

const TYPE: Parameter<String> =
    Parameter::text("type", "Only this type: one object, empty when it is not set.");

routes! {
    "/participants" {
        read GET listParticipants = list, "All participants, the hub first" {
            query: [IS_PROXY],
            answers: [200: Vec<ParticipantResponse> = "Participants with their accounts."],
        }
        change POST createParticipant = create(NewParticipant), "Add a participant or a currency" {
            records: CreateParticipant,
            text: "\
                Names are told apart by case. A known name gets a further currency. The accounts \
                stay inactive until limits are set. A proxy is 501.",
            example: {"name": "payerfsp", "currency": "XOF"},
            answers: [201: ParticipantResponse = "As it is now."],
            refusals: [501 NOT_IMPLEMENTED],
        }
    }
    "/participants/{name}" [NAME] {
        read GET showParticipant = show, "One participant" {
            answers: [200: ParticipantResponse = "With its accounts."],
            refusals: [400 ID_NOT_FOUND],
        }
        change PUT switchParticipant = update(Activity), "Switch a participant on or off" {
            records: SetParticipantActive,
            text: "In force with the next message.",
            example: {"isActive": true},
            answers: [200: ParticipantResponse = "As it is now."],
        }
    }
    "/participants/{name}/endpoints" [NAME] {
        read GET listEndpoints = endpoints, "Where a participant is called" {
            query: [TYPE],
            answers: [200: OneOrAll<EndpointShape> = "Endpoints."],
            refusals: [400 ID_NOT_FOUND],
        }
        change POST setEndpoint = set_endpoint(NewEndpoint), "Set where a participant is called" {
            records: SetEndpoint,
            text: "\
                Sets or overwrites one type; one that is not known is 3101. Values are templates \
                with names as `{{transferId}}` in them, or, for quotes, base addresses. What the \
                hub calls, types that begin with `FSPIOP_CALLBACK_URL_`, must be `http://`, \
                without a user's name, with a fixed host, and a port and an address that the \
                configuration allows: else 3100. `https://` is 3100, too.",
            example: {
                "type": "FSPIOP_CALLBACK_URL_TRANSFER_PUT",
                "value": "http://payerfsp.example/transfers/{{transferId}}"
            },
            answers: [201: () = "Set."],
        }
    }
}

body! {
    Closed NewParticipant {
        name: String = Word(2..=30, is_name_character, "^[A-Za-z0-9._~-]+$"),
        /// Proxies for other schemes are not served.
        _is_proxy as "isProxy": Option<()> = Optional(Custom {
            take: |form, name| match FLAG.take(form, name)? {
                Some(true) => Err(Refusal::not_implemented()),
                _ => Ok(None::<()>),
            },
            schema: || FLAG.schema(),
        }),
        currency: Currency = CURRENCY,
    }
}

body! {
    Closed NewEndpoint {
        kind as "type": String = Custom { take: endpoint_type, schema: endpoint_types },
        value: String = line(ENDPOINT_VALUE_CHARACTERS_MAX),
    }
}

/// `GET /participants`: all of them, the hub first; with `isProxy=true` none, for the hub knows
/// no proxies.
pub(crate) async fn list(call: &AdminRequest<'_>) -> HandlerResult {
    if call.query(&IS_PROXY)?.is_some_and(|value| matches!(value.as_str(), "true" | "1")) {
        return Ok(AdminResponse::ok(&[(); 0]));
    }
    let base_url = call.base_url.to_owned();
    let all = call.ask(move |state| {
        let participants = state.register().iter();
        participants
            .map(|(_, participant)| ParticipantResponse::of(state, participant, &base_url))
            .collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&all.await?))
}

/// `POST /participants`: a new participant, or a further currency of a known one. Proxies for
/// other schemes are not served: 501.
pub(crate) async fn create(call: &AdminRequest<'_>, body: NewParticipant) -> HandlerResult {
    let NewParticipant { name, currency, .. } = body;
    let name = participant_name(&name)?;
    call.change(CreateParticipant { name, currency }).await?;
    show_with(call, name, StatusCode::CREATED).await
}

/// `GET /participants/{name}`.
pub(crate) async fn show(call: &AdminRequest<'_>) -> HandlerResult {
    show_with(call, call.path(&NAME)?, StatusCode::OK).await
}

/// `PUT /participants/{name}`: switches it on or off.
pub(crate) async fn update(call: &AdminRequest<'_>, body: Activity) -> HandlerResult {
    let name = call.path(&NAME)?;
    let active = body.is_active;
    call.change(SetParticipantActive { name, active }).await?;
    show_with(call, name, StatusCode::OK).await
}

/// `GET /participants/{name}/endpoints`: one object with `type`, else an array.
pub(crate) async fn endpoints(call: &AdminRequest<'_>) -> HandlerResult {
    let name = call.path(&NAME)?;
    let found = call.of_participant(name, |_, participant| participant.endpoints.clone());
    let mut found = found.await?.into_iter().map(|(kind, value)| EndpointShape { kind, value });
    match call.query(&TYPE)? {
        None => Ok(AdminResponse::ok(&found.collect::<Vec<_>>())),
        Some(wanted) => match found.find(|endpoint| endpoint.kind == wanted) {
            Some(endpoint) => Ok(AdminResponse::ok(&endpoint)),
            None => Ok(AdminResponse::ok(&serde_json::Map::new())),
        },
    }
}

/// `POST /participants/{name}/endpoints`: sets or overwrites one of the types of hub-semantics
/// 2.1. What the hub will call must be an address that it can and may call.
pub(crate) async fn set_endpoint(call: &AdminRequest<'_>, body: NewEndpoint) -> HandlerResult {
    let NewEndpoint { kind, value } = body;
    if endpoint::is_called(&kind) {
        call.may_call("value", &value)?;
    }
    let name = call.path(&NAME)?;
    call.change(SetEndpoint { name, endpoint: kind, value }).await?;
    Ok(AdminResponse::empty(StatusCode::CREATED))
}

/// The participant as it is now, after a change or without one.
pub(crate) async fn show_with(
    call: &AdminRequest<'_>,
    name: FspName,
    status: StatusCode,
) -> HandlerResult {
    let base_url = call.base_url.to_owned();
    let found = call.of_participant(name, move |state, participant| {
        ParticipantResponse::of(state, participant, &base_url)
    });
    Ok(AdminResponse::json(status, &found.await?))
}

/// Names travel in headers and paths: letters, digits and marks that need no escape in either.
fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.~".contains(character)
}

/// A name of the enumeration. It is too long for the text of an error: a refusal says where to
/// find it.
fn endpoint_type(form: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
    match form.text(name, 1..=endpoint::NAME_BYTES_MAX)? {
        Some(text) if !endpoint::is_accepted_name(&text) => {
            let what = "must be one of the known types of endpoint; /openapi/admin.json has them";
            Err(refuse(ErrorCode::MALFORMED_SYNTAX, name, what))
        }
        text => Ok(text),
    }
}

/// The enumeration, and the names of the third-party API, which have no end.
fn endpoint_types() -> Value {
    let names: Vec<_> = EndpointType::ALL.iter().map(|kind| kind.as_str()).collect();
    json!({"anyOf": [
        schema::one_of(&names),
        schema::word(1..=endpoint::NAME_BYTES_MAX, endpoint::THIRD_PARTY_NAMES),
    ]})
}
