//! A key that encrypts secrets on the log, and signs sessions.
//!
//! One text is the source of all keys. Each purpose has a key of its own, derived with BLAKE3.
//! Secrets are encrypted with AES-256-GCM under a random nonce of 12 bytes, which precedes the
//! ciphertext. The name of the owner is authenticated: a secret copied to another operator cannot
//! be read.

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};

use crate::{NoRandomBytes, random};

const NONCE_BYTES: usize = 12;

/// The keys that are derived from one text.
#[derive(Clone)]
pub struct SecretsKey {
    encryption: [u8; 32],
    sessions: [u8; 32],
}

/// An encrypted secret cannot be read with this key.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("an encrypted secret cannot be read: the secrets key is another one, or it was changed")]
pub struct Unreadable;

impl SecretsKey {
    /// Derives the keys from a text, such as the content of a key file.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let derived = |purpose| blake3::derive_key(purpose, text.as_bytes());
        Self {
            encryption: derived("upesi 2026-11 secrets of operators, AES-256-GCM"),
            sessions: derived("upesi 2026-11 sessions of operators, BLAKE3"),
        }
    }

    /// Encrypts a secret of an owner.
    ///
    /// # Errors
    /// [`NoRandomBytes`].
    pub fn seal(&self, owner: &str, secret: &[u8]) -> Result<Vec<u8>, NoRandomBytes> {
        let nonce: [u8; NONCE_BYTES] = random()?;
        let payload = Payload { msg: secret, aad: owner.as_bytes() };
        let sealed = self.cipher().encrypt(&Nonce::from(nonce), payload);
        Ok([&nonce[..], &sealed.expect("a secret is short")].concat())
    }

    /// Decrypts a secret of an owner.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn open(&self, owner: &str, sealed: &[u8]) -> Result<Vec<u8>, Unreadable> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_BYTES>().ok_or(Unreadable)?;
        let payload = Payload { msg: sealed, aad: owner.as_bytes() };
        self.cipher().decrypt(&Nonce::from(*nonce), payload).map_err(|_| Unreadable)
    }

    /// The authentication code of a session.
    pub(crate) fn sign(&self, session: &[u8]) -> blake3::Hash {
        blake3::keyed_hash(&self.sessions, session)
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(&Key::<Aes256Gcm>::from(self.encryption))
    }
}

impl std::fmt::Debug for SecretsKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretsKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_read_by_its_owner_with_the_same_key() {
        let key = SecretsKey::new("one");
        let sealed = key.seal("anna", b"secret").expect("random bytes");
        assert_eq!(key.open("anna", &sealed).as_deref(), Ok(&b"secret"[..]));
        assert_eq!(SecretsKey::new("one").open("anna", &sealed).as_deref(), Ok(&b"secret"[..]));
        assert_eq!(key.open("bert", &sealed), Err(Unreadable));
        assert_eq!(SecretsKey::new("two").open("anna", &sealed), Err(Unreadable));
        for at in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[at] ^= 1;
            assert_eq!(key.open("anna", &changed), Err(Unreadable), "byte {at}");
            assert_eq!(key.open("anna", &sealed[..at]), Err(Unreadable), "{at} bytes");
        }
        assert_ne!(key.seal("anna", b"secret").expect("random bytes"), sealed, "nonces differ");
        assert_eq!(format!("{key:?}"), "SecretsKey");
    }
}
