//! A client's socket between the operating system and hyper, and the final response on a connection
//! that ends with an error.
//!
//! hyper answers unparsable requests with a status and no body. Such a response is replaced here by
//! a standard error body on its way to the socket. Requests that hyper does not answer (incomplete,
//! too slow, or with a line end without CR in the head, which is hidden from hyper) are answered by
//! [`ClosingSocket::close`]. An HTTP/2 connection that exceeds its [`FrameBudget`] is closed.
//!
//! Costs: a read costs the search for the line ends of heads, or over HTTP/2 for the headers of
//! frames, and one copy of the received bytes, a write a few comparisons and no copy. The first
//! bytes of a connection are read before hyper starts, to distinguish HTTP/2 from HTTP/1.1.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use fspiop::line_ends::LineEndCheck;
use fspiop::{ErrorCode, Refusal, bare};
use http::StatusCode;
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use node::latency_trace::monotonic_ns;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::connections::ClientConnection;
use crate::counters::Counters;
use crate::frame_budget::FrameBudget;

/// Maximum bytes of one read of a client's socket.
const ROOM_BYTES: usize = 64 << 10;
/// The preface of every HTTP/2 connection.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Buffer size for the first bytes of a connection: most requests fit.
const FIRST_BYTES: usize = 4_096;
/// Bytes that are read and discarded before a connection is closed, and for how long, so that the
/// client can read the last response: it could not if its connection broke while it is writing.
const CLOSING_BYTES_MAX: u64 = 16 << 20;
const CLOSING_PATIENCE: Duration = Duration::from_secs(2);

/// The bytes of a connection: a socket, or memory in tests.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + 'static> Stream for S {}

/// A socket after hyper has finished with it.
pub(crate) struct ClosingSocket<S> {
    inner: Rc<RefCell<TokioIo<S>>>,
    client: Rc<ClientConnection>,
    counters: Arc<Counters>,
}

/// The protocol of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// The check of received bytes before hyper sees them.
enum InputCheck {
    LineEnds(LineEndCheck),
    Frames(FrameBudget),
}

/// The read buffer in front of hyper, one for all sockets of a thread.
pub(crate) struct ReadBuffer(RefCell<Box<[u8]>>);

impl Default for ReadBuffer {
    fn default() -> Self {
        Self(RefCell::new(vec![0; ROOM_BYTES].into()))
    }
}

/// A client's socket.
pub(crate) struct Socket<S> {
    /// Shared with the [`ClosingSocket`], which is its last owner.
    inner: Rc<RefCell<TokioIo<S>>>,
    /// Bytes read before hyper started.
    first: Bytes,
    room: Rc<ReadBuffer>,
    check: InputCheck,
    client: Rc<ClientConnection>,
    counters: Arc<Counters>,
    /// The unwritten rest of the response that replaces one of hyper.
    replacing: Option<Bytes>,
}

impl<S: Stream> Socket<S> {
    /// Reads the first bytes of a connection, and detects the protocol. `None` if the client sends
    /// nothing.
    pub(crate) async fn open(
        mut stream: S,
        client: Rc<ClientConnection>,
        (room, counters): (Rc<ReadBuffer>, Arc<Counters>),
        head: Duration,
    ) -> Option<(Self, Protocol)> {
        let mut first = BytesMut::with_capacity(FIRST_BYTES);
        read_within(head, &client, &mut stream, &mut first).await?;
        counters.socket_reads.add(1);
        client.record_read();
        while PREFACE.starts_with(&first) && first.len() < PREFACE.len() {
            if read_within(head, &client, &mut stream, &mut first).await.is_none() {
                break;
            }
        }
        let protocol = if first.starts_with(PREFACE) { Protocol::Http2 } else { Protocol::Http1 };
        let inner = Rc::new(RefCell::new(TokioIo::new(stream)));
        let first = first.freeze();
        counters.socket_read_bytes.add(first.len() as u64);
        let check = match protocol {
            Protocol::Http1 => InputCheck::LineEnds(LineEndCheck::default()),
            Protocol::Http2 => InputCheck::Frames(FrameBudget::new(PREFACE.len(), monotonic_ns())),
        };
        Some((Self { inner, first, room, check, client, counters, replacing: None }, protocol))
    }

    /// The socket after hyper has finished.
    pub(crate) fn closing_socket(&self) -> ClosingSocket<S> {
        let (inner, client) = (Rc::clone(&self.inner), Rc::clone(&self.client));
        ClosingSocket { inner, client, counters: Arc::clone(&self.counters) }
    }
}

impl<S: Stream> ClosingSocket<S> {
    /// Sends the final response, if there is one, and closes so that the client can read it.
    pub(crate) async fn close(self) {
        let Some(inner) = Rc::into_inner(self.inner) else { return };
        if self.client.evicted.get() {
            return;
        }
        let mut stream = inner.into_inner().into_inner();
        if let Some(refusal) = final_refusal(&self.client) {
            self.counters.malformed.add(1);
            // A client that does not read it goes without.
            let last = bare::render(&refusal, &[]);
            let _written = poll_fn(|context| {
                Poll::Ready(Pin::new(&mut stream).poll_write(context, &last).is_ready())
            })
            .await;
        } else if self.client.timed_out.get() {
            return;
        }
        let _closed = unless_evicted(&self.client, close_gracefully(&mut stream)).await;
    }
}

/// Reads once; `None` if nothing arrives in time, or the connection is evicted meanwhile.
async fn read_within(
    time: Duration,
    client: &ClientConnection,
    stream: &mut impl Stream,
    buffer: &mut BytesMut,
) -> Option<()> {
    let reading = tokio::time::timeout(time, stream.read_buf(buffer));
    matches!(unless_evicted(client, reading).await, Some(Ok(Ok(1..)))).then_some(())
}

/// The result of `work`; `None` if the connection is evicted before.
pub(crate) async fn unless_evicted<T>(
    client: &ClientConnection,
    work: impl Future<Output = T>,
) -> Option<T> {
    let mut work = pin!(work);
    let polled = poll_fn(|context| {
        if client.evicted.get() {
            return Poll::Ready(None);
        }
        client.set_waker(context);
        work.as_mut().poll(context).map(Some)
    });
    polled.await
}

/// Refuses a client of which nothing was read.
pub(crate) async fn refuse_connection(mut stream: TcpStream, refusal: &Refusal) {
    if stream.writable().await.is_ok() && stream.try_write(&bare::render(refusal, &[])).is_ok() {
        close_gracefully(&mut stream).await;
    }
}

/// The response to an incomplete request after hyper saw the end of the stream; `None` if there was
/// no request, or it was already answered.
fn final_refusal(client: &ClientConnection) -> Option<Refusal> {
    if client.has_bare_line_feed.get() {
        let detail = "a line of the head does not end with CR LF";
        return Some(Refusal::new(ErrorCode::MALFORMED_SYNTAX, detail));
    }
    if !client.has_partial_request() {
        return None;
    }
    if client.timed_out.get() {
        let refusal = Refusal::new(ErrorCode::GENERIC_CLIENT, "the request did not arrive in time");
        return Some(Refusal { status: StatusCode::REQUEST_TIMEOUT, ..refusal });
    }
    let detail = "the connection ended within a request";
    client.aborted.get().then(|| Refusal::new(ErrorCode::MALFORMED_SYNTAX, detail))
}

impl<S: Stream> Read for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.client.has_bare_line_feed.get() {
            // End of input: earlier requests are still served.
            return Poll::Ready(Ok(()));
        }
        if this.check.is_exceeded() && !this.client.evicted.get() {
            this.counters.malformed.add(1);
            this.client.evict();
        }
        if !this.first.is_empty() && !this.client.evicted.get() {
            let length = this.first.len().min(buffer.remaining());
            let first = this.first.split_to(length);
            let accepted = this.check.accepted_length(&first, &this.client);
            buffer.put_slice(&first[..accepted]);
            return Poll::Ready(Ok(()));
        }
        if this.client.timed_out.get() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let mut room = this.room.0.borrow_mut();
        let length = buffer.remaining().min(room.len());
        let mut room = ReadBuf::new(&mut room[..length]);
        let read = Pin::new(&mut *this.inner.borrow_mut()).poll_read(context, room.unfilled());
        match read {
            Poll::Ready(_) => {
                this.counters.socket_reads.add(1);
                this.counters.socket_read_bytes.add(room.filled().len() as u64);
                this.client.record_read();
                let accepted = this.check.accepted_length(room.filled(), &this.client);
                buffer.put_slice(&room.filled()[..accepted]);
            }
            Poll::Pending => this.client.set_waker(context),
        }
        read
    }
}

impl InputCheck {
    /// The number of received bytes that hyper may see: all, unless a head has a bare line feed or
    /// the client has sent too many frames.
    fn accepted_length(&mut self, bytes: &[u8], client: &ClientConnection) -> usize {
        match self {
            Self::LineEnds(check) => {
                let Err(fault) = check.check(bytes) else { return bytes.len() };
                client.has_bare_line_feed.set(true);
                fault.before
            }
            Self::Frames(budget) => {
                budget.grow(client.requests.get(), monotonic_ns());
                budget.read(bytes).map_or_else(|exceeded| exceeded.before, |()| bytes.len())
            }
        }
    }

    fn is_exceeded(&self) -> bool {
        matches!(self, Self::Frames(budget) if budget.is_exceeded)
    }
}

impl<S: Stream> Write for Socket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.client.timed_out.get() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        match bare::find(bytes) {
            None => this.poll_pass(context, bytes),
            Some((0, refusal)) => {
                ready!(this.poll_replace(context, &refusal))?;
                Poll::Ready(Ok(bytes.len()))
            }
            Some((before, _)) => this.poll_pass(context, &bytes[..before]),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.inner.borrow_mut()).poll_flush(context)
    }

    /// Left to the [`ClosingSocket`].
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> Socket<S> {
    fn poll_pass(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut *self.inner.borrow_mut()).poll_write(context, bytes);
        if polled.is_pending() {
            self.client.set_waker(context);
        }
        self.counters.socket_written(&polled);
        polled
    }

    fn poll_replace(
        &mut self,
        context: &mut Context<'_>,
        refusal: &Refusal,
    ) -> Poll<io::Result<()>> {
        let counters = &self.counters;
        let left = self.replacing.get_or_insert_with(|| {
            counters.malformed.add(1);
            bare::render(refusal, &[]).into()
        });
        while !left.is_empty() {
            let written =
                ready!(Pin::new(&mut *self.inner.borrow_mut()).poll_write(context, left))?;
            left.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

/// Closes the writing half, then reads and discards the other, within bounds.
async fn close_gracefully(stream: &mut impl Stream) {
    let closing = async {
        stream.shutdown().await?;
        let mut rest = stream.take(CLOSING_BYTES_MAX);
        tokio::io::copy(&mut rest, &mut tokio::io::sink()).await
    };
    // A client that is still connected by then is dropped.
    let _in_time = tokio::time::timeout(CLOSING_PATIENCE, closing).await;
}
