//! A replay of the log of a running switch, on a thread of its own. It starts from a snapshot, if
//! one is left, and reads final transfers from the cold store of the switch.
//!
//! Costs: the replay from the snapshot, or from the first record. The state is held in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journal::{DurableFrames, RealDisk, TieredDisk};
use ledger::{ApplyStep, LogIndex, State};
use ports::{ColdStore, StopReading};
use record::frame::Tail;
use sequencer::{ColdTier, Quarantine, Replay, ReplayStart};
use tokio::sync::Semaphore;

use crate::inspect::offline::Continue;
use crate::inspect::replay_store::ReplayStore;

/// The log and the snapshots of a running switch.
#[derive(Clone)]
pub(crate) struct ReplaySource {
    pub(crate) disk: TieredDisk<RealDisk>,
    pub(crate) frames: DurableFrames<TieredDisk<RealDisk>>,
    pub(crate) quarantine: Quarantine,
    /// Permits for replays.
    pub(crate) permits: Arc<Semaphore>,
}

/// Maximum number of concurrent replays. Each holds a state in memory.
const REPLAYS_MAX: usize = 1;
/// How long a final transfer stays in the memory of a replay.
const KEEP_FINAL: Duration = Duration::from_secs(1);

impl ReplaySource {
    pub(crate) fn new(
        disk: TieredDisk<RealDisk>,
        frames: DurableFrames<TieredDisk<RealDisk>>,
        quarantine: Quarantine,
    ) -> Self {
        Self { disk, frames, quarantine, permits: Arc::new(Semaphore::new(REPLAYS_MAX)) }
    }
}

/// A replay of a running switch.
pub(crate) struct LiveReplay {
    pub(crate) source: ReplaySource,
    pub(crate) store: Arc<dyn ColdStore>,
    /// Whether the client is gone.
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

impl LiveReplay {
    /// The state of the newest snapshot whose end of the log is wanted, or of an empty log. Blocks
    /// on the disk.
    pub(crate) fn start(&self, wanted: &dyn Fn(&Tail) -> bool) -> Result<Replay, String> {
        let Self { source, store, .. } = self;
        let visible = store.mark().log_index;
        let found = snapshots::find_newest_where(
            &source.disk,
            (&source.frames, Some(visible)),
            wanted,
            &mut || self.check(),
        );
        let start = found.map_err(|error| error.to_string())?.start;
        let state = start.map_or_else(State::new, |start| start.state);
        let store = Box::new(ReplayStore { store: Arc::clone(store) });
        let cold_tier = Some(ColdTier::new(store, KEEP_FINAL).without_decisions());
        let quarantine = source.quarantine.clone();
        Ok(Replay::from(ReplayStart { state, quarantine, cold_tier }))
    }

    /// Applies the durable records after the start. `watch` sees each step; the replay ends after
    /// the batch in which it asks for that. Blocks on the disk.
    pub(crate) fn run(
        &self,
        replay: &mut Replay,
        watch: &mut dyn FnMut(ApplyStep<'_>, &State) -> Continue,
    ) -> Result<(), String> {
        let next = LogIndex(replay.state().log_index().0 + 1);
        let (mut failed, mut stop) = (None, false);
        let read = self.source.frames.replay(next, &mut |frame| {
            self.check()?;
            let applied = replay.apply(frame, &mut |step, state, _| {
                stop |= watch(step, state) == Continue::Stop;
            });
            if let Err(error) = applied {
                failed = Some(error.to_string());
            }
            if failed.is_some() || stop { Err(StopReading) } else { Ok(()) }
        });
        read.map_err(|error| error.to_string())?;
        match failed {
            Some(error) => Err(error),
            None if self.is_cancelled.load(Ordering::Relaxed) => Err("cancelled".into()),
            None => Ok(()),
        }
    }

    fn check(&self) -> Result<(), StopReading> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(StopReading),
            false => Ok(()),
        }
    }
}
