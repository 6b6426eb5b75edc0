//! `/bulkTransfers`: many transfers between one payer and one payee, decided in the order of their
//! list (settlement-and-bulk 3.1 and 3.2, with the rulings).
//!
//! Each item is decided like a message about one transfer, and observers see it as one. A refused
//! item is left out of the message to the payee. The notices are those of the bulk.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::bulk_end::{BulkNotice, finish, resend};
use super::{prepare, response};
use crate::bulks::OpenBulk;
use crate::command::{
    Abort, AbortBulk, BulkItem, BulkItemAnswer, BulkItemResult, Command, Fulfil, FulfilBulk,
    FulfilState, Prepare, PrepareBulk, TraceId,
};
use crate::context::Context;
use crate::ids::{Digest, FspName, LogIndex, ParticipantIndex, TransferId};
use crate::money::{Amount, Currency};
use crate::notice::NoticeKind;
use crate::outcome::{Outcome, PrepareOutcome, ResponseEnd};
use crate::state::{ApplyStep, Effects, State};
use crate::transfers::{FinalTransfer, RecordedResponse, ResponseKind, TransferLocation};

/// Observes the decisions about items.
pub(crate) trait Watch: FnMut(ApplyStep<'_>, &State, &Effects) {}

impl<W: FnMut(ApplyStep<'_>, &State, &Effects)> Watch for W {}

/// `POST /bulkTransfers`.
pub(super) fn prepare(
    context: &mut Context<'_>,
    bulk: &PrepareBulk,
    watch: &mut impl Watch,
) -> Outcome {
    let Some(sender) = context.state.registry.sender(&bulk.source) else {
        return Outcome::SenderNotFound;
    };
    if let Some(outcome) = handle_resend(context, bulk, sender) {
        return outcome;
    }
    match check(context.state, bulk, sender) {
        Err(outcome) => refuse(context, bulk, (sender, outcome.into())),
        Ok(payee) => match decide_items(context, bulk, (sender, payee), watch) {
            Some(open) => accept(context, open),
            None => refuse(context, bulk, (sender, Outcome::BulkRejected)),
        },
    }
}

/// Answers a known id: the same content gets the stored result once there is one, different
/// content is refused. As for a transfer, the answer goes to the payer of the body, even if another
/// FSP sent it.
fn handle_resend(
    context: &mut Context<'_>,
    bulk: &PrepareBulk,
    sender: ParticipantIndex,
) -> Option<Outcome> {
    let state = &*context.state;
    let (known, end) = match (state.bulks.find(&bulk.id), state.transfers.find(&bulk.id)) {
        (Some(open), _) => (open.hash, None),
        (None, TransferLocation::Final(at)) => {
            let ended = state.transfers.final_transfer(at);
            (ended.hash, Some(ended.clone()))
        }
        (None, _) => return None,
    };
    let outcome = match &end {
        _ if known != bulk.hash => Outcome::PrepareModified,
        None => return Some(Outcome::PrepareResentReserved),
        Some(ended) if ended.outcome == Outcome::BulkCompleted => Outcome::PrepareResentCommitted,
        Some(_) => Outcome::PrepareResentAborted,
    };
    let about = BulkNotice { id: bulk.id, outcome, trace: bulk.trace };
    let to = state.registry.sender(&bulk.payer).unwrap_or(sender);
    match end.filter(|_| outcome != Outcome::PrepareModified) {
        Some(ended) => resend(context, &about, (to, &ended)),
        None => notify(context, &about, [to]),
    }
    Some(outcome)
}

/// Checks that concern all items, in their order.
fn check(
    state: &State,
    bulk: &PrepareBulk,
    payer: ParticipantIndex,
) -> Result<ParticipantIndex, PrepareOutcome> {
    use PrepareOutcome::*;
    let refuse_if = |refused, outcome| if refused { Err(outcome) } else { Ok(()) };
    refuse_if(bulk.source != bulk.payer, PrepareSourceNotPayer)?;
    refuse_if(bulk.expiration_ms <= state.stamp.millis(), PrepareExpirationPast)?;
    let same = bulk.payer.matches(&bulk.payee);
    refuse_if(same && !state.settings.on_us_transfers, PreparePayerIsPayee)?;
    let payer_entry = state.registry.get(payer);
    refuse_if(payer_entry.name != bulk.payer, PreparePayerNotFound)?;
    refuse_if(!payer_entry.active, PreparePayerInactive)?;
    let found = state.registry.find(&bulk.payee).filter(|(at, _)| *at != ParticipantIndex::HUB);
    let (payee, payee_entry) = found.ok_or(PreparePayeeNotFound)?;
    refuse_if(!payee_entry.active, PreparePayeeInactive)?;
    Ok(payee)
}

/// Decides the items in the order of the list; `None` if none is accepted.
fn decide_items(
    context: &mut Context<'_>,
    bulk: &PrepareBulk,
    (payer, payee): (ParticipantIndex, ParticipantIndex),
    watch: &mut impl Watch,
) -> Option<OpenBulk> {
    let log_index = context.log_index;
    // Items create no notice, so the next one is that of the bulk.
    let prepare_notice = context.state.outbox.following_id();
    let mut accepted: Option<OpenBulk> = None;
    for item in &bulk.items {
        let command = Command::Prepare(Box::new(single(bulk, item)));
        let Command::Prepare(prepare) = &command else { continue };
        watch(ApplyStep::ItemBefore(log_index, &command), context.state, context.effects);
        let outcome = prepare::decide_item(context, prepare, (payer, prepare_notice));
        context.note_outcome(outcome.into());
        let after = ApplyStep::ItemAfter(log_index, &command, outcome.into());
        watch(after, context.state, context.effects);
        if outcome == PrepareOutcome::PrepareReserved {
            let open = accepted.get_or_insert_with(|| OpenBulk {
                id: bulk.id,
                payer,
                payee,
                currency: item.currency,
                hash: bulk.hash,
                prepare: log_index,
                prepare_notice,
                reserved_at: context.state.stamp,
                trace: bulk.trace,
                response: None,
                committed: 0,
                open: 0,
                items: Vec::new(),
            });
            open.open += 1;
            open.items.push(item.id);
        }
    }
    accepted
}

/// An item as a message of its own.
fn single(bulk: &PrepareBulk, item: &BulkItem) -> Prepare {
    Prepare {
        id: item.id,
        source: bulk.source,
        payer: bulk.payer,
        payee: bulk.payee,
        currency: item.currency,
        amount: item.amount,
        condition: item.condition,
        expiration_ms: bulk.expiration_ms,
        hash: bulk.hash,
        trace: bulk.trace,
        fee_rule: item.fee_rule,
        quote_terms: None,
    }
}

fn accept(context: &mut Context<'_>, open: OpenBulk) -> Outcome {
    let outcome = Outcome::BulkAccepted;
    let about = BulkNotice { id: open.id, outcome, trace: open.trace };
    let about = about.context(context);
    let notice = context.enqueue_notice(open.payee, NoticeKind::BulkPrepare, about);
    assert_eq!(notice, open.prepare_notice, "items create no notice");
    context.state.bulks.insert(open);
    outcome
}

/// Stores a bulk without accepted items, so that a resend gets the same answer.
fn refuse(
    context: &mut Context<'_>,
    bulk: &PrepareBulk,
    (sender, outcome): (ParticipantIndex, Outcome),
) -> Outcome {
    let about = BulkNotice { id: bulk.id, outcome, trace: bulk.trace };
    let recipient = context.state.registry.sender(&bulk.payer).unwrap_or(sender);
    notify(context, &about, [recipient]);
    let state = &*context.state;
    let index = |name: &FspName| state.registry.find(name).map(|(index, _)| index);
    let currency = bulk.items.first().map_or(Currency::NONE, |item| item.currency);
    let row = FinalTransfer {
        id: bulk.id,
        payer: index(&bulk.payer),
        payee: index(&bulk.payee),
        amount: Amount::ZERO,
        currency,
        hash: bulk.hash,
        prepare: context.log_index,
        response: None,
        outcome,
        completed: state.stamp,
        changed: context.log_index,
    };
    context.finalize(row);
    outcome
}

/// The common part of the payee's messages.
struct BulkResponse<'a> {
    id: TransferId,
    source: &'a FspName,
    destination: Option<&'a FspName>,
    kind: ResponseKind,
    hash: Digest,
    trace: TraceId,
}

impl<'a> BulkResponse<'a> {
    const fn of_fulfil(bulk: &'a FulfilBulk) -> Self {
        let FulfilBulk { id, source, destination, hash, trace, .. } = bulk;
        let kind = ResponseKind::Fulfil;
        Self {
            id: *id,
            source,
            destination: destination.as_ref(),
            kind,
            hash: *hash,
            trace: *trace,
        }
    }

    const fn of_abort(bulk: &'a AbortBulk) -> Self {
        let AbortBulk { id, source, destination, hash, trace, .. } = bulk;
        let kind = ResponseKind::Abort;
        Self {
            id: *id,
            source,
            destination: destination.as_ref(),
            kind,
            hash: *hash,
            trace: *trace,
        }
    }
}

/// `PUT /bulkTransfers/{id}`.
pub(super) fn fulfil(
    context: &mut Context<'_>,
    bulk: &FulfilBulk,
    watch: &mut impl Watch,
) -> Outcome {
    let incoming = BulkResponse::of_fulfil(bulk);
    let record = match open(context, &incoming) {
        Ok(record) => record,
        Err(outcome) => return outcome,
    };
    if is_misdirected(context, record, &incoming) {
        return abort_all(context, record, &incoming, Outcome::ResponseNotToPayer, watch);
    }
    let is_open = |item: &BulkItemResult| item_in_flight(context.state, record, &item.id).is_some();
    if !bulk.items.iter().all(is_open) {
        return refuse_sender(context, &incoming, Outcome::BulkItemNotFound);
    }
    take_response(context, record, &incoming);
    for item in &bulk.items {
        let (end, single) = match item.answer {
            BulkItemAnswer::Fulfilled(fulfilment) => {
                let destination = None;
                let single = Fulfil {
                    id: item.id,
                    source: bulk.source,
                    destination,
                    state: FulfilState::Committed,
                    fulfilment,
                    hash: bulk.hash,
                    trace: bulk.trace,
                };
                let fits = item_in_flight(context.state, record, &item.id)
                    .is_some_and(|slot| super::fulfil::is_met(context.state, slot, fulfilment));
                let end =
                    if fits { ResponseEnd::Committed } else { ResponseEnd::FulfilmentInvalid };
                (end, Command::Fulfil(Box::new(single)))
            }
            BulkItemAnswer::Refused(code_is_known) => {
                let end = match code_is_known {
                    true => ResponseEnd::Aborted,
                    false => ResponseEnd::AbortedWithUnknownCode,
                };
                (end, Command::Abort(Box::new(aborted(&incoming, item.id, code_is_known))))
            }
        };
        end_item(context, record, (&single, item.id, end), &incoming, watch);
    }
    match context.state.bulks.of_record(record) {
        Some(open) if open.open == 0 => {
            let outcome = match open.committed {
                0 => Outcome::BulkRejected,
                _ => Outcome::BulkCompleted,
            };
            finish(context, record, outcome)
        }
        _ => Outcome::BulkProcessing,
    }
}

/// `PUT /bulkTransfers/{id}/error`: ends all items that are in flight.
pub(super) fn abort(
    context: &mut Context<'_>,
    bulk: &AbortBulk,
    watch: &mut impl Watch,
) -> Outcome {
    let incoming = BulkResponse::of_abort(bulk);
    let record = match open(context, &incoming) {
        Ok(record) => record,
        Err(outcome) => return outcome,
    };
    let outcome = match bulk.code_is_known {
        _ if is_misdirected(context, record, &incoming) => Outcome::ResponseNotToPayer,
        true => Outcome::Aborted,
        false => Outcome::AbortedWithUnknownCode,
    };
    abort_all(context, record, &incoming, outcome, watch)
}

/// An item's error as a message of its own.
fn aborted(incoming: &BulkResponse<'_>, id: TransferId, code_is_known: bool) -> Abort {
    let (hash, trace) = (incoming.hash, incoming.trace);
    Abort { id, source: *incoming.source, destination: None, code_is_known, hash, trace }
}

/// Finds the open bulk that the payee may answer, or handles the message and returns its outcome.
fn open(context: &mut Context<'_>, incoming: &BulkResponse<'_>) -> Result<LogIndex, Outcome> {
    let state = &*context.state;
    let Some(open) = state.bulks.find(&incoming.id) else {
        return Err(match state.transfers.find(&incoming.id) {
            TransferLocation::Final(at) => {
                let ended = state.transfers.final_transfer(at).clone();
                handle_final(context, incoming, &ended)
            }
            _ => refuse_sender(context, incoming, Outcome::ResponseTransferNotFound),
        });
    };
    if !is_named(state, open.payee, incoming.source) {
        return Err(refuse_sender(context, incoming, Outcome::ResponseNotFromPayee));
    }
    match open.response {
        None => Ok(open.prepare),
        Some(taken) if is_same(&taken, incoming) => Err(Outcome::ResponseResent),
        Some(_) => Err(refuse_sender(context, incoming, Outcome::ResponseModified)),
    }
}

/// Answers a message about a final bulk. The same content gets the result again.
fn handle_final(
    context: &mut Context<'_>,
    incoming: &BulkResponse<'_>,
    ended: &FinalTransfer,
) -> Outcome {
    let payee = ended.payee.filter(|payee| is_named(context.state, *payee, incoming.source));
    let Some(payee) = payee else {
        return refuse_sender(context, incoming, Outcome::ResponseNotFromPayee);
    };
    match ended.response {
        Some(taken) if is_same(&taken, incoming) => {
            let outcome = Outcome::ResponseResent;
            let about = BulkNotice { id: incoming.id, outcome, trace: incoming.trace };
            resend(context, &about, (payee, ended));
            outcome
        }
        Some(_) => refuse_sender(context, incoming, Outcome::ResponseModified),
        None => refuse_sender(context, incoming, Outcome::ResponseStateNotReserved),
    }
}

fn is_same(taken: &RecordedResponse, incoming: &BulkResponse<'_>) -> bool {
    (taken.kind, taken.hash) == (incoming.kind, incoming.hash)
}

/// Whether the payee addressed another FSP than the payer or the hub.
fn is_misdirected(context: &Context<'_>, record: LogIndex, incoming: &BulkResponse<'_>) -> bool {
    let state = &*context.state;
    let Some((to, open)) = incoming.destination.zip(state.bulks.of_record(record)) else {
        return false;
    };
    !is_named(state, open.payer, to) && !is_named(state, ParticipantIndex::HUB, to)
}

/// Ends all items in flight, and the bulk.
fn abort_all(
    context: &mut Context<'_>,
    record: LogIndex,
    incoming: &BulkResponse<'_>,
    outcome: Outcome,
    watch: &mut impl Watch,
) -> Outcome {
    let end = ResponseEnd::of(outcome).expect("the end of a transfer by its payee");
    take_response(context, record, incoming);
    let items = context.state.bulks.of_record(record).map(|open| open.items.clone());
    for id in items.unwrap_or_default() {
        let code_is_known = outcome != Outcome::AbortedWithUnknownCode;
        let single = Command::Abort(Box::new(aborted(incoming, id, code_is_known)));
        end_item(context, record, (&single, id, end), incoming, watch);
    }
    finish(context, record, outcome)
}

fn take_response(context: &mut Context<'_>, record: LogIndex, incoming: &BulkResponse<'_>) {
    let (kind, hash, log_index) = (incoming.kind, incoming.hash, context.log_index);
    if let Some(open) = context.state.bulks.of_record_mut(record) {
        open.response = Some(RecordedResponse { kind, hash, log_index });
    }
}

/// The slot of an item that is in flight.
fn item_in_flight(state: &State, record: LogIndex, id: &TransferId) -> Option<u32> {
    let TransferLocation::Reserved(slot) = state.transfers.find(id) else { return None };
    (state.transfers.reserved(slot).prepare == record).then_some(slot)
}

/// Ends an item by the payee's message. An item that is named twice ends once.
fn end_item(
    context: &mut Context<'_>,
    record: LogIndex,
    (single, id, end): (&Command, TransferId, ResponseEnd),
    incoming: &BulkResponse<'_>,
    watch: &mut impl Watch,
) {
    let Some(slot) = item_in_flight(context.state, record, &id) else { return };
    watch(ApplyStep::ItemBefore(context.log_index, single), context.state, context.effects);
    response::close_reserved(context, slot, (incoming.kind, incoming.hash), end);
    if let Some(open) = context.state.bulks.of_record_mut(record) {
        open.open -= 1;
        open.committed += u32::from(end.commits());
    }
    context.note_outcome(end.into());
    let after = ApplyStep::ItemAfter(context.log_index, single, end.into());
    watch(after, context.state, context.effects);
}

/// Sends the result of a bulk without accepted items, or an error.
fn notify(
    context: &mut Context<'_>,
    about: &BulkNotice,
    recipients: impl IntoIterator<Item = ParticipantIndex>,
) {
    let is_result = about.outcome == Outcome::BulkRejected;
    let kind = if is_result { NoticeKind::BulkResult } else { NoticeKind::BulkError };
    let about = about.context(context);
    for recipient in recipients {
        context.enqueue_notice(recipient, kind, about);
    }
}

/// Notifies the sender of a refusal. An unknown sender changes nothing.
fn refuse_sender(
    context: &mut Context<'_>,
    incoming: &BulkResponse<'_>,
    outcome: Outcome,
) -> Outcome {
    let Some(sender) = context.state.registry.sender(incoming.source) else {
        return Outcome::SenderNotFound;
    };
    let about = BulkNotice { id: incoming.id, outcome, trace: incoming.trace };
    notify(context, &about, [sender]);
    outcome
}

fn is_named(state: &State, participant: ParticipantIndex, name: &FspName) -> bool {
    state.registry.get(participant).name.matches(name)
}
