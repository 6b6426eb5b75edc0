//! Real Kafka brokers on this machine, for tests and demonstrations.
//!
//! - [`install`]: Kafka's own Maven packages, resolved by Maven into a cache directory, once.
//! - [`Cluster`]: one to nine brokers on free ports of 127.0.0.1, each with a directory and a
//!   small heap of its own, which can be stopped, killed, paused and started again one by one.
//! - [`Cluster::detach`] and [`stop`]: a cluster that outlives the program that started it.
//!
//! Nothing here is for money: all brokers share one machine, and what they hold is deleted with
//! them. Starting a broker costs about four seconds of processor time and 350 MB of memory.
#![warn(missing_docs)]

mod cluster;
mod install;
mod layout;
mod process;

use std::path::PathBuf;

pub use cluster::{BROKERS_MAX, Cluster, Options, Secure, is_running, stop};
pub use install::{Installation, KAFKA_VERSION, default_cache, install};

/// Why there are no brokers.
#[derive(Debug, thiserror::Error)]
pub enum BrokersError {
    /// A program is missing.
    #[error("cannot run `{program}`: {error}; {mend}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// What the operating system says.
        error: std::io::Error,
        /// What to do.
        mend: &'static str,
    },
    /// A program ended badly.
    #[error("{what} failed; the end of what it said:\n{output}")]
    Failed {
        /// What was tried.
        what: String,
        /// Its last lines.
        output: String,
    },
    /// A broker was not ready in time.
    #[error("broker {number} was not ready within {seconds} s; the end of its log:\n{output}")]
    Late {
        /// Which one.
        number: u32,
        /// How long it was waited for.
        seconds: u64,
        /// Its last lines.
        output: String,
    },
    /// A file or directory cannot be used.
    #[error("{}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What the operating system says.
        error: std::io::Error,
    },
    /// The request makes no sense.
    #[error("{0}")]
    Refused(String),
}

impl BrokersError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |error| Self::File { path, error }
    }
}
