//! The log in memory: the contract of [`Log`] without a disk, for tests and models.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::LogIndex;
use ports::{Log, LogError, OwnedRecord, RecordReader, Rejection, Visitor};
use record::frame::{Frame, LogIdentity, Tail};

use crate::file_log::admit;

/// A log whose frames live in memory, at most `bytes_max` of them.
#[derive(Clone, Debug)]
pub struct MemoryLog {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    bytes_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    tail: Tail,
    bytes: usize,
    frames: Vec<Vec<u8>>,
    /// How many of the frames are durable.
    synced: usize,
}

impl MemoryLog {
    /// An empty log with a capacity of `bytes_max`.
    #[must_use]
    pub fn new(identity: LogIdentity, bytes_max: usize) -> Self {
        let tail = Tail::genesis(identity);
        let state = State { tail, bytes: 0, frames: Vec::new(), synced: 0 };
        Self { shared: Arc::new(Shared { bytes_max, state: Mutex::new(state) }) }
    }

    /// The log after a crash that lost everything unsynced.
    #[must_use]
    pub fn crashed(&self) -> Self {
        let state = self.shared.lock();
        let mut after = Self::new(state.tail.identity, self.shared.bytes_max);
        for frame in &state.frames[..state.synced] {
            after.append(frame).expect("a synced frame can be appended again");
            after.sync().expect("memory does not fail");
        }
        after
    }
}

impl Log for MemoryLog {
    fn tail(&self) -> Tail {
        self.shared.lock().tail
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        let mut state = self.shared.lock();
        let header = admit(&state.tail, frame)?;
        let after = header.follows(&state.tail).map_err(Rejection::Order)?;
        if self.shared.bytes_max < state.bytes + frame.len() {
            return Err(LogError::Full);
        }
        state.bytes += frame.len();
        state.frames.push(frame.to_vec());
        state.tail = after;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        let mut state = self.shared.lock();
        state.synced = state.frames.len();
        state.tail.durable = state.tail.end;
        Ok(())
    }

    fn replay(&mut self, from: LogIndex, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        let frames = self.shared.lock().frames.clone();
        for bytes in &frames {
            let frame = Frame::parse(bytes).map_err(Rejection::Frame)?;
            if from <= frame.header().last() && visit(&frame).is_err() {
                break;
            }
        }
        Ok(())
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.shared.clone()
    }
}

impl RecordReader for Shared {
    fn read(&self, log_index: LogIndex) -> Result<Option<OwnedRecord>, LogError> {
        let state = self.lock();
        let before = state.frames[..state.synced].partition_point(|bytes| {
            Frame::parse(bytes).is_ok_and(|frame| frame.header().last() < log_index)
        });
        if before == state.synced {
            return Ok(None);
        }
        let frame = Frame::parse(&state.frames[before]).map_err(Rejection::Frame)?;
        let stamp = frame.header().batch.stamp;
        Ok(frame.record(log_index).map(|record| OwnedRecord::copy(&record, stamp)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No panic can leave the state half changed: each change is made after the last check.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
