//! The log on disk.
//!
//! - [`FileLog`]: segments over the [`ports::Disk`] port. One write per append, one sync per
//!   group of appends; recovery on opening.
//! - [`DurableFrames`]: the same log followed from another thread while it is written.
//! - [`Marker`]: notes beside the log how far it was durable, so that a cut is told from an end.
//! - [`Records`]: single records of a log that nobody writes.
//! - [`walk`]: reads a log from end to end, checks all of it, and changes nothing.
//! - [`Tiered`]: one source of segments, whether plain, packed or in an archive; [`hand_over`]
//!   packs and moves them.
//! - [`Backup`] and [`bring`]: a copy in another place, and a log made of one.
//! - [`RealDisk`]: the one place that touches the file system.
//! - [`MemoryLog`]: the same contract without a disk.
//! - [`MemoryDisk`]: a disk that crashes, tears, fills up and fails on command, the same way for
//!   the same seed.
//! - [`contract`]: the tests that every [`ports::Log`] must pass.
#![warn(missing_docs)]

mod archive;
mod backup;
mod catalogue;
mod codec;
pub mod contract;
mod file_log;
mod frames;
#[cfg(all(test, feature = "shuttle"))]
mod handovers;
mod joint;
mod mark;
mod memory_disk;
mod memory_log;
mod packed;
mod reader;
mod real_disk;
mod records;
mod recovery;
mod scan;
mod sector;
mod segment;
mod sync;
mod tiered;

/// Whether this build reads and writes compressed segments.
pub const CAN_COMPRESS: bool = cfg!(feature = "compression");

pub use archive::{
    ArchiveError, Destination, Due, Handed, Retention, Watch, claim_for, due, hand_over,
};
pub use backup::{Backup, Brought, Copied, Extra, MANIFEST, MANIFEST_VERSION, bring, survey};
pub use catalogue::{CATALOGUE, CATALOGUE_VERSION};
pub use file_log::{FileLog, Options, SEGMENT_BYTES_DEFAULT, Verify};
pub use frames::DurableFrames;
pub use mark::{MARK, Marker, Noted, noted};
pub use memory_disk::{MemoryDisk, MemoryFile};
pub use memory_log::MemoryLog;
pub use packed::{BLOCK_BYTES, Contents, PACKED_VERSION};
pub use places::{
    Expected, Location, MARKER, Place, PlaceError, Upload, claim, get, open_place, owner,
    parse_hexadecimal, put,
};
pub use real_disk::{
    CopyLock, INJECTED_EXIT, LOCK_FILE, RealDisk, RealFile, exit_after_disk_operations,
};
pub use records::Records;
pub use recovery::{
    Damage, DamageReason, DamagedEnd, Dropped, OpenError, Placed, Recovery, Walked, advice_on,
    walk, walk_beside,
};
pub use scan::Unsound;
pub use segment::{SEGMENT_HEADER_BYTES, SEGMENT_VERSION};
pub use tiered::{PackedFile, SegmentInfo, Tier, Tiered, TieredFile};
