//! The values before and after changes, from a replay of the log.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ledger::{ApplyStep, Change, Command, LogIndex, State};
use operations::{AuditEntryData, AuditValues, ValuesBefore};

use crate::inspect::live_replay::LiveReplay;
use crate::inspect::offline::Continue;

/// Maximum number of records that a running switch replays for values.
const RECORDS_MAX: u64 = 10_000_000;
/// Maximum time of such a replay.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Compares the state before and after each change of a replay.
#[derive(Default)]
pub(crate) struct ValuesCollector {
    /// Only changes of later records.
    pub(crate) after: LogIndex,
    before: Option<ValuesBefore>,
    found: BTreeMap<LogIndex, AuditValues>,
}

impl ValuesCollector {
    pub(crate) fn new(after: LogIndex) -> Self {
        Self { after, ..Self::default() }
    }

    /// Follows one step.
    pub(crate) fn watch(&mut self, step: ApplyStep<'_>, state: &State) {
        if let ApplyStep::Before(record, Command::Administer(administer)) = step
            && self.after < record
            && !matches!(administer.change, Change::RecordAudit(_))
        {
            self.before = Some(ValuesBefore::of(state, &administer.change));
        }
        if let ApplyStep::After(record, Command::Administer(administer), outcome) = step
            && let Some(before) = self.before.take()
        {
            self.found.insert(record, before.compare(state, (&administer.change, outcome)));
        }
    }

    /// Adds the values to the entry of a change, once.
    pub(crate) fn add_to(&mut self, entry: &mut AuditEntryData) {
        if entry.lacks_values()
            && let Some(values) = self.found.remove(&entry.place().log_index)
        {
            entry.set_values(values);
        }
    }

    /// Forgets the values that no entry took.
    pub(crate) fn clear(&mut self) {
        self.found.clear();
    }
}

/// A replay of a running switch for the values of entries.
pub(crate) struct ValuesTask {
    pub(crate) replay: LiveReplay,
}

impl ValuesTask {
    /// Adds the values to entries in the order of the log. Returns the reason if the log is too
    /// long. Blocks on the disk.
    pub(crate) fn add_to(&self, entries: &mut [AuditEntryData]) -> Result<Option<String>, String> {
        let mut wanted = entries.iter().filter(|entry| entry.lacks_values());
        let wanted = wanted.next().map(|first| (first, wanted.next_back().unwrap_or(first)));
        let Some((first, last)) = wanted else { return Ok(None) };
        let (first, last) = (first.place().log_index, last.place().log_index);
        let mut replay = self.replay.start(&|tail| tail.end < first)?;
        let records = last.0 - replay.state().log_index().0;
        if RECORDS_MAX < records {
            return Ok(Some(format!(
                "{records} records follow the newest snapshot before the change, more than \
                 {RECORDS_MAX}; use upesi audit with --data"
            )));
        }
        let mut collector = ValuesCollector::new(LogIndex(first.0 - 1));
        let (began, mut is_late) = (Instant::now(), false);
        self.replay.run(&mut replay, &mut |step, state| {
            collector.watch(step, state);
            is_late = TIME_MAX < began.elapsed();
            let is_over = matches!(step, ApplyStep::After(record, ..) if last <= record);
            if is_over || is_late { Continue::Stop } else { Continue::On }
        })?;
        entries.iter_mut().for_each(|entry| collector.add_to(entry));
        let seconds = TIME_MAX.as_secs();
        let late = || format!("the replay took more than {seconds} s; use upesi audit with --data");
        Ok(is_late.then(late))
    }
}
