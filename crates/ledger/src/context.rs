//! What a command may touch while it is decided.

use crate::accounts::Posting;
use crate::command::TraceId;
use crate::ids::{LogIndex, NoticeId, ParticipantIndex, Stamp, TransferId};
use crate::notice::{Notice, NoticeKind};
use crate::outcome::Outcome;
use crate::state::{Batch, Effects, NodeTail, State};
use crate::transfers::FinalTransfer;

/// The state, the effects, and the record being decided.
pub(crate) struct Context<'a> {
    pub(crate) state: &'a mut State,
    pub(crate) effects: &'a mut Effects,
    pub(crate) log_index: LogIndex,
}

/// Decides a command or a change.
pub(crate) trait Decide {
    /// The family of its outcomes.
    type Outcome;

    /// Reads, decides, and writes the next state.
    fn decide(&self, context: &mut Context<'_>) -> Self::Outcome;
}

/// What all notices of one decision have in common.
#[derive(Clone, Copy)]
pub(crate) struct NoticeContext {
    pub(crate) transfer: Option<TransferId>,
    pub(crate) source: LogIndex,
    pub(crate) outcome: Outcome,
    pub(crate) at: Stamp,
    pub(crate) trace: TraceId,
}

impl NoticeContext {
    /// Points a notice about a stored end at the record that says it in full, and at its moment.
    pub(crate) fn about_end(self, ended: &FinalTransfer) -> Self {
        let answered = || ended.answer.map_or(ended.prepare, |answer| answer.log_index);
        let source = ended.cause().map_or_else(answered, |cause| cause.record);
        Self { source, outcome: ended.outcome, at: ended.completed, ..self }
    }
}

impl Context<'_> {
    /// Moves money.
    pub(crate) fn post(&mut self, posting: Posting) {
        let State { accounts: books, stamp, trail, .. } = &mut *self.state;
        books.post(posting, *stamp, trail);
    }

    /// Makes the hub owe a notice.
    pub(crate) fn enqueue_notice(
        &mut self,
        recipient: ParticipantIndex,
        kind: NoticeKind,
        about: NoticeContext,
    ) -> NoticeId {
        let notice = Notice {
            id: self.state.outbox.next_id(),
            recipient,
            transfer: about.transfer,
            kind,
            source: about.source,
            outcome: about.outcome,
            at: about.at,
            owed_at: self.state.stamp,
            trace: about.trace,
        };
        self.put(notice);
        notice.id
    }

    /// Owes a dead letter again, from now on.
    pub(crate) fn requeue_notice(&mut self, notice: Notice) {
        self.put(Notice { owed_at: self.state.stamp, ..notice });
    }

    /// Puts a notice, new or exhumed, into the outbox.
    fn put(&mut self, notice: Notice) {
        self.state.trail.note::<21>(&[
            &notice.id.0.to_le_bytes(),
            &notice.recipient.0.to_le_bytes(),
            &[notice.kind as u8],
            &notice.source.0.to_le_bytes(),
        ]);
        self.state.outbox.add(notice);
        self.effects.notices.push(notice);
    }

    /// Keeps the row of a transfer that ended.
    pub(crate) fn finalize(&mut self, row: FinalTransfer) {
        self.effects.ended.push(row.clone());
        self.state.transfers.end(row);
    }

    /// Asks the driver to drop a prepare that has not been attempted yet.
    pub(crate) fn withdraw(&mut self, recipient: ParticipantIndex, notice: NoticeId) {
        if self.state.outbox.owes(notice) {
            self.effects.withdrawn.push((recipient, notice));
        }
    }

    /// Whether this record, number `at` of its batch, was applied before; notes it otherwise.
    pub(crate) fn is_repeat(&mut self, batch: &Batch, at: u64) -> bool {
        let tail = self.state.node_tail(batch.node);
        let now = NodeTail { node: batch.node, epoch: batch.epoch, sequence: batch.sequence + at };
        if (now.epoch, now.sequence) <= (tail.epoch, tail.sequence) {
            return true;
        }
        *tail = now;
        false
    }

    pub(crate) fn record_outcome(&mut self, outcome: Outcome) {
        self.state.log_index = self.log_index;
        self.state
            .trail
            .note::<10>(&[&self.log_index.0.to_le_bytes(), &outcome.number().to_le_bytes()]);
        self.effects.outcomes.push(outcome);
    }
}
