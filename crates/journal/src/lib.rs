//! The log on disk.
//!
//! - [`FileLog`]: segments over the [`ports::Disk`] port. One write per append, one sync per
//!   group of appends; recovery on opening.
//! - [`DurableFrames`]: the same log followed from another thread while it is written.
//! - [`DurableMarkWriter`]: records how far the log was durable, so that a truncated log is not
//!   mistaken for a complete one.
//! - [`OfflineReader`]: single records of a log that has no writer.
//! - [`walk`]: reads and checks a log from beginning to end without changing it.
//! - [`TieredDisk`]: one source of segments, whether plain, compressed or archived;
//!   [`archive_segment`] compresses and moves them.
//! - [`erase_segment`]: rewrites a closed segment without some payloads; [`OrderedErasures`]:
//!   the segments in which orders of the log do that.
//! - [`Backup`] and [`fetch`]: a copy in a blob store, and a log restored from one.
//! - [`RealDisk`]: the only code here that touches the file system.
//! - [`MemoryLog`]: the same contract without a disk.
//! - [`MemoryDisk`]: a disk that crashes, tears, fills up and fails on command, the same way for
//!   the same seed.
//! - [`contract`]: the tests that every [`ports::Log`] must pass.
#![warn(missing_docs)]

mod archive;
mod archive_index;
mod backup;
mod compressed_segment;
mod compression;
pub mod contract;
mod durable_frames;
mod durable_mark;
mod erasure;
mod file_log;
mod memory_disk;
mod memory_log;
mod offline_reader;
mod ordered_erasures;
mod reader;
mod real_disk;
mod recovery;
mod scan;
mod sector;
mod segment;
mod segment_boundary;
#[cfg(all(test, feature = "shuttle"))]
mod shuttle_tests;
mod sync;
mod tiered;

/// Whether this build reads and writes compressed segments.
pub const CAN_COMPRESS: bool = cfg!(feature = "compression");

pub use archive::{
    ArchiveError, ArchivedSegment, Destination, PendingSegment, ProgressObserver, Retention,
    archive_segment, claim_for, copy_encrypted, due,
};
pub use archive_index::{ARCHIVE_INDEX, ARCHIVE_INDEX_VERSION};
pub use backup::{
    Backup, BackupSummary, ExtraFile, FetchedBackup, MANIFEST, MANIFEST_VERSION, fetch,
    has_file as backup_has_file, survey,
};
pub use blobs::{
    BlobError, BlobStore, Expected, Location, MARKER, Upload, claim, get, open_blob_store, owner,
    parse_hexadecimal, put,
};
pub use compressed_segment::{BLOCK_BYTES, COMPRESSED_VERSION, SegmentSummary};
pub use durable_frames::DurableFrames;
pub use durable_mark::{DurableMarkWriter, MARK, StoredMark, read_stored_mark};
pub use erasure::{
    ERASURE_PROGRESS, ERASURE_PROGRESS_VERSION, ErasedSegment, ErasureProgress, Selection,
    erase_segment, payload_keys,
};
pub use file_log::{FileLog, LogOptions, SEGMENT_BYTES_DEFAULT, Verify};
pub use memory_disk::{MemoryDisk, MemoryFile};
pub use memory_log::MemoryLog;
pub use offline_reader::OfflineReader;
pub use ordered_erasures::{
    ErasureOrder, OrderedErasures, RemainingErasure, evicted_results, needed_records,
    records_of_bulk, with_ends,
};
pub use real_disk::{
    CopyLock, INJECTED_EXIT, LOCK_FILE, RealDisk, RealFile, exit_after_disk_operations,
};
pub use recovery::{
    Damage, DamageReason, LocatedFrame, LogWalk, OpenError, Recovery, TailPolicy, TruncatedTail,
    advice_on, walk, walk_live,
};
pub use scan::FrameFault;
pub use segment::{SEGMENT_HEADER_BYTES, SEGMENT_VERSION};
pub use tiered::{CompressedFile, SegmentInfo, Tier, TieredDisk, TieredFile};
