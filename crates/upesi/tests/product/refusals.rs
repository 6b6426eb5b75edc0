//! Bad input: each is refused at once with its status and code, changes nothing, and learns
//! nothing about the inside (hub-semantics 1.1 to 1.6, DESIGN contract 10).

use std::io::Write;
use std::net::Shutdown;

use crate::support::http::{Connection, Kind, Parsed};
use crate::support::message::{Message, PARTY, Transfer, date_time, uuid};
use crate::support::scheme::Scheme;

/// The answer is an FSPIOP error with this code, and nothing more.
#[track_caller]
fn assert_refused(name: &str, answer: &Parsed, status: u16, code: &str) {
    let text = answer.text();
    assert_eq!(answer.status(), status, "{name}: {text}");
    let body: serde_json::Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
    let error = &body["errorInformation"];
    assert_eq!(error["errorCode"], code, "{name}: {text}");
    assert_eq!(body.as_object().expect("an object").len(), 1, "{name}: {text}");
    let description = error["errorDescription"].as_str().expect("a text");
    assert!((1..=128).contains(&description.chars().count()), "{name}: {text}");
    for inside in ["panic", ".rs", "src/", "thread", "unwrap", "serde", "hyper", "cause", "0x"] {
        assert!(!text.contains(inside), "{name} speaks of {inside}: {text}");
    }
    let media = answer.headers.get("content-type").unwrap_or_default();
    assert!(media.starts_with("application/json"), "{name}: {media}");
}

/// Every case is refused as it says, and leaves everything as it was.
fn check(scheme: &Scheme, cases: &[(&str, Message, u16, &str)]) {
    let before = scheme.admin.state();
    for (name, message, status, code) in cases {
        assert_refused(name, &scheme.ask(message), *status, code);
    }
    assert_eq!(scheme.admin.state(), before);
    for fsp in [&scheme.payer, &scheme.payee, &scheme.other] {
        assert_eq!(fsp.take(0), [], "nobody hears of it");
    }
}

/// The body of a good prepare with one text replaced.
fn edited(from: &str, to: &str) -> Message {
    let transfer = Transfer::of("1");
    let message = transfer.prepare();
    let text = String::from_utf8(message.bytes().to_vec()).expect("text");
    assert!(text.contains(from), "{from}");
    message.body(text.replacen(from, to, 1))
}

#[test]
fn bodies() {
    let scheme = Scheme::start();
    let good = Transfer::of("1");
    let prepare = good.prepare();
    let text = String::from_utf8(prepare.bytes().to_vec()).expect("text");
    let cut = |length: usize| prepare.clone().body(&text.as_bytes()[..length]);
    let of = |body: &str| prepare.clone().body(body);
    let amount = |amount: &str| edited("\"amount\":\"1\"", &format!("\"amount\":{amount}"));
    let id = |id: &str| Transfer { id: id.to_owned(), ..Transfer::of("1") }.prepare();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_member = edited("[1,2.50,null]", &deep[99_000..101_000]);
    let not_utf8 = {
        let bytes = text.replace("Amélie", "Am?lie").into_bytes();
        let bytes = bytes.into_iter().map(|b| if b == b'?' { 0xff } else { b });
        prepare.clone().body(bytes.collect::<Vec<_>>())
    };
    let long = "x".repeat(33);
    let put = |body: &str| good.answer(body);
    let completed = |ahead: i64| {
        put(&format!(
            "{{\"transferState\":\"COMMITTED\",\"completedTimestamp\":\"{}\"}}",
            date_time(ahead)
        ))
    };
    let party = |body: &str| Message::new("POST", "/participants/MSISDN/1", "payeefsp").body(body);
    check(
        &scheme,
        &[
            ("empty", of(""), 400, "3102"),
            ("truncated in the middle", cut(100), 400, "3102"),
            ("truncated at the end", cut(text.len() - 1), 400, "3102"),
            ("two values", of(&format!("{text}{text}")), 400, "3101"),
            ("something behind", of(&format!("{text}x")), 400, "3101"),
            ("no JSON", of("<xml/>"), 400, "3101"),
            ("a list", of("[]"), 400, "3101"),
            ("a text", of("\"text\""), 400, "3101"),
            ("null", of("null"), 400, "3101"),
            ("an empty object", of("{}"), 400, "3102"),
            ("nested too deep", of(&deep[50_000..150_000]), 400, "3101"),
            ("not UTF-8", not_utf8, 400, "3101"),
            ("a lone surrogate", edited("payeefsp", "\\ud800"), 400, "3101"),
            ("a control character", edited("payeefsp", "pay\u{1}ee"), 400, "3101"),
            ("a member twice", edited("{ ", "{ \"transferId\":\"x\", "), 400, "3101"),
            ("no payer", edited("\"payerFsp\"", "\"payrFsp\""), 400, "3102"),
            ("no currency", edited("\"currency\"", "\"curency\""), 400, "3102"),
            ("amount as a number with five decimals", amount("1.00001"), 400, "3100"),
            ("amount as null", amount("null"), 400, "3100"),
            ("amount as an object", amount("{\"a\":1}"), 400, "3101"),
            ("amount with a trailing zero", amount("\"1.50\""), 400, "3100"),
            ("amount with five decimals", amount("\"1.00001\""), 400, "3100"),
            ("a negative amount", amount("\"-1\""), 400, "3100"),
            ("an amount with an exponent", amount("\"1e3\""), 400, "3100"),
            ("an amount with a blank", amount("\" 1\""), 400, "3100"),
            ("an amount of nineteen digits", amount("\"1234567890123456789\""), 400, "3100"),
            ("an amount in other digits", amount("\"١\""), 400, "3100"),
            ("an unknown currency", edited("USD", "ABC"), 400, "3100"),
            ("an id of no form", id("no-id"), 400, "3100"),
            ("an id in upper case", id("B51EC534-EE48-4575-B6A9-000000000000"), 400, "3100"),
            (
                "an id as a list",
                edited("\"transferId\":\"", "\"transferId\":[], \"x\":\""),
                400,
                "3101",
            ),
            ("a long payee", edited("payeefsp", &long), 400, "3100"),
            ("an empty payee", edited("payeefsp", ""), 400, "3100"),
            ("a short condition", edited("\"BeZFGxq2", "\""), 400, "3100"),
            ("a condition of other letters", edited("\"BeZFGxq2", "\"BeZFG.q2"), 400, "3100"),
            ("an expiration without zone", edited("Z\",\t", "\",\t"), 400, "3100"),
            ("an expiration of no day", edited(&good_date(&text), "2027-02-30"), 400, "3100"),
            (
                "an empty extension list",
                edited("{\"key\":\"na\\u006De\"", "{\"kex\":\"\""),
                400,
                "3102",
            ),
            ("an expiration in the body of a fulfil", put("{\"expiration\":1}"), 400, "3102"),
            ("an unknown state", put("{\"transferState\":\"DONE\"}"), 400, "3100"),
            ("a state as a number", put("{\"transferState\":1}"), 400, "3100"),
            (
                "a short fulfilment",
                put("{\"transferState\":\"COMMITTED\",\"fulfilment\":\"abc\"}"),
                400,
                "3100",
            ),
            ("completed too far ahead", completed(60_000), 400, "3100"),
            ("completed too long ago", completed(-301_000), 400, "3100"),
            ("an error without a code", good.error("", "x"), 400, "3100"),
            ("an error with a short code", good.error("310", "x"), 400, "3100"),
            ("an error without words", good.error("3100", ""), 400, "3100"),
            ("an error with many words", good.error("3100", &"x".repeat(129)), 400, "3100"),
            ("an error with no error", good.error("3100", "x").body("{}"), 400, "3102"),
            ("a registration without FSP", party("{\"currency\":\"USD\"}"), 400, "3102"),
            ("a registration of a list", party("{\"fspId\":[1]}"), 400, "3101"),
            ("a batch of nobody", batch("[]"), 400, "3100"),
            ("a batch without type", batch("[{\"partyIdentifier\":\"1\"}]"), 400, "3102"),
            ("a party that is no object", party_put("[]"), 400, "3101"),
            ("a party cut off", party_put("{\"party\":"), 400, "3102"),
            ("a quote of nothing", quote("{}"), 400, "3102"),
        ],
    );
    // Unknown members, however deep, are nobody's business.
    scheme.send(&deep_member, 202);
    scheme.end();
}

fn good_date(text: &str) -> String {
    let at = text.find("\"expiration\":\"").expect("the expiration") + 14;
    text[at..at + 10].to_owned()
}

fn batch(list: &str) -> Message {
    let body = format!("{{\"requestId\":\"{}\",\"partyList\":{list}}}", uuid());
    Message::new("POST", "/participants", "payeefsp").body(body)
}

fn party_put(body: &str) -> Message {
    Message::new("PUT", "/parties/MSISDN/1", "payeefsp").to("payerfsp").body(body)
}

fn quote(body: &str) -> Message {
    Message::new("POST", "/quotes", "payerfsp").to("payeefsp").body(body)
}

#[test]
fn headers() {
    let scheme = Scheme::start();
    let prepare = Transfer::of("1").prepare();
    let without = |name: &str| prepare.clone().without(name);
    let with = |name: &str, value: &str| prepare.clone().with(name, value);
    let also = |name: &str, value: &str| prepare.clone().also(name, value);
    let media = |tail: &str| format!("application/vnd.interoperability.{tail}");
    let get = |path: &str| Message::new("GET", path, "payerfsp");
    let long = "x".repeat(33);
    let huge = "x".repeat(70 * 1024);
    let many = (0..40).fold(prepare.clone(), |message, number| {
        message.with(&format!("x-{number}"), &"x".repeat(2 * 1024))
    });
    check(
        &scheme,
        &[
            ("no Accept", without("accept"), 400, "3102"),
            ("no Date", without("date"), 400, "3102"),
            ("no Content-Type", without("content-type"), 400, "3102"),
            ("no FSPIOP-Source", without("fspiop-source"), 400, "3102"),
            (
                "no Content-Type on GET",
                get("/parties/MSISDN/1").without("content-type"),
                400,
                "3102",
            ),
            ("no Accept on GET", get("/parties/MSISDN/1").without("accept"), 400, "3102"),
            ("an empty source", with("fspiop-source", ""), 400, "3100"),
            ("a long source", with("fspiop-source", &long), 400, "3100"),
            ("a long destination", with("fspiop-destination", &long), 400, "3100"),
            ("another's identity", with("x-client-id", "otherfsp"), 400, "3100"),
            ("a date of no form", with("date", "yesterday"), 400, "3101"),
            ("JSON in general", with("content-type", "application/json"), 400, "3101"),
            ("text accepted", with("accept", "text/*"), 400, "3101"),
            ("nothing accepted", with("accept", "*/*;q=0"), 406, "3001"),
            ("a coded body", with("content-encoding", "gzip"), 415, "3101"),
            ("two credentials", with("authorization", "a").also("authorization", "b"), 400, "3101"),
            ("XML", with("content-type", &media("transfers+xml;version=1.0")), 400, "3101"),
            ("quotes", with("content-type", &media("quotes+json;version=1.0")), 400, "3101"),
            ("no version", with("content-type", &media("transfers+json")), 400, "3101"),
            (
                "version 1.2",
                with("content-type", &media("transfers+json;version=1.2")),
                406,
                "3001",
            ),
            ("accepts 3", with("accept", &media("transfers+json;version=3")), 406, "3001"),
            ("the date twice", also("date", "Tue, 15 Nov 1994 08:12:31 GMT"), 400, "3101"),
            ("the source twice", also("fspiop-source", "otherfsp"), 400, "3101"),
            (
                "the destination twice",
                with("fspiop-destination", "a").also("fspiop-destination", "b"),
                400,
                "3101",
            ),
            ("one huge header", with("x-huge", &huge), 400, "3104"),
            ("many large headers", many, 400, "3104"),
        ],
    );
    let answer = scheme.ask(&with("content-type", &media("transfers+json;version=1.2")));
    let body: serde_json::Value = serde_json::from_str(&answer.text()).expect("JSON");
    let supported = serde_json::json!({"extension": [
        {"key": "1", "value": "0"}, {"key": "1", "value": "1"}, {"key": "2", "value": "0"}]});
    assert_eq!(body["errorInformation"]["extensionList"], supported);
    assert_eq!(
        body["errorInformation"]["errorDescription"],
        "Unacceptable version requested - Client supplied a protocol version which is not supported by the server"
    );
    // A wrong trace is no error: another begins.
    let transfer = Transfer::of("1");
    scheme.send(&transfer.prepare().with("traceparent", "00-zz"), 202);
    scheme.settle();
    assert_eq!(scheme.payee.take(1)[0].trace().len(), 32);
    scheme.end();
}

#[test]
fn paths_and_methods() {
    let scheme = Scheme::start();
    let id = uuid();
    let at = |method: &str, path: &str| {
        Message::new(method, path, "payerfsp").body("{\"transferState\":\"COMMITTED\"}")
    };
    let long = format!("/parties/ALIAS/{}", "x".repeat(129));
    check(
        &scheme,
        &[
            ("the root", at("GET", "/"), 404, "3002"),
            ("an unknown resource", at("GET", "/wallets/1"), 404, "3002"),
            ("another letter case", at("POST", "/Transfers"), 404, "3002"),
            ("too deep", at("PUT", &format!("/transfers/{id}/error/more")), 404, "3002"),
            ("a slash at the end", at("POST", "/transfers/"), 404, "3002"),
            ("dots", at("GET", "/parties/../transfers"), 400, "3100"),
            ("a whole collection", at("GET", "/transfers"), 405, "3000"),
            ("no such removal", at("DELETE", &format!("/transfers/{id}")), 405, "3000"),
            ("a method of no meaning", at("BREW", "/transfers"), 405, "3000"),
            ("bulk", at("POST", "/bulkTransfers"), 404, "3002"),
            ("a PATCH into the hub", at("PATCH", &format!("/transfers/{id}")), 501, "2002"),
            ("PUT of a request id", at("PUT", &format!("/participants/{id}")), 501, "2002"),
            ("an unknown type of id", at("GET", "/parties/PHONE/1"), 400, "3100"),
            ("a number of letters", at("GET", "/parties/MSISDN/abc"), 400, "3101"),
            ("a mail without at", at("GET", "/parties/EMAIL/abc"), 400, "3101"),
            ("a long id", at("GET", &long), 400, "3101"),
            ("a broken escape", at("GET", "/parties/ALIAS/%4"), 400, "3101"),
            ("no UTF-8", at("GET", "/parties/ALIAS/%ff"), 400, "3101"),
            ("a hidden line end", at("GET", "/parties/ALIAS/a%0d%0ab"), 400, "3101"),
            ("a blank", at("GET", "/parties/ALIAS/a%20b"), 400, "3101"),
            (
                "a look-up by a stranger",
                Message::new("GET", "/parties/MSISDN/1", "nobody"),
                400,
                "3101",
            ),
            (
                "a registration by a stranger",
                Message::new("POST", "/participants/MSISDN/1", "nobody")
                    .body("{\"fspId\":\"nobody\"}"),
                400,
                "3200",
            ),
        ],
    );
    scheme.end();
}

#[test]
fn sizes() {
    let scheme = Scheme::start();
    let padded = |message: Message, length: usize| {
        let mut body = message.bytes().to_vec();
        body.resize(length, b' ');
        message.body(body)
    };
    let transfer = Transfer::of("1").prepare();
    let party = party_put(PARTY);
    let (small, large) = (128 * 1024, 5 * 1024 * 1024);
    check(
        &scheme,
        &[
            ("a long transfer", padded(transfer.clone(), small + 1), 400, "3104"),
            (
                "a long transfer in pieces",
                padded(transfer.clone(), small + 1).chunked(),
                400,
                "3104",
            ),
            ("a long quote", padded(quote("{}"), small + 1), 400, "3104"),
            ("a long party", padded(party.clone(), large + 1), 400, "3104"),
            ("a long party in pieces", padded(party.clone(), large + 1).chunked(), 400, "3104"),
        ],
    );
    scheme.send(&padded(transfer, small), 202);
    scheme.settle();
    assert_eq!(scheme.payee.take(1)[0].body.len(), small);
    scheme.send(&padded(party, large).chunked(), 200);
    assert_eq!(scheme.payer.take(1)[0].body.len(), large);
    scheme.end();
}

#[test]
fn requests_that_are_not_finished_or_not_http() {
    let scheme = Scheme::configured("body_timeout_ms = 1000\n");
    let before = scheme.admin.state();
    let request = Transfer::of("1").prepare().render();
    let connect = || Connection::open(scheme.switch.fspiop).expect("a connection");

    // A body that stops in the middle while the client waits.
    let mut slow = connect();
    slow.write(&request[..request.len() - 10]).expect("it is read");

    // Half a head, half a body, and an end.
    for length in [10, request.len() / 2, request.len() - 1] {
        let mut half = connect();
        half.write(&request[..length]).expect("it is read");
        half.stream.shutdown(Shutdown::Write).expect("it is open");
        match half.read(Kind::Answer) {
            Ok(None) | Err(_) => {}
            Ok(Some(answer)) => assert_eq!(answer.status(), 400, "{answer:?}"),
        }
    }
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"POST /transfers HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n",
        b"POST /transfers HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"POST /transfers HTTP/1.1\r\nhost: a\r\nbad name: x\r\n\r\n",
        b"POST /transfers HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n\r\n",
    ] {
        let mut connection = connect();
        // The hub may close before it has read everything.
        let _written = connection.stream.write_all(bytes);
        match connection.read(Kind::Answer) {
            Ok(None) | Err(_) => {}
            Ok(Some(answer)) => {
                assert!((400..=505).contains(&answer.status()), "{answer:?}");
                assert!(!answer.text().contains("panic"), "{answer:?}");
            }
        }
    }
    // A second request hidden behind a first one of two lengths is never carried out.
    let prepare = Transfer::of("1").prepare();
    let hidden = String::from_utf8(prepare.render()).expect("text");
    let smuggled = format!(
        "GET /health HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n\
         0\r\n\r\n{hidden}",
        hidden.len() + 5
    );
    let mut connection = connect();
    let _written = connection.stream.write_all(smuggled.as_bytes());
    match connection.read(Kind::Answer) {
        Ok(Some(answer)) if answer.status() == 200 => {
            // The two ends agreed on chunks; then the connection must not carry another request.
            assert!(matches!(connection.read(Kind::Answer), Ok(None) | Err(_)), "it goes on");
        }
        Ok(Some(answer)) => assert_eq!(answer.status(), 400, "{answer:?}"),
        Ok(None) | Err(_) => {}
    }

    let answer = slow.read(Kind::Answer).expect("an answer").expect("an answer");
    assert_refused("a slow body", &answer, 408, "3000");
    assert_eq!(scheme.admin.state(), before);
    for fsp in [&scheme.payer, &scheme.payee, &scheme.other] {
        assert_eq!(fsp.take(0), []);
    }
    // Everybody else is served all the while.
    scheme.send(&prepare, 202);
    scheme.end();
}

#[test]
fn one_connection_carries_many_requests_good_and_bad() {
    let scheme = Scheme::start();
    let mut connection = Connection::open(scheme.switch.fspiop).expect("a connection");
    for _ in 0..3 {
        let good = Transfer::of("1").prepare();
        assert_eq!(connection.exchange(&good.render()).expect("an answer").status(), 202);
        let bad = good.body("{}");
        assert_eq!(connection.exchange(&bad.render()).expect("an answer").status(), 400);
    }
    // Sent all at once, answered in order.
    let good = Transfer::of("1").prepare().render();
    let bad = Transfer::of("1").prepare().without("date").render();
    connection.write(&[&good[..], &bad, &good, &bad].concat()).expect("it is read");
    let mut statuses = Vec::new();
    for _ in 0..4 {
        let answer = connection.read(Kind::Answer).expect("an answer").expect("an answer");
        statuses.push(answer.status());
    }
    assert_eq!(statuses, [202, 400, 202, 400]);
    let health = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n";
    let answer = connection.exchange(health).expect("an answer");
    assert_eq!(answer.status(), 200);
    for part in ["\"status\":\"OK\"", "\"datastore\"", "\"broker\""] {
        assert!(answer.text().contains(part), "{}", answer.text());
    }
    scheme.end();
}

/// An answer to each message of a participant whose endpoint takes none would be owed without end.
#[test]
fn who_takes_no_callbacks_is_heard_until_two_lanes_are_full() {
    let scheme = Scheme::configured("[transfers]\nlane_capacity = 1\n");
    let endpoint = |url: &str| scheme.admin.set_endpoint("payerfsp", "TRANSFER_PUT", url);
    endpoint("http://127.0.0.1:9");
    let transfer = Transfer::of("10");
    let mut connection = Connection::open(scheme.switch.fspiop).unwrap();
    let prepare = transfer.prepare().render();
    let mut answers = 0;
    let refusal = loop {
        let answer = connection.exchange(&prepare).unwrap();
        if answer.status() != 202 {
            break answer;
        }
        answers += 1;
        assert!(answers < 3_000, "they are taken without end");
    };
    assert_eq!(refusal.status(), 503);
    assert!(refusal.text().contains("\"2003\""), "{}", refusal.text());
    assert!(refusal.text().contains("too many callbacks are owed"), "{}", refusal.text());
    // The first one owes nothing to its sender; a thousand have room beside a lane of one.
    assert_eq!(answers, 1 + 1_001);
    // The others are heard, and so is it once it takes what it is owed.
    scheme.send(&transfer.fulfil("COMMITTED"), 200);
    scheme.positions("10", "-10");
    let address = scheme.payer.address();
    endpoint(&format!("http://{address}"));
    scheme.settle();
    assert_eq!(connection.exchange(&prepare).unwrap().status(), 202);
    scheme.settle();
    scheme.positions("10", "-10");
}
