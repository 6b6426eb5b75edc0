//! Verifies the signature of a message from a participant.

use fspiop::{ErrorCode, Refusal};
use http::header::HeaderName;
use http::{HeaderMap, Method};
use ledger::FspName;

use crate::canonical::Canonical;
use crate::key::{Algorithm, VerificationKey};
use crate::key_ring::KeyRing;
use crate::protected_header::{
    DATE, DESTINATION, Envelope, HTTP_METHOD, ProtectedHeader, SIGNATURE, SOURCE, URI,
};
use crate::request_path;

/// Signers write this, or nothing, for a message without a body.
const NO_BODY: &[u8] = b"{}";

/// A message as received.
#[derive(Clone, Copy, Debug)]
pub struct Signed<'a> {
    /// Method of the request.
    pub method: &'a Method,
    /// Path and query of the request.
    pub path: &'a str,
    /// Its headers, before any rewriting.
    pub headers: &'a HeaderMap,
    /// The bytes of its body.
    pub body: &'a [u8],
}

/// The reasons why a signature is refused, in the order of the checks. All are answered with 3105.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// A header that signatures protect occurs twice.
    #[error("header {0} must not be repeated")]
    Repeated(&'static str),
    /// No `FSPIOP-Signature`, or an empty one.
    #[error("FSPIOP-Signature is required")]
    Absent,
    /// Longer than [`SIGNATURE_BYTES_MAX`](crate::SIGNATURE_BYTES_MAX).
    #[error("FSPIOP-Signature is longer than 8192 bytes")]
    TooLong,
    /// Not the JSON object required by the scheme.
    #[error("FSPIOP-Signature is not JSON with the texts signature and protectedHeader")]
    Malformed,
    /// One of its two members is not base64url, or carries padding.
    #[error("{0} of FSPIOP-Signature is not base64url without padding")]
    NotBase64(&'static str),
    /// The protected header is not a JSON object, has too many members, or one is not a text.
    #[error("the protected header is not a JSON object of texts")]
    ProtectedMalformed,
    /// Verifiers differ on which of two members counts.
    #[error("the protected header has a member twice")]
    Duplicate,
    /// The signer requires an extension.
    #[error("the protected header has crit, but no extension is supported")]
    Critical,
    /// A required member is missing.
    #[error("the protected header has no {0}")]
    NotProtected(&'static str),
    /// `none`, a symmetric algorithm, or one that the scheme does not use.
    #[error("alg is not RS256, RS384, RS512 or ES256")]
    Algorithm,
    /// A member of the protected header is not a header of the request.
    #[error("{0} is protected but missing in the request")]
    NotSent(&'static str),
    /// A header differs from the signed one.
    #[error("{0} does not match the protected header")]
    Mismatch(&'static str),
    /// The signature was made for another resource or another query.
    #[error("FSPIOP-URI does not match the path and query of the request")]
    OtherPath,
    /// The signature was made for another method.
    #[error("FSPIOP-HTTP-Method does not match the method of the request")]
    OtherMethod,
    /// The ring has no key of the source.
    #[error("no key is known for the FSPIOP-Source")]
    UnknownSource,
    /// The source has no key of the kind that `alg` needs.
    #[error("alg does not fit the key of the FSPIOP-Source")]
    OtherKey,
    /// No key of the source made this signature over this body.
    #[error("the signature does not match the message")]
    Wrong,
}

impl SignatureError {
    /// The synchronous response: 400, 3105, the standard text and the text of the error.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        Refusal::new(ErrorCode::INVALID_SIGNATURE, &self.to_string())
    }
}

/// The form of the body that a signature covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedForm {
    /// The received bytes.
    Received,
    /// Another form: to find it, the body was parsed and written again.
    Rewritten,
}

/// Verifies that the participant named in `FSPIOP-Source` has signed this message for this path
/// and method (hub-semantics 1.7).
///
/// The signature may cover the received bytes of the body, or its compact form with members in
/// their original order or sorted at every level, because signers and verifiers based on the
/// reference use these forms. A body with a repeated name is only verified as received. A message
/// without a body may be signed over nothing or over `{}`.
///
/// # Errors
/// The first failure in the order of [`SignatureError`].
pub fn verify(message: &Signed<'_>, keys: &KeyRing) -> Result<(), SignatureError> {
    verify_with(message, |source| keys.of(source)).map(drop)
}

/// [`verify`] with the keys that a function returns for the source. Returns the form that the
/// signature covers. All forms have been tried before [`SignatureError::Wrong`].
///
/// # Errors
/// Like [`verify`].
pub fn verify_with<K: AsRef<[VerificationKey]>>(
    message: &Signed<'_>,
    keys_of: impl FnOnce(&FspName) -> K,
) -> Result<SignedForm, SignatureError> {
    let headers = Headers::of(message.headers);
    let value = headers.signature.value(SIGNATURE)?;
    let envelope = Envelope::parse(value.ok_or(SignatureError::Absent)?)?;
    let signature = envelope.signature()?;
    let json = envelope.protected()?;
    let protected = ProtectedHeader::parse(&json)?;
    let algorithm = Algorithm::parse(&protected.alg).ok_or(SignatureError::Algorithm)?;
    check_headers(&protected, &headers, message.headers)?;
    check_request(&protected, message)?;

    let found = FspName::new(&protected.source).map(|source| keys_of(&source));
    let known = found.as_ref().map_or(&[][..], AsRef::as_ref);
    if known.is_empty() {
        return Err(SignatureError::UnknownSource);
    }
    if !known.iter().any(|key| key.fits(algorithm)) {
        return Err(SignatureError::OtherKey);
    }
    let covers = |body: &[u8]| is_signed(known, algorithm, &signature, &envelope.protected, body);
    match () {
        () if covers(message.body) => Ok(SignedForm::Received),
        () if covers_another_form(message.body, covers) => Ok(SignedForm::Rewritten),
        () => Err(SignatureError::Wrong),
    }
}

/// The headers that signatures protect, collected in one pass.
#[derive(Default)]
struct Headers<'a> {
    signature: SingleHeader<'a>,
    uri: SingleHeader<'a>,
    method: SingleHeader<'a>,
    source: SingleHeader<'a>,
    destination: SingleHeader<'a>,
    date: SingleHeader<'a>,
}

/// A header that may occur once.
#[derive(Clone, Copy, Default)]
struct SingleHeader<'a> {
    first: Option<&'a [u8]>,
    again: bool,
}

impl<'a> Headers<'a> {
    fn of(headers: &'a HeaderMap) -> Self {
        let mut found = Self::default();
        for (name, value) in headers {
            let place = match name.as_str() {
                "fspiop-signature" => &mut found.signature,
                "fspiop-uri" => &mut found.uri,
                "fspiop-http-method" => &mut found.method,
                "fspiop-source" => &mut found.source,
                "fspiop-destination" => &mut found.destination,
                "date" => &mut found.date,
                _ => continue,
            };
            match place.first {
                None => place.first = Some(value.as_bytes()),
                Some(_) => place.again = true,
            }
        }
        found
    }
}

impl<'a> SingleHeader<'a> {
    /// `None` if it is absent or empty.
    fn value(self, name: &'static str) -> Result<Option<&'a [u8]>, SignatureError> {
        match self.again {
            true => Err(SignatureError::Repeated(name)),
            false => Ok(self.first.filter(|value| !value.is_empty())),
        }
    }
}

/// Each member of the protected header must be a header of the request with the same value, and a
/// destination that is sent must be protected.
fn check_headers(
    protected: &ProtectedHeader<'_>,
    headers: &Headers<'_>,
    all: &HeaderMap,
) -> Result<(), SignatureError> {
    let required = [
        (URI, headers.uri, &protected.uri),
        (HTTP_METHOD, headers.method, &protected.method),
        (SOURCE, headers.source, &protected.source),
    ];
    for (name, sent, signed) in required {
        check_header(sent.value(name)?, name, signed)?;
    }
    let destination = headers.destination.value(DESTINATION)?;
    match &protected.destination {
        Some(signed) => check_header(destination, DESTINATION, signed)?,
        None if destination.is_some() => return Err(SignatureError::NotProtected(DESTINATION)),
        None => (),
    }
    if let Some(signed) = &protected.date {
        check_header(headers.date.value(DATE)?, DATE, signed)?;
    }
    for (name, signed) in &protected.others {
        // Names come from the sender; the error does not repeat them.
        let value = HeaderName::from_bytes(name.as_bytes()).ok().and_then(|name| all.get(name));
        check_header(value.map(|value| value.as_bytes()), "a further header", signed)?;
    }
    Ok(())
}

fn check_header(
    sent: Option<&[u8]>,
    name: &'static str,
    signed: &str,
) -> Result<(), SignatureError> {
    match sent {
        None => Err(SignatureError::NotSent(name)),
        Some(sent) if sent == signed.as_bytes() => Ok(()),
        Some(_) => Err(SignatureError::Mismatch(name)),
    }
}

/// A signature for another request must not be valid for this one.
fn check_request(
    protected: &ProtectedHeader<'_>,
    message: &Signed<'_>,
) -> Result<(), SignatureError> {
    if !request_path::matches(&protected.uri, message.path) {
        return Err(SignatureError::OtherPath);
    }
    if protected.method != message.method.as_str() {
        return Err(SignatureError::OtherMethod);
    }
    Ok(())
}

fn is_signed(
    keys: &[VerificationKey],
    algorithm: Algorithm,
    signature: &[u8],
    protected: &[u8],
    body: &[u8],
) -> bool {
    let digest = algorithm.digest(protected, body);
    keys.iter().any(|key| key.verifies(algorithm, &digest, signature))
}

/// Tries the canonical forms that differ from the received body.
fn covers_another_form(body: &[u8], covers: impl Fn(&[u8]) -> bool) -> bool {
    if body.is_empty() {
        return covers(NO_BODY);
    }
    let Some(canonical) = Canonical::parse(body) else {
        return false;
    };
    let compact = canonical.compact();
    if compact != body && covers(&compact) {
        return true;
    }
    let sorted = canonical.sorted();
    sorted != body && sorted != compact && covers(&sorted)
}
