//! A directory of participants' public keys that can be reloaded while the hub runs.
//!
//! Files are named `<fspId>.pem` and `<fspId>.<n>.pem` with digits `n`: a participant can have
//! several valid keys. Other files, hidden ones and directories are ignored.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ledger::FspName;

use crate::key::VerificationKey;
use crate::key_ring::{KeyRing, LoadError, insert, key_files, read_key};

/// The keys of a directory as last read, for any thread.
#[derive(Debug)]
pub struct KeyDirectory {
    path: PathBuf,
    files: Mutex<Files>,
    ring: RwLock<KeyRing>,
    generation: AtomicU64,
}

type Files = BTreeMap<PathBuf, (FspName, VerificationKey)>;

/// The result of reloading a directory.
#[derive(Debug)]
pub struct ReloadReport {
    /// Number of keys in use.
    pub keys: usize,
    /// Number of participants with keys.
    pub participants: usize,
    /// Files that could not be read.
    pub faults: Vec<LoadError>,
}

impl KeyDirectory {
    /// Reads a directory for the first time.
    ///
    /// # Errors
    /// Like [`KeyRing::load`]: a hub with missing keys would refuse valid messages.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let directory = Self {
            path: path.to_owned(),
            files: Mutex::default(),
            ring: RwLock::default(),
            generation: AtomicU64::new(0),
        };
        match directory.reload().faults.into_iter().next() {
            None => Ok(directory),
            Some(fault) => Err(fault),
        }
    }

    /// Reloads the directory. Changes take effect with the next message. The key of a deleted file
    /// is dropped. A file that cannot be read or parsed keeps its previous key, and a directory
    /// that cannot be read changes nothing.
    ///
    /// Cost: reads every file, about 50 µs each. Do not call it on a thread that serves messages.
    pub fn reload(&self) -> ReloadReport {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let mut faults = Vec::new();
        match key_files(&self.path) {
            Ok(paths) => *files = read_all(paths, &mut files, &mut faults),
            Err(fault) => faults.push(fault),
        }
        let mut ring = HashMap::new();
        for (path, (name, key)) in files.iter() {
            if let Err(source) = insert(&mut ring, *name, key.clone()) {
                faults.push(LoadError::Key { path: path.clone(), source });
            }
        }
        let reloaded = ReloadReport {
            keys: ring.values().map(Vec::len).sum(),
            participants: ring.len(),
            faults,
        };
        let ring = KeyRing(Arc::new(ring));
        *self.ring.write().unwrap_or_else(PoisonError::into_inner) = ring;
        self.generation.fetch_add(1, Ordering::Release);
        reloaded
    }

    /// Rises whenever the directory is reloaded. One atomic load.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The keys as last read.
    #[must_use]
    pub fn ring(&self) -> KeyRing {
        self.ring.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Reads the files. A file that cannot be read keeps its previous key.
fn read_all(paths: Vec<PathBuf>, before: &mut Files, faults: &mut Vec<LoadError>) -> Files {
    let mut files = Files::new();
    for path in paths {
        match read_key(&path) {
            Ok(entry) => {
                files.insert(path, entry);
            }
            Err(fault) => {
                faults.push(fault);
                if let Some(entry) = before.remove(&path) {
                    files.insert(path, entry);
                }
            }
        }
    }
    files
}
