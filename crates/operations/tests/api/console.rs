//! The files of the console: exact headers, no token, nothing else below their path.

use expect_test::expect;
use operations::{Auth, load_or_create_token};

use crate::server::{HttpResponse, TestServer};

const HOST: &str = "host: localhost\r\n";

/// The names and values of all headers but the date, the length and the tag.
fn headers_of(response: &HttpResponse) -> String {
    let varying = ["date", "content-length", "etag"];
    let shown = response.headers.iter().filter(|(name, _)| !varying.contains(&&**name));
    let mut lines: Vec<_> = shown.map(|(name, value)| format!("{name}: {value}")).collect();
    lines.sort_unstable();
    format!("{}\n{}\n", response.status, lines.join("\n"))
}

#[tokio::test]
async fn the_page_has_a_strict_policy_and_needs_no_token() {
    let server = TestServer::start_with(|options| {
        let directory = tempfile::tempdir().unwrap();
        let token = load_or_create_token(&directory.path().join("token")).unwrap();
        options.auth = Auth::Roles(token);
    })
    .await;
    let page = server.send("GET /console/", HOST, "").await;
    expect![[r#"
        200
        cache-control: no-cache
        connection: close
        content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'
        content-type: text/html; charset=utf-8
        cross-origin-opener-policy: same-origin
        cross-origin-resource-policy: same-origin
        referrer-policy: no-referrer
        vary: accept-encoding
        x-content-type-options: nosniff
        x-frame-options: DENY
    "#]]
    .assert_eq(&headers_of(&page));
    assert!(page.body.contains(r#"<script type="module" src="console.js">"#), "{}", page.body);
    assert!(!page.body.contains("<style") && !page.body.contains("style="), "{}", page.body);
    assert_eq!(server.send("GET /identity", HOST, "").await.status, 401);
    server.stop().await;
}

#[tokio::test]
async fn files_are_sent_compressed_and_once() {
    let server = TestServer::start().await;
    for (path, media_type) in [
        ("/console/", "text/html; charset=utf-8"),
        ("/console/console.js", "text/javascript; charset=utf-8"),
        ("/console/style.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
        ("/console/licences.txt", "text/plain; charset=utf-8"),
    ] {
        let mut tags = Vec::new();
        for (accepted, coding) in [
            ("", None),
            ("accept-encoding: br\r\n", None),
            ("accept-encoding: gzip;q=0, br\r\n", None),
            ("accept-encoding: br, GZIP;q=0.5\r\n", Some("gzip")),
        ] {
            let head = format!("{HOST}{accepted}");
            let response = server.send(&format!("HEAD {path}"), &head, "").await;
            let shown = (response.status, response.header("content-type"));
            assert_eq!(shown, (200, Some(media_type)), "{path} {accepted}");
            assert_eq!(response.header("content-encoding"), coding, "{path} {accepted}");
            let tag = response.header("etag").unwrap().to_owned();
            let known = format!("{head}if-none-match: \"other\", W/{tag}\r\n");
            let again = server.send(&format!("GET {path}"), &known, "").await;
            assert_eq!((again.status, &*again.body), (304, ""), "{path} {accepted}");
            assert_eq!(again.header("etag"), Some(&*tag));
            tags.push(tag);
        }
        assert_ne!(tags[0], tags[3], "{path}: two forms, two tags");
    }
    server.stop().await;
}

#[tokio::test]
async fn unknown_files_methods_and_hosts_are_refused() {
    let server = TestServer::start().await;
    for (request, headers, status) in [
        ("GET /", HOST, 302),
        ("GET /console", HOST, 302),
        ("GET /console/index.html", HOST, 404),
        ("GET /console/../participants", HOST, 404),
        ("GET /console/%2e%2e/admin-token", HOST, 404),
        ("GET /console/console.js.gz", HOST, 404),
        ("GET /consoles", HOST, 404),
        ("POST /console/", HOST, 405),
        ("DELETE /console/console.js", HOST, 405),
        ("GET /console/", "host: evil.example\r\n", 403),
        ("GET /console/", "host: localhost\r\norigin: https://evil.example\r\n", 403),
    ] {
        let response = server.send(request, headers, "").await;
        assert_eq!(response.status, status, "{request} {headers}");
        let expected = if status == 302 { Some("/console/") } else { None };
        assert_eq!(response.header("location"), expected, "{request}");
    }
    server.stop().await;
}
