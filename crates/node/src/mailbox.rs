//! Mailboxes: events from the sequencer's thread to an I/O thread.

use ledger::{FinishedDelivery, Notice, NoticeId, Outcome, ParticipantIndex, Stamp};

use crate::submission::SubmissionRefused;
use crate::sync::{Arc, Mutex, PoisonError};

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

/// A queue from the sequencer's thread to one I/O thread: a batch of events and one wake-up.
///
/// Bound: every event results from work that the bounded inbox accepted.
pub struct Mailbox<M> {
    events: Mutex<Vec<MailboxEvent<M>>>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl<M> Mailbox<M> {
    /// A mailbox whose owner is woken by `wake`, which must not block.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self { events: Mutex::new(Vec::new()), wake: Box::new(wake) }
    }

    /// Swaps everything posted into `events`, which must be empty.
    pub fn take(&self, events: &mut Vec<MailboxEvent<M>>) {
        assert!(events.is_empty(), "events are handled before more are taken");
        std::mem::swap(&mut *self.events.lock().unwrap_or_else(PoisonError::into_inner), events);
    }

    /// Posts all of `events` and wakes the owner.
    pub fn post(&self, events: &mut Vec<MailboxEvent<M>>) {
        if events.is_empty() {
            return;
        }
        let mut posted = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        let first = posted.is_empty();
        posted.append(events);
        drop(posted);
        if first {
            (self.wake)();
        }
    }
}
