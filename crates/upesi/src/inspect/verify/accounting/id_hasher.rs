//! Hashing for the tables of the audit: millions of ids, each looked up a few times.
//!
//! Each word is multiplied with a secret and folded. The secrets are random for each run, so that
//! ids cannot be chosen to collide in a table. Costs a few nanoseconds per id, a quarter of the
//! standard hasher.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Builds hashers that share two secrets.
#[derive(Clone, Debug)]
pub(super) struct IdHasher {
    begin: u64,
    by: u64,
}

impl Default for IdHasher {
    fn default() -> Self {
        let secrets = RandomState::new();
        Self { begin: secrets.hash_one(0), by: secrets.hash_one(1) | 1 }
    }
}

impl BuildHasher for IdHasher {
    type Hasher = FoldedHasher;

    fn build_hasher(&self) -> FoldedHasher {
        FoldedHasher { state: self.begin, by: self.by }
    }
}

/// The hash of one value.
pub(super) struct FoldedHasher {
    state: u64,
    by: u64,
}

impl Hasher for FoldedHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.state ^ word) * u128::from(self.by);
        self.state = product as u64 ^ (product >> 64) as u64;
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        // Folded again, because the last word has reached the upper half only.
        let product = u128::from(self.state) * u128::from(self.by);
        product as u64 ^ (product >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Consecutive numbers, and words that differ in one bit, have different hashes.
    #[test]
    fn similar_values_are_spread() {
        let folding = IdHasher::default();
        for value in [|at: u64| at, |at: u64| at << 40, |at: u64| 1 << (at % 64)] {
            let distinct: HashSet<u64> = (0..4_096).map(value).collect();
            let places: HashSet<u64> =
                distinct.iter().map(|value| folding.hash_one(value) % 65_536).collect();
            assert!(distinct.len() * 9 / 10 <= places.len(), "{} places", places.len());
        }
    }
}
