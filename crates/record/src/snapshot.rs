//! The stored form of a whole state: a *snapshot*. A start continues from it instead of replaying
//! the log from the first record.
//!
//! # Phases
//! 1. [`SnapshotWriter`] writes a state block by block to a callback.
//! 2. [`BlockHeader::parse`] returns the length of the next stored block; [`SnapshotReader::block`]
//!    checks it and takes its rows; [`SnapshotReader::finish`] returns the state.
//!
//! # Layout, version 4 (all integers little endian)
//! A snapshot is a sequence of blocks, numbered from 0, each with rows of one kind. Kinds are in
//! ascending order; a kind without rows has no block.
//!
//! | at | bytes | field of each block |
//! |---:|---:|---|
//! | 0 | 4 | magic `UpSn` |
//! | 4 | 2 | format version |
//! | 6 | 2 | kind |
//! | 8 | 4 | number of the block |
//! | 12 | 4 | number of rows, at least 1 |
//! | 16 | 4 | length of the rows, in bytes |
//! | 20 | 4 | zero |
//! | 24 | 4 | CRC-32C of the rows |
//! | 28 | 4 | CRC-32C of bytes 0 to 27 |
//! | 32 | n | the rows |
//!
//! | kind | rows |
//! |---:|---|
//! | 1 | origin: identity of the log, log index, stamp and chain head |
//! | 2 | header: the parts of a state that are not tables |
//! | 3 to 7 | accounts, participants, settlement models, oracles, account types |
//! | 8 to 10 | transfers in flight, outflows, final transfers |
//! | 11, 12 | notices owed, dead letters |
//! | 13 to 15 | windows, their sums per account, their sums per pair |
//! | 16, 17 | settlements, their accounts |
//! | 18, 19 | alerts owed, raised alarms |
//! | 20, 21 | fee rules, fees of transfers in flight |
//! | 22 to 24 | roles, operators, tokens of operators |
//! | 25, 26 | kinds of changes that need a second person, proposals |
//! | 27, 28 | enrolments, open bulk transfers |
//! | 29 | recorded quotes |
//! | 30 | recorded transaction requests |
//! | 255 | end: BLAKE3 of all bytes before this block |
//!
//! Version 3 has no kinds 22 to 29, and version 2 no kinds 20 to 29. Version 1 has no kinds 13 to
//! 29, and its header ends before the last two fields, `settlement` and `alerts`, which then have
//! their defaults. All blocks of a snapshot have the same version.
//!
//! The checksums identify the damaged block. The digest at the end proves that all blocks are
//! present and unchanged. The final transfers are those in memory, not all there ever were.
//!
//! # Costs and bounds
//! A block has at most [`BLOCK_BYTES_MAX`] bytes, about [`BLOCK_BYTES`] in practice. Both sides
//! keep one block in memory, and compute one BLAKE3 and one CRC-32C over everything.

use alloc::vec::Vec;

use ledger::field::{Field, FieldError, Reader, Row};
use ledger::snapshot::{
    InvalidState, RowError, StateBuilder, StateHeader, StateTables, Table, TableVisitor,
};
use ledger::{AlertNumbers, Digest, SettlementNumbers, State};

use crate::checksum::crc32c;
use crate::frame::{LogIdentity, Tail};

#[cfg(test)]
mod tests;

/// The format version that this code writes.
pub const SNAPSHOT_VERSION: u16 = 4;
/// The format version without settlement.
const SNAPSHOT_VERSION_FIRST: u16 = 1;
/// Length of a block's header, in bytes.
pub const BLOCK_HEADER_BYTES: usize = 32;
/// Maximum length of a block, in bytes, header included.
pub const BLOCK_BYTES_MAX: usize = 16 << 20;
/// A block is closed once it has this many bytes.
pub const BLOCK_BYTES: usize = 256 << 10;

const MAGIC: [u8; 4] = *b"UpSn";
const AT_CRC: usize = 28;

/// The kinds of blocks without a table ([`Table`] numbers the others).
mod kind {
    pub(super) const ORIGIN: u16 = 1;
    pub(super) const HEAD: u16 = 2;
    pub(super) const END: u16 = 255;
}

/// The reasons why a snapshot is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes are not a block.
    #[error("these bytes are not a snapshot block")]
    NoBlock,
    /// The format version is not supported.
    #[error("unsupported snapshot format version {0}")]
    Version(u16),
    /// The checksum of a block's header is wrong.
    #[error("the checksum of a block's header is wrong")]
    HeaderChecksum,
    /// The checksum of a block's rows is wrong.
    #[error("the checksum of a block's rows is wrong")]
    RowsChecksum,
    /// A block is missing or out of order.
    #[error("a block is missing or out of order")]
    Order,
    /// A row is invalid.
    #[error("invalid row: {0}")]
    Row(#[from] FieldError),
    /// The rows contradict each other.
    #[error("inconsistent rows: {0}")]
    State(#[from] InvalidState),
    /// The digest at the end does not match the content.
    #[error("the digest does not match the content")]
    Digest,
    /// The last block is missing.
    #[error("its last block is missing")]
    Unfinished,
}

impl From<RowError> for SnapshotError {
    fn from(error: RowError) -> Self {
        match error {
            RowError::Field(error) => Self::Row(error),
            RowError::State(error) => Self::State(error),
        }
    }
}

/// Length and digest of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSummary {
    /// Length, in bytes.
    pub bytes: u64,
    /// BLAKE3 of everything but the last block.
    pub digest: Digest,
}

/// Writes a snapshot: [`SnapshotWriter::state`], then [`SnapshotWriter::finish`].
pub struct SnapshotWriter<'a, E> {
    store: &'a mut dyn FnMut(&[u8]) -> Result<(), E>,
    /// The current block, without its header fields.
    block: Vec<u8>,
    kind: u16,
    rows: u32,
    number: u32,
    bytes: u64,
    hasher: blake3::Hasher,
}

impl<'a, E> SnapshotWriter<'a, E> {
    /// Begins a snapshot of the log that ends at `tail`. `store` receives the blocks, one by one.
    ///
    /// # Errors
    /// Those of `store`, like the other methods.
    pub fn new(tail: &Tail, store: &'a mut dyn FnMut(&[u8]) -> Result<(), E>) -> Result<Self, E> {
        let mut writer = Self {
            store,
            block: Vec::new(),
            kind: kind::ORIGIN,
            rows: 0,
            number: 0,
            bytes: 0,
            hasher: blake3::Hasher::new(),
        };
        writer.row(kind::ORIGIN, |out| {
            tail.identity.0.write(out);
            tail.end.write(out);
            tail.stamp.write(out);
            tail.chain.0.write(out);
        })?;
        Ok(writer)
    }

    /// Writes the whole state.
    ///
    /// # Errors
    /// Those of `store`.
    pub fn state(&mut self, parts: StateTables<'_>) -> Result<(), E> {
        self.row(kind::HEAD, |out| parts.header().write(out))?;
        parts.visit(self)
    }

    /// Writes the last block.
    ///
    /// # Errors
    /// Those of `store`.
    pub fn finish(mut self) -> Result<SnapshotSummary, E> {
        self.close()?;
        let digest = Digest(*self.hasher.finalize().as_bytes());
        self.row(kind::END, |out| digest.write(out))?;
        self.close()?;
        Ok(SnapshotSummary { bytes: self.bytes, digest })
    }

    fn row(&mut self, kind: u16, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), E> {
        if self.kind != kind || BLOCK_BYTES <= self.block.len() {
            self.close()?;
            self.kind = kind;
        }
        if self.block.is_empty() {
            self.block.resize(BLOCK_HEADER_BYTES, 0);
        }
        write(&mut self.block);
        self.rows += 1;
        Ok(())
    }

    /// Closes the current block and passes it to `store`.
    fn close(&mut self) -> Result<(), E> {
        if self.rows == 0 {
            return Ok(());
        }
        assert!(self.block.len() <= BLOCK_BYTES_MAX, "no row is as long as a block may be");
        let rows = &self.block[BLOCK_HEADER_BYTES..];
        let header = BlockHeader {
            version: SNAPSHOT_VERSION,
            kind: self.kind,
            number: self.number,
            rows: self.rows,
            length: rows.len() as u32,
            crc: crc32c(rows),
        };
        self.block[..BLOCK_HEADER_BYTES].copy_from_slice(&header.encode());
        self.hasher.update(&self.block);
        (self.store)(&self.block)?;
        self.bytes += self.block.len() as u64;
        self.block.clear();
        self.number += 1;
        self.rows = 0;
        Ok(())
    }
}

impl<E> TableVisitor for SnapshotWriter<'_, E> {
    type Error = E;

    fn table<R: Row>(&mut self, table: Table, rows: impl IntoIterator<Item = R>) -> Result<(), E> {
        rows.into_iter().try_for_each(|row| self.row(table.number(), |out| row.write_row(out)))
    }
}

/// The header of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    version: u16,
    kind: u16,
    number: u32,
    rows: u32,
    length: u32,
    crc: u32,
}

impl BlockHeader {
    /// Parses the header at the start of `bytes`.
    ///
    /// # Errors
    /// [`SnapshotError`] if it is invalid.
    pub fn parse(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let header: &[u8; BLOCK_HEADER_BYTES] =
            bytes.first_chunk().ok_or(SnapshotError::NoBlock)?;
        let mut fields = Reader(header);
        if fields.value::<[u8; 4]>()? != MAGIC {
            return Err(SnapshotError::NoBlock);
        }
        if crc32c(&header[..AT_CRC]).to_le_bytes() != header[AT_CRC..] {
            return Err(SnapshotError::HeaderChecksum);
        }
        let version = fields.value::<u16>()?;
        if !(SNAPSHOT_VERSION_FIRST..=SNAPSHOT_VERSION).contains(&version) {
            return Err(SnapshotError::Version(version));
        }
        let (kind, number) = (fields.value()?, fields.value()?);
        let (rows, length) = (fields.value::<u32>()?, fields.value::<u32>()?);
        let zero = fields.value::<u32>()?;
        let header = Self { version, kind, number, rows, length, crc: fields.value()? };
        let bounded = header.block_bytes() <= BLOCK_BYTES_MAX && 0 < rows && rows <= length;
        if bounded && zero == 0 { Ok(header) } else { Err(SnapshotError::NoBlock) }
    }

    /// Length of the whole block, in bytes; at most [`BLOCK_BYTES_MAX`].
    #[must_use]
    pub const fn block_bytes(&self) -> usize {
        BLOCK_HEADER_BYTES + self.length as usize
    }

    fn encode(&self) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(BLOCK_HEADER_BYTES);
        MAGIC.write(&mut bytes);
        self.version.write(&mut bytes);
        self.kind.write(&mut bytes);
        self.number.write(&mut bytes);
        self.rows.write(&mut bytes);
        self.length.write(&mut bytes);
        0_u32.write(&mut bytes);
        self.crc.write(&mut bytes);
        crc32c(&bytes).write(&mut bytes);
        bytes.try_into().expect("the fields of a header have its length")
    }
}

/// The content of a complete snapshot.
#[derive(Debug)]
pub struct Snapshot {
    /// The end of the log.
    pub tail: Tail,
    /// The state there.
    pub state: State,
    /// Length and digest.
    pub summary: SnapshotSummary,
}

/// Reads a snapshot, block by block.
#[derive(Debug, Default)]
pub struct SnapshotReader {
    tail: Option<Tail>,
    builder: Option<StateBuilder>,
    /// That of the first block.
    version: u16,
    kind: u16,
    number: u32,
    bytes: u64,
    hasher: blake3::Hasher,
    end: Option<SnapshotSummary>,
}

impl SnapshotReader {
    /// The end of the log, once the first block was read.
    #[must_use]
    pub const fn tail(&self) -> Option<&Tail> {
        self.tail.as_ref()
    }

    /// Whether the last block was read.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.end.is_some()
    }

    /// Takes the next block, without bytes after it.
    ///
    /// # Errors
    /// [`SnapshotError`]; the reader cannot continue after it.
    pub fn block(&mut self, bytes: &[u8]) -> Result<(), SnapshotError> {
        let header = BlockHeader::parse(bytes)?;
        let rows = &bytes[BLOCK_HEADER_BYTES..];
        if header.block_bytes() != bytes.len() {
            return Err(SnapshotError::NoBlock);
        }
        if crc32c(rows) != header.crc {
            return Err(SnapshotError::RowsChecksum);
        }
        // One origin and one header, in this order, and nothing after the end.
        let follows = match header.kind {
            kind::ORIGIN => self.number == 0,
            kind::HEAD => self.kind == kind::ORIGIN,
            kind => self.builder.is_some() && self.kind <= kind && self.end.is_none(),
        };
        let is_same = header.version == self.version || self.number == 0;
        if !follows || !is_same || header.number != self.number {
            return Err(SnapshotError::Order);
        }
        self.version = header.version;
        self.kind = header.kind;
        self.number += 1;
        if header.kind != kind::END {
            self.hasher.update(bytes);
        }
        self.bytes += bytes.len() as u64;
        self.rows(&header, Reader(rows))
    }

    /// Returns the state, once the last block was read.
    ///
    /// # Errors
    /// [`SnapshotError::Unfinished`] before that, [`SnapshotError::State`] if the rows contradict
    /// each other.
    pub fn finish(self) -> Result<Snapshot, SnapshotError> {
        let (Some(tail), Some(builder), Some(summary)) = (self.tail, self.builder, self.end) else {
            return Err(SnapshotError::Unfinished);
        };
        let state = builder.finish()?;
        if state.log_index() != tail.end || state.stamp() != tail.stamp {
            return Err(InvalidState("the state differs from the log index of the snapshot").into());
        }
        Ok(Snapshot { tail, state, summary })
    }

    fn rows(&mut self, header: &BlockHeader, mut reader: Reader<'_>) -> Result<(), SnapshotError> {
        for _ in 0..header.rows {
            match (header.kind, &mut self.builder) {
                (kind::ORIGIN, _) if self.tail.is_none() => {
                    self.tail = Some(read_origin(&mut reader)?);
                }
                (kind::HEAD, None) => {
                    let head = match header.version {
                        SNAPSHOT_VERSION_FIRST => read_head_without_settlement(&mut reader)?,
                        _ => reader.value()?,
                    };
                    self.builder = Some(StateBuilder::new(head)?);
                }
                (kind::END, _) if self.end.is_none() => {
                    let digest = Digest(*self.hasher.finalize().as_bytes());
                    if reader.value::<Digest>()? != digest {
                        return Err(SnapshotError::Digest);
                    }
                    self.end = Some(SnapshotSummary { bytes: self.bytes, digest });
                }
                (kind, Some(builder)) => {
                    let table = Table::from_number(kind).ok_or(FieldError::Value)?;
                    builder.row(table, &mut reader)?;
                }
                _ => return Err(SnapshotError::Order),
            }
        }
        Ok(reader.end()?)
    }
}

/// Reads the header of version 1, which is alone in its block.
fn read_head_without_settlement(reader: &mut Reader<'_>) -> Result<StateHeader, FieldError> {
    let mut bytes = reader.take(reader.0.len())?.to_vec();
    SettlementNumbers::default().write(&mut bytes);
    AlertNumbers::default().write(&mut bytes);
    let mut whole = Reader(&bytes);
    let head = whole.value()?;
    whole.end()?;
    Ok(head)
}

fn read_origin(reader: &mut Reader<'_>) -> Result<Tail, FieldError> {
    let (identity, end) = (LogIdentity(reader.value()?), reader.value()?);
    let (stamp, chain) = (reader.value()?, Digest(reader.value()?));
    Ok(Tail { identity, end, durable: end, stamp, chain })
}
