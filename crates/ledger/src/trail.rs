//! The trail of a batch: everything decided in it, in order, as bytes to be digested.

use alloc::vec::Vec;

use crate::ids::Digest;

/// Collects what a batch decided; two replicas that decided the same have equal trails.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    bytes: Vec<u8>,
}

impl Trail {
    pub(crate) fn note(&mut self, parts: &[&[u8]]) {
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
    }

    /// Digest of `before` and of everything noted since the last call; empties the trail.
    pub(crate) fn close(&mut self, before: &Digest) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&before.0);
        hasher.update(&self.bytes);
        self.bytes.clear();
        Digest(*hasher.finalize().as_bytes())
    }
}
