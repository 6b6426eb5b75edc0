//! Ranges of records in a few bytes each.
//!
//! # Costs and bounds
//! Memory: three bytes for most ranges. An erasure of one participant's contents leaves a range for
//! each of its messages.

use ledger::LogIndex;

/// Consecutive records with kinds of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordsOfKind {
    pub(super) first: LogIndex,
    pub(super) last: LogIndex,
    /// The kind of the first one.
    pub(super) kind: u16,
}

/// Ranges, ascending and apart.
#[derive(Default)]
pub(super) struct CompactRanges {
    /// Of all ranges except the last one: the distance from the end of the one before, the distance
    /// from first to last record, and the kind, as numbers with seven bits per byte.
    encoded: Vec<u8>,
    /// The end of the last encoded range.
    end: u64,
    last: Option<RecordsOfKind>,
}

impl CompactRanges {
    /// The last range, which may still grow.
    pub(super) fn last_mut(&mut self) -> Option<&mut RecordsOfKind> {
        self.last.as_mut()
    }

    /// Adds a range after all others.
    pub(super) fn push(&mut self, range: RecordsOfKind) {
        let Some(before) = self.last.replace(range) else { return };
        for number in
            [before.first.0 - self.end, before.last.0 - before.first.0, u64::from(before.kind)]
        {
            write_number(number, &mut self.encoded);
        }
        self.end = before.last.0;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = RecordsOfKind> {
        let (mut rest, mut end) = (&self.encoded[..], 0);
        let encoded = std::iter::from_fn(move || {
            let first = end + read_number(&mut rest)?;
            end = first + read_number(&mut rest)?;
            let kind = read_number(&mut rest)? as u16;
            Some(RecordsOfKind { first: LogIndex(first), last: LogIndex(end), kind })
        });
        encoded.chain(self.last)
    }
}

fn write_number(mut number: u64, bytes: &mut Vec<u8>) {
    while 0x80 <= number {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The next number; `None` at the end.
fn read_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes.split_off_first()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_back() {
        let range = |(first, last, kind)| RecordsOfKind {
            first: LogIndex(first),
            last: LogIndex(last),
            kind,
        };
        let all = [(1, 1, 3), (3, 3, 4), (4, 131, 8), (300, 20_000, 900), (1 << 40, 1 << 40, 7)];
        let all = all.map(range);
        let mut ranges = CompactRanges::default();
        assert_eq!(ranges.iter().count(), 0);
        for range in all {
            ranges.push(RecordsOfKind { last: range.first, ..range });
            ranges.last_mut().expect("it was added").last = range.last;
        }
        assert_eq!(ranges.iter().collect::<Vec<_>>(), all);
    }

    #[test]
    fn messages_between_those_of_others_take_three_bytes_each() {
        let mut ranges = CompactRanges::default();
        for record in (1..=2_001).step_by(2).map(LogIndex) {
            ranges.push(RecordsOfKind { first: record, last: record, kind: 3 });
        }
        assert_eq!(ranges.encoded.len(), 3_000);
    }
}
