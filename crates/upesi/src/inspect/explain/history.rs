//! Builds the history of one transfer from its recorded decisions ([`ledger::Decision`]) and their
//! records. Neither replays the log nor reads the state.
//!
//! Cost: one record read per event, a few thousand at most. If a message was resent more often, the
//! decisions in the middle are only counted.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashSet};

use fspiop::body::ErrorInformation;
use fspiop::stored_message::StoredMessage;
use ledger::{
    Abort, AccountKind, AdjustBalance, Amount, BalanceChange, BulkOutcome, Change, Command,
    Currency, Decision, DecisionInputs, DeliveryResult, ExplainedOutcome, FeeAccount, FeeRuleId,
    FinishedDelivery, FspName, Fulfilment, FundsDirection, HubAccount, LogIndex, NoticeId, Outcome,
    OwedNotice, PartyInputs, PrepareBulk, PrepareOutcome, QuoteContent, RecordQuote,
    RecordQuoteAnswer, RecordRequestToPay, RequestStep, ResponseEnd, ResponseOutcome, Stamp,
    TransferChange, TransferId, TransferMessage,
};
use ports::{LogError, OwnedPayload, OwnedRecord, RecordReader};
use record::frame::{Payload, Record, payload_digest};

use crate::cli::stdout::moment;
use crate::cli::units::counted;
use crate::inspect::explain::payment::Payment;
use crate::inspect::explain::report::{
    Attempt, BulkMembership, Decimal, DecisionReport, Delivery, Event, EventDetail, Explanation,
    MessageReport, PartyReport, PostingLeg, Source, Verdict, request_of,
};
use crate::inspect::explain::stored_command::{command_of, damaged};
use crate::inspect::verify::accounting::is_end;
use crate::operate::quarantine::Entry;

/// Number of decisions that are reported from the beginning of a history, and from its end.
const REPORTED_AT_EACH_END: usize = 500;
/// Result of a delivery that was given up.
const DEAD: &str = "dead";

/// The recorded decisions about one transfer.
#[derive(Debug, Default)]
pub(crate) struct TransferDecisions {
    /// The payment, with the ids that they are about.
    pub(crate) payment: Payment,
    /// In the order of the log.
    pub(crate) decisions: Vec<Decision>,
    /// The records with the results of the deliveries of each notice.
    pub(crate) deliveries: BTreeMap<NoticeId, Vec<LogIndex>>,
    /// The message that created the transfer, or the bulk to which it belongs.
    pub(crate) beginning: Option<Command>,
}

impl TransferDecisions {
    /// Reads the message that created the transfer.
    ///
    /// # Errors
    /// As [`RecordReader::read`].
    pub(crate) fn read_beginning(&mut self, reader: &dyn RecordReader) -> Result<(), LogError> {
        let begins = |decision: &&Decision| {
            matches!(decision.outcome, Outcome::BulkAccepted | Outcome::BulkRejected)
                || PrepareOutcome::of(decision.outcome).is_some_and(PrepareOutcome::begins)
        };
        let Some(first) = self.decisions.iter().find(begins) else { return Ok(()) };
        let owned = reader.read(first.log_index)?;
        self.beginning = owned.as_ref().and_then(|owned| command_of(owned).ok());
        Ok(())
    }

    /// The bulk that created the transfer as an item.
    fn bulk(&self) -> Option<&PrepareBulk> {
        let Some(Command::PrepareBulk(bulk)) = &self.beginning else { return None };
        Some(bulk)
    }

    /// The id of the bulk that created the transfer as an item, or of the bulk itself.
    pub(crate) fn bulk_id(&self) -> Option<TransferId> {
        self.bulk().map(|bulk| bulk.id)
    }

    fn membership(&self, id: TransferId) -> Option<BulkMembership> {
        let bulk = self.bulk()?;
        Some(match id.is_bulk() {
            true => BulkMembership::Items(bulk.items.len()),
            false => BulkMembership::ItemOf(bulk.id.to_string()),
        })
    }

    /// Whether a command is about the payment to which these decisions belong. A response to a bulk
    /// is about each item.
    pub(crate) fn is_about(&self, command: &Command) -> bool {
        let ids = self.payment.ids();
        let is_owed = |notice| self.decisions.iter().any(|decision| creates(decision, notice));
        let bulk = self.bulk().map(|bulk| bulk.id);
        let is_own = |row: &TransferId| ids.contains(row) || Some(*row) == bulk;
        let is_exchange = command.exchange().is_some_and(|id| ids.contains(id));
        let is_named = command.payments().any(|payment| ids.contains(&payment));
        is_exchange || is_named || command.rows().any(is_own) || command.notices().any(is_owed)
    }

    /// The deadline of the transfer or bulk; `None` for a movement of funds.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        self.beginning.as_ref().and_then(expiration_of)
    }
}

fn creates(decision: &Decision, notice: NoticeId) -> bool {
    decision.owed.iter().any(|owed| owed.notice == notice)
}

/// Builds the history. The caller sets `up_to` and `source`.
///
/// # Errors
/// As [`RecordReader::read`].
pub(crate) fn build_history(
    id: TransferId,
    decisions: &TransferDecisions,
    (reader, quarantined): (&dyn RecordReader, &[Entry]),
) -> Result<Explanation, LogError> {
    let reader = CountingReader { reader, records: Cell::new(0) };
    let mut history = HistoryBuilder { expiration: String::new(), state: None, events: Vec::new() };
    let reported = reported(&decisions.decisions);
    for decision in &reported {
        history.add_decision(decision, &reader.read(decision.log_index)?)?;
    }
    let reported_notices: HashSet<_> =
        reported.iter().flat_map(|decision| &decision.owed).map(|owed| owed.notice).collect();
    let mut owed = BTreeMap::new();
    for one in decisions.decisions.iter().flat_map(|decision| &decision.owed) {
        *owed.entry(one.notice).or_insert((*one, 0)) =
            (*one, owed.get(&one.notice).map_or(0, |(_, times)| times + 1_usize));
    }
    let mut notices_pending = Vec::new();
    for (notice, (owed, resent)) in owed {
        let results = decisions.deliveries.get(&notice).map_or(&[][..], |results| results);
        for log_index in results.iter().filter(|_| reported_notices.contains(&notice)) {
            history.add_delivery(&owed, &reader.read(*log_index)?)?;
        }
        if results.len() <= resent {
            notices_pending.push(notice.0);
        }
    }
    let mut unread = Vec::new();
    for entry in quarantined {
        let is_about = |command: &_| decisions.is_about(command);
        let read = reader.reader.read(entry.log_index());
        let added = read.and_then(|owned| history.add_quarantined((entry, id), owned, &is_about));
        unread.extend(added.err().map(|error| unread_of(entry, &error)));
    }
    let HistoryBuilder { state, mut events, .. } = history;
    events.sort_by_key(|event| event.log_index);
    let dead_letters = dead_letters(&events, &notices_pending);
    Ok(Explanation {
        transfer: decisions.payment.transfer().unwrap_or(id).to_string(),
        payment: decisions.payment.report(),
        bulk: decisions.membership(id),
        state,
        settlement: None,
        fee_settlement: None,
        events,
        left_out: (decisions.decisions.len() - reported.len()) as u64,
        notices_pending,
        dead_letters,
        under_way: Vec::new(),
        up_to: 0,
        source: Source::Store,
        unread,
        records: reader.records.get(),
        seconds: 0.0,
    })
}

fn unread_of(entry: &Entry, error: &LogError) -> String {
    format!(
        "record {} is skipped and cannot be read, so it may be about the transfer: {error}",
        entry.log_index().0
    )
}

/// The decisions to report: the first and the last ones, and in the middle, where the same message
/// was resent many times, those that began or ended the transfer.
fn reported(decisions: &[Decision]) -> Vec<&Decision> {
    let middle = REPORTED_AT_EACH_END..decisions.len().saturating_sub(REPORTED_AT_EACH_END);
    let is_reported = |(at, decision): &(usize, &Decision)| {
        !middle.contains(at) || begins_or_ends_transfer(decision)
    };
    decisions.iter().enumerate().filter(is_reported).map(|(_, decision)| decision).collect()
}

/// Whether a transfer or a movement of funds begins or ends with a decision. An answer from stored
/// results has no inputs. A response that leaves its transfer reserved has some.
fn begins_or_ends_transfer(decision: &Decision) -> bool {
    let is_response = ResponseOutcome::of(decision.outcome).is_some();
    let is_new = decision.inputs.is_some() && !is_response;
    is_new || is_end(decision.outcome) || decision.outcome == Outcome::Expired
}

/// The notices whose last delivery failed and that are not pending, in order.
fn dead_letters(events: &[Event], pending: &[u64]) -> Vec<u64> {
    let mut dead = BTreeSet::new();
    for event in events {
        let EventDetail::Delivery(delivery) = &event.detail else { continue };
        if delivery.result == DEAD {
            dead.insert(delivery.notice);
        } else {
            dead.remove(&delivery.notice);
        }
    }
    dead.into_iter().filter(|notice| !pending.contains(notice)).collect()
}

/// Reads and counts records.
struct CountingReader<'a> {
    reader: &'a dyn RecordReader,
    records: Cell<u64>,
}

impl CountingReader<'_> {
    fn read(&self, log_index: LogIndex) -> Result<OwnedRecord, LogError> {
        self.records.set(self.records.get() + 1);
        self.reader.read(log_index)?.ok_or_else(|| LogError::Damaged {
            place: format!("record {}", log_index.0),
            reason: "the cold store refers to it, but the log does not have it".into(),
        })
    }
}

/// The events so far.
struct HistoryBuilder {
    /// Expiration of the reserved transfer.
    expiration: String,
    state: Option<&'static str>,
    events: Vec<Event>,
}

impl HistoryBuilder {
    fn add_decision(&mut self, decision: &Decision, owned: &OwnedRecord) -> Result<(), LogError> {
        if decision.outcome == Outcome::Expired {
            self.add_expiry(decision, &decision.owed, owned.stamp);
            return Ok(());
        }
        let command = command_of(owned)?;
        // A prepare whose deadline has passed when it is reserved is two decisions in one.
        let is_expiry = |owed: &&OwedNotice| owed.outcome == Outcome::Expired;
        let expired = decision.owed.iter().any(|owed| is_expiry(&owed))
            && decision.outcome == Outcome::PrepareReserved;
        let (of_expiry, own): (Vec<_>, Vec<_>) =
            decision.owed.iter().copied().partition(|owed| expired && is_expiry(&owed));
        let outcome = ExplainedOutcome::of(decision.outcome);
        let outcome = outcome.ok_or_else(|| {
            damaged(owned, &"its outcome is not that of a decision about a transfer")
        })?;
        let report = decision_report(outcome, decision, &own);
        let detail = if let Command::Administer(administer) = &command {
            EventDetail::Operator {
                actor: administer.actor.clone(),
                reason: administer.reason.clone(),
                change: describe_change(&administer.change),
                decision: report,
            }
        } else {
            let message =
                message_report(&view_of(owned), (&command, decision.transfer), owned.stamp);
            EventDetail::Message { message, decision: report }
        };
        if let (Some(expiration_ms), Outcome::PrepareReserved | Outcome::BulkAccepted) =
            (expiration_of(&command), decision.outcome)
        {
            self.expiration = moment(Stamp::from_millis(expiration_ms));
        }
        let state = match decision.transfer.is_bulk() {
            true => state_of_bulk(decision.outcome),
            false => state_after(&command, decision.outcome),
        };
        self.state = state.or(self.state);
        self.push(decision.log_index, owned.stamp, detail);
        if expired {
            self.add_expiry(&reversed(decision), &of_expiry, owned.stamp);
        }
        Ok(())
    }

    fn add_expiry(&mut self, decision: &Decision, owed: &[OwedNotice], stamp: Stamp) {
        let report = decision_report(ExplainedOutcome::Expired, decision, owed);
        let expiration = self.expiration.clone();
        let end = owed.first().map(|owed| owed.outcome).filter(|_| decision.transfer.is_bulk());
        self.state = end.map_or(Some("ABORTED"), state_of_bulk);
        let detail = EventDetail::Expiry { expiration, decision: report };
        self.push(decision.log_index, stamp, detail);
    }

    /// Adds the result of a delivery of the notice from a record of finished deliveries.
    fn add_delivery(&mut self, owed: &OwedNotice, owned: &OwnedRecord) -> Result<(), LogError> {
        let Command::FinishDeliveries(finished) = command_of(owned)? else { return Ok(()) };
        for end in finished.iter().filter(|end| end.notice == owed.notice) {
            let attempts = attempts_of(owned, end.notice)?;
            let detail = EventDetail::Delivery(delivery_of(owed, end, attempts));
            self.push(owned.log_index, owned.stamp, detail);
        }
        Ok(())
    }

    /// Adds a quarantined record, if it is about the transfer.
    fn add_quarantined(
        &mut self,
        (entry, id): (&Entry, TransferId),
        owned: Option<OwnedRecord>,
        is_about: &dyn Fn(&Command) -> bool,
    ) -> Result<(), LogError> {
        let Some(owned) = owned else { return Ok(()) };
        let command = command_of(&owned)?;
        if !is_about(&command) {
            return Ok(());
        }
        let (message, change) = match &command {
            Command::Administer(administer) => (None, Some(describe_change(&administer.change))),
            Command::FinishDeliveries(_) => (None, Some("results of deliveries".to_owned())),
            Command::Prepare(_)
            | Command::Fulfil(_)
            | Command::Abort(_)
            | Command::Genesis(_)
            | Command::Tick
            | Command::ChangeParties(_)
            | Command::PrepareBulk(_)
            | Command::FulfilBulk(_)
            | Command::AbortBulk(_)
            | Command::RecordQuote(_)
            | Command::RecordQuoteAnswer(_)
            | Command::RecordRequestToPay(_) => {
                (Some(message_report(&view_of(&owned), (&command, id), owned.stamp)), None)
            }
        };
        let detail = EventDetail::Quarantined { message, change, quarantined: entry.clone() };
        self.push(owned.log_index, owned.stamp, detail);
        Ok(())
    }

    fn push(&mut self, log_index: LogIndex, stamp: Stamp, detail: EventDetail) {
        self.events.push(Event { log_index: log_index.0, time: moment(stamp), detail });
    }
}

/// The state of the transfer after a decision, if the decision changed it.
fn state_after(command: &Command, outcome: Outcome) -> Option<&'static str> {
    if let Some(end) = ResponseEnd::of(outcome) {
        return Some(if end.commits() { "COMMITTED" } else { "ABORTED" });
    }
    if command.exchange().is_some() {
        return None;
    }
    match command.change().and_then(Change::about_transfer) {
        Some(TransferChange::MoveFunds(funds)) => state_of_funds(funds.direction, outcome),
        Some(TransferChange::EndFundsOut(end)) => {
            let state = if end.commit { "COMMITTED" } else { "ABORTED" };
            (outcome == Outcome::Accepted).then_some(state)
        }
        Some(TransferChange::AdjustBalance(_)) => {
            (outcome == Outcome::Accepted).then_some("COMMITTED")
        }
        Some(TransferChange::Redeliver(_) | TransferChange::DropDeadLetter(_)) => None,
        None => PrepareOutcome::of(outcome).and_then(state_of_prepare),
    }
}

/// The state of a bulk after a decision about it, if the decision changed it.
fn state_of_bulk(outcome: Outcome) -> Option<&'static str> {
    let Some(outcome) = BulkOutcome::of(outcome) else {
        let refused = PrepareOutcome::of(outcome).and_then(state_of_prepare).is_some();
        return (refused || ResponseEnd::of(outcome).is_some()).then_some("REJECTED");
    };
    Some(match outcome {
        BulkOutcome::BulkAccepted => "ACCEPTED",
        BulkOutcome::BulkProcessing => "PROCESSING",
        BulkOutcome::BulkCompleted => "COMPLETED",
        BulkOutcome::BulkRejected => "REJECTED",
    })
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
        | QuoteNotFound
        | PrepareDiffersFromQuote
        | QuoteExpired
        | PreparePayeeLaneFull
        | PrepareLiquidityInsufficient
        | PrepareCapExceeded => Some("ABORTED"),
    }
}

/// The attempts of a delivery that are stored in its record. Empty if the first attempt succeeded,
/// or if they were erased.
fn attempts_of(owned: &OwnedRecord, notice: NoticeId) -> Result<Vec<Attempt>, LogError> {
    let OwnedPayload::Stored(bytes) = &owned.payload else { return Ok(Vec::new()) };
    if payload_digest(bytes) != owned.payload_digest {
        return Err(damaged(owned, &"its delivery attempts do not match their digest"));
    }
    let all = record::attempts::read(bytes).map_err(|error| damaged(owned, &error))?;
    let own = all.iter().filter(|(other, _)| *other == notice);
    Ok(own.flat_map(|(_, attempts)| attempts.iter().map(Attempt::from_record)).collect())
}

fn decision_report(
    outcome: ExplainedOutcome,
    decision: &Decision,
    owed: &[OwedNotice],
) -> DecisionReport {
    let inputs = decision.inputs.as_ref();
    let owes = owed.iter().map(|owed| crate::inspect::explain::report::NoticeReport {
        notice: owed.notice.0,
        recipient: owed.recipient.as_str().to_owned(),
        request: request_of(owed.kind),
        outcome: format!("{:?}", owed.outcome),
    });
    let parties = inputs.into_iter().flat_map(|inputs| {
        inputs.parties.iter().map(move |side| party_report(side, inputs.lane_capacity))
    });
    DecisionReport {
        verdict: Verdict::of(outcome),
        parties: parties.collect(),
        postings: inputs.map(legs_of).unwrap_or_default(),
        owes: owes.collect(),
    }
}

/// The expiry of a transfer within the decision that reserved it: reverses the reservation.
fn reversed(decision: &Decision) -> Decision {
    let mut expiry = decision.clone();
    let reverse = |balance: &mut BalanceChange| {
        (balance.before, balance.change) = (balance.after(), -balance.change);
    };
    if let Some(inputs) = &mut expiry.inputs {
        inputs.parties.iter_mut().for_each(|side| reverse(&mut side.position));
        inputs.hub.iter_mut().for_each(|account| reverse(&mut account.balance));
    }
    expiry
}

fn party_report(side: &PartyInputs, lane_capacity: u32) -> PartyReport {
    PartyReport {
        name: side.name.as_str().to_owned(),
        currency: side.currency.to_string(),
        active: side.active,
        account_active: side.account_active,
        position_before: Decimal(side.position.before),
        position_after: Decimal(side.position.after()),
        cover_before: Decimal(-side.settlement.before),
        cover_after: Decimal(-side.settlement.after()),
        cap: side.net_debit_cap.map(Decimal),
        notices_owed: side.owed,
        lane_capacity,
    }
}

/// The accounts whose balances changed, in order of number.
fn legs_of(inputs: &DecisionInputs) -> Vec<PostingLeg> {
    let of_sides = inputs.parties.iter().flat_map(|side| {
        [(AccountKind::Position, &side.position), (AccountKind::Settlement, &side.settlement)]
            .map(|(kind, balance)| leg_of(kind, balance, (&side.name, side.currency)))
    });
    let of_hub = inputs.hub.iter().map(|HubAccount { kind, balance, currency }| {
        leg_of(*kind, balance, (&inputs.hub_name, *currency))
    });
    let of_fees = inputs.fees.iter().map(|FeeAccount { party, balance }| {
        let owner = inputs.parties.get(*party as usize)?;
        leg_of(AccountKind::InterchangeFee, balance, (&owner.name, owner.currency))
    });
    let mut legs: Vec<_> = of_sides.chain(of_fees).chain(of_hub).flatten().collect();
    legs.sort_by_key(|leg| leg.account);
    legs
}

fn leg_of(
    kind: AccountKind,
    balance: &BalanceChange,
    (owner, currency): (&FspName, Currency),
) -> Option<PostingLeg> {
    let (side, amount) = match balance.change {
        Amount::ZERO => return None,
        rise if Amount::ZERO < rise => ("debit", rise),
        fall => ("credit", -fall),
    };
    Some(PostingLeg {
        side,
        account: balance.account.0,
        kind: name_of(kind),
        owner: owner.as_str().to_owned(),
        amount: Decimal(amount),
        currency: currency.to_string(),
        before: Decimal(balance.before),
        after: Decimal(balance.after()),
    })
}

fn delivery_of(owed: &OwedNotice, end: &FinishedDelivery, attempts: Vec<Attempt>) -> Delivery {
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
        tried: attempts,
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

fn describe_change(change: &Change) -> String {
    decided_change(change) + &of_proposal(change)
}

fn decided_change(change: &Change) -> String {
    match change.about_transfer() {
        Some(TransferChange::MoveFunds(funds)) => {
            let kind = match funds.direction {
                FundsDirection::In => "funds in",
                FundsDirection::Out => "funds out, reservation",
            };
            format!("{kind}: {} {} of {}", funds.amount, funds.currency, funds.name.as_str())
        }
        Some(TransferChange::EndFundsOut(end)) => {
            let result = if end.commit { "commit" } else { "abort" };
            format!("funds out of {}, {result}", end.name.as_str())
        }
        Some(TransferChange::Redeliver(redeliver)) => {
            format!("resend of dead letter {}", redeliver.notice.0)
        }
        Some(TransferChange::DropDeadLetter(drop)) => {
            format!("drop of dead letter {}", drop.notice.0)
        }
        Some(TransferChange::AdjustBalance(adjustment)) => {
            let AdjustBalance { amount, currency, account, name, .. } = adjustment;
            format!("adjustment of account {} of {}: {amount} {currency}", account.0, name.as_str())
        }
        None => format!("{change:?}"),
    }
}

/// The proposal that a change approves, as the end of its description.
fn of_proposal(change: &Change) -> String {
    let Change::ApproveProposal(approval) = change else { return String::new() };
    format!(" (approval of proposal {} by {})", approval.proposal.0, approval.by)
}

/// The fee rule that the edge found.
fn describe_fee_rule(rule: Option<FeeRuleId>) -> String {
    rule.map_or_else(String::new, |rule| format!(", interchange fee rule {}", rule.0))
}

/// Expiration of the transfers that a message creates.
const fn expiration_of(command: &Command) -> Option<u64> {
    match command {
        Command::Prepare(prepare) => Some(prepare.expiration_ms),
        Command::PrepareBulk(bulk) => Some(bulk.expiration_ms),
        Command::Genesis(_)
        | Command::Tick
        | Command::Fulfil(_)
        | Command::Abort(_)
        | Command::FinishDeliveries(_)
        | Command::ChangeParties(_)
        | Command::Administer(_)
        | Command::FulfilBulk(_)
        | Command::AbortBulk(_)
        | Command::RecordQuote(_)
        | Command::RecordQuoteAnswer(_)
        | Command::RecordRequestToPay(_) => None,
    }
}

/// The request for a quote.
fn quote_report(quote: &RecordQuote, stamp: Stamp, blank: MessageReport) -> MessageReport {
    let left = |end_ms: u64| end_ms.cast_signed() - stamp.millis().cast_signed();
    MessageReport {
        request: "POST /quotes",
        sender: quote.source.as_str().to_owned(),
        destination: Some(quote.destination.as_str().to_owned()),
        says: format!("transaction {}", quote.transaction),
        expiration: quote.expiration_ms.map(|ms| moment(Stamp::from_millis(ms))),
        expires_in_ms: quote.expiration_ms.map(left),
        trace: hexadecimal(&quote.trace),
        hash: quote.hash.to_string(),
        ..blank
    }
}

/// The answer to a quote.
fn quote_answer_report(
    answer: &RecordQuoteAnswer,
    destination: Option<String>,
    blank: MessageReport,
) -> MessageReport {
    let (request, says) = match answer.content {
        QuoteContent::Offer(offer) => {
            let until = moment(Stamp::from_millis(offer.expiration_ms));
            ("PUT /quotes/{id}", format!("offer until {until}, terms {}", offer.terms))
        }
        QuoteContent::Error => ("PUT /quotes/{id}/error", "an error".to_owned()),
    };
    MessageReport {
        request,
        sender: answer.source.as_str().to_owned(),
        destination,
        says,
        trace: hexadecimal(&answer.trace),
        hash: answer.hash.to_string(),
        ..blank
    }
}

/// A message about a transaction request.
fn request_report(
    message: &RecordRequestToPay,
    (destination, stamp): (Option<String>, Stamp),
    blank: MessageReport,
) -> MessageReport {
    let (request, says, expiration_ms) = match message.step {
        RequestStep::Requested(terms) => {
            ("POST /transactionRequests", "a request to pay".to_owned(), terms.expiration_ms)
        }
        RequestStep::Answered(status) => {
            let transaction = status.transaction.map(|id| format!(", transaction {id}"));
            let says = format!("{}{}", status.state.name(), transaction.unwrap_or_default());
            ("PUT /transactionRequests/{id}", says, None)
        }
        RequestStep::Failed => ("PUT /transactionRequests/{id}/error", "an error".to_owned(), None),
    };
    let left = |end_ms: u64| end_ms.cast_signed() - stamp.millis().cast_signed();
    MessageReport {
        request,
        sender: message.source.as_str().to_owned(),
        destination,
        says,
        expiration: expiration_ms.map(|ms| moment(Stamp::from_millis(ms))),
        expires_in_ms: expiration_ms.map(left),
        trace: hexadecimal(&message.trace),
        hash: message.hash.to_string(),
        ..blank
    }
}

/// A message about a quote, a transaction request or a bulk, in its history or in that of one of
/// its items.
fn bulk_or_quote_report(
    (command, id): (&Command, TransferId),
    destination: Option<String>,
    stamp: Stamp,
    blank: MessageReport,
) -> MessageReport {
    let place = |mut ids: Box<dyn Iterator<Item = TransferId> + '_>, count: usize| {
        if id.is_bulk() {
            return counted(count as u64, "item");
        }
        let number = ids.position(|item| item == id).map_or(0, |at| at + 1);
        format!("item {number} of {count}")
    };
    let (request, bulk, content, (hash, trace)) = match command {
        Command::PrepareBulk(bulk) => {
            let item = bulk.items.iter().find(|item| item.id == id);
            let amount = item.map_or_else(String::new, |item| {
                format!(", {} {}{}", item.amount, item.currency, describe_fee_rule(item.fee_rule))
            });
            let place = place(Box::new(bulk.items.iter().map(|item| item.id)), bulk.items.len());
            let (payer, payee) = (bulk.payer.as_str(), bulk.payee.as_str());
            let content = format!("{place}{amount} from {payer} to {payee}");
            ("POST /bulkTransfers", bulk.id, content, (bulk.hash, bulk.trace))
        }
        Command::FulfilBulk(bulk) => {
            let content = place(Box::new(bulk.items.iter().map(|item| item.id)), bulk.items.len());
            ("PUT /bulkTransfers/{id}", bulk.id, content, (bulk.hash, bulk.trace))
        }
        Command::AbortBulk(bulk) => {
            let content = "all items in flight".to_owned();
            ("PUT /bulkTransfers/{id}/error", bulk.id, content, (bulk.hash, bulk.trace))
        }
        Command::Genesis(_)
        | Command::Tick
        | Command::Fulfil(_)
        | Command::Abort(_)
        | Command::FinishDeliveries(_)
        | Command::ChangeParties(_)
        | Command::Administer(_)
        | Command::Prepare(_) => return blank,
        Command::RecordQuote(quote) => return quote_report(quote, stamp, blank),
        Command::RecordQuoteAnswer(answer) => {
            return quote_answer_report(answer, destination, blank);
        }
        Command::RecordRequestToPay(request) => {
            return request_report(request, (destination, stamp), blank);
        }
    };
    let sender = command.payment_source().map_or_else(String::new, |name| name.as_str().to_owned());
    MessageReport {
        request,
        sender,
        says: format!("bulk transfer {bulk}: {content}"),
        expiration: expiration_of(command).map(|ms| moment(Stamp::from_millis(ms))),
        expires_in_ms: expiration_of(command)
            .map(|ms| ms.cast_signed() - stamp.millis().cast_signed()),
        trace: hexadecimal(&trace),
        hash: hash.to_string(),
        ..blank
    }
}

/// A message as the record stores it.
fn message_report(
    record: &Record<'_>,
    (command, id): (&Command, TransferId),
    stamp: Stamp,
) -> MessageReport {
    let (storage, stored) = read_stored_message(record);
    let sizes = stored.as_ref().map(sizes_of);
    let blank = MessageReport {
        request: "",
        sender: String::new(),
        destination: None,
        says: String::new(),
        expiration: None,
        expires_in_ms: None,
        trace: String::new(),
        hash: String::new(),
        kept: storage,
        erasure: None,
        header_lines: sizes.map(|(lines, _, _)| lines),
        header_bytes: sizes.map(|(_, head, _)| head),
        body_bytes: sizes.map(|(_, _, body)| body),
        digest: (storage != "none").then(|| record.payload_digest.to_string()),
    };
    let name = |name: &FspName| name.as_str().to_owned();
    let Some(message) = command.message() else {
        let destination = stored.as_ref().and_then(destination_of);
        return bulk_or_quote_report((command, id), destination, stamp, blank);
    };
    match message {
        TransferMessage::Prepare(prepare) => MessageReport {
            request: "POST /transfers",
            sender: name(&prepare.source),
            // Only the stored headers have it, because it does not affect the decision.
            destination: stored.as_ref().and_then(destination_of),
            says: format!(
                "{} {} from {} to {}, condition {}{}",
                prepare.amount,
                prepare.currency,
                prepare.payer.as_str(),
                prepare.payee.as_str(),
                hexadecimal(&prepare.condition),
                describe_fee_rule(prepare.fee_rule)
            ),
            expiration: Some(moment(Stamp::from_millis(prepare.expiration_ms))),
            expires_in_ms: Some(prepare.expiration_ms.cast_signed() - stamp.millis().cast_signed()),
            trace: hexadecimal(&prepare.trace),
            hash: prepare.hash.to_string(),
            ..blank
        },
        TransferMessage::Fulfil(fulfil) => MessageReport {
            request: "PUT /transfers/{id}",
            sender: name(&fulfil.source),
            destination: fulfil.destination.as_ref().map(name),
            says: format!("{:?}, {}", fulfil.state, describe_fulfilment(fulfil.fulfilment)),
            trace: hexadecimal(&fulfil.trace),
            hash: fulfil.hash.to_string(),
            ..blank
        },
        TransferMessage::Abort(abort) => MessageReport {
            request: "PUT /transfers/{id}/error",
            sender: name(&abort.source),
            destination: abort.destination.as_ref().map(name),
            says: describe_error(abort, stored.as_ref()),
            trace: hexadecimal(&abort.trace),
            hash: abort.hash.to_string(),
            ..blank
        },
    }
}

/// Whether a message is stored, and the message if it can be read.
fn read_stored_message(record: &Record<'_>) -> (&'static str, Option<StoredMessage>) {
    match record.payload {
        Payload::None => ("none", None),
        Payload::Erased => ("erased", None),
        Payload::Stored(stored) => {
            let is_valid = payload_digest(stored) == record.payload_digest;
            let message =
                fspiop::stored_message::decode(&bytes::Bytes::copy_from_slice(stored)).ok();
            (if is_valid { "stored" } else { "damaged" }, message)
        }
    }
}

/// The message in a record, if it is stored and can be read.
pub(crate) fn stored_message(owned: &OwnedRecord) -> Option<StoredMessage> {
    read_stored_message(&view_of(owned)).1
}

/// Bytes of headers and body.
pub(crate) fn length_of_message(message: &StoredMessage) -> usize {
    let (_, head, body) = sizes_of(message);
    head + body
}

/// Number of header lines, bytes of headers, and bytes of the body.
fn sizes_of(message: &StoredMessage) -> (usize, usize, usize) {
    let line = |(name, value): (&_, &_)| length_of(name) + length_of(value);
    (message.headers.len(), message.headers.iter().map(line).sum(), message.body.len())
}

fn destination_of(message: &StoredMessage) -> Option<String> {
    Some(message.headers.get("fspiop-destination")?.to_str().ok()?.to_owned())
}

fn describe_error(abort: &Abort, message: Option<&StoredMessage>) -> String {
    let known = match abort.code_is_known {
        true => "error code of FSPIOP or private use",
        false => "error code unknown to FSPIOP",
    };
    let error = message.and_then(|message| ErrorInformation::parse(&message.body).ok());
    error.map_or(known.to_owned(), |error| {
        format!("{known}: {} {:?}", error.code, error.description)
    })
}

fn length_of(text: &impl AsRef<[u8]>) -> usize {
    text.as_ref().len()
}

fn describe_fulfilment(fulfilment: Fulfilment) -> String {
    use sha2::Digest;
    match fulfilment {
        Fulfilment::Absent => "no fulfilment".to_owned(),
        Fulfilment::Undecodable => "fulfilment is not 32 bytes".to_owned(),
        Fulfilment::Present(preimage) => {
            let hash = sha2::Sha256::digest(preimage);
            format!("fulfilment with SHA-256 {}", hexadecimal(&hash))
        }
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
