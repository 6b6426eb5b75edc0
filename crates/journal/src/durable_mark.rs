//! Records how far the log was durable, in a file next to it.
//!
//! A log that was truncated between two frames looks valid. The file [`MARK`] reveals the
//! truncation: it names a record that was durable. A start refuses a log that ends before it
//! ([`crate::DamageReason::Cut`]), and does not create a new log where one existed.
//!
//! # Guarantees
//! - It never causes a complete log to be refused: a log index is written only after the sync that
//!   made it durable has returned.
//! - It is a hint only: a missing or damaged mark, or one of another log, is ignored. Records that
//!   became durable after the last write, as a rule within the last second, are not covered.
//!
//! # Costs
//! One write of one sector ([`crate::sector`], magic `UpDurabl`, with the log index of a durable
//! record) over itself for each call of [`DurableMarkWriter::note`]. Only the creation of the file
//! is synced. The log's writer does not wait for it.

use ledger::{Digest, LogIndex, Stamp};
use ports::{Disk, DiskError, DiskFile};
use record::frame::{LogIdentity, Tail};

use crate::durable_frames::DurableFrames;
use crate::sector::{Layout, SECTOR_BYTES};

/// Name of the file.
pub const MARK: &str = "durable.mark";

const FORM: Layout = Layout { magic: *b"UpDurabl", version: 1, method: [0; 6] };

/// A record that was durable, and the identity of its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurableMark {
    pub(crate) identity: LogIdentity,
    pub(crate) log_index: LogIndex,
}

/// Writes the durable mark from a thread other than the log's writer.
#[derive(Debug)]
pub struct DurableMarkWriter<D: Disk> {
    disk: D,
    frames: DurableFrames<D>,
    file: Option<D::File>,
    written: LogIndex,
}

impl<D: Disk> DurableMarkWriter<D> {
    /// Creates the writer; nothing is written yet.
    pub fn new(disk: D, frames: DurableFrames<D>) -> Self {
        Self { disk, frames, file: None, written: LogIndex(0) }
    }

    /// Writes the mark if the log is durable further than at the last call.
    ///
    /// # Errors
    /// [`DiskError`]. The log is unaffected, and the next call tries again.
    pub fn note(&mut self) -> Result<(), DiskError> {
        let mark = DurableMark { identity: self.frames.identity(), log_index: self.frames.end() };
        if mark.log_index <= self.written {
            return Ok(());
        }
        match &self.file {
            Some(file) => file.write_at(0, &encode(&mark))?,
            None => self.file = Some(self.begin(&mark)?),
        }
        self.written = mark.log_index;
        Ok(())
    }

    /// The first write is synced, so that later ones change only a sector.
    fn begin(&self, mark: &DurableMark) -> Result<D::File, DiskError> {
        let file = match self.disk.open(MARK) {
            Err(DiskError::NotFound(_)) => self.disk.create(MARK)?,
            opened => opened?,
        };
        file.write_at(0, &encode(mark))?;
        // Removes any earlier content.
        file.truncate(SECTOR_BYTES as u64)?;
        file.sync()?;
        self.disk.sync_directory()?;
        Ok(file)
    }
}

/// Content of the mark of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredMark {
    /// No mark, or one that a crash or a full disk left empty or as zeros.
    Nothing,
    /// The mark was changed in a way that no crash explains.
    Damaged,
    /// This record of this log was durable.
    Durable(LogIdentity, LogIndex),
}

/// Reads the mark of a directory without changing it.
///
/// # Errors
/// [`DiskError`] when it cannot be read.
pub fn read_stored_mark(disk: &impl Disk) -> Result<StoredMark, DiskError> {
    let file = match disk.open(MARK) {
        Err(DiskError::NotFound(_)) => return Ok(StoredMark::Nothing),
        opened => opened?,
    };
    let mut bytes = [0; SECTOR_BYTES];
    let read = file.read_at(0, &mut bytes)?;
    if bytes == [0; SECTOR_BYTES] {
        return Ok(StoredMark::Nothing);
    }
    let sound = read == SECTOR_BYTES && file.length()? == SECTOR_BYTES as u64;
    Ok(match decode(&bytes).filter(|_| sound) {
        Some(DurableMark { identity, log_index }) => StoredMark::Durable(identity, log_index),
        None => StoredMark::Damaged,
    })
}

/// The mark of a directory, if it exists and is valid.
pub(crate) fn read(disk: &impl Disk) -> Result<Option<DurableMark>, DiskError> {
    Ok(match read_stored_mark(disk)? {
        StoredMark::Durable(identity, log_index) => Some(DurableMark { identity, log_index }),
        StoredMark::Nothing | StoredMark::Damaged => None,
    })
}

fn encode(mark: &DurableMark) -> [u8; SECTOR_BYTES] {
    let DurableMark { identity, log_index } = *mark;
    let nowhere = Tail { stamp: Stamp(0), chain: Digest([0; 32]), ..Tail::genesis(identity) };
    FORM.encode(&Tail { end: log_index, ..nowhere })
}

fn decode(bytes: &[u8; SECTOR_BYTES]) -> Option<DurableMark> {
    let Tail { identity, end: log_index, .. } = FORM.decode(bytes).ok()?;
    Some(DurableMark { identity, log_index })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stored form is frozen, and a mark with any flipped bit is ignored.
    #[test]
    fn version_1_is_frozen_and_checked() {
        let mark = DurableMark {
            identity: LogIdentity(*b"identity of test"),
            log_index: LogIndex(0x0102),
        };
        let bytes = encode(&mark);
        let digest = record::frame::payload_digest(&bytes);
        expect_test::expect!["976b66b0b189f071603a8700d1a54ab40adf26c036bfbd40bb5e6fd441ca1897"]
            .assert_eq(&digest.to_string());
        for bit in 0..SECTOR_BYTES * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&flipped), None, "bit {bit}");
        }
    }
}
