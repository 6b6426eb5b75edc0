//! The ports of a process: slow or many clients, HTTP/2, and addresses that must not be called
//! (docs/internals/edge.md). Tests without a process are in `switch/src/tests`.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustix::process::Signal;
use serde_json::json;
use testkit::http::{Connection, Headers, Response};
use testkit::server::Reply;

use crate::support::message::{CONDITION, Message, Transfer, date_time, uuid};
use crate::support::scheme::{Admin, Scheme};
use crate::support::switch::{Printed, files};

const HEALTH: &str = "GET /health HTTP/1.1\r\nhost: hub\r\n\r\n";
/// The refusal of a request that is not HTTP.
const REFUSED: &[&str] = &["400 3101"];

/// Status and code of a response: `400 3101`, or the status alone.
fn line(answer: &Response) -> String {
    let body = serde_json::from_slice::<serde_json::Value>(&answer.body).unwrap_or_default();
    let code = body["errorInformation"]["errorCode"].as_str();
    [Some(&*answer.status.to_string()), code].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// All responses until the hub closes the connection.
fn rest(connection: &mut Connection) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(answer) = connection.read_response().expect("whole answers") {
        lines.push(line(&answer));
    }
    lines
}

/// Writes all bytes, closes the writing side, and reads to the end.
fn converse(address: SocketAddr, bytes: &[u8]) -> Vec<String> {
    let mut connection = Connection::open(address).expect("a connection");
    connection.write(bytes).expect("it is read");
    connection.stream.shutdown(Shutdown::Write).expect("it is open");
    rest(&mut connection)
}

/// A valid prepare with one text replaced.
fn prepare(from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(Transfer::of("1").prepare().render()).expect("text");
    assert!(text.contains(from), "{from}");
    text.replacen(from, to, 1).into_bytes()
}

/// Credentials are neither sent to a recipient nor written to any file or log message of the switch,
/// and no response repeats them.
#[test]
fn caller_identifying_headers_are_neither_forwarded_nor_stored() {
    const NAMES: [&str; 14] = [
        "authorization",
        "cookie",
        "x-client-id",
        "x-forwarded-for",
        "x-real-ip",
        "forwarded",
        "via",
        "x-authorization",
        "x-consumer-id",
        "x_forwarded_for",
        "proxy_authorization",
        "x.real.ip",
        "x-http-method-override",
        "x-original-url",
    ];
    const SECRET: &str = "not-to-be-kept";
    let scheme = Scheme::configured(
        "gateways = [\"192.0.2.0/24\"]\n[logging]\nlevel = \"trace\"\naccess = true\n",
    );
    let marked = |message: Message| {
        let message = NAMES.iter().fold(message, |message, name| message.also(name, SECRET));
        message.also("connection", "fspiop-source, x-client-id")
    };
    let transfer = Transfer::of("1");
    scheme.send(&marked(transfer.prepare()), 202);
    scheme.wait_until_delivered();
    scheme.send(&marked(transfer.fulfil("COMMITTED")), 200);
    let party = "/participants/MSISDN/254700000001";
    let registration = Message::new("POST", party, "payeefsp").body(r#"{"fspId":"payeefsp"}"#);
    scheme.send(&marked(registration), 202);
    let batch = r#"{"requestId":"b51ec534-ee48-4575-b6a9-ead2955b8069","partyList":[
        {"partyIdType":"MSISDN","partyIdentifier":"254700000002","fspId":"payeefsp"}]}"#;
    scheme.send(&marked(Message::new("POST", "/participants", "payeefsp").body(batch)), 200);
    scheme.send(&marked(Message::new("DELETE", party, "payeefsp")), 202);
    let look_up = Message::new("GET", "/parties/MSISDN/254700000002", "payerfsp");
    scheme.send(&marked(look_up), 202);
    scheme.wait_until_delivered();
    let received = [scheme.payer.take(1), scheme.payee.take(6)].concat();
    assert!(received.iter().all(|callback| !callback.header("fspiop-source").is_empty()));
    for name in NAMES {
        assert!(received.iter().all(|callback| !callback.headers.has(name)), "{name}");
    }
    let token = scheme.home.token();
    let refused = [
        scheme.ask(&marked(Message::new("GET", "/transfers/%0a", "payerfsp"))),
        scheme.ask(&marked(transfer.prepare()).with("content-encoding", SECRET)),
        scheme.ask(&marked(transfer.prepare()).also("authorization", &token)),
        guess(&scheme, &format!("authorization: Bearer {SECRET}\r\n")),
        guess(&scheme, &format!("authorization: {token}\r\nauthorization: {SECRET}\r\n")),
    ];
    for answer in refused {
        assert!(400 <= answer.status && !answer.text().contains(SECRET), "{}", answer.text());
    }
    let messages = scheme.switch.wait_for_messages("code=3101", 3);
    assert!(messages.contains(" access: ") && messages.contains(" audit: "), "{messages}");
    for secret in [SECRET, &token] {
        assert!(!messages.contains(secret), "{messages}");
    }
    // The store may remove a file after a compaction.
    let data = files(&scheme.home.data()).into_iter().filter_map(|file| std::fs::read(file).ok());
    let data: Vec<Vec<u8>> = data.collect();
    let is_kept = |text: &str| {
        let mut places = data.iter().flat_map(|bytes| bytes.windows(text.len()));
        places.any(|part| part == text.as_bytes())
    };
    assert_eq!((is_kept(SECRET), is_kept("254700000002")), (false, true));
    scheme.switch.stop_after_refused_tokens(Signal::TERM);
}

/// A change on the admin port with these headers.
fn guess(scheme: &Scheme, headers: &str) -> Response {
    let body = "{\"isActive\":true}";
    let request = format!(
        "PUT /participants/Hub HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {}\r\n\r\n{body}",
        body.len()
    );
    Connection::open(scheme.switch.admin).unwrap().exchange(request.as_bytes()).unwrap()
}

#[test]
fn slow_clients_time_out() {
    let times = "header_timeout_ms = 250\nbody_timeout_ms = 250\nidle_timeout_ms = 500\n";
    let scheme = Scheme::configured(times);
    let before = scheme.admin.state();
    let request = prepare("", "");
    let open = |bytes: &[u8]| {
        let mut connection = Connection::open(scheme.switch.fspiop).expect("a connection");
        connection.write(bytes).expect("it is read");
        connection
    };
    let half = HEALTH.len() / 2;
    let mut silent = open(b"");
    let mut head = open(&HEALTH.as_bytes()[..half]);
    let mut second = open([HEALTH.as_bytes(), &HEALTH.as_bytes()[..half]].concat().as_slice());
    let mut body = open(&request[..request.len() - 1]);
    let mut preface = open(b"PRI * HTTP/2.0\r\n");
    let mut kept = open(HEALTH.as_bytes());
    // Single bytes at intervals do not extend the timeout.
    let mut dribble = open(b"GET /");
    let mut bytes = 0;
    while dribble.stream.write_all(b"x").is_ok() && bytes < 10_000 {
        dribble.stream.set_read_timeout(Some(Duration::from_millis(10))).expect("a time");
        bytes += 1;
        if dribble.stream.peek(&mut [0]).is_ok() {
            break;
        }
    }
    assert_eq!(rest(&mut dribble), ["408 3000"]);
    assert_eq!(rest(&mut silent), [""; 0]);
    assert_eq!(rest(&mut head), ["408 3000"]);
    assert!(matches!(&*rest(&mut second), [first, ..] if first == "200"));
    assert_eq!(rest(&mut preface), REFUSED);
    assert_eq!(rest(&mut kept), ["200"]);
    let answer = body.read_response().expect("an answer").expect("an answer");
    assert_eq!(line(&answer), "408 3000");
    // Also over HTTP/2.
    let mut stream = TcpStream::connect(scheme.switch.fspiop).expect("a connection");
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").expect("it is read");
    let mut frames = Vec::new();
    stream.read_to_end(&mut frames).expect("an end");
    assert!(frames.windows(2).any(|pair| pair == [0x07, 0]), "it was told to leave: {frames:?}");
    assert_eq!(scheme.admin.state(), before);
    scheme.end();
}

/// More connections than the limit, of each kind of silence: nothing sent, half a head, half a
/// body, nothing after a response. Each new client is still answered.
#[test]
fn silent_connections_from_one_address_make_room_for_new_ones() {
    let scheme = Scheme::configured("connections_per_address_max = 4\n");
    let half = Transfer::of("1").prepare().render();
    let half = &half[..half.len() - 9];
    let mut silent = Vec::new();
    for sent in [&b""[..], b"GET /hea", half, HEALTH.as_bytes()] {
        for _ in 0..20 {
            let mut connection = Connection::open(scheme.switch.fspiop).expect("a connection");
            connection.write(sent).expect("it is read");
            if sent == HEALTH.as_bytes() {
                let answer = connection.read_response().expect("an answer").expect("an answer");
                assert_eq!(answer.status, 200);
            }
            silent.push(connection);
        }
        // Silent connections that another thread has accepted before may reach the helper thread
        // after a new one, and evict it before its request was read.
        let answer = (0..3).find_map(|_| {
            let mut new = Connection::open(scheme.switch.fspiop).expect("a connection");
            new.exchange(HEALTH.as_bytes()).ok()
        });
        assert_eq!(answer.map(|answer| answer.status), Some(200));
    }
    let evicted = scheme.admin.metric("upesi_connections_evicted_total");
    assert!(60 <= evicted, "two threads with four places each: {evicted}");
    assert_eq!(scheme.admin.metric("upesi_connections_refused_total"), 0);
    drop(silent);
    scheme.end();
}

/// The rate of one participant bounds it alone, over all its connections. A refused request has no
/// effect: it can be sent again.
#[test]
fn participant_beyond_its_rate_is_refused_and_others_are_not() {
    let scheme = Scheme::configured("participant_rate_max = 5\n");
    let transfers: Vec<_> = (0..20).map(|_| Transfer::of("1")).collect();
    let answers = transfers.iter().map(|transfer| scheme.ask(&transfer.prepare()));
    let answers: Vec<_> = answers.collect();
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(!refused.is_empty() && refused.len() <= 15, "{} refused", refused.len());
    for answer in &refused {
        assert_eq!(answer.headers.get("retry-after"), Some("1"));
        assert!(answer.text().contains("\"2003\""), "{}", answer.text());
        assert!(answer.text().contains("5 requests per second"), "{}", answer.text());
    }
    assert_eq!(scheme.admin.metric("upesi_requests_limited_total"), refused.len() as u64);
    scheme.send(&Transfer::of("1").get("otherfsp"), 202);

    let late = answers.iter().position(|answer| answer.status == 429).expect("one was refused");
    let deadline = Instant::now() + Duration::from_secs(20);
    while scheme.ask(&transfers[late].prepare()).status != 202 {
        assert!(Instant::now() < deadline, "it is accepted within a second");
    }
    scheme.end();
}

/// Refused requests of an address wait for each other, and accepted ones do not.
#[test]
fn refused_requests_beyond_the_rate_are_answered_slowly() {
    let scheme = Scheme::configured("refusals_per_address = 5\n");
    let unknown = Message::new("GET", "/nothing", "payerfsp");
    let begun = Instant::now();
    let mut connection = Connection::open(scheme.switch.fspiop).expect("a connection");
    for _ in 0..24 {
        assert_eq!(connection.exchange(&unknown.render()).expect("a response").status, 404);
    }
    assert!(Duration::from_secs(2) <= begun.elapsed(), "{:?}", begun.elapsed());
    let delayed = scheme.admin.metric("upesi_refusals_delayed_total");
    assert!(2 <= delayed, "{delayed}");
    (0..24).for_each(|_| scheme.send(&Transfer::of("1").get("otherfsp"), 202));
    assert_eq!(scheme.admin.metric("upesi_refusals_delayed_total"), delayed);
    scheme.end();
}

/// A participant cannot send more work in large bodies, or in bulk transfers, than its rate allows.
#[test]
fn large_bodies_and_bulk_transfers_count_as_several_requests() {
    let scheme = Scheme::configured("participant_rate_max = 5\n");
    let next = |fsp: &str| scheme.ask(&Transfer::of("1").get(fsp)).status;
    let large = Message::new("POST", "/quotes", "payerfsp").to("payeefsp");
    assert_eq!(scheme.ask(&large.body(" ".repeat(40 << 10))).status, 400);
    assert_eq!(next("payerfsp"), 429, "ten requests");

    let item = |number: u32| {
        let amount = json!({"amount": number.to_string(), "currency": "USD"});
        json!({"transferId": uuid(), "transferAmount": amount, "ilpPacket": "AQ",
               "condition": CONDITION})
    };
    let body = json!({
        "bulkTransferId": uuid(), "bulkQuoteId": uuid(), "payerFsp": "otherfsp",
        "payeeFsp": "payeefsp", "expiration": date_time(60_000),
        "individualTransfers": (1..=10).map(item).collect::<Vec<_>>(),
    });
    let bulk = Message::new("POST", "/bulkTransfers", "otherfsp").to("payeefsp");
    assert_eq!(scheme.ask(&bulk.body(body.to_string())).status, 202);
    assert_eq!(next("otherfsp"), 429, "ten transfers");
    scheme.end();
}

#[tokio::test(flavor = "current_thread")]
async fn http2_by_prior_knowledge() {
    let scheme = Scheme::start();
    let stream = tokio::net::TcpStream::connect(scheme.switch.fspiop).await.expect("a connection");
    let connecting =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
    let (mut sender, connection) = connecting.await.expect("HTTP/2");
    let driving = tokio::spawn(connection);
    let request = |method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]| {
        let mut request = Request::builder().method(method).uri(format!("http://hub{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Full::new(Bytes::copy_from_slice(body))).expect("a request")
    };
    let media = "application/vnd.interoperability.transfers+json;version=1.1";
    let headers = [
        ("accept", media),
        ("content-type", media),
        ("date", "Tue, 15 Nov 1994 08:12:31 GMT"),
        ("fspiop-source", "payerfsp"),
    ];
    let huge = "x".repeat(60 * 1024);
    let transfers: Vec<_> = (0..50).map(|_| Transfer::of("1").prepare()).collect();
    let mut waiting = Vec::new();
    for transfer in &transfers {
        let request = request("POST", "/transfers", &headers, transfer.bytes());
        waiting.push((202, sender.send_request(request)));
    }
    let long = vec![b' '; 129 * 1024];
    let lines = [("x", "y"); 101];
    for (status, request) in [
        (200, request("GET", "/health", &[], b"")),
        (200, request("GET", "/health", &lines[..100], b"")),
        (431, request("GET", "/health", &lines, b"")),
        (404, request("GET", "/nothing", &[], b"")),
        (400, request("POST", "/transfers", &headers[1..], transfers[0].bytes())),
        (400, request("POST", "/transfers", &headers, &long)),
        (431, request("GET", "/health", &[("x", &huge), ("y", &huge)], b"")),
    ] {
        waiting.push((status, sender.send_request(request)));
    }
    for (at, (status, answer)) in waiting.into_iter().enumerate() {
        let answer = answer.await.expect("an answer");
        assert_eq!(answer.status().as_u16(), status, "request {at}");
        answer.into_body().collect().await.expect("a body");
    }
    drop(sender);
    driving.await.expect("no panic").expect("an orderly end");
    scheme.wait_until_delivered();
    let received = scheme.payee.take(transfers.len());
    let bodies: Vec<_> = received.iter().map(|callback| &callback.body[..]).collect();
    assert!(transfers.iter().all(|transfer| bodies.contains(&transfer.bytes())));
    scheme.end();
}

#[test]
fn http2_reset_flood_ends_the_connection() {
    let scheme = Scheme::start();
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in (1..4_000u32).step_by(2) {
        // GET http /, then CANCEL.
        flood.extend(
            [0, 0, 3, 1, 5].into_iter().chain(stream.to_be_bytes()).chain(*b"\x82\x86\x84"),
        );
        flood.extend([0, 0, 4, 3, 0].into_iter().chain(stream.to_be_bytes()).chain([0, 0, 0, 8]));
    }
    let mut stream = TcpStream::connect(scheme.switch.fspiop).expect("a connection");
    // The hub closes the connection before it has read everything.
    let _written = stream.write_all(&flood);
    let mut frames = Vec::new();
    let _ended = stream.read_to_end(&mut frames);
    let calm = [0, 0, 0, 11];
    assert!(frames.windows(4).any(|code| code == calm), "told to calm down: {frames:?}");
    assert_eq!(converse(scheme.switch.fspiop, HEALTH.as_bytes()), ["200"]);
    scheme.end();
}

#[test]
fn hop_by_hop_headers_are_not_forwarded_even_after_a_restart() {
    let scheme = Scheme::start();
    let refuse: fn(&_) -> Reply = |_| Reply::Status(503);
    scheme.payee.answer(refuse);
    let hops = [
        ("connection", "keep-alive, X-Secret, fspiop-source"),
        ("x-secret", "1"),
        ("keep-alive", "timeout=5"),
        ("te", "trailers"),
        ("proxy-authorization", "Basic eA=="),
        ("upgrade", "websocket"),
    ];
    let transfer = Transfer::of("1");
    let message =
        hops.iter().fold(transfer.prepare(), |message, (name, value)| message.with(name, value));
    scheme.send(&message.with("x-kept", "1"), 202);
    let first = scheme.payee.wait("POST", "/transfers");
    let Scheme { switch, home, admin, payee, .. } = scheme;
    let ports = switch.ports();
    switch.kill();
    payee.answer(|_| Reply::Accept);
    payee.take(1);
    let switch = home.serve_on(ports);
    let again = payee.wait("POST", "/transfers");
    for callback in [&first, &again] {
        assert_eq!(callback.header("x-kept"), "1");
        assert_eq!(callback.header("fspiop-source"), "payerfsp");
        for (name, _) in hops {
            assert!(!callback.headers.has(name), "{name}: {callback:?}");
        }
    }
    drop(admin);
    switch.stop(Signal::TERM);
}

#[test]
fn only_allowed_addresses_are_called() {
    let scheme = Scheme::configured(
        "[delivery]\nhorizon_seconds = 1\nbackoff_base_ms = 2500\n[endpoints]\nnetworks = [\"127.0.0.1\", \"169.254.0.0/16\"]\n",
    );
    // A name is judged by the address that it resolves to when it is called: here 127.0.0.2.
    let address = format!("http://127.2:{}", scheme.payee.address().port());
    for (kind, path) in [("PARTIES_GET", "/parties"), ("TRANSFER_POST", "/transfers")] {
        scheme.admin.set_endpoint("payeefsp", kind, &format!("{address}{path}"));
    }
    let question = Message::new("GET", "/parties/MSISDN/1", "payerfsp").to("payeefsp");
    scheme.send(&question, 202);
    let received = scheme.payer.take(1).remove(0);
    assert_eq!(received.json()["errorInformation"]["errorCode"], "1001");
    scheme.send(&Transfer::of("1").prepare(), 202);
    scheme.admin.wait_for("upesi_dead_letters", |dead| dead == 1);
    assert_eq!(scheme.admin.metric("upesi_calls_denied_total"), 2);
    assert_eq!(scheme.payee.take(0), []);
    // A redirect is a failure, and is not followed.
    scheme.admin.set_endpoint(
        "payeefsp",
        "PARTIES_GET",
        &format!(
            "http://{}/parties/{{{{partyIdType}}}}/{{{{partyIdentifier}}}}",
            scheme.payee.address()
        ),
    );
    scheme.payee.answer(|_| {
        let location = ("location".to_owned(), "/elsewhere".to_owned());
        Reply::Response(Response { headers: Headers(vec![location]), ..Response::of(307) })
    });
    scheme.send(&question, 202);
    let received = scheme.payer.take(1).remove(0);
    assert_eq!(received.json()["errorInformation"]["errorCode"], "1001");
    let calls: Vec<_> = scheme.payee.take(1).into_iter().map(|call| call.path).collect();
    assert_eq!(calls, ["/parties/MSISDN/1"]);
    scheme.switch.signal(Signal::TERM);
    let (status, output_text) = scheme.switch.end();
    assert!(status.success() && output_text.contains("127.2:"), "{output_text}");
}

/// With `endpoints.https_only`, an endpoint without TLS is neither registered nor called.
#[test]
fn plain_endpoints_are_called_only_where_they_are_allowed() {
    let scheme = Scheme::start();
    let question = Message::new("GET", "/parties/MSISDN/1", "payerfsp").to("payeefsp");
    scheme.send(&question, 202);
    assert_eq!(scheme.payee.take(1)[0].path, "/parties/MSISDN/1");
    let Scheme { switch, home, payee, other, .. } = scheme;
    switch.stop(Signal::TERM);
    let configuration = fs::read_to_string(home.configuration()).unwrap();
    let only = format!("{configuration}\n[endpoints]\nhttps_only = true\n");
    fs::write(home.configuration(), only).unwrap();

    let switch = home.serve();
    let admin = Admin::new(&home, &switch);
    let plain = format!("http://{}", other.address());
    for (path, body) in [
        (
            "/participants/payeefsp/endpoints",
            json!({"type": "FSPIOP_CALLBACK_URL_PARTIES_GET", "value": plain}),
        ),
        (
            "/oracles",
            json!({
                "oracleIdType": "MSISDN",
                "endpoint": {"value": plain, "endpointType": "URL"},
            }),
        ),
    ] {
        let refused = admin.call("POST", path, &body.to_string());
        assert_eq!(refused.status, 400, "{path}");
        let text = String::from_utf8_lossy(&refused.body).into_owned();
        let expected = "must begin with https:// (endpoints.https_only)";
        assert!(text.contains("\"3100\"") && text.contains(expected), "{path}: {text}");
    }
    let asked = Connection::open(switch.fspiop).unwrap().exchange(&question.render()).unwrap();
    assert_eq!(asked.status, 202);
    admin.wait_for("upesi_calls_denied_total", |denied| denied == 2);
    assert_eq!(payee.take(0), []);
    switch.signal(Signal::TERM);
    let (status, output_text) = switch.end();
    assert!(status.success() && output_text.contains("endpoints.https_only"), "{output_text}");
}

#[test]
fn invalid_network_is_refused_at_start() {
    let home =
        crate::support::switch::Home::configured("[endpoints]\nnetworks = [\"10.0.0.0/33\"]\n");
    let output_text = home.serve_in_vain(crate::support::switch::Ports::free()).err();
    assert!(output_text.contains("\"10.0.0.0/33\" is not a network"), "{output_text}");
}

/// The answer to a registration is given up, recorded and counted. It is no dead letter, and a
/// restart does not send it again.
#[test]
fn refused_answer_to_a_registration_is_recorded_and_counted() {
    let scheme = Scheme::start();
    scheme.payee.answer(|_| Reply::Status(501));
    let body = r#"{"fspId":"payeefsp"}"#;
    let registration = Message::new("POST", "/participants/MSISDN/1", "payeefsp").body(body);
    scheme.send(&registration, 202);
    scheme.admin.wait_for("upesi_notices_given_up_total", |count| count == 1);
    assert_eq!(scheme.admin.metric("upesi_dead_letters"), 0);
    assert_eq!(scheme.admin.metric("upesi_notices_owed"), 0);
    assert_eq!(scheme.payee.take(1)[0].path, "/participants/MSISDN/1");
    let Scheme { switch, home, payee, .. } = scheme;
    let ports = switch.ports();
    switch.stop(Signal::TERM);
    payee.answer(|_| Reply::Accept);
    let switch = home.serve_on(ports);
    let admin = Admin::new(&home, &switch);
    assert_eq!(admin.metric("upesi_notices_owed"), 0);
    assert_eq!(admin.json("/undeliverable"), serde_json::json!([]));
    assert!(payee.take(0).is_empty());
    switch.stop(Signal::TERM);
}
