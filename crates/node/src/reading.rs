//! Records of the past, and what of them cannot be read.
//!
//! A record that cannot be read is said once, with the reason, and stands for whoever asks until
//! somebody has read it. Costs: nothing while all goes well but a relaxed load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::Position;
use ports::{LogError, OwnedRecord, RecordReader};

/// A reader that remembers what it could not read.
pub(crate) struct Reading {
    reader: Arc<dyn RecordReader>,
    is_failing: AtomicBool,
    fault: Mutex<Option<Unread>>,
}

/// A record that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The record.
    pub position: Position,
    /// Why, with segment and place.
    pub why: String,
}

impl Reading {
    pub(crate) fn of(reader: Arc<dyn RecordReader>) -> Self {
        Self { reader, is_failing: AtomicBool::new(false), fault: Mutex::default() }
    }

    /// The first record that could not be read, and has not been since.
    pub(crate) fn unread(&self) -> Option<Unread> {
        self.is_failing.load(Ordering::Relaxed).then(|| self.lock().clone())?
    }

    fn lock(&self) -> MutexGuard<'_, Option<Unread>> {
        self.fault.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, position: Position, error: &LogError) {
        let mut fault = self.lock();
        if fault.is_none() {
            let why = format!("record {} cannot be read: {error}", position.0);
            ports::tell(format_args!("{why}. What needs it waits or is refused until it can"));
            *fault = Some(Unread { position, why });
            self.is_failing.store(true, Ordering::Relaxed);
        }
    }

    fn note_read(&self, position: Position) {
        let mut fault = self.lock();
        if fault.as_ref().is_some_and(|fault| fault.position == position) {
            ports::tell(format_args!("record {} can be read again", position.0));
            *fault = None;
            self.is_failing.store(false, Ordering::Relaxed);
        }
    }
}

impl RecordReader for Reading {
    fn read(&self, position: Position) -> Result<Option<OwnedRecord>, LogError> {
        let read = self.reader.read(position);
        match &read {
            Err(error) => self.note(position, error),
            Ok(_) if self.is_failing.load(Ordering::Relaxed) => self.note_read(position),
            Ok(_) => {}
        }
        read
    }
}
