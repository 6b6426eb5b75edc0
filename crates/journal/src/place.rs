//! A second place for closed segments and copies: objects under names, whole or not there.
//!
//! A place is named by a URL. This program knows `file:///directory`: another disk, a mounted
//! share, or a bucket mounted as a directory. Others would be further implementations of [`Place`]
//! (docs/decisions/0023-archive.md says why none is built in).
//!
//! # Whose it is
//! A place belongs to one log: its object [`MARKER`] says to which. Whoever writes claims it first
//! ([`claim`]), so that two hubs never write to one place, and so that the empty directory under a
//! share that is not mounted is not taken for the archive.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use record::frame::LogIdentity;
use rustix::fs::{Advice, FlockOperation};
use serde::{Deserialize, Serialize};

/// Name of the object that says to which log a place belongs.
pub const MARKER: &str = "identity.json";
const MARKER_VERSION: u32 = 1;
const MARKER_BYTES_MAX: u64 = 4_096;
/// Of an object that is being written.
const UNFINISHED: &str = ".unfinished";

/// Objects under names of the form `a/b/c`. All calls block; each is safe to repeat.
pub trait Place: Send + Sync {
    /// The URL, for messages and for the catalogue.
    fn url(&self) -> &str;

    /// Begins an object. It is there, whole and durable, once [`Upload::finish`] has returned
    /// `Ok`, and replaces what had the name; before that nobody sees it.
    ///
    /// # Errors
    /// Any [`PlaceError`].
    fn upload(&self, name: &str) -> Result<Box<dyn Upload>, PlaceError>;

    /// Length of an object in bytes; `None` if there is none.
    ///
    /// # Errors
    /// [`PlaceError::Failed`], also when the place itself is not there.
    fn length(&self, name: &str) -> Result<Option<u64>, PlaceError>;

    /// Reads from `offset` on until `buffer` is full or the object ends; says how many bytes.
    ///
    /// # Errors
    /// [`PlaceError::NotFound`], [`PlaceError::Failed`].
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, PlaceError>;

    /// Names of the objects directly under `prefix`, sorted.
    ///
    /// # Errors
    /// [`PlaceError::Failed`].
    fn list(&self, prefix: &str) -> Result<Vec<String>, PlaceError>;

    /// Removes an object; it need not be there.
    ///
    /// # Errors
    /// [`PlaceError::Failed`].
    fn remove(&self, name: &str) -> Result<(), PlaceError>;
}

/// An object being written. Dropped before it is finished, it leaves nothing that anybody sees.
pub trait Upload {
    /// Adds bytes.
    ///
    /// # Errors
    /// [`PlaceError::Full`], [`PlaceError::Failed`].
    fn write(&mut self, bytes: &[u8]) -> Result<(), PlaceError>;

    /// Makes the object durable, then visible.
    ///
    /// # Errors
    /// As [`Upload::write`].
    fn finish(self: Box<Self>) -> Result<(), PlaceError>;
}

/// Why a place did not do as asked. Nothing there has changed but what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// No place of this program.
    #[error("{0}: {1}")]
    Url(String, &'static str),
    /// There is no room.
    #[error("{0} is full")]
    Full(String),
    /// There is no object of that name.
    #[error("{url} has no {name}")]
    NotFound {
        /// The place.
        url: String,
        /// The object.
        name: String,
    },
    /// It belongs to another log.
    #[error("{url} holds log {found}, this is log {expected}: give each hub a place of its own")]
    Foreign {
        /// The place.
        url: String,
        /// The log it belongs to.
        found: String,
        /// The log that was to be written or read.
        expected: String,
    },
    /// It holds something, but no copy of a log.
    #[error("{0} holds other files but no {MARKER}: name an empty directory, or the right one")]
    Strange(String),
    /// It was written to before and is empty now.
    #[error("{0} is empty, though segments were archived there: is it mounted?")]
    Emptied(String),
    /// Anything else, in the system's words.
    #[error("{url}: {what}: {error}")]
    Failed {
        /// The place.
        url: String,
        /// What was asked, with the object's name.
        what: String,
        /// What the system answered.
        error: String,
    },
}

/// Whether something was written to a place before, as far as the log's directory knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It must be there already.
    InUse,
    /// It may be empty.
    Any,
}

/// The place of a URL. Nothing is read or written yet.
///
/// # Errors
/// [`PlaceError::Url`].
pub fn open_place(url: &str) -> Result<Arc<dyn Place>, PlaceError> {
    let bad = |what| Err(PlaceError::Url(url.to_owned(), what));
    match url.strip_prefix("file://") {
        Some(path) if path.starts_with('/') && !path.contains('%') => {
            Ok(Arc::new(Directory { url: url.to_owned(), path: PathBuf::from(path) }))
        }
        Some(_) => bad("a file URL is file:// and an absolute path, without escapes"),
        None => bad("not a place that this program knows: file:///directory, which may be mounted"),
    }
}

/// The log to which a place belongs; `None` for an empty one.
///
/// # Errors
/// [`PlaceError::Strange`], [`PlaceError::Failed`].
pub fn owner(place: &dyn Place) -> Result<Option<LogIdentity>, PlaceError> {
    let Some(length) = place.length(MARKER)? else {
        let others = place.list("")?;
        return match others.is_empty() {
            true => Ok(None),
            false => Err(PlaceError::Strange(place.url().to_owned())),
        };
    };
    let failed = |error: &str| PlaceError::Failed {
        url: place.url().to_owned(),
        what: format!("read {MARKER}"),
        error: error.to_owned(),
    };
    let mut bytes = vec![0; length.min(MARKER_BYTES_MAX) as usize];
    let read = place.read_at(MARKER, 0, &mut bytes)?;
    let marker: Marker =
        serde_json::from_slice(&bytes[..read]).map_err(|error| failed(&error.to_string()))?;
    match (marker.version, parse_hexadecimal(&marker.identity)) {
        (MARKER_VERSION, Some(identity)) => Ok(Some(LogIdentity(identity))),
        (MARKER_VERSION, None) => Err(failed("its identity is none")),
        _ => Err(failed("it is of a version that this program does not read")),
    }
}

/// Makes sure that a place belongs to this log, taking an empty one.
///
/// # Errors
/// [`PlaceError::Foreign`], [`PlaceError::Strange`], [`PlaceError::Emptied`], and those of writing.
pub fn claim(
    place: &dyn Place,
    identity: LogIdentity,
    expected: Expected,
) -> Result<(), PlaceError> {
    match owner(place)? {
        Some(found) if found == identity => Ok(()),
        Some(found) => Err(PlaceError::Foreign {
            url: place.url().to_owned(),
            found: found.to_string(),
            expected: identity.to_string(),
        }),
        None if expected == Expected::InUse => Err(PlaceError::Emptied(place.url().to_owned())),
        None => {
            let marker = Marker { version: MARKER_VERSION, identity: identity.to_string() };
            let text = serde_json::to_string(&marker).expect("a marker is text and a number");
            put(place, MARKER, text.as_bytes())
        }
    }
}

/// Writes a small object whole.
///
/// # Errors
/// As [`Upload::write`].
pub fn put(place: &dyn Place, name: &str, bytes: &[u8]) -> Result<(), PlaceError> {
    let mut upload = place.upload(name)?;
    upload.write(bytes)?;
    upload.finish()
}

/// Reads an object of at most `bytes_max` bytes whole.
///
/// # Errors
/// [`PlaceError::NotFound`], [`PlaceError::Failed`], also when it is longer.
pub fn get(place: &dyn Place, name: &str, bytes_max: u64) -> Result<Vec<u8>, PlaceError> {
    let url = || place.url().to_owned();
    let length = place
        .length(name)?
        .ok_or_else(|| PlaceError::NotFound { url: url(), name: name.to_owned() })?;
    if bytes_max < length {
        let error = format!("it is longer than {bytes_max} bytes");
        return Err(PlaceError::Failed { url: url(), what: format!("read {name}"), error });
    }
    let mut bytes = vec![0; length as usize];
    let read = place.read_at(name, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    version: u32,
    identity: String,
}

/// Bytes of a text of hexadecimal digits.
pub(crate) fn parse_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

/// A directory. It must be there: one that is made by mistake would be the place under a mount
/// point. What is under it is made as needed.
#[derive(Debug)]
struct Directory {
    url: String,
    path: PathBuf,
}

impl Directory {
    fn failed(&self, what: &str, name: &str, error: &io::Error) -> PlaceError {
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => PlaceError::Full(self.url.clone()),
            _ => PlaceError::Failed {
                url: self.url.clone(),
                what: format!("{what} {name}"),
                error: error.to_string(),
            },
        }
    }

    /// The path of an object; an error if the directory itself is not there.
    fn at(&self, name: &str) -> Result<PathBuf, PlaceError> {
        let error = match fs::metadata(&self.path) {
            Ok(found) if found.is_dir() => return Ok(self.path.join(name)),
            Ok(_) => io::Error::from(ErrorKind::NotADirectory),
            Err(error) => error,
        };
        Err(self.failed("open the directory", "(it is not made here)", &error))
    }

    /// Makes the directories above an object, each durable in the one above.
    fn make_room_for(&self, path: &Path) -> io::Result<()> {
        let Some(above) = path.parent().filter(|above| !above.is_dir()) else { return Ok(()) };
        self.make_room_for(above)?;
        DirBuilder::new().mode(0o700).create(above)?;
        sync_directory(above.parent().unwrap_or(above))
    }
}

impl Place for Directory {
    fn url(&self) -> &str {
        &self.url
    }

    fn upload(&self, name: &str) -> Result<Box<dyn Upload>, PlaceError> {
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

    fn length(&self, name: &str) -> Result<Option<u64>, PlaceError> {
        match fs::metadata(self.at(name)?) {
            Ok(found) => Ok(Some(found.len())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("look for", name, &error)),
        }
    }

    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, PlaceError> {
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => {
                PlaceError::NotFound { url: self.url.clone(), name: name.to_owned() }
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

    fn list(&self, prefix: &str) -> Result<Vec<String>, PlaceError> {
        let failed = |error| self.failed("list", prefix, &error);
        let entries = match fs::read_dir(self.at(prefix)?) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name().to_string_lossy().into_owned();
            // A share may have its own directory for what it found after a crash.
            if !name.ends_with(UNFINISHED) && name != "lost+found" {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<(), PlaceError> {
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
        // So that whoever reads it back reads what is stored. A hint: it may not be taken.
        let _taken = rustix::fs::fadvise(&self.file, 0, None, Advice::DontNeed);
        fs::rename(&self.unfinished, &self.path)?;
        self.finished = true;
        sync_directory(self.path.parent().unwrap_or(&self.path))
    }
}

impl Upload for FileUpload {
    fn write(&mut self, bytes: &[u8]) -> Result<(), PlaceError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| self.directory.failed("write", &self.name, &error))
    }

    fn finish(mut self: Box<Self>) -> Result<(), PlaceError> {
        let published = self.publish();
        published.map_err(|error| self.directory.failed("write", &self.name, &error))
    }
}

impl Drop for FileUpload {
    fn drop(&mut self) {
        if !self.finished {
            // If it stays, the next attempt writes over it.
            let _removed = fs::remove_file(&self.unfinished);
        }
    }
}

/// Opens the file of an object being written, empty, and nobody else has it: what another process
/// has finished meanwhile must not be cut.
fn begin_alone(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let (opened, named) = (file.metadata()?, fs::metadata(path)?);
    if (opened.dev(), opened.ino()) != (named.dev(), named.ino()) {
        return Err(io::Error::new(ErrorKind::ResourceBusy, "another process writes it"));
    }
    file.set_len(0)?;
    Ok(file)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
