//! Writes one snapshot: of a frozen state, or by a replay from the last snapshot to the end of the
//! log.

use std::sync::Arc;

use journal::DurableFrames;
use ledger::snapshot::{StateSnapshot, StateTables};
use ledger::{LogIndex, State};
use ports::{CipherError, ColdStore, Disk, DiskError, LogError, StopReading, StoreError};
use record::frame::{Frame, Tail};
use sequencer::{ColdTier, Quarantine, Replay, ReplayError};

use crate::files::{self, SnapshotFile, keep_only, list};
use crate::recovery::find_newest;
use crate::{SnapshotStart, Throttle};

/// A snapshot that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenSnapshot {
    /// Its file.
    pub file: SnapshotFile,
    /// Its length, in bytes.
    pub bytes: u64,
    /// Number of records replayed for it.
    pub records: u64,
    /// Older files that could not be used and were removed, each with the reason.
    pub skipped: Vec<String>,
}

/// The reason why no snapshot was written. Existing snapshots are unchanged.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The disk failed.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// There is no data key to encrypt it with.
    #[error(transparent)]
    Encryption(CipherError),
    /// The log cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The log does not replay.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// The cold store cannot be synced.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The state was not frozen in time.
    #[error("snapshot: the switch was too busy to freeze its state")]
    Busy,
    /// The cold store did not catch up in time.
    #[error("snapshot: the cold store has not caught up in time")]
    StoreBehind,
    /// It was cancelled.
    #[error("snapshot: cancelled")]
    Stopped,
}

/// A closed log, for a snapshot while no switch is running.
#[derive(Debug)]
pub struct OfflineSource<'a, D: Disk> {
    /// Its frames.
    pub frames: &'a DurableFrames<D>,
    /// The quarantined records.
    pub quarantine: &'a Quarantine,
}

/// A state that a sequencer has frozen, and the end of its log.
#[derive(Clone, Debug)]
pub struct FrozenState {
    /// The end of the log.
    pub tail: Tail,
    /// The state at that record.
    pub state: StateSnapshot,
}

/// The cold store and the tier through which a replay reads and fills it.
#[derive(Debug)]
pub struct ReplayStore {
    /// The store.
    pub store: Arc<dyn ColdStore>,
    /// The tier.
    pub cold_tier: ColdTier,
}

/// Rows between two calls of the throttle.
const ROWS: usize = 4_096;

/// Stores a frozen state. The log must be durable and the cold store complete at least up to its
/// record. Of the existing files, `before` is kept in addition to the new one. Returns `None` when
/// `before` is a snapshot of this record.
///
/// # Errors
/// [`WriteError`].
pub fn store_frozen(
    disk: &impl Disk,
    mut frozen: FrozenState,
    (store, before): (Option<&dyn ColdStore>, Option<&SnapshotFile>),
    pace: &mut Throttle<'_>,
) -> Result<Option<WrittenSnapshot>, WriteError> {
    if before.is_some_and(|before| before.log_index == frozen.tail.end) {
        return Ok(None);
    }
    if let Some(store) = store {
        assert!(frozen.tail.end <= store.mark().log_index, "the store has what leaves the state");
        store.sync()?;
        while 0 < frozen.state.evict(ROWS) {
            pace().map_err(|StopReading| WriteError::Stopped)?;
        }
    }
    let (file, summary) = files::store(disk, (&frozen.tail, frozen.state.tables()), pace)?;
    let kept = before.into_iter().chain([&file]).map(|file| file.name.as_str());
    keep_only(disk, &kept.collect::<Vec<_>>())?;
    Ok(Some(WrittenSnapshot { file, bytes: summary.bytes, records: 0, skipped: Vec::new() }))
}

/// Takes a snapshot of a closed log. With a cold store, which is then complete up to the same
/// record, it contains only the rows that the store does not have; without one, every row. Returns
/// `None` when there is already a snapshot of the log's end, or the log is empty.
///
/// # Errors
/// [`WriteError`].
pub fn take_offline<D: Disk>(
    disk: &D,
    (source, replay_store): (OfflineSource<'_, D>, Option<ReplayStore>),
    pace: &mut Throttle<'_>,
) -> Result<Option<WrittenSnapshot>, WriteError> {
    let (store, cold_tier) =
        replay_store.map(|replay_store| (replay_store.store, replay_store.cold_tier)).unzip();
    let stored = store.as_ref().map(|store| store.mark().log_index);
    let found = find_newest(disk, source.frames, stored, pace)?;
    if found.stopped {
        return Err(WriteError::Stopped);
    }
    let base = found.start.as_ref().map(|start| start.file.clone());
    let replayed = replay(&source, (found.start, cold_tier), pace)?;
    let Replayed { tail: Some(tail), mut replay } = replayed else { return Ok(None) };
    if let Some(store) = store {
        replay.close()?;
        store.sync()?;
        replay.evict_all();
    }
    let records = replay.records();
    let (file, summary) = files::store(disk, (&tail, replay.state().tables()), pace)?;
    drop(replay);
    let kept = base.iter().chain([&file]).map(|file| file.name.as_str());
    keep_only(disk, &kept.collect::<Vec<_>>())?;
    let skipped = found.skipped;
    Ok(Some(WrittenSnapshot { file, bytes: summary.bytes, records, skipped }))
}

/// Stores a state that was computed elsewhere, if there is no snapshot of its record yet. Other
/// snapshots are kept until the next [`take_offline`].
///
/// # Errors
/// [`WriteError`].
pub fn store_state(
    disk: &impl Disk,
    at: (&Tail, StateTables<'_>),
    pace: &mut Throttle<'_>,
) -> Result<(), WriteError> {
    let log_index = at.0.end;
    if log_index == LogIndex(0) || list(disk)?.iter().any(|file| file.log_index == log_index) {
        return Ok(());
    }
    files::store(disk, at, pace).map(|_| ())
}

struct Replayed {
    /// The end of the log; `None` when there is no record after the start.
    tail: Option<Tail>,
    replay: Replay,
}

/// Replays the log.
fn replay<D: Disk>(
    source: &OfflineSource<'_, D>,
    (start, cold): (Option<SnapshotStart>, Option<ColdTier>),
    pace: &mut Throttle<'_>,
) -> Result<Replayed, WriteError> {
    let state = start.map_or_else(State::new, |start| start.state);
    let next = LogIndex(state.log_index().0 + 1);
    let quarantine = source.quarantine.clone();
    let replay = Replay::from(sequencer::ReplayStart { state, quarantine, cold_tier: cold });
    let mut replayed = Replayed { tail: None, replay };
    let mut failed = None;
    source.frames.replay(next, &mut |frame| {
        let step = replayed.follow(frame).map_err(WriteError::from);
        let paced = step.and_then(|()| pace().map_err(|StopReading| WriteError::Stopped));
        paced.map_err(|error| {
            failed = Some(error);
            StopReading
        })
    })?;
    match failed {
        Some(error) => Err(error),
        None => Ok(replayed),
    }
}

impl Replayed {
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
