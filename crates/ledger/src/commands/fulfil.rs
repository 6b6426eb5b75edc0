//! `PUT /transfers/{id}`: the payee commits (hub-semantics 3.6 and 3.7).

use sha2::{Digest as _, Sha256};

use super::response::{self, OpenReservation, PayeeResponse};
use crate::command::{Fulfil, FulfilState, Fulfilment};
use crate::context::{Context, Decide};
use crate::notice::NoticeKind;
use crate::outcome::{ResponseEnd, ResponseOutcome};
use crate::state::State;
use crate::transfers::ResponseKind;

impl Decide for Fulfil {
    type Outcome = ResponseOutcome;

    fn decide(&self, context: &mut Context<'_>) -> ResponseOutcome {
        if self.state == FulfilState::ReservedUnderVersion10 {
            return ResponseOutcome::FulfilVersionIgnored;
        }
        let incoming = PayeeResponse {
            id: self.id,
            source: &self.source,
            destination: self.destination.as_ref(),
            kind: ResponseKind::Fulfil,
            hash: self.hash,
            trace: self.trace,
            wants_patch: self.state == FulfilState::Reserved,
        };
        let open = match response::open(context, &incoming) {
            Ok(open) => open,
            Err(outcome) => return outcome,
        };
        if self.state == FulfilState::Aborted {
            return abort_by_put(context, &incoming, &open);
        }
        match matches(context, &open, self.fulfilment) {
            true => commit(context, &incoming, &open),
            false => abort_invalid(context, &incoming, &open),
        }
    }
}

fn matches(context: &Context<'_>, open: &OpenReservation, fulfilment: Fulfilment) -> bool {
    is_met(context.state, open.slot, fulfilment)
}

/// Whether a fulfilment meets the condition of the transfer in a slot.
pub(super) fn is_met(state: &State, slot: u32, fulfilment: Fulfilment) -> bool {
    let Fulfilment::Present(preimage) = fulfilment else { return false };
    let condition: [u8; 32] = Sha256::digest(preimage).into();
    condition == state.transfers.reserved(slot).condition
}

fn commit(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    open: &OpenReservation,
) -> ResponseOutcome {
    let about = response::close(context, open, incoming, ResponseEnd::Committed);
    if incoming.wants_patch {
        context.enqueue_notice(open.payer, NoticeKind::Committed, about);
        context.enqueue_notice(open.payee, NoticeKind::PatchCommitted, about);
        return ResponseOutcome::Committed;
    }
    context.enqueue_notice(open.payer, NoticeKind::Fulfil, about);
    if response::confirms_to_payee(context, open) {
        context.enqueue_notice(open.payee, NoticeKind::FulfilCopy, about);
    }
    ResponseOutcome::Committed
}

/// Aborts the transfer after a missing or wrong fulfilment (3.8).
fn abort_invalid(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    open: &OpenReservation,
) -> ResponseOutcome {
    let about = response::close(context, open, incoming, ResponseEnd::FulfilmentInvalid);
    context.enqueue_notice(open.payer, NoticeKind::Error, about);
    if response::confirms_to_payee(context, open) {
        context.enqueue_notice(open.payee, NoticeKind::Error, about);
    }
    if incoming.wants_patch {
        context.enqueue_notice(open.payee, NoticeKind::PatchAborted, about);
    }
    ResponseOutcome::FulfilmentInvalid
}

/// Handles `transferState` ABORTED: left to time out like in the reference, unless the scheme
/// treats it as an abort.
fn abort_by_put(
    context: &mut Context<'_>,
    incoming: &PayeeResponse<'_>,
    open: &OpenReservation,
) -> ResponseOutcome {
    if !context.state.settings.put_aborted_aborts {
        return ResponseOutcome::FulfilAbortedIgnored;
    }
    let about = response::close(context, open, incoming, ResponseEnd::AbortedByPut);
    context.enqueue_notice(open.payer, NoticeKind::Fulfil, about);
    if response::confirms_to_payee(context, open) {
        context.enqueue_notice(open.payee, NoticeKind::FulfilCopy, about);
    }
    ResponseOutcome::AbortedByPut
}
