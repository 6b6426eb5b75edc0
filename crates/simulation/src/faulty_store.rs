//! The store beside the kernel: in memory, written late, and not synced. A killed process loses
//! what waits to be written; a loss of power takes newer portions from what was written, too; and
//! now and then the whole store is gone.
//!
//! Its chance is drawn from a seed of its own, so that it disturbs no other draw.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ledger::{Decision, FinalTransfer, LogIndex, NoticeId, TransferId};
use ports::{ColdReader, ColdStore, PartyRow, StoreError, WaitFor, WriteBatch};
use sequencer::ColdTier;
use store::Memory;

use crate::random::Random;

/// Portions that may wait, at most.
const QUEUE_MAX: usize = 8;

/// What outlives a process.
#[derive(Clone, Debug)]
pub(crate) struct FaultyStore {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    random: Random,
    /// As every process sees it.
    written: Memory,
    /// As a loss of power leaves it at least.
    safe: Memory,
    /// What makes the one of the other.
    unsafe_portions: VecDeque<WriteBatch>,
}

/// The store as one process writes it.
#[derive(Debug)]
struct Hand {
    shelf: FaultyStore,
    queue: VecDeque<WriteBatch>,
}

impl FaultyStore {
    pub(crate) fn new(seed: u64) -> Self {
        let inner = Inner {
            random: Random::new(seed),
            written: Memory::default(),
            safe: Memory::default(),
            unsafe_portions: VecDeque::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// What a process that starts has beside its kernel; now and then nothing is left of it.
    pub(crate) fn side(&self) -> ColdTier {
        let mut inner = self.lock();
        if inner.random.chance(100) {
            inner.forget_everything();
        }
        drop(inner);
        self.side_as_it_is()
    }

    /// [`FaultyStore::side`], with what is there.
    pub(crate) fn side_as_it_is(&self) -> ColdTier {
        let mut inner = self.lock();
        let seconds = inner.random.pick(&[0, 0, 1, 5]);
        drop(inner);
        let hand = Hand { shelf: self.clone(), queue: VecDeque::new() };
        ColdTier::new(Box::new(hand), Duration::from_secs(seconds))
    }

    /// A store of its own, with the same in it; to be read with a log, and not to lose its power.
    pub(crate) fn copy(&self) -> Self {
        let inner = self.lock();
        let inner = Inner {
            random: inner.random.clone(),
            written: inner.written.clone(),
            safe: Memory::default(),
            unsafe_portions: VecDeque::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Up to where the store is complete.
    pub(crate) fn mark(&self) -> ports::StoreMark {
        self.lock().written.mark()
    }

    /// The power went off: the newest portions may be gone.
    pub(crate) fn lose_power(&self) {
        let mut inner = self.lock();
        let most = inner.unsafe_portions.len() as u64;
        let left = inner.random.below(most + 1);
        for _ in 0..left {
            inner.make_safe();
        }
        inner.unsafe_portions.clear();
        inner.written = inner.safe.clone();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, portion: WriteBatch) -> Result<(), StoreError> {
        self.written.write(&portion)?;
        self.unsafe_portions.push_back(portion);
        if self.random.chance(200) {
            self.make_safe();
        }
        Ok(())
    }

    fn make_safe(&mut self) {
        if let Some(portion) = self.unsafe_portions.pop_front() {
            self.safe.write(&portion).expect("memory takes everything");
        }
    }

    fn forget_everything(&mut self) {
        (self.written, self.safe) = (Memory::default(), Memory::default());
        self.unsafe_portions.clear();
    }
}

/// The store as whoever takes snapshots sees it.
impl ColdStore for FaultyStore {
    fn mark(&self) -> ports::StoreMark {
        Self::mark(self)
    }

    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        self.lock().written.read(id, at)
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        self.lock().written.drop_absent(ids)
    }

    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        self.lock().written.party(key)
    }

    fn decisions(&self, id: &TransferId) -> Result<Vec<Decision>, StoreError> {
        self.lock().written.decisions(id)
    }

    fn delivery_records(&self, notice: NoticeId) -> Result<Vec<LogIndex>, StoreError> {
        self.lock().written.delivery_records(notice)
    }

    fn write(&self, portion: &WriteBatch) -> Result<(), StoreError> {
        self.lock().write(portion.clone())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        while !inner.unsafe_portions.is_empty() {
            inner.make_safe();
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

impl Hand {
    fn write(&mut self, count: usize) -> Result<(), StoreError> {
        let portions: Vec<_> = self.queue.drain(..count.min(self.queue.len())).collect();
        let mut inner = self.shelf.lock();
        portions.into_iter().try_for_each(|portion| inner.write(portion))
    }
}

impl ColdReader for Hand {
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        self.shelf.lock().written.read(id, at)
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        self.shelf.drop_absent(ids)
    }

    fn visible(&self) -> LogIndex {
        self.shelf.mark().log_index
    }

    fn offer(&mut self, portion: &mut WriteBatch) -> bool {
        let (count, is_deaf) = {
            let mut inner = self.shelf.lock();
            (inner.random.below(4) as usize, inner.random.chance(100))
        };
        self.write(count).expect("memory takes everything");
        if is_deaf || self.queue.len() == QUEUE_MAX {
            return false;
        }
        let mut taken = WriteBatch::default();
        taken.append(portion);
        self.queue.push_back(taken);
        true
    }

    fn wait(&mut self, _until: WaitFor) -> Result<(), StoreError> {
        self.write(QUEUE_MAX)
    }
}
