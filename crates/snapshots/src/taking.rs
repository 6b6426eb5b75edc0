//! Taking one snapshot: from the last one through the log to the next one.

use std::sync::Arc;

use journal::DurableFrames;
use ledger::{Position, State};
use ports::{ColdStore, Disk, DiskError, LogError, Stop, StoreError};
use record::frame::{Frame, Tail};
use sequencer::{ColdSide, Quarantine, Replay, ReplayError};

use crate::files::{self, SnapshotFile, keep_only, list};
use crate::recovery::newest;
use crate::{Pace, Start};

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
    /// The store beside the kernel cannot be made durable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its pace said so.
    #[error("it was stopped")]
    Stopped,
}

/// What a snapshot is taken of.
#[derive(Debug)]
pub struct Source<'a, D: Disk> {
    /// The log, as far as it is durable.
    pub frames: &'a DurableFrames<D>,
    /// Records that decide nothing.
    pub quarantine: &'a Quarantine,
    /// What rows of ended transfers have left for, while another one writes it.
    pub store: Option<&'a Arc<dyn ColdStore>>,
}

/// Takes a snapshot of the log as far as it is durable, and in the store, now. `None` when there is
/// one already, or no record.
///
/// # Errors
/// [`TakeError`].
pub fn take<D: Disk>(
    disk: &D,
    source: Source<'_, D>,
    pace: &mut dyn Pace,
) -> Result<Option<Taken>, TakeError> {
    let stored = source.store.map(|store| store.mark().position);
    let found = newest(disk, source.frames, stored, pace)?;
    if found.stopped {
        return Err(TakeError::Stopped);
    }
    let base = found.start.as_ref().map(|start| start.file.clone());
    let reached = replay(&source, (found.start, stored), pace)?;
    let Reached { tail: Some(tail), replay } = reached else { return Ok(None) };
    if let Some(store) = source.store {
        store.sync()?;
    }
    let records = replay.records();
    let (file, summary) = files::store(disk, (&tail, replay.state()), pace)?;
    drop(replay);
    let kept = base.iter().chain([&file]).map(|file| file.name.as_str());
    keep_only(disk, &kept.collect::<Vec<_>>())?;
    let passed_over = found.passed_over;
    Ok(Some(Taken { file, bytes: summary.bytes, records, passed_over }))
}

/// Stores a state that somebody else came to, if there is no snapshot of its record yet. Others
/// stay, until the next [`take`].
///
/// # Errors
/// [`TakeError`].
pub fn put(disk: &impl Disk, at: (&Tail, &State), pace: &mut dyn Pace) -> Result<(), TakeError> {
    let position = at.0.end;
    if position == Position(0) || list(disk)?.iter().any(|file| file.position == position) {
        return Ok(());
    }
    files::store(disk, at, pace).map(|_| ())
}

struct Reached {
    /// Where the log stands; `None` when nothing followed the start.
    tail: Option<Tail>,
    replay: Replay,
}

/// Goes through the log, but no further than the store.
fn replay<D: Disk>(
    source: &Source<'_, D>,
    (start, stored): (Option<Start>, Option<Position>),
    pace: &mut dyn Pace,
) -> Result<Reached, TakeError> {
    let state = start.map_or_else(State::new, |start| start.state);
    let next = Position(state.position().0 + 1);
    let quarantine = source.quarantine.clone();
    let cold = source.store.map(|store| ColdSide::onlooker(Arc::clone(store)));
    let replay = Replay::from(sequencer::Start { state, quarantine, cold });
    let mut reached = Reached { tail: None, replay };
    let mut failed = None;
    source.frames.replay(next, &mut |frame| {
        if stored.is_some_and(|stored| stored < frame.header().last()) {
            return Err(Stop);
        }
        let step = reached.follow(frame).map_err(TakeError::from);
        let paced = step.and_then(|()| pace.breathe().map_err(|Stop| TakeError::Stopped));
        paced.map_err(|error| {
            failed = Some(error);
            Stop
        })
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    reached.replay.let_go();
    Ok(reached)
}

impl Reached {
    fn follow(&mut self, frame: &Frame<'_>) -> Result<(), ReplayError> {
        self.replay.apply(frame, &mut |_, _, _| {})?;
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
