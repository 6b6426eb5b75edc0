//! Questions: reads of the state that decide nothing.

use alloc::vec::Vec;

use crate::ids::{FspName, LogIndex, NoticeId, ParticipantIndex, Stamp, TransferId};
use crate::money::{Amount, Currency};
use crate::notice::{DeadLetter, Notice, NoticeKind};
use crate::outcome::Outcome;
use crate::planted::{Bug, is_planted};
use crate::state::State;
use crate::transfers::{FinalTransfer, Found, Outflow, ReservedTransfer, TransferState};

/// Answer to a look-up of a transfer by an FSP (hub-semantics 3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LookUp {
    /// The asker is no participant: nobody to answer.
    AskerUnknown,
    /// No such transfer.
    NotFound,
    /// The asker is neither payer nor payee.
    Stranger,
    /// The transfer as its parties may see it.
    Found(TransferView),
}

/// A transfer as its parties may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferView {
    /// Its state.
    pub state: TransferState,
    /// How much it is about.
    pub amount: Amount,
    /// In which currency.
    pub currency: Currency,
    /// When it last changed.
    pub changed: Stamp,
    /// The record that made it.
    pub prepare: LogIndex,
    /// The payee's answer that it took, if any.
    pub answer: Option<LogIndex>,
    /// Why it was aborted, if it was.
    pub cause: Option<Cause>,
}

/// Why a transfer was aborted, and the record that says it in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The outcome that ended it.
    pub outcome: Outcome,
    /// The payee's error for [`Outcome::Aborted`], the prepare otherwise.
    pub record: LogIndex,
}

impl FinalTransfer {
    /// The payee's answer that ended the transfer; one that came after its deadline was not taken,
    /// and the end of an outflow is an operator's.
    fn taken_answer(&self) -> Option<LogIndex> {
        let of_payee = self.payee != Some(ParticipantIndex::HUB);
        let taken = self.answer.filter(|_| of_payee && self.outcome != Outcome::Expired)?;
        Some(taken.log_index)
    }

    pub(crate) fn cause(&self) -> Option<Cause> {
        if self.state() == TransferState::Committed {
            return None;
        }
        let own_error = self.answer.filter(|_| self.outcome == Outcome::Aborted);
        let record = own_error.map_or(self.prepare, |answer| answer.log_index);
        Some(Cause { outcome: self.outcome, record })
    }
}

impl State {
    /// Looks a transfer up for an FSP.
    #[must_use]
    pub fn look_up(&self, asker: &FspName, id: &TransferId) -> LookUp {
        let Some(asker) = self.registry.sender(asker) else { return LookUp::AskerUnknown };
        let parties = match self.transfers.find(id) {
            Found::Nothing => return LookUp::NotFound,
            Found::Reserved(slot) => {
                let transfer = self.transfers.active(slot);
                [Some(transfer.payer), Some(transfer.payee)]
            }
            Found::Final(at) => {
                let transfer = self.transfers.ended(at);
                [transfer.payer, transfer.payee]
            }
            Found::Outflow => [self.transfers.outflow(id).map(|flow| flow.participant), None],
        };
        if !parties.contains(&Some(asker)) {
            return LookUp::Stranger;
        }
        self.view(id).map_or(LookUp::NotFound, LookUp::Found)
    }

    /// A transfer, whoever asks.
    #[must_use]
    pub fn view(&self, id: &TransferId) -> Option<TransferView> {
        let reserved = |account, amount, changed, prepare| TransferView {
            state: TransferState::Reserved,
            amount,
            currency: self.accounts.get(account).expect("it was reserved there").currency,
            changed,
            prepare,
            answer: None,
            cause: None,
        };
        match self.transfers.find(id) {
            Found::Nothing => None,
            Found::Reserved(slot) => {
                let ReservedTransfer { payer_account, amount, reserved_at, prepare, .. } =
                    *self.transfers.active(slot);
                Some(reserved(payer_account, amount, reserved_at, prepare))
            }
            Found::Outflow => {
                let Outflow { settlement, amount, reserved_at, record, .. } =
                    *self.transfers.outflow(id)?;
                Some(reserved(settlement, amount, reserved_at, record))
            }
            Found::Final(at) => {
                let transfer = self.transfers.ended(at);
                Some(TransferView {
                    state: transfer.state(),
                    amount: transfer.amount,
                    currency: transfer.currency,
                    changed: transfer.completed,
                    prepare: transfer.prepare,
                    answer: transfer.taken_answer(),
                    cause: transfer.cause(),
                })
            }
        }
    }

    /// Transfers reserved and not ended.
    #[must_use]
    pub fn transfers_in_flight(&self) -> usize {
        self.transfers.in_flight()
    }

    /// Every transfer that is reserved and not ended, in no order.
    pub fn in_flight(&self) -> impl Iterator<Item = &ReservedTransfer> {
        self.transfers.iter_active()
    }

    /// Transfers that ended, and funds moved.
    #[must_use]
    pub fn transfers_ended(&self) -> usize {
        self.transfers.ended_count()
    }

    /// The moment at which a deadline falls due next, if any transfer is in flight.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Stamp> {
        self.transfers.next_deadline_ms().map(Stamp::from_millis)
    }

    /// The earliest moment at which so many transfers are due; none when fewer are in flight.
    /// Costs a step for each of the deadlines before it.
    #[must_use]
    pub fn nth_deadline(&self, count: usize) -> Option<Stamp> {
        self.transfers.nth_deadline_ms(count).map(Stamp::from_millis)
    }

    /// Notices owed and not yet recorded as delivered, in no order.
    pub fn notices_owed(&self) -> impl Iterator<Item = &Notice> {
        self.outbox.iter()
    }

    /// What a hub that starts must send: every notice owed, oldest first, and whether it is a
    /// prepare of a transfer that has ended since. Such a one is withdrawn at once: whether it
    /// was attempted is not known, and not needed any more.
    #[must_use]
    pub fn notices_to_resume(&self) -> Vec<(Notice, bool)> {
        let is_stale = |notice: &Notice| {
            let view = notice.transfer.and_then(|transfer| self.view(&transfer));
            notice.kind == NoticeKind::Prepare
                && view.is_none_or(|view| view.state != TransferState::Reserved)
        };
        let mut owed: Vec<_> =
            self.outbox.iter().map(|notice| (*notice, is_stale(notice))).collect();
        if is_planted(Bug::RestartForgetsNotice) {
            owed.pop();
        }
        owed
    }

    /// One notice that is owed.
    #[must_use]
    pub fn notice(&self, id: NoticeId) -> Option<&Notice> {
        self.outbox.get(id)
    }

    /// How many notices are owed in all.
    #[must_use]
    pub fn notices_owed_count(&self) -> usize {
        self.outbox.len()
    }

    /// How many notices are owed to one participant.
    #[must_use]
    pub fn notices_owed_to(&self, recipient: ParticipantIndex) -> u32 {
        self.outbox.owed_to(recipient)
    }

    /// Number of the newest notice.
    #[must_use]
    pub fn last_notice(&self) -> NoticeId {
        self.outbox.last_id()
    }

    /// Notices given up, oldest first.
    pub fn dead_letters(&self) -> impl Iterator<Item = &DeadLetter> {
        self.outbox.dead().values()
    }

    /// How many notices were given up and not sent again.
    #[must_use]
    pub fn dead_letter_count(&self) -> usize {
        self.outbox.dead().len()
    }
}
