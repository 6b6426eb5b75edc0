//! The statement of a participant, computed from the log: offline for `upesi statement`, and of a
//! running switch for `GET /participants/{name}/statement`.
//!
//! The kernel applies the records again. A [`collector::Collector`] compares the balances of the
//! participant's accounts before and after each record, so that every change appears, whatever
//! record caused it. Offline the replay starts with the first record. A running switch starts from
//! the newest snapshot before the period, if one is left, and reads final transfers from its cold
//! store.
//!
//! Costs: the replay of the log from the snapshot, or from its beginning, to the end of the period.
//! Offline the whole state is held in memory.

pub(crate) mod collector;
pub(crate) mod replay_store;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journal::{DurableFrames, RealDisk, TieredDisk};
use ledger::{ApplyStep, Change, Command, FspName, LogIndex, State};
use operations::{ParticipantStatementRequest, Statement, StatementPeriod, StatementRefusal};
use ports::{ColdStore, RecordReader, StopReading};
use record::frame::Tail;
use sequencer::{ColdTier, Quarantine, Replay, ReplayStart};
use tokio::sync::Semaphore;

use crate::CliError;
use crate::inspect::offline::{Continue, OfflineLog};
use crate::inspect::statements::collector::{Collector, external_reference};
use crate::inspect::statements::replay_store::ReplayStore;

/// The result of a computation.
type Computed = Result<Statement, StatementRefusal>;

/// Computes a statement from the log in a directory. A switch may be running on it.
pub(crate) fn compute_offline(
    data: &Path,
    request: ParticipantStatementRequest,
) -> Result<Statement, CliError> {
    let name = request.participant;
    let not_found = || CliError::new(format!("{}: participant {name} not found", data.display()));
    compute_all_offline(data, vec![request])?.pop().ok_or_else(not_found)
}

/// Computes statements in one pass over the log in a directory. A switch may be running on it.
/// Requests for unknown participants are ignored.
pub(crate) fn compute_all_offline(
    data: &Path,
    requests: Vec<ParticipantStatementRequest>,
) -> Result<Vec<Statement>, CliError> {
    let log = OfflineLog::open_live(data)?;
    let references = RefCell::new(BTreeMap::new());
    let reference = |record: LogIndex| references.borrow().get(&record).cloned();
    let new = |request| Collector::new(request, &State::new(), &reference);
    let mut collectors: Vec<_> = requests.iter().copied().map(new).collect();
    let (replay, _) = log.replay(&mut |replay, placed| {
        replay.apply(placed.frame, &mut |step, state, _| {
            if let ApplyStep::Before(record, Command::Administer(administer)) = step
                && let Some(text) = external_reference(&administer.reason)
            {
                references.borrow_mut().insert(record, text);
            }
            collectors.iter_mut().for_each(|collector| collector.watch(step, state));
        })?;
        let is_over = collectors.iter().all(Collector::is_over);
        Ok(if is_over { Continue::Stop } else { Continue::On })
    })?;
    let is_known = |request: &ParticipantStatementRequest| {
        replay.state().registry().find(&request.participant).is_some()
    };
    let known = collectors.into_iter().zip(&requests).filter(|(_, request)| is_known(request));
    let finished = known.map(|(collector, _)| {
        let refused = collector.finish(replay.state()).map_err(|fault| log.failure(fault))?;
        refused.map_err(|refusal| log.failure(refusal))
    });
    finished.collect()
}

/// The participants that a log creates, or refuses to create, without the hub.
pub(crate) fn participants_of(data: &Path) -> Result<Vec<FspName>, CliError> {
    let log = OfflineLog::open_live(data)?;
    let mut names = Vec::new();
    let walked = log.walk(&mut |placed| {
        for record in placed.frame.records() {
            let read = record::command::read_fields(record.kind, record.version, record.fields);
            if let Ok(Command::Administer(administer)) = read
                && let Change::CreateParticipant(change) = administer.change.decided()
                && !names.contains(&change.name)
            {
                names.push(change.name);
            }
        }
        Ok(())
    });
    walked.map_err(|error| log.failure(error))?;
    Ok(names)
}

/// The log and the snapshots of a running switch.
#[derive(Clone)]
pub(crate) struct StatementSource {
    pub(crate) disk: TieredDisk<RealDisk>,
    pub(crate) frames: DurableFrames<TieredDisk<RealDisk>>,
    pub(crate) quarantine: Quarantine,
    /// Permits for statements.
    pub(crate) permits: Arc<Semaphore>,
}

/// Maximum number of concurrent statements. Each holds a state in memory.
const STATEMENTS_MAX: usize = 1;

impl StatementSource {
    pub(crate) fn new(
        disk: TieredDisk<RealDisk>,
        frames: DurableFrames<TieredDisk<RealDisk>>,
        quarantine: Quarantine,
    ) -> Self {
        Self { disk, frames, quarantine, permits: Arc::new(Semaphore::new(STATEMENTS_MAX)) }
    }
}

/// A request to a running switch.
pub(crate) struct StatementTask {
    pub(crate) source: StatementSource,
    pub(crate) store: Arc<dyn ColdStore>,
    pub(crate) reader: Arc<dyn RecordReader>,
    pub(crate) request: ParticipantStatementRequest,
    /// Whether the client is gone.
    pub(crate) is_cancelled: Arc<AtomicBool>,
}

/// How long a final transfer stays in the memory of the replay.
const KEEP_FINAL: Duration = Duration::from_secs(1);

impl StatementTask {
    /// Computes the statement from the durable log. Blocks on the disk.
    pub(crate) fn answer(&self) -> Result<Computed, String> {
        let Self { source, request, .. } = self;
        let visible = self.store.mark().log_index;
        let (frames, period) = (&source.frames, request.period);
        let is_before = move |tail: &Tail| precedes(tail, period);
        let found = snapshots::find_newest_where(
            &source.disk,
            (frames, Some(visible)),
            &is_before,
            &mut || self.check(),
        );
        let start = found.map_err(|error| error.to_string())?.start;
        let state = start.map_or_else(State::new, |start| start.state);
        let reference = |record: LogIndex| self.reference(record);
        let mut collector = Collector::new(*request, &state, &reference);
        let next = LogIndex(state.log_index().0 + 1);
        let store = Box::new(ReplayStore { store: Arc::clone(&self.store) });
        let cold_tier = Some(ColdTier::new(store, KEEP_FINAL).without_decisions());
        let quarantine = source.quarantine.clone();
        let mut replay = Replay::from(ReplayStart { state, quarantine, cold_tier });
        let mut failed = None;
        let read = frames.replay(next, &mut |frame| {
            self.check()?;
            let applied = replay.apply(frame, &mut |step, state, _| collector.watch(step, state));
            if let Err(error) = applied {
                failed = Some(error.to_string());
            }
            if failed.is_some() || collector.is_over() { Err(StopReading) } else { Ok(()) }
        });
        read.map_err(|error| error.to_string())?;
        match failed {
            Some(error) => Err(error),
            None if self.is_cancelled.load(Ordering::Relaxed) => Err("cancelled".into()),
            None => collector.finish(replay.state()),
        }
    }

    fn check(&self) -> Result<(), StopReading> {
        match self.is_cancelled.load(Ordering::Relaxed) {
            true => Err(StopReading),
            false => Ok(()),
        }
    }

    /// The external reference in a record that reserved funds out.
    fn reference(&self, record: LogIndex) -> Option<String> {
        let owned = self.reader.read(record).ok().flatten()?;
        let command = record::command::read_fields(owned.kind, owned.version, &owned.fields);
        let Command::Administer(administer) = command.ok()? else { return None };
        external_reference(&administer.reason)
    }
}

/// Whether a snapshot was taken before the period begins.
fn precedes(tail: &Tail, period: StatementPeriod) -> bool {
    match period {
        StatementPeriod::Times { from, .. } => from.is_some_and(|from| tail.stamp < from),
        StatementPeriod::Records { after, .. } => tail.end <= after,
        StatementPeriod::Window(_) => false,
    }
}
