//! The admin API over real sockets, with the real kernel as its backend.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails where it stands")]

mod backend;
mod console;
mod document;
mod guard;
mod keys;
mod limits;
mod liquidity;
mod monitoring;
mod onboarding;
mod operating;
mod operators;
mod probes;
mod proposals;
mod server;
mod settlement;
mod validation;
