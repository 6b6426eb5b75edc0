//! The model's outbox: notices owed, in order of creation, and dead letters.

use std::collections::BTreeMap;

use ledger::{
    DeliveryResult, Effects, FinishedDelivery, LogIndex, Notice, NoticeId, NoticeKind, Outcome,
    ParticipantIndex, Stamp, State, TransferId,
};

/// The content of a notice, independent of its recipient.
#[derive(Clone, Debug)]
pub(super) struct NoticeContent {
    pub(super) transfer: Option<TransferId>,
    pub(super) outcome: Outcome,
    pub(super) trace: [u8; 16],
    /// The record that it is built from.
    pub(super) source: u64,
    pub(super) at: Stamp,
    /// Stamp of the batch that creates it.
    pub(super) owed_at: Stamp,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    pub(super) owed: BTreeMap<u64, Notice>,
    pub(super) dead: BTreeMap<u64, (Notice, FinishedDelivery)>,
    /// Number of notices owed, by recipient.
    counts: BTreeMap<u32, u32>,
    last: u64,
    /// New notices of the current batch.
    new_notices: Vec<Notice>,
    withdrawn: Vec<(ParticipantIndex, NoticeId)>,
}

impl Outbox {
    pub(super) fn begin(&mut self) {
        self.new_notices.clear();
        self.withdrawn.clear();
    }

    pub(super) fn enqueue(
        &mut self,
        recipient: u32,
        kind: NoticeKind,
        content: &NoticeContent,
    ) -> NoticeId {
        self.last += 1;
        let notice = Notice {
            id: NoticeId(self.last),
            recipient: ParticipantIndex(recipient),
            transfer: content.transfer,
            kind,
            source: LogIndex(content.source),
            outcome: content.outcome,
            at: content.at,
            owed_at: content.owed_at,
            trace: content.trace,
        };
        self.put(notice);
        notice.id
    }

    /// Withdraws a prepare that is still owed.
    pub(super) fn withdraw(&mut self, id: NoticeId) {
        if let Some(notice) = self.owed.get(&id.0) {
            self.withdrawn.push((notice.recipient, id));
        }
    }

    /// Records a finished delivery. False if the notice is not owed.
    pub(super) fn finish_delivery(&mut self, end: &FinishedDelivery) -> bool {
        let Some(notice) = self.owed.remove(&end.notice.0) else { return false };
        *self.counts.entry(notice.recipient.0).or_default() -= 1;
        if end.result == DeliveryResult::Dead {
            self.dead.insert(notice.id.0, (notice, *end));
        }
        true
    }

    /// Requeues a dead letter. False if there is no such letter.
    pub(super) fn requeue(&mut self, id: NoticeId, owed_at: Stamp) -> bool {
        let letter = self.dead.remove(&id.0);
        if let Some((notice, _)) = letter {
            self.put(Notice { owed_at, ..notice });
        }
        letter.is_some()
    }

    pub(super) fn owed_to(&self, recipient: u32) -> u32 {
        self.counts.get(&recipient).copied().unwrap_or(0)
    }

    pub(super) fn compare(&self, effects: &Effects) {
        assert_eq!(effects.notices, self.new_notices, "the notices of the batch");
        assert_eq!(effects.withdrawn, self.withdrawn, "prepares withdrawn by the batch");
    }

    pub(super) fn compare_in_full(&self, state: &State) {
        assert_eq!(state.last_notice().0, self.last, "number of the newest notice");
        assert_eq!(state.notices_owed_count(), self.owed.len(), "notices owed");
        for notice in self.owed.values() {
            assert_eq!(state.notice(notice.id), Some(notice), "a notice is owed");
        }
        let dead = state.dead_letters().map(|letter| (letter.notice, letter.end));
        assert!(dead.eq(self.dead.values().copied()), "dead letters: not {:?}", self.dead);
    }

    fn put(&mut self, notice: Notice) {
        *self.counts.entry(notice.recipient.0).or_default() += 1;
        self.owed.insert(notice.id.0, notice);
        self.new_notices.push(notice);
    }
}
