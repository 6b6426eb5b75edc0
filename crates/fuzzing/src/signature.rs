//! Signatures (JWS): random signatures fail, real ones verify, and the canonical forms of a body
//! equal those that JavaScript produces.

use std::sync::LazyLock;

use blake3::Hash;
use fspiop::headers::FSPIOP_SIGNATURE;
use http::{HeaderMap, HeaderValue, Method};
use jws::{KeyRing, SignatureError, Signed, SigningKey, sign, verify};
use ledger::FspName;

use crate::json::{Document, Node, Value};

/// Longest body that is signed: most of the time goes into the keys.
const BYTES_MAX: usize = 16 * 1024;
/// Values that a body of any length may have in another form than as sent.
const VALUES_MAX: usize = 1_000;
const PATH: &str = "/transfers";

static VECTORS: LazyLock<serde_json::Value> = LazyLock::new(|| {
    let text = include_str!("../../jws/tests/vectors/vectors.json");
    serde_json::from_str(text).expect("the vectors are JSON")
});

static KEY: LazyLock<SigningKey> = LazyLock::new(|| {
    let text = VECTORS["keys"]["ec"]["private"].as_str().expect("a text");
    SigningKey::from_pem(text.as_bytes()).expect("a key")
});

static RING: LazyLock<KeyRing> = LazyLock::new(|| {
    let key = KEY.verification_key().expect("a key has its public part");
    KeyRing::new([(FspName::new("payer").expect("a name"), key)]).expect("one key")
});

/// A header `FSPIOP-Signature`, as it is and put together from three lines of the input:
/// protected header, signature, body. The first line may also name headers to be sent.
pub fn signature(data: &[u8]) {
    if BYTES_MAX < data.len() {
        return;
    }
    refused(data, data);
    let mut lines = data.splitn(3, |byte| *byte == b'\n');
    let protected = lines.next().unwrap_or_default();
    let made_up = lines.next().unwrap_or_default();
    let body = lines.next().unwrap_or_default();
    let encode = |bytes: &[u8]| crate::bodies::encode_base64url(bytes);
    let envelope = |protected: &[u8], made_up: &[u8]| {
        let (protected, made_up) = (encode(protected), encode(made_up));
        format!(r#"{{"signature":"{made_up}","protectedHeader":"{protected}"}}"#)
    };
    refused(envelope(protected, made_up).as_bytes(), body);
    // The shape that is nearest to a sound one: all that is wrong is the signature itself.
    let sound = concat!(
        r#"{"alg":"ES256","FSPIOP-URI":"/transfers","FSPIOP-HTTP-Method":"POST","#,
        r#""FSPIOP-Source":"payer"}"#,
    );
    refused(envelope(sound.as_bytes(), &mixed(made_up)).as_bytes(), body);
    let mut headers = headers();
    if let Ok(value) = HeaderValue::from_bytes(protected) {
        headers.insert("date", value);
    }
    if let Ok(value) = sign(&headers, body, &KEY) {
        headers.insert(&FSPIOP_SIGNATURE, value);
        assert_eq!(verified(&headers, body), Ok(()), "a signed message verifies");
        let other = [body, b"x"].concat();
        assert!(verified(&headers, &other).is_err(), "another body does not");
    }
}

/// A body: signed in the form of JavaScript, sent as it came. One of many tiny values has no other
/// form.
pub fn canonical(data: &[u8]) {
    let values = data.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    if BYTES_MAX < data.len() || VALUES_MAX < values {
        return;
    }
    let Ok(document) = Document::read(data) else { return };
    let root = &document.root;
    let is_odd = root.repeats() || root.any(&|node| is_odd(node, data)) || root.has_broken_text();
    if is_odd {
        return;
    }
    for order in [Order::AsItCame, Order::Sorted] {
        let mut form = Vec::new();
        write(root, data, order, &mut form);
        let mut headers = headers();
        let value = sign(&headers, &form, &KEY).expect("the headers are there");
        headers.insert(&FSPIOP_SIGNATURE, value);
        assert_eq!(verified(&headers, data), Ok(()), "{order:?}: a verifier brings it to {form:?}");
        let text = document.tokens.iter().rev().find(|token| data[token.start] == b'"');
        if let Some(token) = text {
            let mut changed = data.to_vec();
            changed.insert(token.start + 1, b' ');
            assert!(verified(&headers, &changed).is_err(), "another text is another body");
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    AsItCame,
    Sorted,
}

/// The output of `JSON.stringify` for the result of `JSON.parse`.
fn write(node: &Node, data: &[u8], order: Order, out: &mut Vec<u8>) {
    match &node.value {
        Value::Scalar(_) => {
            out.extend_from_slice(&data[node.span.clone()]);
        }
        Value::Text(text) => write_text(&text.text, out),
        Value::List(items) => {
            out.push(b'[');
            for (at, item) in items.iter().enumerate() {
                separate(at, out);
                write(item, data, order, out);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            if order == Order::Sorted {
                members.sort_by_key(|(name, _)| &name.text);
            }
            out.push(b'{');
            for (at, (name, member)) in members.into_iter().enumerate() {
                separate(at, out);
                write_text(&name.text, out);
                out.push(b':');
                write(member, data, order, out);
            }
            out.push(b'}');
        }
    }
}

fn separate(at: usize, out: &mut Vec<u8>) {
    if 0 < at {
        out.push(b',');
    }
}

fn write_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for character in text.chars() {
        let escaped = match character {
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            '\n' => "\\n".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            '\0'..' ' => format!("\\u{:04x}", u32::from(character)),
            _ => character.to_string(),
        };
        out.extend_from_slice(escaped.as_bytes());
    }
    out.push(b'"');
}

/// Values that languages write in different ways: numbers other than short integers, names that are
/// numbers, names that sort differently in UTF-16.
fn is_odd(node: &Node, data: &[u8]) -> bool {
    let token = &data[node.span.clone()];
    match &node.value {
        Value::Scalar(_) if token[0].is_ascii_lowercase() => false,
        Value::Scalar(_) => 15 < token.len() || !token.iter().all(u8::is_ascii_digit),
        Value::Object(members) => members.iter().any(|(name, _)| {
            name.text.bytes().all(|byte| byte.is_ascii_digit())
                || name.text.chars().any(|character| '\u{d7ff}' < character)
        }),
        _ => false,
    }
}

/// 64 bytes, as long as a signature is.
fn mixed(bytes: &[u8]) -> Vec<u8> {
    let hash: Hash = blake3::hash(bytes);
    [hash.as_bytes().as_slice(), hash.as_bytes()].concat()
}

fn refused(value: &[u8], body: &[u8]) {
    let mut headers = headers();
    if let Ok(value) = HeaderValue::from_bytes(value) {
        headers.insert(&FSPIOP_SIGNATURE, value);
    }
    let error = verified(&headers, body).expect_err("a random signature fails");
    crate::refusal::check(&error.refusal());
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in
        [("fspiop-uri", PATH), ("fspiop-http-method", "POST"), ("fspiop-source", "payer")]
    {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

fn verified(headers: &HeaderMap, body: &[u8]) -> Result<(), SignatureError> {
    verify(&Signed { method: &Method::POST, path: PATH, headers, body }, &RING)
}
