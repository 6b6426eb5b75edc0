//! Decides the durable log again and makes its events.

use std::sync::Arc;
use std::time::Duration;

use events::{Event, EventRecorder};
#[cfg(feature = "kafka")]
use ledger::Stamp;
use ledger::{Digest, LogIndex, State};
use ports::{ColdStore, StopReading};
use record::frame::Tail;
use sequencer::{ColdTier, Replay, ReplayStart};

use crate::inspect::live_replay::ReplaySource;
use crate::inspect::replay_store::ReplayStore;

/// Time that a final transfer stays in the memory of a reader.
const KEEP_FINAL: Duration = Duration::from_secs(1);

/// The log of a running switch.
#[derive(Clone)]
pub(crate) struct EventSource {
    pub(crate) log: ReplaySource,
    pub(crate) store: Arc<dyn ColdStore>,
}

/// Why no more events can be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventsError {
    /// The requester is gone, or the switch stops.
    #[error("cancelled")]
    Cancelled,
    #[error("{0}")]
    Failed(String),
}

/// Whether a visitor of events continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    Continue,
    Stop,
}

/// A state between two batches, and the recorder of its events.
pub(crate) struct EventReplay {
    source: EventSource,
    replay: Replay,
    recorder: EventRecorder,
    /// The chain head after the last batch that was read; zeros before the first.
    chain: Digest,
}

impl EventReplay {
    /// A replay from the newest snapshot that ends at `after` or before it.
    pub(crate) fn open(
        source: &EventSource,
        after: LogIndex,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Result<Self, EventsError> {
        let ReplaySource { disk, frames, quarantine, .. } = &source.log;
        let visible = source.store.mark().log_index;
        let wanted = move |tail: &Tail| tail.end <= after;
        let found =
            snapshots::find_newest_where(disk, (frames, Some(visible)), &wanted, &mut || {
                if is_cancelled() { Err(StopReading) } else { Ok(()) }
            });
        let found = found.map_err(|error| EventsError::Failed(error.to_string()))?;
        if found.stopped {
            return Err(EventsError::Cancelled);
        }
        let state = found.start.map_or_else(State::new, |start| start.state);
        let recorder = EventRecorder::new(&state);
        let store = Box::new(ReplayStore { store: Arc::clone(&source.store) });
        let cold_tier = Some(ColdTier::new(store, KEEP_FINAL).without_decisions());
        let start = ReplayStart { state, quarantine: quarantine.clone(), cold_tier };
        let chain = Digest::default();
        Ok(Self { source: source.clone(), replay: Replay::from(start), recorder, chain })
    }

    /// The last record that was decided.
    pub(crate) fn log_index(&self) -> LogIndex {
        self.replay.state().log_index()
    }

    /// The chain head after it, once a batch was read.
    #[cfg(feature = "kafka")]
    pub(crate) const fn chain(&self) -> Digest {
        self.chain
    }

    /// Its time.
    #[cfg(feature = "kafka")]
    pub(crate) fn stamp(&self) -> Stamp {
        self.replay.state().stamp()
    }

    /// The last durable record of the log.
    pub(crate) fn end(&self) -> LogIndex {
        self.source.log.frames.end()
    }

    /// Passes the events of each further batch to `visit`, with the last record of the batch, up
    /// to the end of the log. After an error the replay must not be continued.
    pub(crate) fn read(
        &mut self,
        is_cancelled: &dyn Fn() -> bool,
        visit: &mut dyn FnMut(LogIndex, Vec<Event>) -> Flow,
    ) -> Result<(), EventsError> {
        let Self { source, replay, recorder, chain } = self;
        let next = LogIndex(replay.state().log_index().0 + 1);
        let mut failed = None;
        let read = source.log.frames.replay(next, &mut |frame| {
            if is_cancelled() {
                failed = Some(EventsError::Cancelled);
                return Err(StopReading);
            }
            let applied = replay.apply(frame, &mut |step, state, effects| {
                recorder.observe(step, state, effects);
            });
            if let Err(error) = applied {
                failed = Some(EventsError::Failed(error.to_string()));
                return Err(StopReading);
            }
            *chain = frame.chain();
            match visit(frame.header().last(), recorder.take()) {
                Flow::Continue => Ok(()),
                Flow::Stop => Err(StopReading),
            }
        });
        read.map_err(|error| EventsError::Failed(error.to_string()))?;
        failed.map_or(Ok(()), Err)
    }
}
