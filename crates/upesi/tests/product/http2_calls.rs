//! Calls to participants that choose HTTP/2 by ALPN, good ones and bad ones.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use bytes::{Buf, BytesMut};
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use testkit::http::PATIENCE;
use tls::authority::CertificateRequest;
use tls::{ClientCertificates, MinimumVersion, ServerFiles, ServerTls};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::message::{Message, Transfer, sign_with, uuid};
use crate::support::scheme::Scheme;
use crate::tls_listeners::Pki;

type TlsStream = tls::TlsStream<TcpStream>;

/// A request as a payee receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    version: Version,
    method: String,
    target: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// Something that a payee's server saw.
#[derive(Debug)]
enum Event {
    Connected,
    Request(Received),
    /// The hub has closed the connection.
    Closed,
}

/// Its bytes in the order of the wire: settings at the beginning, then those after the first request,
/// which may be repeated until the hub closes the connection.
#[derive(Clone, Debug)]
struct Script {
    settings: Vec<u8>,
    answer: Vec<u8>,
    is_repeated: bool,
}

/// The behaviour of a payee's server.
#[derive(Clone, Debug)]
enum Behaviour {
    /// Answers each request with 200, by the library hyper.
    Http,
    /// The same, and leaves each connection by `GOAWAY` after its first response.
    OneRequest,
    /// Answers the head of each request with 200 and opens no window for its body.
    Early,
    Script(Script),
}

/// A payee with a TLS server.
struct Payee {
    address: SocketAddr,
    events: Receiver<Event>,
}

impl Payee {
    fn start(pki: &Pki, protocols: &'static [&'static [u8]], behaviour: Behaviour) -> Self {
        let files = ServerFiles {
            section: "payee",
            certificate: pki.path("payee.pem"),
            key: pki.path("payee.key"),
            client_ca: None,
            client_certificates: ClientCertificates::Optional,
            crl: None,
            ocsp: None,
            minimum: MinimumVersion::Tls13,
            protocols,
        };
        let tls = Arc::new(ServerTls::open(files).unwrap());
        let (sender, events) = sync_channel(1_000);
        let (ready, address) = sync_channel(1);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async move {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                ready.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let (tls, sender) = (Arc::clone(&tls), sender.clone());
                    let behaviour = behaviour.clone();
                    tokio::spawn(async move {
                        let Ok(accepted) = tls.accept(stream, PATIENCE).await else { return };
                        serve(accepted.stream, behaviour, &sender).await;
                    });
                }
            });
        });
        Self { address: address.recv().unwrap(), events }
    }

    fn is_called_by(&self, scheme: &Scheme) {
        for (kind, path) in [("TRANSFER_POST", "/transfers"), ("QUOTES", "")] {
            let value = format!("https://localhost:{}{path}", self.address.port());
            scheme.admin.set_endpoint("payeefsp", kind, &value);
        }
    }

    fn next(&self) -> Event {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    fn request(&self) -> Received {
        loop {
            if let Event::Request(received) = self.next() {
                return received;
            }
        }
    }
}

async fn serve(stream: TlsStream, behaviour: Behaviour, sender: &SyncSender<Event>) {
    // The test may have ended.
    let _sent = sender.send(Event::Connected);
    let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    match behaviour {
        Behaviour::Http => serve_http(stream, (is_http2, false), sender).await,
        Behaviour::OneRequest => serve_http(stream, (is_http2, true), sender).await,
        Behaviour::Early => serve_early(stream).await,
        Behaviour::Script(script) => serve_script(stream, &script).await,
    }
    let _sent = sender.send(Event::Closed);
}

async fn serve_http(
    stream: TlsStream,
    (is_http2, is_once): (bool, bool),
    sender: &SyncSender<Event>,
) {
    let answered = Arc::new(tokio::sync::Notify::new());
    let service = service_fn(|request: Request<Incoming>| {
        let (answered, sender) = (Arc::clone(&answered), sender.clone());
        async move {
            let (head, body) = request.into_parts();
            let headers = head.headers.iter();
            let headers =
                headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()));
            let received = Received {
                version: head.version,
                method: head.method.to_string(),
                target: head.uri.to_string(),
                headers: headers.collect(),
                body: body.collect().await.unwrap().to_bytes().to_vec(),
            };
            let _sent = sender.send(Event::Request(received));
            answered.notify_one();
            Ok::<_, Infallible>(Response::new(Empty::<bytes::Bytes>::new()))
        }
    });
    if !is_http2 {
        let server = hyper::server::conn::http1::Builder::new();
        let _ended = server.serve_connection(TokioIo::new(stream), service).await;
        return;
    }
    let server = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    let mut serving = std::pin::pin!(server.serve_connection(TokioIo::new(stream), service));
    if is_once {
        tokio::select! {
            _ = &mut serving => return,
            () = answered.notified() => serving.as_mut().graceful_shutdown(),
        }
    }
    let _ended = serving.await;
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
/// `:status: 200` in HPACK.
const STATUS_200: u8 = 0x88;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [.., high, middle, low] = payload.len().to_be_bytes();
    let head = [high, middle, low, kind, flags];
    [&head[..], &stream.to_be_bytes(), payload].concat()
}

/// `SETTINGS` with one value.
fn setting(number: u8, value: u32) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[&[0, number][..], &value.to_be_bytes()].concat())
}

/// Reads frames, after the preface of the connection.
struct Frames {
    stream: TlsStream,
    bytes: BytesMut,
}

impl Frames {
    async fn open(stream: TlsStream, settings: &[u8]) -> Option<Self> {
        let mut frames = Self { stream, bytes: BytesMut::new() };
        frames.write(settings).await?;
        frames.fill(24).await?;
        frames.bytes.advance(24);
        Some(frames)
    }

    async fn fill(&mut self, length: usize) -> Option<()> {
        while self.bytes.len() < length {
            match self.stream.read_buf(&mut self.bytes).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return None,
            }
        }
        Some(())
    }

    async fn write(&mut self, bytes: &[u8]) -> Option<()> {
        self.stream.write_all(bytes).await.ok()?;
        self.stream.flush().await.ok()
    }

    /// The kind and the stream of the next frame; `None` at the end of the connection.
    async fn next(&mut self) -> Option<(u8, u32)> {
        self.fill(9).await?;
        let length = u32::from_be_bytes([0, self.bytes[0], self.bytes[1], self.bytes[2]]);
        let kind = self.bytes[3];
        self.bytes.advance(5);
        let stream = self.bytes.get_u32();
        self.fill(length as usize).await?;
        self.bytes.advance(length as usize);
        Some((kind, stream))
    }
}

async fn serve_script(stream: TlsStream, script: &Script) {
    let Some(mut frames) = Frames::open(stream, &script.settings).await else { return };
    loop {
        match frames.next().await {
            Some((HEADERS, _)) => break,
            Some(_) => {}
            None => return,
        }
    }
    while frames.write(&script.answer).await.is_some() && script.is_repeated {}
    while frames.next().await.is_some() {}
}

async fn serve_early(stream: TlsStream) {
    let Some(mut frames) = Frames::open(stream, &setting(4, 0)).await else { return };
    let mut resets = 0;
    while let Some((kind, stream)) = frames.next().await {
        if kind == HEADERS {
            // The first body may have been sent before the window was known to be closed.
            assert!((stream - 1) / 2 <= resets + 1, "each request before has been reset");
            let answer = frame(HEADERS, END_STREAM | END_HEADERS, stream, &[STATUS_200]);
            frames.write(&answer).await;
        }
        resets += u32::from(kind == RST_STREAM);
    }
}

/// A scheme whose hub trusts the payee's certificate.
fn scheme(pki: &Pki, endpoints: &str) -> Scheme {
    pki.issue("payee", &CertificateRequest::new("payee", &["localhost"], 50));
    Scheme::configured(&format!(
        "[delivery]\nanswer_timeout_ms = 1000\nbackoff_base_ms = 50\nbackoff_max_ms = 100\n\
         [endpoints]\ntls_ca_file = \"{}\"\n{endpoints}",
        pki.path("ca.pem").display()
    ))
}

fn quote() -> Message {
    let party = |fsp: &str| json!({"partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "1", "fspId": fsp}});
    let body = json!({
        "quoteId": uuid(),
        "transactionId": uuid(),
        "payer": party("payerfsp"),
        "payee": party("payeefsp"),
        "amountType": "SEND",
        "amount": {"amount": "10", "currency": "USD"},
        "transactionType":
            {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"},
    });
    let message = Message::new("POST", "/quotes", "payerfsp").to("payeefsp");
    message.body(body.to_string())
}

/// A notice and a forwarded message have the same bytes and the same headers over both protocols,
/// and calls one after another use one connection.
#[test]
fn participants_that_choose_http2_get_the_same_messages() {
    let pki = Pki::new();
    let scheme = scheme(&pki, "");
    let messages = [sign_with(Transfer::of("1").prepare(), "rsa"), sign_with(quote(), "rsa")];
    let received = |payee: &Payee| {
        payee.is_called_by(&scheme);
        messages.clone().map(|message| {
            scheme.send(&message, 202);
            payee.request()
        })
    };
    let second = Payee::start(&pki, &[b"h2", b"http/1.1"], Behaviour::Http);
    let over_http2 = received(&second);
    scheme.wait_until_delivered();
    for (message, received) in messages.iter().zip(&over_http2) {
        assert_eq!((received.version, &*received.body), (Version::HTTP_2, message.bytes()));
        let authority = format!("https://localhost:{}/", second.address.port());
        assert!(received.target.starts_with(&authority), "{}", received.target);
        assert!(!received.headers.contains_key("host"));
    }
    // The transfer is a duplicate now: the hub answers it itself.
    let other = Transfer::of("1");
    let messages = [sign_with(other.prepare(), "rsa"), messages[1].clone()];
    let first = Payee::start(&pki, &[b"http/1.1"], Behaviour::Http);
    first.is_called_by(&scheme);
    for (message, over_http2) in messages.iter().zip(over_http2) {
        scheme.send(message, 202);
        let mut received = first.request();
        assert_eq!((received.version, &*received.body), (Version::HTTP_11, message.bytes()));
        received.headers.remove("host");
        let varying = ["traceparent", "tracestate", "fspiop-signature", "content-length"];
        let fixed = |all: &BTreeMap<String, String>| {
            let mut all = all.clone();
            for name in varying {
                all.get_mut(name).map(String::clear);
            }
            all
        };
        assert_eq!(fixed(&over_http2.headers), fixed(&received.headers));
        assert_eq!(received.headers["content-length"], message.bytes().len().to_string());
    }
    // Notices and forwarded messages after each other.
    second.is_called_by(&scheme);
    for _ in 0..10 {
        scheme.send(&Transfer::of("1").prepare(), 202);
        assert_eq!(second.request().target.rsplit_once('/').unwrap().1, "transfers");
        scheme.send(&quote(), 202);
        assert_eq!(second.request().target.rsplit_once('/').unwrap().1, "quotes");
    }
    scheme.wait_until_delivered();
    assert_eq!(scheme.admin.metric(TIMEOUTS), 0);
    assert_endpoint_answers(&scheme, second.address.port());
    scheme.end();
}

const TIMEOUTS: &str = "upesi_callbacks_failed_total{participant=\"payeefsp\",reason=\"timeout\"}";

/// The test call of an operator is answered.
fn assert_endpoint_answers(scheme: &Scheme, port: u16) {
    let calls = scheme.admin.call("POST", "/participants/payeefsp/endpoints/calls", "").text();
    let each: Vec<serde_json::Value> = serde_json::from_str(&calls).unwrap();
    let address = format!("127.0.0.1:{port}");
    let call = each.iter().find(|call| call["address"] == *address).expect(&calls);
    assert_eq!(call["status"], 200, "{calls}");
}

/// With `http2 = false` nothing is offered, and a server that prefers HTTP/2 uses HTTP/1.1.
#[test]
fn http2_is_not_offered_if_it_is_off() {
    let pki = Pki::new();
    let scheme = scheme(&pki, "http2 = false\n");
    let payee = Payee::start(&pki, &[b"h2", b"http/1.1"], Behaviour::Http);
    payee.is_called_by(&scheme);
    scheme.send(&Transfer::of("1").prepare(), 202);
    assert_eq!(payee.request().version, Version::HTTP_11);
    scheme.end();
}

/// A participant that ends each connection after one request, and one that answers before it reads:
/// both get everything at the first attempt.
#[test]
fn connections_that_end_or_are_answered_early_lose_no_call() {
    const CALLS: usize = 20;
    let pki = Pki::new();
    let scheme = scheme(&pki, "");
    // A request may overtake `GOAWAY`. Two threads call the payee.
    for (behaviour, connections) in [(Behaviour::OneRequest, 2..=CALLS), (Behaviour::Early, 1..=2)]
    {
        let payee = Payee::start(&pki, &[b"h2"], behaviour);
        payee.is_called_by(&scheme);
        for _ in 0..CALLS {
            let transfer = Transfer::of("1");
            scheme.send(&transfer.prepare(), 202);
            assert_eq!(attempts(&scheme, &transfer), 1);
        }
        let events = payee.events.try_iter();
        let connected = events.filter(|event| matches!(event, Event::Connected)).count();
        assert!(connections.contains(&connected), "{connected}");
    }
    scheme.end();
}

/// The attempts of the delivery of a prepare, once one was answered with 200.
fn attempts(scheme: &Scheme, transfer: &Transfer) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let explanation = scheme.admin.explain(&transfer.id);
        let all = ["events", "under_way"].map(|name| explanation[name].as_array().unwrap());
        let mut ended = all.into_iter().flatten().filter(|one| one["last_status"] == 200);
        if let Some(delivery) = ended.next() {
            return delivery["attempts"].as_u64().unwrap();
        }
        assert!(Instant::now() < deadline, "{explanation}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Each fault ends the connection within a limit and has its name in the explanation of the
/// transfer. The notice stays owed until another server takes it.
#[test]
fn participants_that_break_rules_of_http2_are_named() {
    let pki = Pki::new();
    let scheme = scheme(&pki, "");
    let transfer = Transfer::of("1");
    let mut is_sent = false;
    for (name, expected, script) in faults() {
        let payee = Payee::start(&pki, &[b"h2"], Behaviour::Script(script));
        payee.is_called_by(&scheme);
        if !std::mem::replace(&mut is_sent, true) {
            scheme.send(&transfer.prepare(), 202);
        }
        assert!(matches!(payee.next(), Event::Connected), "{name}");
        assert!(matches!(payee.next(), Event::Closed), "{name}");
        let deadline = Instant::now() + PATIENCE;
        loop {
            let explanation = scheme.admin.explain(&transfer.id);
            let text = explanation.to_string();
            if expected.iter().any(|expected| text.contains(expected)) {
                break;
            }
            assert!(Instant::now() < deadline, "{name}: none of {expected:?} in {explanation}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let good = Payee::start(&pki, &[b"h2"], Behaviour::Http);
    good.is_called_by(&scheme);
    assert_eq!(good.request().body, transfer.prepare().bytes());
    scheme.wait_until_delivered();
    scheme.end();
}

/// Servers by their fault, and the failure of the attempt.
fn faults() -> Vec<(&'static str, Vec<&'static str>, Script)> {
    const BROKEN: &str = "the connection broke";
    const SILENT: &str = "no answer in time";
    const MUCH: &str = "HTTP/2: too many frames or too large headers";
    const INVALID: &str = "HTTP/2: an invalid response, or headers over 64 KiB";
    let none = || frame(SETTINGS, 0, 0, &[]);
    let once = |settings, answer| Script { settings, answer, is_repeated: false };
    let flood = |answer| Script { settings: none(), answer, is_repeated: true };
    let filler = |stream: u32, kind, flags| {
        // A header "x" of 15,000 bytes, without indexing.
        let field = [&[0, 1, b'x', 0x7f, 0x99, 0x74][..], &[b'y'; 15_000]].concat();
        let first = if kind == HEADERS { &[STATUS_200][..] } else { &[] };
        frame(kind, flags, stream, &[first, &field].concat())
    };
    let middle = filler(1, CONTINUATION, 0).repeat(3);
    let large = [filler(1, HEADERS, 0), middle, filler(1, CONTINUATION, END_HEADERS)].concat();
    let no_status = frame(HEADERS, END_STREAM | END_HEADERS, 1, &[0, 1, b'x', 1, b'y']);
    vec![
        (
            "text",
            vec!["HTTP/2: an invalid frame"],
            once(none(), b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        ),
        ("PING", vec![MUCH], flood(frame(PING, 0, 0, &[0; 8]).repeat(100))),
        ("no window", vec![SILENT], once(setting(4, 0), Vec::new())),
        ("SETTINGS", vec![MUCH], flood(none().repeat(100))),
        ("large headers", vec![INVALID], once(none(), large)),
        ("refusal", vec![BROKEN], once(none(), frame(RST_STREAM, 0, 1, &7_u32.to_be_bytes()))),
        ("no status", vec![INVALID], once(none(), no_status)),
        ("GOAWAY", vec![BROKEN], once(none(), frame(GOAWAY, 0, 0, &[0; 8]))),
        ("unknown frames", vec![MUCH], flood(frame(0x77, 0, 0, b"upesi").repeat(100))),
        (
            "no requests",
            vec![SILENT, "HTTP/2: the other side allows no requests"],
            once(setting(3, 0), Vec::new()),
        ),
    ]
}

/// A server of Node.js that speaks only HTTP/2 receives notices and forwarded messages.
#[cfg(feature = "real-receivers")]
#[test]
fn a_server_of_node_receives_messages() {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    let pki = Pki::new();
    let scheme = scheme(&pki, "");
    let files = json!({ "key": pki.path("payee.key"), "cert": pki.path("payee.pem") });
    let mut node = Command::new("node")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/receivers/http2.mjs"))
        .arg(files.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, lines) = sync_channel(100);
    let output = BufReader::new(node.stdout.take().unwrap());
    std::thread::spawn(move || output.lines().try_for_each(|line| sender.send(line.unwrap())));
    let port: u16 = lines.recv_timeout(PATIENCE).unwrap().parse().unwrap();
    let value = |path: &str| format!("https://localhost:{port}{path}");
    scheme.admin.set_endpoint("payeefsp", "TRANSFER_POST", &value("/transfers"));
    scheme.admin.set_endpoint("payeefsp", "QUOTES", &value(""));
    for _ in 0..10 {
        for (path, message) in [("/transfers", Transfer::of("1").prepare()), ("/quotes", quote())] {
            scheme.send(&message, 202);
            let line = lines.recv_timeout(PATIENCE).unwrap();
            let received: serde_json::Value = serde_json::from_str(&line).unwrap();
            assert_eq!(received["body"].as_str().unwrap().as_bytes(), message.bytes());
            let headers = &received["headers"];
            assert_eq!([&headers[":path"], &headers["fspiop-source"]], [path, "payerfsp"]);
            assert_eq!(headers[":authority"], format!("localhost:{port}"));
        }
    }
    assert_endpoint_answers(&scheme, port);
    scheme.wait_until_delivered();
    scheme.end();
    drop(node.stdin.take());
    assert!(node.wait().unwrap().success());
}
