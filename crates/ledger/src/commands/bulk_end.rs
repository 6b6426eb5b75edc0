//! The end of a bulk transfer, and its notices.

use crate::command::TraceId;
use crate::context::{Context, NoticeContext};
use crate::ids::{LogIndex, ParticipantIndex, TransferId};
use crate::money::Amount;
use crate::notice::NoticeKind;
use crate::outcome::Outcome;
use crate::transfers::FinalTransfer;

/// A transfer with this prepare has met its deadline. Returns whether it was an item of an open
/// bulk, which the last one completes.
#[cold]
pub(super) fn item_expired(context: &mut Context<'_>, record: LogIndex) -> bool {
    let Some(open) = context.state.bulks.of_record_mut(record) else { return false };
    open.open -= 1;
    if open.open == 0 {
        finish(context, record, Outcome::BulkCompleted);
    }
    true
}

/// Stores the row of a bulk without items in flight, and notifies both parties.
pub(super) fn finish(context: &mut Context<'_>, record: LogIndex, outcome: Outcome) -> Outcome {
    let open = context.state.bulks.remove(record).expect("an open bulk is finished once");
    context.withdraw(open.payee, open.prepare_notice);
    let row = FinalTransfer {
        id: open.id,
        payer: Some(open.payer),
        payee: Some(open.payee),
        amount: Amount::ZERO,
        currency: open.currency,
        hash: open.hash,
        prepare: open.prepare,
        response: open.response,
        outcome,
        completed: context.state.stamp,
        changed: context.log_index,
    };
    let about = BulkNotice { id: open.id, outcome, trace: open.trace };
    let (kind, about) = about.of_end(context, &row);
    context.finalize(row);
    context.enqueue_notice(open.payer, kind, about);
    if open.payer != open.payee {
        context.enqueue_notice(open.payee, kind, about);
    }
    outcome
}

/// The subject of a notice about a bulk.
pub(super) struct BulkNotice {
    pub(super) id: TransferId,
    pub(super) outcome: Outcome,
    pub(super) trace: TraceId,
}

impl BulkNotice {
    pub(super) fn context(&self, context: &Context<'_>) -> NoticeContext {
        let (source, at) = (context.log_index, context.state.stamp);
        let (transfer, outcome, trace) = (Some(self.id), self.outcome, self.trace);
        NoticeContext { transfer, source, outcome, at, trace }
    }

    /// The notice about a final bulk: its result, or the error that ended it.
    fn of_end(&self, context: &Context<'_>, row: &FinalTransfer) -> (NoticeKind, NoticeContext) {
        let about = self.context(context);
        let has_result = matches!(row.outcome, Outcome::BulkCompleted | Outcome::BulkRejected);
        let by_payee = row.response.filter(|_| row.outcome == Outcome::Aborted);
        let source = by_payee.map_or(row.prepare, |response| response.log_index);
        let kind = if has_result { NoticeKind::BulkResult } else { NoticeKind::BulkError };
        (kind, NoticeContext { source, outcome: row.outcome, at: row.completed, ..about })
    }
}

/// Sends the stored end again.
pub(super) fn resend(
    context: &mut Context<'_>,
    about: &BulkNotice,
    (recipient, ended): (ParticipantIndex, &FinalTransfer),
) {
    let (kind, about) = about.of_end(context, ended);
    context.enqueue_notice(recipient, kind, about);
}
