//! The FSPIOP edge: receives messages from participants and delivers messages to them.
//!
//! The path of a transfer through the modules:
//!
//! 1. `server` reads `POST /transfers`; `fspiop` checks route, headers and body.
//! 2. `transfers` converts it to a command (`commands`) and submits it; the request waits.
//! 3. The node commits it: durable, then applied (`sequencer`, `journal`, `ledger::prepare`).
//! 4. `driver` is woken once per batch: the waiting request is answered 202, and the notice to the
//!    payee goes to the `delivery` policy.
//! 5. `notice_messages` converts it to a `POST /transfers` with the payer's own bytes; `pool` sends
//!    it to the payee.
//! 6. The payee's `PUT /transfers/{id}` and the resulting notices take the same path.
//!
//! Look-ups and quotes (`parties`, `exchanges`) are not recorded: `egress` forwards them once, and
//! sends the sender an error callback if that fails.
//!
//! If configured, `signatures` verifies received messages before step 2, and has the hub's own
//! messages signed by `signer` in step 5.
//!
//! Each I/O thread is independent: it accepts, parses, submits and sends with its own runtime, and
//! owns the lanes of the participants assigned to it.
//!
//! A handler takes only the parts of its thread that it may touch:
//!
//! | Part | Does |
//! |---|---|
//! | `thread` | number, clock, counters; `trace` records stages for waterfalls |
//! | `directory` | participants, parties and endpoints, as of the last change |
//! | `submitter` | submits a command to the sequencer and waits for the outcome |
//! | `outbox` | queued submissions and callbacks; `driver` has the tasks that process them |
//! | `egress` | sends messages to participants: addresses, pools, breakers, shares, signatures |
//!
//! `io_thread` assembles them. There are no import cycles.
#![warn(missing_docs)]

mod address_allowance;
mod breaker;
mod bulk_messages;
mod bulk_transfers;
mod call_stream;
mod caller_names;
mod caller_tokens;
mod callers;
mod commands;
mod connections;
mod counted_stream;
mod counters;
mod delivery_status;
mod destination;
mod directory;
mod driver;
mod egress;
mod endpoint_cache;
mod exchanges;
mod failure;
mod fair_share;
mod frame_budget;
mod gateway_names;
mod handshakes;
mod http2;
mod http2_calls;
mod inbound;
mod incomplete_bodies;
mod io_thread;
mod lane_watch;
mod lent_calls;
mod measurements;
mod message;
mod notice_messages;
mod options;
mod oracles;
mod outbox;
mod outcome_errors;
mod participant_limits;
mod participants;
mod parties;
mod party_names;
mod passthrough;
mod pending_requests;
mod pool;
mod quotes;
mod recorded_quotes;
mod recorded_requests;
mod records;
mod refusal_pace;
mod resolver;
mod server;
mod services;
mod signatures;
mod signer;
mod socket;
mod spans;
mod stalled_lanes;
mod submitter;
mod test_call;
#[cfg(test)]
mod tests;
mod thread;
mod thread_status;
mod trace;
mod traffic_times;
mod transfers;
mod turns;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use node::{Handle, Mailbox, Mailboxes, SystemClock};
use ports::Clock;
use socket2::{Domain, Socket, Type};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::spawn_local;

pub use breaker::OpenBreaker;
pub use caller_names::{CertificateField, CertificateNames, NamePattern};
pub use caller_tokens::TokenCallers;
pub use callers::CallerPolicy;
pub use commands::{Recorded, command_of, recorded};
pub use connections::ConnectionLimits;
pub use counters::Totals;
pub use delivery_status::DeliveryStatus;
pub use driver::InjectedStall;
pub use gateway_names::GatewayCallers;
pub use handshakes::ListenerSecurity;
pub use inbound::Envelope;
pub use lent_calls::HelperThreads;
pub use measurements::{CallResult, NoticeAction, PaymentSpan, RequestKind};
pub use message::ForwardedMessage;
pub use options::{IoThreadOptions, QuoteOptions};
pub use oracles::OracleOptions;
pub use outcome_errors::error_code;
pub use participant_limits::{ParticipantLimits, ParticipantUsage};
pub use passthrough::TransferMode;
pub use pool::{PoolLimits, SWEEP as TIMEOUT_GRAIN};
pub use records::{contents_of_parties, message_of_payload, reveal_parties, stored_message};
pub use services::Conversion;
pub use signatures::Signatures;
pub use signer::Signer;
pub use stalled_lanes::{StalledLane, StalledLanes, described};
pub use test_call::{TestAnswer, TestCallError, TestCaller};
pub use thread_status::Traffic;
pub use traffic_times::{
    ParticipantTimes, TrafficTimes, added, is_success, participant_at, resource_of,
};

use io_thread::{IoThread, IoThreadParams};
use lent_calls::{LentConnection, LentQueues};
use measurements::Measurements;
use oracles::OracleState;

/// Length of the operating system's queue of connections that are not accepted yet.
const BACKLOG: i32 = 4_096;

/// Listening sockets on one address, one per thread.
#[derive(Debug)]
pub struct Listeners {
    sockets: Vec<TcpListener>,
    address: SocketAddr,
}

impl Listeners {
    /// The address of the sockets.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Listens on `address` with one socket per thread; the operating system distributes connections.
/// Port 0 chooses a free one.
///
/// # Errors
/// If the address cannot be bound.
pub fn bind(address: SocketAddr, threads: usize) -> io::Result<Listeners> {
    // Sockets with a shared port do not detect a second process of the same user; this one does.
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
    options: IoThreadOptions,
    threads_to_start: Vec<(IoThreadParams, ConnectionSource)>,
    traffic: Arc<Traffic>,
}

/// The source of a thread's connections.
enum ConnectionSource {
    Listener(TcpListener),
    /// It is a helper thread.
    OtherThread(mpsc::Receiver<LentConnection>),
}

/// Creates the I/O threads' mailboxes, which the node needs before the threads can start. Those
/// with a listener have lanes, the others are helper threads.
#[must_use]
pub fn prepare(
    listeners: Listeners,
    options: IoThreadOptions,
    clock: SystemClock,
    seed: u64,
) -> (Ports, Mailboxes<ForwardedMessage>) {
    let with_lanes = listeners.sockets.len();
    let HelperThreads { count, busy_percent } = options.helper_threads;
    let mail = (0..with_lanes + count).map(|_| Arc::default()).collect();
    let mut traffic = Traffic { mail, spans: options.spans.clone(), ..Traffic::default() };
    let started = clock.now().wall;
    let oracles = Arc::new(OracleState::default());
    traffic.oracle_breakers = Arc::clone(oracles.breakers());
    let (queues, lent) = LentQueues::new(&traffic.mail, with_lanes, busy_percent);
    let listeners = listeners.sockets.into_iter().map(ConnectionSource::Listener);
    let lent = lent.into_iter().skip(with_lanes).map(ConnectionSource::OtherThread);
    let mut threads_to_start = Vec::new();
    for ((number, source), mail) in listeners.chain(lent).enumerate().zip(&traffic.mail) {
        let waking = Arc::clone(mail);
        let params = IoThreadParams {
            number,
            clock,
            started,
            mailbox: Arc::new(Mailbox::new(move || waking.notify_one())),
            mail: Arc::clone(mail),
            counters: Arc::default(),
            measurements: Arc::new(Measurements::new(options.histograms)),
            shown: Arc::default(),
            breakers: Arc::clone(&traffic.breakers),
            oracles: Arc::clone(&oracles),
            seed: seed.wrapping_add((number as u64) << 32),
            queues: Arc::clone(&queues),
            meter: Arc::default(),
        };
        threads_to_start.push((params, source));
    }
    let params = || threads_to_start.iter().map(|(params, _)| params);
    traffic.counters = params().map(|params| Arc::clone(&params.counters)).collect();
    traffic.measurements = params().map(|params| Arc::clone(&params.measurements)).collect();
    traffic.threads = params().map(|params| Arc::clone(&params.shown)).collect();
    let all = params().map(|params| Arc::clone(&params.mailbox)).collect();
    let traffic = Arc::new(traffic);
    (Ports { options, threads_to_start, traffic }, Mailboxes { all, with_lanes })
}

impl Ports {
    /// The counters and the status of the threads.
    #[must_use]
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Starts the threads. They end when `stop` becomes true.
    ///
    /// # Errors
    /// If a thread or its runtime cannot be started.
    pub fn start(
        self,
        handle: &Handle<ForwardedMessage>,
        stop: watch::Receiver<bool>,
    ) -> io::Result<Running> {
        if self.options.spans.is_some() {
            handle.report_batch_times();
        }
        let mut threads = Vec::new();
        for (params, source) in self.threads_to_start {
            let (handle, options, stop) = (handle.clone(), self.options.clone(), stop.clone());
            let name = format!("io-{}", params.number);
            let runtime = move || run(params, source, handle, options, stop);
            threads.push(std::thread::Builder::new().name(name).spawn(runtime)?);
        }
        Ok(Running { threads })
    }
}

/// The running I/O threads.
pub struct Running {
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// Whether a thread has ended by itself, which only a violated invariant can cause.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Waits for all threads to end.
    pub fn join(self) {
        for thread in self.threads {
            // A panic was already logged; the other threads still stop in order.
            let _ended = thread.join();
        }
    }
}

fn run(
    params: IoThreadParams,
    source: ConnectionSource,
    handle: Handle<ForwardedMessage>,
    options: IoThreadOptions,
    mut stop: watch::Receiver<bool>,
) {
    let [sleeping, waking] = [(); 2].map(|()| Arc::clone(&params.meter));
    let runtime = Builder::new_current_thread()
        .enable_all()
        .on_thread_park(move || sleeping.sleep())
        .on_thread_unpark(move || waking.wake())
        .build_local(LocalOptions::default())
        .expect("the machine has what a runtime needs: an epoll instance and an eventfd");
    runtime.block_on(async move {
        let parts = IoThread::new(params, handle, options);
        driver::spawn(&parts.driver, parts.lanes());
        let accepting = accept(&parts, source);
        // If the sender was dropped, treat it as a stop request.
        let _stopped = stop.wait_for(|stop| *stop).await;
        accepting.into_iter().for_each(|listening| listening.abort());
        parts.drain().await;
    });
    // Callbacks in progress are dropped; they are still owed and are resent after the next start.
    drop(runtime);
}

/// Serves connections. Returns the task that listens, which must end first at a stop.
fn accept(parts: &IoThread, source: ConnectionSource) -> Option<tokio::task::JoinHandle<()>> {
    let server = Rc::clone(&parts.server);
    match source {
        ConnectionSource::OtherThread(connections) => {
            spawn_local(server::accept_lent(server, connections));
            None
        }
        ConnectionSource::Listener(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener)
                .expect("a listening socket can be registered with the runtime");
            Some(spawn_local(server::accept(server, listener)))
        }
    }
}
