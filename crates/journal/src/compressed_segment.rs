//! A closed segment in its compressed form, with random access.
//!
//! The plain file is divided into blocks of [`BLOCK_BYTES`], each compressed separately, so that
//! reading one record decompresses one block. The file is named like the segment, with `.packed`.
//! It is written from beginning to end, so it can be streamed. The trailer is written last and
//! completes the file: a truncated file has none and is always rejected.
//!
//! The header is one sector ([`crate::sector`]) with the magic `UpPacked` and the end of the log
//! before the segment. Its method is a two-byte 1 for zstd frames and four bytes for the plain
//! bytes per block; the last block may be shorter. All numbers are little endian.
//!
//! On a disk with a cipher, the method is 2: the plain file is taken with decrypted frames, and
//! each compressed block is encrypted ([`ports::Cipher`]), so that it compresses like an
//! unencrypted one. Its context has the identity of the log, the first record and the number of the
//! block. Offsets and the hash are those of the file with decrypted frames.
//!
//! The blocks follow without gaps, then an index with 24 bytes per block:
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | length of the compressed block |
//! | 4 | 4 | CRC-32C of the compressed block |
//! | 8 | 8 | first record of the first frame that begins in the block; 0 if none does |
//! | 16 | 8 | offset of that frame in the plain file; 0 without such a frame |
//!
//! The trailer has 128 bytes:
//!
//! | at | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | log index of the last record |
//! | 8 | 8 | stamp of the last frame |
//! | 16 | 32 | chain head after the last frame |
//! | 48 | 8 | length of the plain file, as it was stored |
//! | 56 | 32 | BLAKE3 of the plain file, with decrypted frames |
//! | 88 | 8 | offset of the index |
//! | 96 | 4 | number of blocks |
//! | 100 | 4 | CRC-32C of the index |
//! | 104 | 8 | number of frames |
//! | 112 | 4 | number of encrypted frames in the plain file; zero with method 1 |
//! | 116 | 8 | magic `UpPckEnd` |
//! | 124 | 4 | CRC-32C of the header and of bytes 0 to 123 |
//!
//! # Costs and bounds
//! Compressing reads the plain file twice: once to check every frame with the chain, once to
//! compress. Memory: two blocks and the index, 24 bytes per 256 KiB.

use std::borrow::Cow;
use std::cmp::Ordering;

use ledger::{Digest, LogIndex};
use ports::{Cipher, CipherError, DiskError, DiskFile, Sealer, open_sealed};
use record::checksum::crc32c;
use record::frame::{ENVELOPE_BYTES, SEAL_BYTES, Tail};

use crate::compression::{Compressor, Decompressor};
use crate::scan::{self, Window};
use crate::sector::{self, Layout, SECTOR_BYTES, tail_at, u32_at, u64_at};
use crate::segment::SEGMENT_HEADER_BYTES;

/// Plain bytes per block, except for the last one.
pub const BLOCK_BYTES: usize = 256 << 10;
/// The format version that this code writes.
pub const COMPRESSED_VERSION: u16 = 1;

/// Length of the header, in bytes.
pub(crate) const HEADER_BYTES: usize = SECTOR_BYTES;
/// Length of the trailer, in bytes.
pub(crate) const END_BYTES: usize = 128;
/// Maximum number of blocks of one file: 4 GiB of plain bytes, plus one frame.
const BLOCKS_MAX: u32 = 16_512;
/// Maximum segment length that can be configured, in bytes.
const SEGMENT_BYTES_MAX: u64 = 4 << 30;
const _: () = assert!(SEGMENT_BYTES_MAX < BLOCKS_MAX as u64 * BLOCK_BYTES as u64);

const HEADER: Layout = Layout { magic: *b"UpPacked", version: COMPRESSED_VERSION, method: METHOD };
const SEALED_HEADER: Layout = Layout { method: SEALED_METHOD, ..HEADER };
/// Encrypted zstd, and [`BLOCK_BYTES`].
const SEALED_METHOD: [u8; 6] = [2, 0, 0, 0, 4, 0];
/// zstd, and [`BLOCK_BYTES`].
const METHOD: [u8; 6] = [1, 0, 0, 0, 4, 0];
const _: () = assert!(BLOCK_BYTES == (METHOD[4] as usize) << 16);
const END_MAGIC: [u8; 8] = *b"UpPckEnd";
const AT_END_CRC: usize = END_BYTES - 4;
const ENTRY_BYTES: usize = 24;
/// zstd's default level: higher levels take several times as long for a few percent.
const LEVEL: i32 = 3;

/// Description of a compressed segment, read from its header, index and trailer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentSummary {
    /// The log's tail before the segment.
    pub base: Tail,
    /// The log's tail after the segment.
    pub after: Tail,
    /// Frames in it.
    pub frames: u64,
    /// Length of the plain file as it was stored.
    pub plain_bytes: u64,
    /// Encrypted frames in the plain file, which are decrypted here.
    pub encrypted_frames: u32,
    /// BLAKE3 of the plain file, with decrypted frames.
    pub plain_digest: Digest,
    /// Length of the compressed file.
    pub compressed_bytes: u64,
    /// BLAKE3 of header, index and trailer. It identifies this compressed file, and by the
    /// checksums in the index, every byte of it.
    pub seal: Digest,
}

impl SegmentSummary {
    /// Length of the plain file with decrypted frames.
    #[must_use]
    pub const fn decrypted_bytes(&self) -> u64 {
        self.plain_bytes - self.encrypted_frames as u64 * ENVELOPE_BYTES as u64
    }
}

/// Location of a compressed block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Block {
    pub(crate) offset: u64,
    pub(crate) bytes: u32,
    crc: u32,
}

/// An open compressed segment.
#[derive(Debug)]
pub(crate) struct CompressedSegment {
    pub(crate) contents: SegmentSummary,
    pub(crate) blocks: Vec<Block>,
    /// First record and offset of the first frame in each block that has one.
    pub(crate) starts: Vec<(LogIndex, u64)>,
    /// Whether the blocks are encrypted.
    pub(crate) is_sealed: bool,
}

/// Bytes of a compressed segment.
pub(crate) trait Source {
    /// Reads from `offset`; returns fewer bytes than requested only at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError>;
    /// Its name in messages.
    fn shown(&self) -> String;
}

/// A closed plain segment whose frames were checked before compression.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) base: Tail,
    pub(crate) after: Tail,
    pub(crate) frames: u64,
    pub(crate) plain_bytes: u64,
    /// Encrypted frames.
    pub(crate) encrypted_frames: u32,
    /// As [`CompressedSegment::starts`].
    pub(crate) starts: Vec<(LogIndex, u64)>,
}

impl Checked {
    /// As [`SegmentSummary::decrypted_bytes`].
    pub(crate) fn decrypted_bytes(&self) -> u64 {
        self.plain_bytes - u64::from(self.encrypted_frames) * ENVELOPE_BYTES as u64
    }
}

/// Reads a checked plain segment from beginning to end, with decrypted frames.
pub(crate) struct DecryptedBytes<'a, F> {
    file: &'a F,
    /// Length of the file as it is stored.
    plain_bytes: u64,
    window: Window,
    /// Offset of the next stored byte.
    at: u64,
    /// Bytes that were read but not passed on.
    ready: Vec<u8>,
    is_encrypted: bool,
}

impl<'a, F: DiskFile> DecryptedBytes<'a, F> {
    pub(crate) fn new(file: &'a F, checked: &Checked) -> Self {
        let Checked { plain_bytes, encrypted_frames, .. } = *checked;
        let (window, is_encrypted) = (Window::new(BLOCK_BYTES), 0 < encrypted_frames);
        Self { file, plain_bytes, window, at: 0, ready: Vec::new(), is_encrypted }
    }

    /// Fills the buffer.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<(), DiskError> {
        if !self.is_encrypted {
            read_whole(self.file, self.at, buffer)?;
            self.at += buffer.len() as u64;
            return Ok(());
        }
        while self.ready.len() < buffer.len() {
            self.read_on()?;
        }
        let rest = self.ready.split_off(buffer.len());
        buffer.copy_from_slice(&self.ready);
        self.ready = rest;
        Ok(())
    }

    /// Reads the header of the segment, or the next frame.
    fn read_on(&mut self) -> Result<(), DiskError> {
        if self.at == 0 {
            self.ready.resize(SEGMENT_HEADER_BYTES as usize, 0);
            read_whole(self.file, 0, &mut self.ready)?;
            self.at = SEGMENT_HEADER_BYTES;
            return Ok(());
        }
        let part = scan::Part { file: self.file, limit: self.plain_bytes };
        match scan::frame_at(&mut self.window, part, self.at)? {
            Ok(found) => {
                self.ready.extend_from_slice(found.decrypted);
                self.at += found.stored;
                Ok(())
            }
            Err(_) => Err(has_changed()),
        }
    }
}

/// Compresses a checked segment and passes the bytes on in order.
pub(crate) fn compress<F: DiskFile, E: From<DiskError>>(
    file: &F,
    checked: &Checked,
    out: &mut dyn FnMut(&[u8]) -> Result<(), E>,
) -> Result<SegmentSummary, E> {
    let layout = if file.cipher().is_some() { SEALED_HEADER } else { HEADER };
    let header = layout.encode(&checked.base);
    out(&header)?;
    let mut compressing = SegmentWriter::new(file.cipher(), checked.base)?;
    let mut index = Vec::new();
    let mut bytes = DecryptedBytes::new(file, checked);
    let mut plain = vec![0; BLOCK_BYTES];
    let mut starts = checked.starts.iter().peekable();
    let (mut at, mut written) = (0, HEADER_BYTES as u64);
    while at < checked.decrypted_bytes() {
        let length = (checked.decrypted_bytes() - at).min(BLOCK_BYTES as u64) as usize;
        bytes.fill(&mut plain[..length])?;
        at += length as u64;
        let compressed = compressing.block(&plain[..length])?;
        let start = starts.next_if(|(_, offset)| *offset < at).copied();
        index.extend_from_slice(&encode_entry(&compressed, start));
        out(&compressed)?;
        written += compressed.len() as u64;
    }
    let contents = SegmentSummary {
        base: checked.base,
        after: checked.after,
        frames: checked.frames,
        plain_bytes: checked.plain_bytes,
        encrypted_frames: checked.encrypted_frames,
        plain_digest: Digest(compressing.digest.finalize().into()),
        compressed_bytes: written + (index.len() + END_BYTES) as u64,
        seal: Digest([0; 32]),
    };
    let end = encode_end(&header, &index, &contents);
    out(&index)?;
    out(&end)?;
    Ok(SegmentSummary { seal: seal(&header, &index, &end), ..contents })
}

impl CompressedSegment {
    /// Reads header, index and trailer of a compressed segment of this length.
    pub(crate) fn open(source: &dyn Source, length: u64) -> Result<Self, DiskError> {
        let damage = |offset: u64| move |reason: &str| damaged(source, offset, reason);
        if length < (HEADER_BYTES + END_BYTES) as u64 {
            return Err(damage(0)("the file is shorter than its header and trailer"));
        }
        let mut header = [0; HEADER_BYTES];
        read_source(source, 0, &mut header)?;
        let is_sealed = header[10..16] == SEALED_METHOD;
        let layout = if is_sealed { SEALED_HEADER } else { HEADER };
        let base = layout.decode(&header).map_err(damage(0))?;
        let mut end = [0; END_BYTES];
        let end_at = length - END_BYTES as u64;
        read_source(source, end_at, &mut end)?;
        let (mut contents, stored) = decode_end((&header, base), &end).map_err(damage(end_at))?;
        let index_bytes = stored.blocks as usize * ENTRY_BYTES;
        if stored.at.checked_add((index_bytes + END_BYTES) as u64) != Some(length) {
            return Err(damage(end_at)("the trailer states another length"));
        }
        let mut index = vec![0; index_bytes];
        read_source(source, stored.at, &mut index)?;
        if crc32c(&index) != stored.crc {
            return Err(damage(stored.at)("wrong checksum of the index"));
        }
        let (blocks, starts) = decode_index(&index, stored.at, contents.decrypted_bytes())
            .map_err(damage(stored.at))?;
        (contents.compressed_bytes, contents.seal) = (length, seal(&header, &index, &end));
        Ok(Self { contents, blocks, starts, is_sealed })
    }

    /// Plain bytes of a block.
    fn plain_length(&self, block: usize) -> usize {
        let start = block as u64 * BLOCK_BYTES as u64;
        (self.contents.decrypted_bytes() - start).min(BLOCK_BYTES as u64) as usize
    }

    /// The plain bytes of consecutive blocks, with one read.
    pub(crate) fn read_blocks(
        &self,
        (source, cipher): (&dyn Source, Option<&dyn Cipher>),
        wanted: std::ops::Range<usize>,
    ) -> Result<Vec<Vec<u8>>, DiskError> {
        let blocks = &self.blocks[wanted.clone()];
        let (Some(first), Some(last)) = (blocks.first(), blocks.last()) else {
            return Ok(Vec::new());
        };
        let mut compressed = vec![0; (last.offset + u64::from(last.bytes) - first.offset) as usize];
        read_source(source, first.offset, &mut compressed)?;
        let mut decompressor = Decompressor::new().map_err(no_memory)?;
        let mut plain = Vec::with_capacity(blocks.len());
        for (block, number) in blocks.iter().zip(wanted) {
            let from = (block.offset - first.offset) as usize;
            let bytes = &compressed[from..from + block.bytes as usize];
            check_block(source, block, bytes)?;
            let opened = self.open_block((source, cipher), (number, block), bytes)?;
            let length = self.plain_length(number);
            let decompressed = decompressor.decompress(&opened, length).ok();
            plain.push(decompressed.filter(|plain| plain.len() == length).ok_or_else(|| {
                damaged(source, block.offset, "the block does not decompress to its length")
            })?);
        }
        Ok(plain)
    }

    /// The compressed bytes of a block, decrypted if they are encrypted.
    fn open_block<'a>(
        &self,
        (source, cipher): (&dyn Source, Option<&dyn Cipher>),
        (number, block): (usize, &Block),
        bytes: &'a [u8],
    ) -> Result<Cow<'a, [u8]>, DiskError> {
        if !self.is_sealed {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut opened = Vec::with_capacity(bytes.len());
        let context = block_context(&self.contents.base, number as u64);
        match open_sealed(cipher, &context, bytes, &mut opened) {
            Ok(()) => Ok(Cow::Owned(opened)),
            Err(CipherError::Changed) => Err(damaged(
                source,
                block.offset,
                "the encrypted block was changed or belongs elsewhere",
            )),
            Err(error) => {
                Err(DiskError::Encrypted { file: source.shown(), offset: block.offset, error })
            }
        }
    }

    /// Reads every block and compares its checksum. Opening has checked the other bytes. `see` gets
    /// the length of each block in bytes.
    pub(crate) fn check<E: From<DiskError>>(
        &self,
        source: &dyn Source,
        see: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut bytes = Vec::new();
        for block in &self.blocks {
            bytes.resize(block.bytes as usize, 0);
            read_source(source, block.offset, &mut bytes)?;
            check_block(source, block, &bytes)?;
            see(bytes.len())?;
        }
        Ok(())
    }

    /// Decompresses everything, compares it with the trailer, and passes the plain bytes to `see`
    /// in order.
    pub(crate) fn verify<E: From<DiskError>>(
        &self,
        (source, cipher): (&dyn Source, Option<&dyn Cipher>),
        see: &mut dyn FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut digest = blake3::Hasher::new();
        for block in 0..self.blocks.len() {
            for plain in self.read_blocks((source, cipher), block..block + 1)? {
                digest.update(&plain);
                see(&plain)?;
            }
        }
        if Digest(digest.finalize().into()) != self.contents.plain_digest {
            return Err(damaged(source, None, "the content does not match the trailer").into());
        }
        Ok(())
    }
}

/// State that is shared by all blocks of one compression.
struct SegmentWriter {
    compressor: Compressor<'static>,
    digest: blake3::Hasher,
    sealer: Option<Box<dyn Sealer>>,
    base: Tail,
    /// Number of the next block.
    next: u64,
}

impl SegmentWriter {
    fn new(cipher: Option<&dyn Cipher>, base: Tail) -> Result<Self, DiskError> {
        let compressor = Compressor::new(LEVEL).map_err(no_memory)?;
        let sealer = cipher.map(Cipher::sealer);
        Ok(Self { compressor, digest: blake3::Hasher::new(), sealer, base, next: 0 })
    }

    fn block(&mut self, plain: &[u8]) -> Result<Vec<u8>, DiskError> {
        self.digest.update(plain);
        let compressed = self.compressor.compress(plain).map_err(no_memory)?;
        let Some(sealer) = &mut self.sealer else { return Ok(compressed) };
        let mut sealed = Vec::with_capacity(compressed.len() + SEAL_BYTES);
        let context = block_context(&self.base, self.next);
        self.next += 1;
        let done = sealer.seal(&context, &compressed, &mut sealed);
        done.map(|()| sealed).map_err(|error| DiskError::Failed {
            what: "encrypt a block".into(),
            error: error.to_string(),
        })
    }
}

/// The authenticated context of an encrypted block.
fn block_context(base: &Tail, number: u64) -> Vec<u8> {
    let first = base.next().0;
    let parts: [&[u8]; 4] =
        [b"upesi block", &base.identity.0, &first.to_le_bytes(), &number.to_le_bytes()];
    parts.concat()
}

/// Location of the index.
struct StoredIndex {
    at: u64,
    blocks: u32,
    crc: u32,
}

fn encode_entry(compressed: &[u8], start: Option<(LogIndex, u64)>) -> [u8; ENTRY_BYTES] {
    let (first, offset) = start.unwrap_or((LogIndex(0), 0));
    let mut out = [0; ENTRY_BYTES];
    out[..4].copy_from_slice(&(compressed.len() as u32).to_le_bytes());
    out[4..8].copy_from_slice(&crc32c(compressed).to_le_bytes());
    out[8..16].copy_from_slice(&first.0.to_le_bytes());
    out[16..].copy_from_slice(&offset.to_le_bytes());
    out
}

type Index = (Vec<Block>, Vec<(LogIndex, u64)>);

fn decode_index(index: &[u8], index_at: u64, plain_bytes: u64) -> Result<Index, &'static str> {
    let mut blocks = Vec::with_capacity(index.len() / ENTRY_BYTES);
    let mut starts = Vec::new();
    let mut offset = HEADER_BYTES as u64;
    for entry in index.chunks_exact(ENTRY_BYTES) {
        let block = Block { offset, bytes: u32_at(entry, 0), crc: u32_at(entry, 4) };
        offset += u64::from(block.bytes);
        if index_at < offset {
            return Err("the blocks are longer than the file");
        }
        blocks.push(block);
        let (first, at) = (LogIndex(u64_at(entry, 8)), u64_at(entry, 16));
        if first.0 != 0 {
            if !(SEGMENT_HEADER_BYTES..plain_bytes).contains(&at) {
                return Err("the index points outside the file");
            }
            starts.push((first, at));
        }
    }
    if offset != index_at {
        return Err("the blocks are shorter than the file");
    }
    Ok((blocks, starts))
}

fn encode_end(header: &[u8], index: &[u8], contents: &SegmentSummary) -> [u8; END_BYTES] {
    let mut out = [0; END_BYTES];
    let index_at = contents.compressed_bytes - (index.len() + END_BYTES) as u64;
    out[..8].copy_from_slice(&contents.after.end.0.to_le_bytes());
    out[8..16].copy_from_slice(&contents.after.stamp.0.to_le_bytes());
    out[16..48].copy_from_slice(&contents.after.chain.0);
    out[48..56].copy_from_slice(&contents.plain_bytes.to_le_bytes());
    out[56..88].copy_from_slice(&contents.plain_digest.0);
    out[88..96].copy_from_slice(&index_at.to_le_bytes());
    out[96..100].copy_from_slice(&((index.len() / ENTRY_BYTES) as u32).to_le_bytes());
    out[100..104].copy_from_slice(&crc32c(index).to_le_bytes());
    out[104..112].copy_from_slice(&contents.frames.to_le_bytes());
    out[112..116].copy_from_slice(&contents.encrypted_frames.to_le_bytes());
    out[116..AT_END_CRC].copy_from_slice(&END_MAGIC);
    let crc = end_crc(header, &out);
    out[AT_END_CRC..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes the trailer, without the length and the seal of the whole file.
fn decode_end(
    (header, base): (&[u8], Tail),
    end: &[u8; END_BYTES],
) -> Result<(SegmentSummary, StoredIndex), &'static str> {
    if end[116..AT_END_CRC] != END_MAGIC {
        return Err("the trailer is missing: the file was cut short");
    }
    if end[AT_END_CRC..] != end_crc(header, end).to_le_bytes() {
        return Err("wrong checksum of the trailer");
    }
    let index = StoredIndex { at: u64_at(end, 88), blocks: u32_at(end, 96), crc: u32_at(end, 100) };
    let (plain_bytes, encrypted_frames) = (u64_at(end, 48), u32_at(end, 112));
    let envelopes = u64::from(encrypted_frames) * ENVELOPE_BYTES as u64;
    let decrypted_bytes = plain_bytes
        .checked_sub(envelopes)
        .ok_or("the encrypted frames are longer than the file")?;
    let expected = decrypted_bytes.div_ceil(BLOCK_BYTES as u64);
    if BLOCKS_MAX < index.blocks || u64::from(index.blocks) != expected {
        return Err("the number of blocks does not match the length");
    }
    let contents = SegmentSummary {
        base,
        after: tail_at(base.identity, end),
        frames: u64_at(end, 104),
        plain_bytes,
        encrypted_frames,
        plain_digest: Digest(sector::array_at(end, 56)),
        compressed_bytes: 0,
        seal: Digest([0; 32]),
    };
    Ok((contents, index))
}

fn end_crc(header: &[u8], end: &[u8; END_BYTES]) -> u32 {
    crc32c(&[header, &end[..AT_END_CRC]].concat())
}

fn seal(header: &[u8], index: &[u8], end: &[u8]) -> Digest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(header).update(index).update(end);
    Digest(hasher.finalize().into())
}

const ANOTHER_SEGMENT: &str = "it holds a different segment";
/// An object that was put back.
pub(crate) const BEFORE_ERASURE: &str =
    "it is from before an erasure: it has contents that were erased since";
/// An object of a log that is ahead of this one.
const AFTER_ERASURE: &str =
    "it is from after an erasure: contents of this log were erased there; order that erasure again";

/// The difference of another segment, or of another form of the same records, from a segment with
/// these ends and this decrypted length.
pub(crate) fn other_form(
    (base, after, bytes): (&Tail, &Tail, u64),
    found: &SegmentSummary,
) -> &'static str {
    if (*base, *after) != (found.base, found.after) {
        return ANOTHER_SEGMENT;
    }
    match bytes.cmp(&found.decrypted_bytes()) {
        Ordering::Less => BEFORE_ERASURE,
        Ordering::Equal => ANOTHER_SEGMENT,
        Ordering::Greater => AFTER_ERASURE,
    }
}

pub(crate) fn damaged(
    source: &dyn Source,
    offset: impl Into<Option<u64>>,
    reason: &str,
) -> DiskError {
    let (file, reason) = (source.shown(), reason.to_owned());
    DiskError::Damaged { file, offset: offset.into(), reason }
}

fn check_block(source: &dyn Source, block: &Block, bytes: &[u8]) -> Result<(), DiskError> {
    match crc32c(bytes) == block.crc {
        true => Ok(()),
        false => Err(damaged(source, block.offset, "the checksum of the block is wrong")),
    }
}

fn read_source(source: &dyn Source, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
    match source.read_at(offset, buffer)? {
        read if read == buffer.len() => Ok(()),
        _ => Err(damaged(source, offset, "the file was cut short")),
    }
}

fn read_whole<F: DiskFile>(file: &F, offset: u64, buffer: &mut [u8]) -> Result<(), DiskError> {
    match file.read_at(offset, buffer)? {
        read if read == buffer.len() => Ok(()),
        _ => Err(has_changed()),
    }
}

fn has_changed() -> DiskError {
    DiskError::Failed {
        what: "reread the segment".into(),
        error: "the file has become shorter, or was changed".into(),
    }
}

fn no_memory(error: std::io::Error) -> DiskError {
    DiskError::Failed { what: "compress or decompress a block".into(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use ledger::Stamp;

    use super::*;
    use crate::MemoryDisk;
    use crate::contract::IDENTITY;
    use ports::Disk;

    /// A compressed segment in memory.
    struct Bytes(Vec<u8>);

    impl Source for Bytes {
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
            let rest = &self.0[self.0.len().min(offset as usize)..];
            let read = rest.len().min(buffer.len());
            buffer[..read].copy_from_slice(&rest[..read]);
            Ok(read)
        }

        fn shown(&self) -> String {
            "compressed".into()
        }
    }

    impl Bytes {
        fn open(&self) -> Result<CompressedSegment, DiskError> {
            CompressedSegment::open(self, self.0.len() as u64)
        }

        /// Overwrites bytes of the trailer or header, and recomputes the checksums over them.
        fn forged(mut self, at: Part, offset: usize, bytes: &[u8]) -> Self {
            let end = self.0.len() - END_BYTES;
            let start = if at == Part::End { end } else { 0 };
            self.0[start + offset..start + offset + bytes.len()].copy_from_slice(bytes);
            let crc = crc32c(&self.0[..sector::AT_CRC]).to_le_bytes();
            self.0[sector::AT_CRC..HEADER_BYTES].copy_from_slice(&crc);
            let (before, ending) = self.0.split_at_mut(end);
            let crc = end_crc(&before[..HEADER_BYTES], ending.first_chunk().expect("an end"));
            ending[AT_END_CRC..].copy_from_slice(&crc.to_le_bytes());
            self
        }
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Part {
        Header,
        End,
    }

    /// Compresses a file of `actual` bytes whose length is stated as `stated` bytes.
    fn compress_of(actual: usize, stated: u64) -> Result<(SegmentSummary, Bytes), DiskError> {
        let disk = MemoryDisk::new(1);
        let file = disk.create("plain").expect("creates");
        let plain: Vec<u8> = (0..actual).map(|at| (at * 7 % 251) as u8).collect();
        file.write_at(0, &plain).expect("writes");
        let base = Tail::genesis(IDENTITY);
        let after = Tail { end: LogIndex(3), durable: LogIndex(3), stamp: Stamp(9), ..base };
        let starts = vec![(LogIndex(1), SEGMENT_HEADER_BYTES)];
        let (frames, encrypted_frames) = (2, 0);
        let checked =
            Checked { base, after, frames, plain_bytes: stated, encrypted_frames, starts };
        let mut out = Vec::new();
        let contents = compress::<_, DiskError>(&file, &checked, &mut |bytes| {
            out.extend_from_slice(bytes);
            Ok(())
        })?;
        Ok((contents, Bytes(out)))
    }

    fn compressed_of(bytes: usize) -> (SegmentSummary, Bytes) {
        compress_of(bytes, bytes as u64).expect("compresses")
    }

    #[track_caller]
    fn refused(bytes: &Bytes, length: u64, expected: &str) {
        let Err(DiskError::Damaged { reason, .. }) = CompressedSegment::open(bytes, length) else {
            panic!("{length} bytes are accepted")
        };
        assert_eq!(reason, expected);
    }

    #[test]
    fn compressed_segment_reports_its_content() {
        for length in [1_000, BLOCK_BYTES, 3 * BLOCK_BYTES - 7] {
            let (contents, bytes) = compressed_of(length);
            let opened = bytes.open().expect("sound");
            assert_eq!(opened.contents, contents, "{length}");
            let blocks: usize = opened.blocks.iter().map(|block| block.bytes as usize).sum();
            let around = [&bytes.0[..HEADER_BYTES], &bytes.0[HEADER_BYTES + blocks..]].concat();
            assert_eq!(contents.seal, Digest(blake3::hash(&around).into()), "{length}");
        }
    }

    #[test]
    fn truncated_files_are_rejected() {
        let (_, empty) = compressed_of(0);
        assert_eq!(empty.0.len(), HEADER_BYTES + END_BYTES);
        assert!(empty.open().is_ok(), "nothing but a header and an end");
        let shortest = (HEADER_BYTES + END_BYTES) as u64;
        for length in [0, 1, END_BYTES as u64, HEADER_BYTES as u64, shortest - 1] {
            refused(&empty, length, "the file is shorter than its header and trailer");
        }
        let (_, whole) = compressed_of(1_000);
        let length = whole.0.len();
        refused(&Bytes(whole.0[..length - 1].to_vec()), length as u64, "the file was cut short");
    }

    #[test]
    fn a_plain_file_that_became_shorter_is_not_compressed() {
        let refused = compress_of(1_000, 1_001).map(|(contents, _)| contents);
        assert!(matches!(refused, Err(DiskError::Failed { .. })), "{refused:?}");
    }

    #[test]
    fn other_methods_and_block_lengths_are_rejected() {
        let other_block = (BLOCK_BYTES as u32 + 1).to_le_bytes();
        for (offset, bytes) in [(10, &[9, 0][..]), (12, &other_block)] {
            let forged = compressed_of(1_000).1.forged(Part::Header, offset, bytes);
            let reason = "the header has unsupported fields";
            refused(&forged, forged.0.len() as u64, reason);
        }
    }

    #[test]
    fn the_number_of_blocks_matches_the_length_and_is_bounded() {
        let wrong = "the number of blocks does not match the length";
        let forged = compressed_of(1_000).1.forged(Part::End, 96, &2_u32.to_le_bytes());
        refused(&forged, forged.0.len() as u64, wrong);
        for (blocks, reason) in
            [(BLOCKS_MAX, "the trailer states another length"), (BLOCKS_MAX + 1, wrong)]
        {
            let plain_bytes = (u64::from(blocks) * BLOCK_BYTES as u64).to_le_bytes();
            let forged = compressed_of(1_000).1.forged(Part::End, 48, &plain_bytes);
            let forged = forged.forged(Part::End, 96, &blocks.to_le_bytes());
            refused(&forged, forged.0.len() as u64, reason);
        }
    }
}
