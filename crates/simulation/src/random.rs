//! The only source of chance: SplitMix64 from the run's seed.

/// A seeded generator. Every draw of a run comes from one, in an order that the seed fixes.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number between both ends, inclusive.
    pub(crate) fn between(&mut self, ends: (u64, u64)) -> u64 {
        ends.0 + self.below(ends.1 - ends.0 + 1)
    }

    /// A pause that is `mean` on average and never zero.
    pub(crate) fn around(&mut self, mean: u64) -> u64 {
        1 + self.below(2 * mean.max(1))
    }

    /// True this many times in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u32) -> bool {
        self.below(1_000) < u64::from(per_mille)
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// Schedule of a workload that exists in some of the runs only.
#[derive(Debug)]
pub(crate) struct Arrivals {
    /// Time between two acts, on average.
    every_us: Option<u64>,
}

impl Arrivals {
    /// The workload exists with a probability of `per_mille`, and acts between `acts.0` and
    /// `acts.1` times.
    pub(crate) fn draw(
        random: &mut Random,
        per_mille: u32,
        acts: (u64, u64),
        chaos_us: u64,
    ) -> Self {
        let is_active = random.chance(per_mille);
        let acts = random.between(acts);
        Self { every_us: is_active.then_some(chaos_us / acts) }
    }

    pub(crate) fn leave(&mut self) {
        self.every_us = None;
    }

    pub(crate) fn is_active(&self) -> bool {
        self.every_us.is_some()
    }

    /// How long it is until the next act, if there is one.
    pub(crate) fn next(&self, random: &mut Random) -> Option<u64> {
        self.every_us.map(|mean| random.around(mean))
    }
}

/// Spreads every bit of a number over all the others.
pub(crate) fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Sixteen bytes drawn from a number: the same for the same number.
pub(crate) fn spread16(number: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mix(number).to_le_bytes());
    bytes[8..].copy_from_slice(&mix(number ^ u64::MAX).to_le_bytes());
    bytes
}

/// Thirty-two bytes drawn from a number: the same for the same number.
pub(crate) fn spread32(number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&spread16(number));
    bytes[16..].copy_from_slice(&spread16(number.rotate_left(32) ^ 0x5bd1_e995));
    bytes
}

/// The bytes as words of eight bytes; the last one is padded with zeros.
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let (whole, rest) = bytes.as_chunks();
    let last = (!rest.is_empty()).then(|| {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        word
    });
    whole.iter().copied().chain(last).map(u64::from_le_bytes)
}
