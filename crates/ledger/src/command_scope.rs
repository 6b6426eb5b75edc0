//! The rows and accounts that each command concerns.
//!
//! A driver prefetches the rows before a batch is decided. The decision recorder reads the accounts
//! before and after. Their number is not bounded.

use crate::change::{AdjustBalance, Change, EndFundsOut, MoveFunds, TransferChange};
use crate::command::{BulkItem, Command, FinishedDelivery, Prepare};
use crate::ids::{NoticeId, TransferId};
use crate::request_content::RequestStep;

/// Rows, notices and accounts that a command concerns.
#[derive(Clone, Copy)]
pub(crate) enum CommandScope<'a> {
    /// No row and no notice.
    Nothing,
    /// A transfer that it may create.
    NewTransfer(&'a Prepare),
    /// A transfer that it may end.
    OpenTransfer(&'a TransferId),
    /// A bulk transfer, and items that it may create. Observers see each item as a command.
    Bulk(&'a TransferId, &'a [BulkItem]),
    /// A movement of funds that it may create.
    Funds(&'a MoveFunds),
    /// A correction of a balance that it may create.
    Adjustment(&'a AdjustBalance),
    /// A reserved outflow that it may end.
    Outflow(&'a EndFundsOut),
    /// A quote or a transaction request. It has no row among the transfers; the decision about it
    /// is recorded.
    Exchange(&'a TransferId),
    /// Notices with a finished delivery.
    Deliveries(&'a [FinishedDelivery]),
    /// The transfer of a dead letter. Its row is not needed.
    DeadLetter(NoticeId),
}

impl<'a> CommandScope<'a> {
    /// The only row of a transfer or of a movement of funds; `None` for a bulk.
    fn row(self) -> Option<&'a TransferId> {
        match self {
            Self::NewTransfer(prepare) => Some(&prepare.id),
            Self::OpenTransfer(id) => Some(id),
            Self::Funds(funds) => Some(&funds.id),
            Self::Adjustment(adjustment) => Some(&adjustment.id),
            Self::Outflow(end) => Some(&end.id),
            Self::Bulk(..)
            | Self::Exchange(_)
            | Self::Deliveries(_)
            | Self::DeadLetter(_)
            | Self::Nothing => None,
        }
    }
}

impl Command {
    /// The only id that a decision about it is recorded for, before it is decided; `None` for a
    /// bulk, whose decision follows those of its items.
    pub(crate) fn subject(&self) -> Option<&TransferId> {
        match self.scope() {
            CommandScope::Exchange(id) => Some(id),
            scope => scope.row(),
        }
    }

    /// The quote or the transaction request, for a message about one that is recorded.
    #[must_use]
    pub fn exchange(&self) -> Option<&TransferId> {
        match self.scope() {
            CommandScope::Exchange(id) => Some(id),
            _ => None,
        }
    }

    /// References to the payments that a message about a quote or a transaction request names. An
    /// accepted one is recorded under them too ([`TransferId::as_payment`]).
    pub fn payments(&self) -> impl Iterator<Item = TransferId> {
        let named = match self {
            Self::RecordQuote(quote) => [Some(quote.transaction), quote.request],
            Self::RecordRequestToPay(request) => match request.step {
                RequestStep::Answered(status) => [status.transaction, None],
                RequestStep::Requested(_) | RequestStep::Failed => [None; 2],
            },
            _ => [None; 2],
        };
        named.into_iter().flatten().map(TransferId::as_payment)
    }

    /// The rows of transfers and of movements of funds that the decision needs.
    pub fn rows(&self) -> impl Iterator<Item = &TransferId> {
        let (row, items) = match self.scope() {
            CommandScope::Bulk(id, items) => (Some(id), items),
            scope => (scope.row(), &[][..]),
        };
        row.into_iter().chain(items.iter().map(|item| &item.id))
    }

    /// The notices that it concerns.
    pub fn notices(&self) -> impl Iterator<Item = NoticeId> {
        let (ends, letter) = match self.scope() {
            CommandScope::Deliveries(ends) => (ends, None),
            CommandScope::DeadLetter(notice) => (&[][..], Some(notice)),
            CommandScope::NewTransfer(_)
            | CommandScope::OpenTransfer(_)
            | CommandScope::Bulk(..)
            | CommandScope::Funds(_)
            | CommandScope::Adjustment(_)
            | CommandScope::Outflow(_)
            | CommandScope::Exchange(_)
            | CommandScope::Nothing => (&[][..], None),
        };
        ends.iter().map(|end| end.notice).chain(letter)
    }

    pub(crate) fn scope(&self) -> CommandScope<'_> {
        match self {
            Self::Prepare(prepare) => CommandScope::NewTransfer(prepare),
            Self::Fulfil(fulfil) => CommandScope::OpenTransfer(&fulfil.id),
            Self::Abort(abort) => CommandScope::OpenTransfer(&abort.id),
            Self::Administer(administer) => administer.change.scope(),
            Self::FinishDeliveries(ends) => CommandScope::Deliveries(ends),
            Self::PrepareBulk(bulk) => CommandScope::Bulk(&bulk.id, &bulk.items),
            Self::FulfilBulk(bulk) => CommandScope::Bulk(&bulk.id, &[]),
            Self::AbortBulk(bulk) => CommandScope::Bulk(&bulk.id, &[]),
            Self::RecordQuote(quote) => CommandScope::Exchange(&quote.quote),
            Self::RecordQuoteAnswer(answer) => CommandScope::Exchange(&answer.quote),
            Self::RecordRequestToPay(request) => CommandScope::Exchange(&request.request),
            Self::Genesis(_) | Self::Tick | Self::ChangeParties(_) => CommandScope::Nothing,
        }
    }
}

impl Change {
    fn scope(&self) -> CommandScope<'_> {
        match self.about_transfer() {
            Some(TransferChange::MoveFunds(funds)) => CommandScope::Funds(funds),
            Some(TransferChange::EndFundsOut(end)) => CommandScope::Outflow(end),
            Some(TransferChange::AdjustBalance(adjustment)) => CommandScope::Adjustment(adjustment),
            Some(TransferChange::Redeliver(again)) => CommandScope::DeadLetter(again.notice),
            Some(TransferChange::DropDeadLetter(drop)) => CommandScope::DeadLetter(drop.notice),
            None => CommandScope::Nothing,
        }
    }
}
