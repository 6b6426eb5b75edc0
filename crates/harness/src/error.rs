//! Why a run could not be carried out. A run that was carried out and failed is no error: its
//! report says so.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A run that could not be carried out.
#[derive(Debug, Error)]
pub enum HarnessError {
    /// Options that make no sense together.
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
    /// The switch could not be started, or it ended, or it is not healthy in time.
    #[error("the switch {0}")]
    Switch(String),
    /// Brokers could not be started or do not follow a request.
    #[error("brokers: {0}")]
    Brokers(#[from] kafka_testkit::BrokersError),
    /// A network for one node cannot be made or changed.
    #[error("network: {0}")]
    Network(String),
    /// The hub does not do what a run needs.
    #[error("the hub {0}")]
    Hub(String),
    /// The admin API could not be reached or answered what cannot be read.
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
    /// A thread of simulators ended before its time.
    #[error("the simulators ended early")]
    Fleet,
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
