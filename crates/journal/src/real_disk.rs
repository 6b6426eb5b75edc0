//! The file system. The only code of the log that makes system calls; Linux only.
//!
//! The directory has mode 0700 and its files 0600, whatever the umask allows. One process at a
//! time: the owner holds a lock on [`LOCK_FILE`] until it ends, by whatever cause.

use std::fs::{DirBuilder, File};
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ports::{Disk, DiskError, DiskFile};
use rustix::fs::{Advice, AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Name of the file that is locked while the directory is in use; not listed.
pub const LOCK_FILE: &str = "LOCK";

const FILE_MODE: Mode = Mode::from_raw_mode(0o600);
const DIRECTORY_MODE: u32 = 0o700;

/// Exit status of a process ended by [`exit_after_disk_operations`].
pub const INJECTED_EXIT: i32 = 86;

/// Number of changes to real disks that this process may still make.
static OPERATIONS_LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

/// For crash tests: after `operations` further changes of a real disk, the next one ends the
/// process with [`INJECTED_EXIT`]. Half of a write is performed first; any other change is not
/// performed. Renames, writes, truncations and syncs count.
pub fn exit_after_disk_operations(operations: u64) {
    OPERATIONS_LEFT.store(operations, Ordering::Relaxed);
}

/// A locked directory of the file system. Clones share the lock; dropping the last one releases it.
#[derive(Clone, Debug)]
pub struct RealDisk {
    directory: Arc<Directory>,
}

#[derive(Debug)]
struct Directory {
    handle: OwnedFd,
    path: String,
    /// Never read; dropping it releases the lock. A read-only copy may have no lock file.
    _lock: Option<OwnedFd>,
    purpose: Purpose,
}

/// Purpose for which a directory is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Own,
    Read,
}

/// Lock held while the directory is copied from; see [`RealDisk::copy_alone`].
#[derive(Debug)]
pub struct CopyLock {
    _handle: OwnedFd,
}

/// An open file.
#[derive(Debug)]
pub struct RealFile {
    file: File,
    name: String,
}

impl RealDisk {
    /// Opens and locks the directory, and creates it if necessary.
    ///
    /// # Errors
    /// [`DiskError::InUse`] when another process owns it; [`DiskError::Failed`].
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        make_directory(path)?;
        let flags = OFlags::CREATE | OFlags::RDWR;
        Self::open_for(path, Purpose::Own, (flags, FlockOperation::NonBlockingLockExclusive))
    }

    /// Opens an existing directory read-only: no file is created, written or changed, not even the
    /// lock file. Other readers may share it; it must have no owner.
    ///
    /// # Errors
    /// [`DiskError::InUse`] when another process owns it; [`DiskError::Failed`].
    pub fn open_to_read(path: &Path) -> Result<Self, DiskError> {
        let lock = (OFlags::RDONLY, FlockOperation::NonBlockingLockShared);
        Self::open_for(path, Purpose::Read, lock)
    }

    /// Opens a directory read-only without locking it, so its owner may be running. Files may be
    /// written or removed during a read. The reader must distinguish complete frames from partial
    /// ones.
    ///
    /// # Errors
    /// [`DiskError::Failed`].
    pub fn open_live(path: &Path) -> Result<Self, DiskError> {
        let shown = path.display().to_string();
        let handle = open_directory(path, &shown)?;
        let directory = Directory { handle, path: shown, _lock: None, purpose: Purpose::Read };
        Ok(Self { directory: Arc::new(directory) })
    }

    /// Excludes other copying processes while the returned lock is held. This is not the owner's
    /// lock: copying does not block the switch.
    ///
    /// # Errors
    /// [`DiskError::InUse`] when another process is copying; [`DiskError::Failed`].
    pub fn copy_alone(&self) -> Result<CopyLock, DiskError> {
        let Directory { path, .. } = &*self.directory;
        let handle = open_directory(Path::new(path), path)?;
        match rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(CopyLock { _handle: handle }),
            Err(Errno::WOULDBLOCK) => Err(DiskError::InUse(format!("{path} (being copied)"))),
            Err(error) => Err(failed("lock", path, error)),
        }
    }

    fn open_for(
        path: &Path,
        purpose: Purpose,
        (lock_flags, operation): (OFlags, FlockOperation),
    ) -> Result<Self, DiskError> {
        let shown = path.display().to_string();
        let handle = open_directory(path, &shown)?;
        let flags = lock_flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let lock = match rustix::fs::openat(&handle, LOCK_FILE, flags, FILE_MODE) {
            Ok(lock) => Some(lock),
            Err(Errno::NOENT) if purpose == Purpose::Read => None,
            Err(error) => return Err(failed("open the lock file in", &shown, error)),
        };
        match lock.as_ref().map_or(Ok(()), |lock| rustix::fs::flock(lock, operation)) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(DiskError::InUse(shown)),
            Err(error) => return Err(failed("lock", &shown, error)),
        }
        let directory = Directory { handle, path: shown, _lock: lock, purpose };
        Ok(Self { directory: Arc::new(directory) })
    }

    /// Refuses changes of a directory that was opened read-only.
    fn own(&self, what: &str, name: &str) -> Result<(), DiskError> {
        match self.directory.purpose {
            Purpose::Own => Ok(()),
            Purpose::Read => Err(failed(what, name, Errno::ROFS)),
        }
    }

    fn open_file(&self, name: &str, flags: OFlags) -> Result<RealFile, DiskError> {
        let access = match self.directory.purpose {
            Purpose::Own => OFlags::RDWR,
            Purpose::Read => OFlags::RDONLY,
        };
        let flags = flags | access | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = rustix::fs::openat(&self.directory.handle, plain(name)?, flags, FILE_MODE)
            .map_err(|error| failed("open", name, error))?;
        Ok(RealFile { file: File::from(opened), name: name.to_owned() })
    }
}

impl Disk for RealDisk {
    type File = RealFile;

    fn list(&self) -> Result<Vec<String>, DiskError> {
        let fail = |error| failed("list", &self.directory.path, error);
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&self.directory.handle).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let directory = entry.file_type() == FileType::Directory;
            if !directory && name != LOCK_FILE {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create(&self, name: &str) -> Result<RealFile, DiskError> {
        self.own("create", name)?;
        count_operation(|| {});
        self.open_file(name, OFlags::CREATE | OFlags::EXCL)
    }

    fn open(&self, name: &str) -> Result<RealFile, DiskError> {
        self.open_file(name, OFlags::empty())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.own("rename", from)?;
        count_operation(|| {});
        let directory = &self.directory.handle;
        rustix::fs::renameat(directory, plain(from)?, directory, plain(to)?)
            .map_err(|error| failed("rename", from, error))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.own("remove", name)?;
        count_operation(|| {});
        rustix::fs::unlinkat(&self.directory.handle, plain(name)?, AtFlags::empty())
            .map_err(|error| failed("remove", name, error))
    }

    fn sync_directory(&self) -> Result<(), DiskError> {
        count_operation(|| {});
        retry(|| rustix::fs::fsync(&self.directory.handle))
            .map_err(|error| failed("sync", &self.directory.path, error))
    }
}

impl DiskFile for RealFile {
    fn length(&self) -> Result<u64, DiskError> {
        let metadata = self.file.metadata().map_err(|error| self.failed("stat", &error))?;
        Ok(metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", &error)),
            }
        }
        Ok(filled)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        count_operation(|| {
            // Ignore the result: the process ends in any case.
            let _half = self.file.write_all_at(&bytes[..bytes.len() / 2], offset);
        });
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed("write", &error))
    }

    fn sync(&self) -> Result<(), DiskError> {
        count_operation(|| {});
        // Also stores the length, which is needed to read the content.
        retry(|| rustix::fs::fdatasync(&self.file))
            .map_err(|error| failed("sync", &self.name, error))
    }

    fn truncate(&self, length: u64) -> Result<(), DiskError> {
        count_operation(|| {});
        retry(|| rustix::fs::ftruncate(&self.file, length))
            .map_err(|error| failed("truncate", &self.name, error))
    }

    fn release(&self, from: u64, to: u64) {
        let Some(length) = to.checked_sub(from).and_then(NonZeroU64::new) else { return };
        // A hint; if ignored, it only costs memory.
        let _taken = rustix::fs::fadvise(&self.file, from, Some(length), Advice::DontNeed);
    }
}

impl RealFile {
    fn failed(&self, what: &str, error: &std::io::Error) -> DiskError {
        match error.raw_os_error() {
            Some(code) => failed(what, &self.name, Errno::from_raw_os_error(code)),
            None => DiskError::Failed {
                what: format!("{what} {}", self.name),
                error: error.to_string(),
            },
        }
    }
}

/// Counts a change of the disk, and ends the process at the injected crash point.
fn count_operation(last_deed: impl FnOnce()) {
    if OPERATIONS_LEFT.load(Ordering::Relaxed) == u64::MAX {
        return;
    }
    if OPERATIONS_LEFT.fetch_sub(1, Ordering::Relaxed) == 0 {
        last_deed();
        std::process::exit(INJECTED_EXIT);
    }
}

fn open_directory(path: &Path, shown: &str) -> Result<OwnedFd, DiskError> {
    let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed("open", shown, error))
}

/// Creates the directory and its parents, each durable in its parent.
fn make_directory(path: &Path) -> Result<(), DiskError> {
    if path.is_dir() {
        return Ok(());
    }
    let shown = path.display().to_string();
    let fail = |error: std::io::Error| DiskError::Failed {
        what: format!("make directory {shown}"),
        error: error.to_string(),
    };
    let above = path.parent().filter(|above| !above.as_os_str().is_empty());
    let above = above.unwrap_or(Path::new("."));
    make_directory(above)?;
    DirBuilder::new().mode(DIRECTORY_MODE).create(path).map_err(fail)?;
    File::open(above).and_then(|directory| directory.sync_all()).map_err(fail)
}

/// Accepts only a file name that cannot lead out of the directory.
fn plain(name: &str) -> Result<&str, DiskError> {
    let bad = name.is_empty() || name == "." || name == ".." || name.contains(['/', '\0']);
    if bad || name == LOCK_FILE {
        Err(failed("use the name", name, Errno::INVAL))
    } else {
        Ok(name)
    }
}

/// Repeats a call that was interrupted by a signal.
fn retry(mut call: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

fn failed(what: &str, name: &str, error: Errno) -> DiskError {
    match error {
        Errno::NOENT => DiskError::NotFound(name.to_owned()),
        Errno::EXIST => DiskError::Exists(name.to_owned()),
        Errno::NOSPC | Errno::DQUOT | Errno::FBIG => DiskError::Full,
        other => DiskError::Failed { what: format!("{what} {name}"), error: other.to_string() },
    }
}
