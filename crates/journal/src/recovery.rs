//! Opens a log after a possible crash: decides which damage to repair and which to refuse.
//!
//! # Possible effects of a crash
//! Everything synced exists (see [`ports::Disk`]). The last segment may also have any subset of the
//! sectors written since its last sync, the others reading as zeros, and any length up to the one
//! written. A segment that was being created may be missing, empty, or have part of its header.
//! When several frames were appended before one sync, complete frames may follow a partly lost one.
//!
//! # The rule
//! The log ends before the first invalid frame. Zeros after it are preallocated space. Anything
//! else after it is truncated only if a crash can have left it as part of unacknowledged frames.
//! All of these must hold:
//! 1. The frame is in the last segment, and no later segment was ever started. (A segment is
//!    started only after the previous one is synced.)
//! 2. Part of the frame is *missing*: the file ends within it, or only zeros follow from some byte
//!    of it, or one of its sectors reads as zeros that the frame does not contain. A frame records
//!    which zeros it was written with ([`record::frame::TrailingZeros`]). A frame that is complete
//!    but invalid was stored and damaged later.
//! 3. No later frame proves that its records were durable. ([`record::frame::FrameHeader`] carries
//!    the log index that was durable when the frame was sealed.)
//!
//! Anything else is damage to records that may have been acknowledged: [`OpenError::Damaged`] names
//! the location, and nothing is changed. A log that ends before the record in its durable mark
//! ([`crate::MARK`]) is damaged too. One kind of damage cannot be distinguished from a crash by a
//! single copy of the log: damage to the very last frames, after the durable mark, that truncates
//! the file or replaces a whole sector of a frame by zeros. Frames of version 1, used by older logs
//! and by logs shared by several nodes, do not record their zeros. A last frame of that version
//! that contains a sector of zeros, as a rule the few bytes at its end, is treated as torn,
//! whatever its damage.
//!
//! # Durability of the recovered frames
//! Frames that can be read need not be durable. The process may have died before its sync, or after
//! a failed sync, when the system still shows bytes that it never stored. So all frames that no
//! later frame proves durable are written again and synced, and the directory is synced too, before
//! the log is used. The same applies to the header of the last segment.
//!
//! # Closed segments
//! If [`crate::Verify`] requests it, all of them are read. Otherwise only their headers and their
//! boundaries are checked ([`crate::segment_boundary`]). A segment whose boundary is wrong is read
//! completely, to locate the damage.
//!
//! # Costs
//! One pass over the part selected by [`crate::Verify`], under 1 s per GiB once it is in memory.
//! The replay that follows compares the part of the last segment that was hashed here only with its
//! checksums.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ledger::LogIndex;
use ports::{Disk, DiskError, DiskFile, StopReading};
use record::frame::{Frame, FrameError, LogIdentity, SequenceGap, Tail};

use crate::archive_index::ARCHIVE_INDEX;
use crate::durable_mark::{self, DurableMark, MARK};
use crate::file_log::{LogOptions, Verify, same_end};
use crate::reader::{Index, Segment, SegmentFile};
use crate::scan::{self, Cause, FrameFault, Part, Scanned};
use crate::segment::{self, SEGMENT_HEADER_BYTES};
use crate::segment_boundary;

/// Rewritten bytes are copied in pieces of this size.
const REWRITE_BYTES: usize = 1 << 20;

/// Number of attempts to read apparent damage while a writer is running.
const READ_ATTEMPTS: u32 = 25;
/// Interval between two attempts; half a second for all of them.
const READ_RETRY: Duration = Duration::from_millis(20);

/// Handling of damaged, not torn, frames at the end of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TailPolicy {
    /// The log is not opened.
    #[default]
    Refuse,
    /// They are truncated, as the operator requested. Damage that a later frame proves to have
    /// been durable is still refused.
    Truncate,
}

/// Result of opening a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The log's identity.
    pub identity: LogIdentity,
    /// Whether the log was just created.
    pub created: bool,
    /// Number of segments.
    pub segments: usize,
    /// Frames read and checked.
    pub frames: u64,
    /// The last record.
    pub end: LogIndex,
    /// The truncated tail, if any.
    pub dropped: Option<TruncatedTail>,
    /// An unfinished segment without frames, which was removed.
    pub removed_segment: Option<String>,
    /// Bytes of frames at the end that were written and synced again.
    pub rewritten_bytes: u64,
}

impl Recovery {
    pub(crate) fn created(identity: LogIdentity) -> Self {
        Self {
            identity,
            created: true,
            segments: 1,
            frames: 0,
            end: LogIndex(0),
            dropped: None,
            removed_segment: None,
            rewritten_bytes: 0,
        }
    }
}

/// A tail that was truncated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncatedTail {
    /// File name of the segment.
    pub segment: String,
    /// Its new length: the offset of the first invalid frame.
    pub offset: u64,
    /// Number of bytes removed.
    pub bytes: u64,
    /// The fault of the frame.
    pub reason: FrameFault,
}

/// Why a log was not opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no log in the directory.
    #[error("there is no log here")]
    NoLog,
    /// There already is a log in the directory.
    #[error("this directory already holds a log")]
    Exists,
    /// The log is damaged. Nothing was changed.
    #[error(transparent)]
    Damaged(#[from] Box<Damage>),
    /// The disk returned an error, or another file of the log is damaged.
    #[error("{}{}", .0, advice(.0))]
    Disk(#[from] DiskError),
}

/// Advice for the operator on a disk error, appended to its text.
fn advice(error: &DiskError) -> &'static str {
    match error {
        DiskError::Damaged { file, .. } => advice_on(file),
        _ => "",
    }
}

/// Advice for the operator on a damaged file, appended to the error's text.
#[must_use]
pub fn advice_on(file: &str) -> &'static str {
    match file {
        ARCHIVE_INDEX => ADVICE_ON_ARCHIVE_INDEX,
        _ => ADVICE_ON_FILE,
    }
}

const ADVICE_ON_FILE: &str =
    ". Nothing was changed. Restore this file from a copy or the archive, then start again.";
/// The archive index has no copy, and can be rebuilt from the archive.
const ADVICE_ON_ARCHIVE_INDEX: &str = ". Nothing was changed. Copy the files below segments/ of \
     the archive into this directory, delete this file, and start again: every segment is checked \
     and archived again.";

/// A location where the log is damaged in a way that no crash explains.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the log is damaged in {segment} at byte {offset}, where record {} should start: {reason}. \
     Nothing was changed. {}",
    .log_index.0,
    .reason.advice()
)]
pub struct Damage {
    /// File name of the segment.
    pub segment: String,
    /// Byte offset in the segment.
    pub offset: u64,
    /// The record expected there.
    pub log_index: LogIndex,
    /// The fault.
    pub reason: DamageReason,
}

/// Kinds of damage.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageReason {
    /// The segment's header is invalid.
    #[error("{0}")]
    SegmentHeader(&'static str),
    /// The segment belongs to another log.
    #[error("the segment belongs to log {found}, not to this log {expected}")]
    Identity {
        /// The log's identity.
        expected: LogIdentity,
        /// The segment's identity.
        found: LogIdentity,
    },
    /// The segment does not begin where the previous one ends.
    #[error("the records up to {} are missing", .until.0)]
    Missing {
        /// The last record missing.
        until: LogIndex,
    },
    /// The segment is valid but does not continue the previous one.
    #[error("the segment does not continue the previous one")]
    Unconnected,
    /// A durable frame is invalid: later segments or frames prove its durability.
    #[error("{error}, but the records up to {} were durable", .durable.0)]
    Durable {
        /// The fault of the frame.
        error: FrameError,
        /// The last record that is known to have been durable.
        durable: LogIndex,
    },
    /// The log ends, or becomes unreadable, before the record in its durable mark.
    #[error(
        "the log ends there, but {MARK} shows that the records up to {} were durable",
        .until.0
    )]
    Cut {
        /// The last record that is known to have been durable.
        until: LogIndex,
    },
    /// There is a durable mark, but no segment.
    #[error(
        "no segment exists, but {MARK} shows that the records up to {} were durable",
        .until.0
    )]
    Gone {
        /// The last record that is known to have been durable.
        until: LogIndex,
    },
    /// The end of the log is stored in full but invalid.
    #[error("{0}; the damage does not look like a torn write")]
    Stored(FrameFault),
    /// A valid frame that does not continue the log, and was durable.
    #[error("{0}")]
    Order(SequenceGap),
}

impl DamageReason {
    /// Damage at a point where the records up to `durable` should be.
    fn durable(unsound: FrameFault, durable: LogIndex) -> Self {
        match unsound {
            FrameFault::Frame(error) => Self::Durable { error, durable },
            FrameFault::Order(error) => Self::Order(error),
        }
    }

    /// Advice for the operator.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self {
            Self::SegmentHeader(_) | Self::Durable { .. } | Self::Order(_) => {
                "Restore this segment from a copy or the archive, then start again."
            }
            Self::Missing { .. } => {
                "Put the missing segment, or a complete copy of this one, back from the archive."
            }
            Self::Identity { .. } | Self::Unconnected => {
                "This segment, or those before it, belong to another log or to an older copy of \
                 this one. Remove the segments that do not belong here and restore the right ones."
            }
            Self::Cut { .. } => {
                "Put the missing end back from a copy, or restore the log from its backup. Without \
                 either, start once with --truncate-damaged-tail: acknowledged records \
                 that are missing are lost and must be reconciled manually."
            }
            Self::Gone { .. } => {
                "Put the segments back from a copy, or restore the log from its backup. To create \
                 a new log, use an empty directory."
            }
            Self::Stored(_) => {
                "Restore this segment from a copy. Without one, start once with \
                 --truncate-damaged-tail: the records from this byte on are lost, and acknowledged \
                 ones among them must be reconciled manually."
            }
        }
    }
}

/// A log ready for use.
pub(crate) struct Recovered<F> {
    pub(crate) segments: Vec<Segment<F>>,
    pub(crate) active: Arc<SegmentFile<F>>,
    pub(crate) length: u64,
    pub(crate) tail: Tail,
    pub(crate) report: Recovery,
}

/// Recovers the log in `disk`. Changes nothing unless the whole log is valid.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    options: &LogOptions,
) -> Result<Recovered<D::File>, OpenError> {
    let mark = durable_mark::read(disk)?;
    let mut found = find_segments(disk)?;
    let unfinished = take_unfinished(&mut found)?;
    let (closed, last) = split_last(&found)?;
    check_headers(&found)?;
    let mut frames = 0;
    for (segment, next) in closed.iter().zip(&found[1..]) {
        if options.verify == Verify::Everything || !continues(disk, (segment, next))? {
            frames += check_closed(disk, (segment, next), &mut |_, _| Ok(()))?.frames;
        }
    }
    let mut end = scan_last(last)?;
    frames += end.frames;
    let known = Known { unfinished: unfinished.as_ref(), mark };
    let cut = judge_end(last, &end, known, options.tail_policy)?;

    // From here on the log is known to be valid, and is changed.
    if mark.is_some_and(|mark| mark.is_ahead(&end.scanned.tail)) {
        // The operator truncates the tail, and the mark with it.
        disk.remove(MARK)?;
    }
    if let Some(unfinished) = &unfinished {
        disk.remove(&unfinished.name)?;
    }
    let dropped = cut.map(|reason| truncated_tail(last, &end.scanned, reason));
    // Truncate even if nothing is to be removed: an earlier recovery may have truncated without a
    // successful sync. The removed bytes would then be invisible but stored, and reappear after the
    // next frame in a crash.
    last.file().truncate(end.scanned.offset)?;
    // The header is one sector, so rewriting it cannot tear it.
    write_again(last.file(), 0, SEGMENT_HEADER_BYTES)?;
    let rewritten_bytes = write_again(last.file(), end.unproven, end.scanned.offset)?;
    last.file().sync()?;
    disk.sync_directory()?;
    end.scanned.tail.durable = end.scanned.tail.end;

    let report = Recovery {
        identity: end.scanned.tail.identity,
        created: false,
        segments: found.len(),
        frames,
        end: end.scanned.tail.end,
        dropped,
        removed_segment: unfinished.map(|segment| segment.name),
        rewritten_bytes,
    };
    Ok(assemble(found, end, report))
}

/// Before a log is created: removes a first segment whose creation was interrupted.
pub(crate) fn clear_unfinished_creation<D: Disk>(disk: &D) -> Result<(), OpenError> {
    let mark = durable_mark::read(disk)?;
    let mut found = find_segments(disk)?;
    let unfinished = take_unfinished(&mut found)?;
    if !found.is_empty() {
        return Err(OpenError::Exists);
    }
    if let Some(mark) = mark {
        return Err(mark.damage_without_log());
    }
    if let Some(unfinished) = unfinished {
        disk.remove(&unfinished.name)?;
        disk.sync_directory()?;
    }
    Ok(())
}

/// One frame and its location.
#[derive(Clone, Copy, Debug)]
pub struct LocatedFrame<'a> {
    /// File name of the segment.
    pub segment: &'a str,
    /// Byte offset of the frame in the segment.
    pub offset: u64,
    /// The frame, fully checked, including the chain.
    pub frame: &'a Frame<'a>,
}

/// Result of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWalk {
    /// Number of segments.
    pub segments: usize,
    /// Frames visited.
    pub frames: u64,
    /// Bytes of frames visited.
    pub bytes: u64,
    /// The log's tail after the last frame visited.
    pub tail: Tail,
    /// The torn tail that the next start of the switch would truncate. It was left unchanged.
    pub torn: Option<TruncatedTail>,
}

/// Reads a log from its first frame to its end and changes nothing, whatever its state. Each frame
/// is fully checked, including the chain, before it is visited. `Err(Stop)` ends the walk.
///
/// # Errors
/// [`OpenError::NoLog`] if there is no trace of a log; [`OpenError::Damaged`] with the location,
/// after the frames before it were visited; [`OpenError::Disk`].
pub fn walk<D: Disk>(
    disk: &D,
    visit: &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
) -> Result<LogWalk, OpenError> {
    walk_with(disk, LogOwner::None, visit)
}

/// Reads a log like [`walk`] while another process may be writing it. Covers at least the frames
/// that were complete at the beginning, up to those complete at the end. A partly written frame is
/// not damage.
///
/// # Errors
/// As [`walk`]. Apparent damage is read again for up to half a second, in case it is being written.
pub fn walk_live<D: Disk>(
    disk: &D,
    visit: &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
) -> Result<LogWalk, OpenError> {
    walk_with(disk, LogOwner::Writer, visit)
}

/// Other users of the log during a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogOwner {
    None,
    Writer,
}

fn walk_with<D: Disk>(
    disk: &D,
    neighbour: LogOwner,
    visit: &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
) -> Result<LogWalk, OpenError> {
    // Read the mark first: while a switch is running, the log may grow, and the mark with it.
    let mark = durable_mark::read(disk)?;
    let mut found = match neighbour {
        LogOwner::None => find_segments(disk)?,
        LogOwner::Writer => find_segments_live(disk)?,
    };
    let unfinished = take_unfinished(&mut found)?;
    let (closed, last) =
        split_last(&found).map_err(|none| mark.map_or(none, DurableMark::damage_without_log))?;
    check_headers(&found)?;
    let mut walked =
        LogWalk { segments: found.len(), frames: 0, bytes: 0, tail: found[0].base(), torn: None };
    for (segment, next) in closed.iter().zip(&found[1..]) {
        let read = check_closed(disk, (segment, next), &mut |offset, frame| {
            visit(&LocatedFrame { segment: &segment.name, offset, frame })
        })?;
        walked.note(read.frames, &read.scanned);
        if read.scanned.cause == Cause::Visitor {
            return Ok(walked);
        }
    }
    let mut frames = 0;
    let start = (SEGMENT_HEADER_BYTES, last.base());
    let mut scanned = scan::scan(last.part(), start, &mut |offset, frame| {
        frames += 1;
        visit(&LocatedFrame { segment: &last.name, offset, frame })
    })?;
    walked.note(frames, &scanned);
    if neighbour == LogOwner::Writer {
        scanned.cause = stable_end(last.file(), &scanned)?;
    }
    if scanned.cause != Cause::Visitor {
        let end =
            LastSegment { scanned, frames, index: Index::default(), unproven: scanned.offset };
        let known = Known { unfinished: unfinished.as_ref(), mark };
        let cut = judge_end(last, &end, known, TailPolicy::Refuse)?;
        walked.torn = cut.map(|reason| truncated_tail(last, &scanned, reason));
    }
    Ok(walked)
}

/// Result of a scan of the last segment, checked again in case a writer is running: an incomplete
/// frame may be complete by now, or removed. Damage stays unchanged.
fn stable_end<F: DiskFile>(file: &F, scanned: &Scanned) -> Result<Cause, DiskError> {
    let Cause::Unsound(FrameFault::Frame(_)) = scanned.cause else { return Ok(scanned.cause) };
    let start = (scanned.offset, scanned.tail);
    for _ in 0..READ_ATTEMPTS {
        let part = Part { file, limit: file.length()? };
        let again = scan::scan(part, start, &mut |_, _| Err(StopReading))?;
        match again.cause {
            Cause::Visitor | Cause::Limit => return Ok(again.cause),
            _ if scan::is_room(part, scanned.offset)? => return Ok(Cause::Limit),
            _ => thread::sleep(READ_RETRY),
        }
    }
    Ok(scanned.cause)
}

impl LogWalk {
    fn note(&mut self, frames: u64, scanned: &Scanned) {
        self.frames += frames;
        self.bytes += scanned.offset - SEGMENT_HEADER_BYTES;
        self.tail = scanned.tail;
    }
}

/// A segment found in the directory.
struct FoundSegment<F> {
    first: LogIndex,
    name: String,
    /// Open only for the last two segments: a log may have more segments than a process may open
    /// files.
    file: Option<F>,
    length: u64,
    header: Result<Tail, &'static str>,
}

impl<F: DiskFile> FoundSegment<F> {
    /// File of one of the last two segments.
    fn file(&self) -> &F {
        self.file.as_ref().expect("the last two segments found are open")
    }

    /// Content of one of the last two segments.
    fn part(&self) -> Part<'_, F> {
        Part { file: self.file(), limit: self.length }
    }

    fn damage(&self, offset: u64, log_index: LogIndex, reason: DamageReason) -> OpenError {
        let segment = self.name.clone();
        OpenError::Damaged(Box::new(Damage { segment, offset, log_index, reason }))
    }

    /// The log's tail before this segment. Only called after the headers are checked.
    fn base(&self) -> Tail {
        self.header.expect("the headers of all segments have been checked")
    }
}

/// The end of the last segment.
struct LastSegment {
    scanned: Scanned,
    frames: u64,
    index: Index,
    /// Offset after which no later frame proves durability.
    unproven: u64,
}

fn find_segments<D: Disk>(disk: &D) -> Result<Vec<FoundSegment<D::File>>, DiskError> {
    let mut found = Vec::new();
    for (first, name) in segment::list(disk)? {
        let file = disk.open(&name)?;
        let length = file.length()?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        let read = file.read_at(0, &mut bytes)?;
        let header = segment::decode_header(&bytes[..read]);
        found.push(FoundSegment { first, name, file: Some(file), length, header });
        if let [.., closed, _, _] = &mut found[..] {
            closed.file = None;
        }
    }
    Ok(found)
}

/// Like [`find_segments`], while the owner may remove a segment that it could not create on a full
/// disk.
fn find_segments_live<D: Disk>(disk: &D) -> Result<Vec<FoundSegment<D::File>>, DiskError> {
    for _ in 1..READ_ATTEMPTS {
        match find_segments(disk) {
            Err(DiskError::NotFound(_)) => thread::sleep(READ_RETRY),
            found => return found,
        }
    }
    find_segments(disk)
}

/// Removes an unfinished last segment from the list: it cannot contain frames.
fn take_unfinished<F: DiskFile>(
    found: &mut Vec<FoundSegment<F>>,
) -> Result<Option<FoundSegment<F>>, DiskError> {
    let unfinished = match found.last() {
        Some(last) if last.header.is_err() && last.length <= SEGMENT_HEADER_BYTES => {
            last.length < SEGMENT_HEADER_BYTES || reads_as_zeros(last)?
        }
        _ => false,
    };
    Ok(if unfinished { found.pop() } else { None })
}

fn reads_as_zeros<F: DiskFile>(segment: &FoundSegment<F>) -> Result<bool, DiskError> {
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    segment.file().read_at(0, &mut header)?;
    Ok(header.iter().all(|&byte| byte == 0))
}

fn split_last<F>(
    found: &[FoundSegment<F>],
) -> Result<(&[FoundSegment<F>], &FoundSegment<F>), OpenError> {
    let (last, closed) = found.split_last().ok_or(OpenError::NoLog)?;
    Ok((closed, last))
}

/// Checks everything that the headers alone show.
fn check_headers<F: DiskFile>(found: &[FoundSegment<F>]) -> Result<(), OpenError> {
    let mut identity = None;
    let mut before = LogIndex(0);
    for segment in found {
        let damage = |reason| segment.damage(0, segment.first, reason);
        let base = segment.header.map_err(|what| damage(DamageReason::SegmentHeader(what)))?;
        if base.next() != segment.first {
            let what = "the header does not match the file name";
            return Err(damage(DamageReason::SegmentHeader(what)));
        }
        let expected = *identity.get_or_insert(base.identity);
        if base.identity != expected {
            return Err(damage(DamageReason::Identity { expected, found: base.identity }));
        }
        if before.0 == 0 && base.end.0 != 0 {
            return Err(damage(DamageReason::Missing { until: base.end }));
        }
        if before.0 == 0 && !same_end(&base, &Tail::genesis(expected)) {
            return Err(damage(DamageReason::Unconnected));
        }
        before = segment.first;
    }
    Ok(())
}

/// Whether a segment ends where the next one begins, judged by its last frame.
fn continues<D: Disk>(
    disk: &D,
    (segment, next): (&FoundSegment<D::File>, &FoundSegment<D::File>),
) -> Result<bool, DiskError> {
    let (file, base) = (disk.open(&segment.name)?, next.base());
    match file.known_end() {
        Some(end) => Ok(same_end(&end, &base)),
        None => segment_boundary::ends_at(Part { file: &file, limit: file.length()? }, &base),
    }
}

/// A closed segment that was read.
struct ClosedSegment {
    frames: u64,
    scanned: Scanned,
}

/// Checks a closed segment, unless the visitor stops.
fn check_closed<D: Disk>(
    disk: &D,
    (segment, next): (&FoundSegment<D::File>, &FoundSegment<D::File>),
    visit: &mut dyn FnMut(u64, &Frame<'_>) -> Result<(), StopReading>,
) -> Result<ClosedSegment, OpenError> {
    let mut frames = 0;
    let start = (SEGMENT_HEADER_BYTES, segment.base());
    let file = disk.open(&segment.name)?;
    file.check_length()?;
    // Its form may have changed since it was found.
    let part = Part { file: &file, limit: file.length()? };
    let scanned = scan::scan(part, start, &mut |offset, frame| {
        frames += 1;
        visit(offset, frame)
    })?;
    let base = next.base();
    let (tail, offset) = (scanned.tail, scanned.offset);
    let reason = match scanned.cause {
        Cause::Visitor => return Ok(ClosedSegment { frames, scanned }),
        Cause::Limit if same_end(&tail, &base) => return Ok(ClosedSegment { frames, scanned }),
        Cause::Limit if tail.end < base.end => DamageReason::Missing { until: base.end },
        Cause::Limit => return Err(next.damage(0, next.first, DamageReason::Unconnected)),
        Cause::Unsound(unsound) => DamageReason::durable(unsound, base.end),
    };
    Err(segment.damage(offset, tail.next(), reason))
}

fn scan_last<F: DiskFile>(last: &FoundSegment<F>) -> Result<LastSegment, DiskError> {
    let base = last.base();
    let mut index = Index::default();
    let mut frames = 0;
    let mut proven = base.end;
    let mut unproven: VecDeque<(LogIndex, u64)> = VecDeque::new();
    let start = (SEGMENT_HEADER_BYTES, base);
    let scanned = scan::scan(last.part(), start, &mut |offset, frame: &Frame<'_>| {
        index.note(frame.header().first, offset);
        frames += 1;
        proven = proven.max(frame.header().durable);
        unproven.push_back((frame.header().last(), offset));
        while unproven.front().is_some_and(|&(end, _)| end <= proven) {
            unproven.pop_front();
        }
        Ok(())
    })?;
    let unproven = unproven.front().map_or(scanned.offset, |&(_, offset)| offset);
    Ok(LastSegment { scanned, frames, index, unproven })
}

/// Knowledge about the log's end from outside its last segment.
struct Known<'a, F> {
    /// An unfinished segment after the last one.
    unfinished: Option<&'a FoundSegment<F>>,
    mark: Option<DurableMark>,
}

impl DurableMark {
    /// Whether a log that ends here lacks durable records.
    fn is_ahead(&self, tail: &Tail) -> bool {
        self.identity == tail.identity && tail.end < self.log_index
    }

    /// The error when there is a mark but no log.
    fn damage_without_log(self) -> OpenError {
        let (segment, log_index) = (segment::name_of(LogIndex(1)), LogIndex(1));
        let reason = DamageReason::Gone { until: self.log_index };
        OpenError::Damaged(Box::new(Damage { segment, offset: 0, log_index, reason }))
    }
}

/// Judges the bytes after the last valid frame: `Ok(Some(_))` means truncate.
fn judge_end<F: DiskFile>(
    last: &FoundSegment<F>,
    end: &LastSegment,
    known: Known<'_, F>,
    tail_policy: TailPolicy,
) -> Result<Option<FrameFault>, OpenError> {
    let Known { unfinished, mark } = known;
    let Scanned { offset, tail, cause } = end.scanned;
    let damage = |reason| Err(last.damage(offset, tail.next(), reason));
    let cut = mark.filter(|mark| mark.is_ahead(&tail) && tail_policy == TailPolicy::Refuse);
    let ended = || {
        missing_before(last, end, unfinished)?;
        let Some(mark) = cut else { return Ok(None) };
        let reason = DamageReason::Cut { until: mark.log_index };
        // The durable part began after the preceding frame.
        Err(match unfinished {
            Some(segment) => segment.damage(segment.length, segment.first, reason),
            None => last.damage(offset, tail.next(), reason),
        })
    };
    let unsound = match cause {
        Cause::Limit | Cause::Visitor => return ended(),
        Cause::Unsound(FrameFault::Frame(_)) if scan::is_room(last.part(), offset)? => {
            return ended();
        }
        Cause::Unsound(unsound) => unsound,
    };
    // The frame before the start of the next segment was synced.
    let started = unfinished.map(|segment| LogIndex(segment.first.0 - 1));
    let marked = scan::durable_mark_behind(last.part(), offset, tail.identity)?;
    let durable = started.max(marked).unwrap_or(LogIndex(0));
    if tail.end < durable {
        return damage(DamageReason::durable(unsound, durable));
    }
    let may_be_torn = match unsound {
        FrameFault::Frame(FrameError::Malformed(_)) | FrameFault::Order(_) => false,
        FrameFault::Frame(_) => true,
    };
    let torn = may_be_torn && scan::is_torn(last.part(), offset)?;
    if !torn && tail_policy == TailPolicy::Refuse {
        return damage(DamageReason::Stored(unsound));
    }
    if let Some(mark) = cut {
        return damage(DamageReason::Cut { until: mark.log_index });
    }
    Ok(Some(unsound))
}

/// With a valid end: whether the log reaches the start of the unfinished segment.
fn missing_before<F: DiskFile>(
    last: &FoundSegment<F>,
    end: &LastSegment,
    unfinished: Option<&FoundSegment<F>>,
) -> Result<(), OpenError> {
    let next = end.scanned.tail.next();
    match unfinished {
        Some(segment) if segment.first != next => {
            let until = LogIndex(segment.first.0.saturating_sub(1));
            Err(last.damage(end.scanned.offset, next, DamageReason::Missing { until }))
        }
        _ => Ok(()),
    }
}

fn truncated_tail<F>(
    last: &FoundSegment<F>,
    scanned: &Scanned,
    reason: FrameFault,
) -> TruncatedTail {
    let bytes = last.length - scanned.offset;
    TruncatedTail { segment: last.name.clone(), offset: scanned.offset, bytes, reason }
}

/// Rewrites the bytes from `start` to `end`, and returns their number.
fn write_again<F: DiskFile>(file: &F, start: u64, end: u64) -> Result<u64, DiskError> {
    let mut buffer = vec![0; REWRITE_BYTES.min((end - start) as usize)];
    let mut at = start;
    while at < end {
        let length = buffer.len().min((end - at) as usize);
        let read = file.read_at(at, &mut buffer[..length])?;
        if read != length {
            let what = "reread the segment".to_owned();
            return Err(DiskError::Failed { what, error: "the file has become shorter".into() });
        }
        file.write_at(at, &buffer[..length])?;
        at += length as u64;
    }
    Ok(end - start)
}

fn assemble<F: DiskFile>(
    found: Vec<FoundSegment<F>>,
    end: LastSegment,
    report: Recovery,
) -> Recovered<F> {
    let mut segments: Vec<Segment<F>> = Vec::with_capacity(found.len());
    let mut active = None;
    for segment in found {
        segments.push(Segment { first: segment.first, opened: None });
        active = Some((segment.first, segment.file));
    }
    let (first, file) = active.expect("a log has at least one segment");
    let file = file.expect("the last two segments found are open");
    let active = Arc::new(SegmentFile::new(first, file, end.index));
    if let Some(last) = segments.last_mut() {
        last.opened = Some(active.clone());
    }
    Recovered { segments, active, length: end.scanned.offset, tail: end.scanned.tail, report }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_comes_with_advice_and_nothing_else_does() {
        let (file, reason) = ("00.packed".to_owned(), "it is cut".to_owned());
        let damaged = DiskError::Damaged { file, offset: Some(7), reason };
        let shown = OpenError::Disk(damaged).to_string();
        assert_eq!(shown, format!("00.packed at byte 7: it is cut{ADVICE_ON_FILE}"));
        assert!(advice_on(ARCHIVE_INDEX).contains("delete this file"));
        assert_eq!(OpenError::Disk(DiskError::Full).to_string(), "the disk is full");
    }
}
