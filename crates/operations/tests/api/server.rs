//! A test server and its client.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use expect_test::{Expect, ExpectFile};
use operations::{AdminOptions, Auth, load_or_create_token, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::backend::TestBackend;

pub(crate) struct TestServer {
    pub(crate) address: SocketAddr,
    pub(crate) backend: Arc<TestBackend>,
    pub(crate) token_path: PathBuf,
    directory: tempfile::TempDir,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl TestServer {
    /// Serves with a token and otherwise default options.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(adjust: impl FnOnce(&mut AdminOptions)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let token_path = directory.path().join("admin-token");
        let mut options =
            AdminOptions::new(Auth::Token(load_or_create_token(&token_path).unwrap()));
        adjust(&mut options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let backend = Arc::new(TestBackend::new());
        let (stop, stopped) = oneshot::channel();
        let task =
            tokio::spawn(serve(listener, Arc::<TestBackend>::clone(&backend), options, stopped));
        Self { address, backend, token_path, directory, stop, task }
    }

    /// Stops the server, which must release its port and its backend.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap();
        assert_eq!(Arc::strong_count(&self.backend), 1);
        assert!(TcpStream::connect(self.address).await.is_err());
        self.directory.close().unwrap();
    }

    pub(crate) fn token(&self) -> String {
        std::fs::read_to_string(&self.token_path).unwrap().trim_end().to_owned()
    }

    /// Sends `POST /path` with a body of JSON and the token; answers with status and body.
    pub(crate) async fn ask(&self, request: &str, body: &str) -> String {
        let token = self.token();
        let headers =
            format!("host: localhost\r\naccept: */*\r\nauthorization: Bearer {token}\r\n");
        let answer = self.send(request, &headers, body).await;
        format!("{} {}", answer.status, answer.body).trim_end().to_owned()
    }

    /// Runs a text: sends each line that begins with `>`, a request with its body, and compares
    /// the line after it with the answer. UPDATE_EXPECT=1 writes the answers.
    pub(crate) async fn run_transcript(&self, text: ExpectFile) {
        let mut played = String::new();
        let authorization = format!("authorization: Bearer {}\r\n", self.token());
        let headers = format!("host: localhost\r\naccept: */*\r\n{authorization}");
        for line in text.data().lines() {
            let Some(sent) = line.strip_prefix("> ") else {
                if line.is_empty() || line.starts_with('#') {
                    writeln!(played, "{line}").unwrap();
                }
                continue;
            };
            let end = sent.match_indices(' ').nth(1).map_or(sent.len(), |(at, _)| at);
            let (request, body) = sent.split_at(end);
            let answer = self.send(request, &headers, body.get(1..).unwrap_or_default()).await;
            writeln!(played, "{line}\n{}", answer.line()).unwrap();
        }
        text.assert_eq(&played);
    }

    /// The same, compared.
    pub(crate) async fn check(&self, request: &str, body: &str, expected: Expect) {
        expected.assert_eq(&self.ask(request, body).await);
    }

    /// The same, and nothing but the status matters.
    pub(crate) async fn check_status(&self, request: &str, body: &str, expected: u16) {
        let answer = self.ask(request, body).await;
        assert!(answer.starts_with(&expected.to_string()), "{request} {body}: {answer}");
    }

    pub(crate) async fn send(&self, request: &str, headers: &str, body: &str) -> HttpResponse {
        let mut text = format!("{request} HTTP/1.1\r\n{headers}connection: close\r\n");
        if !body.is_empty() {
            let length = body.len();
            write!(text, "content-type: application/json\r\ncontent-length: {length}\r\n").unwrap();
        }
        write!(text, "\r\n{body}").unwrap();
        self.send_raw(&text).await
    }

    /// Writes bytes and reads until the server closes.
    pub(crate) async fn send_raw(&self, text: &str) -> HttpResponse {
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        read_response(&mut stream).await
    }
}

/// An HTTP response, taken apart.
#[derive(Debug)]
pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl HttpResponse {
    /// Status, allowed methods, and the body: of an error its code and description.
    pub(crate) fn line(&self) -> String {
        let body: serde_json::Value = serde_json::from_str(&self.body).unwrap_or_default();
        let error = &body["errorInformation"];
        let text = |member: &str| error[member].as_str().unwrap_or_default();
        let (code, description) = (text("errorCode"), text("errorDescription"));
        let plain = serde_json::json!({ "errorInformation":
            { "errorCode": code, "errorDescription": description } })
        .to_string();
        let shown =
            if plain == self.body { format!("{code} {description}") } else { self.body.clone() };
        // A transcript has line feeds only.
        let shown = shown.replace("\r\n", "\n");
        let allow = self.header("allow").map_or(String::new(), |allow| format!(" [{allow}]"));
        format!("{}{allow} {shown}", self.status).trim_end().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known == name)?;
        Some(found.1.as_str())
    }
}

/// Reads until the server closes; status 0 when it closed without a word.
pub(crate) async fn read_response(stream: &mut TcpStream) -> HttpResponse {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4_096];
    // A reset after the answer is an end like any other.
    while let Ok(length @ 1..) = stream.read(&mut chunk).await {
        bytes.extend_from_slice(&chunk[..length]);
    }
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    HttpResponse { status, headers, body: body.to_owned() }
}
