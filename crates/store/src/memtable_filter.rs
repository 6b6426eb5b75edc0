//! A filter of the rows that may be in the database's write buffers, and the tables with the
//! others.
//!
//! Nearly every prepare checks whether its id is new. A write buffer is an ordered list: a look-up
//! takes about twenty memory accesses. The library also blocks look-ups for milliseconds while it
//! syncs and registers a new table. So a filter, in parts, covers the write buffers, and a snapshot
//! of the tables covers the rest. Before an id is written, it is added to the newest part. A part
//! is removed once all buffers that its ids were written to are tables. The same step publishes
//! these tables. Ids are given by their hash.
//!
//! # Promises
//! - An id is in the filter from before it is written until a published table has it. A reader
//!   misses no id that was reported as written.
//! - The ids of buffers that existed at the opening are unknown. Until these buffers are tables,
//!   the filter matches every id.
//! - A reader never waits for a writer: bits are set concurrently, and parts and tables are
//!   replaced in one step.
//!
//! Costs: four bytes per id, in parts of 256 KiB; the buffer itself takes about two hundred. A
//! query reads one cache line per part. Published tables stay on disk until the next batch is
//! written, even if they have been merged.

// `Part::add` explains why its bits need no ordering.
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

/// Ids per part.
const IDS: usize = 1 << 16;
const BITS_PER_ID: usize = 32;
/// Bits per block. A block is one cache line and has all bits of an id.
const BLOCK_BITS: usize = 512;
/// Bits per id. Nine bits of the hash select each.
const PROBES: u32 = 6;
/// The buffer of ids that are being written. It is known only afterwards.
const IN_PROGRESS: u64 = u64::MAX;

/// The filter, and tables of any kind.
#[derive(Debug)]
pub(crate) struct MemtableFilter<T> {
    shared: RwLock<Shared<T>>,
    /// The parts as the writer sees them.
    parts: Mutex<Vec<TrackedPart>>,
}

/// The parts and tables that readers see.
#[derive(Debug)]
struct Shared<T> {
    parts: Vec<Arc<Part>>,
    tables: Arc<T>,
}

#[derive(Debug)]
struct Part(Box<[Block]>);

#[derive(Debug, Default)]
#[repr(align(64))]
struct Block([AtomicU64; BLOCK_BITS / 64]);

#[derive(Debug)]
struct TrackedPart {
    part: Arc<Part>,
    free: usize,
    /// The newest buffer that may hold ids of this part.
    buffer: u64,
}

/// Write buffers that become tables while other threads write and read.
pub(crate) trait Memtables<T> {
    /// Number of the buffer that rows go to. Later buffers have higher numbers.
    fn newest(&self) -> u64;
    /// Whether all buffers except the newest are tables.
    fn older_are_tables(&self) -> bool;
    /// The current tables; `None` if `shared` are still the current ones.
    fn changed_tables(&self, shared: &T) -> Option<T>;
}

/// Adds the ids of one batch. Its lock makes batches sequential.
pub(crate) struct FilterWrite<'a, T> {
    shared: &'a RwLock<Shared<T>>,
    parts: MutexGuard<'a, Vec<TrackedPart>>,
    /// The newest buffer before the batch is written.
    buffer: u64,
}

/// The database's state after a batch.
struct BufferState<T> {
    /// The newest buffer after the batch.
    newest: u64,
    /// The first buffer that may not be a table yet. It is read after `newest`.
    unflushed: u64,
    /// The current tables. They are read last.
    tables: Arc<T>,
}

/// The filter and the tables while a reader uses them.
pub(crate) struct FilterRead<'a, T>(RwLockReadGuard<'a, Shared<T>>);

impl<T> MemtableFilter<T> {
    /// Creates the filter for these tables. `unknown` is the newest buffer with ids that are not in
    /// the filter; `None` if all buffers are empty.
    pub(crate) fn new(tables: T, unknown: Option<u64>) -> Self {
        let part = Arc::new(Part::matching_all());
        let parts = unknown.map(|buffer| TrackedPart { part, free: 0, buffer });
        let parts: Vec<_> = parts.into_iter().collect();
        let shared = Shared { parts: shared_parts(&parts), tables: Arc::new(tables) };
        Self { shared: RwLock::new(shared), parts: Mutex::new(parts) }
    }

    /// Starts a batch; `buffer` is the newest buffer.
    pub(crate) fn begin_write(&self, buffer: u64) -> FilterWrite<'_, T> {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        FilterWrite { shared: &self.shared, parts, buffer }
    }

    pub(crate) fn read(&self) -> FilterRead<'_, T> {
        FilterRead(self.shared.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> FilterWrite<'_, T> {
    /// Adds an id that the batch will write.
    pub(crate) fn add(&mut self, hash: u64) {
        let takes = |last: &TrackedPart| {
            0 < last.free && (last.buffer == self.buffer || last.buffer == IN_PROGRESS)
        };
        if !self.parts.last().is_some_and(takes) {
            let part = Arc::new(Part::empty());
            self.parts.push(TrackedPart { part, free: IDS, buffer: IN_PROGRESS });
            let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
            shared.parts = shared_parts(&self.parts);
        }
        let last = self.parts.last_mut().expect("one was just opened");
        last.part.add(hash);
        last.free -= 1;
        last.buffer = IN_PROGRESS;
    }

    /// The published tables.
    pub(crate) fn tables(&self) -> Arc<T> {
        Arc::clone(&self.shared.read().unwrap_or_else(PoisonError::into_inner).tables)
    }

    /// Ends the batch after it was written. If this is not called, its ids stay in the filter.
    ///
    /// The order of the queries matters: tables are read last, so that they include every buffer
    /// that was found to be a table.
    pub(crate) fn end(self, memtables: &impl Memtables<T>) {
        let newest = memtables.newest();
        let unflushed = if memtables.older_are_tables() { newest } else { 0 };
        let published = self.tables();
        let tables = memtables.changed_tables(&published).map_or(published, Arc::new);
        self.publish(BufferState { newest, unflushed, tables });
    }

    fn publish(mut self, state: BufferState<T>) {
        let BufferState { newest, unflushed, tables } = state;
        let in_progress = self.parts.iter_mut().filter(|part| part.buffer == IN_PROGRESS);
        in_progress.for_each(|part| part.buffer = newest);
        self.parts.retain(|part| unflushed <= part.buffer);
        let new = Shared { parts: shared_parts(&self.parts), tables };
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let old = std::mem::replace(&mut *shared, new);
        drop(shared);
        // This may delete files, so it happens without the lock.
        drop(old);
    }
}

fn shared_parts(parts: &[TrackedPart]) -> Vec<Arc<Part>> {
    parts.iter().map(|tracked| Arc::clone(&tracked.part)).collect()
}

impl<T> FilterRead<'_, T> {
    /// Whether the id may be in a buffer. If not, only [`FilterRead::tables`] can have it.
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

    fn matching_all() -> Self {
        Self(Box::new([Block(std::array::from_fn(|_| AtomicU64::new(u64::MAX)))]))
    }

    /// Relaxed: the store publishes the row to readers, which orders these writes as well.
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

    /// The upper half of the hash selects the block, the lower half the bits within it.
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

    /// Writes ids while the newest buffer changes from `before` to `newest`. All buffers before
    /// `unflushed` are tables.
    fn write(
        filters: &MemtableFilter<()>,
        ids: std::ops::Range<u64>,
        [before, newest]: [u64; 2],
        unflushed: u64,
    ) {
        let mut writing = filters.begin_write(before);
        ids.for_each(|id| writing.add(mix(id)));
        let tables = writing.tables();
        writing.publish(BufferState { newest, unflushed, tables });
    }

    /// Number of these ids that may be in a buffer.
    fn held(filters: &MemtableFilter<()>, mut ids: std::ops::Range<u64>) -> usize {
        let read = filters.read();
        ids.by_ref().filter(|id| read.may_be_buffered(mix(*id))).count()
    }

    #[test]
    fn buffers_of_an_earlier_process_may_hold_any_id() {
        let filters = MemtableFilter::new((), Some(3));
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
    fn part_stays_until_all_its_buffers_are_tables() {
        let filters = MemtableFilter::new((), None);
        assert_eq!(held(&filters, 0..1_000), 0, "nothing was there");
        write(&filters, 0..100, [1, 1], 1);
        // The buffer is rotated during the batch, so the ids may be in either buffer.
        write(&filters, 100..200, [1, 2], 1);
        write(&filters, 200..300, [2, 2], 2);
        assert_eq!(held(&filters, 0..300), 300);
        write(&filters, 300..400, [3, 3], 3);
        assert_eq!(held(&filters, 300..400), 100);
        assert!(held(&filters, 0..300) < 10);
    }

    #[test]
    fn ids_of_an_unfinished_batch_stay() {
        let filters = MemtableFilter::new((), None);
        let mut writing = filters.begin_write(1);
        (0..100).for_each(|id| writing.add(mix(id)));
        drop(writing);
        assert_eq!(held(&filters, 0..100), 100);
        write(&filters, 100..100 + 2 * IDS as u64, [5, 5], 5);
        assert_eq!(held(&filters, 0..100 + 2 * IDS as u64), 100 + 2 * IDS);
    }

    #[test]
    fn full_part_has_few_false_positives() {
        let filters = MemtableFilter::new((), None);
        let ids = IDS as u64;
        write(&filters, 0..ids, [1, 1], 1);
        assert_eq!((filters.read().0.parts.len(), held(&filters, 0..ids)), (1, IDS));
        let others = held(&filters, ids..2 * ids);
        assert!(others < IDS / 1_000, "{others} of {IDS} are false positives");
        write(&filters, ids..ids + 1, [1, 1], 1);
        assert_eq!(filters.read().0.parts.len(), 2);
    }
}
