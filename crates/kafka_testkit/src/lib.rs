//! Real Kafka brokers on this machine, for tests and demonstrations.
//!
//! - [`install`]: Kafka's own Maven packages, resolved by Maven into a cache directory, once.
//! - [`Cluster`]: one to nine brokers on free ports of 127.0.0.1, each with its own directory and a
//!   small heap. They can be stopped, killed, suspended and restarted individually.
//! - [`Cluster::detach`] and [`stop`]: a cluster that outlives the program that started it.
//!
//! Not for production: all brokers share one machine, and their data is deleted with them. Starting
//! a broker costs about 4 s of CPU time and 350 MB of memory.
#![warn(missing_docs)]

mod cluster;
mod install;
mod layout;
mod process;

use std::path::PathBuf;

pub use cluster::{BROKERS_MAX, Cluster, ClusterOptions, Secure, is_running, stop};
pub use install::{Installation, KAFKA_VERSION, default_cache, install};

/// Why there are no brokers.
#[derive(Debug, thiserror::Error)]
pub enum BrokersError {
    /// A required program is missing.
    #[error("cannot run `{program}`: {error}; {mend}")]
    Missing {
        /// Its name.
        program: &'static str,
        /// The operating system's error.
        error: std::io::Error,
        /// Advice to the user.
        mend: &'static str,
    },
    /// A program failed.
    #[error("{what} failed; the end of its output:\n{output}")]
    Failed {
        /// The attempted operation.
        what: String,
        /// Its last lines.
        output: String,
    },
    /// A broker was not ready in time.
    #[error("broker {number} was not ready within {seconds} s; the end of its log:\n{output}")]
    Late {
        /// Which one.
        number: u32,
        /// How long it was awaited.
        seconds: u64,
        /// Its last lines.
        output: String,
    },
    /// A file or directory cannot be used.
    #[error("{}: {error}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// The operating system's error.
        error: std::io::Error,
    },
    /// The request is invalid.
    #[error("{0}")]
    Refused(String),
}

impl BrokersError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        |error| Self::File { path, error }
    }
}
