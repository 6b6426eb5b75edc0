//! A socket to a participant: counts its system calls and bytes and, with tracing on, records the
//! time of the last write.

use std::cell::Cell;
use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::thread::Thread;

/// Time of a socket's last write, by the clock of [`node::stages`]; 0 without tracing.
pub(crate) type WrittenAt = Rc<Cell<u64>>;

/// A socket with its counters. Costs one relaxed load per call without tracing.
pub(crate) struct CountedStream<S> {
    socket: S,
    thread: Rc<Thread>,
    written_ns: WrittenAt,
}

impl<S> CountedStream<S> {
    pub(crate) fn new(socket: S, thread: &Rc<Thread>) -> Self {
        Self { socket, thread: Rc::clone(thread), written_ns: Rc::default() }
    }

    pub(crate) fn written_at(&self) -> WrittenAt {
        Rc::clone(&self.written_ns)
    }

    fn note(&self, written: &Poll<Result<usize>>) {
        self.thread.counters.socket_written(written);
        self.written_ns.set(self.thread.tracer.now_ns());
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for CountedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        let counters = &self.thread.counters;
        counters.socket_reads.add(u64::from(polled.is_ready()));
        counters.socket_read_bytes.add((buffer.filled().len() - before) as u64);
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for CountedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.note(&polled);
        polled
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write_vectored(context, slices);
        self.note(&polled);
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
