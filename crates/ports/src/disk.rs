//! Files in one directory, with exact guarantees about crashes.

use ledger::LogIndex;
use record::frame::Tail;

use crate::cipher::{Cipher, CipherError, OptionalCipher};

/// A directory of files owned by one process.
///
/// # Durability
/// - A file's content and length: once [`DiskFile::sync`] has returned `Ok`, as of the moment of
///   the call.
/// - A file's name (created, renamed, removed): once [`Disk::sync_directory`] has returned `Ok`.
///   Syncing a file does not make its name durable. So a new file that must not be lost is
///   created, written, synced, and then the directory is synced.
///
/// # Unsynced data after a crash
/// - Of writes: any subset of their 512-byte sectors (aligned in the file). A sector that was not
///   stored keeps its earlier content, or reads as zeros where the file has grown.
/// - Of a file's length: the earlier or the new one, or one between.
/// - Of names: any prefix of the changes, in the order in which they were made.
/// - A sector is whole, as it was at some moment: never a mixture of two contents, and never with
///   a later write to it but not an earlier one.
///
/// # Failed syncs
/// After [`DiskFile::sync`] has returned an error, the writes since the last successful sync may
/// or may not be stored. *Reads may still show them*, and a later sync may return `Ok` without
/// storing them, because the system has dropped its dirty pages. So the caller must not rely on a
/// second sync. After a restart, a reader must rewrite the data that it wants to keep and then
/// sync.
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
    /// [`DiskError::NotFound`] if there is no such file.
    fn open(&self, name: &str) -> Result<Self::File, DiskError>;

    /// Gives a file another name; a file that has that name is replaced in the same step.
    ///
    /// # Errors
    /// [`DiskError::NotFound`] if there is no file `from`.
    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file. Open handles stay valid.
    ///
    /// # Errors
    /// [`DiskError::NotFound`] if there is no such file.
    fn remove(&self, name: &str) -> Result<(), DiskError>;

    /// Makes the names durable as they are now.
    ///
    /// # Errors
    /// [`DiskError::Failed`]: it is then unknown which changes of names are stored.
    fn sync_directory(&self) -> Result<(), DiskError>;

    /// The cipher of everything that is stored here; `None` if new files are not encrypted.
    fn cipher(&self) -> OptionalCipher {
        None
    }
}

/// One open file. Reads may run concurrently with anything; writes, truncations and syncs come
/// from one thread at a time.
pub trait DiskFile: Send + Sync + 'static {
    /// Length in bytes, as the last write or truncation left it.
    ///
    /// # Errors
    /// [`DiskError::Failed`].
    fn length(&self) -> Result<u64, DiskError>;

    /// Reads from `offset` until `buffer` is full or the file ends. Returns the number of bytes
    /// read, which is less than the buffer's length only at the end of the file.
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

    /// Makes content and length durable as they are now. See [`Disk`] for failed syncs.
    ///
    /// # Errors
    /// [`DiskError::Failed`], and [`DiskError::Full`] on file systems that detect it only here.
    fn sync(&self) -> Result<(), DiskError>;

    /// Makes the file exactly `length` bytes long: truncates it, or extends it with zeros.
    ///
    /// # Errors
    /// [`DiskError::Failed`]; the length is then unknown.
    fn truncate(&self, length: u64) -> Result<(), DiskError>;

    /// Hints that the synced bytes from `from` to `to` will rarely be read again, so that the page
    /// cache can be reused for new writes. Content, length and durability do not change. An
    /// implementation may ignore the hint.
    fn release(&self, _from: u64, _to: u64) {}

    /// Offsets of frames with the index of their first record, in order, from an index that is
    /// stored with the file. Most files have no index.
    ///
    /// # Errors
    /// [`DiskError::Damaged`], [`DiskError::Failed`].
    fn frame_starts(&self) -> Result<Vec<(LogIndex, u64)>, DiskError> {
        Ok(Vec::new())
    }

    /// Checks that the file is as long as its stored metadata says. Most files have no metadata.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] when bytes were appended to it; [`DiskError::Failed`].
    fn check_length(&self) -> Result<(), DiskError> {
        Ok(())
    }

    /// The end of the log in this file, if stored metadata gives it without reading the file.
    /// Most files have no metadata.
    fn known_end(&self) -> Option<Tail> {
        None
    }

    /// The cipher of the disk. Files of a disk without encryption have none.
    fn cipher(&self) -> Option<&dyn Cipher> {
        None
    }

    /// The file's name in messages about encryption; empty for files that have no cipher.
    fn shown_name(&self) -> &str {
        ""
    }
}

/// An error of the disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// There is no file of that name.
    #[error("no such file: {0}")]
    NotFound(String),
    /// There already is a file of that name.
    #[error("the file exists: {0}")]
    Exists(String),
    /// The device is full or the quota is used up.
    #[error("the disk is full")]
    Full,
    /// Another process owns the directory.
    #[error("data directory {0} is in use by another process; stop that process or wait for it")]
    InUse(String),
    /// A compressed or archived file is not as it was written.
    #[error("{}: {reason}", byte_of(file, *offset))]
    Damaged {
        /// The file, and where it is.
        file: String,
        /// Offset of the damage; `None` when the whole file is affected.
        offset: Option<u64>,
        /// The kind of damage.
        reason: String,
    },
    /// Encrypted content cannot be read.
    #[error("{}: {error}", byte_of(file, Some(*offset)))]
    Encrypted {
        /// The file.
        file: String,
        /// Offset of the encrypted content.
        offset: u64,
        /// The reason, and the remedy.
        error: CipherError,
    },
    /// Any other error of the operating system.
    #[error("{what}: {error}")]
    Failed {
        /// The operation, with the file's name.
        what: String,
        /// The system's error message.
        error: String,
    },
}

/// Formats a file and an offset for messages.
#[must_use]
pub fn byte_of(file: &str, offset: Option<u64>) -> String {
    offset.map_or_else(|| file.to_owned(), |offset| format!("{file} at byte {offset}"))
}
