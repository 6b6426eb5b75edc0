//! Golden conversations: plain-text files with the messages that participants and operators send to
//! a hub and the ones that they expect, and the runner that plays them against a real hub over
//! sockets.
//!
//! Phases of a run: the files are read (`parse`), and the hub is started or found (`hub`). Each
//! conversation gets its own participants with real HTTP servers (`fsp`) and is played step by step
//! (`runner`), with its placeholders filled in (`variables`) and received messages compared with
//! the expected ones (`expect`). At the end the covered rows of the hub's documents are counted
//! (`index`). Conversations share only the hub, so several run at once.
//!
//! Costs: two or three threads and one or two hundred requests per conversation. Bounds: a
//! message of 8 MiB, 256 kept messages per participant, and the configured wait for an
//! expected message.
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

pub use run::{Report, RunOptions, Target, run};

/// Why nothing could be played: one clear line for a person.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Failure(String);

impl Failure {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
