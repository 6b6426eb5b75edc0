//! External oracles that do not answer, or answer with something else.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::json;
use testkit::http::{Connection, Headers, Response};
use testkit::server::{Reply, Server};

use crate::support::fsp::serve;
use crate::support::message::{Message, uuid};
use crate::support::scheme::Scheme;

const LOOK_UPS: u64 = 10_000;
/// Calls in flight per thread; the switch has two threads.
const CALLS_MAX: u64 = 1_000;

/// Of 10,000 look-ups at an oracle that never answers, the limit is in flight and the others are
/// refused at once. A look-up in the hub's own directory is still served.
#[test]
fn a_dead_oracle_leaves_other_look_ups_alone() {
    let scheme = Scheme::configured("[oracles]\nanswer_timeout_ms = 60000\n");
    let oracle = serve(|_| Reply::Silence);
    let body = json!({
        "oracleIdType": "MSISDN",
        "endpoint": {"value": format!("http://{}", oracle.address()), "endpointType": "URL"},
    });
    scheme.admin.must("POST", "/oracles", &body.to_string(), 201);
    let path = "/participants/ACCOUNT_ID/77";
    scheme.send(&Message::new("POST", path, "payeefsp").body(r#"{"fspId":"payeefsp"}"#), 202);
    assert_eq!(scheme.payee.take(1)[0].path, path);

    // One thread serves a connection. Several connections reach both.
    let open = |_| Connection::open(scheme.switch.fspiop).unwrap();
    let mut connections: Vec<_> = (0..8).map(open).collect();
    let (mut accepted, mut refused) = (0, 0);
    for number in 0..LOOK_UPS {
        let at = number as usize % connections.len();
        let message = Message::new("GET", &format!("/parties/MSISDN/{number}"), "payerfsp");
        match connections[at].exchange(&message.render()).unwrap().status {
            202 => accepted += 1,
            503 => refused += 1,
            status => panic!("{status}"),
        }
    }
    assert_eq!(accepted + refused, LOOK_UPS);
    assert!((1..=2 * CALLS_MAX).contains(&accepted), "{accepted} are in flight");
    assert_eq!(scheme.admin.metric("upesi_oracle_calls_refused_total"), refused);
    assert!(0 < scheme.admin.metric("upesi_oracle_calls_total"));

    for connection in &mut connections {
        let message = Message::new("GET", "/parties/ACCOUNT_ID/77", "payerfsp");
        assert_eq!(connection.exchange(&message.render()).unwrap().status, 202);
    }
    let served = scheme.payee.take(connections.len());
    assert!(served.iter().all(|call| call.path == "/parties/ACCOUNT_ID/77"));
    scheme.switch.kill();
}

/// A scheme whose oracle for ALIAS answers as it is ordered.
struct Outside {
    scheme: Scheme,
    answer: Arc<Mutex<Response>>,
    oracle: Server,
}

impl Outside {
    fn start() -> Self {
        let settings = "[oracles]\nanswer_timeout_ms = 1000\nnegative_cache_seconds = 0\n";
        let scheme = Scheme::configured(settings);
        let answer = Arc::new(Mutex::new(Response::of(500)));
        let ordered = Arc::clone(&answer);
        let oracle = serve(move |_| Reply::Response(ordered.lock().unwrap().clone()));
        let outside = Self { scheme, answer, oracle };
        outside.register("ALIAS", outside.oracle.address());
        outside
    }

    fn register(&self, id_type: &str, address: SocketAddr) {
        let body = json!({
            "oracleIdType": id_type,
            "endpoint": {"value": format!("http://{address}"), "endpointType": "URL"},
        });
        self.scheme.admin.must("POST", "/oracles", &body.to_string(), 201);
    }

    fn answers(&self, body: &str) {
        *self.answer.lock().unwrap() = Response { body: body.into(), ..Response::of(200) };
    }

    /// Looks a party up, with a query. Returns code and description of the error.
    fn refused(&self, id_type: &str, query: &str) -> String {
        let path = format!("/parties/{id_type}/{}", uuid());
        self.scheme.send(&Message::new("GET", &format!("{path}{query}"), "payerfsp"), 202);
        let callback = self.scheme.payer.take(1).remove(0);
        assert_eq!(callback.path, format!("{path}/error"), "{callback:?}");
        let error = &callback.json()["errorInformation"];
        ["errorCode", "errorDescription"].map(|it| error[it].as_str().unwrap()).join(" ")
    }

    /// No answer led to a participant, and a good one does.
    fn end(self) {
        assert_eq!(self.scheme.payee.take(0), []);
        self.answers(&list(r#"{"fspId":"payeefsp"}"#));
        self.scheme.send(&Message::new("GET", "/parties/ALIAS/good", "payerfsp"), 202);
        assert_eq!(self.scheme.payee.take(1)[0].path, "/parties/ALIAS/good");
        self.scheme.switch.kill();
    }
}

fn list(entries: &str) -> String {
    format!(r#"{{"partyList":[{entries}]}}"#)
}

/// A server outside answers whatever it wants. Each answer ends one look-up with an error callback.
#[test]
fn hostile_answers_of_an_oracle_end_in_an_error() {
    let outside = Outside::start();
    let many = |count: usize| list(&vec![r#"{"fspId":"payeefsp"}"#; count].join(","));
    let form = "it is not a JSON object with a partyList";
    let invalid = "the oracle's answer is invalid: ";
    let long = "it is longer than 65536 bytes";
    for (name, body, expected) in [
        ("empty", String::new(), form),
        ("text", "<html>".to_owned(), form),
        ("list", "[]".to_owned(), form),
        ("number", r#"{"partyList":7}"#.to_owned(), form),
        ("object", r#"{"partyList":{"fspId":"payeefsp"}}"#.to_owned(), form),
        ("null", list("null"), form),
        ("number as name", list(r#"{"fspId":7}"#), form),
        ("name twice", list(r#"{"fspId":"payeefsp","fspId":"otherfsp"}"#), form),
        ("deep", "[".repeat(60_000), form),
        ("deep entry", format!(r#"{{"partyList":{}"#, "[".repeat(60_000)), form),
        ("cut", r#"{"partyList":[{"fspId":"payeefsp"}"#.to_owned(), form),
        ("two objects", list("") + &list(""), form),
        ("half a surrogate", list(r#"{"fspId":"\ud800"}"#), form),
        ("currency", list(r#"{"fspId":"payeefsp","currency":"usd"}"#), "ISO 4217"),
        ("long name", list(&format!(r#"{{"fspId":"{}"}}"#, "x".repeat(33))), "1 to 32 characters"),
        ("many", many(65), "its partyList has too many entries"),
        ("many known", many(17), "it names too many FSPs"),
        ("huge", list(&format!(r#"{{"fspId":"{}"}}"#, "x".repeat(2 << 20))), long),
        ("a byte too long", " ".repeat((64 << 10) - 15) + &list(""), long),
        ("long enough", " ".repeat((64 << 10) - 20) + &list("null"), form),
    ] {
        outside.answers(&body);
        let text = outside.refused("ALIAS", "");
        assert!(text.starts_with("1001 ") && text.contains(expected), "{name}: {text}");
        assert!(text.contains(invalid), "{name}: {text}");
    }
    outside.end();
}

/// Neither a redirect nor an unsuitable FSP is called.
#[test]
fn oracle_cannot_choose_what_the_hub_calls() {
    let outside = Outside::start();
    for to in ["http://169.254.169.254/latest/meta-data", "http://127.0.0.1:1/"] {
        let location = ("location".to_owned(), to.to_owned());
        let redirect = Response { headers: Headers(vec![location]), ..Response::of(302) };
        *outside.answer.lock().unwrap() = redirect;
        let text = outside.refused("ALIAS", "");
        assert!(text.starts_with("1001 ") && text.contains("the oracle answered 302"), "{text}");
    }
    for (entry, query) in [
        (r#"{"fspId":"unknown"}"#, ""),
        (r#"{"fspId":"http://169.254.169.254/"}"#, ""),
        (r#"{"fspId":"payeefsp","currency":"EUR"}"#, "?currency=USD"),
        (r#"{"fspId":"payeefsp","partySubIdOrType":"TILL"}"#, ""),
    ] {
        outside.answers(&list(entry));
        let text = outside.refused("ALIAS", query);
        assert!(text.starts_with("3204 "), "{entry}: {text}");
    }
    outside.end();
}

/// Bytes without an end, one at a time, take no longer than the time limit of an answer.
#[test]
fn slow_answer_of_an_oracle_ends_at_its_time_limit() {
    let outside = Outside::start();
    outside.register("BUSINESS", drip());
    let began = Instant::now();
    let text = outside.refused("BUSINESS", "");
    assert!(text.starts_with("1001 ") && text.contains("is not answering"), "{text}");
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    outside.end();
}

/// A server that reads a request, sends the head of an answer, then a byte of its body every 50 ms.
/// Its threads end when the hub has closed the connection.
fn drip() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // An answer without a request would end the connection.
        let read = stream.read(&mut [0; 4_096]).unwrap();
        assert_ne!(read, 0, "the hub sends a request");
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                    content-length: 100000\r\n\r\n";
        let mut sent = stream.write_all(head.as_bytes());
        while sent.is_ok() {
            std::thread::sleep(Duration::from_millis(50));
            sent = stream.write_all(b" ");
        }
    });
    address
}
