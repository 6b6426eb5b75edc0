//! Taking one snapshot: from the last one through the log to the next one.

use journal::DurableFrames;
use ledger::{Command, Outcome, Position, State};
use ports::{Disk, DiskError, LogError, Stop};
use record::frame::{Frame, Tail};
use sequencer::{Quarantine, Replay, ReplayError};

use crate::files::{SnapshotFile, keep_only, store};
use crate::recovery::newest;
use crate::{Pace, Parties, Start};

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// Its file.
    pub file: SnapshotFile,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Records replayed for it.
    pub records: u64,
    /// Older files that could not be used, each with the reason. They were removed.
    pub passed_over: Vec<String>,
}

/// Why no snapshot was taken. Those that are there are as they were.
#[derive(Debug, thiserror::Error)]
pub enum TakeError {
    /// The disk did not do as asked.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The log can not be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log does not replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Its pace said so.
    #[error("it was stopped")]
    Stopped,
}

/// Takes a snapshot of the log as far as it is durable now. `None` when there is one already, or
/// no record.
///
/// # Errors
/// [`TakeError`].
pub fn take<D: Disk, P: Parties>(
    disk: &D,
    frames: &DurableFrames<D>,
    quarantine: &Quarantine,
    pace: &mut dyn Pace,
) -> Result<Option<Taken>, TakeError> {
    let found = newest::<D, P>(disk, frames, pace)?;
    if found.stopped {
        return Err(TakeError::Stopped);
    }
    let base = found.start.as_ref().map(|start| start.file.clone());
    let reached = replay(frames, (found.start, quarantine), pace)?;
    let Reached { tail: Some(tail), replay, parties } = reached else { return Ok(None) };
    let records = replay.records();
    let (file, summary) = store(disk, (&tail, replay.state(), &parties), pace)?;
    drop((replay, parties));
    let kept = base.iter().chain([&file]).map(|file| file.name.as_str());
    keep_only(disk, &kept.collect::<Vec<_>>())?;
    let passed_over = found.passed_over;
    Ok(Some(Taken { file, bytes: summary.bytes, records, passed_over }))
}

struct Reached<P> {
    /// Where the log stands; `None` when nothing followed the start.
    tail: Option<Tail>,
    replay: Replay,
    parties: P,
}

fn replay<D: Disk, P: Parties>(
    frames: &DurableFrames<D>,
    (start, quarantine): (Option<Start<P>>, &Quarantine),
    pace: &mut dyn Pace,
) -> Result<Reached<P>, TakeError> {
    let (state, parties) = match start {
        Some(start) => (start.state, start.parties),
        None => (State::new(), P::default()),
    };
    let next = Position(state.position().0 + 1);
    let replay = Replay::from(state, quarantine.clone());
    let mut reached = Reached { tail: None, replay, parties };
    let mut failed = None;
    frames.replay(next, &mut |frame| {
        let step = reached.follow(frame).map_err(TakeError::from);
        let paced = step.and_then(|()| pace.breathe().map_err(|Stop| TakeError::Stopped));
        paced.map_err(|error| {
            failed = Some(error);
            Stop
        })
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(reached),
    }
}

impl<P: Parties> Reached<P> {
    fn follow(&mut self, frame: &Frame<'_>) -> Result<(), ReplayError> {
        self.replay.apply(frame, &mut |_, _, _| {})?;
        let parties = &mut self.parties;
        self.replay.observe(frame, &mut |applied| {
            if let (Command::ChangeParties(change), Outcome::Accepted) =
                (applied.command, applied.outcome)
            {
                parties.apply(change);
            }
        });
        let header = frame.header();
        self.tail = Some(Tail {
            identity: header.identity,
            end: header.last(),
            durable: header.last(),
            stamp: header.batch.stamp,
            chain: frame.chain(),
        });
        Ok(())
    }
}
