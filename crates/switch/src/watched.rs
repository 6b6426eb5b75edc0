//! A socket that notes when it was last read and written, while somebody watches stages.

use std::cell::Cell;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use node::stages::Stages;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// When a socket last moved bytes, by the clock of [`node::stages`]; 0 when nobody watched.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    pub(crate) read_ns: Cell<u64>,
    pub(crate) written_ns: Cell<u64>,
}

/// A socket and its notes. Costs one relaxed load per call while nobody watches.
pub(crate) struct Watched<S> {
    socket: S,
    stages: Arc<Stages>,
    moved: Rc<Moved>,
}

impl<S> Watched<S> {
    pub(crate) fn new(socket: S, stages: &Arc<Stages>) -> Self {
        Self { socket, stages: Arc::clone(stages), moved: Rc::default() }
    }

    pub(crate) fn moved(&self) -> Rc<Moved> {
        Rc::clone(&self.moved)
    }

    fn note(&self, when: fn(&Moved) -> &Cell<u64>) {
        if let Some(now) = self.stages.now_ns() {
            when(&self.moved).set(now);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        if before < buffer.filled().len() {
            self.note(|moved| &moved.read_ns);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.note(|moved| &moved.written_ns);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.note(|moved| &moved.written_ns);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(context)
    }
}
