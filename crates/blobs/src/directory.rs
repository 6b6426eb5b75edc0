//! A blob store in a directory: `file:///directory`.
//!
//! An upload writes a file under a temporary name, syncs it, renames it, and syncs each directory
//! above it. So a finished upload survives a power loss, and an unfinished one is invisible. Only
//! one process writes an object at a time. The next attempt overwrites an unfinished file.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Advice, FlockOperation};
use rustix::io::Errno;

use crate::{BlobError, BlobStore, Upload};

/// Maximum wait for another writer of the same object; small objects take a moment.
const OTHERS_MAX: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(20);

/// Suffix of an object that is being written.
const UNFINISHED: &str = ".unfinished";

/// A directory. It must exist: a directory that was created by mistake would be the mount point of
/// an unmounted share. Directories below it are created as needed.
#[derive(Debug)]
pub(crate) struct Directory {
    url: String,
    path: PathBuf,
}

impl Directory {
    pub(crate) fn new(url: String, path: PathBuf) -> Self {
        Self { url, path }
    }

    fn failed(&self, what: &str, name: &str, error: &io::Error) -> BlobError {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => BlobError::Full(self.url.clone()),
            _ => BlobError::Failed {
                url: self.url.clone(),
                what: format!("{what} {name}"),
                error: error.to_string(),
            },
        }
    }

    /// The path of an object; an error if the store's directory does not exist.
    fn at(&self, name: &str) -> Result<PathBuf, BlobError> {
        let error = match fs::metadata(&self.path) {
            Ok(found) if found.is_dir() => return Ok(self.path.join(name)),
            Ok(_) => io::Error::from(ErrorKind::NotADirectory),
            Err(error) => error,
        };
        Err(self.failed(
            "open the directory",
            "(it is not created automatically; is it mounted?)",
            &error,
        ))
    }

    /// Creates the directories above an object, each durable in its parent.
    fn make_room_for(&self, path: &Path) -> io::Result<()> {
        let Some(above) = path.parent().filter(|above| !above.is_dir()) else { return Ok(()) };
        self.make_room_for(above)?;
        DirBuilder::new().mode(0o700).create(above)?;
        sync_directory(above.parent().unwrap_or(above))
    }
}

impl BlobStore for Directory {
    fn url(&self) -> &str {
        &self.url
    }

    fn upload(&self, name: &str) -> Result<Box<dyn Upload>, BlobError> {
        let path = self.at(name)?;
        let failed = |error| self.failed("write", name, &error);
        self.make_room_for(&path).map_err(failed)?;
        let mut unfinished = path.clone().into_os_string();
        unfinished.push(UNFINISHED);
        let unfinished = PathBuf::from(unfinished);
        let file = begin_alone(&unfinished).map_err(failed)?;
        let directory = Self { url: self.url.clone(), path: self.path.clone() };
        let (name, finished) = (name.to_owned(), false);
        Ok(Box::new(FileUpload { directory, name, file, unfinished, path, finished }))
    }

    fn length(&self, name: &str) -> Result<Option<u64>, BlobError> {
        match fs::metadata(self.at(name)?) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read the length of", name, &error)),
        }
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, BlobError> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => {
                BlobError::NotFound { url: self.url.clone(), name: name.to_owned() }
            }
            _ => self.failed("read", name, &error),
        };
        let file = File::open(self.at(name)?).map_err(failed)?;
        let mut filled = 0;
        while filled < buffer.len() {
            match file.read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(filled)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError> {
        let failed = |error| self.failed("list", prefix, &error);
        let entries = match fs::read_dir(self.at(prefix)?) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            // A share may have its own directory for files found after a crash.
            if !name.ends_with(UNFINISHED) && name != "lost+found" {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), BlobError> {
        match fs::remove_file(self.at(name)?) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(self.failed("remove", name, &error))
            }
            _ => Ok(()),
        }
    }
}

struct FileUpload {
    directory: Directory,
    name: String,
    file: File,
    unfinished: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl FileUpload {
    fn publish(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        // Drop the pages, so that a read-back reads the stored bytes. The hint may be ignored.
        let _taken = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        fs::rename(&self.unfinished, &self.path)?;
        self.finished = true;
        sync_directory(self.path.parent().unwrap_or(&self.path))
    }
}

impl Upload for FileUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.directory.failed("write", &self.name, &error))
    }

    fn finish(mut self: Box<Self>) -> Result<(), BlobError> {
        let published = self.publish();
        published.map_err(|error| self.directory.failed("write", &self.name, &error))
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        if !self.finished {
            // If it remains, the next attempt overwrites it.
            let _removed = fs::remove_file(&self.unfinished);
        }
    }
}

/// Opens an empty file for a new object, once no other writer has it.
fn begin_alone(path: &Path) -> io::Result<File> {
    let started = Instant::now();
    loop {
        match try_to_begin(path)? {
            Some(file) => return Ok(file),
            None if started.elapsed() < OTHERS_MAX => thread::sleep(LOOK),
            None => {
                let what = "another process or thread is writing it; try again";
                return Err(io::Error::new(ErrorKind::ResourceBusy, what));
            }
        }
    }
}

/// `None` while another writer has it: a finished file must not be truncated.
fn try_to_begin(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    let identity = |found: fs::Metadata| (found.dev(), found.ino());
    match fs::metadata(path).map(identity) {
        Ok(named) if named == identity(file.metadata()?) => {}
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        Ok(_) | Err(_) => return Ok(None),
    }
    file.set_len(0)?;
    Ok(Some(file))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
