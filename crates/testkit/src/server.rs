//! A server in the role of a participant: a function chooses the response to each request. An
//! [`Inbox`] keeps requests until a test takes them.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::http::{Connection, Request, Response};

/// How a request is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// 202 to a POST, GET or DELETE, 200 to other methods.
    Accept,
    /// This status without a body.
    Status(u16),
    /// This response.
    Response(Response),
    /// As `Accept`, but the connection is closed without a `Connection: close` header.
    HangUp,
    /// No response; the connection is closed.
    Close,
    /// No response; the connection stays open until the server stops.
    Silence,
}

impl Reply {
    fn answer(self, request: &Request) -> Option<Response> {
        match self {
            Self::Accept | Self::HangUp => {
                let is_put = ["PUT", "PATCH"].contains(&request.method.as_str());
                Some(Response::of(if is_put { 200 } else { 202 }))
            }
            Self::Status(status) => Some(Response::of(status)),
            Self::Response(answer) => Some(answer),
            Self::Close | Self::Silence => None,
        }
    }
}

type Handler = dyn Fn(&Request) -> Reply + Send + Sync;

/// A running server. Dropping it stops it and releases its port.
pub struct Server {
    address: SocketAddr,
    open: Arc<Open>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Open {
    stopped: AtomicBool,
    streams: Mutex<HashMap<usize, TcpStream>>,
}

impl Server {
    /// Listens on a free port of a local address.
    ///
    /// # Errors
    /// If the address cannot be used.
    pub fn start(
        address: Ipv4Addr,
        handler: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0))?;
        let address = listener.local_addr()?;
        let open = Arc::new(Open::default());
        let handler: Arc<Handler> = Arc::new(handler);
        let shared = Arc::clone(&open);
        let accepting = std::thread::spawn(move || accept(&listener, &shared, &handler));
        Ok(Self { address, open, accepting: Some(accepting) })
    }

    /// The address on which it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.open.stopped.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which may have ended by itself.
        let _woken = TcpStream::connect(self.address);
        let _ended = self.accepting.take().map(JoinHandle::join);
        for stream in lock(&self.open.streams).values() {
            // The peer may have closed it before.
            let _closed = stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, open: &Arc<Open>, handler: &Arc<Handler>) {
    for (number, stream) in listener.incoming().enumerate() {
        if open.stopped.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        let Ok(kept) = stream.try_clone() else { continue };
        lock(&open.streams).insert(number, kept);
        let (open, handler) = (Arc::clone(open), Arc::clone(handler));
        std::thread::spawn(move || {
            // The hub may close the connection or be killed at any time.
            let _ended = serve(stream, &*handler);
            lock(&open.streams).remove(&number);
        });
    }
}

fn serve(stream: TcpStream, handler: &Handler) -> io::Result<()> {
    let mut connection = Connection::over(stream)?;
    while let Some(request) = connection.read_request()? {
        let reply = handler(&request);
        let is_last = matches!(reply, Reply::HangUp | Reply::Close);
        if let Some(answer) = reply.answer(&request) {
            connection.write(&answer.render())?;
        }
        if is_last {
            return connection.stream.shutdown(Shutdown::Both);
        }
    }
    Ok(())
}

/// Received items, kept until they are taken.
pub struct Inbox<T>(Mutex<T>, Condvar);

impl<T: Default> Default for Inbox<T> {
    fn default() -> Self {
        Self(Mutex::default(), Condvar::new())
    }
}

impl<T> Inbox<T> {
    /// The current content.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        lock(&self.0)
    }

    /// Changes the content, and wakes all waiting threads.
    pub fn put<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.1.notify_all();
        result
    }

    /// Waits until `take` finds something; `None` on timeout.
    pub fn wait<R>(
        &self,
        patience: Duration,
        mut take: impl FnMut(&mut T) -> Option<R>,
    ) -> Option<R> {
        let deadline = Instant::now() + patience;
        let mut kept = self.lock();
        loop {
            if let Some(found) = take(&mut kept) {
                return Some(found);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            kept = self.1.wait_timeout(kept, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
