//! The write-behind queue: batches are accepted at once and written by a separate thread.
//!
//! The thread sleeps while the queue is empty. When woken, it collects for [`GATHER`] and then
//! writes [`TURN`] of the queue, oldest first. The caller pays one lock per batch, and at most
//! about fifty wake-ups per second. In a burst of final transfers, their rows wait here, so that
//! the writer does not take a core from running transfers. The writer does not wait when a caller
//! waits for it or the queue is nearly full.
//!
//! Bound: at most [`QUEUE_MAX`] rows, decisions and entries; an empty queue accepts any batch.
//!
//! After a transient error, such as a full disk, the batch is kept and retried every [`RETRY`] once
//! the store is mended. Meanwhile batches are accepted while the queue has room. Start and end of a
//! failure are logged, and waiting callers get the error. After damage nothing is written or
//! accepted any more.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use ledger::{FinalTransfer, LogIndex, TransferId};
use ports::{ColdReader, ColdStore, StoreError, WaitFor, WriteBatch};

use crate::low_priority::lower_priority;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of rows, decisions and directory entries in the queue.
pub const QUEUE_MAX: usize = 327_680;

/// How long the writer collects batches.
const GATHER: Duration = Duration::from_millis(20);

/// Rows from which batches are not joined any more: what the writer writes at once.
const TURN: usize = 2_048;
/// The same in a hurry. A database inserts more sorted rows at once faster.
const TURN_IN_HURRY: usize = 32_768;

/// Emptied batches kept while the writer is busy. Batches of a burst then need no new memory.
const SPARES_MAX: usize = 8;

/// Interval between two calls of [`ColdStore::release_memory`] while the queue is empty.
const RELEASE: Duration = Duration::from_secs(1);

/// Interval between two attempts after a failed write.
const RETRY: Duration = Duration::from_secs(1);

/// How long shutdown waits for a write in progress; the next start writes the missing batches.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// A cold store that is written asynchronously.
#[derive(Debug)]
pub struct WriteBehind {
    store: Arc<dyn ColdStore>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Maximum number of waiting rows, decisions and entries.
    queue_max: usize,
    /// Whether failures are logged.
    logs: bool,
    /// Log index up to which everything is readable.
    visible: AtomicU64,
    queue: Mutex<Queue>,
    /// Wakes the writer.
    work: Condvar,
    /// Wakes callers that wait for room or for their rows to be readable.
    done: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Waiting batches, oldest first. Each but the last has at least [`TURN`] rows.
    batches: VecDeque<WriteBatch>,
    /// At most [`SPARES_MAX`] emptied batches, kept for their capacity.
    spares: Vec<WriteBatch>,
    /// Number of waiting rows, decisions and entries.
    waiting: usize,
    /// Size of the last offered batch, accepted or not.
    last_offer: usize,
    /// Log index up to which batches were queued.
    offered: LogIndex,
    /// The current transient error, if any.
    failing: Option<StoreError>,
    /// The permanent error, if any.
    failed: Option<StoreError>,
    /// Whether the writer sleeps.
    asleep: bool,
    /// Whether a caller waits, so that the writer must not.
    hurry: bool,
    closed: bool,
    ended: bool,
}

impl WriteBehind {
    /// Starts the thread that writes to `store`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(store: Arc<dyn ColdStore>) -> std::io::Result<Self> {
        Self::start_with(store, QUEUE_MAX, true)
    }

    /// Like [`WriteBehind::start`], for callers that report failures themselves, with a bound other
    /// than [`QUEUE_MAX`]. Rows that are written at once take their memory several times until the
    /// database has them in tables.
    ///
    /// # Errors
    /// As [`WriteBehind::start`].
    pub fn start_silent(store: Arc<dyn ColdStore>, queue_max: usize) -> std::io::Result<Self> {
        Self::start_with(store, queue_max, false)
    }

    fn start_with(
        store: Arc<dyn ColdStore>,
        queue_max: usize,
        logs: bool,
    ) -> std::io::Result<Self> {
        let at = store.mark().log_index;
        let shared = Arc::new(Shared {
            queue_max,
            logs,
            visible: AtomicU64::new(at.0),
            queue: Mutex::new(Queue { offered: at, ..Queue::default() }),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let (writer, into) = (Arc::clone(&shared), Arc::clone(&store));
        let write = move || {
            lower_priority();
            writer.write_all(&*into);
        };
        let thread = thread::Builder::new().name("store".into()).spawn(write)?;
        Ok(Self { store, shared, thread: Some(thread) })
    }
}

impl ColdReader for WriteBehind {
    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        self.store.read(id, at)
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        self.store.drop_absent(ids)
    }

    fn visible(&self) -> LogIndex {
        LogIndex(self.shared.visible.load(Ordering::Acquire))
    }

    fn offer(&mut self, batch: &mut WriteBatch) -> bool {
        let mut queue = self.shared.lock();
        queue.last_offer = batch.len();
        if self.shared.is_full(&queue) || queue.failed.is_some() {
            return false;
        }
        queue.join(batch);
        if queue.asleep {
            self.shared.work.notify_one();
        }
        true
    }

    fn wait(&mut self, until: WaitFor) -> Result<(), StoreError> {
        let mut queue = self.shared.lock();
        queue.hurry = true;
        self.shared.work.notify_one();
        let is_early = |queue: &mut Queue| {
            let early = match until {
                WaitFor::Room => queue.failing.is_none() && self.shared.is_full(queue),
                WaitFor::Visible => queue.failing.is_none() && self.visible() < queue.offered,
                WaitFor::Mended => queue.failing.is_some(),
            };
            early && queue.failed.is_none()
        };
        let waited = self.shared.done.wait_while(queue, is_early);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        queue.hurry = false;
        queue.failed.as_ref().or(queue.failing.as_ref()).cloned().map_or(Ok(()), Err)
    }
}

impl Drop for WriteBehind {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.closed = true;
        self.shared.work.notify_one();
        let open = |queue: &mut Queue| !queue.ended;
        let waited = self.shared.done.wait_timeout_while(queue, SHUTDOWN_TIMEOUT, open);
        let ended = waited.unwrap_or_else(PoisonError::into_inner).0.ended;
        if let (true, Some(thread)) = (ended, self.thread.take()) {
            // The thread has ended or is about to. A panic in it has been printed.
            let _joined = thread.join();
        }
    }
}

impl Queue {
    /// Queues an offered batch and leaves an empty one in its place.
    fn join(&mut self, batch: &mut WriteBatch) {
        self.waiting += batch.len();
        self.offered = batch.mark.log_index;
        match self.batches.back_mut() {
            Some(last) if last.len() < TURN => last.append(batch),
            _ => {
                let room = self.spares.pop().unwrap_or_default();
                self.batches.push_back(std::mem::replace(batch, room));
            }
        }
    }

    /// Removes the oldest batches, up to at least `least` rows, decisions and entries if available.
    fn take(&mut self, least: usize) -> Option<WriteBatch> {
        let mut batch = self.batches.pop_front()?;
        while let Some(mut next) = self.batches.pop_front_if(|_| batch.len() < least) {
            batch.append(&mut next);
            self.keep_spare(next);
        }
        self.waiting -= batch.len();
        Some(batch)
    }

    /// Keeps an emptied batch for its capacity.
    fn keep_spare(&mut self, batch: WriteBatch) {
        if self.spares.len() < SPARES_MAX {
            self.spares.push(batch);
        }
    }
}

impl Shared {
    /// Whether the last offered batch has no room. An empty queue has room for any batch.
    fn is_full(&self, queue: &Queue) -> bool {
        0 < queue.waiting && self.queue_max < queue.waiting + queue.last_offer
    }

    /// Whether more than three quarters of the queue are in use.
    fn is_tight(&self, queue: &Queue) -> bool {
        self.queue_max / 4 * 3 < queue.waiting
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes waiting batches until shutdown or a permanent error.
    fn write_all(&self, store: &dyn ColdStore) {
        let _ending = ThreadEnd(self);
        while let Some(mut batch) = self.take(store) {
            if !self.write(store, &batch) {
                return;
            }
            self.visible.store(batch.mark.log_index.0, Ordering::Release);
            batch.clear();
            // Under the lock, so that no caller checks just before and sleeps just after.
            let mut queue = self.lock();
            queue.keep_spare(batch);
            self.done.notify_all();
            drop(queue);
        }
    }

    /// Writes a batch with as many attempts as needed. Returns false if the store is damaged or is
    /// shut down first.
    fn write(&self, store: &dyn ColdStore, batch: &WriteBatch) -> bool {
        let mut written = store.write(batch);
        while let Err(error) = written {
            if !self.wait_for_retry(error) {
                return false;
            }
            written = store.mend().and_then(|()| store.write(batch));
        }
        if self.lock().failing.take().is_some() {
            tracing::info!("the cold store is written again");
        }
        true
    }

    /// After an error: waits for the next attempt. Returns false if no attempt follows.
    fn wait_for_retry(&self, error: StoreError) -> bool {
        let mut queue = self.lock();
        self.done.notify_all();
        if let StoreError::Damaged(_) = error {
            self.log(format_args!("final transfers stay in memory from now on: {error}"));
            queue.failed = Some(error);
            return false;
        }
        if queue.failing.is_none() {
            self.log(format_args!(
                "{error}; final transfers stay in memory; retrying every second"
            ));
            queue.failing = Some(error);
        }
        let is_open = |queue: &mut Queue| !queue.closed;
        let waited = self.work.wait_timeout_while(queue, RETRY, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    fn log(&self, what: fmt::Arguments<'_>) {
        if self.logs {
            tracing::error!("cold store: {what}");
        }
    }

    /// The next batch to write, after the collection time. `None` after shutdown, if the queue is
    /// empty.
    fn take(&self, store: &dyn ColdStore) -> Option<WriteBatch> {
        let mut queue = self.sleep(store);
        let hurries = |queue: &Queue| queue.hurry || queue.closed || self.is_tight(queue);
        let gathered = self.work.wait_timeout_while(queue, GATHER, |queue| !hurries(queue));
        queue = gathered.unwrap_or_else(PoisonError::into_inner).0;
        let least = if hurries(&queue) { TURN_IN_HURRY } else { TURN };
        let batch = queue.take(least)?;
        self.done.notify_all();
        Some(batch)
    }

    /// Waits while the queue is empty. Meanwhile the store releases memory without delaying anyone.
    fn sleep(&self, store: &dyn ColdStore) -> MutexGuard<'_, Queue> {
        let is_idle = |queue: &mut Queue| queue.batches.is_empty() && !queue.closed;
        let mut queue = self.lock();
        queue.asleep = true;
        if queue.batches.is_empty() {
            queue.spares.truncate(1);
        }
        while is_idle(&mut queue) {
            drop(queue);
            let is_idle_store = !store.release_memory();
            queue = self.lock();
            queue = match is_idle_store {
                true => {
                    let waited = self.work.wait_while(queue, is_idle);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
                false => {
                    let waited = self.work.wait_timeout_while(queue, RELEASE, is_idle);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        queue.asleep = false;
        queue
    }
}

/// Notifies all waiting threads when the writer ends, also on a panic.
struct ThreadEnd<'a>(&'a Shared);

impl Drop for ThreadEnd<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.ended = true;
        if std::thread::panicking() {
            queue.failed = Some(StoreError::Damaged("its thread broke, see above".into()));
        }
        self.0.done.notify_all();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use ports::{PartyChange, PartyEffect, StoreMark};

    use super::*;
    use crate::Memory;

    const RELEASE: PartyEffect = PartyEffect::Release { of: None, currency: None };

    /// A store whose writes wait while a test holds the lock.
    #[derive(Debug, Default)]
    struct WriterGuard {
        rows: Memory,
        hold: Mutex<()>,
        written: Mutex<Vec<usize>>,
    }

    impl ColdStore for WriterGuard {
        fn mark(&self) -> StoreMark {
            self.rows.mark()
        }

        fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
            self.rows.read(id, at)
        }

        fn party(&self, key: &[u8]) -> Result<Option<ports::PartyRow>, StoreError> {
            self.rows.party(key)
        }

        fn decisions(&self, id: &TransferId) -> Result<Vec<ledger::Decision>, StoreError> {
            self.rows.decisions(id)
        }

        fn delivery_records(&self, notice: ledger::NoticeId) -> Result<Vec<LogIndex>, StoreError> {
            self.rows.delivery_records(notice)
        }

        fn settlements(
            &self,
            kind: ledger::ArchiveKind,
            numbers: std::ops::RangeInclusive<u32>,
            limit: usize,
        ) -> Result<Vec<ledger::ArchivedSettlement>, StoreError> {
            self.rows.settlements(kind, numbers, limit)
        }

        fn transfers(
            &self,
            query: &ports::TransferQuery,
        ) -> Result<ports::TransferPage, StoreError> {
            self.rows.transfers(query)
        }

        fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
            let _held = self.hold.lock().expect("it works");
            self.written.lock().expect("it works").push(batch.len());
            self.rows.write(batch)
        }

        fn sync(&self) -> Result<(), StoreError> {
            self.rows.sync()
        }

        fn bytes(&self) -> u64 {
            self.rows.bytes()
        }
    }

    /// A batch of this many registrations that makes the store complete up to a log index.
    fn write_batch(log_index: u64, parties: u64) -> WriteBatch {
        let mark = StoreMark { log_index: LogIndex(log_index), ..StoreMark::default() };
        let key = |number: u64| [log_index.to_le_bytes(), number.to_le_bytes()].concat();
        let parties = (0..parties)
            .map(|it| PartyChange { key: key(it), at: LogIndex(log_index), effect: RELEASE })
            .collect();
        WriteBatch { parties, mark, ..WriteBatch::default() }
    }

    #[test]
    fn without_waiting_callers_small_batches_are_written() {
        let store = Arc::new(WriterGuard::default());
        let mut write_behind = WriteBehind::start(Arc::clone(&store) as _).expect("it works");
        for log_index in 1..=10 {
            assert!(write_behind.offer(&mut write_batch(log_index, 1_500)));
        }
        while write_behind.visible() < LogIndex(10) {
            thread::sleep(Duration::from_millis(1));
        }
        let written = store.written.lock().expect("it works").clone();
        assert_eq!(written.iter().sum::<usize>(), 15_000);
        assert!(written.iter().all(|rows| *rows < TURN + 1_500), "{written:?}");
    }

    #[test]
    fn with_waiting_callers_large_batches_are_written_and_a_full_queue_refuses() {
        let store = Arc::new(WriterGuard::default());
        let mut write_behind =
            WriteBehind::start_silent(Arc::clone(&store) as _, 10_000).expect("it works");
        let held = store.hold.lock().expect("it works");
        assert!(write_behind.offer(&mut write_batch(1, 10)));
        while !write_behind.shared.lock().batches.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        for log_index in 2..=4 {
            assert!(write_behind.offer(&mut write_batch(log_index, 3_000)));
        }
        let mut refused = write_batch(5, 3_000);
        assert!(!write_behind.offer(&mut refused));
        assert_eq!(refused.len(), 3_000, "a refused batch is unchanged");
        drop(held);
        write_behind.wait(WaitFor::Room).expect("it works");
        assert!(write_behind.offer(&mut refused));
        write_behind.wait(WaitFor::Visible).expect("it works");
        let written = store.written.lock().expect("it works").clone();
        assert!(written.starts_with(&[10, 9_000]), "{written:?}");
        assert_eq!(store.mark().log_index, LogIndex(5));
    }

    #[test]
    fn waiting_for_room_ends_with_room() {
        let store = Arc::new(WriterGuard::default());
        let mut write_behind =
            WriteBehind::start_silent(Arc::clone(&store) as _, 10_000).expect("it works");
        for log_index in 1..=20 {
            let mut offered = write_batch(log_index, 6_000);
            if !write_behind.offer(&mut offered) {
                write_behind.wait(WaitFor::Room).expect("it works");
                assert!(write_behind.offer(&mut offered), "{log_index}");
            }
        }
    }
}
