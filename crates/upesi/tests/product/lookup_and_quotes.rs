//! Look-ups with participants that close connections and answer at unusual times. Other behaviour
//! of look-ups and quotes is in the golden conversations (`parties`, `participants`, `quotes`,
//! `delivery`).

use std::io::{Read, Write};
use std::net::TcpListener;

use testkit::server::Reply;

use crate::support::message::Message;
use crate::support::scheme::Scheme;

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
