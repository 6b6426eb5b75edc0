//! The cold store: data that a switch keeps for years and reads rarely.
//!
//! [`Disk`] keeps it in a log-structured merge tree (fjall; see docs/decisions/0020-cold-store.md),
//! [`Memory`] in memory for tests and the simulator; both pass one contract ([`contract`]).
//! [`WriteBehind`] writes to either asynchronously, on its own thread.
//!
//! Phases of a row: its transfer becomes final, and the row is hot in the kernel; it waits in the
//! queue of [`WriteBehind`]; it is written in one batch with others, without a sync; it is visible,
//! and the kernel may evict it. The log is the source of truth: data lost in a crash is written
//! again from the log, and a store in doubt is emptied and refilled.
//!
//! Costs (docs/performance/cold-store.md): a row of a transfer takes about 170 bytes on disk, its
//! entry in the index 30, an entry of the directory 30 to 40. A write takes some microseconds of
//! another thread, compaction included. A look-up of an absent id takes half a microsecond, without
//! a lock of the library or a disk access. Memory: the cache; 1.3 bytes per row; write buffers of 8
//! and 4 MiB, 16 MiB while tables are merged, with up to four predecessors each; four bytes per row
//! in them; and [`QUEUE_MAX`] waiting rows.
#![warn(missing_docs)]

pub mod contract;
mod decisions;
mod disk;
mod low_priority;
mod memory;
mod memtable_filter;
mod shutdown;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
mod sstables;
mod sync;
mod transfer_index;
mod write_behind;

pub use disk::{Disk, JOURNAL, StoreOptions, bytes_below};
pub use memory::Memory;
pub use write_behind::{QUEUE_MAX, WriteBehind};
