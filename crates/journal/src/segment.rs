//! One file of the log: its name and its header.
//!
//! The name is the position of the first record, twenty digits, so that names sort as positions
//! do. The header is one sector, so that a crash leaves it whole or not at all; frames follow it
//! without gaps.
//!
//! | at | bytes | field (little endian) |
//! |---:|---:|---|
//! | 0 | 8 | magic `UpSegmnt` |
//! | 8 | 2 | format version |
//! | 10 | 6 | zero |
//! | 16 | 16 | identity of the log |
//! | 32 | 8 | position of the last record before the segment; 0 if there is none |
//! | 40 | 8 | stamp of the last frame before the segment |
//! | 48 | 32 | chain head before the segment |
//! | 80 | 428 | zero |
//! | 508 | 4 | CRC-32C of bytes 0 to 507 |

use ledger::{Digest, Position, Stamp};
use ports::{Disk, DiskError};
use record::checksum::crc32c;
pub(crate) use record::frame::SECTOR_BYTES;
use record::frame::{LogIdentity, Tail};

/// Length of a segment's header, in bytes: one sector.
pub const SEGMENT_HEADER_BYTES: u64 = SECTOR_BYTES as u64;
/// The format version that this code writes.
pub const SEGMENT_VERSION: u16 = 1;

const MAGIC: [u8; 8] = *b"UpSegmnt";
const SUFFIX: &str = ".segment";
const PACKED_SUFFIX: &str = ".packed";
/// Where the packed segments of a place are.
pub(crate) const OBJECTS: &str = "segments";
const NAME_DIGITS: usize = 20;
const AT_CRC: usize = SECTOR_BYTES - 4;
const ZEROS_BEFORE_CRC: usize = 80;

/// The file name of the segment that starts at `first`.
pub(crate) fn name_of(first: Position) -> String {
    format!("{:020}{SUFFIX}", first.0)
}

/// The segments of a directory, sorted by position; other files are left out.
pub(crate) fn list(disk: &impl Disk) -> Result<Vec<(Position, String)>, DiskError> {
    let names = disk.list()?;
    let mut found: Vec<_> =
        names.into_iter().filter_map(|name| Some((first_of(&name)?, name))).collect();
    found.sort();
    Ok(found)
}

/// The file name of the same segment in its packed form.
pub(crate) fn packed_name_of(first: Position) -> String {
    format!("{:020}{PACKED_SUFFIX}", first.0)
}

/// The name of its object in an archive.
pub(crate) fn object_name_of(first: Position) -> String {
    format!("{OBJECTS}/{}", packed_name_of(first))
}

pub(crate) fn first_of(name: &str) -> Option<Position> {
    first_before(name, SUFFIX)
}

pub(crate) fn first_of_packed(name: &str) -> Option<Position> {
    first_before(name, PACKED_SUFFIX)
}

fn first_before(name: &str, suffix: &str) -> Option<Position> {
    let digits = name.strip_suffix(suffix)?;
    let plain = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok().map(Position)).flatten()
}

/// The header of the segment that continues the log at `base`.
pub(crate) fn encode_header(base: &Tail) -> [u8; SECTOR_BYTES] {
    let mut out = [0; SECTOR_BYTES];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&SEGMENT_VERSION.to_le_bytes());
    out[16..32].copy_from_slice(&base.identity.0);
    out[32..40].copy_from_slice(&base.end.0.to_le_bytes());
    out[40..48].copy_from_slice(&base.stamp.0.to_le_bytes());
    out[48..ZEROS_BEFORE_CRC].copy_from_slice(&base.chain.0);
    let crc = crc32c(&out[..AT_CRC]);
    out[AT_CRC..].copy_from_slice(&crc.to_le_bytes());
    debug_assert_eq!(decode_header(&out), Ok(Tail { durable: base.end, ..*base }));
    out
}

/// Reads a header: the log's end before the segment, all of it durable, for a segment is only
/// started once everything before it is synced.
pub(crate) fn decode_header(bytes: &[u8]) -> Result<Tail, &'static str> {
    let header: &[u8; SECTOR_BYTES] =
        bytes.first_chunk().ok_or("the file is shorter than a segment's header")?;
    if header[..8] != MAGIC {
        return Err("the file does not start as a segment does");
    }
    if header[8..10] != SEGMENT_VERSION.to_le_bytes() {
        return Err("the segment is of a format version that this program does not read");
    }
    if header[AT_CRC..] != crc32c(&header[..AT_CRC]).to_le_bytes() {
        return Err("the checksum of the segment's header is wrong");
    }
    if header[10..16].iter().chain(&header[ZEROS_BEFORE_CRC..AT_CRC]).any(|&byte| byte != 0) {
        return Err("a reserved field of the segment's header is not zero");
    }
    let end = Position(u64::from_le_bytes(array_at(header, 32)));
    Ok(Tail {
        identity: LogIdentity(array_at(header, 16)),
        end,
        durable: end,
        stamp: Stamp(u64::from_le_bytes(array_at(header, 40))),
        chain: Digest(array_at(header, 48)),
    })
}

fn array_at<const N: usize>(header: &[u8; SECTOR_BYTES], at: usize) -> [u8; N] {
    *header[at..].first_chunk().expect("the fields lie within the header")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_as_positions_do_and_strangers_are_left_out() {
        assert_eq!(name_of(Position(1)), "00000000000000000001.segment");
        for (name, expected) in [
            ("00000000000000000001.segment", Some(1)),
            ("18446744073709551615.segment", Some(u64::MAX)),
            ("18446744073709551616.segment", None),
            ("1.segment", None),
            ("+0000000000000000001.segment", None),
            ("00000000000000000001.segment.tmp", None),
            ("snapshot", None),
        ] {
            assert_eq!(first_of(name), expected.map(Position), "{name}");
        }
    }

    /// The stored form is a promise: if this changes, old logs are no longer readable.
    #[test]
    fn version_1_is_frozen() {
        let header = encode_header(&Tail {
            identity: LogIdentity(*b"identity of test"),
            end: Position(0x0102_0304_0506_0708),
            durable: Position(1),
            stamp: Stamp(0x1112_1314_1516_1718),
            chain: Digest([9; 32]),
        });
        let digest = record::frame::payload_digest(&header);
        expect_test::expect!["a7cda60c460be0a8038b63e4a0b8cb57ec2d2e380ff5a5342b6b135bfc30ca18"]
            .assert_eq(&digest.to_string());
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_detected() {
        let base = Tail { end: Position(7), ..Tail::genesis(LogIdentity([3; 16])) };
        let header = encode_header(&base);
        assert_eq!(decode_header(&header), Ok(Tail { durable: Position(7), ..base }));
        for bit in 0..SECTOR_BYTES * 8 {
            let mut flipped = header;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(decode_header(&flipped).is_err(), "bit {bit}");
        }
    }
}
