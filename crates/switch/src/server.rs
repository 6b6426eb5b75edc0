//! HTTP in: connections, requests, bodies, and the synchronous answer.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::mem;
use std::net::IpAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fspiop::egress_policy::Network;
use fspiop::headers::X_CLIENT_ID;
use fspiop::{ErrorCode, MatchedRoute, Refusal, Resource, Route};
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use ledger::Stamp;
use node::Handle;
use node::latency_trace::TracePoint;
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use crate::connections::{
    ClientConnection, ConnectionLimits, ConnectionPermit, Connections, RequestGuard,
};
use crate::directory::Directory;
use crate::egress::Egress;
use crate::inbound::{Envelope, Inbound};
use crate::message::Message;
use crate::signatures::ThreadSignatures;
use crate::socket::{self, Protocol, ReadBuffer, Socket, Stream};
use crate::submitter::{AcceptStatus, Submitter};
use crate::thread::Thread;
use crate::trace::RequestTrace;
use crate::transfers::{self, Transfers};
use crate::{http2, notice_messages, participants, parties, quotes};

/// A client must take what it is sent within this time.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Clients being told at once that there is no place for them; others are closed without a word.
const TURNED_AWAY_MAX: usize = 64;
/// Bodies that are not yet whole, all together.
const GATHERED_BYTES_MAX: usize = 256 << 20;
/// What is read away of a refused request's body, and for how long, so that the client can read
/// the refusal: it would not if its connection broke while it is still writing.
const DISCARD_BYTES_MAX: usize = 16 << 20;
const DISCARD_PATIENCE: Duration = Duration::from_secs(2);
/// A client that sends nothing for so long waits for the answer first.
const DISCARD_SILENCE: Duration = Duration::from_millis(100);

/// The parts of the thread that serve clients.
pub(crate) struct Server {
    pub(crate) thread: Rc<Thread>,
    pub(crate) started: Stamp,
    pub(crate) handle: Handle<Message>,
    pub(crate) directory: Rc<Directory>,
    pub(crate) submitter: Rc<Submitter>,
    pub(crate) egress: Rc<Egress>,
    pub(crate) transfers: Rc<Transfers>,
    pub(crate) seals: Rc<ThreadSignatures>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) limits: ConnectionLimits,
    /// Where gateways connect from; empty believes `X-Client-Id` from all.
    pub(crate) gateways: Arc<[Network]>,
    pub(crate) turned_away: Cell<usize>,
    /// Room that clients' sockets are read into.
    pub(crate) room: Rc<ReadBuffer>,
    /// Bytes of bodies that are not yet whole.
    pub(crate) gathered: Cell<usize>,
}

/// Accepts connections until the thread ends.
pub(crate) async fn accept(server: Rc<Server>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => admit(&server, stream, from.ip()),
            // Out of file descriptors, or a client that left: neither ends the service.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn admit(server: &Rc<Server>, stream: TcpStream, from: IpAddr) {
    let Some(place) = server.connections.admit(from) else {
        server.thread.counters.connections_refused.add(1);
        turn_away(server, stream);
        return;
    };
    server.thread.counters.connections.add(1);
    let gateways = &server.gateways;
    if !gateways.is_empty() && !gateways.iter().any(|network| network.contains_canonical(from)) {
        place.line.ignores_client_id.set(true);
    }
    server.thread.counters.connections_evicted.add(u64::from(place.has_evicted));
    let socket = SockRef::from(&stream);
    if stream.set_nodelay(true).is_ok() && socket.set_tcp_user_timeout(Some(WRITE_PATIENCE)).is_ok()
    {
        spawn_local(serve_connection(Rc::clone(server), stream, place));
    }
}

fn turn_away(server: &Rc<Server>, stream: TcpStream) {
    if server.turned_away.get() < TURNED_AWAY_MAX {
        server.turned_away.set(server.turned_away.get() + 1);
        let server = Rc::clone(server);
        spawn_local(async move {
            socket::turn_away(stream).await;
            server.turned_away.set(server.turned_away.get() - 1);
        });
    }
}

pub(crate) async fn serve_connection(
    server: Rc<Server>,
    stream: impl Stream,
    place: ConnectionPermit,
) {
    let line = Rc::clone(&place.line);
    let limits = server.limits;
    let shared = (Rc::clone(&server.room), Arc::clone(&server.thread.counters));
    let opened = Socket::open(stream, Rc::clone(&line), shared, limits.head);
    let Some((socket, protocol)) = opened.await else { return };
    let ending = socket.ending();
    match protocol {
        Protocol::Http1 => serve_http1(server, socket, line).await,
        Protocol::Http2 => {
            let serving = Rc::clone(&line);
            let service = service_fn(move |request| {
                serve(Rc::clone(&server), serving.heard_ns.get(), serving.serve(), request)
            });
            http2::serve(socket, &line, service).await;
        }
    }
    ending.close().await;
}

async fn serve_http1(server: Rc<Server>, socket: Socket<impl Stream>, line: Rc<ClientConnection>) {
    let serving = Rc::clone(&line);
    let service = service_fn(move |request| {
        serve(Rc::clone(&server), serving.heard_ns.get(), serving.serve(), request)
    });
    let ended = http1::Builder::new()
        // The sweep sees to it that heads are whole in time.
        .header_read_timeout(None)
        .max_buf_size(fspiop::headers::HEADER_BYTES_MAX)
        .half_close(true)
        .serve_connection(socket, service)
        .await;
    line.broken_off.set(ended.is_err_and(|error| error.is_incomplete_message()));
}

/// Answers a request. What it waits with is kept small, for each one on its way is moved as a
/// whole: the request is held once, and what it is read into is gone before the next wait.
pub(crate) fn serve(
    server: Rc<Server>,
    heard_ns: u64,
    serving: RequestGuard,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Full<Bytes>>, Infallible>> {
    let (mut parts, mut body) = request.into_parts();
    async move {
        if let Err(refusal) = fspiop::request_head::check(&parts) {
            server.thread.counters.malformed.add(1);
            server.thread.counters.refused.add(1);
            return Ok(closing(refuse(&refusal)));
        }
        if serving.line.ignores_client_id.get() {
            parts.headers.remove(&X_CLIENT_ID);
        }
        // Who asks before it sends the body is answered before it does.
        let asks = parts.headers.contains_key(EXPECT);
        let answer = answer(&server, heard_ns, (&mut parts, &mut body), &serving).await;
        let refusal = match answer {
            Ok(response) => {
                server.thread.counters.requests.add(1);
                return Ok(response);
            }
            Err(refusal) => refusal,
        };
        let was_slow = refusal.status == StatusCode::REQUEST_TIMEOUT;
        if !was_slow && !asks && !body.is_end_stream() {
            Box::pin(discard(&mut body)).await;
        }
        server.thread.counters.refused.add(1);
        Ok(refuse(&refusal))
    }
}

async fn answer(
    server: &Rc<Server>,
    heard_ns: u64,
    (parts, body): (&mut Parts, &mut Incoming),
    serving: &RequestGuard,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let mut stages = server.thread.tracer.request(heard_ns);
    let uri = parts.uri.clone();
    let api = match fspiop::find(&parts.method, uri.path())? {
        MatchedRoute::Health => return Ok(health(server)),
        // Endpoints are never out of date here; operators' scripts may still ask.
        MatchedRoute::EndpointCache => return Ok(empty(StatusCode::ACCEPTED)),
        MatchedRoute::Api(api) => api,
    };
    let resource = api.resource();
    let envelope = envelope(server, parts, resource)?;
    let route = api.route(uri.query())?;
    let max = resource.body_bytes_max();
    let body = read(server, body, &parts.headers, max).await?;
    serving.mark_whole();
    stages.mark(TracePoint::Read);
    if server.directory.may_lag_for(&envelope.source) {
        Box::pin(server.directory.catch_up()).await?;
    }
    let head = (mem::take(&mut parts.method), uri.clone(), mem::take(&mut parts.headers));
    match take(server, (resource, route), head, (envelope, body, stages))? {
        AcceptStatus::Now(status) => Ok(empty(status)),
        AcceptStatus::Asked(asking) => Ok(empty(asking.await?)),
        AcceptStatus::Decided(decision, status) => {
            let mut stages = decision.made(&server.directory).await?;
            let response = empty(status);
            stages.mark(TracePoint::Answered);
            Ok(response)
        }
    }
}

/// Takes a message that is here as a whole.
fn take(
    server: &Rc<Server>,
    (resource, route): (Resource, Route<'_>),
    (method, uri, headers): (Method, Uri, HeaderMap),
    (envelope, body, stages): (Envelope, Bytes, RequestTrace),
) -> Result<AcceptStatus, Refusal> {
    let mut inbound = Inbound { envelope, method, uri, headers, body, stages };
    server.seals.check(resource, &inbound)?;
    // Before anything is stored or forwarded, whatever becomes of the message.
    fspiop::forwarded_headers::strip(&mut inbound.headers);
    if matches!(inbound.method, Method::GET | Method::DELETE) {
        // It means nothing, so it goes to nobody.
        inbound.body = Bytes::new();
    }
    dispatch(server, &route, inbound)
}

fn dispatch(
    server: &Rc<Server>,
    route: &Route<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let Server { submitter, egress, transfers, .. } = &**server;
    match route {
        Route::TransfersPost | Route::TransfersPut(_) | Route::TransfersError(_) => {
            transfers::submit(transfers, route, inbound)
        }
        Route::TransfersGet(path) => transfers::get(transfers, path, &inbound),
        Route::PartiesGet(path) => parties::get(egress, path, inbound),
        Route::PartiesPut(path) => parties::put(egress, path, inbound),
        Route::PartiesError(path) => parties::put_error(egress, path, inbound),
        Route::QuotesPost => quotes::post(egress, inbound),
        Route::QuotesPut(id) => quotes::put(egress, id, inbound),
        Route::QuotesError(id) => quotes::put_error(egress, id, inbound),
        Route::QuotesGet(id) => quotes::get(egress, id, inbound),
        Route::ParticipantsBatch => participants::post_batch((submitter, egress), route, inbound),
        Route::ParticipantsPost(path)
        | Route::ParticipantsPut(path)
        | Route::ParticipantsDelete(path) => {
            participants::change((submitter, egress), (route, path), inbound)
        }
        Route::ParticipantsGet(path) => participants::get(egress, path, &inbound),
        Route::ParticipantsError(path) => participants::put_error(egress, path, inbound),
    }
}

/// The header checks, and what of the headers outlives their rewriting.
fn envelope(server: &Server, parts: &Parts, resource: Resource) -> Result<Envelope, Refusal> {
    let length = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    if fspiop::headers::HEADER_BYTES_MAX < parts.headers.iter().map(length).sum() {
        return Err(Refusal::too_large());
    }
    let headers = fspiop::headers::check(&parts.headers, &parts.method, resource.as_str())?;
    Ok(Envelope {
        source: headers.source,
        destination: headers.destination,
        version: headers.version,
        trace: headers.trace.unwrap_or_else(|| server.thread.new_trace()),
        through_proxy: headers.proxy.is_some(),
    })
}

/// Reads a body to its end: without a copy when it came in one piece, as nearly all do.
async fn read(
    server: &Server,
    body: &mut Incoming,
    headers: &HeaderMap,
    max: usize,
) -> Result<Bytes, Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| max < length) {
        return Err(Refusal::too_large());
    }
    let reading = async {
        let mut gathered = BufferedBytes { server, bytes: 0 };
        let mut first: Option<Bytes> = None;
        let mut rest = BytesMut::new();
        while let Some(frame) = body.frame().await {
            let frame = frame
                .map_err(|_| Refusal::new(ErrorCode::MALFORMED_SYNTAX, "the body is incomplete"))?;
            let Ok(data) = frame.into_data() else { continue };
            let length = first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len();
            if max < length {
                return Err(Refusal::too_large());
            }
            match &first {
                None => first = Some(data),
                Some(_) => {
                    gathered.add(length - gathered.bytes)?;
                    rest.extend_from_slice(&data);
                }
            }
            if body.is_end_stream() {
                break;
            }
        }
        Ok(join(first.unwrap_or_default(), rest))
    };
    let mut reading = pin!(reading);
    // Nearly all bodies are here already: only the others need a timer.
    let at_once = poll_fn(|context| Poll::Ready(reading.as_mut().poll(context))).await;
    if let Poll::Ready(body) = at_once {
        return body;
    }
    match tokio::time::timeout(server.limits.body, reading).await {
        Ok(body) => body,
        Err(_) => Err(Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            ..Refusal::new(ErrorCode::GENERIC_CLIENT, "the body did not arrive in time")
        }),
    }
}

/// Bytes of one body that is not yet whole, among those of all; until it is dropped.
struct BufferedBytes<'a> {
    server: &'a Server,
    bytes: usize,
}

impl BufferedBytes<'_> {
    fn add(&mut self, more: usize) -> Result<(), Refusal> {
        let all = self.server.gathered.get() + more;
        if GATHERED_BYTES_MAX < all {
            return Err(Refusal::unavailable());
        }
        self.server.gathered.set(all);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for BufferedBytes<'_> {
    fn drop(&mut self) {
        self.server.gathered.set(self.server.gathered.get() - self.bytes);
    }
}

/// Reads a body away, within bounds.
async fn discard(body: &mut Incoming) {
    let reading = async {
        let mut length = 0;
        let next = async |body: &mut Incoming| {
            tokio::time::timeout(DISCARD_SILENCE, body.frame()).await.ok().flatten()
        };
        while let Some(Ok(frame)) = next(body).await {
            length += frame.data_ref().map_or(0, Bytes::len);
            if DISCARD_BYTES_MAX < length {
                break;
            }
        }
    };
    // What did not come in time breaks the connection, which is what a client so slow expects.
    let _in_time = tokio::time::timeout(DISCARD_PATIENCE, reading).await;
}

fn join(first: Bytes, rest: BytesMut) -> Bytes {
    if rest.is_empty() {
        return first;
    }
    let mut whole = BytesMut::with_capacity(first.len() + rest.len());
    whole.extend_from_slice(&first);
    whole.extend_from_slice(&rest);
    whole.freeze()
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn refuse(refusal: &Refusal) -> Response<Full<Bytes>> {
    let mut response = json(refusal.status, refusal.body());
    if refusal.status == StatusCode::UNSUPPORTED_MEDIA_TYPE {
        let value = HeaderValue::from_static("identity");
        response.headers_mut().insert(ACCEPT_ENCODING, value);
    }
    response
}

/// The answer, after which the connection is closed.
fn closing(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

fn json(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let value = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, value);
    response
}

/// `GET /health` on the FSPIOP port (hub-semantics 8.4).
fn health(server: &Server) -> Response<Full<Bytes>> {
    let condition = server.handle.condition();
    let (status, word) = match condition.is_well() {
        true => (StatusCode::OK, "OK"),
        false => (StatusCode::BAD_GATEWAY, "DOWN"),
    };
    let shown = |down| if down { "DOWN" } else { "OK" };
    let mut services = vec![
        ("datastore", shown(condition.stopped.is_some())),
        ("broker", shown(condition.is_log_down())),
    ];
    // Whose lane it is concerns no other participant.
    services.extend(condition.stuck.iter().map(|one| (one.kind(), "DOWN")));
    services.dedup();
    let shown: Vec<_> = services
        .iter()
        .map(|(name, status)| format!("{{\"name\":\"{name}\",\"status\":\"{status}\"}}"))
        .collect();
    let uptime_ms = server.thread.now().monotonic_us / 1_000;
    let body = format!(
        "{{\"status\":\"{word}\",\"uptime\":{}.{:03},\"startTime\":\"{}\",\"versionNumber\":\"{}\",\
         \"services\":[{}]}}",
        uptime_ms / 1_000,
        uptime_ms % 1_000,
        notice_messages::iso_text(server.started.millis()),
        env!("CARGO_PKG_VERSION"),
        shown.join(","),
    );
    json(status, Bytes::from(body))
}
