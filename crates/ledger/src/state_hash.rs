//! The hash of the logical state, version 5: equal on two replicas if and only if they agree about
//! everything, whichever rows each has in memory.
//!
//! Under rules without operators the hash is that of version 4, which has no operators. Under rules
//! without fees it is that of version 3, which has no fee rules either. Under rules without
//! settlement it is that of version 2, which has no part of settlement and alerts either.
//! Nodes of different versions of the program compare their states until the newer rules are
//! activated.
//!
//! The stored form of each part is hashed ([`crate::field`]), so a renamed field changes no hash.
//! Tables with a logical order are hashed row by row. For the others, the digests of the rows are
//! summed, so that the order of the rows does not matter.

use core::convert::Infallible;

use crate::evicted::EvictedRows;
use crate::field::{Field, Row};
use crate::ids::Digest;
use crate::rules::{FEES, OPERATORS, SETTLEMENT};
use crate::snapshot::{StateHeader, Table, TableVisitor};
use crate::state::State;

/// The version of the state hash under the newest rules.
pub const STATE_HASH_VERSION: u8 = 5;
/// The version under rules without operators.
const WITHOUT_OPERATORS: u8 = 4;
/// The version under rules without fees.
const WITHOUT_FEES: u8 = 3;
/// The version under rules without settlement.
const WITHOUT_SETTLEMENT: u8 = 2;

/// Two digests of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateHashes {
    /// Digest of the whole state, including the log index.
    pub state: Digest,
    /// Digest of the state without the log index. A recorded refusal changes the other digest but
    /// not this one.
    pub content: Digest,
}

impl State {
    /// Digest of the whole state. Costs about 1 µs per transfer in memory. Meant for proofs and
    /// comparisons, not for the hot path.
    #[must_use]
    pub fn hash(&self) -> Digest {
        self.hashes().state
    }

    /// [`State::hash`] and the digest of the content alone, in one pass.
    #[must_use]
    pub fn hashes(&self) -> StateHashes {
        // Names every field of the header, hashed or not.
        let StateHeader {
            // Properties of the kernel's maps and of the grouping of records, not of the logical
            // state.
            seed: _,
            batches: _,
            // Log index and history, in this order.
            hub,
            log_index,
            stamp,
            rules_version,
            digest,
            nodes,
            // Content, in this order. The evicted rows are hashed with their table.
            settings,
            counters,
            last_oracle,
            last_notice,
            evicted,
            settlement,
            alerts,
        } = self.tables().header();
        let version = match rules_version {
            ..SETTLEMENT => WITHOUT_SETTLEMENT,
            SETTLEMENT..FEES => WITHOUT_FEES,
            FEES..OPERATORS => WITHOUT_OPERATORS,
            OPERATORS.. => STATE_HASH_VERSION,
        };
        let mut hasher = versioned(version);
        settings.write(&mut hasher);
        counters.write(&mut hasher);
        last_oracle.write(&mut hasher);
        last_notice.write(&mut hasher);
        if version != WITHOUT_SETTLEMENT {
            settlement.write(&mut hasher);
            alerts.write(&mut hasher);
        }
        let mut tables = TableHasher { hasher, version, evicted };
        let Ok(()) = self.tables().visit(&mut tables);
        let content = Digest(*tables.hasher.finalize().as_bytes());
        let mut hasher = versioned(version);
        hub.write(&mut hasher);
        log_index.write(&mut hasher);
        stamp.write(&mut hasher);
        rules_version.write(&mut hasher);
        digest.write(&mut hasher);
        nodes.iter().for_each(|node| node.write(&mut hasher));
        content.write(&mut hasher);
        StateHashes { state: Digest(*hasher.finalize().as_bytes()), content }
    }
}

/// A hasher that starts with the version.
fn versioned(version: u8) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new();
    version.write(&mut hasher);
    hasher
}

/// Hashes each table: its number, its count of rows, and its rows.
struct TableHasher {
    hasher: blake3::Hasher,
    version: u8,
    /// The evicted rows of final transfers.
    evicted: EvictedRows,
}

impl TableVisitor for TableHasher {
    type Error = Infallible;

    fn table<R: Row>(
        &mut self,
        table: Table,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<(), Infallible> {
        let last = match self.version {
            WITHOUT_SETTLEMENT => Table::DeadLetters,
            WITHOUT_FEES => Table::LiquidityAlarms,
            WITHOUT_OPERATORS => Table::PendingFees,
            _ => Table::TransactionRequests,
        };
        if last < table {
            return Ok(());
        }
        let mut rows = rows.into_iter().peekable();
        // Without rows, the hash is that of earlier programs.
        if Table::Proposals < table && rows.peek().is_none() {
            return Ok(());
        }
        table.number().write(&mut self.hasher);
        if table.is_ordered() {
            let mut count = 0_u64;
            rows.for_each(|row| {
                row.write_row(&mut self.hasher);
                count += 1;
            });
            count.write(&mut self.hasher);
            return Ok(());
        }
        let mut all =
            if table == Table::FinalTransfers { self.evicted } else { EvictedRows::default() };
        rows.for_each(|row| all.add(row));
        all.write(&mut self.hasher);
        Ok(())
    }
}
