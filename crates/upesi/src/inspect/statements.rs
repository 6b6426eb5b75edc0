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

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use ledger::{ApplyStep, Change, Command, FspName, LogIndex, State};
use operations::{ParticipantStatementRequest, Statement, StatementPeriod, StatementRefusal};
use ports::RecordReader;
use record::frame::Tail;

use crate::CliError;
use crate::inspect::live_replay::LiveReplay;
use crate::inspect::offline::{Continue, OfflineLog};
use crate::inspect::statements::collector::{Collector, external_reference};

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

/// A request to a running switch.
pub(crate) struct StatementTask {
    pub(crate) replay: LiveReplay,
    pub(crate) reader: Arc<dyn RecordReader>,
    pub(crate) request: ParticipantStatementRequest,
}

impl StatementTask {
    /// Computes the statement from the durable log. Blocks on the disk.
    pub(crate) fn answer(&self) -> Result<Computed, String> {
        let Self { replay: live, request, .. } = self;
        let period = request.period;
        let mut replay = live.start(&|tail| precedes(tail, period))?;
        let reference = |record: LogIndex| self.reference(record);
        let mut collector = Collector::new(*request, replay.state(), &reference);
        live.run(&mut replay, &mut |step, state| {
            collector.watch(step, state);
            if collector.is_over() { Continue::Stop } else { Continue::On }
        })?;
        collector.finish(replay.state())
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
