//! A Bloom filter of evicted transfer ids that grows by doubling.
//!
//! Costs: 16 bits per id and about four probes per part. The rate of false positives is below 1 %;
//! there are no false negatives.

use ledger::TransferId;

use crate::membership::mix;

/// Ids in the first part; each further one holds twice as many.
const FIRST: usize = 1 << 16;
const BITS_PER_ID: usize = 16;
const PROBES: u64 = 4;

/// A growing set of ids with false positives and without false negatives.
#[derive(Debug, Default)]
pub(crate) struct BloomFilter {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    words: Vec<u64>,
    room: usize,
}

impl BloomFilter {
    pub(crate) fn add(&mut self, id: &TransferId) {
        if self.parts.last().is_none_or(|part| part.room == 0) {
            let room = FIRST << self.parts.len();
            self.parts.push(Part { words: vec![0; room * BITS_PER_ID / 64], room });
        }
        let part = self.parts.last_mut().expect("one was just added");
        part.room -= 1;
        let bits = part.words.len() as u64 * 64;
        for bit in probes(id) {
            let bit = bit % bits;
            part.words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    pub(crate) fn may_hold(&self, id: &TransferId) -> bool {
        self.parts.iter().any(|part| {
            let bits = part.words.len() as u64 * 64;
            probes(id).all(|bit| {
                let bit = bit % bits;
                part.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1
            })
        })
    }
}

/// Bit numbers from two mixed halves of the id. Clients choose ids; crafted collisions only cost
/// reads of the store.
fn probes(id: &TransferId) -> impl Iterator<Item = u64> {
    let bytes = id.to_bytes();
    let half = |at: usize| {
        let bytes = bytes[at..at + 8].try_into().expect("a half has eight bytes");
        mix(u64::from_le_bytes(bytes))
    };
    let (one, other) = (half(1), half(9) ^ u64::from(bytes[0]));
    (0..PROBES).map(move |number| mix(one.wrapping_add(other.wrapping_mul(2 * number + 1))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> TransferId {
        TransferId::parse(&format!("{number:0>26}")).expect("digits are an id")
    }

    #[test]
    fn added_ids_are_found_and_few_others() {
        let mut filter = BloomFilter::default();
        assert!(!filter.may_hold(&id(0)));
        let added = FIRST + FIRST / 8;
        (0..added).for_each(|number| filter.add(&id(number)));
        assert!((0..added).all(|number| filter.may_hold(&id(number))));
        let others = (added..2 * added).filter(|number| filter.may_hold(&id(*number))).count();
        assert!(others < added / 50, "{others} of {added} are false positives");
    }
}
