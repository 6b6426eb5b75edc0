//! Deterministic mutations, so that the targets get more inputs than their seeds without a fuzzer.

use std::sync::LazyLock;

/// Words that inputs are made of; the same that `fuzz/dictionary.txt` gives to libFuzzer.
const WORDS: &str = include_str!("../../../fuzz/dictionary.txt");

/// A source of numbers: splitmix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The same seed gives the same numbers.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Changes one to four places of `input`; `other` is a further input, to take parts of.
#[must_use]
pub fn mutate(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut out = input.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(out.len() + 1);
        let end = (at + random.below(16)).min(out.len());
        match random.below(8) {
            0 => drop(out.drain(at..end)),
            1 => {
                let part = out[at..end].to_vec();
                out.splice(at..at, part);
            }
            2 => out.insert(at, random.next() as u8),
            3 => out.truncate(at),
            4 => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(64)).min(other.len());
                out.splice(at..end, other[from..to].iter().copied());
            }
            5 => {
                let word = &DICTIONARY[random.below(DICTIONARY.len())];
                out.splice(at..end, word.bytes());
            }
            _ => {
                if let Some(byte) = out.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
    }
    out
}

/// The words without their quotes; those with bytes that are no text are for libFuzzer only.
static DICTIONARY: LazyLock<Vec<String>> = LazyLock::new(|| {
    WORDS
        .lines()
        .filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'))
        .filter(|word| !word.contains("\\x"))
        .map(|word| word.replace("\\\"", "\"").replace("\\\\", "\\"))
        .collect()
});
