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

/// How long the end waits for the tables to be written: some 30 MB at most.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Writes what the keyspaces have in memory, to which nobody adds any more, into tables. False
/// when that is not known to be done.
pub(crate) fn flush(keyspaces: &[&Keyspace]) -> bool {
    let is_sealed = keyspaces.iter().all(|keyspace| keyspace.rotate_memtable().is_ok());
    let waits = || keyspaces.iter().any(|keyspace| 0 < keyspace.sealed_memtable_count());
    let started = Instant::now();
    while is_sealed && waits() && started.elapsed() < PATIENCE {
        thread::sleep(LOOK_EVERY);
    }
    is_sealed && !waits()
}

/// The journals of a database. Dropped after the database is.
#[derive(Debug)]
pub(crate) struct Journals {
    /// Where the database is.
    pub(crate) database: PathBuf,
    /// Whether tables hold all that they hold.
    pub(crate) needless: bool,
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
        if self.needless {
            // What is left is read by the next opening.
            let _emptied = self.empty();
        }
    }
}
