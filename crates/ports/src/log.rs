//! The log: the one total order of everything that was ever decided on.

use std::sync::Arc;

use ledger::{Digest, LogIndex, Stamp};
use record::frame::{Frame, FrameError, Payload, Record, SequenceGap, Tail};

/// An append-only sequence of frames (see [`record::frame`]) with one writer.
///
/// # Contract
/// 1. **Order.** Records are numbered from 1 without gaps. A frame is taken only if it follows the
///    log's [`Log::tail`]: same identity, next position, a stamp not below the last one. Its chain
///    head is the log's chain head from then on.
/// 2. **Appended is not durable.** After [`Log::append`] a frame is part of the log for this
///    process; after a crash it may be there whole or not at all. Frames that were not synced
///    vanish from the end only: what is left is always a prefix of what was appended.
/// 3. **Synced is durable.** Once [`Log::sync`] has returned `Ok`, every frame appended before the
///    call survives any crash, byte for byte. [`Tail::durable`] says how far that is; it never
///    passes [`Tail::end`] and never goes back. An append may move it too, for frames before.
/// 4. **A refused frame changes nothing.** After [`LogError::Full`] and [`LogError::Rejected`] the
///    log is as before and takes the next frame.
/// 5. **Poison.** After any other error of `append` or `sync` it is unknown what is stored. The
///    log is poisoned: every later `append`, `sync` and `replay` answers
///    [`LogError::Poisoned`]. The only cure is to open the log anew, which finds out what is
///    stored. `tail` still answers; its durable position still holds.
/// 6. **Reading.** [`Log::replay`] visits what was appended, durable or not, checking each frame
///    against the chain. A [`RecordReader`] shows durable records only, also after poisoning.
/// 7. **Opening** a log makes durable everything that it then shows: `durable == end`.
pub trait Log {
    /// Where the log ends.
    fn tail(&self) -> Tail;

    /// Position of the last record appended; 0 when there is none.
    fn end(&self) -> LogIndex {
        self.tail().end
    }

    /// Position of the last record known durable.
    fn durable_end(&self) -> LogIndex {
        self.tail().durable
    }

    /// Chain head after the last frame appended.
    fn chain(&self) -> Digest {
        self.tail().chain
    }

    /// Adds one sealed frame at the end: one write, no sync.
    ///
    /// # Errors
    /// [`LogError::Full`] and [`LogError::Rejected`] (nothing has changed), [`LogError::Poisoned`],
    /// or [`LogError::Storage`] (the log is poisoned now).
    fn append(&mut self, frame: &[u8]) -> Result<(), LogError>;

    /// Makes everything appended durable. Costs nothing if it already is.
    ///
    /// # Errors
    /// [`LogError::Poisoned`], or [`LogError::Storage`] (the log is poisoned now).
    fn sync(&mut self) -> Result<(), LogError>;

    /// Makes everything durable and gives back what was made ready for more: called when nothing
    /// will be appended for long. What is appended all the same is welcome.
    ///
    /// # Errors
    /// As [`Log::sync`].
    fn close(&mut self) -> Result<(), LogError> {
        self.sync()
    }

    /// Visits the frames in order to the end, beginning with the one that holds `from` (which may
    /// begin before it) or, when `from` is past the end, none. `Err(Stop)` from the visitor ends
    /// the replay early, which is no error.
    ///
    /// # Errors
    /// [`LogError::Damaged`] where a frame is not as it was written, before it is visited.
    fn replay(&mut self, from: LogIndex, visit: &mut Visitor<'_>) -> Result<(), LogError>;

    /// A reader for other threads, good for as long as it is kept.
    fn reader(&self) -> Arc<dyn RecordReader>;
}

/// Sees the frames of a replay.
pub type Visitor<'a> = dyn FnMut(&Frame<'_>) -> Result<(), StopReading> + 'a;

/// Ends a replay early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopReading;

/// Reads single records beside the writer, for redelivery and for questions about the past.
pub trait RecordReader: Send + Sync {
    /// The record at `position`; `None` if no durable record has it. May read the disk.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when what is stored there is not as it was written;
    /// [`LogError::Storage`] when it cannot be read.
    fn read(&self, log_index: LogIndex) -> Result<Option<OwnedRecord>, LogError>;
}

/// A record read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Its position in the log.
    pub log_index: LogIndex,
    /// The stamp of its batch.
    pub stamp: Stamp,
    /// What the record is.
    pub kind: u16,
    /// Version of the form of `fields`.
    pub version: u16,
    /// What the kernel reads.
    pub fields: Vec<u8>,
    /// BLAKE3 of the original payload; zero if there never was one.
    pub payload_digest: Digest,
    /// The original headers and body.
    pub payload: OwnedPayload,
}

impl OwnedRecord {
    /// Copies a record out of its frame.
    #[must_use]
    pub fn copy(record: &Record<'_>, stamp: Stamp) -> Self {
        Self {
            log_index: record.log_index,
            stamp,
            kind: record.kind,
            version: record.version,
            fields: record.fields.to_vec(),
            payload_digest: record.payload_digest,
            payload: match record.payload {
                Payload::None => OwnedPayload::None,
                Payload::Stored(bytes) => OwnedPayload::Stored(bytes.to_vec()),
                Payload::Erased => OwnedPayload::Erased,
            },
        }
    }
}

/// What is left of a record's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedPayload {
    /// The record never had one.
    None,
    /// The bytes as they came.
    Stored(Vec<u8>),
    /// There was one.
    Erased,
}

/// Why a log did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// There is no room for the frame; nothing was appended.
    #[error("there is no room for the frame; nothing was appended")]
    Full,
    /// The frame is not the one that comes next; nothing was appended.
    #[error("the frame does not continue the log: {0}")]
    Rejected(#[from] Rejection),
    /// The storage failed; what it holds is unknown.
    #[error("the log's storage failed: {0}")]
    Storage(String),
    /// An earlier failure left the end of the log unknown.
    #[error("the log takes no more after a failure of its storage; restart to recover it")]
    Poisoned,
    /// What is stored is not as it was written.
    #[error("the log is damaged in {place}: {reason}")]
    Damaged {
        /// Where: a file and offset, or a position.
        place: String,
        /// What is wrong there.
        reason: String,
    },
}

/// Why a frame is not the one that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// It is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It belongs elsewhere.
    #[error(transparent)]
    Order(#[from] SequenceGap),
    /// It claims as durable what is not known to be.
    #[error("the frame takes position {} for durable, the log only {}", .claimed.0, .known.0)]
    Durable {
        /// What the frame says.
        claimed: LogIndex,
        /// What the log knows.
        known: LogIndex,
    },
}
