//! Opening a log that may have crashed: what is repaired and what is refused.
//!
//! # What a crash can leave
//! Everything synced is there (see [`ports::Disk`]). Beyond that, of the last segment: any subset
//! of the sectors written since its last sync, the others reading as zeros, and any length up to
//! the one written; of a segment being started: nothing, its name with an empty file, or its name
//! with a part of its header. Whole frames may stand behind a frame that was lost in part, when
//! several were appended before one sync.
//!
//! # The rule
//! The log ends before the first frame that is not sound. Nothing but zeros behind it is room that
//! was made for more. Anything else that follows is cut off if, and only if, it can be what a crash
//! leaves of frames never acknowledged:
//! 1. the frame is in the last segment, and no later segment was ever started (a segment is
//!    started only after the one before is synced);
//! 2. a part of it is *missing*: the file ends within it, or from some byte of it on there is
//!    nothing but zeros, or one of its sectors reads as zeros that are not its own: a frame says
//!    which of those it was written with ([`record::frame::Zeros`]). A frame that is all there but
//!    wrong was stored and then damaged;
//! 3. no frame behind it says that its records were durable ([`record::frame::FrameHeader`]
//!    carries the position known durable when it was sealed).
//!
//! Anything else is damage to what may have been acknowledged: [`OpenError::Damaged`] names the
//! place, and nothing is changed. So is a log that ends before a record of which the mark beside it
//! says that it was durable ([`crate::MARK`]). What no single copy of a log can tell from a crash
//! is damage to the very last frames, behind the mark, that cuts the file or puts zeros where a
//! whole sector of a frame was. Frames of version 1, of older logs and of logs that several nodes
//! share, do not say which zeros are theirs: there a last frame that has a sector of zeros of its
//! own, as a rule the few bytes that it ends in, is taken for torn whatever is wrong with it.
//!
//! # What is made sure of
//! Frames that are there need not be durable: the process may have died before its sync, or after
//! a failed one, when the system still shows what it never stored. So what no later frame vouches
//! for is written once more and synced, and the directory too, before the log is handed out. The
//! same goes for the header of the last segment.
//!
//! # What is read of closed segments
//! All of them, if [`crate::Verify`] asks for it. Else their headers, and whether each ends where
//! the next one begins ([`crate::joint`]); all of one that does not, to say where it is damaged.
//!
//! # Costs
//! One pass over what [`crate::Verify`] asks for, under 1 s per GiB once it is in memory. The
//! replay that follows holds what was hashed of the last segment against its checksums alone.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use ledger::LogIndex;
use ports::{Disk, DiskError, DiskFile, StopReading};
use record::frame::{Frame, FrameError, LogIdentity, SequenceGap, Tail};

use crate::archive_index::CATALOGUE;
use crate::durable_mark::{self, DurableMark, MARK};
use crate::file_log::{Options, Verify, same_end};
use crate::reader::{Index, Opened, Segment};
use crate::scan::{self, Cause, FrameFault, Part, Scanned};
use crate::segment::{self, SEGMENT_HEADER_BYTES};
use crate::segment_boundary;

/// Bytes written once more are copied in pieces of this size.
const REWRITE_BYTES: usize = 1 << 20;

/// How often what looks damaged is looked at, where it may only be being written.
const LOOKS: u32 = 25;
/// How long after one look the next one is: half a second for all of them.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What happens to frames at the end of the log that are damaged rather than torn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TailPolicy {
    /// The log is not opened.
    #[default]
    Refuse,
    /// They are truncated, as the operator requested. Damage that a later frame proves to have
    /// been durable is still refused.
    Truncate,
}

/// What was found and done when a log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The log's identity.
    pub identity: LogIdentity,
    /// Whether the log was made just now.
    pub created: bool,
    /// Number of segments.
    pub segments: usize,
    /// Frames read and checked.
    pub frames: u64,
    /// The last record.
    pub end: LogIndex,
    /// What was cut off the end.
    pub dropped: Option<TruncatedTail>,
    /// A segment that was being started and held nothing; it was removed.
    pub removed_segment: Option<String>,
    /// Bytes of frames at the end that were written and synced once more.
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

/// What was cut off the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncatedTail {
    /// File name of the segment.
    pub segment: String,
    /// Its new length: where the first unsound frame stood.
    pub offset: u64,
    /// How many bytes were cut off.
    pub bytes: u64,
    /// What was wrong with the frame.
    pub reason: FrameFault,
}

/// Why a log was not opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// There is no log in the directory.
    #[error("there is no log here")]
    NoLog,
    /// There already is a log in the directory.
    #[error("there already is a log here")]
    Exists,
    /// The log is not as it was written. Nothing was changed.
    #[error(transparent)]
    Damaged(#[from] Box<Damage>),
    /// The disk did not do as asked, or a file that is kept in another form is damaged.
    #[error("{}{}", .0, advice(.0))]
    Disk(#[from] DiskError),
}

/// What the operator should do about an error of the disk, behind its text.
fn advice(error: &DiskError) -> &'static str {
    match error {
        DiskError::Damaged { file, .. } => advice_on(file),
        _ => "",
    }
}

/// What the operator should do about a damaged file, behind the text that says so.
#[must_use]
pub fn advice_on(file: &str) -> &'static str {
    match file {
        CATALOGUE => ADVICE_ON_CATALOGUE,
        _ => ADVICE_ON_FILE,
    }
}

const ADVICE_ON_FILE: &str =
    ". Nothing was changed. Restore this file from a copy or the archive, then start again.";
/// The archive index has no copy, and can be rebuilt from the archive.
const ADVICE_ON_CATALOGUE: &str = ". Nothing was changed. Copy the files below segments/ of the \
     archive into this directory, delete this file, and start again: every segment is checked and \
     archived again.";

/// A place where a log is not as it was written, in a way no crash explains.
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
    /// Where in it.
    pub offset: u64,
    /// The record that should stand there.
    pub log_index: LogIndex,
    /// What is wrong.
    pub reason: DamageReason,
}

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DamageReason {
    /// The segment's own header.
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
    /// The segment does not begin where the one before ends.
    #[error("the records up to {} are missing", .until.0)]
    Missing {
        /// The last record missing.
        until: LogIndex,
    },
    /// The segment is sound but does not continue the one before.
    #[error("the segment does not continue the one before")]
    Unconnected,
    /// A frame that was durable, for later segments or frames stand behind it.
    #[error("{error}, but the records up to {} were durable", .durable.0)]
    Durable {
        /// What is wrong with the frame.
        error: FrameError,
        /// How far the log is known to have been durable.
        durable: LogIndex,
    },
    /// The log ends, or breaks off, before a record that the mark beside it names.
    #[error(
        "the log ends there, but {MARK} says that the records up to {} were durable",
        .until.0
    )]
    Cut {
        /// How far the log is known to have been durable.
        until: LogIndex,
    },
    /// There is a mark, and no segment.
    #[error(
        "no segment exists, but {MARK} says that the records up to {} were durable",
        .until.0
    )]
    Gone {
        /// How far the log is known to have been durable.
        until: LogIndex,
    },
    /// What stands at the log's end is stored in full but wrong.
    #[error("{0}; the damage does not look like a torn write")]
    Stored(FrameFault),
    /// A sound frame that does not continue the log, and was durable.
    #[error("{0}")]
    Order(SequenceGap),
}

impl DamageReason {
    /// Of what stands where the records up to `durable` should.
    fn durable(unsound: FrameFault, durable: LogIndex) -> Self {
        match unsound {
            FrameFault::Frame(error) => Self::Durable { error, durable },
            FrameFault::Order(error) => Self::Order(error),
        }
    }

    /// What the operator should do.
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
                "Put the missing end back from a copy, or restore the log from its backup. If \
                 there is none, start once with --truncate-damaged-tail: acknowledged records \
                 that are missing are lost and must be reconciled manually."
            }
            Self::Gone { .. } => {
                "Put the segments back from a copy, or restore the log from its backup. To create \
                 a new log, use an empty directory."
            }
            Self::Stored(_) => {
                "Restore this segment from a copy. If there is none, start once with \
                 --truncate-damaged-tail: the records from this byte on are lost, and acknowledged \
                 ones among them must be reconciled manually."
            }
        }
    }
}

/// A log ready to be used.
pub(crate) struct Recovered<F> {
    pub(crate) segments: Vec<Segment<F>>,
    pub(crate) active: Arc<Opened<F>>,
    pub(crate) length: u64,
    pub(crate) tail: Tail,
    pub(crate) report: Recovery,
}

/// Recovers the log in `disk`. Changes nothing unless the whole log is in order.
pub(crate) fn recover<D: Disk>(
    disk: &D,
    options: &Options,
) -> Result<Recovered<D::File>, OpenError> {
    let mark = durable_mark::read(disk)?;
    let mut found = find_segments(disk)?;
    let unfinished = take_unfinished(&mut found)?;
    let (closed, last) = split_last(&found)?;
    check_headers(&found)?;
    let mut frames = 0;
    for (segment, next) in closed.iter().zip(&found[1..]) {
        if options.verify == Verify::Everything || !goes_on(disk, (segment, next))? {
            frames += check_closed(disk, (segment, next), &mut |_, _| Ok(()))?.frames;
        }
    }
    let mut end = scan_last(last)?;
    frames += end.frames;
    let known = Known { unfinished: unfinished.as_ref(), mark };
    let cut = judge_end(last, &end, known, options.tail_policy)?;

    // From here on the log is known to be in order, and is changed.
    if mark.is_some_and(|mark| mark.is_ahead(&end.scanned.tail)) {
        // An operator gives the end up, and the mark with it.
        disk.remove(MARK)?;
    }
    if let Some(unfinished) = &unfinished {
        disk.remove(&unfinished.name)?;
    }
    let dropped = cut.map(|reason| note_cut(last, &end.scanned, reason));
    // Set even when nothing is to be cut off: an earlier recovery may have cut, and its sync
    // failed, so that what it cut is out of sight but stored, and would stand behind the next
    // frame after a crash.
    last.file().truncate(end.scanned.offset)?;
    // The header is one sector: written over itself, it cannot be torn.
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

/// Before a log is made: removes a first segment whose making was cut short.
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

/// One frame, and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct LocatedFrame<'a> {
    /// File name of the segment.
    pub segment: &'a str,
    /// Where in it the frame starts.
    pub offset: u64,
    /// The frame, checked in full, the chain included.
    pub frame: &'a Frame<'a>,
}

/// What was read of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogWalk {
    /// Number of segments there are.
    pub segments: usize,
    /// Frames visited.
    pub frames: u64,
    /// Bytes of frames visited.
    pub bytes: u64,
    /// The log's end behind the last frame visited.
    pub tail: Tail,
    /// What the next start of the switch would cut off the end, as a write that a crash cut
    /// short; it was left where it is.
    pub torn: Option<TruncatedTail>,
}

/// Reads a log from its first frame to its end and changes nothing, whatever state it is in. Each
/// frame is checked in full, the chain included, before it is visited; `Err(Stop)` ends the walk.
///
/// # Errors
/// [`OpenError::NoLog`], if nothing says that there was one; [`OpenError::Damaged`] with the place,
/// once the frames before it were visited; [`OpenError::Disk`].
pub fn walk<D: Disk>(
    disk: &D,
    visit: &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
) -> Result<LogWalk, OpenError> {
    walk_with(disk, LogOwner::None, visit)
}

/// The same beside somebody who may be writing: up to what was whole when the walk came there, and
/// not before what was whole when it began. A frame that is being written is no damage.
///
/// # Errors
/// As [`walk`]. Whether something damaged is only being written is looked at for up to half a
/// second.
pub fn walk_beside<D: Disk>(
    disk: &D,
    visit: &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
) -> Result<LogWalk, OpenError> {
    walk_with(disk, LogOwner::Writer, visit)
}

/// Who else may be at the log.
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
    // Read first: beside a switch the log may grow meanwhile, and the mark with it.
    let mark = durable_mark::read(disk)?;
    let mut found = match neighbour {
        LogOwner::None => find_segments(disk)?,
        LogOwner::Writer => find_beside(disk)?,
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
        let end = End { scanned, frames, index: Index::default(), unproven: scanned.offset };
        let known = Known { unfinished: unfinished.as_ref(), mark };
        let cut = judge_end(last, &end, known, TailPolicy::Refuse)?;
        walked.torn = cut.map(|reason| note_cut(last, &scanned, reason));
    }
    Ok(walked)
}

/// What a scan of the last segment really ended with, where somebody may be writing: what was no
/// frame may be whole by now, and nothing may be there any more. Damage stays as it is.
fn stable_end<F: DiskFile>(file: &F, scanned: &Scanned) -> Result<Cause, DiskError> {
    let Cause::Unsound(FrameFault::Frame(_)) = scanned.cause else { return Ok(scanned.cause) };
    let start = (scanned.offset, scanned.tail);
    for _ in 0..LOOKS {
        let part = Part { file, limit: file.length()? };
        let again = scan::scan(part, start, &mut |_, _| Err(StopReading))?;
        match again.cause {
            Cause::Visitor | Cause::Limit => return Ok(again.cause),
            _ if scan::is_room(part, scanned.offset)? => return Ok(Cause::Limit),
            _ => thread::sleep(LOOK_AGAIN),
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

/// A segment as found.
struct Found<F> {
    first: LogIndex,
    name: String,
    /// Kept open for the last two only: a log may have more segments than a process files.
    file: Option<F>,
    length: u64,
    header: Result<Tail, &'static str>,
}

impl<F: DiskFile> Found<F> {
    /// Of one of the last two segments.
    fn file(&self) -> &F {
        self.file.as_ref().expect("the last two segments found are open")
    }

    /// Of one of the last two segments.
    fn part(&self) -> Part<'_, F> {
        Part { file: self.file(), limit: self.length }
    }

    fn damage(&self, offset: u64, log_index: LogIndex, reason: DamageReason) -> OpenError {
        let segment = self.name.clone();
        OpenError::Damaged(Box::new(Damage { segment, offset, log_index, reason }))
    }

    /// The log's end before this segment. Only called once the headers are checked.
    fn base(&self) -> Tail {
        self.header.expect("the headers of all segments have been checked")
    }
}

/// The end of the last segment.
struct End {
    scanned: Scanned,
    frames: u64,
    index: Index,
    /// Offset from which on no frame vouches for what stands there.
    unproven: u64,
}

fn find_segments<D: Disk>(disk: &D) -> Result<Vec<Found<D::File>>, DiskError> {
    let mut found = Vec::new();
    for (first, name) in segment::list(disk)? {
        let file = disk.open(&name)?;
        let length = file.length()?;
        let mut bytes = [0; SEGMENT_HEADER_BYTES as usize];
        let read = file.read_at(0, &mut bytes)?;
        let header = segment::decode_header(&bytes[..read]);
        found.push(Found { first, name, file: Some(file), length, header });
        if let [.., closed, _, _] = &mut found[..] {
            closed.file = None;
        }
    }
    Ok(found)
}

/// The same where a segment that could not be begun for want of room may go meanwhile.
fn find_beside<D: Disk>(disk: &D) -> Result<Vec<Found<D::File>>, DiskError> {
    for _ in 1..LOOKS {
        match find_segments(disk) {
            Err(DiskError::NotFound(_)) => thread::sleep(LOOK_AGAIN),
            found => return found,
        }
    }
    find_segments(disk)
}

/// Takes the last segment out if it is one that was being started: no frame can be in it.
fn take_unfinished<F: DiskFile>(found: &mut Vec<Found<F>>) -> Result<Option<Found<F>>, DiskError> {
    let unfinished = match found.last() {
        Some(last) if last.header.is_err() && last.length <= SEGMENT_HEADER_BYTES => {
            last.length < SEGMENT_HEADER_BYTES || reads_as_zeros(last)?
        }
        _ => false,
    };
    Ok(if unfinished { found.pop() } else { None })
}

fn reads_as_zeros<F: DiskFile>(segment: &Found<F>) -> Result<bool, DiskError> {
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    segment.file().read_at(0, &mut header)?;
    Ok(header.iter().all(|&byte| byte == 0))
}

fn split_last<F>(found: &[Found<F>]) -> Result<(&[Found<F>], &Found<F>), OpenError> {
    let (last, closed) = found.split_last().ok_or(OpenError::NoLog)?;
    Ok((closed, last))
}

/// Checks what the headers alone can tell.
fn check_headers<F: DiskFile>(found: &[Found<F>]) -> Result<(), OpenError> {
    let mut identity = None;
    let mut before = LogIndex(0);
    for segment in found {
        let damage = |reason| segment.damage(0, segment.first, reason);
        let base = segment.header.map_err(|what| damage(DamageReason::SegmentHeader(what)))?;
        if base.next() != segment.first {
            let what = "the header is not the one of a file of this name";
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

/// Whether a segment ends where the next one begins, as far as the end alone tells.
fn goes_on<D: Disk>(
    disk: &D,
    (segment, next): (&Found<D::File>, &Found<D::File>),
) -> Result<bool, DiskError> {
    let (file, base) = (disk.open(&segment.name)?, next.base());
    match file.known_end() {
        Some(end) => Ok(same_end(&end, &base)),
        None => segment_boundary::ends_at(Part { file: &file, limit: segment.length }, &base),
    }
}

/// A segment that has one behind it, read.
struct Closed {
    frames: u64,
    scanned: Scanned,
}

/// Checks a segment that has one behind it, unless the visitor has enough.
fn check_closed<D: Disk>(
    disk: &D,
    (segment, next): (&Found<D::File>, &Found<D::File>),
    visit: &mut dyn FnMut(u64, &Frame<'_>) -> Result<(), StopReading>,
) -> Result<Closed, OpenError> {
    let mut frames = 0;
    let start = (SEGMENT_HEADER_BYTES, segment.base());
    let file = disk.open(&segment.name)?;
    file.check_length()?;
    let part = Part { file: &file, limit: segment.length };
    let scanned = scan::scan(part, start, &mut |offset, frame| {
        frames += 1;
        visit(offset, frame)
    })?;
    let base = next.base();
    let (tail, offset) = (scanned.tail, scanned.offset);
    let reason = match scanned.cause {
        Cause::Visitor => return Ok(Closed { frames, scanned }),
        Cause::Limit if same_end(&tail, &base) => return Ok(Closed { frames, scanned }),
        Cause::Limit if tail.end < base.end => DamageReason::Missing { until: base.end },
        Cause::Limit => return Err(next.damage(0, next.first, DamageReason::Unconnected)),
        Cause::Unsound(unsound) => DamageReason::durable(unsound, base.end),
    };
    Err(segment.damage(offset, tail.next(), reason))
}

fn scan_last<F: DiskFile>(last: &Found<F>) -> Result<End, DiskError> {
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
    Ok(End { scanned, frames, index, unproven })
}

/// What is known of the log's end from outside of its last segment.
struct Known<'a, F> {
    /// A segment behind it that was being started.
    unfinished: Option<&'a Found<F>>,
    mark: Option<DurableMark>,
}

impl DurableMark {
    /// Whether a log that ends here lacks what was durable.
    fn is_ahead(&self, tail: &Tail) -> bool {
        self.identity == tail.identity && tail.end < self.log_index
    }

    /// Where the log itself is gone.
    fn damage_without_log(self) -> OpenError {
        let (segment, log_index) = (segment::name_of(LogIndex(1)), LogIndex(1));
        let reason = DamageReason::Gone { until: self.log_index };
        OpenError::Damaged(Box::new(Damage { segment, offset: 0, log_index, reason }))
    }
}

/// Decides about what stands behind the last sound frame: `Ok(Some(_))` if it is to be cut off.
fn judge_end<F: DiskFile>(
    last: &Found<F>,
    end: &End,
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
        // What was durable began behind the frame before it.
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
    // The frame before which the next segment was started was synced.
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

/// With nothing unsound at the end: whether the log goes as far as the segment being started says.
fn missing_before<F: DiskFile>(
    last: &Found<F>,
    end: &End,
    unfinished: Option<&Found<F>>,
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

fn note_cut<F>(last: &Found<F>, scanned: &Scanned, reason: FrameFault) -> TruncatedTail {
    let bytes = last.length - scanned.offset;
    TruncatedTail { segment: last.name.clone(), offset: scanned.offset, bytes, reason }
}

/// Writes the bytes from `start` to `end` over themselves; gives their number.
fn write_again<F: DiskFile>(file: &F, start: u64, end: u64) -> Result<u64, DiskError> {
    let mut buffer = vec![0; REWRITE_BYTES.min((end - start) as usize)];
    let mut at = start;
    while at < end {
        let length = buffer.len().min((end - at) as usize);
        let read = file.read_at(at, &mut buffer[..length])?;
        if read != length {
            let what = "read again what was just read".to_owned();
            return Err(DiskError::Failed { what, error: "the file has become shorter".into() });
        }
        file.write_at(at, &buffer[..length])?;
        at += length as u64;
    }
    Ok(end - start)
}

fn assemble<F: DiskFile>(found: Vec<Found<F>>, end: End, report: Recovery) -> Recovered<F> {
    let mut segments: Vec<Segment<F>> = Vec::with_capacity(found.len());
    let mut active = None;
    for segment in found {
        segments.push(Segment { first: segment.first, opened: None });
        active = Some((segment.first, segment.file));
    }
    let (first, file) = active.expect("a log has at least one segment");
    let file = file.expect("the last two segments found are open");
    let active = Arc::new(Opened::new(first, file, end.index));
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
        let (file, reason) = ("00.pack".to_owned(), "it is cut".to_owned());
        let damaged = DiskError::Damaged { file, offset: Some(7), reason };
        let said = OpenError::Disk(damaged).to_string();
        assert_eq!(said, format!("00.pack at byte 7: it is cut{ADVICE_ON_FILE}"));
        assert!(advice_on(CATALOGUE).contains("delete this file"));
        assert_eq!(OpenError::Disk(DiskError::Full).to_string(), "the disk is full");
    }
}
