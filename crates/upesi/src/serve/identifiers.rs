//! Identifiers of parties in stored messages.
//!
//! A message names a party by an object with `partyIdType` and `partyIdentifier` in its body or in
//! the transaction object of its ILP packet, or by a path in a header.

use std::iter;

use base64::Engine;
use base64::alphabet::URL_SAFE;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use fspiop::PartyIdType;
use record::party_names::PartyNames;
use serde_json::Value;

/// Shortest identifier that is searched in free texts. A shorter one is too common.
pub(crate) const DISTINCTIVE_MIN: usize = 6;
/// Shortest part of an ILP packet that may be an object in base64url.
const BASE64_MIN: usize = 16;
/// Decodes an ILP packet, with padding or without.
pub(crate) const PACKET: GeneralPurpose = GeneralPurpose::new(
    &URL_SAFE,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether a text has an identifier that a stored message names, as a word.
pub(crate) fn has_identifier_of(text: &str, payload: &[u8]) -> bool {
    let may_name: [&[u8]; 5] =
        [b"partyIdentifier", b"ilpPacket", b"\\", b"/participants/", b"/parties/"];
    if has_name_of(text, payload) {
        return true;
    }
    if text.chars().count() < DISTINCTIVE_MIN
        || !may_name.iter().any(|part| contains(payload, part))
    {
        return false;
    }
    let message = fspiop::stored_message::decode(&Bytes::copy_from_slice(payload));
    let Ok(message) = message else { return false };
    let mut paths = message.headers.values().filter_map(|value| value.to_str().ok());
    paths.any(|path| has_identifier_of_path(text, path))
        || serde_json::from_slice::<Value>(&message.body)
            .is_ok_and(|body| has_identifier_in(text, ("", &body)))
}

/// Whether a text has an identifier that the fields of the message's record have as a hash.
fn has_name_of(text: &str, payload: &[u8]) -> bool {
    let names = fspiop::stored_message::parties(payload).ok();
    let names = names.and_then(|names| PartyNames::read(names).ok()).unwrap_or_default();
    let mut ids = names.0.iter().filter_map(|party| party.id.as_deref());
    ids.any(|id| has_word(text, without_sign(id)))
}

/// Whether a path, such as `/participants/MSISDN/254700000001`, has the identifier.
fn has_identifier_of_path(text: &str, path: &str) -> bool {
    let segments: Vec<_> = path.split('/').collect();
    segments.windows(2).any(|pair| {
        let id = pair[1].trim_start_matches("%2B");
        PartyIdType::parse(pair[0]).is_some() && has_word(text, without_sign(id))
    })
}

fn has_identifier_in(text: &str, (name, value): (&str, &Value)) -> bool {
    match value {
        Value::Object(members) => members.iter().any(|it| has_identifier_in(text, (it.0, it.1))),
        Value::Array(items) => items.iter().any(|item| has_identifier_in(text, (name, item))),
        Value::String(id) if name == "partyIdentifier" => has_word(text, without_sign(id)),
        Value::String(packet) if name == "ilpPacket" => {
            values_in_packet(packet).iter().any(|value| has_identifier_in(text, ("", value)))
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// An identifier without the sign that look-ups ignore.
pub(crate) fn without_sign(id: &str) -> &str {
    id.strip_prefix('+').unwrap_or(id)
}

/// Whether a free text has an identifier as a word.
pub(crate) fn has_word(text: &str, id: &str) -> bool {
    if id.chars().count() < DISTINCTIVE_MIN {
        return false;
    }
    text.match_indices(id).any(|(at, found)| {
        let before = text[..at].chars().next_back();
        let after = text[at + found.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

/// The values in an ILP packet: the transaction object of a packet of a known version, and all JSON
/// objects in others, plain or in base64url.
pub(crate) fn values_in_packet(packet: &str) -> Vec<Value> {
    let transaction = operations::transaction_of_packet(packet);
    let transaction = transaction.and_then(|it| serde_json::from_str(it.get()).ok());
    if let Some(transaction) = transaction {
        return vec![transaction];
    }
    let Ok(bytes) = PACKET.decode(packet) else { return Vec::new() };
    let is_of_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_=".contains(byte);
    let words = bytes.split(|byte| !is_of_base64(byte)).filter(|word| BASE64_MIN <= word.len());
    // A byte of the head may be a letter too.
    let starts = words.flat_map(|word| (0..4).map(move |at| &word[at..]));
    let decoded: Vec<_> = starts.filter_map(|word| PACKET.decode(word).ok()).collect();
    iter::once(&bytes).chain(&decoded).flat_map(|data| objects_in(data)).collect()
}

/// The outermost JSON objects in data, wherever they begin.
fn objects_in(data: &[u8]) -> Vec<Value> {
    let (mut found, mut rest) = (Vec::new(), data);
    while let Some(at) = rest.iter().position(|byte| *byte == b'{') {
        rest = &rest[at..];
        let mut values = serde_json::Deserializer::from_slice(rest).into_iter::<Value>();
        let length = match values.next() {
            Some(Ok(value)) => {
                found.push(value);
                values.byte_offset()
            }
            Some(Err(_)) | None => 1,
        };
        rest = &rest[length..];
    }
    found
}

pub(crate) fn contains(bytes: &[u8], part: &[u8]) -> bool {
    let Some(first) = part.first() else { return false };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(part) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn identifiers_of_a_message_are_found_in_a_text() {
        let party = json!({"partyIdType": "EMAIL", "partyIdentifier": "a.b@c.org"});
        let short = json!({"partyIdType": "ALIAS", "partyIdentifier": "31"});
        let packet = json!({"payee": {"partyIdInfo":
            {"partyIdType": "MSISDN", "partyIdentifier": "+254700000001"}}});
        let body = json!({
            "payer": {"partyIdInfo": party}, "others": [short], "note": "request 3100000",
            "ilpPacket": PACKET.encode(packet.to_string()),
        });
        let mut payload = Vec::new();
        let bytes = body.to_string();
        fspiop::stored_message::encode(&HeaderMap::new(), bytes.as_bytes(), &mut payload);
        for (text, expected) in [
            ("asked by a.b@c.org, by mail", true),
            ("of 254700000001", true),
            ("of 2547000000012", false),
            ("request 31", false),
            ("request 3100000", false),
            ("", false),
        ] {
            assert_eq!(has_identifier_of(text, &payload), expected, "{text}");
        }
        let mut headers = HeaderMap::new();
        let path = "/participants/MSISDN/%2B254700000002".parse().expect("a value");
        headers.insert("fspiop-uri", path);
        payload.clear();
        fspiop::stored_message::encode(&headers, b"{}", &mut payload);
        assert!(has_identifier_of("of 254700000002", &payload));
        assert!(!has_identifier_of("participants, MSISDN", &payload));
        assert!(!has_identifier_of("of 254700000001", b"damaged partyIdentifier 254700000001"));
    }
}
