//! The two directions of the messages: requests with deliberate faults, and received callbacks.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use fspiop::headers::FSPIOP_SIGNATURE;
use http::request::Parts;
use http::{HeaderMap, Method};
use jws::KeyDirectory;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::http_server::{self, Answered, Handler};
use crate::hub::HubClient;
use crate::ids::random;
use crate::outbound::HubRequest;

/// Callbacks that are kept; later ones are answered and dropped.
const CALLBACKS_MAX: usize = 1_000;

/// The answer to a request.
pub(super) struct PeerAnswer {
    /// `None` without an answer.
    pub(super) status: Option<u16>,
    /// Its body, null if it is not JSON.
    pub(super) body: Value,
    /// The reason for no answer.
    pub(super) why: String,
    /// Time until the answer.
    pub(super) time: Duration,
}

/// A received callback.
#[derive(Clone)]
pub(super) struct Callback {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The reason why its signature is refused.
    pub(super) bad_signature: Option<String>,
}

/// Received callbacks.
pub(super) struct Inbox {
    state: Mutex<InboxState>,
    arrived: Notify,
    keys: Option<KeyDirectory>,
}

#[derive(Default)]
struct InboxState {
    callbacks: Vec<Callback>,
    delay: Duration,
}

/// Sends requests and receives callbacks.
pub(super) struct Peer {
    pub(super) hub: HubClient,
    pub(super) inbox: Arc<Inbox>,
}

impl Peer {
    /// Sends a request, after a change that makes it wrong.
    pub(super) async fn send(
        &self,
        request: &HubRequest,
        change: impl FnOnce(&mut HeaderMap, &mut Bytes),
    ) -> PeerAnswer {
        let start = Instant::now();
        let unanswered = |why: String| PeerAnswer {
            status: None,
            body: Value::Null,
            why,
            time: start.elapsed(),
        };
        let (mut headers, mut body) =
            match self.hub.render(&self.hub.version, request, random().to_be_bytes()) {
                Ok(rendered) => rendered,
                Err(why) => return unanswered(why),
            };
        change(&mut headers, &mut body);
        let target = self.hub.target(request);
        let call = (request.method.clone(), request.path.as_str());
        match self.hub.http.call(target, call, headers, body).await {
            Ok(reply) => PeerAnswer {
                status: Some(reply.status.as_u16()),
                body: serde_json::from_slice(&reply.body).unwrap_or(Value::Null),
                why: String::new(),
                time: start.elapsed(),
            },
            Err(error) => unanswered(error.to_string()),
        }
    }
}

impl Inbox {
    pub(super) fn new(keys: Option<KeyDirectory>) -> Self {
        Self { state: Mutex::default(), arrived: Notify::new(), keys }
    }

    /// Waits for a callback, and takes it.
    pub(super) async fn take(
        &self,
        wait: Duration,
        is_wanted: impl Fn(&Callback) -> bool,
    ) -> Option<Callback> {
        let deadline = Instant::now() + wait;
        loop {
            let arrived = self.arrived.notified();
            if let Some(found) = self.find(&is_wanted) {
                return Some(found);
            }
            if timeout_at(deadline, arrived).await.is_err() {
                return self.find(&is_wanted);
            }
        }
    }

    /// Answers later callbacks only after this time.
    pub(super) fn delay(&self, delay: Duration) {
        self.lock().delay = delay;
    }

    fn find(&self, is_wanted: impl Fn(&Callback) -> bool) -> Option<Callback> {
        let mut state = self.lock();
        let at = state.callbacks.iter().position(is_wanted)?;
        Some(state.callbacks.remove(at))
    }

    fn lock(&self) -> MutexGuard<'_, InboxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bad_signature(&self, head: &Parts, body: &[u8]) -> Option<String> {
        let keys = self.keys.as_ref()?;
        let path = head.uri.path();
        let is_signed = head.headers.contains_key(&FSPIOP_SIGNATURE);
        // Schemes differ in whether answers to look-ups are signed.
        let is_exempt = head.method == Method::GET || path.starts_with("/parties/");
        if is_exempt && !is_signed {
            return None;
        }
        let signed = jws::Signed { method: &head.method, path, headers: &head.headers, body };
        jws::verify(&signed, &keys.ring()).err().map(|error| error.to_string())
    }
}

impl Handler for Inbox {
    async fn handle(&self, head: Parts, body: Bytes) -> Answered {
        let bad_signature = self.bad_signature(&head, &body);
        let status = if head.method == Method::PUT { 200 } else { 202 };
        let path = head.uri.path().to_owned();
        let (method, headers) = (head.method, head.headers);
        let delay = {
            let mut state = self.lock();
            if state.callbacks.len() < CALLBACKS_MAX {
                state.callbacks.push(Callback { method, path, headers, body, bad_signature });
            }
            state.delay
        };
        self.arrived.notify_waiters();
        tokio::time::sleep(delay).await;
        http_server::json(status, &Value::Null)
    }

    fn unreadable(&self, is_too_long: bool) -> Answered {
        let status = if is_too_long { 413 } else { 400 };
        http_server::json(status, &Value::Null)
    }
}
