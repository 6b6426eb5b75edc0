//! Checks the boundary between two segments. Every start checks it, also one that continues from a
//! snapshot and reads nothing else of closed segments. So a segment that is missing, truncated or
//! from another history is refused before the switch serves requests. Damage inside a segment is
//! found when it is read, or by a check of the whole log.
//!
//! # Costs
//! One read of [`LOOK_BYTES`] for a segment whose last frame is no longer than that. The end of
//! compressed and archived segments is known from their metadata; nothing is read.

use ports::{DiskError, DiskFile};
use record::frame::Tail;

use crate::scan::{Part, Window, header_behind};
use crate::segment::SEGMENT_HEADER_BYTES;

/// Distance from the end at which the search for the last frame starts, in bytes. It doubles with
/// each attempt.
const LOOK_BYTES: u64 = 16 << 10;

/// Whether the part ends with the frame that `base` continues. Only its header is compared; its
/// records are not checked.
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
