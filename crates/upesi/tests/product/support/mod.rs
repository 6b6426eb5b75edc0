//! Shared tools of the product tests: the switch as a process, recording participants, and messages
//! on real sockets.

pub(crate) mod clock;
#[cfg(feature = "real-collector")]
pub(crate) mod collector;
pub(crate) mod container;
pub(crate) mod fsp;
pub(crate) mod message;
pub(crate) mod namespaces;
pub(crate) mod port;
#[cfg(feature = "real-prometheus")]
pub(crate) mod prometheus;
#[cfg(feature = "real-receivers")]
pub(crate) mod receivers;
pub(crate) mod relay;
pub(crate) mod scheme;
pub(crate) mod switch;
