//! A log with an observer around its writes.

use std::sync::Arc;

use ledger::LogIndex;
use record::frame::Tail;

use crate::{Log, LogError, RecordReader, Visitor};

/// Runs code around the writes of an [`ObservedLog`]; each method calls its argument once.
pub trait LogObserver {
    /// Around [`Log::append`].
    ///
    /// # Errors
    /// Those of the append.
    fn append(&mut self, append: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        append()
    }

    /// Around [`Log::sync`].
    ///
    /// # Errors
    /// Those of the sync.
    fn sync(&mut self, sync: impl FnOnce() -> Result<(), LogError>) -> Result<(), LogError> {
        sync()
    }
}

/// Wraps a log and calls an observer around appends and syncs.
#[derive(Debug)]
pub struct ObservedLog<L, O> {
    log: L,
    observer: O,
}

impl<L, O> ObservedLog<L, O> {
    /// Observes `log`.
    pub fn new(log: L, observer: impl Into<O>) -> Self {
        Self { log, observer: observer.into() }
    }

    /// The log inside.
    pub const fn inner(&self) -> &L {
        &self.log
    }

    /// The observer.
    pub const fn observer(&self) -> &O {
        &self.observer
    }
}

impl<L: Log, O: LogObserver> Log for ObservedLog<L, O> {
    fn tail(&self) -> Tail {
        self.log.tail()
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.observer.append(|| self.log.append(frame))
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.observer.sync(|| self.log.sync())
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.log.close()
    }

    fn replay(&mut self, from: LogIndex, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.log.replay(from, visit)
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.log.reader()
    }
}
