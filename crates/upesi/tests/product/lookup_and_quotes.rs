//! The party directory, look-ups and quotes: who is asked, who is told, and in whose bytes
//! (hub-semantics 2.2 to 2.4).

use std::io::{Read, Write};
use std::net::TcpListener;

use crate::support::fsp::{Callback, Fsp, Reply, Replying};
use crate::support::message::{Message, PARTY, date_time, uuid};
use crate::support::scheme::Scheme;

/// A participant that hears exactly these lines, in any order.
#[track_caller]
fn hears(fsp: &Fsp, expected: &[&str]) -> Vec<Callback> {
    let mut callbacks = fsp.take(expected.len());
    callbacks.sort_by_key(Callback::line);
    let lines: Vec<_> = callbacks.iter().map(Callback::line).collect();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(lines, expected, "{} hears", fsp.name);
    callbacks
}

fn ask(method: &str, path: &str) -> Message {
    Message::new(method, path, "payerfsp")
}

/// Registers, and waits until the registrar has its answer.
fn register(scheme: &Scheme, fsp: &Fsp, path: &str) {
    let body = format!("{{\"fspId\":\"{}\",\"currency\":\"USD\"}}", fsp.name);
    scheme.send(&Message::new("POST", path, &fsp.name).body(body), 202);
    fsp.take(1);
}

fn error(code: &str, description: &str) -> String {
    format!(
        "{{ \"errorInformation\":{{\"errorDescription\":\"{description}\",\
         \"errorCode\":\"{code}\"}} }}"
    )
}

#[test]
fn registrations_are_answered_and_found() {
    let scheme = Scheme::start();
    let party = "/participants/MSISDN/+254700000001";
    let message = Message::new("POST", party, "payeefsp")
        .body("{\"currency\":\"USD\", \"fspId\":\"payeefsp\"}");
    scheme.send(&message, 202);
    let answer = hears(
        &scheme.payee,
        &["PUT /participants/MSISDN/+254700000001 from Hub: {\"currency\":\"USD\",\
           \"partyList\":[{\"fspId\":\"payeefsp\",\"partyIdType\":\"MSISDN\",\
           \"partyIdentifier\":\"+254700000001\"}]}"],
    );
    assert_eq!(answer[0].trace(), message.trace);
    let question = ask("GET", party);
    scheme.send(&question, 202);
    let found = "PUT /participants/MSISDN/+254700000001 from Hub: {\"fspId\":\"payeefsp\"}";
    assert_eq!(hears(&scheme.payer, &[found])[0].trace(), question.trace);

    // A sub-identifier is a party of its own.
    let shop = format!("{party}/SHOP");
    scheme.send(&ask("GET", &shop), 202);
    let missing = format!("PUT {shop}/error from Hub: 3204 Party not found");
    hears(&scheme.payer, &[&missing]);
    let message = Message::new("POST", &shop, "otherfsp").body("{\"fspId\":\"otherfsp\"}");
    scheme.send(&message, 202);
    let answer = format!(
        "PUT {shop} from Hub: {{\"partyList\":[{{\"fspId\":\"otherfsp\",\"partyIdType\":\"MSISDN\",\
         \"partyIdentifier\":\"+254700000001\",\"partySubIdOrType\":\"SHOP\"}}]}}"
    );
    hears(&scheme.other, &[&answer]);
    scheme.send(&ask("GET", &shop), 202);
    hears(&scheme.payer, &[&format!("PUT {shop} from Hub: {{\"fspId\":\"otherfsp\"}}")]);
    scheme.send(&ask("GET", party), 202);
    hears(&scheme.payer, &[found]);

    // The latest registration wins, by POST or by PUT.
    register(&scheme, &scheme.other, party);
    scheme.send(&ask("GET", party), 202);
    hears(&scheme.payer, &[&found.replace("payeefsp", "otherfsp")]);
    scheme.send(&Message::new("PUT", party, "payeefsp").body("{\"fspId\":\"payeefsp\"}"), 200);
    scheme.payee.take(1);
    scheme.send(&ask("GET", party), 202);
    hears(&scheme.payer, &[found]);

    for path in [party, &shop] {
        scheme.send(&Message::new("DELETE", path, "payeefsp"), 202);
        hears(&scheme.payee, &[&format!("PUT {path} from Hub: {{\"fspId\":\"payeefsp\"}}")]);
        scheme.send(&ask("GET", path), 202);
        let missing = format!("PUT {path}/error from Hub: 3204 Party not found");
        hears(&scheme.payer, &[&missing]);
    }
    scheme.end();
}

#[test]
fn each_entry_of_a_batch_is_taken_or_refused_for_itself() {
    let scheme = Scheme::start();
    let request = uuid();
    let body = format!(
        "{{\"requestId\":\"{request}\",\"currency\":\"USD\",\"partyList\":[\
         {{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"1\",\"fspId\":\"payeefsp\"}},\
         {{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"2\",\"fspId\":\"otherfsp\"}},\
         {{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"x\",\"fspId\":\"payeefsp\"}},\
         {{\"partyIdType\":\"ALIAS\",\"partyIdentifier\":\"a\",\"partySubIdOrType\":\"b\",\
         \"fspId\":\"payeefsp\"}}]}}"
    );
    let message = Message::new("POST", "/participants", "payeefsp").body(body);
    scheme.send(&message, 200);
    let answer = scheme.payee.take(1).remove(0);
    assert_eq!(answer.path, format!("/participants/{request}"));
    assert_eq!(answer.trace(), message.trace);
    let codes: Vec<_> = answer.json()["partyList"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|entry| entry["errorInformation"]["errorCode"].as_str().unwrap_or("").to_owned())
        .collect();
    assert_eq!(codes, ["", "3204", "3003", ""]);
    for (party, expected) in [
        ("MSISDN/1", ": {\"fspId\":\"payeefsp\"}"),
        ("MSISDN/2", "/error: 3204 Party not found"),
        ("ALIAS/a/b", ": {\"fspId\":\"payeefsp\"}"),
        ("ALIAS/a", "/error: 3204 Party not found"),
    ] {
        scheme.send(&ask("GET", &format!("/participants/{party}")), 202);
        let (suffix, says) = expected.split_once(": ").unwrap();
        hears(&scheme.payer, &[&format!("PUT /participants/{party}{suffix} from Hub: {says}")]);
    }
    scheme.end();
}

#[test]
fn registrations_survive_a_restart() {
    let mut scheme = Scheme::start();
    register(&scheme, &scheme.payee, "/participants/MSISDN/77");
    register(&scheme, &scheme.other, "/participants/MSISDN/77");
    scheme.settle();
    scheme.switch.stop(rustix::process::Signal::TERM);
    scheme.switch = scheme.home.serve();
    scheme.admin = crate::support::scheme::Admin::new(&scheme.home, &scheme.switch);
    scheme.send(&ask("GET", "/participants/MSISDN/77"), 202);
    let found = "PUT /participants/MSISDN/77 from Hub: {\"fspId\":\"otherfsp\"}";
    hears(&scheme.payer, &[found]);
    scheme.end();
}

#[test]
fn an_error_about_a_participant_is_passed_on() {
    let scheme = Scheme::start();
    let path = "/participants/MSISDN/1/error";
    let message = Message::new("PUT", path, "payeefsp").to("payerfsp").body(error("3204", "No"));
    scheme.send(&message, 200);
    let heard = hears(&scheme.payer, &[&format!("PUT {path} from payeefsp: 3204 No")]);
    assert_eq!(heard[0].body, message.bytes());
    scheme.end();
}

#[test]
fn a_look_up_goes_to_whoever_serves_the_party_and_its_answer_comes_back_byte_for_byte() {
    let scheme = Scheme::start();
    register(&scheme, &scheme.payee, "/participants/MSISDN/42");
    register(&scheme, &scheme.other, "/participants/ALIAS/Am%C3%A9lie/caf%C3%A9");
    let cases = [
        ("MSISDN/42", None, &scheme.payee),
        ("MSISDN/42", Some("payeefsp"), &scheme.payee),
        // A destination is asked whatever the directory says.
        ("MSISDN/42", Some("otherfsp"), &scheme.other),
        ("MSISDN/nobody", Some("otherfsp"), &scheme.other),
        ("ALIAS/Am%C3%A9lie/caf%C3%A9", None, &scheme.other),
    ];
    for (party, destination, asked) in cases {
        let party = party.replace("nobody", "43");
        let path = format!("/parties/{party}");
        let question = match destination {
            Some(destination) => ask("GET", &path).to(destination),
            None => ask("GET", &path),
        };
        let question = question.with("tracestate", "theirs=1").with("baggage", "b=1");
        scheme.send(&question, 202);
        let heard = hears(asked, &[&format!("GET {path} from payerfsp: ")]);
        assert_eq!(heard[0].trace(), question.trace);
        assert_eq!(heard[0].header("baggage"), "b=1");
        assert_eq!(
            heard[0].header("accept"),
            "application/vnd.interoperability.parties+json;version=1.1"
        );

        let answer = Message::new("PUT", &path, &asked.name)
            .to("payerfsp")
            .version("1.0")
            .with("fspiop-signature", "{\"signature\":\"s\",\"protectedHeader\":\"e30\"}")
            .body(
                "{ \"party\" :{\"partyIdInfo\":{\"partyIdType\":\"MSISDN\",\n \"partyIdentifier\":\"42\"},\"name\":\"Amélie \\u00e9 Ngũgĩ 王\", \"n\": 1.500 } ,\n \"x\":[] }",
            );
        scheme.send(&answer, 200);
        let heard = scheme.payer.take(1).remove(0);
        assert_eq!((&*heard.method, &*heard.path), ("PUT", &*path));
        assert_eq!(heard.body, answer.bytes());
        assert_eq!(heard.trace(), answer.trace);
        assert!(heard.headers.has("fspiop-signature"));
        assert!(heard.header("content-type").ends_with("=1.0"));

        let path = format!("{path}/error");
        let refusal =
            Message::new("PUT", &path, &asked.name).to("payerfsp").body(error("3204", "Not here"));
        scheme.send(&refusal, 200);
        let line = format!("PUT {path} from {}: 3204 Not here", asked.name);
        assert_eq!(hears(&scheme.payer, &[&line])[0].body, refusal.bytes());
    }
    scheme.end();
}

#[test]
fn look_ups_that_find_nobody_are_told_so() {
    let scheme = Scheme::start();
    for party in ["MSISDN/404", "MSISDN/404/SHOP", "IBAN/GB33BUKB20201555555555"] {
        let question = ask("GET", &format!("/parties/{party}"));
        scheme.send(&question, 202);
        let line = format!("PUT /parties/{party}/error from Hub: 3204 Party not found");
        assert_eq!(hears(&scheme.payer, &[&line])[0].trace(), question.trace);
    }
    // A destination that is not in the scheme has no party, whatever the directory says.
    register(&scheme, &scheme.payee, "/participants/MSISDN/42");
    scheme.send(&ask("GET", "/parties/MSISDN/42").to("gonefsp"), 202);
    hears(&scheme.payer, &["PUT /parties/MSISDN/42/error from Hub: 3204 Party not found"]);
    // An answer to somebody who is not there goes back as an error.
    let path = "/parties/MSISDN/1";
    for message in [
        Message::new("PUT", path, "payeefsp").to("gonefsp").body(PARTY),
        Message::new("PUT", path, "payeefsp").body(PARTY),
        Message::new("PUT", "/parties/MSISDN/1/error", "payeefsp")
            .to("gonefsp")
            .body(error("3204", "No")),
    ] {
        scheme.send(&message, 200);
        let line = "PUT /parties/MSISDN/1/error from Hub: 3201 Destination FSP Error";
        hears(&scheme.payee, &[line]);
    }
    scheme.end();
}

#[test]
fn whoever_cannot_be_reached_costs_the_sender_an_error_callback() {
    let scheme = Scheme::start();
    register(&scheme, &scheme.payee, "/participants/MSISDN/42");
    let unsent = "1001 Destination communication error - Failed to send HTTP request to host";
    // Nobody listens on port 1, and the second name is nobody's.
    for base in ["http://127.0.0.1:1", "http://name.invalid"] {
        scheme.admin.set_endpoint("payeefsp", "PARTIES_GET", &format!("{base}/parties"));
        scheme.admin.set_endpoint("payeefsp", "QUOTES", base);
        let question = ask("GET", "/parties/MSISDN/42");
        scheme.send(&question, 202);
        let heard = scheme.payer.take(1).remove(0);
        assert_eq!(heard.path, "/parties/MSISDN/42/error");
        assert_eq!(heard.json()["errorInformation"]["errorCode"], "1001");
        assert_eq!(heard.trace(), question.trace);
        let id = uuid();
        let quote = quote(&id).to("payeefsp");
        scheme.send(&quote, 202);
        let heard = scheme.payer.take(1).remove(0);
        assert_eq!(heard.path, format!("/quotes/{id}/error"));
        assert_eq!(heard.trace(), quote.trace);
        assert_eq!(heard.json()["errorInformation"]["errorCode"], "1001");
    }
    // A corrected address counts at once, and so does what a reachable participant answers.
    scheme.admin.set_endpoint("payeefsp", "QUOTES", &format!("http://{}", scheme.payee.address()));
    let answers: [(Replying, &str); 4] = [
        (|_| Reply::Status(404), "3000 Generic client error"),
        (|_| Reply::Status(400), "3000 Generic client error"),
        (|_| Reply::Status(500), unsent),
        (|_| Reply::Status(202), ""),
    ];
    for (reply, expected) in answers {
        scheme.payee.answer(reply);
        let id = uuid();
        scheme.send(&quote(&id).to("payeefsp"), 202);
        scheme.payee.take(1);
        if !expected.is_empty() {
            hears(&scheme.payer, &[&format!("PUT /quotes/{id}/error from Hub: {expected}")]);
        }
    }
    scheme.end();
}

/// A connection may be closed just when it is used again. Nobody sends a look-up twice but the hub.
#[test]
fn a_participant_that_hangs_up_after_each_answer_misses_nothing() {
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

/// An answer ends nothing while the request is still being written.
#[test]
fn a_participant_that_answers_early_is_sent_the_whole_body() {
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

fn quote(id: &str) -> Message {
    let party = |name: &str, number: u8| {
        format!(
            "{{\"partyIdInfo\": {{\"partyIdType\":\"MSISDN\",\"partyIdentifier\":\"{number}\",\
             \"fspId\":\"{name}\"}} }}"
        )
    };
    let body = format!(
        "{{\"quoteId\":\"{id}\", \"transactionId\":\"{}\",\"payee\":{},\"payer\":{},\
         \"amountType\":\"SEND\",\"amount\":{{\"amount\":\"12.3456\",\"currency\":\"USD\"}},\
         \"transactionType\":{{\"scenario\":\"TRANSFER\",\"initiator\":\"PAYER\",\
         \"initiatorType\":\"CONSUMER\"}},\"note\":\"déjeuner 王\" }}",
        uuid(),
        party("payeefsp", 1),
        party("payerfsp", 2)
    );
    ask("POST", "/quotes").body(body)
}

fn quote_answer(id: &str) -> Message {
    let body = format!(
        "{{ \"transferAmount\":{{\"amount\":\"12.3456\",\"currency\":\"USD\"}},\
         \"expiration\":\"{}\",\"ilpPacket\":\"AYIBgQAAAAAAAASw\",\
         \"condition\":\"{}\" }}",
        date_time(60_000),
        crate::support::message::CONDITION
    );
    Message::new("PUT", &format!("/quotes/{id}"), "payeefsp").to("payerfsp").body(body)
}

#[test]
fn quotes_go_both_ways_as_they_were_sent() {
    let scheme = Scheme::start();
    for id in [uuid(), "01HQZX3V5T8Y9WABCDEFGHJKMN".to_owned()] {
        let question = quote(&id).to("payeefsp").chunked();
        scheme.send(&question, 202);
        let heard = scheme.payee.take(1).remove(0);
        assert_eq!((&*heard.method, &*heard.path), ("POST", "/quotes"));
        assert_eq!(
            (heard.body.as_slice(), heard.trace()),
            (question.bytes(), question.trace.clone())
        );
        let answer = quote_answer(&id);
        scheme.send(&answer, 200);
        let heard = scheme.payer.take(1).remove(0);
        assert_eq!((&*heard.method, &*heard.path), ("PUT", &*format!("/quotes/{id}")));
        assert_eq!((heard.body.as_slice(), heard.trace()), (answer.bytes(), answer.trace.clone()));
        let path = format!("/quotes/{id}/error");
        let refusal =
            Message::new("PUT", &path, "payeefsp").to("payerfsp").body(error("5103", "No"));
        scheme.send(&refusal, 200);
        let line = format!("PUT {path} from payeefsp: 5103 No");
        assert_eq!(hears(&scheme.payer, &[&line])[0].body, refusal.bytes());
        scheme.send(&ask("GET", &format!("/quotes/{id}")).to("payeefsp"), 202);
        hears(&scheme.payee, &[&format!("GET /quotes/{id} from payerfsp: ")]);
    }
    scheme.end();
}

#[test]
fn quotes_to_or_from_the_unusable_are_refused_by_callback_at_once() {
    let scheme = Scheme::start();
    let refused = |fsp: &Fsp, message: &Message, id: &str, code: &str, status: u16| {
        scheme.send(message, status);
        let heard = fsp.take(1).remove(0);
        let path = format!("/quotes/{id}/error");
        assert_eq!((&*heard.method, &*heard.path), ("PUT", &*path), "{}", heard.line());
        assert_eq!(heard.header("fspiop-source"), "Hub");
        assert_eq!(heard.json()["errorInformation"]["errorCode"], code, "{}", heard.line());
        assert_eq!(heard.trace(), message.trace);
    };
    let id = uuid();
    let good = quote(&id).to("payeefsp");
    for destination in ["gonefsp", "Hub"] {
        refused(&scheme.payer, &quote(&id).to(destination), &id, "3201", 202);
    }
    assert_eq!(scheme.ask(&quote(&id)).status(), 400, "without a destination");
    scheme.admin.set_active("payeefsp", false);
    refused(&scheme.payer, &good, &id, "3201", 202);
    refused(&scheme.payee, &quote_answer(&id), &id, "3201", 200);
    scheme.admin.set_active("payeefsp", true);
    scheme.admin.set_account_active("payeefsp", false);
    refused(&scheme.payer, &good, &id, "3201", 202);
    scheme.admin.set_account_active("payeefsp", true);
    // A payee that the body names beside the header is held to the same.
    scheme.admin.set_active("otherfsp", false);
    let text = String::from_utf8(good.bytes().to_vec()).unwrap();
    let body = text.replace("\"fspId\":\"payeefsp\"", "\"fspId\":\"otherfsp\"");
    refused(&scheme.payer, &good.clone().body(body), &id, "3201", 202);
    let body = text.replace("\"fspId\":\"payerfsp\"", "\"fspId\":\"otherfsp\"");
    refused(&scheme.payer, &good.clone().body(body), &id, "3202", 202);
    let body = text.replace("USD", "EUR");
    refused(&scheme.payer, &good.clone().body(body), &id, "3201", 202);

    scheme.send(&good, 202);
    scheme.payee.wait("POST", "/quotes");
    scheme.payee.take(1);
    assert_eq!(scheme.payer.take(0), [], "a good one costs no error");

    // Known, usable, and without an address for quotes.
    let silent = "silentfsp";
    scheme.admin.must(
        "POST",
        "/participants",
        "{\"name\":\"silentfsp\",\"currency\":\"USD\"}",
        201,
    );
    let limits = "{\"currency\":\"USD\",\"limit\":{\"type\":\"NET_DEBIT_CAP\",\"value\":1}}";
    let path = format!("/participants/{silent}/initialPositionAndLimits");
    scheme.admin.must("POST", &path, limits, 201);
    refused(&scheme.payer, &quote(&id).to(silent), &id, "3201", 202);
    scheme.end();
}
