//! A client's socket as hyper sees it.
//!
//! hyper's own responses to invalid HTTP are replaced by error bodies ([`fspiop::bare`]). hyper
//! accepts a line feed without a carriage return as a line end. A head with such a line is replaced
//! by one that hyper refuses: hyper answers the earlier requests first and then closes the
//! connection.
//!
//! Costs: one copy of the received bytes.

use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use fspiop::line_ends::LineEndCheck;
use fspiop::{Refusal, bare};
use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::response::BARE_HEADERS;

/// Maximum bytes of one read.
const READ_BYTES: usize = 8 * 1024;
/// Completes any partial head in a way that hyper refuses. hyper does not parse a head before its
/// empty line.
const REFUSED_END: &[u8] = b"\0\r\n\r\n";

/// A client's socket.
pub(crate) struct Wire<S> {
    inner: TokioIo<S>,
    line_ends: LineEndCheck,
    /// The part of [`REFUSED_END`] that hyper has not read, once there was a bare line feed.
    refused: Option<&'static [u8]>,
    /// The unwritten rest of the error that replaces a response of hyper.
    replacing: Option<Bytes>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        let (inner, line_ends) = (TokioIo::new(stream), LineEndCheck::default());
        Self { inner, line_ends, refused: None, replacing: None }
    }

    /// Forwards received bytes, up to a head with a bare line feed.
    fn pass(&mut self, bytes: &[u8], buffer: &mut ReadBufCursor<'_>) {
        match self.line_ends.check(bytes) {
            Ok(()) => buffer.put_slice(bytes),
            Err(fault) => {
                buffer.put_slice(&bytes[..fault.before]);
                self.refused = Some(pass_part(REFUSED_END, buffer));
            }
        }
    }

    fn poll_replace(&mut self, context: &mut Context<'_>, refusal: Refusal) -> Poll<Result<()>> {
        let refusal = match self.refused {
            Some(_) => Refusal::malformed("a line of the head does not end with CR LF"),
            None => refusal,
        };
        let left =
            self.replacing.get_or_insert_with(|| bare::render(&refusal, &BARE_HEADERS).into());
        while !left.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, left))?;
            left.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

/// Copies as much as fits, and returns the rest.
fn pass_part<'a>(bytes: &'a [u8], buffer: &mut ReadBufCursor<'_>) -> &'a [u8] {
    let (part, rest) = bytes.split_at(bytes.len().min(buffer.remaining()));
    buffer.put_slice(part);
    rest
}

impl<S: AsyncRead + AsyncWrite + Unpin> Read for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        if let Some(rest) = self.refused {
            self.refused = Some(pass_part(rest, &mut buffer));
            return Poll::Ready(Ok(()));
        }
        let mut room = [0; READ_BYTES];
        let length = buffer.remaining().min(READ_BYTES);
        let mut room = ReadBuf::new(&mut room[..length]);
        ready!(Pin::new(&mut self.inner).poll_read(context, room.unfilled()))?;
        self.pass(room.filled(), &mut buffer);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Write for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        match bare::find(bytes) {
            None => Pin::new(&mut self.inner).poll_write(context, bytes),
            Some((0, refusal)) => {
                ready!(self.poll_replace(context, refusal))?;
                Poll::Ready(Ok(bytes.len()))
            }
            Some((before, _)) => Pin::new(&mut self.inner).poll_write(context, &bytes[..before]),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}
