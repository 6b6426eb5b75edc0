//! The log: the total order of all commands.

use std::sync::Arc;

use ledger::{Digest, LogIndex, Stamp};
use record::frame::{Frame, FrameError, Payload, Record, SequenceGap, Tail};

/// An append-only sequence of frames (see [`record::frame`]) with one writer.
///
/// # Contract
/// 1. **Order.** Records are numbered from 1 without gaps. A frame is taken only if it follows the
///    log's [`Log::tail`]: same identity, next index, a stamp not below the last one. Its chain
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
///    stored. `tail` still answers; its durable index is still valid.
/// 6. **Reading.** [`Log::replay`] visits what was appended, durable or not, checking each frame
///    against the chain. A [`RecordReader`] shows durable records only, also after poisoning.
/// 7. **Opening** a log makes durable everything that it then shows: `durable == end`.
pub trait Log {
    /// The end of the log.
    fn tail(&self) -> Tail;

    /// Index of the last record appended; 0 in an empty log.
    fn end(&self) -> LogIndex {
        self.tail().end
    }

    /// Index of the last record known to be durable.
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

    /// Makes everything durable and releases preallocated space. Called when no append is expected
    /// for a long time; a later append is still accepted.
    ///
    /// # Errors
    /// As [`Log::sync`].
    fn close(&mut self) -> Result<(), LogError> {
        self.sync()
    }

    /// Visits the frames in order, from the one that contains `from` to the end; none when `from`
    /// is past the end. A visitor ends the replay early with [`StopReading`], which is not
    /// reported as an error.
    ///
    /// # Errors
    /// [`LogError::Damaged`] before a frame that is not as it was written is visited.
    fn replay(&mut self, from: LogIndex, visit: &mut Visitor<'_>) -> Result<(), LogError>;

    /// A reader for other threads. It stays valid as long as it is kept.
    fn reader(&self) -> Arc<dyn RecordReader>;
}

/// A callback for each frame of a replay.
pub type Visitor<'a> = dyn FnMut(&Frame<'_>) -> Result<(), StopReading> + 'a;

/// Ends a replay early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StopReading;

/// Reads single records while the log is being written, for redelivery and queries.
pub trait RecordReader: Send + Sync {
    /// The record at `log_index`; `None` if there is no such durable record. May read the disk.
    ///
    /// # Errors
    /// [`LogError::Damaged`] when the stored record is not as it was written;
    /// [`LogError::Storage`] when it cannot be read.
    fn read(&self, log_index: LogIndex) -> Result<Option<OwnedRecord>, LogError>;
}

/// A record read from the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRecord {
    /// Its index in the log.
    pub log_index: LogIndex,
    /// The stamp of its batch.
    pub stamp: Stamp,
    /// The kind of the record.
    pub kind: u16,
    /// Version of the form of `fields`.
    pub version: u16,
    /// The encoded command.
    pub fields: Vec<u8>,
    /// BLAKE3 of the original payload; zero if there never was one.
    pub payload_digest: Digest,
    /// The original headers and body of the message.
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

/// The payload of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnedPayload {
    /// The record never had one.
    None,
    /// The bytes as they came.
    Stored(Vec<u8>),
    /// The payload was erased.
    Erased,
}

/// An error of the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// There is no room for the frame; nothing was appended.
    #[error("log: no room for the frame; nothing was appended")]
    Full,
    /// The frame does not continue the log; nothing was appended.
    #[error("the frame does not continue the log: {0}")]
    Rejected(#[from] Rejection),
    /// The storage failed; its content is unknown.
    #[error("log storage failed: {0}")]
    Storage(String),
    /// An earlier failure left the end of the log unknown.
    #[error("log: writing is disabled after a storage failure; restart to recover the log")]
    Poisoned,
    /// The stored bytes are not those that were written.
    #[error("the log is damaged in {place}: {reason}")]
    Damaged {
        /// The file and offset, or the log index.
        place: String,
        /// The kind of damage.
        reason: String,
    },
}

/// The reason why a frame does not continue the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Not a valid frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame does not follow the last one.
    #[error(transparent)]
    Order(#[from] SequenceGap),
    /// The frame claims more durable records than the log has.
    #[error(
    "frame claims durable index {}, but the log is durable only up to {}",
    .claimed.0,
    .known.0
    )]
    Durable {
        /// The index that the frame claims.
        claimed: LogIndex,
        /// The last durable index of the log.
        known: LogIndex,
    },
}
