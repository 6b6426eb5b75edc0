//! Walking over the frames of one segment.

use std::cell::Cell;

use ledger::LogIndex;
use memchr::memmem;
use ports::{DiskError, DiskFile, StopReading};
use record::frame::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FRAME_START_BYTES, Frame, FrameError, FrameHeader,
    LogIdentity, SequenceGap, Tail, TrailingZeros,
};

use crate::segment::SECTOR_BYTES;

/// How much a scan reads at a time at most, in bytes: what a core keeps near itself, so that a
/// frame is not fetched a second time to be checked.
const SCAN_BYTES: usize = 256 << 10;

/// How much the first reading is, and one that does not go on where the last one ended, in bytes:
/// whoever looks for one frame rarely needs more.
const FIRST_BYTES: usize = 8 << 10;

/// A frame whose last bytes, at least so many, are zeros was cut short, not damaged.
const ENDS_EARLY_BYTES: u16 = 8;

/// A part of a file held in memory; it moves along with those who read. Never holds more than one
/// frame or one reading, whichever is more.
#[derive(Debug)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were read; the rest is only room, which is cleared once.
    filled: usize,
    start: u64,
    /// How much is read at a time at most, in bytes.
    reading_max: usize,
    /// How much was read last: each reading that goes on is twice as much.
    reading: usize,
}

thread_local! {
    /// What the last window of this thread had for a buffer: the next one need not clear another.
    static ROOM: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Drop for Window {
    fn drop(&mut self) {
        if self.buffer.len() <= SCAN_BYTES {
            ROOM.set(std::mem::take(&mut self.buffer));
        }
    }
}

impl Window {
    pub(crate) fn new(reading_max: usize) -> Self {
        Self { buffer: ROOM.take(), filled: 0, start: 0, reading_max, reading: 0 }
    }

    /// The bytes from `offset` on: at least `length` of them unless the file ends at `limit`.
    pub(crate) fn load<F: DiskFile>(
        &mut self,
        part: Part<'_, F>,
        offset: u64,
        length: usize,
    ) -> Result<&[u8], DiskError> {
        let wanted = (length as u64).min(part.limit.saturating_sub(offset)) as usize;
        let held = self.held(offset);
        if held < wanted {
            self.reading = self.next_reading(offset);
            let room = part.limit.saturating_sub(offset).min(self.reading as u64) as usize;
            let size = wanted.max(room);
            if self.buffer.len() < size {
                // What was read before is not needed any more, and not copied.
                self.buffer = vec![0; size];
            }
            (self.start, self.filled) = (offset, 0);
            self.filled = part.file.read_at(offset, &mut self.buffer[..size])?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.buffer[from.min(self.filled)..self.filled])
    }

    /// How much to read at `offset`, where less is held than is wanted.
    fn next_reading(&self, offset: u64) -> usize {
        let end = self.start + self.filled as u64;
        let goes_on = 0 < self.filled && (self.start..=end).contains(&offset);
        let next = if goes_on { 2 * self.reading } else { FIRST_BYTES };
        next.min(self.reading_max)
    }

    /// How many bytes from `offset` on are in memory.
    fn held(&self, offset: u64) -> usize {
        let end = self.start + self.filled as u64;
        if offset < self.start { 0 } else { end.saturating_sub(offset) as usize }
    }
}

/// A file up to a limit.
#[derive(Debug)]
pub(crate) struct Part<'a, F> {
    pub(crate) file: &'a F,
    /// Bytes from here on are not looked at.
    pub(crate) limit: u64,
}

impl<F> Clone for Part<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Part<'_, F> {}

/// Where and why a scan ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// Offset behind the last sound frame.
    pub(crate) offset: u64,
    /// The log's end there.
    pub(crate) tail: Tail,
    pub(crate) cause: Cause,
}

/// Why a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// At the limit, right behind a frame.
    Limit,
    /// The visitor had enough.
    Visitor,
    /// What follows is not the frame that comes next.
    Unsound(FrameFault),
}

/// Why what stands behind the last sound frame is not the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// It is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// It is a frame that does not belong there.
    #[error(transparent)]
    Order(#[from] SequenceGap),
}

/// Visits the frames from `offset` on, where the log stood at `tail`. Each is checked in full, the
/// chain included, before it is visited.
pub(crate) fn scan<F: DiskFile>(
    part: Part<'_, F>,
    start: (u64, Tail),
    visit: &mut dyn FnMut(u64, &Frame<'_>) -> Result<(), StopReading>,
) -> Result<Scanned, DiskError> {
    scan_again(part, start, 0, visit)
}

/// Does what [`scan`] does, and does not hash the frames before `hashed` once more: the process
/// has checked the chain of the same bytes. They are held against their checksums all the same.
pub(crate) fn scan_again<F: DiskFile>(
    part: Part<'_, F>,
    start: (u64, Tail),
    hashed: u64,
    visit: &mut dyn FnMut(u64, &Frame<'_>) -> Result<(), StopReading>,
) -> Result<Scanned, DiskError> {
    let mut window = Window::new(SCAN_BYTES);
    let (mut offset, mut tail) = start;
    let cause = loop {
        if part.limit <= offset {
            break Cause::Limit;
        }
        let frame = match frame_at(&mut window, part, offset)? {
            Ok(frame) => frame,
            Err(error) => break Cause::Unsound(error.into()),
        };
        let link = match offset < hashed {
            true => frame.header().follows(&tail),
            false => frame.follows(&tail),
        };
        let after = match link {
            Ok(after) => after,
            Err(error) => break Cause::Unsound(error.into()),
        };
        if visit(offset, &frame).is_err() {
            break Cause::Visitor;
        }
        offset += u64::from(frame.header().length);
        tail = after;
    };
    Ok(Scanned { offset, tail, cause })
}

/// The frame at `offset`.
pub(crate) fn frame_at<'a, F: DiskFile>(
    window: &'a mut Window,
    part: Part<'_, F>,
    offset: u64,
) -> Result<Result<Frame<'a>, FrameError>, DiskError> {
    let header = match header_at(window, part, offset)? {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    let bytes = window.load(part, offset, header.length as usize)?;
    Ok(Frame::behind(header, bytes))
}

/// The header of the frame at `offset`; the rest of the frame is not looked at.
pub(crate) fn header_at<F: DiskFile>(
    window: &mut Window,
    part: Part<'_, F>,
    offset: u64,
) -> Result<Result<FrameHeader, FrameError>, DiskError> {
    let bytes = window.load(part, offset, FRAME_HEADER_BYTES)?;
    Ok(FrameHeader::parse(bytes))
}

/// Whether the unsound frame at `offset` can be what a crash leaves of a frame that was never
/// synced: it goes on past the end of the file or into nothing but zeros, or at least one sector of
/// it was not stored and reads as zeros that are not its own. Bytes that are all there but wrong
/// are not: those were stored and damaged.
pub(crate) fn is_torn<F: DiskFile>(part: Part<'_, F>, offset: u64) -> Result<bool, DiskError> {
    let mut window = Window::new(SCAN_BYTES);
    let header = header_at(&mut window, part, offset)?.ok();
    // A sound header gives the length of the frame; of an unsound one, a part must be missing.
    let extent = header.map_or(FRAME_START_BYTES, |header| header.length as usize);
    let sectors = (offset + extent as u64).next_multiple_of(SECTOR_BYTES as u64) - offset;
    let loaded = window.load(part, offset, sectors as usize)?;
    let loaded = &loaded[..loaded.len().min(sectors as usize)];
    let Some((frame, behind)) = loaded.split_at_checked(extent) else { return Ok(true) };
    if lacks_a_sector((frame, behind), offset, header) {
        return Ok(true);
    }
    match header {
        // Behind a header there is a record, which is never made of zeros.
        None => is_room(part, offset + FRAME_HEADER_BYTES as u64),
        Some(FrameHeader { zeros: Some(own), .. }) if ends_early(frame, own) => {
            is_room(part, offset + extent as u64)
        }
        Some(_) => Ok(false),
    }
}

/// Whether a sector of a frame was not stored. One that has anything `behind` the frame's end was:
/// what comes later in a sector is not stored without what comes before ([`ports::Disk`]).
fn lacks_a_sector(
    (frame, behind): (&[u8], &[u8]),
    offset: u64,
    header: Option<FrameHeader>,
) -> bool {
    let is_blank = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let blank = |(at, piece): &(usize, &[u8])| {
        is_blank(piece) && (at + piece.len() < frame.len() || is_blank(behind))
    };
    let blanks: Vec<(usize, &[u8])> = pieces(frame, offset).filter(blank).collect();
    match header.map(|header| header.zeros) {
        // From any byte of a header on there is one that is not zero.
        None => blanks.iter().any(|(at, _)| *at < FRAME_HEADER_BYTES),
        // What it has of zeros is not known.
        Some(None) => !blanks.is_empty(),
        Some(Some(zeros)) => has_foreign_zeros(frame, &blanks, zeros),
    }
}

/// Whether a frame ends in so many more zeros than its own that no damaged byte explains it. One of
/// which more are counted than there is room for them ends in no more.
fn ends_early(frame: &[u8], own: TrailingZeros) -> bool {
    own.ending.saturating_add(ENDS_EARLY_BYTES) <= TrailingZeros::of(frame).ending
}

/// Whether there is nothing from `offset` on but zeros: room for frames that were never written, or
/// of which nothing was stored.
pub(crate) fn is_room<F: DiskFile>(part: Part<'_, F>, offset: u64) -> Result<bool, DiskError> {
    let mut window = Window::new(SCAN_BYTES);
    let mut at = offset;
    while at < part.limit {
        let bytes = window.load(part, at, 1)?;
        if bytes.is_empty() {
            break;
        }
        if bytes.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at += bytes.len() as u64;
    }
    Ok(true)
}

/// Whether any of the pieces of a frame that are blank was not sealed so.
fn has_foreign_zeros(frame: &[u8], blanks: &[(usize, &[u8])], own: TrailingZeros) -> bool {
    let (whole, ending): (Vec<_>, Vec<_>) =
        blanks.iter().partition(|(_, piece)| piece.len() == SECTOR_BYTES);
    ending.iter().any(|(_, piece)| usize::from(own.ending) < piece.len())
        || !whole.is_empty() && own.inside < TrailingZeros::of(&frame[FRAME_HEADER_BYTES..]).inside
}

/// What the bytes at `offset` have in each sector, and from which of them on.
fn pieces(bytes: &[u8], offset: u64) -> impl Iterator<Item = (usize, &[u8])> {
    let first = SECTOR_BYTES - (offset % SECTOR_BYTES as u64) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    let starts = (0..).map(move |sector| first + sector * SECTOR_BYTES);
    std::iter::once((0, head)).chain(starts.zip(rest.chunks(SECTOR_BYTES)))
}

/// The highest position that any frame header behind `offset` vouches for as durable.
///
/// A payload can hold bytes that look like a header, but not with this log's identity, which no
/// participant ever sees.
pub(crate) fn durable_mark_behind<F: DiskFile>(
    part: Part<'_, F>,
    offset: u64,
    identity: LogIdentity,
) -> Result<Option<LogIndex>, DiskError> {
    let mut window = Window::new(SCAN_BYTES);
    let mut mark = None;
    let mut at = offset + 1;
    while let Some((found, header)) = header_behind(&mut window, part, at, identity)? {
        mark = mark.max(Some(header.durable));
        at = found + 1;
    }
    Ok(mark)
}

/// The first header of a frame of this log that begins at `offset` or behind it, and where.
pub(crate) fn header_behind<F: DiskFile>(
    window: &mut Window,
    part: Part<'_, F>,
    offset: u64,
    identity: LogIdentity,
) -> Result<Option<(u64, FrameHeader)>, DiskError> {
    let mut at = offset;
    while at + FRAME_HEADER_BYTES as u64 <= part.limit {
        let bytes = window.load(part, at, FRAME_HEADER_BYTES)?;
        if bytes.len() < FRAME_HEADER_BYTES {
            break;
        }
        let Some(skip) = memmem::find(bytes, &FRAME_MAGIC) else {
            at += (bytes.len() - FRAME_MAGIC.len()) as u64;
            continue;
        };
        at += skip as u64;
        if let Ok(header) = header_at(window, part, at)?
            && header.identity == identity
        {
            return Ok(Some((at, header)));
        }
        at += 1;
    }
    Ok(None)
}
