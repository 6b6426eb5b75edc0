//! What one I/O thread owns. Nothing in here is shared with another thread but the handles.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use fspiop::Refusal;
use ledger::{Command, FspName, Notice, Outcome, ParticipantIndex, Stamp, TransferId};
use node::outbox::Outbox;
use node::progress::Stuck;
use node::stages::{self, Moment, What};
use node::{Attached, Handle, Mailbox, Refused, SystemClock, Ticket, View};
use ports::Clock;
use sequencer::{Durability, Submission};
use tokio::sync::{Notify, oneshot};

use crate::address::AddressBook;
use crate::breaker::Breakers;
use crate::connections::Connections;
use crate::counters::{Counter, Counters};
use crate::forward::Forwards;
use crate::inquiry::Inquiries;
use crate::null::{self, Decisions, Null, Passing};
use crate::pool::Pools;
use crate::signatures::KeyBook;
use crate::socket::Room;
use crate::stalled::Published;
use crate::waiters::{Reply, Wait, Waiters};
use crate::{Message, Options};

/// A notice on its way out, with the message it is made from while that is in memory: the first
/// attempt that passes the message on takes it, so that nothing is copied; a later one reads it
/// from the log.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) notice: Notice,
    pub(crate) message: RefCell<Option<Arc<Message>>>,
}

impl Parcel {
    pub(crate) fn new(notice: Notice, message: Option<Arc<Message>>) -> Rc<Self> {
        Rc::new(Self { notice, message: RefCell::new(message) })
    }
}

/// A message as it is recorded.
pub(crate) struct Stored {
    pub(crate) message: Message,
    /// Headers and body in their stored form.
    pub(crate) payload: Vec<u8>,
    /// When it came, if somebody watches.
    pub(crate) arrival: Option<Arrival>,
}

/// When a message came in, by the clock of [`node::stages`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Arrival {
    pub(crate) arrived_ns: u64,
    pub(crate) parsed_ns: u64,
    pub(crate) read_ns: u64,
}

/// What a submitted command waits for; nothing, in a switch that decides nothing.
pub(crate) struct Decision {
    wait: Option<Wait>,
    watched: Option<(TransferId, What)>,
}

impl Decision {
    /// Waits until the command is durable and applied; gives what to mark as answered.
    ///
    /// # Errors
    /// 503 when the node took no more commands.
    pub(crate) async fn made(self, edge: &Edge) -> Result<Option<(TransferId, What)>, Refusal> {
        let Some(wait) = self.wait else { return Ok(None) };
        let reply: Reply = wait.await;
        if let Some((transfer, what)) = self.watched {
            edge.mark(transfer, what, [Moment::Resumed]);
        }
        match reply {
            Ok(outcome) => {
                if outcome == Outcome::SenderNotFound {
                    edge.ignore();
                }
                Ok(self.watched)
            }
            Err(Refused::Owed) => Err(Refusal::owed()),
            Err(Refused::Full | Refused::DiskFull | Refused::Unacknowledged | Refused::Stopped) => {
                Err(Refusal::unavailable())
            }
        }
    }
}

/// What one thread shows to others besides its counters.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    /// How often the loop has turned, as far as the sweep can tell.
    pub(crate) turns: Counter,
    /// Lanes that are stuck.
    pub(crate) stuck: Mutex<Vec<Stuck>>,
    /// Lanes whose participant takes no notice.
    pub(crate) stalled: Published,
    /// What operators want to know of its notices.
    pub(crate) inquiries: Inquiries,
}

/// The state of one I/O thread.
pub(crate) struct Edge {
    pub(crate) number: usize,
    pub(crate) options: Options,
    pub(crate) clock: SystemClock,
    pub(crate) started: Stamp,
    pub(crate) handle: Handle<Message>,
    pub(crate) mailbox: Arc<Mailbox<Message>>,
    pub(crate) mail: Arc<Notify>,
    pub(crate) flush: Notify,
    pub(crate) retry: Notify,
    pub(crate) record: Notify,
    pub(crate) waiters: Rc<Waiters>,
    /// Submissions on their way to the sequencer, and callbacks on their way to participants.
    pub(crate) outbox: RefCell<Outbox<Message, Rc<Parcel>>>,
    /// Other nodes write to the same log, and send callbacks too.
    pub(crate) is_shared: bool,
    pub(crate) pools: Pools,
    pub(crate) addresses: RefCell<AddressBook>,
    pub(crate) keys: KeyBook,
    /// Those of all threads.
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) forwards: RefCell<Forwards>,
    pub(crate) null: Null,
    pub(crate) connections: Rc<Connections>,
    pub(crate) turned_away: Cell<usize>,
    /// Room that clients' sockets are read into.
    pub(crate) room: Rc<Room>,
    /// Bytes of bodies that are not yet whole.
    pub(crate) gathered: Cell<usize>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) shown: Arc<Shown>,
    /// Participants whose address changed and whose lanes have not heard of it.
    pub(crate) moved: RefCell<Vec<ParticipantIndex>>,
    view: RefCell<Arc<View>>,
    generation: Cell<u64>,
    random: Cell<u64>,
}

/// What the thread that starts the others hands to each.
pub(crate) struct Seat {
    pub(crate) number: usize,
    pub(crate) clock: SystemClock,
    pub(crate) started: Stamp,
    pub(crate) mailbox: Arc<Mailbox<Message>>,
    pub(crate) mail: Arc<Notify>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) shown: Arc<Shown>,
    pub(crate) breakers: Arc<Breakers>,
    pub(crate) seed: u64,
}

impl Edge {
    pub(crate) fn new(seat: Seat, handle: Handle<Message>, options: Options) -> Self {
        let mut generation = 0;
        let view = handle.view_since(&mut generation).unwrap_or_else(|| handle.view());
        let place = (seat.number, Arc::clone(&seat.mailbox));
        let policy = (options.policy.clone(), seat.seed);
        let outbox = Outbox::new(place, handle.first_lease_us(), policy);
        Self {
            number: seat.number,
            clock: seat.clock,
            started: seat.started,
            mailbox: seat.mailbox,
            mail: seat.mail,
            flush: Notify::new(),
            retry: Notify::new(),
            record: Notify::new(),
            waiters: Rc::new(Waiters::default()),
            outbox: RefCell::new(outbox),
            is_shared: handle.first_lease_us() != u64::MAX,
            pools: Pools::new(
                &options,
                Arc::clone(&seat.counters),
                Arc::clone(&seat.breakers),
                Arc::clone(handle.stages()),
            ),
            addresses: RefCell::new(AddressBook::default()),
            keys: KeyBook::default(),
            breakers: seat.breakers,
            forwards: RefCell::default(),
            null: Null::default(),
            connections: Connections::new(options.connections, Arc::clone(handle.stages())),
            turned_away: Cell::new(0),
            room: Rc::default(),
            gathered: Cell::new(0),
            counters: seat.counters,
            shown: seat.shown,
            moved: RefCell::default(),
            view: RefCell::new(view),
            generation: Cell::new(generation),
            random: Cell::new(seat.seed),
            handle,
            options,
        }
    }

    /// The register as of the last change.
    pub(crate) fn view(&self) -> Arc<View> {
        let mut generation = self.generation.get();
        if let Some(view) = self.handle.view_since(&mut generation) {
            self.generation.set(generation);
            let earlier = self.view.replace(Arc::clone(&view));
            self.moved.borrow_mut().extend(view.moved_since(&earlier));
            self.retry.notify_one();
            self.addresses.borrow_mut().clear();
        }
        Arc::clone(&self.view.borrow())
    }

    /// Rises whenever [`Edge::view`] finds another register.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.get()
    }

    /// The participant, not the hub, that a message names as its sender. The register is as new as
    /// any answer of this node's admin API, and as [`Edge::catch_up`] made it.
    pub(crate) fn sender(&self, source: &FspName) -> Option<ParticipantIndex> {
        self.view().sender(source).map(|member| member.index)
    }

    /// Whether a sender may be one that only other nodes of a shared log know.
    pub(crate) fn may_lag_for(&self, source: &FspName) -> bool {
        self.is_shared && self.sender(source).is_none()
    }

    /// Waits until this node has applied all that the log held when it was called, with the
    /// register: only then is a sender unknown.
    ///
    /// # Errors
    /// 503 when the end of the log cannot be had.
    pub(crate) async fn catch_up(&self) -> Result<(), Refusal> {
        let (answer, answered) = oneshot::channel();
        let asked = self.handle.ask(move |_| {
            // The request may have ended.
            let _sent = answer.send(());
        });
        asked.map_err(|_| Refusal::unavailable())?;
        answered.await.map_err(|_| Refusal::unavailable())
    }

    /// A message of an unknown sender changes nothing: it is counted, and answered as any other.
    pub(crate) fn ignore(&self) {
        self.counters.unknown_senders.add(1);
    }

    /// Submits a command; the decision is made when it is durable and applied.
    ///
    /// # Errors
    /// 413 for a message too large for a record.
    pub(crate) fn submit(&self, command: Command, stored: Stored) -> Result<Decision, Refusal> {
        let Stored { message, payload, arrival } = stored;
        let watched = arrival.and_then(|arrival| self.mark_submitted(&command, arrival));
        if self.options.decisions == Decisions::Null
            && let Some(passing) = Passing::of(&command)
        {
            null::owe(self, &passing, message);
            return Ok(Decision { wait: None, watched: None });
        }
        let wait = self.waiters.wait();
        let record =
            sequencer::encode(&command, Some(&payload)).map_err(|_| Refusal::too_large())?;
        let ticket = Ticket::Waiter { mailbox: self.number, waiter: wait.number() };
        let attached = Attached { ticket, message: Some(Arc::new(message)) };
        let durability = Durability::Synced;
        let submission = Submission { command, record, durability, attached };
        self.outbox.borrow_mut().submit(submission);
        self.flush.notify_one();
        Ok(Decision { wait: Some(wait), watched })
    }

    /// Somebody watches: notes how a message came in.
    fn mark_submitted(&self, command: &Command, arrival: Arrival) -> Option<(TransferId, What)> {
        let (transfer, what) = stages::inbound_of(command)?;
        let moments = [
            (Moment::Arrived, arrival.arrived_ns),
            (Moment::Parsed, arrival.parsed_ns),
            (Moment::Read, arrival.read_ns),
            (Moment::Submitted, stages::monotonic_ns()),
        ];
        self.handle.stages().mark(self.number + 1, transfer, what, moments);
        Some((transfer, what))
    }

    /// Notes moments that are now, if somebody watches.
    pub(crate) fn mark<const N: usize>(
        &self,
        transfer: TransferId,
        what: What,
        moments: [Moment; N],
    ) {
        let stages = self.handle.stages();
        if let Some(now) = stages.now_ns() {
            stages.mark(self.number + 1, transfer, what, moments.map(|moment| (moment, now)));
        }
    }

    /// Whether an attempt may begin now: on a shared log only within the lease.
    pub(crate) fn may_send(&self) -> bool {
        self.outbox.borrow().may_send(self.clock.now())
    }

    /// Monotonic time, for the delivery policy.
    pub(crate) fn moment(&self) -> delivery::Moment {
        delivery::Moment(self.clock.now().monotonic_us)
    }

    /// Milliseconds since the epoch, by the wall clock.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.clock.now().wall.millis()
    }

    /// A number for a span or a trace: unlike any other, not secret (splitmix64).
    pub(crate) fn unique(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
