//! The tables of a keyspace as they were at one moment, asked beside the library: it lets nobody
//! ask it while it syncs a new one and names it among the others.
//!
//! The order is the library's: of two tables that have a key, the one that is asked first has the
//! newer value.

use std::fs::File;
use std::io;

use fjall::{AbstractTree, Keyspace, SeqNo, Slice};
use lsm_tree::Table;
use lsm_tree::checksum::ChecksummedWriter;
use lsm_tree::table::filter::standard_bloom::Builder;

/// The tables.
pub(crate) struct Tables {
    /// The library's number of this set of tables.
    version: u64,
    /// Within a run no two tables have a key in common; each with its last key, by that.
    runs: Vec<Vec<(Slice, Table)>>,
}

/// The hash by which filters know a key.
pub(crate) fn hash(key: &[u8]) -> u64 {
    Builder::get_hash(key)
}

/// Reads every table of a keyspace, and holds it against what the library noted when it was
/// written. Its own checksums are of blocks alone: they do not notice one that stands in another's
/// place, and what is not found there would count as new.
///
/// # Errors
/// The first file that is not what was written, or cannot be read.
pub(crate) fn check(keyspace: &Keyspace) -> Result<(), String> {
    for table in keyspace.tree.current_version().iter_tables() {
        let path = table.path.display();
        let mut sum = ChecksummedWriter::new(io::sink());
        let read = File::open(&*table.path).and_then(|mut file| io::copy(&mut file, &mut sum));
        read.map_err(|error| format!("{path}: {error}"))?;
        if sum.checksum() != table.checksum() {
            return Err(format!("{path} is not what was written"));
        }
    }
    Ok(())
}

impl Tables {
    /// Those that there are now.
    pub(crate) fn of(keyspace: &Keyspace) -> Self {
        let version = keyspace.tree.current_version();
        let last = |table: &Table| (table.metadata.key_range.max().clone(), table.clone());
        let levels = version.iter_levels().flat_map(|level| level.iter());
        let runs = levels.map(|run| run.iter().map(last).collect()).collect();
        Self { version: version.id(), runs }
    }

    /// Whether the library has no others by now.
    pub(crate) fn are_those_of(&self, keyspace: &Keyspace) -> bool {
        keyspace.tree.current_version().id() == self.version
    }

    /// The value of a key. Nothing is ever removed from what is asked here.
    pub(crate) fn find(&self, key: &[u8], hash: u64) -> Result<Option<Slice>, fjall::Error> {
        for run in &self.runs {
            let at = run.partition_point(|(last, _)| **last < *key);
            let table = run.get(at).map(|(_, table)| table);
            let table = table.filter(|table| **table.metadata.key_range.min() <= *key);
            let found = table.map(|table| table.get(key, SeqNo::MAX, hash)).transpose()?;
            if let Some(found) = found.flatten() {
                return Ok(Some(found.value));
            }
        }
        Ok(None)
    }
}
