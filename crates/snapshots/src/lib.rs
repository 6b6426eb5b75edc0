//! States stored next to the log, so that a start does not replay the whole log.
//!
//! # Phases
//! - [`store_frozen`] stores a state that the sequencer's thread has frozen between two batches
//!   ([`ledger::State::snapshot`]). The snapshot thread ([`start_snapshotter`]) requests that from
//!   time to time.
//! - [`take_offline`] is for a closed log: it continues from the newest valid snapshot, or from
//!   nothing, replays the log to its end and stores the state.
//! - [`find_newest`] finds the snapshot that a start, or the next `take_offline`, continues from.
//!   A snapshot that is damaged, or belongs to another log or another history of this one, is
//!   skipped with a line that names the reason.
//!
//! # Files
//! `INDEX.snapshot`, a log index of twenty digits, in the log's directory: [`record::snapshot`]. It
//! is written under a temporary name, synced and renamed, and the directory is synced. So a file
//! with this name is complete, unless the disk damages it. The newest [`KEPT`] valid ones are kept.
//!
//! # Source of truth
//! The log is the source of truth; a snapshot only shortens the replay. It contains the log's
//! identity and the chain head at its log index. Both are compared with the log before it is used.
//! The loss of all snapshots only costs time.
//!
//! # With a cold store
//! Rows of final transfers and the party directory are in the cold store ([`ports::ColdStore`]). A
//! snapshot taken with a store contains none of the rows that the store has. The store is synced
//! first, so that it never lags a durable snapshot. If the store lags nevertheless (it was deleted
//! or belongs to another log), the start replays the whole log and refills it. A snapshot taken
//! without a store contains every row.
//!
//! # Costs
//! On the sequencer's thread: the freeze, microseconds to some milliseconds. In memory: copies of
//! the pages that change while a snapshot is written. On disk: about 100 bytes per transfer,
//! written and synced in pieces of [`SYNC_BYTES`], so that a concurrent sync of the log never waits
//! long.

#![warn(missing_docs)]

mod files;
mod recovery;
mod snapshotter;
mod writer;

pub use files::{
    InvalidFile, InvalidFileReason, KEPT, SYNC_BYTES, SnapshotFile, list, load, origin,
};
pub use recovery::{NewestSnapshot, SnapshotStart, find_newest, find_newest_where};
pub use snapshotter::{
    SnapshotEvent, SnapshotSchedule, SnapshotSource, SnapshotStatus, Snapshotter,
    SnapshotterHandle, start_snapshotter,
};
pub use writer::{
    FrozenState, OfflineSource, ReplayStore, WriteError, WrittenSnapshot, store_frozen,
    store_state, take_offline,
};

/// Called between two small pieces of work, many times a second. Waits if the work is ahead of its
/// time; `Err(Stop)` ends the work.
pub type Throttle<'a> = dyn FnMut() -> Result<(), ports::StopReading> + 'a;

/// As fast as possible, to the end.
///
/// # Errors
/// None.
pub const fn unpaced() -> Result<(), ports::StopReading> {
    Ok(())
}
