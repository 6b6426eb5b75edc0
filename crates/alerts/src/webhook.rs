//! Webhooks signed after the Standard Webhooks specification.
//!
//! The headers `webhook-id`, `webhook-timestamp` and `webhook-signature` follow its version 1:
//! HMAC-SHA256 over `id.timestamp.body`. A receiver verifies them with any of its libraries.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use http::uri::Scheme;
use http::{Request, Uri};
use http_body_util::Full;
use hyper::client::conn::http1;
use hyper::rt::{Read, Write};
use hyper_util::rt::TokioIo;
use sha2::Sha256;
use tls::ClientTls;
use tokio::net::TcpStream;

use crate::{AlertMessage, InvalidSetting, TIMEOUT};

/// The beginning of a secret.
const SECRET_PREFIX: &str = "whsec_";
/// Bytes of a secret, as the specification bounds them.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The key of the signatures.
#[derive(Clone)]
pub struct WebhookSecret(Vec<u8>);

impl WebhookSecret {
    /// Reads `whsec_` and base64 of 24 to 64 bytes.
    ///
    /// # Errors
    /// [`InvalidSetting`] without a trace of the secret.
    pub fn parse(text: &str) -> Result<Self, InvalidSetting> {
        let bytes = text.strip_prefix(SECRET_PREFIX).and_then(|text| STANDARD.decode(text).ok());
        bytes.filter(|bytes| SECRET_BYTES.contains(&bytes.len())).map(Self).ok_or_else(|| {
            let wanted = "expected whsec_ and base64 of 24 to 64 bytes, such as from `echo \
                          whsec_$(openssl rand -base64 32)`";
            InvalidSetting(wanted.to_owned())
        })
    }

    /// The value of `webhook-signature`.
    fn sign(&self, id: &str, timestamp: u64, body: &[u8]) -> String {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes any key");
        mac.update(format!("{id}.{timestamp}.").as_bytes());
        mac.update(body);
        format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
    }
}

/// A webhook of the operator.
#[derive(Clone)]
pub struct Webhook {
    uri: Uri,
    host: String,
    port: u16,
    secret: WebhookSecret,
    tls: Option<Arc<ClientTls>>,
}

impl Webhook {
    /// A webhook at a URL. One with `https://` needs `tls`, which verifies its certificate.
    ///
    /// # Errors
    /// [`InvalidSetting`]: the URL is not absolute, or its scheme cannot be used.
    pub fn new(
        url: &str,
        secret: WebhookSecret,
        tls: Option<Arc<ClientTls>>,
    ) -> Result<Self, InvalidSetting> {
        let invalid = |why: &str| InvalidSetting(format!("{url:?}: {why}"));
        let uri: Uri = url.parse().map_err(|_| invalid("not a URL"))?;
        let authority = uri.authority().ok_or_else(|| invalid("expected http:// or https://"))?;
        if authority.as_str().contains('@') {
            return Err(invalid("user names and passwords are not supported"));
        }
        let is_tls = match uri.scheme() {
            Some(scheme) if *scheme == Scheme::HTTP => false,
            Some(scheme) if *scheme == Scheme::HTTPS => true,
            _ => return Err(invalid("expected http:// or https://")),
        };
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        if is_tls && tls.is_none() {
            return Err(invalid("this build has no TLS; build it with the feature tls"));
        }
        Ok(Self { host, port, secret, tls: tls.filter(|_| is_tls), uri })
    }

    /// Sends an alert and waits for the answer, at most [`TIMEOUT`]. Any 2xx is a success.
    ///
    /// # Errors
    /// The reason in words.
    pub async fn send(&self, message: &AlertMessage, unix_seconds: u64) -> Result<(), String> {
        let request = self.request(message, unix_seconds);
        let sent = tokio::time::timeout(TIMEOUT, self.exchange(request)).await;
        sent.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs())))
    }

    fn request(&self, message: &AlertMessage, unix_seconds: u64) -> Request<Full<Bytes>> {
        let (id, body) = (message.key(), message.json());
        let target = self.uri.path_and_query().map_or("/", |target| target.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        Request::post(target)
            .header(HOST, host)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("upesi/", env!("CARGO_PKG_VERSION")))
            .header("webhook-signature", self.secret.sign(&id, unix_seconds, &body))
            .header("webhook-timestamp", unix_seconds)
            .header("webhook-id", id)
            .body(Full::new(Bytes::from(body)))
            .expect("all parts were checked")
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(), String> {
        let stream = TcpStream::connect((&*self.host, self.port)).await;
        let stream = stream.map_err(|error| format!("cannot connect: {error}"))?;
        if let Some(tls) = &self.tls {
            let stream = tls.connect(("", &*self.host), stream).await;
            let stream = stream.map_err(|fault| format!("TLS: {}", fault.text()))?;
            return exchange(TokioIo::new(stream), request).await;
        }
        exchange(TokioIo::new(stream), request).await
    }
}

async fn exchange(
    stream: impl Read + Write + Unpin,
    request: Request<Full<Bytes>>,
) -> Result<(), String> {
    let failed = |error: hyper::Error| format!("no answer: {error}");
    let (mut sender, connection) = http1::handshake(stream).await.map_err(failed)?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(failed)?;
        match answer.status() {
            status if status.is_success() => Ok(()),
            status => Err(format!("answered {status}")),
        }
    };
    tokio::select! {
        answer = answer => answer,
        Err(error) = connection => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use tokio::runtime::Builder;

    use super::*;
    use crate::message::tests::message;

    /// From the specification's libraries: `standardwebhooks`, tests of signing.
    #[test]
    fn signature_is_that_of_the_published_example() {
        let secret = WebhookSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("valid");
        let signature =
            secret.sign("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn secrets_are_bounded() {
        let long = format!("whsec_{}", STANDARD.encode([1; 65]));
        let short = format!("whsec_{}", STANDARD.encode([1; 23]));
        for (text, is_valid) in [
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", true),
            ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", false),
            ("whsec_", false),
            ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS", false),
            (&long, false),
            (&short, false),
        ] {
            let error = WebhookSecret::parse(text).err().map(|error| error.to_string());
            assert_eq!(error.is_none(), is_valid, "{text}");
            assert!(error.is_none_or(|error| !error.contains("MfKQ")), "{text}");
        }
    }

    /// A receiver could otherwise make the hub call an internal address.
    #[test]
    fn redirect_is_a_failure_and_is_not_followed() {
        let listen = || TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (receiver, internal) = (listen(), listen());
        let at = |listener: &TcpListener| listener.local_addr().expect("an address");
        let url = format!("http://{}/alerts", at(&receiver));
        let target = at(&internal);
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = receiver.accept().expect("a connection");
            let mut request = [0; 4096];
            assert!(0 < stream.read(&mut request).expect("a request"));
            let head = format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{target}/\r\n");
            stream.write_all(format!("{head}content-length: 0\r\n\r\n").as_bytes())
        });
        let webhook = Webhook::new(&url, WebhookSecret(vec![1; 32]), None).expect("a URL");
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let alert = message(ledger::AlertKind::ThresholdReached, "812", Some("1000"));
        let sent = runtime.block_on(webhook.send(&alert, 1));
        assert_eq!(sent, Err("answered 307 Temporary Redirect".to_owned()));
        answering.join().expect("no panic").expect("it is read");
        internal.set_nonblocking(true).expect("it is open");
        assert!(internal.accept().is_err(), "the other address was called");
    }

    #[test]
    fn urls_are_checked() {
        let secret = WebhookSecret(vec![1; 32]);
        for (url, expected) in [
            ("http://127.0.0.1:9/alerts?a=b", None),
            ("http://[::1]/", None),
            ("https://alerts.example/x", Some("no TLS")),
            ("ftp://alerts.example", Some("expected http:// or https://")),
            ("alerts.example", Some("expected http:// or https://")),
            ("http://user:secret@alerts.example", Some("passwords are not supported")),
            ("http://", Some("not a URL")),
            ("", Some("not a URL")),
        ] {
            let found = Webhook::new(url, secret.clone(), None).err();
            let found = found.map(|error| error.to_string()).unwrap_or_default();
            assert_eq!(found.is_empty(), expected.is_none(), "{url}: {found}");
            assert!(found.contains(expected.unwrap_or_default()), "{url}: {found}");
        }
    }
}
