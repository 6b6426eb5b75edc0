//! Hand-overs to an I/O thread: events from the sequencer's thread, and work of other I/O threads.

use ledger::{FinishedDelivery, Notice, NoticeId, Outcome, ParticipantIndex, Stamp};

use crate::submission::SubmissionRefused;
use crate::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// When the batch of a command was processed, in nanoseconds of the machine's monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchTimes {
    /// The sequencer began it.
    pub taken_ns: u64,
    /// Its records were durable.
    pub durable_ns: u64,
    /// The kernel had decided.
    pub decided_ns: u64,
}

/// An event for an I/O thread.
#[derive(Debug)]
pub enum MailboxEvent<M> {
    /// The times of the batch whose replies follow; only if [`crate::Handle::report_batch_times`]
    /// was called.
    BatchTimes(BatchTimes),
    /// The command of a pending request is durable and applied, or was refused.
    Reply {
        /// The number of the pending request.
        waiter: u32,
        /// The outcome.
        result: Result<Outcome, SubmissionRefused>,
    },
    /// A notice is owed. Its source message is attached if it was part of the batch; otherwise it
    /// is in the log, at the notice's source.
    Notice {
        /// The notice.
        notice: Notice,
        /// When its transfer was reserved, if this node has just applied the commit that the
        /// notice reports to the payer.
        reserved_at: Option<Stamp>,
        /// The source message.
        message: Option<Arc<M>>,
    },
    /// A prepare is withdrawn, unless it was already attempted.
    Withdraw(NoticeId),
    /// The record of these finished deliveries is durable.
    Recorded(Vec<NoticeId>),
    /// The participants changed: there is a newer view.
    RegistryChanged,
    /// The record of these finished deliveries was refused because the disk or the inbox is full.
    /// The owner submits it again.
    DeliveryRecordRefused(Vec<FinishedDelivery>),
    /// Another node has delivered these notices: attempts that have not begun are dropped.
    DeliveredByOtherNode(Vec<NoticeId>),
    /// Another node serves these lanes from now on: attempts that have not begun are dropped.
    LanesLost(Vec<ParticipantIndex>),
    /// This node serves these lanes from now on. Their owed notices follow as events.
    LanesGained(Vec<ParticipantIndex>),
    /// Attempts may begin until this time, in microseconds of the node's monotonic clock.
    Lease(u64),
}

/// Events from the sequencer's thread to one I/O thread.
///
/// Bound: every event results from work that the bounded inbox accepted.
pub type Mailbox<M> = HandOver<MailboxEvent<M>>;

/// The mailboxes of all I/O threads. A participant's notices go to the mailbox number (participant
/// modulo [`Self::with_lanes`]).
pub struct Mailboxes<M> {
    /// By the thread's number; at least one.
    pub all: Vec<Arc<Mailbox<M>>>,
    /// Number of threads with lanes, which come first.
    pub with_lanes: usize,
}

impl<M> From<Vec<Arc<Mailbox<M>>>> for Mailboxes<M> {
    /// All of these threads have lanes.
    fn from(all: Vec<Arc<Mailbox<M>>>) -> Self {
        Self { with_lanes: all.len(), all }
    }
}

/// A queue to one thread: many items, one wake-up. It has no bound of its own; each use states why
/// its items are bounded.
pub struct HandOver<T> {
    items: Mutex<Vec<T>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<T> HandOver<T> {
    /// A queue whose owner is woken by `wake`, which must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { items: Mutex::new(Vec::new()), wake: Box::new(wake) }
    }

    /// Swaps everything posted into `items`, which must be empty.
    pub fn take(&self, items: &mut Vec<T>) {
        assert!(items.is_empty(), "items are handled before more are taken");
        std::mem::swap(&mut *self.lock(), items);
    }

    /// Posts all of `items` and wakes the owner.
    pub fn post(&self, items: &mut Vec<T>) {
        if !items.is_empty() {
            self.add(|posted| posted.append(items));
        }
    }

    /// Posts one item and wakes the owner.
    pub fn push(&self, item: T) {
        self.add(|posted| posted.push(item));
    }

    fn add(&self, add: impl FnOnce(&mut Vec<T>)) {
        let mut posted = self.lock();
        let first = posted.is_empty();
        add(&mut posted);
        drop(posted);
        if first {
            (self.wake)();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<T>> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
