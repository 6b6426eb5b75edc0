//! The log in files.
//!
//! # Phases
//! [`FileLog::open`] recovers the log (see [`crate::recovery`]). After that, [`Log::append`] is one
//! write at the end of the last segment, and [`Log::sync`] is one sync of it. The caller decides
//! how many appends share a sync.
//!
//! # Rotation
//! When a frame no longer fits into [`LogOptions::segment_bytes`], the segment is synced and a new
//! one is created (header written, file synced, directory synced). The frame goes there. So
//! everything before the last segment is always durable.
//!
//! # Failure
//! On a full disk the partly written frame is removed, and the append returns [`LogError::Full`].
//! Any other failed write, and any failed sync, poisons the log.
//!
//! # Memory
//! Bytes that were synced more than [`CACHED_BYTES`] ago are released from the page cache. Later
//! appends reuse those pages. Otherwise a growing log keeps requesting pages that were never used,
//! which costs several times as much as the copy into them (on a virtual machine the host must find
//! them first), and evicts other cached data.
//!
//! # Preallocation
//! [`LogOptions::room_bytes`] of zeros are written ahead of the frames, so that most syncs store
//! data and no file metadata. The zeros are truncated when the segment is closed. A log ends where
//! only zeros follow.
//!
//! # Costs
//! An append is one system call and one copy into the page cache. It allocates only an index entry
//! every 64 KiB. Every byte is written twice.

use std::fmt;
use std::sync::Arc;

use ledger::LogIndex;
use ports::{
    CipherError, Disk, DiskError, DiskFile, Log, LogError, RecordReader, Rejection, Sealer, Visitor,
};
use record::command::contents_owner;
use record::frame::{
    ENVELOPE_BYTES, FRAME_BYTES_MAX, Frame, FrameError, FrameHeader, LogIdentity, Payload, Tail,
    encrypt, seal_payloads,
};

use crate::durable_frames::DurableFrames;
use crate::reader::{Index, Segment, SegmentFile, Shared, Walk, storage};
use crate::recovery::{self, OpenError, Recovered, Recovery, TailPolicy};
use crate::segment::{self, SEGMENT_HEADER_BYTES};

/// Default of [`LogOptions::segment_bytes`]: 256 MiB.
pub const SEGMENT_BYTES_DEFAULT: u64 = 256 << 20;

/// Default of [`LogOptions::room_bytes`]: 256 KiB.
const ROOM_BYTES_DEFAULT: u64 = 256 * 1024;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Bytes at the end of the last segment that stay in the page cache. Callbacks that are retried
/// after a failure read them.
const CACHED_BYTES: u64 = 64 << 20;
/// Pages are released in pieces of this many bytes, so that the call is rare.
const RELEASE_BYTES: u64 = 8 << 20;

const _: () = assert!(
    (FRAME_BYTES_MAX + ENVELOPE_BYTES) as u64 + SEGMENT_HEADER_BYTES < SEGMENT_BYTES_DEFAULT
);

/// How a log is opened and stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOptions {
    /// Maximum length of a segment in bytes. A segment always holds at least one frame.
    pub segment_bytes: u64,
    /// How much of the log is verified when it is opened.
    pub verify: Verify,
    /// Handling of a damaged tail.
    pub tail_policy: TailPolicy,
    /// Bytes of zeros that are written ahead of the frames in one step; 0 for none.
    pub room_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        Self {
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            verify: Verify::Everything,
            tail_policy: TailPolicy::Refuse,
            room_bytes: ROOM_BYTES_DEFAULT,
        }
    }
}

/// How much of a log is verified when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Every frame of every segment.
    Everything,
    /// The header of every segment, the boundary of each with the next one, and the frames of the
    /// last one. Damage inside earlier segments is found when they are read.
    LastSegment,
}

/// A log in the files of a [`Disk`].
pub struct FileLog<D: Disk> {
    shared: Arc<Shared<D>>,
    /// The last segment.
    active: Arc<SegmentFile<D::File>>,
    /// Its length: the offset of the next frame.
    length: u64,
    /// Length of its file, including the zeros after the last frame.
    room: u64,
    /// Bytes appended since the log was opened.
    appended: u64,
    /// Everything before this offset was released from the page cache.
    released: u64,
    /// Part of the last segment whose chain was checked when the log was opened: the segment's
    /// first record, and the offset up to which it was checked.
    opened: (LogIndex, u64),
    tail: Tail,
    poisoned: bool,
    segment_bytes: u64,
    room_bytes: u64,
    /// The frames are durable elsewhere.
    is_copy: bool,
    encryption: Option<Encryption>,
}

/// Encrypts the frames of a log on a disk with a cipher.
struct Encryption {
    sealer: Box<dyn Sealer>,
    /// The last encrypted frame.
    frame: Vec<u8>,
    /// The last frame with payloads that are sealed for their participants.
    sealed: Vec<u8>,
}

impl Encryption {
    fn of(disk: &impl Disk) -> Option<Self> {
        let sealer = disk.cipher()?.sealer();
        Some(Self { sealer, frame: Vec::new(), sealed: Vec::new() })
    }

    fn envelope(&mut self, frame: &[u8]) -> Result<&[u8], LogError> {
        self.frame.clear();
        let failed = |error: CipherError| LogError::Storage(error.to_string());
        let has_sealed = self.sealer.has_participant_keys() && self.seal_payloads(frame)?;
        let frame = if has_sealed { &self.sealed } else { frame };
        let sealer = &mut self.sealer;
        encrypt(frame, &mut self.frame, |context, plain, out| sealer.seal(context, plain, out))
            .map_err(failed)?;
        Ok(&self.frame)
    }

    /// Seals the payloads of participants that have keys of their own. Returns whether there are
    /// any.
    fn seal_payloads(&mut self, frame: &[u8]) -> Result<bool, LogError> {
        self.sealed.clear();
        let sealer = &mut self.sealer;
        seal_payloads(frame, &mut self.sealed, |record, context, out| {
            let owner = contents_owner((record.kind, record.version, record.fields));
            match (owner, record.payload) {
                (Some(owner), Payload::Stored(plain)) => {
                    sealer.seal_for(&owner, context, plain, out)
                }
                _ => Ok(false),
            }
        })
        .map_err(|error: CipherError| LogError::Storage(error.to_string()))
    }
}

impl<D: Disk> FileLog<D> {
    /// Creates a log in a directory that holds none. The log is durable when this returns.
    ///
    /// `identity` must be random: no participant may guess it.
    ///
    /// # Errors
    /// [`OpenError::Exists`] if there already is a log, [`OpenError::Disk`].
    pub fn create(disk: D, identity: LogIdentity, options: LogOptions) -> Result<Self, OpenError> {
        recovery::clear_unfinished_creation(&disk)?;
        let tail = Tail::genesis(identity);
        let opened = Arc::new(start_segment(&disk, &tail)?);
        let segments = vec![Segment { first: tail.next(), opened: Some(opened.clone()) }];
        let shared = Shared::new(disk, segments, &tail);
        Ok(Self::at(shared, opened, (SEGMENT_HEADER_BYTES, tail), options))
    }

    /// Opens a log, repairs the effects of a crash, and reports the repairs.
    ///
    /// # Errors
    /// [`OpenError::NoLog`]; [`OpenError::Damaged`] when the log is not in a state that a crash can
    /// leave. Nothing is changed then.
    pub fn open(disk: D, options: LogOptions) -> Result<(Self, Recovery), OpenError> {
        let recovered: Recovered<D::File> = recovery::recover(&disk, &options)?;
        let Recovered { segments, active, length, tail, report } = recovered;
        let shared = Shared::new(disk, segments, &tail);
        Ok((Self::at(shared, active, (length, tail), options), report))
    }

    /// A log whose last segment, and its file, end at `length`.
    fn at(
        shared: Shared<D>,
        active: Arc<SegmentFile<D::File>>,
        (length, tail): (u64, Tail),
        LogOptions { segment_bytes, room_bytes, .. }: LogOptions,
    ) -> Self {
        Self {
            encryption: Encryption::of(&shared.disk),
            shared: Arc::new(shared),
            opened: (active.first, length),
            active,
            length,
            room: length,
            appended: 0,
            released: 0,
            tail,
            poisoned: false,
            segment_bytes,
            room_bytes,
            is_copy: false,
        }
    }

    /// Turns the log into a copy of a log whose frames are durable elsewhere, such as in a Kafka
    /// topic. A frame counts as durable once it is appended, and no sync is made for it. After a
    /// power loss the end of the copy may be missing or damaged; the original then completes it.
    #[must_use]
    pub fn into_copy(self) -> Self {
        Self { is_copy: true, room_bytes: 0, ..self }
    }

    /// Opens the log if it exists, and otherwise creates it with `identity`.
    ///
    /// # Errors
    /// As [`FileLog::open`] and [`FileLog::create`].
    pub fn open_or_create(
        disk: D,
        identity: LogIdentity,
        options: LogOptions,
    ) -> Result<(Self, Recovery), OpenError>
    where
        D: Clone,
    {
        match Self::open(disk.clone(), options) {
            Err(OpenError::NoLog) => {
                let log = Self::create(disk, identity, options)?;
                Ok((log, Recovery::created(identity)))
            }
            other => other,
        }
    }

    /// The durable frames, for a thread that follows the log.
    #[must_use]
    pub fn frames(&self) -> DurableFrames<D> {
        DurableFrames::new(Arc::clone(&self.shared))
    }

    /// Whether a failure has poisoned the log, so that it refuses everything.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// A function to call after a closed segment was moved. It makes readers close the removed file
    /// and reopen the segment at its new location.
    #[must_use]
    pub fn closer(&self) -> Arc<dyn Fn(LogIndex) + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move |first| shared.close(first))
    }

    /// A function that closes the last segment with the next frame, so that it can be rewritten.
    #[must_use]
    pub fn rotator(&self) -> Arc<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || shared.request_rotation())
    }

    fn check_poison(&self) -> Result<(), LogError> {
        if self.poisoned { Err(LogError::Poisoned) } else { Ok(()) }
    }

    fn poison(&mut self, error: DiskError) -> LogError {
        self.poisoned = true;
        storage(error)
    }

    fn set_durable(&mut self) {
        self.tail.durable = self.tail.end;
        self.shared.set_durable(self.tail.durable, self.appended);
    }

    fn release(&mut self) {
        let end = self.length.saturating_sub(CACHED_BYTES);
        if self.released + RELEASE_BYTES <= end {
            self.active.file.release(self.released, end);
            self.released = end;
        }
    }

    fn must_rotate(&self, frame_bytes: u64) -> bool {
        let has_frames = SEGMENT_HEADER_BYTES < self.length;
        let is_full = self.segment_bytes < self.length + frame_bytes;
        has_frames && (is_full || self.shared.is_rotation_requested())
    }

    /// Appends a frame, and preallocates more space if it does not fit.
    fn append_in(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.check_poison()?;
        let header = admit(&self.tail, frame)?;
        match self.encryption.take() {
            None => self.append_stored(&header, frame)?,
            Some(mut encryption) => {
                let stored = encryption.envelope(frame);
                let appended = stored.and_then(|stored| self.append_stored(&header, stored));
                self.encryption = Some(encryption);
                appended?;
            }
        }
        self.tail = header.follows(&self.tail).map_err(Rejection::Order)?;
        Ok(())
    }

    /// Appends a frame as it is stored.
    fn append_stored(&mut self, header: &FrameHeader, stored: &[u8]) -> Result<(), LogError> {
        let length = stored.len() as u64;
        if self.must_rotate(length) {
            self.rotate()?;
        }
        let end = self.length + length;
        if self.room < end && 0 < self.room_bytes {
            self.make_room((end + self.room_bytes).min(self.segment_bytes))?;
        }
        self.write(stored)?;
        self.active.note(header.first, self.length);
        self.length = end;
        self.room = self.room.max(end);
        self.appended += length;
        Ok(())
    }

    /// Writes zeros up to `end`. On a full disk the preallocated space stays as it was.
    fn make_room(&mut self, end: u64) -> Result<(), LogError> {
        let file = &self.active.file;
        let mut at = self.room;
        while at < end {
            let piece = (end - at).min(ZEROS.len() as u64);
            match file.write_at(at, &ZEROS[..piece as usize]) {
                Ok(()) => at += piece,
                Err(DiskError::Full) => {
                    let given_back = file.truncate(self.room);
                    return given_back.map_err(|error| self.poison(error));
                }
                Err(error) => return Err(self.poison(error)),
            }
        }
        self.room = self.room.max(end);
        Ok(())
    }

    /// Truncates the file after the last frame.
    fn give_room_back(&mut self) -> Result<(), LogError> {
        if self.length < self.room {
            let file = &self.active.file;
            let done = file.truncate(self.length).and_then(|()| file.sync());
            done.map_err(|error| self.poison(error))?;
            self.room = self.length;
        }
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), LogError> {
        self.sync()?;
        self.give_room_back()?;
        let opened = match start_segment(&self.shared.disk, &self.tail) {
            Ok(opened) => Arc::new(opened),
            Err(DiskError::Full) => return Err(LogError::Full),
            Err(error) => return Err(self.poison(error)),
        };
        let first = self.tail.next();
        self.shared.add_segment(Segment { first, opened: Some(opened.clone()) });
        self.active = opened;
        self.length = SEGMENT_HEADER_BYTES;
        self.room = SEGMENT_HEADER_BYTES;
        self.released = 0;
        Ok(())
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), LogError> {
        match self.active.file.write_at(self.length, frame) {
            Ok(()) => Ok(()),
            Err(DiskError::Full) => {
                self.take_back()?;
                Err(LogError::Full)
            }
            Err(error) => Err(self.poison(error)),
        }
    }

    /// Removes the remains of a failed write. This is synced at once: if those bytes survived a
    /// crash below a later, partly lost frame, they would look like damage.
    fn take_back(&mut self) -> Result<(), LogError> {
        let file = &self.active.file;
        match file.truncate(self.length).and_then(|()| file.sync()) {
            Ok(()) => {
                self.room = self.length;
                self.set_durable();
                Ok(())
            }
            Err(error) => Err(self.poison(error)),
        }
    }
}

impl<D: Disk> Log for FileLog<D> {
    fn tail(&self) -> Tail {
        self.tail
    }

    fn append(&mut self, frame: &[u8]) -> Result<(), LogError> {
        self.append_in(frame)?;
        if self.is_copy {
            self.set_durable();
            self.release();
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), LogError> {
        self.check_poison()?;
        if self.tail.durable == self.tail.end {
            return Ok(());
        }
        match self.active.file.sync() {
            Ok(()) => {
                self.set_durable();
                self.release();
                Ok(())
            }
            Err(error) => Err(self.poison(error)),
        }
    }

    fn close(&mut self) -> Result<(), LogError> {
        self.sync()?;
        self.give_room_back()
    }

    fn replay(&mut self, from: LogIndex, visit: &mut Visitor<'_>) -> Result<(), LogError> {
        self.check_poison()?;
        if self.tail.end < from {
            return Ok(());
        }
        let (limit, hashed) = (Some(self.length), self.opened);
        let reached = self.shared.walk(&Walk { limit, hashed, ..Walk::from(from) }, visit)?;
        let arrived = reached.is_none_or(|tail| same_end(&tail, &self.tail));
        assert!(arrived, "a replay to the end arrives at the end");
        Ok(())
    }

    fn reader(&self) -> Arc<dyn RecordReader> {
        self.shared.clone()
    }
}

impl<D: Disk> fmt::Debug for FileLog<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileLog")
            .field("tail", &self.tail)
            .field("length", &self.length)
            .field("poisoned", &self.poisoned)
            .finish_non_exhaustive()
    }
}

/// Whether both describe the same end of the same log.
pub(crate) fn same_end(one: &Tail, other: &Tail) -> bool {
    Tail { durable: other.durable, ..*one } == *other
}

/// Creates a segment that continues the log at `base`. The file and its name are durable.
fn start_segment<D: Disk>(disk: &D, base: &Tail) -> Result<SegmentFile<D::File>, DiskError> {
    let name = segment::name_of(base.next());
    let file = disk.create(&name)?;
    let written = file.write_at(0, &segment::encode_header(base)).and_then(|()| file.sync());
    match written.and_then(|()| disk.sync_directory()) {
        Ok(()) => Ok(SegmentFile::new(base.next(), file, Index::default())),
        Err(DiskError::Full) => {
            disk.remove(&name)?;
            disk.sync_directory()?;
            Err(DiskError::Full)
        }
        Err(error) => Err(error),
    }
}

/// Checks a frame that is to be appended after `tail`: its header in full, its records only in
/// debug builds, because the builder has just sealed them.
pub(crate) fn admit(tail: &Tail, frame: &[u8]) -> Result<FrameHeader, Rejection> {
    let header = FrameHeader::parse(frame)?;
    if header.length as usize != frame.len() {
        return Err(FrameError::Malformed("its length is not that of the bytes given").into());
    }
    let after = header.follows(tail)?;
    let (claimed, known) = (header.durable, tail.durable);
    if known < claimed {
        return Err(Rejection::Durable { claimed, known });
    }
    debug_assert!(
        Frame::parse(frame).map(|frame| frame.follows(tail)) == Ok(Ok(after)),
        "a frame appended is sound"
    );
    Ok(header)
}
