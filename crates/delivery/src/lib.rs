//! Decides which callback is sent when. It sends nothing itself.
//!
//! One [`Delivery`] serves one I/O thread and owns the lanes of the participants assigned to it.
//! The driver feeds it owed notices, asks for attempts, performs them and reports the results:
//!
//! ```text
//! enqueue --> waiting --poll--> in flight --finished--> unrecorded --recorded--> forgotten
//!               ^  ^                |  |
//!               |  +- backing off <-+  |   (network, time-out, 3xx, 404, 429, 503, ...)
//!               +------- parked <------+   (no address)
//! ```
//!
//! **Order.** Only per transfer and recipient: an entry waits while an earlier one of the same
//! transfer in the same lane is unfinished. Entries of other transfers overtake it. An entry
//! without a transfer, a response to a registration, waits for none.
//!
//! **Horizon.** An entry is attempted until [`QueuedNotice::until`], with pauses that grow up to
//! [`Policy::backoff_max_micros`]. An entry whose next attempt would come too late ends at once. A
//! waiting entry ends at its time, see [`Delivery::next_lapsed`]. An entry whose message cannot be
//! read is kept until it can.
//!
//! **No address.** An entry whose recipient has registered no address is parked. It has no window
//! slot and no timer, delays no other entry, and counts neither as an attempt nor as a failure of
//! its recipient. [`Delivery::address_changed`] queues it again, before later entries of its
//! transfer.
//!
//! **Window.** Per lane, attempts in flight plus finished deliveries without a durable record never
//! exceed [`Policy::window`]. A crash can repeat at most that many callbacks. Entries that back off
//! have no slot. If missing records hold a lane up, [`Delivery::starved`] is true and the driver
//! forces a record.
//!
//! **Patience.** When many transfers expire together, their notices must not delay those of running
//! transfers. A [`NoticePriority::Patient`] entry is sent when no other can be, and takes at most
//! half of its lane's window. In all lanes together, only [`Policy::patient_max`] of them begin
//! within [`Policy::patient_micros`], unless earlier ones end sooner.
//!
//! **Failing participants.** After failures of [`Policy::probe_after`] different entries, with no
//! success in between, a lane probes: it sends one attempt at a time until one is delivered or
//! finally refused. Then it opens at once. While the recipient is silent, the pauses between probes
//! grow up to [`Policy::probe_max_micros`], and each probe is another entry. While the recipient
//! answers, they are at most [`Policy::backoff_base_micros`], and each refused entry has its own
//! growing pause. So failing entries delay others only briefly, and a server that answers 503 to
//! everything gets a steady trickle. The first new entry after a success need not wait for the next
//! probe. Waiting entries keep their attempt counts, and no other lane is delayed.
//! [`Delivery::pause_asked`] keeps a lane silent for as long as its participant asked.
//!
//! **Bounds.** A lane keeps at most [`Policy::bytes_max`] of messages. Beyond that, an entry is its
//! id alone, about 180 bytes, and its attempt has no message: the driver loads it from the log.
//! Owed notices are never refused. The kernel bounds their number: it refuses prepares for a full
//! lane.
//!
//! **Costs.** Each call takes O(log n) in the number of entries, without amortised peaks: no
//! growing table moves all its entries. Nothing is allocated per entry except tree nodes and a list
//! of failed attempts. Exceptions: a pass over a lane when its address changes or it begins to
//! probe, and many entries whose time is over at once.
//!
//! Time is an argument ([`MonotonicTime`]). The only randomness is the jitter of a generator seeded
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
pub use crate::lane::{DueAction, LaneMode, LaneProgress, LaneState};
pub use crate::notice::{
    Attempt, AttemptResult, DeliveryProgress, DeliveryReport, EndedAttempt, Enqueued,
    NoticePriority, QueuedNotice, Verdict, WaitReason, Withdrawal,
};
pub use crate::policy::{MonotonicTime, Policy};
pub use crate::slab::ENDED_ATTEMPTS_MAX;
