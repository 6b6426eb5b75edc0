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
        if checksum_of(&table.path)? != table.checksum() {
            return Err(format!("{} is not what was written", table.path.display()));
        }
    }
    Ok(())
}

/// Holds the list of tables that each keyspace of a database goes by against what stands beside its
/// number: the library looks at the number alone, and a list from before lacks rows without a word.
///
/// # Errors
/// The first list that is not the one that was written last, or cannot be read.
pub(crate) fn check_lists(database: &Path) -> Result<(), String> {
    let keyspaces = database.join("keyspaces");
    for entry in fs::read_dir(&keyspaces).map_err(|error| at(&keyspaces, &error))? {
        list_of(&entry.map_err(|error| at(&keyspaces, &error))?.path())?;
    }
    Ok(())
}

/// The first table of a database that is not what was written, or is not there at all; for one that
/// the library does not open, and does not say why.
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
    let unknown = || format!("{} does not say which tables there are", list.display());
    for (id, sum) in listed.ok_or_else(unknown)? {
        let table = directory.join("tables").join(id.to_string());
        if checksum_of(&table)?.into_u128() != sum {
            return Err(format!("{} is not what was written", table.display()));
        }
    }
    Ok(())
}

/// The list that a keyspace goes by, as it was written; none where the library will begin anew.
fn list_of(directory: &Path) -> Result<Option<PathBuf>, String> {
    let current = directory.join("current");
    let noted = match fs::read(&current) {
        // Who knows the keyspace's name misses what was in it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        noted => noted.map_err(|error| at(&current, &error))?,
    };
    let (number, sum) = number_and_sum(&noted)
        .ok_or_else(|| format!("{} is not what was written", current.display()))?;
    let list = directory.join(format!("v{number}"));
    if checksum_of(&list)?.into_u128() != sum {
        let [list, current] = [list.display(), current.display()];
        return Err(format!("{list} is not what was written, or {current} is not"));
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
    let (head, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(head)
}

/// What the file `current` of a keyspace begins with.
fn number_and_sum(noted: &[u8]) -> Option<(u64, u128)> {
    let (number, rest) = noted.split_first_chunk()?;
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
