//! Canonical forms of a body, as hashed by signers and verifiers of the scheme.
//!
//! The reference does not hash the received bytes: it parses the body and writes it again, like
//! JavaScript's `JSON.parse` and `JSON.stringify`, with members in their original order or sorted
//! by name. Only used for messages with a signature that does not match their bytes.
//!
//! Limits: numbers of more than fifteen digits may differ in the last digit, and members with
//! numeric names are not moved to the front. Messages of the scheme have neither.
//! docs/internals/fuzzing.md lists all differences.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Maximum length of a body that is canonicalised, in bytes. Longer bodies must be signed as sent.
/// The parsed tree takes up to sixteen times the memory during the call.
pub const CANONICAL_BODY_BYTES_MAX: usize = 1024 * 1024;
/// Number of JSON values that a body of any length may have.
const VALUES_FREE: usize = 1_000;
/// Bytes of a body for each further value. The messages of the scheme have more: a longer body of
/// very short values only costs the time of the thread that verifies it.
const BYTES_PER_VALUE: usize = 12;

/// The body as written by the reference's verifiers: compact, members sorted by name at every
/// level. `None` if it is too long, invalid JSON, or has a name twice in an object.
#[must_use]
pub fn canonical(body: &[u8]) -> Option<Vec<u8>> {
    Canonical::parse(body).map(Canonical::sorted)
}

/// A parsed body.
pub(crate) struct Canonical<'a>(Node<'a>);

impl<'a> Canonical<'a> {
    /// `None` if the body is too long, has too many values, is invalid JSON, or has a name twice in
    /// an object, because verifiers differ on which of the two counts.
    pub(crate) fn parse(body: &'a [u8]) -> Option<Self> {
        let values_max = VALUES_FREE + body.len() / BYTES_PER_VALUE;
        if CANONICAL_BODY_BYTES_MAX < body.len() || values_max < values_at_most(body) {
            return None;
        }
        serde_json::from_slice(body).ok().map(Self)
    }

    /// Compact, members in their original order.
    pub(crate) fn compact(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.0.write(&mut out);
        out
    }

    /// Compact, members sorted by name at every level.
    pub(crate) fn sorted(mut self) -> Vec<u8> {
        self.0.sort();
        self.compact()
    }
}

/// At least the number of values of a body: its commas and opening brackets, also those in texts.
fn values_at_most(body: &[u8]) -> usize {
    body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count()
}

enum Node<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Cow<'a, str>),
    List(Vec<Node<'a>>),
    Object(Vec<(Cow<'a, str>, Node<'a>)>),
}

impl Node<'_> {
    fn sort(&mut self) {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::Text(_) => (),
            Self::List(items) => items.iter_mut().for_each(Self::sort),
            Self::Object(members) => {
                members.sort_by(|left, right| left.0.cmp(&right.0));
                members.iter_mut().for_each(|(_, value)| value.sort());
            }
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(number) => out.extend_from_slice(number_text(*number).as_bytes()),
            Self::Text(text) => write_text(out, text),
            Self::List(items) => {
                out.push(b'[');
                for (at, item) in items.iter().enumerate() {
                    separate(out, at);
                    item.write(out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (at, (name, value)) in members.iter().enumerate() {
                    separate(out, at);
                    write_text(out, name);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

fn separate(out: &mut Vec<u8>, at: usize) {
    if 0 < at {
        out.push(b',');
    }
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("writing a text to memory cannot fail");
}

/// A number as JavaScript writes it.
fn number_text(number: f64) -> String {
    let size = number.abs();
    if number == 0.0 {
        return "0".to_owned();
    }
    if (1e-6..1e21).contains(&size) {
        return number.to_string();
    }
    let text = format!("{number:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

impl<'de> Deserialize<'de> for Node<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Nodes)
    }
}

struct Nodes;

impl<'de> Visitor<'de> for Nodes {
    type Value = Node<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Node::Number(value as f64))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Node::Number(value as f64))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        Ok(Node::Number(value))
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Node::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Node::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let mut object = Vec::new();
        while let Some((Text(name), value)) = members.next_entry()? {
            object.push((name, value));
        }
        let mut names: Vec<&str> = object.iter().map(|(name, _)| &**name).collect();
        names.sort_unstable();
        if names.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(A::Error::custom("a name occurs twice"));
        }
        Ok(Node::Object(object))
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }

    /// Compares both forms of a body.
    fn check(body: &str, compact: &str, sorted: &str) {
        let canonical = Canonical::parse(body.as_bytes()).expect(body);
        assert_eq!(text(canonical.compact()), compact, "{body}");
        assert_eq!(text(canonical.sorted()), sorted, "{body}");
    }

    #[test]
    fn bodies_are_written_as_javascript_writes_them() {
        check("{ }", "{}", "{}");
        check(
            "{\"b\": [1, {\"d\":null, \"c\":true}],\n\t\"a\": false}",
            r#"{"b":[1,{"d":null,"c":true}],"a":false}"#,
            r#"{"a":false,"b":[1,{"c":true,"d":null}]}"#,
        );
        check(
            r#"["\u00e9\/\u0001\u001F\n"]"#,
            r#"["é/\u0001\u001f\n"]"#,
            r#"["é/\u0001\u001f\n"]"#,
        );
        check(r#"{"\u0061":1}"#, r#"{"a":1}"#, r#"{"a":1}"#);
    }

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        for (number, expected) in [
            ("1.0", "1"),
            ("1.50", "1.5"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("1e3", "1000"),
            ("0.1", "0.1"),
            ("1E21", "1e+21"),
            ("1e23", "1e+23"),
            ("12345678901234567890", "12345678901234567000"),
            ("9007199254740993", "9007199254740992"),
            ("1e-6", "0.000001"),
            ("-1.5e-7", "-1.5e-7"),
            ("1e-7", "1e-7"),
        ] {
            check(number, expected, expected);
        }
    }

    #[test]
    fn largest_bulk_of_short_texts_has_a_canonical_form() {
        let item = concat!(
            r#"{"transferId":"0b1f1e4c-6d38-4f4b-9b3a-1a2b3c4d5e6f","#,
            r#""transferAmount":{"amount":"1","currency":"USD"},"ilpPacket":"AA","#,
            r#""condition":"AA","extensionList":{"extension":[{"key":"a","value":"b"}]}}"#,
        );
        let body = format!("{{\"individualTransfers\":[{}]}}", vec![item; 1_000].join(","));
        assert!(Canonical::parse(body.as_bytes()).is_some());
        let short = format!("[{}1]", "1,".repeat(900));
        assert!(Canonical::parse(short.as_bytes()).is_some());
    }

    #[test]
    fn ambiguous_bodies_have_no_canonical_form() {
        let long = format!("\"{}\"", "a".repeat(CANONICAL_BODY_BYTES_MAX));
        let deep = "[".repeat(100_000);
        // The JSON of many short values is valid, and its tree would take much time.
        let dense = format!("[{}1]", "1,".repeat(100_000));
        let members: Vec<_> = (0..50_000).map(|number| format!("\"{number}\":1")).collect();
        let wide = format!("{{{}}}", members.join(","));
        for body in [dense, wide] {
            assert!(Canonical::parse(body.as_bytes()).is_none(), "{body:.20}");
        }
        for body in
            ["", "{", r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, "1e999", "{} {}", &long, &deep]
        {
            assert!(Canonical::parse(body.as_bytes()).is_none(), "{body:.20}");
        }
    }

    proptest! {
        #[test]
        fn forms_are_stable(body in prop::collection::vec(
            prop::sample::select(b"{}[]\",:ab\\u0e19-. tnul".as_slice()), 0..40)) {
            if let Some(canonical) = Canonical::parse(&body) {
                let compact = canonical.compact();
                let again = Canonical::parse(&compact).expect("what we write is JSON");
                prop_assert_eq!(again.compact(), compact);
                let sorted = canonical.sorted();
                let again = Canonical::parse(&sorted).expect("what we write is JSON");
                prop_assert_eq!(again.compact(), sorted);
            }
        }
    }
}
