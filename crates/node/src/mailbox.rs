//! What the sequencer's thread posts to an I/O thread.

use ledger::{FinishedDelivery, Notice, NoticeId, Outcome, ParticipantIndex};

use crate::submission::SubmissionRefused;
use crate::sync::{Arc, Mutex, PoisonError};

/// One thing an I/O thread is told.
#[derive(Debug)]
pub enum MailboxEvent<M> {
    /// A waiter's command is durable and applied, or was refused.
    Reply {
        /// The waiter's number.
        waiter: u32,
        /// The outcome.
        result: Result<Outcome, SubmissionRefused>,
    },
    /// A notice is owed. The message it is made from comes along when it was part of the batch;
    /// otherwise it is in the log, at the notice's source.
    Notice {
        /// The notice.
        notice: Notice,
        /// The message it is made from.
        message: Option<Arc<M>>,
    },
    /// A prepare is no longer wanted, unless it was attempted already.
    Withdraw(NoticeId),
    /// The record that these deliveries ended is durable.
    Recorded(Vec<NoticeId>),
    /// The register changed: there is a newer view.
    RegisterChanged,
    /// The record of these deliveries was refused for want of room: to be submitted again.
    DeliveryRecordRefused(Vec<FinishedDelivery>),
    /// Another node has delivered these: what has not begun is dropped.
    DeliveredByOtherNode(Vec<NoticeId>),
    /// These lanes are another node's from now on: what has not begun is dropped.
    LanesLost(Vec<ParticipantIndex>),
    /// These lanes are this node's from now on. What is owed there comes as notices.
    LanesGained(Vec<ParticipantIndex>),
    /// Attempts may begin until then, in microseconds of the node's monotonic clock.
    Lease(u64),
}

/// The way from the sequencer's thread to one I/O thread: a batch of events and one wake-up.
///
/// Bound: what is posted answers work that the bounded inbox let in.
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
