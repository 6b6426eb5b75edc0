//! The cold store of a data directory: opened, held against the log, and begun anew when it cannot
//! be used. It is never the truth, so that it can always be deleted.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journal::TailPolicy;
use ledger::LogIndex;
use ports::{ColdStore, Log};
use record::frame::LogIdentity;
use sequencer::{ColdTier, is_of_log};
use store::{Disk, Options, WriteBehind};

use crate::CliError;
use crate::cli::stdout;
use crate::config::Config;
use crate::data::layout;
use crate::serve::truncation;

/// Where the store is, and how it is held.
pub(crate) struct Place {
    path: PathBuf,
    identity: LogIdentity,
    options: Options,
    keep: Duration,
}

impl Place {
    pub(crate) fn new(config: &Config, data: &Path, identity: LogIdentity) -> Self {
        Self {
            path: data.join(layout::STORE),
            identity,
            options: Options { cache_bytes: config.store.cache_mib << 20 },
            keep: Duration::from_secs(config.store.keep_ended_seconds),
        }
    }

    /// The store that is there, if it was made from this log; else an empty one. One that shows
    /// that the end of a log of this node's `own` is missing is left as it is, unless that is given
    /// up.
    pub(crate) fn open(
        &self,
        log: &mut impl Log,
        own: Option<TailPolicy>,
    ) -> Result<Arc<Disk>, CliError> {
        let opened = Disk::open(&self.path, self.identity, self.options);
        let (store, reason) = opened.map_err(|error| CliError::new(error.to_string()))?;
        if let Some(reason) = reason {
            say(&reason);
            return Ok(Arc::new(store));
        }
        let (mark, end) = (store.mark(), log.end());
        if let Some(tail_policy) = own {
            truncation::check_store(&store, end, tail_policy)
                .map_err(|why| CliError::new(format!("{}: {why}", self.path.display())))?;
        }
        let same = is_of_log(log, &mark)
            .map_err(|error| CliError::new(format!("{}: {error}", self.path.display())))?;
        if same {
            if mark.log_index == LogIndex(0) && LogIndex(0) < end {
                say("it is empty");
            }
            return Ok(Arc::new(store));
        }
        say(&match end < mark.log_index {
            true => format!("it is at record {}, and the log ends at {}", mark.log_index.0, end.0),
            false => "it was made from a log that went another way".into(),
        });
        drop(store);
        self.begin()
    }

    /// After what is there was found damaged: an empty store.
    pub(crate) fn begin(&self) -> Result<Arc<Disk>, CliError> {
        let begun = Disk::begin(&self.path, self.identity, self.options);
        begun.map(Arc::new).map_err(|error| CliError::new(error.to_string()))
    }

    /// The cold side of a sequencer over the store.
    pub(crate) fn side(&self, store: &Arc<Disk>) -> Result<ColdTier, CliError> {
        let behind = WriteBehind::start(Arc::clone(store) as _)
            .map_err(|error| CliError::new(format!("cannot start the store's thread: {error}")))?;
        Ok(ColdTier::new(Box::new(behind), self.keep))
    }
}

/// Says that, and why, everything is written anew.
pub(crate) fn say(reason: &str) {
    stdout::print_message(format_args!("the cold store is built anew from the log: {reason}"));
}
