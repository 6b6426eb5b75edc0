//! Code that several test files share.

use journal::{LogOptions, TailPolicy, Verify};
use ports::StopReading;
use record::frame::Frame;

/// LogOptions without preallocated space that refuse any damage.
pub(crate) const STRICT: LogOptions = LogOptions {
    segment_bytes: 0,
    verify: Verify::Everything,
    tail_policy: TailPolicy::Refuse,
    room_bytes: 0,
};

/// A progress observer that never stops.
pub(crate) fn go(_: u64) -> Result<(), StopReading> {
    Ok(())
}

/// Offsets of the frames of a valid segment, and the end of the last one.
pub(crate) fn frame_offsets(bytes: &[u8]) -> Vec<usize> {
    let mut offsets = vec![512];
    let mut at = 512;
    while at < bytes.len() {
        at += Frame::parse(&bytes[at..]).expect("a sample is sound").as_bytes().len();
        offsets.push(at);
    }
    offsets
}
