//! Scans the frames of one segment.

use std::cell::Cell;

use ledger::LogIndex;
use memchr::memmem;
use ports::{CipherError, DiskError, DiskFile, StopReading, open_sealed};
use record::frame::{
    FRAME_HEADER_BYTES, FRAME_MAGIC, FRAME_START_BYTES, Frame, FrameError, FrameHeader,
    LogIdentity, SequenceGap, Tail, TrailingZeros, decrypt, open_payloads,
};

use crate::segment::SECTOR_BYTES;

/// Maximum length of one read, in bytes. It fits into the cache of a core, so that a frame is not
/// loaded twice to be checked.
const SCAN_BYTES: usize = 256 << 10;

/// Length in bytes of the first read, and of each read that does not continue the previous one: a
/// search for one frame rarely needs more.
const FIRST_BYTES: usize = 8 << 10;

/// A frame whose last bytes, at least this many, are zeros was truncated, not damaged.
const ENDS_EARLY_BYTES: u16 = 8;

/// A part of a file in memory, which moves with the reader. Holds at most one frame or one read,
/// whichever is longer.
#[derive(Debug)]
pub(crate) struct Window {
    buffer: Vec<u8>,
    /// Length of the valid bytes; the rest of the buffer is spare and cleared only once.
    filled: usize,
    start: u64,
    /// Maximum length of one read, in bytes.
    reading_max: usize,
    /// Length of the last read. Each sequential read is twice as long.
    reading: usize,
    /// The last encrypted frame, decrypted.
    plain: Vec<u8>,
    /// The last frame with sealed payloads, opened.
    opened: Vec<u8>,
}

thread_local! {
    /// Buffer of the last window of this thread, so that the next one need not clear another.
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
        Self {
            buffer: ROOM.take(),
            filled: 0,
            start: 0,
            reading_max,
            reading: 0,
            plain: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// The bytes from `offset`: at least `length` of them unless the file ends at `limit`.
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
                // Bytes before the offset are no longer needed, and are not copied.
                self.buffer = vec![0; size];
            }
            (self.start, self.filled) = (offset, 0);
            self.filled = part.file.read_at(offset, &mut self.buffer[..size])?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.buffer[from.min(self.filled)..self.filled])
    }

    /// Length of the next read at `offset`.
    fn next_reading(&self, offset: u64) -> usize {
        let end = self.start + self.filled as u64;
        let continues = 0 < self.filled && (self.start..=end).contains(&offset);
        let next = if continues { 2 * self.reading } else { FIRST_BYTES };
        next.min(self.reading_max)
    }

    /// Number of bytes from `offset` that are in memory.
    fn held(&self, offset: u64) -> usize {
        let end = self.start + self.filled as u64;
        if offset < self.start { 0 } else { end.saturating_sub(offset) as usize }
    }
}

/// A file up to a limit.
#[derive(Debug)]
pub(crate) struct Part<'a, F> {
    pub(crate) file: &'a F,
    /// Bytes from this offset on are ignored.
    pub(crate) limit: u64,
}

impl<F> Clone for Part<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Part<'_, F> {}

/// End of a scan and its cause.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanned {
    /// Offset after the last valid frame.
    pub(crate) offset: u64,
    /// The log's end there.
    pub(crate) tail: Tail,
    pub(crate) cause: Cause,
}

/// Why a scan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The limit was reached, directly after a frame.
    Limit,
    /// The visitor stopped.
    Visitor,
    /// The following bytes are not the next frame.
    Unsound(FrameFault),
}

/// Why the bytes after the last valid frame are not the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameFault {
    /// They are not a valid frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// They are a valid frame in the wrong place.
    #[error(transparent)]
    Order(#[from] SequenceGap),
}

/// A frame that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundFrame<'a> {
    /// The frame as the sequencer sealed it, or as an erasure left it.
    pub(crate) frame: Frame<'a>,
    /// Its length in the file.
    pub(crate) stored: u64,
    /// The bytes of the frame outside of its envelope. Its payloads may be sealed.
    pub(crate) decrypted: &'a [u8],
}

/// Visits the frames from `offset`, where the log's tail was `tail`. Each is fully checked,
/// including the chain, before it is visited.
pub(crate) fn scan<F: DiskFile>(
    part: Part<'_, F>,
    start: (u64, Tail),
    visit: &mut dyn FnMut(u64, &Frame<'_>) -> Result<(), StopReading>,
) -> Result<Scanned, DiskError> {
    scan_again(part, start, 0, visit)
}

/// [`scan`] for those who store frames again.
pub(crate) fn scan_stored<F: DiskFile>(
    part: Part<'_, F>,
    start: (u64, Tail),
    visit: &mut dyn FnMut(&FoundFrame<'_>) -> Result<(), StopReading>,
) -> Result<Scanned, DiskError> {
    scan_found(part, start, 0, &mut |_, found| visit(found))
}

/// Like [`scan`], without hashing the frames before `hashed` again: this process has checked the
/// chain of the same bytes. Their checksums are still compared.
pub(crate) fn scan_again<F: DiskFile>(
    part: Part<'_, F>,
    start: (u64, Tail),
    hashed: u64,
    visit: &mut dyn FnMut(u64, &Frame<'_>) -> Result<(), StopReading>,
) -> Result<Scanned, DiskError> {
    scan_found(part, start, hashed, &mut |offset, found| visit(offset, &found.frame))
}

fn scan_found<F: DiskFile>(
    part: Part<'_, F>,
    start: (u64, Tail),
    hashed: u64,
    visit: &mut dyn FnMut(u64, &FoundFrame<'_>) -> Result<(), StopReading>,
) -> Result<Scanned, DiskError> {
    let mut window = Window::new(SCAN_BYTES);
    let (mut offset, mut tail) = start;
    let cause = loop {
        if part.limit <= offset {
            break Cause::Limit;
        }
        let found = match frame_at(&mut window, part, offset)? {
            Ok(found) => found,
            Err(error) => break Cause::Unsound(error.into()),
        };
        let link = match offset < hashed {
            true => found.frame.header().follows(&tail),
            false => found.frame.follows(&tail),
        };
        let after = match link {
            Ok(after) => after,
            Err(error) => break Cause::Unsound(error.into()),
        };
        if visit(offset, &found).is_err() {
            break Cause::Visitor;
        }
        offset += found.stored;
        tail = after;
    };
    Ok(Scanned { offset, tail, cause })
}

/// The log's tail after the last header that continues it. Only headers are read, so that no key is
/// needed. The records are not checked.
pub(crate) fn tail_by_headers<F: DiskFile>(
    part: Part<'_, F>,
    start: (u64, Tail),
) -> Result<Tail, DiskError> {
    let mut window = Window::new(SCAN_BYTES);
    let (mut offset, mut tail) = start;
    while offset < part.limit {
        let Ok(header) = header_at(&mut window, part, offset)? else { break };
        let Ok(after) = header.follows(&tail) else { break };
        offset += u64::from(header.length);
        tail = after;
    }
    Ok(tail)
}

/// The frame at `offset`, decrypted if it is encrypted.
pub(crate) fn frame_at<'a, F: DiskFile>(
    window: &'a mut Window,
    part: Part<'_, F>,
    offset: u64,
) -> Result<Result<FoundFrame<'a>, FrameError>, DiskError> {
    let header = match header_at(window, part, offset)? {
        Ok(header) => header,
        Err(error) => return Ok(Err(error)),
    };
    let stored = u64::from(header.length);
    if !header.is_encrypted && !header.has_sealed {
        let bytes = window.load(part, offset, header.length as usize)?;
        let frame = Frame::with_header(header, bytes);
        return Ok(frame.map(|frame| FoundFrame { frame, stored, decrypted: frame.as_bytes() }));
    }
    let mut room = (std::mem::take(&mut window.plain), std::mem::take(&mut window.opened));
    let bytes = window.load(part, offset, header.length as usize)?;
    let read = read_encrypted(part.file, (&header, bytes), &mut room);
    (window.plain, window.opened) = room;
    match read {
        Ok(Ok(is_sealed)) => {
            let decrypted = &window.plain[..];
            let frame = Frame::parse(if is_sealed { &window.opened } else { decrypted });
            Ok(frame.map(|frame| FoundFrame { frame, stored, decrypted }))
        }
        Ok(Err(error)) => Ok(Err(error)),
        Err(CipherError::Changed) => {
            Ok(Err(FrameError::Malformed("the encrypted content was changed or belongs elsewhere")))
        }
        Err(error) => {
            let file = part.file.shown_name().to_owned();
            Err(DiskError::Encrypted { file, offset, error })
        }
    }
}

/// Decrypts an envelope into the first buffer, and opens sealed payloads into the second one.
/// Returns whether there are any. Something that was changed is not a frame; a missing key is an
/// error of the disk, so that it is never taken for a torn write.
fn read_encrypted<F: DiskFile>(
    file: &F,
    (header, bytes): (&FrameHeader, &[u8]),
    (plain, opened): &mut (Vec<u8>, Vec<u8>),
) -> Result<Result<bool, FrameError>, CipherError> {
    let open = |context: &[u8], sealed: &[u8], out: &mut Vec<u8>| {
        open_sealed(file.cipher(), context, sealed, out)
    };
    if header.is_encrypted {
        if let Err(error) = decrypt(header, bytes, plain, open)? {
            return Ok(Err(error));
        }
    } else {
        let Some(bytes) = bytes.get(..header.length as usize) else {
            return Ok(Err(FrameError::Short));
        };
        plain.clear();
        plain.extend_from_slice(bytes);
    }
    if !FrameHeader::parse(plain).is_ok_and(|inner| inner.has_sealed) {
        return Ok(Ok(false));
    }
    let found =
        open_payloads(plain, opened, |context, sealed, out| match open(context, sealed, out) {
            Ok(()) => Ok(true),
            Err(CipherError::Destroyed(_)) => Ok(false),
            Err(error) => Err(error),
        })?;
    Ok(found.map(|()| true))
}

/// The header of the frame at `offset`, without the rest of the frame.
pub(crate) fn header_at<F: DiskFile>(
    window: &mut Window,
    part: Part<'_, F>,
    offset: u64,
) -> Result<Result<FrameHeader, FrameError>, DiskError> {
    let bytes = window.load(part, offset, FRAME_HEADER_BYTES)?;
    Ok(FrameHeader::parse(bytes))
}

/// Whether the invalid frame at `offset` can be the remains of a frame that was never synced: it
/// continues past the end of the file or into zeros only, or at least one of its sectors was not
/// stored and reads as zeros that the frame does not contain. Bytes that are complete but wrong
/// were stored and damaged later.
pub(crate) fn is_torn<F: DiskFile>(part: Part<'_, F>, offset: u64) -> Result<bool, DiskError> {
    let mut window = Window::new(SCAN_BYTES);
    let header = header_at(&mut window, part, offset)?.ok();
    // A valid header gives the length of the frame. With an invalid one, part of the header must be
    // missing.
    let extent = header.map_or(FRAME_START_BYTES, |header| header.length as usize);
    let sectors = (offset + extent as u64).next_multiple_of(SECTOR_BYTES as u64) - offset;
    let loaded = window.load(part, offset, sectors as usize)?;
    let loaded = &loaded[..loaded.len().min(sectors as usize)];
    let Some((frame, after)) = loaded.split_at_checked(extent) else { return Ok(true) };
    if lacks_a_sector((frame, after), offset, header) {
        return Ok(true);
    }
    match header {
        // A header is followed by a record, which never consists of zeros.
        None => is_room(part, offset + FRAME_HEADER_BYTES as u64),
        Some(FrameHeader { zeros: Some(own), .. }) if ends_early(frame, own) => {
            is_room(part, offset + extent as u64)
        }
        Some(_) => Ok(false),
    }
}

/// Whether a sector of a frame was not stored. A sector with bytes `after` the frame's end was
/// stored: later bytes of a sector are never stored without the earlier ones ([`ports::Disk`]).
fn lacks_a_sector(
    (frame, after): (&[u8], &[u8]),
    offset: u64,
    header: Option<FrameHeader>,
) -> bool {
    let is_blank = |bytes: &[u8]| bytes.iter().all(|&byte| byte == 0);
    let blank = |(at, piece): &(usize, &[u8])| {
        is_blank(piece) && (at + piece.len() < frame.len() || is_blank(after))
    };
    let blanks: Vec<(usize, &[u8])> = pieces(frame, offset).filter(blank).collect();
    match header.map(|header| header.zeros) {
        // From any byte of a header on, some byte is not zero.
        None => blanks.iter().any(|(at, _)| *at < FRAME_HEADER_BYTES),
        // The number of its zeros is unknown.
        Some(None) => !blanks.is_empty(),
        Some(Some(zeros)) => has_foreign_zeros(frame, &blanks, zeros),
    }
}

/// Whether a frame ends in more zeros than it contained, and in too many for a damaged byte. A
/// frame whose recorded zeros exceed its length never does.
fn ends_early(frame: &[u8], own: TrailingZeros) -> bool {
    own.ending.saturating_add(ENDS_EARLY_BYTES) <= TrailingZeros::of(frame).ending
}

/// Whether only zeros follow from `offset`: preallocated space, or frames of which nothing was
/// stored.
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

/// Whether any of the blank pieces of a frame was not blank when the frame was sealed.
fn has_foreign_zeros(frame: &[u8], blanks: &[(usize, &[u8])], own: TrailingZeros) -> bool {
    let (whole, ending): (Vec<_>, Vec<_>) =
        blanks.iter().partition(|(_, piece)| piece.len() == SECTOR_BYTES);
    ending.iter().any(|(_, piece)| usize::from(own.ending) < piece.len())
        || !whole.is_empty() && own.inside < TrailingZeros::of(&frame[FRAME_HEADER_BYTES..]).inside
}

/// The bytes of each sector from `offset`, with their start.
fn pieces(bytes: &[u8], offset: u64) -> impl Iterator<Item = (usize, &[u8])> {
    let first = SECTOR_BYTES - (offset % SECTOR_BYTES as u64) as usize;
    let (head, rest) = bytes.split_at(first.min(bytes.len()));
    let starts = (0..).map(move |sector| first + sector * SECTOR_BYTES);
    std::iter::once((0, head)).chain(starts.zip(rest.chunks(SECTOR_BYTES)))
}

/// The highest log index that any frame header after `offset` proves durable.
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

/// The first header of a frame of this log that begins at or after `offset`, and its offset.
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
