//! The data keys of one directory.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ledger::FspName;
use ports::{Cipher, CipherError, Disk, KeyId, Sealer};
use record::frame::SEAL_BYTES;

use crate::aead::{KEY_BYTES, Key, NONCE_BYTES};
use crate::key_file::{DestroyedKey, KEY_FILE, KeyFile, KeyFileError, WrappedKey};
use crate::master_key::{MasterKey, MasterKeyError, random};

/// Offset of the ciphertext in sealed bytes.
const AT_CIPHERTEXT: usize = 16;

/// The master keys of a process.
#[derive(Clone, Debug)]
pub struct MasterKeys {
    /// Wraps new data keys.
    pub current: Arc<dyn MasterKey>,
    /// Only unwraps: the key before a change.
    pub previous: Option<Arc<dyn MasterKey>>,
}

/// Why data keys cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The file of data keys.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// Another master key wrapped a data key.
    #[error(
        "data key {key} in {KEY_FILE} is wrapped by master key {wrapped_by}, and the given master \
         key is {given}; give that key, or name it with encryption.previous_key to change to \
         {given}"
    )]
    WrongMasterKey {
        /// The data key.
        key: KeyId,
        /// The name of the master key that it needs.
        wrapped_by: String,
        /// The name of the given one.
        given: String,
    },
    /// The file is that of another directory now.
    #[error(
        "{KEY_FILE} was replaced by that of another directory; put the file of this directory back"
    )]
    Replaced,
    /// No new data key can be made.
    #[error("cannot make a data key: master key {master}: {error}")]
    NewKey {
        /// The name of the master key.
        master: String,
        /// The failure.
        error: MasterKeyError,
    },
    /// The master key failed.
    #[error("data key {key} in {KEY_FILE}: master key {master}: {error}")]
    MasterKey {
        /// The data key.
        key: KeyId,
        /// The name of the master key.
        master: String,
        /// The failure.
        error: MasterKeyError,
    },
}

/// The data keys of a directory. Clones share them.
pub struct Keyring<D: Disk> {
    inner: Arc<Inner<D>>,
}

struct Inner<D: Disk> {
    disk: D,
    masters: MasterKeys,
    file: Mutex<Option<KeyFile>>,
    opened: RwLock<HashMap<KeyId, Arc<DataKey>>>,
    /// Participants whose contents have keys of their own.
    participants: Vec<FspName>,
    /// The keys of new data. They are made by the first encryption.
    current: Mutex<Option<CurrentKeys>>,
    /// Rises when `current` changes.
    generation: AtomicU64,
}

/// The keys that encrypt new data.
#[derive(Clone)]
struct CurrentKeys {
    /// Of everything that no participant has a key for.
    common: Arc<DataKey>,
    /// By name in lower case.
    of_participants: HashMap<Vec<u8>, Arc<DataKey>>,
}

/// A data key in use.
struct DataKey {
    id: KeyId,
    key: Key,
    /// Number of encryptions by this process.
    used: AtomicU64,
    /// When this process made or opened it.
    made: Instant,
}

impl DataKey {
    fn new(id: KeyId, key: &[u8; KEY_BYTES]) -> Arc<Self> {
        let (key, used, made) = (Key::new(key), AtomicU64::new(0), Instant::now());
        Arc::new(Self { id, key, used, made })
    }

    /// Appends the sealed form of `plain`.
    fn seal(&self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) {
        let number = self.used.fetch_add(1, Ordering::Relaxed);
        assert!(number < u64::MAX / 2, "a data key is replaced long before its numbers end");
        out.reserve(plain.len() + SEAL_BYTES);
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&number.to_le_bytes());
        self.key.seal(nonce(number.to_le_bytes()), context, plain, out);
    }
}

impl<D: Disk> Keyring<D> {
    /// Opens the data keys of a directory, and checks the newest one. A directory without data keys
    /// gets its first one with the first encryption.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn open(disk: D, masters: MasterKeys) -> Result<Self, KeyringError> {
        Self::with_participants(disk, masters, Vec::new())
    }

    /// [`Keyring::open`] of a directory that seals the contents of some participants with keys of
    /// their own.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn with_participants(
        disk: D,
        masters: MasterKeys,
        participants: Vec<FspName>,
    ) -> Result<Self, KeyringError> {
        let file = KeyFile::read(&disk)?;
        let newest = file.as_ref().and_then(|file| file.keys.last()).map(|key| key.id);
        let inner = Inner {
            disk,
            masters,
            file: Mutex::new(file),
            opened: RwLock::default(),
            participants,
            current: Mutex::default(),
            generation: AtomicU64::new(0),
        };
        if let Some(newest) = newest {
            inner.unwrap(newest)?;
        }
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Makes a new data key, durable before it is used. After an error the old one stays in use.
    ///
    /// # Errors
    /// [`KeyringError`].
    pub fn renew(&self) -> Result<KeyId, KeyringError> {
        self.inner.renew(&mut lock(&self.inner.current)).map(|keys| keys.common.id)
    }

    /// Compares the file with the keys that are known, and writes a missing file again.
    ///
    /// # Errors
    /// [`KeyringError`] if the file is damaged or that of another directory.
    pub fn check(&self) -> Result<(), KeyringError> {
        self.inner.merge(&mut lock(&self.inner.file))
    }

    /// Makes a new data key if the present one is older than a period, or if this process has none
    /// yet. Returns the new key.
    ///
    /// # Errors
    /// [`KeyringError`]; the old key stays in use.
    pub fn renew_after(&self, period: Duration) -> Result<Option<KeyId>, KeyringError> {
        let mut current = lock(&self.inner.current);
        let is_young = |keys: &CurrentKeys| keys.common.made.elapsed() < period;
        match current.as_ref().is_some_and(is_young) {
            true => Ok(None),
            false => self.inner.renew(&mut current).map(|keys| Some(keys.common.id)),
        }
    }

    /// Whether contents of a participant get a key of their own.
    #[must_use]
    pub fn has_key_of(&self, participant: &FspName) -> bool {
        self.inner.participants.iter().any(|it| it.matches(participant))
    }

    /// The keys of a participant that a newer one had replaced at a time.
    #[must_use]
    pub fn replaced_keys(&self, participant: &FspName, at_us: u64) -> Vec<KeyId> {
        let file = lock(&self.inner.file);
        let keys = file.iter().flat_map(|file| &file.keys);
        let own = keys.filter(|key| key.participant.is_some_and(|it| it.matches(participant)));
        let mut own: Vec<_> = own.filter(|key| key.created_us <= at_us).map(|key| key.id).collect();
        own.pop();
        own
    }

    /// Destroys keys of participants, also in the file. Contents under them can never be read
    /// again: the caller has shown that nothing needs them. Returns their number; keys of no
    /// participant, and keys that encrypt new data, stay.
    ///
    /// # Errors
    /// [`KeyringError`]; the keys are unchanged, unless the last sync of the directory failed.
    pub fn destroy(&self, ids: &[KeyId]) -> Result<usize, KeyringError> {
        let inner = &self.inner;
        let current = lock(&inner.current);
        let in_use = |id: KeyId| current.as_ref().is_some_and(|keys| keys.has(id));
        let mut held = lock(&inner.file);
        inner.merge(&mut held)?;
        let Some(mut file) = held.clone() else { return Ok(0) };
        let destroyed_us = now_us();
        let before = file.destroyed.len();
        for WrappedKey { id, created_us, participant, .. } in &file.keys {
            if let Some(participant) = *participant
                && ids.contains(id)
                && !in_use(*id)
            {
                let (id, created_us) = (*id, *created_us);
                file.destroyed.push(DestroyedKey { id, created_us, destroyed_us, participant });
            }
        }
        let destroyed = file.destroyed.len() - before;
        if destroyed == 0 {
            return Ok(0);
        }
        file.drop_destroyed();
        file.write(&inner.disk).map_err(KeyFileError::from)?;
        let mut opened = inner.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.retain(|id, _| file.destroyed.iter().all(|key| key.id != *id));
        *held = Some(file);
        Ok(destroyed)
    }

    /// Wraps every data key with the current master key. Returns how many were wrapped by another
    /// one.
    ///
    /// # Errors
    /// [`KeyringError`]; nothing is changed then.
    pub fn rewrap(&self) -> Result<usize, KeyringError> {
        let inner = &self.inner;
        let mut held = lock(&inner.file);
        inner.merge(&mut held)?;
        let Some(mut file) = held.clone() else { return Ok(0) };
        let name = inner.masters.current.name();
        let (mut rewrapped, bound) = (0, KeyFile { keys: Vec::new(), ..file.clone() });
        for key in file.keys.iter_mut().filter(|key| key.master != name) {
            let context = bound.context((key.id, key.created_us, key.participant.as_ref()));
            let plain = inner.masters.unwrap(key, &context)?;
            key.wrapped = inner.masters.wrap(&context, &plain)?;
            key.master = name.to_owned();
            rewrapped += 1;
        }
        if 0 < rewrapped {
            file.write(&inner.disk).map_err(KeyFileError::from)?;
            *held = Some(file);
        }
        Ok(rewrapped)
    }

    /// The name of the master key that wraps new data keys.
    #[must_use]
    pub fn master(&self) -> &str {
        self.inner.masters.current.name()
    }

    /// Number of data keys that another master key than the current one wrapped.
    #[must_use]
    pub fn wrapped_by_others(&self) -> usize {
        let file = lock(&self.inner.file);
        let name = self.inner.masters.current.name();
        let keys = file.iter().flat_map(|file| &file.keys);
        keys.filter(|key| key.master != name).count()
    }
}

impl MasterKeys {
    fn unwrap(&self, key: &WrappedKey, context: &[u8]) -> Result<[u8; KEY_BYTES], KeyringError> {
        let named = |master: &&Arc<dyn MasterKey>| master.name() == key.master;
        let masters = [Some(&self.current), self.previous.as_ref()];
        let Some(master) = masters.into_iter().flatten().find(named) else {
            return Err(KeyringError::WrongMasterKey {
                key: key.id,
                wrapped_by: key.master.clone(),
                given: self.current.name().to_owned(),
            });
        };
        let master_name = key.master.clone();
        let failed = |error| KeyringError::MasterKey { key: key.id, master: master_name, error };
        master.unwrap(context, &key.wrapped).map_err(failed)
    }

    fn wrap(&self, context: &[u8], plain: &[u8; KEY_BYTES]) -> Result<Vec<u8>, KeyringError> {
        self.current.wrap(context, plain).map_err(|error| self.no_new_key(error))
    }

    fn no_new_key(&self, error: MasterKeyError) -> KeyringError {
        KeyringError::NewKey { master: self.current.name().to_owned(), error }
    }
}

impl<D: Disk> Inner<D> {
    /// Makes a key for each participant, and the common one.
    fn renew(&self, current: &mut Option<CurrentKeys>) -> Result<CurrentKeys, KeyringError> {
        let mut held = lock(&self.file);
        self.merge(&mut held)?;
        let source = |error| self.masters.no_new_key(error);
        let mut file = match held.clone() {
            Some(file) => file,
            None => {
                KeyFile { set: random().map_err(source)?, keys: Vec::new(), destroyed: Vec::new() }
            }
        };
        let mut of_participants = HashMap::new();
        for participant in &self.participants {
            let key = self.add_key(&mut file, Some(*participant))?;
            of_participants.insert(participant.folded().as_bytes().to_vec(), key);
        }
        // The last key of the file: it is opened by each start.
        let common = self.add_key(&mut file, None)?;
        file.write(&self.disk).map_err(KeyFileError::from)?;
        *held = Some(file);
        let keys = CurrentKeys { common, of_participants };
        keys.all().for_each(|key| self.note_opened(key));
        *current = Some(keys.clone());
        self.generation.fetch_add(1, Ordering::Release);
        Ok(keys)
    }

    /// Adds a new key to a file that is not written yet.
    fn add_key(
        &self,
        file: &mut KeyFile,
        participant: Option<FspName>,
    ) -> Result<Arc<DataKey>, KeyringError> {
        let source = |error| self.masters.no_new_key(error);
        let id = KeyId(loop {
            let id = u64::from_le_bytes(random().map_err(source)?);
            // A torn write is recognised by zeros at the start of a frame.
            if id as u32 != 0 {
                break id;
            }
        });
        let plain = random().map_err(source)?;
        let created_us = now_us();
        let context = file.context((id, created_us, participant.as_ref()));
        let wrapped = self.masters.wrap(&context, &plain)?;
        let master = self.masters.current.name().to_owned();
        file.keys.push(WrappedKey { id, created_us, master, wrapped, participant });
        Ok(DataKey::new(id, &plain))
    }

    /// Reads the file again and takes its keys over: another process may have added some, or
    /// wrapped them anew. A file that was deleted while this process knew its keys is written
    /// again.
    fn merge(&self, held: &mut Option<KeyFile>) -> Result<(), KeyringError> {
        let stored = KeyFile::read(&self.disk)?;
        let Some(known) = held.as_ref() else {
            *held = stored;
            return Ok(());
        };
        let Some(mut stored) = stored else {
            known.write(&self.disk).map_err(KeyFileError::from)?;
            return Ok(());
        };
        if stored.set != known.set {
            return Err(KeyringError::Replaced);
        }
        let found = stored.clone();
        let is_new = |key: &&DestroyedKey| found.destroyed.iter().all(|it| it.id != key.id);
        stored.destroyed.extend(known.destroyed.iter().filter(is_new).cloned());
        let is_missing = |key: &&WrappedKey| found.keys.iter().all(|it| it.id != key.id);
        stored.keys.extend(known.keys.iter().filter(is_missing).cloned());
        // A file with a key that was destroyed is an older one, or that of another process.
        stored.drop_destroyed();
        stored.keys.sort_by_key(|key| key.created_us);
        if stored != found {
            stored.write(&self.disk).map_err(KeyFileError::from)?;
        }
        *held = Some(stored);
        Ok(())
    }

    /// The keys for new data.
    fn current(&self) -> Result<CurrentKeys, KeyringError> {
        let mut current = lock(&self.current);
        match &*current {
            Some(keys) => Ok(keys.clone()),
            None => self.renew(&mut current),
        }
    }

    /// The key that sealed bytes name.
    fn key(&self, id: KeyId) -> Result<Arc<DataKey>, CipherError> {
        if let Some(key) = self.opened.read().unwrap_or_else(PoisonError::into_inner).get(&id) {
            return Ok(Arc::clone(key));
        }
        let opened = self
            .unwrap(id)
            .map_err(|error| CipherError::Locked { key: id, reason: error.to_string() })?;
        opened.ok_or_else(|| {
            let file = lock(&self.file);
            let mut destroyed = file.iter().flat_map(|file| &file.destroyed);
            match destroyed.any(|key| key.id == id) {
                true => CipherError::Destroyed(id),
                false => CipherError::UnknownKey(id),
            }
        })
    }

    /// Unwraps a data key of the file. If it is missing, reads the file again: another process may
    /// have added it.
    fn unwrap(&self, id: KeyId) -> Result<Option<Arc<DataKey>>, KeyringError> {
        let mut held = lock(&self.file);
        let of = |file: &Option<KeyFile>| {
            let file = file.as_ref()?;
            let key = file.keys.iter().find(|key| key.id == id)?.clone();
            Some((file.context((id, key.created_us, key.participant.as_ref())), key))
        };
        let mut found = of(&held);
        let is_destroyed =
            held.iter().flat_map(|file| &file.destroyed).any(|destroyed| destroyed.id == id);
        if found.is_none() && !is_destroyed {
            self.merge(&mut held)?;
            found = of(&held);
        }
        drop(held);
        let Some((context, wrapped)) = found else { return Ok(None) };
        let plain = self.masters.unwrap(&wrapped, &context)?;
        // This process did not make the key, and never encrypts with it.
        let key = DataKey::new(id, &plain);
        self.note_opened(&key);
        Ok(Some(key))
    }

    fn note_opened(&self, key: &Arc<DataKey>) {
        let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
        opened.insert(key.id, Arc::clone(key));
    }
}

impl<D: Disk> Cipher for Keyring<D> {
    fn sealer(&self) -> Box<dyn Sealer> {
        Box::new(KeySealer { inner: Arc::clone(&self.inner), keys: None, generation: 0 })
    }

    fn open(&self, context: &[u8], sealed: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError> {
        let id = KeyId::of(sealed).ok_or(CipherError::Changed)?;
        let key = self.inner.key(id)?;
        let number = *sealed[8..].first_chunk().expect("sealed bytes have a number");
        match key.key.open(nonce(number), context, &sealed[AT_CIPHERTEXT..], out) {
            true => Ok(()),
            false => Err(CipherError::Changed),
        }
    }
}

struct KeySealer<D: Disk> {
    inner: Arc<Inner<D>>,
    keys: Option<CurrentKeys>,
    generation: u64,
}

impl CurrentKeys {
    fn all(&self) -> impl Iterator<Item = &Arc<DataKey>> {
        self.of_participants.values().chain([&self.common])
    }

    fn has(&self, id: KeyId) -> bool {
        self.all().any(|key| key.id == id)
    }
}

impl<D: Disk> KeySealer<D> {
    fn keys(&mut self) -> Result<&CurrentKeys, CipherError> {
        let generation = self.inner.generation.load(Ordering::Acquire);
        if self.keys.is_none() || generation != self.generation {
            let no_key = |error: KeyringError| CipherError::NoNewKey(error.to_string());
            let keys = self.inner.current().map_err(no_key)?;
            (self.keys, self.generation) = (Some(keys), generation);
        }
        Ok(self.keys.as_ref().expect("they were just set"))
    }
}

impl<D: Disk> Sealer for KeySealer<D> {
    fn seal(&mut self, context: &[u8], plain: &[u8], out: &mut Vec<u8>) -> Result<(), CipherError> {
        self.keys()?.common.seal(context, plain, out);
        Ok(())
    }

    fn has_participant_keys(&self) -> bool {
        !self.inner.participants.is_empty()
    }

    fn seal_for(
        &mut self,
        owner: &FspName,
        context: &[u8],
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, CipherError> {
        let key = self.keys()?.of_participants.get(owner.folded().as_bytes());
        if let Some(key) = key {
            key.seal(context, plain, out);
        }
        Ok(key.is_some())
    }
}

impl<D: Disk> Clone for Keyring<D> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<D: Disk> fmt::Debug for Keyring<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("masters", &self.inner.masters).finish_non_exhaustive()
    }
}

fn nonce(number: [u8; 8]) -> [u8; NONCE_BYTES] {
    let mut nonce = [0; NONCE_BYTES];
    nonce[NONCE_BYTES - number.len()..].copy_from_slice(&number);
    nonce
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
