//! `PUT /transfers/{id}`: the payee commits (hub-semantics 3.6 and 3.7).

use sha2::{Digest as _, Sha256};

use super::answer::{self, Incoming, Open};
use crate::command::{Fulfil, FulfilState, Fulfilment};
use crate::context::Context;
use crate::notice::NoticeKind;
use crate::outcome::Outcome;
use crate::transfers::AnswerKind;

pub(super) fn fulfil(context: &mut Context<'_>, command: &Fulfil) -> Outcome {
    if command.state == FulfilState::ReservedUnderVersion10 {
        return Outcome::FulfilVersionIgnored;
    }
    let incoming = Incoming {
        id: command.id,
        source: &command.source,
        destination: command.destination.as_ref(),
        kind: AnswerKind::Fulfil,
        hash: command.hash,
        trace: command.trace,
        wants_patch: command.state == FulfilState::Reserved,
    };
    let open = match answer::open(context, &incoming) {
        Ok(open) => open,
        Err(outcome) => return outcome,
    };
    if command.state == FulfilState::Aborted {
        return abort_by_put(context, &incoming, &open);
    }
    match matches(context, &open, command.fulfilment) {
        true => commit(context, &incoming, &open),
        false => abort_invalid(context, &incoming, &open),
    }
}

fn matches(context: &Context<'_>, open: &Open, fulfilment: Fulfilment) -> bool {
    let Fulfilment::Present(preimage) = fulfilment else { return false };
    let condition: [u8; 32] = Sha256::digest(preimage).into();
    condition == context.state.transfers.active(open.slot).condition
}

fn commit(context: &mut Context<'_>, incoming: &Incoming<'_>, open: &Open) -> Outcome {
    let outcome = Outcome::Committed;
    answer::close(context, open, incoming, outcome);
    let about = incoming.subject(context, outcome);
    if incoming.wants_patch {
        context.owe(open.payer, NoticeKind::Committed, about);
        context.owe(open.payee, NoticeKind::PatchCommitted, about);
        return outcome;
    }
    context.owe(open.payer, NoticeKind::Fulfil, about);
    if answer::confirms_to_payee(context, open) {
        context.owe(open.payee, NoticeKind::FulfilCopy, about);
    }
    outcome
}

/// A missing or wrong fulfilment aborts the transfer (3.8).
fn abort_invalid(context: &mut Context<'_>, incoming: &Incoming<'_>, open: &Open) -> Outcome {
    let outcome = Outcome::FulfilmentInvalid;
    answer::close(context, open, incoming, outcome);
    let about = incoming.subject(context, outcome);
    context.owe(open.payer, NoticeKind::Error, about);
    if answer::confirms_to_payee(context, open) {
        context.owe(open.payee, NoticeKind::Error, about);
    }
    if incoming.wants_patch {
        context.owe(open.payee, NoticeKind::PatchAborted, about);
    }
    outcome
}

/// `transferState` ABORTED: as the reference, left to time out, unless the scheme says otherwise.
fn abort_by_put(context: &mut Context<'_>, incoming: &Incoming<'_>, open: &Open) -> Outcome {
    if !context.state.settings.put_aborted_aborts {
        return Outcome::FulfilAbortedIgnored;
    }
    let outcome = Outcome::AbortedByPut;
    answer::close(context, open, incoming, outcome);
    let about = incoming.subject(context, outcome);
    context.owe(open.payer, NoticeKind::Fulfil, about);
    if answer::confirms_to_payee(context, open) {
        context.owe(open.payee, NoticeKind::FulfilCopy, about);
    }
    outcome
}
