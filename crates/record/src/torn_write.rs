//! Counts the zero bytes that a frame legitimately contains, so that a reader can distinguish them
//! from sectors lost in a crash.
//!
//! A sector that was not written before a crash reads as zeros. A written sector may consist of
//! zeros too: the fields of a record can end in zeros, and the frame can end within a sector. A
//! frame therefore stores the number of such zeros.
//!
//! Zeros before the first other byte do not count: a frame begins with its magic, and its records
//! with a length.

/// Size of a disk sector, in bytes, which is written whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Zeros that can fill a frame's part of a sector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrailingZeros {
    /// Zero bytes at the end, if fewer than a sector; longer runs are in `inside`.
    pub ending: u16,
    /// Bytes in runs of zeros that are at least a sector long. Messages of the scheme have none.
    pub inside: u32,
}

impl TrailingZeros {
    /// Counts them. Reads one byte per sector, and its neighbours if it is zero.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let ending = bytes.iter().rev().take(SECTOR_BYTES - 1).take_while(|byte| **byte == 0);
        Self { ending: ending.count() as u16, inside: inside(bytes) }
    }

    /// Whether a frame of this length can have them.
    pub(crate) const fn fit(self, length: u32) -> bool {
        let rows = self.inside == 0 || SECTOR_BYTES as u32 <= self.inside;
        rows && (self.ending as usize) < SECTOR_BYTES && self.inside < length
    }
}

/// Every run of a sector's length contains exactly one of the bytes read.
fn inside(bytes: &[u8]) -> u32 {
    let mut sum = 0;
    let mut at = SECTOR_BYTES - 1;
    while let Some(&byte) = bytes.get(at) {
        let mut end = at + 1;
        if byte == 0 {
            let before = bytes[..at].iter().rev().take_while(|byte| **byte == 0).count();
            end += bytes[end..].iter().take_while(|byte| **byte == 0).count();
            let row = before + end - at;
            sum += if SECTOR_BYTES <= row { row as u32 } else { 0 };
        }
        // The next byte after the run.
        at += SECTOR_BYTES * (end - at).div_ceil(SECTOR_BYTES);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// The same count, run by run.
    fn counted(bytes: &[u8]) -> TrailingZeros {
        let rows: Vec<usize> = bytes.split(|byte| *byte != 0).map(<[u8]>::len).collect();
        let ending = rows.last().map_or(0, |row| *row.min(&(SECTOR_BYTES - 1)));
        let inside: usize = rows.iter().filter(|row| SECTOR_BYTES <= **row).sum();
        TrailingZeros { ending: ending as u16, inside: inside as u32 }
    }

    proptest! {
        #[test]
        fn zeros_agree_with_a_naive_count(
            rows in prop::collection::vec((0_usize..1_600, 1_usize..700), 0..6),
            last in prop_oneof![Just(0_usize), 0_usize..1_100],
        ) {
            let mut bytes = Vec::new();
            for (zeros, others) in rows {
                bytes.resize(bytes.len() + zeros, 0);
                bytes.resize(bytes.len() + others, 7);
            }
            bytes.resize(bytes.len() + last, 0);
            prop_assert_eq!(TrailingZeros::of(&bytes), counted(&bytes));
        }
    }

    #[test]
    fn a_frame_is_longer_than_its_zeros() {
        let fit = |ending, inside, length| TrailingZeros { ending, inside }.fit(length);
        assert!(fit(0, 0, 1) && fit(511, 512, 513));
        assert!(!fit(0, 600, 600) && !fit(0, 600, 599));
        assert!(!fit(512, 0, 9_000) && !fit(0, 511, 9_000));
    }

    #[test]
    fn a_row_of_a_sector_is_found_wherever_it_stands() {
        for start in 0..2 * SECTOR_BYTES {
            for (row, inside) in [(SECTOR_BYTES - 1, 0), (SECTOR_BYTES, SECTOR_BYTES)] {
                let mut bytes = std::vec![1; 4 * SECTOR_BYTES];
                bytes[start..start + row].fill(0);
                let found = TrailingZeros::of(&bytes);
                assert_eq!(found.inside as usize, inside, "{row} zeros at {start}");
            }
        }
    }
}
