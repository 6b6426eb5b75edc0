//! `PUT /transfers/{id}/error`: the payee refuses (hub-semantics 3.8).

use super::answer::{self, Incoming};
use crate::command::Abort;
use crate::context::{Context, Decide};
use crate::notice::NoticeKind;
use crate::outcome::{AnswerEnd, AnswerOutcome};
use crate::transfers::AnswerKind;

impl Decide for Abort {
    type Outcome = AnswerOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AnswerOutcome {
        let incoming = Incoming {
            id: self.id,
            source: &self.source,
            destination: self.destination.as_ref(),
            kind: AnswerKind::Abort,
            hash: self.hash,
            trace: self.trace,
            wants_patch: false,
        };
        let open = match answer::open(context, &incoming) {
            Ok(open) => open,
            Err(outcome) => return outcome,
        };
        let (end, to_payer) = match self.code_is_known {
            true => (AnswerEnd::Aborted, NoticeKind::Abort),
            false => (AnswerEnd::AbortedWithUnknownCode, NoticeKind::Error),
        };
        let about = answer::close(context, &open, &incoming, end);
        context.owe(open.payer, to_payer, about);
        if answer::confirms_to_payee(context, &open) {
            context.owe(open.payee, NoticeKind::AbortCopy, about);
        }
        end.into()
    }
}
