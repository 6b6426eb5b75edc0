//! `PUT /transfers/{id}/error`: the payee refuses (hub-semantics 3.8).

use super::answer::{self, Incoming};
use crate::command::Abort;
use crate::context::Context;
use crate::notice::NoticeKind;
use crate::outcome::Outcome;
use crate::transfers::AnswerKind;

pub(super) fn abort(context: &mut Context<'_>, command: &Abort) -> Outcome {
    let incoming = Incoming {
        id: command.id,
        source: &command.source,
        destination: command.destination.as_ref(),
        kind: AnswerKind::Abort,
        hash: command.hash,
        trace: command.trace,
        wants_patch: false,
    };
    let open = match answer::open(context, &incoming) {
        Ok(open) => open,
        Err(outcome) => return outcome,
    };
    let (outcome, to_payer) = match command.code_is_known {
        true => (Outcome::Aborted, NoticeKind::Abort),
        false => (Outcome::AbortedWithUnknownCode, NoticeKind::Error),
    };
    answer::close(context, &open, &incoming, outcome);
    let about = incoming.subject(context, outcome);
    context.owe(open.payer, to_payer, about);
    if answer::confirms_to_payee(context, &open) {
        context.owe(open.payee, NoticeKind::AbortCopy, about);
    }
    outcome
}
