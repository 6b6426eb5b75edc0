//! The absence of PKCS#11: in a program that is linked statically, which cannot load modules, and
//! in one without the feature `pkcs11`.

use crate::aead::KEY_BYTES;
use crate::master_key::{MasterKey, MasterKeyError};
use crate::pkcs11_uri::KeyUri;

/// A key in a token, which this program cannot use.
#[derive(Debug)]
pub enum TokenKey {}

impl TokenKey {
    /// Refuses.
    ///
    /// # Errors
    /// Always [`MasterKeyError::Source`].
    pub fn open(uri: &str) -> Result<Self, MasterKeyError> {
        let uri = KeyUri::parse(uri)?;
        Err(MasterKeyError::Source(format!(
            "pkcs11 module {}: this program cannot load modules, because it is linked statically \
             or built without the feature pkcs11; build it without them, or use command:",
            uri.module.display()
        )))
    }
}

impl MasterKey for TokenKey {
    fn name(&self) -> &str {
        match *self {}
    }

    fn wrap(&self, _: &[u8], _: &[u8; KEY_BYTES]) -> Result<Vec<u8>, MasterKeyError> {
        match *self {}
    }

    fn unwrap(&self, _: &[u8], _: &[u8]) -> Result<[u8; KEY_BYTES], MasterKeyError> {
        match *self {}
    }
}
