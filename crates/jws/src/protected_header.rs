//! The header `FSPIOP-Signature` and its protected header.

use std::borrow::Cow;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::verify::SignatureError;

/// Maximum length of the value of `FSPIOP-Signature`, in bytes.
pub const SIGNATURE_BYTES_MAX: usize = 8 * 1024;

pub(crate) const ALG: &str = "alg";
pub(crate) const URI: &str = "FSPIOP-URI";
pub(crate) const HTTP_METHOD: &str = "FSPIOP-HTTP-Method";
pub(crate) const SOURCE: &str = "FSPIOP-Source";
pub(crate) const DESTINATION: &str = "FSPIOP-Destination";
pub(crate) const DATE: &str = "Date";
pub(crate) const SIGNATURE: &str = "FSPIOP-Signature";
pub(crate) const CONTENT_TYPE: &str = "Content-Type";

const MEMBERS_MAX: usize = 16;

/// Name and value.
type Member<'a> = (Cow<'a, str>, Value<'a>);

/// The value of a member: a text, or raw JSON.
enum Value<'a> {
    Plain(&'a str),
    Written(&'a RawValue),
}
/// Name and value of a text member.
pub(crate) type TextMember<'a> = (Cow<'a, str>, Cow<'a, str>);

/// `{"signature":…,"protectedHeader":…}`; further members are ignored, as by the reference.
pub(crate) struct Envelope<'a> {
    signature: Cow<'a, [u8]>,
    /// In base64url, as it is signed.
    pub(crate) protected: Cow<'a, [u8]>,
}

/// The same as JSON.
#[derive(Deserialize)]
struct WrittenEnvelope<'a> {
    #[serde(borrow)]
    signature: Cow<'a, str>,
    #[serde(borrow, rename = "protectedHeader")]
    protected: Cow<'a, str>,
}

impl<'a> Envelope<'a> {
    pub(crate) fn parse(value: &'a [u8]) -> Result<Self, SignatureError> {
        if SIGNATURE_BYTES_MAX < value.len() {
            return Err(SignatureError::TooLong);
        }
        if let Some(envelope) = Self::parse_usual(value) {
            return Ok(envelope);
        }
        let written: WrittenEnvelope<'_> =
            serde_json::from_slice(value).map_err(|_| SignatureError::Malformed)?;
        let bytes = |text| match text {
            Cow::Borrowed(text) => Cow::Borrowed(str::as_bytes(text)),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        };
        Ok(Self { signature: bytes(written.signature), protected: bytes(written.protected) })
    }

    /// The form that nearly all signers write.
    fn parse_usual(value: &'a [u8]) -> Option<Self> {
        let rest = value.strip_prefix(br#"{"signature":""#)?;
        let (signature, rest) = quoted(rest)?;
        let (protected, rest) = quoted(rest.strip_prefix(br#","protectedHeader":""#)?)?;
        (rest == b"}").then_some(Self { signature: signature.into(), protected: protected.into() })
    }

    pub(crate) fn signature(&self) -> Result<Vec<u8>, SignatureError> {
        decode(&self.signature, "signature")
    }

    pub(crate) fn protected(&self) -> Result<Vec<u8>, SignatureError> {
        decode(&self.protected, "protectedHeader")
    }
}

fn decode(text: &[u8], member: &'static str) -> Result<Vec<u8>, SignatureError> {
    URL_SAFE_NO_PAD.decode(text).map_err(|_| SignatureError::NotBase64(member))
}

/// The content of the protected header. Names are case-sensitive.
#[derive(Debug)]
pub(crate) struct ProtectedHeader<'a> {
    pub(crate) alg: Cow<'a, str>,
    pub(crate) uri: Cow<'a, str>,
    pub(crate) method: Cow<'a, str>,
    pub(crate) source: Cow<'a, str>,
    /// `None` if absent or empty.
    pub(crate) destination: Option<Cow<'a, str>>,
    /// `None` if absent or empty.
    pub(crate) date: Option<Cow<'a, str>>,
    /// Further protected headers: `Content-Type` and those of the scheme.
    pub(crate) others: Vec<TextMember<'a>>,
}

impl<'a> ProtectedHeader<'a> {
    pub(crate) fn parse(json: &'a [u8]) -> Result<Self, SignatureError> {
        let mut members = match parse_usual(json) {
            Some(members) => members,
            None => {
                let members: Members<'_> =
                    serde_json::from_slice(json).map_err(|_| SignatureError::ProtectedMalformed)?;
                members.0
            }
        };
        check_names(&members)?;
        Ok(Self {
            alg: required(&mut members, ALG)?,
            uri: required(&mut members, URI)?,
            method: required(&mut members, HTTP_METHOD)?,
            source: required(&mut members, SOURCE)?,
            destination: optional(&mut members, DESTINATION)?,
            date: optional(&mut members, DATE)?,
            others: others(members)?,
        })
    }
}

/// The members of an object of plain texts without whitespace, which nearly all signers write;
/// `None` for any other.
fn parse_usual(json: &[u8]) -> Option<Vec<Member<'_>>> {
    let mut members = Vec::with_capacity(8);
    let mut rest = str::from_utf8(json).ok()?.strip_prefix("{\"")?;
    loop {
        let (name, after) = plain(rest)?;
        let (value, after) = plain(after.strip_prefix(":\"")?)?;
        if members.len() == MEMBERS_MAX {
            return None;
        }
        members.push((name.into(), Value::Plain(value)));
        match after {
            "}" => return Some(members),
            _ => rest = after.strip_prefix(",\"")?,
        }
    }
}

/// The text up to the closing quotation mark, and the rest; `None` if it has an escape. Decoding
/// checks whether it is base64.
fn quoted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr2(b'"', b'\\', bytes)?;
    (bytes[end] == b'"').then_some((&bytes[..end], &bytes[end + 1..]))
}

/// The same for any text; `None` if it contains anything but plain ASCII, which the JSON parser
/// must check.
fn plain(text: &str) -> Option<(&str, &str)> {
    let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
    let end = text.bytes().position(|byte| !is_plain(byte))?;
    let rest = text[end..].strip_prefix('"')?;
    Some((&text[..end], rest))
}

/// Refuses repeated names, and extensions that must be understood.
fn check_names(members: &[Member<'_>]) -> Result<(), SignatureError> {
    for (at, (name, _)) in members.iter().enumerate() {
        if members[..at].iter().any(|(earlier, _)| earlier == name) {
            return Err(SignatureError::Duplicate);
        }
        if name == "crit" {
            return Err(SignatureError::Critical);
        }
    }
    Ok(())
}

fn required<'a>(
    members: &mut Vec<Member<'a>>,
    name: &'static str,
) -> Result<Cow<'a, str>, SignatureError> {
    optional(members, name)?.ok_or(SignatureError::NotProtected(name))
}

fn optional<'a>(
    members: &mut Vec<Member<'a>>,
    name: &'static str,
) -> Result<Option<Cow<'a, str>>, SignatureError> {
    let Some(at) = members.iter().position(|(found, _)| found == name) else {
        return Ok(None);
    };
    let (_, value) = members.swap_remove(at);
    let text = text(value).ok_or(SignatureError::ProtectedMalformed)?;
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn others(members: Vec<Member<'_>>) -> Result<Vec<TextMember<'_>>, SignatureError> {
    let of_message = |name: &str| {
        let prefix = name.get(..7).unwrap_or_default();
        prefix.eq_ignore_ascii_case("fspiop-") || name.eq_ignore_ascii_case(CONTENT_TYPE)
    };
    let kept = members.into_iter().filter(|(name, _)| of_message(name));
    kept.map(|(name, value)| {
        text(value).map(|text| (name, text)).ok_or(SignatureError::ProtectedMalformed)
    })
    .collect()
}

fn text(value: Value<'_>) -> Option<Cow<'_, str>> {
    let value = match value {
        Value::Plain(text) => return Some(Cow::Borrowed(text)),
        Value::Written(value) => value,
    };
    let quoted = value.get().strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    if let Some(plain) = quoted.filter(|text| !text.contains('\\')) {
        return Some(Cow::Borrowed(plain));
    }
    serde_json::from_str::<Text<'_>>(value.get()).ok().map(|text| text.0)
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The members of a JSON object in order, including those with repeated names.
struct Members<'a>(Vec<Member<'a>>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::with_capacity(8);
        while let Some((Text(name), value)) = map.next_entry()? {
            let value = Value::Written(value);
            if members.len() == MEMBERS_MAX {
                return Err(A::Error::custom("too many members"));
            }
            members.push((name, value));
        }
        Ok(Members(members))
    }
}
