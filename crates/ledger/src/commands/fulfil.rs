//! `PUT /transfers/{id}`: the payee commits (hub-semantics 3.6 and 3.7).

use sha2::{Digest as _, Sha256};

use super::answer::{self, Incoming, Open};
use crate::command::{Fulfil, FulfilState, Fulfilment};
use crate::context::{Context, Decide};
use crate::notice::NoticeKind;
use crate::outcome::{AnswerEnd, AnswerOutcome};
use crate::transfers::AnswerKind;

impl Decide for Fulfil {
    type Outcome = AnswerOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AnswerOutcome {
        if self.state == FulfilState::ReservedUnderVersion10 {
            return AnswerOutcome::FulfilVersionIgnored;
        }
        let incoming = Incoming {
            id: self.id,
            source: &self.source,
            destination: self.destination.as_ref(),
            kind: AnswerKind::Fulfil,
            hash: self.hash,
            trace: self.trace,
            wants_patch: self.state == FulfilState::Reserved,
        };
        let open = match answer::open(context, &incoming) {
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

fn matches(context: &Context<'_>, open: &Open, fulfilment: Fulfilment) -> bool {
    let Fulfilment::Present(preimage) = fulfilment else { return false };
    let condition: [u8; 32] = Sha256::digest(preimage).into();
    condition == context.state.transfers.active(open.slot).condition
}

fn commit(context: &mut Context<'_>, incoming: &Incoming<'_>, open: &Open) -> AnswerOutcome {
    let about = answer::close(context, open, incoming, AnswerEnd::Committed);
    if incoming.wants_patch {
        context.owe(open.payer, NoticeKind::Committed, about);
        context.owe(open.payee, NoticeKind::PatchCommitted, about);
        return AnswerOutcome::Committed;
    }
    context.owe(open.payer, NoticeKind::Fulfil, about);
    if answer::confirms_to_payee(context, open) {
        context.owe(open.payee, NoticeKind::FulfilCopy, about);
    }
    AnswerOutcome::Committed
}

/// A missing or wrong fulfilment aborts the transfer (3.8).
fn abort_invalid(context: &mut Context<'_>, incoming: &Incoming<'_>, open: &Open) -> AnswerOutcome {
    let about = answer::close(context, open, incoming, AnswerEnd::FulfilmentInvalid);
    context.owe(open.payer, NoticeKind::Error, about);
    if answer::confirms_to_payee(context, open) {
        context.owe(open.payee, NoticeKind::Error, about);
    }
    if incoming.wants_patch {
        context.owe(open.payee, NoticeKind::PatchAborted, about);
    }
    AnswerOutcome::FulfilmentInvalid
}

/// `transferState` ABORTED: as the reference, left to time out, unless the scheme says otherwise.
fn abort_by_put(context: &mut Context<'_>, incoming: &Incoming<'_>, open: &Open) -> AnswerOutcome {
    if !context.state.settings.put_aborted_aborts {
        return AnswerOutcome::FulfilAbortedIgnored;
    }
    let about = answer::close(context, open, incoming, AnswerEnd::AbortedByPut);
    context.owe(open.payer, NoticeKind::Fulfil, about);
    if answer::confirms_to_payee(context, open) {
        context.owe(open.payee, NoticeKind::FulfilCopy, about);
    }
    AnswerOutcome::AbortedByPut
}
