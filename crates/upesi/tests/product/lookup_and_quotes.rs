//! Look-ups with participants that close connections and answer at unusual times, quotes that a rule
//! sends to another FSP, and providers of conversions. Other behaviour of look-ups and quotes is in the golden conversations (`parties`, `participants`, `quotes`,
//! `delivery`).

use std::io::{Read, Write};
use std::net::TcpListener;

use serde_json::json;
use testkit::server::Reply;

use crate::support::message::{Message, uuid};
use crate::support::scheme::Scheme;
use crate::support::switch::Home;

fn ask(method: &str, path: &str) -> Message {
    Message::new(method, path, "payerfsp")
}

/// A connection may be closed just when it is reused. Only the hub retries a look-up.
#[test]
fn participant_that_closes_each_connection_receives_everything() {
    const LOOK_UPS: usize = 200;
    let scheme = Scheme::start();
    scheme.payee.answer(|_| Reply::HangUp);
    for number in 0..LOOK_UPS {
        let question = ask("GET", &format!("/parties/MSISDN/{number}")).to("payeefsp");
        scheme.send(&question, 202);
        scheme.payee.wait("GET", &format!("/parties/MSISDN/{number}"));
    }
    scheme.payer.take(0);
}

/// A response before the end of the request does not abort the request.
#[test]
fn participant_that_answers_early_receives_the_whole_body() {
    const ANSWER: usize = 100_000;
    const BODY: usize = 4 << 20;
    let scheme = Scheme::start();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let path = "/parties/{{partyIdType}}/{{partyIdentifier}}";
    scheme.admin.set_endpoint("payerfsp", "PARTIES_PUT", &format!("{base}{path}"));
    let hears = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 1_024];
        stream.read_exact(&mut bytes).unwrap();
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {ANSWER}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&[b' '; ANSWER]).unwrap();
        let mut all = bytes.len();
        let mut more = vec![0; 64 << 10];
        while all < BODY {
            match stream.read(&mut more).unwrap() {
                0 => break,
                length => all += length,
            }
        }
        all
    });
    let filler = " ".repeat(BODY);
    let body = format!(
        "{{\"party\":{{\"partyIdInfo\":{{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"1\",\
         \"fspId\":\"payeefsp\"}}}}}}{filler}"
    );
    let answer = Message::new("PUT", "/parties/MSISDN/1", "payeefsp").to("payerfsp").body(body);
    scheme.send(&answer, 200);
    assert!(BODY <= hears.join().unwrap(), "the whole body");
}

/// The hub answers who converts currencies from its configuration: only those participants that are
/// active.
#[test]
fn participants_that_convert_currencies_are_named() {
    let scheme = Scheme::at(Home::configured(
        "[services.fxp]\npayeefsp = [\"USD/KES\"]\notherfsp = [\"USD/KES\", \"KES/USD\"]\n\
         stranger = [\"USD/KES\"]\n",
    ));
    let base = format!("http://{}", scheme.payer.address());
    scheme.admin.set_endpoint("payerfsp", "FX_QUOTES", &base);
    let named = |path: &str| {
        scheme.send(&ask("GET", path), 202);
        let callback = scheme.payer.wait("PUT", path);
        scheme.payer.take(1);
        let source = callback.headers.iter().find(|(name, _)| name == "fspiop-source").unwrap();
        assert_eq!(source.1, "Hub");
        String::from_utf8(callback.body).unwrap()
    };
    assert_eq!(named("/services/FXP"), r#"{"providers":["otherfsp","payeefsp"]}"#);
    assert_eq!(named("/services/FXP/USD/KES"), r#"{"providers":["otherfsp","payeefsp"]}"#);
    assert_eq!(named("/services/FXP/KES/USD"), r#"{"providers":["otherfsp"]}"#);
    assert_eq!(named("/services/FXP/KES/EUR"), r#"{"providers":[]}"#);
    scheme.admin.must("PUT", "/participants/otherfsp", r#"{"isActive":false}"#, 200);
    assert_eq!(named("/services/FXP"), r#"{"providers":["payeefsp"]}"#);
}

/// A rule of the example file sends a quote to another FSP, with a header. With recorded quotes,
/// that FSP answers it.
#[test]
fn a_rule_sends_a_quote_to_another_fsp() {
    const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/quote-rules.json");
    for persist in [false, true] {
        let section = format!("[quotes]\nrules_file = {RULES:?}\npersist = {persist}\n");
        let scheme = Scheme::configured(&section);
        let quote = uuid();
        let body = quote_with_route(&quote);
        scheme.send(&ask("POST", "/quotes").to("payeefsp").body(body.clone()), 202);
        let received = scheme.other.wait("POST", "/quotes");
        let named = ["fspiop-destination", "x-route"].map(|name| received.header(name));
        assert_eq!((named, received.text()), (["otherfsp"; 2].map(str::to_owned), body));
        let path = format!("/quotes/{quote}");
        let error = r#"{"errorInformation":{"errorCode":"5101","errorDescription":"no"}}"#;
        let answer = Message::new("PUT", &format!("{path}/error"), "otherfsp").to("payerfsp");
        scheme.send(&answer.body(error), 200);
        scheme.payer.wait("PUT", &format!("{path}/error"));
        scheme.payee.take(0);
        scheme.end();
    }
}

fn quote_with_route(quote: &str) -> String {
    let party = |fsp: &str| json!({"partyIdInfo": {"partyIdType": "MSISDN", "partyIdentifier": "1", "fspId": fsp}});
    let quote = json!({
        "quoteId": quote,
        "transactionId": uuid(),
        "payer": party("payerfsp"),
        "payee": party("payeefsp"),
        "amountType": "SEND",
        "amount": {"amount": "10", "currency": "USD"},
        "transactionType":
            {"scenario": "TRANSFER", "initiator": "PAYER", "initiatorType": "CONSUMER"},
        "extensionList": {"extension": [{"key": "route", "value": "otherfsp"}]},
    });
    quote.to_string()
}
