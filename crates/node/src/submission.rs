//! Commands submitted to the sequencer, and the recipients of their outcomes.

use std::sync::Arc;

use ledger::{ChangeReply, Command};
use sequencer::Durability;

/// A command submitted to the sequencer. `M` is the edge's form of the message. It is returned with
/// every notice that is made from it.
pub type Submission<M> = sequencer::Submission<SubmissionContext<M>>;

/// Data that is returned with a command's outcome.
pub struct SubmissionContext<M> {
    /// The recipient of the outcome.
    pub ticket: ReplyTo,
    /// The message, for notices made from it.
    pub message: Option<Arc<M>>,
}

/// A command of the node itself, without a recipient of its outcome.
///
/// # Panics
/// When it does not fit a record.
#[must_use]
pub fn unattended<M>(command: Command) -> Submission<M> {
    let attached = SubmissionContext { ticket: ReplyTo::None, message: None };
    let submission = Submission::without_payload(command, Durability::Synced, attached);
    submission.expect("a command of the node's own is short")
}

/// A call with the decision, from the sequencer's thread; it must not block.
pub type Callback = Box<dyn FnOnce(Result<ChangeReply, SubmissionRefused>) + Send>;

/// The recipient of a command's outcome.
pub enum ReplyTo {
    /// No recipient.
    None,
    /// A pending request of a mailbox's owner.
    Waiter {
        /// Number of the mailbox.
        mailbox: usize,
        /// The number of the pending request.
        waiter: u32,
    },
    /// The mailbox whose finished deliveries the record contains. It is notified when they are
    /// durable.
    Deliveries {
        /// Number of the mailbox.
        mailbox: usize,
    },
    /// A callback.
    Call(Callback),
}

/// The reason why work was refused. Except for [`SubmissionRefused::BrokersTimedOut`], it has no
/// effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionRefused {
    /// The queue is full.
    #[error("too much work is waiting; try again")]
    Full,
    /// The log's disk is full.
    #[error("the disk of the log is full")]
    DiskFull,
    /// The brokers of a shared log did not acknowledge it in time. It may be recorded or not; a
    /// resend of the same message gets the result.
    #[error("the brokers of the log did not answer in time")]
    BrokersTimedOut,
    /// More callbacks are owed to the sender than fit two lanes: its endpoint accepts none.
    #[error("too many callbacks are owed to the sender")]
    SenderBacklogFull,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}
