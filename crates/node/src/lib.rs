//! The sequencer at work.
//!
//! One thread owns the [`sequencer::Sequencer`] and with it the state and the log. Everybody else
//! hands it work through a bounded inbox and hears back through a mailbox:
//!
//! 1. An I/O thread gathers what its ready sockets brought and calls [`Handle::submit`] once.
//! 2. The sequencer's thread takes all that waits, commits it in as few batches as possible, and
//! 3. posts replies, notices and withdrawals to the mailboxes, one lock and one wake-up each.
//! 4. Questions ([`Handle::ask`]) are answered after everything that was in the inbox before
//!    them, so that whoever was told "done" finds it done.
//!
//! The thread sleeps when there is nothing to do, until the earliest deadline. It ends when the
//! log stops or the node is shut down; everything that waits then is refused.
#![warn(missing_docs)]

mod clock;
mod cluster;
mod directory;
mod effects;
mod handle;
mod inbox;
pub mod latency_trace;
mod mailbox;
pub mod outbox;
mod own_log;
mod participants_view;
mod record_reader;
mod runner;
mod shared_log;
mod shared_value;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
pub mod stall;
mod state_hash_check;
mod submission;
mod sync;

pub use clock::SystemClock;
pub use cluster::{Cluster, ClusterLane, ClusterNode, Takeover};
pub use directory::Directory;
pub use handle::{Handle, NodeHealth, NodeStatus};
pub use inbox::InboxLimits;
pub use mailbox::{Mailbox, MailboxEvent};
pub use own_log::{Standalone, start};
pub use participants_view::{ParticipantInfo, ParticipantsView};
pub use record_reader::ReadFailure;
pub use runner::{Node, NodeError, Runner, Turn};
pub use shared_log::{Arrivals, FirstCommands, ReplicatedNode, ReplicatedNodeOptions};
pub use submission::{
    Callback, ReplyTo, Submission, SubmissionContext, SubmissionRefused, unattended,
};
