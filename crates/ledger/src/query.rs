//! Queries: read-only access to the state.

use alloc::vec::Vec;

use crate::ids::{FspName, LogIndex, NoticeId, ParticipantIndex, Stamp, TransferId};
use crate::money::{Amount, Currency};
use crate::notice::{DeadLetter, Notice, NoticeKind};
use crate::outcome::Outcome;
use crate::planted_bugs::{Bug, is_planted};
use crate::state::State;
use crate::transfers::{FinalTransfer, Outflow, ReservedTransfer, TransferLocation, TransferState};

/// Result of a look-up of a transfer by an FSP (hub-semantics 3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The requester is not a participant and gets no response.
    RequesterUnknown,
    /// No such transfer.
    NotFound,
    /// The requester is neither payer nor payee.
    NotAParty,
    /// The transfer as its parties may see it.
    Found(TransferView),
}

/// A transfer as its parties may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferView {
    /// Its state.
    pub state: TransferState,
    /// The amount.
    pub amount: Amount,
    /// The currency.
    pub currency: Currency,
    /// When it last changed.
    pub changed: Stamp,
    /// The record of its prepare.
    pub prepare: LogIndex,
    /// The payee's response, if one was taken.
    pub response: Option<LogIndex>,
    /// The cause of the abort, if it was aborted.
    pub cause: Option<AbortCause>,
}

/// The cause of an abort, and the record with the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortCause {
    /// The outcome that ended it.
    pub outcome: Outcome,
    /// The payee's error for [`Outcome::Aborted`], the prepare otherwise.
    pub record: LogIndex,
}

impl FinalTransfer {
    /// The payee's response that ended the transfer. A response after the deadline was not taken,
    /// and the end of an outflow comes from an operator.
    fn taken_response(&self) -> Option<LogIndex> {
        let of_payee = self.payee != Some(ParticipantIndex::HUB);
        let taken = self.response.filter(|_| of_payee && self.outcome != Outcome::Expired)?;
        Some(taken.log_index)
    }

    pub(crate) fn cause(&self) -> Option<AbortCause> {
        if self.state() == TransferState::Committed {
            return None;
        }
        let own_error = self.response.filter(|_| self.outcome == Outcome::Aborted);
        let record = own_error.map_or(self.prepare, |response| response.log_index);
        Some(AbortCause { outcome: self.outcome, record })
    }
}

impl State {
    /// Looks a transfer up for an FSP.
    #[must_use]
    pub fn look_up(&self, asker: &FspName, id: &TransferId) -> LookupResult {
        let Some(asker) = self.registry.sender(asker) else {
            return LookupResult::RequesterUnknown;
        };
        let parties = match self.transfers.find(id) {
            TransferLocation::Absent => return LookupResult::NotFound,
            TransferLocation::Reserved(slot) => {
                let transfer = self.transfers.reserved(slot);
                [Some(transfer.payer), Some(transfer.payee)]
            }
            TransferLocation::Final(at) => {
                let transfer = self.transfers.final_transfer(at);
                [transfer.payer, transfer.payee]
            }
            TransferLocation::Outflow => {
                [self.transfers.outflow(id).map(|flow| flow.participant), None]
            }
        };
        if !parties.contains(&Some(asker)) {
            return LookupResult::NotAParty;
        }
        self.view(id).map_or(LookupResult::NotFound, LookupResult::Found)
    }

    /// Reserved funds out that are neither committed nor aborted, in order of id.
    pub fn funds_out_in_progress(&self) -> impl Iterator<Item = (&TransferId, &Outflow)> {
        self.transfers.iter_outflows()
    }

    /// A transfer, without a check of the requester.
    #[must_use]
    pub fn view(&self, id: &TransferId) -> Option<TransferView> {
        let reserved = |account, amount, changed, prepare| TransferView {
            state: TransferState::Reserved,
            amount,
            currency: self.accounts.get(account).expect("it was reserved there").currency,
            changed,
            prepare,
            response: None,
            cause: None,
        };
        match self.transfers.find(id) {
            TransferLocation::Absent => None,
            TransferLocation::Reserved(slot) => {
                let ReservedTransfer { payer_account, amount, reserved_at, prepare, .. } =
                    *self.transfers.reserved(slot);
                Some(reserved(payer_account, amount, reserved_at, prepare))
            }
            TransferLocation::Outflow => {
                let Outflow { settlement, amount, reserved_at, record, .. } =
                    *self.transfers.outflow(id)?;
                Some(reserved(settlement, amount, reserved_at, record))
            }
            TransferLocation::Final(at) => {
                let transfer = self.transfers.final_transfer(at);
                Some(TransferView {
                    state: transfer.state(),
                    amount: transfer.amount,
                    currency: transfer.currency,
                    changed: transfer.completed,
                    prepare: transfer.prepare,
                    response: transfer.taken_response(),
                    cause: transfer.cause(),
                })
            }
        }
    }

    /// Number of reserved transfers.
    #[must_use]
    pub fn reserved_transfer_count(&self) -> usize {
        self.transfers.in_flight()
    }

    /// All reserved transfers, in no particular order.
    pub fn in_flight(&self) -> impl Iterator<Item = &ReservedTransfer> {
        self.transfers.iter_reserved()
    }

    /// Number of final transfers and movements of funds.
    #[must_use]
    pub fn final_transfer_count(&self) -> usize {
        self.transfers.final_count()
    }

    /// The next deadline, if any transfer is in flight.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.transfers.next_deadline_ms().map(Stamp::from_millis)
    }

    /// The earliest time at which `count` transfers are due; `None` if fewer are in flight. Takes
    /// one step per earlier deadline.
    #[must_use]
    pub fn nth_deadline(&self, count: usize) -> Option<Stamp> {
        self.transfers.nth_deadline_ms(count).map(Stamp::from_millis)
    }

    /// Notices owed and not yet recorded as delivered, in order of number.
    pub fn notices_owed(&self) -> impl Iterator<Item = &Notice> {
        self.outbox.iter()
    }

    /// The notices to send at a start: every notice owed, oldest first, and whether it is a prepare
    /// of a transfer that is final by now. Such a notice is withdrawn at once. Whether it was
    /// attempted is unknown and no longer relevant.
    #[must_use]
    pub fn notices_to_resume(&self) -> Vec<(Notice, bool)> {
        let is_stale = |notice: &Notice| {
            let view = notice.transfer.and_then(|transfer| self.view(&transfer));
            match notice.kind {
                NoticeKind::Prepare => {
                    view.is_none_or(|view| view.state != TransferState::Reserved)
                }
                NoticeKind::BulkPrepare => {
                    notice.transfer.is_none_or(|id| self.bulks.find(&id).is_none())
                }
                NoticeKind::Fulfil
                | NoticeKind::Abort
                | NoticeKind::FulfilCopy
                | NoticeKind::AbortCopy
                | NoticeKind::Committed
                | NoticeKind::Reserved
                | NoticeKind::AbortedState
                | NoticeKind::Error
                | NoticeKind::PatchCommitted
                | NoticeKind::PatchAborted
                | NoticeKind::PartiesChanged
                | NoticeKind::BulkResult
                | NoticeKind::BulkError => false,
            }
        };
        let mut owed: Vec<_> =
            self.outbox.iter().map(|notice| (*notice, is_stale(notice))).collect();
        if is_planted(Bug::RestartForgetsNotice) {
            owed.pop();
        }
        owed
    }

    /// One owed notice.
    #[must_use]
    pub fn notice(&self, id: NoticeId) -> Option<&Notice> {
        self.outbox.get(id)
    }

    /// Number of notices owed.
    #[must_use]
    pub fn notices_owed_count(&self) -> usize {
        self.outbox.len()
    }

    /// Number of notices owed to one participant.
    #[must_use]
    pub fn notices_owed_to(&self, recipient: ParticipantIndex) -> u32 {
        self.outbox.owed_to(recipient)
    }

    /// Number of the newest notice.
    #[must_use]
    pub fn last_notice(&self) -> NoticeId {
        self.outbox.last_id()
    }

    /// Dead letters, oldest first.
    pub fn dead_letters(&self) -> impl Iterator<Item = &DeadLetter> {
        self.outbox.dead().values()
    }

    /// Dead letters below an id, newest first.
    pub fn dead_letters_before(&self, id: NoticeId) -> impl Iterator<Item = &DeadLetter> {
        self.outbox.dead().range(..id).rev().map(|(_, letter)| letter)
    }

    /// Number of dead letters.
    #[must_use]
    pub fn dead_letter_count(&self) -> usize {
        self.outbox.dead().len()
    }
}
