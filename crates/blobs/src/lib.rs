//! Blob stores for archived segments and backups. They hold named objects, each complete or absent.
//!
//! A blob store is named by a directory or a URL ([`Location`]):
//! - `/directory` or `file:///directory`: another disk or a mounted share (`directory.rs`).
//! - `s3://bucket/prefix`, `gs://bucket/prefix`, `az://container/prefix`: an object store, with the
//!   feature `object-stores` (`bucket.rs`). Its other settings, such as credentials and a custom
//!   endpoint, are read from environment variables and never shown.
//!
//! Both pass one contract ([`contract`]); docs/decisions/0023-archive.md explains why there are
//! two.
//!
//! # Ownership
//! A blob store belongs to one log, which its object [`MARKER`] names. A writer claims it first
//! ([`claim`]). So two hubs never write to the same store, and the empty mount point of an
//! unmounted share is not mistaken for the archive.
//!
//! # Costs and bounds
//! Every call blocks. A bucket makes one request per call, with a time limit of 120 s. It buffers
//! one part of [`PART_BYTES`] for each upload, and one for sequential reads.
#![warn(missing_docs)]

#[cfg(feature = "object-stores")]
mod bucket;
pub mod contract;
mod directory;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use record::frame::LogIdentity;
use serde::{Deserialize, Serialize};

use directory::Directory;

/// Longer objects are sent to a bucket in parts of this size, in bytes.
pub const PART_BYTES: usize = 8 << 20;

/// Name of the object that names the log of a blob store.
pub const MARKER: &str = "identity.json";
const MARKER_VERSION: u32 = 1;
const MARKER_BYTES_MAX: u64 = 4_096;

/// Schemes of object stores, and their product names.
const BUCKETS: [(&str, &str); 4] = [
    ("s3", "S3"),
    ("gs", "Google Cloud Storage"),
    ("az", "Azure Blob Storage"),
    ("abfss", "Azure Blob Storage"),
];

/// Objects under names of the form `a/b/c`. All calls block; each is safe to repeat.
pub trait BlobStore: Send + Sync {
    /// The URL, for messages and for the archive index.
    fn url(&self) -> &str;

    /// Starts an object. It is visible, complete and durable once [`Upload::finish`] has returned
    /// `Ok`, and replaces an object of the same name. Before that it is invisible.
    ///
    /// # Errors
    /// Any [`BlobError`].
    fn upload(&self, name: &str) -> Result<Box<dyn Upload>, BlobError>;

    /// Length of an object in bytes; `None` if the object does not exist.
    ///
    /// # Errors
    /// [`BlobError::Failed`], also when the store itself does not exist.
    fn length(&self, name: &str) -> Result<Option<u64>, BlobError>;

    /// Reads from `offset` until `buffer` is full or the object ends; returns the number of bytes.
    ///
    /// # Errors
    /// [`BlobError::NotFound`], [`BlobError::Failed`].
    fn read_at(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, BlobError>;

    /// Names of the objects directly under `prefix`, sorted.
    ///
    /// # Errors
    /// [`BlobError::Failed`].
    fn list(&self, prefix: &str) -> Result<Vec<String>, BlobError>;

    /// Removes an object, if it exists.
    ///
    /// # Errors
    /// [`BlobError::Failed`].
    fn remove(&self, name: &str) -> Result<(), BlobError>;
}

/// An object being written. If it is dropped before it is finished, nothing becomes visible.
pub trait Upload {
    /// Adds bytes.
    ///
    /// # Errors
    /// [`BlobError::Full`], [`BlobError::Failed`].
    fn write(&mut self, bytes: &[u8]) -> Result<(), BlobError>;

    /// Makes the object durable, then visible.
    ///
    /// # Errors
    /// As [`Upload::write`].
    fn finish(self: Box<Self>) -> Result<(), BlobError>;
}

/// Why a blob store failed. Nothing but the requested object was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlobError {
    /// Not the location of a blob store.
    #[error("{0}: {1}")]
    Url(String, String),
    /// The store is full.
    #[error("{0} is full")]
    Full(String),
    /// There is no object of that name.
    #[error("{url}: object {name} does not exist")]
    NotFound {
        /// URL of the store.
        url: String,
        /// The object.
        name: String,
    },
    /// The store belongs to another log.
    #[error(
        "{url} belongs to log {found}, not to this log {expected}: give each hub its own blob store"
    )]
    OtherLog {
        /// URL of the store.
        url: String,
        /// The log that it belongs to.
        found: String,
        /// The log that was to be written or read.
        expected: String,
    },
    /// The store has objects, but no marker of a log.
    #[error(
        "{0} holds other objects but no {MARKER}, which names the log that it belongs to: use an \
         empty directory or prefix, or the right one. If {MARKER} was deleted, put it back"
    )]
    NoMarker(String),
    /// The store was written before and is empty now.
    #[error("{0} is empty, but segments were archived there: is it mounted?")]
    Empty(String),
    /// Any other error, in the system's words.
    #[error("{url}: {what}: {error}")]
    Failed {
        /// URL of the store.
        url: String,
        /// The operation, with the object's name.
        what: String,
        /// The system's error.
        error: String,
    },
}

/// Whether this log has written to the store before, according to its directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// It must be there already.
    InUse,
    /// It may be empty.
    Any,
}

/// Location of a blob store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// A directory, by its absolute path.
    Directory(PathBuf),
    /// An object store.
    Bucket {
        /// The URL.
        url: String,
        /// Whose store it is.
        name: &'static str,
    },
}

impl Location {
    /// Reads the path of a directory, a `file://` URL, or the URL of an object store.
    ///
    /// # Errors
    /// [`BlobError::Url`].
    pub fn parse(text: &str) -> Result<Self, BlobError> {
        let bad = |what: &str| Err(BlobError::Url(shown(text), what.to_owned()));
        let Some((scheme, rest)) = text.split_once("://") else {
            return match std::path::absolute(text) {
                Ok(path) => Ok(Self::Directory(path)),
                Err(_) => bad(UNKNOWN),
            };
        };
        if scheme == "file" {
            return match rest.starts_with('/') {
                true => Ok(Self::Directory(PathBuf::from(rest))),
                false => bad("a file URL needs an absolute path: file:///DIRECTORY"),
            };
        }
        let Some(&(_, name)) = BUCKETS.iter().find(|(known, _)| *known == scheme) else {
            return bad(UNKNOWN);
        };
        if rest.contains(['?', '#']) || user_of(rest).is_some_and(|user| user.contains(':')) {
            return bad("credentials and settings belong in environment variables, not in the URL");
        }
        Ok(Self::Bucket { url: text.to_owned(), name })
    }

    /// The directory, if it is one.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        match self {
            Self::Directory(path) => Some(path),
            Self::Bucket { .. } => None,
        }
    }

    /// Opens the blob store at this location. Nothing is read or written yet.
    ///
    /// # Errors
    /// [`BlobError::Url`].
    pub fn open(&self) -> Result<Arc<dyn BlobStore>, BlobError> {
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        self.open_in(std::env::vars_os().filter_map(text))
    }

    /// [`Location::open`] with these environment variables.
    ///
    /// # Errors
    /// [`BlobError::Url`].
    pub fn open_in(
        &self,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Arc<dyn BlobStore>, BlobError> {
        let path = match self {
            Self::Directory(path) => path,
            Self::Bucket { url, name } => return open_bucket(url, name, environment),
        };
        let url = format!("file://{}", path.display());
        match url.contains('%') {
            false => Ok(Arc::new(Directory::new(url, path.clone()))),
            true => Err(BlobError::Url(url, "directory names with % are not supported".to_owned())),
        }
    }
}

/// The blob store at a [`Location`]. Nothing is read or written yet.
///
/// # Errors
/// [`BlobError::Url`].
pub fn open_blob_store(text: &str) -> Result<Arc<dyn BlobStore>, BlobError> {
    Location::parse(text)?.open()
}

const UNKNOWN: &str = "not the location of a blob store: use a directory, file:///DIRECTORY, \
                       s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX";

/// The text before an `@` in the authority of a URL.
fn user_of(rest: &str) -> Option<&str> {
    let authority = rest.split('/').next().unwrap_or_default();
    authority.rsplit_once('@').map(|(user, _)| user)
}

/// A URL without parts that may be secret.
fn shown(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest, user_of(rest)?))) {
        Some((scheme, rest, user)) if user.contains(':') => {
            format!("{scheme}://...{}", &rest[user.len()..])
        }
        _ => url.to_owned(),
    }
}

#[cfg(feature = "object-stores")]
fn open_bucket(
    url: &str,
    _: &str,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Arc<dyn BlobStore>, BlobError> {
    bucket::open(url, environment)
}

#[cfg(not(feature = "object-stores"))]
fn open_bucket(
    url: &str,
    name: &str,
    _: impl Iterator<Item = (String, String)>,
) -> Result<Arc<dyn BlobStore>, BlobError> {
    let what = format!(
        "this build does not support {name}: build with --features object-stores, or mount the \
         bucket and name its directory as file:///directory"
    );
    Err(BlobError::Url(url.to_owned(), what))
}

/// The log that a blob store belongs to; `None` for an empty store.
///
/// # Errors
/// [`BlobError::NoMarker`], [`BlobError::Failed`].
pub fn owner(store: &dyn BlobStore) -> Result<Option<LogIdentity>, BlobError> {
    let Some(length) = store.length(MARKER)? else {
        let others = store.list("")?;
        return match others.is_empty() {
            true => Ok(None),
            false => Err(BlobError::NoMarker(store.url().to_owned())),
        };
    };
    let failed = |error: &str| BlobError::Failed {
        url: store.url().to_owned(),
        what: format!("read {MARKER}"),
        error: format!(
            "{error}. Restore {MARKER} from a copy, or use an empty directory or prefix"
        ),
    };
    let mut bytes = vec![0; length.min(MARKER_BYTES_MAX) as usize];
    let read = store.read_at(MARKER, 0, &mut bytes)?;
    let marker: Marker =
        serde_json::from_slice(&bytes[..read]).map_err(|error| failed(&error.to_string()))?;
    match (marker.version, parse_hexadecimal(&marker.identity)) {
        (MARKER_VERSION, Some(identity)) => Ok(Some(LogIdentity(identity))),
        (MARKER_VERSION, None) => Err(failed("invalid log identity")),
        _ => Err(failed("unsupported version")),
    }
}

/// Verifies that a blob store belongs to this log; claims an empty one.
///
/// # Errors
/// [`BlobError::OtherLog`], [`BlobError::NoMarker`], [`BlobError::Empty`], and write errors.
pub fn claim(
    store: &dyn BlobStore,
    identity: LogIdentity,
    expected: Expected,
) -> Result<(), BlobError> {
    match owner(store)? {
        Some(found) => same(store, found, identity),
        None if expected == Expected::InUse => Err(BlobError::Empty(store.url().to_owned())),
        None => take(store, identity),
    }
}

fn same(store: &dyn BlobStore, found: LogIdentity, expected: LogIdentity) -> Result<(), BlobError> {
    if found == expected {
        return Ok(());
    }
    let (found, expected) = (found.to_string(), expected.to_string());
    Err(BlobError::OtherLog { url: store.url().to_owned(), found, expected })
}

/// Claims an empty blob store. If archive and backup of one switch do so at the same time, both
/// succeed once the marker is written.
fn take(store: &dyn BlobStore, identity: LogIdentity) -> Result<(), BlobError> {
    let mut upload = store.upload(MARKER)?;
    if let Some(found) = owner(store)? {
        return same(store, found, identity);
    }
    let marker = Marker { version: MARKER_VERSION, identity: identity.to_string() };
    let text = serde_json::to_string(&marker).expect("a marker is text and a number");
    upload.write(text.as_bytes())?;
    upload.finish()
}

/// Writes a small object.
///
/// # Errors
/// As [`Upload::write`].
pub fn put(store: &dyn BlobStore, name: &str, bytes: &[u8]) -> Result<(), BlobError> {
    let mut upload = store.upload(name)?;
    upload.write(bytes)?;
    upload.finish()
}

/// Reads an object of at most `bytes_max` bytes.
///
/// # Errors
/// [`BlobError::NotFound`], [`BlobError::Failed`], also when it is longer.
pub fn get(store: &dyn BlobStore, name: &str, bytes_max: u64) -> Result<Vec<u8>, BlobError> {
    let url = || store.url().to_owned();
    let length = store
        .length(name)?
        .ok_or_else(|| BlobError::NotFound { url: url(), name: name.to_owned() })?;
    if bytes_max < length {
        let error = format!("the object is longer than {bytes_max} bytes");
        return Err(BlobError::Failed { url: url(), what: format!("read {name}"), error });
    }
    let mut bytes = vec![0; length as usize];
    let read = store.read_at(name, 0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    version: u32,
    identity: String,
}

/// Parses hexadecimal digits into bytes.
#[must_use]
pub fn parse_hexadecimal<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_a_bucket() {
        let here = std::env::current_dir().expect("a directory");
        for (text, path) in [
            ("/mnt/backup", PathBuf::from("/mnt/backup")),
            ("file:///mnt/backup", PathBuf::from("/mnt/backup")),
            ("backup", here.join("backup")),
        ] {
            let location = Location::parse(text).expect("a place");
            assert_eq!(location.directory(), Some(&*path));
            let url = format!("file://{}", path.display());
            assert_eq!(location.open().expect("opens").url(), url, "{text}");
        }
        for url in ["s3://bucket/x", "gs://bucket", "az://container/x", "abfss://container/x"] {
            let location = Location::parse(url).expect("a place");
            assert!(matches!(&location, Location::Bucket { url: own, .. } if own == url), "{url}");
        }
    }

    #[test]
    fn a_text_that_names_no_place_is_refused_without_its_secrets() {
        for (url, named) in [
            ("", "not the location of a blob store: use a directory, file:///DIRECTORY"),
            ("ftp://host/x", "ftp://host/x: not the location"),
            ("file://relative", "needs an absolute path"),
            ("file:///with%20escape", "names with %"),
            ("with%escape", "names with %"),
            ("s3://bucket/x?secret=1", "s3://bucket/x: credentials and settings"),
            ("s3://key:secret@bucket/x", "s3://...@bucket/x: credentials and settings"),
            ("ftp://key:secret@host", "ftp://...@host: not the location"),
        ] {
            let error = open_blob_store(url).err().expect("refused").to_string();
            assert!(error.contains(named), "{error}");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[cfg(not(feature = "object-stores"))]
    #[test]
    fn a_build_without_object_stores_says_how_to_get_them() {
        for (url, named) in [
            (
                "s3://bucket/x",
                "this build does not support S3: build with --features object-stores",
            ),
            ("gs://bucket/x", "this build does not support Google Cloud Storage"),
            ("az://container/x", "this build does not support Azure Blob Storage"),
        ] {
            let error = open_blob_store(url).err().expect("refused").to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
