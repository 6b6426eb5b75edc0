//! Where one segment ends and the next one goes on: looked at by every start, also by one that
//! goes on from a snapshot and reads nothing of closed segments else. So a segment that is missing,
//! cut, or of another history is refused before the switch is there; damage within one is found by
//! who reads it, or by a reading of the whole log.
//!
//! # Costs
//! One reading of [`LOOK_BYTES`] for a segment that ends in a frame of no more than that. Of packed
//! and archived segments the end is known from what is kept with them, and nothing is read.

use ports::{DiskError, DiskFile};
use record::frame::Tail;

use crate::scan::{Part, Window, header_behind};
use crate::segment::SEGMENT_HEADER_BYTES;

/// How far before the end the last frame is looked for first, in bytes; then twice as far, and on.
const LOOK_BYTES: u64 = 16 << 10;

/// Whether the frames of this part end with one that `base` goes on from. Its header says so; its
/// records are not looked at.
pub(crate) fn ends_at<F: DiskFile>(part: Part<'_, F>, base: &Tail) -> Result<bool, DiskError> {
    let mut look = LOOK_BYTES;
    loop {
        let from = part.limit.saturating_sub(look).max(SEGMENT_HEADER_BYTES);
        let mut window = Window::new(LOOK_BYTES as usize);
        let mut at = from;
        while let Some((offset, header)) = header_behind(&mut window, part, at, base.identity)? {
            if offset + u64::from(header.length) == part.limit && header.chain == base.chain {
                return Ok(header.last() == base.end);
            }
            at = offset + 1;
        }
        if from == SEGMENT_HEADER_BYTES {
            return Ok(false);
        }
        look *= 2;
    }
}
