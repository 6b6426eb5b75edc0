//! The trail of a batch: everything decided in it, in order, as bytes to be digested.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::Digest;

/// Collects what a batch decided; two replicas that decided the same have equal trails.
///
/// The digest of what was decided before stands in front, so that all of it is hashed in one go.
#[derive(Clone, Debug)]
pub(crate) struct Trail {
    bytes: Vec<u8>,
}

const DIGEST_BYTES: usize = 32;

impl Default for Trail {
    fn default() -> Self {
        Self { bytes: vec![0; DIGEST_BYTES] }
    }
}

impl Trail {
    /// Notes parts whose lengths add up to `N`: put together first, so that the trail grows once.
    // Inlined, the lengths of the parts are constants and each copy is one or two instructions.
    #[inline(always)]
    pub(crate) fn note<const N: usize>(&mut self, parts: &[&[u8]]) {
        let mut all = [0; N];
        let mut at = 0;
        for part in parts {
            all[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        assert_eq!(at, N, "the parts of a note have a fixed length");
        self.bytes.extend_from_slice(&all);
    }

    /// Digest of `before` and of everything noted since the last call; empties the trail.
    pub(crate) fn close(&mut self, before: &Digest) -> Digest {
        self.bytes[..DIGEST_BYTES].copy_from_slice(&before.0);
        let digest = Digest(*blake3::hash(&self.bytes).as_bytes());
        self.bytes.truncate(DIGEST_BYTES);
        digest
    }
}
