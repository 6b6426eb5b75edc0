//! Sources of master keys that are outside of this process: a file or the output of a command.
//!
//! A source is read again each time a data key is wrapped. A new data key is never wrapped by a
//! master key that its source no longer has, because nothing could unwrap it after the next start.

use std::fmt;
use std::path::Path;

use crate::aead::KEY_BYTES;
use crate::command::KeyCommand;
use crate::master_key::{LocalKey, MasterKey, MasterKeyError};

type Read = Box<dyn Fn() -> Result<LocalKey, MasterKeyError> + Send + Sync>;

/// A master key that is read from its source at the start and again for each new data key.
pub struct SourcedKey {
    key: LocalKey,
    read: Read,
}

impl SourcedKey {
    /// The key in a file that other users cannot read.
    ///
    /// # Errors
    /// [`MasterKeyError::Source`].
    pub fn from_file(path: &Path) -> Result<Self, MasterKeyError> {
        let path = path.to_owned();
        Self::new(Box::new(move || LocalKey::from_file(&path)))
    }

    /// The key that a command prints: a program and its arguments, separated by spaces. No shell
    /// reads them.
    ///
    /// # Errors
    /// [`MasterKeyError::Source`] with the beginning of the command's standard error.
    pub fn from_command(text: &str) -> Result<Self, MasterKeyError> {
        let command = KeyCommand::parse(text)?;
        Self::new(Box::new(move || command.run().and_then(|output| command.parse_key(&output))))
    }

    fn new(read: Read) -> Result<Self, MasterKeyError> {
        Ok(Self { key: read()?, read })
    }
}

impl MasterKey for SourcedKey {
    fn name(&self) -> &str {
        self.key.name()
    }

    fn wrap(&self, context: &[u8], key: &[u8; KEY_BYTES]) -> Result<Vec<u8>, MasterKeyError> {
        let now = (self.read)()?;
        if now.name() != self.name() {
            return Err(MasterKeyError::Source(format!(
                "its source has master key {} now; to change to that key, name both in the \
                 settings and restart",
                now.name()
            )));
        }
        now.wrap(context, key)
    }

    fn unwrap(&self, context: &[u8], wrapped: &[u8]) -> Result<[u8; KEY_BYTES], MasterKeyError> {
        self.key.unwrap(context, wrapped)
    }
}

impl fmt::Debug for SourcedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourcedKey").field("key", &self.key).finish_non_exhaustive()
    }
}
