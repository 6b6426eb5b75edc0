//! Look-ups and quotes across a restart, and with participants that fail in ways of their own. What
//! they do otherwise is in the golden conversations (`parties`, `participants`, `quotes`).

use std::io::{Read, Write};
use std::net::TcpListener;

use testkit::server::Reply;

use crate::support::fsp::{Callback, Fsp, Replying, line, trace};
use crate::support::message::{Message, uuid};
use crate::support::scheme::Scheme;

/// A participant that hears exactly these lines, in any order.
#[track_caller]
fn hears(fsp: &Fsp, expected: &[&str]) -> Vec<Callback> {
    let mut callbacks = fsp.take(expected.len());
    callbacks.sort_by_key(line);
    let lines: Vec<_> = callbacks.iter().map(line).collect();
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
        assert_eq!(trace(&heard), question.trace);
        let id = uuid();
        let quote = quote(&id).to("payeefsp");
        scheme.send(&quote, 202);
        let heard = scheme.payer.take(1).remove(0);
        assert_eq!(heard.path, format!("/quotes/{id}/error"));
        assert_eq!(trace(&heard), quote.trace);
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
