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
mod comparing;
mod directory;
mod handle;
#[cfg(all(test, feature = "shuttle"))]
mod handovers;
mod inbox;
mod mailbox;
pub mod outbox;
mod posting;
pub mod progress;
mod published;
mod reading;
mod replicated;
mod run;
mod runner;
pub mod stages;
mod submission;
mod sync;
mod view;

pub use clock::SystemClock;
pub use cluster::{Cluster, ClusterLane, ClusterNode, Takeover};
pub use directory::Directory;
pub use handle::{Condition, Handle, Status};
pub use inbox::InboxLimits;
pub use mailbox::{Event, Mailbox};
pub use reading::Unread;
pub use replicated::{Arrivals, Begin, Driven, Hooks};
pub use run::{Standalone, start};
pub use runner::{Node, NodeError, Runner, Turn};
pub use submission::{Attached, Callback, Refused, Submission, Ticket, unattended};
pub use view::{Member, View};
