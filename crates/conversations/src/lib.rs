//! Golden conversations: plain-text files that say what participants and operators send to a hub
//! and what they hear from it, and the runner that plays them against a real hub over sockets.
//!
//! Phases of a run: the files are read (`parse`), the hub is started or found (`hub`), each
//! conversation gets participants of its own with real HTTP servers (`fsp`) and is played step
//! by step (`play`), with its placeholders filled in (`scope`) and what comes back held against
//! what is written (`expect`); at the end the covered rows of the hub's documents are counted
//! (`index`). Conversations share nothing but the hub, so several run at once.
//!
//! Costs: two or three threads and one or two hundred requests per conversation. Bounds: a
//! message of 8 MiB, 256 kept messages per participant, and the patience given for what must
//! come.
#![warn(missing_docs)]

mod defaults;
mod expect;
mod fsp;
mod hub;
mod index;
mod keys;
mod parse;
mod run;
mod runner;
mod unchanged;
mod variables;

pub use run::{Options, Report, Target, run};

/// Why nothing could be played: one clear line for a person.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
