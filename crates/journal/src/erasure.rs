//! Erases payloads from closed segments, whatever their form and location.
//!
//! # Phases, for each segment
//! 1. Read every frame with the chain, and write the segment without the selected payloads to a
//!    temporary file ([`Frame::erase`] keeps the chain). Sync it and check it again.
//! 2. Give it the name of the plain segment, in one step, and sync the directory. From then on
//!    readers use it: a plain segment takes precedence over other forms.
//! 3. If the segment was compressed or archived, replace that form, in one step, by one of the new
//!    file, record it in the archive index, and remove the plain file.
//!
//! A crash between two phases leaves a complete segment, old or new, in the place that readers
//! prefer. The next attempt continues: phase 1 does nothing if no selected payload is left, and
//! phase 3 is made whenever an older form is next to a plain file.
//!
//! On a disk with a cipher, every frame is encrypted anew, with the data key of the present period.
//!
//! # Progress
//! [`ErasureProgress`] is a small file, replaced in one step. It names the rewritten segments with
//! their plain lengths. A segment of another length is an older one that was put back.
//!
//! # Costs and bounds
//! Space for one plain segment. Each frame is read twice and written once; an object of a blob
//! store is also compressed, written and read back. Memory: two frames and the progress, 30 bytes
//! for each rewritten segment.

use std::collections::{BTreeMap, BTreeSet};

use ledger::LogIndex;
use ports::{Disk, DiskError, DiskFile, KeyId, Sealer, StopReading};
use record::frame::{Payload, Record, encrypt, erase_payloads, sealed_payloads};
use serde::{Deserialize, Serialize};

use crate::archive::{
    self, ArchiveError, Destination, PendingSegment, ProgressObserver, remove_if_there,
};
use crate::archive_index::Entry;
use crate::file_log::same_end;
use crate::scan::{self, Cause, FoundFrame, Part};
use crate::segment::{self, SEGMENT_HEADER_BYTES};
use crate::tiered::{SegmentInfo, Tier, TieredDisk};

/// Name of the file with the progress.
pub const ERASURE_PROGRESS: &str = "erasures.json";
/// Version of that file.
pub const ERASURE_PROGRESS_VERSION: u32 = 2;
/// Suffix of a segment that is being rewritten. Backups leave such files out.
const ERASING_SUFFIX: &str = ".unfinished";
/// Maximum length of the progress in bytes: about a million segments.
const PROGRESS_BYTES_MAX: u64 = 64 << 20;

/// Selects payloads.
pub type Selection<'a> = dyn FnMut(&Record<'_>) -> bool + 'a;

/// A segment after an erasure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErasedSegment {
    /// Its first record.
    pub first: LogIndex,
    /// Length of its plain form, in bytes.
    pub plain_bytes: u64,
    /// Payloads erased now.
    pub erased: u64,
}

/// The segments whose payloads were erased.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErasureProgress {
    segments: BTreeMap<LogIndex, Rewritten>,
}

/// A rewritten segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rewritten {
    first: u64,
    /// Length of its plain form, in bytes.
    bytes: u64,
    /// The last order that it complies with.
    through: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    segments: Vec<Rewritten>,
}

impl ErasureProgress {
    /// Reads the progress; empty if the file does not exist, or is of an earlier version.
    ///
    /// # Errors
    /// [`DiskError::Damaged`] if the file is not a progress; it can be removed then, and every
    /// affected segment is read once more.
    pub fn load(disk: &impl Disk) -> Result<Self, DiskError> {
        let file = match disk.open(ERASURE_PROGRESS) {
            Err(DiskError::NotFound(_)) => return Ok(Self::default()),
            opened => opened?,
        };
        let length = file.length()?.min(PROGRESS_BYTES_MAX);
        let mut bytes = vec![0; length as usize];
        let read = file.read_at(0, &mut bytes)?;
        let stored: Option<Stored> = serde_json::from_slice(&bytes[..read]).ok();
        // Programs with version 1 erased no contents of bulk transfers.
        if stored.as_ref().is_some_and(|it| it.version == 1) {
            return Ok(Self::default());
        }
        let stored = stored.filter(|it| it.version == ERASURE_PROGRESS_VERSION);
        let stored = stored.ok_or_else(|| DiskError::Damaged {
            file: ERASURE_PROGRESS.to_owned(),
            offset: None,
            reason: "not the progress of erasures: remove the file".to_owned(),
        })?;
        let segments = stored.segments.into_iter().map(|it| (LogIndex(it.first), it));
        Ok(Self { segments: segments.collect() })
    }

    /// Replaces the file. It is durable when this returns.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn store(&self, disk: &impl Disk) -> Result<(), DiskError> {
        let segments = self.segments.values().copied().collect();
        let stored = Stored { version: ERASURE_PROGRESS_VERSION, segments };
        let text = serde_json::to_vec(&stored).expect("numbers are JSON");
        let unfinished = format!("{ERASURE_PROGRESS}{ERASING_SUFFIX}");
        remove_if_there(disk, &unfinished)?;
        let file = disk.create(&unfinished)?;
        file.write_at(0, &text)?;
        file.sync()?;
        disk.rename(&unfinished, ERASURE_PROGRESS)?;
        disk.sync_directory()
    }

    /// Records that a segment complies with all orders up to one.
    pub fn note(&mut self, segment: &ErasedSegment, through: LogIndex) {
        let ErasedSegment { first, plain_bytes: bytes, .. } = *segment;
        let rewritten = Rewritten { first: first.0, bytes, through: through.0 };
        self.segments.insert(first, rewritten);
    }

    /// The last order that a segment complies with; 0 if it was never rewritten, or if it is not
    /// the rewritten one.
    #[must_use]
    pub fn through(&self, segment: &SegmentInfo) -> LogIndex {
        let known = self.segments.get(&segment.first);
        let known = known.filter(|known| known.bytes == segment.plain_bytes);
        known.map_or(LogIndex(0), |known| LogIndex(known.through))
    }

    /// Whether a segment was rewritten.
    #[must_use]
    pub fn has(&self, first: LogIndex) -> bool {
        self.segments.contains_key(&first)
    }
}

/// Erases the selected payloads of a closed segment. `moved` is called whenever readers must reopen
/// it.
///
/// # Errors
/// Any [`ArchiveError`]; the segment is then readable, old or new.
pub fn erase_segment<D: Disk>(
    log: &TieredDisk<D>,
    due: &PendingSegment,
    (select, moved): (&mut Selection<'_>, &dyn Fn(LogIndex)),
    watch: &mut ProgressObserver<'_>,
) -> Result<ErasedSegment, ArchiveError> {
    let (disk, first) = (log.below(), due.segment.first);
    let name = segment::name_of(first);
    let unfinished = format!("{name}{ERASING_SUFFIX}");
    remove_if_there(disk, &unfinished)?;
    let written = rewrite(log, due, (&unfinished, select), watch);
    let (plain_bytes, erased) = match written {
        Ok(written) => written,
        Err(error) => {
            remove_if_there(disk, &unfinished)?;
            return Err(error);
        }
    };
    match erased {
        0 => remove_if_there(disk, &unfinished)?,
        _ => disk.rename(&unfinished, &name)?,
    }
    disk.sync_directory()?;
    moved(first);
    if is_plain(disk, &name)? {
        replace_other_forms(log, due, plain_bytes, watch)?;
        moved(first);
    }
    Ok(ErasedSegment { first, plain_bytes, erased })
}

/// The data keys of participants that payloads of closed segments need.
///
/// # Errors
/// Any [`ArchiveError`].
pub fn payload_keys<D: Disk>(
    log: &TieredDisk<D>,
    segments: &[SegmentInfo],
    watch: &mut ProgressObserver<'_>,
) -> Result<BTreeSet<KeyId>, ArchiveError> {
    let mut keys = BTreeSet::new();
    for (segment, next) in segments.iter().zip(segments.iter().skip(1)) {
        let file = log.open(&segment::name_of(segment.first))?;
        let part = Part { file: &file, limit: file.length()? };
        let start = (SEGMENT_HEADER_BYTES, segment.base);
        let scanned = scan::scan_stored(part, start, &mut |found| {
            keys.extend(sealed_payloads(found.decrypted).filter_map(KeyId::of));
            watch(found.stored)
        })?;
        if scanned.cause == Cause::Visitor {
            return Err(ArchiveError::Stopped);
        }
        must_end(&PendingSegment { segment: segment.clone(), after: next.base }, &scanned)?;
    }
    Ok(keys)
}

/// Writes a segment without the selected payloads, and returns its length and their number.
fn rewrite<D: Disk>(
    log: &TieredDisk<D>,
    due: &PendingSegment,
    (name, select): (&str, &mut Selection<'_>),
    watch: &mut ProgressObserver<'_>,
) -> Result<(u64, u64), ArchiveError> {
    let base = due.segment.base;
    let source = log.open(&segment::name_of(due.segment.first))?;
    let target = log.create(name)?;
    target.write_at(0, &segment::encode_header(&base))?;
    let (mut at, mut erased) = (SEGMENT_HEADER_BYTES, 0);
    let (mut bytes, mut envelope) = (Vec::new(), Envelope::of(log));
    let mut failure = None;
    let part = Part { file: &source, limit: source.length()? };
    let scanned = scan::scan_stored(part, (SEGMENT_HEADER_BYTES, base), &mut |found| {
        bytes.clear();
        erased += erase_frame(found, &mut bytes, select);
        let written = watch(bytes.len() as u64).map_err(|StopReading| ArchiveError::Stopped);
        let written = written.and_then(|()| {
            let stored = envelope.around(&bytes)?;
            target.write_at(at, stored)?;
            at += stored.len() as u64;
            Ok(())
        });
        written.map_err(|error| {
            failure = Some(error);
            StopReading
        })
    })?;
    failure.map_or(Ok(()), Err)?;
    must_end(due, &scanned)?;
    target.sync()?;
    let part = Part { file: &target, limit: at };
    let checked = scan::scan(part, (SEGMENT_HEADER_BYTES, base), &mut |_, frame| {
        watch(u64::from(frame.header().length))
    })?;
    if checked.cause == Cause::Visitor {
        return Err(ArchiveError::Stopped);
    }
    must_end(due, &checked)?;
    Ok((at, erased))
}

/// Encrypts frames, on a disk with a cipher.
struct Envelope {
    sealer: Option<Box<dyn Sealer>>,
    /// The last encrypted frame.
    frame: Vec<u8>,
}

impl Envelope {
    fn of(disk: &impl Disk) -> Self {
        Self { sealer: disk.cipher().map(|cipher| cipher.sealer()), frame: Vec::new() }
    }

    /// A frame as it is stored.
    fn around<'a>(&'a mut self, frame: &'a [u8]) -> Result<&'a [u8], DiskError> {
        let Some(sealer) = &mut self.sealer else { return Ok(frame) };
        self.frame.clear();
        let sealed =
            encrypt(frame, &mut self.frame, |context, plain, out| sealer.seal(context, plain, out));
        sealed.map_err(|error| DiskError::Failed {
            what: "encrypt a frame".into(),
            error: error.to_string(),
        })?;
        Ok(&self.frame)
    }
}

/// Appends a frame without the selected payloads, and returns their number. Sealed payloads that
/// stay are not opened.
fn erase_frame(found: &FoundFrame<'_>, out: &mut Vec<u8>, select: &mut Selection<'_>) -> u64 {
    let is_stored = |record: &Record<'_>| matches!(record.payload, Payload::Stored(_));
    let records = found.frame.records();
    let chosen: Vec<bool> = records.map(|record| is_stored(&record) && select(&record)).collect();
    let first = found.frame.header().first.0;
    if chosen.contains(&true) {
        let is_chosen = |record: LogIndex| chosen[(record.0 - first) as usize];
        erase_payloads(found.decrypted, out, is_chosen);
    } else {
        out.extend_from_slice(found.decrypted);
    }
    chosen.iter().filter(|is_chosen| **is_chosen).count() as u64
}

/// The scan of a closed segment ends where the next segment begins.
fn must_end(due: &PendingSegment, scanned: &scan::Scanned) -> Result<(), ArchiveError> {
    let reason = match scanned.cause {
        Cause::Limit if same_end(&scanned.tail, &due.after) => return Ok(()),
        Cause::Limit | Cause::Visitor => "the next segment does not continue it".to_owned(),
        Cause::Unsound(error) => error.to_string(),
    };
    let (file, offset) = (segment::name_of(due.segment.first), Some(scanned.offset));
    let reason = format!("{reason}; nothing was erased from the segment");
    Err(DiskError::Damaged { file, offset, reason }.into())
}

fn is_plain(disk: &impl Disk, name: &str) -> Result<bool, DiskError> {
    match disk.open(name) {
        Ok(_) => Ok(true),
        Err(DiskError::NotFound(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Replaces a compressed or archived form by one of the plain file, which is then removed.
fn replace_other_forms<D: Disk>(
    log: &TieredDisk<D>,
    due: &PendingSegment,
    plain_bytes: u64,
    watch: &mut ProgressObserver<'_>,
) -> Result<(), ArchiveError> {
    let (disk, first) = (log.below(), due.segment.first);
    let segment =
        SegmentInfo { tier: Tier::Plain, plain_bytes, stored_bytes: plain_bytes, ..due.segment };
    let plain = PendingSegment { segment, after: due.after };
    if let Some(place) = log.archived_at(first) {
        let store = log.store(&place)?;
        let contents = archive::replace_object(log, &plain, &*store, watch)?;
        log.note_archived(Entry { place, contents })?;
        remove_if_there(disk, &segment::compressed_name_of(first))?;
        remove_if_there(disk, &segment::name_of(first))?;
        disk.sync_directory()?;
    } else if is_plain(disk, &segment::compressed_name_of(first))? {
        archive::archive_segment(log, &plain, Destination::InPlace, watch)?;
    }
    Ok(())
}
