//! An issuer of access tokens: keys, a server with its metadata and its key set, and tokens of any
//! content, good or bad.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use crate::http::{Headers, Request, Response};
use crate::server::{Reply, Server};

/// Positions of the modulus in the PKCS#1 form of a public key with 2,048 bits, and the length of
/// its exponent.
const MODULUS: std::ops::Range<usize> = 9..265;
const EXPONENT_BYTES: usize = 3;

/// A key that signs tokens.
pub struct IssuerKey {
    id: String,
    pair: Pair,
}

enum Pair {
    Rsa(Box<RsaKeyPair>),
    P256(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

impl IssuerKey {
    /// A new RSA key with 2,048 bits.
    #[must_use]
    pub fn rsa(id: &str) -> Self {
        let pair = RsaKeyPair::generate(KeySize::Rsa2048).expect("a key");
        Self { id: id.to_owned(), pair: Pair::Rsa(Box::new(pair)) }
    }

    /// A new key on P-256.
    #[must_use]
    pub fn p256(id: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Self { id: id.to_owned(), pair: Pair::P256(pair) }
    }

    /// A new key of Ed25519.
    #[must_use]
    pub fn ed25519(id: &str) -> Self {
        let pair = Ed25519KeyPair::generate().expect("a key");
        Self { id: id.to_owned(), pair: Pair::Ed25519(pair) }
    }

    /// The public key as a JWK.
    #[must_use]
    pub fn jwk(&self) -> Value {
        let encode = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut jwk = match &self.pair {
            Pair::Rsa(pair) => {
                let der = pair.public_key().as_ref();
                let exponent = &der[der.len() - EXPONENT_BYTES..];
                json!({"kty": "RSA", "n": encode(&der[MODULUS]), "e": encode(exponent)})
            }
            Pair::P256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (encode(&point[1..33]), encode(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "x": x, "y": y})
            }
            Pair::Ed25519(pair) => {
                json!({"kty": "OKP", "crv": "Ed25519", "x": encode(pair.public_key().as_ref())})
            }
        };
        jwk["kid"] = self.id.as_str().into();
        jwk
    }

    /// A token with the usual header of this key.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        let algorithm = match &self.pair {
            Pair::Rsa(_) => "RS256",
            Pair::P256(_) => "ES256",
            Pair::Ed25519(_) => "EdDSA",
        };
        self.signed(&json!({"alg": algorithm, "typ": "at+jwt", "kid": self.id}), claims)
    }

    /// A token with this header, signed with this key: with PSS if the header has PS256.
    #[must_use]
    pub fn signed(&self, header: &Value, claims: &Value) -> String {
        let text = signed_text(header, claims);
        let signature = match &self.pair {
            Pair::Rsa(pair) => {
                let padding = match header["alg"] == "PS256" {
                    true => &RSA_PSS_SHA256,
                    false => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; pair.public_modulus_len()];
                let random = SystemRandom::new();
                pair.sign(padding, &random, text.as_bytes(), &mut signature).expect("a signature");
                signature
            }
            Pair::P256(pair) => {
                let signature = pair.sign(&SystemRandom::new(), text.as_bytes());
                signature.expect("a signature").as_ref().to_vec()
            }
            Pair::Ed25519(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
        };
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}

/// The signed part of a token.
#[must_use]
pub fn signed_text(header: &Value, claims: &Value) -> String {
    let encode = |part: &Value| URL_SAFE_NO_PAD.encode(part.to_string());
    format!("{}.{}", encode(header), encode(claims))
}

/// The time of this machine, in seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// A running issuer. Its identifier is its URL.
pub struct Issuer {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    documents: Mutex<BTreeMap<&'static str, String>>,
    is_down: AtomicBool,
    requests: AtomicUsize,
}

impl Issuer {
    /// Starts an issuer that publishes these keys, on a free port of the loopback interface.
    ///
    /// # Errors
    /// If no port is free.
    pub fn start(keys: &[&IssuerKey]) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        let handler = move |request: &Request| serving.answer(request);
        let server = Server::start(Ipv4Addr::LOCALHOST, handler)?;
        let issuer = Self { server, shared };
        let url = issuer.url();
        let metadata = json!({"issuer": url, "jwks_uri": format!("{url}/keys")});
        issuer.publish("/.well-known/openid-configuration", &metadata);
        issuer.set_keys(keys);
        Ok(issuer)
    }

    /// Its identifier.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Publishes these keys instead of the earlier ones.
    pub fn set_keys(&self, keys: &[&IssuerKey]) {
        let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
        self.publish("/keys", &json!({"keys": keys}));
    }

    /// Answers each request with 503, or again with its documents.
    pub fn set_down(&self, is_down: bool) {
        self.shared.is_down.store(is_down, Ordering::SeqCst);
    }

    /// Requests for its key set so far.
    #[must_use]
    pub fn key_requests(&self) -> usize {
        self.shared.requests.load(Ordering::SeqCst)
    }

    /// The claims of a token for an audience, valid for five minutes.
    #[must_use]
    pub fn claims(&self, audience: &str, client: &str) -> Value {
        json!({
            "iss": self.url(), "aud": audience, "client_id": client, "sub": client,
            "iat": now(), "exp": now() + 300,
        })
    }

    fn publish(&self, path: &'static str, document: &Value) {
        let mut documents = self.shared.documents.lock().unwrap_or_else(PoisonError::into_inner);
        documents.insert(path, document.to_string());
    }
}

impl Shared {
    fn answer(&self, request: &Request) -> Reply {
        if request.path == "/keys" {
            self.requests.fetch_add(1, Ordering::SeqCst);
        }
        if self.is_down.load(Ordering::SeqCst) {
            return Reply::Status(503);
        }
        let documents = self.documents.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(document) = documents.get(&*request.path) else { return Reply::Status(404) };
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        let body = document.as_bytes().to_vec();
        Reply::Response(Response { headers: Headers(headers), body, ..Response::of(200) })
    }
}
