//! Write-behind: portions are taken at once and written by a thread of their own.
//!
//! The thread sleeps while nothing waits. Woken, it lets more gather for [`GATHER`], takes all of
//! it as one portion, and writes that. So the one who offers pays a lock per batch, and a wake-up
//! some fifty times a second at most.
//!
//! Bound: [`QUEUE_MAX`] rows, decisions and entries wait at most, and as many are being written.
//! After the first error nothing is written and nothing is taken any more; it is printed once, and
//! whoever waits hears it.

use std::time::Duration;

use ledger::{Ended, Position, TransferId};
use ports::{Cold, ColdStore, Portion, StoreError, Until};

use crate::background::step_back;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Rows, decisions told and entries of the directory that may wait to be written.
pub const QUEUE_MAX: usize = 65_536;

/// How long the writer lets portions gather.
const GATHER: Duration = Duration::from_millis(20);

/// How long the end of the process waits for what is being written; the next start writes what is
/// missing.
const GOODBYE: Duration = Duration::from_secs(10);

/// A store that is written behind the sequencer's back.
#[derive(Debug)]
pub struct Behind {
    store: Arc<dyn ColdStore>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// Rows, decisions told and entries that may wait.
    queue_max: usize,
    /// Position up to which everything is readable.
    visible: AtomicU64,
    queue: Mutex<Queue>,
    /// Rings for the writer.
    work: Condvar,
    /// Rings for who waits for room, or for what he wrote to be readable.
    done: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// What waits.
    next: Portion,
    /// Position up to which something was offered.
    offered: Position,
    failed: Option<StoreError>,
    /// The writer sleeps.
    asleep: bool,
    /// Somebody waits: nothing more is gathered.
    hurry: bool,
    closed: bool,
    ended: bool,
}

impl Behind {
    /// Starts the thread that writes to `store`.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn start(store: Arc<dyn ColdStore>) -> std::io::Result<Self> {
        Self::start_with(store, QUEUE_MAX)
    }

    /// The same with another bound than [`QUEUE_MAX`]: what is written in one go stays in memory
    /// several times over, until the database has it in its tables.
    ///
    /// # Errors
    /// As [`Behind::start`].
    pub fn start_with(store: Arc<dyn ColdStore>, queue_max: usize) -> std::io::Result<Self> {
        let at = store.mark().position;
        let shared = Arc::new(Shared {
            queue_max,
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

impl Cold for Behind {
    fn read(&self, id: &TransferId, at: Position) -> Result<Option<Ended>, StoreError> {
        self.store.read(id, at)
    }

    fn visible(&self) -> Position {
        Position(self.shared.visible.load(Ordering::Acquire))
    }

    fn offer(&mut self, portion: &mut Portion) -> bool {
        let mut queue = self.shared.lock();
        let waiting = queue.next.len();
        let is_full = 0 < waiting && self.shared.queue_max < waiting + portion.len();
        if is_full || queue.failed.is_some() {
            return false;
        }
        queue.next.append(portion);
        queue.offered = portion.mark.position;
        if queue.asleep {
            self.shared.work.notify_one();
        }
        true
    }

    fn wait(&mut self, until: Until) -> Result<(), StoreError> {
        let mut queue = self.shared.lock();
        queue.hurry = true;
        self.shared.work.notify_one();
        let is_early = |queue: &mut Queue| {
            let early = match until {
                Until::Room => !queue.next.is_empty(),
                Until::Visible => self.visible() < queue.offered,
            };
            early && queue.failed.is_none()
        };
        let waited = self.shared.done.wait_while(queue, is_early);
        let mut queue = waited.unwrap_or_else(PoisonError::into_inner);
        queue.hurry = false;
        queue.failed.clone().map_or(Ok(()), Err)
    }
}

impl Drop for Behind {
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

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread: writes whatever waits, until it is told to end or an error comes.
    fn write_all(&self, store: &dyn ColdStore) {
        let _ending = Ending(self);
        let mut portion = Portion::default();
        while self.take(&mut portion) {
            if let Err(error) = store.write(&portion) {
                eprintln!("upesi: nothing leaves memory any more: {error}");
                self.lock().failed = Some(error);
                return;
            }
            self.visible.store(portion.mark.position.0, Ordering::Release);
            // Under the lock, so that nobody looks just before and sleeps just after.
            let queue = self.lock();
            self.done.notify_all();
            drop(queue);
            portion.clear();
        }
    }

    /// Takes all that waits, once there is something. False when there is nothing, and nothing
    /// will come.
    fn take(&self, portion: &mut Portion) -> bool {
        let visible = self.visible.load(Ordering::Relaxed);
        let mut queue = self.lock();
        queue.asleep = true;
        let is_idle = |queue: &mut Queue| queue.offered.0 == visible && !queue.closed;
        queue = self.work.wait_while(queue, is_idle).unwrap_or_else(PoisonError::into_inner);
        queue.asleep = false;
        let is_gathering = |queue: &mut Queue| {
            !queue.hurry && !queue.closed && queue.next.len() < self.queue_max / 2
        };
        let gathered = self.work.wait_timeout_while(queue, GATHER, is_gathering);
        queue = gathered.unwrap_or_else(PoisonError::into_inner).0;
        if queue.offered.0 == visible {
            return false;
        }
        std::mem::swap(&mut queue.next, portion);
        self.done.notify_all();
        true
    }
}

/// Tells everybody when the thread ends, however it ends.
struct Ending<'a>(&'a Shared);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.lock();
        queue.ended = true;
        if std::thread::panicking() {
            queue.failed = Some(StoreError::Failed("its thread broke, see above".into()));
        }
        self.0.done.notify_all();
    }
}
