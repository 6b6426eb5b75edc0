//! Authentication (DESIGN, contract 14), and the recorded author.

use std::task::Poll;
use std::time::{Duration, Instant};

use expect_test::expect;
use operations::Auth;

use crate::server::TestServer;

const CHANGE: &str = "PUT /participants/Hub";
const BODY: &str = r#"{"isActive":true}"#;

#[tokio::test]
async fn changes_need_the_token_and_reading_does_not() {
    let server = TestServer::start().await;
    let token = server.token();
    for (authorization, expected) in [
        (format!("authorization: Bearer {token}\r\n"), 200),
        (format!("authorization: bearer  {token} \r\n"), 200),
        (format!("authorization: Bearer {token}x\r\n"), 401),
        (format!("authorization: Basic {token}\r\n"), 401),
        (format!("authorization: {token}\r\n"), 401),
        ("authorization: Bearer \r\n".into(), 401),
        (String::new(), 401),
    ] {
        let headers = format!("host: localhost\r\n{authorization}");
        let answer = server.send(CHANGE, &headers, BODY).await;
        assert_eq!(answer.status, expected, "{authorization}");
        let challenge = (expected == 401).then_some("Bearer");
        assert_eq!(answer.header("www-authenticate"), challenge, "{authorization}");
    }
    for request in ["POST /participants", "DELETE /participants", "PATCH /nowhere"] {
        let answer = server.send(request, "host: localhost\r\n", "").await;
        assert_eq!(answer.status, 401, "{request}");
    }
    for request in ["GET /participants", "HEAD /participants", "GET /health", "GET /metrics"] {
        let answer = server.send(request, "host: localhost\r\n", "").await;
        assert_eq!(answer.status, 200, "{request}");
        assert_eq!(answer.body.is_empty(), request.starts_with("HEAD"), "{request}");
    }
    let refused = server.send(CHANGE, "host: localhost\r\n", BODY).await;
    expect![[r#"{"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - a change requires the admin API's bearer token"}}"#]].assert_eq(&refused.body);
    server.stop().await;
}

/// A gateway and the hub could each read another one of them.
#[tokio::test]
async fn a_header_that_may_occur_once_is_refused_when_it_occurs_twice() {
    let server = TestServer::start().await;
    let token = format!("authorization: Bearer {}\r\n", server.token());
    for (name, more) in [
        ("authorization", token.as_str()),
        ("authorization", "authorization: Bearer x\r\n"),
        ("content-type", "content-type: text/plain\r\n"),
        ("x-actor", "x-actor: a\r\nx-actor: b\r\n"),
        ("x-reason", "x-reason: a\r\nx-reason: a\r\n"),
        ("host", "host: localhost\r\n"),
    ] {
        for headers in [format!("{token}{more}"), format!("{more}{token}")] {
            let headers = format!("host: localhost\r\n{headers}");
            let answer = server.send(CHANGE, &headers, BODY).await;
            let expected = format!(
                r#"{{"errorInformation":{{"errorCode":"3101","errorDescription":"Malformed syntax - Header {name} must not be repeated"}}}}"#
            );
            assert_eq!((answer.status, &answer.body), (400, &expected), "{headers}");
            assert_eq!(answer.header("connection"), Some("close"), "{headers}");
        }
    }
    let metrics = server.send("GET /metrics", "host: localhost\r\n", "").await.body;
    assert!(metrics.contains("\nupesi_admin_tokens_refused_total 0\n"), "{metrics}");
    assert_eq!(server.backend.inner().recorded, []);
    server.stop().await;
}

#[tokio::test]
async fn coded_bodies_are_refused_and_media_types_are_read_as_http_writes_them() {
    let server = TestServer::start().await;
    let token = format!("host: localhost\r\nauthorization: Bearer {}\r\n", server.token());
    for (headers, status) in [
        ("content-encoding: gzip\r\n", 415),
        ("content-encoding: identity\r\ncontent-encoding: br\r\n", 415),
        ("content-encoding: identity, deflate\r\n", 415),
        ("content-encoding: Identity\r\n", 200),
        ("content-encoding: identity\r\ncontent-encoding: ,identity\r\n", 200),
    ] {
        let answer = server.send(CHANGE, &format!("{token}{headers}"), BODY).await;
        assert_eq!(answer.status, status, "{headers}");
        if status == 415 {
            expect![[r#"{"errorInformation":{"errorCode":"3101","errorDescription":"Malformed syntax - Content-Encoding must be identity"}}"#]].assert_eq(&answer.body);
        }
    }
    let answer = server.send("GET /health", "host: localhost\r\ncontent-encoding: gzip\r\n", "");
    assert_eq!(answer.await.status, 415);
    for (content_type, status) in [
        ("Application/JSON ;\tcharset=\"utf-8\"", 200),
        ("application/vnd.interoperability.participants+json;version=1.0", 200),
        ("application/json;charset", 400),
        ("application/json, text/plain", 400),
        ("text/plain;a=+json", 400),
    ] {
        let length = BODY.len();
        let text = format!(
            "{CHANGE} HTTP/1.1\r\n{token}content-type: {content_type}\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{BODY}"
        );
        assert_eq!(server.send_raw(&text).await.status, status, "{content_type}");
    }
    server.stop().await;
}

#[tokio::test]
async fn every_line_of_accept_is_read() {
    let server = TestServer::start().await;
    let token = format!("host: localhost\r\nauthorization: Bearer {}\r\n", server.token());
    for (accept, expected) in [
        ("", "400 3102"),
        ("accept:\r\n", "400 3101"),
        ("accept: json\r\n", "400 3101"),
        ("accept: application/json\r\naccept: \"\r\n", "400 3101"),
        ("accept: application/json;q=2\r\n", "400 3101"),
        ("accept:\r\naccept: application/json\r\n", "204"),
        ("accept: text/html, */*;q=0.1\r\n", "204"),
    ] {
        let answer = server.send("DELETE /oracles/7", &format!("{token}{accept}"), "").await;
        let code = answer.body.split("\"errorCode\":\"").nth(1).map(|rest| &rest[..4]);
        let found = format!("{} {}", answer.status, code.unwrap_or_default());
        assert_eq!(found.trim(), expected, "{accept}");
    }
    server.stop().await;
}

/// Guessing is slowed down, regardless of the number of connections; a valid token is not.
#[tokio::test]
async fn failed_tokens_are_counted_and_delayed_and_valid_ones_are_not() {
    let server = TestServer::start().await;
    let wrong = "host: localhost\r\nauthorization: Bearer wrong\r\n";
    for _ in 0..10 {
        assert_eq!(server.send(CHANGE, wrong, BODY).await.status, 401, "within the allowance");
    }
    let begun = Instant::now();
    let guesses = futures_of(40, || async { server.send(CHANGE, wrong, BODY).await });
    let good = format!("host: localhost\r\nauthorization: Bearer {}\r\n", server.token());
    let operator = async {
        let answer = server.send(CHANGE, &good, BODY).await;
        (answer.status, begun.elapsed())
    };
    let (guesses, (status, took)) = tokio::join!(guesses, operator);
    assert_eq!(status, 200);
    assert!(took < Duration::from_millis(900), "the operator waited {took:?}");
    let count = |status| guesses.iter().filter(|answer| answer.status == status).count();
    assert!(Duration::from_secs(1) <= begun.elapsed(), "some answers were held");
    assert_eq!(count(401) + count(429), 40);
    assert!(16 <= count(401) && 20 <= count(429), "{} held, {} not", count(401), count(429));
    let refused = guesses.iter().find(|answer| answer.status == 429).unwrap();
    assert_eq!(refused.header("retry-after"), Some("1"));
    expect![[r#"{"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - too many requests without a valid token; retry after 1 s"}}"#]].assert_eq(&refused.body);
    let metrics = server.send("GET /metrics", "host: localhost\r\n", "").await.body;
    assert!(metrics.contains("\nupesi_admin_tokens_refused_total 50\n"), "{metrics}");
    server.stop().await;
}

/// Runs the same work several times at once.
async fn futures_of<T, W: Future<Output = T>>(count: usize, work: impl Fn() -> W) -> Vec<T> {
    let mut waiting: Vec<_> = (0..count).map(|_| Box::pin(work())).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|context| {
        waiting.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(result) => {
                done.push(result);
                false
            }
            Poll::Pending => true,
        });
        if waiting.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done
}

#[tokio::test]
async fn responses_forbid_sniffing_and_framing() {
    let server = TestServer::start().await;
    for (request, status, policy) in [
        ("GET /health", 200, "default-src 'none'"),
        ("GET /metrics", 200, "default-src 'none'"),
        ("GET /documents", 200, "style-src 'unsafe-inline'"),
        ("GET /nowhere", 404, "default-src 'none'"),
        ("DELETE /participants", 401, "default-src 'none'"),
        ("GET /participants/nobody", 400, "default-src 'none'"),
    ] {
        let answer = server.send(request, "host: localhost\r\n", "").await;
        assert_eq!(answer.status, status, "{request}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{request}");
        assert_eq!(answer.header("x-frame-options"), Some("DENY"), "{request}");
        let found = answer.header("content-security-policy").unwrap();
        assert!(found.contains(policy) && found.contains("frame-ancestors 'none'"), "{found}");
    }
    server.stop().await;
}

#[tokio::test]
async fn a_new_token_replaces_the_old_one_at_once() {
    let server = TestServer::start().await;
    let old = format!("host: localhost\r\nauthorization: Bearer {}\r\n", server.token());
    let second = "a-second-token-that-is-long-enough";
    std::fs::write(&server.token_path, second).unwrap();
    let new = format!("host: localhost\r\nauthorization: Bearer {second}\r\n");
    assert_eq!(server.send(CHANGE, &old, BODY).await.status, 401);
    assert_eq!(server.send(CHANGE, &new, BODY).await.status, 200);
    std::fs::remove_file(&server.token_path).unwrap();
    let answer = server.send(CHANGE, &new, BODY).await;
    expect![[r#"500 {"errorInformation":{"errorCode":"2001","errorDescription":"Internal server error - the file of the admin token cannot be read; see the server log"}}"#]].assert_eq(&format!("{} {}", answer.status, answer.body));
    server.stop().await;
}

#[tokio::test]
async fn only_known_hosts_and_origins_are_answered() {
    let server = TestServer::start_with(|options| {
        options.hosts = vec!["admin.example".into()];
        options.origins = vec!["https://console.example".into()];
    })
    .await;
    for (headers, expected) in [
        ("host: localhost\r\n", 200),
        ("host: LOCALHOST:3001\r\n", 200),
        ("host: 127.0.0.1:3001\r\n", 200),
        ("host: 127.1.2.3\r\n", 200),
        ("host: [::1]:3001\r\n", 200),
        ("host: Admin.Example:80\r\n", 200),
        ("host: localhost\r\norigin: https://console.example\r\n", 200),
        ("host: localhost:3001\r\norigin: http://localhost:3001\r\n", 200),
        ("host: admin.example\r\norigin: https://admin.example\r\n", 200),
        ("", 400),
        ("host: \r\n", 403),
        ("host: evil.example\r\n", 403),
        ("host: localhost.evil.example\r\n", 403),
        ("host: localhost@evil.example\r\n", 403),
        ("host: evil@localhost\r\n", 403),
        ("host: 10.0.0.1\r\n", 403),
        ("host: [::2]\r\n", 403),
        ("host: localhost\r\nhost: evil.example\r\n", 400),
        ("host: localhost\r\norigin: https://evil.example\r\n", 403),
        ("host: localhost:3001\r\norigin: http://localhost\r\n", 403),
        ("host: localhost\r\norigin: http://localhost.evil.example\r\n", 403),
        ("host: localhost\r\norigin: null\r\n", 403),
    ] {
        let answer = server.send("GET /participants", headers, "").await;
        assert_eq!(answer.status, expected, "{headers}");
    }
    let absolute = "GET http://evil.example/participants";
    let answer = server.send(absolute, "host: localhost\r\n", "").await;
    expect![[r#"403 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - the Host header is not a configured host of the admin API"}}"#]].assert_eq(&format!("{} {}", answer.status, answer.body));
    let answer = server.send("GET /health", "host: localhost\r\norigin: null\r\n", "").await;
    expect![[r#"403 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - the Origin is not a configured origin of the admin API"}}"#]].assert_eq(&format!("{} {}", answer.status, answer.body));
    server.stop().await;
}

#[tokio::test]
async fn author_and_reason_are_recorded() {
    let server = TestServer::start().await;
    let token = server.token();
    let fingerprint = &blake3::hash(token.as_bytes()).to_hex()[..8];
    let change = async |more: &str, request: &str, body: &str| {
        let headers = format!("host: localhost\r\nauthorization: Bearer {token}\r\n{more}");
        let status = server.send(request, &headers, body).await.status;
        let recorded = server.backend.inner().recorded.pop();
        let recorded = recorded.map(|change| (change.actor, change.reason));
        (status, recorded)
    };
    let recorded = |actor: String, reason: &str| Some((actor, reason.to_owned()));
    let plain = format!("token:{fingerprint} 127.0.0.1");
    assert_eq!(change("", CHANGE, BODY).await, (200, recorded(plain.clone(), "")));
    let named = format!("ann (token:{fingerprint}) 127.0.0.1");
    let headers = "x-actor: ann\r\nx-reason: a drill\r\n";
    assert_eq!(change(headers, CHANGE, BODY).await, (200, recorded(named, "a drill")));
    let end = "PUT /participants/Hub/accounts/1/transfers/01HV0000000000000000000000";
    let body = r#"{"action":"recordFundsOutAbort","reason":"from the body"}"#;
    let headers = "x-reason: a drill\r\n";
    assert_eq!(change(headers, end, body).await.1, recorded(plain.clone(), "from the body"));
    let start = "POST /participants/Hub/accounts/1";
    let body = r#"{"transferId":"01HV0000000000000000000000","externalReference":"bank 7",
        "action":"recordFundsIn","reason":"deposit","amount":{"amount":1,"currency":"USD"}}"#;
    let reason = "deposit (externalReference bank 7)";
    assert_eq!(change("", start, body).await.1, recorded(plain, reason));
    let long = format!("x-actor: {}\r\n", "a".repeat(129));
    assert_eq!(change(&long, CHANGE, BODY).await, (400, None));
    let long = format!("x-reason: {}\r\n", "a".repeat(1_025));
    assert_eq!(change(&long, CHANGE, BODY).await, (400, None));
    server.stop().await;
}

#[tokio::test]
async fn without_authentication_every_client_may_change() {
    let server = TestServer::start_with(|options| options.auth = Auth::None).await;
    let headers = "host: localhost\r\nx-actor: gateway\r\n";
    assert_eq!(server.send(CHANGE, headers, BODY).await.status, 200);
    let recorded = server.backend.inner().recorded.pop().unwrap();
    assert_eq!(recorded.actor, "gateway (unauthenticated) 127.0.0.1");
    let foreign = "host: localhost\r\norigin: https://evil.example\r\n";
    assert_eq!(server.send(CHANGE, foreign, BODY).await.status, 403);
    server.stop().await;
}
