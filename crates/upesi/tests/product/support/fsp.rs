//! A participant that only listens: it records what it is sent and answers as it is told.

use std::collections::HashMap;
use std::io::Write;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::Value;

use super::http::{Connection, Headers, Kind, PATIENCE, Parsed};

const ACCEPTED: &str = "HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";

/// What a participant was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Callback {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

impl Callback {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> String {
        self.headers.get(name).unwrap_or_default()
    }

    /// The trace that the message belongs to.
    pub(crate) fn trace(&self) -> String {
        self.header("traceparent").split('-').nth(1).unwrap_or_default().to_owned()
    }

    /// `PUT /path from SOURCE: what it says`.
    pub(crate) fn line(&self) -> String {
        let source = self.header("fspiop-source");
        format!("{} {} from {source}: {}", self.method, self.path, self.says())
    }

    /// The gist of the body: an error, a transfer's state, or the text as it is.
    fn says(&self) -> String {
        let Ok(body) = serde_json::from_slice::<Value>(&self.body) else { return self.text() };
        let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
        if let Some(error) = body.get("errorInformation") {
            return format!("{} {}", text(&error["errorCode"]), text(&error["errorDescription"]));
        }
        let Some(state) = body.get("transferState") else { return self.text() };
        let mut says = text(state);
        if body.get("fulfilment").is_some() {
            says += " with fulfilment";
        }
        if let Some(extensions) = body["extensionList"]["extension"].as_array() {
            for extension in extensions {
                says += &format!(", {} {}", text(&extension["key"]), text(&extension["value"]));
            }
        }
        says
    }
}

/// How a participant answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// 202 to a POST, a GET or a DELETE, 200 to the rest.
    Accept,
    Status(u16),
    /// As `Accept`, and closes the connection without a word about it.
    HangUp,
    /// No answer; the connection stays open until the participant stops.
    Silence,
}

/// How a recording participant answers each request.
pub(crate) type Replying = fn(&Callback) -> Reply;

type Handler = dyn Fn(&Callback) -> Reply + Send + Sync;

/// A server whose requests go to a function.
pub(crate) struct Server {
    address: SocketAddr,
    open: Arc<Open>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Open {
    stopped: AtomicBool,
    streams: Mutex<HashMap<usize, TcpStream>>,
}

impl Server {
    pub(crate) fn start(handler: impl Fn(&Callback) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, handler)
    }

    /// On a free port of an address that this machine has.
    pub(crate) fn start_at(
        address: Ipv4Addr,
        handler: impl Fn(&Callback) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(Open::default());
        let handler: Arc<Handler> = Arc::new(handler);
        let shared = Arc::clone(&open);
        let accepting = std::thread::spawn(move || accept(&listener, &shared, &handler));
        Self { address, open, accepting: Some(accepting) }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.open.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which may have ended by itself.
        let _woken = TcpStream::connect(self.address);
        let _ended = self.accepting.take().map(JoinHandle::join);
        for stream in self.open.streams.lock().unwrap().values() {
            // Whoever closed before does not matter.
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, open: &Arc<Open>, handler: &Arc<Handler>) {
    for (number, stream) in listener.incoming().enumerate() {
        let Ok(stream) = stream else { continue };
        if open.stopped.load(Ordering::SeqCst) {
            return;
        }
        open.streams.lock().unwrap().insert(number, stream.try_clone().unwrap());
        let (open, handler) = (Arc::clone(open), Arc::clone(handler));
        std::thread::spawn(move || {
            serve(stream, &*handler);
            open.streams.lock().unwrap().remove(&number);
        });
    }
}

fn serve(stream: TcpStream, handler: &Handler) {
    let Ok(mut connection) = Connection::new(stream) else { return };
    // The hub may close or be killed in the middle of anything.
    while let Ok(Some(Parsed { start, headers, body })) = connection.read(Kind::Request) {
        let (method, path) = start.split_once(' ').expect("method and path");
        let (method, path) = (method.to_owned(), path.to_owned());
        let callback = Callback { method, path, headers, body };
        let status = match handler(&callback) {
            Reply::Status(status) => status,
            Reply::HangUp => {
                let _told = connection.stream.write_all(ACCEPTED.as_bytes());
                let _closed = connection.stream.shutdown(Shutdown::Both);
                return;
            }
            Reply::Accept if ["PUT", "PATCH"].contains(&&*callback.method) => 200,
            Reply::Accept => 202,
            Reply::Silence => continue,
        };
        // Whoever follows it is seen to.
        let more = if status / 100 == 3 { "location: /elsewhere\r\n" } else { "" };
        let answer = format!("HTTP/1.1 {status} Answer\r\n{more}content-length: 0\r\n\r\n");
        if connection.stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// A participant that records everything.
pub(crate) struct Fsp {
    pub(crate) name: String,
    server: Server,
    records: Arc<Records>,
}

struct Records {
    callbacks: Mutex<Vec<Callback>>,
    arrived: Condvar,
    reply: Mutex<Replying>,
}

impl Fsp {
    pub(crate) fn start(name: &str) -> Self {
        let records = Arc::new(Records {
            callbacks: Mutex::default(),
            arrived: Condvar::new(),
            reply: Mutex::new(|_| Reply::Accept),
        });
        let recording = Arc::clone(&records);
        let server = Server::start(move |callback| {
            let reply = *recording.reply.lock().unwrap();
            recording.callbacks.lock().unwrap().push(callback.clone());
            recording.arrived.notify_all();
            reply(callback)
        });
        Self { name: name.to_owned(), server, records }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Answers in this way from now on.
    pub(crate) fn answer(&self, reply: Replying) {
        *self.records.reply.lock().unwrap() = reply;
    }

    /// Waits for a callback to this path by this method, and leaves it in the record.
    pub(crate) fn wait(&self, method: &str, path: &str) -> Callback {
        let found = |callback: &&Callback| callback.method == method && callback.path == path;
        let deadline = Instant::now() + PATIENCE;
        let mut callbacks = self.lock();
        loop {
            if let Some(callback) = callbacks.iter().find(found) {
                return callback.clone();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let heard: Vec<_> = callbacks.iter().map(Callback::line).collect();
            let name = &self.name;
            assert!(!left.is_zero(), "{name} waits for {method} {path} and heard {heard:#?}");
            callbacks = self.records.arrived.wait_timeout(callbacks, left).unwrap().0;
        }
    }

    /// Everything that came and was not taken.
    pub(crate) fn heard(&self) -> Vec<Callback> {
        self.lock().clone()
    }

    /// Waits for a number of callbacks and takes all that came, in the order of their coming.
    pub(crate) fn take(&self, count: usize) -> Vec<Callback> {
        let callbacks = self.take_unchecked(count);
        callbacks.iter().for_each(|callback| self.check(callback));
        callbacks
    }

    /// The same, whatever they are: a hub that signs has one header more.
    pub(crate) fn take_unchecked(&self, count: usize) -> Vec<Callback> {
        let callbacks = self.lock();
        let few = |callbacks: &mut Vec<Callback>| callbacks.len() < count;
        let waited = self.records.arrived.wait_timeout_while(callbacks, PATIENCE, few);
        let mut callbacks = waited.unwrap().0;
        let heard: Vec<_> = callbacks.iter().map(Callback::line).collect();
        assert!(count <= callbacks.len(), "{} heard only {heard:#?}", self.name);
        std::mem::take(&mut *callbacks)
    }

    /// What every callback of the hub must be (hub-semantics 1.2), whatever it is about.
    fn check(&self, callback: &Callback) {
        let Callback { method, path, headers, body } = callback;
        let context = format!("{method} {path}: {headers:#?} {}", callback.text());
        let is = |name: &str, value: &str| {
            assert_eq!(headers.get(name).as_deref(), Some(value), "{name} of {context}");
        };
        let resource = path.split('/').nth(1).unwrap_or_default();
        is("host", &self.address().to_string());
        if !body.is_empty() {
            is("content-length", &body.len().to_string());
        }
        is("fspiop-destination", &self.name);
        is("fspiop-uri", path);
        is("fspiop-http-method", method);
        for name in ["connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"] {
            assert!(!headers.has(name), "{name} is for one hop: {context}");
        }
        let media = format!("application/vnd.interoperability.{resource}+json;version=");
        let content_type = callback.header("content-type");
        assert!(content_type.starts_with(&media), "{context}");
        assert!(callback.header("date").ends_with(" GMT"), "{context}");
        assert_eq!(callback.trace().len(), 32, "{context}");
        assert!(headers.has("tracestate"), "{context}");
        if ["PUT", "PATCH"].contains(&&**method) {
            assert!(!headers.has("accept"), "{context}");
        }
        if callback.header("fspiop-source") == "Hub" {
            assert!(content_type.ends_with("=2.0"), "{context}");
            assert!(!headers.has("fspiop-signature"), "{context}");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Callback>> {
        self.records.callbacks.lock().unwrap()
    }
}
