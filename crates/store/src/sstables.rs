//! A snapshot of a keyspace's SSTables that is read without the library, which blocks reads while
//! it syncs and registers a new table.
//!
//! The order is the library's: if two tables have a key, the first one read has the newer value.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use fjall::{AbstractTree, Keyspace, SeqNo, Slice};
use lsm_tree::checksum::ChecksummedWriter;
use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::{Checksum, Table};

/// A snapshot of the tables.
pub(crate) struct Tables {
    /// The library's version number of this set of tables.
    version: u64,
    /// Tables of a run have disjoint keys. They are sorted by last key, which is stored with each.
    runs: Vec<Vec<(Slice, Table)>>,
}

/// The hash of a key in the library's filters.
pub(crate) fn hash(key: &[u8]) -> u64 {
    Builder::get_hash(key)
}

/// Reads every table of a keyspace and compares its checksum with the one that the library recorded
/// when it wrote the table. The library's own checksums cover single blocks: they do not detect a
/// block at a wrong place, whose rows would count as new.
///
/// # Errors
/// The first table that is corrupt or unreadable.
pub(crate) fn check(keyspace: &Keyspace) -> Result<(), String> {
    for table in keyspace.tree.current_version().iter_tables() {
        if checksum_of(&table.path)? != table.checksum() {
            return Err(format!("{} is corrupt", table.path.display()));
        }
    }
    Ok(())
}

/// Checks the current table list of each keyspace against its recorded checksum. The library
/// compares only its number, so an older list would silently lack rows.
///
/// # Errors
/// The first list that is not the current one or is unreadable.
pub(crate) fn check_lists(database: &Path) -> Result<(), String> {
    let keyspaces = database.join("keyspaces");
    for entry in fs::read_dir(&keyspaces).map_err(|error| at(&keyspaces, &error))? {
        list_of(&entry.map_err(|error| at(&keyspaces, &error))?.path())?;
    }
    Ok(())
}

/// The first corrupt or missing table of a database. For databases that the library refuses to open
/// without naming a file.
pub(crate) fn first_broken(database: &Path) -> Option<String> {
    let mut keyspaces: Vec<_> = fs::read_dir(database.join("keyspaces")).ok()?.flatten().collect();
    keyspaces.sort_by_key(fs::DirEntry::file_name);
    keyspaces.iter().find_map(|entry| check_listed(&entry.path()).err())
}

fn check_listed(directory: &Path) -> Result<(), String> {
    let Some(list) = list_of(directory)? else { return Ok(()) };
    let section = sfa::Reader::new(&list).ok().and_then(|reader| {
        let mut bytes = Vec::new();
        let section = reader.toc().section(b"tables")?;
        section.buf_reader(&list).ok()?.read_to_end(&mut bytes).ok()?;
        Some(bytes)
    });
    let listed = section.and_then(|bytes| listed_tables(&bytes));
    let unknown = || format!("{}: the list of tables is malformed", list.display());
    for (id, sum) in listed.ok_or_else(unknown)? {
        let table = directory.join("tables").join(id.to_string());
        if checksum_of(&table)?.into_u128() != sum {
            return Err(format!("{} is corrupt", table.display()));
        }
    }
    Ok(())
}

/// The current table list of a keyspace, verified. `None` if the library will recreate the
/// keyspace.
fn list_of(directory: &Path) -> Result<Option<PathBuf>, String> {
    let current = directory.join("current");
    let pointer = match fs::read(&current) {
        // `Opened::check_names` then reports the keyspace as lost.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        pointer => pointer.map_err(|error| at(&current, &error))?,
    };
    let (number, sum) =
        number_and_sum(&pointer).ok_or_else(|| format!("{} is corrupt", current.display()))?;
    let list = directory.join(format!("v{number}"));
    if checksum_of(&list)?.into_u128() != sum {
        let [list, current] = [list.display(), current.display()];
        return Err(format!("{list} or {current} is corrupt"));
    }
    Ok(Some(list))
}

/// Number and checksum of each table in a list: levels of runs of tables.
fn listed_tables(mut rest: &[u8]) -> Option<Vec<(u64, u128)>> {
    let mut tables = Vec::new();
    for _ in 0..*rest.split_off_first()? {
        for _ in 0..*rest.split_off_first()? {
            let count = u32::from_le_bytes(*take(&mut rest)?);
            for _ in 0..count {
                let id = u64::from_le_bytes(*take(&mut rest)?);
                let _kind = rest.split_off_first()?;
                let sum = u128::from_le_bytes(*take(&mut rest)?);
                let _sequence = take::<8>(&mut rest)?;
                tables.push((id, sum));
            }
        }
    }
    rest.is_empty().then_some(tables)
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, tail) = rest.split_first_chunk()?;
    *rest = tail;
    Some(head)
}

/// The number and checksum at the start of a keyspace's file `current`.
fn number_and_sum(pointer: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = pointer.split_first_chunk()?;
    let sum = rest.first_chunk()?;
    Some((u64::from_le_bytes(*number), u128::from_le_bytes(*sum)))
}

/// The library's checksum of a whole file.
fn checksum_of(path: &Path) -> Result<Checksum, String> {
    let mut sum = ChecksummedWriter::new(io::sink());
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut sum));
    read.map_err(|error| at(path, &error))?;
    Ok(sum.checksum())
}

fn at(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Tables {
    /// The current tables.
    pub(crate) fn of(keyspace: &Keyspace) -> Self {
        let version = keyspace.tree.current_version();
        let last = |table: &Table| (table.metadata.key_range.max().clone(), table.clone());
        let levels = version.iter_levels().flat_map(|level| level.iter());
        let runs = levels.map(|run| run.iter().map(last).collect()).collect();
        Self { version: version.id(), runs }
    }

    /// Whether these are still the current tables.
    pub(crate) fn are_those_of(&self, keyspace: &Keyspace) -> bool {
        keyspace.tree.current_version().id() == self.version
    }

    /// The value of a key. Correct only for keyspaces from which nothing is ever removed.
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
