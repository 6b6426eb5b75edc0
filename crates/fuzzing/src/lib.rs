//! Fuzz targets: properties of every parser and of everything that is read back, for any bytes.
//!
//! A target is a function over bytes that returns, or panics with the violated property. The same
//! functions serve two drivers: the test `replay` of this crate, which runs on
//! every build (the seeds and thousands of mutations of them, in seconds), and the programs in
//! `fuzz/`, which cargo-fuzz builds for a search guided by coverage (docs/internals/fuzzing.md).
//!
//! The targets share no code with the code under test if a second implementation was possible:
//! JSON is read by a separate reader ([`bodies`]), forms are compared with the published patterns
//! (`schemas.json`), times with another calendar.
//!
//! Bounds: inputs beyond the limits of the hub itself are skipped.

#![warn(missing_docs)]

pub mod admin;
pub mod amount;
pub mod bodies;
pub mod endpoint;
mod fixture;
pub mod history;
pub mod ilp;
mod json;
pub mod mutation;
mod refusal;
pub mod request;
mod schema;
pub mod side_data;
pub mod signature;
pub mod snapshot;
pub mod stored;

/// One target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Name of the program in `fuzz/fuzz_targets` and of the directory with its seeds.
    pub name: &'static str,
    /// Tries one input.
    pub run: fn(&[u8]),
}

/// Every target, those first whose subjects change least.
pub const TARGETS: [Target; 24] = [
    Target { name: "prepare", run: bodies::prepare },
    Target { name: "fulfil", run: bodies::fulfil },
    Target { name: "error", run: bodies::error },
    Target { name: "quote", run: bodies::quote },
    Target { name: "quote_answer", run: bodies::quote_answer },
    Target { name: "party", run: bodies::party },
    Target { name: "registration", run: bodies::registration },
    Target { name: "update", run: bodies::update },
    Target { name: "batch", run: bodies::batch },
    Target { name: "frame", run: stored::frame },
    Target { name: "command", run: stored::command },
    Target { name: "payload", run: stored::payload },
    Target { name: "bundle", run: side_data::bundle },
    Target { name: "row", run: side_data::row },
    Target { name: "decision", run: side_data::decision_records },
    Target { name: "signature", run: signature::signature },
    Target { name: "canonical", run: signature::canonical },
    Target { name: "endpoint", run: endpoint::endpoint },
    Target { name: "admin", run: admin::admin },
    Target { name: "request", run: request::request },
    Target { name: "snapshot", run: snapshot::snapshot },
    Target { name: "amount", run: amount::amount },
    Target { name: "ilp", run: ilp::ilp },
    Target { name: "history", run: history::history },
];
