//! State shared by the writer of a [`crate::FileLog`] and its readers: the list of segments, a
//! sparse index of each segment in use, and the durable end of the log.
//!
//! # Costs and bounds
//! The index has about one entry per [`INDEX_STEP_BYTES`] of a segment, 16 bytes each. At most
//! [`OPEN_SEGMENTS_MAX`] closed segments are open. A segment that was not written since the log was
//! opened has an index only if it is compressed. Without an index, a record is found by bisection
//! (about twelve reads in 256 MiB), and the frames found on the way are added to the index. The
//! last frame read is cached. A read of a later record starts from one of the last frames read,
//! because a redelivery reads neighbouring records. The writer takes a lock once per index step and
//! once per segment, not per frame.

use std::collections::VecDeque;
use std::sync::Arc;

use ledger::LogIndex;
use ports::{Disk, DiskError, DiskFile, LogError, OwnedRecord, RecordReader, Visitor, byte_of};
use record::frame::{FRAME_HEADER_BYTES, Frame, FrameError, LogIdentity, OwnedFrame, Tail};

use crate::file_log::same_end;
use crate::scan::{
    self, Cause, FrameFault, Part, Scanned, Window, frame_at, header_at, header_behind,
};
use crate::segment::{self, SEGMENT_HEADER_BYTES};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, PoisonError, RwLock};

/// Approximate number of bytes per entry of a segment's index.
const INDEX_STEP_BYTES: u64 = 64 << 10;
/// Maximum number of open closed segments.
const OPEN_SEGMENTS_MAX: usize = 32;
/// Number of frames whose ends are cached: a redelivery reads for several recipients in turn.
const ENDS_MAX: usize = 16;

pub(crate) struct Shared<D: Disk> {
    pub(crate) disk: D,
    pub(crate) identity: LogIdentity,
    /// Log index of the last durable record. Readers see nothing after it.
    durable: AtomicU64,
    /// Bytes of frames that became durable since the log was opened.
    durable_bytes: AtomicU64,
    segments: RwLock<Vec<Segment<D::File>>>,
    last_read: Mutex<LastRead>,
    /// Set to close the last segment with the next append.
    must_rotate: AtomicBool,
}

/// The most recent reads.
#[derive(Default)]
struct LastRead {
    frame: Option<Arc<OwnedFrame>>,
    /// Ends of frames, the newest last.
    ends: VecDeque<End>,
}

/// The end of a frame.
#[derive(Clone, Copy)]
struct End {
    /// Number of its [`SegmentFile`].
    file: u64,
    /// The frame's last record.
    last: LogIndex,
    offset: u64,
}

impl LastRead {
    fn frame_with(&self, log_index: LogIndex) -> Option<Arc<OwnedFrame>> {
        self.frame.clone().filter(|frame| {
            let view = frame.view();
            (view.header().first..=view.header().last()).contains(&log_index)
        })
    }

    /// Offset from which to look for a record in an open segment.
    fn before(&self, file: u64, log_index: LogIndex) -> Option<u64> {
        let ends = self.ends.iter().filter(|end| end.file == file && end.last < log_index);
        ends.map(|end| end.offset).max()
    }

    fn note(&mut self, frame: Arc<OwnedFrame>, end: End) {
        if self.ends.len() == ENDS_MAX {
            self.ends.pop_front();
        }
        self.ends.push_back(end);
        self.frame = Some(frame);
    }
}

/// A segment of the log. The last one in the list is being written and always open.
#[derive(Debug)]
pub(crate) struct Segment<F> {
    pub(crate) first: LogIndex,
    pub(crate) opened: Option<Arc<SegmentFile<F>>>,
}

/// An open segment.
#[derive(Debug)]
pub(crate) struct SegmentFile<F> {
    pub(crate) first: LogIndex,
    pub(crate) file: F,
    /// Its number in this process. After an erasure the segment is another file, with other
    /// offsets.
    number: u64,
    index: Mutex<Index>,
    /// Length of a segment whose index may have gaps; `None` when it has an entry per step.
    sparse: Option<u64>,
}

/// Some frames of a segment in order, always including the first one.
#[derive(Debug, Default)]
pub(crate) struct Index(Vec<(LogIndex, u64)>);

impl Index {
    /// Adds the frame if it is far enough from the last entry.
    pub(crate) fn note(&mut self, first: LogIndex, offset: u64) {
        let due = self.0.last().is_none_or(|&(_, last)| last + INDEX_STEP_BYTES <= offset);
        if due {
            self.0.push((first, offset));
        }
    }

    /// Adds a frame between others, unless one is near.
    fn learn(&mut self, first: LogIndex, offset: u64) {
        let found = self.0.binary_search_by_key(&offset, |&(_, known)| known);
        let at = found.unwrap_or_else(|between| between);
        let near = |entry: Option<&(LogIndex, u64)>| {
            entry.is_some_and(|&(_, known)| known.abs_diff(offset) < INDEX_STEP_BYTES)
        };
        if !near(self.0.get(at)) && !near(at.checked_sub(1).and_then(|at| self.0.get(at))) {
            self.0.insert(at, (first, offset));
        }
    }

    /// Offset of a frame at or before the one with the record `log_index`, and of one after it.
    fn around(&self, log_index: LogIndex) -> (u64, Option<u64>) {
        let after = self.0.partition_point(|&(first, _)| first <= log_index);
        let before = after.checked_sub(1).map_or(SEGMENT_HEADER_BYTES, |at| self.0[at].1);
        (before, self.0.get(after).map(|&(_, offset)| offset))
    }
}

impl<F: DiskFile> SegmentFile<F> {
    pub(crate) fn new(first: LogIndex, file: F, index: Index) -> Self {
        Self { first, file, number: next_number(), index: Mutex::new(index), sparse: None }
    }

    /// A closed segment. Only its stored index is known.
    pub(crate) fn closed(first: LogIndex, file: F) -> Result<Self, DiskError> {
        let known = file.frame_starts()?;
        let sparse = if known.is_empty() { Some(file.length()?) } else { None };
        let mut index = Index::default();
        known.iter().for_each(|&(first, offset)| index.note(first, offset));
        Ok(Self { first, file, number: next_number(), index: Mutex::new(index), sparse })
    }

    pub(crate) fn note(&self, first: LogIndex, offset: u64) {
        self.index.lock().unwrap_or_else(PoisonError::into_inner).note(first, offset);
    }

    /// Offset of a frame not far before the one with the record `log_index`.
    pub(crate) fn before(&self, log_index: LogIndex) -> Result<u64, DiskError> {
        let index = || self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut low, high) = index().around(log_index);
        let Some(length) = self.sparse else { return Ok(low) };
        let mut high = high.unwrap_or(length);
        let is_near = |low: u64, high: u64| high <= low + 2 * INDEX_STEP_BYTES;
        if is_near(low, high) {
            return Ok(low);
        }
        let mut window = Window::new(INDEX_STEP_BYTES as usize);
        let whole = Part { file: &self.file, limit: length };
        let Ok(first) = header_at(&mut window, whole, SEGMENT_HEADER_BYTES)? else {
            return Ok(low);
        };
        while !is_near(low, high) {
            let middle = low + (high - low) / 2;
            let part = Part { file: &self.file, limit: high };
            match header_behind(&mut window, part, middle, first.identity)? {
                Some((offset, header)) => {
                    index().learn(header.first, offset);
                    // No frame begins between the middle and this frame.
                    if log_index < header.first {
                        high = middle;
                        continue;
                    }
                    low = offset;
                    if log_index <= header.last() {
                        break;
                    }
                    low += u64::from(header.length);
                }
                None => high = middle,
            }
        }
        Ok(low)
    }
}

/// Numbers open segments.
fn next_number() -> u64 {
    static OPENED: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    OPENED.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// A walk over the frames of a log.
pub(crate) struct Walk {
    /// The first record.
    pub(crate) from: LogIndex,
    /// End of the last segment, if that is not the end of its file.
    pub(crate) limit: Option<u64>,
    /// The segment and the offset in it up to which opening the log has checked the chain.
    pub(crate) hashed: (LogIndex, u64),
    /// Whether the log ends where only zeros follow.
    pub(crate) room: bool,
}

impl Walk {
    pub(crate) fn from(from: LogIndex) -> Self {
        Self { from, limit: None, hashed: (LogIndex(0), 0), room: false }
    }
}

impl<D: Disk> Shared<D> {
    pub(crate) fn new(disk: D, segments: Vec<Segment<D::File>>, tail: &Tail) -> Self {
        assert!(segments.last().is_some_and(|last| last.opened.is_some()));
        Self {
            disk,
            identity: tail.identity,
            durable: AtomicU64::new(tail.durable.0),
            durable_bytes: AtomicU64::new(0),
            segments: RwLock::new(segments),
            last_read: Mutex::default(),
            must_rotate: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_durable(&self, durable: LogIndex, bytes: u64) {
        self.durable_bytes.store(bytes, Ordering::Relaxed);
        self.durable.store(durable.0, Ordering::Release);
    }

    pub(crate) fn request_rotation(&self) {
        self.must_rotate.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_rotation_requested(&self) -> bool {
        self.must_rotate.load(Ordering::Relaxed)
    }

    pub(crate) fn durable_end(&self) -> LogIndex {
        LogIndex(self.durable.load(Ordering::Acquire))
    }

    pub(crate) fn durable_bytes(&self) -> u64 {
        self.durable_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn add_segment(&self, segment: Segment<D::File>) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.push(segment);
        self.must_rotate.store(false, Ordering::Relaxed);
        close_some(&mut segments);
    }

    /// Closes a segment that is not the last one, and forgets the last reads. The next reader
    /// reopens it.
    pub(crate) fn close(&self, first: LogIndex) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, closed)) = segments.split_last_mut()
            && let Ok(at) = closed.binary_search_by_key(&first, |segment| segment.first)
        {
            closed[at].opened = None;
        }
        drop(segments);
        *self.last_read.lock().unwrap_or_else(PoisonError::into_inner) = LastRead::default();
    }

    /// First log indexes of the segments, starting with the one that holds `from`.
    fn segments_from(&self, from: LogIndex) -> Vec<LogIndex> {
        let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
        let after = segments.partition_point(|segment| segment.first <= from);
        segments[after.saturating_sub(1)..].iter().map(|segment| segment.first).collect()
    }

    /// The segment with the record `log_index`, opened if necessary.
    fn open_at(&self, log_index: LogIndex) -> Result<Arc<SegmentFile<D::File>>, LogError> {
        let first = {
            let segments = self.segments.read().unwrap_or_else(PoisonError::into_inner);
            let after = segments.partition_point(|segment| segment.first <= log_index);
            let segment = &segments[after.saturating_sub(1)];
            if let Some(opened) = &segment.opened {
                return Ok(opened.clone());
            }
            segment.first
        };
        let file = self.disk.open(&segment::name_of(first)).map_err(storage)?;
        let opened = Arc::new(SegmentFile::closed(first, file).map_err(storage)?);
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        close_some(&mut segments);
        let at = segments.partition_point(|segment| segment.first < first);
        segments[at].opened = Some(opened.clone());
        Ok(opened)
    }

    /// Start of a walk that must visit the frame with `from`: the end of a frame not far before it,
    /// and the log's tail there according to its header, so that every visited frame is checked
    /// against the chain. `None` means the beginning of the segment.
    fn start_near(&self, from: LogIndex) -> Result<Option<(u64, Tail)>, LogError> {
        let opened = self.open_at(from)?;
        let part = Part { file: &opened.file, limit: u64::MAX };
        let mut window = Window::new(FRAME_HEADER_BYTES);
        let mut sought = from;
        // A frame near it may be the frame itself; then use one near the preceding record.
        for _ in 0..2 {
            let offset = opened.before(sought).map_err(storage)?;
            // A walk from the beginning reports the damage.
            let Ok(header) = header_at(&mut window, part, offset).map_err(storage)? else {
                return Ok(None);
            };
            if header.identity != self.identity {
                return Ok(None);
            }
            if header.last() < from {
                let base = Tail {
                    identity: header.identity,
                    end: header.last(),
                    durable: header.durable,
                    stamp: header.batch.stamp,
                    chain: header.chain,
                };
                return Ok(Some((offset + u64::from(header.length), base)));
            }
            if header.first <= opened.first {
                return Ok(None);
            }
            sought = LogIndex(header.first.0 - 1);
        }
        Ok(None)
    }

    /// Visits the frames from the one that holds `walk.from`, each checked in full. Returns the end
    /// of the log, or `None` if the visitor stopped.
    pub(crate) fn walk(
        &self,
        walk: &Walk,
        visit: &mut Visitor<'_>,
    ) -> Result<Option<Tail>, LogError> {
        let firsts = self.segments_from(walk.from);
        let mut near = self.start_near(walk.from)?;
        let mut before: Option<Tail> = None;
        for (at, &first) in firsts.iter().enumerate() {
            let last = at + 1 == firsts.len();
            let (file, base) = open_segment(&self.disk, first, before)?;
            let limit = walk.limit.filter(|_| last);
            let limit = limit.map_or_else(|| file.length(), Ok).map_err(storage)?;
            let part = Part { file: &file, limit };
            let hashed = if last && first == walk.hashed.0 { walk.hashed.1 } else { 0 };
            let near = near.take();
            let mut visit_from = |_: u64, frame: &Frame<'_>| {
                if frame.header().last() < walk.from { Ok(()) } else { visit(frame) }
            };
            let start = near.unwrap_or((SEGMENT_HEADER_BYTES, base));
            let scanned = scan::scan_again(part, start, hashed, &mut visit_from);
            let mut scanned = scanned.map_err(storage)?;
            // An erasure may have replaced the file since the offset was found.
            let is_moved = near.is_some() && scanned.offset == start.0;
            if is_moved && matches!(scanned.cause, Cause::Unsound(_)) {
                let start = (SEGMENT_HEADER_BYTES, base);
                scanned =
                    scan::scan_again(part, start, hashed, &mut visit_from).map_err(storage)?;
            }
            let may_be_room = walk.room && last;
            match scanned.cause {
                Cause::Visitor => return Ok(None),
                Cause::Limit => {}
                Cause::Unsound(FrameFault::Frame(_))
                    if may_be_room && scan::is_room(part, scanned.offset).map_err(storage)? => {}
                Cause::Unsound(error) => return Err(damaged_behind(first, &scanned, &error)),
            }
            before = Some(scanned.tail);
        }
        Ok(before)
    }

    fn frame_with(&self, log_index: LogIndex) -> Result<Arc<OwnedFrame>, LogError> {
        let last_read = || self.last_read.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held) = last_read().frame_with(log_index) {
            return Ok(held);
        }
        let opened = self.open_at(log_index)?;
        let near = last_read().before(opened.number, log_index).unwrap_or(0);
        let start = opened.before(log_index).map_err(storage)?.max(near);
        let mut window = Window::new(INDEX_STEP_BYTES as usize);
        let (frame, end) = find_frame(&opened, &mut window, (start, log_index))?;
        last_read().note(frame.clone(), end);
        Ok(frame)
    }
}

impl<D: Disk> RecordReader for Shared<D> {
    fn read(&self, log_index: LogIndex) -> Result<Option<OwnedRecord>, LogError> {
        if log_index.0 == 0 || self.durable.load(Ordering::Acquire) < log_index.0 {
            return Ok(None);
        }
        let frame = self.frame_with(log_index)?;
        let stamp = frame.view().header().batch.stamp;
        Ok(frame.view().record(log_index).map(|record| OwnedRecord::copy(&record, stamp)))
    }
}

/// Opens a segment for reading from its beginning, and returns the log's tail before it. `before`
/// is the tail after the preceding segment, if that was read.
fn open_segment<D: Disk>(
    disk: &D,
    first: LogIndex,
    before: Option<Tail>,
) -> Result<(D::File, Tail), LogError> {
    let file = disk.open(&segment::name_of(first)).map_err(storage)?;
    let mut header = [0; SEGMENT_HEADER_BYTES as usize];
    let read = file.read_at(0, &mut header).map_err(storage)?;
    let base = segment::decode_header(&header[..read]).map_err(|e| damaged(first, 0, &e))?;
    let continues = before.is_none_or(|before| same_end(&before, &base));
    if !continues || base.next() != first {
        return Err(damaged(first, 0, &"the segment does not continue the previous one"));
    }
    Ok((file, base))
}

pub(crate) fn storage(error: DiskError) -> LogError {
    match error {
        DiskError::Damaged { file, offset, reason } => {
            LogError::Damaged { place: byte_of(&file, offset), reason }
        }
        other => LogError::Storage(other.to_string()),
    }
}

pub(crate) fn damaged(first: LogIndex, offset: u64, reason: &dyn ToString) -> LogError {
    let place = format!("{} at byte {offset}", segment::name_of(first));
    LogError::Damaged { place, reason: reason.to_string() }
}

/// The same error after the frames that a scan found valid.
fn damaged_behind(first: LogIndex, scanned: &Scanned, reason: &dyn ToString) -> LogError {
    let (name, next) = (segment::name_of(first), scanned.tail.next());
    let place = format!("{name} at byte {}, where record {} should start", scanned.offset, next.0);
    LogError::Damaged { place, reason: reason.to_string() }
}

/// Closes closed segments until one more can be opened; the oldest first, because old records are
/// read least.
fn close_some<F>(segments: &mut [Segment<F>]) {
    let Some((_, closed)) = segments.split_last_mut() else { return };
    let open = closed.iter().filter(|segment| segment.opened.is_some()).count();
    let excess = (open + 1).saturating_sub(OPEN_SEGMENTS_MAX);
    for segment in closed.iter_mut().filter(|segment| segment.opened.is_some()).take(excess) {
        segment.opened = None;
    }
}

/// The frame with the durable record `log_index`, checked except for the chain. The search starts
/// at the frame at `offset`.
fn find_frame<F: DiskFile>(
    opened: &SegmentFile<F>,
    window: &mut Window,
    (mut offset, log_index): (u64, LogIndex),
) -> Result<(Arc<OwnedFrame>, End), LogError> {
    let first = opened.first;
    // The writer may be writing after the durable end; no header there is read.
    let part = Part { file: &opened.file, limit: u64::MAX };
    loop {
        let damage = |error: FrameError| damaged(first, offset, &error);
        let header = header_at(window, part, offset).map_err(storage)?.map_err(damage)?;
        if log_index < header.first {
            return Err(damaged(first, offset, &"records are missing"));
        }
        let end = offset + u64::from(header.length);
        if log_index <= header.last() {
            let found = frame_at(window, part, offset).map_err(storage)?.map_err(damage)?;
            let frame = found.frame;
            let frame = Arc::new(OwnedFrame::copy(&frame));
            return Ok((frame, End { file: opened.number, last: header.last(), offset: end }));
        }
        offset = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of a thousand bytes each, over a megabyte.
    const FRAMES: u64 = 1_048;

    fn offsets(index: &Index) -> Vec<u64> {
        index.0.iter().map(|&(_, offset)| offset).collect()
    }

    #[test]
    fn a_segment_that_is_written_has_an_entry_for_each_step() {
        let mut index = Index::default();
        (0..FRAMES).for_each(|frame| index.note(LogIndex(1 + frame), 1_000 * frame));
        let expected: Vec<u64> = (0..).map(|step| 66_000 * step).take(16).collect();
        assert_eq!(offsets(&index), expected);
        index.note(LogIndex(2_000), 990_000 + (64 << 10));
        assert_eq!(index.0.last(), Some(&(LogIndex(2_000), 990_000 + (64 << 10))));
    }

    #[test]
    fn what_is_learned_between_is_in_order_and_no_nearer_than_a_step() {
        let mut index = Index::default();
        let mut step = 0;
        for turn in 0..FRAMES {
            step = (step + 619) % FRAMES;
            index.learn(LogIndex(1 + step), 1_000 * step);
            let offsets = offsets(&index);
            let apart = offsets.windows(2).all(|two| two[0] + INDEX_STEP_BYTES <= two[1]);
            assert!(apart, "turn {turn}: {offsets:?}");
            let near = offsets.iter().any(|known| known.abs_diff(1_000 * step) < INDEX_STEP_BYTES);
            assert!(near, "turn {turn}: {step} is not found");
        }
        let last = *offsets(&index).last().expect("there is one");
        index.learn(LogIndex(2_000), last + INDEX_STEP_BYTES);
        assert_eq!(offsets(&index).last(), Some(&(last + INDEX_STEP_BYTES)));
        index.learn(LogIndex(2_000), last + INDEX_STEP_BYTES);
        assert_eq!(offsets(&index).last_chunk(), Some(&[last, last + INDEX_STEP_BYTES]));
    }
}
