//! A client's socket as hyper sees it: hyper's own answers to what is not HTTP are replaced by
//! refusals ([`fspiop::bare`]).

use std::io::Result;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use fspiop::{Refusal, bare};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::answer::BARE_HEADERS;

/// A client's socket.
pub(crate) struct Wire {
    inner: TokioIo<TcpStream>,
    /// The refusal that replaces an answer of hyper's, as far as it is not yet written.
    replacing: Option<Bytes>,
}

impl Wire {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { inner: TokioIo::new(stream), replacing: None }
    }

    fn poll_replace(&mut self, context: &mut Context<'_>, refusal: &Refusal) -> Poll<Result<()>> {
        let left =
            self.replacing.get_or_insert_with(|| bare::render(refusal, &BARE_HEADERS).into());
        while !left.is_empty() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(context, left))?;
            left.advance(written);
        }
        Poll::Ready(Ok(()))
    }
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        match bare::find(bytes) {
            None => Pin::new(&mut self.inner).poll_write(context, bytes),
            Some((0, refusal)) => {
                ready!(self.poll_replace(context, &refusal))?;
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
