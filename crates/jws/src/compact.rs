//! Signed statements: JWS in compact form (RFC 7515, section 7.1), as any JOSE library reads it.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::key::{Algorithm, SigningKey, VerificationKey};
use crate::sign::SignError;

/// Maximum length of a statement, in bytes.
pub const STATEMENT_BYTES_MAX: usize = 64 * 1024;

/// The reasons why a statement is refused, in the order of the checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementError {
    /// Longer than [`STATEMENT_BYTES_MAX`].
    #[error("the statement is longer than 65536 bytes")]
    TooLong,
    /// Not three parts of base64url, or a header that is not a JSON object with one `alg`.
    #[error("the statement is not a compact JWS")]
    Malformed,
    /// The signer requires an extension.
    #[error("the header has crit, but no extension is supported")]
    Critical,
    /// `none`, a symmetric algorithm, or an unknown one.
    #[error("alg is not RS256, RS384, RS512 or ES256")]
    Algorithm,
    /// The algorithm belongs to another kind of key.
    #[error("alg does not fit the key")]
    OtherKey,
    /// This key did not sign these bytes.
    #[error("the signature does not match the key")]
    Wrong,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    #[serde(default)]
    crit: Option<Value>,
}

/// Signs a payload. `kid` of the header is the key's fingerprint.
///
/// # Errors
/// [`SignError::Library`].
pub fn sign_statement(payload: &[u8], key: &SigningKey) -> Result<String, SignError> {
    let public = key.verification_key().map_err(|_| SignError::Library)?;
    let kid = public.fingerprint().to_string();
    let header = json!({ "alg": key.algorithm().as_str(), "kid": kid }).to_string();
    let header = URL_SAFE_NO_PAD.encode(header);
    let digest = key.algorithm().digest(header.as_bytes(), payload);
    let signature = key.sign(&digest).ok_or(SignError::Library)?;
    let [payload, signature] = [payload, &signature].map(|part| URL_SAFE_NO_PAD.encode(part));
    Ok(format!("{header}.{payload}.{signature}"))
}

/// Verifies a statement and returns its payload. White space at the end is ignored.
///
/// # Errors
/// The first failure in the order of [`StatementError`].
pub fn verify_statement(text: &str, key: &VerificationKey) -> Result<Vec<u8>, StatementError> {
    if STATEMENT_BYTES_MAX < text.len() {
        return Err(StatementError::TooLong);
    }
    let parts: Vec<_> = text.trim_ascii_end().split('.').collect();
    let &[header, payload, signature] = &*parts else { return Err(StatementError::Malformed) };
    let decode = |part| URL_SAFE_NO_PAD.decode(part).map_err(|_| StatementError::Malformed);
    let (payload, signature) = (decode(payload)?, decode(signature)?);
    let parsed: Header =
        serde_json::from_slice(&decode(header)?).map_err(|_| StatementError::Malformed)?;
    if parsed.crit.is_some() {
        return Err(StatementError::Critical);
    }
    let algorithm = Algorithm::parse(&parsed.alg).ok_or(StatementError::Algorithm)?;
    if !key.fits(algorithm) {
        return Err(StatementError::OtherKey);
    }
    let digest = algorithm.digest(header.as_bytes(), &payload);
    if key.verifies(algorithm, &digest, &signature) {
        Ok(payload)
    } else {
        Err(StatementError::Wrong)
    }
}

#[cfg(all(test, feature = "signatures"))]
#[expect(clippy::unwrap_used, reason = "a test that cannot continue fails at that line")]
mod tests {
    use super::*;

    const VECTORS: &str = include_str!("../tests/vectors/vectors.json");

    fn key(name: &str) -> SigningKey {
        let vectors: Value = serde_json::from_str(VECTORS).unwrap();
        let pem = vectors["keys"][name]["private"].as_str().unwrap();
        SigningKey::from_pem(pem.as_bytes()).unwrap()
    }

    fn check(text: &str, key: &SigningKey, expected: StatementError) {
        let public = key.verification_key().unwrap();
        assert_eq!(verify_statement(text, &public), Err(expected), "{text}");
    }

    /// The statement with its header replaced.
    fn with_header(text: &str, header: &str) -> String {
        let (_, rest) = text.split_once('.').unwrap();
        format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header))
    }

    #[test]
    fn a_statement_is_verified_with_the_key_that_signed_it() {
        for name in ["rsa", "ec"] {
            let key = key(name);
            let text = sign_statement(b"{\"a\":1}", &key).unwrap();
            let public = key.verification_key().unwrap();
            assert_eq!(verify_statement(&format!("{text}\n"), &public).unwrap(), b"{\"a\":1}");
        }
    }

    #[test]
    fn a_generated_key_signs() {
        for algorithm in [Algorithm::Rs256, Algorithm::Es256] {
            let key = SigningKey::generate(algorithm).unwrap();
            let key = SigningKey::from_pem(key.as_bytes()).unwrap();
            let text = sign_statement(b"{}", &key).unwrap();
            let public = key.verification_key().unwrap();
            let public = VerificationKey::from_pem(public.to_pem().as_bytes()).unwrap();
            assert_eq!(verify_statement(&text, &public).unwrap(), b"{}");
            assert_eq!(key.algorithm(), algorithm);
        }
    }

    #[test]
    fn a_changed_or_foreign_statement_is_refused() {
        use StatementError::{Critical, Malformed, OtherKey, TooLong, Wrong};
        let (rsa, ec) = (key("rsa"), key("ec"));
        let text = sign_statement(b"{}", &rsa).unwrap();
        check(&text, &ec, OtherKey);
        let [header, payload, signature] = text.split('.').collect::<Vec<_>>()[..] else {
            panic!()
        };
        let other = URL_SAFE_NO_PAD.encode("[]");
        check(&format!("{header}.{other}.{signature}"), &rsa, Wrong);
        check(&format!("{header}.{payload}"), &rsa, Malformed);
        check(&format!("{header}.{payload}=.{signature}"), &rsa, Malformed);
        check(&with_header(&text, r#"{"alg":"none"}"#), &rsa, StatementError::Algorithm);
        check(&with_header(&text, r#"{"alg":"HS256"}"#), &rsa, StatementError::Algorithm);
        check(&with_header(&text, r#"{"alg":"RS256","alg":"ES256"}"#), &rsa, Malformed);
        check(&with_header(&text, r#"{"alg":"RS256","crit":["b64"]}"#), &rsa, Critical);
        check(&with_header(&text, r#"{"alg":"RS256"}"#), &rsa, Wrong);
        check(&"a".repeat(STATEMENT_BYTES_MAX + 1), &rsa, TooLong);
    }
}
