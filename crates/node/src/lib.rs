//! The sequencer's thread and its interface to other threads.
//!
//! One thread owns the [`sequencer::Sequencer`] and with it the state and the log. Other threads
//! submit work through a bounded inbox and receive results through a mailbox:
//!
//! 1. An I/O thread collects the messages of its ready sockets and calls [`Handle::submit`] once.
//! 2. The sequencer's thread takes all waiting commands and commits them in as few batches as
//!    possible.
//! 3. It posts replies, notices and withdrawals to the mailboxes, one lock and one wake-up each.
//! 4. Read requests ([`Handle::ask`]) run after everything that was in the inbox before them, so
//!    that a client sees the effects of every command that was acknowledged before its request.
//!
//! [`Runner`] is the loop of that thread. [`Standalone`] is a runner over a log of its own
//! (`own_log.rs`), [`ReplicatedNode`] one over a log shared by several nodes (`shared_log.rs`).
//!
//! The idle thread sleeps until the earliest deadline. It ends when the log stops or the node is
//! shut down; waiting work is then refused.
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
mod position_jumps;
mod record_reader;
mod runner;
mod shared_log;
mod shared_value;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
mod stage_times;
pub mod stall;
mod state_hash_check;
mod submission;
mod sync;

pub use clock::SystemClock;
pub use cluster::{Cluster, ClusterLane, ClusterNode, Takeover};
pub use directory::Directory;
pub use handle::{Handle, NodeHealth, NodeStatus};
pub use inbox::InboxLimits;
pub use mailbox::{BatchTimes, HandOver, Mailbox, MailboxEvent, Mailboxes};
pub use own_log::{Standalone, start};
pub use participants_view::{ParticipantInfo, ParticipantsView};
pub use record_reader::ReadFailure;
pub use runner::{Node, NodeError, Runner, Turn};
pub use shared_log::{Arrivals, FirstCommands, ReplicatedNode, ReplicatedNodeOptions};
pub use stage_times::{DecisionKind, DecisionTimes, RefusedPrepares, StageTimes};
pub use submission::{
    Callback, ReplyTo, Submission, SubmissionContext, SubmissionRefused, unattended,
};
