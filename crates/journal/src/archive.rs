//! Archives closed segments, or compresses them in place.
//!
//! # Phases, for each segment
//! 1. Check every frame of the plain file, and the chain, up to the start of the next segment. A
//!    damaged segment is reported and not archived.
//! 2. Stream the compressed form to the blob store. It becomes durable, then visible.
//! 3. Read it back in full, decompress it, and compare it with the plain file byte by byte.
//! 4. Record it durably in the archive index.
//! 5. Remove the local file.
//!
//! A crash or a failure between two phases loses nothing. The next attempt finds the object,
//! compares it (phase 3) and continues. A damaged object is written again, because the segment
//! still exists locally. A valid object with other content is left alone and reported.
//!
//! # Costs and bounds
//! The plain file is read three times. The compressed file is written once and read once. Memory: a
//! few megabytes. An archive needs no free space on the local disk; compressing in place needs
//! space for one compressed segment.

use blobs::{BlobError, BlobStore, Expected};
use ledger::{LogIndex, Stamp};
use ports::{Cipher, Disk, DiskError, DiskFile, StopReading};
use record::frame::{ENVELOPE_BYTES, Tail};

use crate::archive_index::Entry;
use crate::compressed_segment::{
    self, BEFORE_ERASURE, BLOCK_BYTES, Checked, CompressedSegment, DecryptedBytes, SegmentSummary,
    Source, other_form,
};
use crate::file_log::same_end;
use crate::scan::{self, Cause, Part};
use crate::segment::{self, SEGMENT_HEADER_BYTES};
use crate::tiered::{CompressedBytes, SegmentInfo, Tier, TieredDisk};

/// Suffix of a compressed file that is being written.
pub(crate) const COMPRESSING_SUFFIX: &str = ".packing";
/// Compressed bytes are copied in pieces of this size.
const COPY_BYTES: usize = 1 << 20;

/// Selects the closed segments to archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Number of newest closed segments that stay as they are.
    pub keep_segments: usize,
    /// Only segments closed at or before this time.
    pub closed_by: Stamp,
}

/// Target of archived segments.
#[derive(Clone, Copy)]
pub enum Destination<'a> {
    /// The log's directory, compressed.
    InPlace,
    /// This blob store.
    BlobStore(&'a dyn BlobStore),
}

/// A closed segment that is due to be archived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingSegment {
    /// The segment.
    pub segment: SegmentInfo,
    /// The log's tail after the segment, taken from the next segment's header.
    pub after: Tail,
}

/// A segment that was archived or compressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedSegment {
    /// Its first record.
    pub first: LogIndex,
    /// Its last record.
    pub last: LogIndex,
    /// Length of its plain form, in bytes.
    pub plain_bytes: u64,
    /// Length of its compressed form, in bytes.
    pub compressed_bytes: u64,
}

/// Why a segment was not archived, or a backup not written or read. The segment stays where it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The blob store returned an error.
    #[error(transparent)]
    BlobStore(#[from] BlobError),
    /// The disk returned an error, or its content is damaged.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The blob store holds another object of that name.
    #[error("{object} already exists and differs from this log: {reason}")]
    Differs {
        /// URL and name.
        object: String,
        /// The difference.
        reason: &'static str,
    },
    /// The backup has records that this log does not have.
    #[error("{store} holds a backup of another history of this log: {reason}")]
    Forked {
        /// The URL.
        store: String,
        /// The record after which the histories diverge.
        reason: String,
    },
    /// The backup lacks an object, or an object is damaged.
    #[error("{store}: {what}")]
    Incomplete {
        /// The URL.
        store: String,
        /// The missing or damaged object.
        what: String,
    },
    /// The caller stopped the work.
    #[error("stopped; completed work is kept")]
    Stopped,
}

/// Called every few hundred kilobytes read or written. `Err(Stop)` cancels the work.
pub type ProgressObserver<'a> = dyn FnMut(u64) -> Result<(), StopReading> + 'a;

/// The segments that are due, oldest first.
///
/// # Errors
/// As [`TieredDisk::local_segments`].
pub fn due<D: Disk>(
    log: &TieredDisk<D>,
    retention: &Retention,
    destination: Destination<'_>,
) -> Result<Vec<PendingSegment>, DiskError> {
    let segments = log.local_segments()?;
    let closed = segments.len().saturating_sub(1);
    let may_go = closed.saturating_sub(retention.keep_segments);
    let pairs = segments.iter().zip(segments.iter().skip(1)).take(may_go);
    let wanted = |segment: &SegmentInfo| match destination {
        Destination::InPlace => segment.tier == Tier::Plain,
        Destination::BlobStore(_) => true,
    };
    let due = pairs
        .filter(|(segment, next)| wanted(segment) && next.base.stamp <= retention.closed_by)
        .map(|(segment, next)| PendingSegment { segment: segment.clone(), after: next.base });
    Ok(due.collect())
}

/// Claims a blob store for this log.
///
/// # Errors
/// As [`blobs::claim`].
pub fn claim_for<D: Disk>(log: &TieredDisk<D>, store: &dyn BlobStore) -> Result<(), ArchiveError> {
    let segments = log.local_segments()?;
    let Some(last) = segments.last() else {
        return Err(DiskError::NotFound("a log".to_owned()).into());
    };
    let in_use = log.is_in_use(store.url());
    let expected = if in_use { Expected::InUse } else { Expected::Any };
    Ok(blobs::claim(store, last.base.identity, expected)?)
}

/// Archives one segment. Its local file is removed when this returns.
///
/// # Errors
/// Any [`ArchiveError`]. The segment is then unchanged.
pub fn archive_segment<D: Disk>(
    log: &TieredDisk<D>,
    due: &PendingSegment,
    destination: Destination<'_>,
    watch: &mut ProgressObserver<'_>,
) -> Result<ArchivedSegment, ArchiveError> {
    let first = due.segment.first;
    let contents = match destination {
        Destination::InPlace => compress_in_place(log, due, watch)?,
        Destination::BlobStore(store) => {
            let contents = copy_to(log, due, store, watch)?;
            let entry = Entry { place: store.url().into(), contents: contents.clone() };
            log.note_archived(entry)?;
            contents
        }
    };
    let disk = log.below();
    let compressed = match destination {
        Destination::InPlace => None,
        Destination::BlobStore(_) => Some(segment::compressed_name_of(first)),
    };
    for name in [Some(segment::name_of(first)), compressed].into_iter().flatten() {
        match disk.remove(&name) {
            Ok(()) | Err(DiskError::NotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    disk.sync_directory()?;
    let SegmentSummary { after, plain_bytes, compressed_bytes, .. } = contents;
    Ok(ArchivedSegment { first, last: after.end, plain_bytes, compressed_bytes })
}

/// Stores the compressed form of a closed segment in a blob store, whatever its local form, and
/// reads it back. An identical object is left as it is.
pub(crate) fn copy_to<D: Disk>(
    log: &TieredDisk<D>,
    due: &PendingSegment,
    store: &dyn BlobStore,
    watch: &mut ProgressObserver<'_>,
) -> Result<SegmentSummary, ArchiveError> {
    let first = due.segment.first;
    match due.segment.tier {
        Tier::Plain => {
            let file = &log.open_plain(first)?;
            let checked = &check(file, due, watch)?;
            store_object(store, first, &Original::Plain { file, checked }, watch)
        }
        Tier::Compressed | Tier::Archived(_) => {
            let file = log
                .open_compressed(first)?
                .ok_or_else(|| DiskError::NotFound(segment::compressed_name_of(first)))?;
            let (compressed, source) = (file.opened()?, file.source());
            store_object::<D::File>(
                store,
                first,
                &Original::Compressed { compressed, source, cipher: file.cipher() },
                watch,
            )
        }
    }
}

/// Copies a closed segment of which there is only an encrypted compressed form to another disk, in
/// that form: read as a plain file, its frames are decrypted. Returns the number of bytes; `None`
/// for another segment.
///
/// # Errors
/// Any [`ArchiveError`].
pub fn copy_encrypted<D: Disk, E: Disk>(
    log: &TieredDisk<D>,
    name: &str,
    to: &E,
    watch: &mut ProgressObserver<'_>,
) -> Result<Option<u64>, ArchiveError> {
    let Some(first) = segment::first_of(name) else { return Ok(None) };
    match log.open_plain(first) {
        Err(DiskError::NotFound(_)) => {}
        opened => return Ok(opened.map(|_| None)?),
    }
    let Some(file) = log.open_compressed(first)? else { return Ok(None) };
    let (compressed, source) = (file.opened()?, file.source());
    if !compressed.is_sealed {
        return Ok(None);
    }
    let original = Original::Compressed { compressed, source, cipher: file.cipher() };
    Ok(Some(keep::<E, D::File>(to, first, &original, watch)?.compressed_bytes))
}

/// A segment whose compressed form is to be stored.
pub(crate) enum Original<'a, F> {
    Plain {
        file: &'a F,
        checked: &'a Checked,
    },
    Compressed {
        compressed: &'a CompressedSegment,
        source: &'a dyn Source,
        /// Decrypts another compressed form of the segment.
        cipher: Option<&'a dyn Cipher>,
    },
}

impl<F: DiskFile> Original<'_, F> {
    /// Writes the compressed form.
    fn write(
        &self,
        out: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        match self {
            Self::Plain { file, checked } => {
                compressed_segment::compress(*file, checked, out).map(drop)
            }
            Self::Compressed { compressed, source, .. } => {
                copy_bytes(*source, compressed.contents.compressed_bytes, out)
            }
        }
    }

    /// Reads a compressed form in full and compares it with this segment.
    pub(crate) fn compare(
        &self,
        (copy, copied): (&CompressedSegment, &dyn Source),
        watch: &mut ProgressObserver<'_>,
    ) -> Result<(), ArchiveError> {
        let (own, cipher) = match self {
            Self::Plain { file, checked } => {
                return compare_plain((copy, copied), *file, checked, watch);
            }
            Self::Compressed { compressed, cipher, .. } => (&compressed.contents, *cipher),
        };
        let SegmentSummary { base, after, plain_digest, seal, .. } = &copy.contents;
        if *seal == own.seal {
            return copy.check(copied, &mut |bytes| report_progress(watch, bytes));
        }
        if (*base, *after, *plain_digest) != (own.base, own.after, own.plain_digest) {
            let own_form = (&own.base, &own.after, own.decrypted_bytes());
            return Err(differs(copied, other_form(own_form, &copy.contents)));
        }
        copy.verify((copied, cipher), &mut |plain| report_progress(watch, plain.len()))
    }
}

fn store_object<F: DiskFile>(
    store: &dyn BlobStore,
    first: LogIndex,
    original: &Original<'_, F>,
    watch: &mut ProgressObserver<'_>,
) -> Result<SegmentSummary, ArchiveError> {
    let name = segment::object_name_of(first);
    if store.length(&name)?.is_some() {
        match read_back(store, &name, original, watch) {
            // A damaged object is written again, and so is one with contents that were erased.
            Err(ArchiveError::Disk(DiskError::Damaged { .. })) => {}
            Err(ArchiveError::Differs { reason: BEFORE_ERASURE, .. }) => {}
            read => return read,
        }
    }
    if let Original::Compressed { compressed, source, .. } = original {
        // Damage is not copied.
        compressed.check(*source, &mut |bytes| report_progress(watch, bytes))?;
    }
    upload(store, &name, original, watch)?;
    read_back(store, &name, original, watch)
}

/// Stores the compressed form of a closed plain segment in place of an object that holds an earlier
/// form of it, in one step, and reads it back.
pub(crate) fn replace_object<D: Disk>(
    log: &TieredDisk<D>,
    due: &PendingSegment,
    store: &dyn BlobStore,
    watch: &mut ProgressObserver<'_>,
) -> Result<SegmentSummary, ArchiveError> {
    let first = due.segment.first;
    let file = &log.open(&segment::name_of(first))?;
    let checked = &check(file, due, watch)?;
    let (name, original) = (segment::object_name_of(first), Original::Plain { file, checked });
    upload(store, &name, &original, watch)?;
    read_back(store, &name, &original, watch)
}

fn upload<F: DiskFile>(
    store: &dyn BlobStore,
    name: &str,
    original: &Original<'_, F>,
    watch: &mut ProgressObserver<'_>,
) -> Result<(), ArchiveError> {
    let mut upload = store.upload(name)?;
    original.write(&mut |bytes| {
        upload.write(bytes)?;
        report_progress(watch, bytes.len())
    })?;
    Ok(upload.finish()?)
}

/// Reads an object in full and compares it.
fn read_back<F: DiskFile>(
    store: &dyn BlobStore,
    name: &str,
    original: &Original<'_, F>,
    watch: &mut ProgressObserver<'_>,
) -> Result<SegmentSummary, ArchiveError> {
    let source = ArchivedObject { store, name };
    let length = store.length(name)?.unwrap_or_default();
    let compressed = CompressedSegment::open(&source, length)?;
    original.compare((&compressed, &source), watch)?;
    Ok(compressed.contents)
}

/// Passes on the bytes of a file in order.
pub(crate) fn copy_bytes(
    source: &dyn Source,
    length: u64,
    out: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
) -> Result<(), ArchiveError> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < length {
        let wanted = (length - at).min(COPY_BYTES as u64) as usize;
        if source.read_at(at, &mut buffer[..wanted])? < wanted {
            return Err(
                compressed_segment::damaged(source, at, "the file has become shorter").into()
            );
        }
        out(&buffer[..wanted])?;
        at += wanted as u64;
    }
    Ok(())
}

/// Compresses a segment next to its plain file.
fn compress_in_place<D: Disk>(
    log: &TieredDisk<D>,
    due: &PendingSegment,
    watch: &mut ProgressObserver<'_>,
) -> Result<SegmentSummary, ArchiveError> {
    let (disk, first) = (log.below(), due.segment.first);
    let file = &log.open_plain(first)?;
    let checked = &check(file, due, watch)?;
    keep(disk, first, &Original::Plain { file, checked }, watch)
}

/// Writes the compressed form of a segment to a disk and reads it back. The file gets its final
/// name once it is complete.
pub(crate) fn keep<D: Disk, F: DiskFile>(
    disk: &D,
    first: LogIndex,
    original: &Original<'_, F>,
    watch: &mut ProgressObserver<'_>,
) -> Result<SegmentSummary, ArchiveError> {
    let name = segment::compressed_name_of(first);
    let compressing = format!("{name}{COMPRESSING_SUFFIX}");
    remove_if_there(disk, &compressing)?;
    let contents = match write_compressed(disk, &compressing, original, watch) {
        Ok(contents) => contents,
        Err(error) => {
            // An unfinished file must not stay on a full disk.
            remove_if_there(disk, &compressing)?;
            return Err(error);
        }
    };
    disk.rename(&compressing, &name)?;
    disk.sync_directory()?;
    Ok(contents)
}

fn write_compressed<D: Disk, F: DiskFile>(
    disk: &D,
    name: &str,
    original: &Original<'_, F>,
    watch: &mut ProgressObserver<'_>,
) -> Result<SegmentSummary, ArchiveError> {
    let file = disk.create(name)?;
    let mut at = 0;
    original.write(&mut |bytes| {
        file.write_at(at, bytes)?;
        at += bytes.len() as u64;
        report_progress(watch, bytes.len())
    })?;
    file.sync()?;
    file.release(0, at);
    let source = CompressedBytes::Local { file, name: name.to_owned() };
    let written = CompressedSegment::open(&source, at)?;
    original.compare((&written, &source), watch)?;
    Ok(written.contents)
}

pub(crate) fn remove_if_there(disk: &impl Disk, name: &str) -> Result<(), DiskError> {
    match disk.remove(name) {
        Err(DiskError::NotFound(_)) => Ok(()),
        other => other,
    }
}

/// Checks a plain segment up to the start of the next one.
fn check<F: DiskFile>(
    file: &F,
    due: &PendingSegment,
    watch: &mut ProgressObserver<'_>,
) -> Result<Checked, ArchiveError> {
    let SegmentInfo { base, plain_bytes, first, .. } = due.segment;
    let mut checked = Checked {
        base,
        after: due.after,
        frames: 0,
        plain_bytes,
        encrypted_frames: 0,
        starts: Vec::new(),
    };
    // Offset of the next frame among decrypted ones.
    let mut decrypted = SEGMENT_HEADER_BYTES;
    let mut stopped = false;
    let part = Part { file, limit: plain_bytes };
    let scanned = scan::scan_stored(part, (SEGMENT_HEADER_BYTES, base), &mut |found| {
        checked.frames += 1;
        let (offset, frame) = (decrypted, found.frame);
        decrypted += found.decrypted.len() as u64;
        let block = |offset: u64| offset / BLOCK_BYTES as u64;
        if checked.starts.last().is_none_or(|&(_, last)| block(last) < block(offset)) {
            checked.starts.push((frame.header().first, offset));
        }
        let went = watch(u64::from(frame.header().length));
        stopped = went.is_err();
        went
    })?;
    let reason = match scanned.cause {
        Cause::Visitor if stopped => return Err(ArchiveError::Stopped),
        Cause::Limit if same_end(&scanned.tail, &due.after) => {
            checked.encrypted_frames = ((plain_bytes - decrypted) / ENVELOPE_BYTES as u64) as u32;
            return Ok(checked);
        }
        Cause::Limit | Cause::Visitor => "the next segment does not continue it".to_owned(),
        Cause::Unsound(error) => error.to_string(),
    };
    let (file, offset) = (segment::name_of(first), Some(scanned.offset));
    let reason = format!("{reason}; the segment was not archived");
    Err(DiskError::Damaged { file, offset, reason }.into())
}

/// Compares a compressed segment with the plain file, byte by byte.
fn compare_plain<F: DiskFile>(
    (compressed, source): (&CompressedSegment, &dyn Source),
    file: &F,
    checked: &Checked,
    watch: &mut ProgressObserver<'_>,
) -> Result<(), ArchiveError> {
    let SegmentSummary { base, after, plain_bytes, .. } = compressed.contents;
    if (base, after, plain_bytes) != (checked.base, checked.after, checked.plain_bytes) {
        let own = (&checked.base, &checked.after, checked.decrypted_bytes());
        return Err(differs(source, other_form(own, &compressed.contents)));
    }
    let mut expected = vec![0; BLOCK_BYTES];
    let mut bytes = DecryptedBytes::new(file, checked);
    compressed.verify((source, file.cipher()), &mut |plain| {
        bytes.fill(&mut expected[..plain.len()])?;
        if expected[..plain.len()] != *plain {
            return Err(differs(source, "its bytes differ from the segment"));
        }
        report_progress(watch, plain.len())
    })
}

fn differs(source: &dyn Source, reason: &'static str) -> ArchiveError {
    ArchiveError::Differs { object: source.shown(), reason }
}

pub(crate) fn report_progress(
    watch: &mut ProgressObserver<'_>,
    bytes: usize,
) -> Result<(), ArchiveError> {
    watch(bytes as u64).map_err(|StopReading| ArchiveError::Stopped)
}

/// An object of a blob store, opened without the archive index.
pub(crate) struct ArchivedObject<'a> {
    pub(crate) store: &'a dyn BlobStore,
    pub(crate) name: &'a str,
}

impl Source for ArchivedObject<'_> {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let read = self.store.read_at(self.name, offset, buffer);
        read.map_err(crate::tiered::unreachable_store)
    }

    fn shown(&self) -> String {
        format!("{}/{}", self.store.url(), self.name)
    }
}

#[cfg(test)]
mod tests {
    use record::frame::{BatchHeader, FrameBuilder, LogIdentity, NewRecord, payload_digest};

    use super::*;
    use crate::{FileLog, LogOptions, MemoryDisk};
    use ports::Log;

    const FRAMES: u64 = 24;
    const FRAME_BYTES: usize = 100_000;

    /// A log whose first segment is closed, and that segment.
    fn closed() -> (TieredDisk<MemoryDisk>, PendingSegment) {
        let disk = MemoryDisk::new(1);
        let segment_bytes = (FRAMES * FRAME_BYTES as u64) - 1;
        let options = LogOptions { segment_bytes, ..LogOptions::default() };
        let mut log = FileLog::create(disk.clone(), LogIdentity([5; 16]), options).expect("made");
        for _ in 0..=FRAMES {
            let frame = frame_after(&log.tail());
            log.append(&frame).expect("it has room");
        }
        log.sync().expect("it is stored");
        drop(log);
        let tiered = TieredDisk::open(disk).expect("it opens");
        let retention = Retention { keep_segments: 0, closed_by: Stamp(u64::MAX) };
        let mut due = due(&tiered, &retention, Destination::InPlace).expect("it is read");
        assert_eq!(due.len(), 1);
        (tiered, due.remove(0))
    }

    fn frame_after(tail: &Tail) -> Vec<u8> {
        let payload = vec![7; FRAME_BYTES - 300];
        let payload = Some((&payload[..], payload_digest(&payload)));
        let record = NewRecord { kind: 1, version: 1, fields: b"fields", payload };
        let mut builder = FrameBuilder::new();
        builder.push(&record.encode().expect("it is short")).expect("it fits");
        let header = BatchHeader { stamp: Stamp(tail.stamp.0 + 1), ..BatchHeader::default() };
        builder.seal(tail, &header).bytes.to_vec()
    }

    fn checked(
        log: &TieredDisk<MemoryDisk>,
        due: &PendingSegment,
    ) -> Result<Checked, ArchiveError> {
        let file = log.below().open(&segment::name_of(due.segment.first)).expect("it is there");
        check(&file, due, &mut |_| Ok(()))
    }

    /// Index of reading positions: the first frame that starts in each block.
    #[test]
    fn the_first_frame_of_each_block_is_known() {
        let (log, due) = closed();
        let checked = checked(&log, &due).expect("it is sound");
        assert_eq!(checked.frames, due.after.end.0);
        let length = (due.segment.plain_bytes - SEGMENT_HEADER_BYTES) / checked.frames;
        let all = (0..checked.frames).map(|at| (at + 1, SEGMENT_HEADER_BYTES + at * length));
        let mut expected: Vec<(LogIndex, u64)> = Vec::new();
        for (log_index, offset) in all {
            let block = |offset| offset / BLOCK_BYTES as u64;
            if expected.iter().all(|(_, before)| block(*before) != block(offset)) {
                expected.push((LogIndex(log_index), offset));
            }
        }
        assert!(5 < expected.len());
        assert_eq!(checked.starts, expected);
    }

    #[test]
    fn a_segment_that_the_next_one_does_not_continue_stays() {
        let (log, due) = closed();
        let other = Tail { stamp: Stamp(due.after.stamp.0 + 1), ..due.after };
        let error =
            checked(&log, &PendingSegment { after: other, ..due }).expect_err("it ends elsewhere");
        assert!(error.to_string().contains("the next segment does not continue it"), "{error}");
    }

    struct Bytes(Vec<u8>);

    impl Source for Bytes {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
            let rest = &self.0[self.0.len().min(offset as usize)..];
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        }

        fn shown(&self) -> String {
            "some bytes".to_owned()
        }
    }

    /// The object is valid in itself, and all its header fields match; only one byte differs.
    #[test]
    fn an_object_with_another_byte_is_not_the_segment() {
        let (log, due) = closed();
        let checked = checked(&log, &due).expect("it is sound");
        let name = segment::name_of(due.segment.first);
        let other = MemoryDisk::new(2);
        other.put(&name, &log.below().content(&name).expect("it is there"));
        other.damage(&name, 900_000, 1);
        let plain = log.below().open(&name).expect("it is there");
        for (disk, same) in [(log.below(), true), (&other, false)] {
            let (file, mut bytes) = (disk.open(&name).expect("it is there"), Vec::new());
            let mut keep = |piece: &[u8]| {
                bytes.extend_from_slice(piece);
                Ok(())
            };
            compressed_segment::compress::<_, ArchiveError>(&file, &checked, &mut keep)
                .expect("it is compressed");
            let object = Bytes(bytes);
            let compressed =
                CompressedSegment::open(&object, object.0.len() as u64).expect("it is whole");
            let original = Original::Plain { file: &plain, checked: &checked };
            let compared = original.compare((&compressed, &object), &mut |_| Ok(()));
            let differs = matches!(compared, Err(ArchiveError::Differs { .. }));
            assert_eq!((compared.is_ok(), differs), (same, !same), "{compared:?}");
        }
    }

    #[test]
    fn a_file_is_copied_to_its_end_and_no_further() {
        for length in [0, 1, COPY_BYTES - 1, COPY_BYTES, COPY_BYTES + 1, 5 * COPY_BYTES / 2] {
            let source = Bytes((0..length + 9).map(|at| (at % 251) as u8).collect());
            let mut copied = Vec::new();
            let copy = copy_bytes(&source, length as u64, &mut |bytes| {
                copied.extend_from_slice(bytes);
                Ok(())
            });
            copy.expect("all of it is there");
            assert!(copied == source.0[..length], "{length}");
            let longer = copy_bytes(&source, length as u64 + 10, &mut |_| Ok(()));
            assert!(longer.expect_err("it ends").to_string().contains("shorter"), "{length}");
        }
    }
}
