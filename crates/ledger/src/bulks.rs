//! Open bulk transfers: the items that the payee has not answered yet.
//!
//! Each item is a transfer like any other, in the table of transfers in flight. An item names the
//! record of its bulk as its prepare, which is how an end of an item finds the bulk. When no item
//! is in flight any more, the bulk is final. Its row is then one of the final transfers, under an
//! id that no transfer has ([`TransferId::as_bulk`]), and is evicted like them.
//!
//! Costs: two B-tree operations per bulk, one search per end of an item, 17 bytes per accepted
//! item.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::command::TraceId;
use crate::field::{BulkId, List, stored};
use crate::ids::{BULK_ITEMS_MAX, Digest, LogIndex, NoticeId, ParticipantIndex, Stamp, TransferId};
use crate::money::Currency;
use crate::transfers::RecordedResponse;

stored! {
    /// A bulk transfer with items in flight.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct OpenBulk {
        /// Its id.
        pub id: TransferId as BulkId,
        /// The payer of all items.
        pub payer: ParticipantIndex,
        /// The payee of all items.
        pub payee: ParticipantIndex,
        /// Currency of the first accepted item.
        pub currency: Currency,
        /// Digest of the body of its POST.
        pub hash: Digest,
        /// The record of its POST.
        pub prepare: LogIndex,
        /// The notice with the accepted items for the payee.
        pub prepare_notice: NoticeId,
        /// Time of its POST.
        pub reserved_at: Stamp,
        /// Trace of its POST.
        pub trace: TraceId,
        /// The payee's response, once taken.
        pub response: Option<RecordedResponse>,
        /// Number of committed items.
        pub committed: u32,
        /// Number of items in flight.
        pub open: u32,
        /// The accepted items, in the order of the list.
        pub items: Vec<TransferId> as List<BULK_ITEMS_MAX>,
    }
}

/// The open bulk transfers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bulks {
    by_record: BTreeMap<LogIndex, OpenBulk>,
    by_id: BTreeMap<TransferId, LogIndex>,
}

impl Bulks {
    pub(crate) fn len(&self) -> usize {
        self.by_record.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_record.is_empty()
    }

    pub(crate) fn insert(&mut self, bulk: OpenBulk) {
        self.by_id.insert(bulk.id, bulk.prepare);
        self.by_record.insert(bulk.prepare, bulk);
    }

    pub(crate) fn remove(&mut self, record: LogIndex) -> Option<OpenBulk> {
        let bulk = self.by_record.remove(&record)?;
        self.by_id.remove(&bulk.id);
        Some(bulk)
    }

    /// The open bulk whose POST is this record.
    pub(crate) fn of_record(&self, record: LogIndex) -> Option<&OpenBulk> {
        self.by_record.get(&record)
    }

    pub(crate) fn of_record_mut(&mut self, record: LogIndex) -> Option<&mut OpenBulk> {
        self.by_record.get_mut(&record)
    }

    pub(crate) fn find(&self, id: &TransferId) -> Option<&OpenBulk> {
        self.by_record.get(self.by_id.get(id)?)
    }

    /// Open bulks, in order of their records.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &OpenBulk> {
        self.by_record.values()
    }

    /// The place of each accepted item in its list.
    pub(crate) fn places(&self) -> BTreeMap<TransferId, u32> {
        self.iter().flat_map(|bulk| bulk.items.iter().copied().zip(0..)).collect()
    }
}
