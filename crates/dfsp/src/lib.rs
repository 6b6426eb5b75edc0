//! The DFSP side of the scheme: simulated participants that use FSPIOP with any hub.
//!
//! A [`Simulator`] is one FSP. As payee it answers look-ups, quotes and transfers. As payer it runs
//! whole transactions (look-up, quote, transfer) as a small state machine keyed by the transfer's
//! id, so that a transaction in flight is a table row and not a task. It counts its observations,
//! each notice once, and derives the position that the hub should show.
//!
//! Everything runs on one thread inside a `tokio` `LocalRuntime`; nothing here is `Send`. Low cost
//! is essential, because a demonstration shares two cores with the hub: HTTP/1.1 is parsed in place
//! ([`http1`]), a message is one buffer and one write ([`connections`]), callbacks are handled
//! inside the connection's own task, and there is no log line, timer or task per message.
//!
//! Bounds: connections and queued messages per simulator ([`connections::ConnectionOptions`]),
//! transfers remembered for idempotence ([`observations`]), heads of 64 KB and bodies of 5 MB.

pub mod behaviour;
mod clock;
pub mod connections;
pub mod forwarder;
pub mod http1;
mod ids;
mod message;
pub mod message_pairs;
pub mod observations;
mod payer;
mod quote_terms;
mod received_bodies;
pub mod security;
mod simulator;
mod socket_options;
mod wire;

pub use crate::behaviour::{Behaviour, BehaviourError, Leg};
pub use crate::message::Bodies;
pub use crate::message_pairs::{MessagePair, PairWriter};
pub use crate::observations::{Contradictions, Counts, Observations, Sum};
pub use crate::payer::{Cause, End, Outcome, Payment, PaymentFlow};
pub use crate::simulator::{
    ACKNOWLEDGED_MAX, Acknowledged, Expiry, PaymentMessage, RegistrationError, Simulator,
    SimulatorOptions, StartError, Style, Subscribers, Version, endpoints,
};
pub use crate::socket_options::tune;
