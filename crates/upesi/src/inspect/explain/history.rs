//! The life of one transfer, made of what is told of its decisions ([`ledger::Decided`]) and of the
//! records that they were made on. Nothing is decided here, and no state is looked at.
//!
//! Costs: a record read for each event, of which there are some thousands at most: where a message
//! came more often, those in the middle are counted and not told.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use fspiop::body::ErrorInformation;
use fspiop::stored_message::StoredMessage as Sent;
use ledger::{
    Abort, AccountKind, Amount, BalanceChange, Change, Command, Currency, Decision, DecisionInputs,
    DeliveryResult, ExplainedOutcome, FinishedDelivery, FspName, Fulfilment, FundsDirection,
    HubAccount, LogIndex, NoticeId, Outcome, OwedNotice, PartyInputs, PrepareOutcome, ResponseEnd,
    ResponseOutcome, Stamp, TransferChange, TransferId, TransferMessage,
};
use ports::{LogError, OwnedPayload, OwnedRecord, RecordReader};
use record::frame::{Payload, Record, payload_digest};

use crate::cli::stdout::moment;
use crate::inspect::explain::report::{
    Attempt, Decimal, DecisionReport, Delivery, Event, Explanation, Leg, Message, Party, Source,
    Verdict, What, request_of,
};
use crate::inspect::verify::accounting::is_end;
use crate::operate::quarantine::Entry;

/// Decisions about a transfer that are told of its beginning, and of its end.
const TOLD_AT_EITHER_END: usize = 500;
/// The end of a delivery that nothing follows.
const DEAD: &str = "dead";

/// What is told of one transfer.
#[derive(Debug, Default)]
pub(crate) struct TransferDecisions {
    /// Its decisions, in the order of the log.
    pub(crate) told: Vec<Decision>,
    /// The records that say how deliveries of its notices ended.
    pub(crate) ends: BTreeMap<NoticeId, Vec<LogIndex>>,
}

impl TransferDecisions {
    /// Whether a record is about the transfer `id`, which this is the tale of.
    pub(crate) fn is_about(&self, id: TransferId, command: &Command) -> bool {
        let owed = |notice| self.told.iter().any(|told| owes(told, notice));
        command.rows().any(|row| *row == id) || command.notices().any(owed)
    }
}

fn owes(told: &Decision, notice: NoticeId) -> bool {
    told.owed.iter().any(|owed| owed.notice == notice)
}

/// Tells it. `up_to` and `source` are for the caller to set right.
///
/// # Errors
/// As [`RecordReader::read`].
pub(crate) fn tell(
    id: TransferId,
    tale: &TransferDecisions,
    (reader, quarantined): (&dyn RecordReader, &[Entry]),
) -> Result<Explanation, LogError> {
    let reading = Reading { reader, records: Cell::new(0) };
    let mut life = HistoryBuilder { expiration: String::new(), state: None, events: Vec::new() };
    let shown = shown(&tale.told);
    for told in &shown {
        life.decided(told, &reading.read(told.log_index)?)?;
    }
    let made_owed: HashSet<_> =
        shown.iter().flat_map(|told| &told.owed).map(|owed| owed.notice).collect();
    let mut owed = BTreeMap::new();
    for one in tale.told.iter().flat_map(|told| &told.owed) {
        *owed.entry(one.notice).or_insert((*one, 0)) =
            (*one, owed.get(&one.notice).map_or(0, |(_, times)| times + 1_usize));
    }
    let mut notices_pending = Vec::new();
    for (notice, (owed, again)) in owed {
        let ends = tale.ends.get(&notice).map_or(&[][..], |ends| ends);
        for log_index in ends.iter().filter(|_| made_owed.contains(&notice)) {
            life.delivered(&owed, &reading.read(*log_index)?)?;
        }
        if ends.len() <= again {
            notices_pending.push(notice.0);
        }
    }
    let mut unread = Vec::new();
    for entry in quarantined {
        let is_about = |command: &_| tale.is_about(id, command);
        let read = reader.read(entry.log_index());
        let told = read.and_then(|owned| life.set_aside(entry, owned, &is_about));
        unread.extend(told.err().map(|error| unread_of(entry, &error)));
    }
    let HistoryBuilder { state, mut events, .. } = life;
    events.sort_by_key(|event| event.log_index);
    let dead_letters = dead_letters(&events, &notices_pending);
    Ok(Explanation {
        transfer: id.to_string(),
        state,
        events,
        left_out: (tale.told.len() - shown.len()) as u64,
        notices_pending,
        dead_letters,
        under_way: Vec::new(),
        up_to: 0,
        source: Source::Store,
        unread,
        records: reading.records.get(),
        seconds: 0.0,
    })
}

fn unread_of(entry: &Entry, error: &LogError) -> String {
    format!(
        "record {} is skipped and cannot be read, so it may be about the transfer: {error}",
        entry.log_index().0
    )
}

/// The decisions that are told: those at either end, and in the middle, where somebody sent the
/// same again and again, the turns of the transfer's life.
fn shown(told: &[Decision]) -> Vec<&Decision> {
    let middle = TOLD_AT_EITHER_END..told.len().saturating_sub(TOLD_AT_EITHER_END);
    let is_shown = |(at, told): &(usize, &Decision)| !middle.contains(at) || is_turn(told);
    told.iter().enumerate().filter(is_shown).map(|(_, told)| told).collect()
}

/// Whether a transfer, or a movement of funds, begins or ends with a decision. What is answered
/// from what is stored has no numbers; answers that leave a transfer open have some.
fn is_turn(decided: &Decision) -> bool {
    let is_answer = ResponseOutcome::of(decided.outcome).is_some();
    let is_new = decided.numbers.is_some() && !is_answer;
    is_new || is_end(decided.outcome) || decided.outcome == Outcome::Expired
}

/// The notices of which nothing is tried any more, in order: the last end of each was a failure.
fn dead_letters(events: &[Event], pending: &[u64]) -> Vec<u64> {
    let mut dead = BTreeSet::new();
    for event in events {
        let What::Delivery(delivery) = &event.what else { continue };
        if delivery.result == DEAD {
            dead.insert(delivery.notice);
        } else {
            dead.remove(&delivery.notice);
        }
    }
    dead.into_iter().filter(|notice| !pending.contains(notice)).collect()
}

/// Reads records, and counts them.
struct Reading<'a> {
    reader: &'a dyn RecordReader,
    records: Cell<u64>,
}

impl Reading<'_> {
    fn read(&self, log_index: LogIndex) -> Result<OwnedRecord, LogError> {
        self.records.set(self.records.get() + 1);
        self.reader.read(log_index)?.ok_or_else(|| LogError::Damaged {
            place: format!("record {}", log_index.0),
            reason: "it is referenced but missing".into(),
        })
    }
}

/// What has been told so far.
struct HistoryBuilder {
    /// Of the prepare that reserved.
    expiration: String,
    state: Option<&'static str>,
    events: Vec<Event>,
}

impl HistoryBuilder {
    fn decided(&mut self, decided: &Decision, owned: &OwnedRecord) -> Result<(), LogError> {
        if decided.outcome == Outcome::Expired {
            self.expire(decided, &decided.owed, owned.stamp);
            return Ok(());
        }
        let command = command_of(owned)?;
        // A prepare that expires at the very moment of its reservation is two decisions in one.
        let at_once = |owed: &&OwedNotice| owed.outcome == Outcome::Expired;
        let expired = decided.owed.iter().any(|owed| at_once(&owed))
            && decided.outcome == Outcome::PrepareReserved;
        let (of_end, own): (Vec<_>, Vec<_>) =
            decided.owed.iter().copied().partition(|owed| expired && at_once(&owed));
        let outcome = ExplainedOutcome::of(decided.outcome);
        let outcome = outcome.ok_or_else(|| {
            damaged(owned, &"its outcome is not that of a decision about a transfer")
        })?;
        let decision = decision_of(outcome, decided, &own);
        let what = if let Command::Administer(administer) = &command {
            What::Operator {
                actor: administer.actor.clone(),
                reason: administer.reason.clone(),
                change: words_of(&administer.change),
                decision,
            }
        } else {
            let message = message_of(&view_of(owned), &command, owned.stamp);
            What::Message { message, decision }
        };
        if let (Command::Prepare(prepare), Outcome::PrepareReserved) = (&command, decided.outcome) {
            self.expiration = moment(Stamp::from_millis(prepare.expiration_ms));
        }
        self.state = state_after(&command, decided.outcome).or(self.state);
        self.push(decided.log_index, owned.stamp, what);
        if expired {
            self.expire(&back(decided), &of_end, owned.stamp);
        }
        Ok(())
    }

    fn expire(&mut self, decided: &Decision, owed: &[OwedNotice], stamp: Stamp) {
        let decision = decision_of(ExplainedOutcome::Expired, decided, owed);
        let expiration = self.expiration.clone();
        self.state = Some("ABORTED");
        self.push(decided.log_index, stamp, What::Expiry { expiration, decision });
    }

    /// A record of ends of deliveries, one of which is that of the notice.
    fn delivered(&mut self, owed: &OwedNotice, owned: &OwnedRecord) -> Result<(), LogError> {
        let Command::FinishDeliveries(ends) = command_of(owned)? else { return Ok(()) };
        for end in ends.iter().filter(|end| end.notice == owed.notice) {
            let tried = tried_of(owned, end.notice)?;
            self.push(owned.log_index, owned.stamp, What::Delivery(delivery_of(owed, end, tried)));
        }
        Ok(())
    }

    /// A record in quarantine, if it is about the transfer.
    fn set_aside(
        &mut self,
        entry: &Entry,
        owned: Option<OwnedRecord>,
        is_about: &dyn Fn(&Command) -> bool,
    ) -> Result<(), LogError> {
        let Some(owned) = owned else { return Ok(()) };
        let command = command_of(&owned)?;
        if !is_about(&command) {
            return Ok(());
        }
        let (message, change) = match &command {
            Command::Administer(administer) => (None, Some(words_of(&administer.change))),
            Command::FinishDeliveries(_) => (None, Some("how deliveries ended".to_owned())),
            Command::Prepare(_)
            | Command::Fulfil(_)
            | Command::Abort(_)
            | Command::Genesis(_)
            | Command::Tick
            | Command::ChangeParties(_) => {
                (Some(message_of(&view_of(&owned), &command, owned.stamp)), None)
            }
        };
        let what = What::SetAside { message, change, quarantined: entry.clone() };
        self.push(owned.log_index, owned.stamp, what);
        Ok(())
    }

    fn push(&mut self, log_index: LogIndex, stamp: Stamp, what: What) {
        self.events.push(Event { log_index: log_index.0, time: moment(stamp), what });
    }
}

/// The state that a decision brings about, if it does.
fn state_after(command: &Command, outcome: Outcome) -> Option<&'static str> {
    if let Some(end) = ResponseEnd::of(outcome) {
        return Some(if end.commits() { "COMMITTED" } else { "ABORTED" });
    }
    match command.change().and_then(Change::about_transfer) {
        Some(TransferChange::MoveFunds(funds)) => state_of_funds(funds.direction, outcome),
        Some(TransferChange::EndFundsOut(end)) => {
            let state = if end.commit { "COMMITTED" } else { "ABORTED" };
            (outcome == Outcome::Accepted).then_some(state)
        }
        Some(TransferChange::Redeliver(_)) => None,
        None => PrepareOutcome::of(outcome).and_then(state_of_prepare),
    }
}

fn state_of_funds(direction: FundsDirection, outcome: Outcome) -> Option<&'static str> {
    let aborted = (outcome == Outcome::FundsInsufficient).then_some("ABORTED");
    let state = match direction {
        FundsDirection::In => "COMMITTED",
        FundsDirection::Out => "RESERVED",
    };
    aborted.or((outcome == Outcome::Accepted).then_some(state))
}

/// A resend, another prepare under a known id or an unknown sender changes nothing.
const fn state_of_prepare(outcome: PrepareOutcome) -> Option<&'static str> {
    use PrepareOutcome::*;
    match outcome {
        PrepareReserved => Some("RESERVED"),
        SenderNotFound
        | PrepareModified
        | PrepareResentCommitted
        | PrepareResentAborted
        | PrepareResentReserved => None,
        PrepareSourceNotPayer
        | PrepareAmountPrecision
        | PreparePayerNotFound
        | PreparePayerInactive
        | PreparePayeeNotFound
        | PreparePayeeInactive
        | PrepareExpirationPast
        | PreparePayerIsPayee
        | PreparePayerAccountNotFound
        | PreparePayerAccountInactive
        | PreparePayeeAccountNotFound
        | PreparePayeeAccountInactive
        | PreparePayeeLaneFull
        | PrepareLiquidityInsufficient
        | PrepareCapExceeded => Some("ABORTED"),
    }
}

fn command_of(owned: &OwnedRecord) -> Result<Command, LogError> {
    record::command::read_fields(owned.kind, owned.version, &owned.fields)
        .map_err(|error| damaged(owned, &error))
}

fn damaged(owned: &OwnedRecord, reason: &dyn std::fmt::Display) -> LogError {
    let place = format!("record {}", owned.log_index.0);
    LogError::Damaged { place, reason: reason.to_string() }
}

/// The attempts of a notice that stand beside its end; none where it took but one, or they are
/// erased.
fn tried_of(owned: &OwnedRecord, notice: NoticeId) -> Result<Vec<Attempt>, LogError> {
    let OwnedPayload::Stored(bytes) = &owned.payload else { return Ok(Vec::new()) };
    if payload_digest(bytes) != owned.payload_digest {
        return Err(damaged(owned, &"its delivery attempts do not match their digest"));
    }
    let all = record::attempts::read(bytes).map_err(|error| damaged(owned, &error))?;
    let own = all.iter().filter(|(other, _)| *other == notice);
    Ok(own.flat_map(|(_, tried)| tried.iter().map(Attempt::of)).collect())
}

fn decision_of(
    outcome: ExplainedOutcome,
    decided: &Decision,
    owed: &[OwedNotice],
) -> DecisionReport {
    let numbers = decided.numbers.as_ref();
    let owes = owed.iter().map(|owed| crate::inspect::explain::report::Owed {
        notice: owed.notice.0,
        recipient: owed.recipient.as_str().to_owned(),
        request: request_of(owed.kind),
        outcome: format!("{:?}", owed.outcome),
    });
    let parties = numbers.into_iter().flat_map(|numbers| {
        numbers.sides.iter().map(move |side| party_of(side, numbers.lane_capacity))
    });
    DecisionReport {
        verdict: Verdict::of(outcome),
        parties: parties.collect(),
        postings: numbers.map(legs_of).unwrap_or_default(),
        owes: owes.collect(),
    }
}

/// The end of a reservation within its own decision: what that moved goes back.
fn back(decided: &Decision) -> Decision {
    let mut back = decided.clone();
    let turn = |held: &mut BalanceChange| (held.before, held.change) = (held.after(), -held.change);
    if let Some(numbers) = &mut back.numbers {
        numbers.sides.iter_mut().for_each(|side| turn(&mut side.position));
        numbers.hub.iter_mut().for_each(|account| turn(&mut account.held));
    }
    back
}

fn party_of(side: &PartyInputs, lane_capacity: u32) -> Party {
    Party {
        name: side.name.as_str().to_owned(),
        currency: side.currency.to_string(),
        active: side.active,
        account_active: side.account_active,
        position_before: Decimal(side.position.before),
        position_after: Decimal(side.position.after()),
        cover_before: Decimal(-side.settlement.before),
        cover_after: Decimal(-side.settlement.after()),
        cap: side.cap.map(Decimal),
        notices_owed: side.owed,
        lane_capacity,
    }
}

/// The accounts whose balances changed, in order of number.
fn legs_of(numbers: &DecisionInputs) -> Vec<Leg> {
    let of_sides = numbers.sides.iter().flat_map(|side| {
        [(AccountKind::Position, &side.position), (AccountKind::Settlement, &side.settlement)]
            .map(|(kind, held)| leg_of(kind, held, (&side.name, side.currency)))
    });
    let of_hub = numbers.hub.iter().map(|HubAccount { kind, held, currency }| {
        leg_of(*kind, held, (&numbers.hub_name, *currency))
    });
    let mut legs: Vec<_> = of_sides.chain(of_hub).flatten().collect();
    legs.sort_by_key(|leg| leg.account);
    legs
}

fn leg_of(
    kind: AccountKind,
    held: &BalanceChange,
    (owner, currency): (&FspName, Currency),
) -> Option<Leg> {
    let (side, amount) = match held.change {
        Amount::ZERO => return None,
        rise if Amount::ZERO < rise => ("debit", rise),
        fall => ("credit", -fall),
    };
    Some(Leg {
        side,
        account: held.account.0,
        kind: name_of(kind),
        owner: owner.as_str().to_owned(),
        amount: Decimal(amount),
        currency: currency.to_string(),
        before: Decimal(held.before),
        after: Decimal(held.after()),
    })
}

fn delivery_of(owed: &OwedNotice, end: &FinishedDelivery, tried: Vec<Attempt>) -> Delivery {
    Delivery {
        notice: end.notice.0,
        recipient: owed.recipient.as_str().to_owned(),
        request: request_of(owed.kind),
        result: match end.result {
            DeliveryResult::Delivered => "delivered",
            DeliveryResult::Dead => DEAD,
            DeliveryResult::Withdrawn => "withdrawn",
            DeliveryResult::GivenUp => "given up",
        },
        attempts: end.attempts,
        last_status: (end.status != 0).then_some(end.status),
        finished: moment(Stamp::from_millis(end.finished_ms)),
        tried,
    }
}

fn view_of(owned: &OwnedRecord) -> Record<'_> {
    let (payload, payload_length) = match &owned.payload {
        OwnedPayload::None => (Payload::None, 0),
        OwnedPayload::Erased => (Payload::Erased, 0),
        OwnedPayload::Stored(bytes) => (Payload::Stored(bytes), bytes.len() as u32),
    };
    Record {
        log_index: owned.log_index,
        kind: owned.kind,
        version: owned.version,
        fields: &owned.fields,
        payload_digest: owned.payload_digest,
        payload_length,
        payload,
    }
}

pub(crate) fn name_of(kind: AccountKind) -> String {
    let name = match kind {
        AccountKind::Position
        | AccountKind::Settlement
        | AccountKind::HubReconciliation
        | AccountKind::HubMultilateralSettlement
        | AccountKind::InterchangeFee
        | AccountKind::InterchangeFeeSettlement
        | AccountKind::HubFee => kind.name().unwrap_or_default(),
        AccountKind::InFlight => "IN_FLIGHT",
        AccountKind::Outflow => "OUTFLOW",
        AccountKind::Opening => "OPENING",
    };
    name.to_owned()
}

fn words_of(change: &Change) -> String {
    match change.about_transfer() {
        Some(TransferChange::MoveFunds(funds)) => {
            let way = match funds.direction {
                FundsDirection::In => "funds in",
                FundsDirection::Out => "funds out, to be reserved",
            };
            format!("{way}: {} {} of {}", funds.amount, funds.currency, funds.name.as_str())
        }
        Some(TransferChange::EndFundsOut(end)) => {
            let back = if end.commit { "" } else { " given back" };
            format!("funds out of {}{back}", end.name.as_str())
        }
        Some(TransferChange::Redeliver(again)) => {
            format!("dead letter {}, to be sent again", again.notice.0)
        }
        None => format!("{change:?}"),
    }
}

/// A message as the record holds it.
fn message_of(record: &Record<'_>, command: &Command, stamp: Stamp) -> Message {
    let (kept, sent) = sent_of(record);
    let sizes = sent.as_ref().map(sizes_of);
    let blank = Message {
        request: "",
        sender: String::new(),
        destination: None,
        says: String::new(),
        expiration: None,
        expires_in_ms: None,
        trace: String::new(),
        hash: String::new(),
        kept,
        header_lines: sizes.map(|(lines, _, _)| lines),
        header_bytes: sizes.map(|(_, head, _)| head),
        body_bytes: sizes.map(|(_, _, body)| body),
        digest: (kept != "none").then(|| record.payload_digest.to_string()),
    };
    let name = |name: &FspName| name.as_str().to_owned();
    let Some(message) = command.message() else { return blank };
    match message {
        TransferMessage::Prepare(prepare) => Message {
            request: "POST /transfers",
            sender: name(&prepare.source),
            // Nothing is decided by it, so that it stands in the headers alone.
            destination: sent.as_ref().and_then(destination_of),
            says: format!(
                "{} {} from {} to {}, condition {}",
                prepare.amount,
                prepare.currency,
                prepare.payer.as_str(),
                prepare.payee.as_str(),
                hexadecimal(&prepare.condition)
            ),
            expiration: Some(moment(Stamp::from_millis(prepare.expiration_ms))),
            expires_in_ms: Some(prepare.expiration_ms.cast_signed() - stamp.millis().cast_signed()),
            trace: hexadecimal(&prepare.trace),
            hash: prepare.hash.to_string(),
            ..blank
        },
        TransferMessage::Fulfil(fulfil) => Message {
            request: "PUT /transfers/{id}",
            sender: name(&fulfil.source),
            destination: fulfil.destination.as_ref().map(name),
            says: format!("{:?}, {}", fulfil.state, words_of_fulfilment(fulfil.fulfilment)),
            trace: hexadecimal(&fulfil.trace),
            hash: fulfil.hash.to_string(),
            ..blank
        },
        TransferMessage::Abort(abort) => Message {
            request: "PUT /transfers/{id}/error",
            sender: name(&abort.source),
            destination: abort.destination.as_ref().map(name),
            says: words_of_error(abort, sent.as_ref()),
            trace: hexadecimal(&abort.trace),
            hash: abort.hash.to_string(),
            ..blank
        },
    }
}

/// What is left of a message, and the message if it can be read.
fn sent_of(record: &Record<'_>) -> (&'static str, Option<Sent>) {
    match record.payload {
        Payload::None => ("none", None),
        Payload::Erased => ("erased", None),
        Payload::Stored(stored) => {
            let is_sound = payload_digest(stored) == record.payload_digest;
            let sent = fspiop::stored_message::decode(&bytes::Bytes::copy_from_slice(stored)).ok();
            (if is_sound { "stored" } else { "damaged" }, sent)
        }
    }
}

/// Header lines, bytes of headers, and of the body.
fn sizes_of(sent: &Sent) -> (usize, usize, usize) {
    let line = |(name, value): (&_, &_)| length_of(name) + length_of(value);
    (sent.headers.len(), sent.headers.iter().map(line).sum(), sent.body.len())
}

fn destination_of(sent: &Sent) -> Option<String> {
    Some(sent.headers.get("fspiop-destination")?.to_str().ok()?.to_owned())
}

fn words_of_error(abort: &Abort, sent: Option<&Sent>) -> String {
    let known = match abort.code_is_known {
        true => "an error of the protocol or of private use",
        false => "an error that the protocol does not know",
    };
    let error = sent.and_then(|sent| ErrorInformation::parse(&sent.body).ok());
    error.map_or(known.to_owned(), |error| {
        format!("{known}: {} {:?}", error.code, error.description)
    })
}

fn length_of(text: &impl AsRef<[u8]>) -> usize {
    text.as_ref().len()
}

fn words_of_fulfilment(fulfilment: Fulfilment) -> String {
    use sha2::Digest;
    match fulfilment {
        Fulfilment::Absent => "no fulfilment".to_owned(),
        Fulfilment::Undecodable => "a fulfilment that is not 32 bytes".to_owned(),
        Fulfilment::Present(preimage) => {
            let hash = sha2::Sha256::digest(preimage);
            format!("a fulfilment that hashes to {}", hexadecimal(&hash))
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
