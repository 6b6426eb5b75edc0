//! Snapshots as files of a [`Disk`].

use std::fmt;

use ledger::LogIndex;
use ledger::snapshot::StateTables;
use ports::{CipherError, Disk, DiskError, DiskFile, OptionalCipher, StopReading, open_sealed};
use record::frame::{SEAL_BYTES, Tail};
use record::snapshot::{
    BLOCK_BYTES_MAX, BLOCK_HEADER_BYTES, BlockHeader, Snapshot, SnapshotError, SnapshotReader,
    SnapshotSummary, SnapshotWriter,
};

use crate::Throttle;
use crate::writer::WriteError;

/// Number of valid snapshots that are kept.
pub const KEPT: usize = 2;
/// A snapshot is synced after each piece of this many bytes.
pub const SYNC_BYTES: u64 = 4 << 20;

/// Start of an encrypted block, before the length of its sealed form.
const ENCRYPTED_MAGIC: [u8; 4] = *b"UpSe";
const ENCRYPTED_HEADER_BYTES: usize = 8;

const SUFFIX: &str = ".snapshot";
const NAME_DIGITS: usize = 20;
/// The name of an incomplete snapshot.
const NEW_FILE: &str = "snapshot.new";

/// A file that has the name of a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotFile {
    /// The last record it covers, by the file's name.
    pub log_index: LogIndex,
    /// The file's name.
    pub name: String,
}

/// A file that is not a valid snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name} {place}: {reason}", place = ErrorOffset(*.offset))]
pub struct InvalidFile {
    /// The file's name.
    pub name: String,
    /// Start of the invalid block; `None` when the whole file is invalid.
    pub offset: Option<u64>,
    /// The reason.
    pub reason: InvalidFileReason,
}

/// The reason why a file is not a valid snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFileReason {
    /// The content is invalid.
    #[error(transparent)]
    Content(#[from] SnapshotError),
    /// The file cannot be read.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The content is encrypted and cannot be read.
    #[error("{0}")]
    Encrypted(CipherError),
    /// The file name and the content name different records.
    #[error("file name does not match its content (record {})", .0.0)]
    Misnamed(LogIndex),
    /// Reading was cancelled.
    #[error("reading was cancelled")]
    Stopped,
}

struct ErrorOffset(Option<u64>);

impl fmt::Display for ErrorOffset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(offset) => write!(f, "at byte {offset}"),
            None => f.write_str("as a whole"),
        }
    }
}

/// The files of a directory that have the name of a snapshot, newest first.
///
/// # Errors
/// Any [`DiskError`] of listing.
pub fn list(disk: &impl Disk) -> Result<Vec<SnapshotFile>, DiskError> {
    let names = disk.list()?.into_iter();
    let mut found: Vec<_> = names
        .filter_map(|name| Some(SnapshotFile { log_index: log_index_of(&name)?, name }))
        .collect();
    found.sort_by_key(|file| std::cmp::Reverse(file.log_index));
    Ok(found)
}

/// The end of the log when a snapshot was taken. Reads only the first block.
///
/// # Errors
/// [`InvalidFile`].
pub fn origin(disk: &impl Disk, file: &SnapshotFile) -> Result<Tail, InvalidFile> {
    let mut reading = SnapshotFileReader::open(disk, file)?;
    reading.block()?;
    let tail = reading.reader.tail().copied();
    let tail = tail.ok_or_else(|| reading.fault(SnapshotError::Order.into()))?;
    reading.check_name(&tail)?;
    Ok(tail)
}

/// Reads and checks all of a snapshot.
///
/// # Errors
/// [`InvalidFile`].
pub fn load(
    disk: &impl Disk,
    file: &SnapshotFile,
    pace: &mut Throttle<'_>,
) -> Result<Snapshot, InvalidFile> {
    let mut reading = SnapshotFileReader::open(disk, file)?;
    while reading.offset < reading.length {
        reading.block()?;
        pace().map_err(|StopReading| reading.fault(InvalidFileReason::Stopped))?;
    }
    let whole = |reason| InvalidFile { name: file.name.clone(), offset: None, reason };
    let SnapshotFileReader { reader, .. } = reading;
    let snapshot = reader.finish().map_err(|error| whole(error.into()))?;
    match snapshot.tail.end == file.log_index {
        true => Ok(snapshot),
        false => Err(whole(InvalidFileReason::Misnamed(snapshot.tail.end))),
    }
}

/// Stores a snapshot. It is durable when this returns. A failure leaves the other snapshots
/// unchanged.
pub(crate) fn store(
    disk: &impl Disk,
    (tail, state): (&Tail, StateTables<'_>),
    pace: &mut Throttle<'_>,
) -> Result<(SnapshotFile, SnapshotSummary), WriteError> {
    remove_if_exists(disk, NEW_FILE)?;
    let written = write(disk, (tail, state), pace).and_then(|summary| {
        let file = SnapshotFile { log_index: tail.end, name: name_of(tail.end) };
        disk.rename(NEW_FILE, &file.name)?;
        disk.sync_directory()?;
        Ok((file, summary))
    });
    if written.is_err() {
        // The incomplete file may fill the disk. The next attempt removes it if this fails.
        let _removed = disk.remove(NEW_FILE);
    }
    written
}

/// Removes all snapshots but those named.
pub(crate) fn keep_only(disk: &impl Disk, kept: &[&str]) -> Result<(), DiskError> {
    for file in list(disk)? {
        if !kept.contains(&file.name.as_str()) {
            disk.remove(&file.name)?;
        }
    }
    disk.sync_directory()
}

fn write(
    disk: &impl Disk,
    (tail, state): (&Tail, StateTables<'_>),
    pace: &mut Throttle<'_>,
) -> Result<SnapshotSummary, WriteError> {
    let file = disk.create(NEW_FILE)?;
    let (mut length, mut synced) = (0u64, 0u64);
    let mut sealer = disk.cipher().map(|cipher| cipher.sealer());
    let mut sealed = Vec::new();
    let mut store = |block: &[u8]| {
        let stored = match &mut sealer {
            None => block,
            Some(sealer) => {
                let context = context_of(tail.end, length);
                sealed.clear();
                sealed.extend_from_slice(&ENCRYPTED_MAGIC);
                sealed.extend_from_slice(&((block.len() + SEAL_BYTES) as u32).to_le_bytes());
                sealer.seal(&context, block, &mut sealed).map_err(WriteError::Encryption)?;
                &sealed[..]
            }
        };
        file.write_at(length, stored)?;
        length += stored.len() as u64;
        if synced + SYNC_BYTES <= length {
            file.sync()?;
            file.release(synced, length);
            synced = length;
        }
        pace().map_err(|StopReading| WriteError::Stopped)
    };
    let mut writer = SnapshotWriter::new(tail, &mut store)?;
    writer.state(state)?;
    let summary = writer.finish()?;
    file.sync()?;
    file.release(synced, length);
    Ok(SnapshotSummary { bytes: length, ..summary })
}

/// The place of an encrypted block, which is authenticated with it.
fn context_of(log_index: LogIndex, offset: u64) -> Vec<u8> {
    [b"upesi snapshot", &log_index.0.to_le_bytes()[..], &offset.to_le_bytes()].concat()
}

/// A file being read.
struct SnapshotFileReader<F> {
    name: String,
    log_index: LogIndex,
    file: F,
    length: u64,
    offset: u64,
    block: Vec<u8>,
    /// The block, decrypted.
    plain: Vec<u8>,
    cipher: OptionalCipher,
    reader: SnapshotReader,
}

impl<F: DiskFile> SnapshotFileReader<F> {
    fn open<D: Disk<File = F>>(disk: &D, found: &SnapshotFile) -> Result<Self, InvalidFile> {
        let fault = |error: DiskError| {
            let (name, reason) = (found.name.clone(), error.into());
            InvalidFile { name, offset: None, reason }
        };
        let file = disk.open(&found.name).map_err(fault)?;
        let length = file.length().map_err(fault)?;
        Ok(Self {
            name: found.name.clone(),
            log_index: found.log_index,
            file,
            length,
            offset: 0,
            block: Vec::new(),
            plain: Vec::new(),
            cipher: disk.cipher(),
            reader: SnapshotReader::default(),
        })
    }

    /// Reads the next block.
    fn block(&mut self) -> Result<(), InvalidFile> {
        let result = self.try_block();
        result.map_err(|reason| self.fault(reason))
    }

    fn try_block(&mut self) -> Result<(), InvalidFileReason> {
        let mut header = [0; BLOCK_HEADER_BYTES];
        let read = self.file.read_at(self.offset, &mut header)?;
        if header[..read].starts_with(&ENCRYPTED_MAGIC) && ENCRYPTED_HEADER_BYTES <= read {
            return self.try_encrypted_block(&header);
        }
        let length = BlockHeader::parse(&header[..read])?.block_bytes();
        self.block.resize(length, 0);
        let read = self.file.read_at(self.offset, &mut self.block)?;
        self.reader.block(&self.block[..read])?;
        self.offset += length as u64;
        Ok(())
    }

    fn try_encrypted_block(
        &mut self,
        header: &[u8; BLOCK_HEADER_BYTES],
    ) -> Result<(), InvalidFileReason> {
        let length = *header[ENCRYPTED_MAGIC.len()..].first_chunk().expect("a header is longer");
        let length = u32::from_le_bytes(length) as usize;
        if BLOCK_BYTES_MAX + SEAL_BYTES < length {
            return Err(SnapshotError::NoBlock.into());
        }
        self.block.resize(length, 0);
        let start = self.offset + ENCRYPTED_HEADER_BYTES as u64;
        let read = self.file.read_at(start, &mut self.block)?;
        let context = context_of(self.log_index, self.offset);
        self.plain.clear();
        open_sealed(self.cipher.as_deref(), &context, &self.block[..read], &mut self.plain)
            .map_err(InvalidFileReason::Encrypted)?;
        self.reader.block(&self.plain)?;
        self.offset = start + length as u64;
        Ok(())
    }

    fn check_name(&self, tail: &Tail) -> Result<(), InvalidFile> {
        match tail.end == self.log_index {
            true => Ok(()),
            false => Err(self.fault(InvalidFileReason::Misnamed(tail.end))),
        }
    }

    fn fault(&self, reason: InvalidFileReason) -> InvalidFile {
        InvalidFile { name: self.name.clone(), offset: Some(self.offset), reason }
    }
}

fn remove_if_exists(disk: &impl Disk, name: &str) -> Result<(), DiskError> {
    match disk.remove(name) {
        Ok(()) | Err(DiskError::NotFound(_)) => Ok(()),
        Err(error) => Err(error),
    }
}

fn name_of(log_index: LogIndex) -> String {
    format!("{:020}{SUFFIX}", log_index.0)
}

fn log_index_of(name: &str) -> Option<LogIndex> {
    let digits = name.strip_suffix(SUFFIX)?;
    let plain = digits.len() == NAME_DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| digits.parse().ok().map(LogIndex)).flatten()
}
