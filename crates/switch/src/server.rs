//! HTTP in: connections, requests, bodies, and the synchronous answer.

use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use fspiop::{ErrorCode, Found, Refusal, Resource, Route};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderName};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;

use crate::edge::Edge;
use crate::{participants, parties, quotes, transfers};

/// A client that starts a request must finish its headers, and one that keeps a connection must
/// begin the next request, within this time.
const HEADERS_PATIENCE: Duration = Duration::from_secs(75);
/// A client must bring the whole body within this time.
const BODY_PATIENCE: Duration = Duration::from_secs(15);
/// Headers in one request.
const HEADERS_MAX: usize = 128;
/// What is read away of a refused request's body, and for how long, so that the client can read
/// the refusal: it would not if its connection broke while it is still writing.
const DISCARD_BYTES_MAX: usize = 16 << 20;
const DISCARD_PATIENCE: Duration = Duration::from_secs(2);

/// What of a request's headers outlives their rewriting.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// `FSPIOP-Source`.
    pub source: ledger::FspName,
    /// `FSPIOP-Destination`.
    pub destination: Option<ledger::FspName>,
    /// Version of the `Content-Type`.
    pub version: fspiop::Version,
    /// The trace the message belongs to: its own, or one opened for it.
    pub trace: fspiop::TraceContext,
    /// Whether a proxy stands in for the source.
    pub through_proxy: bool,
}

/// An accepted message: everything but the route, which borrows from the path.
pub(crate) struct Inbound {
    pub(crate) envelope: Envelope,
    pub(crate) method: Method,
    /// Path and query as received.
    pub(crate) uri: http::Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Accepts connections until the thread ends.
pub(crate) async fn accept(edge: Rc<Edge>, listener: TcpListener) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => admit(&edge, stream),
            // Out of file descriptors, or a client that left: neither ends the service.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

fn admit(edge: &Rc<Edge>, stream: TcpStream) {
    if edge.options.connections_max <= edge.connections.get() || stream.set_nodelay(true).is_err() {
        edge.counters.connections_refused.add(1);
        return;
    }
    edge.connections.set(edge.connections.get() + 1);
    let edge = Rc::clone(edge);
    spawn_local(async move {
        let serving = Rc::clone(&edge);
        let service = service_fn(move |request| serve(Rc::clone(&serving), request));
        // How a connection ends concerns only its client.
        let _ended = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_PATIENCE)
            .max_headers(HEADERS_MAX)
            .max_buf_size(fspiop::headers::HEADER_BYTES_MAX)
            .pipeline_flush(true)
            .serve_connection(TokioIo::new(stream), service)
            .await;
        edge.connections.set(edge.connections.get() - 1);
    });
}

async fn serve(
    edge: Rc<Edge>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let answer = handle(&edge, request).await;
    Ok(match answer {
        Ok(response) => {
            edge.counters.requests.add(1);
            response
        }
        Err(refusal) => {
            edge.counters.refused.add(1);
            refuse(&refusal)
        }
    })
}

async fn handle(
    edge: &Rc<Edge>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let (parts, mut body) = request.into_parts();
    let answer = answer(edge, parts, &mut body).await;
    let was_slow = |refusal: &Refusal| refusal.status == StatusCode::REQUEST_TIMEOUT;
    if answer.as_ref().is_err_and(|refusal| !was_slow(refusal)) && !body.is_end_stream() {
        discard(&mut body).await;
    }
    answer
}

async fn answer(
    edge: &Rc<Edge>,
    parts: Parts,
    body: &mut Incoming,
) -> Result<Response<Full<Bytes>>, Refusal> {
    let path = parts.uri.path().to_owned();
    let api = match fspiop::find(&parts.method, &path)? {
        Found::Health => return Ok(health(edge)),
        // Endpoints are never out of date here; operators' scripts may still ask.
        Found::EndpointCache => return Ok(empty(StatusCode::ACCEPTED)),
        Found::Api(api) => api,
    };
    let resource = api.resource();
    let envelope = envelope(edge, &parts, resource)?;
    let route = api.route()?;
    let body = read(body, &parts.headers, resource.body_bytes_max()).await?;
    let inbound =
        Inbound { envelope, method: parts.method, uri: parts.uri, headers: parts.headers, body };
    let status = dispatch(edge, route, inbound).await?;
    Ok(empty(status))
}

async fn dispatch(
    edge: &Rc<Edge>,
    route: Route<'_>,
    inbound: Inbound,
) -> Result<StatusCode, Refusal> {
    match route {
        Route::TransfersPost => transfers::post(edge, inbound).await,
        Route::TransfersPut(path) => transfers::put(edge, path, inbound).await,
        Route::TransfersError(path) => transfers::put_error(edge, path, inbound).await,
        Route::TransfersGet(path) => transfers::get(edge, path, &inbound),
        Route::PartiesGet(path) => parties::get(edge, path, inbound),
        Route::PartiesPut(path) => parties::put(edge, path, inbound),
        Route::PartiesError(path) => parties::put_error(edge, path, inbound),
        Route::QuotesPost => quotes::post(edge, inbound),
        Route::QuotesPut(id) => quotes::put(edge, id, inbound),
        Route::QuotesError(id) => quotes::put_error(edge, id, inbound),
        Route::QuotesGet(id) => quotes::get(edge, id, inbound),
        Route::ParticipantsBatch => participants::post_batch(edge, inbound).await,
        Route::ParticipantsPost(path) | Route::ParticipantsPut(path) => {
            participants::register(edge, path, inbound).await
        }
        Route::ParticipantsDelete(path) => participants::delete(edge, path, inbound).await,
        Route::ParticipantsGet(path) => participants::get(edge, path, &inbound),
        Route::ParticipantsError(path) => participants::put_error(edge, path, inbound),
    }
}

/// The header checks, and what of the headers outlives their rewriting.
fn envelope(edge: &Edge, parts: &Parts, resource: Resource) -> Result<Envelope, Refusal> {
    let length = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
    if fspiop::headers::HEADER_BYTES_MAX < parts.headers.iter().map(length).sum() {
        return Err(Refusal::too_large());
    }
    let headers = fspiop::headers::check(&parts.headers, &parts.method, resource.as_str())?;
    Ok(Envelope {
        source: headers.source,
        destination: headers.destination,
        version: headers.version,
        trace: headers.trace.unwrap_or_else(|| new_trace(edge)),
        through_proxy: headers.proxy.is_some(),
    })
}

/// Reads a body to its end: without a copy when it came in one piece, as nearly all do.
async fn read(body: &mut Incoming, headers: &HeaderMap, max: usize) -> Result<Bytes, Refusal> {
    let announced = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
    if announced.is_some_and(|length: usize| max < length) {
        return Err(Refusal::too_large());
    }
    let reading = async {
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
                Some(_) => rest.extend_from_slice(&data),
            }
            if body.is_end_stream() {
                break;
            }
        }
        Ok(join(first.unwrap_or_default(), rest))
    };
    match tokio::time::timeout(BODY_PATIENCE, reading).await {
        Ok(body) => body,
        Err(_) => Err(Refusal {
            status: StatusCode::REQUEST_TIMEOUT,
            ..Refusal::new(ErrorCode::GENERIC_CLIENT, "the body did not arrive in time")
        }),
    }
}

/// Reads a body away, within bounds.
async fn discard(body: &mut Incoming) {
    let reading = async {
        let mut length = 0;
        while let Some(Ok(frame)) = body.frame().await {
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

fn new_trace(edge: &Edge) -> fspiop::TraceContext {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&edge.unique().to_be_bytes());
    id[8..].copy_from_slice(&(edge.unique() | 1).to_be_bytes());
    fspiop::TraceContext::new(id)
}

fn empty(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

fn refuse(refusal: &Refusal) -> Response<Full<Bytes>> {
    json(refusal.status, refusal.body())
}

fn json(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    let value = HeaderValue::from_static("application/json; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, value);
    response
}

/// `GET /health` on the FSPIOP port (hub-semantics 8.4).
fn health(edge: &Edge) -> Response<Full<Bytes>> {
    let stopped = edge.handle.status().stopped.is_some();
    let (status, word) = match stopped {
        true => (StatusCode::BAD_GATEWAY, "DOWN"),
        false => (StatusCode::OK, "OK"),
    };
    let body = format!(
        "{{\"status\":\"{word}\",\"services\":[{{\"name\":\"datastore\",\"status\":\"{word}\"}},\
         {{\"name\":\"broker\",\"status\":\"{word}\"}}]}}"
    );
    json(status, Bytes::from(body))
}
