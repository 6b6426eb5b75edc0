//! Requests byte by byte: ambiguous framing is refused, everything else is accepted
//! (docs/internals/edge.md).
//!
//! A case is the bytes written to a connection and the returned statuses and codes. The bytes end
//! with one more valid request if the connection must be closed before it.

use super::{BODY, HEALTH, edited, play, prepare};

/// The response to every request that is not HTTP.
const REFUSED: &[&str] = &["400 3101"];

/// A valid prepare with additional headers, followed by a valid request.
fn with(headers: &str) -> Vec<u8> {
    let request = edited("host: hub\r\n", &format!("host: hub\r\n{headers}"));
    [&request, HEALTH.as_bytes()].concat()
}

/// A valid prepare with the given chunks, in which `{}` is replaced by its body.
fn chunked(headers: &str, chunks: &str) -> Vec<u8> {
    let (head, body) = (prepare(), BODY);
    let head = String::from_utf8(head[..head.len() - body.len()].to_vec()).expect("text");
    let length = format!("content-length: {}\r\n", body.len());
    let head = head.replacen(&length, headers, 1);
    let chunks = chunks.replace("{length}", &format!("{:x}", body.len())).replace("{}", body);
    format!("{head}{chunks}").into_bytes()
}

#[test]
fn ambiguous_requests_are_refused() {
    let te = "transfer-encoding: chunked\r\n";
    let whole = "{length}\r\n{}\r\n0\r\n\r\n";
    let then = |mut bytes: Vec<u8>| {
        bytes.extend(HEALTH.bytes());
        bytes
    };
    let target = |method: &str, target: &str| {
        then(format!("{method} {target} HTTP/1.1\r\nhost: hub\r\n\r\n").into_bytes())
    };
    let many = "x: y\r\n".repeat(120);
    let huge = "x".repeat(70 * 1024);
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("no HTTP", then(b"GARBAGE\r\n\r\n".to_vec()), REFUSED),
        ("no line end", b"GARBAGE".to_vec(), REFUSED),
        ("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), REFUSED),
        ("HTTP/9.9", then(b"GET / HTTP/9.9\r\nhost: a\r\n\r\n".to_vec()), REFUSED),
        ("half of a preface", b"PRI * HTTP/2.0\r\n".to_vec(), REFUSED),
        ("half of a head", HEALTH.as_bytes()[..30].to_vec(), REFUSED),
        ("two lengths", with("content-length: 5\r\n"), REFUSED),
        ("a list of lengths", edited("content-length: ", "content-length: 5, "), REFUSED),
        ("a negative length", edited("content-length: ", "content-length: -"), REFUSED),
        ("a length with a sign", edited("content-length: ", "content-length: +"), REFUSED),
        (
            "a huge length",
            edited("content-length: ", "content-length: 99999999999999999999"),
            REFUSED,
        ),
        ("identity", then(chunked("transfer-encoding: identity\r\n", whole)), REFUSED),
        (
            "chunked, identity",
            then(chunked("transfer-encoding: chunked, identity\r\n", whole)),
            REFUSED,
        ),
        ("gzip, chunked", then(chunked("transfer-encoding: gzip, chunked\r\n", whole)), REFUSED),
        ("xchunked", then(chunked("transfer-encoding: xchunked\r\n", whole)), REFUSED),
        ("chunked twice", then(chunked(&te.repeat(2), whole)), REFUSED),
        ("a folded coding", then(chunked("transfer-encoding:\r\n chunked\r\n", whole)), REFUSED),
        ("a blank before the colon", with("transfer-encoding : chunked\r\n"), REFUSED),
        ("a folded header", with("x: a\r\n b\r\n"), REFUSED),
        ("a bare CR", with("x: a\rb\r\n"), REFUSED),
        ("NUL in a value", with("x: a\0b\r\n"), REFUSED),
        ("NUL in a name", with("x\0: a\r\n"), REFUSED),
        ("no colon", with("nonsense\r\n"), REFUSED),
        ("no name", with(": a\r\n"), REFUSED),
        ("two hosts", with("host: other\r\n"), REFUSED),
        ("a source with _", with("FSPIOP_Source: payeefsp\r\n"), REFUSED),
        ("a source with a dot", with("FSPIOP.Source: payeefsp\r\n"), REFUSED),
        ("a length with _", with("Content_Length: 5\r\n"), REFUSED),
        ("a coding with _", with("Transfer_Encoding: chunked\r\n"), REFUSED),
        ("no host", then(edited("host: hub\r\n", "")), &["400 3102"]),
        ("CONNECT", target("CONNECT", "hub:4000"), REFUSED),
        ("a target of authority form", target("GET", "hub:4000"), REFUSED),
        ("another scheme", target("GET", "ftp://hub/health"), REFUSED),
        ("a blank in the target", target("GET", "/hea lth"), REFUSED),
        (
            "no UTF-8 in the target",
            then(b"GET /\xff\xfe HTTP/1.1\r\nhost: a\r\n\r\n".to_vec()),
            REFUSED,
        ),
        ("a bare line feed", edited("host: hub\r\n", "host: hub\n"), REFUSED),
        ("a bare line feed in the first line", edited("HTTP/1.1\r\n", "HTTP/1.1\n"), REFUSED),
        ("an end of the head of bare line feeds", edited("\r\n\r\n{", "\n\n{"), REFUSED),
        ("an empty line of a bare line feed", then(b"\n".to_vec()), REFUSED),
        (
            "a bare line feed behind a good request",
            [HEALTH.as_bytes(), &edited("host: hub\r\n", "host: hub\n")].concat(),
            &["200", "400 3101"],
        ),
        ("chunks of a length of no digits", chunked(te, "zz\r\n{}\r\n0\r\n\r\n"), REFUSED),
        (
            "chunks of an absurd length",
            chunked(te, "fffffffffffffffff\r\n{}\r\n0\r\n\r\n"),
            REFUSED,
        ),
        ("chunks that do not end", chunked(te, "{length}\r\n{}\r\n"), REFUSED),
        ("chunks longer than they say", chunked(te, "5\r\n{}\r\n0\r\n\r\n"), REFUSED),
        ("endless extensions", chunked(te, &format!("5;{huge}\r\n{{}}\r\n0\r\n\r\n")), REFUSED),
        ("many headers", with(&many), &["400 3104"]),
        ("long headers", with(&format!("x: {huge}\r\n")), &["400 3104"]),
        ("a long target", target("GET", &format!("/{huge}")), &["400 3104"]),
    ];
    play(async |hub| {
        let before = hub.records();
        for (name, bytes, expected) in &cases {
            assert_eq!(hub.converse(bytes).await, *expected, "{name}");
        }
        assert_eq!(hub.records(), before);
        assert!(30 <= hub.parts.server.thread.counters.malformed.get());
    });
}

#[test]
fn unambiguous_requests_are_accepted() {
    let te = "transfer-encoding: chunked\r\n";
    let then = |bytes: Vec<u8>| [&bytes, HEALTH.as_bytes()].concat();
    let length = BODY.len();
    let twice = format!("content-length: {length}\r\n");
    let cases: Vec<(&str, Vec<u8>, &[&str])> = vec![
        ("empty lines first", then([b"\r\n\r\n", &*edited("", "")].concat()), &["202", "200"]),
        ("line feeds in a body", then(edited("\"amount\"", "\n\n\"amount\"")), &["202", "200"]),
        (
            "line feeds in a trailer",
            then(chunked(te, "{length}\r\n{}\r\n0\r\nx: a\n\r\n\r\n")),
            &["202", "200"],
        ),
        ("absolute form", then(edited("POST /", "POST http://other/")), &["202", "200"]),
        ("an upgrade", with("connection: upgrade\r\nupgrade: h2c\r\n"), &["202", "200"]),
        ("the same length twice", with(&twice), &["202", "200"]),
        ("chunks", then(chunked(te, "{length}\r\n{}\r\n0\r\n\r\n")), &["202", "200"]),
        ("extensions", then(chunked(te, "{length};a=\"b\"\r\n{}\r\n0;c\r\n\r\n")), &["202", "200"]),
        (
            "trailers",
            then(chunked(te, "{length}\r\n{}\r\n0\r\nfspiop-source: x\r\n\r\n")),
            &["202", "200"],
        ),
        // Chunks win, and nothing after them is accepted (RFC 9112, 6.3).
        (
            "a length, then chunks",
            then(chunked(&format!("content-length: 4\r\n{te}"), "{length}\r\n{}\r\n0\r\n\r\n")),
            &["202"],
        ),
        (
            "chunks, then a length",
            then(chunked(&format!("{te}content-length: 4\r\n"), "{length}\r\n{}\r\n0\r\n\r\n")),
            &["202"],
        ),
        ("HTTP/1.0", then(edited("HTTP/1.1", "HTTP/1.0")), &["202"]),
        ("the last one", with("connection: close\r\n"), &["202"]),
        (
            "asks first",
            edited("host: hub\r\n", "host: hub\r\nexpect: 100-continue\r\n"),
            &["100", "202"],
        ),
        ("an unknown expectation", with("expect: tea\r\n"), &["202", "200"]),
        ("not in numbers", edited("2.50", "1e999"), &["202"]),
        ("an unknown member twice", edited("\"unknown\"", "\"unknown\":1,\"unknown\""), &["202"]),
    ];
    play(async |hub| {
        for (name, bytes, expected) in &cases {
            // The inserted text must have the length in the head.
            let bytes = with_right_length(bytes);
            assert_eq!(hub.converse(&bytes).await, *expected, "{name}");
        }
    });
}

/// Frames of HTTP/2 that are no requests: a number at once is accepted, and a flood ends the
/// connection before the frames are processed.
#[test]
fn http2_floods_of_frames_end_the_connection() {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0upesi678";
    const SETTINGS: &[u8] = b"\0\0\0\x04\0\0\0\0\0";
    const WINDOW_UPDATE: &[u8] = b"\0\0\x04\x08\0\0\0\0\0\0\0\0\x01";
    const PRIORITY: &[u8] = b"\0\0\x05\x02\0\0\0\0\x01\0\0\0\x03\0";
    const UNKNOWN: &[u8] = b"\0\0\0\x77\0\0\0\0\0";
    let count = |answers: &[u8], frame: &[u8]| {
        answers.windows(frame.len()).filter(|window| *window == frame).count()
    };
    let pong = b"\0\0\x08\x06\x01\0\0\0\0upesi678";
    play(async |hub| {
        let malformed = || hub.parts.server.thread.counters.malformed.get();
        let few = [PREFACE, &PING.repeat(100)].concat();
        let answers = hub.exchange(&few).await;
        assert_eq!(count(&answers, pong), 100);
        let before = malformed();
        for (at, frame) in [PING, SETTINGS, WINDOW_UPDATE, PRIORITY, UNKNOWN].iter().enumerate() {
            let answers = hub.exchange(&[PREFACE, &frame.repeat(20_000)].concat()).await;
            assert!(count(&answers, pong) < 1_000, "frame {at}");
            assert_eq!(malformed() - before, at as u64 + 1, "frame {at}");
        }
    });
}

/// Corrects the length of the only body after a test has changed it.
fn with_right_length(bytes: &[u8]) -> Vec<u8> {
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    let (Some(at), Some(end)) = (text.find("content-length: "), text.rfind('}')) else {
        return bytes.to_vec();
    };
    if text.contains("chunked") || text.matches("content-length").count() != 1 {
        return bytes.to_vec();
    }
    let (line, body) = (&text[at..], text.find("\r\n\r\n{").expect("a body") + 4);
    let line = &line[..line.find("\r\n").expect("a line")];
    text.replacen(line, &format!("content-length: {}", end + 1 - body), 1).into_bytes()
}
