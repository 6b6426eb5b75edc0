//! Notices that the hub owes participants. The outbox keeps each until its delivery, or its end as
//! a dead letter, is recorded.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::command::{FinishedDelivery, TraceId};
use crate::field::{numbered, stored};
use crate::ids::{LogIndex, NoticeId, ParticipantIndex, Stamp, TransferId};
use crate::outcome::Outcome;
use crate::slab::Slab;

numbered! {
    /// The kind of a notice, which determines the HTTP message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum NoticeKind: u8 {
        /// `POST /transfers`: the payer's message unchanged, to the payee.
        Prepare = 1,
        /// `PUT /transfers/{id}`: the payee's message unchanged, to the payer.
        Fulfil = 2,
        /// `PUT /transfers/{id}/error`: the payee's message unchanged, to the payer.
        Abort = 3,
        /// `PUT /transfers/{id}` from the hub with the payee's body, to the payee.
        FulfilCopy = 4,
        /// `PUT /transfers/{id}/error` from the hub with the payee's body, to the payee.
        AbortCopy = 5,
        /// `PUT /transfers/{id}` from the hub: COMMITTED, with the fulfilment of the source record.
        Committed = 6,
        /// `PUT /transfers/{id}` from the hub: RESERVED.
        Reserved = 7,
        /// `PUT /transfers/{id}` from the hub: ABORTED, with the cause.
        AbortedState = 8,
        /// `PUT /transfers/{id}/error` from the hub; the outcome determines the error.
        Error = 9,
        /// `PATCH /transfers/{id}` from the hub: COMMITTED.
        PatchCommitted = 10,
        /// `PATCH /transfers/{id}` from the hub: ABORTED, with the cause.
        PatchAborted = 11,
        /// `PUT /participants/...` from the hub: the directory has changed.
        PartiesChanged = 12,
        /// `POST /bulkTransfers` from the hub: the accepted items, to the payee.
        BulkPrepare = 13,
        /// `PUT /bulkTransfers/{id}` from the hub: the result.
        BulkResult = 14,
        /// `PUT /bulkTransfers/{id}/error` from the hub: the payee's error, or that of the outcome.
        BulkError = 15,
    }
}

stored! {
    /// One message owed to one participant.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Notice {
        /// Its number. Notices to one participant about one transfer are sent in this order.
        pub id: NoticeId,
        /// The recipient.
        pub recipient: ParticipantIndex,
        /// The transfer that it reports about. `None` for a registration: such a notice is not
        /// ordered and never becomes a dead letter.
        pub transfer: Option<TransferId>,
        /// The kind.
        pub kind: NoticeKind,
        /// The record that its content is built from.
        pub source: LogIndex,
        /// The reported outcome: an error, or the cause of an end.
        pub outcome: Outcome,
        /// Time of the reported event, by the hub's clock.
        pub at: Stamp,
        /// When the notice was enqueued or requeued. Delivery attempts end a fixed time after that,
        /// even across restarts.
        pub owed_at: Stamp,
        /// Trace of the message that caused it.
        pub trace: TraceId,
    }
}

stored! {
    /// A notice that could not be delivered.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct DeadLetter {
        /// The notice.
        pub notice: Notice,
        /// The result of its delivery.
        pub end: FinishedDelivery,
    }
}

/// Notices owed, and dead letters.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    /// The slots of the notices owed. A tree, because a hash table moves all entries when it grows.
    /// With 100,000 notices owed, that would stall the kernel for tens of milliseconds.
    owed: BTreeMap<NoticeId, u32>,
    /// Apart from the tree, which moves its entries with most changes.
    notices: Slab<Notice>,
    owed_to: Vec<u32>,
    dead: BTreeMap<NoticeId, DeadLetter>,
    last: NoticeId,
}

impl Outbox {
    pub(crate) fn new() -> Self {
        Self {
            owed: BTreeMap::new(),
            notices: Slab::default(),
            owed_to: Vec::new(),
            dead: BTreeMap::new(),
            last: NoticeId(0),
        }
    }

    pub(crate) fn next_id(&mut self) -> NoticeId {
        self.last = NoticeId(self.last.0 + 1);
        self.last
    }

    /// The number of the next notice.
    pub(crate) fn following_id(&self) -> NoticeId {
        NoticeId(self.last.0 + 1)
    }

    pub(crate) fn last_id(&self) -> NoticeId {
        self.last
    }

    /// Sets the newest number. The next notice gets the one after it.
    pub(crate) fn set_last_id(&mut self, last: NoticeId) {
        self.last = last;
    }

    pub(crate) fn add(&mut self, notice: Notice) {
        if self.owed_to.len() <= notice.recipient.at() {
            self.owed_to.resize(notice.recipient.at() + 1, 0);
        }
        self.owed_to[notice.recipient.at()] += 1;
        let known = self.owed.insert(notice.id, self.notices.insert(notice));
        assert!(known.is_none(), "a notice is owed once");
    }

    pub(crate) fn owes(&self, id: NoticeId) -> bool {
        self.owed.contains_key(&id)
    }

    pub(crate) fn get(&self, id: NoticeId) -> Option<&Notice> {
        self.owed.get(&id).map(|slot| self.notices.get(*slot))
    }

    pub(crate) fn remove(&mut self, id: NoticeId) -> Option<Notice> {
        let notice = self.notices.take(self.owed.remove(&id)?);
        self.owed_to[notice.recipient.at()] -= 1;
        Some(notice)
    }

    pub(crate) fn dead_letter(&mut self, letter: DeadLetter) {
        self.dead.insert(letter.notice.id, letter);
    }

    pub(crate) fn requeue(&mut self, id: NoticeId) -> Option<Notice> {
        self.dead.remove(&id).map(|letter| letter.notice)
    }

    /// Drops a dead letter. False if there is no such letter.
    pub(crate) fn drop_dead(&mut self, id: NoticeId) -> bool {
        self.dead.remove(&id).is_some()
    }

    /// Number of notices owed to one participant.
    pub(crate) fn owed_to(&self, recipient: ParticipantIndex) -> u32 {
        self.owed_to.get(recipient.at()).copied().unwrap_or(0)
    }

    pub(crate) fn len(&self) -> usize {
        self.owed.len()
    }

    /// Notices owed, in order of number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Notice> {
        self.owed.values().map(|slot| self.notices.get(*slot))
    }

    pub(crate) fn dead(&self) -> &BTreeMap<NoticeId, DeadLetter> {
        &self.dead
    }
}
