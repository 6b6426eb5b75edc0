//! Transfers: those in flight, with everything that a decision needs, and final ones, with
//! everything that a resend or a query needs.
//!
//! The row of a final transfer is hot, in this table, or cold, in the cold store.
//! [`crate::eviction`] describes when it moves. Hot rows are kept in order of arrival and evicted
//! from the front.
//!
//! Costs: one keyed hash and one probe per look-up; 220 bytes per transfer in flight, 160 bytes per
//! final one, and about 20 bytes of index. Growth is spread out: rows never move, the index of
//! final transfers grows table by table, and no index reads rows to grow.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::command::TraceId;
use crate::cow_page::{CowPage, PAGE};
use crate::deadlines::Deadlines;
use crate::evicted::EvictedRows;
use crate::field::{VarInt, numbered, stored};
use crate::hashing::KeyedHashing;
use crate::ids::{AccountId, Digest, LogIndex, NoticeId, ParticipantIndex, Stamp, TransferId};
use crate::money::{Amount, Currency};
use crate::outcome::Outcome;
use crate::slab::Slab;

/// A transfer's state as FSPIOP names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The payer's position is reserved; the payee has not answered yet.
    Reserved,
    /// Final: the payee's position has moved too.
    Committed,
    /// Final: nothing moved, or all of it moved back.
    Aborted,
}

stored! {
    /// A reserved transfer.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ReservedTransfer {
        /// The transfer.
        pub id: TransferId,
        /// The payer.
        pub payer: ParticipantIndex,
        /// The payee.
        pub payee: ParticipantIndex,
        /// The payer's POSITION account.
        pub payer_account: AccountId,
        /// The payee's POSITION account.
        pub payee_account: AccountId,
        /// The reserved amount.
        pub amount: Amount,
        /// SHA-256 of the fulfilment that will commit it.
        pub condition: [u8; 32],
        /// Deadline, in milliseconds since the epoch.
        pub expiration_ms: u64,
        /// Digest of the prepare's body.
        pub hash: Digest,
        /// The record of the prepare.
        pub prepare: LogIndex,
        /// The notice with the prepare for the payee.
        pub prepare_notice: NoticeId,
        /// Time of the reservation.
        pub reserved_at: Stamp,
        /// Trace of the prepare.
        pub trace: TraceId,
    }
}

numbered! {
    /// The kind of the payee's response.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum ResponseKind: u8 {
        /// `PUT /transfers/{id}`.
        Fulfil = 1,
        /// `PUT /transfers/{id}/error`.
        Abort = 2,
    }
}

stored! {
    /// The response that a transfer has taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct RecordedResponse {
        /// Its kind.
        pub kind: ResponseKind,
        /// Digest of its body.
        pub hash: Digest,
        /// Its record.
        pub log_index: LogIndex,
    }
}

stored! {
    /// A final transfer, a refused prepare, or a finished movement of funds: everything that a
    /// resend, a late response or a query needs. The row may be evicted ([`crate::State::evict`]).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FinalTransfer {
        /// Its id.
        pub id: TransferId,
        /// The payer; `None` if it is not registered.
        pub payer: Option<ParticipantIndex>,
        /// The payee; the hub for a movement of funds.
        pub payee: Option<ParticipantIndex>,
        /// The amount.
        pub amount: Amount as VarInt,
        /// The currency.
        pub currency: Currency,
        /// Digest of the body that created it.
        pub hash: Digest,
        /// The record that created it.
        pub prepare: LogIndex,
        /// The response taken, or the first one after the deadline.
        pub response: Option<RecordedResponse>,
        /// The outcome that ended it.
        pub outcome: Outcome,
        /// When it became final.
        pub completed: Stamp,
        /// The record that last changed the row: its version.
        pub changed: LogIndex,
    }
}

impl FinalTransfer {
    pub(crate) fn state(&self) -> TransferState {
        let committed = [Outcome::Committed, Outcome::Accepted].contains(&self.outcome);
        if committed { TransferState::Committed } else { TransferState::Aborted }
    }
}

stored! {
    /// A reserved outflow of funds.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Outflow {
        /// The participant.
        pub participant: ParticipantIndex,
        /// Its SETTLEMENT account.
        pub settlement: AccountId,
        /// The amount.
        pub amount: Amount,
        /// Digest of the request.
        pub hash: Digest,
        /// The record of the reservation.
        pub record: LogIndex,
        /// Time of the reservation.
        pub reserved_at: Stamp,
    }
}

/// The place of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransferLocation {
    Reserved(u32),
    Final(u32),
    Outflow,
    Absent,
}

/// All transfers of the scheme.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    keyed: KeyedHashing,
    reserved: Slab<ReservedTransfer>,
    reserved_by_id: Index,
    /// In order of deadline, then of prepare. The order does not depend on the slots.
    deadlines: Deadlines,
    final_rows: Pages<FinalTransfer>,
    final_by_id: Shards,
    evicted: EvictedRows,
    outflows: BTreeMap<TransferId, Outflow>,
}

impl Transfers {
    pub(crate) fn new(keyed: KeyedHashing) -> Self {
        Self {
            keyed,
            reserved: Slab::default(),
            reserved_by_id: Index::default(),
            deadlines: Deadlines::default(),
            final_rows: Pages::default(),
            final_by_id: Shards::default(),
            evicted: EvictedRows::default(),
            outflows: BTreeMap::new(),
        }
    }

    pub(crate) const fn keyed(&self) -> KeyedHashing {
        self.keyed
    }

    /// An empty table with the count and digest of evicted rows.
    pub(crate) fn with_evicted(keyed: KeyedHashing, evicted: EvictedRows) -> Self {
        Self { evicted, ..Self::new(keyed) }
    }

    pub(crate) fn find(&self, id: &TransferId) -> TransferLocation {
        let hash = self.keyed.of(id);
        if let Some(slot) = self.reserved_by_id.find(hash, |slot| self.reserved(slot).id == *id) {
            return TransferLocation::Reserved(slot);
        }
        if let Some(at) = self.final_by_id.find(hash, |at| self.final_rows.get(at).id == *id) {
            return TransferLocation::Final(at);
        }
        if self.outflows.contains_key(id) {
            return TransferLocation::Outflow;
        }
        TransferLocation::Absent
    }

    pub(crate) fn reserved(&self, slot: u32) -> &ReservedTransfer {
        self.reserved.get(slot)
    }

    pub(crate) fn final_transfer(&self, at: u32) -> &FinalTransfer {
        self.final_rows.get(at)
    }

    pub(crate) fn final_transfer_mut(&mut self, at: u32) -> &mut FinalTransfer {
        self.final_rows.get_mut(at)
    }

    pub(crate) fn outflow(&self, id: &TransferId) -> Option<&Outflow> {
        self.outflows.get(id)
    }

    pub(crate) fn insert_reserved(&mut self, transfer: ReservedTransfer) {
        let hash = self.keyed.of(&transfer.id);
        let deadline_ms = transfer.expiration_ms;
        let slot = self.reserved.insert(transfer);
        self.deadlines.add(deadline_ms, slot);
        self.reserved_by_id.insert(hash, slot);
    }

    /// Removes a transfer from flight.
    pub(crate) fn take_reserved(&mut self, slot: u32) -> ReservedTransfer {
        let transfer = self.reserved.take(slot);
        self.deadlines.remove(slot);
        self.reserved_by_id.remove(self.keyed.of(&transfer.id), slot);
        transfer
    }

    /// The first transfer whose deadline is not after `now_ms`.
    pub(crate) fn due(&self, now_ms: u64) -> Option<u32> {
        let (deadline_ms, slot) = self.deadlines.first()?;
        (deadline_ms <= now_ms).then_some(slot)
    }

    /// The earliest deadline, in milliseconds since the epoch.
    pub(crate) fn next_deadline_ms(&self) -> Option<u64> {
        self.deadlines.first().map(|(deadline_ms, _)| deadline_ms)
    }

    /// The earliest deadline by which `count` are due, in milliseconds since the epoch.
    pub(crate) fn nth_deadline_ms(&self, count: usize) -> Option<u64> {
        self.deadlines.of_nth(count)
    }

    pub(crate) fn insert_final(&mut self, transfer: FinalTransfer) {
        let hash = self.keyed.of(&transfer.id);
        let at = self.final_rows.push(transfer);
        let (rows, keyed) = (&self.final_rows, self.keyed);
        self.final_by_id.insert(hash, at, |row| keyed.of(&rows.get(row).id));
    }

    /// Restores an evicted row.
    pub(crate) fn restore_row(&mut self, row: FinalTransfer) {
        assert_eq!(
            self.find(&row.id),
            TransferLocation::Absent,
            "a row that is restored is not in memory"
        );
        self.evicted.remove(&row);
        self.insert_final(row);
    }

    /// A copy of the rows without indexes. The pages are shared.
    pub(crate) fn snapshot(&self) -> Self {
        Self {
            reserved: self.reserved.clone(),
            final_rows: self.final_rows.clone(),
            outflows: self.outflows.clone(),
            ..Self::with_evicted(self.keyed, self.evicted)
        }
    }

    /// Evicts the oldest final row of a copy without indexes.
    pub(crate) fn evict_oldest_unindexed(&mut self) {
        self.evicted.add(self.final_rows.first().expect("only a row that is there is forgotten"));
        self.final_rows.pop_first();
    }

    /// The oldest hot row.
    pub(crate) fn oldest(&self) -> Option<&FinalTransfer> {
        self.final_rows.first()
    }

    /// Evicts the oldest hot row.
    pub(crate) fn evict_oldest(&mut self) {
        let row = self.final_rows.first().expect("only a row that is there is evicted");
        self.final_by_id.remove(self.keyed.of(&row.id), self.final_rows.first_number());
        self.evict_oldest_unindexed();
    }

    pub(crate) fn evicted(&self) -> &EvictedRows {
        &self.evicted
    }

    pub(crate) fn hot_count(&self) -> usize {
        self.final_rows.len()
    }

    pub(crate) fn reserve_outflow(&mut self, id: TransferId, outflow: Outflow) {
        let known = self.outflows.insert(id, outflow);
        assert!(known.is_none(), "an outflow is reserved once");
    }

    pub(crate) fn take_outflow(&mut self, id: &TransferId) -> Option<Outflow> {
        self.outflows.remove(id)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.reserved_by_id.len()
    }

    /// Number of final transfers, in memory or evicted.
    pub(crate) fn final_count(&self) -> usize {
        self.final_rows.len()
            + usize::try_from(self.evicted.rows).expect("a count of rows in a store")
    }

    pub(crate) fn iter_reserved(&self) -> impl Iterator<Item = &ReservedTransfer> {
        self.reserved.iter()
    }

    /// Hot rows, in order of arrival.
    pub(crate) fn iter_final(&self) -> impl Iterator<Item = &FinalTransfer> {
        self.final_rows.iter()
    }

    pub(crate) fn iter_outflows(&self) -> impl Iterator<Item = (&TransferId, &Outflow)> {
        self.outflows.iter()
    }
}

/// A queue in pages, so that rows never move. Rows are numbered in order of arrival. The numbers
/// wrap to 0 after four billion.
#[derive(Clone, Debug)]
pub(crate) struct Pages<T> {
    pages: VecDeque<CowPage<T>>,
    /// Number of the first row of the first page, a multiple of [`ROWS`].
    base: u32,
    /// Number of rows removed from the first page.
    gone: u32,
}

/// Rows per page.
const ROWS: u32 = PAGE as u32;

impl<T> Default for Pages<T> {
    fn default() -> Self {
        Self { pages: VecDeque::new(), base: 0, gone: 0 }
    }
}

impl<T: Clone> Pages<T> {
    pub(crate) fn push(&mut self, item: T) -> u32 {
        if self.pages.back().is_none_or(|page| page.len() == PAGE) {
            self.pages.push_back(CowPage::new());
        }
        let before =
            u32::try_from(self.pages.len() - 1).ok().and_then(|full| full.checked_mul(ROWS));
        let before = before.expect("fewer than four billion rows are kept in memory");
        let page = self.pages.back_mut().expect("a page was just added").own();
        page.push(item);
        self.base.wrapping_add(before).wrapping_add(page.len() as u32 - 1)
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        let at = number.wrapping_sub(self.base);
        &self.pages[(at / ROWS) as usize][(at % ROWS) as usize]
    }

    pub(crate) fn get_mut(&mut self, number: u32) -> &mut T {
        let at = number.wrapping_sub(self.base);
        &mut self.pages[(at / ROWS) as usize].own()[(at % ROWS) as usize]
    }

    pub(crate) const fn first_number(&self) -> u32 {
        self.base.wrapping_add(self.gone)
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.pages.front()?.get(self.gone as usize)
    }

    pub(crate) fn pop_first(&mut self) {
        self.gone += 1;
        if self.gone == ROWS {
            self.pages.pop_front();
            self.base = self.base.wrapping_add(ROWS);
            self.gone = 0;
        }
    }

    pub(crate) fn len(&self) -> usize {
        let last = self.pages.back().map_or(0, |page| page.len());
        self.pages.len().saturating_sub(1) * PAGE + last - self.gone as usize
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.pages.iter().flat_map(|page| page.iter()).skip(self.gone as usize)
    }
}

/// An index of row numbers by the hash of an id.
///
/// Half of the hash is stored with the number. A row is read only if it almost certainly matches,
/// and growth reads no rows.
#[derive(Clone, Debug, Default)]
struct Index {
    rows: HashTable<IndexEntry>,
}

#[derive(Clone, Copy, Debug)]
struct IndexEntry {
    half: u32,
    row: u32,
}

impl IndexEntry {
    /// A hash table takes the bucket from the lowest bits and a tag from the highest ones.
    const fn hash(half: u32) -> u64 {
        (half as u64) << 32 | half as u64
    }
}

impl Index {
    fn find(&self, hash: u64, mut is_row: impl FnMut(u32) -> bool) -> Option<u32> {
        let half = hash as u32;
        let found =
            self.rows.find(IndexEntry::hash(half), |entry| entry.half == half && is_row(entry.row));
        found.map(|entry| entry.row)
    }

    fn insert(&mut self, hash: u64, row: u32) {
        let half = hash as u32;
        let entry = IndexEntry { half, row };
        self.rows
            .insert_unique(IndexEntry::hash(half), entry, |entry| IndexEntry::hash(entry.half));
    }

    fn remove(&mut self, hash: u64, row: u32) {
        let hash = IndexEntry::hash(hash as u32);
        let entry = self.rows.find_entry(hash, |entry| entry.row == row);
        entry.expect("every row is indexed").remove();
    }

    fn len(&self) -> usize {
        self.rows.len()
    }
}

/// An index in many small tables. One that grows moves only its own entries, so no single batch
/// pays for the growth of all of them. Up to [`SINGLE_MAX`] rows are in a single table, which is
/// enough for most tests and for the start of a log.
#[derive(Clone, Debug)]
pub(crate) struct Shards {
    /// One table, or [`SHARDS`] tables.
    tables: Vec<Index>,
}

const SHARDS: usize = 4_096;
/// With one more row, the single table is split. This takes 0.1 ms, once.
const SINGLE_MAX: usize = 1_024;

const _: () = assert!(SHARDS.is_power_of_two());

impl Default for Shards {
    fn default() -> Self {
        Self { tables: vec![Index::default()] }
    }
}

impl Shards {
    pub(crate) fn find(&self, hash: u64, is_row: impl FnMut(u32) -> bool) -> Option<u32> {
        self.tables[self.shard(hash)].find(hash, is_row)
    }

    /// `hash_of` returns the hash of an indexed row.
    pub(crate) fn insert(&mut self, hash: u64, row: u32, hash_of: impl Fn(u32) -> u64) {
        if self.tables.len() == 1 && self.tables[0].len() == SINGLE_MAX {
            self.spread(hash_of);
        }
        let shard = self.shard(hash);
        self.tables[shard].insert(hash, row);
    }

    pub(crate) fn remove(&mut self, hash: u64, row: u32) {
        let shard = self.shard(hash);
        self.tables[shard].remove(hash, row);
    }

    fn spread(&mut self, hash_of: impl Fn(u32) -> u64) {
        let single = core::mem::take(&mut self.tables[0]);
        self.tables.resize_with(SHARDS, Index::default);
        for entry in &single.rows {
            let hash = hash_of(entry.row);
            let shard = self.shard(hash);
            self.tables[shard].insert(hash, entry.row);
        }
    }

    /// Uses bits of the half that the tables do not use. The number of shards is a power of two.
    fn shard(&self, hash: u64) -> usize {
        (hash >> 32) as usize & (self.tables.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> FinalTransfer {
        FinalTransfer {
            id: TransferId::from_bytes([0; 17]).expect("the form of a UUID"),
            payer: None,
            payee: None,
            amount: Amount::ZERO,
            currency: Currency::parse("USD").expect("a currency"),
            hash: Digest::default(),
            prepare: LogIndex(number),
            response: None,
            outcome: Outcome::Expired,
            completed: Stamp(0),
            changed: LogIndex(number),
        }
    }

    #[test]
    fn rows_are_found_after_the_index_is_split() {
        // Both halves of the hash differ from row to row.
        let hash_of = |row: u32| u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut index = Shards::default();
        let found = |index: &Shards, row| index.find(hash_of(row), |at| at == row);
        for row in 0..3 * SINGLE_MAX as u32 {
            index.insert(hash_of(row), row, hash_of);
            assert_eq!(index.tables.len() == 1, row < SINGLE_MAX as u32);
            assert!((0..=row).step_by(97).all(|known| found(&index, known) == Some(known)));
            assert_eq!(found(&index, row + 1), None);
        }
        for row in 0..3 * SINGLE_MAX as u32 {
            index.remove(hash_of(row), row);
            assert_eq!(found(&index, row), None);
        }
    }

    #[test]
    fn shards_are_balanced() {
        // A table takes the bucket from the lowest bits, and distinguishes entries by the highest
        // ones.
        assert_eq!(IndexEntry::hash(0x1234_5678), 0x1234_5678_1234_5678);
        let hash_of = |row: u32| u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut index = Shards::default();
        (0..2 * SHARDS as u32).for_each(|row| index.insert(hash_of(row), row, hash_of));
        let fullest = index.tables.iter().map(Index::len).max();
        assert!(fullest.is_some_and(|rows| rows < 16), "{fullest:?}");
    }

    #[test]
    fn rows_with_equal_hashes_are_distinguished() {
        let mut index = Index::default();
        let (hash, other) = (7 << 32 | 5, 7 << 32 | 6);
        (1..=3).for_each(|row| index.insert(hash, row));
        index.insert(other, 4);
        for row in [1, 2, 3] {
            assert_eq!(index.find(hash, |at| at == row), Some(row));
        }
        assert_eq!(index.find(other, |at| at == 1), None);
        index.remove(hash, 2);
        assert_eq!([1, 2, 3].map(|row| index.find(hash, |at| at == row)), [Some(1), None, Some(3)]);
        assert_eq!(index.len(), 3);
    }

    #[test]
    fn row_numbers_wrap() {
        let mut queue = Pages { base: 0u32.wrapping_sub(ROWS), ..Pages::default() };
        let mut numbers = VecDeque::new();
        for number in 0..3 * u64::from(ROWS) {
            numbers.push_back((queue.push(row(number)), number));
            // Two in, one out, across the wrap of the numbers.
            if number.is_multiple_of(2) {
                let (first, held) = numbers.pop_front().expect("one was just added");
                assert_eq!((queue.first_number(), queue.first()), (first, Some(&row(held))));
                queue.pop_first();
            }
            assert_eq!(queue.len(), numbers.len());
        }
        assert!(numbers.iter().all(|(at, held)| *queue.get(*at) == row(*held)));
        let held: Vec<_> = numbers.iter().map(|(_, held)| LogIndex(*held)).collect();
        assert_eq!(queue.iter().map(|row| row.prepare).collect::<Vec<_>>(), held);
    }
}
