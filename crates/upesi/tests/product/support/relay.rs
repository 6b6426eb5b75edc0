//! A relay between a hub and its participants, which loses callbacks and answers success, like a
//! faulty network element.
//!
//! In front of a hub, it changes requests of participants.
//!
//! In front of the admin API, it replaces registered endpoints by its own address. In front of the
//! participants, `http://host:PORT/path` becomes `http://relay/PORT/path`.

use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use testkit::http::{Connection, Request, Response};
use testkit::server::{Reply, Server};

use super::fsp::serve;

/// One listener. It stops when this is dropped.
pub(crate) struct Relay {
    server: Server,
    lost: Arc<AtomicU64>,
}

/// The destination of a request; `None` if it is lost.
type Forward = Option<(SocketAddr, Request)>;

impl Relay {
    /// In front of the admin API: registered endpoints are routed through `callbacks`.
    pub(crate) fn of_admin(admin: SocketAddr, callbacks: SocketAddr) -> Self {
        let through = format!("http://{callbacks}/");
        Self::start(move |mut request| {
            if request.path.ends_with("/endpoints") {
                request.body = request.text().replace("http://127.0.0.1:", &through).into_bytes();
            }
            Some((admin, request))
        })
    }

    /// In front of a hub: changes requests on their way to it.
    pub(crate) fn of_hub(hub: SocketAddr, change: fn(&mut Request)) -> Self {
        Self::start(move |mut request| {
            change(&mut request);
            Some((hub, request))
        })
    }

    /// In front of the participants: loses one callback about transfers in `one_in`, none if it is
    /// 0.
    pub(crate) fn of_callbacks(one_in: u64) -> Self {
        let seen = AtomicU64::new(0);
        Self::start(move |request| {
            let (address, request) = direct(request);
            let counts = one_in > 0 && request.path.starts_with("/transfers");
            let is_lost =
                counts && (seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(one_in);
            (!is_lost).then_some((address, request))
        })
    }

    /// In front of the participants: changes callbacks.
    pub(crate) fn of_changed_callbacks(change: fn(&mut Request)) -> Self {
        Self::start(move |request| {
            let (address, mut request) = direct(request);
            change(&mut request);
            Some((address, request))
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Requests that were answered but not forwarded.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn start(decide: impl Fn(Request) -> Forward + Send + Sync + 'static) -> Self {
        let lost: Arc<AtomicU64> = Arc::default();
        let counted = Arc::clone(&lost);
        let server = serve(move |request| match decide(request.clone()) {
            Some((address, request)) => {
                forward(address, request).map_or(Reply::Close, Reply::Response)
            }
            None => {
                counted.fetch_add(1, Ordering::Relaxed);
                Reply::Status(200)
            }
        });
        Self { server, lost }
    }
}

/// Replaces text in the body of a request with this method and path.
pub(crate) fn replace_in(request: &mut Request, start: &str, part: &str, other: &str) {
    if format!("{} {}", request.method, request.path).starts_with(start) {
        request.body = request.text().replace(part, other).into_bytes();
    }
}

/// The destination of a callback, and the callback without it.
fn direct(mut request: Request) -> (SocketAddr, Request) {
    let (port, rest) = request.path[1..].split_once('/').expect("the port comes first");
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    request.path = format!("/{rest}");
    (address, request)
}

thread_local! {
    /// The connection that forwards the requests of this thread's connection.
    static OUTSIDE: RefCell<Option<(SocketAddr, Connection)>> = const { RefCell::new(None) };
}

fn forward(address: SocketAddr, mut request: Request) -> io::Result<Response> {
    let kept = OUTSIDE.take().filter(|(open, _)| *open == address);
    let mut connection = match kept {
        Some((_, connection)) => connection,
        None => Connection::open(address)?,
    };
    request.headers.retain(|(name, _)| name != "content-length");
    let answer = connection.exchange(&request.render("relay"))?;
    OUTSIDE.set(Some((address, connection)));
    Ok(answer)
}
