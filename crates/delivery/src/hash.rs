//! A fast seeded hash for the tables of a lane.
//!
//! Participants choose transfer ids, so the hash must not be guessable: the seed is the defence.
//! Nothing depends on the order of a table.

use std::hash::{BuildHasher, Hasher};

const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

#[derive(Clone, Debug)]
pub(crate) struct Seeded {
    start: u64,
    end: u64,
}

impl Seeded {
    pub(crate) fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }
}

impl BuildHasher for Seeded {
    type Hasher = Folded;

    fn build_hasher(&self) -> Folded {
        Folded { state: self.start, end: self.end }
    }
}

/// Folds each word into the state with one widening multiplication.
#[derive(Clone, Debug)]
pub(crate) struct Folded {
    state: u64,
    end: u64,
}

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(u64::from_le_bytes(word.try_into().expect("a chunk of eight bytes")));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.state = fold(self.state ^ value, SPREAD);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }

    fn finish(&self) -> u64 {
        fold(self.state, self.end | 1)
    }
}

fn fold(left: u64, right: u64) -> u64 {
    let product = u128::from(left) * u128::from(right);
    (product as u64) ^ ((product >> 64) as u64)
}
