//! Orderly shutdown of a database: flushes memtables to tables and empties the journals.
//!
//! The next opening then reads no journal. That takes half a second for a journal of maximum size,
//! and is most of the time of a query to a store that is not open.
//!
//! # Promises
//! - Journals are emptied only when no keyspace has unflushed data and the library has released its
//!   lock. An empty journal is also the library's initial state.
//! - If the flush times out or fails, nothing is changed: the next opening is slow but correct.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use fjall::Keyspace;

/// How long shutdown waits for memtables to be flushed, about 30 MB at most.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Flushes the memtables of keyspaces without a writer. Returns false if the flush failed or timed
/// out.
pub(crate) fn flush(keyspaces: &[&Keyspace]) -> bool {
    let is_sealed = keyspaces.iter().all(|keyspace| keyspace.rotate_memtable().is_ok());
    let waits = || keyspaces.iter().any(|keyspace| 0 < keyspace.sealed_memtable_count());
    let started = Instant::now();
    while is_sealed && waits() && started.elapsed() < FLUSH_TIMEOUT {
        thread::sleep(POLL_INTERVAL);
    }
    is_sealed && !waits()
}

/// The journals of a database. Dropped after the database is.
#[derive(Debug)]
pub(crate) struct Journals {
    /// Directory of the database.
    pub(crate) database: PathBuf,
    /// Whether the tables hold everything in the journals.
    pub(crate) flushed: bool,
}

impl Journals {
    fn empty(&self) -> io::Result<()> {
        let lock = File::open(self.database.join("lock"))?;
        lock.try_lock()?;
        for entry in fs::read_dir(&self.database)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "jnl") {
                OpenOptions::new().write(true).open(path)?.set_len(0)?;
            }
        }
        Ok(())
    }
}

impl Drop for Journals {
    fn drop(&mut self) {
        if self.flushed {
            // The next opening reads the remaining journals.
            let _emptied = self.empty();
        }
    }
}
