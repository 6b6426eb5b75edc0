//! A bound on the HTTP/2 frames of a connection that do not belong to requests, such as `PING`,
//! `SETTINGS`, or frames of unknown types. hyper processes them before any other bound applies.
//!
//! Each frame costs one of the budget, except `DATA` with at least [`DATA_BYTES_LEAST`] bytes. The
//! budget grows with time and with each request that the hub serves.
//!
//! Costs: a few comparisons per frame, and 48 bytes per connection.

/// Budget of a new connection, and its maximum.
const FRAMES_AT_ONCE: u64 = 1_000;
/// Frames that are added for each request: its headers, their continuations, window updates, and
/// small `DATA` frames.
const FRAMES_PER_REQUEST: u64 = 20;
/// Time after which one frame is added: 10 per second.
const INTERVAL_NS: u64 = 100_000_000;
/// Smaller `DATA` frames cost one of the budget, and so do padded ones.
const DATA_BYTES_LEAST: usize = 128;

/// Length, type, flags and stream of a frame.
const HEADER_BYTES: usize = 9;
const TYPE_DATA: u8 = 0;
const FLAG_PADDED: u8 = 8;

/// The budget of a connection, and the place in its stream of frames.
pub(crate) struct FrameBudget {
    left: u64,
    /// Time up to which the budget has grown, in nanoseconds.
    grown_ns: u64,
    /// Requests for which the budget has grown.
    requests: u64,
    /// Bytes before the next header: the rest of the preface or of a payload.
    skipped: usize,
    header: [u8; HEADER_BYTES],
    /// Received bytes of the header.
    received: usize,
    /// The connection must be closed.
    pub(crate) is_exceeded: bool,
}

/// The budget does not suffice for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetExceeded {
    /// Bytes before the end of the header of that frame.
    pub(crate) before: usize,
}

impl FrameBudget {
    /// The budget of a connection that begins with a preface of `preface` bytes.
    pub(crate) fn new(preface: usize, now_ns: u64) -> Self {
        let header = [0; HEADER_BYTES];
        let (left, grown_ns, requests) = (FRAMES_AT_ONCE, now_ns, 0);
        let (skipped, received, is_exceeded) = (preface, 0, false);
        Self { left, grown_ns, requests, skipped, header, received, is_exceeded }
    }

    /// Adds what `requests`, the number of requests since the connection began, and time allow.
    pub(crate) fn grow(&mut self, requests: u64, now_ns: u64) {
        let intervals = now_ns.saturating_sub(self.grown_ns) / INTERVAL_NS;
        self.grown_ns += intervals * INTERVAL_NS;
        let served = requests - self.requests;
        self.requests = requests;
        let more = intervals + served * FRAMES_PER_REQUEST;
        self.left = FRAMES_AT_ONCE.min(self.left + more);
    }

    /// Counts the frames that begin in the next received bytes.
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Result<(), BudgetExceeded> {
        let mut rest = bytes;
        loop {
            let skipped = self.skipped.min(rest.len());
            self.skipped -= skipped;
            rest = &rest[skipped..];
            let missing = HEADER_BYTES - self.received;
            let (part, after) = rest.split_at(missing.min(rest.len()));
            self.header[self.received..][..part.len()].copy_from_slice(part);
            self.received += part.len();
            rest = after;
            if self.received < HEADER_BYTES {
                return Ok(());
            }
            self.received = 0;
            let cost = self.begin_frame();
            let Some(left) = self.left.checked_sub(cost) else {
                self.is_exceeded = true;
                return Err(BudgetExceeded { before: bytes.len() - rest.len() });
            };
            self.left = left;
        }
    }

    /// Reads the header, and returns the cost of its frame.
    fn begin_frame(&mut self) -> u64 {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.skipped = u32::from_be_bytes([0, high, middle, low]) as usize;
        let is_data = kind == TYPE_DATA && flags & FLAG_PADDED == 0;
        u64::from(!is_data || self.skipped < DATA_BYTES_LEAST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        // A payload that would be read as frames, if it were not skipped.
        [&[high, middle, low, kind, flags, 0, 0, 0, 1][..], &vec![0; length]].concat()
    }

    /// Frames of one kind that a new connection may send, up to some maximum.
    fn allowed(frame: &[u8]) -> u64 {
        let mut budget = FrameBudget::new(0, 0);
        (0..5_000).take_while(|_| budget.read(frame).is_ok()).count() as u64
    }

    #[test]
    fn frames_without_content_are_bounded() {
        for (kind, flags, length) in [
            (0, 0, 0),
            (0, 0, 1),
            (0, 1, 0),
            (0, 0, DATA_BYTES_LEAST - 1),
            (0, FLAG_PADDED, 200),
            (1, 4, 3),
            (2, 0, 5),
            (3, 0, 4),
            (4, 0, 0),
            (4, 1, 0),
            (6, 0, 8),
            (6, 1, 8),
            (8, 0, 4),
            (9, 0, 0),
            (0x77, 0, 0),
            (0x77, 0, 70_000),
        ] {
            let frame = frame(kind, flags, length);
            assert_eq!(allowed(&frame), FRAMES_AT_ONCE, "type {kind}, {length} bytes");
        }
        assert_eq!(allowed(&frame(0, 0, DATA_BYTES_LEAST)), 5_000);
        assert_eq!(allowed(&frame(0, 1, 16 << 10)), 5_000);
    }

    #[test]
    fn headers_are_found_in_reads_of_any_length() {
        let pair = [frame(0, 0, 300), frame(6, 0, 8)].concat();
        let stream = [b"preface".to_vec(), pair.repeat(1_001)].concat();
        let last = stream.len() - 8;
        for length in [1, 2, 8, 9, 10, 17, 309, 4_096, stream.len()] {
            let mut budget = FrameBudget::new(b"preface".len(), 0);
            let mut before = 0;
            let exceeded = stream.chunks(length).find_map(|bytes| {
                let result = budget.read(bytes);
                before += result.err().map_or(bytes.len(), |exceeded| exceeded.before);
                result.err()
            });
            assert!(exceeded.is_some(), "reads of {length} bytes");
            assert_eq!(before, last, "reads of {length} bytes");
        }
    }

    #[test]
    fn budget_grows_with_requests_and_time_up_to_its_maximum() {
        let ping = frame(6, 0, 8);
        let mut budget = FrameBudget::new(0, 0);
        let mut used = |requests, now_ns| {
            budget.grow(requests, now_ns);
            let count = (0..5_000).take_while(|_| budget.read(&ping).is_ok()).count() as u64;
            // The rest of the frame that was refused.
            assert_eq!(budget.read(&ping[HEADER_BYTES..]), Ok(()));
            count
        };
        assert_eq!(used(0, 0), FRAMES_AT_ONCE);
        assert_eq!(used(0, INTERVAL_NS - 1), 0);
        assert_eq!(used(0, INTERVAL_NS), 1);
        assert_eq!(used(0, INTERVAL_NS), 0);
        assert_eq!(used(3, INTERVAL_NS), 3 * FRAMES_PER_REQUEST);
        assert_eq!(used(3, INTERVAL_NS * 7 / 2), 2);
        assert_eq!(used(3, INTERVAL_NS * 4), 1, "halves of an interval add up");
        assert_eq!(used(9_999, u64::MAX), FRAMES_AT_ONCE);
    }
}
