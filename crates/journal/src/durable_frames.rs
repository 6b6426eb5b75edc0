//! The durable frames of a log that is being written, for a follower on another thread.
//!
//! A follower shares with the writer only the list of segments, once per segment, and one atomic
//! number. It reads frames through its own files, so it never waits for the writer's. Each frame is
//! fully checked, including the chain, starting from a frame not far before the first one visited.
//! That frame is found like a single record ([`crate::reader`]).

use std::fmt;
use std::sync::Arc;

use ledger::LogIndex;
use ports::{Disk, LogError, StopReading, Visitor};
use record::frame::{LogIdentity, Tail};

use crate::reader::{Shared, Walk};

/// The durable frames of a [`crate::FileLog`].
pub struct DurableFrames<D: Disk>(Arc<Shared<D>>);

impl<D: Disk> DurableFrames<D> {
    pub(crate) fn new(shared: Arc<Shared<D>>) -> Self {
        Self(shared)
    }

    /// The log's identity.
    #[must_use]
    pub fn identity(&self) -> LogIdentity {
        self.0.identity
    }

    /// Log index of the last durable record; 0 in an empty log.
    #[must_use]
    pub fn end(&self) -> LogIndex {
        self.0.durable_end()
    }

    /// Bytes of frames that became durable since the log was opened.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.durable_bytes()
    }

    /// Visits the frames in order, from the one that holds `from` (which may begin before it) to
    /// the last one that was durable at the call. `Err(Stop)` from the visitor ends the walk.
    ///
    /// # Errors
    /// [`LogError::Damaged`] at a damaged frame, before it is visited; [`LogError::Storage`].
    pub fn replay(&self, from: LogIndex, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        let end = self.end();
        if end < from || end.0 == 0 {
            return Ok(());
        }
        // The writer may be writing after the durable frames; the walk stops before that.
        let reached = self.0.walk(&Walk::from(from), &mut |frame| {
            visit(frame)?;
            if end <= frame.header().last() { Err(StopReading) } else { Ok(()) }
        })?;
        if reached.is_none() {
            return Ok(());
        }
        let reason = format!("the log ends before record {}, which was durable", end.0);
        Err(LogError::Damaged { place: "its last segment".into(), reason })
    }

    /// The log's tail after the record `log_index`. `None` if no frame ends with it, or if it is
    /// not durable.
    ///
    /// # Errors
    /// As [`DurableFrames::replay`].
    pub fn tail_at(&self, log_index: LogIndex) -> Result<Option<Tail>, LogError> {
        if log_index.0 == 0 {
            return Ok(None);
        }
        let mut found = None;
        self.replay(log_index, &mut |frame| {
            let header = frame.header();
            found = (header.last() == log_index).then(|| Tail {
                identity: header.identity,
                end: log_index,
                durable: log_index,
                stamp: header.batch.stamp,
                chain: frame.chain(),
            });
            Err(StopReading)
        })?;
        Ok(found)
    }
}

impl<D: Disk> Clone for DurableFrames<D> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D: Disk> fmt::Debug for DurableFrames<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DurableFrames").field("end", &self.end()).finish_non_exhaustive()
    }
}
