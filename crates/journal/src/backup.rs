//! A backup of a log in a blob store, kept up to date while the log grows, and a log restored from
//! it.
//!
//! # Content
//! - `segments/`: closed segments, compressed, as in an archive. An archive may use the same blob
//!   store.
//! - `open/`: the bytes of segments that are not in `segments/` yet, in chunks.
//! - `files/`: the other files of the directory, each under its name and the start of its digest.
//! - [`MANIFEST`]: lists the chunks and files of the backup, and its end. It is written last and
//!   atomically. An object that it names is never changed, and is removed only once no manifest
//!   names it. So a complete backup exists at any time, whatever was interrupted.
//!
//! # Copy of the open segment
//! The writer does not have to pause: the copy ends with the last complete frame. The file is
//! synced before its bytes are copied, so the backup never holds records that the log itself could
//! lose.
//!
//! # Costs and bounds
//! A run reads the records added since the last one. A chunk is rewritten until it has
//! [`CHUNK_BYTES`], so at most that many bytes are written twice. Memory: one chunk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use blobs::BlobStore;
use ledger::{Digest, LogIndex};
use ports::{Disk, DiskError, DiskFile};
use record::frame::{LogIdentity, Tail};

use crate::archive::{
    self, ArchiveError, ArchivedObject, COMPRESSING_SUFFIX, PendingSegment, ProgressObserver,
    report_progress,
};
use crate::archive_index::ARCHIVE_INDEX;
use crate::compressed_segment::CompressedSegment;
use crate::erasure::ErasureProgress;
use crate::scan::{self, Part};
use crate::segment::{self, OBJECTS, SEGMENT_HEADER_BYTES};
use crate::tiered::{SegmentInfo, TieredDisk};

mod fetch;
mod manifest;
mod repair;

pub use fetch::{FetchedBackup, fetch, has_file, survey};
use manifest::{Chunk, CopiedFile, Manifest, OpenSegment};
pub use manifest::{MANIFEST, MANIFEST_VERSION};

/// A chunk shorter than this is replaced by a longer one.
const CHUNK_BYTES: u64 = 4 << 20;
/// Maximum length of a file next to the segments that is copied.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// Snapshots are long, never change under their name, and can be made again. A snapshot that was
/// copied is not read again, and one that is too long is skipped.
const SNAPSHOT: &str = ".snapshot";
/// Never copied: secrets, files that are made again, unfinished files, the note that this directory
/// has imported a log from a topic, and the durable mark, which is ahead of a backup that is taken
/// while the log grows.
const LEFT_OUT: [&str; 5] =
    ["admin-token", "admin-secrets-key", "kafka-taken", ARCHIVE_INDEX, crate::MARK];
/// The wrapped data keys of an encrypted directory.
const DATA_KEYS: &str = "data.keys";
const UNFINISHED: [&str; 4] = [".new", ".tmp", COMPRESSING_SUFFIX, ".unfinished"];

/// Result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackupSummary {
    /// The last record of the backup.
    pub end: LogIndex,
    /// Chain head there.
    pub chain: Digest,
    /// Segments copied by this run.
    pub segments: usize,
    /// Files copied by this run.
    pub files: usize,
    /// Bytes written by this run.
    pub bytes: u64,
}

/// A file outside the log's directory, to be copied with the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtraFile {
    /// Its name in the backup.
    pub name: String,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// Keeps a backup up to date.
pub struct Backup {
    store: Arc<dyn BlobStore>,
    identity: LogIdentity,
    manifest: Option<Manifest>,
    /// Segments in the backup, compressed.
    compressed: BTreeSet<LogIndex>,
    /// Missing or damaged objects, which are written again.
    damaged: Vec<String>,
    /// Plain lengths of the segments here that equal the log's after an erasure.
    erased: BTreeMap<LogIndex, u64>,
    /// End of the scan of the open segments: the offset of the next frame.
    scanned: Option<Scan>,
    copied: BackupSummary,
}

#[derive(Clone, Copy)]
struct Scan {
    first: LogIndex,
    offset: u64,
    tail: Tail,
}

impl Backup {
    /// Continues the backup in a blob store, or starts one. Objects that a quick check finds
    /// missing or damaged are written again by the next run ([`Backup::damaged`]).
    ///
    /// # Errors
    /// As [`blobs::claim`]; [`ArchiveError::Forked`] when the backup belongs to another history of
    /// this log.
    pub fn open<D: Disk>(
        log: &TieredDisk<D>,
        store: Arc<dyn BlobStore>,
    ) -> Result<Self, ArchiveError> {
        archive::claim_for(log, &*store)?;
        let segments = log.local_segments()?;
        let base = segments.last().map(|last| last.base);
        let identity = base.ok_or_else(|| DiskError::NotFound("a log".to_owned()))?.identity;
        let names = store.list(OBJECTS)?;
        let compressed =
            names.iter().filter_map(|name| segment::first_of_compressed(name)).collect();
        let manifest = Manifest::read(&*store)?;
        let copied = BackupSummary::default();
        let (damaged, erased) = (Vec::new(), BTreeMap::new());
        let scanned = None;
        let mut backup =
            Self { store, identity, manifest, compressed, damaged, erased, scanned, copied };
        backup.check_history(log)?;
        backup.find_missing(&log.segments()?);
        backup.check_objects()?;
        Ok(backup)
    }

    /// Whether the backup is unchanged since the last run, so that no other process has written to
    /// it.
    ///
    /// # Errors
    /// When the blob store cannot be read.
    pub fn is_current(&self) -> Result<bool, ArchiveError> {
        Ok(Manifest::read(&*self.store)? == self.manifest)
    }

    /// Copies everything new. After a failure, everything copied before is kept.
    ///
    /// # Errors
    /// Any [`ArchiveError`]. The backup is then as of the last successful run, or later.
    pub fn run<D: Disk>(
        &mut self,
        log: &TieredDisk<D>,
        extras: &[ExtraFile],
        watch: &mut ProgressObserver<'_>,
    ) -> Result<BackupSummary, ArchiveError> {
        self.copied = BackupSummary::default();
        let segments = log.segments()?;
        let in_chunks: Vec<LogIndex> = self
            .manifest
            .iter()
            .flat_map(|manifest| &manifest.open)
            .map(|open| LogIndex(open.first))
            .collect();
        let erasures = ErasureProgress::load(log.below())?;
        self.replace_erased(log, (&segments, &erasures), watch)?;
        // First segments closed since the last run, then the open end, then segments closed
        // meanwhile. Chunks of a segment with erased contents are not continued.
        let wanted = |first: LogIndex| !in_chunks.contains(&first) || erasures.has(first);
        self.compress(log, &segments, &wanted, watch)?;
        let open = self.copy_open(log, &segments, watch)?;
        let mut files = self.copy_files(log.below(), extras, watch)?;
        // After everything that a new data key may have encrypted.
        self.copy_data_keys(log.below(), &mut files, watch)?;
        self.publish(open, files.clone())?;
        self.compress(log, &segments, &|_| true, watch)?;
        self.copy_data_keys(log.below(), &mut files, watch)?;
        let last = self.manifest.iter().flat_map(|manifest| &manifest.open).next_back().cloned();
        self.publish(last.into_iter().collect(), files)?;
        Ok(self.copied)
    }

    /// Copies closed segments that are not in the backup yet.
    fn compress<D: Disk>(
        &mut self,
        log: &TieredDisk<D>,
        segments: &[SegmentInfo],
        wanted: &dyn Fn(LogIndex) -> bool,
        watch: &mut ProgressObserver<'_>,
    ) -> Result<(), ArchiveError> {
        for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
            if self.compressed.contains(&segment.first) || !wanted(segment.first) {
                continue;
            }
            let due = PendingSegment { segment: segment.clone(), after: next.base };
            let contents = archive::copy_to(log, &due, &*self.store, watch)?;
            self.compressed.insert(segment.first);
            self.copied.segments += 1;
            self.copied.bytes += contents.compressed_bytes;
        }
        Ok(())
    }

    /// Replaces copies of segments whose contents were erased since.
    fn replace_erased<D: Disk>(
        &mut self,
        log: &TieredDisk<D>,
        (segments, erasures): (&[SegmentInfo], &ErasureProgress),
        watch: &mut ProgressObserver<'_>,
    ) -> Result<(), ArchiveError> {
        for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
            let first = segment.first;
            let is_same = self.erased.get(&first) == Some(&segment.plain_bytes);
            if is_same || !erasures.has(first) || !self.compressed.contains(&first) {
                continue;
            }
            if self.plain_bytes_of(first)? != segment.plain_bytes {
                let due = PendingSegment { segment: segment.clone(), after: next.base };
                let contents = archive::replace_object(log, &due, &*self.store, watch)?;
                self.copied.segments += 1;
                self.copied.bytes += contents.compressed_bytes;
            }
            self.erased.insert(first, segment.plain_bytes);
        }
        Ok(())
    }

    /// Plain length of a compressed segment of the backup.
    fn plain_bytes_of(&self, first: LogIndex) -> Result<u64, ArchiveError> {
        let name = segment::object_name_of(first);
        let length = self.store.length(&name)?.unwrap_or_default();
        let object = ArchivedObject { store: &*self.store, name: &name };
        Ok(CompressedSegment::open(&object, length)?.contents.plain_bytes)
    }

    /// Copies the new bytes of the segments that are not compressed in the backup.
    fn copy_open<D: Disk>(
        &mut self,
        log: &TieredDisk<D>,
        segments: &[SegmentInfo],
        watch: &mut ProgressObserver<'_>,
    ) -> Result<Vec<OpenSegment>, ArchiveError> {
        let mut all = Vec::new();
        let known = self.manifest.as_ref().map_or(&[][..], |manifest| &manifest.open).to_vec();
        for (at, segment) in segments.iter().enumerate() {
            if self.compressed.contains(&segment.first) {
                continue;
            }
            let held = known.iter().find(|open| open.first == segment.first.0).cloned();
            let open = held.unwrap_or(OpenSegment { first: segment.first.0, chunks: Vec::new() });
            let is_last = at + 1 == segments.len();
            all.push(self.copy_one(log, segment, is_last.then_some(Last), open, watch)?);
        }
        Ok(all)
    }

    fn copy_one<D: Disk>(
        &mut self,
        log: &TieredDisk<D>,
        segment: &SegmentInfo,
        last: Option<Last>,
        mut open: OpenSegment,
        watch: &mut ProgressObserver<'_>,
    ) -> Result<OpenSegment, ArchiveError> {
        let file = log.open(&segment::name_of(segment.first))?;
        let start = Scan { first: segment.first, offset: SEGMENT_HEADER_BYTES, tail: segment.base };
        let start = self.scanned.filter(|scan| scan.first == segment.first).unwrap_or(start);
        let part = Part { file: &file, limit: file.length()? };
        let scanned = scan::scan(part, (start.offset, start.tail), &mut |_, frame| {
            watch(u64::from(frame.header().length))
        })?;
        if scanned.cause == scan::Cause::Visitor {
            return Err(ArchiveError::Stopped);
        }
        if last.is_some() {
            // Sync here, so that the scanned frames are durable. Earlier segments are durable
            // already.
            file.sync()?;
        }
        self.scanned =
            Some(Scan { first: segment.first, offset: scanned.offset, tail: scanned.tail });
        (self.copied.end, self.copied.chain) = (scanned.tail.end, scanned.tail.chain);
        if open.end() < scanned.offset {
            let short = |chunk: &Chunk| chunk.to - chunk.from < CHUNK_BYTES;
            open.chunks.pop_if(|chunk| short(chunk));
        }
        while open.end() < scanned.offset {
            let chunk = self.copy_chunk(&open, &file, scanned.offset, watch)?;
            open.chunks.push(chunk);
        }
        Ok(open)
    }

    fn copy_chunk<F: DiskFile>(
        &mut self,
        open: &OpenSegment,
        file: &F,
        end: u64,
        watch: &mut ProgressObserver<'_>,
    ) -> Result<Chunk, ArchiveError> {
        let from = open.end();
        let wanted = end.min(from + CHUNK_BYTES) - from;
        let bytes = read_part(file, from, from + wanted)?;
        if (bytes.len() as u64) < wanted {
            let file = segment::name_of(LogIndex(open.first));
            let reason = "the file became shorter while it was copied".into();
            return Err(DiskError::Damaged { file, offset: Some(from), reason }.into());
        }
        let (to, blake3) = (from + bytes.len() as u64, digest_of(&bytes));
        let chunk = Chunk { from, to, blake3 };
        blobs::put(&*self.store, &open.part(&chunk).object, &bytes)?;
        self.copied.bytes += bytes.len() as u64;
        report_progress(watch, bytes.len())?;
        Ok(chunk)
    }

    /// Copies the other files that have changed.
    fn copy_files<D: Disk>(
        &mut self,
        disk: &D,
        extras: &[ExtraFile],
        watch: &mut ProgressObserver<'_>,
    ) -> Result<Vec<CopiedFile>, ArchiveError> {
        let mut files = Vec::new();
        for extra in extras {
            files.push(self.copy_file(&extra.name, &extra.bytes, watch)?);
        }
        for name in disk.list()?.into_iter().filter(|name| is_companion(name)) {
            let file = match disk.open(&name) {
                Err(DiskError::NotFound(_)) => continue,
                opened => opened?,
            };
            let length = file.length()?;
            if name.ends_with(SNAPSHOT) {
                if let Some(known) = self.known(&name, length) {
                    files.push(known);
                    continue;
                }
                if FILE_BYTES_MAX < length {
                    continue;
                }
            }
            if FILE_BYTES_MAX < length {
                let what = format!("copy {name}");
                let error = format!("the file is longer than {FILE_BYTES_MAX} bytes");
                return Err(DiskError::Failed { what, error }.into());
            }
            let bytes = read_part(&file, 0, length)?;
            files.push(self.copy_file(&name, &bytes, watch)?);
        }
        Ok(files)
    }

    /// Copies the data keys again if there are new ones: a segment or a snapshot that was copied
    /// meanwhile may need them.
    fn copy_data_keys<D: Disk>(
        &mut self,
        disk: &D,
        files: &mut Vec<CopiedFile>,
        watch: &mut ProgressObserver<'_>,
    ) -> Result<(), ArchiveError> {
        let file = match disk.open(DATA_KEYS) {
            Err(DiskError::NotFound(_)) => return Ok(()),
            opened => opened?,
        };
        let bytes = read_part(&file, 0, file.length()?.min(FILE_BYTES_MAX))?;
        let copied = files.iter().position(|file| file.name == DATA_KEYS);
        let is_same = |at: usize| files[at].blake3 == digest_of(&bytes);
        if copied.is_some_and(is_same) {
            return Ok(());
        }
        let copy = self.copy_file(DATA_KEYS, &bytes, watch)?;
        match copied {
            Some(at) => files[at] = copy,
            None => files.push(copy),
        }
        Ok(())
    }

    /// A file of this name and length that was copied before.
    fn known(&self, name: &str, length: u64) -> Option<CopiedFile> {
        let files = &self.manifest.as_ref()?.files;
        files.iter().find(|file| file.name == name && file.bytes == length).cloned()
    }

    fn copy_file(
        &mut self,
        name: &str,
        bytes: &[u8],
        watch: &mut ProgressObserver<'_>,
    ) -> Result<CopiedFile, ArchiveError> {
        let (name, length) = (name.to_owned(), bytes.len() as u64);
        let file = CopiedFile { name, bytes: length, blake3: digest_of(bytes) };
        let known = self.manifest.as_ref().is_some_and(|manifest| manifest.files.contains(&file));
        if !known {
            blobs::put(&*self.store, &file.part().object, bytes)?;
            self.copied.files += 1;
            self.copied.bytes += length;
            report_progress(watch, bytes.len())?;
        }
        Ok(file)
    }

    /// Publishes this backup, unless it is current already, and removes objects that no manifest
    /// names.
    fn publish(
        &mut self,
        open: Vec<OpenSegment>,
        files: Vec<CopiedFile>,
    ) -> Result<(), ArchiveError> {
        let Some(Scan { tail, .. }) = self.scanned else { return Ok(()) };
        let manifest = Manifest::new(&tail, open, files);
        if self.manifest.as_ref() != Some(&manifest) {
            manifest.write(&*self.store)?;
            self.manifest = Some(manifest);
        }
        Ok(())
    }

    /// Compares the chunks in the backup with the local segments. A log that was restored and
    /// continued must not overwrite the backup of the original, which may have continued elsewhere.
    fn check_history<D: Disk>(&self, log: &TieredDisk<D>) -> Result<(), ArchiveError> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let erasures = ErasureProgress::load(log.below())?;
        let forked =
            |reason: String| ArchiveError::Forked { store: self.store.url().to_owned(), reason };
        for open in &manifest.open {
            // Its chunks have contents that the log has no more, and are replaced.
            if erasures.has(LogIndex(open.first)) {
                continue;
            }
            let file = match log.open(&segment::name_of(LogIndex(open.first))) {
                Err(DiskError::NotFound(_)) => {
                    return Err(forked(format!("it continues at record {}", open.first)));
                }
                opened => opened?,
            };
            for chunk in &open.chunks {
                let bytes = read_part(&file, chunk.from, chunk.to)?;
                if digest_of(&bytes) != chunk.blake3 {
                    let reason = format!(
                        "it differs in the segment that begins with record {}, at or after byte {}",
                        open.first, chunk.from
                    );
                    return Err(forked(reason));
                }
            }
        }
        Ok(())
    }
}

/// Marks the segment that is being written.
struct Last;

/// Whether a file of the directory is copied along with the segments. Files of later versions are,
/// unless they are listed above.
fn is_companion(name: &str) -> bool {
    let is_segment =
        segment::first_of(name).is_some() || segment::first_of_compressed(name).is_some();
    let left_out = LEFT_OUT.contains(&name) || name == crate::LOCK_FILE;
    let unfinished = UNFINISHED.iter().any(|suffix| name.ends_with(suffix));
    !is_segment && !left_out && !unfinished
}

fn read_part<F: DiskFile>(file: &F, from: u64, to: u64) -> Result<Vec<u8>, DiskError> {
    let mut bytes = vec![0; (to - from) as usize];
    let read = file.read_at(from, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

fn digest_of(bytes: &[u8]) -> String {
    Digest(*blake3::hash(bytes).as_bytes()).to_string()
}
