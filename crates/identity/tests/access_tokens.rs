//! Access tokens, good and bad, and the keys of their issuer.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails at that line")]

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use identity::{
    IssuerKeys, KeySet, KeySetError, KeySource, ProviderClient, TOKEN_BYTES_MAX, TokenFault,
    TokenRules,
};
use serde_json::{Value, json};
use sha2::Sha256;
use testkit::issuer::{Issuer, IssuerKey, signed_text};
use tokio::runtime::Builder;

const NOW: u64 = 1_800_000_000;

fn rules() -> TokenRules {
    TokenRules { issuer: "https://idp.example".into(), audience: "hub".into() }
}

fn claims() -> Value {
    json!({"iss": "https://idp.example", "aud": "hub", "client_id": "bank-a", "exp": NOW + 60})
}

fn set(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
}

/// From RFC 7515, appendices A.2 and A.3, and RFC 8037, appendix A.4: the signatures of others are
/// accepted, so that the next check, of the claims, fails.
#[test]
fn published_signatures_are_valid() {
    let rsa = json!({"kty": "RSA", "e": "AQAB", "n": "\
        ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0B\
        m4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5\
        z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7\
        aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ"});
    let rsa_token = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6\
        Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJ\
        bu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--\
        f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC\
        -eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrB\
        p0igcN_IoypGlUPQGe77Rw";
    let p256 = json!({"kty": "EC", "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"});
    let p256_token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA\
        6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjD\
        xw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q";
    for (key, token) in [(rsa, rsa_token), (p256, p256_token)] {
        let verified = set(std::slice::from_ref(&key)).verify(token.as_bytes(), &rules(), NOW);
        assert_eq!(verified, Err(TokenFault::Issuer), "{key}");
        let issuer = TokenRules { issuer: "joe".into(), audience: "hub".into() };
        let verified = set(&[key]).verify(token.as_bytes(), &issuer, NOW);
        assert_eq!(verified, Err(TokenFault::Audience));
    }
    let ed25519 = json!({"kty": "OKP", "crv": "Ed25519",
        "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"});
    let token = "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc.hgyY0il_MGCjP0JzlnLWG1PP\
        Ot7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg";
    let verified = set(&[ed25519]).verify(token.as_bytes(), &rules(), NOW);
    assert_eq!(verified, Err(TokenFault::Claims));
}

#[test]
fn token_is_valid_for_its_issuer_audience_and_time_only() {
    let key = IssuerKey::p256("one");
    let keys = set(&[key.jwk()]);
    let check = |name: &str, value: Value, expected: Option<TokenFault>| {
        let mut claims = claims();
        match value.is_null() {
            true => drop(claims.as_object_mut().unwrap().remove(name)),
            false => claims[name] = value.clone(),
        }
        let verified = keys.verify(key.token(&claims).as_bytes(), &rules(), NOW);
        assert_eq!(verified.err(), expected, "{name} {value}");
    };
    check("exp", json!(NOW + 1), None);
    check("exp", json!(NOW - 29), None);
    check("exp", json!(NOW - 30), Some(TokenFault::Expired));
    check("exp", json!(-1), Some(TokenFault::Expired));
    check("exp", json!(1_800_000_060.5), None);
    check("exp", json!(u64::MAX), None);
    check("exp", json!("1800000060"), Some(TokenFault::Claims));
    check("exp", Value::Null, Some(TokenFault::NoExpiry));
    check("nbf", json!(NOW + 30), None);
    check("nbf", json!(NOW + 31), Some(TokenFault::NotYetValid));
    check("nbf", json!(u64::MAX), Some(TokenFault::NotYetValid));
    check("nbf", json!([]), Some(TokenFault::Claims));
    check("iss", json!("https://idp.example/"), Some(TokenFault::Issuer));
    check("iss", json!(["https://idp.example"]), Some(TokenFault::Issuer));
    check("iss", Value::Null, Some(TokenFault::Issuer));
    check("aud", json!(["other", "hub"]), None);
    check("aud", json!(["other"]), Some(TokenFault::Audience));
    check("aud", json!("hub2"), Some(TokenFault::Audience));
    check("aud", json!([["hub"]]), Some(TokenFault::Audience));
    check("aud", Value::Null, Some(TokenFault::Audience));
}

#[test]
fn key_decides_the_algorithm() {
    let (rsa, p256) = (IssuerKey::rsa("rsa"), IssuerKey::p256("p256"));
    let ed25519 = IssuerKey::ed25519("ed25519");
    let mut only_pss = rsa.jwk();
    only_pss["kid"] = "pss".into();
    only_pss["alg"] = "PS256".into();
    let keys = set(&[rsa.jwk(), p256.jwk(), ed25519.jwk(), only_pss]);
    let verify = |token: &str| keys.verify(token.as_bytes(), &rules(), NOW).err();
    for key in [&rsa, &p256, &ed25519] {
        assert_eq!(verify(&key.token(&claims())), None);
    }
    let check = |key: &IssuerKey, header: Value, expected: Option<TokenFault>| {
        assert_eq!(verify(&key.signed(&header, &claims())), expected, "{header}");
    };
    check(&rsa, json!({"alg": "PS256", "kid": "rsa"}), None);
    check(&rsa, json!({"alg": "PS256", "kid": "pss"}), None);
    check(&rsa, json!({"alg": "RS256", "kid": "pss"}), Some(TokenFault::KeyMismatch));
    check(&rsa, json!({"alg": "ES256", "kid": "rsa"}), Some(TokenFault::KeyMismatch));
    check(&rsa, json!({"alg": "RS256", "kid": "p256"}), Some(TokenFault::KeyMismatch));
    check(&p256, json!({"alg": "EdDSA", "kid": "p256"}), Some(TokenFault::KeyMismatch));
    check(&p256, json!({"alg": "ES256", "kid": "other"}), Some(TokenFault::UnknownKey));
    // Without a name, the only key that fits is meant.
    check(&p256, json!({"alg": "ES256"}), None);
    check(&rsa, json!({"alg": "PS256"}), Some(TokenFault::UnknownKey));
    let other = IssuerKey::p256("p256");
    check(&other, json!({"alg": "ES256", "kid": "p256"}), Some(TokenFault::Signature));
    for algorithm in ["none", "None", "HS256", "RS512", "ES384", "rs256", ""] {
        check(&rsa, json!({"alg": algorithm, "kid": "rsa"}), Some(TokenFault::Algorithm));
    }
    check(&rsa, json!({"kid": "rsa"}), Some(TokenFault::Algorithm));
    check(&rsa, json!({"alg": ["RS256"], "kid": "rsa"}), Some(TokenFault::Algorithm));
}

#[test]
fn forged_tokens_are_refused() {
    let (key, attacker) = (IssuerKey::rsa("one"), IssuerKey::rsa("one"));
    let keys = set(&[key.jwk()]);
    let verify = |token: &str| keys.verify(token.as_bytes(), &rules(), NOW).err();
    let good = key.token(&claims());
    assert_eq!(verify(&good), None);
    // Without a signature.
    let none = format!("{}.", signed_text(&json!({"alg": "none"}), &claims()));
    assert_eq!(verify(&none), Some(TokenFault::Algorithm));
    // With the public key as a shared secret.
    let text = signed_text(&json!({"alg": "HS256", "kid": "one"}), &claims());
    let mut mac = Hmac::<Sha256>::new_from_slice(key.jwk().to_string().as_bytes()).unwrap();
    mac.update(text.as_bytes());
    let mac = URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes());
    assert_eq!(verify(&format!("{text}.{mac}")), Some(TokenFault::Algorithm));
    // With keys or addresses of keys in the token.
    for (name, value) in
        [("jwk", attacker.jwk()), ("jku", json!("https://evil.example")), ("x5u", json!("x"))]
    {
        let header = json!({"alg": "RS256", "kid": "one", name: value});
        let forged = attacker.signed(&header, &claims());
        assert_eq!(verify(&forged), Some(TokenFault::Signature), "{name}");
    }
    // With another claim.
    let parts: Vec<_> = good.split('.').collect();
    let mut other = claims();
    other["client_id"] = "bank-b".into();
    let other = URL_SAFE_NO_PAD.encode(other.to_string());
    let tampered = format!("{}.{other}.{}", parts[0], parts[2]);
    assert_eq!(verify(&tampered), Some(TokenFault::Signature));
    // With another purpose, or with extensions.
    let with = |name: &str, value: Value| {
        let mut header = json!({"alg": "RS256", "kid": "one"});
        header[name] = value;
        verify(&key.signed(&header, &claims()))
    };
    assert_eq!(with("typ", json!("JWT")), None);
    assert_eq!(with("typ", json!("logout+jwt")), Some(TokenFault::Type));
    assert_eq!(with("typ", json!(1)), Some(TokenFault::Type));
    assert_eq!(with("crit", json!(["exp"])), Some(TokenFault::Critical));
}

#[test]
fn damaged_tokens_are_refused() {
    let key = IssuerKey::ed25519("one");
    let keys = set(&[key.jwk()]);
    let verify = |token: &[u8]| keys.verify(token, &rules(), NOW).err();
    let good = key.token(&claims());
    for length in 0..good.len() {
        assert!(verify(&good.as_bytes()[..length]).is_some(), "{length}");
    }
    for at in 0..good.len() {
        let mut bytes = good.clone().into_bytes();
        bytes[at] ^= 1;
        assert!(verify(&bytes).is_some(), "{at}");
    }
    for token in ["", ".", "..", "a.b.c", &format!("{good}.x"), &format!(" {good}"), "e30.e30.e30"]
    {
        assert!(verify(token.as_bytes()).is_some(), "{token}");
    }
    let mut long = claims();
    long["padding"] = "x".repeat(TOKEN_BYTES_MAX).into();
    assert_eq!(verify(key.token(&long).as_bytes()), Some(TokenFault::TooLong));
    let nested = "[".repeat(2_000);
    let text = format!("{}.{}", good.split('.').next().unwrap(), URL_SAFE_NO_PAD.encode(nested));
    assert_eq!(verify(format!("{text}.AAAA").as_bytes()), Some(TokenFault::Signature));
}

#[test]
fn claims_have_texts_lists_paths_and_scopes() {
    let key = IssuerKey::p256("one");
    let mut given = claims();
    given["scope"] = "fspiop:send fspiop:read".into();
    given["scp"] = json!(["other", 7]);
    given["realm_access"] = json!({"roles": ["operator", "viewer"]});
    given["a.b"] = "whole".into();
    given["a"] = json!({"b": "path"});
    let keys = set(&[key.jwk()]);
    let read = keys.verify(key.token(&given).as_bytes(), &rules(), NOW).unwrap();
    assert_eq!(read.text("client_id"), Some("bank-a"));
    assert_eq!(read.text("exp"), None);
    assert_eq!(read.text("a.b"), Some("whole"));
    assert_eq!(read.texts("realm_access.roles"), ["operator", "viewer"]);
    assert_eq!(read.texts("realm_access.none"), [""; 0]);
    assert!(read.has_scope("fspiop:send") && read.has_scope("other"));
    assert!(!read.has_scope("fspiop") && !read.has_scope(""));
    assert_eq!(read.expires(), NOW + 90);
}

#[test]
fn key_sets_are_bounded_and_unusable_keys_are_skipped() {
    let key = IssuerKey::p256("one");
    let parse = |text: &str| KeySet::parse(text.as_bytes()).err();
    let of = |keys: &[Value]| parse(&json!({ "keys": keys }).to_string());
    let with = |name: &str, value: Value| {
        let mut jwk = key.jwk();
        jwk[name] = value;
        jwk
    };
    assert_eq!(of(&[key.jwk()]), None);
    assert_eq!(of(&[json!({"kty": "oct", "k": "AAAA"}), key.jwk(), json!(7)]), None);
    let unusable = [
        with("use", json!("enc")),
        with("key_ops", json!(["encrypt"])),
        with("d", json!("AAAA")),
        with("crv", json!("P-384")),
        with("x", json!("AAAA")),
        with("y", key.jwk()["x"].clone()),
        json!({"kty": "RSA", "e": "AQAB", "n": URL_SAFE_NO_PAD.encode([255; 128])}),
        json!({"kty": "oct", "k": "AAAA"}),
    ];
    for jwk in unusable {
        assert_eq!(of(std::slice::from_ref(&jwk)), Some(KeySetError::Empty), "{jwk}");
    }
    assert_eq!(of(&vec![key.jwk(); 65]), Some(KeySetError::TooMany));
    for text in ["", "[]", "{}", "{\"keys\": {}}", "null"] {
        assert_eq!(parse(text), Some(KeySetError::Malformed), "{text}");
    }
    assert_eq!(parse(&" ".repeat(262_145)), Some(KeySetError::TooLong));
}

#[test]
fn keys_are_read_again_and_stay_while_the_issuer_is_down() {
    let (first, second) = (IssuerKey::p256("first"), IssuerKey::p256("second"));
    let issuer = Issuer::start(&[&first]).unwrap();
    let client = ProviderClient::new("test", None).unwrap();
    let source = KeySource::Discovery(issuer.url());
    let (mut keys, _thread) = IssuerKeys::start(source, client).unwrap();
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    if let Some(refresh) = keys.refresh() {
        runtime.block_on(refresh.wait());
    }
    let (set, generation) = keys.latest();
    let rules = TokenRules { issuer: issuer.url(), audience: "hub".into() };
    let now = testkit::issuer::now();
    let token = |key: &IssuerKey| key.token(&issuer.claims("hub", "bank-a"));
    assert!(set.unwrap().verify(token(&first).as_bytes(), &rules, now).is_ok());
    assert!(keys.refresh().is_none(), "the keys were read just now");
    issuer.set_keys(&[&second]);
    issuer.set_down(true);
    // A second read, after the rest, fails. The keys stay.
    let deadline = Instant::now() + Duration::from_secs(30);
    let refresh = loop {
        assert!(Instant::now() < deadline);
        match keys.refresh() {
            Some(refresh) => break refresh,
            None => std::thread::yield_now(),
        }
    };
    runtime.block_on(refresh.wait());
    // A read that takes longer than a refresh waits fails later.
    while !keys.has_failed() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert!(keys.age().unwrap() < Duration::from_secs(60));
    let (set, unchanged) = keys.latest();
    assert_eq!(unchanged, generation);
    assert!(set.unwrap().verify(token(&first).as_bytes(), &rules, now).is_ok());
}
