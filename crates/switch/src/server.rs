//! The HTTP server: connections, requests, bodies, and the synchronous response.

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
use fspiop::headers::{FSPIOP_SOURCE, X_CLIENT_ID};
use fspiop::quote_rules::QuoteRules;
use fspiop::{ErrorCode, MatchedRoute, Refusal, Resource, Route};
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HeaderName, RETRY_AFTER,
    WWW_AUTHENTICATE,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use ledger::{FspName, ParticipantIndex, Stamp, TraceId};
use node::Handle;
use node::latency_trace::{TracePoint, monotonic_ns};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::spawn_local;
use traces::SpanSubject;

use crate::bulk_transfers;
use crate::caller_tokens::Patience;
use crate::callers::Client;
use crate::connections::{
    ClientConnection, ConnectionLimits, ConnectionPermit, Connections, RequestGuard,
};
use crate::directory::Directory;
use crate::egress::Egress;
use crate::handshakes::Security;
use crate::inbound::{Envelope, Inbound, RequestSpan};
use crate::incomplete_bodies::{IncompleteBodies, IncompleteBody};
use crate::lent_calls::LentConnection;
use crate::measurements::RequestKind;
use crate::message::ForwardedMessage;
use crate::participant_limits::{ParticipantUsage, RequestInProgress};
use crate::recorded_quotes::QuoteRecorder;
use crate::refusal_pace::RefusalPace;
use crate::services::{self, Conversion};
use crate::signatures::ThreadSignatures;
use crate::socket::{self, Protocol, ReadBuffer, Socket, Stream};
use crate::spans::{DecisionFacts, RequestFacts};
use crate::submitter::{AcceptStatus, Submitter};
use crate::thread::Thread;
use crate::trace::RequestTrace;
use crate::transfers::{self, Transfers};
use crate::{
    exchanges, http2, outcome_errors, participants, parties, recorded_quotes, recorded_requests,
    spans,
};

/// Maximum time for a client to acknowledge sent data.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of clients that are answered 503 concurrently; others are closed at once.
const REFUSED_CONNECTIONS_MAX: usize = 64;
/// Bytes of a refused request's body that are read and discarded, and for how long, so that the
/// client can read the error: it could not if its connection broke while it is still writing.
const DISCARD_BYTES_MAX: usize = 16 << 20;
const DISCARD_PATIENCE: Duration = Duration::from_secs(2);
/// Bytes of a body that count as one request of its sender.
const REQUEST_BYTES: usize = 4 << 10;
/// Requests that each such part counts as in addition, if the body had to be parsed and written
/// again to verify its signature.
const REWRITTEN_WEIGHT: usize = 8;
/// A client that sends nothing for this time waits for the response first.
const DISCARD_SILENCE: Duration = Duration::from_millis(100);
/// Part of the header `FSPIOP-Source` that the access log has, in bytes. A name has at most 32.
const LOGGED_SOURCE_BYTES_MAX: usize = 64;

/// The parts of the thread that serve clients.
pub(crate) struct Server {
    pub(crate) thread: Rc<Thread>,
    pub(crate) started: Stamp,
    pub(crate) handle: Handle<ForwardedMessage>,
    pub(crate) directory: Rc<Directory>,
    pub(crate) submitter: Rc<Submitter>,
    pub(crate) egress: Rc<Egress>,
    pub(crate) transfers: Rc<Transfers>,
    /// Records quotes, if the scheme does.
    pub(crate) quotes: Option<Rc<QuoteRecorder>>,
    /// The rules of the scheme for quotes.
    pub(crate) quote_rules: Option<Arc<QuoteRules>>,
    pub(crate) conversions: Arc<[Conversion]>,
    pub(crate) signatures: Rc<ThreadSignatures>,
    pub(crate) connections: Rc<Connections>,
    pub(crate) limits: ConnectionLimits,
    /// Counts of requests, if participants have bounds.
    pub(crate) participant_usage: Option<Arc<ParticipantUsage>>,
    pub(crate) refusal_pace: RefusalPace,
    /// Networks of gateways; if empty, `X-Client-Id` is accepted from all.
    pub(crate) gateways: Arc<[Network]>,
    pub(crate) logs_requests: bool,
    pub(crate) security: Security,
    pub(crate) refused_connections: Cell<usize>,
    /// The buffer into which clients' sockets are read.
    pub(crate) room: Rc<ReadBuffer>,
    pub(crate) incomplete_bodies: IncompleteBodies,
}

/// Accepts connections until the thread ends.
pub(crate) async fn accept(server: Rc<Server>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, from)) => {
                let own = server.egress.lent.lend_connection(stream, from.ip());
                own.into_iter().for_each(|stream| admit(&server, stream, from.ip()));
            }
            // No file descriptors left, or a client that left: continue to serve.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

/// Serves connections that another thread accepted.
pub(crate) async fn accept_lent(
    server: Rc<Server>,
    mut connections: mpsc::Receiver<LentConnection>,
) {
    while let Some((stream, from)) = connections.recv().await {
        // One that cannot be registered with this thread is closed.
        let stream = TcpStream::from_std(stream);
        stream.into_iter().for_each(|stream| admit(&server, stream, from));
    }
}

fn admit(server: &Rc<Server>, stream: TcpStream, from: IpAddr) {
    let Some(permit) = server.connections.admit(from) else {
        server.thread.counters.connections_refused.add(1);
        refuse_connection(server, stream);
        return;
    };
    server.thread.counters.connections.add(1);
    let gateways = &server.gateways;
    if !gateways.is_empty() && !gateways.iter().any(|network| network.contains_canonical(from)) {
        permit.client.is_outside_gateways.set(true);
    }
    server.thread.counters.connections_evicted.add(u64::from(permit.has_evicted));
    let socket = SockRef::from(&stream);
    if stream.set_nodelay(true).is_ok() && socket.set_tcp_user_timeout(Some(WRITE_PATIENCE)).is_ok()
    {
        match server.security.handshakes {
            None => spawn_local(serve_connection(Rc::clone(server), stream, permit)),
            Some(_) => spawn_local(serve_over_tls(Rc::clone(server), (stream, from), permit)),
        };
    }
}

fn refuse_connection(server: &Rc<Server>, stream: TcpStream) {
    if server.refused_connections.get() < REFUSED_CONNECTIONS_MAX {
        server.refused_connections.set(server.refused_connections.get() + 1);
        let server = Rc::clone(server);
        spawn_local(async move {
            socket::refuse_connection(stream, &Refusal::unavailable()).await;
            server.refused_connections.set(server.refused_connections.get() - 1);
        });
    }
}

async fn serve_over_tls(
    server: Rc<Server>,
    (stream, from): (TcpStream, IpAddr),
    permit: ConnectionPermit,
) {
    let Some(handshakes) = &server.security.handshakes else { return };
    let accepting = handshakes.accept((stream, from), &permit.client);
    if let Some(stream) = Box::pin(accepting).await {
        serve_connection(Rc::clone(&server), stream, permit).await;
    }
}

pub(crate) async fn serve_connection(
    server: Rc<Server>,
    stream: impl Stream,
    permit: ConnectionPermit,
) {
    let client = Rc::clone(&permit.client);
    let limits = server.limits;
    let shared = (Rc::clone(&server.room), Arc::clone(&server.thread.counters));
    let opened = Socket::open(stream, Rc::clone(&client), shared, limits.head);
    let Some((socket, protocol)) = opened.await else { return };
    let closing_socket = socket.closing_socket();
    match protocol {
        Protocol::Http1 => serve_http1(server, socket, client).await,
        Protocol::Http2 => {
            let serving = Rc::clone(&client);
            let service = service_fn(move |request| {
                serve(Rc::clone(&server), serving.read_ns.get(), serving.begin_request(), request)
            });
            http2::serve(socket, &client, service).await;
        }
    }
    closing_socket.close().await;
}

async fn serve_http1(
    server: Rc<Server>,
    socket: Socket<impl Stream>,
    client: Rc<ClientConnection>,
) {
    let serving = Rc::clone(&client);
    let service = service_fn(move |request| {
        serve(Rc::clone(&server), serving.read_ns.get(), serving.begin_request(), request)
    });
    let ended = http1::Builder::new()
        // The sweep enforces the timeout of heads.
        .header_read_timeout(None)
        .max_buf_size(fspiop::headers::HEADER_BYTES_MAX)
        .half_close(true)
        .serve_connection(socket, service)
        .await;
    client.aborted.set(ended.is_err_and(|error| error.is_incomplete_message()));
}

/// Answers a request. The future is kept small, because it is moved as a whole: it holds the
/// request once, and buffers are dropped before the next wait.
pub(crate) fn serve(
    server: Rc<Server>,
    read_ns: u64,
    guard: RequestGuard,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Full<Bytes>>, Infallible>> {
    let (mut parts, mut body) = request.into_parts();
    let arrived_ns = monotonic_ns();
    async move {
        if let Err(refusal) = fspiop::request_head::check(&parts) {
            server.thread.counters.malformed.add(1);
            server.thread.counters.refused.add(1);
            let sender = stated_sender(&server, &parts.headers);
            server.thread.measurements.refused((None, sender), arrived_ns, &refusal);
            if server.logs_requests {
                let about = RequestInfo::arrived(read_ns);
                let head = (&parts.method, &parts.uri, parts.headers.get(&FSPIOP_SOURCE));
                log_request(head, (&about, arrived_ns), &Err(refusal.clone()));
            }
            delay(&server, &guard.client).await;
            return Ok(with_close(refuse(&refusal)));
        }
        if guard.client.is_outside_gateways.get() {
            parts.headers.remove(&X_CLIENT_ID);
        }
        // A client that sends `Expect: 100-continue` gets an error before it sends the body.
        let expects_continue = parts.headers.contains_key(EXPECT);
        let mut about = RequestInfo::arrived(read_ns);
        let logged = server
            .logs_requests
            .then(|| (parts.method.clone(), parts.headers.get(&FSPIOP_SOURCE).cloned()));
        let result = respond(&server, &mut about, (&mut parts, &mut body), &guard).await;
        if let Some((method, source)) = &logged {
            let head = (method, &parts.uri, source.as_ref());
            log_request(head, (&about, arrived_ns), &result);
        }
        if server.thread.spans.is_on() {
            write_span(&server.thread, about.facts.take(), (&about, arrived_ns), &result);
        }
        let measurements = &server.thread.measurements;
        let refusal = match result {
            Ok(response) => {
                server.thread.counters.requests.add(1);
                match about.request {
                    Some(request) => measurements.answered(request, arrived_ns, about.exemplar),
                    None => delay(&server, &guard.client).await,
                }
                let moves =
                    parts.version < Version::HTTP_2 && server.egress.lent.closes_connection();
                return Ok(if moves { with_close(response) } else { response });
            }
            Err(refusal) => refusal,
        };
        let was_slow = refusal.status == StatusCode::REQUEST_TIMEOUT;
        if !was_slow && !expects_continue && !body.is_end_stream() {
            Box::pin(discard(&mut body)).await;
        }
        server.thread.counters.refused.add(1);
        let sender = match &about.source {
            Some(source) => server.directory.sender(source),
            None => stated_sender(&server, &parts.headers),
        };
        server.thread.measurements.refused((about.request, sender), arrived_ns, &refusal);
        if refusal.status.is_client_error() {
            delay(&server, &guard.client).await;
        }
        Ok(refuse(&refusal))
    }
}

/// Waits before the response to a request that is refused, or is not one of a participant.
async fn delay(server: &Server, client: &ClientConnection) {
    let now_us = server.thread.now().monotonic_us;
    let pause = server.refusal_pace.count(client.address, &client.refusal_due_us, now_us);
    if let Some(pause) = pause {
        server.thread.counters.refusals_delayed.add(1);
        Box::pin(tokio::time::sleep(pause)).await;
    }
}

/// Writes the span of a request; `facts` are absent if its headers were refused.
fn write_span(
    thread: &Thread,
    facts: Option<Box<RequestFacts>>,
    (about, arrived_ns): (&RequestInfo, u64),
    result: &Result<Response<Full<Bytes>>, Refusal>,
) {
    let begun = || {
        let trace = thread.new_trace().trace_id;
        thread.spans.facts_of_refused(trace, thread.unique())
    };
    // A probe of the health has no headers of the API.
    if facts.is_none() && result.is_ok() {
        return;
    }
    let facts = facts.unwrap_or_else(begun);
    let status = result.as_ref().map(Response::status);
    let operation = about.request.map(|request| request.operation);
    let decision = about.decision.as_deref();
    thread.spans.request((&facts, decision), (operation, arrived_ns), status);
    if let Some(decision) = decision {
        thread.spans.stages(&facts, decision, || thread.unique());
    }
}

/// The participant that a refused request states as its sender.
#[cold]
fn stated_sender(server: &Server, headers: &HeaderMap) -> Option<ParticipantIndex> {
    let name = FspName::new(headers.get(&FSPIOP_SOURCE)?.to_str().ok()?)?;
    server.directory.sender(&name)
}

#[cold]
fn log_request(
    (method, uri, source): (&Method, &Uri, Option<&HeaderValue>),
    (about, arrived_ns): (&RequestInfo, u64),
    result: &Result<Response<Full<Bytes>>, Refusal>,
) {
    let (status, code) = match result {
        Ok(response) => (response.status(), None),
        Err(refusal) => (refusal.status, Some(refusal.code.number())),
    };
    let source = source.map(|source| {
        let bytes = source.as_bytes();
        String::from_utf8_lossy(&bytes[..bytes.len().min(LOGGED_SOURCE_BYTES_MAX)])
    });
    let trace = about.trace.filter(|trace| trace.iter().any(|byte| *byte != 0));
    tracing::info!(
        target: "access",
        source = source.as_deref(),
        %method,
        path = uri.path(),
        status = status.as_u16(),
        code,
        micros = (monotonic_ns() - arrived_ns) / 1_000,
        trace_id = trace.map(|trace| format!("{:032x}", u128::from_be_bytes(trace))),
        "request"
    );
}

/// The facts about a request that its measurement needs.
struct RequestInfo {
    read_ns: u64,
    /// Of the API; `None` for an unknown path.
    request: Option<RequestKind>,
    /// Of the sender; `None` before its headers are accepted.
    trace: Option<TraceId>,
    source: Option<FspName>,
    /// The trace, if a reader can find it: this hub exports no spans, or those of this request.
    exemplar: Option<TraceId>,
    /// Facts about its span, if spans are exported and its headers were accepted.
    facts: Option<Box<RequestFacts>>,
    /// Facts about the decision, if it became a command.
    decision: Option<Box<DecisionFacts>>,
}

impl RequestInfo {
    fn arrived(read_ns: u64) -> Self {
        let (request, trace, source, exemplar) = (None, None, None, None);
        Self { read_ns, request, trace, source, exemplar, facts: None, decision: None }
    }

    /// Names the subject of the request's spans, if it is traced and has one.
    fn name_subject(&mut self, subject: Option<SpanSubject>) {
        if let Some(facts) = self.facts.as_mut().filter(|_| subject.is_some()) {
            facts.subject = subject;
        }
    }
}

async fn respond(
    server: &Rc<Server>,
    about: &mut RequestInfo,
    (parts, body): (&mut Parts, &mut Incoming),
    guard: &RequestGuard,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let mut stages = server.thread.tracer.request(about.read_ns);
    let uri = parts.uri.clone();
    let api = match fspiop::find(&parts.method, uri.path())? {
        MatchedRoute::Health => return Ok(health(server)),
        // Endpoints are never stale here; the route exists for operators' scripts.
        MatchedRoute::EndpointCache => return Ok(empty(StatusCode::ACCEPTED)),
        MatchedRoute::Api(api) => api,
    };
    let resource = api.resource();
    about.request = Some(RequestKind { operation: api.operation(), has_sub_id: api.has_sub_id() });
    let envelope = envelope(server, parts, resource)?;
    (about.trace, about.source) = (Some(envelope.trace.trace_id), Some(envelope.source));
    let span = server.thread.begin_span(&envelope.trace);
    about.exemplar = about.trace.filter(|_| span.is_sampled || !server.thread.spans.is_on());
    about.facts = server.thread.spans.facts(&envelope, span);
    // Before the request counts as one of its sender.
    let callers = &server.security.callers;
    let (client, sender) = (client_of(&guard.client), (&parts.headers, &envelope.source));
    if let Some(refresh) = callers.check(&client, sender, Patience::MayWait)? {
        Box::pin(refresh.wait()).await;
        callers.check(&client, sender, Patience::Exhausted)?;
    }
    callers.strip(&mut parts.headers);
    if callers.identifies() {
        if server.directory.may_lag_for(&envelope.source) {
            Box::pin(server.directory.catch_up()).await?;
        }
        callers.check_registered(&envelope.source)?;
    }
    let _in_progress = begin(server, &envelope)?;
    let route = api.route(uri.query())?;
    if let Some(facts) = &mut about.facts {
        facts.subject = spans::subject_of(&route);
    }
    let max = resource.body_bytes_max();
    let body = read(server, body, (&parts.headers, &envelope.source), max).await?;
    guard.mark_complete();
    count_more(server, &envelope.source, body.len() / REQUEST_BYTES);
    stages.mark(TracePoint::Read);
    if server.directory.may_lag_for(&envelope.source) {
        Box::pin(server.directory.catch_up()).await?;
    }
    let head = (mem::take(&mut parts.method), uri.clone(), mem::take(&mut parts.headers));
    match process(server, (resource, route), head, (envelope, body, span, stages))? {
        AcceptStatus::Immediate(status) => Ok(empty(status)),
        AcceptStatus::OfQuote(status, id) => {
            about.name_subject(Some(SpanSubject::Quote(id)));
            Ok(empty(status))
        }
        AcceptStatus::AfterQuery(query, quote) => {
            about.name_subject(quote.map(SpanSubject::Quote));
            Ok(empty(query.await?))
        }
        AcceptStatus::AfterDecision(decision, status) => {
            let (mut stages, facts) = decision.wait(&server.directory).await?;
            about.decision = facts;
            let response = empty(status);
            stages.mark(TracePoint::Answered);
            Ok(response)
        }
    }
}

fn client_of(connection: &ClientConnection) -> Client<'_> {
    Client {
        caller: connection.caller.get(),
        address: connection.address,
        is_gateway: !connection.is_outside_gateways.get(),
    }
}

/// Counts the request of a participant whose requests are bounded.
fn begin(server: &Server, envelope: &Envelope) -> Result<Option<RequestInProgress>, Refusal> {
    let Some(usage) = &server.participant_usage else { return Ok(None) };
    let Some(sender) = server.directory.sender(&envelope.source) else { return Ok(None) };
    let begun = usage.begin(sender, monotonic_ns());
    if begun.is_err() {
        server.thread.counters.requests_limited.add(1);
    }
    begun.map(Some)
}

/// Counts what a message is more than one request: further rows, or parts of its body.
fn count_more(server: &Server, source: &FspName, requests: usize) {
    if let Some(usage) = &server.participant_usage
        && 0 < requests
        && let Some(sender) = server.directory.sender(source)
    {
        usage.add(sender, requests, monotonic_ns());
    }
}

/// Processes a complete message.
fn process(
    server: &Rc<Server>,
    (resource, route): (Resource, Route<'_>),
    (method, uri, headers): (Method, Uri, HeaderMap),
    (envelope, body, span, stages): (Envelope, Bytes, RequestSpan, RequestTrace),
) -> Result<AcceptStatus, Refusal> {
    let mut inbound = Inbound { envelope, method, uri, headers, body, span, stages };
    let rewritten = || {
        let requests = inbound.body.len() / REQUEST_BYTES * REWRITTEN_WEIGHT;
        count_more(server, &inbound.envelope.source, requests);
    };
    server.signatures.check(resource, &inbound, rewritten)?;
    // Before the message is stored or forwarded.
    fspiop::forwarded_headers::strip(&mut inbound.headers);
    if matches!(inbound.method, Method::GET | Method::DELETE) {
        // A callback without meaning to the hub is not forwarded.
        inbound.body = Bytes::new();
    }
    dispatch(server, &route, inbound)
}

fn dispatch(
    server: &Rc<Server>,
    route: &Route<'_>,
    inbound: Inbound,
) -> Result<AcceptStatus, Refusal> {
    let Server { submitter, egress, transfers, quotes, quote_rules, conversions, .. } = &**server;
    let rules = quote_rules.as_deref();
    let weigh = |source: &FspName, rows: usize| count_more(server, source, rows.saturating_sub(1));
    match route {
        Route::TransfersPost
        | Route::TransfersPut(_)
        | Route::TransfersError(_)
        | Route::BulkTransfersPost
        | Route::BulkTransfersPut(_)
        | Route::BulkTransfersError(_) => transfers::submit(transfers, route, inbound, weigh),
        Route::BulkTransfersGet(path) => bulk_transfers::get(transfers, path, &inbound),
        Route::TransfersGet(path) => transfers::get(transfers, path, &inbound),
        Route::PartiesGet(path) => parties::get(egress, path, inbound),
        Route::PartiesPut(path) => parties::put(egress, path, inbound),
        Route::PartiesError(path) => parties::put_error(egress, path, inbound),
        Route::Exchange(route) => match (quotes, route.resource) {
            (Some(recorder), Resource::Quotes) => {
                recorded_quotes::forward(recorder, rules, route, inbound)
            }
            (Some(recorder), Resource::TransactionRequests) => {
                recorded_requests::forward(recorder, route, inbound)
            }
            _ => exchanges::forward(egress, rules, route, inbound),
        },
        Route::ParticipantsBatch => {
            participants::post_batch((submitter, egress), route, inbound, weigh)
        }
        Route::ParticipantsPost(path)
        | Route::ParticipantsPut(path)
        | Route::ParticipantsDelete(path) => {
            participants::change((submitter, egress), (route, path), inbound)
        }
        Route::ParticipantsGet(path) => participants::get(egress, path, &inbound),
        Route::ServicesGet(pair) => services::get(egress, conversions, *pair, &inbound),
        Route::ParticipantsError(path) => participants::put_error(egress, path, inbound),
    }
}

/// The header checks, and the header values that are needed after the headers are rewritten.
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

/// Reads a body to its end, without a copy if it arrived in one piece, which is the usual case.
async fn read(
    server: &Server,
    body: &mut Incoming,
    (headers, source): (&HeaderMap, &FspName),
    max: usize,
) -> Result<Bytes, Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| max < length) {
        return Err(Refusal::too_large());
    }
    let reading = async {
        let mut incomplete: Option<IncompleteBody<'_>> = None;
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
                    let begin = || server.incomplete_bodies.begin(server.directory.sender(source));
                    incomplete.get_or_insert_with(begin).grow(length)?;
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
    // Most bodies have already arrived: only the others need a timer.
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

/// Reads and discards a body, within bounds.
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
    // If the rest does not arrive in time, the connection is closed.
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
    if refusal.status == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Some(challenge) = refusal.challenge {
        response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    }
    response
}

/// A response, after which the connection is closed.
fn with_close(mut response: Response<Full<Bytes>>) -> Response<Full<Bytes>> {
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
    let condition = server.handle.health();
    let (status, word) = match condition.is_well() {
        true => (StatusCode::OK, "OK"),
        false => (StatusCode::BAD_GATEWAY, "DOWN"),
    };
    let shown = |down| if down { "DOWN" } else { "OK" };
    let mut services = vec![
        ("datastore", shown(condition.stopped.is_some())),
        ("broker", shown(condition.is_log_down())),
    ];
    // The participant of a lane is not disclosed to others.
    services.extend(condition.stalls.iter().map(|one| (one.kind(), "DOWN")));
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
        outcome_errors::iso_text(server.started.millis()),
        env!("CARGO_PKG_VERSION"),
        shown.join(","),
    );
    json(status, Bytes::from(body))
}
