//! Connections to participants: one pool of keep-alive HTTP/1.1 connections per peer and thread.
//!
//! A request takes an idle connection or opens one; of the answer its status is kept, and the body
//! when it says why the request failed.
//! Names are resolved off the thread and remembered. There is no timer per request: a sweep a few
//! times a second ends the connections whose request has had its time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use fspiop::reach::Reach;
use http::header::HOST;
use http::{HeaderValue, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use node::stages::Stages;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::Options;
use crate::edge::Counters;
use crate::watched::{Watched, WrittenAt};

/// Between two sweeps for requests whose time is over.
pub const SWEEP: Duration = Duration::from_millis(250);
/// Sweeps after which idle connections that the peer has closed are closed here too.
const IDLE_SWEEPS: u64 = 20;
/// Peers remembered; beyond it those without connections are forgotten.
const PEERS_MAX: usize = 16_384;
/// Longest answer that is read to its end; a longer one costs the connection.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// What is kept of an answer that says why a request failed.
const REASON_BYTES_MAX: usize = 64 << 10;
/// How long a resolved name is believed.
const NAME_LIFETIME: Duration = Duration::from_secs(30);

/// Bounds of the pools of one thread.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Time to connect.
    pub connect: Duration,
    /// Time from sending a request to its whole answer.
    pub answer: Duration,
    /// Connections to one peer; beyond them requests wait for one.
    pub connections_max: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(20),
            connections_max: 512,
        }
    }
}

/// Why a request has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No connection could be made.
    Connect,
    /// The address is not one that may be called.
    Denied,
    /// The answer did not come in time.
    TimedOut,
    /// The connection broke.
    Broken,
    /// The connection broke before any of the answer came: if it had been used before, then
    /// because the peer was closing it while the request was written.
    Unanswered,
    /// There was nothing to write, or it may not be sent: nobody was called.
    Unsent,
}

/// A request to be sent, its URI in origin form.
pub(crate) struct Letter {
    /// Taken when it is written.
    request: Option<Request<Full<Bytes>>>,
    /// The same once more, for a connection that the peer was about to close. Without one, whoever
    /// sends must be ready to send it again.
    spare: Option<Request<Full<Bytes>>>,
}

impl Letter {
    pub(crate) fn new(request: Request<Full<Bytes>>) -> Self {
        Self { request: Some(request), spare: None }
    }

    pub(crate) fn keep_spare(&mut self) {
        self.spare = self.request.clone();
    }
}

/// What a peer answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The body of a failure, as far as it was read; empty for a success.
    pub(crate) body: Bytes,
    /// When it was asked for, if somebody watches.
    pub(crate) asked: Option<Asked>,
}

/// When a request was sent, by the clock of [`node::stages`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) connected_ns: u64,
    pub(crate) written_ns: u64,
}

/// The pools of one thread.
pub(crate) struct Pools {
    limits: PoolLimits,
    reach: Arc<Reach>,
    counters: Arc<Counters>,
    peers: RefCell<HashMap<Rc<str>, Rc<Peer>>>,
    stages: Arc<Stages>,
    /// Sweeps so far: the clock by which requests age.
    sweeps: Cell<u64>,
}

/// One peer: `host:port`.
struct Peer {
    authority: Rc<str>,
    host: HeaderValue,
    idle: RefCell<Vec<Rc<Connection>>>,
    busy: RefCell<Vec<Rc<Connection>>>,
    connecting: Cell<usize>,
    /// Told when a connection is no longer busy or being made, for those that wait for one.
    freed: Notify,
    resolved: RefCell<Option<(Instant, Vec<SocketAddr>)>>,
    /// It was said that it may not be called.
    denied: Cell<bool>,
}

/// What reads and writes one connection.
type Wire = http1::Connection<TokioIo<Watched<TcpStream>>, Full<Bytes>>;

/// A connection has no task of its own: the exchange that uses it drives it, so that a request is
/// made and written in one go, and its answer read and taken in another.
struct Connection {
    sender: RefCell<SendRequest<Full<Bytes>>>,
    /// `None` once it has ended.
    wire: RefCell<Option<Wire>>,
    busy_since: Cell<u64>,
    place: Cell<usize>,
    timed_out: Cell<bool>,
    written_at: WrittenAt,
}

impl Pools {
    pub(crate) fn new(options: &Options, counters: Arc<Counters>, stages: Arc<Stages>) -> Self {
        let (limits, reach) = (options.pool, Arc::clone(&options.reach));
        let (peers, sweeps) = (RefCell::default(), Cell::new(0));
        Self { limits, reach, counters, peers, stages, sweeps }
    }

    /// Counts a call that was not made, and says so the first time it is this peer's.
    fn deny(&self, authority: &str, told: &Cell<bool>) -> Failure {
        self.counters.calls_denied.add(1);
        if !told.replace(true) {
            ports::tell(format_args!(
                "{authority} is not called: endpoints.networks and endpoints.ports in the \
                 configuration do not allow it"
            ));
        }
        Failure::Denied
    }

    /// Sends a request and waits for the whole answer.
    pub(crate) async fn send(
        &self,
        authority: &str,
        letter: &mut Letter,
    ) -> Result<Answer, Failure> {
        let peer = self.peer(authority)?;
        for request in letter.request.iter_mut().chain(&mut letter.spare) {
            request.headers_mut().insert(HOST, peer.host.clone());
        }
        // A connection that was idle may have been closed meanwhile: a request that was never
        // written goes out on another one.
        while let Some(connection) = peer.take_idle() {
            match self.exchange(&peer, connection, &mut letter.request).await {
                Ok(answer) => return Ok(answer),
                Err(_) if letter.request.is_some() => {}
                Err(Failure::Unanswered) if letter.spare.is_some() => {
                    letter.request = letter.spare.take();
                    break;
                }
                Err(failure) => return Err(failure),
            }
        }
        let connection = Box::pin(self.open(&peer)).await?;
        self.exchange(&peer, connection, &mut letter.request).await
    }

    /// A new connection, or one that becomes free when no more may be opened.
    async fn open(&self, peer: &Rc<Peer>) -> Result<Rc<Connection>, Failure> {
        let waiting = async {
            while self.limits.connections_max <= peer.open() {
                if let Some(connection) = peer.take_idle() {
                    return Some(connection);
                }
                peer.freed.notified().await;
            }
            None
        };
        let free = tokio::time::timeout(self.limits.answer, waiting).await;
        match free.map_err(|_| Failure::TimedOut)? {
            Some(connection) => Ok(connection),
            None => self.connect(peer).await,
        }
    }

    /// Ends the connections whose request has had its time.
    pub(crate) fn sweep(&self) {
        self.sweeps.set(self.sweeps.get() + 1);
        let age_max = (self.limits.answer.as_millis() / SWEEP.as_millis()) as u64 + 1;
        let look_at_idle = self.sweeps.get().is_multiple_of(IDLE_SWEEPS);
        for peer in self.peers.borrow().values() {
            for connection in peer.busy.borrow().iter() {
                if age_max < self.sweeps.get() - connection.busy_since.get() {
                    connection.timed_out.set(true);
                    // Whoever waits for its answer is woken by this.
                    connection.wire.take();
                }
            }
            if look_at_idle {
                peer.idle.borrow_mut().retain(|connection| connection.settle());
            }
        }
    }

    async fn exchange(
        &self,
        peer: &Rc<Peer>,
        connection: Rc<Connection>,
        unsent: &mut Option<Request<Full<Bytes>>>,
    ) -> Result<Answer, Failure> {
        connection.busy_since.set(self.sweeps.get());
        peer.set_busy(&connection);
        let lease = Lease { peer, connection: &connection };
        if !connection.settle() || connection.ready().await.is_err() {
            return Err(lease.failure());
        }
        let request = unsent.take().ok_or(Failure::Broken)?;
        let connected = self.stages.now_ns();
        let (status, body) = {
            let sent = pin!(connection.sender.borrow_mut().try_send_request(request));
            let response = connection.drive(sent).await.map_err(|mut error| {
                *unsent = error.take_message();
                match lease.failure() {
                    Failure::Broken => Failure::Unanswered,
                    failure => failure,
                }
            })?;
            (response.status(), response.into_body())
        };
        let whole = connection.drive(pin!(read_to_end(body, status))).await;
        let (body, reusable) = whole.map_err(|()| lease.failure())?;
        let written_ns = connection.written_at.get();
        let asked = connected.map(|connected_ns| Asked { connected_ns, written_ns });
        drop(lease);
        if reusable && connection.settle() {
            if connection.is_ready() {
                peer.idle.borrow_mut().push(connection);
            } else {
                self.finish(peer, connection);
            }
        }
        Ok(Answer { status, body, asked })
    }

    /// An answer that came before its request was written: the peer shall have all of it.
    fn finish(&self, peer: &Rc<Peer>, connection: Rc<Connection>) {
        connection.busy_since.set(self.sweeps.get());
        peer.set_busy(&connection);
        let peer = Rc::clone(peer);
        spawn_local(async move {
            let lease = Lease { peer: &peer, connection: &connection };
            let ready = connection.ready().await;
            drop(lease);
            if ready.is_ok() {
                peer.idle.borrow_mut().push(connection);
            }
        });
    }

    async fn connect(&self, peer: &Rc<Peer>) -> Result<Rc<Connection>, Failure> {
        let _connecting = Connecting::begin(peer);
        let connecting = tokio::time::timeout(self.limits.connect, peer.connect(&self.reach));
        let stream = match connecting.await {
            Ok(Err(Failure::Denied)) => return Err(self.deny(&peer.authority, &peer.denied)),
            connected => connected.map_err(|_| Failure::Connect)??,
        };
        let stream = Watched::new(stream, &self.stages, &self.counters);
        let written_at = stream.written_at();
        let (sender, wire) = handshake(TokioIo::new(stream)).await.map_err(|_| Failure::Connect)?;
        Ok(Rc::new(Connection {
            sender: RefCell::new(sender),
            wire: RefCell::new(Some(wire)),
            busy_since: Cell::new(0),
            place: Cell::new(0),
            timed_out: Cell::new(false),
            written_at,
        }))
    }

    fn peer(&self, authority: &str) -> Result<Rc<Peer>, Failure> {
        let mut peers = self.peers.borrow_mut();
        if let Some(peer) = peers.get(authority) {
            return Ok(Rc::clone(peer));
        }
        if peers.len() == PEERS_MAX {
            peers.retain(|_, peer| peer.open() > 0);
        }
        let host = HeaderValue::from_str(authority).map_err(|_| Failure::Connect)?;
        let authority: Rc<str> = authority.into();
        let peer = Rc::new(Peer {
            authority: Rc::clone(&authority),
            host,
            idle: RefCell::new(Vec::new()),
            busy: RefCell::new(Vec::new()),
            connecting: Cell::new(0),
            freed: Notify::new(),
            resolved: RefCell::new(None),
            denied: Cell::new(false),
        });
        peers.insert(authority, Rc::clone(&peer));
        Ok(peer)
    }
}

impl Connection {
    /// Goes on until there is nothing to read or write, and says whether the connection is open.
    /// Nobody is woken when there is more: the next that uses the connection looks again.
    fn settle(&self) -> bool {
        self.turn(&mut Context::from_waker(Waker::noop()));
        !self.sender.borrow().is_closed()
    }

    /// Whether the next request can be written.
    fn is_ready(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(self.sender.borrow_mut().poll_ready(&mut context), Poll::Ready(Ok(())))
    }

    async fn ready(&self) -> hyper::Result<()> {
        self.drive(pin!(poll_fn(|context| self.sender.borrow_mut().poll_ready(context)))).await
    }

    /// Waits for what the connection brings, and drives it meanwhile.
    async fn drive<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        poll_fn(|context| {
            self.turn(context);
            future.as_mut().poll(context)
        })
        .await
    }

    fn turn(&self, context: &mut Context<'_>) {
        let mut wire = self.wire.borrow_mut();
        let ended = wire.as_mut().is_some_and(|wire| Pin::new(wire).poll(context).is_ready());
        if ended {
            // How it ended is seen by the request on it, if there is one.
            *wire = None;
        }
    }
}

impl Peer {
    fn open(&self) -> usize {
        self.idle.borrow().len() + self.busy.borrow().len() + self.connecting.get()
    }

    /// The connection used last, so that those not needed grow old and are closed by the peer.
    fn take_idle(&self) -> Option<Rc<Connection>> {
        let mut idle = self.idle.borrow_mut();
        while let Some(connection) = idle.pop() {
            if !connection.sender.borrow().is_closed() {
                return Some(connection);
            }
        }
        None
    }

    fn set_busy(&self, connection: &Rc<Connection>) {
        let mut busy = self.busy.borrow_mut();
        connection.place.set(busy.len());
        busy.push(Rc::clone(connection));
    }

    fn set_free(&self, connection: &Connection) {
        let mut busy = self.busy.borrow_mut();
        busy.swap_remove(connection.place.get());
        if let Some(moved) = busy.get(connection.place.get()) {
            moved.place.set(connection.place.get());
        }
    }

    /// Connects to the first address that answers. Each is checked here and not by name: what is
    /// checked is what is called.
    async fn connect(&self, reach: &Reach) -> Result<TcpStream, Failure> {
        let found = self.resolve().await?;
        let allowed: Vec<_> = found.iter().copied().filter(|to| reach.allows_socket(*to)).collect();
        if allowed.is_empty() && !found.is_empty() {
            self.resolved.replace(None);
            return Err(Failure::Denied);
        }
        for address in allowed {
            if let Ok(stream) = TcpStream::connect(address).await {
                if stream.local_addr().is_ok_and(|here| reach.is_loop(here, address)) {
                    return Err(Failure::Denied);
                }
                stream.set_nodelay(true).map_err(|_| Failure::Connect)?;
                return Ok(stream);
            }
        }
        self.resolved.replace(None);
        Err(Failure::Connect)
    }

    async fn resolve(&self) -> Result<Vec<SocketAddr>, Failure> {
        if let Some((at, addresses)) = &*self.resolved.borrow()
            && at.elapsed() < NAME_LIFETIME
        {
            return Ok(addresses.clone());
        }
        let found = tokio::net::lookup_host(&*self.authority).await;
        let addresses: Vec<_> = found.map_err(|_| Failure::Connect)?.collect();
        self.resolved.replace(Some((Instant::now(), addresses.clone())));
        Ok(addresses)
    }
}

/// A connection in use; it is no longer once this is dropped, however the exchange ends.
struct Lease<'a> {
    peer: &'a Peer,
    connection: &'a Connection,
}

impl Lease<'_> {
    fn failure(&self) -> Failure {
        if self.connection.timed_out.get() { Failure::TimedOut } else { Failure::Broken }
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.peer.set_free(self.connection);
        self.peer.freed.notify_one();
    }
}

/// A connection being made, counted while it is.
struct Connecting<'a>(&'a Peer);

impl<'a> Connecting<'a> {
    fn begin(peer: &'a Peer) -> Self {
        peer.connecting.set(peer.connecting.get() + 1);
        Self(peer)
    }
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.0.connecting.set(self.0.connecting.get() - 1);
        self.0.freed.notify_one();
    }
}

/// Reads an answer to its end and keeps what a failure says. True when the connection can be used
/// again.
async fn read_to_end(
    mut body: hyper::body::Incoming,
    status: StatusCode,
) -> Result<(Bytes, bool), ()> {
    let (mut kept, mut length) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| ())?.into_data() else { continue };
        length += data.len();
        if ANSWER_BYTES_MAX < length {
            return Ok((kept.freeze(), false));
        }
        if !status.is_success() && length <= REASON_BYTES_MAX {
            kept.extend_from_slice(&data);
        }
    }
    Ok((kept.freeze(), true))
}
