//! HTTP/2 connections to participants, for those that choose it by ALPN
//! (docs/decisions/0075-http2-by-alpn.md).
//!
//! A connection carries one request at a time, as over HTTP/1.1, so that limits, shares and
//! timeouts count connections. The exchange that uses it also drives it: the library `h2` needs no
//! task of its own. An idle connection is driven by the sweeps of the pool and by its next request,
//! which answer `PING` and `SETTINGS`, and notice `GOAWAY`.
//!
//! **Bounds.** The frames of a participant have a [`FrameBudget`], headers of a response are
//! limited to [`HEADER_BYTES_MAX`], bodies by flow control and by the pool.

use std::cell::RefCell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use fspiop::headers::HEADER_BYTES_MAX;
use h2::client::{Builder, Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HOST};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, Uri, Version};
use http_body_util::Full;
use hyper::body::{Body, Frame};
use node::latency_trace::monotonic_ns;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frame_budget::FrameBudget;

/// Locally detected errors of streams after which the connection is closed.
const ERRORS_MAX: usize = 8;
/// Streams that were reset and whose late frames are ignored.
const RESETS_MAX: usize = 8;

/// A rule of HTTP/2 that a participant does not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Http2Fault {
    /// Frames that cannot be read, or that are not allowed where they are.
    InvalidFrame,
    /// A response whose headers or length are invalid, or whose headers are too large.
    InvalidResponse,
    /// More frames than the [`FrameBudget`] allows, or headers that are far too large.
    TooMuch,
    /// The participant allows no requests on the connection.
    NoRequests,
}

impl Http2Fault {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::InvalidFrame => "HTTP/2: an invalid frame",
            Self::InvalidResponse => "HTTP/2: an invalid response, or headers over 64 KiB",
            Self::TooMuch => "HTTP/2: too many frames or too large headers",
            Self::NoRequests => "HTTP/2: the other side allows no requests",
        }
    }
}

/// An HTTP/2 connection over a socket.
pub(crate) struct Http2Connection<S> {
    sender: RefCell<SendRequest<Bytes>>,
    /// `None` once it has ended.
    wire: RefCell<Option<Connection<BudgetedSocket<S>, Bytes>>>,
    /// `host:port`, of each request.
    authority: HeaderValue,
    state: Arc<ConnectionState>,
}

/// The part that a connection shares with its socket and its responses.
#[derive(Debug, Default)]
struct ConnectionState {
    /// Requests so far.
    requests: AtomicU64,
    /// The first rule that the participant broke.
    fault: OnceLock<Http2Fault>,
}

impl ConnectionState {
    /// Keeps the rule that the participant broke, if the error is neither of the network nor
    /// reported by the participant.
    fn note(&self, error: &h2::Error) {
        let fault = match error.is_library() {
            true if error.is_reset() => Http2Fault::InvalidResponse,
            true if error.reason() == Some(Reason::ENHANCE_YOUR_CALM) => Http2Fault::TooMuch,
            true => Http2Fault::InvalidFrame,
            false => return,
        };
        self.broken(fault);
    }

    fn broken(&self, fault: Http2Fault) {
        let _first = self.fault.get_or_init(|| fault);
    }
}

/// A request that has been sent. Its future gives the response; `None` if the connection or the
/// request failed.
pub(crate) struct SentRequest {
    response: ResponseFuture,
    state: Arc<ConnectionState>,
}

/// The body of a request, to be dropped when the response has ended: the part that the participant
/// has not let through until then is discarded.
pub(crate) struct SentBody(SendStream<Bytes>);

impl Drop for SentBody {
    fn drop(&mut self) {
        self.0.send_reset(Reason::CANCEL);
    }
}

/// The body of a response.
pub(crate) struct ResponseBody {
    stream: RecvStream,
    state: Arc<ConnectionState>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Http2Connection<S> {
    /// Sends the preface.
    pub(crate) async fn open(socket: S, authority: HeaderValue) -> Result<Self, h2::Error> {
        let state = Arc::<ConnectionState>::default();
        let budget = FrameBudget::new(0, monotonic_ns());
        let socket = BudgetedSocket { socket, budget, state: Arc::clone(&state) };
        let opened = Builder::new()
            .enable_push(false)
            .max_header_list_size(HEADER_BYTES_MAX as u32)
            .max_concurrent_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(Some(ERRORS_MAX))
            .handshake(socket)
            .await;
        let (sender, wire) = opened?;
        let (sender, wire) = (RefCell::new(sender), RefCell::new(Some(wire)));
        Ok(Self { sender, wire, authority, state })
    }

    /// Reads and writes until nothing is left to do.
    pub(crate) fn turn(&self, context: &mut Context<'_>) {
        let mut wire = self.wire.borrow_mut();
        let Some(Poll::Ready(end)) = wire.as_mut().map(|wire| Pin::new(wire).poll(context)) else {
            return;
        };
        if let Err(error) = end {
            self.state.note(&error);
        }
        *wire = None;
    }

    /// Whether another request may be sent, as far as is known.
    pub(crate) fn is_open(&self) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        self.wire.borrow().is_some()
            && !matches!(self.poll_ready(&mut context), Poll::Ready(Err(_)))
            && self.allows_requests()
    }

    pub(crate) fn close(&self) {
        self.wire.take();
    }

    pub(crate) fn fault(&self) -> Option<Http2Fault> {
        self.state.fault.get().copied()
    }

    fn allows_requests(&self) -> bool {
        let allows = self.sender.borrow().current_max_send_streams() != 0;
        if !allows {
            self.state.broken(Http2Fault::NoRequests);
        }
        allows
    }

    pub(crate) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), h2::Error>> {
        self.sender.borrow_mut().poll_ready(context)
    }

    /// Begins to send a request, which [`Http2Connection::turn`] writes. `None` if the connection
    /// has ended.
    pub(crate) fn send(&self, request: Request<Full<Bytes>>) -> Option<(SentRequest, SentBody)> {
        let (request, body) = converted(request, &self.authority)?;
        self.state.requests.fetch_add(1, Ordering::Relaxed);
        let is_empty = body.is_empty();
        let sent = self.sender.borrow_mut().send_request(request, is_empty);
        let (response, mut stream) = sent.inspect_err(|error| self.state.note(error)).ok()?;
        if !is_empty {
            stream.send_data(body, true).inspect_err(|error| self.state.note(error)).ok()?;
        }
        let state = Arc::clone(&self.state);
        Some((SentRequest { response, state }, SentBody(stream)))
    }
}

impl Future for SentRequest {
    type Output = Option<Response<ResponseBody>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let response = ready!(Pin::new(&mut self.response).poll(context));
        let response = response.inspect_err(|error| self.state.note(error)).ok();
        let body = |stream| ResponseBody { stream, state: Arc::clone(&self.state) };
        Poll::Ready(response.map(|response| response.map(body)))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let data = ready!(self.stream.poll_data(context));
        let data = data.map(|data| {
            let data = data?;
            self.stream.flow_control().release_capacity(data.len())?;
            Ok(Frame::data(data))
        });
        Poll::Ready(data.map(|data| data.inspect_err(|error| self.state.note(error))))
    }
}

/// A request without its body, as HTTP/2 has it: with the scheme and the authority in its URI, and
/// without the header `Host`.
fn converted(
    request: Request<Full<Bytes>>,
    authority: &HeaderValue,
) -> Option<(Request<()>, Bytes)> {
    let (mut head, body) = request.into_parts();
    let body = body.into_inner().unwrap_or_default();
    let mut uri = head.uri.into_parts();
    uri.scheme = Some(Scheme::HTTPS);
    uri.authority = Some(Authority::try_from(authority.as_bytes()).ok()?);
    uri.path_and_query.get_or_insert(PathAndQuery::from_static("/"));
    head.uri = Uri::from_parts(uri).ok()?;
    head.version = Version::HTTP_2;
    head.headers.remove(HOST);
    let is_sent_empty = [Method::POST, Method::PUT, Method::PATCH].contains(&head.method);
    if !body.is_empty() || is_sent_empty {
        head.headers.insert(CONTENT_LENGTH, body.len().into());
    }
    Some((Request::from_parts(head, ()), body))
}

/// A socket that fails when the participant sends too many frames.
struct BudgetedSocket<S> {
    socket: S,
    budget: FrameBudget,
    state: Arc<ConnectionState>,
}

impl<S: AsyncRead + Unpin> AsyncRead for BudgetedSocket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { socket, budget, state } = self.get_mut();
        let before = buffer.filled().len();
        ready!(Pin::new(socket).poll_read(context, buffer))?;
        budget.grow(state.requests.load(Ordering::Relaxed), monotonic_ns());
        if budget.read(&buffer.filled()[before..]).is_err() {
            state.broken(Http2Fault::TooMuch);
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for BudgetedSocket<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
