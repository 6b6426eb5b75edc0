//! The rows and accounts that each command concerns.
//!
//! A driver prefetches the rows before a batch is decided. The decision recorder reads the accounts
//! before and after. Their number is not bounded.

use crate::change::{AdjustBalance, Change, EndFundsOut, MoveFunds, TransferChange};
use crate::command::{Command, FinishedDelivery, Prepare};
use crate::ids::{NoticeId, TransferId};

/// Rows, notices and accounts that a command concerns.
#[derive(Clone, Copy)]
pub(crate) enum CommandScope<'a> {
    /// No row and no notice.
    Nothing,
    /// A transfer that it may create.
    NewTransfer(&'a Prepare),
    /// A transfer that it may end.
    OpenTransfer(&'a TransferId),
    /// A movement of funds that it may create.
    Funds(&'a MoveFunds),
    /// A correction of a balance that it may create.
    Adjustment(&'a AdjustBalance),
    /// A reserved outflow that it may end.
    Outflow(&'a EndFundsOut),
    /// Notices with a finished delivery.
    Deliveries(&'a [FinishedDelivery]),
    /// The transfer of a dead letter. Its row is not needed.
    DeadLetter(NoticeId),
}

impl Command {
    /// The rows of transfers and of movements of funds that the decision needs.
    pub fn rows(&self) -> impl Iterator<Item = &TransferId> {
        let row = match self.scope() {
            CommandScope::NewTransfer(prepare) => Some(&prepare.id),
            CommandScope::OpenTransfer(id) => Some(id),
            CommandScope::Funds(funds) => Some(&funds.id),
            CommandScope::Adjustment(adjustment) => Some(&adjustment.id),
            CommandScope::Outflow(end) => Some(&end.id),
            CommandScope::Deliveries(_) | CommandScope::DeadLetter(_) | CommandScope::Nothing => {
                None
            }
        };
        row.into_iter()
    }

    /// The notices that it concerns.
    pub fn notices(&self) -> impl Iterator<Item = NoticeId> {
        let (ends, letter) = match self.scope() {
            CommandScope::Deliveries(ends) => (ends, None),
            CommandScope::DeadLetter(notice) => (&[][..], Some(notice)),
            CommandScope::NewTransfer(_)
            | CommandScope::OpenTransfer(_)
            | CommandScope::Funds(_)
            | CommandScope::Adjustment(_)
            | CommandScope::Outflow(_)
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
