//! TLS and signatures of one FSP.
//!
//! With [`FspTls`], an FSP presents its certificate to the hub, and requires one of it. With
//! [`Signatures`], it signs every message that has a body, and refuses a message whose signature is
//! missing or invalid. As for the hub, a GET needs no signature.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use fspiop::headers::{FSPIOP_DESTINATION, FSPIOP_HTTP_METHOD, FSPIOP_SOURCE, FSPIOP_URI};
use http::header::DATE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use jws::{KeyRing, SignatureError, Signed, SigningKey};
use tls::{ClientTls, ServerTls};
use tokio::net::TcpStream;

use crate::http1::{self, Request};
use crate::wire::Wire;

/// Longest handshake with the hub.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// The TLS of one FSP.
#[derive(Clone, Debug)]
pub struct FspTls {
    /// Its calls to the hub.
    pub client: Arc<ClientTls>,
    /// The host in the hub's certificate; `None` for the called address.
    pub hub: Option<Arc<str>>,
    /// Its listener.
    pub server: Arc<ServerTls>,
}

/// The keys of one FSP.
#[derive(Clone, Debug)]
pub struct Signatures {
    /// Signs its messages.
    pub key: Arc<SigningKey>,
    /// The public keys of the hub and of all FSPs.
    pub keys: KeyRing,
}

/// A call to the hub, whose certificate must contain its host, or the called address.
pub(crate) async fn call(stream: TcpStream, tls: Option<&FspTls>) -> io::Result<Wire> {
    let Some(FspTls { client, hub, .. }) = tls else { return Ok(Wire::Plain(stream)) };
    let address = stream.peer_addr()?.ip().to_string();
    match client.connect(("", hub.as_deref().unwrap_or(&address)), stream).await {
        Ok(stream) => Ok(Wire::Called(Box::new(stream))),
        Err(fault) => Err(io::Error::other(format!("TLS: {}", fault.text()))),
    }
}

/// A connection that the hub has opened; `None` if its handshake failed.
pub(crate) async fn accept(stream: TcpStream, tls: Option<&ServerTls>) -> Option<Wire> {
    let Some(tls) = tls else { return Some(Wire::Plain(stream)) };
    let accepted = tls.accept(stream, HANDSHAKE_TIMEOUT).await.ok()?;
    Some(Wire::Accepted(Box::new(accepted.stream)))
}

/// Signs the messages of one FSP.
pub(crate) struct Signer {
    key: Arc<SigningKey>,
    /// The protected headers. Method, path, destination and date change with each message.
    headers: HeaderMap,
}

/// The parts of a message that its signature covers, apart from its body.
#[derive(Clone, Copy)]
pub(crate) struct SignedParts<'a> {
    pub(crate) method: &'static str,
    pub(crate) path: &'a [u8],
    pub(crate) destination: Option<&'a str>,
    pub(crate) date: &'a [u8],
}

impl Signer {
    pub(crate) fn new(name: &str, key: Arc<SigningKey>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(&FSPIOP_SOURCE, value(name.as_bytes()));
        Self { key, headers }
    }

    /// The header lines of a signature, each after a line break.
    pub(crate) fn lines(&mut self, parts: &SignedParts<'_>, body: &[u8]) -> Vec<u8> {
        let Self { key, headers } = self;
        headers.insert(&FSPIOP_URI, value(parts.path));
        headers.insert(&FSPIOP_HTTP_METHOD, HeaderValue::from_static(parts.method));
        headers.insert(DATE, value(parts.date));
        match parts.destination {
            Some(destination) => {
                headers.insert(&FSPIOP_DESTINATION, value(destination.as_bytes()));
            }
            None => {
                headers.remove(&FSPIOP_DESTINATION);
            }
        }
        let signature = jws::sign(headers, body, key).expect("every protected header is set");
        let mut lines = Vec::with_capacity(parts.path.len() + signature.len() + 96);
        let method = parts.method.as_bytes();
        for (name, value) in [
            ("fspiop-uri", parts.path),
            ("fspiop-http-method", method),
            ("fspiop-signature", signature.as_bytes()),
        ] {
            write!(lines, "\r\n{name}: ").expect("writing to a Vec cannot fail");
            lines.extend_from_slice(value);
        }
        lines
    }
}

impl Signatures {
    /// Verifies the signature of a message of the hub.
    pub(crate) fn verify(&self, request: &Request<'_>) -> Result<(), SignatureError> {
        let method = Method::from_bytes(request.method.as_bytes()).unwrap_or(Method::GET);
        if method == Method::GET {
            return Ok(());
        }
        let headers = &headers_of(request);
        let message = Signed { method: &method, path: request.path, headers, body: &request.body };
        jws::verify(&message, &self.keys)
    }
}

/// All headers of a request, which has been parsed before.
fn headers_of(request: &Request<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    http1::each_header(request.head, |name, value| {
        if let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        {
            headers.append(name, value);
        }
    });
    headers
}

fn value(bytes: &[u8]) -> HeaderValue {
    HeaderValue::from_bytes(bytes).expect("names, paths and dates of an FSP are plain text")
}

#[cfg(test)]
mod tests {
    use jws::{Algorithm, SigningKey};
    use ledger::FspName;

    use super::*;

    const DATE_TEXT: &[u8] = b"Thu, 26 Nov 2026 19:00:00 GMT";

    /// A signed message of `payer`, and the keys that verify it.
    fn signed(destination: Option<&'static str>) -> (Vec<u8>, Signatures) {
        let pem = SigningKey::generate(Algorithm::Es256).expect("a key");
        let key = Arc::new(SigningKey::from_pem(pem.as_bytes()).expect("a key"));
        let public = key.verification_key().expect("a public key");
        let name = FspName::new("payer").expect("a name");
        let keys = KeyRing::new([(name, public)]).expect("one key");
        let parts = SignedParts { method: "POST", path: b"/quotes", destination, date: DATE_TEXT };
        let mut signer = Signer::new("payer", Arc::clone(&key));
        // An earlier destination must not be signed again.
        signer.lines(&SignedParts { destination: Some("earlier"), ..parts }, b"{}");
        let mut message = b"POST /quotes HTTP/1.1\r\nfspiop-source: payer\r\ndate: ".to_vec();
        message.extend_from_slice(DATE_TEXT);
        if let Some(destination) = destination {
            message.extend_from_slice(format!("\r\nfspiop-destination: {destination}").as_bytes());
        }
        message.extend(signer.lines(&parts, b"{\"a\":1}"));
        message.extend_from_slice(b"\r\ncontent-length: 7\r\n\r\n{\"a\":1}");
        (message, Signatures { key, keys })
    }

    fn outcome(message: &[u8], signatures: &Signatures) -> Result<(), SignatureError> {
        let request = http1::request(message).expect("well formed").expect("complete");
        signatures.verify(&request)
    }

    fn changed(message: &[u8], from: &str, to: &str) -> Vec<u8> {
        let text = String::from_utf8_lossy(message);
        assert!(text.contains(from), "{text}");
        text.replace(from, to).into_bytes()
    }

    #[test]
    fn only_an_unchanged_message_of_a_known_sender_is_accepted() {
        for destination in [None, Some("payee")] {
            let (message, signatures) = signed(destination);
            assert_eq!(outcome(&message, &signatures), Ok(()));
            for (from, to, fault) in [
                ("{\"a\":1}", "{\"a\":2}", SignatureError::Wrong),
                ("source: payer", "source: other", SignatureError::Mismatch("FSPIOP-Source")),
                ("fspiop-signature", "signature", SignatureError::Absent),
                ("POST /quotes", "POST /other", SignatureError::OtherPath),
                ("19:00", "19:01", SignatureError::Mismatch("Date")),
            ] {
                assert_eq!(outcome(&changed(&message, from, to), &signatures), Err(fault));
            }
            let others = Signatures { keys: KeyRing::default(), ..signatures };
            assert_eq!(outcome(&message, &others), Err(SignatureError::UnknownSource));
        }
        let get = b"GET /parties/MSISDN/1 HTTP/1.1\r\n\r\n";
        assert_eq!(outcome(get, &signed(None).1), Ok(()), "a GET needs no signature");
    }
}
