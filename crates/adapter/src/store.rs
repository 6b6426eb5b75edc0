//! The durable state of an adapter: transfers and quotes in an embedded store.
//!
//! One thread writes. It takes all waiting writes as one batch and syncs once, so that the cost of
//! a sync is shared by all transfers that wait for it. Unfinished transfers have an entry of their
//! own, which a start reads; ended ones are removed after the configured days.

use std::path::Path;
use std::thread::JoinHandle;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, OwnedWriteBatch, PersistMode};
use tokio::sync::{mpsc, oneshot};

/// Writes that wait for the thread.
const QUEUE: usize = 4_096;
/// Largest number of writes in one batch.
const BATCH_MAX: usize = 1_024;
/// Memory for blocks that were read.
const CACHE_BYTES: u64 = 16 << 20;
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

struct Write {
    rows: Vec<Row>,
    is_synced: bool,
    done: oneshot::Sender<Result<(), StoreError>>,
}

/// The store of one process.
pub(crate) struct Store {
    database: Database,
    tables: Tables,
    sender: Option<mpsc::Sender<Write>>,
    thread: Option<JoinHandle<()>>,
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
        let keyspace = |name| database.keyspace(name, KeyspaceCreateOptions::default).map_err(of);
        let tables =
            Tables { rows: keyspace("rows")?, open: keyspace("open")?, ended: keyspace("ended")? };
        let (sender, receiver) = mpsc::channel(QUEUE);
        let (written, named) = (database.clone(), tables.clone());
        let thread = std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || write_all(&written, &named, receiver))
            .map_err(|error| StoreError(error.to_string()))?;
        Ok(Self { database, tables, sender: Some(sender), thread: Some(thread) })
    }

    /// Writes rows together. With `is_synced` they are on disk when this returns.
    pub(crate) async fn save(&self, rows: Vec<Row>, is_synced: bool) -> Result<(), StoreError> {
        let (done, written) = oneshot::channel();
        let ended = || StoreError("the writer has ended".to_owned());
        let sender = self.sender.as_ref().ok_or_else(ended)?;
        sender.send(Write { rows, is_synced, done }).await.map_err(|_| ended())?;
        written.await.map_err(|_| ended())?
    }

    /// Reads a row.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.tables.rows.get(key).map_err(|error| StoreError(error.to_string()))?;
        Ok(found.map(|slice| slice.to_vec()))
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
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was reported when it happened.
            let _ended = thread.join();
        }
    }
}

fn write_all(database: &Database, tables: &Tables, mut receiver: mpsc::Receiver<Write>) {
    let mut writes = Vec::new();
    while 0 < receiver.blocking_recv_many(&mut writes, BATCH_MAX) {
        let mut batch = database.batch();
        writes.iter().flat_map(|write| &write.rows).for_each(|row| add(&mut batch, tables, row));
        let is_synced = writes.iter().any(|write| write.is_synced);
        let mut result = batch.commit();
        if is_synced {
            result = result.and_then(|()| database.persist(PersistMode::SyncAll));
        }
        let result = result.map_err(|error| StoreError(error.to_string()));
        for write in writes.drain(..) {
            // The receiver has given up, and needs no answer.
            let _heard = write.done.send(result.clone());
        }
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
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        let (open, ended) = (RowKind::Outbound.key("a", "1"), RowKind::Inbound.key("a", "2"));
        let store = Store::open(directory.path()).expect("a store");
        runtime.block_on(async {
            store.save(vec![row(&open, true, 5), row(&ended, true, 5)], true).await.expect("saved");
            store.save(vec![row(&ended, false, 6)], false).await.expect("saved");
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
}
