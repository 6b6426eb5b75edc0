//! A participant that listens: it records received callbacks and answers as configured.

use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::Value;
use testkit::http::PATIENCE;
pub(crate) use testkit::http::Request as Callback;
use testkit::server::{Inbox, Reply, Server};

/// The trace of a message.
pub(crate) fn trace(callback: &Callback) -> String {
    callback.header("traceparent").split('-').nth(1).unwrap_or_default().to_owned()
}

/// `PUT /path from SOURCE: gist`.
pub(crate) fn line(callback: &Callback) -> String {
    let Callback { method, path, .. } = callback;
    format!("{method} {path} from {}: {}", callback.header("fspiop-source"), gist(callback))
}

/// The gist of the body: an error, a transfer's state, or the whole text.
fn gist(callback: &Callback) -> String {
    let Ok(body) = serde_json::from_slice::<Value>(&callback.body) else { return callback.text() };
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    if let Some(error) = body.get("errorInformation") {
        return format!("{} {}", text(&error["errorCode"]), text(&error["errorDescription"]));
    }
    let Some(state) = body.get("transferState") else { return callback.text() };
    let mut gist = text(state);
    if body.get("fulfilment").is_some() {
        gist += " with fulfilment";
    }
    for extension in body["extensionList"]["extension"].as_array().into_iter().flatten() {
        gist += &format!(", {} {}", text(&extension["key"]), text(&extension["value"]));
    }
    gist
}

/// A server on the loopback address.
pub(crate) fn serve(handler: impl Fn(&Callback) -> Reply + Send + Sync + 'static) -> Server {
    Server::start(std::net::Ipv4Addr::LOCALHOST, handler).unwrap()
}

/// The response of a recording participant to each request.
pub(crate) type Replying = fn(&Callback) -> Reply;

/// A participant that records all callbacks.
pub(crate) struct Fsp {
    pub(crate) name: String,
    server: Server,
    inbox: Arc<Inbox<Records>>,
}

#[derive(Default)]
struct Records {
    callbacks: Vec<Callback>,
    reply: Option<Replying>,
}

impl Fsp {
    pub(crate) fn start(name: &str) -> Self {
        let inbox: Arc<Inbox<Records>> = Arc::default();
        let recording = Arc::clone(&inbox);
        let server = serve(move |callback| {
            let reply = recording.put(|records| {
                records.callbacks.push(callback.clone());
                records.reply
            });
            reply.map_or(Reply::Accept, |reply| reply(callback))
        });
        Self { name: name.to_owned(), server, inbox }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Sets the response to subsequent requests.
    pub(crate) fn answer(&self, reply: Replying) {
        self.inbox.lock().reply = Some(reply);
    }

    /// Waits for a callback with this method and path. It remains in the record.
    pub(crate) fn wait(&self, method: &str, path: &str) -> Callback {
        let wanted = |callback: &&Callback| callback.method == method && callback.path == path;
        let found =
            self.inbox.wait(PATIENCE, |records| records.callbacks.iter().find(wanted).cloned());
        found.unwrap_or_else(|| {
            let received: Vec<_> = self.received().iter().map(line).collect();
            panic!("{} waits for {method} {path} and received {received:#?}", self.name)
        })
    }

    /// The received callbacks that were not taken.
    pub(crate) fn received(&self) -> Vec<Callback> {
        self.inbox.lock().callbacks.clone()
    }

    /// Waits for a number of callbacks and takes all, in the order of receipt.
    pub(crate) fn take(&self, count: usize) -> Vec<Callback> {
        let callbacks = self.take_unchecked(count);
        callbacks.iter().for_each(|callback| self.check(callback));
        callbacks
    }

    /// Waits and takes, without the header checks, since a hub that signs adds a header.
    pub(crate) fn take_unchecked(&self, count: usize) -> Vec<Callback> {
        let taken = self.inbox.wait(PATIENCE, |Records { callbacks, .. }| {
            (count <= callbacks.len()).then(|| std::mem::take(callbacks))
        });
        taken.unwrap_or_else(|| {
            let received: Vec<_> = self.received().iter().map(line).collect();
            panic!("{} received only {received:#?}", self.name)
        })
    }

    /// Requirements for every callback of the hub (hub-semantics 1.2).
    fn check(&self, callback: &Callback) {
        let Callback { method, path, headers, body } = callback;
        let context = format!("{method} {path}: {headers:#?} {}", callback.text());
        let is = |name: &str, value: &str| {
            assert_eq!(callback.header(name), value, "{name} of {context}");
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
        assert_eq!(trace(callback).len(), 32, "{context}");
        assert!(headers.has("tracestate"), "{context}");
        if ["PUT", "PATCH"].contains(&&**method) {
            assert!(!headers.has("accept"), "{context}");
        }
        if callback.header("fspiop-source") == "Hub" {
            assert!(content_type.ends_with("=2.0"), "{context}");
            assert!(!headers.has("fspiop-signature"), "{context}");
        }
    }
}
