//! `PUT /transfers/{id}/error`: the payee refuses (hub-semantics 3.8).

use super::response::{self, PayeeResponse};
use crate::command::Abort;
use crate::context::{Context, Decide};
use crate::notice::NoticeKind;
use crate::outcome::{ResponseEnd, ResponseOutcome};
use crate::transfers::ResponseKind;

impl Decide for Abort {
    type Outcome = ResponseOutcome;

    fn decide(&self, context: &mut Context<'_>) -> ResponseOutcome {
        let incoming = PayeeResponse {
            id: self.id,
            source: &self.source,
            destination: self.destination.as_ref(),
            kind: ResponseKind::Abort,
            hash: self.hash,
            trace: self.trace,
            wants_patch: false,
        };
        let open = match response::open(context, &incoming) {
            Ok(open) => open,
            Err(outcome) => return outcome,
        };
        let (end, to_payer) = match self.code_is_known {
            true => (ResponseEnd::Aborted, NoticeKind::Abort),
            false => (ResponseEnd::AbortedWithUnknownCode, NoticeKind::Error),
        };
        let about = response::close(context, &open, &incoming, end);
        context.enqueue_notice(open.payer, to_payer, about);
        if response::confirms_to_payee(context, &open) {
            context.enqueue_notice(open.payee, NoticeKind::AbortCopy, about);
        }
        end.into()
    }
}
