//! The scheme adapter: a synchronous API for a DFSP's back end in front of asynchronous FSPIOP.
//!
//! The decisions are in two machines without I/O: [`outbound`] for the payer's side and
//! [`inbound`] for the payee's side. Drivers persist them, carry out their effects and pass events
//! in. A transfer in progress is one task. A stop at any moment loses no payment in flight: the
//! machines continue from the store ([`Adapter::start`]).
//!
//! Bounds: connections per listener, transfers in progress per direction, bodies of 5 MB, and the
//! days for which ended transfers are kept ([`config::LimitsConfig`]).

mod accounts;
mod backend;
mod bulk;
pub mod config;
pub mod conformance;
mod dfsp;
pub mod doctor;
mod forms;
pub mod http_client;
mod http_server;
mod hub;
pub mod ids;
pub mod inbound;
mod inbound_api;
mod inbound_bulk;
mod inbound_flow;
mod monitoring;
mod oauth;
pub mod outbound;
mod outbound_api;
mod outbound_checks;
mod outbound_flow;
pub mod policy;
mod request_to_pay;
pub mod simulator;
mod start;
mod store;
mod tenants;
mod unsupported;
mod waits;

pub use crate::backend::BackendError;
pub use crate::config::AdapterConfig;
pub use crate::start::{Adapter, Addresses, StartError, TlsFiles};
