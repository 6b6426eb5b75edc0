//! The hub's own keys, which can be replaced while the hub runs.
//!
//! They come from one PEM text with a private key, which signs, and at most three blocks `PUBLIC
//! KEY`, which are only published: the next key before it signs, and the former one while messages
//! with its signatures are still on the way. A private key that a new text replaces stays published
//! until the text changes again.
//!
//! Costs: a read lock per signature, on a thread that signs.

use std::sync::{Arc, PoisonError, RwLock};

use crate::key::{KeyError, SigningKey, VerificationKey, public_keys};
use crate::key_ring::KEYS_PER_PARTICIPANT_MAX;

/// The keys as last read, for any thread.
#[derive(Debug)]
pub struct HubKeys(RwLock<Arc<HubKeySet>>);

/// The keys of one text.
#[derive(Debug)]
struct HubKeySet {
    text: Vec<u8>,
    signing: Arc<SigningKey>,
    /// The key that signs, then the others.
    published: Vec<VerificationKey>,
}

impl HubKeys {
    /// Reads the keys for the first time.
    ///
    /// # Errors
    /// As [`SigningKey::from_pem`]; that of the first invalid public key; [`KeyError::TooMany`] if
    /// there are more than [`KEYS_PER_PARTICIPANT_MAX`] keys.
    pub fn from_pem(text: Vec<u8>) -> Result<Self, KeyError> {
        Ok(Self(RwLock::new(Arc::new(HubKeySet::from_pem(text)?))))
    }

    /// Replaces the keys. Returns whether the text has changed.
    ///
    /// # Errors
    /// As [`HubKeys::from_pem`]; nothing has changed then.
    pub fn replace(&self, text: Vec<u8>) -> Result<bool, KeyError> {
        let before = self.current();
        if before.text == text {
            return Ok(false);
        }
        let mut keys = HubKeySet::from_pem(text)?;
        let former = before.signing.verification_key()?;
        if keys.published.len() < KEYS_PER_PARTICIPANT_MAX {
            keys.publish(former);
        }
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
        Ok(true)
    }

    /// The key that signs.
    #[must_use]
    pub fn signing(&self) -> Arc<SigningKey> {
        Arc::clone(&self.current().signing)
    }

    /// The public keys for participants: first the one whose private key signs.
    #[must_use]
    pub fn published(&self) -> Vec<VerificationKey> {
        self.current().published.clone()
    }

    fn current(&self) -> Arc<HubKeySet> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HubKeySet {
    fn from_pem(text: Vec<u8>) -> Result<Self, KeyError> {
        let signing = SigningKey::from_pem(&text)?;
        let mut keys = Self {
            published: vec![signing.verification_key()?],
            signing: Arc::new(signing),
            text: Vec::new(),
        };
        for key in public_keys(&text)? {
            keys.publish(key);
        }
        match keys.published.len() <= KEYS_PER_PARTICIPANT_MAX {
            true => Ok(Self { text, ..keys }),
            false => Err(KeyError::TooMany),
        }
    }

    fn publish(&mut self, key: VerificationKey) {
        let fingerprint = key.fingerprint();
        if self.published.iter().all(|known| known.fingerprint() != fingerprint) {
            self.published.push(key);
        }
    }
}
