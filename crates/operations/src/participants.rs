//! `/participants`, `/participants/{name}` and `/participants/{name}/endpoints`
//! (hub-semantics 4.1).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fspiop::egress_policy::CallTarget;
use fspiop::endpoint::{self, EndpointType};
use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{CreateParticipant, Currency, FspName, SetEndpoint, SetParticipantActive};
use serde_json::{Value, json};

use crate::body::{
    Activity, CURRENCY, Custom, FLAG, Optional, PatternText, Rule, body, single_line,
};
use crate::body_reader::{BodyReader, refuse};
use crate::reports::EndpointCall;
use crate::request::{AdminRequest, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{EndpointResponse, ParticipantResponse};
use crate::route::{Parameter, routes};
use crate::schema::{self, OneOrAll};

/// Time after which no further host is called.
const CALLS_MAX: Duration = Duration::from_secs(20);
/// Longest value of an endpoint, in characters.
const ENDPOINT_VALUE_CHARACTERS_MAX: usize = 1_024;

/// The participant in a path.
pub(crate) const NAME: Parameter<FspName> =
    Parameter::new("name", "The participant, or `Hub`.", schema::some_text, participant_name)
        .example("\"payerfsp\"");

const IS_PROXY: Parameter<String> = Parameter::text(
    "isProxy",
    "`true` or `1`: only proxies; the hub has no proxies, so the list is empty.",
);

const TYPE: Parameter<String> =
    Parameter::text("type", "Only this type: one object, empty if it is not set.");

routes! {
    "/participants" {
        read GET listParticipants = list, "List all participants, the hub first" {
            dry_run: true,
            query: [IS_PROXY],
            responses: [200: Vec<ParticipantResponse> = "Participants with their accounts."],
        }
        change POST createParticipant = create(NewParticipant), "Add a participant or a currency" {
            records: CreateParticipant,
            text: "\
                Names are case-sensitive. An existing participant gets an additional currency. \
                The accounts stay inactive until limits are set. A proxy gets 501.",
            example: {"name": "payerfsp", "currency": "XOF"},
            responses: [201: ParticipantResponse = "The participant after the change."],
            refusals: [501 NOT_IMPLEMENTED],
        }
    }
    "/participants/{name}" [NAME] {
        read GET showParticipant = show, "Show a participant" {
            responses: [200: ParticipantResponse = "The participant with its accounts."],
            refusals: [400 ID_NOT_FOUND],
        }
        change PUT switchParticipant = update(Activity), "Activate or deactivate a participant" {
            records: SetParticipantActive,
            text: "Applies from the next message.",
            example: {"isActive": true},
            responses: [200: ParticipantResponse = "The participant after the change."],
        }
    }
    "/participants/{name}/endpoints" [NAME] {
        read GET listEndpoints = endpoints, "List the endpoints of a participant" {
            query: [TYPE],
            responses: [200: OneOrAll<EndpointResponse> = "Endpoints."],
            refusals: [400 ID_NOT_FOUND],
        }
        change POST setEndpoint = set_endpoint(NewEndpoint), "Set an endpoint of a participant" {
            records: SetEndpoint,
            text: "\
                Sets or overwrites the endpoint of one type; an unknown type gets 3101. Values \
                are templates with placeholders such as `{{transferId}}` or, for quotes, base \
                addresses. Endpoints that the hub calls (types that begin with \
                `FSPIOP_CALLBACK_URL_`) must start with `http://` or `https://`, have no user name \
                and a fixed host, and use a port and an address that the configuration allows; \
                otherwise 3100.",
            example: {
                "type": "FSPIOP_CALLBACK_URL_TRANSFER_PUT",
                "value": "http://payerfsp.example/transfers/{{transferId}}"
            },
            responses: [201: () = "Set."],
        }
    }
    "/participants/{name}/endpoints/calls" [NAME] {
        action POST callEndpoints = call_endpoints, "Call the endpoints of a participant" {
            text: "\
                A test: one call to each host, `OPTIONS` of the path `/`, which is no message of \
                FSPIOP. Any status shows that the host answers. Each call may take 5 s; after 20 s \
                no further host is called. Needs no body.",
            responses: [200: Vec<EndpointCall> = "The result for each host."],
            refusals: [400 ID_NOT_FOUND],
        }
    }
}

body! {
    Closed NewParticipant {
        name: String = PatternText(2..=30, is_name_character, "^[A-Za-z0-9._~-]+$"),
        /// Proxies for other schemes are not served.
        _is_proxy as "isProxy": Option<()> = Optional(Custom {
            take: |reader, name| match FLAG.take(reader, name)? {
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
        value: String = single_line(ENDPOINT_VALUE_CHARACTERS_MAX),
    }
}

/// `GET /participants`: all of them, the hub first; empty with `isProxy=true`, because the hub has
/// no proxies.
pub(crate) async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    if request.query(&IS_PROXY)?.is_some_and(|value| matches!(value.as_str(), "true" | "1")) {
        return Ok(AdminResponse::ok(&[(); 0]));
    }
    let base_url = request.options.base_url.clone();
    let all = request.query_state(move |state| {
        let participants = state.registry().iter();
        participants
            .map(|(_, participant)| ParticipantResponse::of(state, participant, &base_url))
            .collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&all.await?))
}

/// `POST /participants`: a new participant, or an additional currency of an existing one. Proxies
/// for other schemes are not served: 501.
pub(crate) async fn create(request: &AdminRequest<'_>, body: NewParticipant) -> HandlerResult {
    let NewParticipant { name, currency, .. } = body;
    let name = participant_name(&name)?;
    request.change(CreateParticipant { name, currency }).await?;
    show_with(request, name, StatusCode::CREATED).await
}

/// `GET /participants/{name}`.
pub(crate) async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    show_with(request, request.path(&NAME)?, StatusCode::OK).await
}

/// `PUT /participants/{name}`: activates or deactivates it.
pub(crate) async fn update(request: &AdminRequest<'_>, body: Activity) -> HandlerResult {
    let name = request.path(&NAME)?;
    let active = body.is_active;
    request.change(SetParticipantActive { name, active }).await?;
    show_with(request, name, StatusCode::OK).await
}

/// `GET /participants/{name}/endpoints`: one object with `type`, else an array.
pub(crate) async fn endpoints(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&NAME)?;
    let found = request.query_participant(name, |_, participant| participant.endpoints.clone());
    let mut found = found.await?.into_iter().map(|(kind, value)| EndpointResponse { kind, value });
    match request.query(&TYPE)? {
        None => Ok(AdminResponse::ok(&found.collect::<Vec<_>>())),
        Some(wanted) => match found.find(|endpoint| endpoint.kind == wanted) {
            Some(endpoint) => Ok(AdminResponse::ok(&endpoint)),
            None => Ok(AdminResponse::ok(&serde_json::Map::new())),
        },
    }
}

/// `POST /participants/{name}/endpoints`: sets or overwrites one of the types of hub-semantics
/// 2.1. An endpoint that the hub calls must be an address that it can and may call.
pub(crate) async fn set_endpoint(request: &AdminRequest<'_>, body: NewEndpoint) -> HandlerResult {
    let NewEndpoint { kind, value } = body;
    if endpoint::is_called(&kind) {
        request.may_call("value", &value)?;
    }
    let name = request.path(&NAME)?;
    request.change(SetEndpoint { name, endpoint: kind, value }).await?;
    Ok(AdminResponse::empty(StatusCode::CREATED))
}

/// `POST /participants/{name}/endpoints/calls`: calls each host once, one after the other.
async fn call_endpoints(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&NAME)?;
    let found = request.query_participant(name, |_, participant| participant.endpoints.clone());
    let (began, mut calls) = (Instant::now(), Vec::new());
    for (to, (value, types)) in hosts(found.await?) {
        let call_began = Instant::now();
        let result = match began.elapsed() < CALLS_MAX {
            true => request.backend.call_endpoint(&request.options.egress, (name, &value)).await,
            false => Err("not called: the calls before took too long".to_owned()),
        };
        let milliseconds = u64::try_from(call_began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let call = EndpointCall { to, types, milliseconds, ..EndpointCall::default() };
        calls.push(match result {
            Ok((address, status)) => EndpointCall {
                address: Some(address.to_string()),
                status: Some(status.as_u16()),
                ..call
            },
            Err(error) => EndpointCall { error: Some(error), ..call },
        });
    }
    Ok(AdminResponse::ok(&calls))
}

/// The hosts of the endpoints that the hub calls: for each a value, and the types.
fn hosts(
    endpoints: impl IntoIterator<Item = (String, String)>,
) -> BTreeMap<String, (String, Vec<String>)> {
    let mut hosts = BTreeMap::new();
    for (kind, value) in endpoints.into_iter().filter(|(kind, _)| endpoint::is_called(kind)) {
        let host = match CallTarget::parse(&value) {
            Ok(target) => format!("{}://{}", target.scheme.as_str(), target.authority),
            Err(_) => value.clone(),
        };
        let (_, types) = hosts.entry(host).or_insert_with(|| (value, Vec::new()));
        types.push(kind);
    }
    hosts
}

/// The current participant.
pub(crate) async fn show_with(
    request: &AdminRequest<'_>,
    name: FspName,
    status: StatusCode,
) -> HandlerResult {
    let base_url = request.options.base_url.clone();
    let found = request.query_participant(name, move |state, participant| {
        ParticipantResponse::of(state, participant, &base_url)
    });
    Ok(AdminResponse::json(status, &found.await?))
}

/// Names occur in headers and paths: letters, digits and marks that need no escape in either.
fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.~".contains(character)
}

/// A name of the enumeration, which is too long for an error text: the error refers to the
/// document.
fn endpoint_type(reader: &mut BodyReader<'_>, name: &str) -> Result<Option<String>, Refusal> {
    match reader.text(name, 1..=endpoint::NAME_BYTES_MAX)? {
        Some(text) if !endpoint::is_accepted_name(&text) => {
            let what = "must be one of the known endpoint types; see /openapi/admin.json";
            Err(refuse(ErrorCode::MALFORMED_SYNTAX, name, what))
        }
        text => Ok(text),
    }
}

/// The enumeration, and the open-ended names of the third-party API.
fn endpoint_types() -> Value {
    let names: Vec<_> = EndpointType::ALL.iter().map(|kind| kind.as_str()).collect();
    json!({"anyOf": [
        schema::one_of(&names),
        schema::pattern_text(1..=endpoint::NAME_BYTES_MAX, endpoint::THIRD_PARTY_NAMES),
    ]})
}
