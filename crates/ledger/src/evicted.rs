//! Counts and digests the evicted rows of final transfers ([`crate::eviction`]).
//!
//! Costs: a digest of at most 141 bytes per row; no allocation.

use crate::field::{FixedBuffer, Row, stored};

/// Maximum length of the stored form of a row that is digested: transfers and notices.
const ROW_BYTES_MAX: usize = 256;

stored! {
    /// Count and digest of the rows in the cold store. Enough to compare two states, whichever rows
    /// each has in memory. Part of a snapshot of the state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EvictedRows {
        /// Number of evicted rows.
        pub rows: u64,
        /// Sum of their digests, in four lanes.
        pub sum: [u64; 4],
    }
}

impl EvictedRows {
    pub(crate) fn add(&mut self, row: impl Row) {
        self.rows += 1;
        for (lane, part) in self.sum.iter_mut().zip(lanes_of(row)) {
            *lane = lane.wrapping_add(part);
        }
    }

    /// Adds a row of any length.
    pub(crate) fn add_long(&mut self, write: impl FnOnce(&mut blake3::Hasher)) {
        let mut hasher = blake3::Hasher::new();
        write(&mut hasher);
        self.rows += 1;
        for (lane, part) in self.sum.iter_mut().zip(lanes(hasher.finalize())) {
            *lane = lane.wrapping_add(part);
        }
    }

    pub(crate) fn remove(&mut self, row: impl Row) {
        self.rows = self.rows.checked_sub(1).expect("a row that comes back has left before");
        for (lane, part) in self.sum.iter_mut().zip(lanes_of(row)) {
            *lane = lane.wrapping_sub(part);
        }
    }
}

/// The digest of a row's stored form, in four lanes.
fn lanes_of(row: impl Row) -> [u64; 4] {
    let mut bytes = FixedBuffer::<ROW_BYTES_MAX>::new();
    row.write_row(&mut bytes);
    lanes(blake3::hash(bytes.as_bytes()))
}

fn lanes(digest: blake3::Hash) -> [u64; 4] {
    let (lanes, _) = digest.as_bytes().as_chunks::<8>();
    core::array::from_fn(|at| u64::from_le_bytes(lanes[at]))
}
