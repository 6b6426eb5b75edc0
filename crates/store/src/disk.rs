//! A store on disk: seven keyspaces of one fjall database.
//!
//! `transfers` holds the rows by id, `parties` the directory, `settlements` windows and
//! settlements, `about` the identity of the log and the mark; the others hold what is told ([`crate::told`]). One portion is one atomic batch over
//! all of them. Nothing is synced here: the database
//! hands its journal to the operating system with each batch, so that the end of the process loses
//! nothing and a loss of power the newest batches. Who wrote to it leaves no journal behind
//! ([`crate::closing`]).
//!
//! A directory holds the database and, after something was found damaged, a file that says so:
//! the next start begins anew.
//!
//! After a write that failed the library takes no other, until the database is opened again.
//! [`Disk`] does so when there is room ([`ColdStore::mend`]): what it showed is in the journal, and
//! is there again. Until then it answers from what it has.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use fjall::config::PinningPolicy;
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch};
use ledger::{
    ArchiveKind, ArchivedSettlement, Decision, Digest, FinalTransfer, LogIndex, NoticeId,
    TransferId,
};
use ports::{ColdStore, PartyRow, StoreError, StoreMark, WriteBatch};
use record::cold_rows;
use record::frame::LogIdentity;

use crate::decisions::DecisionKeyspaces;
use crate::low_priority::behind;
use crate::memory::{damaged, entries_after, party_row, party_value};
use crate::memtable_filter::{Library, Look, MemtableFilter, Writing};
use crate::shutdown::{Journals, flush};
use crate::sstables::{self, Tables};

/// The database, within the store's directory.
const DATABASE: &str = "rows";
/// What is written beside it when it is found damaged.
const DAMAGED: &str = "damaged";

/// Version of the whole: of the keyspaces, their keys, and what `about` holds.
const FORMAT: u8 = 4;
/// The same without `settlements`: of logs that have none, so that it is added when a store of
/// this form is opened.
const FORMAT_WITHOUT_SETTLEMENTS: u8 = 3;
const FORMATS: [u8; 2] = [FORMAT_WITHOUT_SETTLEMENTS, FORMAT];
/// Bytes of a write buffer for transfers, and for each of the others. Up to four more of each wait
/// to be flushed; beyond them the writer waits.
const TRANSFERS_BUFFER: u64 = 8 << 20;
const OTHER_BUFFER: u64 = 4 << 20;
/// Bytes of a write buffer at most, where the library has no time to begin the next one.
const BUFFER_MAX: u64 = 16 << 20;
/// Bytes of the database's own journal, at most, before write buffers are flushed.
pub const JOURNAL: u64 = 64 << 20;
/// Threads that flush and compact. With more of them the library keeps the first one free for
/// flushes, by passing compactions on to itself in a loop: that takes a core. One is slower when
/// much is written at once, which delays nobody but the writer.
const WORKERS: usize = 1;

/// The key, before all others, under which each keyspace but `about` says which one it is of which
/// log: one that lost its files is begun anew by the library without a word.
const NAME_KEY: [u8; 1] = [0];
/// Name of a keyspace.
const SETTLEMENTS: &str = "settlements";
const IDENTITY_KEY: &str = "identity";
const MARK_KEY: &str = "mark";

/// How a store on disk is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes of the cache for blocks, indexes and filters.
    pub cache_bytes: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { cache_bytes: 32 << 20 }
    }
}

/// Room that is waited for before the database is opened again: its first flush needs as much.
const ROOM: u64 = 16 << 20;
/// What is written to learn whether the disk takes anything.
const PROBE: &str = "probe";

/// A store on disk.
pub struct Disk {
    path: PathBuf,
    identity: LogIdentity,
    options: Options,
    mark: RwLock<StoreMark>,
    /// Whether the last write failed.
    failing: AtomicBool,
    /// `None` once it could not be opened again.
    opened: RwLock<Option<Opened>>,
}

/// The database of a store.
struct Opened {
    /// Which transfers may be in write buffers, and tables with the others. Before the database:
    /// tables that were merged go with the last who has them, and must not outlive its lock.
    buffered: MemtableFilter<Tables>,
    path: PathBuf,
    database: Database,
    transfers: Keyspace,
    parties: Keyspace,
    settlements: Keyspace,
    about: Keyspace,
    decisions: DecisionKeyspaces,
    /// Whether something was written to it.
    written: AtomicBool,
    /// Whether that failed, for which there may be no more than no room.
    failed: AtomicBool,
    /// Whether something was found damaged.
    damaged: AtomicBool,
    /// Whether nobody but its owner may say that it must not be used again.
    only_asked: bool,
    /// Behind the database and its keyspaces: it is dropped after them.
    journals: Journals,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // After a failure its tables are not to be relied on, nor the library's threads.
        let is_sound = !*self.failed.get_mut() && !*self.damaged.get_mut();
        if *self.written.get_mut() && is_sound {
            let named: Vec<_> = self.named().map(|(_, keyspace)| keyspace).collect();
            self.journals.needless = flush(&[&named[..], &[&self.about]].concat());
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Disk {
    /// Opens the store of the log with this identity. What is there and cannot be used is deleted,
    /// and the store is empty; the reason is the second part of the answer.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the directory cannot be made, emptied or written.
    pub fn open(
        path: &Path,
        identity: LogIdentity,
        options: Options,
    ) -> Result<(Self, Option<String>), StoreError> {
        if !path.join(DATABASE).exists() {
            return Self::begin(path, identity, options).map(|store| (store, None));
        }
        match Self::open_existing(path, identity, options) {
            Ok(store) => Ok((store, None)),
            Err(reason) => Ok((Self::begin(path, identity, options)?, Some(reason))),
        }
    }

    /// Opens the store that is there, for questions: where it cannot be used it is left alone, and
    /// the reason is the error. The library may still tidy up its own files.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn open_for_questions(path: &Path, identity: LogIdentity) -> Result<Self, String> {
        match path.join(DATABASE).exists() {
            true => {
                let options = Options::default();
                let (mut opened, mark) = Opened::open_existing(path, identity, options)?;
                opened.only_asked = true;
                Ok(Self::of(opened, (identity, options), mark))
            }
            false => Err("there is none".into()),
        }
    }

    /// Deletes what is there and begins an empty store.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub fn begin(path: &Path, identity: LogIdentity, options: Options) -> Result<Self, StoreError> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(path, &error)),
            _ => (),
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| at(path, &error))?;
        let opened = Opened::open(path, options).map_err(|error| at(path, &error))?;
        opened.name(identity).map_err(|error| at(path, &error))?;
        Ok(Self::of(opened, (identity, options), StoreMark::default()))
    }

    /// The store that is there, or why it cannot be used.
    fn open_existing(path: &Path, identity: LogIdentity, options: Options) -> Result<Self, String> {
        let (opened, mark) = Opened::open_existing(path, identity, options)?;
        opened.check_tables()?;
        opened
            .add_settlements(identity)
            .map_err(|error| format!("it cannot be written: {error}"))?;
        Ok(Self::of(opened, (identity, options), mark))
    }

    fn of(opened: Opened, (identity, options): (LogIdentity, Options), mark: StoreMark) -> Self {
        Self {
            path: opened.path.clone(),
            identity,
            options,
            mark: RwLock::new(mark),
            failing: AtomicBool::new(false),
            opened: RwLock::new(Some(opened)),
        }
    }

    /// Asks the database.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Opened) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &*self.opened.read().unwrap_or_else(PoisonError::into_inner) {
            Some(opened) => question(opened),
            None => Err(StoreError::Damaged("it could not be opened again".into())),
        }
    }

    /// Whether the disk takes anything.
    fn find_room(&self) -> Result<(), StoreError> {
        let failed = |error: &dyn std::fmt::Display| at(&self.path, error);
        let disk = rustix::fs::statvfs(&self.path).map_err(|error| failed(&error))?;
        if disk.f_bavail * disk.f_frsize < ROOM {
            return Err(failed(&format!("less than {} MiB are free", ROOM >> 20)));
        }
        let probe = self.path.join(PROBE);
        let written = File::create(&probe)
            .and_then(|mut file| file.write_all(&[0; 4_096]).and_then(|()| file.sync_all()));
        written.and_then(|()| fs::remove_file(&probe)).map_err(|error| failed(&error))
    }

    /// Opens the database again. Whoever asks meanwhile waits.
    fn open_again(&self) -> Result<(), StoreError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // It holds the lock of its directory.
        drop(opened.take());
        let (again, mark) = Opened::open_existing(&self.path, self.identity, self.options)
            .map_err(StoreError::Damaged)?;
        let shown = self.mark().log_index;
        if mark.log_index < shown {
            let lost = format!("it was at record {} and is at {}", shown.0, mark.log_index.0);
            return Err(again.condemn(StoreError::Damaged(lost)));
        }
        *self.mark.write().unwrap_or_else(PoisonError::into_inner) = mark;
        *opened = Some(again);
        Ok(())
    }
}

impl ColdStore for Disk {
    fn mark(&self) -> StoreMark {
        *self.mark.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        self.ask(|opened| opened.read(id, at))
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        self.ask(|opened| opened.drop_absent(ids))
    }

    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        self.ask(|opened| opened.party(key))
    }

    fn decisions(&self, id: &TransferId) -> Result<Vec<Decision>, StoreError> {
        self.ask(|opened| opened.decisions(id))
    }

    fn delivery_records(&self, notice: NoticeId) -> Result<Vec<LogIndex>, StoreError> {
        self.ask(|opened| opened.delivery_records(notice))
    }

    fn settlements(
        &self,
        kind: ArchiveKind,
        numbers: RangeInclusive<u32>,
        limit: usize,
    ) -> Result<Vec<ArchivedSettlement>, StoreError> {
        self.ask(|opened| opened.settlements(kind, &numbers, limit))
    }

    fn write(&self, portion: &WriteBatch) -> Result<(), StoreError> {
        let written = self.ask(|opened| opened.write(portion));
        self.failing.store(written.is_err(), Ordering::Relaxed);
        written?;
        *self.mark.write().unwrap_or_else(PoisonError::into_inner) = portion.mark;
        Ok(())
    }

    fn mend(&self) -> Result<(), StoreError> {
        self.find_room()?;
        self.open_again()
    }

    fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    fn is_damaged(&self) -> bool {
        // While it is being opened again nobody knows.
        self.opened.try_read().is_ok_and(|opened| {
            opened.as_ref().is_none_or(|opened| opened.damaged.load(Ordering::Relaxed))
        })
    }

    fn release_memory(&self) -> bool {
        self.ask(|opened| Ok(opened.settle())).unwrap_or(false)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.ask(Opened::sync)
    }

    fn bytes(&self) -> u64 {
        bytes_below(&self.path)
    }
}

/// Bytes that all files below a directory take on the disk. What goes away meanwhile takes none.
#[must_use]
pub fn bytes_below(directory: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    let bytes = |entry: fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_below(&entry.path()),
        Ok(found) => found.blocks() * 512,
        Err(_) => 0,
    };
    entries.flatten().map(bytes).sum()
}

/// Where a row of a transfer was seen.
enum Seen {
    Nowhere,
    InTable(fjall::Slice),
    PerhapsBuffered,
}

impl Opened {
    /// The database that is there, or why it cannot be used.
    fn open_existing(
        path: &Path,
        identity: LogIdentity,
        options: Options,
    ) -> Result<(Self, StoreMark), String> {
        if path.join(DAMAGED).exists() {
            return Err("it was found damaged".into());
        }
        sstables::check_lists(&path.join(DATABASE))?;
        // The library's own words name no file.
        let broken = |why: String| match sstables::first_broken(&path.join(DATABASE)) {
            Some(broken) => format!("it cannot be opened: {broken}"),
            None => format!("it cannot be opened{why}"),
        };
        let told_why = |error: fjall::Error| broken(format!(": {error}"));
        // A damaged database may be met by a panic of the library.
        let opened = catch_unwind(AssertUnwindSafe(|| Self::open(path, options)));
        let store = opened.map_err(|_| broken(String::new()))?.map_err(told_why)?;
        let about = store.about.get(IDENTITY_KEY).map_err(told_why)?;
        let format = match about.as_deref().and_then(<[u8]>::split_first) {
            Some((&format, own)) if FORMATS.contains(&format) && own == identity.0 => format,
            Some((format, _)) if FORMATS.contains(format) => {
                return Err("it belongs to another log".into());
            }
            Some((format, _)) => return Err(format!("it has format {format}, not {FORMAT}")),
            None => return Err("it does not say to which log it belongs".into()),
        };
        let mark = match store.about.get(MARK_KEY).map_err(told_why)? {
            Some(stored) => read_mark(&stored).ok_or("its mark is not what was written")?,
            None => StoreMark::default(),
        };
        store.check_names((format, identity), told_why)?;
        Ok((store, mark))
    }

    /// Says in every keyspace whose it is.
    fn name(&self, identity: LogIdentity) -> Result<(), fjall::Error> {
        let mut batch = self.database.batch();
        batch.insert(&self.about, IDENTITY_KEY, about(identity));
        for (name, keyspace) in self.named() {
            batch.insert(keyspace, NAME_KEY, name_row(identity, name));
        }
        batch.commit()
    }

    /// Brings a store without `settlements` to the newest format.
    fn add_settlements(&self, identity: LogIdentity) -> Result<(), fjall::Error> {
        match self.settlements.contains_key(NAME_KEY)? {
            true => Ok(()),
            false => self.name(identity),
        }
    }

    /// Every keyspace but `about`, with its name.
    fn named(&self) -> impl Iterator<Item = (&'static str, &Keyspace)> {
        let own = [
            ("transfers", &self.transfers),
            ("parties", &self.parties),
            (SETTLEMENTS, &self.settlements),
        ];
        own.into_iter().chain(self.decisions.named())
    }

    /// Whether each keyspace is there, and is the one that it was.
    fn check_names(
        &self,
        (format, identity): (u8, LogIdentity),
        told_why: impl Fn(fjall::Error) -> String,
    ) -> Result<(), String> {
        let is_new = |name: &str| format == FORMAT_WITHOUT_SETTLEMENTS && name == SETTLEMENTS;
        for (name, keyspace) in self.named().filter(|(name, _)| !is_new(name)) {
            let found = keyspace.get(NAME_KEY).map_err(&told_why)?;
            match found.as_deref() {
                None => return Err(format!("its {name} are lost")),
                Some(row) if row != name_row(identity, name) => {
                    return Err(format!(
                        "what stands in the place of its {name} is something else"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Whether what money is decided by is what was written.
    fn check_tables(&self) -> Result<(), String> {
        [&self.transfers, &self.parties, &self.about].into_iter().try_for_each(sstables::check)
    }

    fn open(path: &Path, options: Options) -> Result<Self, fjall::Error> {
        let builder = Database::builder(path.join(DATABASE))
            .cache_size(options.cache_bytes)
            .worker_threads(WORKERS)
            .max_journaling_size(JOURNAL);
        let database = behind(|| builder.open())?;
        // Nearly every id that is asked for is new, and the filters say so: they stay in memory.
        let absent =
            || buffering(TRANSFERS_BUFFER).filter_block_pinning_policy(PinningPolicy::all(true));
        // Nearly every party that is asked for is there.
        let present = || buffering(OTHER_BUFFER).expect_point_read_hits(true);
        let transfers = database.keyspace("transfers", absent)?;
        let parties = database.keyspace("parties", present)?;
        let about = database.keyspace("about", || buffering(OTHER_BUFFER))?;
        let decisions = DecisionKeyspaces::open(&database)?;
        let settlements = database.keyspace(SETTLEMENTS, || buffering(OTHER_BUFFER))?;
        Ok(Self {
            buffered: beside(&transfers),
            path: path.to_owned(),
            journals: Journals { database: path.join(DATABASE), needless: false },
            database,
            transfers,
            parties,
            settlements,
            about,
            decisions,
            written: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
            only_asked: false,
        })
    }

    /// Notes that the store must not be used again, and passes the error on.
    fn condemn(&self, error: StoreError) -> StoreError {
        self.damaged.store(true, Ordering::Relaxed);
        if !self.only_asked {
            // When even that fails, the next start finds the damage by itself.
            let _noted = fs::write(self.path.join(DAMAGED), error.to_string());
        }
        error
    }

    fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<fjall::Slice>, StoreError> {
        keyspace.get(key).map_err(|error| self.condemn(of_library(&error)))
    }

    /// Puts the rows of a portion into a batch in their stored form, each id once, by id: what is
    /// in order goes into the database faster.
    fn insert_rows(
        &self,
        rows: &[FinalTransfer],
        (batch, writing): (&mut OwnedWriteBatch, &mut Writing<'_, Tables>),
    ) -> Result<(), StoreError> {
        let mut order: Vec<_> = rows.iter().map(|row| row.id.to_bytes()).zip(0_usize..).collect();
        order.sort_unstable();
        let (mut value, mut longer) = (Vec::with_capacity(160), Vec::with_capacity(160));
        for versions in order.chunk_by(|one, next| one.0 == next.0) {
            let (key, first) = &versions[0];
            value.clear();
            if !cold_rows::is_first(&rows[*first]) {
                let stored = self.get(&self.transfers, key)?;
                value.extend_from_slice(stored.as_deref().unwrap_or_default());
            }
            for (_, at) in versions {
                let added = cold_rows::add_version(&value, &rows[*at], &mut longer);
                added.map_err(|error| self.condemn(damaged(error)))?;
                std::mem::swap(&mut value, &mut longer);
            }
            writing.add(sstables::hash(key));
            batch.insert(&self.transfers, &key[..], &value[..]);
        }
        Ok(())
    }

    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        let seen = self.find(&self.buffered.look(), id)?;
        let stored = match seen {
            Seen::Nowhere => None,
            Seen::InTable(stored) => Some(stored),
            Seen::PerhapsBuffered => self.get(&self.transfers, &id.to_bytes())?,
        };
        let found = stored.map(|stored| cold_rows::version_at(id, &stored, at)).transpose();
        found.map(Option::flatten).map_err(|error| self.condemn(damaged(error)))
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        let look = self.buffered.look();
        let mut failed = Ok(());
        ids.retain(|id| match self.find(&look, id) {
            Ok(seen) => !matches!(seen, Seen::Nowhere),
            Err(error) => {
                failed = Err(error);
                true
            }
        });
        failed
    }

    /// What can be said of a transfer without the library's locks.
    fn find(&self, look: &Look<'_, Tables>, id: &TransferId) -> Result<Seen, StoreError> {
        let key = id.to_bytes();
        let hash = sstables::hash(&key);
        if look.may_be_buffered(hash) {
            return Ok(Seen::PerhapsBuffered);
        }
        let found = look.tables().find(&key, hash);
        let found = found.map_err(|error| self.condemn(of_library(&error)))?;
        Ok(found.map_or(Seen::Nowhere, Seen::InTable))
    }

    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        let stored = self.get(&self.parties, key)?;
        let row = stored.map(|stored| party_row(&stored)).transpose();
        row.map_err(|error| self.condemn(error))
    }

    fn decisions(&self, id: &TransferId) -> Result<Vec<Decision>, StoreError> {
        let row = self.get(&self.transfers, &id.to_bytes())?;
        let named = row.map_or(Ok(Vec::new()), |row| cold_rows::records_of(id, &row));
        let named = named.map_err(|error| self.condemn(damaged(error)))?;
        self.decisions.of(id, named).map_err(|error| self.condemn(error))
    }

    fn delivery_records(&self, notice: NoticeId) -> Result<Vec<LogIndex>, StoreError> {
        self.decisions.delivery_records(notice).map_err(|error| self.condemn(error))
    }

    fn settlements(
        &self,
        kind: ArchiveKind,
        numbers: &RangeInclusive<u32>,
        limit: usize,
    ) -> Result<Vec<ArchivedSettlement>, StoreError> {
        let key = |number: &u32| cold_rows::archive_key(kind, *number);
        let found = self.settlements.range(key(numbers.start())..=key(numbers.end()));
        let read = |entry: fjall::Guard| {
            let stored = entry.value().map_err(|error| of_library(&error))?;
            cold_rows::read_archived(kind, &stored).map_err(damaged)
        };
        found.take(limit).map(read).collect::<Result<_, _>>().map_err(|error| self.condemn(error))
    }

    fn write(&self, portion: &WriteBatch) -> Result<(), StoreError> {
        self.written.store(true, Ordering::Relaxed);
        let mut batch = self.database.batch();
        let mut writing = self.buffered.begin(self.transfers.newest());
        self.insert_rows(&portion.rows, (&mut batch, &mut writing))?;
        self.decisions.write(portion, &mut batch);
        for (key, row) in entries_after(&portion.parties, |key| self.party(key))? {
            match party_value(row.as_ref()) {
                Some(value) => batch.insert(&self.parties, key, value),
                None => batch.remove(&self.parties, key),
            }
        }
        for row in &portion.settlements {
            let mut value = Vec::new();
            cold_rows::write_archived(row, &mut value);
            let key = cold_rows::archive_key(row.kind(), row.number());
            batch.insert(&self.settlements, &key[..], value);
        }
        batch.insert(&self.about, MARK_KEY, &write_mark(&portion.mark)[..]);
        batch.commit().map_err(|error| {
            self.failed.store(true, Ordering::Relaxed);
            match of_library(&error) {
                damaged @ StoreError::Damaged(_) => self.condemn(damaged),
                failed @ StoreError::Failed(_) => failed,
            }
        })?;
        self.change_large_buffers();
        self.show(writing);
        Ok(())
    }

    /// The library changes a full buffer once its thread has time, which a merge can take for
    /// seconds; meanwhile a buffer would grow as long as somebody writes. Changed here, they add up
    /// until the library holds the writer.
    fn change_large_buffers(&self) {
        for (_, keyspace) in self.named() {
            if BUFFER_MAX < keyspace.tree.active_memtable().size() {
                // If that fails, so will the next batch.
                let _changed = keyspace.rotate_memtable();
            }
        }
    }

    /// Shows the tables that there are by now, without the ids that are in them.
    fn show(&self, writing: Writing<'_, Tables>) {
        writing.end(&self.transfers);
    }

    fn settle(&self) -> bool {
        let writing = self.buffered.begin(self.transfers.newest());
        let is_new = !writing.tables().are_those_of(&self.transfers);
        self.show(writing);
        is_new || 0 < self.database.active_compactions() || 0 < self.database.outstanding_flushes()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.database.persist(fjall::PersistMode::SyncAll).map_err(|error| of_library(&error))
    }
}

impl Library<Tables> for Keyspace {
    fn newest(&self) -> u64 {
        self.tree.active_memtable().id()
    }

    fn older_are_tables(&self) -> bool {
        self.sealed_memtable_count() == 0
    }

    fn tables_but(&self, shown: &Tables) -> Option<Tables> {
        (!shown.are_those_of(self)).then(|| Tables::of(self))
    }
}

/// Filters and tables of a keyspace that was just opened, to which nobody writes yet.
fn beside(keyspace: &Keyspace) -> MemtableFilter<Tables> {
    let newest = keyspace.tree.active_memtable();
    let is_empty = newest.is_empty() && keyspace.sealed_memtable_count() == 0;
    MemtableFilter::beside(Tables::of(keyspace), (!is_empty).then(|| newest.id()))
}

/// How a store says to which log it belongs, and in which format.
fn about(identity: LogIdentity) -> Vec<u8> {
    let mut about = vec![FORMAT];
    about.extend_from_slice(&identity.0);
    about
}

fn name_row(identity: LogIdentity, name: &str) -> Vec<u8> {
    [&identity.0, name.as_bytes()].concat()
}

fn write_mark(mark: &StoreMark) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..8].copy_from_slice(&mark.log_index.0.to_le_bytes());
    bytes[8..].copy_from_slice(&mark.chain.0);
    bytes
}

fn read_mark(stored: &[u8]) -> Option<StoreMark> {
    let (log_index, chain) = stored.split_first_chunk()?;
    let log_index = LogIndex(u64::from_le_bytes(*log_index));
    Some(StoreMark { log_index, chain: Digest(chain.try_into().ok()?) })
}

/// What a keyspace is made with; one that is there keeps what it was made with.
pub(crate) fn buffering(bytes: u64) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(bytes)
}

pub(crate) fn of_library(error: &fjall::Error) -> StoreError {
    match error {
        fjall::Error::Io(io) | fjall::Error::Storage(LsmError::Io(io))
            if io.kind() == ErrorKind::StorageFull =>
        {
            StoreError::Failed("the disk is full".into())
        }
        fjall::Error::Io(_)
        | fjall::Error::Storage(LsmError::Io(_))
        | fjall::Error::Poisoned
        | fjall::Error::Locked => StoreError::Failed(error.to_string()),
        _ => StoreError::Damaged(error.to_string()),
    }
}

fn at(path: &Path, error: &dyn std::fmt::Display) -> StoreError {
    StoreError::Failed(format!("{}: {error}", path.display()))
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
