//! The end of a database: what it has in memory goes into tables, and its journals are emptied.
//!
//! Whoever opens it next then reads no journal, which takes half a second for what the library
//! lets one grow to, and is most of what a question to a store that nobody has open costs.
//!
//! # Promises
//! - Journals are emptied only when every keyspace has said that nothing of it is in memory alone,
//!   and the library has let go of its lock. An empty journal is what the library itself begins.
//! - Where that does not come about in time, or fails, everything stays as it is: the next opening
//!   is slow, and no less right.

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
