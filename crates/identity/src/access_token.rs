//! OAuth 2.0 access tokens: signed JWTs (RFC 9068) of an issuer whose keys are known.
//!
//! Order of the checks: size and form, header, key, signature, issuer, audience, times. Nothing of
//! a token is used before its signature is verified, except the names of its algorithm and key. The
//! key decides which algorithms are possible. Keys and addresses of keys in a token's header are
//! ignored.
//!
//! Costs: about 20 us for RSA with 2,048 bits. Bounds: [`TOKEN_BYTES_MAX`].

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use crate::key_set::{KeySet, NoKey};
use crate::token_key::TokenAlgorithm;

/// Maximum length of a token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;
/// Tolerated difference between the clocks of the issuer and the hub, in seconds.
pub const CLOCK_LEEWAY_SECONDS: u64 = 30;
/// Types of tokens that are accepted, in lower case. Others have another purpose, such as a logout.
const TYPES: [&str; 3] = ["jwt", "at+jwt", "application/at+jwt"];

/// The issuer and the audience that a token must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRules {
    /// Value of `iss`, compared byte by byte.
    pub issuer: String,
    /// Value of `aud`, or one of its values.
    pub audience: String,
}

/// The reasons why a token is refused, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenFault {
    /// Longer than [`TOKEN_BYTES_MAX`].
    #[error("the token is longer than 8192 bytes")]
    TooLong,
    /// Not three parts in base64url, with a JSON object in the first.
    #[error("the token is not a signed JWT in compact form")]
    Malformed,
    /// `alg` is missing, `none`, with a shared secret, or unknown.
    #[error("the token's algorithm is not RS256, PS256, ES256 or EdDSA")]
    Algorithm,
    /// The token has another purpose.
    #[error("the token's type is not that of an access token")]
    Type,
    /// The header has `crit`.
    #[error("the token's header has critical extensions, which are not supported")]
    Critical,
    /// The issuer has no such key.
    #[error("the token's key is not a key of the issuer")]
    UnknownKey,
    /// The key is of another kind, or restricted to another algorithm.
    #[error("the token's algorithm is not that of its key")]
    KeyMismatch,
    /// The signature is wrong.
    #[error("the token's signature is invalid")]
    Signature,
    /// The signed part is not a JSON object, or a claim has the wrong type.
    #[error("the token's claims are invalid")]
    Claims,
    /// Another or no `iss`.
    #[error("the token is from another issuer")]
    Issuer,
    /// Another or no `aud`.
    #[error("the token is for another audience")]
    Audience,
    /// No `exp`.
    #[error("the token has no expiry")]
    NoExpiry,
    /// `exp` has passed.
    #[error("the token has expired")]
    Expired,
    /// `nbf` is in the future.
    #[error("the token is not valid yet")]
    NotYetValid,
}

/// The claims of a verified token.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    claims: Map<String, Value>,
    expires: u64,
}

impl KeySet {
    /// Verifies a token at a time, in seconds since 1970.
    ///
    /// # Errors
    /// The first [`TokenFault`].
    pub fn verify(&self, token: &[u8], rules: &TokenRules, now: u64) -> Result<Claims, TokenFault> {
        if TOKEN_BYTES_MAX < token.len() {
            return Err(TokenFault::TooLong);
        }
        let parts: Vec<_> = token.split(|byte| *byte == b'.').take(4).collect();
        let [header, payload, signature] = parts[..] else { return Err(TokenFault::Malformed) };
        let header = object(header).ok_or(TokenFault::Malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenFault::Malformed)?;
        let (name, algorithm) = check_header(&header)?;
        let id = header.get("kid").and_then(Value::as_str);
        let key = self.find(id, (name, algorithm)).map_err(|error| match error {
            NoKey::Unknown => TokenFault::UnknownKey,
            NoKey::Unfit => TokenFault::KeyMismatch,
        })?;
        let signed = &token[..token.len() - parts[2].len() - 1];
        if !key.verifies(algorithm, signed, &signature) {
            return Err(TokenFault::Signature);
        }
        let claims = object(payload).ok_or(TokenFault::Claims)?;
        check_claims(&claims, rules, now).map(|expires| Claims { claims, expires })
    }
}

impl Claims {
    /// The end of the token's validity with the tolerance for clocks, in seconds since 1970.
    #[must_use]
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// A claim that is a text. A name with dots that is not a claim itself is a path through
    /// objects, such as `realm_access.name`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.find(name).and_then(Value::as_str)
    }

    /// A claim that is a text or an array of texts.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.find(name) {
            Some(Value::String(text)) => vec![text],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the token grants a scope: `scope` has scopes with spaces between them, `scp` the
    /// same or an array.
    #[must_use]
    pub fn has_scope(&self, scope: &str) -> bool {
        let all = self.texts("scope").into_iter().chain(self.texts("scp"));
        all.flat_map(|scopes| scopes.split(' ')).any(|granted| granted == scope)
    }

    fn find(&self, name: &str) -> Option<&Value> {
        let whole = self.claims.get(name);
        whole.or_else(|| {
            let mut steps = name.split('.');
            let first = self.claims.get(steps.next()?)?;
            steps.try_fold(first, |value, step| value.get(step))
        })
    }
}

fn object(part: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

fn check_header(header: &Map<String, Value>) -> Result<(&str, TokenAlgorithm), TokenFault> {
    let name = header.get("alg").and_then(Value::as_str).ok_or(TokenFault::Algorithm)?;
    let algorithm = TokenAlgorithm::parse(name).ok_or(TokenFault::Algorithm)?;
    let is_known = |kind: &Value| {
        kind.as_str().is_some_and(|kind| TYPES.contains(&&*kind.to_ascii_lowercase()))
    };
    if !header.get("typ").is_none_or(is_known) {
        return Err(TokenFault::Type);
    }
    match header.contains_key("crit") {
        true => Err(TokenFault::Critical),
        false => Ok((name, algorithm)),
    }
}

/// The end of the validity, with the tolerance.
fn check_claims(
    claims: &Map<String, Value>,
    rules: &TokenRules,
    now: u64,
) -> Result<u64, TokenFault> {
    if claims.get("iss").and_then(Value::as_str) != Some(&rules.issuer) {
        return Err(TokenFault::Issuer);
    }
    let is_for_us = match claims.get("aud") {
        Some(Value::Array(all)) => all.iter().any(|one| *one == *rules.audience),
        Some(one) => *one == *rules.audience,
        None => false,
    };
    if !is_for_us {
        return Err(TokenFault::Audience);
    }
    let expires = time(claims, "exp")?.ok_or(TokenFault::NoExpiry)?;
    let expires = expires.saturating_add(CLOCK_LEEWAY_SECONDS);
    if expires <= now {
        return Err(TokenFault::Expired);
    }
    match time(claims, "nbf")? {
        Some(begin) if now + CLOCK_LEEWAY_SECONDS < begin => Err(TokenFault::NotYetValid),
        _ => Ok(expires),
    }
}

/// A time in seconds since 1970, which may have a fraction.
fn time(claims: &Map<String, Value>, name: &str) -> Result<Option<u64>, TokenFault> {
    let Some(value) = claims.get(name) else { return Ok(None) };
    let whole = value.as_u64().or_else(|| value.as_f64().map(|seconds| seconds as u64));
    whole.map(Some).ok_or(TokenFault::Claims)
}
