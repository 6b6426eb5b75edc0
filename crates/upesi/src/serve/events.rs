//! The hub's events, for `GET /events` and for the publisher.
//!
//! The events of the past are not stored. A reader decides the durable log again on a state of its
//! own, from the newest snapshot before the wanted position, and an [`events::EventRecorder`]
//! observes it. The sequencer knows nothing of readers and never waits for one.
//!
//! Costs of a reader: the memory of a state, and the decisions of the kernel once more, on its own
//! thread. Without a reader nothing is decided again. Final transfers are read from the cold store
//! of the switch.

mod pages;
mod replay;

pub(crate) use self::pages::EventPages;
pub(crate) use self::replay::EventSource;
