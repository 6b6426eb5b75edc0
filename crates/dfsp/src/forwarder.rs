//! A forward-only hub: it forwards messages, and confirms every fulfilment.
//!
//! It is the baseline of measurements (the cost of simulators and sockets alone), and a hub for
//! tests of simulators against each other. It keeps no state, checks no header and records nothing,
//! unlike a real hub. Its bounds are those of the [`HubConnections`] to each FSP. A message is
//! dropped when they are full.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, spawn_local};

use crate::connections::{ConnectionOptions, HubConnections, TICK};
use crate::http1::{self, Request};
use crate::message::push;
use crate::socket_options::tune;

const ACCEPTED: &[u8] = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// The forwarding hub. Clones are the same hub. Lives inside a `LocalRuntime`.
#[derive(Clone)]
pub struct Forwarder(Rc<Inner>);

struct Inner {
    address: SocketAddr,
    fsps: RefCell<Vec<Rc<Fsp>>>,
    tasks: RefCell<Vec<AbortHandle>>,
}

struct Fsp {
    name: String,
    subscribers: Range<u64>,
    connections: HubConnections<()>,
}

/// A message to forward.
struct Forward<'a> {
    method: &'a str,
    path: &'a str,
    source: &'a str,
    body: &'a [u8],
}

impl Forwarder {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// The address cannot be bound.
    pub fn bind(listen: SocketAddr) -> io::Result<Self> {
        let listener = std::net::TcpListener::bind(listen)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        let (fsps, tasks) = (RefCell::default(), RefCell::default());
        let inner = Rc::new(Inner { address, fsps, tasks });
        for task in [
            spawn_local(accept(Rc::clone(&inner), listener)),
            spawn_local(maintain(Rc::clone(&inner))),
        ] {
            inner.tasks.borrow_mut().push(task.abort_handle());
        }
        Ok(Self(inner))
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// Registers an FSP and its subscribers.
    pub fn register(&self, name: &str, address: SocketAddr, subscribers: Range<u64>) {
        let options = ConnectionOptions { resends_max: 0, ..ConnectionOptions::default() };
        let connections = HubConnections::new(&[address], options, |(), _| {});
        let fsp = Fsp { name: name.to_owned(), subscribers, connections };
        self.0.fsps.borrow_mut().push(Rc::new(fsp));
    }

    /// Ends all tasks and connections.
    pub fn stop(&self) {
        self.0.tasks.borrow_mut().drain(..).for_each(|task| task.abort());
        self.0.fsps.borrow().iter().for_each(|fsp| fsp.connections.close());
    }
}

impl Inner {
    fn named(&self, name: &str) -> Option<Rc<Fsp>> {
        self.fsps.borrow().iter().find(|fsp| fsp.name == name).cloned()
    }

    fn owner(&self, msisdn: &str) -> Option<Rc<Fsp>> {
        let number = msisdn.parse().ok()?;
        self.fsps.borrow().iter().find(|fsp| fsp.subscribers.contains(&number)).cloned()
    }

    fn handle(&self, request: &Request<'_>) {
        let source = request.fields.source.unwrap_or("");
        let path = request.path.split('?').next().unwrap_or_default();
        let mut segments = path[1..].split('/');
        let resource = segments.next().unwrap_or("");
        let destination = request.fields.destination.and_then(|name| self.named(name));
        let onward =
            Forward { method: request.method, path: request.path, source, body: &request.body };
        match (request.method, resource) {
            ("POST", "participants") => {
                let confirmed = Forward { method: "PUT", source: "Hub", body: b"{}", ..onward };
                self.named(source).inspect(|fsp| fsp.send(&confirmed, request));
            }
            ("GET", "parties") => {
                let owner = segments.nth(1).and_then(|msisdn| self.owner(msisdn));
                owner.inspect(|fsp| fsp.send(&onward, request));
            }
            ("PUT", "transfers") if !request.path.ends_with("/error") => {
                self.fulfil(onward, request, destination);
            }
            _ => {
                destination.inspect(|fsp| fsp.send(&onward, request));
            }
        }
    }

    /// Notifies both sides of a transfer that it is committed (hub-semantics 3.7).
    fn fulfil(&self, onward: Forward<'_>, request: &Request<'_>, payer: Option<Rc<Fsp>>) {
        let reserved = br#""transferState":"RESERVED""#;
        let at = request.body.windows(reserved.len()).position(|text| text == reserved);
        let mut body = request.body.to_vec();
        if let Some(at) = at {
            body.splice(at..at + reserved.len(), *br#""transferState":"COMMITTED""#);
        }
        let Forward { path, source, .. } = onward;
        let notice = Forward { method: "PUT", path, source, body: &body };
        payer.inspect(|fsp| fsp.send(&notice, request));
        let method = if at.is_some() { "PATCH" } else { "PUT" };
        let confirmed = Forward { method, path, source: "Hub", body: &body };
        self.named(source).inspect(|fsp| fsp.send(&confirmed, request));
    }
}

impl Fsp {
    fn send(&self, forward: &Forward<'_>, request: &Request<'_>) {
        let mut out = self.connections.buffer();
        push(&mut out, &[forward.method, " ", forward.path, " HTTP/1.1\r\nhost: fsp\r\n"]);
        push(&mut out, &["fspiop-source: ", forward.source]);
        push(&mut out, &["\r\nfspiop-destination: ", &self.name]);
        for (name, value) in [
            ("\r\ncontent-type: ", request.fields.content_type),
            ("\r\ntraceparent: ", request.fields.traceparent),
            ("\r\ntracestate: ", request.fields.tracestate),
        ] {
            if let Some(value) = value {
                push(&mut out, &[name, value]);
            }
        }
        let mut digits = itoa::Buffer::new();
        push(&mut out, &["\r\ncontent-length: ", digits.format(forward.body.len()), "\r\n\r\n"]);
        out.extend_from_slice(forward.body);
        // A message is dropped if the queue is full. Its receiver then times out.
        let _ = self.connections.send(out, ());
    }
}

async fn maintain(inner: Rc<Inner>) {
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        inner.fsps.borrow().iter().for_each(|fsp| fsp.connections.maintain());
    }
}

async fn accept(inner: Rc<Inner>, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tune(&stream);
        let task = spawn_local(serve(Rc::clone(&inner), stream));
        inner.tasks.borrow_mut().push(task.abort_handle());
    }
}

async fn serve(inner: Rc<Inner>, mut stream: TcpStream) {
    let mut buffer = Vec::with_capacity(4 * 1024);
    while let Ok(parsed) = http1::request(&buffer) {
        let Some(request) = parsed else {
            buffer.reserve(4 * 1024);
            match stream.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => continue,
            }
        };
        let answer = if matches!(request.method, "PUT" | "PATCH") { OK } else { ACCEPTED };
        if stream.write_all(answer).await.is_err() {
            return;
        }
        inner.handle(&request);
        let length = request.length;
        buffer.drain(..length);
    }
}
