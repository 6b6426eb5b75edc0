//! Publishes signed chain heads ([`crate::data::chain_heads`]) while the switch runs.

use std::sync::Arc;

use journal::{BlobStore, DurableFrames, RealDisk, TieredDisk};
use ledger::LogIndex;

use crate::CliError;
use crate::config::Config;
use crate::data::chain_heads;
use crate::serve::signatures::SigningKeyFile;

/// Signs the end of the log and publishes it.
pub(super) struct Publisher {
    place: Arc<dyn BlobStore>,
    key: SigningKeyFile,
    log: TieredDisk<RealDisk>,
    frames: DurableFrames<TieredDisk<RealDisk>>,
    published: LogIndex,
}

impl Publisher {
    /// The publisher to a store, if a key is configured.
    pub(super) fn open(
        place: Arc<dyn BlobStore>,
        config: &Config,
        log: &TieredDisk<RealDisk>,
        frames: DurableFrames<TieredDisk<RealDisk>>,
    ) -> Result<Option<Self>, CliError> {
        let Some((setting, path)) = config.chain_heads_key() else { return Ok(None) };
        let key = SigningKeyFile::open(setting, path)?;
        Ok(Some(Self { place, key, log: log.clone(), frames, published: LogIndex(0) }))
    }

    /// Publishes the end of the log if records were added; returns the last published record.
    pub(super) fn publish(&mut self) -> Result<Option<LogIndex>, String> {
        // With an unusable file, the key read before signs, and the job reports the reason.
        let reloaded = self.key.reload().map_err(text);
        let end = self.frames.end();
        if end <= self.published {
            return reloaded.map(|_| None);
        }
        journal::claim_for(&self.log, &*self.place).map_err(text)?;
        let tail = self.frames.tail_at(end).map_err(text)?;
        let tail = tail.ok_or("the end of the log cannot be read")?;
        chain_heads::publish(&*self.place, &self.key.keys().signing(), &tail).map_err(text)?;
        self.published = end;
        reloaded.map(|_| Some(end))
    }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
