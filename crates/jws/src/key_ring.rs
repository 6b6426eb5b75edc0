//! The verification keys of all participants.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs, io};

use ledger::{Digest, FspName};

use crate::key::{KEY_TEXT_BYTES_MAX, KeyError, VerificationKey};

/// Maximum number of keys per participant: old and new ones during a rotation.
pub const KEYS_PER_PARTICIPANT_MAX: usize = 4;
/// Maximum number of participants in a ring, and of files in a directory.
pub const PARTICIPANTS_MAX: usize = 10_000;

/// The keys of all participants. Immutable and cheap to clone: a change returns a new ring.
#[derive(Clone, Default)]
pub struct KeyRing(pub(crate) Arc<HashMap<FspName, Vec<VerificationKey>>>);

/// The reasons why a directory of keys could not be read. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The directory or a file could not be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// Directory or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A file's name does not begin with the name of a participant.
    #[error("{}: the name before .pem is not a participant's (1 to 32 bytes)", path.display())]
    Name {
        /// The file.
        path: PathBuf,
    },
    /// A file contains no valid key, or one key too many for its participant.
    #[error("{}: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// The error.
        source: KeyError,
    },
    /// More files than [`PARTICIPANTS_MAX`].
    #[error("{}: more than 10000 files", path.display())]
    TooMany {
        /// The directory.
        path: PathBuf,
    },
}

impl KeyRing {
    /// A ring of these keys. Repeated keys count once.
    ///
    /// # Errors
    /// [`KeyError::TooMany`] if a participant has more than [`KEYS_PER_PARTICIPANT_MAX`],
    /// [`KeyError::Full`] if there are more than [`PARTICIPANTS_MAX`] participants.
    pub fn new(
        keys: impl IntoIterator<Item = (FspName, VerificationKey)>,
    ) -> Result<Self, KeyError> {
        let mut ring = HashMap::new();
        for (name, key) in keys {
            insert(&mut ring, name, key)?;
        }
        Ok(Self(Arc::new(ring)))
    }

    /// Reads the files `<fspId>.pem` and `<fspId>.<n>.pem` of a directory, with digits `n`. Other
    /// files, hidden ones and directories are ignored.
    ///
    /// # Errors
    /// The first error in the order of file names: a ring with missing keys would refuse valid
    /// messages.
    pub fn load(directory: &Path) -> Result<Self, LoadError> {
        let mut ring = HashMap::new();
        for path in key_files(directory)? {
            let (name, key) = read_key(&path)?;
            insert(&mut ring, name, key).map_err(|source| LoadError::Key { path, source })?;
        }
        Ok(Self(Arc::new(ring)))
    }

    /// A ring with one more key; the same ring if it has the key already.
    ///
    /// # Errors
    /// Like [`KeyRing::new`].
    pub fn with(&self, name: FspName, key: VerificationKey) -> Result<Self, KeyError> {
        let mut ring = HashMap::clone(&self.0);
        insert(&mut ring, name, key)?;
        Ok(Self(Arc::new(ring)))
    }

    /// A ring without the participant's key with this fingerprint; the same ring if it has none.
    #[must_use]
    pub fn without(&self, name: &FspName, fingerprint: Digest) -> Self {
        let mut ring = HashMap::clone(&self.0);
        if let Some(keys) = ring.get_mut(name) {
            keys.retain(|key| key.fingerprint() != fingerprint);
            if keys.is_empty() {
                ring.remove(name);
            }
        }
        Self(Arc::new(ring))
    }

    /// The keys of a participant, oldest first; empty if it has none.
    #[must_use]
    pub fn of(&self, name: &FspName) -> &[VerificationKey] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }

    /// All participants with keys, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&FspName, &[VerificationKey])> {
        self.0.iter().map(|(name, keys)| (name, keys.as_slice()))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter()).finish()
    }
}

pub(crate) fn insert(
    ring: &mut HashMap<FspName, Vec<VerificationKey>>,
    name: FspName,
    key: VerificationKey,
) -> Result<(), KeyError> {
    if ring.len() == PARTICIPANTS_MAX && !ring.contains_key(&name) {
        return Err(KeyError::Full);
    }
    let keys = ring.entry(name).or_default();
    if keys.iter().any(|known| known.fingerprint() == key.fingerprint()) {
        return Ok(());
    }
    if keys.len() == KEYS_PER_PARTICIPANT_MAX {
        return Err(KeyError::TooMany);
    }
    keys.push(key);
    Ok(())
}

/// The key files of a directory, sorted by name.
pub(crate) fn key_files(directory: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let fault = |source| LoadError::Read { path: directory.to_owned(), source };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes()[0] == b'.');
        if hidden || path.extension().is_none_or(|extension| extension != "pem") || path.is_dir() {
            continue;
        }
        if files.len() == PARTICIPANTS_MAX {
            return Err(LoadError::TooMany { path: directory.to_owned() });
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}

/// The participant and the key of a file.
pub(crate) fn read_key(path: &Path) -> Result<(FspName, VerificationKey), LoadError> {
    let name = participant(path).ok_or_else(|| LoadError::Name { path: path.to_owned() })?;
    match VerificationKey::from_pem(&read(path)?) {
        Ok(key) => Ok((name, key)),
        Err(source) => Err(LoadError::Key { path: path.to_owned(), source }),
    }
}

fn participant(path: &Path) -> Option<FspName> {
    let stem = path.file_stem()?.to_str()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match stem.rsplit_once('.') {
        Some((name, number)) if is_number(number) => FspName::new(name),
        _ => FspName::new(stem),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let fault = |source| LoadError::Read { path: path.to_owned(), source };
    let size = fs::metadata(path).map_err(fault)?.len();
    if (KEY_TEXT_BYTES_MAX as u64) < size {
        return Err(LoadError::Key { path: path.to_owned(), source: KeyError::TooLong });
    }
    fs::read(path).map_err(fault)
}
