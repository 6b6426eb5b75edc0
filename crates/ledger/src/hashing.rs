//! Hashing for the kernel's maps. The key is stored in the log: replicas hash alike, and clients
//! cannot choose ids that collide.

use core::hash::BuildHasher;

use siphasher::sip::SipHasher13;

use crate::ids::TransferId;

/// SipHash-1-3 under the key of the genesis record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyedHashing {
    key: [u8; 16],
}

impl KeyedHashing {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    pub(crate) const fn key(self) -> [u8; 16] {
        self.key
    }

    /// SipHash-1-3 of an id, whose length is known. The general form takes twice the instructions.
    pub(crate) fn of(self, id: &TransferId) -> u64 {
        let bytes = id.to_bytes();
        let mut state = Sip::new(self.key);
        state.add(word(&bytes, 0));
        state.add(word(&bytes, 8));
        state.add((bytes.len() as u64) << 56 | u64::from(bytes[16]));
        state.finish()
    }
}

/// The word that begins at a byte.
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// The state of SipHash-1-3.
struct Sip([u64; 4]);

impl Sip {
    fn new(key: [u8; 16]) -> Self {
        let (k0, k1) = (word(&key, 0), word(&key, 8));
        Self([
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ])
    }

    fn add(&mut self, word: u64) {
        self.0[3] ^= word;
        self.round();
        self.0[0] ^= word;
    }

    fn round(&mut self) {
        let [a, b, c, d] = self.0;
        let (a, c) = (a.wrapping_add(b), c.wrapping_add(d));
        let (b, d) = (b.rotate_left(13) ^ a, d.rotate_left(16) ^ c);
        let a = a.rotate_left(32);
        let (c, a) = (c.wrapping_add(b), a.wrapping_add(d));
        let (b, d) = (b.rotate_left(17) ^ c, d.rotate_left(21) ^ a);
        self.0 = [a, b, c.rotate_left(32), d];
    }

    fn finish(mut self) -> u64 {
        self.0[2] ^= 0xff;
        (0..3).for_each(|_| self.round());
        self.0.iter().fold(0, |sum, part| sum ^ part)
    }
}

impl BuildHasher for KeyedHashing {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FspName;

    #[test]
    fn hash_of_an_id_is_that_of_the_library() {
        for number in 0..1_000_u32 {
            let id = TransferId::parse(&alloc::format!("{:0>26}", number * 7_919)).expect("a ULID");
            let key = [number as u8; 16];
            let expected = SipHasher13::new_with_key(&key).hash(&id.to_bytes());
            assert_eq!(KeyedHashing::new(key).of(&id), expected, "{number}");
        }
    }

    #[test]
    fn key_round_trips() {
        let id = TransferId::parse("00000000000000000000000001").expect("digits are a ULID");
        let (one, other) = (KeyedHashing::new([7; 16]), KeyedHashing::new([8; 16]));
        assert_eq!(one.key(), [7; 16]);
        assert_ne!(one.of(&id), other.of(&id));
        assert_ne!(one.hash_one(id), other.hash_one(id));
        let [a, b] = ["a", "b"].map(|name| FspName::new(name).expect("a name"));
        assert_ne!(one.hash_one(a), one.hash_one(b));
    }
}
