//! `upesi explain` and `GET /transfers/{id}/explanation`: the life of one transfer.
//!
//! The switch notes beside its log what it decides on ([`ledger::Teller`]), and the cold store
//! keeps it ([`ports::ColdStore::tale`]). So a life is a few reads by key, and a record for each of
//! its events. Offline the store is taken only if it is that of the log, and if no record behind
//! its mark is about the transfer. Otherwise, and for a log whose store was made by a version that
//! told nothing, everything is decided again in one pass: the answer is the same, and says so.

pub(crate) mod history;
pub(crate) mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ledger::{
    Decision, DecisionRecorder, DecisionSink, LogIndex, NoticeId, Outcome, TransferId,
    TransferMessage,
};
use ports::{ColdStore, LogError, OwnedRecord, RecordReader};
use record::frame::Frame;
use store::Disk;
use switch::Traffic;

use crate::CliError;
use crate::cli::stdout::print_json;
use crate::data::layout;
use crate::inspect::explain::history::{TransferDecisions, tell};
use crate::inspect::explain::report::{Explanation, Source, Underway, request_of};
use crate::inspect::offline::{Continue, OfflineLog};
use crate::inspect::verify::accounting::is_end;
use crate::operate::quarantine::Entry;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi explain b51ec534-ee48-4575-b6a9-000000000001 --data /var/lib/upesi
  upesi explain 01ARZ3NDEKTSV4RRFFQ69G5FAV --data /var/lib/upesi --json
  upesi explain 01ARZ3NDEKTSV4RRFFQ69G5FAV --data copy --replay      from the log alone
A running switch locks its directory. Its admin API gives the same answer:
  curl -H \"Authorization: Bearer $(cat /var/lib/upesi/admin-token)\" \\
       http://127.0.0.1:3001/transfers/b51ec534-ee48-4575-b6a9-000000000001/explanation";

/// Arguments of `explain`.
#[derive(clap::Args)]
pub(crate) struct ExplainArguments {
    /// Transfer id, as in its prepare: a lower-case UUID or a ULID.
    #[arg(value_name = "TRANSFER_ID")]
    transfer: String,
    /// Directory of the log; read only. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Replay the whole log instead of reading the cold store; slow.
    #[arg(long)]
    replay: bool,
    /// Print the result as JSON, with amounts as strings.
    #[arg(long)]
    json: bool,
}

pub(crate) fn explain(arguments: &ExplainArguments) -> Result<(), CliError> {
    let started = Instant::now();
    let id = TransferId::parse(&arguments.transfer).ok_or_else(|| {
        let text = &arguments.transfer;
        CliError::new(format!("invalid transfer id {text:?}: expected a lower-case UUID or a ULID"))
    })?;
    let log = OfflineLog::open(&arguments.data)?;
    let noted = match arguments.replay {
        true => Err(None),
        false => noted(&log, &arguments.data, id).map_err(Some),
    };
    let mut explanation = match noted {
        Ok(explanation) => explanation,
        Err(why) => Explanation { source: Source::Replay { why }, ..decided_again(&log, id)? },
    };
    if explanation.events.is_empty() {
        let (records, unread) = (explanation.up_to, explanation.unread);
        unread.iter().for_each(|unread| eprintln!("upesi: {unread}"));
        return Err(log.failure(format!("none of the {records} records is about transfer {id}")));
    }
    explanation.seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        return print_json(&explanation);
    }
    println!("{explanation}");
    Ok(())
}

/// What the store beside a log says, or why it is not asked.
fn noted(log: &OfflineLog, data: &Path, id: TransferId) -> Result<Explanation, String> {
    let records =
        journal::OfflineReader::open(log.disk().clone()).map_err(|error| error.to_string())?;
    let store = Disk::open_for_questions(&data.join(layout::STORE), records.identity())?;
    let mark = store.mark();
    let tale = tale_of(&store, id).map_err(|error| error.to_string())?;
    let mut behind = Behind {
        id,
        deadline_ms: deadline(&tale, &records).map_err(|error| error.to_string())?,
        tale: &tale,
        is_of_log: mark.log_index == LogIndex(0),
        late: None,
    };
    let from = mark.log_index.max(LogIndex(1));
    let visited = records.visit(from, &mut |frame| {
        if frame.header().last() == mark.log_index {
            behind.is_of_log = frame.chain() == mark.chain;
        } else if behind.is_of_log {
            behind.look(frame);
        }
        let go_on = behind.is_of_log && behind.late.is_none();
        if go_on { Ok(()) } else { Err(ports::StopReading) }
    });
    visited.map_err(|error| error.to_string())?;
    match behind.late {
        _ if !behind.is_of_log => Err("it was made from a log that went another way".into()),
        Some(late) => {
            Err(format!("it ends with record {}, before record {late}", mark.log_index.0))
        }
        None => {
            let told = tell(id, &tale, (&records, &log.quarantined));
            let told = told.map_err(|error| error.to_string())?;
            Ok(Explanation { up_to: mark.log_index.0, ..told })
        }
    }
}

/// Looks through the records behind the store's mark.
struct Behind<'a> {
    id: TransferId,
    tale: &'a TransferDecisions,
    /// Of a transfer that is in flight at the mark.
    deadline_ms: Option<u64>,
    is_of_log: bool,
    /// The first record that the store does not know, and that is about the transfer.
    late: Option<u64>,
}

impl Behind<'_> {
    fn look(&mut self, frame: &Frame<'_>) {
        let header = frame.header();
        let about = |record: &record::frame::Record<'_>| {
            let read = record::command::read_fields(record.kind, record.version, record.fields);
            read.map_or(true, |command| self.tale.is_about(self.id, &command))
        };
        let late = frame.records().find(about).map(|record| record.log_index.0);
        let is_met = |deadline: u64| deadline <= header.batch.stamp.millis();
        self.late = late.or(self.deadline_ms.is_some_and(is_met).then_some(header.first.0));
    }
}

fn tale_of(store: &dyn ColdStore, id: TransferId) -> Result<TransferDecisions, ports::StoreError> {
    let told = store.decisions(&id)?;
    let mut ends = BTreeMap::new();
    for owed in told.iter().flat_map(|told| &told.owed) {
        ends.insert(owed.notice, store.delivery_records(owed.notice)?);
    }
    Ok(TransferDecisions { told, ends })
}

/// When a transfer that is in flight as far as it is told ends by itself.
fn deadline(tale: &TransferDecisions, reader: &dyn RecordReader) -> Result<Option<u64>, LogError> {
    let mut reserved = None;
    for Decision { outcome, log_index, owed, .. } in &tale.told {
        let expired = owed.iter().any(|owed| owed.outcome == Outcome::Expired);
        if *outcome == Outcome::PrepareReserved && !expired {
            reserved = Some(*log_index);
        }
        if *outcome == Outcome::Expired || is_end(*outcome) {
            reserved = None;
        }
    }
    let Some(log_index) = reserved else { return Ok(None) };
    let Some(owned) = reader.read(log_index)? else { return Ok(None) };
    let command = record::command::read_fields(owned.kind, owned.version, &owned.fields);
    Ok(command.ok().and_then(|command| match command.message()? {
        TransferMessage::Prepare(prepare) => Some(prepare.expiration_ms),
        TransferMessage::Fulfil(_) | TransferMessage::Abort(_) => None,
    }))
}

/// Decides the whole log again, and listens.
fn decided_again(log: &OfflineLog, id: TransferId) -> Result<Explanation, CliError> {
    let (mut teller, mut notes) = (DecisionRecorder::default(), Notes::of(id, &log.quarantined));
    let (replay, walked) = log.replay(&mut |replay, placed| {
        let frame = placed.frame;
        replay.apply(frame, &mut |moment, state, effects| {
            teller.watch(moment, state, effects, &mut notes);
        })?;
        notes.keep(frame);
        Ok(Continue::On)
    })?;
    if let Some(torn) = walked.torn {
        let (segment, offset) = (torn.segment, torn.offset);
        eprintln!("upesi: {segment} ends within a frame at byte {offset}; read up to there");
    }
    let told = tell(id, &notes.tale, (&notes.records, notes.quarantined));
    let told = told.map_err(|error| log.failure(error))?;
    Ok(Explanation { up_to: replay.state().log_index().0, records: replay.records(), ..told })
}

/// What a replay tells of one transfer, and the records that it is told of.
struct Notes<'a> {
    id: TransferId,
    quarantined: &'a [Entry],
    tale: TransferDecisions,
    /// Records of the frame under way.
    wanted: Vec<LogIndex>,
    records: RecordsInMemory,
}

/// Records in memory.
#[derive(Default)]
struct RecordsInMemory(BTreeMap<LogIndex, OwnedRecord>);

impl RecordReader for RecordsInMemory {
    fn read(&self, log_index: LogIndex) -> Result<Option<OwnedRecord>, LogError> {
        Ok(self.0.get(&log_index).cloned())
    }
}

impl<'a> Notes<'a> {
    fn of(id: TransferId, quarantined: &'a [Entry]) -> Self {
        let (tale, wanted, records) =
            (TransferDecisions::default(), Vec::new(), RecordsInMemory::default());
        Self { id, quarantined, tale, wanted, records }
    }

    fn keep(&mut self, frame: &Frame<'_>) {
        let (header, stamp) = (frame.header(), frame.header().batch.stamp);
        let is_here = |log_index: &LogIndex| (header.first..=header.last()).contains(log_index);
        self.wanted.extend(self.quarantined.iter().map(Entry::log_index).filter(is_here));
        let records = self.wanted.drain(..).filter_map(|log_index| frame.record(log_index));
        let kept = records.map(|record| (record.log_index, OwnedRecord::copy(&record, stamp)));
        self.records.0.extend(kept);
    }
}

impl DecisionSink for Notes<'_> {
    fn decided(&mut self, decided: &Decision) {
        if decided.transfer != self.id {
            return;
        }
        for owed in &decided.owed {
            self.tale.ends.entry(owed.notice).or_default();
        }
        self.tale.told.push(decided.clone());
        self.wanted.push(decided.log_index);
    }

    fn delivered(&mut self, notice: NoticeId, log_index: LogIndex) {
        if let Some(ends) = self.tale.ends.get_mut(&notice) {
            ends.push(log_index);
            self.wanted.push(log_index);
        }
    }
}

/// How long an answer waits for the store to show what was decided when it was asked for.
const PATIENCE: Duration = Duration::from_secs(2);
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long I/O threads may take to say how far callbacks are: they are asked between messages.
pub(crate) const ANSWER_PATIENCE: Duration = Duration::from_millis(500);

/// Waits until the store has everything durable up to a record, for [`PATIENCE`] at most. Returns
/// the record up to which the store is complete, and whether it has everything.
pub(crate) fn wait_for_store(
    store: &dyn ColdStore,
    reader: &dyn RecordReader,
    (wanted, started): (LogIndex, Instant),
) -> Result<(LogIndex, bool), LogError> {
    loop {
        let stored = store.mark().log_index;
        if wanted <= stored || reader.read(LogIndex(stored.0 + 1))?.is_none() {
            return Ok((stored, true));
        }
        if PATIENCE < started.elapsed() {
            return Ok((stored, false));
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// What a running switch can tell of a transfer.
pub(crate) struct Question {
    pub(crate) id: TransferId,
    pub(crate) store: Arc<dyn ColdStore>,
    pub(crate) reader: Arc<dyn RecordReader>,
    /// The last record that was decided on when it was asked.
    pub(crate) asked_at: LogIndex,
    /// Who sends what is owed.
    pub(crate) traffic: Arc<Traffic>,
    /// Records that decide nothing.
    pub(crate) quarantined: Arc<[Entry]>,
}

impl Question {
    /// Answers it; `None` when no record is about the transfer. May wait for the store, and for
    /// the disk.
    pub(crate) fn answer(&self) -> Result<Option<Explanation>, String> {
        let started = Instant::now();
        let up_to = self.wait(started).map_err(|error| error.to_string())?;
        let store = &*self.store;
        let tale = tale_of(store, self.id).map_err(|error| error.to_string())?;
        let told = tell(self.id, &tale, (&*self.reader, &self.quarantined));
        let told = told.map_err(|error| error.to_string())?;
        if told.events.is_empty() {
            return Ok(None);
        }
        let under_way = self.under_way(&tale, &told.notices_pending);
        let seconds = started.elapsed().as_secs_f64();
        Ok(Some(Explanation { up_to: up_to.0, under_way, seconds, ..told }))
    }

    /// How far the callbacks are that are owed.
    fn under_way(&self, tale: &TransferDecisions, pending: &[u64]) -> Vec<Underway> {
        if pending.is_empty() {
            return Vec::new();
        }
        let pending: Vec<_> = pending.iter().map(|&notice| NoticeId(notice)).collect();
        let owed: BTreeMap<_, _> = tale
            .told
            .iter()
            .flat_map(|told| &told.owed)
            .map(|owed| (owed.notice, (owed.recipient.as_str().to_owned(), request_of(owed.kind))))
            .collect();
        let found = self.traffic.underway(&pending, ANSWER_PATIENCE);
        let told = found.iter().filter_map(|underway| {
            Some(Underway::of(underway, owed.get(&underway.notice).cloned()?))
        });
        told.collect()
    }

    /// Waits until the store shows everything durable that was decided before the question.
    fn wait(&self, started: Instant) -> Result<LogIndex, LogError> {
        wait_for_store(&*self.store, &*self.reader, (self.asked_at, started)).map(|(at, _)| at)
    }
}
