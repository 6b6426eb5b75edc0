//! Reads a log from end to end, for `verify`, `explain`, `replay`, `what-if` and `restore`. Nothing
//! in the data directory is written, created or removed. A directory lock keeps a switch from
//! running there meanwhile. Only `what-if` takes no lock: it reads the log of a running switch up
//! to its end at the start.

use std::path::Path;

use harness::Progress;
use journal::{LocatedFrame, LogWalk, OpenError, RealDisk, TieredDisk};
use ledger::{LogIndex, State};
use ports::{Disk, DiskError, DiskFile, StopReading};
use record::frame::{FRAME_HEADER_BYTES, frame_length};
use sequencer::{ColdTier, Replay, ReplayStart};

use crate::CliError;
use crate::data::encryption::{Access, unlocked};
use crate::data::layout::{has_segments, refuse_half, refuse_unfinished};
use crate::operate::quarantine::{self, Entry};

/// A log that is opened for reading.
pub(crate) struct OfflineLog {
    disk: TieredDisk<RealDisk>,
    walk: Walk,
    place: String,
    /// Quarantined records.
    pub(crate) quarantined: Vec<Entry>,
}

/// Why a log was not opened.
pub(crate) struct OpenFailure {
    pub(crate) failure: CliError,
    /// The error of the disk, if that is the reason.
    pub(crate) error: Option<DiskError>,
}

impl From<CliError> for OpenFailure {
    fn from(failure: CliError) -> Self {
        Self { failure, error: None }
    }
}

impl From<OpenFailure> for CliError {
    fn from(error: OpenFailure) -> Self {
        error.failure
    }
}

/// [`journal::walk`], or [`journal::walk_live`] for the log of a running switch.
type Walk = fn(
    &TieredDisk<RealDisk>,
    &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
) -> Result<LogWalk, OpenError>;

impl OfflineLog {
    pub(crate) fn open(data: &Path) -> Result<Self, OpenFailure> {
        let open = |data: &Path| RealDisk::open_to_read(data).and_then(TieredDisk::open);
        Self::open_with(data, open, journal::walk)
    }

    /// Opens a log without a lock, because a switch may be running on it. It is read up to its
    /// present end.
    pub(crate) fn open_live(data: &Path) -> Result<Self, OpenFailure> {
        let open = |data: &Path| RealDisk::open_live(data).and_then(TieredDisk::open_live);
        Self::open_with(data, open, journal::walk_live)
    }

    fn open_with(
        data: &Path,
        open: fn(&Path) -> Result<TieredDisk<RealDisk>, DiskError>,
        walk: Walk,
    ) -> Result<Self, OpenFailure> {
        let place = data.display().to_string();
        if !data.is_dir() {
            return Err(CliError::new(format!("{place}: directory not found")).into());
        }
        refuse_half(data)?;
        if !has_segments(data) {
            refuse_unfinished(data)?;
        }
        let failed = |error: String| CliError::new(format!("{place}: {error}"));
        let disk = open(data).map_err(|error| OpenFailure {
            failure: match &error {
                DiskError::InUse(_) => failed(format!(
                    "{error}; ask the running switch with --admin (`upesi explain ID --admin \
                     URL`, or GET /state), or read a copy of the directory"
                )),
                error => failed(OpenError::from(error.clone()).to_string()),
            },
            error: Some(error),
        })?;
        let disk = unlocked(disk, Access::Read)?;
        let quarantined = quarantine::load(&disk).map_err(failed)?;
        Ok(Self { disk, walk, place, quarantined })
    }

    /// The log of a directory that this process owns.
    pub(crate) fn of(disk: TieredDisk<RealDisk>, data: &Path) -> Result<Self, CliError> {
        let place = data.display().to_string();
        let failed = |error: String| CliError::new(format!("{place}: {error}"));
        let quarantined = quarantine::load(&disk).map_err(failed)?;
        Ok(Self { disk, walk: journal::walk, place, quarantined })
    }

    /// The quarantined records up to `end`.
    pub(crate) fn quarantined_up_to(&self, end: LogIndex) -> Vec<Entry> {
        self.quarantined.iter().filter(|entry| entry.log_index() <= end).cloned().collect()
    }

    pub(crate) fn disk(&self) -> &TieredDisk<RealDisk> {
        &self.disk
    }

    /// The approximate number of records; 0 if unknown.
    pub(crate) fn records_about(&self) -> u64 {
        records_about(&self.disk).unwrap_or(0)
    }

    /// An error that names the directory.
    pub(crate) fn failure(&self, what: impl std::fmt::Display) -> CliError {
        CliError::new(format!("{}: {what}", self.place))
    }

    /// The bytes of a damaged frame, if its header has a valid length.
    pub(crate) fn bytes_of_frame(&self, segment: &str, offset: u64) -> Result<Vec<u8>, DiskError> {
        let file = self.disk.open(segment)?;
        let mut header = [0; FRAME_HEADER_BYTES];
        let read = file.read_at(offset, &mut header)?;
        let length = frame_length(&header[..read]).ok().flatten().unwrap_or(0);
        let mut bytes = vec![0; length];
        let read = file.read_at(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// Visits every frame, as [`journal::walk`] does, and shows the progress.
    pub(crate) fn walk(
        &self,
        visit: &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
    ) -> Result<LogWalk, OpenError> {
        let mut progress = Progress::new("records", records_about(&self.disk));
        let walked = (self.walk)(&self.disk, &mut |placed| {
            progress.show(placed.frame.header().last().0);
            visit(placed)
        });
        progress.end();
        walked
    }

    /// Replays the log until `step` stops it. `step` applies each frame.
    pub(crate) fn replay(
        &self,
        step: &mut dyn FnMut(
            &mut Replay,
            &LocatedFrame<'_>,
        ) -> Result<Continue, sequencer::ReplayError>,
    ) -> Result<(Replay, LogWalk), CliError> {
        self.replay_with_store(None, step)
    }

    /// Replays the log with a store for final transfers. Without one, all rows stay in memory.
    pub(crate) fn replay_with_store(
        &self,
        cold: Option<ColdTier>,
        step: &mut dyn FnMut(
            &mut Replay,
            &LocatedFrame<'_>,
        ) -> Result<Continue, sequencer::ReplayError>,
    ) -> Result<(Replay, LogWalk), CliError> {
        let quarantine = quarantine::for_replay(&self.quarantined);
        let mut replay =
            Replay::from(ReplayStart { state: State::new(), quarantine, cold_tier: cold });
        let mut failed = None;
        let walked = self.walk(&mut |placed| match step(&mut replay, placed) {
            Ok(Continue::On) => Ok(()),
            Ok(Continue::Stop) => Err(StopReading),
            Err(error) => {
                let LocatedFrame { segment, offset, .. } = placed;
                failed = Some(format!("{segment} at byte {offset}: {error}"));
                Err(StopReading)
            }
        });
        match (failed, walked) {
            (Some(failed), _) => Err(self.failure(failed)),
            (None, Err(error)) => Err(self.failure(error)),
            (None, Ok(walked)) => Ok((replay, walked)),
        }
    }
}

/// The number of records before the last segment. `None` if there is only one segment, or if one
/// cannot be read, which the reading of the log reports.
pub(crate) fn records_about(disk: &TieredDisk<RealDisk>) -> Option<u64> {
    let last = disk.segments().ok()?.last()?.first.0;
    last.checked_sub(1).filter(|records| 0 < *records)
}

/// Whether to read the next frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continue {
    On,
    Stop,
}
