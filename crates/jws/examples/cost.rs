//! Prints the cost of verifying and signing one message, and the share of hash and key in the
//! cryptographic library: `cargo run --profile dist -p jws --example cost`.
//!
//! The three are measured in turn, a few messages at a time, so that other load affects them alike.
//! Reports the best turn of each, and the median ratio of consecutive turns. A number after `--`
//! sets the number of turns.

use std::hint::black_box;
use std::time::Instant;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, VerificationAlgorithm,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, Method};
use jws::{KeyRing, Signed, SigningKey, sign, verify};
use ledger::FspName;
use rustls_pki_types::SubjectPublicKeyInfoDer;
use rustls_pki_types::pem::PemObject;
use serde_json::Value;

/// Default number of turns.
const TURNS: usize = 3_000;
/// Messages verified per turn, few enough to fit between two interruptions.
const MESSAGES: u32 = 10;
const BODY_BYTES: usize = 1_800;

fn main() {
    let vectors: Value =
        serde_json::from_str(include_str!("../tests/vectors/vectors.json")).expect("JSON");
    let turns = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(TURNS);
    println!("microseconds per message of {BODY_BYTES} bytes, best of {turns} turns");
    measure(&vectors["keys"]["rsa"], ("RSA 2048", turns), &RSA_PKCS1_2048_8192_SHA256);
    measure(&vectors["keys"]["ec"], ("P-256", turns), &ECDSA_P256_SHA256_FIXED);
}

fn measure(
    key: &Value,
    (name, turns): (&str, usize),
    algorithm: &'static dyn VerificationAlgorithm,
) {
    let text = |form: &str| key[form].as_str().expect("a text").as_bytes();
    let private = SigningKey::from_pem(text("private")).expect("a key");
    let headers = headers();
    let body = format!(r#"{{"ilpPacket":"{}"}}"#, "A".repeat(BODY_BYTES - 16));
    let signature = sign(&headers, body.as_bytes(), &private).expect("signed");
    let mut signed = headers.clone();
    signed.insert("fspiop-signature", signature);
    let path = "/transfers";
    let body = body.as_bytes();
    let message = Signed { method: &Method::POST, path, headers: &signed, body };
    let source = FspName::new("Hub").expect("a name");
    let ring = KeyRing::new([(source, private.verification_key().expect("good"))]).expect("one");

    let der = SubjectPublicKeyInfoDer::from_pem_slice(text("public")).expect("PEM");
    let bare = ParsedPublicKey::new(algorithm, &der).expect("a key");
    let value: Value = serde_json::from_slice(signed["fspiop-signature"].as_bytes()).expect("JSON");
    let (text, bytes) = bare_parts(&value, body);
    let (mut bares, mut wholes, mut makings) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..turns {
        bares.push(time(MESSAGES, || bare.verify_sig(text.as_bytes(), &bytes).expect("good")));
        wholes.push(time(MESSAGES, || verify(black_box(&message), &ring).expect("good")));
        makings.push(time(1, || drop(black_box(sign(&headers, body, &private).expect("signed")))));
    }
    let mut ratios: Vec<f64> =
        wholes.iter().zip(&bares).map(|(whole, bare)| whole / bare).collect();
    ratios.sort_by(f64::total_cmp);
    let [bare, whole, making] = [bares, wholes, makings].map(|times| least(&times));
    let above = |ratio: f64| (ratio - 1.0) * 100.0;
    println!(
        "{name}: verify {whole:.2}, of which hash and key {bare:.2}: {:.1}% above (middle of the \
         ratios {:.1}%); sign {making:.1}, {:.0} a second and thread",
        above(whole / bare),
        above(ratios[ratios.len() / 2]),
        1e6 / making
    );
}

/// The signed text and the signature.
fn bare_parts(value: &Value, body: &[u8]) -> (String, Vec<u8>) {
    let text = |member: &str| value[member].as_str().expect("a text");
    let signed = format!("{}.{}", text("protectedHeader"), URL_SAFE_NO_PAD.encode(body));
    (signed, URL_SAFE_NO_PAD.decode(text("signature")).expect("base64"))
}

fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in [
        ("accept", "application/vnd.interoperability.transfers+json;version=1.1"),
        ("content-type", "application/vnd.interoperability.transfers+json;version=1.1"),
        ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
        ("fspiop-uri", "/transfers"),
        ("fspiop-http-method", "POST"),
        ("fspiop-source", "Hub"),
        ("fspiop-destination", "payee"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
}

fn time(count: u32, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..count).for_each(|_| run());
    start.elapsed().as_secs_f64() * 1e6 / f64::from(count)
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::MAX, f64::min)
}
