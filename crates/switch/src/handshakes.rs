//! TLS handshakes of clients.
//!
//! Handshakes in progress are limited per thread and per address. At a limit, a new one ends the
//! one that has waited longest ([`fspiop::admission`]), so that unfinished handshakes do not delay
//! other clients. Each has the time of a request's headers.
//!
//! Full handshakes, which cost signatures, may also be limited per address and second. Beyond the
//! limit a connection is closed before its handshake.

use std::cell::RefCell;
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fspiop::admission::{Admission, AdmissionLimits, Admitted, ConnectionId};
use fspiop::{ErrorCode, Refusal};
use tls::{Peer, ServerTls, TlsStream};
use tokio::net::TcpStream;

use crate::address_allowance::{AddressAllowances, Allowance};
use crate::callers::{Caller, CallerCheck, CallerPolicy};
use crate::connections::ClientConnection;
use crate::directory::Directory;
use crate::socket;
use crate::thread::Thread;

/// Maximum number of handshakes in progress per thread, and per address: each may hold 64 KiB.
const LIMITS: AdmissionLimits = AdmissionLimits { total: 1_024, per_address: 512 };

/// TLS of the listener and identification of senders.
#[derive(Clone, Debug, Default)]
pub struct ListenerSecurity {
    /// TLS of the listener; `None` for plain text.
    pub tls: Option<Arc<ServerTls>>,
    /// How senders are identified.
    pub callers: CallerPolicy,
    /// Full handshakes of one address per second and thread; `None` for no limit.
    pub handshake_rate: Option<NonZeroU32>,
}

/// The checks of clients, of one thread.
pub(crate) struct Security {
    /// With TLS.
    pub(crate) handshakes: Option<Handshakes>,
    pub(crate) callers: CallerCheck,
}

impl Security {
    /// `time` is that of a handshake.
    pub(crate) fn new(
        options: ListenerSecurity,
        time: Duration,
        (thread, directory): (&Rc<Thread>, &Rc<Directory>),
    ) -> Self {
        let ListenerSecurity { tls, callers, handshake_rate } = options;
        let rate = handshake_rate.map(Allowance::per_second);
        let handshakes =
            tls.map(|tls| Handshakes::new((tls, callers.clone()), (time, rate), thread));
        Self { handshakes, callers: CallerCheck::new(callers, thread, directory) }
    }
}

/// The handshakes of a thread.
pub(crate) struct Handshakes {
    tls: Arc<ServerTls>,
    policy: CallerPolicy,
    /// Time for a handshake.
    time: Duration,
    thread: Rc<Thread>,
    in_progress: RefCell<Admission<Rc<ClientConnection>>>,
    /// With a limit of full handshakes.
    allowances: Option<RefCell<AddressAllowances>>,
}

/// A handshake in progress, until it is dropped.
struct Permit<'a> {
    handshakes: &'a Handshakes,
    id: ConnectionId,
}

impl Handshakes {
    fn new(
        (tls, policy): (Arc<ServerTls>, CallerPolicy),
        (time, rate): (Duration, Option<Allowance>),
        thread: &Rc<Thread>,
    ) -> Self {
        let allowances = rate.map(|rate| RefCell::new(AddressAllowances::new(rate)));
        let in_progress = RefCell::new(Admission::new(LIMITS));
        Self { tls, policy, time, thread: Rc::clone(thread), in_progress, allowances }
    }

    /// Makes the handshake of a connection, and notes who its client is. `None` if it failed.
    pub(crate) async fn accept(
        &self,
        (stream, from): (TcpStream, IpAddr),
        client: &Rc<ClientConnection>,
    ) -> Option<TlsStream<TcpStream>> {
        if !self.begin(from) {
            self.tls.count_limited();
            return None;
        }
        let permit = self.admit(from, client)?;
        let accepting = self.tls.accept(stream, self.time);
        let Some(accepted) = socket::unless_evicted(client, accepting).await else {
            self.tls.count_evicted();
            return None;
        };
        drop(permit);
        match accepted {
            Ok(accepted) => {
                if accepted.is_resumed {
                    self.give_back(from);
                }
                self.note(client, accepted.peer);
                Some(accepted.stream)
            }
            Err(rejected) => {
                if let Some(stream) = rejected.plain {
                    self.thread.counters.malformed.add(1);
                    let detail = "this port expects TLS; use https://";
                    let refusal = Refusal::new(ErrorCode::MALFORMED_SYNTAX, detail);
                    socket::refuse_connection(stream, &refusal).await;
                }
                None
            }
        }
    }

    /// Counts a handshake of an address; false beyond the limit.
    fn begin(&self, from: IpAddr) -> bool {
        let Some(allowances) = &self.allowances else { return true };
        let (mut allowances, now_us) = (allowances.borrow_mut(), self.thread.now().monotonic_us);
        let is_left = allowances.is_left(from, now_us);
        if is_left {
            allowances.count(from, now_us);
        }
        is_left
    }

    /// Does not count a resumed session, which costs little.
    fn give_back(&self, from: IpAddr) {
        if let Some(allowances) = &self.allowances {
            allowances.borrow_mut().give_back(from);
        }
    }

    fn note(&self, client: &ClientConnection, peer: Option<Peer>) {
        let caller = peer.map(|peer| Caller::new(&self.tls, peer, &self.policy));
        if let Some(caller) = caller {
            let is_first = client.caller.set(caller).is_ok();
            debug_assert!(is_first, "a connection has one handshake");
        }
    }

    fn admit(&self, from: IpAddr, client: &Rc<ClientConnection>) -> Option<Permit<'_>> {
        let admitted = self.in_progress.borrow_mut().admit(from, Rc::clone(client)).ok()?;
        let Admitted { place: id, evicted } = admitted;
        if let Some(evicted) = evicted {
            evicted.evict();
        }
        Some(Permit { handshakes: self, id })
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        let removed = self.handshakes.in_progress.borrow_mut().remove(self.id);
        // Dropped only here: the table is no longer borrowed.
        drop(removed);
    }
}
