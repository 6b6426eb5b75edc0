//! Rows of ended transfers that live beside the kernel.
//!
//! A switch keeps every transfer for years, and decides about the newest. A row that ended is hot
//! until a store beside the kernel shows it, and then for as long as the driver likes; then the
//! driver lets it go ([`State::evict`]), and only the sum of the digests of such rows stays here.
//! Before a batch is decided, the driver brings back ([`State::thaw`]) what the batch asks for and
//! is not hot ([`State::is_hot`]): read, decide, write. Nothing is read in between.
//!
//! Where a row lives is no part of the logical state: the outcomes, the notices, the digest, the
//! counts and the state hash are the same wherever it is, as long as the store gives back what it
//! was given. The proof is a property test (`tests/properties.rs`).
//!
//! Costs: a digest for a row that leaves or comes back ([`crate::evicted`]).

use crate::evicted::EvictedRows;
use crate::ids::{LogIndex, Stamp, TransferId};
use crate::state::State;
use crate::transfers::{FinalTransfer, Found};

/// Which rows may leave: those for which both holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The store shows every row that last changed up to here.
    pub visible: LogIndex,
    /// It ended before this moment.
    pub completed_before: Stamp,
    /// At most so many leave, for this runs between two batches.
    pub rows_max: usize,
}

impl State {
    /// Whether the state itself knows the transfer. When it does not, its row may be cold.
    #[must_use]
    pub fn is_hot(&self, id: &TransferId) -> bool {
        self.transfers.find(id) != Found::Nothing
    }

    /// Brings a row back that has left. It stays until [`State::evict`] takes it again.
    ///
    /// Panics when the transfer is hot, or when no row has left.
    pub fn restore_row(&mut self, row: FinalTransfer) {
        self.transfers.restore_row(row);
    }

    /// Lets rows go that came first, as long as the first of them may; says how many. `gone` sees
    /// each of them. Between two batches, never within one.
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

    /// The row that leaves next: the record that changed it last, and when it ended.
    #[must_use]
    pub fn next_evictable(&self) -> Option<(LogIndex, Stamp)> {
        self.transfers.oldest().map(|row| (row.changed, row.completed))
    }

    /// What is known of the rows that have left.
    #[must_use]
    pub fn cold(&self) -> &EvictedRows {
        self.transfers.cold()
    }

    /// Rows of ended transfers that are in memory.
    #[must_use]
    pub fn transfers_hot(&self) -> usize {
        self.transfers.hot_count()
    }
}
