//! States stored beside the log, so that a start does not decide the whole log again.
//!
//! # Phases
//! - [`keep`] stores a state that the sequencer's thread has set aside between two batches
//!   ([`ledger::State::freeze`]). A thread beside it ([`follow`]) asks for that now and then.
//! - [`take`] is for a log that nobody writes: it goes on from the newest good snapshot, or from
//!   nothing, decides the log again up to its end, and stores that.
//! - [`newest`] finds what a start, or the next `take`, goes on from. A snapshot that is damaged,
//!   of another log, or of another history of this one is passed over, with a line that says why.
//!
//! # Files
//! `POSITION.snapshot`, twenty digits, in the log's directory: [`record::snapshot`]. It is written
//! under another name, synced, renamed, and the directory is synced; so what has this name is
//! whole, unless the disk damages it. The newest [`KEPT`] good ones stay.
//!
//! # Truth
//! The log is the truth, and a snapshot is only ever a shorter way to what the log says: it names
//! the log's identity and the chain head at its position, and both are compared with the log
//! before it is used. Losing all of them costs time and nothing else.
//!
//! # Beside a store
//! Rows of ended transfers, and the party directory, live in a store beside the kernel
//! ([`ports::ColdStore`]). A snapshot taken beside one holds none of the rows that the store has;
//! the store is synced first, so that it is never behind a snapshot that is durable. A start that
//! finds it behind all the same (deleted, or of another log) goes on from the log alone and fills
//! it anew. A snapshot taken beside no store holds every row.
//!
//! # Costs
//! On the sequencer's thread: what setting aside costs, microseconds to some milliseconds. In
//! memory: copies of the pages that change while one is stored. Some 100 bytes for each transfer
//! kept, written and synced in pieces of [`SYNC_BYTES`], so that a sync of the log beside it never
//! waits for much.
#![warn(missing_docs)]

mod files;
mod recovery;
mod snapshotter;
mod writer;

pub use files::{
    InvalidFile, InvalidFileReason, KEPT, SYNC_BYTES, SnapshotFile, list, load, origin,
};
pub use recovery::{NewestSnapshot, SnapshotStart, newest};
pub use snapshotter::{
    SnapshotEvent, SnapshotSchedule, SnapshotSource, SnapshotStatus, Snapshotter,
    SnapshotterHandle, follow,
};
pub use writer::{FrozenState, ReplayStore, Source, WriteError, WrittenSnapshot, keep, put, take};

/// Called between two small pieces of work, many times a second. Waits if the work is ahead of its
/// time; `Err(Stop)` ends the work.
pub type Pace<'a> = dyn FnMut() -> Result<(), ports::StopReading> + 'a;

/// As fast as possible, to the end.
///
/// # Errors
/// None.
pub const fn unpaced() -> Result<(), ports::StopReading> {
    Ok(())
}
