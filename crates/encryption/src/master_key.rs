//! Master keys: they wrap data keys and are not stored in the data directory.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;

use crate::aead::{KEY_BYTES, Key, NONCE_BYTES, TAG_BYTES};

/// Wraps and unwraps data keys. The context is authenticated.
pub trait MasterKey: Send + Sync + fmt::Debug {
    /// The key's name, which is stored with each key that it wrapped: letters, digits, `-`, `_`,
    /// `.` and `:`.
    fn name(&self) -> &str;

    /// Wraps a data key.
    ///
    /// # Errors
    /// [`MasterKeyError`] if the key is out of reach.
    fn wrap(&self, context: &[u8], key: &[u8; KEY_BYTES]) -> Result<Vec<u8>, MasterKeyError>;

    /// Unwraps a data key.
    ///
    /// # Errors
    /// [`MasterKeyError`] if the key is out of reach, or did not wrap these bytes.
    fn unwrap(&self, context: &[u8], wrapped: &[u8]) -> Result<[u8; KEY_BYTES], MasterKeyError>;
}

/// Why a master key cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MasterKeyError {
    /// Its source cannot be read or reached.
    #[error("{0}")]
    Source(String),
    /// Another key wrapped these bytes, or they were changed.
    #[error("it was wrapped by another master key, or data.keys was changed")]
    Refused,
}

/// A master key in the memory of this process, read from a file or an environment variable.
pub struct LocalKey {
    name: String,
    key: Key,
}

/// Longest file of a key, in bytes: 64 hexadecimal digits and the end of the line.
const FILE_BYTES_MAX: u64 = KEY_BYTES as u64 * 2 + 2;

impl LocalKey {
    /// A key of these bytes. Its name is a hash of them.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        let hash = blake3::derive_key("upesi 2026-11-28 name of a master key", key);
        Self { name: short_name(&hash), key: Key::new(key) }
    }

    /// Reads a key from text: 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`MasterKeyError::Source`], without the text.
    pub fn parse(text: &str) -> Result<Self, MasterKeyError> {
        let digits = text.trim_ascii();
        let key =
            parse_hexadecimal(digits).and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
        match key {
            Some(key) => Ok(Self::new(&key)),
            None => Err(MasterKeyError::Source(
                "expected 64 hexadecimal digits, such as `openssl rand -hex 32` prints".into(),
            )),
        }
    }

    /// Reads a key that a command printed: as [`Self::parse`], or 32 bytes in base64.
    ///
    /// # Errors
    /// [`MasterKeyError::Source`], without the text.
    pub(crate) fn parse_printed(text: &str) -> Result<Self, MasterKeyError> {
        let bytes = STANDARD.decode(text.trim_ascii()).ok();
        match bytes.and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok()) {
            Some(key) => Ok(Self::new(&key)),
            None => Self::parse(text).map_err(|error| {
                MasterKeyError::Source(format!("its output: {error}, or 32 bytes in base64"))
            }),
        }
    }

    /// Reads a key from a file that other users cannot read.
    ///
    /// # Errors
    /// [`MasterKeyError::Source`].
    pub fn from_file(path: &Path) -> Result<Self, MasterKeyError> {
        let text = read_private_file(path, FILE_BYTES_MAX)?;
        Self::parse(&text)
            .map_err(|error| MasterKeyError::Source(format!("{}: {error}", path.display())))
    }
}

/// Reads at most one byte more than the limit of a file that other users cannot read.
pub(crate) fn read_private_file(path: &Path, bytes_max: u64) -> Result<String, MasterKeyError> {
    let failed = |what: String| MasterKeyError::Source(format!("{}: {what}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    let found = file.metadata().map_err(|error| failed(error.to_string()))?;
    let mode = found.permissions().mode() & 0o777;
    if mode & 0o007 != 0 {
        return Err(failed(format!(
            "readable by all users (mode {mode:03o}); chmod 600 it, and change to another secret \
             if others could have read it"
        )));
    }
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    read.map_err(|error| failed(error.to_string()))?;
    Ok(text)
}

impl MasterKey for LocalKey {
    fn name(&self) -> &str {
        &self.name
    }

    fn wrap(&self, context: &[u8], key: &[u8; KEY_BYTES]) -> Result<Vec<u8>, MasterKeyError> {
        let nonce: [u8; NONCE_BYTES] = random()?;
        let mut wrapped = nonce.to_vec();
        self.key.seal(nonce, context, key, &mut wrapped);
        Ok(wrapped)
    }

    fn unwrap(&self, context: &[u8], wrapped: &[u8]) -> Result<[u8; KEY_BYTES], MasterKeyError> {
        let (nonce, sealed) = wrapped.split_first_chunk().ok_or(MasterKeyError::Refused)?;
        if sealed.len() != KEY_BYTES + TAG_BYTES {
            return Err(MasterKeyError::Refused);
        }
        let mut key = Vec::with_capacity(sealed.len());
        match self.key.open(*nonce, context, sealed, &mut key) {
            true => Ok(key.try_into().expect("its length was checked")),
            false => Err(MasterKeyError::Refused),
        }
    }
}

impl fmt::Debug for LocalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalKey").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The name of a key whose hash this is.
pub(crate) fn short_name(hash: &[u8; 32]) -> String {
    hash[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], MasterKeyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| MasterKeyError::Source(error.to_string()))?;
    Ok(bytes)
}

pub(crate) fn parse_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let is_even = digits.len().is_multiple_of(2);
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let pair = |pair: &[u8]| Some(digit(&pair[0])? << 4 | digit(&pair[1])?);
    is_even.then(|| digits.chunks_exact(2).map(pair).collect()).flatten()
}
