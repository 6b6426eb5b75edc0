//! A connection of a simulator: plain, or over TLS.
//!
//! The kind is a match per call of the system: a plain connection costs no more than its socket.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tls::{ClientTlsStream, TlsStream};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A connection.
pub(crate) enum Wire {
    Plain(TcpStream),
    /// Over TLS, opened by this side.
    Called(Box<ClientTlsStream<TcpStream>>),
    /// Over TLS, opened by the other side.
    Accepted(Box<TlsStream<TcpStream>>),
}

/// A connection that is written in one place and read in another.
#[derive(Clone)]
pub(crate) struct SharedWire(Rc<RefCell<Wire>>);

impl SharedWire {
    pub(crate) fn new(wire: Wire) -> Self {
        Self(Rc::new(RefCell::new(wire)))
    }

    /// Writes as much as the socket takes at once. Returns the written bytes, and whether they have
    /// left the TLS session. A write error also ends the reading side.
    pub(crate) fn write_now(&self, bytes: &[u8]) -> (usize, bool) {
        match &mut *self.0.borrow_mut() {
            Wire::Plain(stream) => (stream.try_write(bytes).unwrap_or(0), true),
            wire => {
                let mut context = Context::from_waker(Waker::noop());
                let mut wire = Pin::new(wire);
                let mut written = 0;
                while written < bytes.len() {
                    match wire.as_mut().poll_write(&mut context, &bytes[written..]) {
                        Poll::Ready(Ok(more)) if 0 < more => written += more,
                        _ => break,
                    }
                }
                (written, wire.poll_flush(&mut context).is_ready())
            }
        }
    }
}

impl AsyncRead for SharedWire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_read(context, buffer)
    }
}

impl AsyncWrite for SharedWire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0.borrow_mut()).poll_shutdown(context)
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Called(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Accepted(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Called(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Accepted(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Called(stream) => Pin::new(stream).poll_flush(context),
            Self::Accepted(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Called(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Accepted(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
