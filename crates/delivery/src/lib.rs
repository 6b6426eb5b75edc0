//! Decides which callback is sent when. It sends nothing itself.
//!
//! One [`Delivery`] serves one I/O thread and owns the lanes of the participants assigned to it.
//! The driver feeds it notices owed, asks it for attempts, performs them and reports back:
//!
//! ```text
//! enqueue --> waiting --poll--> in flight --finished--> unrecorded --recorded--> forgotten
//!               ^  ^                |  |
//!               |  +- backing off <-+  |   (network, time-out, 3xx, 404, 429, 503, ...)
//!               +------- parked <------+   (no address)
//! ```
//!
//! **Order.** Only per (transfer, recipient): an entry waits while an earlier one of the same
//! transfer in the same lane is unfinished. Entries of other transfers overtake it. An entry about
//! no transfer, an answer to a registration, waits for none.
//!
//! **Horizon.** An entry is tried until [`QueuedNotice::until`], with pauses that grow up to
//! [`Policy::backoff_max_micros`]. One whose next attempt would come too late ends at once. One
//! that only waits ends at its time, see [`Delivery::next_lapsed`]. One whose message cannot be
//! read is kept for as long as that takes.
//!
//! **No address.** An entry for which its recipient registered no address is parked: it holds no
//! window slot, no timer and no other entry, and counts neither as an attempt nor as a failure of
//! its recipient. [`Delivery::address_changed`] lines it up again, before later entries of its
//! transfer.
//!
//! **Window.** Per lane, attempts in flight plus finished deliveries whose record is not yet
//! durable never exceed [`Policy::window`]: that is how many callbacks a crash can repeat.
//! Entries that back off hold no slot. When records are what holds a lane up,
//! [`Delivery::starved`] says so and the driver forces a record.
//!
//! **Patience.** When many transfers expire together, their notices must not stand before those of
//! transfers that go on. A [`NoticePriority::Patient`] entry goes when no other can, takes at most
//! half of its lane's window, and of all lanes together only [`Policy::patient_max`] begin within
//! [`Policy::patient_micros`], unless they end sooner.
//!
//! **Sick participants.** After failures of [`Policy::probe_after`] different entries, with no
//! success in between, a lane sends one attempt at a time until one is taken or refused for good;
//! then it opens at once. While the recipient is silent, attempts are a growing pause apart, of up
//! to [`Policy::probe_max_micros`], each with another entry. While it answers, they are at most
//! [`Policy::backoff_base_micros`] apart, and each entry that it refuses has its own growing pause:
//! so entries that fail hold up those that would not for moments only, and a server that answers
//! 503 to everything gets a steady trickle. The first entry that arrives after a success need not
//! wait for the next probe. Waiting entries keep their attempts meanwhile, and no other lane is
//! delayed. [`Delivery::pause_asked`] keeps a lane quiet for as long as its participant asked.
//!
//! **Bounds.** A lane keeps at most [`Policy::bytes_max`] of messages. Beyond that an entry is
//! its id alone, about 180 bytes, and its attempt carries no message: the driver loads it from
//! the log. A notice owed is never refused; how many there can be is bounded by the kernel, which
//! refuses prepares for a full lane.
//!
//! **Costs.** Each call takes O(log n) in the entries there are, and none more than others: nothing
//! grows by moving all of them. Nothing is allocated per entry beyond the nodes of trees, and a
//! list of failed attempts. The exceptions: a pass over a lane when its address changes or
//! it begins to probe, and the end of many entries whose time is over at one moment.
//!
//! Time is an argument ([`MonotonicTime`]), and the only randomness is the jitter of a generator
//! seeded at construction: equal calls give equal decisions.

#![warn(missing_docs)]

mod delivery;
mod lane;
mod notice;
mod policy;
mod slab;
#[cfg(test)]
mod tests;

pub use crate::delivery::Delivery;
pub use crate::lane::{DueAction, LaneMode, LaneProgress, LaneState};
pub use crate::notice::{
    Attempt, AttemptResult, DeliveryProgress, DeliveryReport, EndedAttempt, Enqueued,
    NoticePriority, QueuedNotice, Verdict, WaitReason, Withdrawal,
};
pub use crate::policy::{MonotonicTime, Policy};
pub use crate::slab::TRIED_MAX;
