//! Masks personal data in messages.
//!
//! Only members that are known to contain none are shown. All others are masked, also those that a
//! later version of the protocol adds: an omission hides too much, never too little.

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// Members that contain no personal data.
const SHOWN: [&str; 35] = [
    "amount",
    "amountType",
    "bulkQuoteId",
    "bulkTransactionState",
    "bulkTransferId",
    "bulkTransferState",
    "completedTimestamp",
    "condition",
    "currency",
    "errorCode",
    "expiration",
    "fees",
    "fspId",
    "individualTransferId",
    "initiator",
    "initiatorType",
    "key",
    "partyIdType",
    "payeeFsp",
    "payeeFspCommission",
    "payeeFspFee",
    "payeeReceiveAmount",
    "payerFsp",
    "quoteId",
    "scenario",
    "sourceAmount",
    "sourceCurrency",
    "subScenario",
    "targetAmount",
    "targetCurrency",
    "transactionId",
    "transactionRequestId",
    "transferAmount",
    "transferId",
    "transferState",
];
/// Members that identify a party: the end is shown, so that an operator can compare it.
const IDENTIFIERS: [&str; 2] = ["partyIdentifier", "partySubIdOrType"];
/// Shortest identifier whose end is shown, and the characters of that end.
const IDENTIFIER_MIN: usize = 8;
const IDENTIFIER_END: usize = 2;
/// Longest text that is shown, and longest masked text, in characters.
const SHOWN_MAX: usize = 128;
const MASKED_MAX: usize = 64;

/// Headers that contain no personal data and no secret.
const HEADERS: [&str; 14] = [
    "accept",
    "content-length",
    "content-type",
    "date",
    "fspiop-destination",
    "fspiop-encryption",
    "fspiop-http-method",
    "fspiop-proxy",
    "fspiop-source",
    "fspiop-uri",
    "host",
    "traceparent",
    "tracestate",
    "user-agent",
];
/// Headers with credentials, which no caller gets.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "x-api-key"];

/// The value of a header line.
pub(super) fn header(name: &str, value: &str, masked: bool) -> String {
    let is_hidden = CREDENTIALS.contains(&name) || masked && !HEADERS.contains(&name);
    if is_hidden { masked_text(value) } else { value.to_owned() }
}

/// A JSON text with personal data masked.
pub(super) fn json(text: &RawValue) -> Box<RawValue> {
    let masked = serde_json::from_str(text.get()).map(|value| masked_value(None, value));
    // Nested too deeply to be read: nothing is shown.
    let masked = masked.unwrap_or_else(|_| Value::String(masked_text(text.get())));
    to_raw_value(&masked).expect("a JSON value can be written")
}

fn masked_value(name: Option<&str>, value: Value) -> Value {
    let is_shown = name.is_some_and(|name| SHOWN.contains(&name));
    match value {
        Value::Object(members) => {
            let masked = members.into_iter().map(|(name, value)| {
                let value = masked_value(Some(&name), value);
                (name, value)
            });
            Value::Object(masked.collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| masked_value(name, item)).collect())
        }
        Value::String(text) if name == Some("key") && !is_label(&text) => {
            Value::String(masked_text(&text))
        }
        Value::String(text) if is_shown && text.chars().count() <= SHOWN_MAX => Value::String(text),
        Value::String(text) if name.is_some_and(|name| IDENTIFIERS.contains(&name)) => {
            Value::String(masked_identifier(&text))
        }
        Value::String(text) => Value::String(masked_text(&text)),
        Value::Number(number) if !is_shown => Value::String(masked_text(&number.to_string())),
        other => other,
    }
}

/// Whether the key of an extension names a value, and is no value itself.
fn is_label(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_alphabetic() || b"._-".contains(&byte))
}

/// A text whose letters and digits are `*`. Its length and its signs stay; a long one is cut.
#[must_use]
pub fn masked_text(text: &str) -> String {
    let mask = |sign: char| if sign.is_alphanumeric() { '*' } else { sign };
    let mut masked: String = text.chars().take(MASKED_MAX).map(mask).collect();
    let rest = text.chars().count().saturating_sub(MASKED_MAX);
    if rest != 0 {
        masked += &format!("… ({rest} more)");
    }
    masked
}

/// The same, with the end of a long identifier.
pub(crate) fn masked_identifier(text: &str) -> String {
    let count = text.chars().count();
    if !(IDENTIFIER_MIN..=MASKED_MAX).contains(&count) {
        return masked_text(text);
    }
    let (at, _) = text.char_indices().nth(count - IDENTIFIER_END).expect("it is longer");
    masked_text(&text[..at]) + &text[at..]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn personal_data_are_masked_and_keep_their_shape() {
        let party = json!({
            "partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "+447700900123", "fspId": "a"},
            "name": "Ann Lee",
            "personalInfo": {"dateOfBirth": "1990-01-31", "complexName": {"firstName": "Ann"}},
            "accounts": [{"address": "moja.7", "currency": "KES"}],
        });
        let body = json!({
            "transferId": "t-1", "amount": {"amount": "12.5", "currency": "KES"}, "payee": party,
            "note": "rent of Ann", "fulfilment": "secret", "age": 34, "is": true,
            "extensionList": {"extension":
                [{"key": "k", "value": "Ann 1"}, {"key": "254700000001", "value": ""}]},
        });
        let text = RawValue::from_string(body.to_string()).expect("JSON");
        let masked: Value = serde_json::from_str(json(&text).get()).expect("JSON");
        let expected = json!({
            "transferId": "t-1", "amount": {"amount": "12.5", "currency": "KES"},
            "payee": {
                "partyIdInfo":
                    {"partyIdType": "MSISDN", "partyIdentifier": "+**********23", "fspId": "a"},
                "name": "*** ***",
                "personalInfo": {"dateOfBirth": "****-**-**", "complexName": {"firstName": "***"}},
                "accounts": [{"address": "****.*", "currency": "KES"}],
            },
            "note": "**** ** ***", "fulfilment": "******", "age": "**", "is": true,
            "extensionList": {"extension":
                [{"key": "k", "value": "*** *"}, {"key": "************", "value": ""}]},
        });
        assert_eq!(masked, expected);
    }

    #[test]
    fn short_identifiers_and_long_texts_show_nothing() {
        assert_eq!(masked_identifier("1234567"), "*******");
        assert_eq!(masked_identifier("12345678"), "******78");
        assert_eq!(masked_identifier("ÄÖÜßéèêç"), "******êç");
        let long = masked_text(&"x".repeat(100));
        assert_eq!(long, format!("{}… (36 more)", "*".repeat(64)));
        let shown = json!({"transferId": "y".repeat(200)});
        assert!(!masked_value(None, shown).to_string().contains('y'));
    }

    #[test]
    fn credentials_are_always_masked_and_signatures_without_the_permission() {
        for (name, masked, expected) in [
            ("authorization", false, "****** ***"),
            ("fspiop-signature", false, "Bearer abc"),
            ("fspiop-signature", true, "****** ***"),
            ("fspiop-source", true, "Bearer abc"),
        ] {
            assert_eq!(header(name, "Bearer abc", masked), expected, "{name} {masked}");
        }
    }
}
