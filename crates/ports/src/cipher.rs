//! Encryption of stored bytes.
//!
//! A [`Sealer`] encrypts with the data key of the present period, and a [`Cipher`] decrypts with
//! whichever data key the sealed bytes name. Contents of some participants have data keys of their
//! own ([`Sealer::seal_for`]), which are destroyed when these contents were erased. Sealed bytes
//! are:
//!
//! | at | bytes | field (little endian) |
//! |---:|---:|---|
//! | 0 | 8 | id of the data key; its first four bytes are never all zero |
//! | 8 | 8 | number of the encryption under this key |
//! | 16 | n | ciphertext |
//! | 16 + n | 16 | authentication tag |
//!
//! The number makes the nonce. A data key encrypts only in the process that made it, which counts
//! its encryptions, so that no nonce is ever used twice under a key: not after a crash, and not
//! when the same log index is written again.
//!
//! A *context* is authenticated but not stored with the sealed bytes. It names the place of the
//! bytes, so that they cannot be moved to another one.

use std::fmt;
use std::sync::Arc;

use ledger::FspName;
use record::frame::SEAL_BYTES;

/// Id of a data key: random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u64);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl KeyId {
    /// The key that sealed bytes name; `None` if they are too short to be sealed bytes.
    #[must_use]
    pub fn of(sealed: &[u8]) -> Option<Self> {
        let id = sealed.first_chunk().filter(|_| SEAL_BYTES <= sealed.len())?;
        Some(Self(u64::from_le_bytes(*id)))
    }
}

/// Decrypts stored bytes, and makes sealers for new ones.
pub trait Cipher: Send + Sync + fmt::Debug + 'static {
    /// A sealer for one thread.
    fn sealer(&self) -> Box<dyn Sealer>;

    /// Appends the plain bytes of `sealed` to `out`.
    ///
    /// # Errors
    /// [`CipherError`]; `out` is unchanged then.
    fn open(&self, context: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError>;
}

/// Encrypts for one thread. Locks only when the data key has changed, and allocates only room in
/// `out`.
pub trait Sealer: Send + Sync {
    /// Appends the sealed form of `plain` to `out`: [`SEAL_BYTES`] more than `plain`.
    ///
    /// # Errors
    /// [`CipherError::NoNewKey`] if the first data key of this process cannot be made.
    fn seal(&mut self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError>;

    /// Whether any participant has data keys of its own.
    fn has_participant_keys(&self) -> bool {
        false
    }

    /// [`Sealer::seal`] with the data key of a participant; returns false, and `out` is unchanged,
    /// if it has none. The case of names is ignored.
    ///
    /// # Errors
    /// As [`Sealer::seal`].
    fn seal_for(
        &mut self,
        _owner: &FspName,
        _context: &[u8],
        _plain: &[u8],
        _out: &mut Vec<u8>,
    ) -> Result<bool, CipherError> {
        Ok(false)
    }
}

/// Why sealed bytes were not decrypted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CipherError {
    /// No key is given.
    #[error(
        "it is encrypted with data key {0}, and no master key is given; name it with \
         encryption.key in the settings file or with UPESI_ENCRYPTION_KEY"
    )]
    NoKey(KeyId),
    /// The data key is not in the file of data keys.
    #[error(
        "it is encrypted with data key {0}, which is not in data.keys; restore data.keys from a \
         copy of this directory"
    )]
    UnknownKey(KeyId),
    /// The data key of a participant, whose contents were all erased.
    #[error("it is encrypted with data key {0}, which was destroyed with the contents")]
    Destroyed(KeyId),
    /// The data key cannot be unwrapped.
    #[error("it is encrypted with data key {key}, which cannot be opened: {reason}")]
    Locked {
        /// The data key.
        key: KeyId,
        /// The reason, and the remedy.
        reason: String,
    },
    /// There is no data key to encrypt with.
    #[error("{0}")]
    NoNewKey(String),
    /// The bytes are not those that were sealed, or belong elsewhere.
    #[error("the encrypted content was changed or belongs elsewhere")]
    Changed,
}

/// A cipher, or the absence of one: what a disk gives to the readers of its files.
pub type OptionalCipher = Option<Arc<dyn Cipher>>;

/// [`Cipher::open`] for readers that may have no cipher.
///
/// # Errors
/// [`CipherError`].
pub fn open_sealed(
    cipher: Option<&dyn Cipher>,
    context: &[u8],
    sealed: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CipherError> {
    let key = KeyId::of(sealed).ok_or(CipherError::Changed)?;
    match cipher {
        Some(cipher) => cipher.open(context, sealed, out),
        None => Err(CipherError::NoKey(key)),
    }
}
