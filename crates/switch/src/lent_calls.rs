//! Work that a busy I/O thread lends to a helper thread: attempts to deliver notices, forwarded
//! messages, and new connections.
//!
//! One thread fills a core before the machine is full. A *helper thread* is an I/O thread without a
//! listener and without lanes. While the I/O thread that it belongs to is busy, it gets a part of
//! the calls, and connections; the delivery policy and the lanes stay where they are. Below that
//! load all work is done by as few threads as possible, so that batches are large and threads are
//! woken rarely.
//!
//! **Load.** The part of the time in which a thread was not asleep, of each [`WINDOW_NS`]. A
//! thread is busy if that is nearly all of it, and at least [`IN_FLIGHT_MIN`] messages were in
//! flight at once: they waited for the sequencer, or were being forwarded. The part of the calls
//! that is lent follows the loads of both threads. Connections follow it too: while the I/O
//! thread is the busier one, new connections go to the helper thread, and some responses close
//! theirs, so that the client opens another. The helper thread does the same when it is the
//! busier one, or no longer needed.
//!
//! **Costs.** A lent call costs an entry in a queue, and one in the queue back.
//!
//! **Bound.** Both queues hold calls in flight, which the windows of the lanes and the slots of
//! forwarded messages bound; at most [`CONNECTIONS_LENT_MAX`] connections wait for the helper
//! thread.

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use delivery::{Attempt, AttemptResult};
use ledger::{NoticeId, ParticipantIndex};
use node::HandOver;
use node::latency_trace::monotonic_ns;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc};

use crate::counters::Counters;
use crate::destination::ForwardCall;
use crate::failure::SendError;
use crate::message::{LentNotice, OutgoingNotice};
use crate::pending_requests::{PendingReplies, Wait};
use crate::pool::PeerResponse;
use crate::thread::Thread;

/// Time between two measurements of a thread's load.
const WINDOW_NS: u64 = 50_000_000;
/// Difference of the two loads that changes the part of the calls, in thousandths.
const UNEVEN: u32 = 60;
/// Difference of the two loads that moves connections: larger, because clients must open others.
const VERY_UNEVEN: u32 = 250;
/// The part of the calls is counted in these.
const PARTS: u32 = 16;
/// Messages in flight from which a second thread saves time. With fewer, batches are so small that
/// dividing them costs more.
const IN_FLIGHT_MIN: usize = 96;
/// One in this number of connections is moved after a measurement.
const MOVED: usize = 8;
/// Maximum number of connections that wait for a helper thread.
const CONNECTIONS_LENT_MAX: usize = 1_024;

/// A call of another thread.
pub(crate) struct LentCall {
    /// The number of that thread.
    pub(crate) owner: usize,
    pub(crate) call: Call,
}

/// A call that may be lent.
pub(crate) enum Call {
    Attempt(Attempt<LentNotice>),
    Forward {
        call: Box<ForwardCall>,
        /// The slot of the reply.
        waiter: u32,
    },
}

/// The end of a lent call.
pub(crate) enum EndedCall {
    Attempt(AttemptEnd),
    Forward { waiter: u32, result: ForwardResult },
}

/// The result of a forwarded message.
type ForwardResult = Result<PeerResponse, SendError>;

/// The end of an attempt.
pub(crate) struct AttemptEnd {
    pub(crate) notice: NoticeId,
    pub(crate) recipient: ParticipantIndex,
    pub(crate) result: AttemptResult,
    /// The pause that the recipient asked for.
    pub(crate) pause_micros: Option<u64>,
}

/// The helper threads, and when they are used.
#[derive(Clone, Copy, Debug)]
pub struct HelperThreads {
    /// Number of these threads.
    pub count: usize,
    /// Load of an I/O thread from which it lends work, in percent; 0 means always.
    pub busy_percent: u32,
}

/// A connection that was accepted by another thread.
pub(crate) type LentConnection = (std::net::TcpStream, IpAddr);

/// The queues to all threads.
pub(crate) struct LentQueues {
    threads: Box<[ThreadQueues]>,
    /// The first ones have listeners and lanes, the others are helper threads.
    with_lanes: usize,
    busy: BusyLoad,
    /// Threads with lanes that have not ended.
    running: AtomicUsize,
}

/// The queues to one thread, and its state.
struct ThreadQueues {
    calls: HandOver<LentCall>,
    ends: HandOver<EndedCall>,
    connections: mpsc::Sender<LentConnection>,
    /// The part of the time in which it was not asleep, in thousandths.
    load: AtomicU32,
    /// The most messages in flight in the last window.
    in_flight: AtomicUsize,
    /// Whether it lends work.
    is_lending: AtomicBool,
}

impl LentQueues {
    /// To the threads that these wake: the first `with_lanes` of them, then the helper threads.
    /// With the connections that each gets.
    pub(crate) fn new(
        mail: &[Arc<Notify>],
        with_lanes: usize,
        busy_percent: u32,
    ) -> (Arc<Self>, Vec<mpsc::Receiver<LentConnection>>) {
        let (threads, connections): (Vec<_>, _) = mail.iter().map(ThreadQueues::new).unzip();
        let (busy, running) = (BusyLoad(busy_percent * 10), AtomicUsize::new(with_lanes));
        (Arc::new(Self { threads: threads.into(), with_lanes, busy, running }), connections)
    }
}

impl ThreadQueues {
    /// Calls and their ends wake the thread by `mail`.
    fn new(mail: &Arc<Notify>) -> (Self, mpsc::Receiver<LentConnection>) {
        let waking = || {
            let mail = Arc::clone(mail);
            move || mail.notify_one()
        };
        let (calls, ends) = (HandOver::new(waking()), HandOver::new(waking()));
        let (connections, receiver) = mpsc::channel(CONNECTIONS_LENT_MAX);
        let (load, in_flight) = (AtomicU32::default(), AtomicUsize::default());
        let is_lending = AtomicBool::default();
        (Self { calls, ends, connections, load, in_flight, is_lending }, receiver)
    }
}

/// The work that one thread lends, or that others lend to it.
pub(crate) struct LentCalls {
    number: usize,
    /// The helper thread of this thread; `None` if it has none, or is one.
    helper: Option<usize>,
    queues: Arc<LentQueues>,
    counters: Arc<Counters>,
    meter: Arc<LoadMeter>,
    /// The part of calls that is lent, of [`PARTS`].
    part: Cell<u32>,
    /// Counts calls, to lend the same part of each [`PARTS`] of them.
    next: Cell<u32>,
    /// The most messages in flight in this window.
    most_in_flight: Cell<usize>,
    /// Connections to close with their next response.
    to_close: Cell<usize>,
    /// Forwarded messages that another thread sends.
    forwards: Rc<PendingReplies<ForwardResult>>,
    received: RefCell<Vec<LentCall>>,
    ended: RefCell<Vec<EndedCall>>,
}

impl LentCalls {
    /// Of this thread, whose load `meter` measures.
    pub(crate) fn new(thread: &Thread, queues: &Arc<LentQueues>, meter: &Arc<LoadMeter>) -> Self {
        let LentQueues { threads, with_lanes, .. } = &**queues;
        let helpers = threads.len() - with_lanes;
        let has_helper = thread.number < *with_lanes && 0 < helpers;
        Self {
            number: thread.number,
            helper: has_helper.then(|| with_lanes + thread.number % helpers),
            queues: Arc::clone(queues),
            counters: Arc::clone(&thread.counters),
            meter: Arc::clone(meter),
            part: Cell::new(queues.busy.first_part()),
            next: Cell::default(),
            most_in_flight: Cell::default(),
            to_close: Cell::default(),
            forwards: Rc::default(),
            received: RefCell::default(),
            ended: RefCell::default(),
        }
    }

    /// Notes the number of messages in flight: once per batch, when it is largest.
    pub(crate) fn note_in_flight(&self, messages: usize) {
        self.most_in_flight.set(self.most_in_flight.get().max(messages));
    }

    /// Measures the load of this thread if that is due, and moves work accordingly. It has this
    /// number of connections from clients.
    pub(crate) fn measure(&self, connections: usize) {
        let Some(load) = self.meter.read() else { return };
        let own = &self.queues.threads[self.number];
        own.load.store(load, Ordering::Relaxed);
        own.in_flight.store(self.most_in_flight.take(), Ordering::Relaxed);
        let moves = match self.helper {
            Some(helper) => {
                let both = Both::of(own, &self.queues.threads[helper]);
                self.part.set(self.queues.busy.part_after(self.part.get(), &both));
                own.is_lending.store(0 < self.part.get(), Ordering::Relaxed);
                0 < self.part.get() && both.moves_connections()
            }
            None => self.returns_connections(),
        };
        self.to_close.set(if moves { connections.div_ceil(MOVED) } else { 0 });
    }

    /// Whether this is the last thread with lanes.
    pub(crate) fn is_last_with_lanes(&self) -> bool {
        self.number + 1 == self.queues.with_lanes
    }

    fn is_helper(&self) -> bool {
        self.queues.with_lanes <= self.number
    }

    /// Whether this is a helper thread that no thread lends work to, or that is busier than one
    /// that does.
    fn returns_connections(&self) -> bool {
        let LentQueues { threads, with_lanes, .. } = &*self.queues;
        let Some(first) = self.number.checked_sub(*with_lanes) else { return false };
        let owners = threads[..*with_lanes].iter().skip(first).step_by(threads.len() - with_lanes);
        let mut lending =
            owners.filter(|owner| owner.is_lending.load(Ordering::Relaxed)).peekable();
        let own = &threads[self.number];
        lending.peek().is_none() || lending.any(|owner| Both::of(own, owner).moves_connections())
    }

    /// Whether a response closes its connection, so that the client opens one at another thread.
    pub(crate) fn closes_connection(&self) -> bool {
        let left = self.to_close.get();
        self.to_close.set(left.saturating_sub(1));
        0 < left
    }

    /// Lends a new connection, or returns it if this thread serves it.
    pub(crate) fn lend_connection(&self, stream: TcpStream, from: IpAddr) -> Option<TcpStream> {
        let Some(helper) = self.helper.filter(|_| 0 < self.part.get()) else { return Some(stream) };
        let [own, helper] = [self.number, helper].map(|number| &self.queues.threads[number]);
        if own.load.load(Ordering::Relaxed) < helper.load.load(Ordering::Relaxed) {
            return Some(stream);
        }
        let Ok(place) = helper.connections.try_reserve() else { return Some(stream) };
        // A socket that cannot be moved is closed.
        if let Ok(stream) = stream.into_std() {
            place.send((stream, from));
        }
        None
    }

    /// Lends an attempt, or returns it if this thread makes it.
    pub(crate) fn lend_attempt(
        &self,
        attempt: Attempt<Rc<OutgoingNotice>>,
    ) -> Result<(), Attempt<Rc<OutgoingNotice>>> {
        let Some(helper) = self.next_helper() else { return Err(attempt) };
        let attempt = attempt.map(|outgoing| outgoing.for_another_thread());
        self.lend(helper, Call::Attempt(attempt));
        Ok(())
    }

    /// Lends a forwarded message, or returns it if this thread sends it.
    pub(crate) fn lend_forward(
        &self,
        call: Box<ForwardCall>,
    ) -> Result<Wait<ForwardResult>, Box<ForwardCall>> {
        let Some(helper) = self.next_helper() else { return Err(call) };
        let wait = self.forwards.wait();
        self.lend(helper, Call::Forward { call, waiter: wait.number() });
        Ok(wait)
    }

    fn lend(&self, helper: &ThreadQueues, call: Call) {
        self.counters.calls_lent.add(1);
        helper.calls.push(LentCall { owner: self.number, call });
    }

    /// The queues of the helper thread, if the next call is lent.
    fn next_helper(&self) -> Option<&ThreadQueues> {
        let helper = self.helper.filter(|_| self.is_next_lent())?;
        Some(&self.queues.threads[helper])
    }

    fn is_next_lent(&self) -> bool {
        let part = self.part.get();
        if part == 0 {
            return false;
        }
        let next = (self.next.get() + 1) % PARTS;
        self.next.set(next);
        next < part
    }

    /// Calls `begin` for each call that was lent to this thread.
    pub(crate) fn receive(&self, begin: impl FnMut(LentCall)) {
        let mut received = self.received.borrow_mut();
        self.queues.threads[self.number].calls.take(&mut received);
        received.drain(..).for_each(begin);
    }

    /// Returns the end of a call to the thread that lent it.
    pub(crate) fn give_back(&self, owner: usize, end: EndedCall) {
        self.queues.threads[owner].ends.push(end);
    }

    /// Takes the ends of calls that this thread has lent; calls `end` for each attempt.
    pub(crate) fn take_ended(&self, mut end: impl FnMut(AttemptEnd)) {
        let mut ended = self.ended.borrow_mut();
        self.queues.threads[self.number].ends.take(&mut ended);
        ended.drain(..).for_each(|call| match call {
            EndedCall::Attempt(attempt) => end(attempt),
            EndedCall::Forward { waiter, result } => self.forwards.answer(waiter, result),
        });
    }

    /// This thread lends nothing from now on.
    pub(crate) fn end(&self) {
        if !self.is_helper() {
            self.queues.running.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Whether this is a helper thread, and another thread has not ended.
    pub(crate) fn is_needed(&self) -> bool {
        self.is_helper() && 0 < self.queues.running.load(Ordering::Acquire)
    }
}

/// The loads of two threads, in thousandths, and the messages in flight there.
struct Both {
    own: u32,
    of_other: u32,
    in_flight: usize,
}

impl Both {
    fn of(thread: &ThreadQueues, other: &ThreadQueues) -> Self {
        let [own, of_other] = [thread, other].map(|one| one.load.load(Ordering::Relaxed));
        let in_flight = [thread, other].map(|one| one.in_flight.load(Ordering::Relaxed));
        Self { own, of_other, in_flight: in_flight.iter().sum() }
    }

    fn is_own_larger(&self) -> bool {
        self.of_other + UNEVEN < self.own
    }

    /// Whether connections of the first thread move to the other one.
    fn moves_connections(&self) -> bool {
        self.of_other + VERY_UNEVEN < self.own && IN_FLIGHT_MIN <= self.in_flight
    }

    fn is_own_smaller(&self) -> bool {
        self.own + UNEVEN < self.of_other
    }
}

/// Load of a thread from which it lends work, in thousandths.
#[derive(Clone, Copy, Debug)]
struct BusyLoad(u32);

impl BusyLoad {
    /// The part to lend before the first measurement.
    fn first_part(self) -> u32 {
        if self.0 == 0 { PARTS / 2 } else { 0 }
    }

    /// The part to lend after a measurement.
    fn part_after(self, part: u32, both: &Both) -> u32 {
        if self.0 == 0 {
            return self.first_part();
        }
        // Less than this, and one of both threads can do all of it.
        let light = self.0 / 8 * 7;
        match part {
            0 if both.own < self.0 || both.in_flight < IN_FLIGHT_MIN => 0,
            0 => PARTS / 2,
            _ if both.own + both.of_other < light || both.in_flight < IN_FLIGHT_MIN / 2 => 0,
            _ if both.is_own_smaller() => (part - 1).max(1),
            _ if both.is_own_larger() => (part + 1).min(PARTS),
            _ => part,
        }
    }
}

/// Measures the load of a thread: the time in which it is not asleep.
#[derive(Debug, Default)]
pub(crate) struct LoadMeter {
    /// When the last window ended, and when the thread fell asleep last, in nanoseconds.
    since: AtomicU64,
    asleep_at: AtomicU64,
    /// Time asleep since the last window ended.
    asleep: AtomicU64,
}

impl LoadMeter {
    /// The thread falls asleep.
    pub(crate) fn sleep(&self) {
        self.asleep_at.store(monotonic_ns(), Ordering::Relaxed);
    }

    /// The thread has woken.
    pub(crate) fn wake(&self) {
        let slept = monotonic_ns().saturating_sub(self.asleep_at.load(Ordering::Relaxed));
        self.asleep.store(self.asleep.load(Ordering::Relaxed) + slept, Ordering::Relaxed);
    }

    /// The load since the last measurement, in thousandths; `None` until a window ends. Called by
    /// the thread itself.
    fn read(&self) -> Option<u32> {
        let now = monotonic_ns();
        let passed = now.saturating_sub(self.since.load(Ordering::Relaxed));
        if passed < WINDOW_NS {
            return None;
        }
        self.since.store(now, Ordering::Relaxed);
        let awake = passed.saturating_sub(self.asleep.swap(0, Ordering::Relaxed));
        u32::try_from(awake * 1_000 / passed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_grows_while_the_own_load_is_larger_and_ends_when_one_thread_is_enough() {
        let cases = [
            // part, own load, that of the helper thread, in flight, part after
            (0, 799, 0, 200, 0),
            (0, 800, 0, 200, 8),
            (0, 999, 0, 95, 0),
            (8, 800, 500, 200, 9),
            (16, 800, 500, 200, 16),
            (8, 600, 640, 200, 8),
            (8, 500, 700, 200, 7),
            (1, 500, 700, 200, 1),
            (8, 400, 299, 200, 0),
            (8, 400, 350, 200, 8),
            (8, 999, 999, 47, 0),
        ];
        for (part, own, of_other, in_flight, after) in cases {
            let both = Both { own, of_other, in_flight };
            assert_eq!(BusyLoad(800).part_after(part, &both), after, "{part} {own} {of_other}");
        }
    }

    #[test]
    fn connections_move_at_a_large_difference_while_much_is_in_flight() {
        for (own, of_other, in_flight, moves) in
            [(900, 649, 96, true), (900, 650, 96, false), (900, 0, 95, false), (0, 900, 99, false)]
        {
            let both = Both { own, of_other, in_flight };
            assert_eq!(both.moves_connections(), moves, "{own} {of_other}");
        }
    }

    #[test]
    fn a_limit_of_0_lends_half_always() {
        let both = Both { own: 0, of_other: 0, in_flight: 0 };
        assert_eq!(BusyLoad(0).part_after(0, &both), PARTS / 2);
    }
}
