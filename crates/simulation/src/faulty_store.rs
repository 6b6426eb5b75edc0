//! The cold store with faults: in memory, written asynchronously, and not synced. A killed process
//! loses the queued batches. A power cut also loses some of the newest written batches. Now and
//! then the whole store is lost.
//!
//! Its chance is drawn from a seed of its own, so that it disturbs no other draw.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ledger::{
    ArchiveKind, ArchivedSettlement, Decision, FinalTransfer, LogIndex, NoticeId, TransferId,
};
use ports::{ColdReader, ColdStore, PartyRow, StoreError, WaitFor, WriteBatch};
use sequencer::ColdTier;
use store::Memory;

use crate::random::Random;

/// Portions that may wait, at most.
const QUEUE_MAX: usize = 8;

/// The part of the store that outlives a process.
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
    /// The batches by which `written` is ahead of `safe`.
    unsynced_batches: VecDeque<WriteBatch>,
}

/// The store as one process writes it.
#[derive(Debug)]
struct StoreHandle {
    store: FaultyStore,
    queue: VecDeque<WriteBatch>,
}

impl FaultyStore {
    pub(crate) fn new(seed: u64) -> Self {
        let inner = Inner {
            random: Random::new(seed),
            written: Memory::default(),
            safe: Memory::default(),
            unsynced_batches: VecDeque::new(),
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// The cold tier of a process that starts; now and then the store is empty.
    pub(crate) fn side(&self) -> ColdTier {
        let mut inner = self.lock();
        if inner.random.chance(100) {
            inner.clear();
        }
        drop(inner);
        self.cold_tier_as_is()
    }

    /// [`FaultyStore::cold_tier`], without emptying the store.
    pub(crate) fn cold_tier_as_is(&self) -> ColdTier {
        let mut inner = self.lock();
        let seconds = inner.random.pick(&[0, 0, 1, 5]);
        drop(inner);
        let hand = StoreHandle { store: self.clone(), queue: VecDeque::new() };
        ColdTier::new(Box::new(hand), Duration::from_secs(seconds))
    }

    /// A store of its own, with the same in it; to be read with a log, and not to lose its power.
    pub(crate) fn copy(&self) -> Self {
        let inner = self.lock();
        let inner = Inner {
            random: inner.random.clone(),
            written: inner.written.clone(),
            safe: Memory::default(),
            unsynced_batches: VecDeque::new(),
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
        let most = inner.unsynced_batches.len() as u64;
        let left = inner.random.below(most + 1);
        for _ in 0..left {
            inner.sync_oldest();
        }
        inner.unsynced_batches.clear();
        inner.written = inner.safe.clone();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn write(&mut self, batch: WriteBatch) -> Result<(), StoreError> {
        self.written.write(&batch)?;
        self.unsynced_batches.push_back(batch);
        if self.random.chance(200) {
            self.sync_oldest();
        }
        Ok(())
    }

    fn sync_oldest(&mut self) {
        if let Some(batch) = self.unsynced_batches.pop_front() {
            self.safe.write(&batch).expect("memory takes everything");
        }
    }

    fn clear(&mut self) {
        (self.written, self.safe) = (Memory::default(), Memory::default());
        self.unsynced_batches.clear();
    }
}

/// The store as the snapshot writer sees it.
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

    fn settlements(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
        limit: usize,
    ) -> Result<Vec<ArchivedSettlement>, StoreError> {
        self.lock().written.settlements(kind, numbers, limit)
    }

    fn transfers(&self, query: &ports::TransferQuery) -> Result<ports::TransferPage, StoreError> {
        self.lock().written.transfers(query)
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.lock().write(batch.clone())
    }

    fn sync(&self) -> Result<(), StoreError> {
        let mut inner = self.lock();
        while !inner.unsynced_batches.is_empty() {
            inner.sync_oldest();
        }
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

impl StoreHandle {
    fn write(&mut self, count: usize) -> Result<(), StoreError> {
        let batches: Vec<_> = self.queue.drain(..count.min(self.queue.len())).collect();
        let mut inner = self.store.lock();
        batches.into_iter().try_for_each(|batch| inner.write(batch))
    }
}

impl ColdReader for StoreHandle {
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        self.store.lock().written.read(id, at)
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        self.store.drop_absent(ids)
    }

    fn visible(&self) -> LogIndex {
        self.store.mark().log_index
    }

    fn offer(&mut self, batch: &mut WriteBatch) -> bool {
        let (count, is_deaf) = {
            let mut inner = self.store.lock();
            (inner.random.below(4) as usize, inner.random.chance(100))
        };
        self.write(count).expect("memory takes everything");
        if is_deaf || self.queue.len() == QUEUE_MAX {
            return false;
        }
        let mut taken = WriteBatch::default();
        taken.append(batch);
        self.queue.push_back(taken);
        true
    }

    fn wait(&mut self, _until: WaitFor) -> Result<(), StoreError> {
        self.write(QUEUE_MAX)
    }
}
