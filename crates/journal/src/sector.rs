//! One sector that describes a point in a log. The headers of plain and compressed segments and the
//! durable mark have this form. A crash leaves a sector complete or unchanged.
//!
//! | at | bytes | field (little endian) |
//! |---:|---:|---|
//! | 0 | 8 | magic |
//! | 8 | 2 | format version |
//! | 10 | 6 | method; zero but for compressed segments |
//! | 16 | 16 | identity of the log |
//! | 32 | 8 | log index of the last record before the point; 0 without one |
//! | 40 | 8 | stamp of the last frame before it |
//! | 48 | 32 | chain head before it |
//! | 80 | 428 | zero |
//! | 508 | 4 | CRC-32C of bytes 0 to 507 |

use ledger::{Digest, LogIndex, Stamp};
use record::checksum::crc32c;
pub(crate) use record::frame::SECTOR_BYTES;
use record::frame::{LogIdentity, Tail};

/// Offset of the checksum.
pub(crate) const AT_CRC: usize = SECTOR_BYTES - 4;
const AT_ZEROS: usize = 80;

/// Bytes that are the same in every sector of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u16,
    pub(crate) method: [u8; 6],
}

impl Layout {
    /// Encodes the end of a log.
    pub(crate) fn encode(&self, tail: &Tail) -> [u8; SECTOR_BYTES] {
        let mut out = [0; SECTOR_BYTES];
        out[..8].copy_from_slice(&self.magic);
        out[8..10].copy_from_slice(&self.version.to_le_bytes());
        out[10..16].copy_from_slice(&self.method);
        out[16..32].copy_from_slice(&tail.identity.0);
        out[32..40].copy_from_slice(&tail.end.0.to_le_bytes());
        out[40..48].copy_from_slice(&tail.stamp.0.to_le_bytes());
        out[48..AT_ZEROS].copy_from_slice(&tail.chain.0);
        let crc = crc32c(&out[..AT_CRC]);
        out[AT_CRC..].copy_from_slice(&crc.to_le_bytes());
        debug_assert_eq!(self.decode(&out), Ok(Tail { durable: tail.end, ..*tail }));
        out
    }

    /// Decodes a sector. The log is durable up to the end that it names.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Tail, &'static str> {
        let sector: &[u8; SECTOR_BYTES] = bytes.first_chunk().ok_or("the header is cut short")?;
        if sector[..8] != self.magic {
            return Err("the header has the wrong magic bytes");
        }
        if sector[8..10] != self.version.to_le_bytes() {
            return Err("the header has an unsupported format version");
        }
        if sector[AT_CRC..] != crc32c(&sector[..AT_CRC]).to_le_bytes() {
            return Err("the header has a wrong checksum");
        }
        let zeros = &sector[AT_ZEROS..AT_CRC];
        if sector[10..16] != self.method || zeros.iter().any(|&byte| byte != 0) {
            return Err("the header has unsupported fields");
        }
        Ok(tail_at(LogIdentity(array_at(sector, 16)), &sector[32..]))
    }
}

/// Decodes the end of a log: log index, stamp and chain head.
pub(crate) fn tail_at(identity: LogIdentity, bytes: &[u8]) -> Tail {
    let end = LogIndex(u64_at(bytes, 0));
    let (stamp, chain) = (Stamp(u64_at(bytes, 8)), Digest(array_at(bytes, 16)));
    Tail { identity, end, durable: end, stamp, chain }
}

pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the caller has checked the length")
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}
