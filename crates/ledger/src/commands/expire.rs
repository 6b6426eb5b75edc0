//! Expiry of reserved transfers when the stamp reaches their deadline. The reversal and the notices
//! to payer and payee are one step (hub-semantics 3.10, rulings 13 and 14). A payer that is its own
//! payee gets one notice.

use super::{bulk_end, response};
use crate::context::{Context, NoticeContext};
use crate::ids::TransferId;
use crate::notice::NoticeKind;
use crate::outcome::Outcome;
use crate::planted_bugs::{Bug, is_planted};

/// The next transfer that is due, in order of deadline, then of prepare.
pub(crate) fn next_due(context: &Context<'_>) -> Option<TransferId> {
    let transfers = &context.state.transfers;
    let slot = transfers.due(context.state.stamp.millis())?;
    Some(transfers.reserved(slot).id)
}

/// Expires the next transfer that is due. Returns whether there was one.
pub(crate) fn expire_next(context: &mut Context<'_>) -> bool {
    let due = context.state.transfers.due(context.state.stamp.millis());
    due.into_iter().for_each(|slot| expire(context, slot));
    due.is_some()
}

fn expire(context: &mut Context<'_>, slot: u32) {
    let transfer = context.state.transfers.take_reserved(slot);
    context.state.fees.take(&transfer.id);
    let posting = context.state.accounts.commitment(transfer.payer_account, transfer.amount);
    if !is_planted(Bug::ExpiryKeepsPosition) {
        context.post(posting);
    }
    context.state.counters.expired += 1;
    response::end(context, &transfer, None, Outcome::Expired);
    if !context.state.bulks.is_empty() && bulk_end::item_expired(context, transfer.prepare) {
        return;
    }
    context.withdraw(transfer.payee, transfer.prepare_notice);
    let about = NoticeContext {
        transfer: Some(transfer.id),
        source: transfer.prepare,
        outcome: Outcome::Expired,
        at: context.state.stamp,
        trace: transfer.trace,
    };
    context.enqueue_notice(transfer.payer, NoticeKind::Error, about);
    if transfer.payer != transfer.payee {
        context.enqueue_notice(transfer.payee, NoticeKind::Error, about);
    }
}
