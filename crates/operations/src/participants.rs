//! `/participants`, `/participants/{name}` and `/participants/{name}/endpoints`
//! (hub-semantics 4.1).

use std::ops::RangeInclusive;

use fspiop::{ErrorCode, Refusal, endpoint};
use http::StatusCode;
use ledger::{Change, CreateParticipant, FspName, SetEndpoint, SetParticipantActive};

use crate::answer::{Answer, Reply};
use crate::call::{Call, participant_name};
use crate::form::{Form, refuse};
use crate::refusals;
use crate::shapes::{EndpointShape, ParticipantShape, of_participant};

/// Characters of a name.
pub(crate) const NAME: RangeInclusive<usize> = 2..=30;
/// Longest value of an endpoint, in characters.
pub(crate) const ENDPOINT_VALUE_CHARACTERS_MAX: usize = 1_024;

/// `GET /participants`: all of them, the hub first; with `isProxy=true` none, for the hub knows
/// no proxies.
pub(crate) async fn list(call: &Call<'_>) -> Reply {
    if call.parameter("isProxy").is_some_and(|value| matches!(value.as_str(), "true" | "1")) {
        return Ok(Answer::ok(&[(); 0]));
    }
    let base_url = call.base_url.to_owned();
    let all = call.ask(move |state| {
        let participants = state.register().iter();
        participants
            .map(|(_, participant)| ParticipantShape::of(state, participant, &base_url))
            .collect::<Vec<_>>()
    });
    Ok(Answer::ok(&all.await?))
}

/// `POST /participants`: a new participant, or a further currency of a known one. Proxies for
/// other schemes are not served: 501.
pub(crate) async fn create(call: &Call<'_>) -> Reply {
    let mut form = call.form()?;
    let name = form.required("name", |form, name| form.word(name, NAME, is_name_character))?;
    if form.flag("isProxy")?.unwrap_or(false) {
        return Err(Refusal::not_implemented());
    }
    let currency = form.required("currency", Form::currency)?;
    form.finish()?;
    let name = participant_name(&name)?;
    call.change(Change::CreateParticipant(CreateParticipant { name, currency })).await?;
    show_with(call, name, StatusCode::CREATED).await
}

/// `GET /participants/{name}`.
pub(crate) async fn show(call: &Call<'_>, name: &str) -> Reply {
    show_with(call, participant_name(name)?, StatusCode::OK).await
}

/// `PUT /participants/{name}`: switches it on or off.
pub(crate) async fn update(call: &Call<'_>, name: &str) -> Reply {
    let active = call.is_active()?;
    let name = participant_name(name)?;
    call.change(Change::SetParticipantActive(SetParticipantActive { name, active })).await?;
    show_with(call, name, StatusCode::OK).await
}

/// `GET /participants/{name}/endpoints`: one object with `type`, else an array.
pub(crate) async fn endpoints(call: &Call<'_>, name: &str) -> Reply {
    let name = participant_name(name)?;
    let found = call.ask(move |state| {
        of_participant(state, &name, |participant| participant.endpoints.clone())
    });
    let found = found.await?.ok_or_else(refusals::participant_not_found)?;
    let mut found = found.into_iter().map(|(kind, value)| EndpointShape { kind, value });
    match call.parameter("type") {
        None => Ok(Answer::ok(&found.collect::<Vec<_>>())),
        Some(wanted) => match found.find(|endpoint| endpoint.kind == wanted) {
            Some(endpoint) => Ok(Answer::ok(&endpoint)),
            None => Ok(Answer::ok(&serde_json::Map::new())),
        },
    }
}

/// `POST /participants/{name}/endpoints`: sets or overwrites one of the types of hub-semantics
/// 2.1. What the hub will call must be an address that it can and may call.
pub(crate) async fn set_endpoint(call: &Call<'_>, name: &str) -> Reply {
    let mut form = call.form()?;
    let kind = form.required("type", endpoint_type)?;
    let value = form.required("value", |form, name| {
        form.word(name, 1..=ENDPOINT_VALUE_CHARACTERS_MAX, |character| !character.is_control())
    })?;
    form.finish()?;
    if endpoint::is_called(&kind) {
        call.may_call("value", &value)?;
    }
    let name = participant_name(name)?;
    call.change(Change::SetEndpoint(SetEndpoint { name, endpoint: kind, value })).await?;
    Ok(Answer::empty(StatusCode::CREATED))
}

/// The participant as it is now, after a change or without one.
pub(crate) async fn show_with(call: &Call<'_>, name: FspName, status: StatusCode) -> Reply {
    let base_url = call.base_url.to_owned();
    let found = call.ask(move |state| {
        of_participant(state, &name, |participant| {
            ParticipantShape::of(state, participant, &base_url)
        })
    });
    let found = found.await?.ok_or_else(refusals::participant_not_found)?;
    Ok(Answer::json(status, &found))
}

/// Names travel in headers and paths: letters, digits and marks that need no escape in either.
fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.~".contains(character)
}

/// A name of the enumeration. It is too long for the text of an error: a refusal says where to
/// find it.
fn endpoint_type(form: &mut Form<'_>, name: &str) -> Result<Option<String>, Refusal> {
    match form.text(name, 1..=endpoint::NAME_BYTES_MAX)? {
        Some(text) if !endpoint::is_accepted_name(&text) => {
            let what = "must be one of the known types of endpoint; /openapi/admin.json has them";
            Err(refuse(ErrorCode::MALFORMED_SYNTAX, name, what))
        }
        text => Ok(text),
    }
}
