//! A record reader that tracks read failures.
//!
//! The first record that cannot be read is logged once, with the reason, and reported until a later
//! read of it succeeds. Costs: one relaxed load per read without failures.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::LogIndex;
use ports::{LogError, OwnedRecord, RecordReader};

/// A reader that remembers the first record that it could not read.
pub(crate) struct TrackedReader {
    reader: Arc<dyn RecordReader>,
    is_failing: AtomicBool,
    fault: Mutex<Option<ReadFailure>>,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadFailure {
    /// The record.
    pub log_index: LogIndex,
    /// The reason, with segment and offset.
    pub why: String,
}

impl TrackedReader {
    pub(crate) fn of(reader: Arc<dyn RecordReader>) -> Self {
        Self { reader, is_failing: AtomicBool::new(false), fault: Mutex::default() }
    }

    /// The first record that could not be read, until a later read of it succeeds.
    pub(crate) fn unread(&self) -> Option<ReadFailure> {
        self.is_failing.load(Ordering::Relaxed).then(|| self.lock().clone())?
    }

    fn lock(&self) -> MutexGuard<'_, Option<ReadFailure>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, log_index: LogIndex, error: &LogError) {
        let mut fault = self.lock();
        if fault.is_none() {
            let why = format!("record {} cannot be read: {error}", log_index.0);
            tracing::error!(
                log_index = log_index.0,
                %error,
                "a record cannot be read; requests that need it wait or are refused"
            );
            *fault = Some(ReadFailure { log_index, why });
            self.is_failing.store(true, Ordering::Relaxed);
        }
    }

    fn note_read(&self, log_index: LogIndex) {
        let mut fault = self.lock();
        if fault.as_ref().is_some_and(|fault| fault.log_index == log_index) {
            tracing::info!(log_index = log_index.0, "the record can be read again");
            *fault = None;
            self.is_failing.store(false, Ordering::Relaxed);
        }
    }
}

impl RecordReader for TrackedReader {
    fn read(&self, log_index: LogIndex) -> Result<Option<OwnedRecord>, LogError> {
        let read = self.reader.read(log_index);
        match &read {
            Err(error) => self.note(log_index, error),
            Ok(_) if self.is_failing.load(Ordering::Relaxed) => self.note_read(log_index),
            Ok(_) => {}
        }
        read
    }
}
