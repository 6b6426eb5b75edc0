//! The durable frames of a log that is being written, for whoever follows it on another thread.
//!
//! Nothing here touches what the writer works with but the list of segments, once per segment, and
//! one atomic number. Frames are read through files of their own, so that the writer's are not
//! waited for. Each is checked in full, the chain included, from a frame not far before the first
//! one visited; that one is found as a single record is ([`crate::Records`]).

use std::fmt;
use std::sync::Arc;

use ledger::Position;
use ports::{Disk, DiskFile, LogError, Stop, Visitor};
use record::frame::{LogIdentity, Tail};

use crate::reader::{Shared, damaged_behind, open_segment, storage};
use crate::scan::{self, Cause, Part, Scanned};
use crate::segment::SEGMENT_HEADER_BYTES;

/// The durable frames of a [`crate::FileLog`], good for as long as it is kept.
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

    /// Position of the last durable record; 0 when there is none.
    #[must_use]
    pub fn end(&self) -> Position {
        self.0.durable_end()
    }

    /// Bytes of frames that became durable since the log was opened.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.durable_bytes()
    }

    /// Visits the frames in order, from the one that holds `from` (which may begin before it) to
    /// what was durable when this was called. `Err(Stop)` from the visitor ends it early.
    ///
    /// # Errors
    /// [`LogError::Damaged`] where a frame is not as it was written, before it is visited;
    /// [`LogError::Storage`].
    pub fn replay(&self, from: Position, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        let end = self.end();
        if end < from || end.0 == 0 {
            return Ok(());
        }
        let mut stopped = false;
        let mut near = self.0.start_near(from)?;
        let mut before: Option<Tail> = None;
        for first in self.0.segments_from(from) {
            let scanned = self.scan(first, (before, near.take()), &mut |frame| {
                let last = frame.header().last();
                stopped = from <= last && visit(frame).is_err();
                if stopped || end <= last { Err(Stop) } else { Ok(()) }
            })?;
            match scanned.cause {
                Cause::Visitor => return Ok(()),
                Cause::Limit => before = Some(scanned.tail),
                Cause::Unsound(error) => return Err(damaged_behind(first, &scanned, &error)),
            }
        }
        let reason = format!("the log ends before record {}, which was durable", end.0);
        Err(LogError::Damaged { place: "its last segment".into(), reason })
    }

    /// Where the log stood right behind the record at `position`; `None` when no frame ends with
    /// it, or it is not durable.
    ///
    /// # Errors
    /// As [`DurableFrames::replay`].
    pub fn tail_at(&self, position: Position) -> Result<Option<Tail>, LogError> {
        if position.0 == 0 {
            return Ok(None);
        }
        let mut found = None;
        self.replay(position, &mut |frame| {
            let header = frame.header();
            found = (header.last() == position).then(|| Tail {
                identity: header.identity,
                end: position,
                durable: position,
                stamp: header.batch.stamp,
                chain: frame.chain(),
            });
            Err(Stop)
        })?;
        Ok(found)
    }

    fn scan(
        &self,
        first: Position,
        (before, near): (Option<Tail>, Option<(u64, Tail)>),
        visit: &mut Visitor<'_>,
    ) -> Result<Scanned, LogError> {
        let (file, base) = open_segment(&self.0.disk, first, before)?;
        // The writer may be at work behind what is durable; the visitor stops before that.
        let part = Part { file: &file, limit: file.length().map_err(storage)? };
        let start = near.unwrap_or((SEGMENT_HEADER_BYTES, base));
        scan::scan(part, start, &mut |_, frame| visit(frame)).map_err(storage)
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
