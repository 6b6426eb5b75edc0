//! A node's proposal for a shared log: a *bundle*, one message of a topic.
//!
//! A bundle holds the records of one batch as encoded by the sender, without log index, stamp or
//! chain. These follow from the order of the topic, and every node builds the same frame from them
//! ([`crate::frame`]).
//!
//! # Layout, version 3 (all integers little endian)
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | magic `UpBu` |
//! | 4 | 2 | format version |
//! | 6 | 2 | flags: 1 begins the log |
//! | 8 | 4 | length of the whole bundle |
//! | 12 | 4 | number of records, at least 1 |
//! | 16 | 16 | identity of the log |
//! | 32 | 8 | sequence number of the first record; that of the last fits into eight bytes too |
//! | 40 | 8 | wall clock of the node, microseconds |
//! | 48 | 8 | instance: drawn anew with each start of a node |
//! | 56 | 8 | claim: log index of the last record applied by the node |
//! | 64 | 32 | claim: digest of the outcomes there |
//! | 96 | 32 | claim: chain head there |
//! | 128 | 4 | node |
//! | 132 | 4 | epoch |
//! | 136 | 2 | length of the node's name |
//! | 138 | 2 | newest rules that the node supports, at least 1 |
//! | 140 | 4 | CRC-32C of all other bytes |
//! | 144 | n | the node's name, UTF-8 |
//! | 144 + n | | the records, as in a frame |
//!
//! Version 1 has zero in place of the rules, because its nodes knew only the first rules. Version 2
//! is used for other messages ([`crate::topic_message`]).

use alloc::vec::Vec;

use ledger::{Digest, LogIndex, Stamp};

use crate::checksum::crc32c;
use crate::frame::{
    FRAME_BYTES_MAX, FRAME_HEADER_BYTES, FRAME_RECORDS_MAX, LogIdentity, Records, split_records,
};
use crate::little_endian::{array_at, u16_at, u32_at, u64_at};

/// The format version that this code writes.
pub const BUNDLE_VERSION: u16 = 3;
/// The format version without the rules that a node supports.
pub const BUNDLE_VERSION_FIRST: u16 = 1;
/// The first bytes of every bundle.
pub const BUNDLE_MAGIC: [u8; 4] = *b"UpBu";
/// Longest name of a node, in bytes.
pub const NODE_NAME_MAX: usize = 64;
/// Longest bundle: its records fit into a frame.
pub const BUNDLE_BYTES_MAX: usize = HEAD + NODE_NAME_MAX + FRAME_BYTES_MAX - FRAME_HEADER_BYTES;

/// Bytes before the name.
const HEAD: usize = 144;
const AT_CRC: usize = 140;
const FLAG_CREATES_LOG: u16 = 1;

/// A node's last applied record and the digests there, compared with those of other nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateClaim {
    /// The last record applied.
    pub log_index: LogIndex,
    /// Digest of all outcomes up to that record.
    pub digest: Digest,
    /// Chain head at that record.
    pub chain: Digest,
}

/// Header of a bundle: sender and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BundleHeader<'a> {
    /// The log of the bundle.
    pub identity: LogIdentity,
    /// Whether it creates the log; only valid for the first bundle of a log.
    pub creates_log: bool,
    /// The node.
    pub node: u32,
    /// The node's epoch.
    pub epoch: u32,
    /// Number of the first record within (node, epoch).
    pub sequence: u64,
    /// The node's wall clock.
    pub wall: Stamp,
    /// Distinguishes two processes with the same node name.
    pub instance: u64,
    /// The node's last applied record.
    pub claim: StateClaim,
    /// The newest rules that the node supports.
    pub rules: u32,
    /// The node's name.
    pub name: &'a str,
}

/// A validated view of a bundle's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bundle<'a> {
    /// Sender and time.
    pub header: BundleHeader<'a>,
    /// Number of records, at least 1.
    pub count: u32,
    /// The records, as in a frame.
    pub records: &'a [u8],
}

/// The reasons why bytes are not a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// Not written by any version of this program.
    #[error("{0}")]
    Foreign(&'static str),
    /// Written by a newer version.
    #[error("unsupported bundle format version {0}")]
    Version(u16),
}

/// Writes a bundle into `out`, replacing its content. `records` are `count` consecutive records
/// that fit into a frame.
///
/// # Panics
/// If the name is longer than [`NODE_NAME_MAX`], or the rules version exceeds `u16::MAX`.
pub fn write(header: &BundleHeader<'_>, count: u32, records: &[u8], out: &mut Vec<u8>) {
    let name = header.name.as_bytes();
    assert!(name.len() <= NODE_NAME_MAX, "names are checked where they are read");
    let rules = u16::try_from(header.rules).expect("rules are few");
    let length = HEAD + name.len() + records.len();
    out.clear();
    out.extend_from_slice(&BUNDLE_MAGIC);
    out.extend_from_slice(&BUNDLE_VERSION.to_le_bytes());
    let flags = if header.creates_log { FLAG_CREATES_LOG } else { 0 };
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&(length as u32).to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&header.identity.0);
    out.extend_from_slice(&header.sequence.to_le_bytes());
    out.extend_from_slice(&header.wall.0.to_le_bytes());
    out.extend_from_slice(&header.instance.to_le_bytes());
    out.extend_from_slice(&header.claim.log_index.0.to_le_bytes());
    out.extend_from_slice(&header.claim.digest.0);
    out.extend_from_slice(&header.claim.chain.0);
    out.extend_from_slice(&header.node.to_le_bytes());
    out.extend_from_slice(&header.epoch.to_le_bytes());
    out.extend_from_slice(&(name.len() as u16).to_le_bytes());
    out.extend_from_slice(&rules.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name);
    out.extend_from_slice(records);
    let crc = checksum(out);
    out[AT_CRC..HEAD].copy_from_slice(&crc.to_le_bytes());
    debug_assert!(Bundle::parse(out).is_ok(), "a bundle that was written is readable");
}

impl<'a> Bundle<'a> {
    /// Parses a message that must consist of one bundle.
    ///
    /// # Errors
    /// [`BundleError`] for bytes that [`write()`] did not write; never panics.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BundleError> {
        let foreign = BundleError::Foreign;
        let (head, rest) =
            bytes.split_first_chunk::<HEAD>().ok_or(foreign("it is too short for a bundle"))?;
        if head[..4] != BUNDLE_MAGIC {
            return Err(foreign("no bundle starts here"));
        }
        let rules = u32::from(u16_at(head, 138));
        let (rules, is_legal) = match u16_at(head, 4) {
            BUNDLE_VERSION => (rules, 0 < rules),
            BUNDLE_VERSION_FIRST => (1, rules == 0),
            version => return Err(BundleError::Version(version)),
        };
        if u32_at(head, 8) as usize != bytes.len() || BUNDLE_BYTES_MAX < bytes.len() {
            return Err(foreign("its length does not match the message"));
        }
        if checksum(bytes) != u32_at(head, AT_CRC) {
            return Err(foreign("its checksum is wrong"));
        }
        let name = usize::from(u16_at(head, 136));
        let flags = u16_at(head, 6);
        if FLAG_CREATES_LOG < flags || !is_legal || NODE_NAME_MAX < name {
            return Err(foreign("a field of its header is out of range"));
        }
        let (name, records) =
            rest.split_at_checked(name).ok_or(foreign("its name is truncated"))?;
        let name = core::str::from_utf8(name).map_err(|_| foreign("its name is not UTF-8"))?;
        let header = Self::header(head, (flags == FLAG_CREATES_LOG, rules), name);
        let count = u32_at(head, 12);
        let has_numbers = header.sequence.checked_add(u64::from(count.saturating_sub(1))).is_some();
        if !(1..=FRAME_RECORDS_MAX).contains(&count) || header.node == 0 || !has_numbers {
            return Err(foreign("a field of its header is out of range"));
        }
        split_records(records, count).map_err(|_| foreign("its records are malformed"))?;
        Ok(Self { header, count, records })
    }

    /// The records in order, numbered from `first`.
    #[must_use]
    pub fn records_from(&self, first: LogIndex) -> Records<'a> {
        Records::new(first, self.records)
    }

    fn header(
        head: &[u8; HEAD],
        (creates_log, rules): (bool, u32),
        name: &'a str,
    ) -> BundleHeader<'a> {
        BundleHeader {
            identity: LogIdentity(array_at(head, 16)),
            creates_log,
            node: u32_at(head, 128),
            epoch: u32_at(head, 132),
            sequence: u64_at(head, 32),
            wall: Stamp(u64_at(head, 40)),
            instance: u64_at(head, 48),
            claim: StateClaim {
                log_index: LogIndex(u64_at(head, 56)),
                digest: Digest(array_at(head, 64)),
                chain: Digest(array_at(head, 96)),
            },
            rules,
            name,
        }
    }
}

/// CRC-32C of everything but the checksum itself.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c(&bytes[..AT_CRC]) ^ crc32c(&bytes[HEAD..]).rotate_left(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::frame::NewRecord;

    /// CRC-32C of the sample as version 1 wrote it.
    const FIRST: u32 = 815_378_895;

    pub(crate) fn sample() -> Vec<u8> {
        let one = NewRecord { kind: 1, version: 1, fields: b"one", payload: None };
        let payload = b"body".as_slice();
        let payload = Some((payload, crate::frame::payload_digest(payload)));
        let two = NewRecord { kind: 2, version: 1, fields: b"", payload };
        let mut records = one.encode().expect("it fits").as_bytes().to_vec();
        records.extend_from_slice(two.encode().expect("it fits").as_bytes());
        let mut out = Vec::new();
        write(&header(), 2, &records, &mut out);
        out
    }

    fn header() -> BundleHeader<'static> {
        BundleHeader {
            identity: LogIdentity([7; 16]),
            creates_log: false,
            node: 3,
            epoch: 2,
            sequence: 41,
            wall: Stamp(1_000_000),
            instance: 99,
            claim: StateClaim {
                log_index: LogIndex(40),
                digest: Digest([1; 32]),
                chain: Digest([2; 32]),
            },
            rules: 1,
            name: "node-a",
        }
    }

    #[test]
    fn a_bundle_is_read_back() {
        let bytes = sample();
        let bundle = Bundle::parse(&bytes).expect("it is a bundle");
        assert_eq!((bundle.header, bundle.count), (header(), 2));
        let records: Vec<_> = bundle.records_from(LogIndex(9)).collect();
        let seen: Vec<_> = records.iter().map(|record| (record.log_index.0, record.kind)).collect();
        assert_eq!(seen, [(9, 1), (10, 2)]);
    }

    #[test]
    fn the_last_number_is_that_of_one_record() {
        let mut out = Vec::new();
        let bytes = sample();
        let bundle = Bundle::parse(&bytes).expect("it is a bundle");
        let end = BundleHeader { sequence: u64::MAX - 1, ..header() };
        write(&end, 2, bundle.records, &mut out);
        assert!(Bundle::parse(&out).is_ok());
        out[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        seal(&mut out);
        assert!(matches!(Bundle::parse(&out).err(), Some(BundleError::Foreign(_))));
    }

    #[test]
    fn a_bundle_of_the_first_version_is_read() {
        let mut bytes = sample();
        bytes[4..6].copy_from_slice(&BUNDLE_VERSION_FIRST.to_le_bytes());
        bytes[138..140].fill(0);
        seal(&mut bytes);
        // Golden value: the checksum of the bytes that version 1 wrote.
        assert_eq!(crc32c(&bytes), FIRST);
        let bundle = Bundle::parse(&bytes).expect("it is a bundle");
        assert_eq!((bundle.header, bundle.count), (header(), 2));
        bytes[138] = 1;
        seal(&mut bytes);
        assert!(matches!(Bundle::parse(&bytes).err(), Some(BundleError::Foreign(_))));
    }

    fn seal(bundle: &mut [u8]) {
        let crc = checksum(bundle);
        bundle[AT_CRC..HEAD].copy_from_slice(&crc.to_le_bytes());
    }

    /// The error of a bundle that was corrupted and sealed again.
    fn error_of(bundle: &[u8], corrupt: fn(&mut Vec<u8>)) -> Option<BundleError> {
        let mut spoiled = bundle.to_vec();
        corrupt(&mut spoiled);
        seal(&mut spoiled);
        Bundle::parse(&spoiled).err()
    }

    #[test]
    fn invalid_sealed_bundles_are_named() {
        const FIELD: &str = "a field of its header is out of range";
        const LENGTH: &str = "its length does not match the message";
        type Corruption = fn(&mut Vec<u8>);
        let cases: [(Option<&str>, Corruption); 13] = [
            (None, |_| {}),
            (None, |it| it[6] = FLAG_CREATES_LOG as u8),
            (Some(FIELD), |it| it[6] = 2),
            (Some(FIELD), |it| it[138] = 0),
            (Some(FIELD), |it| it[12] = 0),
            (Some(FIELD), |it| it[12..16].copy_from_slice(&(FRAME_RECORDS_MAX + 1).to_le_bytes())),
            (Some(FIELD), |it| it[128] = 0),
            (Some(FIELD), |it| it[136] = NODE_NAME_MAX as u8 + 1),
            (Some("its name is not UTF-8"), |it| it[HEAD] = 0xff),
            (Some("its records are malformed"), |it| it[12] = 1),
            (Some("no bundle starts here"), |it| it[0] = 0),
            (Some(LENGTH), |it| it[8] += 1),
            (Some(LENGTH), |it| it.push(0)),
        ];
        for (at, (expected, corrupt)) in cases.into_iter().enumerate() {
            assert_eq!(
                error_of(&sample(), corrupt),
                expected.map(BundleError::Foreign),
                "case {at}"
            );
        }
        let newer = BundleError::Version(4);
        assert_eq!(alloc::format!("{newer}"), "unsupported bundle format version 4");
        assert_eq!(alloc::format!("{}", BundleError::Foreign(LENGTH)), LENGTH);
    }

    /// The records of the longest frame fit into a bundle with the longest name, and not one byte
    /// more.
    #[test]
    fn the_longest_bundle_is_read() {
        let room = FRAME_BYTES_MAX - FRAME_HEADER_BYTES;
        let longest = crate::frame::RECORD_BYTES_MAX;
        let mut records = Vec::new();
        for length in [longest, longest, room - 2 * longest] {
            let payload = alloc::vec![7; length - crate::frame::RECORD_OVERHEAD_BYTES];
            let payload = Some((&*payload, crate::frame::payload_digest(&payload)));
            let record = NewRecord { kind: 1, version: 1, fields: b"", payload };
            records.extend_from_slice(record.encode().expect("it fits").as_bytes());
        }
        let name = "n".repeat(NODE_NAME_MAX);
        let mut out = Vec::new();
        write(&BundleHeader { name: &name, ..header() }, 3, &records, &mut out);
        assert_eq!(out.len(), BUNDLE_BYTES_MAX);
        assert!(Bundle::parse(&out).is_ok_and(|bundle| bundle.header.name == name));
        let longer = error_of(&out, |it| {
            it.push(0);
            let length = it.len() as u32;
            it[8..12].copy_from_slice(&length.to_le_bytes());
        });
        assert_eq!(longer, Some(BundleError::Foreign("its length does not match the message")));
    }

    #[test]
    fn newer_versions_differ_from_foreign_bytes() {
        let mut bytes = sample();
        bytes[4] = 4;
        assert_eq!(Bundle::parse(&bytes).err(), Some(BundleError::Version(4)));
        assert!(matches!(Bundle::parse(b"hello").err(), Some(BundleError::Foreign(_))));
    }
}
