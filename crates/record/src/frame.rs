//! The stored form of one batch: a *frame*, written to a segment of the log or sent as one message
//! of a replicated topic.
//!
//! # Phases
//! 1. [`EncodedRecord::write`], on the thread that read the message: one allocation per record, and
//!    no copy of fields or payload. [`NewRecord::encode`] copies both.
//! 2. [`FrameBuilder::push`] and [`FrameBuilder::seal`], on the sequencer's thread: one copy of
//!    each record, one BLAKE3 of the chained bytes, one CRC-32C; no allocation once the buffer has
//!    grown.
//! 3. [`Frame::parse`] by every reader: everything is checked first, so [`Frame::records`] cannot
//!    fail. Nothing is copied or allocated.
//!
//! # Layout, version 2 (all integers little endian)
//! | at | bytes | header field |
//! |---:|---:|---|
//! | 0 | 4 | magic `UpFr` |
//! | 4 | 2 | format version |
//! | 6 | 2 | zero bytes at the end of the records; less than a sector |
//! | 8 | 4 | length of the whole frame |
//! | 12 | 4 | number of records, at least 1 |
//! | 16 | 16 | identity of the log |
//! | 32 | 8 | log index of the first record |
//! | 40 | 8 | log index known durable when the frame was sealed |
//! | 48 | 8 | stamp, microseconds |
//! | 56 | 8 | wall clock of the node, microseconds |
//! | 64 | 8 | sequence number of the first record |
//! | 72 | 8 | log index of the last record applied when the frame was sealed |
//! | 80 | 4 | node |
//! | 84 | 4 | epoch |
//! | 88 | 4 | rules version |
//! | 92 | 4 | bytes of the records in runs of zeros that are at least a sector long |
//! | 96 | 32 | digest of the outcomes of the last batch applied |
//! | 128 | 32 | chain head after this frame |
//! | 160 | 4 | CRC-32C of the records |
//! | 164 | 4 | CRC-32C of bytes 0 to 163 |
//!
//! | at | bytes | field of each record |
//! |---:|---:|---|
//! | 0 | 4 | length of the whole record |
//! | 4 | 1 | payload: 0 none, 1 stored, 2 erased |
//! | 5 | 3 | zero |
//! | 8 | 2 | kind |
//! | 10 | 2 | version of the fields |
//! | 12 | 4 | length of the fields |
//! | 16 | 4 | original length of the payload |
//! | 20 | n | fields |
//! | 20 + n | 32 | BLAKE3 of the original payload; zero if there never was one |
//! | 52 + n | m | payload |
//!
//! The header has its own checksum, so its length can be trusted if only the records are damaged.
//! Recovery uses this to distinguish a torn write from damage. The identity prevents bytes that
//! look like a frame (inside a payload, or left from another log) from being read as one. It is
//! random and never shown to a participant.
//!
//! Version 1 has zeros at 6 and 92: it does not count its own zeros ([`TrailingZeros`]). A complete
//! frame that ends in zeros and is damaged later therefore looks like a torn write. Version 1 is
//! still written on shared logs, because the chain covers the version, and programs of different
//! versions must build the same frame. There, a node's log on disk is only a copy.
//!
//! # Encrypted frames, version 3
//! An encrypted frame is an envelope around a whole frame of version 1 or 2. Its header has the
//! values of the inner header; only format version, length, zeros and checksums are its own. So
//! readers of headers need no key. Instead of records it has the sealed form of the inner frame:
//! id of the data key, number of the encryption, ciphertext, tag ([`SEAL_BYTES`] more than the
//! inner frame). Zeros and checksums are those of the stored bytes, so that a torn write is found
//! without a key. The header up to the checksums, with its zero counts as 0, is authenticated with
//! the content. [`encrypt`] makes the envelope, [`decrypt`] gives the inner frame back byte for
//! byte: the chain, erasure and shared logs are those of the inner frame.
//!
//! # Sealed payloads, versions 4 and 5
//! Inside of an envelope, payloads of some participants may be sealed once more, each with a key of
//! its participant: see [`seal_payloads`].
//!
//! # Chain
//! `chain after = BLAKE3(chain before || header bytes 0..8 and 12..128 || for each record its bytes
//! 8..52 + n)`. It covers only the digest and the original length of a payload. A payload can
//! therefore be erased (see [`Frame::erase`]) without breaking the chain.
//!
//! # Costs
//! For records of 200 bytes on one core with AVX-512: push 14 ns, seal 43 ns (0.2 ns per byte),
//! parse 15 ns, [`Frame::verify_chain`] 35 ns per record. Sealing a frame of one record takes 0.6
//! µs.

use alloc::vec::Vec;
use core::fmt;

use arrayvec::ArrayVec;
use ledger::{Digest, LogIndex, Stamp};

use crate::checksum::crc32c;
use crate::little_endian::{array_at, u16_at, u32_at, u64_at};
pub use crate::torn_write::{SECTOR_BYTES, TrailingZeros};
pub use sealed_payloads::{erase_payloads, open_payloads, seal_payloads, sealed_payloads};

/// Maximum length of a record, in bytes: fields, payload and overhead.
pub const RECORD_BYTES_MAX: usize = 6 << 20;
/// Maximum length of a frame, in bytes, header included.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Maximum number of records in one frame.
pub const FRAME_RECORDS_MAX: u32 = 8_192;
/// Length of a frame's header, in bytes.
pub const FRAME_HEADER_BYTES: usize = 168;
/// Overhead of a record besides its fields and payload, in bytes.
pub const RECORD_OVERHEAD_BYTES: usize = 52;
/// The format version of a log with one node.
pub const FRAME_VERSION: u16 = 2;
/// The format version of a log that several nodes share, and of older logs.
pub const FRAME_VERSION_SHARED: u16 = 1;
/// The format version of an envelope around an encrypted frame.
pub const FRAME_VERSION_ENCRYPTED: u16 = 3;
/// The format version of a frame of [`FRAME_VERSION`] with sealed payloads.
pub const FRAME_VERSION_SEALED: u16 = 4;
/// The format version of a frame of [`FRAME_VERSION_SHARED`] with sealed payloads.
pub const FRAME_VERSION_SHARED_SEALED: u16 = 5;
/// Sealed bytes are this much longer than the plain ones: id of the data key, number of the
/// encryption, authentication tag.
pub const SEAL_BYTES: usize = 8 + 8 + 16;
/// An encrypted frame is this much longer than the frame in it.
pub const ENVELOPE_BYTES: usize = FRAME_HEADER_BYTES + SEAL_BYTES;
/// The number of a node that does not share its log.
pub const STANDALONE_NODE: u32 = 0;
/// Length of the start of a frame, in bytes: the header and the length of the first record. No
/// sector's part of it, up to the end, can consist of zeros.
pub const FRAME_START_BYTES: usize = FRAME_HEADER_BYTES + 4;
/// The first bytes of every frame.
pub const FRAME_MAGIC: [u8; 4] = *b"UpFr";

const _: () = {
    assert!(FRAME_HEADER_BYTES + RECORD_BYTES_MAX <= FRAME_BYTES_MAX);
    assert!(FRAME_RECORDS_MAX as usize * RECORD_OVERHEAD_BYTES <= FRAME_BYTES_MAX);
    assert!(FRAME_BYTES_MAX <= u32::MAX as usize);
    assert!(RECORD_AT_FIELDS + DIGEST_BYTES == RECORD_OVERHEAD_BYTES);
    assert!(AT_HEADER_CRC + 4 == FRAME_HEADER_BYTES);
    // A record's overhead and one more byte always fit into the buffer for the chain.
    assert!(RECORD_OVERHEAD_BYTES < GATHER_BYTES);
};

const AT_VERSION: usize = 4;
const AT_ENDING: usize = 6;
const AT_LENGTH: usize = 8;
const AT_COUNT: usize = 12;
const AT_IDENTITY: usize = 16;
const AT_FIRST: usize = 32;
const AT_DURABLE: usize = 40;
const AT_STAMP: usize = 48;
const AT_WALL: usize = 56;
const AT_SEQUENCE: usize = 64;
const AT_APPLIED: usize = 72;
const AT_NODE: usize = 80;
const AT_EPOCH: usize = 84;
const AT_RULES: usize = 88;
const AT_INSIDE: usize = 92;
const AT_OUTCOME: usize = 96;
const AT_CHAIN: usize = 128;
const AT_BODY_CRC: usize = 160;
const AT_HEADER_CRC: usize = 164;

const RECORD_AT_STATE: usize = 4;
const RECORD_AT_KIND: usize = 8;
const RECORD_AT_VERSION: usize = 10;
const RECORD_AT_FIELDS_LENGTH: usize = 12;
const RECORD_AT_PAYLOAD_LENGTH: usize = 16;
const RECORD_AT_FIELDS: usize = 20;
const DIGEST_BYTES: usize = 32;

const STATE_NONE: u8 = 0;
const STATE_STORED: u8 = 1;
const STATE_ERASED: u8 = 2;
/// Only in frames with sealed payloads.
const STATE_SEALED: u8 = 3;

/// The pieces of the chain are collected up to this many bytes before they are hashed. BLAKE3 is
/// several times faster on long inputs.
const GATHER_BYTES: usize = 16 << 10;
/// The same for a frame of a few records, which needs less stack.
const GATHER_SMALL_BYTES: usize = 2 << 10;

/// The identity of a log: random bytes drawn at its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LogIdentity(pub [u8; 16]);

impl fmt::Display for LogIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The end of a log: everything that the next frame must continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The log's identity.
    pub identity: LogIdentity,
    /// Log index of the last record; 0 for an empty log.
    pub end: LogIndex,
    /// Log index of the last record known durable; at most `end`.
    pub durable: LogIndex,
    /// Stamp of the last frame; 0 for an empty log.
    pub stamp: Stamp,
    /// Chain head after the last frame.
    pub chain: Digest,
}

impl Tail {
    /// The end of an empty log. Its chain head depends on the identity, so that no two logs share a
    /// chain.
    #[must_use]
    pub fn genesis(identity: LogIdentity) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"upesi log, version 1");
        hasher.update(&identity.0);
        let chain = Digest(*hasher.finalize().as_bytes());
        Self { identity, end: LogIndex(0), durable: LogIndex(0), stamp: Stamp(0), chain }
    }

    /// Log index of the next record to be appended.
    #[must_use]
    pub const fn next(&self) -> LogIndex {
        LogIndex(self.end.0 + 1)
    }
}

/// The sequencer's part of a frame header. The rest follows from the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchHeader {
    /// Time of the batch: never before that of the previous batch.
    pub stamp: Stamp,
    /// The node's wall clock when the batch was made.
    pub wall: Stamp,
    /// The node that made the batch; [`STANDALONE_NODE`] if it does not share its log.
    pub node: u32,
    /// The node's epoch: rises with each start.
    pub epoch: u32,
    /// Sequence number of the first record within (node, epoch).
    pub sequence: u64,
    /// The rules version that decides the batch.
    pub rules_version: u32,
    /// Last record applied when the batch was made.
    pub applied: LogIndex,
    /// Digest of the outcomes of the batch that ended at `applied`.
    pub outcome_digest: Digest,
}

/// A validated frame header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Length of the whole frame, in bytes.
    pub length: u32,
    /// Number of records, at least 1.
    pub count: u32,
    /// The log that the frame belongs to.
    pub identity: LogIdentity,
    /// Log index of the first record.
    pub first: LogIndex,
    /// Log index known durable when the frame was sealed: below `first`.
    pub durable: LogIndex,
    /// The sequencer's part.
    pub batch: BatchHeader,
    /// Chain head after this frame.
    pub chain: Digest,
    /// Zeros at the time of sealing; `None` for frames of version 1.
    pub zeros: Option<TrailingZeros>,
    /// Whether this is the envelope of an encrypted frame.
    pub is_encrypted: bool,
    /// Whether payloads may be sealed ([`seal_payloads`]).
    pub has_sealed: bool,
}

impl FrameHeader {
    /// Parses and checks the header at the start of `bytes`, but not the records.
    ///
    /// # Errors
    /// Like [`Frame::parse`], except for the records.
    pub fn parse(bytes: &[u8]) -> Result<Self, FrameError> {
        check_prefix(bytes)?;
        let header = bytes.first_chunk::<FRAME_HEADER_BYTES>().ok_or(FrameError::Short)?;
        if crc32c(&header[..AT_HEADER_CRC]) != u32_at(header, AT_HEADER_CRC) {
            return Err(FrameError::HeaderChecksum);
        }
        let parsed = Self::read(header);
        parsed.check()?;
        let reserved = u16_at(header, AT_ENDING) != 0 || u32_at(header, AT_INSIDE) != 0;
        if parsed.zeros.is_none() && reserved {
            return Err(FrameError::Malformed("a reserved field of the header is not zero"));
        }
        Ok(parsed)
    }

    /// Log index of the last record.
    #[must_use]
    pub const fn last(&self) -> LogIndex {
        LogIndex(self.first.0 + self.count as u64 - 1)
    }

    /// Checks that the frame may follow `tail`, except for the chain's hash, and returns the end of
    /// the log after it.
    ///
    /// # Errors
    /// The first rule of the log that the frame breaks.
    pub fn follows(&self, tail: &Tail) -> Result<Tail, SequenceGap> {
        if self.identity != tail.identity {
            return Err(SequenceGap::Identity { expected: tail.identity, found: self.identity });
        }
        if self.first != tail.next() {
            return Err(SequenceGap::LogIndex { expected: tail.next(), found: self.first });
        }
        if self.batch.stamp < tail.stamp {
            let found = self.batch.stamp;
            return Err(SequenceGap::Stamp { before: tail.stamp, found });
        }
        Ok(Tail { end: self.last(), stamp: self.batch.stamp, chain: self.chain, ..*tail })
    }

    fn read(header: &[u8; FRAME_HEADER_BYTES]) -> Self {
        let zeros =
            TrailingZeros { ending: u16_at(header, AT_ENDING), inside: u32_at(header, AT_INSIDE) };
        let version = u16_at(header, AT_VERSION);
        let has_zeros = ![FRAME_VERSION_SHARED, FRAME_VERSION_SHARED_SEALED].contains(&version);
        Self {
            length: u32_at(header, AT_LENGTH),
            count: u32_at(header, AT_COUNT),
            identity: LogIdentity(array_at(header, AT_IDENTITY)),
            first: LogIndex(u64_at(header, AT_FIRST)),
            durable: LogIndex(u64_at(header, AT_DURABLE)),
            batch: BatchHeader {
                stamp: Stamp(u64_at(header, AT_STAMP)),
                wall: Stamp(u64_at(header, AT_WALL)),
                node: u32_at(header, AT_NODE),
                epoch: u32_at(header, AT_EPOCH),
                sequence: u64_at(header, AT_SEQUENCE),
                rules_version: u32_at(header, AT_RULES),
                applied: LogIndex(u64_at(header, AT_APPLIED)),
                outcome_digest: Digest(array_at(header, AT_OUTCOME)),
            },
            chain: Digest(array_at(header, AT_CHAIN)),
            zeros: has_zeros.then_some(zeros),
            is_encrypted: version == FRAME_VERSION_ENCRYPTED,
            has_sealed: [FRAME_VERSION_SEALED, FRAME_VERSION_SHARED_SEALED].contains(&version),
        }
    }

    fn write(&self, header: &mut [u8]) {
        let version = match (self.is_encrypted, self.has_sealed, self.zeros.is_some()) {
            (true, ..) => FRAME_VERSION_ENCRYPTED,
            (false, false, true) => FRAME_VERSION,
            (false, false, false) => FRAME_VERSION_SHARED,
            (false, true, true) => FRAME_VERSION_SEALED,
            (false, true, false) => FRAME_VERSION_SHARED_SEALED,
        };
        let zeros = self.zeros.unwrap_or_default();
        header[..4].copy_from_slice(&FRAME_MAGIC);
        put(header, AT_VERSION, version.to_le_bytes());
        put(header, AT_ENDING, zeros.ending.to_le_bytes());
        put(header, AT_LENGTH, self.length.to_le_bytes());
        put(header, AT_COUNT, self.count.to_le_bytes());
        put(header, AT_IDENTITY, self.identity.0);
        put(header, AT_FIRST, self.first.0.to_le_bytes());
        put(header, AT_DURABLE, self.durable.0.to_le_bytes());
        put(header, AT_STAMP, self.batch.stamp.0.to_le_bytes());
        put(header, AT_WALL, self.batch.wall.0.to_le_bytes());
        put(header, AT_SEQUENCE, self.batch.sequence.to_le_bytes());
        put(header, AT_APPLIED, self.batch.applied.0.to_le_bytes());
        put(header, AT_NODE, self.batch.node.to_le_bytes());
        put(header, AT_EPOCH, self.batch.epoch.to_le_bytes());
        put(header, AT_RULES, self.batch.rules_version.to_le_bytes());
        put(header, AT_INSIDE, zeros.inside.to_le_bytes());
        put(header, AT_OUTCOME, self.batch.outcome_digest.0);
        put(header, AT_CHAIN, self.chain.0);
    }

    /// Invariants of every header, written or read.
    fn check(&self) -> Result<(), FrameError> {
        let length = self.length as usize;
        let envelope = if self.is_encrypted { ENVELOPE_BYTES } else { 0 };
        let count = self.count as usize;
        let least = count.saturating_mul(RECORD_OVERHEAD_BYTES) + envelope;
        // An envelope may have a frame with sealed payloads.
        let may_be_sealed = self.is_encrypted || self.has_sealed;
        let seals = if may_be_sealed { count.saturating_mul(SEAL_BYTES) } else { 0 };
        if !(1..=FRAME_RECORDS_MAX).contains(&self.count) {
            return Err(FrameError::Malformed("the number of records is out of range"));
        }
        if length < FRAME_HEADER_BYTES + least || FRAME_BYTES_MAX + envelope + seals < length {
            return Err(FrameError::Malformed("the length is out of range"));
        }
        if self.first.0 == 0 || self.first.0.checked_add(u64::from(self.count)).is_none() {
            return Err(FrameError::Malformed("the first log index is out of range"));
        }
        if self.first <= self.durable || self.first <= self.batch.applied {
            return Err(FrameError::Malformed("the durable or applied log index is too high"));
        }
        if self.zeros.is_some_and(|zeros| !zeros.fit(self.length)) {
            return Err(FrameError::Malformed("the zero counts exceed the length"));
        }
        Ok(())
    }
}

/// The reasons why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The bytes end before the frame.
    #[error("the frame is truncated")]
    Short,
    /// The bytes do not start with the magic of a frame.
    #[error("no frame starts here")]
    Magic,
    /// The frame has an unsupported format version.
    #[error("unsupported frame format version {0}")]
    Version(u16),
    /// The header is damaged.
    #[error("the checksum of the frame's header is wrong")]
    HeaderChecksum,
    /// The records are damaged.
    #[error("the checksum of the frame's records is wrong")]
    BodyChecksum,
    /// The frame is encrypted: its records cannot be read as they are stored.
    #[error("the frame is encrypted")]
    Encrypted,
    /// Payloads of the frame are sealed: [`open_payloads`] comes first.
    #[error("payloads of the frame are sealed")]
    Sealed,
    /// The checksums match, but the content is invalid: it was written incorrectly.
    #[error("the frame is malformed: {0}")]
    Malformed(&'static str),
}

/// The reasons why a valid frame cannot continue the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceGap {
    /// The frame belongs to another log.
    #[error("the frame belongs to log {found}, expected {expected}")]
    Identity {
        /// Identity of the log.
        expected: LogIdentity,
        /// Identity in the frame.
        found: LogIdentity,
    },
    /// Records are missing or repeated.
    #[error("the frame starts at log index {}, expected {}", found.0, expected.0)]
    LogIndex {
        /// Log index after the last record.
        expected: LogIndex,
        /// Log index of the frame's first record.
        found: LogIndex,
    },
    /// The frame's stamp is before that of the previous frame.
    #[error("the frame's stamp {} is before the last stamp, {}", found.0, before.0)]
    Stamp {
        /// Stamp of the previous frame.
        before: Stamp,
        /// Stamp of the frame.
        found: Stamp,
    },
    /// The chain head does not match the earlier frames and the content.
    #[error("the hash chain is broken")]
    Chain,
}

/// A record to be encoded.
#[derive(Clone, Copy, Debug)]
pub struct NewRecord<'a> {
    /// The kind of the record.
    pub kind: u16,
    /// Version of the form of `fields`.
    pub version: u16,
    /// The fields that the kernel reads; never erased.
    pub fields: &'a [u8],
    /// The original headers and body, and their [`payload_digest`], which is never zero.
    pub payload: Option<(&'a [u8], Digest)>,
}

impl NewRecord<'_> {
    /// The stored form: one allocation, one copy.
    ///
    /// # Errors
    /// [`RecordTooLarge`] if it would be longer than [`RECORD_BYTES_MAX`].
    ///
    /// # Panics
    /// If the digest of a payload is zero, because it was not computed.
    pub fn encode(&self) -> Result<EncodedRecord, RecordTooLarge> {
        let none = Digest([0; DIGEST_BYTES]);
        let (payload, digest) = self.payload.unwrap_or((&[], none));
        assert!(self.payload.is_none() || digest != none, "a payload comes with its digest");
        let length = self
            .fields
            .len()
            .checked_add(payload.len())
            .and_then(|sum| sum.checked_add(RECORD_OVERHEAD_BYTES))
            .filter(|&length| length <= RECORD_BYTES_MAX)
            .ok_or(RecordTooLarge)?;
        let state = if self.payload.is_some() { STATE_STORED } else { STATE_NONE };
        let mut out = Vec::with_capacity(length);
        out.extend_from_slice(&[0; RECORD_AT_FIELDS]);
        out.extend_from_slice(self.fields);
        out.extend_from_slice(&digest.0);
        out.extend_from_slice(payload);
        let header = (state, self.kind, self.version);
        put_record_header(&mut out, header, self.fields.len(), payload.len());
        Ok(EncodedRecord(out))
    }
}

/// Writes the part before the fields of a whole record.
fn put_record_header(
    record: &mut [u8],
    (state, kind, version): (u8, u16, u16),
    fields: usize,
    payload: usize,
) {
    let length = record.len();
    assert_eq!(length, RECORD_OVERHEAD_BYTES + fields + payload, "the sum of the parts");
    record[..RECORD_AT_STATE].copy_from_slice(&(length as u32).to_le_bytes());
    record[RECORD_AT_STATE..RECORD_AT_KIND].copy_from_slice(&[state, 0, 0, 0]);
    record[RECORD_AT_KIND..RECORD_AT_VERSION].copy_from_slice(&kind.to_le_bytes());
    record[RECORD_AT_VERSION..RECORD_AT_FIELDS_LENGTH].copy_from_slice(&version.to_le_bytes());
    record[RECORD_AT_FIELDS_LENGTH..RECORD_AT_PAYLOAD_LENGTH]
        .copy_from_slice(&(fields as u32).to_le_bytes());
    record[RECORD_AT_PAYLOAD_LENGTH..RECORD_AT_FIELDS]
        .copy_from_slice(&(payload as u32).to_le_bytes());
}

/// BLAKE3 of a payload, for [`NewRecord::payload`].
#[must_use]
pub fn payload_digest(payload: &[u8]) -> Digest {
    Digest(*blake3::hash(payload).as_bytes())
}

/// A record in its stored form, ready for [`FrameBuilder::push`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedRecord(Vec<u8>);

impl EncodedRecord {
    /// Writes a record with a payload in place: the same bytes as [`NewRecord::encode`], without a
    /// copy, and with one allocation if fields and payload have at most `bytes` together.
    ///
    /// # Errors
    /// [`RecordTooLarge`] if it would be longer than [`RECORD_BYTES_MAX`].
    pub fn write(
        (kind, version): (u16, u16),
        bytes: usize,
        write_fields: impl FnOnce(&mut Vec<u8>),
        write_payload: impl FnOnce(&mut Vec<u8>),
    ) -> Result<Self, RecordTooLarge> {
        let mut out = Vec::with_capacity(RECORD_OVERHEAD_BYTES.saturating_add(bytes));
        out.extend_from_slice(&[0; RECORD_AT_FIELDS]);
        write_fields(&mut out);
        let digest_at = out.len();
        out.extend_from_slice(&[0; DIGEST_BYTES]);
        let payload_at = out.len();
        write_payload(&mut out);
        let length = out.len();
        if RECORD_BYTES_MAX < length {
            return Err(RecordTooLarge);
        }
        let digest = payload_digest(&out[payload_at..]);
        out[digest_at..payload_at].copy_from_slice(&digest.0);
        let fields = digest_at - RECORD_AT_FIELDS;
        put_record_header(&mut out, (STATE_STORED, kind, version), fields, length - payload_at);
        Ok(Self(out))
    }

    /// The stored form; never empty.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// A record is longer than [`RECORD_BYTES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record is longer than {RECORD_BYTES_MAX} bytes")]
pub struct RecordTooLarge;

/// The frame has no room for the record. Seal it and start the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame has no room for the record")]
pub struct FrameFull;

/// Collects the records of one batch and seals them into a frame. Meant to be reused: its buffer
/// grows to the largest frame so far, at most [`FRAME_BYTES_MAX`].
#[derive(Debug)]
pub struct FrameBuilder {
    /// Room for the header, then the records.
    bytes: Vec<u8>,
    count: u32,
}

impl Default for FrameBuilder {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameBuilder {
    /// A builder without records.
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: alloc::vec![0; FRAME_HEADER_BYTES], count: 0 }
    }

    /// Number of records.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// Whether there is no record yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Length of the frame if it were sealed now, in bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Removes the records and keeps the buffer.
    pub fn clear(&mut self) {
        self.bytes.truncate(FRAME_HEADER_BYTES);
        self.count = 0;
    }

    /// Appends a record.
    ///
    /// # Errors
    /// [`FrameFull`] if a limit of a frame would be exceeded; nothing changes then. An empty
    /// builder has room for any record.
    pub fn push(&mut self, record: &EncodedRecord) -> Result<(), FrameFull> {
        let fits = self.bytes.len() + record.0.len() <= FRAME_BYTES_MAX;
        if !fits || self.count == FRAME_RECORDS_MAX {
            return Err(FrameFull);
        }
        self.bytes.extend_from_slice(&record.0);
        self.count += 1;
        Ok(())
    }

    /// The records, one after the other.
    #[must_use]
    pub fn records(&self) -> &[u8] {
        &self.bytes[FRAME_HEADER_BYTES..]
    }

    /// Replaces the records.
    ///
    /// # Panics
    /// If they are not `count` valid records that fit into a frame.
    pub fn replace_records(&mut self, records: &[u8], count: u32) {
        assert!(split_records(records, count).is_ok(), "records are checked where they are read");
        assert!(FRAME_HEADER_BYTES + records.len() <= FRAME_BYTES_MAX, "they fit into a frame");
        self.clear();
        self.bytes.extend_from_slice(records);
        self.count = count;
    }

    /// Writes the header, which makes the records the frame after `tail`.
    ///
    /// The records stay, so that the same batch can be sealed again if it could not be appended.
    /// Call [`FrameBuilder::clear`] before the next batch.
    ///
    /// # Panics
    /// Without records, or if `batch` breaks a rule of the log: the stamp is below the last one, or
    /// the applied record is not in the log.
    pub fn seal(&mut self, tail: &Tail, batch: &BatchHeader) -> SealedFrame<'_> {
        assert!(tail.durable <= tail.end, "durable records are in the log");
        let mut header = FrameHeader {
            length: self.bytes.len() as u32,
            count: self.count,
            identity: tail.identity,
            first: tail.next(),
            durable: tail.durable,
            batch: *batch,
            chain: Digest::default(),
            zeros: (batch.node == STANDALONE_NODE).then(|| TrailingZeros::of(self.records())),
            is_encrypted: false,
            has_sealed: false,
        };
        let sound = header.check();
        assert!(sound.is_ok(), "a batch is sealed in order: {sound:?}");
        header.write(&mut self.bytes);
        header.chain = chain_after(&tail.chain, &self.bytes);
        put(&mut self.bytes, AT_CHAIN, header.chain.0);
        write_checksums(&mut self.bytes);
        let after = header.follows(tail).expect("a batch has a stamp at or after the last one");
        debug_assert!(Frame::parse(&self.bytes).is_ok(), "a sealed frame is readable");
        SealedFrame { bytes: &self.bytes, tail: after }
    }
}

/// A sealed frame.
#[derive(Clone, Copy, Debug)]
pub struct SealedFrame<'a> {
    /// The frame, for [`Frame::parse`] and the log.
    pub bytes: &'a [u8],
    /// The end of the log once the frame is appended; `durable` does not change.
    pub tail: Tail,
}

/// A validated view of a frame's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    header: FrameHeader,
    bytes: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Parses the frame at the start of `bytes`; bytes after it are ignored. Checks both checksums
    /// and the structure, but neither the chain nor the digests of payloads.
    ///
    /// # Errors
    /// [`FrameError`] for bytes that [`FrameBuilder::seal`] or [`Frame::erase`] did not write;
    /// never panics and never allocates.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        Self::with_header(FrameHeader::parse(bytes)?, bytes)
    }

    /// [`Frame::parse`] for callers that have parsed the header of these bytes.
    ///
    /// # Errors
    /// Like [`Frame::parse`], except for the header.
    pub fn with_header(header: FrameHeader, bytes: &'a [u8]) -> Result<Self, FrameError> {
        let bytes = bytes.get(..header.length as usize).ok_or(FrameError::Short)?;
        debug_assert!(FrameHeader::parse(bytes) == Ok(header), "it is the header of these bytes");
        if crc32c(&bytes[FRAME_HEADER_BYTES..]) != u32_at(bytes, AT_BODY_CRC) {
            return Err(FrameError::BodyChecksum);
        }
        if header.is_encrypted {
            return Err(FrameError::Encrypted);
        }
        if header.has_sealed {
            return Err(FrameError::Sealed);
        }
        split_records(&bytes[FRAME_HEADER_BYTES..], header.count)?;
        Ok(Self { header, bytes })
    }

    /// The header.
    #[must_use]
    pub const fn header(&self) -> &FrameHeader {
        &self.header
    }

    /// The frame as stored.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Chain head after this frame.
    #[must_use]
    pub const fn chain(&self) -> Digest {
        self.header.chain
    }

    /// The records in order.
    #[must_use]
    pub fn records(&self) -> Records<'a> {
        Records { next: self.header.first, rest: &self.bytes[FRAME_HEADER_BYTES..] }
    }

    /// The record at `log_index`, if it is in this frame. Walks over the records before it.
    #[must_use]
    pub fn record(&self, log_index: LogIndex) -> Option<Record<'a>> {
        let skip = log_index.0.checked_sub(self.header.first.0)?;
        self.records().nth(usize::try_from(skip).ok()?)
    }

    /// Whether the frame's chain head follows from `before`.
    #[must_use]
    pub fn verify_chain(&self, before: &Digest) -> bool {
        chain_after(before, self.bytes) == self.header.chain
    }

    /// Checks that the frame may follow `tail`, including the chain, and returns the end of the log
    /// after it.
    ///
    /// # Errors
    /// The first rule of the log that the frame breaks.
    pub fn follows(&self, tail: &Tail) -> Result<Tail, SequenceGap> {
        let after = self.header.follows(tail)?;
        if self.verify_chain(&tail.chain) { Ok(after) } else { Err(SequenceGap::Chain) }
    }

    /// Appends to `out` the same frame without the payloads that `erase` selects. The chain and all
    /// other bytes stay; lengths and checksums are updated.
    pub fn erase(&self, out: &mut Vec<u8>, mut erase: impl FnMut(&Record<'_>) -> bool) {
        let start = out.len();
        out.extend_from_slice(&self.bytes[..FRAME_HEADER_BYTES]);
        let mut rest = &self.bytes[FRAME_HEADER_BYTES..];
        for record in self.records() {
            let (raw, after) = RawRecord::split(rest).expect("a parsed frame is sound");
            rest = after;
            let stored = matches!(record.payload, Payload::Stored(_));
            if stored && erase(&record) {
                raw.write_erased(out);
            } else {
                out.extend_from_slice(raw.bytes);
            }
        }
        finish_rewritten(&mut out[start..]);
        debug_assert!(Frame::parse(&out[start..]).is_ok(), "an erased frame is readable");
    }
}

/// Appends the encrypted form of a frame to `out`. `seal` appends the sealed form of its second
/// argument to its third one; the first is authenticated.
///
/// # Panics
/// If `frame` is not a frame that was sealed, or already encrypted.
///
/// # Errors
/// The error of `seal`.
pub fn encrypt<E>(
    frame: &[u8],
    out: &mut Vec<u8>,
    seal: impl FnOnce(&[u8], &[u8], &mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let inner = FrameHeader::parse(frame).expect("a sealed frame has a header");
    assert!(!inner.is_encrypted && inner.length as usize == frame.len(), "one plain frame");
    let length = inner.length + ENVELOPE_BYTES as u32;
    let none = Some(TrailingZeros::default());
    let mut outer =
        FrameHeader { length, is_encrypted: true, has_sealed: false, zeros: none, ..inner };
    let start = out.len();
    out.resize(start + FRAME_HEADER_BYTES, 0);
    outer.write(&mut out[start..]);
    let context = envelope_context(&out[start..]);
    seal(&context, frame, out)?;
    let envelope = &mut out[start..];
    assert_eq!(envelope.len(), length as usize, "sealed bytes have a fixed overhead");
    outer.zeros = Some(TrailingZeros::of(&envelope[FRAME_HEADER_BYTES..]));
    outer.write(envelope);
    write_checksums(envelope);
    debug_assert!(FrameHeader::parse(envelope) == Ok(outer), "an envelope is readable");
    Ok(())
}

/// Replaces `out` by the frame in an envelope whose header was parsed. `open` appends the plain
/// form of its second argument to its third one, or fails.
///
/// # Errors
/// [`FrameError`] in the first result for bytes that [`encrypt`] did not write; the error of `open`
/// in the second.
pub fn decrypt<E>(
    outer: &FrameHeader,
    bytes: &[u8],
    out: &mut Vec<u8>,
    open: impl FnOnce(&[u8], &[u8], &mut Vec<u8>) -> Result<(), E>,
) -> Result<Result<(), FrameError>, E> {
    let Some(bytes) = bytes.get(..outer.length as usize) else { return Ok(Err(FrameError::Short)) };
    if crc32c(&bytes[FRAME_HEADER_BYTES..]) != u32_at(bytes, AT_BODY_CRC) {
        return Ok(Err(FrameError::BodyChecksum));
    }
    out.clear();
    open(&envelope_context(bytes), &bytes[FRAME_HEADER_BYTES..], out)?;
    Ok(check_inner(outer, out))
}

fn check_inner(outer: &FrameHeader, frame: &[u8]) -> Result<(), FrameError> {
    let inner = FrameHeader::parse(frame)?;
    let length = inner.length + ENVELOPE_BYTES as u32;
    let envelope =
        FrameHeader { length, is_encrypted: true, has_sealed: false, zeros: outer.zeros, ..inner };
    match envelope == *outer && !inner.is_encrypted {
        true => Ok(()),
        false => Err(FrameError::Malformed("the encrypted frame is not that of its envelope")),
    }
}

/// The authenticated bytes of an envelope's header.
fn envelope_context(header: &[u8]) -> [u8; AT_BODY_CRC] {
    let mut context = array_at(header, 0);
    put(&mut context, AT_ENDING, [0; 2]);
    put(&mut context, AT_INSIDE, [0; 4]);
    context
}

/// A frame that owns its bytes, checked once.
#[derive(Clone, Debug)]
pub struct OwnedFrame {
    header: FrameHeader,
    bytes: Vec<u8>,
}

impl OwnedFrame {
    /// Copies a frame.
    #[must_use]
    pub fn copy(frame: &Frame<'_>) -> Self {
        Self { header: frame.header, bytes: frame.bytes.to_vec() }
    }

    /// The frame, without checking it again.
    #[must_use]
    pub fn view(&self) -> Frame<'_> {
        Frame { header: self.header, bytes: &self.bytes }
    }
}

/// The records of a frame in order.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    next: LogIndex,
    rest: &'a [u8],
}

impl<'a> Records<'a> {
    /// Iterates over valid records, numbered from `next`.
    pub(crate) const fn new(next: LogIndex, rest: &'a [u8]) -> Self {
        Self { next, rest }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (raw, rest) = RawRecord::split(self.rest).expect("a parsed frame is sound");
        let log_index = self.next;
        self.next = LogIndex(log_index.0 + 1);
        self.rest = rest;
        Some(raw.view(log_index))
    }
}

/// One record of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its log index.
    pub log_index: LogIndex,
    /// The kind of the record.
    pub kind: u16,
    /// Version of the form of `fields`.
    pub version: u16,
    /// The fields that the kernel reads.
    pub fields: &'a [u8],
    /// BLAKE3 of the original payload; zero if there never was one.
    pub payload_digest: Digest,
    /// Length of the original payload, in bytes.
    pub payload_length: u32,
    /// The original headers and body.
    pub payload: Payload<'a>,
}

impl Record<'_> {
    /// Whether a stored payload matches its digest. True without a payload.
    #[must_use]
    pub fn verify_payload(&self) -> bool {
        match self.payload {
            Payload::Stored(payload) => payload_digest(payload) == self.payload_digest,
            Payload::None | Payload::Erased => true,
        }
    }

    /// BLAKE3 of the record's log index and chained bytes. Does not change when the payload is
    /// erased.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.log_index.0.to_le_bytes());
        hasher.update(&self.kind.to_le_bytes());
        hasher.update(&self.version.to_le_bytes());
        hasher.update(&(self.fields.len() as u64).to_le_bytes());
        hasher.update(self.fields);
        hasher.update(&self.payload_digest.0);
        hasher.update(&self.payload_length.to_le_bytes());
        Digest(*hasher.finalize().as_bytes())
    }
}

/// The payload of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// The record never had one.
    None,
    /// The original bytes.
    Stored(&'a [u8]),
    /// The payload was erased; its digest and length are still known.
    Erased,
}

/// Length of the frame at the start of `prefix`, in bytes: the number of bytes to read.
///
/// `None` if `prefix` is shorter than a header but matches one so far.
///
/// # Errors
/// Like [`FrameHeader::parse`]. A length is only returned if the header's checksum matches.
pub fn frame_length(prefix: &[u8]) -> Result<Option<usize>, FrameError> {
    match FrameHeader::parse(prefix) {
        Ok(header) => Ok(Some(header.length as usize)),
        Err(FrameError::Short) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The records of a frame that [`Frame::parse`] rejects, as far as they can be separated: none if
/// its header is damaged too. Their content is not verified.
pub fn damaged_records(bytes: &[u8]) -> impl Iterator<Item = Record<'_>> {
    let header = FrameHeader::parse(bytes).ok();
    let body = header.and_then(|header| bytes.get(FRAME_HEADER_BYTES..header.length as usize));
    let mut rest = body.unwrap_or_default();
    (header.map_or(0, |header| header.first.0)..).map_while(move |log_index| {
        let (raw, after) = RawRecord::split(rest).ok()?;
        rest = after;
        Some(raw.view(LogIndex(log_index)))
    })
}

/// Checks that `bytes` are `count` records and nothing else.
pub(crate) fn split_records(bytes: &[u8], count: u32) -> Result<(), FrameError> {
    let mut rest = bytes;
    for _ in 0..count {
        rest = RawRecord::split(rest)?.1;
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(FrameError::Malformed("bytes are left after the last record")),
    }
}

/// The bytes of one record with the checked lengths of its parts.
struct RawRecord<'a> {
    bytes: &'a [u8],
    fields_length: usize,
}

impl<'a> RawRecord<'a> {
    /// Splits one record off the front.
    fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), FrameError> {
        let (raw, rest) = Self::split_up_to(bytes, RECORD_BYTES_MAX)?;
        raw.check_payload()?;
        Ok((raw, rest))
    }

    /// [`RawRecord::split`] of a record whose payload may be sealed.
    fn split_sealed(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), FrameError> {
        let (raw, rest) = Self::split_up_to(bytes, RECORD_BYTES_MAX + SEAL_BYTES)?;
        if !raw.is_sealed() {
            raw.check_payload()?;
        } else if raw.payload().len() != raw.payload_length() + SEAL_BYTES {
            return Err(FrameError::Malformed("a sealed payload does not match its header"));
        }
        Ok((raw, rest))
    }

    /// Without a check of the payload.
    fn split_up_to(bytes: &'a [u8], length_max: usize) -> Result<(Self, &'a [u8]), FrameError> {
        if bytes.len() < RECORD_OVERHEAD_BYTES {
            return Err(FrameError::Malformed("a record is truncated"));
        }
        let length = u32_at(bytes, 0) as usize;
        if length_max < length || bytes.len() < length || length < RECORD_OVERHEAD_BYTES {
            return Err(FrameError::Malformed("the length of a record is out of range"));
        }
        let (bytes, rest) = bytes.split_at(length);
        let fields_length = u32_at(bytes, RECORD_AT_FIELDS_LENGTH) as usize;
        if length - RECORD_OVERHEAD_BYTES < fields_length {
            return Err(FrameError::Malformed("the fields are longer than their record"));
        }
        Ok((Self { bytes, fields_length }, rest))
    }

    /// Length of the original payload.
    fn payload_length(&self) -> usize {
        u32_at(self.bytes, RECORD_AT_PAYLOAD_LENGTH) as usize
    }

    /// The payload as it is stored.
    fn payload(&self) -> &'a [u8] {
        &self.bytes[RECORD_OVERHEAD_BYTES + self.fields_length..]
    }

    fn is_sealed(&self) -> bool {
        self.bytes[RECORD_AT_STATE..RECORD_AT_KIND] == [STATE_SEALED, 0, 0, 0]
    }

    fn check_payload(&self) -> Result<(), FrameError> {
        let (original, stored) = (self.payload_length(), self.payload().len());
        let sound = match self.bytes[RECORD_AT_STATE..RECORD_AT_KIND] {
            [STATE_NONE, 0, 0, 0] => stored == 0 && original == 0,
            [STATE_STORED, 0, 0, 0] => stored == original,
            [STATE_ERASED, 0, 0, 0] => stored == 0,
            _ => false,
        };
        // The chain covers the digest but not the state. This check distinguishes a record that
        // never had a payload from one that lost it.
        let digest: [u8; DIGEST_BYTES] =
            array_at(self.bytes, RECORD_AT_FIELDS + self.fields_length);
        let none = self.bytes[RECORD_AT_STATE] == STATE_NONE;
        if sound && none == (digest == [0; DIGEST_BYTES]) {
            Ok(())
        } else {
            Err(FrameError::Malformed("a payload does not match its header"))
        }
    }

    /// The bytes that the chain covers.
    fn chained(&self) -> &'a [u8] {
        &self.bytes[RECORD_AT_KIND..RECORD_OVERHEAD_BYTES + self.fields_length]
    }

    fn view(&self, log_index: LogIndex) -> Record<'a> {
        let (head, payload) = self.bytes.split_at(RECORD_OVERHEAD_BYTES + self.fields_length);
        let fields_end = RECORD_AT_FIELDS + self.fields_length;
        Record {
            log_index,
            kind: u16_at(head, RECORD_AT_KIND),
            version: u16_at(head, RECORD_AT_VERSION),
            fields: &head[RECORD_AT_FIELDS..fields_end],
            payload_digest: Digest(array_at(head, fields_end)),
            payload_length: u32_at(head, RECORD_AT_PAYLOAD_LENGTH),
            payload: match head[RECORD_AT_STATE] {
                STATE_STORED => Payload::Stored(payload),
                STATE_ERASED => Payload::Erased,
                _ => Payload::None,
            },
        }
    }

    fn write_erased(&self, out: &mut Vec<u8>) {
        self.write_start(STATE_ERASED, 0, out);
    }

    /// Writes everything before a payload of another state and length.
    fn write_start(&self, state: u8, payload: usize, out: &mut Vec<u8>) {
        let length = (RECORD_OVERHEAD_BYTES + self.fields_length + payload) as u32;
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&[state, 0, 0, 0]);
        out.extend_from_slice(self.chained());
    }
}

/// The chain head after the frame in `bytes`, with valid records.
fn chain_after(before: &Digest, bytes: &[u8]) -> Digest {
    match bytes.len() <= GATHER_SMALL_BYTES {
        true => chain_through::<GATHER_SMALL_BYTES>(before, bytes),
        false => chain_through::<GATHER_BYTES>(before, bytes),
    }
}

fn chain_through<const N: usize>(before: &Digest, bytes: &[u8]) -> Digest {
    let mut gather = BufferedHasher::<N>::default();
    gather.add(&before.0);
    gather.add(&bytes[..AT_LENGTH]);
    gather.add(&bytes[AT_COUNT..AT_CHAIN]);
    let mut rest = &bytes[FRAME_HEADER_BYTES..];
    while !rest.is_empty() {
        let (raw, after) = RawRecord::split(rest).expect("only sound records are chained");
        gather.add(raw.chained());
        rest = after;
    }
    gather.finish()
}

/// BLAKE3 over many small pieces. If they fit into the buffer, they are hashed in one call, without
/// the 2 kB hasher state. The buffer is not cleared first, which would cost as much as hashing a
/// small frame.
#[derive(Default)]
struct BufferedHasher<const N: usize> {
    hasher: Option<blake3::Hasher>,
    buffer: ArrayVec<u8, N>,
}

impl<const N: usize> BufferedHasher<N> {
    fn add(&mut self, piece: &[u8]) {
        let room = self.buffer.remaining_capacity();
        if piece.len() <= room {
            self.gather_within(piece);
            return;
        }
        // The buffer is only hashed when full, because whole chunks are fastest.
        let (head, tail) = piece.split_at(room);
        self.gather_within(head);
        let hasher = self.hasher.get_or_insert_with(blake3::Hasher::new);
        hasher.update(&self.buffer);
        let (whole, rest) = tail.split_at(tail.len() - tail.len() % N);
        hasher.update(whole);
        self.buffer.clear();
        self.gather_within(rest);
    }

    /// The caller ensures that there is room.
    fn gather_within(&mut self, piece: &[u8]) {
        self.buffer.try_extend_from_slice(piece).expect("no more than there is room for");
    }

    /// By reference, because moving the buffer costs as much as filling it.
    fn finish(&mut self) -> Digest {
        let hash = match &mut self.hasher {
            None => blake3::hash(&self.buffer),
            Some(hasher) => hasher.update(&self.buffer).finalize(),
        };
        Digest(*hash.as_bytes())
    }
}

/// Checks the first bytes, however few there are.
fn check_prefix(bytes: &[u8]) -> Result<(), FrameError> {
    let magic = bytes.len().min(FRAME_MAGIC.len());
    if bytes[..magic] != FRAME_MAGIC[..magic] {
        return Err(FrameError::Magic);
    }
    if bytes.len() < AT_ENDING {
        return Err(FrameError::Short);
    }
    match u16_at(bytes, AT_VERSION) {
        FRAME_VERSION_SHARED..=FRAME_VERSION_SHARED_SEALED => Ok(()),
        version => Err(FrameError::Version(version)),
    }
}

/// Updates length and checksums after records were replaced.
fn finish_rewritten(frame: &mut [u8]) {
    let length = frame.len() as u32;
    put(frame, AT_LENGTH, length.to_le_bytes());
    write_checksums(frame);
}

fn write_checksums(frame: &mut [u8]) {
    let body = crc32c(&frame[FRAME_HEADER_BYTES..]);
    put(frame, AT_BODY_CRC, body.to_le_bytes());
    let header = crc32c(&frame[..AT_HEADER_CRC]);
    put(frame, AT_HEADER_CRC, header.to_le_bytes());
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

mod sealed_payloads;
#[cfg(test)]
mod tests;
