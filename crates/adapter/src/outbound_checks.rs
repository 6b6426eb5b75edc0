//! Checks of requests of the back end. Each failure names the member.

use fspiop::PartyIdType;
use ledger::{Amount, Currency};
use serde_json::Value;

use crate::forms::Object;

const TRANSFER_REQUIRED: [&str; 7] =
    ["homeTransactionId", "from", "to", "amountType", "currency", "amount", "transactionType"];
const TRANSFER_OPTIONAL: [&str; 9] = [
    "subScenario",
    "note",
    "quoteRequestExtensions",
    "transferRequestExtensions",
    "skipPartyLookup",
    "prepareExpirySeconds",
    "fxPrepareExpirySeconds",
    "quoteExpirySeconds",
    "fxQuoteExpirySeconds",
];
const RESUME: [(&str, Kind); 6] = [
    ("acceptParty", Kind::Boolean),
    ("acceptQuote", Kind::Boolean),
    ("acceptConversion", Kind::Boolean),
    ("acceptQuoteOrConversion", Kind::Boolean),
    ("amount", Kind::Amount),
    ("to", Kind::Party),
];
const PARTY: [&str; 14] = [
    "type",
    "idType",
    "idValue",
    "idSubValue",
    "displayName",
    "firstName",
    "middleName",
    "lastName",
    "dateOfBirth",
    "merchantClassificationCode",
    "fspId",
    "supportedCurrencies",
    "kycInformation",
    "extensionList",
];
const SCENARIOS: [&str; 5] = ["DEPOSIT", "WITHDRAWAL", "TRANSFER", "PAYMENT", "REFUND"];
/// Longest expiry that a request may ask for, in seconds: one day.
const EXPIRY_SECONDS_MAX: u64 = 86_400;

#[derive(Clone, Copy)]
enum Kind {
    Boolean,
    Amount,
    Party,
}

/// Checks `POST /transfers`.
///
/// # Errors
/// The first member that is missing or wrong.
pub(crate) fn transfer(body: &Value) -> Result<Object, String> {
    let object = as_object(body, "request.body")?;
    for name in TRANSFER_REQUIRED {
        if object.get(name).is_none_or(Value::is_null) {
            return Err(format!("request.body should have required property '{name}'"));
        }
    }
    let known = |name: &String| {
        TRANSFER_REQUIRED.contains(&name.as_str()) || TRANSFER_OPTIONAL.contains(&name.as_str())
    };
    refuse_unknown(object, "request.body", known)?;
    text(&object["homeTransactionId"], "homeTransactionId", 128)?;
    party(&object["from"], "from")?;
    party(&object["to"], "to")?;
    one_of(&object["amountType"], "amountType", &["SEND", "RECEIVE"])?;
    one_of(&object["transactionType"], "transactionType", &SCENARIOS)?;
    amount(&object["amount"], "amount")?;
    if object["currency"].as_str().and_then(Currency::parse).is_none() {
        return Err("request.body.currency should be a currency code".to_owned());
    }
    for name in &TRANSFER_OPTIONAL[5..] {
        let seconds = object.get(*name).map(Value::as_u64);
        if seconds.is_some_and(|s| s.is_none_or(|s| !(1..=EXPIRY_SECONDS_MAX).contains(&s))) {
            return Err(format!("request.body.{name} should be 1 to {EXPIRY_SECONDS_MAX}"));
        }
    }
    check_optional(object)?;
    Ok(object.clone())
}

fn check_optional(object: &Object) -> Result<(), String> {
    for name in ["note", "subScenario"] {
        if let Some(value) = object.get(name) {
            text(value, name, 128)?;
        }
    }
    for name in ["quoteRequestExtensions", "transferRequestExtensions"] {
        if object.get(name).is_some_and(|list| !list.is_array()) {
            return Err(format!("request.body.{name} should be array"));
        }
    }
    match object.get("skipPartyLookup") {
        None | Some(Value::Bool(false)) => Ok(()),
        Some(Value::Bool(true)) if object["to"]["fspId"].is_string() => Ok(()),
        Some(Value::Bool(true)) => {
            Err("request.body.to.fspId is required with skipPartyLookup".to_owned())
        }
        Some(_) => Err("request.body.skipPartyLookup should be boolean".to_owned()),
    }
}

/// Checks `PUT /transfers/{ID}`.
///
/// # Errors
/// The first member that is wrong.
pub(crate) fn resume(body: &Value) -> Result<Object, String> {
    let object = as_object(body, "request.body")?;
    refuse_unknown(object, "request.body", |name| RESUME.iter().any(|(known, _)| known == name))?;
    for (name, kind) in RESUME {
        let Some(value) = object.get(name) else { continue };
        match kind {
            Kind::Boolean if value.is_boolean() => {}
            Kind::Boolean => return Err(format!("request.body.{name} should be boolean")),
            Kind::Amount => amount(value, name)?,
            Kind::Party => party(value, name)?,
        }
    }
    Ok(object.clone())
}

/// Checks the envelope of `POST /quotes` and `POST /simpleTransfers`, and returns the recipient and
/// the message.
///
/// # Errors
/// The first member that is missing or wrong.
pub(crate) fn envelope<'a>(body: &'a Value, message: &str) -> Result<(&'a str, &'a Value), String> {
    let object = as_object(body, "request.body")?;
    refuse_unknown(object, "request.body", |name| name == "fspId" || name == message)?;
    let fsp = object.get("fspId").and_then(Value::as_str);
    let fsp = fsp.filter(|fsp| fspiop::body::fsp_id(fsp).is_some());
    let fsp = fsp.ok_or("request.body should have required property 'fspId'")?;
    match object.get(message) {
        Some(found) if found.is_object() => Ok((fsp, found)),
        _ => Err(format!("request.body should have required property '{message}'")),
    }
}

fn as_object<'a>(value: &'a Value, name: &str) -> Result<&'a Object, String> {
    value.as_object().ok_or_else(|| format!("{name} should be object"))
}

fn refuse_unknown(
    object: &Object,
    name: &str,
    is_known: impl Fn(&String) -> bool,
) -> Result<(), String> {
    match object.keys().find(|member| !is_known(member)) {
        Some(member) => Err(format!("{name} should NOT have additional property '{member}'")),
        None => Ok(()),
    }
}

fn text(value: &Value, name: &str, longest: usize) -> Result<(), String> {
    match value.as_str() {
        Some(text) if (1..=longest).contains(&text.chars().count()) => Ok(()),
        _ => Err(format!("request.body.{name} should be a string of 1 to {longest} characters")),
    }
}

fn one_of(value: &Value, name: &str, allowed: &[&str]) -> Result<(), String> {
    match value.as_str() {
        Some(text) if allowed.contains(&text) => Ok(()),
        _ => Err(format!("request.body.{name} should be one of {}", allowed.join(", "))),
    }
}

fn amount(value: &Value, name: &str) -> Result<(), String> {
    match value.as_str().and_then(Amount::parse) {
        Some(_) => Ok(()),
        None => Err(format!("request.body.{name} should be an amount as a string")),
    }
}

fn party(value: &Value, name: &str) -> Result<(), String> {
    let object = as_object(value, &format!("request.body.{name}"))?;
    let prefix = format!("request.body.{name}");
    refuse_unknown(object, &prefix, |member| PARTY.contains(&member.as_str()))?;
    if value["idType"].as_str().and_then(PartyIdType::parse).is_none() {
        return Err(format!("{prefix}.idType should be one of {}", PartyIdType::NAMES.join(", ")));
    }
    text(&value["idValue"], &format!("{name}.idValue"), 128)?;
    if !value["idValue"].as_str().is_some_and(fspiop::is_identifier) {
        return Err(format!("{prefix}.idValue should be an identifier"));
    }
    if object.get("idSubValue").is_some_and(|sub| !sub.as_str().is_some_and(fspiop::is_identifier))
    {
        return Err(format!("{prefix}.idSubValue should be an identifier"));
    }
    match object.get("fspId") {
        Some(fsp) if fsp.as_str().and_then(fspiop::body::fsp_id).is_none() => {
            Err(format!("{prefix}.fspId should be a name of a DFSP"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn valid() -> Value {
        json!({
            "homeTransactionId": "h1",
            "from": { "idType": "MSISDN", "idValue": "1" },
            "to": { "idType": "MSISDN", "idValue": "2" },
            "amountType": "SEND", "currency": "USD", "amount": "10.5",
            "transactionType": "TRANSFER",
        })
    }

    #[test]
    fn each_wrong_member_of_a_transfer_is_named() {
        assert!(transfer(&valid()).is_ok());
        for (pointer, value, expected) in [
            ("/amount", json!(10), "body.amount "),
            ("/amount", json!("1.50"), "body.amount "),
            ("/currency", json!("usd"), "body.currency "),
            ("/amountType", json!("GIVE"), "amountType should be one of SEND, RECEIVE"),
            ("/to/idType", json!("PHONE"), "to.idType"),
            ("/to/idValue", json!(""), "to.idValue"),
            ("/to", json!([]), "body.to should be object"),
            ("/homeTransactionId", json!(null), "required property 'homeTransactionId'"),
        ] {
            let mut body = valid();
            *body.pointer_mut(pointer).expect(pointer) = value;
            let error = transfer(&body).expect_err(pointer);
            assert!(error.contains(expected), "{error}");
        }
        for (name, value, expected) in [
            ("other", json!(1), "additional property 'other'"),
            ("skipPartyLookup", json!(true), "to.fspId is required"),
            ("quoteExpirySeconds", json!(0), "quoteExpirySeconds"),
            ("note", json!(1), "body.note"),
        ] {
            let mut body = valid();
            body[name] = value;
            let error = transfer(&body).expect_err(name);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_resumption_has_known_members_of_the_right_type() {
        assert!(resume(&json!({ "acceptParty": true, "amount": "1" })).is_ok());
        assert!(resume(&json!({ "acceptParty": "yes" })).is_err());
        assert!(resume(&json!({ "accept": true })).is_err());
        assert!(resume(&json!([])).is_err());
    }
}
