//! Decides which callback is sent when. It sends nothing itself.
//!
//! One [`Delivery`] serves one I/O thread and owns the lanes of the participants assigned to it.
//! The driver feeds it notices owed, asks it for attempts, performs them and reports back:
//!
//! ```text
//! enqueue --> waiting --poll--> in flight --finished--> unrecorded --recorded--> forgotten
//!               ^                   |
//!               +--- backing off <--+   (408, 425, 429, 5xx, time-out, network)
//! ```
//!
//! **Order.** Only per (transfer, recipient): an entry waits while an earlier one of the same
//! transfer in the same lane is unfinished. Entries of other transfers overtake it.
//!
//! **Window.** Per lane, attempts in flight plus finished deliveries whose record is not yet
//! durable never exceed [`Policy::window`]: that is how many callbacks a crash can repeat.
//! Entries that back off hold no slot. When records are what holds a lane up,
//! [`Delivery::starved`] says so and the driver forces a record.
//!
//! **Patience.** When many transfers expire together, their notices must not stand before those of
//! transfers that go on. A [`Purpose::Patient`] entry goes when no other can, takes at most half of
//! its lane's window, and of all lanes together only [`Policy::patient_max`] begin within
//! [`Policy::patient_micros`], unless they end sooner.
//!
//! **Dead participants.** After [`Policy::probe_after`] failures in a row without any HTTP answer
//! a lane sends one attempt per back-off, each with another entry, until an answer comes; then it
//! opens at once. Waiting entries keep their attempts meanwhile, and no other lane is delayed.
//!
//! **Bounds.** A lane keeps at most [`Policy::bytes_max`] of messages. Beyond that an entry is
//! its id alone, about 180 bytes, and its attempt carries no message: the driver loads it from
//! the log. A notice owed is never refused; how many there can be is bounded by the kernel, which
//! refuses prepares for a full lane.
//!
//! **Costs.** Each call takes O(log n) in the entries there are, and none more than others: nothing
//! grows by moving all of them. Nothing is
//! allocated per entry beyond the nodes of trees, and a list of what was tried in vain.
//!
//! Time is an argument ([`Moment`]), and the only randomness is the jitter of a generator seeded
//! at construction: equal calls give equal decisions.

#![warn(missing_docs)]

mod delivery;
mod lane;
mod notice;
mod policy;
mod slab;
#[cfg(test)]
mod tests;

pub use crate::delivery::Delivery;
pub use crate::lane::{Due, LaneMode, LaneState, LaneWork};
pub use crate::notice::{
    Attempt, AttemptResult, Course, Enqueued, Entry, Purpose, Report, Tried, Verdict, Waits,
    Withdrawal,
};
pub use crate::policy::{Moment, Policy};
pub use crate::slab::TRIED_MAX;
