//! The copy of a log in files: what is appended to it is durable elsewhere.

use std::fmt;
use std::sync::Arc;

use ledger::Position;
use ports::{Disk, Log, LogError, RecordReader, Visitor};
use record::frame::Tail;

use crate::FileLog;

/// A [`FileLog`] that is never synced: what it holds is kept elsewhere, as a topic keeps it.
pub struct CopyLog<D: Disk>(FileLog<D>);

impl<D: Disk> CopyLog<D> {
    /// The log of `files`.
    #[must_use]
    pub const fn of(files: FileLog<D>) -> Self {
        Self(files)
    }

    /// The files, for whoever follows the log from another thread.
    #[must_use]
    pub const fn files(&self) -> &FileLog<D> {
        &self.0
    }
}

impl<D: Disk> fmt::Debug for CopyLog<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CopyLog").field(&self.0).finish()
    }
}

impl<D: Disk> Log for CopyLog<D> {
    fn tail(&self) -> Tail {
        self.0.tail()
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.0.append_durable(frame)
    }

    fn sync(&mut self) -> Result<(), LogError> {
        Ok(())
    }

    fn replay(&mut self, from: Position, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.0.replay(from, visit)
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.0.reader()
    }
}
