//! Connections from clients: limits on their number, in total and per address, and timeouts.
//!
//! There is no timer per connection: the thread's sweep checks for timeouts a few times a second.
//! If no permit is free, a new connection evicts one that keeps the hub waiting
//! ([`fspiop::admission`]). A message costs a few stores.

use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use fspiop::admission::{self, Admission, AdmissionLimits, Admitted, RequestComplete};

use crate::callers::Caller;
use crate::pool::SWEEP;
use crate::trace::Tracer;

/// Bounds of the connections from clients; counts are per thread.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Maximum number of open connections.
    pub total: usize,
    /// Maximum number from one address, or from one /64 network for IPv6.
    pub per_address: usize,
    /// Time from the first byte of a request to the end of its headers; for a connection's first
    /// request, from the connection on.
    pub head: Duration,
    /// Time for a whole body.
    pub body: Duration,
    /// Time without a request.
    pub idle: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            total: 8_192,
            per_address: 4_096,
            head: Duration::from_secs(15),
            body: Duration::from_secs(15),
            idle: Duration::from_secs(75),
        }
    }
}

/// The open connections of one thread.
pub(crate) struct Connections {
    limits: ConnectionLimits,
    tracer: Tracer,
    admission: RefCell<Admission<Rc<ClientConnection>>>,
    /// Number of sweeps so far, which serves as the clock for timeouts.
    sweeps: Rc<Cell<u64>>,
}

/// State of a connection, shared by its socket, its requests and the sweep.
pub(crate) struct ClientConnection {
    /// The table and its index in it; both are set while it has a permit.
    connections: Weak<Connections>,
    id: Cell<Option<admission::ConnectionId>>,
    sweeps: Rc<Cell<u64>>,
    tracer: Tracer,
    /// Time of the last read, by the clock of [`node::stages`]; 0 without tracing.
    pub(crate) read_ns: Cell<u64>,
    /// Requests being served; over HTTP/1.1 at most one.
    serving: Cell<usize>,
    /// Requests begun so far.
    pub(crate) requests: Cell<u64>,
    since: Cell<u64>,
    /// A part of the next request has arrived.
    request_begun: Cell<bool>,
    /// Requests are concurrent: HTTP/2.
    multiplexed: Cell<bool>,
    /// With concurrent requests: it should accept no more of them.
    pub(crate) draining: Cell<bool>,
    /// It has timed out.
    pub(crate) timed_out: Cell<bool>,
    /// It was evicted for another connection.
    pub(crate) evicted: Cell<bool>,
    /// The client closed it within a request.
    pub(crate) aborted: Cell<bool>,
    /// A head was refused for a bare line feed.
    pub(crate) has_bare_line_feed: Cell<bool>,
    /// Its address is not in the networks of gateways: headers of gateways are not believed.
    pub(crate) is_outside_gateways: Cell<bool>,
    /// When the last refusal on it is due, in microseconds: see [`crate::refusal_pace`].
    pub(crate) refusal_due_us: Cell<u64>,
    /// The client's address.
    pub(crate) address: IpAddr,
    /// The client, if it has a certificate.
    pub(crate) caller: OnceCell<Caller>,
    waker: RefCell<Option<Waker>>,
}

/// A connection's permit, until it is dropped.
pub(crate) struct ConnectionPermit {
    pub(crate) client: Rc<ClientConnection>,
    /// Whether another connection was evicted for it.
    pub(crate) has_evicted: bool,
}

/// A request being served, until it is dropped.
pub(crate) struct RequestGuard {
    pub(crate) client: Rc<ClientConnection>,
    complete: Cell<bool>,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits, tracer: Tracer) -> Rc<Self> {
        let bounds = AdmissionLimits { total: limits.total, per_address: limits.per_address };
        let admission = RefCell::new(Admission::new(bounds));
        Rc::new(Self { limits, tracer, admission, sweeps: Rc::default() })
    }

    /// Number of open connections.
    pub(crate) fn len(&self) -> usize {
        self.admission.borrow().len()
    }

    /// A permit for one more connection from an address; `None` if every connection that could be
    /// evicted has a request in progress.
    pub(crate) fn admit(self: &Rc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let sweeps = Rc::clone(&self.sweeps);
        let client = Rc::new(ClientConnection::new(
            (Rc::downgrade(self), address),
            sweeps,
            self.tracer.clone(),
        ));
        let admitted = self.admission.borrow_mut().admit(address, Rc::clone(&client));
        let Admitted { place: id, evicted } = admitted.ok()?;
        client.id.set(Some(id));
        if let Some(evicted) = &evicted {
            evicted.evict();
        }
        Some(ConnectionPermit { client, has_evicted: evicted.is_some() })
    }

    /// Closes the connections that have timed out.
    pub(crate) fn sweep(&self) {
        self.sweeps.set(self.sweeps.get() + 1);
        for client in self.admission.borrow().holders() {
            client.sweep(&self.limits);
        }
    }
}

impl ClientConnection {
    fn new(
        (connections, address): (Weak<Connections>, IpAddr),
        sweeps: Rc<Cell<u64>>,
        tracer: Tracer,
    ) -> Self {
        Self {
            connections,
            id: Cell::new(None),
            serving: Cell::new(0),
            requests: Cell::new(0),
            since: Cell::new(sweeps.get()),
            request_begun: Cell::new(false),
            multiplexed: Cell::new(false),
            draining: Cell::new(false),
            timed_out: Cell::new(false),
            evicted: Cell::new(false),
            aborted: Cell::new(false),
            has_bare_line_feed: Cell::new(false),
            is_outside_gateways: Cell::new(false),
            refusal_due_us: Cell::new(0),
            address,
            caller: OnceCell::new(),
            waker: RefCell::new(None),
            sweeps,
            tracer,
            read_ns: Cell::new(0),
        }
    }

    /// Records a read.
    pub(crate) fn record_read(&self) {
        self.read_ns.set(self.tracer.now_ns());
        if self.serving.get() == 0 && !self.request_begun.get() && !self.multiplexed.get() {
            self.request_begun.set(true);
            self.since.set(self.sweeps.get());
        }
    }

    /// Marks the connection as one with concurrent requests.
    pub(crate) fn mark_multiplexed(&self) {
        self.multiplexed.set(true);
        self.request_begun.set(false);
        self.since.set(self.sweeps.get());
    }

    pub(crate) fn begin_request(self: &Rc<Self>) -> RequestGuard {
        self.serving.set(self.serving.get() + 1);
        self.requests.set(self.requests.get() + 1);
        RequestGuard { client: Rc::clone(self), complete: Cell::new(false) }
    }

    /// Whether the client has sent a part of a request, but not all of it.
    pub(crate) fn has_partial_request(&self) -> bool {
        self.request_begun.get() && self.serving.get() == 0
    }

    /// Sets the task to wake on a timeout.
    pub(crate) fn set_waker(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    /// Changes its entry in the table; no effect without a permit.
    fn with_admission(
        &self,
        change: impl FnOnce(&mut Admission<Rc<Self>>, admission::ConnectionId),
    ) {
        if let (Some(connections), Some(id)) = (self.connections.upgrade(), self.id.get()) {
            change(&mut connections.admission.borrow_mut(), id);
        }
    }

    /// Ends it at once.
    pub(crate) fn evict(&self) {
        self.evicted.set(true);
        self.timed_out.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    fn sweep(&self, limits: &ConnectionLimits) {
        let short = self.request_begun.get() || self.draining.get();
        let limit = if short { limits.head } else { limits.idle };
        let age_max = (limit.as_millis() / SWEEP.as_millis()) as u64 + 1;
        if 0 < self.serving.get() || self.sweeps.get() - self.since.get() <= age_max {
            return;
        }
        if self.multiplexed.get() && !self.draining.replace(true) {
            self.since.set(self.sweeps.get());
        } else {
            self.timed_out.set(true);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut removed = None;
        self.client.with_admission(|admission, id| removed = admission.remove(id));
        // Dropped only here: the table is no longer borrowed.
        drop(removed);
    }
}

impl RequestGuard {
    /// Marks the request as complete: from here on the client waits for the hub.
    pub(crate) fn mark_complete(&self) {
        if !self.complete.replace(true) {
            self.client.with_admission(Admission::begin);
        }
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        let client = &self.client;
        client.serving.set(client.serving.get() - 1);
        client.request_begun.set(false);
        client.since.set(client.sweeps.get());
        let whole = if self.complete.get() { RequestComplete::Yes } else { RequestComplete::No };
        client.with_admission(|admission, id| admission.end(id, whole));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwatched() -> Tracer {
        Tracer::new(&std::sync::Arc::new(node::latency_trace::LatencyTrace::new(1)), 0)
    }

    fn limits() -> ConnectionLimits {
        ConnectionLimits { total: 3, per_address: 2, ..ConnectionLimits::default() }
    }

    #[test]
    fn longest_silent_connection_is_evicted_first() {
        let connections = Connections::new(limits(), unwatched());
        let at = |text: &str| connections.admit(text.parse().expect("an address"));
        let first = at("10.0.0.1").expect("the first");
        let second = at("::ffff:10.0.0.1").expect("the same address, in another form");
        let serving = second.client.begin_request();
        serving.mark_complete();
        let third = at("10.0.0.1").expect("the first makes room");
        assert!(third.has_evicted && first.client.evicted.get() && first.client.timed_out.get());
        assert!(!second.client.evicted.get());
        let also_serving = third.client.begin_request();
        also_serving.mark_complete();
        assert!(at("10.0.0.1").is_none(), "both from there are being served");
        let other = at("fd00::1").expect("from elsewhere");
        assert!(!other.has_evicted);
        drop(serving);
        let last = at("10.0.0.3").expect("three in all: one that never spoke makes room first");
        assert!(other.client.evicted.get() && !second.client.evicted.get());
        drop((also_serving, first, second, third, other, last));
        assert_eq!(connections.len(), 0);
    }

    #[test]
    fn timeout_runs_only_while_no_request_is_served() {
        let second = Duration::from_secs(1);
        let limits = ConnectionLimits { head: second, idle: second * 3, ..limits() };
        let connections = Connections::new(limits, unwatched());
        let permit = connections.admit(IpAddr::from([10, 0, 0, 1])).expect("a permit");
        let client = &permit.client;
        let pass = |sweeps: usize| (0..sweeps).for_each(|_| connections.sweep());
        pass(12);
        let serving = client.begin_request();
        pass(100);
        drop(serving);
        pass(12);
        assert!(!client.timed_out.get() && !client.has_partial_request());
        client.record_read();
        pass(4);
        client.record_read();
        assert!(!client.timed_out.get() && client.has_partial_request());
        pass(2);
        assert!(client.timed_out.get());
    }

    #[test]
    fn multiplexed_connection_drains_before_it_times_out() {
        let second = Duration::from_secs(1);
        let connections = Connections::new(
            ConnectionLimits { head: second, idle: second, ..limits() },
            unwatched(),
        );
        let permit = connections.admit(IpAddr::from([10, 0, 0, 1])).expect("a permit");
        let client = &permit.client;
        client.mark_multiplexed();
        (0..6).for_each(|_| connections.sweep());
        assert!(client.draining.get() && !client.timed_out.get());
        (0..6).for_each(|_| connections.sweep());
        assert!(client.timed_out.get());
    }
}
