//! A participant's callback server: stores the messages of the hub and replies as configured.

use std::collections::VecDeque;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use testkit::http::Request;
use testkit::server::{Inbox, Reply, Server};

/// Messages received, at most; further ones are answered 503.
const MESSAGES_MAX: usize = 256;

/// How messages are answered from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResponseMode {
    pub(crate) reply: Reply,
    /// How many messages get this answer before the usual ones return; `None`: all.
    pub(crate) times: Option<u32>,
}

/// A recording server.
pub(crate) struct Fsp {
    received: Arc<Inbox<ReceivedMessages>>,
    server: Server,
}

#[derive(Default)]
struct ReceivedMessages {
    messages: VecDeque<Request>,
    mode: Option<ResponseMode>,
}

impl Fsp {
    /// Listens on a free port of all addresses, or only on the loopback one, for what is meant for
    /// its conversation: the port may be that of a participant that has left, and is still called.
    pub(crate) fn start(name: String, loopback: bool) -> io::Result<Self> {
        let host = if loopback { Ipv4Addr::LOCALHOST } else { Ipv4Addr::UNSPECIFIED };
        let received: Arc<Inbox<ReceivedMessages>> = Arc::default();
        let inbox = Arc::clone(&received);
        let server = Server::start(host, move |request| match is_for(&name, request) {
            true => inbox.put(|received| received.store(request)),
            false => Reply::Accept,
        })?;
        Ok(Self { received, server })
    }

    pub(crate) fn port(&self) -> u16 {
        self.server.address().port()
    }

    /// Takes the first received message with this method and path, waiting for it if need be.
    pub(crate) fn take(&self, method: &str, path: &str, patience: Duration) -> Option<Request> {
        let wanted = |one: &Request| one.method == method && one.path == path;
        self.received.wait(patience, |received| {
            let at = received.messages.iter().position(wanted)?;
            received.messages.remove(at)
        })
    }

    /// Stored messages that were never taken, one line for each.
    pub(crate) fn received(&self) -> Vec<String> {
        let line = |one: &Request| format!("{} {} {}", one.method, one.path, one.text());
        self.received.lock().messages.iter().map(line).collect()
    }

    pub(crate) fn set_response_mode(&self, mode: ResponseMode) {
        self.received.lock().mode = Some(mode);
    }
}

impl ReceivedMessages {
    /// Stores a message and chooses its reply.
    fn store(&mut self, request: &Request) -> Reply {
        if MESSAGES_MAX <= self.messages.len() {
            return Reply::Status(503);
        }
        self.messages.push_back(request.clone());
        match &mut self.mode {
            None | Some(ResponseMode { times: Some(0), .. }) => Reply::Accept,
            Some(mode) => {
                mode.times = mode.times.map(|times| times - 1);
                mode.reply.clone()
            }
        }
    }
}

/// Whether a request is a callback to this participant, as far as it can be known.
fn is_for(name: &str, request: &Request) -> bool {
    let recipient = request.headers.get("fspiop-destination");
    request.headers.has("fspiop-source")
        && !recipient.is_some_and(|recipient| is_of_another_conversation(recipient, name))
}

/// Whether both are names of conversation participants with different suffixes.
fn is_of_another_conversation(name: &str, own: &str) -> bool {
    const PARTICIPANT: usize = "dfsp1".len();
    let (name, own) = (name.to_ascii_lowercase(), own.to_ascii_lowercase());
    let both = [&name, &own].map(|it| it.get(PARTICIPANT..).filter(|_| it.starts_with("dfsp")));
    let [Some(name), Some(own)] = both else { return false };
    name.len() == own.len() && name != own
}
