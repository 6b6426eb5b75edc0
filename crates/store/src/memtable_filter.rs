//! Which rows may be in the database's write buffers, and the tables that have the others.
//!
//! Nearly every transfer asks whether its id is new. The buffers are lists in order, each of which
//! takes some twenty steps through memory to say no; and the library lets nobody ask while it
//! syncs a new table and names it among the others, which takes milliseconds. So there is a filter
//! beside the buffers, in parts, and the tables as they were at one moment: an id that is about to
//! be written goes into the newest part, and a part goes once the buffers that its ids were
//! written to are tables, with which it is shown no more. Ids are given by their hash.
//!
//! # Promises
//! - An id is held from before it is written until the tables shown have it: who looks misses
//!   nothing that he was told of.
//! - Of buffers that were there when the database was opened nobody knows the ids: until they are
//!   tables, everything may be in them.
//! - Who looks waits for nobody who writes: bits are set beside him, and parts and tables are
//!   changed for others in one step.
//!
//! Costs: four bytes for each id, in parts of 256 KiB, where the buffer takes some two hundred; a
//! question looks at one line of the processor's cache for each part. The tables shown stay on
//! disk until the next batch is written, though they may have been merged.

// The bits of a part are no hand-over: see `Part::add`.
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Ids in a part.
const IDS: usize = 1 << 16;
const BITS_PER_ID: usize = 32;
/// Bits of one block, a line of the processor's cache, in which all bits of an id are.
const BLOCK_BITS: usize = 512;
/// Bits for an id, nine bits of its hash for each.
const PROBES: u32 = 6;
/// The buffer of what is being written: nobody knows it before it is written.
const UNDER_WAY: u64 = u64::MAX;

/// The filters, and tables of any kind.
#[derive(Debug)]
pub(crate) struct MemtableFilter<T> {
    shown: RwLock<Shown<T>>,
    /// The parts as who writes sees them.
    held: Mutex<Vec<Held>>,
}

/// What whoever looks sees.
#[derive(Debug)]
struct Shown<T> {
    parts: Vec<Arc<Part>>,
    tables: Arc<T>,
}

#[derive(Debug)]
struct Part(Box<[Block]>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Block([AtomicU64; BLOCK_BITS / 64]);

#[derive(Debug)]
struct Held {
    part: Arc<Part>,
    room: usize,
    /// None of its ids is in a newer buffer than this.
    buffer: u64,
}

/// Buffers that become tables while others write and look.
pub(crate) trait Library<T> {
    /// The number of the buffer that rows go to. Later buffers have higher ones.
    fn newest(&self) -> u64;
    /// Whether all buffers before the newest are tables.
    fn older_are_tables(&self) -> bool;
    /// The tables that there are; none if they are those that are shown.
    fn tables_but(&self, shown: &T) -> Option<T>;
}

/// What one batch adds. Batches are written one after the other: each holds this meanwhile.
pub(crate) struct Writing<'a, T> {
    shown: &'a RwLock<Shown<T>>,
    held: MutexGuard<'a, Vec<Held>>,
    /// The newest buffer there was before it is written.
    buffer: u64,
}

/// How it is after a batch.
struct Written<T> {
    /// The newest buffer, as it was found after the batch.
    newest: u64,
    /// All buffers before this one are tables, by what was found after that.
    unflushed: u64,
    /// The tables that there are, as they were found last.
    tables: Arc<T>,
}

/// The filters and the tables, while somebody looks.
pub(crate) struct Look<'a, T>(RwLockReadGuard<'a, Shown<T>>);

impl<T> MemtableFilter<T> {
    /// Beside these tables, and buffers with ids that nobody knows, of which `unknown` is the
    /// newest; `None` where they are all empty.
    pub(crate) fn beside(tables: T, unknown: Option<u64>) -> Self {
        let part = Arc::new(Part::of_anything());
        let held = unknown.map(|buffer| Held { part, room: 0, buffer });
        let held: Vec<_> = held.into_iter().collect();
        let shown = Shown { parts: parts(&held), tables: Arc::new(tables) };
        Self { shown: RwLock::new(shown), held: Mutex::new(held) }
    }

    /// Before a batch is written; `buffer` is the newest one.
    pub(crate) fn begin(&self, buffer: u64) -> Writing<'_, T> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        Writing { shown: &self.shown, held, buffer }
    }

    pub(crate) fn look(&self) -> Look<'_, T> {
        Look(self.shown.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Writing<'_, T> {
    /// Adds an id that the batch will write.
    pub(crate) fn add(&mut self, hash: u64) {
        let takes =
            |held: &Held| 0 < held.room && (held.buffer == self.buffer || held.buffer == UNDER_WAY);
        if !self.held.last().is_some_and(takes) {
            let part = Arc::new(Part::empty());
            self.held.push(Held { part, room: IDS, buffer: UNDER_WAY });
            self.shown.write().unwrap_or_else(PoisonError::into_inner).parts = parts(&self.held);
        }
        let last = self.held.last_mut().expect("one was just opened");
        last.part.add(hash);
        last.room -= 1;
        last.buffer = UNDER_WAY;
    }

    /// The tables that are shown.
    pub(crate) fn tables(&self) -> Arc<T> {
        Arc::clone(&self.shown.read().unwrap_or_else(PoisonError::into_inner).tables)
    }

    /// The batch is written. Where this is not reached, what was added stays.
    ///
    /// What the library says is asked in this order: a buffer that is found to be a table is among
    /// the tables that are asked for after that.
    pub(crate) fn end(self, library: &impl Library<T>) {
        let newest = library.newest();
        let unflushed = if library.older_are_tables() { newest } else { 0 };
        let shown = self.tables();
        let tables = library.tables_but(&shown).map_or(shown, Arc::new);
        self.show(Written { newest, unflushed, tables });
    }

    fn show(mut self, written: Written<T>) {
        let Written { newest, unflushed, tables } = written;
        let under_way = self.held.iter_mut().filter(|held| held.buffer == UNDER_WAY);
        under_way.for_each(|held| held.buffer = newest);
        self.held.retain(|held| unflushed <= held.buffer);
        let new = Shown { parts: parts(&self.held), tables };
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *shown, new);
        drop(shown);
        // Files may go with it, which takes a while.
        drop(old);
    }
}

fn parts(held: &[Held]) -> Vec<Arc<Part>> {
    held.iter().map(|held| Arc::clone(&held.part)).collect()
}

impl<T> Look<'_, T> {
    /// Whether the id may be in a buffer. If not, [`Look::tables`] have it or nothing does.
    pub(crate) fn may_be_buffered(&self, hash: u64) -> bool {
        self.0.parts.iter().any(|part| part.may_hold(hash))
    }

    pub(crate) fn tables(&self) -> &T {
        &self.0.tables
    }
}

impl Part {
    fn empty() -> Self {
        let blocks = IDS * BITS_PER_ID / BLOCK_BITS;
        Self((0..blocks).map(|_| Block::default()).collect())
    }

    fn of_anything() -> Self {
        Self(Box::new([Block(std::array::from_fn(|_| AtomicU64::new(u64::MAX)))]))
    }

    /// That it is seen by whoever is told of the row is for the one who tells to see to.
    fn add(&self, hash: u64) {
        let block = self.block(hash);
        for (word, bit) in places(hash) {
            block.0[word].fetch_or(bit, Ordering::Relaxed);
        }
    }

    fn may_hold(&self, hash: u64) -> bool {
        let block = self.block(hash);
        places(hash).all(|(word, bit)| block.0[word].load(Ordering::Relaxed) & bit != 0)
    }

    /// By the upper half of the hash; the lower one has the places within the block.
    fn block(&self, hash: u64) -> &Block {
        let count = self.0.len() as u64;
        &self.0[(((hash >> 36) * count) >> 28) as usize]
    }
}

/// Words and bits of an id in its block.
fn places(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..PROBES).map(move |probe| {
        let place = (hash >> (9 * probe)) & (BLOCK_BITS as u64 - 1);
        ((place / 64) as usize, 1 << (place % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number without visible order (splitmix64).
    fn mix(number: u64) -> u64 {
        let mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Writes ids, when the newest buffer is `before` and then `newest`, and all before `unflushed`
    /// are tables.
    fn write(
        filters: &MemtableFilter<()>,
        ids: std::ops::Range<u64>,
        [before, newest]: [u64; 2],
        unflushed: u64,
    ) {
        let mut writing = filters.begin(before);
        ids.for_each(|id| writing.add(mix(id)));
        let tables = writing.tables();
        writing.show(Written { newest, unflushed, tables });
    }

    /// How many of these ids may be in a buffer.
    fn held(filters: &MemtableFilter<()>, mut ids: std::ops::Range<u64>) -> usize {
        let look = filters.look();
        ids.by_ref().filter(|id| look.may_be_buffered(mix(*id))).count()
    }

    #[test]
    fn everything_may_be_in_buffers_that_were_there() {
        let filters = MemtableFilter::beside((), Some(3));
        assert_eq!(held(&filters, 0..1_000), 1_000);
        write(&filters, 0..10, [3, 3], 3);
        assert_eq!(held(&filters, 0..1_000), 1_000, "that buffer may not be a table yet");
        write(&filters, 10..20, [4, 4], 0);
        assert_eq!(held(&filters, 0..1_000), 1_000, "nor is it now");
        write(&filters, 20..30, [4, 4], 4);
        assert_eq!(held(&filters, 10..30), 20);
        assert!(held(&filters, 30..1_000) < 10);
        assert!(held(&filters, 0..10) < 2, "they are in a table");
    }

    #[test]
    fn a_part_stays_until_every_buffer_it_is_about_is_a_table() {
        let filters = MemtableFilter::beside((), None);
        assert_eq!(held(&filters, 0..1_000), 0, "nothing was there");
        write(&filters, 0..100, [1, 1], 1);
        // The buffer is changed while the batch is written: it may be in either.
        write(&filters, 100..200, [1, 2], 1);
        write(&filters, 200..300, [2, 2], 2);
        assert_eq!(held(&filters, 0..300), 300);
        write(&filters, 300..400, [3, 3], 3);
        assert_eq!(held(&filters, 300..400), 100);
        assert!(held(&filters, 0..300) < 10);
    }

    #[test]
    fn what_was_not_written_to_the_end_stays() {
        let filters = MemtableFilter::beside((), None);
        let mut writing = filters.begin(1);
        (0..100).for_each(|id| writing.add(mix(id)));
        drop(writing);
        assert_eq!(held(&filters, 0..100), 100);
        write(&filters, 100..100 + 2 * IDS as u64, [5, 5], 5);
        assert_eq!(held(&filters, 0..100 + 2 * IDS as u64), 100 + 2 * IDS);
    }

    #[test]
    fn a_full_part_takes_few_others_for_its_own() {
        let filters = MemtableFilter::beside((), None);
        let ids = IDS as u64;
        write(&filters, 0..ids, [1, 1], 1);
        assert_eq!((filters.look().0.parts.len(), held(&filters, 0..ids)), (1, IDS));
        let others = held(&filters, ids..2 * ids);
        assert!(others < IDS / 1_000, "{others} of {IDS} are taken for others");
        write(&filters, ids..ids + 1, [1, 1], 1);
        assert_eq!(filters.look().0.parts.len(), 2);
    }
}
