//! Transfers: those in flight, with everything a decision needs, and those that ended, with what
//! a resend or a question needs.
//!
//! A row of an ended transfer is hot, in here, or cold, in a store beside the kernel; how that is
//! decided is said in [`crate::cold`]. Hot rows stand in the order in which they came and leave
//! from the front.
//!
//! Costs: one keyed hash and one probe for a look-up; 220 bytes in flight, 160 bytes ended, and
//! some 20 bytes of index. Growth is paid in small parts: rows never move, the index of ended
//! transfers grows table by table, and no index looks at a row to grow.

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
use crate::reserved::ReservedTransfers;

/// A transfer's state as FSPIOP names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferState {
    /// The payer's position is taken; the payee has been asked.
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
        /// Whose position was taken.
        pub payer: ParticipantIndex,
        /// Who was asked.
        pub payee: ParticipantIndex,
        /// The payer's POSITION account.
        pub payer_account: AccountId,
        /// The payee's POSITION account.
        pub payee_account: AccountId,
        /// How much is reserved.
        pub amount: Amount,
        /// SHA-256 of the fulfilment that will commit it.
        pub condition: [u8; 32],
        /// When it ends by itself, in milliseconds since the epoch.
        pub expiration_ms: u64,
        /// Digest of the prepare's body.
        pub hash: Digest,
        /// The record that made it.
        pub prepare: LogIndex,
        /// The notice that asks the payee.
        pub prepare_notice: NoticeId,
        /// When it was reserved.
        pub reserved_at: Stamp,
        /// Trace of the prepare.
        pub trace: TraceId,
    }
}

numbered! {
    /// Which of its two messages the payee answered with.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AnswerKind: u8 {
        /// `PUT /transfers/{id}`.
        Fulfil = 1,
        /// `PUT /transfers/{id}/error`.
        Abort = 2,
    }
}

stored! {
    /// The answer that a transfer has taken.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Answer {
        /// Which of the two messages it was.
        pub kind: AnswerKind,
        /// Of its body.
        pub hash: Digest,
        /// Its record.
        pub log_index: LogIndex,
    }
}

stored! {
    /// A transfer that ended, a prepare that was refused, or a movement of funds that ended: all
    /// that a resend, a late answer or a question needs. It may live beside the kernel
    /// ([`crate::State::evict`]).
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FinalTransfer {
        /// Its id.
        pub id: TransferId,
        /// Whose money it was; `None` for a name that is not in the register.
        pub payer: Option<ParticipantIndex>,
        /// Whom it was for; the hub for a movement of funds.
        pub payee: Option<ParticipantIndex>,
        /// How much it was about.
        pub amount: Amount as VarInt,
        /// In which currency.
        pub currency: Currency,
        /// Of the body that began it.
        pub hash: Digest,
        /// The record that began it.
        pub prepare: LogIndex,
        /// The answer taken, or the one that came too late first.
        pub answer: Option<Answer>,
        /// How it ended.
        pub outcome: Outcome,
        /// When it ended.
        pub completed: Stamp,
        /// The record in whose decision the row last changed: its version.
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
        /// Whose funds.
        pub participant: ParticipantIndex,
        /// Its SETTLEMENT account.
        pub settlement: AccountId,
        /// How much.
        pub amount: Amount,
        /// Digest of the request.
        pub hash: Digest,
        /// The record that reserved it.
        pub record: LogIndex,
        /// When that was.
        pub reserved_at: Stamp,
    }
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Reserved(u32),
    Final(u32),
    Outflow,
    Nothing,
}

/// All transfers of the scheme.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    keyed: KeyedHashing,
    active: ReservedTransfers<ReservedTransfer>,
    active_by_id: Index,
    /// By deadline, then by prepare: an order that does not depend on which slots were vacant.
    deadlines: Deadlines,
    ended: Pages,
    ended_by_id: Shards,
    evicted: EvictedRows,
    outflows: BTreeMap<TransferId, Outflow>,
}

impl Transfers {
    pub(crate) fn new(keyed: KeyedHashing) -> Self {
        Self {
            keyed,
            active: ReservedTransfers::default(),
            active_by_id: Index::default(),
            deadlines: Deadlines::default(),
            ended: Pages::default(),
            ended_by_id: Shards::default(),
            evicted: EvictedRows::default(),
            outflows: BTreeMap::new(),
        }
    }

    pub(crate) const fn keyed(&self) -> KeyedHashing {
        self.keyed
    }

    /// No transfers in here, and so many elsewhere.
    pub(crate) fn beside(keyed: KeyedHashing, cold: EvictedRows) -> Self {
        Self { evicted: cold, ..Self::new(keyed) }
    }

    pub(crate) fn find(&self, id: &TransferId) -> Found {
        let hash = self.keyed.of(id);
        if let Some(slot) = self.active_by_id.find(hash, |slot| self.active(slot).id == *id) {
            return Found::Reserved(slot);
        }
        if let Some(at) = self.ended_by_id.find(hash, |at| self.ended.get(at).id == *id) {
            return Found::Final(at);
        }
        if self.outflows.contains_key(id) {
            return Found::Outflow;
        }
        Found::Nothing
    }

    pub(crate) fn active(&self, slot: u32) -> &ReservedTransfer {
        self.active.get(slot)
    }

    pub(crate) fn ended(&self, at: u32) -> &FinalTransfer {
        self.ended.get(at)
    }

    pub(crate) fn ended_mut(&mut self, at: u32) -> &mut FinalTransfer {
        self.ended.get_mut(at)
    }

    pub(crate) fn outflow(&self, id: &TransferId) -> Option<&Outflow> {
        self.outflows.get(id)
    }

    pub(crate) fn insert(&mut self, transfer: ReservedTransfer) {
        let hash = self.keyed.of(&transfer.id);
        let deadline_ms = transfer.expiration_ms;
        let slot = self.active.insert(transfer);
        self.deadlines.add(deadline_ms, slot);
        self.active_by_id.insert(hash, slot);
    }

    /// Takes a transfer out of flight.
    pub(crate) fn take(&mut self, slot: u32) -> ReservedTransfer {
        let transfer = self.active.take(slot);
        self.deadlines.remove(slot);
        self.active_by_id.remove(self.keyed.of(&transfer.id), slot);
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

    /// The earliest deadline by which so many are due, in milliseconds since the epoch.
    pub(crate) fn nth_deadline_ms(&self, count: usize) -> Option<u64> {
        self.deadlines.of_nth(count)
    }

    pub(crate) fn end(&mut self, transfer: FinalTransfer) {
        let hash = self.keyed.of(&transfer.id);
        let at = self.ended.push(transfer);
        let (ended, keyed) = (&self.ended, self.keyed);
        self.ended_by_id.insert(hash, at, |row| keyed.of(&ended.get(row).id));
    }

    /// Brings a cold row back.
    pub(crate) fn restore_row(&mut self, row: FinalTransfer) {
        assert_eq!(self.find(&row.id), Found::Nothing, "only what is not hot is brought back");
        self.evicted.remove(&row);
        self.end(row);
    }

    /// The rows as they are now, without what finds them; the pages are shared.
    pub(crate) fn frozen(&self) -> Self {
        Self {
            active: self.active.clone(),
            ended: self.ended.clone(),
            outflows: self.outflows.clone(),
            ..Self::beside(self.keyed, self.evicted)
        }
    }

    /// Takes the ended row that came first out of rows that nothing finds.
    pub(crate) fn forget_oldest(&mut self) {
        self.evicted.add(self.ended.first().expect("only a row that is there is forgotten"));
        self.ended.pop_first();
    }

    /// The hot row that came first.
    pub(crate) fn oldest(&self) -> Option<&FinalTransfer> {
        self.ended.first()
    }

    /// Takes the hot row that came first away; it counts as cold from here on.
    pub(crate) fn evict_oldest(&mut self) {
        let row = self.ended.first().expect("only a row that is there is evicted");
        self.ended_by_id.remove(self.keyed.of(&row.id), self.ended.first_number());
        self.forget_oldest();
    }

    pub(crate) fn cold(&self) -> &EvictedRows {
        &self.evicted
    }

    pub(crate) fn hot_count(&self) -> usize {
        self.ended.len()
    }

    pub(crate) fn reserve_outflow(&mut self, id: TransferId, outflow: Outflow) {
        let known = self.outflows.insert(id, outflow);
        assert!(known.is_none(), "an outflow is reserved once");
    }

    pub(crate) fn take_outflow(&mut self, id: &TransferId) -> Option<Outflow> {
        self.outflows.remove(id)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.active_by_id.len()
    }

    /// Wherever their rows live.
    pub(crate) fn ended_count(&self) -> usize {
        self.ended.len() + usize::try_from(self.evicted.rows).expect("a count of rows in a store")
    }

    pub(crate) fn iter_active(&self) -> impl Iterator<Item = &ReservedTransfer> {
        self.active.iter()
    }

    /// The hot ones, in the order in which they came.
    pub(crate) fn iter_ended(&self) -> impl Iterator<Item = &FinalTransfer> {
        self.ended.iter()
    }

    pub(crate) fn iter_outflows(&self) -> impl Iterator<Item = (&TransferId, &Outflow)> {
        self.outflows.iter()
    }
}

/// A queue in pages, so that it never moves what it holds. Rows are numbered in the order in which
/// they came; the numbers begin again at 0 after four billion.
#[derive(Clone, Debug, Default)]
struct Pages {
    pages: VecDeque<CowPage<FinalTransfer>>,
    /// Number of the first row of the first page, a multiple of [`ROWS`].
    base: u32,
    /// Rows of the first page that have left.
    gone: u32,
}

/// Rows of a page.
const ROWS: u32 = PAGE as u32;

impl Pages {
    fn push(&mut self, item: FinalTransfer) -> u32 {
        if self.pages.back().is_none_or(|page| page.len() == PAGE) {
            self.pages.push_back(CowPage::new());
        }
        let before =
            u32::try_from(self.pages.len() - 1).ok().and_then(|full| full.checked_mul(ROWS));
        let before = before.expect("fewer than four billion transfers are kept in memory");
        let page = self.pages.back_mut().expect("a page was just added").own();
        page.push(item);
        self.base.wrapping_add(before).wrapping_add(page.len() as u32 - 1)
    }

    fn get(&self, number: u32) -> &FinalTransfer {
        let at = number.wrapping_sub(self.base);
        &self.pages[(at / ROWS) as usize][(at % ROWS) as usize]
    }

    fn get_mut(&mut self, number: u32) -> &mut FinalTransfer {
        let at = number.wrapping_sub(self.base);
        &mut self.pages[(at / ROWS) as usize].own()[(at % ROWS) as usize]
    }

    const fn first_number(&self) -> u32 {
        self.base.wrapping_add(self.gone)
    }

    fn first(&self) -> Option<&FinalTransfer> {
        self.pages.front()?.get(self.gone as usize)
    }

    fn pop_first(&mut self) {
        self.gone += 1;
        if self.gone == ROWS {
            self.pages.pop_front();
            self.base = self.base.wrapping_add(ROWS);
            self.gone = 0;
        }
    }

    fn len(&self) -> usize {
        let last = self.pages.back().map_or(0, |page| page.len());
        self.pages.len().saturating_sub(1) * PAGE + last - self.gone as usize
    }

    fn iter(&self) -> impl Iterator<Item = &FinalTransfer> {
        self.pages.iter().flat_map(|page| page.iter()).skip(self.gone as usize)
    }
}

/// An index of row numbers by the hash of an id.
///
/// Half of the hash is kept beside the number: a row is looked at only when it almost certainly
/// is the one, and a table that grows looks at none.
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
    /// A table takes the place from the lowest bits and a tag from the highest ones.
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

/// An index in many small tables: one that grows moves only its own entries, so that no single
/// batch pays for the growth of all of them. A few rows are in a single table: most states, those
/// of tests and of a log that begins, never have more.
#[derive(Clone, Debug)]
struct Shards {
    /// One, or [`SHARDS`].
    tables: Vec<Index>,
}

const SHARDS: usize = 4_096;
/// With one row more the single table is spread: a tenth of a millisecond, once.
const SINGLE_MAX: usize = 1_024;

const _: () = assert!(SHARDS.is_power_of_two());

impl Default for Shards {
    fn default() -> Self {
        Self { tables: vec![Index::default()] }
    }
}

impl Shards {
    fn find(&self, hash: u64, is_row: impl FnMut(u32) -> bool) -> Option<u32> {
        self.tables[self.shard(hash)].find(hash, is_row)
    }

    /// `hash_of` gives the hash of a row that is in here.
    fn insert(&mut self, hash: u64, row: u32, hash_of: impl Fn(u32) -> u64) {
        if self.tables.len() == 1 && self.tables[0].len() == SINGLE_MAX {
            self.spread(hash_of);
        }
        let shard = self.shard(hash);
        self.tables[shard].insert(hash, row);
    }

    fn remove(&mut self, hash: u64, row: u32) {
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

    /// Takes bits of the half that the tables do not use; their number is a power of two.
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
            answer: None,
            outcome: Outcome::Expired,
            completed: Stamp(0),
            changed: LogIndex(number),
        }
    }

    #[test]
    fn rows_are_found_while_their_index_is_spread() {
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
    fn an_index_is_spread_evenly() {
        // A table finds a place by the lowest bits, and tells entries apart by the highest ones.
        assert_eq!(IndexEntry::hash(0x1234_5678), 0x1234_5678_1234_5678);
        let hash_of = |row: u32| u64::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut index = Shards::default();
        (0..2 * SHARDS as u32).for_each(|row| index.insert(hash_of(row), row, hash_of));
        let fullest = index.tables.iter().map(Index::len).max();
        assert!(fullest.is_some_and(|rows| rows < 16), "{fullest:?}");
    }

    #[test]
    fn rows_of_one_hash_are_told_apart() {
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
    fn a_queue_outlives_its_row_numbers() {
        let mut queue = Pages { base: 0u32.wrapping_sub(ROWS), ..Pages::default() };
        let mut numbers = VecDeque::new();
        for number in 0..3 * u64::from(ROWS) {
            numbers.push_back((queue.push(row(number)), number));
            // Two in, one out, over the end of the numbers.
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
