//! A relay between a hub and the participants that it calls: it loses callbacks and says that all
//! is well, as a broken network element would.
//!
//! Before a hub it changes what participants send.
//!
//! It stands before the admin API, where it puts itself into the endpoints that are registered,
//! and before the participants: `http://host:PORT/path` becomes `http://relay/PORT/path`.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::http::{Connection, Kind, Parsed};

/// One listener; it stops when this is dropped.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    lost: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

/// What becomes of one request.
enum Fate {
    Forward(SocketAddr, Parsed),
    Lose,
}

impl Relay {
    /// Before the admin API: endpoints that are registered lead through `callbacks`.
    pub(crate) fn of_admin(admin: SocketAddr, callbacks: SocketAddr) -> Self {
        let through = format!("http://{callbacks}/");
        Self::start(move |mut request, _| {
            if request.start.ends_with("/endpoints") {
                request.body = request.text().replace("http://127.0.0.1:", &through).into_bytes();
            }
            Fate::Forward(admin, request)
        })
    }

    /// Before a hub: changes requests on their way to it.
    pub(crate) fn of_hub(hub: SocketAddr, change: fn(&mut Parsed)) -> Self {
        Self::start(move |mut request, _| {
            change(&mut request);
            Fate::Forward(hub, request)
        })
    }

    /// Before the participants: loses one callback about transfers in `one_in`, none when it is 0.
    pub(crate) fn of_callbacks(one_in: u64) -> Self {
        let seen = AtomicU64::new(0);
        Self::start(move |request, lost| {
            let (address, request) = direct(request);
            let counts = one_in > 0 && request.start.contains(" /transfers");
            if counts && (seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(one_in) {
                lost.fetch_add(1, Ordering::Relaxed);
                return Fate::Lose;
            }
            Fate::Forward(address, request)
        })
    }

    /// Before the participants: changes what they are sent.
    pub(crate) fn of_changed_callbacks(change: fn(&mut Parsed)) -> Self {
        Self::start(move |request, _| {
            let (address, mut request) = direct(request);
            change(&mut request);
            Fate::Forward(address, request)
        })
    }

    /// Requests that were answered and went no further.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn start(decide: impl Fn(Parsed, &AtomicU64) -> Fate + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (lost, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, stopping, decide) = (Arc::clone(&lost), Arc::clone(&stop), Arc::new(decide));
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if stopping.load(Ordering::Relaxed) {
                    return;
                }
                let (decide, counted) = (Arc::clone(&decide), Arc::clone(&counted));
                let stream = stream.unwrap();
                // Ends with its connection, which ends with the hub.
                std::thread::spawn(move || relay(stream, |request| decide(request, &counted)));
            }
        });
        Self { address, lost, stop, accepting: Some(accepting) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it up; when that fails it has ended already.
        let _woken = TcpStream::connect(self.address);
        let ended = self.accepting.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || ended.is_none_or(|ended| ended.is_ok()));
    }
}

/// Whom a callback is for, and the callback without that.
fn direct(mut request: Parsed) -> (SocketAddr, Parsed) {
    let (method, path) = request.start.split_once(" /").expect("a path");
    let (port, rest) = path.split_once('/').expect("the port comes first");
    let address = SocketAddr::from(([127, 0, 0, 1], port.parse().unwrap()));
    request.start = format!("{method} /{rest}");
    (address, request)
}

fn relay(stream: TcpStream, decide: impl Fn(Parsed) -> Fate) -> io::Result<()> {
    let mut inside = Connection::new(stream)?;
    let mut outside: Option<(SocketAddr, Connection)> = None;
    while let Some(request) = inside.read(Kind::Request)? {
        let (address, request) = match decide(request) {
            Fate::Forward(address, request) => (address, request),
            Fate::Lose => {
                inside.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
                continue;
            }
        };
        let mut connection = match outside.take().filter(|(open, _)| *open == address) {
            Some((_, connection)) => connection,
            None => Connection::open(address)?,
        };
        let answer =
            connection.exchange(&text(&format!("{} HTTP/1.1", request.start), &request))?;
        outside = Some((address, connection));
        inside.write(&text(&format!("HTTP/1.1 {} Relayed", answer.start), &answer))?;
    }
    Ok(())
}

fn text(start: &str, message: &Parsed) -> Vec<u8> {
    let mut bytes = format!("{start}\r\n").into_bytes();
    for (name, value) in &message.headers.0 {
        if name != "content-length" {
            bytes.extend_from_slice(format!("{name}: ").as_bytes());
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes.extend_from_slice(format!("content-length: {}\r\n\r\n", message.body.len()).as_bytes());
    bytes.extend_from_slice(&message.body);
    bytes
}
