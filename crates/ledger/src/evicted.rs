//! Counts and digests the rows of ended transfers that are evicted ([`crate::cold`]).
//!
//! Costs: a digest of at most 141 bytes for a row; no allocation.

use crate::field::{FixedBuffer, Row, stored};

/// Longest stored form of a row whose digest is added up: those of transfers and notices.
const ROW_BYTES_MAX: usize = 256;

stored! {
    /// What the kernel knows of the rows that live elsewhere: enough to tell whether it is the same
    /// as another one's, wherever rows happen to live. Part of a snapshot of the state.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct EvictedRows {
        /// How many there are.
        pub rows: u64,
        /// The sum of their digests, in four lanes.
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
    let digest = *blake3::hash(bytes.as_bytes()).as_bytes();
    let (lanes, _) = digest.as_chunks::<8>();
    core::array::from_fn(|at| u64::from_le_bytes(lanes[at]))
}
