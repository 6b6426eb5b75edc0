//! A log read from end to end: what `verify`, `explain`, `replay`, `what-if` and `restore` have in
//! common. Nothing in the data directory is ever written, made or removed. While one of them reads,
//! no switch can run there; only `what-if` reads beside a switch, as far as the log goes when it
//! begins.

use std::path::Path;

use harness::Progress;
use journal::{LocatedFrame, LogWalk, OpenError, RealDisk, TieredDisk};
use ledger::{LogIndex, State};
use ports::{Disk, DiskError, DiskFile, StopReading};
use record::frame::{FRAME_HEADER_BYTES, frame_length};
use sequencer::{ColdTier, Replay, ReplayStart};

use crate::CliError;
use crate::data::layout::{has_segments, refuse_half, refuse_unfinished};
use crate::operate::quarantine::{self, Entry};

/// A log to be read.
pub(crate) struct OfflineLog {
    disk: TieredDisk<RealDisk>,
    walk: Walk,
    place: String,
    /// Records that operators have set aside.
    pub(crate) quarantined: Vec<Entry>,
}

/// Why a log was not opened.
pub(crate) struct OpenFailure {
    pub(crate) failure: CliError,
    /// What the disk said, if it did.
    pub(crate) error: Option<DiskError>,
}

impl From<CliError> for OpenFailure {
    fn from(failure: CliError) -> Self {
        Self { failure, error: None }
    }
}

impl From<OpenFailure> for CliError {
    fn from(unopened: OpenFailure) -> Self {
        unopened.failure
    }
}

/// [`journal::walk`], or the same beside a switch.
type Walk = fn(
    &TieredDisk<RealDisk>,
    &mut dyn FnMut(&LocatedFrame<'_>) -> Result<(), StopReading>,
) -> Result<LogWalk, OpenError>;

impl OfflineLog {
    pub(crate) fn open(data: &Path) -> Result<Self, OpenFailure> {
        let open = |data: &Path| RealDisk::open_to_read(data).and_then(TieredDisk::open);
        Self::open_with(data, open, journal::walk)
    }

    /// The same beside a switch that may be running there: the log is read as far as it goes now.
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
                    "{error}; use the admin API of the running switch (GET /state, GET \
                     /transfers/ID/explanation), or read a copy of the directory"
                )),
                error => failed(OpenError::from(error.clone()).to_string()),
            },
            error: Some(error),
        })?;
        let quarantined = quarantine::load(&disk).map_err(failed)?;
        Ok(Self { disk, walk, place, quarantined })
    }

    /// The records up to `end` that decide nothing.
    pub(crate) fn quarantined_up_to(&self, end: LogIndex) -> Vec<Entry> {
        self.quarantined.iter().filter(|entry| entry.log_index() <= end).cloned().collect()
    }

    /// The directory, to be read.
    pub(crate) fn disk(&self) -> &TieredDisk<RealDisk> {
        &self.disk
    }

    /// About how many records there are, if that is known.
    pub(crate) fn records_about(&self) -> u64 {
        records_about(&self.disk).unwrap_or(0)
    }

    /// What went wrong, with the directory before it.
    pub(crate) fn failure(&self, what: impl std::fmt::Display) -> CliError {
        CliError::new(format!("{}: {what}", self.place))
    }

    /// What stands where a damaged frame begins, if its header says how long it is.
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

    /// Visits every frame, as [`journal::walk`] says, and shows the progress.
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

    /// Decides the log again until `step` has had enough; the caller feeds each frame to the
    /// replay itself.
    pub(crate) fn replay(
        &self,
        step: &mut dyn FnMut(
            &mut Replay,
            &LocatedFrame<'_>,
        ) -> Result<Continue, sequencer::ReplayError>,
    ) -> Result<(Replay, LogWalk), CliError> {
        self.replay_beside(None, step)
    }

    /// The same with a store for what ends; without one everything stays in memory.
    pub(crate) fn replay_beside(
        &self,
        cold: Option<ColdTier>,
        step: &mut dyn FnMut(
            &mut Replay,
            &LocatedFrame<'_>,
        ) -> Result<Continue, sequencer::ReplayError>,
    ) -> Result<(Replay, LogWalk), CliError> {
        let quarantine = quarantine::of(&self.quarantined);
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

/// About how many records there are: all but those of the last segment. `None` if there is one
/// segment, or if one cannot be read, which a reading of the log then says.
pub(crate) fn records_about(disk: &TieredDisk<RealDisk>) -> Option<u64> {
    let last = disk.segments().ok()?.last()?.first.0;
    last.checked_sub(1).filter(|records| 0 < *records)
}

/// Whether the next frame is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Continue {
    On,
    Stop,
}
