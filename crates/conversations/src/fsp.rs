//! A participant's callback server: keeps whatever the hub sends, answers as it is told.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::{Request, header, read_request};

/// Messages kept, at most; further ones are answered 503.
const MESSAGES_MAX: usize = 256;
/// How often an idle connection looks whether the server has ended.
const IDLE_CHECK: Duration = Duration::from_millis(250);

/// In place of a status: the message is kept and never answered.
pub(crate) const SILENCE: u16 = 0;

/// How messages are answered from now on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manner {
    pub(crate) status: u16,
    /// Header lines, each with its line end.
    pub(crate) headers: String,
    pub(crate) body: String,
    /// How many messages get this answer before the usual ones return; `None`: all.
    pub(crate) times: Option<u32>,
}

impl Manner {
    pub(crate) fn of(status: u16) -> Self {
        Self { status, headers: String::new(), body: String::new(), times: None }
    }
}

/// A recording server.
pub(crate) struct Fsp {
    shared: Arc<Shared>,
    port: u16,
}

#[derive(Default)]
struct Shared {
    name: String,
    inbox: Mutex<Inbox>,
    came: Condvar,
}

#[derive(Default)]
struct Inbox {
    messages: VecDeque<Request>,
    manner: Option<Manner>,
    ended: bool,
}

impl Fsp {
    /// Listens on a free port of all addresses, or only on the loopback one, for what is meant for
    /// its conversation: the port may be that of a participant that has left, and is still called.
    pub(crate) fn start(name: String, loopback: bool) -> io::Result<Self> {
        let host = if loopback { [127, 0, 0, 1] } else { [0, 0, 0, 0] };
        let listener = TcpListener::bind(SocketAddr::from((host, 0)))?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared { name, ..Shared::default() });
        let serving = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &serving));
        Ok(Self { shared, port })
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Takes the first kept message with this method and path, waiting for it if need be.
    pub(crate) fn take(&self, method: &str, path: &str, patience: Duration) -> Option<Request> {
        let deadline = Instant::now() + patience;
        let mut inbox = self.shared.lock();
        loop {
            let wanted = |one: &Request| one.method == method && one.path == path;
            if let Some(at) = inbox.messages.iter().position(wanted) {
                return inbox.messages.remove(at);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.shared.came.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// What was kept and not taken: one line for each.
    pub(crate) fn kept(&self) -> Vec<String> {
        let inbox = self.shared.lock();
        let line = |one: &Request| {
            let body = String::from_utf8_lossy(&one.body);
            format!("{} {} {body}", one.method, one.path)
        };
        inbox.messages.iter().map(line).collect()
    }

    pub(crate) fn set_manner(&self, manner: Manner) {
        self.shared.lock().manner = Some(manner);
    }
}

impl Drop for Fsp {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        // Wakes the accepting thread; when that fails it has ended already.
        let _woken = TcpStream::connect(("127.0.0.1", self.port));
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a message and says how to answer it.
    fn keep(&self, request: Request) -> Manner {
        let usual = if matches!(request.method.as_str(), "PUT" | "PATCH") { 200 } else { 202 };
        let recipient = header(&request.headers, "fspiop-destination");
        let is_callback = header(&request.headers, "fspiop-source").is_some();
        if !is_callback
            || recipient.is_some_and(|name| is_of_another_conversation(name, &self.name))
        {
            return Manner::of(usual);
        }
        let mut inbox = self.lock();
        if MESSAGES_MAX <= inbox.messages.len() {
            return Manner::of(503);
        }
        inbox.messages.push_back(request);
        self.came.notify_all();
        match &mut inbox.manner {
            None | Some(Manner { times: Some(0), .. }) => Manner::of(usual),
            Some(manner) => {
                manner.times = manner.times.map(|times| times - 1);
                manner.clone()
            }
        }
    }
}

/// Whether both are such names as participants of conversations have, and end otherwise.
fn is_of_another_conversation(name: &str, own: &str) -> bool {
    const PARTICIPANT: usize = "dfsp1".len();
    let (name, own) = (name.to_ascii_lowercase(), own.to_ascii_lowercase());
    let both = [&name, &own].map(|it| it.get(PARTICIPANT..).filter(|_| it.starts_with("dfsp")));
    let [Some(name), Some(own)] = both else { return false };
    name.len() == own.len() && name != own
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.lock().ended {
            return;
        }
        let Ok(stream) = stream else { continue };
        let shared = Arc::clone(shared);
        // How a connection ends concerns only the hub.
        thread::spawn(move || drop(serve(stream, &shared)));
    }
}

fn serve(mut stream: TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_CHECK))?;
    let mut buffer = Vec::new();
    while !shared.lock().ended {
        let request = match read_request(&mut stream, &mut buffer) {
            Ok(Some(request)) => request,
            Ok(None) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) => return Err(error),
        };
        let Manner { status, headers, body, .. } = shared.keep(request);
        while status == SILENCE && !shared.lock().ended {
            thread::sleep(IDLE_CHECK);
        }
        let length = body.len();
        let head = format!("HTTP/1.1 {status} Answer\r\n{headers}Content-Length: {length}\r\n\r\n");
        stream.write_all((head + &body).as_bytes())?;
    }
    Ok(())
}
