//! `upesi explain` and `GET /transfers/{id}/explanation`: the history of one payment, with its
//! transaction request and its quotes, or of one bulk transfer.
//!
//! The switch records each decision with its inputs ([`ledger::DecisionRecorder`]), and the cold
//! store keeps these decisions ([`ports::ColdStore::decisions`]). A history therefore needs a few
//! reads by key and one record of the log per event. Offline, the store is used only if it belongs
//! to the log and if no record after its mark is about the transfer. Otherwise the log is replayed
//! in one pass. The result is the same and names its source.

mod contents;
pub(crate) mod history;
pub(crate) mod payment;
pub(crate) mod report;
mod stored_command;
pub(crate) mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ledger::{
    Change, Decision, DecisionRecorder, DecisionSink, Erasure, FspName, LogIndex, NoticeId,
    Outcome, TransferId,
};
use operations::{CONTENTS_BYTES_MAX, CONTENTS_MAX, MessageContent, PaymentContents};
use ports::{ColdStore, LogError, OwnedRecord, RecordReader};
use record::command::is_from_participant;
use record::frame::Frame;
use store::Disk;
use switch::Traffic;

use crate::CliError;
use crate::cli::admin_address::AdminAddress;
use crate::cli::admin_client::AdminClient;
use crate::cli::printable::printable;
use crate::cli::stdout::{moment, print_json};
use crate::data::layout;
use crate::inspect::explain::contents::Contents;
use crate::inspect::explain::history::{TransferDecisions, build_history};
use crate::inspect::explain::payment::{Payment, ROUNDS_MAX};
use crate::inspect::explain::report::{
    Event, Explanation, MessageReport, PendingDelivery, Source, request_of,
};
use crate::inspect::explain::windows::{KnownWindows, StoredWindows, settlement_of};
use crate::inspect::offline::{Continue, OfflineLog};
use crate::inspect::verify::accounting::is_end;
use crate::operate::quarantine::Entry;
use crate::serve::erasure::read_order;

pub(crate) const EXAMPLES: &str = "\
Examples:
  upesi explain b51ec534-ee48-4575-b6a9-000000000001
  upesi explain b51ec534-ee48-4575-b6a9-000000000001 --admin https://10.0.0.5:3001 --ca ca.pem
  upesi explain b51ec534-ee48-4575-b6a9-000000000001 --messages
  upesi explain b51ec534-ee48-4575-b6a9-000000000001 --data /var/lib/upesi
  upesi explain 01ARZ3NDEKTSV4RRFFQ69G5FAV --data /var/lib/upesi --json
  upesi explain 01ARZ3NDEKTSV4RRFFQ69G5FAV --data copy --replay      from the log alone
Without --data, a running switch is asked. It locks its directory.";

/// Arguments of `explain`.
#[derive(clap::Args)]
pub(crate) struct ExplainArguments {
    /// Id of a transfer, bulk, quote or transaction request: a UUID or a ULID.
    #[arg(value_name = "TRANSFER_ID")]
    transfer: String,
    /// Directory of the log; read only. The switch must not be running on it.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Replay the whole log instead of reading the cold store; slow.
    #[arg(long, requires = "data")]
    replay: bool,
    /// Also show the messages with headers and body; personal data as the role allows.
    ///
    /// Names, identifiers and free texts are masked without the permission `audit`. The audit trail
    /// records the request.
    #[arg(long, conflicts_with = "data")]
    messages: bool,
    #[command(flatten)]
    switch: AdminAddress,
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
    let Some(data) = &arguments.data else { return explain_online(arguments, id) };
    let log = OfflineLog::open(data)?;
    let mut explanation = explain_offline((&log, data), id, arguments.replay)?;
    if explanation.events.is_empty() {
        let of_bulk = explain_offline((&log, data), id.as_bulk(), arguments.replay)?;
        if !of_bulk.events.is_empty() {
            explanation = of_bulk;
        }
    }
    if explanation.events.is_empty() {
        let (records, unread) = (explanation.up_to, explanation.unread);
        unread.iter().for_each(|unread| eprintln!("upesi: {unread}"));
        return Err(log.failure(format!("none of the {records} records is about transfer {id}")));
    }
    describe_erasures_offline(&log, &mut explanation)?;
    explanation.seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        return print_json(&explanation);
    }
    println!("{}", printable(&explanation.to_string()));
    Ok(())
}

fn explain_offline(
    (log, data): (&OfflineLog, &Path),
    id: TransferId,
    replay: bool,
) -> Result<Explanation, CliError> {
    let stored = match replay {
        true => Err(None),
        false => from_store(log, data, id).map_err(Some),
    };
    match stored {
        Ok(explanation) => Ok(explanation),
        Err(why) => Ok(Explanation { source: Source::Replay { why }, ..from_replay(log, id)? }),
    }
}

/// Adds the orders to erased messages. A replay finds the accepted ones: the log alone does not
/// show which orders were refused.
fn describe_erasures_offline(
    log: &OfflineLog,
    explanation: &mut Explanation,
) -> Result<(), CliError> {
    let is_erased = |event: &Event| event.detail.message().is_some_and(|it| it.kept == "erased");
    if !explanation.events.iter().any(is_erased) {
        return Ok(());
    }
    let (replay, _) = log.replay(&mut |replay, placed| {
        replay.apply(placed.frame, &mut |_, _, _| {})?;
        Ok(Continue::On)
    })?;
    let orders: Vec<_> = replay.state().erasures().iter().copied().collect();
    let reader = journal::OfflineReader::open(log.disk().clone());
    let reader = reader.map_err(|error| log.failure(error))?;
    describe_erasures(explanation, (&reader, &orders)).map_err(|error| log.failure(error))
}

/// Adds to each erased message the first order that erased it.
fn describe_erasures(
    explanation: &mut Explanation,
    (reader, orders): (&dyn RecordReader, &[Erasure]),
) -> Result<(), String> {
    for event in &mut explanation.events {
        let record = LogIndex(event.log_index);
        let Some(message) = event.detail.message_mut().filter(|it| it.kept == "erased") else {
            continue;
        };
        let owned = reader.read(record).map_err(|error| error.to_string())?;
        let fields = owned.as_ref().map_or((0, 0, &[][..]), fields_of);
        let is_from = |name: &FspName| is_from_participant(fields, name);
        for erasure in orders.iter().filter(|it| record < it.record) {
            let Some((order, _)) = read_order(reader, erasure.record)? else { continue };
            let Change::Erase(erase) = order.change.decided() else { continue };
            if erase.erases(record, fields.0, is_from) {
                let (at, by) = (moment(erasure.at), &order.actor);
                let (number, reason) = (erasure.record.0, &order.reason);
                message.erasure =
                    Some(format!("on {at} by {by}, record {number}, because: {reason}"));
                break;
            }
        }
    }
    Ok(())
}

/// The kind, the version and the fields of a record.
pub(crate) fn fields_of(record: &OwnedRecord) -> (u16, u16, &[u8]) {
    (record.kind, record.version, &record.fields)
}

/// Prints the explanation of a running switch.
fn explain_online(arguments: &ExplainArguments, id: TransferId) -> Result<(), CliError> {
    let format = if arguments.json { "json" } else { "text" };
    let mut client = AdminClient::at(&arguments.switch)?;
    let answer =
        client.call("GET", &format!("/transfers/{id}/explanation?format={format}"), None)?;
    if !arguments.messages {
        println!("{}", printable(&answer.text));
        return Ok(());
    }
    let messages = client.call("GET", &format!("/transfers/{id}/messages"), None)?.text;
    if arguments.json {
        println!("{{\"explanation\":{},\"contents\":{messages}}}", answer.text);
        return Ok(());
    }
    println!("{}", printable(&format!("{}\n{}", answer.text, Contents::read(&messages)?)));
    Ok(())
}

/// Builds the history from the cold store next to the log. The error is the reason why the store
/// cannot be used.
fn from_store(log: &OfflineLog, data: &Path, id: TransferId) -> Result<Explanation, String> {
    let records =
        journal::OfflineReader::open(log.disk().clone()).map_err(|error| error.to_string())?;
    let store = Disk::open_for_queries(&data.join(layout::STORE), records.identity())?;
    let mark = store.mark();
    let mut decisions = read_payment(&store, &records, id)?;
    decisions.read_beginning(&records).map_err(|error| error.to_string())?;
    let mut check = StoreCheck {
        deadline_ms: decisions.deadline_ms().filter(|_| is_open(&decisions)),
        decisions: &decisions,
        is_of_log: mark.log_index == LogIndex(0),
        missing: None,
    };
    let from = mark.log_index.max(LogIndex(1));
    let visited = records.visit(from, &mut |frame| {
        if frame.header().last() == mark.log_index {
            check.is_of_log = frame.chain() == mark.chain;
        } else if check.is_of_log {
            check.examine(frame);
        }
        let is_usable = check.is_of_log && check.missing.is_none();
        if is_usable { Ok(()) } else { Err(ports::StopReading) }
    });
    visited.map_err(|error| error.to_string())?;
    match check.missing {
        _ if !check.is_of_log => Err("its last record differs from that of the log".into()),
        Some(missing) => {
            Err(format!("it ends with record {}, before record {missing}", mark.log_index.0))
        }
        None => {
            let history = build_history(id, &decisions, (&records, &log.quarantined));
            let history = history.map_err(|error| error.to_string())?;
            let settlement = settlement_of(&decisions, &StoredWindows(&store));
            let settlement = settlement.map_err(|error| error.to_string())?;
            Ok(Explanation { up_to: mark.log_index.0, ..history.settled(settlement) })
        }
    }
}

/// Examines the records after the store's mark.
struct StoreCheck<'a> {
    decisions: &'a TransferDecisions,
    /// Deadline of a transfer that is in flight at the mark.
    deadline_ms: Option<u64>,
    is_of_log: bool,
    /// The first record about the transfer that the store does not include.
    missing: Option<u64>,
}

impl StoreCheck<'_> {
    fn examine(&mut self, frame: &Frame<'_>) {
        let header = frame.header();
        let is_about = |record: &record::frame::Record<'_>| {
            let read = record::command::read_fields(record.kind, record.version, record.fields);
            read.map_or(true, |command| self.decisions.is_about(&command))
        };
        let missing = frame.records().find(is_about).map(|record| record.log_index.0);
        let has_passed = |deadline: u64| deadline <= header.batch.stamp.millis();
        let expires = self.deadline_ms.is_some_and(has_passed);
        self.missing = missing.or(expires.then_some(header.first.0));
    }
}

fn read_decisions(
    store: &dyn ColdStore,
    id: TransferId,
) -> Result<TransferDecisions, ports::StoreError> {
    let decisions = store.decisions(&id)?;
    let mut deliveries = BTreeMap::new();
    for owed in decisions.iter().flat_map(|decision| &decision.owed) {
        deliveries.insert(owed.notice, store.delivery_records(owed.notice)?);
    }
    Ok(TransferDecisions { decisions, deliveries, ..TransferDecisions::default() })
}

/// Reads the decisions about all messages of a payment.
fn read_payment(
    store: &dyn ColdStore,
    reader: &dyn RecordReader,
    id: TransferId,
) -> Result<TransferDecisions, String> {
    let mut payment = Payment::new(id);
    let mut all = TransferDecisions::default();
    for _ in 0..ROUNDS_MAX {
        all = TransferDecisions::default();
        for id in payment.ids() {
            let own = read_decisions(store, *id).map_err(|error| error.to_string())?;
            all.decisions.extend(own.decisions);
            all.deliveries.extend(own.deliveries);
        }
        all.decisions.sort_by_key(|decision| decision.log_index);
        let has_more = payment.extend(&all.decisions, reader);
        if !has_more.map_err(|error| error.to_string())? {
            break;
        }
    }
    all.decisions.retain(|decision| payment.has(decision));
    Ok(TransferDecisions { payment, ..all })
}

/// Whether the transfer or bulk is in flight after its last stored decision.
fn is_open(decisions: &TransferDecisions) -> bool {
    let mut is_open = false;
    for Decision { outcome, owed, .. } in &decisions.decisions {
        let expired = owed.iter().any(|owed| owed.outcome == Outcome::Expired);
        is_open = match outcome {
            Outcome::PrepareReserved | Outcome::BulkAccepted => !expired,
            Outcome::Expired | Outcome::BulkCompleted | Outcome::BulkRejected => false,
            outcome => is_open && !is_end(*outcome),
        };
    }
    is_open
}

/// Builds the history by replays of the whole log: more than one only if messages about quotes or
/// transaction requests name other ids.
fn from_replay(log: &OfflineLog, id: TransferId) -> Result<Explanation, CliError> {
    let mut payment = Payment::new(id);
    let mut replayed = ReplayedPayment::collect(log, &payment)?;
    for _ in 1..ROUNDS_MAX {
        let has_more = payment.extend(&replayed.decisions.decisions, &replayed.records);
        if !has_more.map_err(|error| log.failure(error))? {
            break;
        }
        replayed = ReplayedPayment::collect(log, &payment)?;
    }
    replayed.decisions.decisions.retain(|decision| payment.has(decision));
    replayed.decisions.payment = payment;
    replayed.explain(id, &log.quarantined).map_err(|error| log.failure(error))
}

/// The findings of a replay about a payment.
struct ReplayedPayment {
    decisions: TransferDecisions,
    records: RecordsInMemory,
    windows: KnownWindows,
    up_to: u64,
    records_replayed: u64,
}

impl ReplayedPayment {
    fn collect(log: &OfflineLog, payment: &Payment) -> Result<Self, CliError> {
        let mut recorder = DecisionRecorder::default();
        let mut collected = DecisionCollector::new(payment, &log.quarantined);
        let mut windows = KnownWindows::default();
        let (replay, walked) = log.replay(&mut |replay, placed| {
            let frame = placed.frame;
            replay.apply(frame, &mut |step, state, effects| {
                recorder.observe(step, state, effects, &mut collected);
            })?;
            collected.copy_records(frame);
            replay.effects().archived.iter().for_each(|row| windows.add(row));
            Ok(Continue::On)
        })?;
        if let Some(torn) = walked.torn {
            let (segment, offset) = (torn.segment, torn.offset);
            eprintln!("upesi: {segment} ends within a frame at byte {offset}; read up to there");
        }
        windows.add_all(replay.state().settlement());
        let DecisionCollector { decisions, records, .. } = collected;
        let (up_to, records_replayed) = (replay.state().log_index().0, replay.records());
        Ok(Self { decisions, records, windows, up_to, records_replayed })
    }

    fn explain(mut self, id: TransferId, quarantined: &[Entry]) -> Result<Explanation, String> {
        let text = |error: LogError| error.to_string();
        self.decisions.read_beginning(&self.records).map_err(text)?;
        let history = build_history(id, &self.decisions, (&self.records, quarantined));
        let history = history.map_err(text)?;
        let settlement = settlement_of(&self.decisions, &self.windows);
        let settlement = settlement.map_err(|error| error.to_string())?;
        let (up_to, records) = (self.up_to, self.records_replayed);
        Ok(Explanation { up_to, records, ..history.settled(settlement) })
    }
}

/// Collects the decisions about one payment during a replay, with their records.
struct DecisionCollector<'a> {
    payment: &'a Payment,
    quarantined: &'a [Entry],
    decisions: TransferDecisions,
    /// Records of the current frame to copy.
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

impl<'a> DecisionCollector<'a> {
    fn new(payment: &'a Payment, quarantined: &'a [Entry]) -> Self {
        let decisions = TransferDecisions::default();
        let (wanted, records) = (Vec::new(), RecordsInMemory::default());
        Self { payment, quarantined, decisions, wanted, records }
    }

    fn copy_records(&mut self, frame: &Frame<'_>) {
        let (header, stamp) = (frame.header(), frame.header().batch.stamp);
        let is_here = |log_index: &LogIndex| (header.first..=header.last()).contains(log_index);
        self.wanted.extend(self.quarantined.iter().map(Entry::log_index).filter(is_here));
        let records = self.wanted.drain(..).filter_map(|log_index| frame.record(log_index));
        let copies = records.map(|record| (record.log_index, OwnedRecord::copy(&record, stamp)));
        self.records.0.extend(copies);
    }
}

impl DecisionSink for DecisionCollector<'_> {
    fn record_decision(&mut self, decision: &Decision) {
        if !self.payment.ids().contains(&decision.transfer) {
            return;
        }
        for owed in &decision.owed {
            self.decisions.deliveries.entry(owed.notice).or_default();
        }
        self.decisions.decisions.push(decision.clone());
        self.wanted.push(decision.log_index);
    }

    fn record_delivery(&mut self, notice: NoticeId, log_index: LogIndex) {
        if let Some(deliveries) = self.decisions.deliveries.get_mut(&notice) {
            deliveries.push(log_index);
            self.wanted.push(log_index);
        }
    }
}

/// Longest wait for the store to include all records that were durable at the request.
const STORE_WAIT_MAX: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Time limit for the I/O threads to report the deliveries in progress; they answer between
/// messages.
pub(crate) const IO_ANSWER_TIMEOUT: Duration = Duration::from_millis(500);

/// Waits until the store has everything durable up to a record, for [`STORE_WAIT_MAX`] at most.
/// Returns the record up to which the store is complete, and whether it has everything.
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
        if STORE_WAIT_MAX < started.elapsed() {
            return Ok((stored, false));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// A request to explain a transfer, to a running switch.
pub(crate) struct ExplainRequest {
    pub(crate) id: TransferId,
    pub(crate) store: Arc<dyn ColdStore>,
    pub(crate) reader: Arc<dyn RecordReader>,
    /// The last applied record when the request arrived.
    pub(crate) asked_at: LogIndex,
    /// The I/O threads, which deliver the notices.
    pub(crate) traffic: Arc<Traffic>,
    /// Quarantined records, which have no effect.
    pub(crate) quarantined: Arc<[Entry]>,
    /// The records that ordered erasures, oldest first.
    pub(crate) erasures: Vec<Erasure>,
}

impl ExplainRequest {
    /// Builds the history; `None` if no record is about the transfer. Blocks on the store and on
    /// the disk.
    pub(crate) fn answer(&self) -> Result<Option<Explanation>, String> {
        let started = Instant::now();
        let up_to = self.wait_for_store(started).map_err(|error| error.to_string())?;
        let store = &*self.store;
        let (mut decisions, mut history) = self.history_of(self.id)?;
        if history.events.is_empty() {
            (decisions, history) = self.history_of(self.id.as_bulk())?;
        }
        if history.events.is_empty() {
            return Ok(None);
        }
        let under_way = self.pending_deliveries(&decisions, &history.notices_pending);
        let settlement = settlement_of(&decisions, &StoredWindows(store));
        let settlement = settlement.map_err(|error| error.to_string())?;
        let seconds = started.elapsed().as_secs_f64();
        let mut history = history.settled(settlement);
        describe_erasures(&mut history, (&*self.reader, &self.erasures))?;
        Ok(Some(Explanation { up_to: up_to.0, under_way, seconds, ..history }))
    }

    /// The messages of the history, with headers and body; `None` if no record is about the
    /// transfer. Blocks like [`Self::answer`].
    pub(crate) fn contents(&self) -> Result<Option<PaymentContents>, String> {
        let Some(explanation) = self.answer()? else { return Ok(None) };
        let mut contents = PaymentContents::default();
        let mut bytes = 0;
        for event in &explanation.events {
            let Some(report) = event.detail.message() else { continue };
            if contents.messages.len() == CONTENTS_MAX || CONTENTS_BYTES_MAX <= bytes {
                contents.left_out += 1;
                continue;
            }
            let log_index = LogIndex(event.log_index);
            let owned = self.reader.read(log_index).map_err(|error| error.to_string())?;
            let message = owned.as_ref().and_then(history::stored_message);
            bytes += message.as_ref().map_or(0, history::length_of_message);
            let MessageReport { request, sender, kept, .. } = report;
            let (sender, kept) = (sender.clone(), *kept);
            contents.messages.push(MessageContent { log_index, request, sender, kept, message });
        }
        Ok(Some(contents))
    }

    /// The records of stored messages about the transfer, with those of its bulk transfer and of a
    /// bulk transfer with the same id; `None` if no record is about it. Blocks like
    /// [`Self::answer`].
    pub(crate) fn stored_contents(&self) -> Result<Option<BTreeSet<LogIndex>>, String> {
        self.wait_for_store(Instant::now()).map_err(|error| error.to_string())?;
        let (decisions, history) = self.history_of(self.id)?;
        let mut events = history.events;
        for bulk in BTreeSet::from_iter(decisions.bulk_id().into_iter().chain([self.id.as_bulk()]))
        {
            if bulk != self.id {
                events.extend(self.history_of(bulk)?.1.events);
            }
        }
        let is_stored =
            |event: &&Event| event.detail.message().is_some_and(|message| message.kept == "stored");
        let stored = events.iter().filter(is_stored).map(|event| LogIndex(event.log_index));
        Ok((!events.is_empty()).then(|| stored.collect()))
    }

    fn history_of(&self, id: TransferId) -> Result<(TransferDecisions, Explanation), String> {
        let mut decisions = read_payment(&*self.store, &*self.reader, id)?;
        decisions.read_beginning(&*self.reader).map_err(|error| error.to_string())?;
        let history = build_history(id, &decisions, (&*self.reader, &self.quarantined));
        Ok((decisions, history.map_err(|error| error.to_string())?))
    }

    /// The delivery status of the pending notices.
    fn pending_deliveries(
        &self,
        decisions: &TransferDecisions,
        pending: &[u64],
    ) -> Vec<PendingDelivery> {
        if pending.is_empty() {
            return Vec::new();
        }
        let pending: Vec<_> = pending.iter().map(|&notice| NoticeId(notice)).collect();
        let owed: BTreeMap<_, _> = decisions
            .decisions
            .iter()
            .flat_map(|decision| &decision.owed)
            .map(|owed| (owed.notice, (owed.recipient.as_str().to_owned(), request_of(owed.kind))))
            .collect();
        let statuses = self.traffic.delivery_status(&pending, IO_ANSWER_TIMEOUT);
        let reports = statuses.iter().filter_map(|status| {
            Some(PendingDelivery::new(status, owed.get(&status.notice).cloned()?))
        });
        reports.collect()
    }

    /// Waits until the store shows everything durable that was decided before the request.
    fn wait_for_store(&self, started: Instant) -> Result<LogIndex, LogError> {
        wait_for_store(&*self.store, &*self.reader, (self.asked_at, started)).map(|(at, _)| at)
    }
}
