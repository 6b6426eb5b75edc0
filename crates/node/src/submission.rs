//! Commands on their way to the sequencer, and who is told their outcome.

use std::sync::Arc;

use ledger::{Command, Outcome};
use sequencer::Durability;

/// A command on its way to the sequencer. `M` is what the edge keeps of the message, handed back
/// with every notice that is made from it.
pub type Submission<M> = sequencer::Submission<SubmissionContext<M>>;

/// Data that is returned with a command's outcome.
pub struct SubmissionContext<M> {
    /// Who is told the outcome.
    pub ticket: ReplyTo,
    /// The message, for notices made from it.
    pub message: Option<Arc<M>>,
}

/// A command of the node's own: no one waits for its outcome.
///
/// # Panics
/// When it does not fit a record.
#[must_use]
pub fn unattended<M>(command: Command) -> Submission<M> {
    let attached = SubmissionContext { ticket: ReplyTo::None, message: None };
    let submission = Submission::without_payload(command, Durability::Synced, attached);
    submission.expect("a command of the node's own is short")
}

/// A call with the outcome, from the sequencer's thread; it must not block.
pub type Callback = Box<dyn FnOnce(Result<Outcome, SubmissionRefused>) + Send>;

/// The recipient of a command's outcome.
pub enum ReplyTo {
    /// Nobody.
    None,
    /// A waiter of a mailbox.
    Waiter {
        /// Number of the mailbox.
        mailbox: usize,
        /// The waiter's own number.
        waiter: u32,
    },
    /// The mailbox whose finished deliveries the record holds: told when they are durable.
    Deliveries {
        /// Number of the mailbox.
        mailbox: usize,
    },
    /// A callback.
    Call(Callback),
}

/// Why work was not taken; nothing of it has happened or will happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmissionRefused {
    /// Too much waits already.
    #[error("too much work is waiting; try again")]
    Full,
    /// The log's disk is full.
    #[error("the disk of the log is full")]
    DiskFull,
    /// The brokers of a shared log did not acknowledge it in time: it may be recorded or not, and
    /// the same message again hears which.
    #[error("the brokers of the log did not answer in time")]
    BrokersTimedOut,
    /// More callbacks are owed to the sender than two lanes take: its endpoint takes none.
    #[error("too many callbacks are owed to the sender")]
    SenderBacklogFull,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}
