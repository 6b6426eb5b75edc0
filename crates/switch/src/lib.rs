//! FSPIOP in and out over sockets.
//!
//! The way of one transfer, and where to read it:
//!
//! 1. `server` reads `POST /transfers`; `fspiop` checks route, headers and body.
//! 2. `transfers` makes it a command (`commands`) and hands it over; the request waits.
//! 3. The node commits it: durable, then applied (`sequencer`, `journal`, `ledger::prepare`).
//! 4. `driver` is woken once per batch: the waiting request is answered 202, and the notice that
//!    the kernel owes the payee goes to the `delivery` policy.
//! 5. `notices` turns it into `POST /transfers` to the payee, the payer's own bytes; `pool` sends.
//! 6. The payee's `PUT /transfers/{id}` comes in by the same door, and the notices it causes go
//!    out by the same way.
//!
//! Look-ups and quotes (`parties`, `quotes`) are not recorded: `forward` sends them on once, and
//! tells the sender when that failed.
//!
//! Where the operator demands it, `signatures` verifies what comes in before 2, and has what the
//! hub itself makes in 5 signed by `signer`.
//!
//! Each I/O thread is a world of its own: it accepts, parses, submits and sends with a runtime of
//! its own, and owns the lanes of the participants assigned to it.
#![warn(missing_docs)]

mod address;
mod breaker;
mod commands;
mod connections;
mod counters;
mod driver;
mod edge;
mod forward;
mod inquiry;
mod multiplexed;
mod names;
mod notices;
mod null;
mod participants;
mod parties;
mod pool;
mod progress;
mod quotes;
mod server;
mod share;
mod signatures;
mod signer;
mod socket;
mod stalled;
mod transfers;
mod waiters;
mod watched;
mod wording;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use node::progress::Pulse;
use node::{Handle, Mailbox, SystemClock};
use ports::Clock;
use socket2::{Domain, Socket, Type};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, watch};

pub use breaker::OpenBreaker;
pub use commands::{Recorded, command_of, recorded};
pub use connections::ConnectionLimits;
pub use counters::Totals;
pub use inquiry::Underway;
pub use notices::{message_of_payload, stored_message};
pub use null::Decisions;
pub use pool::{PoolLimits, SWEEP as TIMEOUT_GRAIN};
pub use server::Envelope;
pub use signatures::Signatures;
pub use signer::Signer;
pub use stalled::{StalledLane, StalledLanes, described};

use breaker::Breakers;
use counters::Counters;
use edge::{Edge, Seat, Shown};

/// Connections the kernel may hold before they are accepted.
const BACKLOG: i32 = 4_096;
/// How long requests under way may take to end once the switch stops: 3 s.
const GRACE: Duration = Duration::from_secs(3);
/// How long callbacks under way may take to end after that.
const LAST_CALLBACKS: Duration = Duration::from_millis(500);

/// A recorded message as it will be forwarded.
#[derive(Clone, Debug)]
pub struct Message {
    /// Headers, already those of the outgoing message.
    pub headers: HeaderMap,
    /// The body, byte for byte as received.
    pub body: Bytes,
}

/// How the edge behaves, and its bounds; per thread where threads have one each.
#[derive(Clone, Debug)]
pub struct Options {
    /// How owed notices are delivered.
    pub policy: delivery::Policy,
    /// Bounds of the connections to participants.
    pub pool: PoolLimits,
    /// Which addresses of participants may be called.
    pub reach: Arc<fspiop::reach::Reach>,
    /// Bounds of the connections from clients.
    pub connections: ConnectionLimits,
    /// Where gateways connect from: `X-Client-Id` is ignored from any other address. Empty
    /// believes it from all.
    pub gateways: Arc<[fspiop::reach::Network]>,
    /// Look-ups, quotes and answers being forwarded.
    pub forwards_max: usize,
    /// How far ahead a transfer may expire; `None` for no limit.
    pub expiration_max: Option<Duration>,
    /// Whether transfers are decided.
    pub decisions: Decisions,
    /// Signatures that are demanded and made.
    pub signatures: Signatures,
    /// How long a lane may have work and do none of it before it is called stuck.
    pub patience: Duration,
    /// What is broken on purpose.
    pub wedge: Option<Wedge>,
}

/// A part of the edge that is stopped on purpose, for a test of whoever watches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wedge {
    /// The last I/O thread, from its first sweep on.
    Thread,
    /// Every lane: what is due is not attempted.
    Lanes,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: delivery::Policy::default(),
            pool: PoolLimits::default(),
            reach: Arc::default(),
            connections: ConnectionLimits::default(),
            gateways: Arc::default(),
            forwards_max: 8_192,
            expiration_max: None,
            decisions: Decisions::Real,
            signatures: Signatures::default(),
            patience: Duration::from_secs(10),
            wedge: None,
        }
    }
}

/// Sockets that listen on one address, one for each thread.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    address: SocketAddr,
}

impl Listeners {
    /// Where they listen.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Listens on `address` with a socket for each of `threads`; the kernel spreads connections.
/// Port 0 chooses a free one.
///
/// # Errors
/// When the address cannot be had.
pub fn bind(address: SocketAddr, threads: usize) -> io::Result<Listeners> {
    // Sockets that share a port do not notice a second process of the same user: this one does.
    let claim = TcpListener::bind(address)?;
    let address = claim.local_addr()?;
    drop(claim);
    let sockets = (0..threads.max(1)).map(|_| listen(address)).collect::<io::Result<_>>()?;
    Ok(Listeners { sockets, address })
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The I/O threads before they start.
pub struct Ports {
    options: Options,
    seats: Vec<(Seat, TcpListener)>,
    traffic: Arc<Traffic>,
}

/// Makes the I/O threads' mailboxes, which the node needs before the threads can start.
#[must_use]
pub fn prepare(
    listeners: Listeners,
    options: Options,
    clock: SystemClock,
    seed: u64,
) -> (Ports, Vec<Arc<Mailbox<Message>>>) {
    let mut traffic = Traffic::default();
    let mut mailboxes = Vec::new();
    let mut seats = Vec::new();
    let started = clock.now().wall;
    for (number, listener) in listeners.sockets.into_iter().enumerate() {
        let mail = Arc::new(Notify::new());
        let waking = Arc::clone(&mail);
        let mailbox = Arc::new(Mailbox::new(move || waking.notify_one()));
        let counters = Arc::new(Counters::default());
        traffic.counters.push(Arc::clone(&counters));
        let shown = Arc::new(Shown::default());
        traffic.threads.push(Arc::clone(&shown));
        traffic.mail.push(Arc::clone(&mail));
        mailboxes.push(Arc::clone(&mailbox));
        let seed = seed.wrapping_add((number as u64) << 32);
        let breakers = Arc::clone(&traffic.breakers);
        let seat = Seat { number, clock, started, mailbox, mail, counters, shown, breakers, seed };
        seats.push((seat, listener));
    }
    (Ports { options, seats, traffic: Arc::new(traffic) }, mailboxes)
}

impl Ports {
    /// What the threads will count.
    #[must_use]
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Starts the threads. They end when `stop` becomes true.
    ///
    /// # Errors
    /// When a thread or its runtime cannot be started.
    pub fn start(
        self,
        handle: &Handle<Message>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Running> {
        let mut threads = Vec::new();
        for (seat, listener) in self.seats {
            let (handle, options, stop) = (handle.clone(), self.options.clone(), stop.clone());
            let name = format!("io-{}", seat.number);
            let runtime = move || run(seat, listener, handle, options, stop);
            threads.push(std::thread::Builder::new().name(name).spawn(runtime)?);
        }
        Ok(Running { threads })
    }
}

/// The I/O threads at work.
pub struct Running {
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Whether a thread has ended by itself, which none does unless an invariant broke.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Waits for all threads to end.
    pub fn join(self) {
        for thread in self.threads {
            // A thread that panicked has said so; the others still end in order.
            let _ended = thread.join();
        }
    }
}

fn run(
    seat: Seat,
    listener: TcpListener,
    handle: Handle<Message>,
    options: Options,
    mut stop: watch::Receiver<bool>,
) {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build_local(LocalOptions::default())
        .expect("the machine has what a runtime needs: an epoll instance and an eventfd");
    runtime.block_on(async move {
        let edge = Rc::new(Edge::new(seat, handle, options));
        driver::spawn(&edge);
        let listener = tokio::net::TcpListener::from_std(listener)
            .expect("a listening socket can be registered with the runtime");
        let accepting = tokio::task::spawn_local(server::accept(Rc::clone(&edge), listener));
        // An error means that the sender is gone, which is as good as its word.
        let _stopped = stop.wait_for(|stop| *stop).await;
        accepting.abort();
        drain(&edge).await;
    });
    // Callbacks still under way are abandoned: they are owed, and sent again after the next start.
    drop(runtime);
}

/// Lets the requests that wait for the sequencer have their answers. Meanwhile no callback begins;
/// those under way have a moment to end, and are recorded: whoever sends the rest, this switch
/// after its next start or another node, repeats as few as can be.
async fn drain(edge: &Rc<Edge>) {
    edge.outbox.borrow_mut().stop();
    let waiting = async {
        while edge.waiters.len() > 0 || !edge.forwards.borrow().is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The last answers are on their way to the socket.
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let _in_time = tokio::time::timeout(GRACE, waiting).await;
    let sending = async {
        while 0 < edge.outbox.borrow().attempts() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let _in_time = tokio::time::timeout(LAST_CALLBACKS, sending).await;
    driver::record(edge);
}

/// What the I/O threads have counted since they started.
#[derive(Debug, Default)]
pub struct Traffic {
    counters: Vec<Arc<Counters>>,
    /// What each thread shows besides.
    threads: Vec<Arc<Shown>>,
    /// Wakes each of them.
    mail: Vec<Arc<Notify>>,
    breakers: Arc<Breakers>,
}

impl Traffic {
    /// How the threads are, as of now, in their order.
    #[must_use]
    pub fn pulses(&self) -> Vec<Pulse> {
        let pulse = |shown: &Arc<Shown>| Pulse {
            turns: shown.turns.get(),
            lanes: shown.stuck.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        };
        self.threads.iter().map(pulse).collect()
    }

    /// Lanes of all threads whose participant takes no notice, as of their last looks.
    #[must_use]
    pub fn stalled_lanes(&self) -> StalledLanes {
        let mut all = StalledLanes::default();
        self.threads.iter().for_each(|shown| all.add(shown.stalled.lock().clone()));
        all
    }

    /// Participants to which forwards fail at once, those first that stopped answering first.
    #[must_use]
    pub fn open_breakers(&self) -> Vec<OpenBreaker> {
        self.breakers.open()
    }

    /// Sums over all threads, as of now.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        self.counters.iter().for_each(|thread| sum.add(thread));
        sum
    }
}
