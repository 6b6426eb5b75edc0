//! Signatures: the cost of verifying and signing a message, compared with the bare cryptography.

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    KeyPair as _, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::{HeaderMap, HeaderValue, Method};
use jws::{KeyRing, Signed, SigningKey, sign, verify};

use crate::Error;
use crate::messages::SAMPLES;
use crate::operation::{Group, Operation};
use crate::workload::name;

/// Verifications per call; a tenth as many signatures.
const COUNT: usize = 200;

/// Verify and sign, each compared with the bare operation on the same bytes.
pub(crate) fn operations() -> Result<Vec<Operation>, Error> {
    let pair = RsaKeyPair::generate(KeySize::Rsa2048).map_err(|_| Error::Key)?;
    let der =
        AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&pair).map_err(|_| Error::Key)?;
    let text = STANDARD.encode(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
    let private = SigningKey::from_pem(pem.as_bytes()).map_err(|_| Error::Key)?;
    let sample = SAMPLES[4];
    let body = sample.body.as_bytes();
    let mut headers = sample.headers();
    headers.insert("fspiop-uri", HeaderValue::from_static(sample.path));
    headers.insert("fspiop-http-method", HeaderValue::from_static("POST"));
    let signature = sign(&headers, body, &private).map_err(|_| Error::Key)?;
    let mut signed = headers.clone();
    signed.insert("fspiop-signature", signature);
    let public = private.verification_key().map_err(|_| Error::Key)?;
    let ring = KeyRing::new([(name("payerfsp"), public)]).map_err(|_| Error::Key)?;
    let (text, value) = bare_parts(&signed, body);
    let bare_key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key().as_ref())
        .map_err(|_| Error::Key)?;
    let unsigned = text.clone();
    let mut room = vec![0; pair.public_modulus_len()];
    Ok(vec![
        Operation::plain((Group::Jws, "verify, bare RSA-2048 and SHA-256", COUNT), move || {
            bare_key.verify_sig(text.as_bytes(), &value).expect("just signed");
        }),
        Operation::plain((Group::Jws, "verify a POST /transfers", COUNT), move || {
            let (method, path) = (&Method::POST, sample.path);
            let message = Signed { method, path, headers: &signed, body };
            verify(&message, &ring).expect("just signed");
        }),
        Operation::plain((Group::Jws, "sign, bare RSA-2048 and SHA-256", COUNT / 10), move || {
            let random = SystemRandom::new();
            pair.sign(&RSA_PKCS1_SHA256, &random, unsigned.as_bytes(), &mut room)
                .expect("valid key");
        }),
        Operation::plain((Group::Jws, "sign a POST /transfers", COUNT / 10), move || {
            sign(&headers, body, &private).expect("valid key")
        }),
    ])
}

/// The text that is signed, and the signature over it.
fn bare_parts(signed: &HeaderMap, body: &[u8]) -> (String, Vec<u8>) {
    let value: serde_json::Value =
        serde_json::from_slice(signed["fspiop-signature"].as_bytes()).expect("just encoded");
    let member = |name: &str| value[name].as_str().expect("it was just made");
    let text = format!("{}.{}", member("protectedHeader"), URL_SAFE_NO_PAD.encode(body));
    (text, URL_SAFE_NO_PAD.decode(member("signature")).expect("just encoded"))
}
