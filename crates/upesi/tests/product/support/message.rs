//! Messages as sent by participants.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, Method};
use jws::{KeyRing, SignatureError, Signed, SigningKey, VerificationKey};
use ledger::FspName;

use super::fsp::Callback;
use crate::signatures::pem;

/// A fulfilment and its condition; any number of transfers may use them.
pub(crate) const FULFILMENT: &str = "dGhlIHNlY3JldCBvZiBldmVyeSB0ZXN0LCAzMiBieS4";
pub(crate) const CONDITION: &str = "BeZFGxq2RPkY0IpxxIBaJSnr7jhPs8hPedGCgk16Uzc";
const DATE: &str = "Tue, 15 Nov 1994 08:12:31 GMT";

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A UUID that is unique in this process.
pub(crate) fn uuid() -> String {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("b51ec534-ee48-4575-b6a9-{number:012x}")
}

/// The time `ahead_ms` from now, in the format of bodies.
pub(crate) fn date_time(ahead_ms: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64;
    format!("{:.3}", jiff::Timestamp::from_millisecond(now + ahead_ms).unwrap())
}

/// A request to the hub, by default with valid and complete headers.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    method: String,
    path: String,
    pub(crate) trace: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Message {
    pub(crate) fn new(method: &str, path: &str, source: &str) -> Self {
        let resource = path.trim_start_matches('/').split(['/', '?']).next().unwrap_or_default();
        let media = format!("application/vnd.interoperability.{resource}+json;version=1.1");
        let trace = format!("5{:031x}", NEXT.fetch_add(1, Ordering::Relaxed));
        let traceparent = format!("00-{trace}-00f067aa0ba902b7-01");
        let message = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            trace,
            headers: Vec::new(),
            body: Vec::new(),
        };
        let message = message
            .with("content-type", &media)
            .with("date", DATE)
            .with("fspiop-source", source)
            .with("traceparent", &traceparent);
        if method == "PUT" { message } else { message.with("accept", &media) }
    }

    pub(crate) fn to(self, destination: &str) -> Self {
        self.with("fspiop-destination", destination)
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sets a header.
    pub(crate) fn with(self, name: &str, value: &str) -> Self {
        self.without(name).also(name, value)
    }

    /// Adds a header, possibly a second time.
    pub(crate) fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(key, _)| key != name);
        self
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.body
    }

    /// The whole request as bytes.
    pub(crate) fn render(&self) -> Vec<u8> {
        let mut head = format!("{} {} HTTP/1.1\r\nhost: hub\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        write!(head, "content-length: {}\r\n\r\n", self.body.len()).unwrap();
        [head.as_bytes(), &self.body].concat()
    }
}

/// Signs the message with a test key.
pub(crate) fn sign_with(message: Message, key: &str) -> Message {
    let (method, path) = (message.method.clone(), message.path.clone());
    let message = message.with("fspiop-uri", &path).with("fspiop-http-method", &method);
    let headers = header_map(message.headers.iter().map(|(name, value)| (&**name, &**value)));
    let key = SigningKey::from_pem(pem(key, "private").as_bytes()).unwrap();
    let value = jws::sign(&headers, message.bytes(), &key).unwrap();
    message.with("fspiop-signature", value.to_str().unwrap())
}

/// Asserts that a callback of the hub is signed with a test key.
pub(crate) fn verifies(callback: &Callback, key: &str) {
    let key = VerificationKey::from_pem(pem(key, "public").as_bytes()).unwrap();
    assert_eq!(verify_with(callback, &[key]), Ok(()), "{callback:?}");
}

/// Verifies a callback of the hub with keys of the hub.
pub(crate) fn verify_with(
    callback: &Callback,
    keys: &[VerificationKey],
) -> Result<(), SignatureError> {
    let hub = FspName::new("Hub").unwrap();
    let ring = KeyRing::new(keys.iter().map(|key| (hub, key.clone()))).unwrap();
    let texts = callback.headers.iter().map(|(name, value)| (&**name, &**value));
    let (method, path) = (Method::from_bytes(callback.method.as_bytes()).unwrap(), &*callback.path);
    let (headers, body) = (&header_map(texts), callback.body.as_slice());
    jws::verify(&Signed { method: &method, path, headers, body }, &ring)
}

fn header_map<'a>(headers: impl Iterator<Item = (&'a str, &'a str)>) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
    }
    map
}

/// A transfer of a test, and its messages.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) id: String,
    pub(crate) payer: String,
    pub(crate) payee: String,
    pub(crate) amount: String,
    pub(crate) expiration: String,
    pub(crate) packet: String,
}

impl Transfer {
    /// A transfer from `payerfsp` to `payeefsp`, with a late expiration.
    pub(crate) fn of(amount: &str) -> Self {
        Self {
            id: uuid(),
            payer: "payerfsp".into(),
            payee: "payeefsp".into(),
            amount: amount.to_owned(),
            expiration: date_time(600_000),
            packet: "AYIBgQAAAAAAAASwNGxldmVsb25l".into(),
        }
    }

    pub(crate) fn expiring(self, ahead_ms: i64) -> Self {
        Self { expiration: date_time(ahead_ms), ..self }
    }

    pub(crate) fn path(&self) -> String {
        format!("/transfers/{}", self.id)
    }

    /// `POST /transfers` with unusual spacing and order, non-ASCII letters and an unknown member.
    pub(crate) fn prepare(&self) -> Message {
        let Self { id, payer, payee, amount, expiration, packet } = self;
        let body = format!(
            "{{ \"amount\": {{\"currency\":\"USD\",  \"amount\":\"{amount}\"}},\n\
             \"condition\":\"{CONDITION}\", \"ilpPacket\" : \"{packet}\",\r\n\
             \"expiration\":\"{expiration}\",\t\"payeeFsp\":\"{payee}\",\"payerFsp\":\"{payer}\",\
             \"transferId\":\"{id}\", \"unknown\":[1,2.50,null],\
             \"extensionList\":{{\"extension\":[{{\"key\":\"na\\u006De\",\
             \"value\":\"Amélie Ngũgĩ 王\"}}]}} }}"
        );
        Message::new("POST", "/transfers", payer).body(body)
    }

    /// `PUT /transfers/{id}` of the payee.
    pub(crate) fn fulfil(&self, state: &str) -> Message {
        self.fulfil_with(state, FULFILMENT)
    }

    pub(crate) fn fulfil_with(&self, state: &str, fulfilment: &str) -> Message {
        let completed = date_time(0);
        self.answer(&format!(
            "{{ \"transferState\" : \"{state}\", \"completedTimestamp\": \"{completed}\",\n\
             \"fulfilment\":\"{fulfilment}\" }}"
        ))
    }

    /// `PUT /transfers/{id}` of the payee with any body.
    pub(crate) fn answer(&self, body: &str) -> Message {
        Message::new("PUT", &self.path(), &self.payee).to(&self.payer).body(body)
    }

    /// `PUT /transfers/{id}/error` of the payee.
    pub(crate) fn error(&self, code: &str, description: &str) -> Message {
        let path = format!("{}/error", self.path());
        let body = format!(
            "{{\"errorInformation\" : {{\"errorDescription\":\"{description}\", \
             \"errorCode\":\"{code}\"}} }}"
        );
        Message::new("PUT", &path, &self.payee).to(&self.payer).body(body)
    }

    pub(crate) fn get(&self, asker: &str) -> Message {
        Message::new("GET", &self.path(), asker)
    }
}
