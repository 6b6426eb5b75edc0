//! Errors of runs that could not be carried out. A run that was carried out and failed is not an
//! error: its report lists the failed checks.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A run that could not be carried out.
#[derive(Debug, Error)]
pub enum HarnessError {
    /// Options that contradict each other.
    #[error("{0}")]
    Options(String),
    /// A file or directory.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The switch could not be started, has ended, or was not healthy in time.
    #[error("the switch {0}")]
    Switch(String),
    /// Brokers could not be started or do not follow a request.
    #[error("brokers: {0}")]
    Brokers(#[from] kafka_testkit::BrokersError),
    /// The network of a node cannot be created or changed.
    #[error("network: {0}")]
    Network(String),
    /// The hub does not provide a function that a run needs.
    #[error("the hub {0}")]
    Hub(String),
    /// The admin API could not be reached, or its response could not be read.
    #[error("{request}: {problem}")]
    Admin {
        /// Method and path.
        request: String,
        /// The problem.
        problem: String,
    },
    /// A simulated FSP could not be set up.
    #[error("{fsp}: {problem}")]
    Simulator {
        /// Its name.
        fsp: String,
        /// The problem.
        problem: String,
    },
    /// A thread of simulators ended early.
    #[error("the simulators ended early")]
    SimulatorsEnded,
    /// Interrupted from the keyboard.
    #[error("interrupted")]
    Interrupted,
}

impl HarnessError {
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}
