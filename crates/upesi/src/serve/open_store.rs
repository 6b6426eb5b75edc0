//! Opens the cold store of a data directory, compares it with the log, and rebuilds it if it cannot
//! be used. The store is derived from the log and can always be deleted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journal::TailPolicy;
use ledger::LogIndex;
use ports::{ColdStore, Log, OptionalCipher};
use record::frame::LogIdentity;
use sequencer::{ColdTier, is_of_log};
use store::{Disk, StoreOptions, WriteBehind};

use crate::CliError;
use crate::cli::stdout;
use crate::config::Config;
use crate::data::layout;
use crate::serve::truncation;

/// Path and options of the store.
pub(crate) struct StorePaths {
    path: PathBuf,
    identity: LogIdentity,
    options: StoreOptions,
    keep_final: Duration,
}

impl StorePaths {
    pub(crate) fn new(config: &Config, data: &Path, identity: LogIdentity) -> Self {
        Self {
            path: data.join(layout::STORE),
            identity,
            options: StoreOptions { cache_bytes: config.store.cache_mib << 20, cipher: None },
            keep_final: Duration::from_secs(config.store.keep_ended_seconds),
        }
    }

    /// The same store with the cipher of its directory.
    pub(crate) fn with_cipher(mut self, cipher: OptionalCipher) -> Self {
        self.options.cipher = cipher;
        self
    }

    /// Opens the existing store if it was made from this log, or creates an empty one.
    /// `tail_policy` is that of a log in files; with it, a store with later records than the log is
    /// an error or is rebuilt.
    pub(crate) fn open(
        &self,
        log: &mut impl Log,
        tail_policy: Option<TailPolicy>,
    ) -> Result<Arc<Disk>, CliError> {
        let opened = Disk::open(&self.path, self.identity, self.options.clone());
        let (store, reason) = opened.map_err(|error| CliError::new(error.to_string()))?;
        if let Some(reason) = reason {
            print_rebuild(&reason);
            return Ok(Arc::new(store));
        }
        let (mark, end) = (store.mark(), log.end());
        if let Some(tail_policy) = tail_policy {
            truncation::check_store(&store, end, tail_policy)
                .map_err(|why| CliError::new(format!("{}: {why}", self.path.display())))?;
        }
        let same = is_of_log(log, &mark)
            .map_err(|error| CliError::new(format!("{}: {error}", self.path.display())))?;
        if same {
            if mark.log_index == LogIndex(0) && LogIndex(0) < end {
                print_rebuild("it is empty");
            }
            return Ok(Arc::new(store));
        }
        print_rebuild(&match end < mark.log_index {
            true => format!("it has record {}, but the log ends with {}", mark.log_index.0, end.0),
            false => format!("its record {} differs from that of the log", mark.log_index.0),
        });
        drop(store);
        self.create()
    }

    /// Replaces the store by an empty one.
    pub(crate) fn create(&self) -> Result<Arc<Disk>, CliError> {
        let begun = Disk::begin(&self.path, self.identity, self.options.clone());
        begun.map(Arc::new).map_err(|error| CliError::new(error.to_string()))
    }

    /// The cold tier of a sequencer with this store.
    pub(crate) fn cold_tier(&self, store: &Arc<Disk>) -> Result<ColdTier, CliError> {
        let queue = WriteBehind::start(Arc::clone(store) as _)
            .map_err(|error| CliError::new(format!("cannot start the store's thread: {error}")))?;
        Ok(ColdTier::new(Box::new(queue), self.keep_final))
    }
}

/// Reports why the store is rebuilt.
pub(crate) fn print_rebuild(reason: &str) {
    stdout::print_message(format_args!("the cold store is rebuilt from the log: {reason}"));
}
