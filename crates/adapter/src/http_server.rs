//! HTTP/1.1 listeners with bounds.

use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::Value;
use tls::ServerTls;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Longest time for a head, and for a TLS handshake.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// Pause after `accept` failed, usually because no file descriptors are left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Longest body in bytes.
const BODY_BYTES_MAX: usize = 5 * 1024 * 1024;

/// A response with its whole body.
pub(crate) type Answered = Response<Full<Bytes>>;

/// The requests of one listener.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers one request.
    fn handle(&self, head: Parts, body: Bytes) -> impl Future<Output = Answered> + Send;
    /// The answer to a body that is too long or breaks off.
    fn unreadable(&self, is_too_long: bool) -> Answered;
}

/// Serves until `stopped` changes. Connections beyond the bound are closed at once.
pub(crate) async fn serve<H: Handler>(
    listener: TcpListener,
    tls: Option<Arc<ServerTls>>,
    connections: usize,
    handler: Arc<H>,
    mut stopped: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(connections));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.changed() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
        let (tls, handler, stopped) = (tls.clone(), Arc::clone(&handler), stopped.clone());
        tokio::spawn(async move {
            // A socket that takes no option is already closed.
            if stream.set_nodelay(true).is_err() {
                return;
            }
            match tls {
                None => converse(stream, handler, place, stopped).await,
                Some(tls) => {
                    if let Ok(accepted) = tls.accept(stream, HEAD_TIME).await {
                        converse(accepted.stream, handler, place, stopped).await;
                    }
                }
            }
        });
    }
}

async fn converse<H: Handler>(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    handler: Arc<H>,
    _place: OwnedSemaphorePermit,
    mut stopped: watch::Receiver<bool>,
) {
    let service = service_fn(move |request| {
        let handler = Arc::clone(&handler);
        async move {
            let response = respond(&*handler, request).await;
            match response.extensions().get::<Close>() {
                Some(Close) => Err(io::Error::other("closed by a rule")),
                None => Ok(response),
            }
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_headers(fspiop::request_head::HEADER_LINES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // An error of a connection concerns only its peer.
    tokio::select! {
        _ended = connection.as_mut() => return,
        _ = stopped.changed() => connection.as_mut().graceful_shutdown(),
    }
    let _ended = connection.await;
}

async fn respond<H: Handler>(handler: &H, request: Request<Incoming>) -> Answered {
    let (head, body) = request.into_parts();
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(body) => handler.handle(head, body.to_bytes()).await,
        Err(error) => handler.unreadable(error.is::<LengthLimitError>()),
    }
}

/// Marks a response in whose place the connection is closed.
#[derive(Clone, Copy)]
struct Close;

/// No response: the connection is closed.
pub(crate) fn close() -> Answered {
    let mut response = Response::new(Full::default());
    response.extensions_mut().insert(Close);
    response
}

/// A response with a JSON body; without one for null.
pub(crate) fn json(status: u16, body: &Value) -> Answered {
    let bytes = match body {
        Value::Null => Bytes::new(),
        body => crate::forms::bytes(body),
    };
    with_body(status, "application/json", bytes)
}

/// A response with a body of a type.
pub(crate) fn with_body(status: u16, kind: &'static str, body: Bytes) -> Answered {
    let is_empty = body.is_empty();
    let mut response = Response::new(Full::new(body));
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if !is_empty {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    }
    response
}
