//! Signs messages from the hub.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use fspiop::headers::{FSPIOP_DESTINATION, FSPIOP_HTTP_METHOD, FSPIOP_SOURCE, FSPIOP_URI};
use http::header::{DATE as DATE_HEADER, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::key::SigningKey;
use crate::protected_header::{ALG, DATE, DESTINATION, HTTP_METHOD, SOURCE, URI};

/// The reasons why a message could not be signed: an internal error, not a partner's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// A header that every signature protects is missing or empty.
    #[error("cannot sign a message without {0}")]
    Missing(&'static str),
    /// A header is not UTF-8, which JSON requires.
    #[error("cannot sign a message whose {0} is not UTF-8")]
    NotText(&'static str),
    /// The cryptographic library failed.
    #[error("the cryptographic library could not sign")]
    Library,
}

/// The value of `FSPIOP-Signature` for a message with these headers and this body, which must be
/// sent unchanged. `FSPIOP-URI`, `FSPIOP-HTTP-Method` and `FSPIOP-Source` are required;
/// `FSPIOP-Destination` and `Date` are protected if present (hub-semantics 1.7).
///
/// The body is signed as it is. Partners' verifiers parse it and write it again compactly, so it
/// must be compact JSON, preferably with sorted keys, as [`fspiop`] makes it.
///
/// # Errors
/// See [`SignError`].
pub fn sign(headers: &HeaderMap, body: &[u8], key: &SigningKey) -> Result<HeaderValue, SignError> {
    let protected = URL_SAFE_NO_PAD.encode(protected(headers, key)?);
    let digest = key.algorithm().digest(protected.as_bytes(), body);
    let signature = key.sign(&digest).ok_or(SignError::Library)?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    let value = format!(r#"{{"signature":"{signature}","protectedHeader":"{protected}"}}"#);
    Ok(HeaderValue::try_from(value).expect("base64 and punctuation are fit for a header"))
}

fn protected(headers: &HeaderMap, key: &SigningKey) -> Result<Vec<u8>, SignError> {
    let mut out = Vec::with_capacity(256);
    out.push(b'{');
    write_member(&mut out, ALG, key.algorithm().as_str());
    for (name, header) in
        [(URI, &FSPIOP_URI), (HTTP_METHOD, &FSPIOP_HTTP_METHOD), (SOURCE, &FSPIOP_SOURCE)]
    {
        let value = text(headers, header, name)?.ok_or(SignError::Missing(name))?;
        write_member(&mut out, name, value);
    }
    for (name, header) in [(DESTINATION, &FSPIOP_DESTINATION), (DATE, &DATE_HEADER)] {
        if let Some(value) = text(headers, header, name)? {
            write_member(&mut out, name, value);
        }
    }
    out.push(b'}');
    Ok(out)
}

fn text<'a>(
    headers: &'a HeaderMap,
    header: &HeaderName,
    name: &'static str,
) -> Result<Option<&'a str>, SignError> {
    match headers.get(header) {
        Some(value) if !value.is_empty() => {
            let text = std::str::from_utf8(value.as_bytes());
            text.map(Some).map_err(|_| SignError::NotText(name))
        }
        _ => Ok(None),
    }
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &str) {
    if 1 < out.len() {
        out.push(b',');
    }
    for (text, after) in [(name, b":".as_slice()), (value, b"")] {
        serde_json::to_writer(&mut *out, text).expect("writing a text to memory cannot fail");
        out.extend_from_slice(after);
    }
}
