//! `/oracles`: the registry of oracles (hub-semantics 6.1), and nothing but the registry. No
//! oracle is called: look-ups are answered from the hub's own directory.
//!
//! Bodies follow the interface document of the reference's look-up service, whose rules are not
//! those of the other admin resources: further members are let go, and a value that is not in
//! its list is 3100.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{
    AdminOutcome, Change, CreateOracle, Currency, DeleteOracle, Oracle, OracleId, OracleUpdate,
    State, UpdateOracle,
};
use serde::Serialize;

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::{Form, known_currency, refuse};
use crate::refusals;

/// Types of identifiers that an oracle can be asked for (hub-semantics 1.6).
pub(crate) const ID_TYPES: [&str; 10] = [
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
pub(crate) const URL: &str = "URL";
/// Longest address, in characters.
pub(crate) const ENDPOINT_CHARACTERS_MAX: usize = 1_024;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OracleShape {
    oracle_id: u32,
    oracle_id_type: String,
    endpoint: EndpointShape,
    #[serde(skip_serializing_if = "Option::is_none")]
    currency: Option<String>,
    is_default: u8,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EndpointShape {
    value: String,
    endpoint_type: &'static str,
}

/// `GET /oracles`: all of them, or those of a type, of a currency.
pub(crate) async fn list(call: &Call<'_>) -> Reply {
    let wanted = call.parameter("type");
    let currency = match call.parameter("currency") {
        None => None,
        Some(code) => match known_currency(&code) {
            Some(currency) => Some(currency),
            // No oracle has it.
            None => return Ok(Answer::ok(&[(); 0])),
        },
    };
    let found = call.ask(move |state: &State| {
        let oracles = state.register().oracles().iter();
        let wanted = oracles.filter(|(_, oracle)| {
            wanted.as_ref().is_none_or(|wanted| *wanted == oracle.id_type)
                && (currency.is_none() || currency == oracle.currency)
        });
        wanted.map(shape).collect::<Vec<_>>()
    });
    Ok(Answer::ok(&found.await?))
}

/// `POST /oracles`: one per type and currency.
pub(crate) async fn create(call: &Call<'_>) -> Reply {
    call.must_accept()?;
    let mut form = call.form()?;
    let oracle = Oracle {
        id_type: form.required("oracleIdType", id_type)?,
        endpoint: form.required("endpoint", |form, name| endpoint(call, form, name))?,
        currency: currency(&mut form)?,
        default: form.flag("isDefault")?.unwrap_or(false),
    };
    call.change(Change::CreateOracle(CreateOracle { oracle })).await?;
    Ok(Answer::empty(StatusCode::CREATED))
}

/// `PUT /oracles/{id}`: what is absent stays, but the endpoint must be given.
pub(crate) async fn update(call: &Call<'_>, id: &str) -> Reply {
    let mut form = call.form()?;
    let update = OracleUpdate {
        id_type: id_type(&mut form, "oracleIdType")?,
        endpoint: Some(form.required("endpoint", |form, name| endpoint(call, form, name))?),
        currency: currency(&mut form)?,
        default: form.flag("isDefault")?,
    };
    let not_found = || refusals::of_outcome(AdminOutcome::OracleNotFound);
    let id = oracle_id(id).ok_or_else(|| not_found().expect("it is a refusal"))?;
    call.change(Change::UpdateOracle(UpdateOracle { id, update })).await?;
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

/// `DELETE /oracles/{id}`: afterwards there is none with this id, which holds already for one that
/// never was.
pub(crate) async fn delete(call: &Call<'_>, id: &str) -> Reply {
    call.must_accept()?;
    if let Some(id) = oracle_id(id) {
        call.change(Change::DeleteOracle(DeleteOracle { id })).await?;
    }
    Ok(Answer::empty(StatusCode::NO_CONTENT))
}

fn shape((id, oracle): &(OracleId, Oracle)) -> OracleShape {
    OracleShape {
        oracle_id: id.0,
        oracle_id_type: oracle.id_type.clone(),
        endpoint: EndpointShape { value: oracle.endpoint.clone(), endpoint_type: URL },
        currency: oracle.currency.map(|currency| currency.to_string()),
        is_default: oracle.default.into(),
    }
}

fn id_type(form: &mut Form<'_>, name: &str) -> Result<Option<String>, Refusal> {
    match form.text(name, 1..=32)? {
        Some(text) if !ID_TYPES.contains(&text.as_str()) => {
            let what = format!("must be one of [{}]", ID_TYPES.join(", "));
            Err(refuse(ErrorCode::VALIDATION, name, &what))
        }
        text => Ok(text),
    }
}

/// The address in a member `{value, endpointType}`. Nothing calls it yet, but what is kept here
/// must be fit to be called: the rules are those of participants' endpoints.
fn endpoint(call: &Call<'_>, form: &mut Form<'_>, name: &str) -> Result<Option<String>, Refusal> {
    let Some(mut endpoint) = form.object(name)? else { return Ok(None) };
    let value = endpoint.required("value", |form, name| {
        form.word(name, 1..=ENDPOINT_CHARACTERS_MAX, |character| !character.is_control())
    })?;
    let kind = endpoint.required("endpointType", |form, name| form.text(name, 1..=32))?;
    if kind != URL {
        return Err(refuse(ErrorCode::VALIDATION, "endpoint.endpointType", "must be URL"));
    }
    call.may_call("endpoint.value", &value)?;
    Ok(Some(value))
}

fn currency(form: &mut Form<'_>) -> Result<Option<Currency>, Refusal> {
    form.drop_null("currency");
    match form.text("currency", 1..=32)? {
        None => Ok(None),
        Some(code) => known_currency(&code).map(Some).ok_or_else(unknown_currency),
    }
}

fn unknown_currency() -> Refusal {
    refuse(ErrorCode::VALIDATION, "currency", "must be a currency code of ISO 4217")
}

/// The number in a path; a text that cannot be one names no oracle.
fn oracle_id(text: &str) -> Option<OracleId> {
    let number = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
    number.map(OracleId)
}
