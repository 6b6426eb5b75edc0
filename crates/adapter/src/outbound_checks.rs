//! Checks of requests of the back end. Each failure names the member.

use fspiop::PartyIdType;
use ledger::{Amount, TransferId};
use serde_json::{Value, json};

use crate::forms::{Object, to_fspiop_party};

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
/// Members of `PUT /transfers/{ID}`.
pub(crate) const RESUME: &[(&str, MemberKind)] = &[
    ("acceptParty", MemberKind::Boolean),
    ("acceptQuote", MemberKind::Boolean),
    ("acceptConversion", MemberKind::Boolean),
    ("acceptQuoteOrConversion", MemberKind::Boolean),
    ("amount", MemberKind::Amount),
    ("to", MemberKind::Party),
];
/// Members of `PUT /requestToPayTransfer/{ID}`.
pub(crate) const RESUME_REQUESTED: &[(&str, MemberKind)] =
    &[("acceptQuote", MemberKind::Boolean), ("acceptOTP", MemberKind::Boolean)];
/// Members of `PUT /requestToPay/{ID}`.
pub(crate) const RESUME_REQUEST: &[(&str, MemberKind)] = &[("acceptParty", MemberKind::Boolean)];
const REQUEST_REQUIRED: [&str; 7] =
    ["homeR2PTransactionId", "from", "to", "amountType", "currency", "amount", "transactionType"];
const REQUEST_OPTIONAL: [&str; 2] = ["subScenario", "authenticationType"];
const REQUESTED_REQUIRED: [&str; 10] = [
    "homeR2PTransactionId",
    "transactionRequestId",
    "from",
    "to",
    "amountType",
    "currency",
    "amount",
    "scenario",
    "initiator",
    "initiatorType",
];
const REQUESTED_OPTIONAL: [&str; 3] = ["subScenario", "note", "authenticationType"];
const INITIATOR_TYPES: [&str; 4] = ["CONSUMER", "AGENT", "BUSINESS", "DEVICE"];
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
/// `transactionType` of transfers: the document of the API has this one alone.
const TRANSFER: [&str; 1] = ["TRANSFER"];
const SCENARIOS: [&str; 5] = ["DEPOSIT", "WITHDRAWAL", "TRANSFER", "PAYMENT", "REFUND"];
/// Longest expiry that a request may ask for, in seconds: one day.
const EXPIRY_SECONDS_MAX: u64 = 86_400;
/// Longest ILP packet in characters, and length of a condition (FSPIOP).
const PACKET_CHARS_MAX: usize = 32_768;
const CONDITION_CHARS: usize = 43;

const ACCOUNT: [&str; 4] = ["idType", "idValue", "idSubValue", "currency"];
const BULK_QUOTE_REQUIRED: [&str; 3] = ["homeTransactionId", "from", "individualQuotes"];
const BULK_QUOTE_OPTIONAL: [&str; 2] = ["bulkQuoteId", "extensions"];
const BULK_QUOTE_ITEM: [&str; 6] =
    ["quoteId", "to", "amountType", "currency", "transactionType", "amount"];
const BULK_QUOTE_ITEM_OPTIONAL: [&str; 3] = ["subScenario", "note", "extensions"];
const BULK_TRANSFER_REQUIRED: [&str; 5] =
    ["bulkTransferId", "homeTransactionId", "bulkQuoteId", "from", "individualTransfers"];
const BULK_TRANSFER_OPTIONAL: [&str; 1] = ["extensions"];
const BULK_TRANSFER_ITEM: [&str; 7] =
    ["transferId", "to", "amountType", "currency", "amount", "ilpPacket", "condition"];
const BULK_TRANSFER_ITEM_OPTIONAL: [&str; 4] =
    ["transactionType", "subScenario", "note", "extensions"];
/// Maximum number of extensions in a list.
const EXTENSIONS_MAX: usize = 16;
/// Longest sub-scenario in characters.
const SUB_SCENARIO_CHARS_MAX: usize = 32;
/// Maximum number of currencies of a party.
const CURRENCIES_MAX: usize = 16;
/// Maximum number of accounts of one request.
const ACCOUNTS_MAX: usize = fspiop::body::BATCH_PARTIES_MAX;
/// Maximum number of items of a bulk.
const BULK_ITEMS_MAX: usize = fspiop::body::BULK_ITEMS_MAX;

/// The type of a member.
#[derive(Clone, Copy)]
pub(crate) enum MemberKind {
    Boolean,
    Amount,
    Party,
}

/// Checks `POST /transfers`.
///
/// # Errors
/// The first member that is missing or wrong.
pub(crate) fn transfer(body: &Value) -> Result<Object, String> {
    let object = members(body, &TRANSFER_REQUIRED, &TRANSFER_OPTIONAL)?;
    text(&object["homeTransactionId"], "homeTransactionId", 128)?;
    one_of(&object["transactionType"], "transactionType", &TRANSFER)?;
    payment(object)?;
    for name in &TRANSFER_OPTIONAL[5..] {
        let seconds = object.get(*name).map(Value::as_u64);
        if seconds.is_some_and(|s| s.is_none_or(|s| !(1..=EXPIRY_SECONDS_MAX).contains(&s))) {
            return Err(format!("request.body.{name} should be 1 to {EXPIRY_SECONDS_MAX}"));
        }
    }
    check_optional(object)?;
    Ok(object.clone())
}

/// Checks `POST /requestToPay`.
///
/// # Errors
/// The first member that is missing or wrong.
pub(crate) fn request_to_pay(body: &Value) -> Result<Object, String> {
    let object = members(body, &REQUEST_REQUIRED, &REQUEST_OPTIONAL)?;
    text(&object["homeR2PTransactionId"], "homeR2PTransactionId", 128)?;
    one_of(&object["transactionType"], "transactionType", &SCENARIOS)?;
    authentication(object)?;
    payment(object)?;
    check_optional(object)?;
    Ok(object.clone())
}

/// Checks `POST /requestToPayTransfer`.
///
/// # Errors
/// The first member that is missing or wrong.
pub(crate) fn requested_transfer(body: &Value) -> Result<Object, String> {
    let object = members(body, &REQUESTED_REQUIRED, &REQUESTED_OPTIONAL)?;
    text(&object["homeR2PTransactionId"], "homeR2PTransactionId", 128)?;
    if object["transactionRequestId"].as_str().and_then(TransferId::parse).is_none() {
        return Err("request.body.transactionRequestId should be a UUID or a ULID".to_owned());
    }
    one_of(&object["scenario"], "scenario", &SCENARIOS)?;
    one_of(&object["initiator"], "initiator", &["PAYER", "PAYEE"])?;
    one_of(&object["initiatorType"], "initiatorType", &INITIATOR_TYPES)?;
    authentication(object)?;
    payment(object)?;
    if !object["to"]["fspId"].is_string() {
        return Err("request.body.to should have required property 'fspId'".to_owned());
    }
    check_optional(object)?;
    Ok(object.clone())
}

/// Checks `POST /accounts`.
///
/// # Errors
/// The first account and member that is wrong.
pub(crate) fn accounts(body: &Value) -> Result<Vec<Value>, String> {
    let list = body.as_array().ok_or("request.body should be array")?;
    if !(1..=ACCOUNTS_MAX).contains(&list.len()) {
        return Err(format!("request.body should have 1 to {ACCOUNTS_MAX} items"));
    }
    for (at, account) in list.iter().enumerate() {
        let name = at.to_string();
        let object = as_object(account, &format!("request.body.{name}"))?;
        let known = |name: &String| ACCOUNT.contains(&name.as_str());
        refuse_unknown(object, &format!("request.body.{name}"), known)?;
        let mut identifier = object.clone();
        if let Some(code) = identifier.remove("currency") {
            currency(&code, &format!("{name}.currency"))?;
        }
        party(&Value::from(identifier), &name)?;
    }
    Ok(list.clone())
}

/// Checks `POST /bulkQuotes`, and returns the DFSP of its payees too.
///
/// # Errors
/// The first member that is missing or wrong.
pub(crate) fn bulk_quote(body: &Value) -> Result<(Object, String), String> {
    let object = members(body, &BULK_QUOTE_REQUIRED, &BULK_QUOTE_OPTIONAL)?;
    text(&object["homeTransactionId"], "homeTransactionId", 128)?;
    party(&object["from"], "from")?;
    if let Some(id) = object.get("bulkQuoteId") {
        correlation_id(id, "bulkQuoteId")?;
    }
    extensions_of(object, "extensions")?;
    let fsp = items(&object["individualQuotes"], "individualQuotes", |item, name| {
        let item = members_of(item, name, &BULK_QUOTE_ITEM, &BULK_QUOTE_ITEM_OPTIONAL)?;
        correlation_id(&item["quoteId"], &format!("{name}.quoteId"))?;
        one_of(&item["transactionType"], &format!("{name}.transactionType"), &TRANSFER)?;
        bulk_item_optional(item, name)?;
        Ok(item)
    })?;
    Ok((object.clone(), fsp))
}

/// Checks `POST /bulkTransfers`, and returns the DFSP of its payees too.
///
/// # Errors
/// The first member that is missing or wrong.
pub(crate) fn bulk_transfer(body: &Value) -> Result<(Object, String), String> {
    let object = members(body, &BULK_TRANSFER_REQUIRED, &BULK_TRANSFER_OPTIONAL)?;
    text(&object["homeTransactionId"], "homeTransactionId", 128)?;
    party(&object["from"], "from")?;
    for name in ["bulkTransferId", "bulkQuoteId"] {
        correlation_id(&object[name], name)?;
    }
    extensions_of(object, "extensions")?;
    let fsp = items(&object["individualTransfers"], "individualTransfers", |item, name| {
        let item = members_of(item, name, &BULK_TRANSFER_ITEM, &BULK_TRANSFER_ITEM_OPTIONAL)?;
        correlation_id(&item["transferId"], &format!("{name}.transferId"))?;
        text(&item["ilpPacket"], &format!("{name}.ilpPacket"), PACKET_CHARS_MAX)?;
        text(&item["condition"], &format!("{name}.condition"), CONDITION_CHARS)?;
        if let Some(kind) = item.get("transactionType") {
            one_of(kind, &format!("{name}.transactionType"), &TRANSFER)?;
        }
        bulk_item_optional(item, name)?;
        Ok(item)
    })?;
    Ok((object.clone(), fsp))
}

/// Checks the items of a bulk, and returns the DFSP that all of them are for.
fn items<'a>(
    list: &'a Value,
    name: &str,
    check: impl Fn(&'a Value, &str) -> Result<&'a Object, String>,
) -> Result<String, String> {
    let list = list.as_array().ok_or_else(|| format!("request.body.{name} should be array"))?;
    if !(1..=BULK_ITEMS_MAX).contains(&list.len()) {
        return Err(format!("request.body.{name} should have 1 to {BULK_ITEMS_MAX} items"));
    }
    let mut fsp = None;
    for (at, item) in list.iter().enumerate() {
        let name = format!("{name}.{at}");
        let item = check(item, &name)?;
        party(&item["to"], &format!("{name}.to"))?;
        one_of(&item["amountType"], &format!("{name}.amountType"), &["SEND", "RECEIVE"])?;
        amount(&item["amount"], &format!("{name}.amount"))?;
        currency(&item["currency"], &format!("{name}.currency"))?;
        let found = item["to"]["fspId"].as_str();
        let found =
            found.ok_or_else(|| format!("request.body.{name}.to should have property 'fspId'"))?;
        if *fsp.get_or_insert(found) != found {
            return Err(format!("request.body.{name}.to.fspId should be that of all items"));
        }
    }
    Ok(fsp.unwrap_or_default().to_owned())
}

fn correlation_id(value: &Value, name: &str) -> Result<(), String> {
    match value.as_str().and_then(TransferId::parse) {
        Some(_) => Ok(()),
        None => Err(format!("request.body.{name} should be a UUID or a ULID")),
    }
}

fn authentication(object: &Object) -> Result<(), String> {
    match object.get("authenticationType") {
        Some(kind) => one_of(kind, "authenticationType", &["OTP", "QRCODE", "U2F"]),
        None => Ok(()),
    }
}

/// The object with all required members and no unknown one.
fn members<'a>(
    body: &'a Value,
    required: &[&str],
    optional: &[&str],
) -> Result<&'a Object, String> {
    checked_members(body, "request.body", required, optional)
}

/// The members of an item of the body.
fn members_of<'a>(
    item: &'a Value,
    name: &str,
    required: &[&str],
    optional: &[&str],
) -> Result<&'a Object, String> {
    checked_members(item, &format!("request.body.{name}"), required, optional)
}

fn checked_members<'a>(
    value: &'a Value,
    place: &str,
    required: &[&str],
    optional: &[&str],
) -> Result<&'a Object, String> {
    let object = as_object(value, place)?;
    for name in required {
        if object.get(*name).is_none_or(Value::is_null) {
            return Err(format!("{place} should have required property '{name}'"));
        }
    }
    let known =
        |name: &String| required.contains(&name.as_str()) || optional.contains(&name.as_str());
    refuse_unknown(object, place, known)?;
    Ok(object)
}

/// Checks the members that all payments have.
fn payment(object: &Object) -> Result<(), String> {
    party(&object["from"], "from")?;
    party(&object["to"], "to")?;
    one_of(&object["amountType"], "amountType", &["SEND", "RECEIVE"])?;
    amount(&object["amount"], "amount")?;
    currency(&object["currency"], "currency")
}

fn currency(value: &Value, name: &str) -> Result<(), String> {
    match value.as_str() {
        Some(code) if fspiop::is_known_currency(code) => Ok(()),
        _ => Err(format!("request.body.{name} should be a currency code")),
    }
}

fn check_optional(object: &Object) -> Result<(), String> {
    note_and_sub_scenario(object, "")?;
    for name in ["quoteRequestExtensions", "transferRequestExtensions"] {
        if let Some(list) = object.get(name) {
            extensions(list, name)?;
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

fn note_and_sub_scenario(object: &Object, prefix: &str) -> Result<(), String> {
    if let Some(note) = object.get("note") {
        text(note, &format!("{prefix}note"), 128)?;
    }
    let Some(value) = object.get("subScenario") else { return Ok(()) };
    let name = format!("{prefix}subScenario");
    text(value, &name, SUB_SCENARIO_CHARS_MAX)?;
    let is_allowed = |b: u8| b.is_ascii_uppercase() || b == b'_';
    match value.as_str().is_some_and(|text| text.bytes().all(is_allowed)) {
        true => Ok(()),
        false => Err(format!("request.body.{name} should have capitals and underscores only")),
    }
}

/// Checks the optional members of an item of a bulk.
fn bulk_item_optional(item: &Object, name: &str) -> Result<(), String> {
    note_and_sub_scenario(item, &format!("{name}."))?;
    extensions_of(item, &format!("{name}.extensions"))
}

/// Checks `extensions` of a bulk or its item, whose list is a member of an object.
fn extensions_of(object: &Object, name: &str) -> Result<(), String> {
    let Some(found) = object.get("extensions") else { return Ok(()) };
    let found = checked_members(found, &format!("request.body.{name}"), &["extension"], &[])?;
    if found["extension"].as_array().is_some_and(Vec::is_empty) {
        return Err(format!(
            "request.body.{name}.extension should have 1 to {EXTENSIONS_MAX} items"
        ));
    }
    extensions(&found["extension"], &format!("{name}.extension"))
}

fn extensions(list: &Value, name: &str) -> Result<(), String> {
    let list = list.as_array().ok_or_else(|| format!("request.body.{name} should be array"))?;
    if EXTENSIONS_MAX < list.len() {
        return Err(format!("request.body.{name} should have at most {EXTENSIONS_MAX} items"));
    }
    for (at, entry) in list.iter().enumerate() {
        let name = format!("{name}.{at}");
        as_object(entry, &format!("request.body.{name}"))?;
        text(&entry["key"], &format!("{name}.key"), 32)?;
        text(&entry["value"], &format!("{name}.value"), 128)?;
    }
    Ok(())
}

/// Checks the resumption of a paused flow, with its known members.
///
/// # Errors
/// The first member that is wrong.
pub(crate) fn resume(body: &Value, known: &[(&str, MemberKind)]) -> Result<Object, String> {
    let object = as_object(body, "request.body")?;
    refuse_unknown(object, "request.body", |name| known.iter().any(|(known, _)| known == name))?;
    for &(name, kind) in known {
        let Some(value) = object.get(name) else { continue };
        match kind {
            MemberKind::Boolean if value.is_boolean() => {}
            MemberKind::Boolean => return Err(format!("request.body.{name} should be boolean")),
            MemberKind::Amount => amount(value, name)?,
            MemberKind::Party => party(value, name)?,
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
        _ => party_optional(object, name),
    }
}

/// Checks the members of a party besides its identifiers: those with a list of values or entries
/// here, the others by the rules of FSPIOP.
fn party_optional(object: &Object, name: &str) -> Result<(), String> {
    let prefix = format!("request.body.{name}");
    if let Some((member, _)) = object.iter().find(|(_, value)| value.is_null()) {
        return Err(format!("{prefix}.{member} should not be null"));
    }
    if let Some(kind) = object.get("type") {
        one_of(kind, &format!("{name}.type"), &INITIATOR_TYPES)?;
    }
    if let Some(list) = object.get("extensionList") {
        extensions(list, &format!("{name}.extensionList"))?;
    }
    if let Some(list) = object.get("supportedCurrencies") {
        let codes = list.as_array().filter(|codes| codes.len() <= CURRENCIES_MAX);
        let codes = codes.ok_or_else(|| {
            format!(
                "{prefix}.supportedCurrencies should be array of at most {CURRENCIES_MAX} items"
            )
        })?;
        for (at, code) in codes.iter().enumerate() {
            currency(code, &format!("{name}.supportedCurrencies.{at}"))?;
        }
    }
    let message = json!({ "party": to_fspiop_party(&Value::from(object.clone())) });
    fspiop::body::check_party(message.to_string().as_bytes())
        .map_err(|refusal| format!("{prefix}: {}", refusal.description))
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
            ("/currency", json!("ZZZ"), "body.currency should be a currency code"),
            ("/transactionType", json!("PAYMENT"), "transactionType should be one of TRANSFER"),
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
            ("subScenario", json!("low"), "body.subScenario should have capitals"),
            ("quoteRequestExtensions", json!([{ "key": "a" }]), "Extensions.0.value"),
        ] {
            let mut body = valid();
            body[name] = value;
            let error = transfer(&body).expect_err(name);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn each_wrong_member_of_a_party_is_named() {
        for (name, value, expected) in [
            ("type", json!("PERSON"), "to.type should be one of CONSUMER, AGENT, BUSINESS, DEVICE"),
            ("supportedCurrencies", json!(["USD", "ZZZ"]), "to.supportedCurrencies.1 should be"),
            ("supportedCurrencies", json!("USD"), "to.supportedCurrencies should be array"),
            ("extensionList", json!([{ "key": "", "value": "1" }]), "to.extensionList.0.key"),
            ("displayName", json!(null), "to.displayName should not be null"),
            ("firstName", json!({}), "body.to: "),
            ("dateOfBirth", json!("1980-02-30"), "body.to: "),
            ("merchantClassificationCode", json!("12345"), "body.to: "),
        ] {
            let mut body = valid();
            body["to"][name] = value;
            let error = transfer(&body).expect_err(name);
            assert!(error.contains(expected), "{error}");
        }
        let mut body = valid();
        body["to"]["supportedCurrencies"] = json!(["USD", "TZS"]);
        body["to"]["dateOfBirth"] = "1980-02-29".into();
        assert!(transfer(&body).is_ok());
    }

    #[test]
    fn each_enumeration_of_a_bulk_and_of_a_request_to_pay_is_checked() {
        let item = json!({
            "quoteId": "01JABCDEFGHJKMNPQRSTVWXYZ0", "amountType": "SEND", "amount": "1",
            "to": { "idType": "MSISDN", "idValue": "2", "fspId": "b" }, "currency": "USD",
            "transactionType": "TRANSFER",
            "extensions": { "extension": [{ "key": "a", "value": "b" }] },
        });
        let bulk = |item: &Value| {
            let from = json!({ "idType": "MSISDN", "idValue": "1" });
            json!({ "homeTransactionId": "h", "from": from, "individualQuotes": [item] })
        };
        assert!(bulk_quote(&bulk(&item)).is_ok());
        for (name, value) in [
            ("amountType", json!("GIVE")),
            ("currency", json!("ZZZ")),
            ("transactionType", json!("REFUND")),
            ("extensions", json!([])),
        ] {
            let mut wrong = item.clone();
            wrong[name] = value;
            let error = bulk_quote(&bulk(&wrong)).expect_err(name);
            assert!(error.contains(name), "{error}");
        }
        let requested = json!({
            "homeR2PTransactionId": "h", "transactionType": "REFUND", "amountType": "SEND",
            "from": { "idType": "MSISDN", "idValue": "1" }, "currency": "USD", "amount": "1",
            "to": { "idType": "MSISDN", "idValue": "2" }, "authenticationType": "OTP",
        });
        assert!(request_to_pay(&requested).is_ok());
        for name in ["transactionType", "amountType", "currency", "authenticationType"] {
            let mut wrong = requested.clone();
            wrong[name] = "ZZZ".into();
            let error = request_to_pay(&wrong).expect_err(name);
            assert!(error.contains(name), "{error}");
        }
        let account = json!([{ "idType": "MSISDN", "idValue": "1", "currency": "ZZZ" }]);
        assert!(accounts(&account).expect_err("unknown").contains("0.currency"));
    }

    #[test]
    fn a_resumption_has_known_members_of_the_right_type() {
        assert!(resume(&json!({ "acceptParty": true, "amount": "1" }), RESUME).is_ok());
        assert!(resume(&json!({ "acceptOTP": true }), RESUME_REQUESTED).is_ok());
        for wrong in [json!({ "acceptParty": "yes" }), json!({ "acceptOTP": true }), json!([])] {
            assert!(resume(&wrong, RESUME).is_err(), "{wrong}");
        }
    }
}
