//! Taking one snapshot: of a state that was set aside, or from the last one through the log to the
//! next one.

use std::sync::Arc;

use journal::DurableFrames;
use ledger::snapshot::{StateSnapshot, StateTables};
use ledger::{LogIndex, State};
use ports::{ColdStore, Disk, DiskError, LogError, StopReading, StoreError};
use record::frame::{Frame, Tail};
use sequencer::{ColdTier, Quarantine, Replay, ReplayError};

use crate::files::{self, SnapshotFile, keep_only, list};
use crate::recovery::newest;
use crate::{Pace, SnapshotStart};

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSnapshot {
    /// Its file.
    pub file: SnapshotFile,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Records decided again for it.
    pub records: u64,
    /// Older files that could not be used, each with the reason. They were removed.
    pub passed_over: Vec<String>,
}

/// Why no snapshot was taken. Those that are there are as they were.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
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
    /// The state was not set aside in time.
    #[error("the switch was too busy to set its state aside")]
    Busy,
    /// The store beside the kernel did not come as far in time.
    #[error("the cold store is too far behind")]
    Behind,
    /// Its pace said so.
    #[error("it was stopped")]
    Stopped,
}

/// A log that nobody writes: what a snapshot is taken of when no switch runs.
#[derive(Debug)]
pub struct Source<'a, D: Disk> {
    /// Its frames.
    pub frames: &'a DurableFrames<D>,
    /// Records that decide nothing.
    pub quarantine: &'a Quarantine,
}

/// A state that a sequencer set aside, and where its log stood.
#[derive(Clone, Debug)]
pub struct FrozenState {
    /// Where the log stood.
    pub tail: Tail,
    /// The state there.
    pub state: StateSnapshot,
}

/// The store beside the kernel: itself, and the side of it that a replay reads and fills.
#[derive(Debug)]
pub struct ReplayStore {
    /// The store.
    pub store: Arc<dyn ColdStore>,
    /// The side.
    pub side: ColdTier,
}

/// Rows between two breaths.
const ROWS: usize = 4_096;

/// Stores what was set aside. The log is durable and the store complete up to there at least: of
/// the files that are there, `before` stays beside the new one. `None` when it is of this record.
///
/// # Errors
/// [`WriteError`].
pub fn keep(
    disk: &impl Disk,
    mut aside: FrozenState,
    (store, before): (Option<&dyn ColdStore>, Option<&SnapshotFile>),
    pace: &mut Pace<'_>,
) -> Result<Option<WrittenSnapshot>, WriteError> {
    if before.is_some_and(|before| before.log_index == aside.tail.end) {
        return Ok(None);
    }
    if let Some(store) = store {
        assert!(aside.tail.end <= store.mark().log_index, "the store has what leaves the state");
        store.sync()?;
        while 0 < aside.state.let_go(ROWS) {
            pace().map_err(|StopReading| WriteError::Stopped)?;
        }
    }
    let (file, summary) = files::store(disk, (&aside.tail, aside.state.parts()), pace)?;
    let kept = before.into_iter().chain([&file]).map(|file| file.name.as_str());
    keep_only(disk, &kept.collect::<Vec<_>>())?;
    Ok(Some(WrittenSnapshot { file, bytes: summary.bytes, records: 0, passed_over: Vec::new() }))
}

/// Takes a snapshot of a log that nobody writes. With a store, which is then complete up to there,
/// of the rows that only the state has; without one of every row. `None` when there is one of its
/// end already, or no record.
///
/// # Errors
/// [`WriteError`].
pub fn take<D: Disk>(
    disk: &D,
    (source, beside): (Source<'_, D>, Option<ReplayStore>),
    pace: &mut Pace<'_>,
) -> Result<Option<WrittenSnapshot>, WriteError> {
    let (store, side) = beside.map(|beside| (beside.store, beside.side)).unzip();
    let stored = store.as_ref().map(|store| store.mark().log_index);
    let found = newest(disk, source.frames, stored, pace)?;
    if found.stopped {
        return Err(WriteError::Stopped);
    }
    let base = found.start.as_ref().map(|start| start.file.clone());
    let reached = replay(&source, (found.start, side), pace)?;
    let Reached { tail: Some(tail), mut replay } = reached else { return Ok(None) };
    if let Some(store) = store {
        replay.close()?;
        store.sync()?;
        replay.evict_all();
    }
    let records = replay.records();
    let (file, summary) = files::store(disk, (&tail, replay.state().parts()), pace)?;
    drop(replay);
    let kept = base.iter().chain([&file]).map(|file| file.name.as_str());
    keep_only(disk, &kept.collect::<Vec<_>>())?;
    let passed_over = found.passed_over;
    Ok(Some(WrittenSnapshot { file, bytes: summary.bytes, records, passed_over }))
}

/// Stores a state that somebody else came to, if there is no snapshot of its record yet. Others
/// stay, until the next [`take`].
///
/// # Errors
/// [`WriteError`].
pub fn put(
    disk: &impl Disk,
    at: (&Tail, StateTables<'_>),
    pace: &mut Pace<'_>,
) -> Result<(), WriteError> {
    let log_index = at.0.end;
    if log_index == LogIndex(0) || list(disk)?.iter().any(|file| file.log_index == log_index) {
        return Ok(());
    }
    files::store(disk, at, pace).map(|_| ())
}

struct Reached {
    /// Where the log stands; `None` when nothing followed the start.
    tail: Option<Tail>,
    replay: Replay,
}

/// Goes through the log.
fn replay<D: Disk>(
    source: &Source<'_, D>,
    (start, cold): (Option<SnapshotStart>, Option<ColdTier>),
    pace: &mut Pace<'_>,
) -> Result<Reached, WriteError> {
    let state = start.map_or_else(State::new, |start| start.state);
    let next = LogIndex(state.log_index().0 + 1);
    let quarantine = source.quarantine.clone();
    let replay = Replay::from(sequencer::ReplayStart { state, quarantine, cold });
    let mut reached = Reached { tail: None, replay };
    let mut failed = None;
    source.frames.replay(next, &mut |frame| {
        let step = reached.follow(frame).map_err(WriteError::from);
        let paced = step.and_then(|()| pace().map_err(|StopReading| WriteError::Stopped));
        paced.map_err(|error| {
            failed = Some(error);
            StopReading
        })
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(reached),
    }
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
