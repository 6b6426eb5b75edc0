//! Bounds: sizes, times, connections, paths and methods.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use expect_test::{Expect, expect, expect_file};
use operations::{AddressLimits, AdminOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::server::{TestServer, read_response};

const SHORT: Duration = Duration::from_millis(50);

/// Sends one request with the token, its head completed by `rest`.
async fn check(adjust: fn(&mut AdminOptions), rest: &str, expected: Expect) {
    let server = TestServer::start_with(adjust).await;
    let head = "PUT /participants/Hub HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n";
    let text = format!("{head}authorization: Bearer {}\r\n{rest}", server.token());
    let answer = server.send_raw(&text).await;
    expected.assert_eq(&format!("{} {}", answer.status, answer.body));
    assert_eq!(server.backend.inner().recorded, []);
    server.stop().await;
}

fn small_body(options: &mut AdminOptions) {
    options.limits.body_bytes = 20;
}

#[tokio::test]
async fn bodies_are_bounded_in_size() {
    let announced = "content-length: 21\r\n\r\n{\"isActive\":   false}";
    check(small_body, announced, expect![[r#"400 {"errorInformation":{"errorCode":"3104","errorDescription":"Too large payload"}}"#]]).await;
    let chunked = "transfer-encoding: chunked\r\n\r\n15\r\n{\"isActive\":   false}\r\n0\r\n\r\n";
    check(small_body, chunked, expect![[r#"400 {"errorInformation":{"errorCode":"3104","errorDescription":"Too large payload"}}"#]]).await;
    check(|_| (), "content-length: 5242881\r\n\r\n", expect![[r#"400 {"errorInformation":{"errorCode":"3104","errorDescription":"Too large payload"}}"#]]).await;
}

#[tokio::test]
async fn bodies_are_bounded_in_time() {
    let adjust = |options: &mut AdminOptions| options.limits.body_time = SHORT;
    check(adjust, "content-length: 20\r\n\r\n{\"isAct", expect![[r#"408 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - the body did not arrive in time"}}"#]]).await;
}

#[tokio::test]
async fn bodies_of_other_types_are_refused() {
    let text = "content-type: text/plain;a=\"+json\"\r\ncontent-length: 2\r\n\r\n{}";
    check(|_| (), text, expect![[r#"400 {"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - Unsupported Media Type: the body must be application/json"}}"#]]).await;
}

#[tokio::test]
async fn headers_are_bounded_in_size_and_time() {
    let long = format!("x-long: {}\r\n\r\n", "a".repeat(64 * 1024));
    check(|_| (), &long, expect![[r#"400 {"errorInformation":{"errorCode":"3104","errorDescription":"Too large payload"}}"#]]).await;
    let adjust = |options: &mut AdminOptions| options.limits.header_time = SHORT;
    check(adjust, "x-half: ", expect!["0 "]).await;
}

#[tokio::test]
async fn invalid_http_is_refused_with_a_body_and_headers() {
    let server = TestServer::start().await;
    let long =
        format!("GET /participants/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "x".repeat(70_000));
    for (text, code) in [
        ("GARBAGE\r\n\r\n", "3101"),
        ("GET /a HTTP/9.9\r\n\r\n", "3101"),
        ("GET /health HTTP/1.1\r\nhost : localhost\r\n\r\n", "3101"),
        ("GET /a HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n", "3101"),
        ("GET /a HTTP/1.1\r\ncontent-length: -1\r\n\r\n", "3101"),
        ("GET /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n", "3101"),
        ("GET /a HTTP/1.1\r\nhost: a\r\nx: a\r\n b\r\n\r\n", "3101"),
        ("GET /a HTTP/1.1\r\nhost: a\r\nx: a\rb\r\n\r\n", "3101"),
        ("GET /a HTTP/1.1\r\nhost: a\r\nx: a\0b\r\n\r\n", "3101"),
        ("GET /a HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n", "3101"),
        ("CONNECT hub:4000 HTTP/1.1\r\nhost: hub\r\n\r\n", "3101"),
        ("\u{16}\u{3}\u{1}\u{2}\0\u{1}\0\r\n\r\n", "3101"),
        (&long, "3104"),
    ] {
        let answer = server.send_raw(text).await;
        let what: String = text.chars().take(40).collect();
        assert_eq!(answer.status, 400, "{what}");
        assert!(answer.body.contains(&format!("\"errorCode\":\"{code}\"")), "{what}: {answer:?}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{what}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{what}");
    }
    server.stop().await;
}

/// Other parsers take a bare line feed for a part of a line, so that a request could be hidden.
#[tokio::test]
async fn a_bare_line_feed_in_a_head_is_refused_and_the_connection_ends() {
    const REFUSED: &str = r#"{"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - a line of the head does not end with CR LF"}}"#;
    const GOOD: &str = "GET /enums?id=settlementDelay HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let server = TestServer::start().await;
    for head in [
        "\nGET /health HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\nhost: localhost\r\n\r\n",
        "GET /health HTTP/1.1\r\nhost: localhost\n\r\n",
        "GET /health HTTP/1.1\r\nhost: localhost\r\n\n",
        "GET /health HTTP/1.1\nhost: localhost\n\n",
    ] {
        let answer = server.send_raw(head).await;
        assert_eq!((answer.status, answer.body.as_str()), (400, REFUSED), "{head:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{head:?}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{head:?}");

        // After a good request, which is answered, and in pieces; nothing after it is served.
        let hidden = format!("{GOOD}{head}{GOOD}");
        let answer = server.send_raw(&hidden).await;
        assert_eq!(answer.status, 200, "{hidden:?}");
        assert!(answer.body.ends_with(REFUSED), "{hidden:?}: {answer:?}");
        assert_eq!(answer.body.matches("HTTP/1.1 ").count(), 1, "{hidden:?}: {answer:?}");
    }
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(ask(&mut stream, "GET /enums?id=settlementDelay").await.unwrap(), 200);
    for piece in ["GET /health HT", "TP/1.1\r\nhost: local", "host\n"] {
        stream.write_all(piece.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    let answer = read_response(&mut stream).await;
    assert_eq!((answer.status, answer.body.as_str()), (400, REFUSED));
    server.stop().await;
}

#[tokio::test]
async fn line_feeds_in_bodies_are_not_line_ends_of_heads() {
    let server = TestServer::start().await;
    let head = "PUT /participants/Hub HTTP/1.1\r\nhost: localhost\r\n";
    let token = format!("authorization: Bearer {}\r\n", server.token());
    let body = "{\n\"isActive\":\n\ntrue\n}";
    let length = body.len();
    let plain = format!("{head}{token}content-length: {length}\r\n\r\n{body}");
    let chunked =
        format!("{head}{token}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{body}\r\n0\r\n\r\n");
    let last = "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answer = server.send_raw(&[plain, chunked, last.to_owned()].concat()).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.body.matches("HTTP/1.1 200 OK").count(), 2, "{answer:?}");
    server.stop().await;
}

#[tokio::test]
async fn connections_beyond_the_bound_are_closed_at_once() {
    let server = TestServer::start_with(|options| options.limits.connections = 1).await;
    let answer = server.backend.hold_queries();
    let mut first = TcpStream::connect(server.address).await.unwrap();
    let request = b"GET /participants HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    first.write_all(request).await.unwrap();
    server.backend.wait_for_query().await;
    let mut second = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(read_response(&mut second).await.status, 0, "the first is being answered");
    drop(answer);
    assert_eq!(read_response(&mut first).await.status, 200);
    server.stop().await;
}

/// Writes a request and reads the status of its answer; the connection stays.
async fn ask(stream: &mut TcpStream, request: &str) -> std::io::Result<u16> {
    stream.write_all(format!("{request} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await?;
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"}") && !bytes.ends_with(b"]") {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.split(' ').nth(1).unwrap().parse().unwrap())
}

/// More silent connections than there are places, of each kind of silence: nothing sent, half a
/// head, a body that does not come.
#[tokio::test]
async fn silent_connections_make_room_for_others() {
    let server = TestServer::start_with(|options| {
        let limits = &mut options.limits;
        (limits.connections, limits.connections_per_address) = (16, 8);
        (limits.header_time, limits.body_time) = (Duration::from_secs(60), Duration::from_secs(60));
    })
    .await;
    let mut spoken = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(ask(&mut spoken, "GET /enums?id=settlementDelay").await.unwrap(), 200);
    let body = "POST /participants HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n";
    let token = format!("authorization: Bearer {}\r\n\r\n", server.token());
    let mut silent = Vec::new();
    for sent in ["", "GET /hea", &format!("{body}{token}{{")] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(server.address).await.unwrap();
            stream.write_all(sent.as_bytes()).await.unwrap();
            silent.push(stream);
        }
        // An answered connection keeps its permit, and a new one gets one.
        assert_eq!(ask(&mut spoken, "GET /enums?id=settlementDelay").await.unwrap(), 200);
        let mut new = TcpStream::connect(server.address).await.unwrap();
        assert_eq!(ask(&mut new, "GET /enums?id=settlementDelay").await.unwrap(), 200);
    }
    assert_eq!(read_response(&mut silent.remove(0)).await.status, 0, "it was closed");
    let metrics = server.send("GET /metrics", "host: localhost\r\n", "").await.body;
    let value = |name: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap().parse::<u64>().unwrap()
    };
    assert!(50 < value("upesi_admin_connections_evicted_total"), "{metrics}");
    assert_eq!(value("upesi_admin_connections_refused_total"), 0);
    drop(silent);
    server.stop().await;
}

#[tokio::test]
async fn idle_connections_are_closed() {
    let adjust = |options: &mut AdminOptions| options.limits.header_time = SHORT;
    let server = TestServer::start_with(adjust).await;
    let mut never_spoke = TcpStream::connect(server.address).await.unwrap();
    let mut spoke = TcpStream::connect(server.address).await.unwrap();
    assert_eq!(ask(&mut spoke, "GET /enums?id=settlementDelay").await.unwrap(), 200);
    for stream in [&mut never_spoke, &mut spoke] {
        assert_eq!(read_response(stream).await.status, 0);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_connection_serves_many_requests_and_ends_with_the_server() {
    let server = TestServer::start().await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    for _ in 0..3 {
        let request = b"GET /enums?id=settlementDelay HTTP/1.1\r\nhost: localhost\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut bytes = Vec::new();
        while !bytes.ends_with(b"}") {
            assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0);
        }
        assert!(bytes.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    server.stop().await;
    assert_eq!(read_response(&mut stream).await.status, 0);
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused() {
    let server = TestServer::start().await;
    server.run_transcript(expect_file!["texts/routes.txt"]).await;
    server.stop().await;
}

#[tokio::test]
async fn an_address_beyond_its_rate_is_refused_before_its_token_is_checked() {
    let server = TestServer::start_with(|options| {
        let rate = NonZeroU32::new(2);
        options.address_limits = AddressLimits { rate, in_progress: None };
    })
    .await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut statuses = Vec::new();
    for _ in 0..4 {
        statuses.push(ask(&mut stream, "GET /enums?id=settlementDelay").await.unwrap());
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
    let answer = server
        .send_raw("PUT /participants/Hub HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await;
    assert_eq!(answer.status, 429, "not 401: {answer:?}");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert!(answer.body.contains("an address may send 2 requests per second"), "{answer:?}");
    // The rate comes back.
    let began = Instant::now();
    while ask(&mut stream, "GET /enums?id=settlementDelay").await.unwrap() != 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "it has its rate again");
        tokio::task::yield_now().await;
    }
    drop(stream);
    server.stop().await;
}
