//! How far the log once was durable, noted beside it.
//!
//! A log whose end an outside hand cuts off between two frames is sound, only shorter. The file
//! [`MARK`] tells the difference: it names a record that was durable, and a start that finds a log
//! ending before it refuses ([`crate::DamageReason::Cut`]). A start that would make a log where one
//! was refuses as well.
//!
//! # Promises
//! - It never refuses a log that lacks nothing: a position is written down only after the sync
//!   that made it durable has returned.
//! - It promises nothing by itself: a mark that is missing, damaged, or of another log says
//!   nothing. What was durable after the last note, a second ago as a rule, is not covered.
//!
//! # Costs
//! One write of one sector ([`crate::sector`], magic `UpDurabl`, with the position of a durable
//! record), over itself, by whoever calls [`DurableMarkWriter::note`], and no sync but when the
//! file is made: the writer of the log neither waits for it nor knows of it.

use ledger::{Digest, LogIndex, Stamp};
use ports::{Disk, DiskError, DiskFile};
use record::frame::{LogIdentity, Tail};

use crate::durable_frames::DurableFrames;
use crate::sector::{Layout, SECTOR_BYTES};

/// Name of the file.
pub const MARK: &str = "durable.mark";

const FORM: Layout = Layout { magic: *b"UpDurabl", version: 1, method: [0; 6] };

/// A record that was durable, and of which log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DurableMark {
    pub(crate) identity: LogIdentity,
    pub(crate) log_index: LogIndex,
}

/// Notes how far a log is durable, from another thread than the one that writes it.
#[derive(Debug)]
pub struct DurableMarkWriter<D: Disk> {
    disk: D,
    frames: DurableFrames<D>,
    file: Option<D::File>,
    noted: LogIndex,
}

impl<D: Disk> DurableMarkWriter<D> {
    /// Nothing is written yet.
    pub fn new(disk: D, frames: DurableFrames<D>) -> Self {
        Self { disk, frames, file: None, noted: LogIndex(0) }
    }

    /// Notes how far the log is durable now, if that is further than before.
    ///
    /// # Errors
    /// [`DiskError`]; the log is not touched by that, and the next call tries again.
    pub fn note(&mut self) -> Result<(), DiskError> {
        let mark = DurableMark { identity: self.frames.identity(), log_index: self.frames.end() };
        if mark.log_index <= self.noted {
            return Ok(());
        }
        match &self.file {
            Some(file) => file.write_at(0, &encode(&mark))?,
            None => self.file = Some(self.begin(&mark)?),
        }
        self.noted = mark.log_index;
        Ok(())
    }

    /// The first note is synced, so that the later ones change nothing but a sector.
    fn begin(&self, mark: &DurableMark) -> Result<D::File, DiskError> {
        let file = match self.disk.open(MARK) {
            Err(DiskError::NotFound(_)) => self.disk.create(MARK)?,
            opened => opened?,
        };
        file.write_at(0, &encode(mark))?;
        // Whatever was there before.
        file.truncate(SECTOR_BYTES as u64)?;
        file.sync()?;
        self.disk.sync_directory()?;
        Ok(file)
    }
}

/// What the mark of a directory says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredMark {
    /// There is none, or a crash or a full disk left the first one empty, or zeros.
    Nothing,
    /// It is not what was written, which no crash explains.
    Damaged,
    /// This record of this log was durable.
    Durable(LogIdentity, LogIndex),
}

/// What the mark of a directory says; nothing is changed.
///
/// # Errors
/// [`DiskError`] when it cannot be read.
pub fn noted(disk: &impl Disk) -> Result<StoredMark, DiskError> {
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

/// The mark of a directory, if there is one that can be read.
pub(crate) fn read(disk: &impl Disk) -> Result<Option<DurableMark>, DiskError> {
    Ok(match noted(disk)? {
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

    /// The stored form is a promise; and a mark with any bit flipped says nothing.
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
