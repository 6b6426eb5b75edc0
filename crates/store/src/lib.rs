//! The cold store: what a switch keeps for years and looks at seldom.
//!
//! [`Disk`] keeps it in a log-structured merge tree (fjall; why is said in
//! docs/decisions/0020-cold-store.md), [`Memory`] in memory for tests and the simulator; both pass
//! one contract ([`contract`]). [`WriteBehind`] writes to either behind the sequencer's back, on a
//! thread of its own.
//!
//! Phases of a row: it ends, and is hot in the kernel; it waits in the queue of [`WriteBehind`],
//! with others of its time; it is written in one batch with some of them, without a sync;
//! it is visible, and the kernel may let it go. Nothing here is the truth: what a crash takes away
//! comes again from the log, and a store that is in doubt is emptied and filled anew.
//!
//! Costs (docs/performance/cold-store.md): a row of a transfer takes some 170 bytes on disk, an
//! entry of the directory 30 to 40; to write one, some microseconds of another thread, compaction
//! included; to ask for an id that is not there, half a microsecond, no lock of the library and no
//! disk access. Memory: the cache, 1.3 bytes for each row, write buffers of 8 and 4 MiB, 16 while
//! tables are merged, with up to four predecessors each, four bytes for each row in them, and
//! [`QUEUE_MAX`] rows that wait.
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
mod write_behind;

pub use disk::{Disk, JOURNAL, Options, bytes_below};
pub use memory::Memory;
pub use write_behind::{QUEUE_MAX, WriteBehind};
