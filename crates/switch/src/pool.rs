//! Connections to participants, kept alive, per participant and thread. They use HTTP/1.1, or
//! HTTP/2 with one request at a time (`http2_calls`) if the participant chooses it.
//!
//! A request takes an idle connection or opens one. The status of the response is kept, and, for a
//! failure, the body. There is no timer per request: a sweep a few times a second closes the
//! connections whose request has timed out.
//!
//! **Shares.** Connections are counted per participant, never per host and port. Participants
//! at one address have separate connections, and one that does not respond delays no other.
//!
//! **Bounds.** All participants of a thread together have at most [`PoolLimits::connections_all`]
//! connections. When that many are open, an idle one is closed before another is opened. One
//! participant may have requests on [`PoolLimits::connections_max`] connections, and on fewer when
//! many are in use (see `share`). Forwards may use [`forwards_limit`] of these, so that a notice
//! always gets a connection. A request without a connection waits at most [`PoolLimits::answer`].
//! Waiting requests are bounded, too: notices by the window of their lane, forwards by
//! [`crate::IoThreadOptions::forwards_max`].
//!
//! **Costs.** A request finds its pool by the participant's index in the registry, without a hash
//! and without an allocation.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fspiop::egress_policy::{CallScheme, CallTarget, EgressPolicy};
use http::header::{HOST, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Body;
use hyper::client::conn::http1::{self, SendRequest, handshake};
use hyper_util::rt::TokioIo;
use ledger::ParticipantIndex;
use tls::{ClientTls, HandshakeFault};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::task::spawn_local;

use crate::breaker::Breakers;
use crate::call_stream::CallStream;
use crate::counted_stream::{CountedStream, WrittenAt};
use crate::directory::Directory;
use crate::failure::Failure;
use crate::fair_share::Shares;
use crate::http2_calls::Http2Connection;
use crate::resolver::{Name, Names};
use crate::thread::Thread;
use crate::trace::CallTimes;

/// Time between two sweeps for requests that have timed out.
pub const SWEEP: Duration = Duration::from_millis(250);
/// Sweeps after which idle connections that the peer has closed are closed here too.
const IDLE_SWEEPS: u64 = 20;
/// Addresses of one participant with connections; beyond it those without connections are dropped.
const PEERS_MAX: usize = 32;
/// Maximum length of a response that is read completely; after a longer one the connection closes.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Bytes kept of an error response's body; an oracle's response may not be longer.
const REASON_BYTES_MAX: usize = 64 << 10;

/// Linux errors: the process, or the machine, has no file descriptor left.
const EMFILE: i32 = 24;
const ENFILE: i32 = 23;

/// Bounds of the pools of one thread.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// Time to connect.
    pub connect: Duration,
    /// Time from sending a request to its complete response.
    pub answer: Duration,
    /// Connections that requests to one participant may use; beyond them requests wait for one.
    pub connections_max: usize,
    /// Connections to all participants, including idle ones.
    pub connections_all: usize,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(20),
            connections_max: 512,
            connections_all: 4_096,
        }
    }
}

/// The kind of a request, which decides its share of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestClass {
    Notice,
    Forward,
    /// A forward that probes whether the participant of an open breaker responds.
    Probe,
}

/// Connections of a participant that forwards may use while it may use `limit`.
const fn forwards_limit(limit: usize) -> usize {
    match limit * 3 / 8 {
        0 => 1,
        some => some,
    }
}

/// A request to be sent, its URI in origin form.
pub(crate) struct OutboundRequest {
    /// Taken when it is written.
    request: Option<Request<Full<Bytes>>>,
    /// A copy, for a retry if the peer was about to close the connection. Without one, the caller
    /// must be able to resend it.
    spare: Option<Request<Full<Bytes>>>,
}

impl OutboundRequest {
    pub(crate) fn new(request: Request<Full<Bytes>>) -> Self {
        Self { request: Some(request), spare: None }
    }

    /// The headers, until the request is written.
    pub(crate) fn headers_mut(&mut self) -> Option<&mut HeaderMap> {
        self.request.as_mut().map(Request::headers_mut)
    }

    pub(crate) fn keep_spare(&mut self) {
        self.spare = self.request.clone();
    }
}

/// A peer's response.
#[derive(Clone, Debug)]
pub(crate) struct PeerResponse {
    pub(crate) status: StatusCode,
    /// The body of a failure, as far as it was read; empty for a success of a participant.
    pub(crate) body: Bytes,
    /// `Retry-After` of a failure, verbatim.
    pub(crate) retry_after: Option<HeaderValue>,
    pub(crate) times: CallTimes,
}

/// The peers of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Callees {
    /// Only the bodies of failures are kept.
    Participants,
    /// All bodies are kept, and too long ones are failures. An oracle's number is used in place of
    /// a participant's index.
    Oracles,
}

/// The pools of one thread.
pub(crate) struct Pools {
    limits: PoolLimits,
    egress_policy: Arc<EgressPolicy>,
    tls: Option<Arc<ClientTls>>,
    callees: Callees,
    thread: Rc<Thread>,
    directory: Rc<Directory>,
    breakers: Arc<Breakers>,
    names: Names,
    /// By the participant's index in the registry.
    participants: RefCell<Vec<Vec<Rc<Peer>>>>,
    totals: Rc<Totals>,
    /// Number of sweeps so far, which serves as the clock for timeouts.
    sweeps: Cell<u64>,
}

/// Connections of all participants.
#[derive(Debug)]
struct Totals {
    shares: Shares,
    in_use: Cell<usize>,
    idle: Cell<usize>,
    /// Start of the search for an idle connection to close.
    next: Cell<usize>,
}

/// Usage of connections by one participant.
struct ParticipantConnections {
    participant: ParticipantIndex,
    /// Requests with a connection, or with the right to open one.
    in_use: Cell<usize>,
    /// Of these, forwards.
    forwards: Cell<usize>,
    idle: Cell<usize>,
    /// Notices and probes that wait for a connection.
    waiting: Cell<usize>,
    /// Forwards that wait for a connection.
    forwards_waiting: Cell<usize>,
    /// Notified when a connection is no longer in use, for notices that wait for one.
    freed: Notify,
    /// The same for forwards.
    freed_for_forwards: Notify,
    totals: Rc<Totals>,
}

/// One participant at one `host:port` with one scheme.
struct Peer {
    account: Rc<ParticipantConnections>,
    name: Rc<Name>,
    scheme: CallScheme,
    /// Why the last handshake failed, if it did.
    fault: Cell<Option<HandshakeFault>>,
    idle: RefCell<Vec<Rc<Connection>>>,
    busy: RefCell<Vec<Rc<Connection>>>,
}

type CallSocket = CountedStream<CallStream>;

/// Reads and writes one connection.
type Http1Io = http1::Connection<TokioIo<CallSocket>, Full<Bytes>>;

/// A connection by its protocol.
#[expect(clippy::large_enum_variant, reason = "always in an Rc, and HTTP/1.1 is the usual one")]
enum Protocol {
    Http1(Http1Connection),
    Http2(Box<Http2Connection<CallSocket>>),
}

struct Http1Connection {
    sender: RefCell<SendRequest<Full<Bytes>>>,
    /// `None` once it has ended.
    wire: RefCell<Option<Http1Io>>,
}

/// A connection has no task of its own: it is driven by the exchange that uses it, so that one poll
/// builds and writes a request, and another reads and returns its response.
struct Connection {
    protocol: Protocol,
    busy_since: Cell<u64>,
    place: Cell<usize>,
    timed_out: Cell<bool>,
    /// Of the TLS files when it was opened.
    generation: u64,
    written_at: WrittenAt,
}

impl Pools {
    pub(crate) fn new(
        limits: PoolLimits,
        (egress_policy, tls): (Arc<EgressPolicy>, Option<Arc<ClientTls>>),
        (thread, directory): (&Rc<Thread>, &Rc<Directory>),
        breakers: &Arc<Breakers>,
    ) -> Self {
        let (thread, directory) = (Rc::clone(thread), Rc::clone(directory));
        let breakers = Arc::clone(breakers);
        let shares = Shares { all: limits.connections_all, most: limits.connections_max };
        let zero = || Cell::new(0);
        let totals = Rc::new(Totals { shares, in_use: zero(), idle: zero(), next: zero() });
        let (participants, names, sweeps) = (RefCell::default(), Names::default(), Cell::new(0));
        Self {
            limits,
            egress_policy,
            tls,
            callees: Callees::Participants,
            thread,
            directory,
            breakers,
            names,
            participants,
            totals,
            sweeps,
        }
    }

    /// The same for oracles.
    pub(crate) fn for_oracles(self) -> Self {
        Self { callees: Callees::Oracles, ..self }
    }

    /// Counts a denied call, and logs the first one of this address.
    fn deny(&self, name: &Name) -> Failure {
        self.thread.counters.calls_denied.add(1);
        if !name.denied.replace(true) {
            tracing::warn!(
                address = &*name.authority,
                "not called: endpoints.networks, endpoints.ports or endpoints.https_only in the \
                 configuration does not allow it"
            );
        }
        Failure::Denied
    }

    /// Sends a request and waits for the complete response.
    pub(crate) async fn send(
        &self,
        (to, target): (ParticipantIndex, &CallTarget),
        usage: RequestClass,
        letter: &mut OutboundRequest,
    ) -> Result<PeerResponse, Failure> {
        let peer = self.peer(to, target)?;
        for request in letter.request.iter_mut().chain(&mut letter.spare) {
            request.headers_mut().insert(HOST, peer.name.host.clone());
        }
        let is_late = usage == RequestClass::Forward && 0 < peer.account.forwards_waiting.get();
        let place = if is_late { None } else { peer.account.take(usage) };
        let _place = match place {
            Some(place) => place,
            None => Box::pin(self.wait(&peer.account, usage)).await?,
        };
        // An idle connection may have been closed meanwhile: an unwritten request is sent on
        // another one.
        while let Some(connection) = peer.take_idle(self.generation()) {
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
        let connection = Box::pin(self.connect(&peer)).await?;
        self.exchange(&peer, connection, &mut letter.request).await
    }

    /// Waits until the participant may use one more connection.
    async fn wait<'a>(
        &self,
        account: &'a ParticipantConnections,
        usage: RequestClass,
    ) -> Result<ConnectionPermit<'a>, Failure> {
        let _waiting = ConnectionWait::begin(account, usage);
        let place = async {
            loop {
                match usage {
                    RequestClass::Forward => account.freed_for_forwards.notified().await,
                    RequestClass::Notice | RequestClass::Probe => account.freed.notified().await,
                }
                if let Some(place) = account.take(usage) {
                    return Ok(place);
                }
                if usage == RequestClass::Forward && self.breakers.is_open(account.participant) {
                    return Err(Failure::NotAnswering);
                }
            }
        };
        let place = tokio::time::timeout(self.limits.answer, place).await;
        place.map_err(|_| Failure::Crowded)?
    }

    /// Closes the connections whose request has timed out.
    pub(crate) fn sweep(&self) {
        self.sweeps.set(self.sweeps.get() + 1);
        let age_max = (self.limits.answer.as_millis() / SWEEP.as_millis()) as u64 + 1;
        let look_at_idle = self.sweeps.get().is_multiple_of(IDLE_SWEEPS);
        for peer in self.participants.borrow().iter().flatten() {
            for connection in peer.busy.borrow().iter() {
                if age_max < self.sweeps.get() - connection.busy_since.get() {
                    connection.timed_out.set(true);
                    // This wakes the task that waits for the response.
                    connection.close();
                }
            }
            if look_at_idle {
                peer.close_idle(|connection| !connection.advance());
            }
            self.wake(&peer.account);
        }
    }

    /// Wakes waiting requests if connections became free, or the breaker has opened.
    fn wake(&self, account: &ParticipantConnections) {
        if 0 < account.waiting.get() && account.has_room(RequestClass::Notice) {
            account.freed.notify_waiters();
        }
        let is_open = || self.breakers.is_open(account.participant);
        if 0 < account.forwards_waiting.get()
            && (account.has_room(RequestClass::Forward) || is_open())
        {
            account.freed_for_forwards.notify_waiters();
        }
    }

    /// Closes a participant's idle connections after its addresses have changed.
    pub(crate) fn address_changed(&self, participant: ParticipantIndex) {
        if let Some(peers) = self.participants.borrow_mut().get_mut(participant.at()) {
            drop_unused(peers);
        }
    }

    async fn exchange(
        &self,
        peer: &Rc<Peer>,
        connection: Rc<Connection>,
        unsent: &mut Option<Request<Full<Bytes>>>,
    ) -> Result<PeerResponse, Failure> {
        connection.busy_since.set(self.sweeps.get());
        peer.set_busy(&connection);
        let lease = ConnectionLease { peer, connection: &connection };
        if connection.ready().await.is_err() {
            return Err(lease.failure());
        }
        let request = unsent.take().ok_or(Failure::Broken)?;
        let connected_ns = self.thread.tracer.now_ns();
        let whole = match &connection.protocol {
            Protocol::Http1(http1) => {
                let sent = pin!(http1.sender.borrow_mut().try_send_request(request));
                let response = connection.drive(sent).await.map_err(|mut error| {
                    *unsent = error.take_message();
                    lease.failure_unanswered()
                })?;
                connection.drive(pin!(self.receive(response))).await
            }
            Protocol::Http2(http2) => {
                let exchanged = Box::pin(self.exchange_http2(&connection, http2, request));
                exchanged.await.ok_or_else(|| lease.failure_unanswered())?
            }
        };
        let received = whole.map_err(|end| match end {
            BodyEnd::TooLong => Failure::TooLong,
            BodyEnd::Broken => lease.failure(),
        })?;
        let ReceivedResponse { status, retry_after, body, is_complete } = received;
        let written_ns = connection.written_at.get();
        let times = CallTimes { connected_ns, written_ns };
        drop(lease);
        if is_complete && connection.advance() {
            if connection.is_ready() {
                peer.keep_idle(connection);
            } else {
                self.finish(peer, connection);
            }
        }
        Ok(PeerResponse { status, body, retry_after, times })
    }

    /// The same over HTTP/2. `None` without a response.
    async fn exchange_http2(
        &self,
        connection: &Connection,
        http2: &Http2Connection<CallSocket>,
        request: Request<Full<Bytes>>,
    ) -> Option<Result<ReceivedResponse, BodyEnd>> {
        let (sent, _body) = http2.send(request)?;
        let response = connection.drive(pin!(sent)).await?;
        Some(connection.drive(pin!(self.receive(response))).await)
    }

    /// Reads the rest of a response.
    async fn receive<B>(&self, response: Response<B>) -> Result<ReceivedResponse, BodyEnd>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let status = response.status();
        let retry_after = match status.is_success() {
            true => None,
            false => response.headers().get(RETRY_AFTER).cloned(),
        };
        let (body, is_complete) = read_to_end(response.into_body(), status, self.callees).await?;
        Ok(ReceivedResponse { status, retry_after, body, is_complete })
    }

    /// Writes the rest of a request whose response arrived early.
    fn finish(&self, peer: &Rc<Peer>, connection: Rc<Connection>) {
        connection.busy_since.set(self.sweeps.get());
        peer.set_busy(&connection);
        let peer = Rc::clone(peer);
        spawn_local(async move {
            let _place = ConnectionPermit::taken(&peer.account, RequestClass::Notice);
            let lease = ConnectionLease { peer: &peer, connection: &connection };
            let ready = connection.ready().await;
            drop(lease);
            if ready.is_ok() {
                peer.keep_idle(connection);
            }
        });
    }

    async fn connect(&self, peer: &Rc<Peer>) -> Result<Rc<Connection>, Failure> {
        self.make_room(&peer.account);
        // Before the handshake, which may use newer files.
        let generation = self.generation();
        let connecting = tokio::time::timeout(self.limits.connect, self.open(peer));
        let stream = match connecting.await {
            Ok(Err(Failure::Denied)) => return Err(self.deny(&peer.name)),
            connected => connected.map_err(|_| Failure::Connect)??,
        };
        let is_http2 = stream.is_http2();
        let stream = CountedStream::new(stream, &self.thread);
        let written_at = stream.written_at();
        let protocol = match is_http2 {
            false => {
                let opened = handshake(TokioIo::new(stream)).await;
                let (sender, wire) = opened.map_err(|_| Failure::Connect)?;
                let (sender, wire) = (RefCell::new(sender), RefCell::new(Some(wire)));
                Protocol::Http1(Http1Connection { sender, wire })
            }
            true => {
                let opening = Http2Connection::open(stream, peer.name.host.clone());
                let opened = tokio::time::timeout(self.limits.connect, opening).await;
                let opened = opened.ok().and_then(Result::ok);
                Protocol::Http2(Box::new(opened.ok_or(Failure::Connect)?))
            }
        };
        Ok(Rc::new(Connection {
            protocol,
            busy_since: Cell::new(0),
            place: Cell::new(0),
            timed_out: Cell::new(false),
            generation,
            written_at,
        }))
    }

    /// The generation of the TLS files. Connections of earlier files are used for no new request.
    fn generation(&self) -> u64 {
        self.tls.as_ref().map_or(0, |tls| tls.generation())
    }

    /// Connects, and makes a handshake if the endpoint uses TLS.
    async fn open(&self, peer: &Peer) -> Result<CallStream, Failure> {
        if !self.egress_policy.allows_scheme(peer.scheme) {
            return Err(Failure::Denied);
        }
        let stream = peer.connect(&self.egress_policy).await?;
        let tls = match (peer.scheme, &self.tls) {
            (CallScheme::Http, _) => return Ok(CallStream::Plain(stream)),
            (CallScheme::Https, Some(tls)) => tls,
            (CallScheme::Https, None) => return Err(Failure::Connect),
        };
        let view = self.directory.view();
        let member = match self.callees {
            Callees::Participants => view.get(peer.account.participant),
            Callees::Oracles => None,
        };
        let name = member.map(|member| member.name);
        let name = name.as_ref().map_or("", |name| name.as_str());
        let host = peer.name.authority.rsplit_once(':').map_or("", |(host, _)| host);
        match Box::pin(tls.connect((name, host), stream)).await {
            Ok(stream) => {
                peer.fault.set(None);
                Ok(CallStream::Tls(Box::new(stream)))
            }
            Err(fault) => {
                if peer.fault.replace(Some(fault)) != Some(fault) {
                    let (address, reason) = (&*peer.name.authority, fault.text());
                    tracing::warn!(participant = name, address, reason, "TLS handshake failed");
                }
                Err(Failure::Tls(fault))
            }
        }
    }

    /// Closes an idle connection if one more would exceed a limit: one of the participant's own to
    /// another address, or one of any participant.
    fn make_room(&self, account: &ParticipantConnections) {
        let participants = self.participants.borrow();
        if self.limits.connections_max < account.in_use.get() + account.idle.get() {
            let own = participants.get(account.participant.at());
            own.into_iter().flatten().any(|peer| peer.close_oldest());
        }
        let Totals { in_use, idle, next, .. } = &*self.totals;
        if in_use.get() + idle.get() <= self.limits.connections_all || idle.get() == 0 {
            return;
        }
        let (before, from) = participants.split_at(next.get().min(participants.len()));
        let turn = from.iter().chain(before);
        let closed = turn.enumerate().find(|(_, own)| own.iter().any(|peer| peer.close_oldest()));
        if let Some((passed, _)) = closed {
            next.set((before.len() + passed + 1) % participants.len());
        }
    }

    fn peer(&self, participant: ParticipantIndex, to: &CallTarget) -> Result<Rc<Peer>, Failure> {
        let mut participants = self.participants.borrow_mut();
        if participants.len() <= participant.at() {
            participants.resize_with(participant.at() + 1, Vec::new);
        }
        let peers = &mut participants[participant.at()];
        let is_same =
            |peer: &&Rc<Peer>| *peer.name.authority == *to.authority && peer.scheme == to.scheme;
        if let Some(peer) = peers.iter().find(is_same) {
            return Ok(Rc::clone(peer));
        }
        let name = self.names.of(&to.authority)?;
        let account = match peers.first() {
            Some(peer) => Rc::clone(&peer.account),
            None => Rc::new(ParticipantConnections::new(participant, &self.totals)),
        };
        if PEERS_MAX <= peers.len() {
            drop_unused(peers);
        }
        let (idle, busy) = (RefCell::default(), RefCell::default());
        let (scheme, fault) = (to.scheme, Cell::new(None));
        let peer = Rc::new(Peer { account, name, scheme, fault, idle, busy });
        peers.push(Rc::clone(&peer));
        Ok(peer)
    }
}

/// Closes idle connections and drops the addresses that no request uses.
fn drop_unused(peers: &mut Vec<Rc<Peer>>) {
    peers.iter().for_each(|peer| peer.close_idle(|_| true));
    peers.retain(|peer| 1 < Rc::strong_count(peer));
}

impl Connection {
    /// Drives the connection until there is nothing to read or write, and returns whether it is
    /// open. No task is woken for later data: the next user of the connection polls it again.
    fn advance(&self) -> bool {
        self.turn(&mut Context::from_waker(Waker::noop()));
        self.is_open()
    }

    fn is_open(&self) -> bool {
        match &self.protocol {
            Protocol::Http1(http1) => !http1.sender.borrow().is_closed(),
            Protocol::Http2(http2) => http2.is_open(),
        }
    }

    /// Whether the next request can be written.
    fn is_ready(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        matches!(self.poll_ready(&mut context), Poll::Ready(Ok(())))
    }

    /// Waits until the next request can be written. Reads first: the end of an idle connection is
    /// found before a request is written to it.
    async fn ready(&self) -> Result<(), NotReady> {
        poll_fn(|context| {
            self.turn(context);
            self.poll_ready(context)
        })
        .await
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), NotReady>> {
        match &self.protocol {
            Protocol::Http1(http1) => {
                http1.sender.borrow_mut().poll_ready(context).map_err(|_| NotReady)
            }
            Protocol::Http2(http2) => http2.poll_ready(context).map_err(|_| NotReady),
        }
    }

    /// Waits for the response, and drives the connection meanwhile.
    async fn drive<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        poll_fn(|context| {
            // The end of a response without a body is known without another read.
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(output);
            }
            self.turn(context);
            future.as_mut().poll(context)
        })
        .await
    }

    fn turn(&self, context: &mut Context<'_>) {
        let http1 = match &self.protocol {
            Protocol::Http1(http1) => http1,
            Protocol::Http2(http2) => return http2.turn(context),
        };
        let mut wire = http1.wire.borrow_mut();
        let ended = wire.as_mut().is_some_and(|wire| Pin::new(wire).poll(context).is_ready());
        if ended {
            // The request on it, if any, sees how it ended.
            *wire = None;
        }
    }

    fn close(&self) {
        match &self.protocol {
            Protocol::Http1(http1) => drop(http1.wire.take()),
            Protocol::Http2(http2) => http2.close(),
        }
    }
}

impl ParticipantConnections {
    fn new(participant: ParticipantIndex, totals: &Rc<Totals>) -> Self {
        let zero = || Cell::new(0);
        Self {
            participant,
            in_use: zero(),
            forwards: zero(),
            idle: zero(),
            waiting: zero(),
            forwards_waiting: zero(),
            freed: Notify::new(),
            freed_for_forwards: Notify::new(),
            totals: Rc::clone(totals),
        }
    }

    /// Whether it may use one more connection.
    fn has_room(&self, usage: RequestClass) -> bool {
        let limit = self.totals.shares.limit(self.totals.in_use.get());
        self.in_use.get() < limit
            && (usage != RequestClass::Forward || self.forwards.get() < forwards_limit(limit))
    }

    /// Takes the right to use one more connection.
    fn take(&self, usage: RequestClass) -> Option<ConnectionPermit<'_>> {
        self.has_room(usage).then(|| ConnectionPermit::taken(self, usage))
    }
}

impl Peer {
    /// The most recently used connection, so that the peer closes those that are not needed.
    fn take_idle(&self, generation: u64) -> Option<Rc<Connection>> {
        loop {
            let connection = self.idle.borrow_mut().pop()?;
            self.count_idle(1, 0);
            let is_current = connection.generation == generation;
            if is_current && connection.is_open() {
                return Some(connection);
            }
        }
    }

    fn keep_idle(&self, connection: Rc<Connection>) {
        self.count_idle(0, 1);
        self.idle.borrow_mut().push(connection);
    }

    /// Closes the idle connections that `is_unwanted`.
    fn close_idle(&self, mut is_unwanted: impl FnMut(&Connection) -> bool) {
        let mut idle = self.idle.borrow_mut();
        let before = idle.len();
        idle.retain(|connection| !is_unwanted(connection));
        self.count_idle(before - idle.len(), 0);
    }

    /// Closes the least recently used idle connection; false if no connection is idle.
    fn close_oldest(&self) -> bool {
        let mut idle = self.idle.borrow_mut();
        if idle.is_empty() {
            return false;
        }
        drop(idle.remove(0));
        self.count_idle(1, 0);
        true
    }

    fn count_idle(&self, fewer: usize, more: usize) {
        for count in [&self.account.idle, &self.account.totals.idle] {
            count.update(|count| count + more - fewer);
        }
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

    /// Connects to the first address that responds. The check is on addresses and not on the name,
    /// so that exactly the called address is checked.
    async fn connect(&self, egress_policy: &EgressPolicy) -> Result<TcpStream, Failure> {
        let found = self.name.resolve().await?;
        let mut allowed = found.iter().filter(|to| egress_policy.allows_socket(**to)).peekable();
        if allowed.peek().is_none() && !found.is_empty() {
            self.name.forget();
            return Err(Failure::Denied);
        }
        for address in allowed {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    if stream.local_addr().is_ok_and(|here| egress_policy.is_loop(here, *address)) {
                        return Err(Failure::Denied);
                    }
                    stream.set_nodelay(true).map_err(|_| Failure::Connect)?;
                    return Ok(stream);
                }
                Err(error) if is_exhausted(&error) => return Err(Failure::Crowded),
                Err(_) => {}
            }
        }
        self.name.forget();
        Err(Failure::Connect)
    }
}

/// Whether this machine has no file descriptor left, which is not the participant's fault.
fn is_exhausted(error: &std::io::Error) -> bool {
    error.raw_os_error().is_some_and(|number| [EMFILE, ENFILE].contains(&number))
}

/// The right to use one connection, until it is dropped.
struct ConnectionPermit<'a> {
    account: &'a ParticipantConnections,
    usage: RequestClass,
}

impl<'a> ConnectionPermit<'a> {
    fn taken(account: &'a ParticipantConnections, usage: RequestClass) -> Self {
        account.totals.in_use.update(|count| count + 1);
        account.in_use.update(|count| count + 1);
        account.forwards.update(|count| count + usize::from(usage == RequestClass::Forward));
        Self { account, usage }
    }
}

impl Drop for ConnectionPermit<'_> {
    fn drop(&mut self) {
        let Self { account, usage } = self;
        account.totals.in_use.update(|count| count - 1);
        account.in_use.update(|count| count - 1);
        account.forwards.update(|count| count - usize::from(*usage == RequestClass::Forward));
        if 0 < account.waiting.get() {
            account.freed.notify_one();
        }
        if 0 < account.forwards_waiting.get() {
            account.freed_for_forwards.notify_one();
        }
    }
}

/// A request that waits for a connection, counted while it does.
struct ConnectionWait<'a>(&'a Cell<usize>);

impl<'a> ConnectionWait<'a> {
    fn begin(account: &'a ParticipantConnections, usage: RequestClass) -> Self {
        let count = match usage {
            RequestClass::Forward => &account.forwards_waiting,
            RequestClass::Notice | RequestClass::Probe => &account.waiting,
        };
        count.update(|count| count + 1);
        Self(count)
    }
}

impl Drop for ConnectionWait<'_> {
    fn drop(&mut self) {
        self.0.update(|count| count - 1);
    }
}

/// A connection in use, until this is dropped.
struct ConnectionLease<'a> {
    peer: &'a Peer,
    connection: &'a Connection,
}

impl ConnectionLease<'_> {
    fn failure(&self) -> Failure {
        if self.connection.timed_out.get() {
            return Failure::TimedOut;
        }
        let fault = match &self.connection.protocol {
            Protocol::Http1(_) => None,
            Protocol::Http2(http2) => http2.fault(),
        };
        fault.map_or(Failure::Broken, Failure::Http2)
    }

    /// The failure if no part of the response has arrived.
    fn failure_unanswered(&self) -> Failure {
        match self.failure() {
            Failure::Broken => Failure::Unanswered,
            failure => failure,
        }
    }
}

impl Drop for ConnectionLease<'_> {
    fn drop(&mut self) {
        self.peer.set_free(self.connection);
    }
}

/// The connection has ended.
#[derive(Clone, Copy, Debug)]
struct NotReady;

/// A response with its body.
struct ReceivedResponse {
    status: StatusCode,
    retry_after: Option<HeaderValue>,
    body: Bytes,
    /// The connection is reusable.
    is_complete: bool,
}

/// Why the body of a response has no end.
enum BodyEnd {
    /// An oracle's body is longer than [`REASON_BYTES_MAX`].
    TooLong,
    /// The connection broke.
    Broken,
}

/// Reads a response to its end and keeps the body of a failure, or of an oracle. True if the
/// connection is reusable.
async fn read_to_end<B: Body<Data = Bytes> + Unpin>(
    mut body: B,
    status: StatusCode,
    callees: Callees,
) -> Result<(Bytes, bool), BodyEnd> {
    let is_kept = callees == Callees::Oracles || !status.is_success();
    let (mut kept, mut length) = (BytesMut::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| BodyEnd::Broken)?.into_data() else { continue };
        length += data.len();
        if callees == Callees::Oracles && REASON_BYTES_MAX < length {
            return Err(BodyEnd::TooLong);
        }
        if ANSWER_BYTES_MAX < length {
            return Ok((kept.freeze(), false));
        }
        if is_kept && length <= REASON_BYTES_MAX {
            kept.extend_from_slice(&data);
        }
    }
    Ok((kept.freeze(), true))
}
