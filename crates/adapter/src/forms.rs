//! Parties and extension lists in the form of the back end and in that of FSPIOP.

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// A JSON object.
pub(crate) type Object = Map<String, Value>;

/// Members of a party's personal information: those of the complex name, then the others.
const NAMES: [&str; 3] = ["firstName", "middleName", "lastName"];
const PERSONAL: [&str; 2] = ["dateOfBirth", "kycInformation"];

/// The object in a value, empty if it is not one.
pub(crate) fn object(value: &Value) -> Object {
    value.as_object().cloned().unwrap_or_default()
}

/// Copies members that are present and not null.
pub(crate) fn copy(from: &Value, names: &[&str], to: &mut Object) {
    for name in names {
        put(to, name, &from[*name]);
    }
}

/// Inserts a member unless its value is null.
pub(crate) fn put(to: &mut Object, name: &str, value: &Value) {
    if !value.is_null() {
        to.insert(name.to_owned(), value.clone());
    }
}

/// A list of extensions as FSPIOP writes it; null for none.
pub(crate) fn extension_list(entries: &Value) -> Value {
    match entries.as_array() {
        Some(entries) if !entries.is_empty() => json!({ "extension": entries }),
        _ => Value::Null,
    }
}

/// An amount of money; null without an amount.
pub(crate) fn money(amount: &Value, currency: &Value) -> Value {
    if amount.is_null() {
        return Value::Null;
    }
    let mut money = Object::new();
    put(&mut money, "amount", amount);
    put(&mut money, "currency", currency);
    money.into()
}

/// A party of the back end as FSPIOP writes it.
#[must_use]
pub(crate) fn to_fspiop_party(party: &Value) -> Value {
    let mut id = Object::new();
    put(&mut id, "partyIdType", &party["idType"]);
    put(&mut id, "partyIdentifier", &party["idValue"]);
    put(&mut id, "partySubIdOrType", &party["idSubValue"]);
    put(&mut id, "fspId", &party["fspId"]);
    put(&mut id, "extensionList", &extension_list(&party["extensionList"]));
    let mut names = Object::new();
    copy(party, &NAMES, &mut names);
    let mut personal = Object::new();
    if !names.is_empty() {
        personal.insert("complexName".to_owned(), names.into());
    }
    copy(party, &PERSONAL, &mut personal);
    let mut out = Object::new();
    out.insert("partyIdInfo".to_owned(), id.into());
    put(&mut out, "name", &party["displayName"]);
    if !personal.is_empty() {
        out.insert("personalInfo".to_owned(), personal.into());
    }
    copy(party, &["merchantClassificationCode", "supportedCurrencies"], &mut out);
    out.into()
}

/// A party of FSPIOP as the back end reads it.
#[must_use]
pub(crate) fn to_internal_party(party: &Value) -> Value {
    let mut out = Object::new();
    let id = &party["partyIdInfo"];
    put(&mut out, "idType", &id["partyIdType"]);
    put(&mut out, "idValue", &id["partyIdentifier"]);
    put(&mut out, "idSubValue", &id["partySubIdOrType"]);
    put(&mut out, "fspId", &id["fspId"]);
    put(&mut out, "extensionList", &id["extensionList"]["extension"]);
    put(&mut out, "displayName", &party["name"]);
    let personal = &party["personalInfo"];
    copy(&personal["complexName"], &NAMES, &mut out);
    copy(personal, &PERSONAL, &mut out);
    copy(party, &["merchantClassificationCode", "supportedCurrencies"], &mut out);
    out.into()
}

/// Adds a party that was found to the one that was looked up, whose identifiers stay. Returns its
/// DFSP.
pub(crate) fn merge_party(to: &mut Value, found: &Value) -> Option<String> {
    let fsp = found["fspId"].as_str()?.to_owned();
    if let (Some(to), Some(found)) = (to.as_object_mut(), found.as_object()) {
        for (name, value) in found {
            if !matches!(name.as_str(), "idType" | "idValue" | "idSubValue") {
                to.insert(name.clone(), value.clone());
            }
        }
    }
    Some(fsp)
}

/// A message in a state: its headers and its body.
pub(crate) fn message(headers: Value, body: Value) -> Value {
    let mut message = Object::new();
    message.insert("headers".to_owned(), headers);
    message.insert("body".to_owned(), body);
    message.into()
}

/// A value as JSON text.
pub(crate) fn bytes(value: &Value) -> Bytes {
    // The keys of a value are texts: writing it cannot fail.
    serde_json::to_vec(value).map_or_else(|_| Bytes::new(), Bytes::from)
}

/// `errorInformation` as a value.
pub(crate) fn error_information(code: &str, description: &str) -> Value {
    json!({ "errorInformation": { "errorCode": code, "errorDescription": description } })
}

/// The code and description of an error body.
pub(crate) fn error_of(body: &Value) -> Option<(&str, &str)> {
    let error = &body["errorInformation"];
    Some((error["errorCode"].as_str()?, error["errorDescription"].as_str().unwrap_or("")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parties_keep_all_members_in_both_directions() {
        let internal = json!({
            "idType": "MSISDN", "idValue": "123", "idSubValue": "1", "fspId": "bank",
            "displayName": "Amani Juma", "firstName": "Amani", "middleName": "B",
            "lastName": "Juma", "dateOfBirth": "1980-01-01", "kycInformation": "{}",
            "merchantClassificationCode": "1234", "supportedCurrencies": ["USD"],
            "extensionList": [{ "key": "a", "value": "b" }],
        });
        let fspiop = to_fspiop_party(&internal);
        assert_eq!(fspiop["personalInfo"]["complexName"]["lastName"], "Juma");
        assert_eq!(fspiop["partyIdInfo"]["extensionList"]["extension"][0]["value"], "b");
        assert_eq!(to_internal_party(&fspiop), internal);
    }

    #[test]
    fn absent_members_stay_absent() {
        let internal = json!({ "idType": "MSISDN", "idValue": "123" });
        let expected = json!({
            "partyIdInfo": { "partyIdType": "MSISDN", "partyIdentifier": "123" },
        });
        assert_eq!(to_fspiop_party(&internal), expected);
        assert_eq!(to_internal_party(&expected), internal);
    }
}
