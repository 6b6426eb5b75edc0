//! Connections from clients: how many there may be, in total and from one address, and how long
//! each may keep the hub waiting.
//!
//! There is no timer per connection: the thread's sweep looks a few times a second for those
//! whose time is over. A message costs a few stores.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use node::stages::Stages;

use crate::pool::SWEEP;

/// Bounds of the connections from clients; counts are per thread.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Connections open at once.
    pub total: usize,
    /// Of these, from one address; from one network of 64 bits for IPv6.
    pub per_address: usize,
    /// Time from the first byte of a request to the end of its headers.
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
    stages: Arc<Stages>,
    lines: RefCell<Vec<Rc<Line>>>,
    addresses: RefCell<HashMap<IpAddr, usize>>,
    /// Sweeps so far: the clock by which connections age.
    sweeps: Rc<Cell<u64>>,
}

/// One connection, as its socket, its requests and the sweep see it.
pub(crate) struct Line {
    address: IpAddr,
    place: Cell<usize>,
    sweeps: Rc<Cell<u64>>,
    stages: Arc<Stages>,
    /// When something was last read, if somebody watches.
    heard_ns: Cell<u64>,
    /// Requests being served; over HTTP/1.1 at most one.
    serving: Cell<usize>,
    since: Cell<u64>,
    /// Something of the next request has come.
    begun: Cell<bool>,
    /// Requests come side by side: HTTP/2.
    shared: Cell<bool>,
    leaving: Cell<bool>,
    overdue: Cell<bool>,
    broken_off: Cell<bool>,
    /// A head with a line end that is no CR LF has come.
    has_bare_line_feed: Cell<bool>,
    /// The client is no gateway, hence not believed when it says who a caller is.
    ignores_client_id: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// A connection's place among the open ones, until it is dropped.
pub(crate) struct Place {
    connections: Rc<Connections>,
    line: Rc<Line>,
}

/// A request being served, until it is dropped.
pub(crate) struct Serving(Rc<Line>);

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits, stages: Arc<Stages>) -> Rc<Self> {
        Rc::new(Self {
            limits,
            stages,
            lines: RefCell::default(),
            addresses: RefCell::default(),
            sweeps: Rc::default(),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.lines.borrow().len()
    }

    /// A place for one more connection from there; `None` when there are too many.
    pub(crate) fn admit(self: &Rc<Self>, address: IpAddr) -> Option<Place> {
        let address = network_of(address);
        let mut addresses = self.addresses.borrow_mut();
        let from_there = addresses.get(&address).copied().unwrap_or(0);
        if self.limits.total <= self.len() || self.limits.per_address <= from_there {
            return None;
        }
        addresses.insert(address, from_there + 1);
        let mut lines = self.lines.borrow_mut();
        let (sweeps, stages) = (Rc::clone(&self.sweeps), Arc::clone(&self.stages));
        let line = Rc::new(Line::new(address, lines.len(), sweeps, stages));
        lines.push(Rc::clone(&line));
        Some(Place { connections: Rc::clone(self), line })
    }

    /// Ends the connections that have kept the hub waiting too long.
    pub(crate) fn sweep(&self) {
        self.sweeps.set(self.sweeps.get() + 1);
        for line in self.lines.borrow().iter() {
            line.sweep(&self.limits);
        }
    }

    fn remove(&self, line: &Line) {
        let mut lines = self.lines.borrow_mut();
        lines.swap_remove(line.place.get());
        if let Some(moved) = lines.get(line.place.get()) {
            moved.place.set(line.place.get());
        }
        let mut addresses = self.addresses.borrow_mut();
        match addresses.get_mut(&line.address) {
            Some(count) if 1 < *count => *count -= 1,
            _ => drop(addresses.remove(&line.address)),
        }
    }
}

impl Line {
    fn new(address: IpAddr, place: usize, sweeps: Rc<Cell<u64>>, stages: Arc<Stages>) -> Self {
        Self {
            address,
            place: Cell::new(place),
            serving: Cell::new(0),
            since: Cell::new(sweeps.get()),
            begun: Cell::new(false),
            shared: Cell::new(false),
            leaving: Cell::new(false),
            overdue: Cell::new(false),
            broken_off: Cell::new(false),
            has_bare_line_feed: Cell::new(false),
            ignores_client_id: Cell::new(false),
            waker: RefCell::new(None),
            sweeps,
            stages,
            heard_ns: Cell::new(0),
        }
    }

    /// Something was read.
    pub(crate) fn hear(&self) {
        if let Some(now) = self.stages.now_ns() {
            self.heard_ns.set(now);
        }
        if self.serving.get() == 0 && !self.begun.get() && !self.shared.get() {
            self.begun.set(true);
            self.since.set(self.sweeps.get());
        }
    }

    /// When something was last read, by the clock of [`node::stages`]; 0 when nobody watched.
    pub(crate) fn heard_ns(&self) -> u64 {
        self.heard_ns.get()
    }

    /// From now on requests come side by side.
    pub(crate) fn share(&self) {
        self.shared.set(true);
        self.begun.set(false);
        self.since.set(self.sweeps.get());
    }

    pub(crate) fn serve(self: &Rc<Self>) -> Serving {
        self.serving.set(self.serving.get() + 1);
        Serving(Rc::clone(self))
    }

    /// Whether the client has sent a part of a request and was not yet heard to its end.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun.get() && self.serving.get() == 0
    }

    /// Whether a connection with requests side by side should take no more of them.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.get()
    }

    /// Whether its time is over.
    pub(crate) fn is_overdue(&self) -> bool {
        self.overdue.get()
    }

    /// Whether the client ended it within a request.
    pub(crate) fn is_broken_off(&self) -> bool {
        self.broken_off.get()
    }

    pub(crate) fn set_broken_off(&self, broken_off: bool) {
        self.broken_off.set(broken_off);
    }

    /// Whether a head was refused for a bare line feed.
    pub(crate) fn has_bare_line_feed(&self) -> bool {
        self.has_bare_line_feed.get()
    }

    pub(crate) fn set_bare_line_feed(&self) {
        self.has_bare_line_feed.set(true);
    }

    /// From now on no request of it is believed to come through a gateway.
    pub(crate) fn ignore_client_id(&self) {
        self.ignores_client_id.set(true);
    }

    /// The task to wake when its time is over.
    pub(crate) fn wait(&self, context: &Context<'_>) {
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            *waker = Some(context.waker().clone());
        }
    }

    fn sweep(&self, limits: &ConnectionLimits) {
        let short = self.begun.get() || self.leaving.get();
        let limit = if short { limits.head } else { limits.idle };
        let age_max = (limit.as_millis() / SWEEP.as_millis()) as u64 + 1;
        if 0 < self.serving.get() || self.sweeps.get() - self.since.get() <= age_max {
            return;
        }
        if self.shared.get() && !self.leaving.replace(true) {
            self.since.set(self.sweeps.get());
        } else {
            self.overdue.set(true);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Place {
    pub(crate) fn line(&self) -> &Rc<Line> {
        &self.line
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.connections.remove(&self.line);
    }
}

impl Serving {
    /// Whether `X-Client-Id` of the request counts for nothing.
    pub(crate) fn ignores_client_id(&self) -> bool {
        self.0.ignores_client_id.get()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let line = &self.0;
        line.serving.set(line.serving.get() - 1);
        line.begun.set(false);
        line.since.set(line.sweeps.get());
    }
}

/// What is counted as one address: whoever has one of IPv6 has 64 bits of them.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwatched() -> Arc<Stages> {
        Arc::new(Stages::new(1))
    }

    fn limits() -> ConnectionLimits {
        ConnectionLimits { total: 3, per_address: 2, ..ConnectionLimits::default() }
    }

    #[test]
    fn places_are_given_by_address_and_come_back() {
        let connections = Connections::new(limits(), unwatched());
        let at = |text: &str| connections.admit(text.parse().expect("an address"));
        let first = at("10.0.0.1").expect("the first");
        let mapped = at("::ffff:10.0.0.1").expect("the same address, written otherwise");
        assert!(at("10.0.0.1").is_none(), "two from there");
        let other = at("fd00::1").expect("from elsewhere");
        assert!(at("10.0.0.3").is_none(), "three in all");
        drop(first);
        let near = at("fd00::ffff").expect("a place came back");
        assert!(at("fd00::2").is_none());
        drop((mapped, other, near));
        assert_eq!((connections.len(), connections.addresses.borrow().len()), (0, 0));
    }

    #[test]
    fn time_runs_only_while_nothing_is_served() {
        let second = Duration::from_secs(1);
        let limits = ConnectionLimits { head: second, idle: second * 3, ..limits() };
        let connections = Connections::new(limits, unwatched());
        let place = connections.admit(IpAddr::from([10, 0, 0, 1])).expect("a place");
        let line = place.line();
        let pass = |sweeps: usize| (0..sweeps).for_each(|_| connections.sweep());
        pass(12);
        let serving = line.serve();
        pass(100);
        drop(serving);
        pass(12);
        assert!(!line.is_overdue() && !line.is_begun());
        line.hear();
        pass(4);
        line.hear();
        assert!(!line.is_overdue() && line.is_begun());
        pass(2);
        assert!(line.is_overdue());
    }

    #[test]
    fn a_shared_line_is_asked_to_leave_first() {
        let second = Duration::from_secs(1);
        let connections = Connections::new(
            ConnectionLimits { head: second, idle: second, ..limits() },
            unwatched(),
        );
        let place = connections.admit(IpAddr::from([10, 0, 0, 1])).expect("a place");
        let line = place.line();
        line.share();
        (0..6).for_each(|_| connections.sweep());
        assert!(line.is_leaving() && !line.is_overdue());
        (0..6).for_each(|_| connections.sweep());
        assert!(line.is_overdue());
    }
}
