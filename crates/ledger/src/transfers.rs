//! Transfers: those in flight, with everything a decision needs, and those that ended, with what
//! a resend or a question needs.
//!
//! Costs: one keyed hash and one probe for a look-up; 220 bytes in flight, 136 bytes ended, and
//! some 20 bytes of index. Growth is paid in small parts: rows never move, the index of ended
//! transfers grows table by table, and no index looks at a row to grow.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hashbrown::HashTable;

use crate::command::TraceId;
use crate::deadlines::Deadlines;
use crate::hashing::Keyed;
use crate::ids::{AccountId, Digest, NoticeId, ParticipantIndex, Position, Stamp, TransferId};
use crate::money::Amount;
use crate::outcome::Outcome;

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

/// A reserved transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Active {
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
    pub prepare: Position,
    /// The notice that asks the payee.
    pub prepare_notice: NoticeId,
    /// When it was reserved.
    pub reserved_at: Stamp,
    /// Trace of the prepare.
    pub trace: TraceId,
}

/// Which of its two messages the payee answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AnswerKind {
    /// `PUT /transfers/{id}`.
    Fulfil = 1,
    /// `PUT /transfers/{id}/error`.
    Abort = 2,
}

/// The answer that a transfer has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Which message.
    pub kind: AnswerKind,
    /// Digest of its body.
    pub hash: Digest,
    /// Its record.
    pub position: Position,
}

/// A transfer that ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The transfer.
    pub id: TransferId,
    /// The payer, if it was known.
    pub payer: Option<ParticipantIndex>,
    /// The payee, if it was known.
    pub payee: Option<ParticipantIndex>,
    /// Digest of the body that made it.
    pub hash: Digest,
    /// The record that made it.
    pub prepare: Position,
    /// The answer that it took, or that came too late.
    pub answer: Option<Answer>,
    /// How it ended.
    pub outcome: Outcome,
    /// When.
    pub completed: Stamp,
}

impl Ended {
    pub(crate) fn state(&self) -> TransferState {
        match self.outcome {
            Outcome::Committed | Outcome::Accepted => TransferState::Committed,
            _ => TransferState::Aborted,
        }
    }
}

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
    pub record: Position,
    /// When that was.
    pub reserved_at: Stamp,
}

/// Where a transfer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Active(u32),
    Ended(u32),
    Outflow,
    Nothing,
}

/// All transfers of the scheme.
#[derive(Clone, Debug)]
pub(crate) struct Transfers {
    keyed: Keyed,
    active: Vec<Option<Active>>,
    vacant: Vec<u32>,
    active_by_id: Index,
    /// By deadline, then by prepare: an order that does not depend on which slots were vacant.
    deadlines: Deadlines,
    ended: Pages,
    ended_by_id: Shards,
    outflows: BTreeMap<TransferId, Outflow>,
}

impl Transfers {
    pub(crate) fn new(keyed: Keyed) -> Self {
        Self {
            keyed,
            active: Vec::new(),
            vacant: Vec::new(),
            active_by_id: Index::default(),
            deadlines: Deadlines::default(),
            ended: Pages::default(),
            ended_by_id: Shards::new(),
            outflows: BTreeMap::new(),
        }
    }

    pub(crate) const fn keyed(&self) -> Keyed {
        self.keyed
    }

    pub(crate) fn find(&self, id: &TransferId) -> Found {
        let hash = self.keyed.of(id);
        if let Some(slot) = self.active_by_id.find(hash, |slot| self.active(slot).id == *id) {
            return Found::Active(slot);
        }
        if let Some(at) = self.ended_by_id.find(hash, |at| self.ended.get(at).id == *id) {
            return Found::Ended(at);
        }
        if self.outflows.contains_key(id) {
            return Found::Outflow;
        }
        Found::Nothing
    }

    pub(crate) fn active(&self, slot: u32) -> &Active {
        self.active[slot as usize].as_ref().expect("an indexed slot is occupied")
    }

    pub(crate) fn ended(&self, at: u32) -> &Ended {
        self.ended.get(at)
    }

    pub(crate) fn ended_mut(&mut self, at: u32) -> &mut Ended {
        self.ended.get_mut(at)
    }

    pub(crate) fn outflow(&self, id: &TransferId) -> Option<&Outflow> {
        self.outflows.get(id)
    }

    pub(crate) fn insert(&mut self, transfer: Active) {
        let hash = self.keyed.of(&transfer.id);
        let deadline_ms = transfer.expiration_ms;
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.active[slot as usize] = Some(transfer);
                slot
            }
            None => {
                self.active.push(Some(transfer));
                (self.active.len() - 1) as u32
            }
        };
        self.deadlines.add(deadline_ms, slot);
        self.active_by_id.insert(hash, slot);
    }

    /// Takes a transfer out of flight.
    pub(crate) fn take(&mut self, slot: u32) -> Active {
        let transfer = self.active[slot as usize].take().expect("a taken slot is occupied");
        self.vacant.push(slot);
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

    pub(crate) fn end(&mut self, transfer: Ended) {
        let hash = self.keyed.of(&transfer.id);
        let at = self.ended.push(transfer);
        self.ended_by_id.insert(hash, at);
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

    pub(crate) fn ended_count(&self) -> usize {
        self.ended.len
    }

    pub(crate) fn iter_active(&self) -> impl Iterator<Item = &Active> {
        self.active.iter().flatten()
    }

    pub(crate) fn iter_ended(&self) -> impl Iterator<Item = &Ended> {
        self.ended.pages.iter().flatten()
    }

    pub(crate) fn iter_outflows(&self) -> impl Iterator<Item = (&TransferId, &Outflow)> {
        self.outflows.iter()
    }
}

/// A growing array in pages, so that it never moves what it holds.
#[derive(Clone, Debug, Default)]
struct Pages {
    pages: Vec<Vec<Ended>>,
    len: usize,
}

const PAGE: usize = 4_096;

impl Pages {
    fn push(&mut self, item: Ended) -> u32 {
        if self.len.is_multiple_of(PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        self.pages.last_mut().expect("a page was just added").push(item);
        self.len += 1;
        u32::try_from(self.len - 1).expect("fewer than four billion transfers are kept in memory")
    }

    fn get(&self, at: u32) -> &Ended {
        &self.pages[at as usize / PAGE][at as usize % PAGE]
    }

    fn get_mut(&mut self, at: u32) -> &mut Ended {
        &mut self.pages[at as usize / PAGE][at as usize % PAGE]
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
        entry.expect("every transfer in flight is indexed").remove();
    }

    fn len(&self) -> usize {
        self.rows.len()
    }
}

/// An index in many small tables: one that grows moves only its own entries, so that no single
/// batch pays for the growth of all of them.
#[derive(Clone, Debug)]
struct Shards {
    tables: Vec<Index>,
}

const SHARDS: usize = 4_096;

impl Shards {
    fn new() -> Self {
        Self { tables: (0..SHARDS).map(|_| Index::default()).collect() }
    }

    fn find(&self, hash: u64, is_row: impl FnMut(u32) -> bool) -> Option<u32> {
        self.tables[Self::shard(hash)].find(hash, is_row)
    }

    fn insert(&mut self, hash: u64, row: u32) {
        self.tables[Self::shard(hash)].insert(hash, row);
    }

    /// Takes bits of the half that the tables do not use.
    const fn shard(hash: u64) -> usize {
        (hash >> 32) as usize % SHARDS
    }
}
