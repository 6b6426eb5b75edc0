//! Nothing a partner sends makes verification panic, and nothing made up verifies.

use std::sync::LazyLock;

use http::{HeaderMap, HeaderValue, Method};
use jws::{KeyRing, SignatureError, Signed, VerificationKey, verify};
use ledger::FspName;
use proptest::prelude::*;

static VECTORS: LazyLock<serde_json::Value> =
    LazyLock::new(|| serde_json::from_str(include_str!("vectors/vectors.json")).expect("JSON"));

static RING: LazyLock<KeyRing> = LazyLock::new(|| {
    let keys = ["rsa", "ec"].map(|key| {
        let text = VECTORS["keys"][key]["public"].as_str().expect("a text");
        let name = FspName::new("payer").expect("a name");
        (name, VerificationKey::from_pem(text.as_bytes()).expect("a key"))
    });
    KeyRing::new(keys).expect("two keys")
});

fn outcome(signature: &[u8], path: &str, body: &[u8]) -> Result<(), SignatureError> {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("fspiop-uri", "/transfers"),
        ("fspiop-http-method", "POST"),
        ("fspiop-source", "payer"),
        ("fspiop-destination", "payee"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if let Ok(value) = HeaderValue::from_bytes(signature) {
        headers.insert("fspiop-signature", value);
    }
    verify(&Signed { method: &Method::POST, path, headers: &headers, body }, &RING)
}

fn envelope(protected: &[u8], signature: &[u8]) -> String {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    let (signature, protected) =
        (URL_SAFE_NO_PAD.encode(signature), URL_SAFE_NO_PAD.encode(protected));
    format!(r#"{{"signature":"{signature}","protectedHeader":"{protected}"}}"#)
}

proptest! {
    #[test]
    fn any_header_is_refused(
        signature in prop::collection::vec(any::<u8>(), 0..200),
        path in ".{0,40}",
        body in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        prop_assert!(outcome(&signature, &path, &body).is_err());
    }

    #[test]
    fn any_protected_header_is_refused(
        protected in prop::collection::vec(any::<u8>(), 0..200),
        signature in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let value = envelope(&protected, &signature);
        let found = outcome(value.as_bytes(), "/transfers", b"{}");
        prop_assert!(found.is_err());
    }

    #[test]
    fn any_json_is_refused(
        text in prop::collection::vec(
            prop::sample::select(vec![
                "{", "}", "[", "]", ",", ":", "\"alg\"", "\"RS256\"", "\"FSPIOP-URI\"", "null",
                "\"/transfers\"", "1", "\"crit\"", "\"\\u0061lg\"", "\"fspiop-x\"", "\"\\ud800\"",
            ]),
            0..24,
        ),
    ) {
        let value = envelope(text.concat().as_bytes(), &[0; 256]);
        let found = outcome(value.as_bytes(), "/transfers", b"{}");
        prop_assert!(found.is_err());
    }

    #[test]
    fn any_signature_and_body_under_a_good_header_are_wrong(
        alg in prop::sample::select(vec!["RS256", "RS384", "RS512", "ES256"]),
        signature in prop::collection::vec(any::<u8>(), 0..300),
        body in prop::collection::vec(
            prop::sample::select(b"{}[]\",:ab\\u0e19-. ".as_slice()), 0..40),
    ) {
        let protected = format!(
            r#"{{"alg":"{alg}","FSPIOP-URI":"/transfers","FSPIOP-HTTP-Method":"POST","FSPIOP-Source":"payer","FSPIOP-Destination":"payee"}}"#
        );
        let value = envelope(protected.as_bytes(), &signature);
        let found = outcome(value.as_bytes(), "/transfers", &body);
        prop_assert_eq!(found, Err(SignatureError::Wrong));
    }
}
