//! One file of the log: its name and its header.
//!
//! The name is the log index of the first record in twenty digits, so that names sort like log
//! indexes. The header is one sector ([`crate::sector`]) with the magic `UpSegmnt` and the end of
//! the log before the segment. A crash leaves it complete or absent. Frames follow it without gaps.

use ledger::LogIndex;
use ports::{Disk, DiskError};
use record::frame::Tail;

use crate::sector::Layout;
pub(crate) use crate::sector::SECTOR_BYTES;

/// Length of a segment's header, in bytes: one sector.
pub const SEGMENT_HEADER_BYTES: u64 = SECTOR_BYTES as u64;
/// The format version that this code writes.
pub const SEGMENT_VERSION: u16 = 1;

const HEADER: Layout = Layout { magic: *b"UpSegmnt", version: SEGMENT_VERSION, method: [0; 6] };
const SUFFIX: &str = ".segment";
const COMPRESSED_SUFFIX: &str = ".packed";
/// Prefix of the compressed segments in a blob store.
pub(crate) const OBJECTS: &str = "segments";
const NAME_DIGITS: usize = 20;

/// The file name of the segment that starts at `first`.
pub(crate) fn name_of(first: LogIndex) -> String {
    format!("{:020}{SUFFIX}", first.0)
}

/// The segments of a directory, sorted by log index. Other files are ignored.
pub(crate) fn list(disk: &impl Disk) -> Result<Vec<(LogIndex, String)>, DiskError> {
    let names = disk.list()?;
    let mut found: Vec<_> =
        names.into_iter().filter_map(|name| Some((first_of(&name)?, name))).collect();
    found.sort();
    Ok(found)
}

/// The file name of the compressed form.
pub(crate) fn compressed_name_of(first: LogIndex) -> String {
    format!("{:020}{COMPRESSED_SUFFIX}", first.0)
}

/// The name of its object in an archive.
pub(crate) fn object_name_of(first: LogIndex) -> String {
    format!("{OBJECTS}/{}", compressed_name_of(first))
}

pub(crate) fn first_of(name: &str) -> Option<LogIndex> {
    first_before(name, SUFFIX)
}

pub(crate) fn first_of_compressed(name: &str) -> Option<LogIndex> {
    first_before(name, COMPRESSED_SUFFIX)
}

fn first_before(name: &str, suffix: &str) -> Option<LogIndex> {
    let digits = name.strip_suffix(suffix)?;
    let plain = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok().map(LogIndex)).flatten()
}

/// The header of the segment that continues the log at `base`.
pub(crate) fn encode_header(base: &Tail) -> [u8; SECTOR_BYTES] {
    HEADER.encode(base)
}

/// Reads a header and returns the log's end before the segment. All of it is durable, because a
/// segment is started only after everything before it was synced.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<Tail, &'static str> {
    HEADER.decode(bytes)
}

#[cfg(test)]
mod tests {
    use ledger::{Digest, Stamp};
    use record::frame::LogIdentity;

    use super::*;

    #[test]
    fn names_sort_as_positions_do_and_strangers_are_left_out() {
        assert_eq!(name_of(LogIndex(1)), "00000000000000000001.segment");
        for (name, expected) in [
            ("00000000000000000001.segment", Some(1)),
            ("18446744073709551615.segment", Some(u64::MAX)),
            ("18446744073709551616.segment", None),
            ("1.segment", None),
            ("+0000000000000000001.segment", None),
            ("00000000000000000001.segment.tmp", None),
            ("snapshot", None),
        ] {
            assert_eq!(first_of(name), expected.map(LogIndex), "{name}");
        }
    }

    /// The stored form is frozen: if this changes, old logs become unreadable.
    #[test]
    fn version_1_is_frozen() {
        let header = encode_header(&Tail {
            identity: LogIdentity(*b"identity of test"),
            end: LogIndex(0x0102_0304_0506_0708),
            durable: LogIndex(1),
            stamp: Stamp(0x1112_1314_1516_1718),
            chain: Digest([9; 32]),
        });
        let digest = record::frame::payload_digest(&header);
        expect_test::expect!["a7cda60c460be0a8038b63e4a0b8cb57ec2d2e380ff5a5342b6b135bfc30ca18"]
            .assert_eq(&digest.to_string());
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_detected() {
        let base = Tail { end: LogIndex(7), ..Tail::genesis(LogIdentity([3; 16])) };
        let header = encode_header(&base);
        assert_eq!(decode_header(&header), Ok(Tail { durable: LogIndex(7), ..base }));
        for bit in 0..SECTOR_BYTES * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_header(&flipped).is_err(), "bit {bit}");
        }
    }
}
