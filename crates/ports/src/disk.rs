//! Files in one directory, with what survives a crash spelled out.

use ledger::LogIndex;
use record::frame::Tail;

/// A directory of files owned by one process.
///
/// # What is durable when
/// - A file's content and length: once [`DiskFile::sync`] has returned `Ok`, as of the moment of
///   the call.
/// - A file's name (created, renamed, removed): once [`Disk::sync_directory`] has returned `Ok`.
///   Syncing a file does not make its name durable. So a new file that must not be lost is
///   created, written, synced, and then the directory is synced.
///
/// # What a crash may leave of anything not synced
/// - Of writes: any subset of their 512-byte sectors (aligned in the file). A sector that was not
///   stored keeps its earlier content, or reads as zeros where the file has grown.
/// - Of a file's length: the earlier or the new one, or one between.
/// - Of names: any prefix of the changes, in the order in which they were made.
/// - A sector is whole, as it was at some moment: never a mixture of two contents, and never with
///   a later write to it but not an earlier one.
///
/// # Failed syncs
/// After [`DiskFile::sync`] has returned an error, what was written since the last good sync may
/// or may not be stored, *reads may still show it*, and a later sync may return `Ok` without
/// storing it: the system drops its note of what was not stored. So the caller must not rely on a
/// second sync, and whoever reads the file after a restart must write what it wants to keep once
/// more before it syncs.
///
/// Names are plain: no separators, not `.` or `..`, at most 255 bytes.
pub trait Disk: Send + Sync + 'static {
    /// An open file.
    type File: DiskFile;

    /// The names of all files, sorted.
    ///
    /// # Errors
    /// Any [`DiskError`] but [`DiskError::Full`].
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// Makes an empty file and opens it.
    ///
    /// # Errors
    /// [`DiskError::Exists`] if there is a file of that name; [`DiskError::Full`].
    fn create(&self, name: &str) -> Result<Self::File, DiskError>;

    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// [`DiskError::NotFound`] if there is none.
    fn open(&self, name: &str) -> Result<Self::File, DiskError>;

    /// Gives a file another name; a file that has that name is replaced in the same step.
    ///
    /// # Errors
    /// [`DiskError::NotFound`] if there is no file `from`.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file. Those who have it open can still use it.
    ///
    /// # Errors
    /// [`DiskError::NotFound`] if there is none.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Makes the names durable as they are now.
    ///
    /// # Errors
    /// [`DiskError::Failed`]: which changes of names are stored is then unknown.
    fn sync_directory(&self) -> Result<(), DiskError>;
}

/// One open file. Reads may run beside anything; writes, truncations and syncs come from one
/// thread at a time.
pub trait DiskFile: Send + Sync + 'static {
    /// Length in bytes, as the last write or truncation left it.
    ///
    /// # Errors
    /// [`DiskError::Failed`].
    fn length(&self) -> Result<u64, DiskError>;

    /// Reads from `offset` on until `buffer` is full or the file ends, and says how many bytes
    /// were read: fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// [`DiskError::Failed`].
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError>;

    /// Writes all of `bytes` at `offset`; the file grows as needed, and a gap reads as zeros.
    ///
    /// # Errors
    /// After any error, [`DiskError::Full`] too, some of `bytes` may be written and the file may
    /// be longer.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError>;

    /// Makes content and length durable as they are now. See [`Disk`] for what an error means.
    ///
    /// # Errors
    /// [`DiskError::Failed`], and [`DiskError::Full`] on file systems that find out only then.
    fn sync(&self) -> Result<(), DiskError>;

    /// Makes the file exactly `length` bytes long: cuts it, or lets it grow by zeros.
    ///
    /// # Errors
    /// [`DiskError::Failed`]; the length is then unknown.
    fn truncate(&self, length: u64) -> Result<(), DiskError>;

    /// Says that the bytes from `from` up to `to`, all of them synced, will hardly be read again,
    /// so that the memory which caches them can be used for what is written next. Only a hint:
    /// content, length and durability do not change, and nobody needs to follow it.
    fn release(&self, _from: u64, _to: u64) {}

    /// Places where a frame of the log begins, with the position of its first record, in order; as
    /// far as an index that is stored with the file knows. Most files have none.
    ///
    /// # Errors
    /// [`DiskError::Damaged`], [`DiskError::Failed`].
    fn frame_starts(&self) -> Result<Vec<(LogIndex, u64)>, DiskError> {
        Ok(Vec::new())
    }

    /// Whether what is stored is as long as what is kept about it says; most files are what they
    /// are.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] when more was put behind it, [`DiskError::Failed`].
    fn check_length(&self) -> Result<(), DiskError> {
        Ok(())
    }

    /// How far the log goes in this file, if that is known without reading it, from what is kept
    /// with or beside it. Of most files it is not.
    fn known_end(&self) -> Option<Tail> {
        None
    }
}

/// Why a disk did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// There is no file of that name.
    #[error("no such file: {0}")]
    NotFound(String),
    /// There already is a file of that name.
    #[error("the file exists: {0}")]
    Exists(String),
    /// There is no room: the device or the quota is used up.
    #[error("the disk is full")]
    Full,
    /// Another process owns the directory.
    #[error("data directory {0} is in use by another process: stop that, or wait until it ends")]
    InUse(String),
    /// A file that is kept in another form, or in another place, is not as it was written.
    #[error("{}: {reason}", byte_of(file, *offset))]
    Damaged {
        /// The file, and where it is.
        file: String,
        /// Where in it begins what is wrong; `None` where the whole of it is.
        offset: Option<u64>,
        /// What is wrong with it.
        reason: String,
    },
    /// Anything else, in the system's words.
    #[error("{what}: {error}")]
    Failed {
        /// What was asked, with the file's name.
        what: String,
        /// What the system answered.
        error: String,
    },
}

/// A place in a file, as messages name it.
#[must_use]
pub fn byte_of(file: &str, offset: Option<u64>) -> String {
    offset.map_or_else(|| file.to_owned(), |offset| format!("{file} at byte {offset}"))
}
