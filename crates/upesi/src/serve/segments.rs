//! The segments that background jobs move and rewrite, and how a job ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use journal::{ArchiveError, RealDisk, TieredDisk};
use ledger::LogIndex;
use ports::StopReading;

use crate::data::encryption::DataKeys;

/// The segments that the jobs work on.
#[derive(Clone)]
pub(crate) struct Segments {
    pub(crate) log: TieredDisk<RealDisk>,
    /// Closes the readers of a segment that was moved.
    pub(crate) closer: Closer,
    /// Closes the segment that is being written, with the next record.
    pub(crate) rotator: Rotator,
    /// The data keys of an encrypted directory.
    pub(crate) keys: Option<DataKeys>,
    /// Held by the job that moves or rewrites a segment.
    pub(crate) moving: Arc<Mutex<()>>,
}

/// Closes the readers of a segment.
type Closer = Arc<dyn Fn(LogIndex) + Send + Sync>;
/// Closes the segment that is being written.
type Rotator = Arc<dyn Fn() + Send + Sync>;

impl Segments {
    pub(crate) fn new(
        log: TieredDisk<RealDisk>,
        (closer, rotator): (Closer, Rotator),
        keys: Option<DataKeys>,
    ) -> Self {
        Self { log, closer, rotator, keys, moving: Arc::default() }
    }
}

/// Why a job did not finish.
pub(crate) enum JobFailure {
    /// The switch stops.
    Stopped,
    /// The error, as text.
    Failed(String),
}

impl From<ArchiveError> for JobFailure {
    fn from(error: ArchiveError) -> Self {
        match error {
            ArchiveError::Stopped => Self::Stopped,
            error => Self::Failed(error.to_string()),
        }
    }
}

/// Ends a job when the switch stops.
pub(crate) fn watch(stopping: &AtomicBool) -> impl Fn(u64) -> Result<(), StopReading> + '_ {
    |_| if stopping.load(Ordering::Relaxed) { Err(StopReading) } else { Ok(()) }
}
