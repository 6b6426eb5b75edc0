//! Digest of everything decided in a batch.

use alloc::vec;
use alloc::vec::Vec;

use crate::ids::Digest;

/// Collects the decisions of a batch as bytes. Two replicas that decide alike collect equal bytes.
///
/// The digest of earlier batches comes first, so that everything is hashed in one call.
#[derive(Clone, Debug)]
pub(crate) struct BatchDigest {
    bytes: Vec<u8>,
}

const DIGEST_BYTES: usize = 32;

impl Default for BatchDigest {
    fn default() -> Self {
        Self { bytes: vec![0; DIGEST_BYTES] }
    }
}

impl BatchDigest {
    /// Appends parts with a total length of `N`. They are joined first, so that the buffer grows
    /// once. Inlined, the lengths of the parts are constants and each copy is one or two
    /// instructions.
    #[inline(always)]
    pub(crate) fn note<const N: usize>(&mut self, parts: &[&[u8]]) {
        let mut all = [0; N];
        let mut at = 0;
        for part in parts {
            all[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        assert_eq!(at, N, "the parts of an entry have a fixed length");
        self.bytes.extend_from_slice(&all);
    }

    /// Digest of `before` and of everything appended since the last call. Empties the buffer.
    pub(crate) fn close(&mut self, before: &Digest) -> Digest {
        self.bytes[..DIGEST_BYTES].copy_from_slice(&before.0);
        let digest = Digest(*blake3::hash(&self.bytes).as_bytes());
        self.bytes.truncate(DIGEST_BYTES);
        digest
    }
}
