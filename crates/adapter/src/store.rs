//! The durable state of an adapter: transfers and quotes in an embedded store.
//!
//! One thread writes. It takes all waiting rows as one batch and syncs once, so that the cost of a
//! sync is shared by all transfers that wait for it. Rows without a waiting caller are gathered for
//! up to [`GATHER`]; of several writes of a row in that time only the last is written. Reads see
//! rows that wait. Unfinished transfers have an entry of their own, which a start reads; ended ones
//! are removed after the configured days.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fjall::{
    Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, OwnedWriteBatch, PersistMode,
};
use tokio::sync::{Semaphore, oneshot};

/// Saves whose rows wait for the thread.
const QUEUE: usize = 4_096;
/// Longest time that a row without a waiting caller is kept back.
const GATHER: Duration = Duration::from_millis(10);
/// Memory for blocks that were read.
const CACHE_BYTES: u64 = 8 << 20;
/// Memory for rows that are not in a table yet. A full one is flushed while the next one fills.
const ROWS_BUFFER_BYTES: u64 = 6 << 20;
/// The same for the entries of unfinished and of ended transfers.
const ENTRIES_BUFFER_BYTES: u64 = 1 << 20;
/// Rows that one sweep removes.
const SWEEP_ROWS: usize = 10_000;

/// An error of the store.
#[derive(Clone, Debug, thiserror::Error)]
#[error("store: {0}")]
pub(crate) struct StoreError(String);

/// The kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowKind {
    Outbound,
    Inbound,
    /// Transfer id of a `homeTransactionId`.
    Home,
    /// Quote that the payee answered.
    Quote,
    /// Request to pay of the payee.
    Request,
    /// Transfer id of a request to pay, at the payer.
    Requested,
    /// Bulk quote or bulk transfer that the payer sent.
    SentBulk,
    /// Bulk quote that the payee answered.
    BulkQuote,
    /// Bulk transfer that the payee received.
    ReceivedBulk,
}

/// One row to write.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) key: String,
    pub(crate) value: Vec<u8>,
    /// Whether a start must read it.
    pub(crate) is_open: bool,
    /// Time of the write, in milliseconds since 1970.
    pub(crate) now_ms: u64,
}

/// When a save returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// At once. A kill within [`GATHER`] may lose the rows.
    Queued,
    /// When the operating system has the rows: a kill does not lose them.
    Written,
    /// When the rows are on disk.
    Synced,
}

/// The store of one process.
pub(crate) struct Store {
    database: Database,
    tables: Tables,
    queue: Arc<SharedQueue>,
    thread: Option<JoinHandle<()>>,
}

/// The rows that wait for the thread.
struct SharedQueue {
    queue: Mutex<Queue>,
    /// Wakes the thread.
    wake: Condvar,
    /// One permit for each save that may wait.
    places: Semaphore,
}

#[derive(Default)]
struct Queue {
    batch: Batch,
    /// The rows that are being written.
    writing: Arc<HashMap<String, Row>>,
    is_closed: bool,
    /// The error of the last batch, for a save that does not wait.
    error: Option<StoreError>,
}

/// The next duty of the caller of a save.
enum Pushed {
    /// Wait for the result.
    Waiting(oneshot::Receiver<Result<(), StoreError>>),
    /// Call [`SharedQueue::expire`] after [`GATHER`]: these rows are the first of a batch.
    First,
    Queued,
}

/// Rows that are written together.
#[derive(Default)]
struct Batch {
    /// The newest of each key.
    rows: HashMap<String, Row>,
    waiting: Vec<oneshot::Sender<Result<(), StoreError>>>,
    saves: usize,
    is_urgent: bool,
    is_synced: bool,
}

#[derive(Clone)]
struct Tables {
    rows: Keyspace,
    /// Keys of unfinished transfers.
    open: Keyspace,
    /// Time and key of each last write of a finished row.
    ended: Keyspace,
}

impl RowKind {
    const ALL: [Self; 9] = [
        Self::Outbound,
        Self::Inbound,
        Self::Home,
        Self::Quote,
        Self::Request,
        Self::Requested,
        Self::SentBulk,
        Self::BulkQuote,
        Self::ReceivedBulk,
    ];

    const fn letter(self) -> char {
        match self {
            Self::Outbound => 'o',
            Self::Inbound => 'i',
            Self::Home => 'h',
            Self::Quote => 'q',
            Self::Request => 'r',
            Self::Requested => 'p',
            Self::SentBulk => 's',
            Self::BulkQuote => 'u',
            Self::ReceivedBulk => 'b',
        }
    }

    /// The key of a row.
    pub(crate) fn key(self, fsp: &str, id: &str) -> String {
        format!("{fsp}\0{}\0{id}", self.letter())
    }

    /// The DFSP and the kind in a key.
    pub(crate) fn parse(key: &str) -> Option<(&str, Self, &str)> {
        let (fsp, rest) = key.split_once('\0')?;
        let (letter, id) = rest.split_once('\0')?;
        let kind = Self::ALL.into_iter().find(|kind| letter.starts_with(kind.letter()))?;
        Some((fsp, kind, id))
    }
}

impl Store {
    /// Opens or creates the store of a directory.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(path)
            .map_err(|error| StoreError(format!("cannot create {}: {error}", path.display())))?;
        let of = |error: fjall::Error| StoreError(format!("{}: {error}", path.display()));
        let database = Database::builder(path.join("state"))
            .cache_size(CACHE_BYTES)
            .worker_threads(1)
            .open()
            .map_err(of)?;
        let entries = |name| database.keyspace(name, || buffered(ENTRIES_BUFFER_BYTES));
        // Values are outside the tables, so that a compaction does not copy them.
        let separate = || {
            let options = buffered(ROWS_BUFFER_BYTES);
            options.with_kv_separation(Some(KvSeparationOptions::default()))
        };
        let tables = Tables {
            rows: database.keyspace("rows", separate).map_err(of)?,
            open: entries("open").map_err(of)?,
            ended: entries("ended").map_err(of)?,
        };
        let queue = Arc::new(SharedQueue::default());
        let (written, named, taken) = (database.clone(), tables.clone(), Arc::clone(&queue));
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write_all(&written, &named, &taken))
            .map_err(|error| StoreError(error.to_string()))?;
        Ok(Self { database, tables, queue, thread: Some(thread) })
    }

    /// Writes rows together. An error of rows without a waiting caller is reported to a later save.
    pub(crate) async fn save(&self, rows: Vec<Row>, until: Durability) -> Result<(), StoreError> {
        let ended = || StoreError("the writer has ended".to_owned());
        self.queue.places.acquire().await.map_err(|_| ended())?.forget();
        match self.queue.push(rows, until) {
            Pushed::Waiting(written) => written.await.map_err(|_| ended())?,
            Pushed::First => {
                // Costs less than two wakes of the thread, of which a later save may need only one.
                let queue = Arc::clone(&self.queue);
                tokio::spawn(async move {
                    tokio::time::sleep(GATHER).await;
                    queue.expire();
                });
                Ok(())
            }
            Pushed::Queued => Ok(()),
        }
    }

    /// Reads a row, also one that waits.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        if let Some(value) = self.queue.get(key) {
            return Ok(Some(value));
        }
        let found = self.tables.rows.get(key).map_err(|error| StoreError(error.to_string()))?;
        Ok(found.map(|slice| slice.to_vec()))
    }

    /// Whether there is a row.
    pub(crate) fn contains(&self, key: &str) -> Result<bool, StoreError> {
        let is_waiting = self.queue.get(key).is_some();
        let found = self.tables.rows.contains_key(key);
        Ok(is_waiting || found.map_err(|error| StoreError(error.to_string()))?)
    }

    /// All unfinished rows.
    pub(crate) fn unfinished(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let of = |error: fjall::Error| StoreError(error.to_string());
        let mut rows = Vec::new();
        for entry in self.tables.open.iter() {
            let key = entry.key().map_err(of)?;
            let key = String::from_utf8_lossy(&key).into_owned();
            if let Some(value) = self.get(&key)? {
                rows.push((key, value));
            }
        }
        Ok(rows)
    }

    /// Removes rows that ended before a time. Returns their number.
    pub(crate) fn sweep(&self, before_ms: u64) -> Result<usize, StoreError> {
        let of = |error: fjall::Error| StoreError(error.to_string());
        let mut batch = self.database.batch();
        let mut count = 0;
        for entry in self.tables.ended.range(..before_ms.to_be_bytes().to_vec()).take(SWEEP_ROWS) {
            let key = entry.key().map_err(of)?;
            batch.remove(&self.tables.rows, &key[8..]);
            batch.remove(&self.tables.ended, &key[..]);
            count += 1;
        }
        batch.commit().map_err(of)?;
        Ok(count)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.queue.lock().is_closed = true;
        self.queue.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ended = thread.join();
        }
    }
}

impl Default for SharedQueue {
    fn default() -> Self {
        let places = Semaphore::new(QUEUE);
        Self { queue: Mutex::default(), wake: Condvar::new(), places }
    }
}

impl SharedQueue {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a save, which has a place.
    fn push(&self, rows: Vec<Row>, until: Durability) -> Pushed {
        let mut queue = self.lock();
        let error = if until == Durability::Queued { queue.error.take() } else { None };
        let batch = &mut queue.batch;
        let (was_empty, was_urgent) = (batch.saves == 0, batch.is_urgent);
        batch.saves += 1;
        batch.rows.extend(rows.into_iter().map(|row| (row.key.clone(), row)));
        batch.is_urgent |= until != Durability::Queued || error.is_some();
        batch.is_synced |= until == Durability::Synced;
        let (sender, receiver) = oneshot::channel();
        let is_waited_for = match error {
            Some(error) => sender.send(Err(error)).is_ok(),
            None if until == Durability::Queued => false,
            None => {
                batch.waiting.push(sender);
                true
            }
        };
        if batch.is_urgent && !was_urgent {
            self.wake.notify_one();
        }
        match (is_waited_for, was_empty) {
            (true, _) => Pushed::Waiting(receiver),
            (false, true) => Pushed::First,
            (false, false) => Pushed::Queued,
        }
    }

    /// Has rows written that have waited for long enough.
    fn expire(&self) {
        let mut queue = self.lock();
        if 0 < queue.batch.saves && !queue.batch.is_urgent {
            queue.batch.is_urgent = true;
            self.wake.notify_one();
        }
    }

    /// The newest row of a key among those that wait.
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        let queue = self.lock();
        let found = queue.batch.rows.get(key).or_else(|| queue.writing.get(key));
        found.map(|row| row.value.clone())
    }

    /// Waits for a batch; `None` when the store is dropped and nothing waits.
    fn next(&self) -> Option<(Batch, Arc<HashMap<String, Row>>)> {
        let is_calm = |queue: &mut Queue| !queue.batch.is_urgent && !queue.is_closed;
        let gathered = self.wake.wait_while(self.lock(), is_calm);
        let mut queue = gathered.unwrap_or_else(PoisonError::into_inner);
        if queue.batch.saves == 0 {
            return None;
        }
        let mut batch = std::mem::take(&mut queue.batch);
        queue.writing = Arc::new(std::mem::take(&mut batch.rows));
        Some((batch, Arc::clone(&queue.writing)))
    }

    /// Reports the result of a batch.
    fn finish(&self, batch: Batch, result: Result<(), StoreError>) {
        let mut queue = self.lock();
        queue.writing = Arc::default();
        if batch.waiting.len() < batch.saves {
            queue.error = result.clone().err().or(queue.error.take());
        }
        drop(queue);
        self.places.add_permits(batch.saves);
        for sender in batch.waiting {
            // The receiver has given up, and needs no answer.
            let _heard = sender.send(result.clone());
        }
    }
}

fn buffered(bytes: u64) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(bytes)
}

fn write_all(database: &Database, tables: &Tables, queue: &SharedQueue) {
    while let Some((batch, rows)) = queue.next() {
        let mode = if batch.is_synced { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut writes = database.batch().durability(Some(mode));
        rows.values().for_each(|row| add(&mut writes, tables, row));
        let result = writes.commit().map_err(|error| StoreError(error.to_string()));
        queue.finish(batch, result);
    }
}

fn add(batch: &mut OwnedWriteBatch, tables: &Tables, row: &Row) {
    batch.insert(&tables.rows, row.key.as_str(), row.value.as_slice());
    if row.is_open {
        batch.insert(&tables.open, row.key.as_str(), "");
        return;
    }
    batch.remove(&tables.open, row.key.as_str());
    let mut ended = row.now_ms.to_be_bytes().to_vec();
    ended.extend_from_slice(row.key.as_bytes());
    batch.insert(&tables.ended, ended, "");
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    fn row(key: &str, is_open: bool, now_ms: u64) -> Row {
        Row { key: key.to_owned(), value: key.as_bytes().to_vec(), is_open, now_ms }
    }

    #[test]
    fn unfinished_rows_survive_and_ended_ones_are_swept() {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let (open, ended) = (RowKind::Outbound.key("a", "1"), RowKind::Inbound.key("a", "2"));
        let store = Store::open(directory.path()).expect("a store");
        runtime.block_on(async {
            let both = vec![row(&open, true, 5), row(&ended, true, 5)];
            store.save(both, Durability::Synced).await.expect("saved");
            store.save(vec![row(&ended, false, 6)], Durability::Written).await.expect("saved");
        });
        drop(store);
        let store = Store::open(directory.path()).expect("a store");
        let unfinished = store.unfinished().expect("readable");
        assert_eq!(unfinished, [(open.clone(), open.as_bytes().to_vec())]);
        assert_eq!(store.sweep(6).expect("swept"), 0);
        assert!(store.get(&ended).expect("readable").is_some());
        assert_eq!(store.sweep(7).expect("swept"), 1);
        assert_eq!(store.get(&ended).expect("readable"), None);
        assert_eq!(RowKind::parse(&open), Some(("a", RowKind::Outbound, "1")));
    }

    #[test]
    fn queued_rows_are_read_at_once_and_written_before_the_end() {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let store = Store::open(directory.path()).expect("a store");
        let value = |store: &Store, key: &str| store.get(key).expect("readable");
        runtime.block_on(async {
            for number in 0..QUEUE as u64 + 100 {
                let mut row = row("k", number % 2 == 0, number);
                row.value = number.to_string().into_bytes();
                let other = Row { key: number.to_string(), ..row.clone() };
                store.save(vec![row, other], Durability::Queued).await.expect("saved");
                assert_eq!(value(&store, "k"), Some(number.to_string().into_bytes()));
            }
        });
        assert!(store.contains("0").expect("readable"));
        assert!(!store.contains("-").expect("readable"));
        drop(store);
        let store = Store::open(directory.path()).expect("a store");
        for number in 0..QUEUE as u64 + 100 {
            let key = number.to_string();
            assert_eq!(value(&store, &key), Some(key.as_bytes().to_vec()));
        }
        assert_eq!(store.unfinished().expect("readable").len(), QUEUE / 2 + 50);
    }

    #[test]
    fn error_of_queued_rows_reaches_a_later_save() {
        let queue = SharedQueue::default();
        let push = |until| queue.push(vec![row("k", true, 1)], until);
        assert!(matches!(push(Durability::Queued), Pushed::First));
        assert!(matches!(push(Durability::Queued), Pushed::Queued));
        queue.expire();
        let (batch, rows) = queue.next().expect("a batch");
        assert_eq!((batch.saves, rows.len()), (2, 1));
        queue.finish(batch, Err(StoreError("full".to_owned())));
        let Pushed::Waiting(mut reported) = push(Durability::Queued) else {
            panic!("the error is missing");
        };
        assert!(reported.try_recv().expect("it is there").is_err());
        assert!(matches!(push(Durability::Queued), Pushed::Queued), "it is reported once");
    }
}
