//! Eviction of final transfers from the kernel's memory.
//!
//! A switch stores every transfer for years, but decides about the newest. A final row stays hot
//! until the cold store shows it, and as long as the driver wants it after that. Then the driver
//! evicts it ([`State::evict`]), and the kernel keeps only the sum of the digests of such rows.
//! Before a batch is decided, the driver restores ([`State::restore_row`]) the evicted rows that
//! the batch needs ([`State::is_hot`]). Nothing is read while a batch is decided.
//!
//! The place of a row is not part of the logical state. Outcomes, notices, digest, counts and state
//! hash do not depend on it, as long as the store returns the rows it was given. A property test
//! (`tests/properties.rs`) proves this.
//!
//! Costs: one digest per evicted or restored row ([`crate::evicted`]).

use crate::evicted::EvictedRows;
use crate::ids::{LogIndex, Stamp, TransferId};
use crate::state::State;
use crate::transfers::{FinalTransfer, TransferLocation};

/// The conditions for eviction. A row must meet both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The store shows every row that last changed up to this record.
    pub visible: LogIndex,
    /// The transfer became final before this time.
    pub completed_before: Stamp,
    /// Maximum number of rows to evict, because eviction runs between two batches.
    pub rows_max: usize,
}

impl State {
    /// Whether the transfer is in memory. Otherwise its row may be in the cold store.
    #[must_use]
    pub fn is_hot(&self, id: &TransferId) -> bool {
        self.transfers.find(id) != TransferLocation::Absent
    }

    /// Restores an evicted row. It stays in memory until [`State::evict`] removes it again.
    ///
    /// Panics if the transfer is hot, or no row is evicted.
    pub fn restore_row(&mut self, row: FinalTransfer) {
        self.transfers.restore_row(row);
    }

    /// Evicts the oldest rows as long as they meet the conditions, and returns their number.
    /// `evicted` receives each of them. Call it between two batches only.
    pub fn evict(&mut self, eviction: Eviction, gone: &mut dyn FnMut(&FinalTransfer)) -> usize {
        let may = |row: &&FinalTransfer| {
            row.changed <= eviction.visible && row.completed < eviction.completed_before
        };
        for count in 0..eviction.rows_max {
            let Some(row) = self.transfers.oldest().filter(may) else { return count };
            gone(row);
            self.transfers.evict_oldest();
        }
        eviction.rows_max
    }

    /// The next row to evict: the record that changed it last, and the time it became final.
    #[must_use]
    pub fn next_evictable(&self) -> Option<(LogIndex, Stamp)> {
        self.transfers.oldest().map(|row| (row.changed, row.completed))
    }

    /// Count and digest of the evicted rows.
    #[must_use]
    pub fn evicted(&self) -> &EvictedRows {
        self.transfers.evicted()
    }

    /// Number of final transfers in memory.
    #[must_use]
    pub fn hot_transfer_count(&self) -> usize {
        self.transfers.hot_count()
    }
}
