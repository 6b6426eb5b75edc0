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
//! After a transient error, such as a full disk, the batch is kept and retried every [`AGAIN`] once
//! the store is mended. Meanwhile batches are accepted while the queue has room. Start and end of a
//! failure are logged, and waiting callers get the error. After damage nothing is written or
//! accepted any more.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use ledger::{FinalTransfer, LogIndex, TransferId};
use ports::{ColdReader, ColdStore, StoreError, WaitFor, WriteBatch};

use crate::low_priority::step_back;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Maximum number of rows, decisions and directory entries in the queue.
pub const QUEUE_MAX: usize = 327_680;

/// How long the writer collects batches.
const GATHER: Duration = Duration::from_millis(20);

/// From so many on portions are not joined any more: what the writer writes in one go.
const TURN: usize = 2_048;
/// The same when it hurries: rows in order go into a database faster the more of them there are.
const TURN_IN_HURRY: usize = 32_768;

/// Between two looks at a store that has not settled, while nothing is to be written.
const SETTLE: Duration = Duration::from_secs(1);

/// Interval between two attempts after a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// How long shutdown waits for a write in progress; the next start writes the missing batches.
const GOODBYE: Duration = Duration::from_secs(10);

/// A cold store that is written asynchronously.
#[derive(Debug)]
pub struct WriteBehind {
    store: Arc<dyn ColdStore>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Rows, decisions told and entries that may wait.
    queue_max: usize,
    /// Whether failures are logged.
    tells: bool,
    /// Log index up to which everything is readable.
    visible: AtomicU64,
    queue: Mutex<Queue>,
    /// Rings for the writer.
    work: Condvar,
    /// Rings for who waits for room, or for what he wrote to be readable.
    done: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// What waits, oldest first; each but the last has [`TURN`] or more.
    portions: VecDeque<WriteBatch>,
    /// One that was written, empty, for its room.
    spare: Option<WriteBatch>,
    /// How many rows, decisions and entries wait.
    waiting: usize,
    /// How many were offered last, whether they were taken or not.
    last_offer: usize,
    /// Log index up to which batches were queued.
    offered: LogIndex,
    /// The current transient error, if any.
    failing: Option<StoreError>,
    /// The permanent error, if any.
    failed: Option<StoreError>,
    /// The writer sleeps.
    asleep: bool,
    /// Somebody waits: the writer does not.
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

    /// The same for whoever reports failures himself, with another bound than [`QUEUE_MAX`]: what
    /// is written in one go stays in memory several times over, until the database has it in its
    /// tables.
    ///
    /// # Errors
    /// As [`WriteBehind::start`].
    pub fn start_silent(store: Arc<dyn ColdStore>, queue_max: usize) -> std::io::Result<Self> {
        Self::start_with(store, queue_max, false)
    }

    fn start_with(
        store: Arc<dyn ColdStore>,
        queue_max: usize,
        tells: bool,
    ) -> std::io::Result<Self> {
        let at = store.mark().log_index;
        let shared = Arc::new(Shared {
            queue_max,
            tells,
            visible: AtomicU64::new(at.0),
            queue: Mutex::new(Queue { offered: at, ..Queue::default() }),
            work: Condvar::new(),
            done: Condvar::new(),
        });
        let (writer, into) = (Arc::clone(&shared), Arc::clone(&store));
        let write = move || {
            step_back();
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

    fn offer(&mut self, portion: &mut WriteBatch) -> bool {
        let mut queue = self.shared.lock();
        queue.last_offer = portion.len();
        if self.shared.is_full(&queue) || queue.failed.is_some() {
            return false;
        }
        queue.join(portion);
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
        let waited = self.shared.done.wait_timeout_while(queue, GOODBYE, open);
        let ended = waited.unwrap_or_else(PoisonError::into_inner).0.ended;
        if let (true, Some(thread)) = (ended, self.thread.take()) {
            // It ends after it has said so; a panic of its own was printed.
            let _joined = thread.join();
        }
    }
}

impl Queue {
    /// Takes over what was offered; nothing is left there.
    fn join(&mut self, portion: &mut WriteBatch) {
        self.waiting += portion.len();
        self.offered = portion.mark.log_index;
        match self.portions.back_mut() {
            Some(last) if last.len() < TURN => last.append(portion),
            _ => {
                let room = self.spare.take().unwrap_or_default();
                self.portions.push_back(std::mem::replace(portion, room));
            }
        }
    }

    /// Gives up the oldest, `least` rows, decisions and entries if so many wait.
    fn take(&mut self, least: usize) -> Option<WriteBatch> {
        let mut portion = self.portions.pop_front()?;
        while let Some(mut next) = self.portions.pop_front_if(|_| portion.len() < least) {
            portion.append(&mut next);
        }
        self.waiting -= portion.len();
        Some(portion)
    }
}

impl Shared {
    /// What was offered last finds no room; where nothing waits there is room for anything.
    fn is_full(&self, queue: &Queue) -> bool {
        0 < queue.waiting && self.queue_max < queue.waiting + queue.last_offer
    }

    /// More than three quarters of the room are taken.
    fn is_tight(&self, queue: &Queue) -> bool {
        self.queue_max / 4 * 3 < queue.waiting
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes whatever waits, until it is told to end or an error comes.
    fn write_all(&self, store: &dyn ColdStore) {
        let _ending = ThreadEnd(self);
        while let Some(mut portion) = self.take(store) {
            if !self.write(store, &portion) {
                return;
            }
            self.visible.store(portion.mark.log_index.0, Ordering::Release);
            portion.clear();
            // Under the lock, so that nobody looks just before and sleeps just after.
            let mut queue = self.lock();
            queue.spare = Some(portion);
            self.done.notify_all();
            drop(queue);
        }
    }

    /// Writes a portion, however often that takes. False when it will not be written: the store is
    /// damaged, or the end comes first.
    fn write(&self, store: &dyn ColdStore, portion: &WriteBatch) -> bool {
        let mut written = store.write(portion);
        while let Err(error) = written {
            if !self.holds_out(error) {
                return false;
            }
            written = store.mend().and_then(|()| store.write(portion));
        }
        if self.lock().failing.take().is_some() {
            ports::print_line("the cold store is written again");
        }
        true
    }

    /// After an error: waits for the next attempt. False when there is none.
    fn holds_out(&self, error: StoreError) -> bool {
        let mut queue = self.lock();
        self.done.notify_all();
        if let StoreError::Damaged(_) = error {
            self.tell(format_args!("nothing leaves memory any more: {error}"));
            queue.failed = Some(error);
            return false;
        }
        if queue.failing.is_none() {
            self.tell(format_args!(
                "{error}. What ended stays in memory; it is tried again every second"
            ));
            queue.failing = Some(error);
        }
        let is_open = |queue: &mut Queue| !queue.closed;
        let waited = self.work.wait_timeout_while(queue, AGAIN, is_open);
        !waited.unwrap_or_else(PoisonError::into_inner).0.closed
    }

    fn tell(&self, what: fmt::Arguments<'_>) {
        if self.tells {
            ports::log_line(what);
        }
    }

    /// What is to be written next, once there is something and it is time. `None` when there is
    /// nothing, and nothing will come.
    fn take(&self, store: &dyn ColdStore) -> Option<WriteBatch> {
        let mut queue = self.sleep(store);
        let hurries = |queue: &Queue| queue.hurry || queue.closed || self.is_tight(queue);
        let gathered = self.work.wait_timeout_while(queue, GATHER, |queue| !hurries(queue));
        queue = gathered.unwrap_or_else(PoisonError::into_inner).0;
        let least = if hurries(&queue) { TURN_IN_HURRY } else { TURN };
        let portion = queue.take(least)?;
        self.done.notify_all();
        Some(portion)
    }

    /// Waits while there is nothing to write. Meanwhile the store settles, with nobody held up.
    fn sleep(&self, store: &dyn ColdStore) -> MutexGuard<'_, Queue> {
        let is_idle = |queue: &mut Queue| queue.portions.is_empty() && !queue.closed;
        let mut queue = self.lock();
        queue.asleep = true;
        while is_idle(&mut queue) {
            drop(queue);
            let is_settled = !store.release_memory();
            queue = self.lock();
            queue = match is_settled {
                true => {
                    let waited = self.work.wait_while(queue, is_idle);
                    waited.unwrap_or_else(PoisonError::into_inner)
                }
                false => {
                    let waited = self.work.wait_timeout_while(queue, SETTLE, is_idle);
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

    /// Who holds the lock holds the writer.
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

        fn write(&self, portion: &WriteBatch) -> Result<(), StoreError> {
            let _held = self.hold.lock().expect("it works");
            self.written.lock().expect("it works").push(portion.len());
            self.rows.write(portion)
        }

        fn sync(&self) -> Result<(), StoreError> {
            self.rows.sync()
        }

        fn bytes(&self) -> u64 {
            self.rows.bytes()
        }
    }

    /// So many registrations, with which the store is complete up to a log index.
    fn portion(log_index: u64, parties: u64) -> WriteBatch {
        let mark = StoreMark { log_index: LogIndex(log_index), ..StoreMark::default() };
        let key = |number: u64| [log_index.to_le_bytes(), number.to_le_bytes()].concat();
        let parties = (0..parties)
            .map(|it| PartyChange { key: key(it), effect: PartyEffect::Release })
            .collect();
        WriteBatch { parties, mark, ..WriteBatch::default() }
    }

    #[test]
    fn who_is_not_waited_for_writes_little_at_once() {
        let store = Arc::new(WriterGuard::default());
        let mut behind = WriteBehind::start(Arc::clone(&store) as _).expect("it works");
        for log_index in 1..=10 {
            assert!(behind.offer(&mut portion(log_index, 1_500)));
        }
        while behind.visible() < LogIndex(10) {
            thread::sleep(Duration::from_millis(1));
        }
        let written = store.written.lock().expect("it works").clone();
        assert_eq!(written.iter().sum::<usize>(), 15_000);
        assert!(written.iter().all(|rows| *rows < TURN + 1_500), "{written:?}");
    }

    #[test]
    fn who_is_waited_for_writes_much_at_once_and_what_finds_no_room_is_refused() {
        let store = Arc::new(WriterGuard::default());
        let mut behind =
            WriteBehind::start_silent(Arc::clone(&store) as _, 10_000).expect("it works");
        let held = store.hold.lock().expect("it works");
        assert!(behind.offer(&mut portion(1, 10)));
        while !behind.shared.lock().portions.is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        for log_index in 2..=4 {
            assert!(behind.offer(&mut portion(log_index, 3_000)));
        }
        let mut refused = portion(5, 3_000);
        assert!(!behind.offer(&mut refused));
        assert_eq!(refused.len(), 3_000, "it stays where it was");
        drop(held);
        behind.wait(WaitFor::Room).expect("it works");
        assert!(behind.offer(&mut refused));
        behind.wait(WaitFor::Visible).expect("it works");
        let written = store.written.lock().expect("it works").clone();
        assert!(written.starts_with(&[10, 9_000]), "{written:?}");
        assert_eq!(store.mark().log_index, LogIndex(5));
    }

    #[test]
    fn who_waits_for_room_has_it_then() {
        let store = Arc::new(WriterGuard::default());
        let mut behind =
            WriteBehind::start_silent(Arc::clone(&store) as _, 10_000).expect("it works");
        for log_index in 1..=20 {
            let mut offered = portion(log_index, 6_000);
            if !behind.offer(&mut offered) {
                behind.wait(WaitFor::Room).expect("it works");
                assert!(behind.offer(&mut offered), "{log_index}");
            }
        }
    }
}
