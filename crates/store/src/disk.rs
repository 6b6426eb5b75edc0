//! The cold store on disk: nine keyspaces of one fjall database.
//!
//! `transfers` holds the rows by id, `parties` the directory, `settlements` windows and
//! settlements, and `about` the log identity and the mark. The others hold decisions
//! ([`crate::decisions`]) and the index of transfers ([`crate::transfer_index`]). One write batch
//! is one atomic batch over all keyspaces. Writes are not synced: the database passes its journal
//! to the operating system with each batch. A process crash loses nothing, a power failure the
//! newest batches. A store that was written to is closed with empty journals ([`crate::shutdown`]).
//!
//! The directory holds the database and, after damage was found, a marker file. The next start then
//! empties the store.
//!
//! After a failed write the library accepts no further write until the database is reopened.
//! [`Disk`] reopens it when there is free space ([`ColdStore::mend`]). Visible rows are in the
//! journal and are recovered from it. Until then reads are answered from the open database.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::ops::RangeInclusive;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use fjall::config::{FilterPolicy, PinningPolicy};
use fjall::{AbstractTree, Database, Keyspace, KeyspaceCreateOptions, LsmError, OwnedWriteBatch};
use ledger::{
    ArchiveKind, ArchivedSettlement, Decision, Digest, FinalTransfer, LogIndex, NoticeId,
    TransferId,
};
use ports::{
    Cipher, ColdStore, OptionalCipher, PartyRow, StoreError, StoreMark, TransferPage,
    TransferQuery, WriteBatch,
};
use record::cold_rows;
use record::frame::LogIdentity;

use crate::decisions::DecisionKeyspaces;
use crate::low_priority::run_at_low_priority;
use crate::memory::{damaged, party_row, party_value, rows_after};
use crate::memtable_filter::{FilterRead, FilterWrite, MemtableFilter, Memtables};
use crate::shutdown::{Journals, flush};
use crate::sstables::{self, Tables};
use crate::transfer_index::TransferIndex;

/// The database, within the store's directory.
const DATABASE: &str = "rows";
/// Marker file in the store's directory: the database was found damaged.
const DAMAGED: &str = "damaged";

/// Version of the format: the keyspaces, their keys and the content of `about`. A store of another
/// format is emptied. Format 6 and earlier ones have identifiers of parties in their keys.
const FORMAT: u8 = 7;
/// Bytes of a write buffer for transfers, and for each other keyspace. Up to four more of each wait
/// to be flushed. The writer waits when there are more.
const TRANSFERS_BUFFER: u64 = 8 << 20;
const OTHER_BUFFER: u64 = 4 << 20;
/// Maximum bytes of a write buffer while the library is too busy to rotate it.
const BUFFER_MAX: u64 = 16 << 20;
/// Maximum bytes of the database's journal before write buffers are flushed.
pub const JOURNAL: u64 = 64 << 20;
/// Threads that flush and compact. With more than one, the library reserves the first for flushes
/// and passes compactions on in a busy loop, which takes a core. One thread is slower for large
/// writes, but delays only the writer.
const WORKERS: usize = 1;

/// The first key of each keyspace except `about`: the name of the keyspace and the identity of its
/// log. The library silently recreates a keyspace that lost its files.
const NAME_KEY: [u8; 1] = [0];
/// Name of a keyspace.
const SETTLEMENTS: &str = "settlements";
const IDENTITY_KEY: &str = "identity";
const MARK_KEY: &str = "mark";
/// The first record about a transfer that may have neither a row nor a trace. Absent if all have.
const UNTRACED_KEY: &str = "untraced";
/// The encrypted secret that the keys of parties are hashed with. Absent without encryption.
const PARTY_SECRET_KEY: &str = "party-secret";
/// Bytes of this secret.
const PARTY_SECRET_BYTES: usize = 32;

/// Options of a store on disk.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Bytes of the cache for blocks, indexes and filters.
    pub cache_bytes: u64,
    /// With a cipher, identifiers of parties are stored as keyed hashes.
    pub cipher: OptionalCipher,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { cache_bytes: 32 << 20, cipher: None }
    }
}

/// Free bytes required before the database is reopened. Its first flush needs this much.
const ROOM: u64 = 16 << 20;
/// File that is written to find out whether the disk accepts writes.
const PROBE: &str = "probe";

/// A store on disk.
pub struct Disk {
    path: PathBuf,
    identity: LogIdentity,
    options: StoreOptions,
    mark: RwLock<StoreMark>,
    /// Whether the last write failed.
    failing: AtomicBool,
    /// `None` after reopening failed.
    opened: RwLock<Option<Opened>>,
}

/// The database of a store.
struct Opened {
    /// Filter of the transfers that may be in write buffers, and the tables that hold the others.
    /// It is dropped before the database, because merged tables are deleted with their last
    /// reference and must not outlive the database's lock.
    buffered: MemtableFilter<Tables>,
    path: PathBuf,
    database: Database,
    transfers: Keyspace,
    parties: Keyspace,
    settlements: Keyspace,
    about: Keyspace,
    decisions: DecisionKeyspaces,
    index: TransferIndex,
    /// Whether this process has written to the database.
    written: AtomicBool,
    /// Whether a write failed, for example because the disk is full.
    failed: AtomicBool,
    /// Whether something was found damaged.
    damaged: AtomicBool,
    /// Whether the store is opened for queries only. Only its owner may mark it as damaged.
    only_asked: bool,
    /// The secret that keys of parties are hashed with.
    party_secret: Option<[u8; PARTY_SECRET_BYTES]>,
    /// Declared after the database and its keyspaces, so that it is dropped after them.
    journals: Journals,
}

impl Drop for Opened {
    fn drop(&mut self) {
        // After a failure neither the tables nor the library's threads can be relied on.
        let is_sound = !*self.failed.get_mut() && !*self.damaged.get_mut();
        if *self.written.get_mut() && is_sound {
            let named: Vec<_> = self.named().map(|(_, keyspace)| keyspace).collect();
            self.journals.flushed = flush(&[&named[..], &[&self.about]].concat());
        }
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Disk {
    /// Opens the store of the log with this identity. A store that cannot be used is deleted and
    /// replaced by an empty one; the second result is the reason.
    ///
    /// # Errors
    /// [`StoreError::Failed`] when the directory cannot be made, emptied or written.
    pub fn open(
        path: &Path,
        identity: LogIdentity,
        options: StoreOptions,
    ) -> Result<(Self, Option<String>), StoreError> {
        if !path.join(DATABASE).exists() {
            return Self::begin(path, identity, options).map(|store| (store, None));
        }
        match Self::open_existing(path, identity, options.clone()) {
            Ok(store) => Ok((store, None)),
            Err(reason) => Ok((Self::begin(path, identity, options)?, Some(reason))),
        }
    }

    /// Opens an existing store for queries. A store that cannot be used is left unchanged. The
    /// library may still clean up its own files.
    ///
    /// # Errors
    /// The reason why the store cannot be used.
    pub fn open_for_queries(path: &Path, identity: LogIdentity) -> Result<Self, String> {
        match path.join(DATABASE).exists() {
            true => {
                let options = StoreOptions::default();
                let (mut opened, mark) = Opened::open_existing(path, identity, &options)?;
                opened.only_asked = true;
                Ok(Self::of(opened, (identity, options), mark))
            }
            false => Err("it does not exist".into()),
        }
    }

    /// Deletes an existing store and creates an empty one.
    ///
    /// # Errors
    /// As [`Disk::open`].
    pub fn begin(
        path: &Path,
        identity: LogIdentity,
        options: StoreOptions,
    ) -> Result<Self, StoreError> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(path, &error)),
            _ => (),
        }
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(|error| at(path, &error))?;
        let mut opened = Opened::open(path, &options).map_err(|error| at(path, &error))?;
        if let Some(cipher) = options.cipher.as_deref() {
            opened.begin_secret(cipher, identity)?;
        }
        opened.name(identity).map_err(|error| at(path, &error))?;
        Ok(Self::of(opened, (identity, options), StoreMark::default()))
    }

    /// Opens an existing store. The error is the reason why it cannot be used.
    fn open_existing(
        path: &Path,
        identity: LogIdentity,
        options: StoreOptions,
    ) -> Result<Self, String> {
        let (mut opened, mark) = Opened::open_existing(path, identity, &options)?;
        if let Some(cipher) = options.cipher.as_deref() {
            opened.read_secret(cipher, identity)?;
        }
        opened.check_tables()?;
        Ok(Self::of(opened, (identity, options), mark))
    }

    fn of(
        opened: Opened,
        (identity, options): (LogIdentity, StoreOptions),
        mark: StoreMark,
    ) -> Self {
        Self {
            path: opened.path.clone(),
            identity,
            options,
            mark: RwLock::new(mark),
            failing: AtomicBool::new(false),
            opened: RwLock::new(Some(opened)),
        }
    }

    /// Queries the database.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Opened) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match &*self.opened.read().unwrap_or_else(PoisonError::into_inner) {
            Some(opened) => question(opened),
            None => Err(StoreError::Damaged("it could not be opened again".into())),
        }
    }

    /// Whether the disk accepts writes.
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

    /// Reopens the database. Queries wait meanwhile.
    fn open_again(&self) -> Result<(), StoreError> {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        // The old database holds the lock of its directory.
        drop(opened.take());
        let (mut again, mark) = Opened::open_existing(&self.path, self.identity, &self.options)
            .map_err(StoreError::Damaged)?;
        if let Some(cipher) = self.options.cipher.as_deref() {
            again.read_secret(cipher, self.identity).map_err(StoreError::Failed)?;
        }
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

    fn transfers(&self, query: &TransferQuery) -> Result<TransferPage, StoreError> {
        self.ask(|opened| opened.find_transfers(query))
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        let written = self.ask(|opened| opened.write(batch));
        self.failing.store(written.is_err(), Ordering::Relaxed);
        written?;
        *self.mark.write().unwrap_or_else(PoisonError::into_inner) = batch.mark;
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
        // While the database is being reopened, its state is unknown.
        self.opened.try_read().is_ok_and(|opened| {
            opened.as_ref().is_none_or(|opened| opened.damaged.load(Ordering::Relaxed))
        })
    }

    fn release_memory(&self) -> bool {
        self.ask(|opened| Ok(opened.release_memory())).unwrap_or(false)
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.ask(Opened::sync)
    }

    fn bytes(&self) -> u64 {
        bytes_below(&self.path)
    }
}

/// Bytes on disk of all files below a directory. Files that disappear during the walk count as
/// zero.
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

/// Result of a search for a row without the library's locks.
enum Seen {
    Nowhere,
    InTable(fjall::Slice),
    PerhapsBuffered,
}

impl Opened {
    /// Opens an existing database. The error is the reason why it cannot be used.
    fn open_existing(
        path: &Path,
        identity: LogIdentity,
        options: &StoreOptions,
    ) -> Result<(Self, StoreMark), String> {
        if path.join(DAMAGED).exists() {
            return Err("it was found damaged".into());
        }
        sstables::check_lists(&path.join(DATABASE))?;
        // The library's errors name no file.
        let broken = |why: String| match sstables::first_broken(&path.join(DATABASE)) {
            Some(broken) => format!("it cannot be opened: {broken}"),
            None => format!("it cannot be opened{why}"),
        };
        let broken_by = |error: fjall::Error| broken(format!(": {error}"));
        // The library may panic on a damaged database.
        let opened = catch_unwind(AssertUnwindSafe(|| Self::open(path, options)));
        let store = opened.map_err(|_| broken(String::new()))?.map_err(broken_by)?;
        let about = store.about.get(IDENTITY_KEY).map_err(broken_by)?;
        match about.as_deref().and_then(<[u8]>::split_first) {
            Some((&FORMAT, own)) if own == identity.0 => {}
            Some((&FORMAT, _)) => return Err("it belongs to another log".into()),
            Some((format, _)) => return Err(format!("it has format {format}, not {FORMAT}")),
            None => return Err("it has no log identity".into()),
        }
        let mark = match store.about.get(MARK_KEY).map_err(broken_by)? {
            Some(stored) => read_mark(&stored).ok_or("its mark is malformed")?,
            None => StoreMark::default(),
        };
        store.check_names(identity, broken_by)?;
        store.load().map_err(|error| broken(format!(": {error}")))?;
        Ok((store, mark))
    }

    /// Reads the part of the index and of the decisions that is kept in memory.
    fn load(&self) -> Result<(), StoreError> {
        self.index.load()?;
        let first = self.about.get(UNTRACED_KEY).map_err(|error| of_library(&error))?;
        if let Some(stored) = first {
            self.decisions.load(read_index(&stored)?)?;
        }
        Ok(())
    }

    /// Makes the secret of an empty store.
    fn begin_secret(
        &mut self,
        cipher: &dyn Cipher,
        identity: LogIdentity,
    ) -> Result<(), StoreError> {
        let failed = |error: &dyn std::fmt::Display| at(&self.path, error);
        let mut secret = [0; PARTY_SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| failed(&error))?;
        let mut sealed = Vec::new();
        let context = secret_context(identity);
        cipher.sealer().seal(&context, &secret, &mut sealed).map_err(|error| failed(&error))?;
        self.about.insert(PARTY_SECRET_KEY, sealed).map_err(|error| of_library(&error))?;
        self.party_secret = Some(secret);
        Ok(())
    }

    /// Reads the secret. The error is the reason why the store cannot be used.
    fn read_secret(&mut self, cipher: &dyn Cipher, identity: LogIdentity) -> Result<(), String> {
        let stored = self.about.get(PARTY_SECRET_KEY).map_err(|error| error.to_string())?;
        let sealed = stored.ok_or("it was made without encryption")?;
        let mut secret = Vec::new();
        let opened = cipher.open(&secret_context(identity), &sealed, &mut secret);
        opened.map_err(|error| error.to_string())?;
        let secret = <[u8; PARTY_SECRET_BYTES]>::try_from(secret);
        self.party_secret = Some(secret.map_err(|_| "its secret has a wrong length")?);
        Ok(())
    }

    /// The stored key of a party.
    fn party_key<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        match &self.party_secret {
            Some(secret) => Cow::Owned(blake3::keyed_hash(secret, key).as_bytes().to_vec()),
            None => Cow::Borrowed(key),
        }
    }

    /// Writes the name and the log identity into every keyspace.
    fn name(&self, identity: LogIdentity) -> Result<(), fjall::Error> {
        let mut database_batch = self.database.batch();
        database_batch.insert(&self.about, IDENTITY_KEY, about(identity));
        for (name, keyspace) in self.named() {
            database_batch.insert(keyspace, NAME_KEY, name_row(identity, name));
        }
        database_batch.commit()
    }

    /// Every keyspace except `about`, with its name.
    fn named(&self) -> impl Iterator<Item = (&'static str, &Keyspace)> {
        let own = [
            ("transfers", &self.transfers),
            ("parties", &self.parties),
            (SETTLEMENTS, &self.settlements),
        ];
        own.into_iter().chain(self.decisions.named()).chain(self.index.named())
    }

    /// Checks that each keyspace exists and has not been recreated or exchanged.
    fn check_names(
        &self,
        identity: LogIdentity,
        broken_by: impl Fn(fjall::Error) -> String,
    ) -> Result<(), String> {
        for (name, keyspace) in self.named() {
            let found = keyspace.get(NAME_KEY).map_err(&broken_by)?;
            match found.as_deref() {
                None => return Err(format!("its {name} are lost")),
                Some(row) if row != name_row(identity, name) => {
                    return Err(format!("its keyspace {name} is another one"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Checks every table that decisions about money depend on.
    fn check_tables(&self) -> Result<(), String> {
        [&self.transfers, &self.parties, &self.about].into_iter().try_for_each(sstables::check)
    }

    fn open(path: &Path, options: &StoreOptions) -> Result<Self, fjall::Error> {
        let builder = Database::builder(path.join(DATABASE))
            .cache_size(options.cache_bytes)
            .worker_threads(WORKERS)
            .max_journaling_size(JOURNAL);
        let database = run_at_low_priority(|| builder.open())?;
        // Nearly every requested id is new. The filters answer that, so they stay in memory.
        let absent =
            || buffering(TRANSFERS_BUFFER).filter_block_pinning_policy(PinningPolicy::all(true));
        // Nearly every requested party exists.
        let present = || buffering(OTHER_BUFFER).expect_point_read_hits(true);
        let transfers = database.keyspace("transfers", absent)?;
        let parties = database.keyspace("parties", present)?;
        let about = database.keyspace("about", || buffering(OTHER_BUFFER))?;
        let decisions = DecisionKeyspaces::open(&database)?;
        let settlements = database.keyspace(SETTLEMENTS, || buffering(OTHER_BUFFER))?;
        let index = TransferIndex::open(&database)?;
        Ok(Self {
            buffered: filter_of(&transfers),
            path: path.to_owned(),
            journals: Journals { database: path.join(DATABASE), flushed: false },
            database,
            transfers,
            parties,
            settlements,
            about,
            decisions,
            index,
            written: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
            only_asked: false,
            party_secret: None,
        })
    }

    /// Marks the store as unusable and returns the error.
    fn condemn(&self, error: StoreError) -> StoreError {
        self.damaged.store(true, Ordering::Relaxed);
        if !self.only_asked {
            // If this fails too, the next start detects the damage itself.
            let _noted = fs::write(self.path.join(DAMAGED), error.to_string());
        }
        error
    }

    fn get(&self, keyspace: &Keyspace, key: &[u8]) -> Result<Option<fjall::Slice>, StoreError> {
        keyspace.get(key).map_err(|error| self.condemn(of_library(&error)))
    }

    /// Adds the rows of a write batch to a database batch, sorted by id and each id once. The
    /// database inserts sorted rows faster.
    fn insert_rows(
        &self,
        rows: &[FinalTransfer],
        (database_batch, writing): (&mut OwnedWriteBatch, &mut FilterWrite<'_, Tables>),
    ) -> Result<(), StoreError> {
        let mut order: Vec<_> = rows.iter().map(|row| first_bytes(&row.id)).zip(0..).collect();
        let id = |at: usize| &rows[at].id;
        order.sort_unstable_by(|one: &(u64, usize), other| {
            one.0.cmp(&other.0).then_with(|| (id(one.1), one.1).cmp(&(id(other.1), other.1)))
        });
        let (mut value, mut longer) = (Vec::with_capacity(160), Vec::with_capacity(160));
        for versions in order.chunk_by(|one, next| id(one.1) == id(next.1)) {
            let (_, first) = versions[0];
            let key = id(first).to_bytes();
            value.clear();
            if !cold_rows::is_first(&rows[first]) {
                let stored = self.get(&self.transfers, &key)?;
                value.extend_from_slice(stored.as_deref().unwrap_or_default());
            }
            for (_, at) in versions {
                let added = cold_rows::add_version(&value, &rows[*at], &mut longer);
                added.map_err(|error| self.condemn(damaged(error)))?;
                std::mem::swap(&mut value, &mut longer);
            }
            writing.add(sstables::hash(&key));
            database_batch.insert(&self.transfers, &key[..], &value[..]);
        }
        Ok(())
    }

    fn read(&self, id: &TransferId, at: LogIndex) -> Result<Option<FinalTransfer>, StoreError> {
        let seen = self.find(&self.buffered.read(), id)?;
        let stored = match seen {
            Seen::Nowhere => None,
            Seen::InTable(stored) => Some(stored),
            Seen::PerhapsBuffered => self.get(&self.transfers, &id.to_bytes())?,
        };
        let found = stored.map(|stored| cold_rows::version_at(id, &stored, at)).transpose();
        found.map(Option::flatten).map_err(|error| self.condemn(damaged(error)))
    }

    fn drop_absent(&self, ids: &mut Vec<TransferId>) -> Result<(), StoreError> {
        let filter = self.buffered.read();
        let mut failed = Ok(());
        ids.retain(|id| match self.find(&filter, id) {
            Ok(seen) => !matches!(seen, Seen::Nowhere),
            Err(error) => {
                failed = Err(error);
                true
            }
        });
        failed
    }

    /// Searches for a transfer without the library's locks.
    fn find(&self, filter: &FilterRead<'_, Tables>, id: &TransferId) -> Result<Seen, StoreError> {
        let key = id.to_bytes();
        let hash = sstables::hash(&key);
        if filter.may_be_buffered(hash) {
            return Ok(Seen::PerhapsBuffered);
        }
        let found = filter.tables().find(&key, hash);
        let found = found.map_err(|error| self.condemn(of_library(&error)))?;
        Ok(found.map_or(Seen::Nowhere, Seen::InTable))
    }

    fn party(&self, key: &[u8]) -> Result<Option<PartyRow>, StoreError> {
        let stored = self.get(&self.parties, &self.party_key(key))?;
        let row = stored.map(|stored| party_row(&stored)).transpose();
        row.map_err(|error| self.condemn(error))
    }

    fn decisions(&self, id: &TransferId) -> Result<Vec<Decision>, StoreError> {
        let mut records = self.decisions.untraced_of(id);
        if let Some(row) = self.get(&self.transfers, &id.to_bytes())? {
            let named = cold_rows::records_of(id, &row);
            records.extend(named.map_err(|error| self.condemn(damaged(error)))?);
        }
        self.decisions.of(id, records).map_err(|error| self.condemn(error))
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

    fn find_transfers(&self, query: &TransferQuery) -> Result<TransferPage, StoreError> {
        self.index.find(query).map_err(|error| self.condemn(error))
    }

    fn write(&self, batch: &WriteBatch) -> Result<(), StoreError> {
        self.written.store(true, Ordering::Relaxed);
        let items = 2 * batch.rows.len() + batch.decisions.len() / 16 + batch.parties.len();
        // The journal is passed to the operating system, as with batches without a capacity.
        let mut database_batch = OwnedWriteBatch::with_capacity(self.database.clone(), items)
            .durability(Some(fjall::PersistMode::Buffer));
        let mut writing = self.buffered.begin_write(self.transfers.newest());
        self.insert_rows(&batch.rows, (&mut database_batch, &mut writing))?;
        let untraced = self.decisions.write(batch, &mut database_batch);
        let newest = self.index.write(&batch.rows, &mut database_batch);
        for (key, row) in rows_after(&batch.parties, |key| self.party(key))? {
            database_batch.insert(&self.parties, &*self.party_key(key), party_value(&row));
        }
        for row in &batch.settlements {
            let mut value = Vec::new();
            cold_rows::write_archived(row, &mut value);
            let key = cold_rows::archive_key(row.kind(), row.number());
            database_batch.insert(&self.settlements, &key[..], value);
        }
        database_batch.insert(&self.about, MARK_KEY, &write_mark(&batch.mark)[..]);
        let first = untraced.first().unwrap_or(LogIndex(batch.mark.log_index.0 + 1));
        database_batch.insert(&self.about, UNTRACED_KEY, first.0.to_le_bytes());
        database_batch.commit().map_err(|error| {
            self.failed.store(true, Ordering::Relaxed);
            match of_library(&error) {
                damaged @ StoreError::Damaged(_) => self.condemn(damaged),
                failed @ StoreError::Failed(_) => failed,
            }
        })?;
        self.decisions.committed(untraced);
        self.index.committed(newest);
        self.change_large_buffers();
        self.publish(writing);
        Ok(())
    }

    /// Rotates large write buffers. The library rotates a full buffer when its thread is free,
    /// which can take seconds during a merge, while the buffer grows. Rotated here, buffers
    /// accumulate until the library blocks the writer.
    fn change_large_buffers(&self) {
        for (_, keyspace) in self.named() {
            if BUFFER_MAX < keyspace.tree.active_memtable().size() {
                // If that fails, so will the next batch.
                let _changed = keyspace.rotate_memtable();
            }
        }
    }

    /// Publishes the current tables and removes their ids from the filter.
    fn publish(&self, writing: FilterWrite<'_, Tables>) {
        writing.end(&self.transfers);
    }

    fn release_memory(&self) -> bool {
        let writing = self.buffered.begin_write(self.transfers.newest());
        let is_new = !writing.tables().are_those_of(&self.transfers);
        self.publish(writing);
        is_new || 0 < self.database.active_compactions() || 0 < self.database.outstanding_flushes()
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.database.persist(fjall::PersistMode::SyncAll).map_err(|error| of_library(&error))
    }
}

impl Memtables<Tables> for Keyspace {
    fn newest(&self) -> u64 {
        self.tree.active_memtable().id()
    }

    fn older_are_tables(&self) -> bool {
        self.sealed_memtable_count() == 0
    }

    fn changed_tables(&self, shared: &Tables) -> Option<Tables> {
        (!shared.are_those_of(self)).then(|| Tables::of(self))
    }
}

/// Filter and tables of a keyspace that was just opened and has no writer yet.
fn filter_of(keyspace: &Keyspace) -> MemtableFilter<Tables> {
    let newest = keyspace.tree.active_memtable();
    let is_empty = newest.is_empty() && keyspace.sealed_memtable_count() == 0;
    MemtableFilter::new(Tables::of(keyspace), (!is_empty).then(|| newest.id()))
}

/// The value of the identity key: format and log identity.
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

fn secret_context(identity: LogIdentity) -> Vec<u8> {
    [b"upesi party secret", &identity.0[..]].concat()
}

fn read_mark(stored: &[u8]) -> Option<StoreMark> {
    let (log_index, chain) = stored.split_first_chunk()?;
    let log_index = LogIndex(u64::from_le_bytes(*log_index));
    Some(StoreMark { log_index, chain: Digest(chain.try_into().ok()?) })
}

/// The first bytes of an id, as a number with the same order.
fn first_bytes(id: &TransferId) -> u64 {
    u64::from_be_bytes(*id.to_bytes().first_chunk().expect("an id is longer"))
}

fn read_index(stored: &[u8]) -> Result<LogIndex, StoreError> {
    let bytes = stored.try_into().map_err(|_| damaged(record::FieldError::Value))?;
    Ok(LogIndex(u64::from_le_bytes(bytes)))
}

/// Options for a new keyspace. An existing one keeps its own.
fn buffering(bytes: u64) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default().max_memtable_size(bytes)
}

/// The same for a keyspace that is read in ranges, or by keys that exist. Filters of its tables
/// would never be read with gain.
pub(crate) fn buffering_ranges(bytes: u64) -> KeyspaceCreateOptions {
    buffering(bytes).filter_policy(FilterPolicy::disabled())
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
