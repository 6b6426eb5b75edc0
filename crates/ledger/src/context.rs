//! The parts of the kernel that a command may touch while it is decided.

use crate::accounts::{AccountKind, Posting};
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

/// Common fields of all notices of one decision.
#[derive(Clone, Copy)]
pub(crate) struct NoticeContext {
    pub(crate) transfer: Option<TransferId>,
    pub(crate) source: LogIndex,
    pub(crate) outcome: Outcome,
    pub(crate) at: Stamp,
    pub(crate) trace: TraceId,
}

impl NoticeContext {
    /// Points a notice about a final transfer at the record of its end and the time of that record.
    pub(crate) fn about_end(self, ended: &FinalTransfer) -> Self {
        let answered = || ended.response.map_or(ended.prepare, |response| response.log_index);
        let source = ended.cause().map_or_else(answered, |cause| cause.record);
        Self { source, outcome: ended.outcome, at: ended.completed, ..self }
    }
}

impl Context<'_> {
    /// Moves money.
    pub(crate) fn post(&mut self, posting: Posting) {
        let State { accounts, stamp, batch_digest, .. } = &mut *self.state;
        accounts.post(posting, *stamp, batch_digest);
    }

    /// Moves money that no transfer moves. The jumps of positions are in the effects.
    pub(crate) fn post_apart(&mut self, posting: Posting) {
        self.post(posting);
        for (account, amount) in
            [(posting.debit, posting.amount), (posting.credit, -posting.amount)]
        {
            let kind = self.state.accounts.get(account).map(|account| account.kind);
            if kind == Some(AccountKind::Position) {
                self.effects.position_jumps.push((account, amount));
            }
        }
    }

    /// Adds a notice to the outbox.
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

    /// Requeues a dead letter, owed from this record on.
    pub(crate) fn requeue_notice(&mut self, notice: Notice) {
        self.put(Notice { owed_at: self.state.stamp, ..notice });
    }

    /// Adds a new or requeued notice to the outbox.
    fn put(&mut self, notice: Notice) {
        self.state.batch_digest.note::<21>(&[
            &notice.id.0.to_le_bytes(),
            &notice.recipient.0.to_le_bytes(),
            &[notice.kind as u8],
            &notice.source.0.to_le_bytes(),
        ]);
        self.state.outbox.add(notice);
        self.effects.notices.push(notice);
    }

    /// Stores the row of a final transfer.
    pub(crate) fn finalize(&mut self, row: FinalTransfer) {
        self.effects.final_rows.push(row.clone());
        self.state.transfers.insert_final(row);
    }

    /// Asks the driver to drop a prepare that has not been attempted yet.
    pub(crate) fn withdraw(&mut self, recipient: ParticipantIndex, notice: NoticeId) {
        if self.state.outbox.owes(notice) {
            self.effects.withdrawn.push((recipient, notice));
        }
    }

    /// Whether record number `at` of the batch was applied before; otherwise remembers it.
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
        self.note_outcome(outcome);
        self.effects.outcomes.push(outcome);
    }

    /// Adds an outcome of the record to the digest of the batch.
    #[inline]
    pub(crate) fn note_outcome(&mut self, outcome: Outcome) {
        self.state
            .batch_digest
            .note::<10>(&[&self.log_index.0.to_le_bytes(), &outcome.number().to_le_bytes()]);
    }
}
