//! Reads single records, by log index, of a log that has no writer, for offline queries.
//!
//! Nothing is repaired or read from the beginning. A segment is opened when one of its records is
//! requested, and the record is found by bisection. A frame that is read for a single record is
//! checked except for the chain.

use std::fmt;

use ledger::LogIndex;
use ports::{Disk, DiskFile, LogError, OwnedRecord, RecordReader, Visitor};
use record::frame::{LogIdentity, Tail};

use crate::reader::{Segment, SegmentFile, Shared, Walk, damaged, storage};
use crate::segment::{self, SEGMENT_HEADER_BYTES};

/// Reader of a log without a writer.
pub struct OfflineReader<D: Disk>(Shared<D>);

impl<D: Disk> OfflineReader<D> {
    /// Opens the log on a disk.
    ///
    /// # Errors
    /// [`LogError`] when there is no log, or its first or last segment cannot be read.
    pub fn open(disk: D) -> Result<Self, LogError> {
        let names = segment::list(&disk).map_err(storage)?;
        let (Some((first, name)), Some((last, last_name))) = (names.first(), names.last()) else {
            return Err(LogError::Storage("there is no log here".into()));
        };
        let mut header = [0; SEGMENT_HEADER_BYTES as usize];
        let file = disk.open(name).map_err(storage)?;
        let read = file.read_at(0, &mut header).map_err(storage)?;
        let base = segment::decode_header(&header[..read]).map_err(|e| damaged(*first, 0, &e))?;
        let file = disk.open(last_name).map_err(storage)?;
        let opened = SegmentFile::closed(*last, file).map_err(storage)?;
        let mut segments: Vec<_> =
            names.iter().map(|(first, _)| Segment { first: *first, opened: None }).collect();
        if let Some(last) = segments.last_mut() {
            last.opened = Some(opened.into());
        }
        // There is no writer: all existing records are readable, and later ones are an error.
        let all = Tail { durable: LogIndex(u64::MAX), ..base };
        Ok(Self(Shared::new(disk, segments, &all)))
    }

    /// The log's identity.
    #[must_use]
    pub fn identity(&self) -> LogIdentity {
        self.0.identity
    }

    /// Visits the frames from the one that holds `from` to the end of the log.
    ///
    /// # Errors
    /// [`LogError`] at the first frame that cannot be read, including a torn end.
    pub fn visit(&self, from: LogIndex, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.0.walk(&Walk { room: true, ..Walk::from(from) }, visit).map(drop)
    }
}

impl<D: Disk> RecordReader for OfflineReader<D> {
    fn read(&self, log_index: LogIndex) -> Result<Option<OwnedRecord>, LogError> {
        self.0.read(log_index)
    }
}

impl<D: Disk> fmt::Debug for OfflineReader<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("identity", &self.identity()).finish_non_exhaustive()
    }
}
