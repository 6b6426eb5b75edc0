//! A store on disk that cannot be used is emptied, with the reason. The write-behind queue hides no
//! error.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ledger::{Decision, FinalTransfer, LogIndex, NoticeId, TransferId};
use ports::{ColdReader, ColdStore, PartyRow, StoreError, StoreMark, WaitFor, WriteBatch};
use record::frame::LogIdentity;
use store::contract::{sample_id, sample_row, write_batch};
use store::{Disk, Memory, StoreOptions, WriteBehind};
use tempfile::TempDir;

const IDENTITY: LogIdentity = LogIdentity([3; 16]);

/// A store with a thousand rows, closed.
fn written() -> (TempDir, PathBuf) {
    let above = TempDir::new().expect("a temporary directory");
    let path = above.path().join("data").join("store");
    let (store, reason) = open(&path, IDENTITY);
    assert_eq!(reason, None, "a new store has no reason");
    let rows = (0..1_000).map(|number| sample_row(number, 10)).collect();
    store.write(&write_batch(rows, 10)).expect("it writes");
    (above, path)
}

fn open(path: &Path, identity: LogIdentity) -> (Disk, Option<String>) {
    Disk::open(path, identity, StoreOptions::default()).expect("it opens or creates a new store")
}

/// After `harm` the store is empty, and the reason contains `word`.
#[track_caller]
fn check_harm(harm: impl FnOnce(&Path), identity: LogIdentity, word: &str) {
    let (_above, path) = written();
    harm(&path);
    let (store, reason) = open(&path, identity);
    let reason = reason.expect("there is a reason");
    assert!(reason.contains(word), "{reason}");
    assert_eq!(store.mark(), StoreMark::default());
    assert_eq!(store.read(&sample_id(1), LogIndex(u64::MAX)), Ok(None));
    store.write(&write_batch(vec![sample_row(1, 10)], 10)).expect("it works again");
    drop(store);
    assert_eq!(open(&path, identity).1, None, "and stays sound");
}

#[test]
fn a_sound_store_is_private_and_kept() {
    let (_above, path) = written();
    let mode = fs::metadata(&path).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    let (store, reason) = open(&path, IDENTITY);
    assert_eq!((reason, store.mark().log_index), (None, LogIndex(10)));
    assert_eq!(store.read(&sample_id(7), LogIndex(10)), Ok(Some(sample_row(7, 10))));
    assert!(0 < store.bytes());
}

/// A store that was written to is closed with tables and empty journals. A query leaves it
/// unchanged.
#[test]
fn closing_flushes_to_tables_and_empties_the_journals() {
    let (_above, path) = written();
    assert_eq!(journals(&path), [0]);
    let (store, _) = open(&path, IDENTITY);
    let rows = (1_000..2_000).map(|number| sample_row(number, 20)).collect();
    store.write(&write_batch(rows, 20)).expect("it writes");
    assert!(0 < journals(&path)[0]);
    drop(store);
    for _ in 0..2 {
        assert_eq!(journals(&path), [0]);
        let asked = Disk::open_for_queries(&path, IDENTITY).expect("it opens");
        assert_eq!(asked.mark().log_index, LogIndex(20));
        for number in [0, 999, 1_000, 1_999] {
            let at = if number < 1_000 { 10 } else { 20 };
            let row = asked.read(&sample_id(number), LogIndex(u64::MAX));
            assert_eq!(row, Ok(Some(sample_row(number, at))));
        }
    }
}

/// A store whose process was killed still has its journal and loses nothing.
#[test]
fn a_store_that_was_never_closed_is_whole() {
    let (_above, path) = written();
    let copy = path.with_file_name("copy");
    let (store, _) = open(&path, IDENTITY);
    store.write(&write_batch(vec![sample_row(1_000, 20)], 20)).expect("it writes");
    copy_all(&path, &copy);
    drop(store);
    assert!(0 < journals(&copy)[0]);
    let (store, reason) = open(&copy, IDENTITY);
    assert_eq!((reason, store.mark().log_index), (None, LogIndex(20)));
    let row = store.read(&sample_id(1_000), LogIndex(u64::MAX));
    assert_eq!(row, Ok(Some(sample_row(1_000, 20))));
}

/// Lengths of the journals of the library.
fn journals(path: &Path) -> Vec<u64> {
    let entries = fs::read_dir(path.join("rows")).expect("it is there").map(Result::unwrap);
    let journals = entries.filter(|entry| entry.path().extension().is_some_and(|it| it == "jnl"));
    journals.map(|journal| journal.metadata().expect("it is there").len()).collect()
}

/// Opening for queries neither creates nor empties a store.
#[test]
fn opening_for_queries_leaves_a_store_unchanged() {
    let (above, path) = written();
    let none = Disk::open_for_queries(&above.path().join("none"), IDENTITY);
    assert_eq!(none.err().as_deref(), Some("it does not exist"));
    assert!(!above.path().join("none").exists());
    let other = Disk::open_for_queries(&path, LogIdentity([4; 16]));
    assert!(other.expect_err("it is refused").contains("another log"));
    assert_eq!(open(&path, IDENTITY).1, None, "and it is all there");
}

#[test]
fn a_store_of_another_log_is_emptied() {
    check_harm(|_| (), LogIdentity([4; 16]), "another log");
}

#[test]
fn a_store_that_was_found_damaged_is_emptied() {
    let harm = |path: &Path| fs::write(path.join("damaged"), "").expect("it is written");
    check_harm(harm, IDENTITY, "damaged");
}

#[test]
fn a_store_that_does_not_open_is_emptied() {
    let harm = |path: &Path| {
        for entry in fs::read_dir(path.join("rows")).expect("it is there") {
            let entry = entry.expect("it is listed");
            if entry.file_type().expect("it has a type").is_file() {
                fs::write(entry.path(), b"not what was written").expect("it is overwritten");
            }
        }
    };
    check_harm(harm, IDENTITY, "cannot be opened");
}

/// The directory of a keyspace. From 1: transfers, parties, about, decisions, deliveries, traces,
/// settlements.
fn keyspace(path: &Path, number: usize) -> PathBuf {
    path.join("rows/keyspaces").join(number.to_string())
}

/// The library silently recreates such a keyspace.
#[test]
fn a_store_that_lost_a_keyspace_is_emptied() {
    let word = |number| if number == 3 { "no log identity" } else { "lost" };
    for number in 1..=7 {
        let current =
            |path: &Path| fs::remove_file(keyspace(path, number).join("current")).expect("removed");
        check_harm(current, IDENTITY, word(number));
        let all = |path: &Path| fs::remove_dir_all(keyspace(path, number)).expect("removed");
        check_harm(all, IDENTITY, "");
    }
}

#[test]
fn a_store_with_a_keyspace_in_the_place_of_another_is_emptied() {
    for (from, to) in [(2, 1), (1, 2), (4, 5), (6, 1), (1, 6), (7, 1), (1, 3)] {
        let word = if to == 3 { "no log identity" } else { "is another one" };
        let doubled = |path: &Path| {
            fs::remove_dir_all(keyspace(path, to)).expect("it is removed");
            copy_all(&keyspace(path, from), &keyspace(path, to));
        };
        check_harm(doubled, IDENTITY, word);
        let exchanged = |path: &Path| {
            let aside = path.join("aside");
            for (one, other) in [
                (keyspace(path, from), aside.clone()),
                (keyspace(path, to), keyspace(path, from)),
                (aside, keyspace(path, to)),
            ] {
                fs::rename(one, other).expect("it is renamed");
            }
        };
        check_harm(exchanged, IDENTITY, "");
    }
}

/// The tables of a keyspace.
fn tables(path: &Path, number: usize) -> Vec<PathBuf> {
    let entries = fs::read_dir(keyspace(path, number).join("tables")).expect("it is there");
    entries.map(|entry| entry.expect("it is listed").path()).collect()
}

/// Each block of a table has a checksum, which does not cover its place.
#[test]
fn a_store_with_a_changed_table_is_emptied() {
    for number in 1..=3 {
        let change = |change: &dyn Fn(&mut [u8])| {
            let harm = |path: &Path| {
                for table in tables(path, number) {
                    let mut bytes = fs::read(&table).expect("it is read");
                    change(&mut bytes);
                    fs::write(&table, bytes).expect("it is written");
                }
            };
            check_harm(harm, IDENTITY, &format!("keyspaces/{number}/tables/"));
        };
        change(&|bytes| bytes[0] ^= 1);
        change(&|bytes| bytes[..64].rotate_left(32));
        change(&|bytes| bytes[64..128].fill(7));
    }
    let misdirected = |path: &Path| {
        let [of_transfers, of_parties] = [1, 2].map(|number| tables(path, number).remove(0));
        fs::copy(of_parties, of_transfers).expect("it is copied");
    };
    check_harm(misdirected, IDENTITY, "its keyspace transfers");
}

/// The library's error names no file; the reason does.
#[test]
fn a_store_with_a_missing_or_truncated_table_is_emptied() {
    for number in 1..=3 {
        let word = format!("keyspaces/{number}/tables/");
        let gone = |path: &Path| fs::remove_file(&tables(path, number)[0]).expect("it is removed");
        check_harm(gone, IDENTITY, &word);
        for (part, whole) in [(0, 1), (1, 3), (99, 100)] {
            let cut = |path: &Path| {
                let table = &tables(path, number)[0];
                let bytes = fs::read(table).expect("it is read");
                let left = bytes.len() * part / whole;
                fs::write(table, &bytes[..left]).expect("it is written");
            };
            check_harm(cut, IDENTITY, &word);
        }
        let doubled = |path: &Path| {
            let table = &tables(path, number)[0];
            let bytes = fs::read(table).expect("it is read");
            fs::write(table, bytes.repeat(2)).expect("it is written");
        };
        check_harm(doubled, IDENTITY, &word);
    }
}

/// `current` names the table list of a keyspace, and older lists may still exist. No flipped bit in
/// it hides a row.
#[test]
fn a_store_that_points_to_another_table_list_is_emptied() {
    let (_above, path) = written();
    for round in 1..4 {
        let store = open(&path, IDENTITY).0;
        let (first, log_index) = (1_000 * round, 10 + u64::from(round));
        let rows = (first..first + 1_000).map(|number| sample_row(number, log_index)).collect();
        store.write(&write_batch(rows, log_index)).expect("it writes");
    }
    let pointer = fs::read(keyspace(&path, 1).join("current")).expect("it is read");
    let mut emptied = 0;
    // All bits of the list's number, which may then name an older list; then one bit of each byte.
    for bit in (0..8).chain((8..8 * pointer.len()).step_by(8)) {
        let copy = TempDir::new().expect("a directory");
        let copied = copy.path().join("store");
        copy_all(&path, &copied);
        let mut changed = pointer.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        fs::write(keyspace(&copied, 1).join("current"), changed).expect("it is written");
        let (store, reason) = open(&copied, IDENTITY);
        if let Some(reason) = reason {
            assert!(reason.contains("/keyspaces/1/"), "bit {bit}: {reason}");
            emptied += 1;
            continue;
        }
        let mut ids: Vec<TransferId> = (0..4_000).map(sample_id).collect();
        store.drop_absent(&mut ids).expect("it looks");
        assert_eq!(ids.len(), 4_000, "bit {bit}");
    }
    // The last byte, the kind of the checksum, is ignored.
    assert_eq!(emptied, 8 + 23);
}

/// Two blocks of the same length are exchanged, which the library does not notice.
#[test]
fn a_store_with_two_exchanged_blocks_is_emptied() {
    let (_above, path) = written();
    let [table] = &tables(&path, 1)[..] else { panic!("one table") };
    let sound = fs::read(table).expect("it is read");
    let begins = |at: &usize| sound[*at..].starts_with(b"LSM\x03");
    let starts: Vec<usize> = (0..sound.len()).filter(begins).collect();
    let blocks: Vec<_> = starts.windows(2).map(|ends| ends[0]..ends[1]).collect();
    let pairs = (1..blocks.len()).flat_map(|at| (1..at).map(move |before| (before, at)));
    let mut equal = pairs.filter(|(one, other)| blocks[*one].len() == blocks[*other].len());
    let (one, other) = equal.next().expect("two of one length");
    let mut exchanged = sound.clone();
    exchanged[blocks[one].clone()].copy_from_slice(&sound[blocks[other].clone()]);
    exchanged[blocks[other].clone()].copy_from_slice(&sound[blocks[one].clone()]);
    assert!(exchanged != sound);
    fs::write(table, exchanged).expect("it is written");
    let reason = open(&path, IDENTITY).1.expect("there is a reason");
    assert!(reason.contains("is corrupt"), "{reason}");
}

/// Formats up to 6 have identifiers of parties in their keys.
#[test]
fn a_store_of_an_older_format_is_emptied() {
    for format in 2..=6_u8 {
        let make_older = |path: &Path| {
            let database = fjall::Database::builder(path.join("rows")).open().expect("it opens");
            let about = database.keyspace("about", Default::default).expect("it is there");
            about.insert("identity", [&[format][..], &IDENTITY.0[..]].concat()).expect("it writes");
        };
        check_harm(make_older, IDENTITY, &format!("it has format {format}, not 7"));
    }
}

/// A power failure can leave an empty journal. Its rows are written again from the log.
#[test]
fn an_emptied_journal_loses_only_the_newest_rows() {
    let (above, path) = written();
    let (store, _) = open(&path, IDENTITY);
    store.write(&write_batch(vec![sample_row(7_000, 20)], 20)).expect("it writes");
    let copy = above.path().join("copy");
    copy_all(&path, &copy);
    drop(store);
    let rows = fs::read_dir(copy.join("rows")).expect("it is there");
    let paths = rows.map(|entry| entry.expect("it is listed").path());
    let journals: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|it| it == "jnl")).collect();
    assert!(!journals.is_empty(), "what was written last is in a journal");
    for journal in journals {
        fs::write(journal, b"").expect("it is cut");
    }
    let (store, reason) = open(&copy, IDENTITY);
    assert_eq!((reason, store.mark().log_index), (None, LogIndex(10)));
    assert_eq!(store.read(&sample_id(999), LogIndex(30)), Ok(Some(sample_row(999, 10))));
    assert_eq!(store.read(&sample_id(7_000), LogIndex(30)), Ok(None));
}

/// Copies a directory of an open database, again if its background work deletes a file meanwhile.
fn copy_all(from: &Path, to: &Path) {
    while let Err(error) = try_copy(from, to) {
        assert_eq!(error.kind(), std::io::ErrorKind::NotFound, "{error}");
        fs::remove_dir_all(to).expect("it was begun");
    }
}

fn try_copy(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => try_copy(&entry.path(), &to)?,
            false => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

#[test]
fn offered_rows_become_visible_in_order() {
    let store = Arc::new(Memory::default());
    let mut write_behind = WriteBehind::start(Arc::clone(&store) as _).expect("a thread starts");
    for number in 1..=300u32 {
        let changed = u64::from(number);
        let mut one = write_batch(vec![sample_row(number, changed)], changed);
        while !write_behind.offer(&mut one) {
            write_behind.wait(WaitFor::Room).expect("it writes");
        }
        assert!(one.rows.is_empty(), "accepted rows are moved out");
        let visible = write_behind.visible();
        assert!(visible <= LogIndex(changed));
        for known in 1..=u32::try_from(visible.0).expect("a small number") {
            let found = write_behind.read(&sample_id(known), visible).expect("it reads");
            assert_eq!(found, Some(sample_row(known, u64::from(known))));
        }
    }
    write_behind.wait(WaitFor::Visible).expect("it writes");
    assert_eq!((write_behind.visible(), store.mark().log_index), (LogIndex(300), LogIndex(300)));
}

#[test]
fn offered_rows_are_written_before_the_queue_is_closed() {
    let store = Arc::new(Memory::default());
    let mut write_behind = WriteBehind::start(Arc::clone(&store) as _).expect("a thread starts");
    assert!(write_behind.offer(&mut write_batch(vec![sample_row(1, 5)], 7)));
    drop(write_behind);
    assert_eq!(store.mark().log_index, LogIndex(7));
}

/// A store that refuses with this error from the second batch on until it is mended.
#[derive(Debug)]
struct Failing(Memory, StoreError, AtomicBool);

impl Failing {
    fn with(error: StoreError) -> Self {
        Self(Memory::default(), error, AtomicBool::new(false))
    }
}

impl ColdStore for Failing {
    fn mark(&self) -> StoreMark {
        self.0.mark()
    }

    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        self.0.read(id, at)
    }

    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        self.0.party(key)
    }

    fn decisions(&self, _: &TransferId) -> Result<Vec<Decision>, StoreError> {
        Ok(Vec::new())
    }

    fn delivery_records(&self, _: NoticeId) -> Result<Vec<LogIndex>, StoreError> {
        Ok(Vec::new())
    }

    fn settlements(
        &self,
        _: ledger::ArchiveKind,
        _: std::ops::RangeInclusive<u32>,
        _: usize,
    ) -> Result<Vec<ledger::ArchivedSettlement>, StoreError> {
        Ok(Vec::new())
    }

    fn transfers(&self, _: &ports::TransferQuery) -> Result<ports::TransferPage, StoreError> {
        Ok(ports::TransferPage::default())
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        match self.mark().log_index {
            LogIndex(0) => self.0.write(batch),
            _ if self.2.load(Ordering::Relaxed) => self.0.write(batch),
            _ => Err(self.1.clone()),
        }
    }

    fn mend(&self) -> Result<(), StoreError> {
        match self.2.load(Ordering::Relaxed) {
            true => Ok(()),
            false => Err(self.1.clone()),
        }
    }

    fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }

    fn bytes(&self) -> u64 {
        0
    }
}

#[test]
fn after_damage_nothing_is_accepted_and_waiting_callers_get_the_error() {
    let error = StoreError::Damaged("rot".into());
    let store = Failing::with(error.clone());
    let mut write_behind = WriteBehind::start(Arc::new(store)).expect("a thread starts");
    assert!(write_behind.offer(&mut write_batch(vec![sample_row(1, 5)], 7)));
    write_behind.wait(WaitFor::Visible).expect("the first is written");
    assert!(write_behind.offer(&mut write_batch(vec![sample_row(2, 8)], 8)));
    let expected = Err(error);
    assert_eq!(write_behind.wait(WaitFor::Visible), expected);
    let mut third = write_batch(vec![sample_row(3, 9)], 9);
    assert!(!write_behind.offer(&mut third));
    assert_eq!((third.rows.len(), write_behind.wait(WaitFor::Room)), (1, expected));
    assert_eq!(write_behind.visible(), LogIndex(7));
    assert_eq!(write_behind.read(&sample_id(1), LogIndex(9)), Ok(Some(sample_row(1, 5))));
}

#[test]
fn failed_writes_are_retried_until_they_succeed() {
    let error = StoreError::Failed("no room".into());
    let store = Arc::new(Failing::with(error.clone()));
    let mut write_behind = WriteBehind::start(Arc::clone(&store) as _).expect("a thread starts");
    assert!(write_behind.offer(&mut write_batch(vec![sample_row(1, 5)], 7)));
    write_behind.wait(WaitFor::Visible).expect("the first is written");
    assert!(write_behind.offer(&mut write_batch(vec![sample_row(2, 8)], 8)));
    assert_eq!(write_behind.wait(WaitFor::Visible), Err(error));
    assert!(
        write_behind.offer(&mut write_batch(vec![sample_row(3, 9)], 9)),
        "there is room in the queue"
    );
    assert_eq!(write_behind.visible(), LogIndex(7));

    store.2.store(true, Ordering::Relaxed);
    write_behind.wait(WaitFor::Mended).expect("it is retried");
    write_behind.wait(WaitFor::Visible).expect("it writes");
    assert_eq!((write_behind.visible(), store.mark().log_index), (LogIndex(9), LogIndex(9)));
    for (number, changed) in [(2, 8), (3, 9)] {
        let row = sample_row(number, changed);
        assert_eq!(write_behind.read(&sample_id(number), LogIndex(9)), Ok(Some(row)));
    }
}

#[test]
fn bytes_below_a_directory_are_counted() {
    let place = tempfile::tempdir().expect("it works");
    std::fs::create_dir_all(place.path().join("a/b")).expect("it works");
    std::fs::write(place.path().join("a/b/c"), [1; 100_000]).expect("it works");
    std::fs::write(place.path().join("d"), [1; 50_000]).expect("it works");
    assert!((150_000..200_000).contains(&store::bytes_below(place.path())));
    assert_eq!(store::bytes_below(&place.path().join("none")), 0);
}
