//! The common rules of `PUT /transfers/{id}` and `PUT /transfers/{id}/error`: allowed senders, and
//! the handling of repeated responses (hub-semantics 3.4 and 3.6, checks 2 to 4, 7 and 8).

use super::{fees, settle};
use crate::command::TraceId;
use crate::context::{Context, NoticeContext};
use crate::ids::{Digest, FspName, NoticeId, ParticipantIndex, TransferId};
use crate::notice::NoticeKind;
use crate::outcome::{Outcome, ResponseEnd, ResponseOutcome};
use crate::planted_bugs::{Bug, is_planted};
use crate::state::{CommittedTransfer, State};
use crate::transfers::{
    FinalTransfer, RecordedResponse, ReservedTransfer, ResponseKind, TransferLocation,
    TransferState,
};

/// The common part of a fulfil and an abort.
pub(super) struct PayeeResponse<'a> {
    pub(super) id: TransferId,
    pub(super) source: &'a FspName,
    pub(super) destination: Option<&'a FspName>,
    pub(super) kind: ResponseKind,
    pub(super) hash: Digest,
    pub(super) trace: TraceId,
    /// The payee waits for a PATCH (RESERVED style).
    pub(super) wants_patch: bool,
}

/// A reserved transfer that the response may end.
pub(super) struct OpenReservation {
    pub(super) slot: u32,
    pub(super) payer: ParticipantIndex,
    pub(super) payee: ParticipantIndex,
}

impl PayeeResponse<'_> {
    fn notice_context(&self, context: &Context<'_>, outcome: ResponseOutcome) -> NoticeContext {
        let (source, at) = (context.log_index, context.state.stamp);
        let outcome = outcome.into();
        NoticeContext { transfer: Some(self.id), source, outcome, at, trace: self.trace }
    }
}

/// Finds the reserved transfer, or handles the response and returns its outcome.
pub(super) fn open(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
) -> Result<OpenReservation, ResponseOutcome> {
    match context.state.transfers.find(&incoming.id) {
        TransferLocation::Reserved(slot) => open_reserved(context, incoming, slot),
        TransferLocation::Final(at) => Err(handle_final(context, incoming, at)),
        TransferLocation::Absent | TransferLocation::Outflow => {
            Err(refuse_sender(context, incoming, ResponseOutcome::ResponseTransferNotFound))
        }
    }
}

/// Ends an open transfer: the payer's position is reversed, or the payee's is posted. Returns the
/// context of the notices about it.
pub(super) fn close(
    context: &mut Context<'_>,
    open: &OpenReservation,
    incoming: &PayeeResponse<'_>,
    outcome: ResponseEnd,
) -> NoticeContext {
    let (payee, notice) =
        close_reserved(context, open.slot, (incoming.kind, incoming.hash), outcome);
    context.withdraw(payee, notice);
    incoming.notice_context(context, outcome.into())
}

/// Ends a transfer in flight without a notice. Returns its payee and the notice with its prepare.
#[inline]
pub(super) fn close_reserved(
    context: &mut Context<'_>,
    slot: u32,
    (kind, hash): (ResponseKind, Digest),
    outcome: ResponseEnd,
) -> (ParticipantIndex, NoticeId) {
    let transfer = context.state.transfers.take_reserved(slot);
    let commits = outcome.commits();
    let to = if commits { transfer.payee_account } else { transfer.payer_account };
    let posting = context.state.accounts.commitment(to, transfer.amount);
    context.post(posting);
    if is_planted(Bug::FulfilTwice) && commits {
        context.post(posting);
    }
    if commits {
        settle::add_committed(context, &transfer);
        let (reserved_at, trace) = (transfer.reserved_at, transfer.trace);
        let source = context.log_index;
        context.effects.committed.push(CommittedTransfer { source, reserved_at, trace });
    }
    if context.state.fees.has_pending() {
        end_fee(context, &transfer.id, commits);
    }
    let counters = &mut context.state.counters;
    let counter = if commits { &mut counters.committed } else { &mut counters.aborted };
    *counter += 1;
    let response = RecordedResponse { kind, hash, log_index: context.log_index };
    end(context, &transfer, Some(response), outcome.into());
    (transfer.payee, transfer.prepare_notice)
}

/// Charges the fee of a transfer that was committed, or drops it. Schemes without fees spend
/// nothing on it.
#[cold]
fn end_fee(context: &mut Context<'_>, id: &TransferId, commits: bool) {
    let fee = context.state.fees.take(id);
    fee.filter(|_| commits).into_iter().for_each(|fee| fees::charge(context, &fee));
}

/// Whether the hub notifies the payee of the result. A payer that is its own payee is notified once
/// (hub-semantics 3.7).
pub(super) fn confirms_to_payee(context: &Context<'_>, open: &OpenReservation) -> bool {
    context.state.settings.confirm_to_payee && open.payer != open.payee
}

/// Stores the row that a resend or a query needs.
pub(super) fn end(
    context: &mut Context<'_>,
    transfer: &ReservedTransfer,
    response: Option<RecordedResponse>,
    outcome: Outcome,
) {
    let state = &*context.state;
    let completed = state.stamp;
    let account = state.accounts.get(transfer.payer_account).expect("it was reserved there");
    let currency = account.currency;
    context.finalize(FinalTransfer {
        id: transfer.id,
        payer: Some(transfer.payer),
        payee: Some(transfer.payee),
        amount: transfer.amount,
        currency,
        hash: transfer.hash,
        prepare: transfer.prepare,
        response,
        outcome,
        completed,
        changed: context.log_index,
    });
}

fn open_reserved(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    slot: u32,
) -> Result<OpenReservation, ResponseOutcome> {
    let transfer = context.state.transfers.reserved(slot);
    let open = OpenReservation { slot, payer: transfer.payer, payee: transfer.payee };
    if !is_named(context.state, open.payee, incoming.source) {
        return Err(refuse_sender(context, incoming, ResponseOutcome::ResponseNotFromPayee));
    }
    if !context.state.bulks.is_empty() && is_item(context, slot) {
        return Err(refuse_sender(context, incoming, ResponseOutcome::ResponseOfBulkItem));
    }
    let misdirected = |to: &&FspName| !is_named(context.state, open.payer, to);
    if incoming.destination.filter(misdirected).is_some() {
        return Err(abort_misdirected(context, &open, incoming));
    }
    Ok(open)
}

/// Whether the transfer is an item of a bulk transfer, which the payee answers as a whole.
#[cold]
fn is_item(context: &Context<'_>, slot: u32) -> bool {
    let prepare = context.state.transfers.reserved(slot).prepare;
    context.state.bulks.of_record(prepare).is_some()
}

/// Aborts a transfer if the payee addressed another FSP than the payer (ruling 9).
fn abort_misdirected(
    context: &mut Context<'_>,
    open: &OpenReservation,
    incoming: &PayeeResponse<'_>,
) -> ResponseOutcome {
    let about = close(context, open, incoming, ResponseEnd::ResponseNotToPayer);
    context.enqueue_notice(open.payer, NoticeKind::Error, about);
    // The payee must know that its response did not count, even in schemes that do not confirm.
    if open.payer != open.payee {
        context.enqueue_notice(open.payee, NoticeKind::Error, about);
    }
    if incoming.wants_patch {
        context.enqueue_notice(open.payee, NoticeKind::PatchAborted, about);
    }
    ResponseOutcome::ResponseNotToPayer
}

/// Answers for a final transfer: the same response gets the stored end, a different one is refused.
fn handle_final(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    at: u32,
) -> ResponseOutcome {
    let ended = context.state.transfers.final_transfer(at).clone();
    let is_sender = |payee: &ParticipantIndex| {
        *payee != ParticipantIndex::HUB && is_named(context.state, *payee, incoming.source)
    };
    let payee = ended.payee.filter(is_sender);
    let Some(payee) = payee else {
        return refuse_sender(context, incoming, ResponseOutcome::ResponseNotFromPayee);
    };
    if ended.outcome == Outcome::Expired {
        return handle_expired(context, incoming, at, payee);
    }
    match ended.response.filter(|response| response.kind == incoming.kind) {
        None => refuse_state(context, incoming, &ended, payee),
        Some(response) if response.hash != incoming.hash => {
            refuse_sender(context, incoming, ResponseOutcome::ResponseModified)
        }
        Some(response) => resend_end(context, incoming, &ended, response, payee),
    }
}

/// Reports the expiry to the first late response. Later ones find a final transfer.
fn handle_expired(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    at: u32,
    payee: ParticipantIndex,
) -> ResponseOutcome {
    let log_index = context.log_index;
    let ended = context.state.transfers.final_transfer_mut(at);
    if ended.response.is_some() {
        let ended = ended.clone();
        return refuse_state(context, incoming, &ended, payee);
    }
    ended.response = Some(RecordedResponse { kind: incoming.kind, hash: incoming.hash, log_index });
    ended.changed = log_index;
    context.effects.final_rows.push(ended.clone());
    let about = incoming.notice_context(context, ResponseOutcome::ResponseAfterExpiry);
    context.enqueue_notice(payee, NoticeKind::Error, about);
    ResponseOutcome::ResponseAfterExpiry
}

/// Refuses a response to a transfer that is not RESERVED: 3100 to the payee, and a PATCH if it
/// waits for one.
fn refuse_state(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    ended: &FinalTransfer,
    payee: ParticipantIndex,
) -> ResponseOutcome {
    let outcome = ResponseOutcome::ResponseStateNotReserved;
    let about = incoming.notice_context(context, outcome);
    context.enqueue_notice(payee, NoticeKind::Error, about);
    if incoming.wants_patch && ended.state() == TransferState::Aborted {
        let about = about.about_end(ended);
        context.enqueue_notice(payee, NoticeKind::PatchAborted, about);
    }
    outcome
}

/// Sends the stored end to the sender of a repeated response (ruling 5).
fn resend_end(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    ended: &FinalTransfer,
    response: RecordedResponse,
    payee: ParticipantIndex,
) -> ResponseOutcome {
    let outcome = ResponseOutcome::ResponseResent;
    let about = incoming.notice_context(context, outcome).about_end(ended);
    use ResponseEnd::*;
    let (kind, source) = match ResponseEnd::of(ended.outcome) {
        Some(Committed) => (NoticeKind::Committed, about.source),
        Some(Aborted | AbortedWithUnknownCode) => (NoticeKind::AbortCopy, response.log_index),
        Some(ResponseNotToPayer | FulfilmentInvalid | AbortedByPut) | None => {
            (NoticeKind::AbortedState, about.source)
        }
    };
    let about = NoticeContext { source, ..about };
    context.enqueue_notice(payee, kind, about);
    outcome
}

/// Notifies the sender of the refusal. An unknown sender changes nothing and gets no notice. Only
/// this function looks the sender up, because the payee of a transfer is known.
fn refuse_sender(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    outcome: ResponseOutcome,
) -> ResponseOutcome {
    let Some(sender) = context.state.registry.sender(incoming.source) else {
        return ResponseOutcome::SenderNotFound;
    };
    let about = incoming.notice_context(context, outcome);
    context.enqueue_notice(sender, NoticeKind::Error, about);
    outcome
}

fn is_named(state: &State, participant: ParticipantIndex, name: &FspName) -> bool {
    state.registry.get(participant).name.matches(name)
}
