//! The listener for supervisors' probes.

use std::sync::Arc;

use expect_test::{Expect, expect};
use operations::{DiskStatus, Unavailable, serve_probes};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

use crate::backend::TestBackend;
use crate::server::read_response;

#[tokio::test]
async fn probes_are_answered_and_nothing_else() {
    let backend = Arc::new(TestBackend::new());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(serve_probes(
        listener,
        Some(Arc::<TestBackend>::clone(&backend) as _),
        stopped,
    ));
    let check = async |request: &str, expected: Expect| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!("{request} HTTP/1.1\r\nhost: any.example\r\nconnection: close\r\n\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let answer = read_response(&mut stream).await;
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        let allow = answer.header("allow").unwrap_or_default();
        expected.assert_eq(format!("{} {} {allow}", answer.status, answer.body).trim_end());
    };
    check("GET /live", expect![[r#"200 {"status":"OK"}"#]]).await;
    check("GET /startup", expect![[r#"200 {"status":"OK"}"#]]).await;
    check("GET /ready", expect![[r#"200 {"status":"OK"}"#]]).await;
    check("HEAD /ready", expect!["200"]).await;
    check("GET /health", expect![[r#"200 {"status":"OK","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"OK"}],"storage":"OK"}"#]]).await;
    check("POST /health", expect![[r#"405 {"errorInformation":{"errorCode":"3000","errorDescription":"Generic client error - Method Not Allowed"}} GET, HEAD"#]]).await;
    for request in ["GET /metrics", "GET /participants", "PUT /participants/Hub", "GET /"] {
        check(
            request,
            expect![[
                r#"404 {"errorInformation":{"errorCode":"3002","errorDescription":"Unknown URI"}}"#
            ]],
        )
        .await;
    }
    backend.inner().unavailable = Some(Unavailable::Stopped);
    check("GET /live", expect![[r#"200 {"status":"OK"}"#]]).await;
    check("GET /startup", expect![[r#"200 {"status":"OK"}"#]]).await;
    check("GET /ready", expect![[r#"503 {"status":"DOWN"}"#]]).await;
    backend.inner().unavailable = None;
    backend.inner().storage =
        DiskStatus { failing: Some("record 7".into()), ..DiskStatus::default() };
    check("GET /health", expect![[r#"200 {"status":"OK","uptime":12.345,"startTime":"2026-01-01T10:00:00.000Z","versionNumber":"0.1.0","services":[{"name":"datastore","status":"OK"},{"name":"broker","status":"OK"}],"storage":"FAILING"}"#]]).await;

    // A head has one reading only, as on the admin port.
    for (more, detail) in [
        ("x: y\n", "a line of the head does not end with CR LF"),
        ("authorization: a\r\nauthorization: b\r\n", "Header authorization must not be repeated"),
    ] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let text = format!("GET /live HTTP/1.1\r\nhost: any.example\r\n{more}\r\n");
        stream.write_all(text.as_bytes()).await.unwrap();
        let answer = read_response(&mut stream).await;
        assert_eq!(answer.status, 400, "{more}");
        assert!(answer.body.contains(detail), "{more}: {answer:?}");
    }

    // Silent connections cannot close it.
    let mut silent = Vec::new();
    for _ in 0..200 {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    check("GET /live", expect![[r#"200 {"status":"OK"}"#]]).await;
    stop.send(()).unwrap();
    serving.await.unwrap();
}
