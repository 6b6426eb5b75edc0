//! The data keys of a running switch: a new one for each period and on request.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use encryption::KeyringError;
use ledger::FspName;
use operations::{DiskStatus, RotatedKey};

use crate::data::encryption::DataKeys;
use crate::serve::job_reporter::JobReporter;
use crate::serve::segments::JobFailure;

/// Makes data keys. After a failure the old key stays in use, `GET /storage`, the metrics and the
/// alarms show the reason, and the next check tries again.
pub(crate) struct KeyRenewal {
    keys: DataKeys,
    period: Duration,
    /// Locked while a key is made.
    reporter: Mutex<JobReporter>,
}

impl KeyRenewal {
    pub(crate) fn new(keys: DataKeys, period: Duration, storage: &Arc<Mutex<DiskStatus>>) -> Self {
        let reporter = JobReporter::new("encryption", storage, |it| &mut it.encryption);
        Self { keys, period, reporter: Mutex::new(reporter) }
    }

    /// Makes a new key if the period has ended, or if the last attempt failed; compares the file of
    /// keys with the known ones.
    pub(crate) fn check(&self) -> Result<(), ()> {
        self.report(|| {
            self.keys.check()?;
            self.keys.renew_after(self.period)
        })
        .map(|_| ())
    }

    /// Whether contents of a participant have keys of their own.
    pub(crate) fn has_key_of(&self, participant: &FspName) -> bool {
        self.keys.has_key_of(participant)
    }

    /// Makes a new key now. May block: the master key may be that of a command or a token.
    pub(crate) fn rotate(&self) -> Option<RotatedKey> {
        let made = self.report(|| self.keys.renew().map(Some));
        let id = made.ok().flatten()?;
        Some(RotatedKey { id, master_key: self.keys.master().to_owned() })
    }

    /// Reports the result. Returns the id of a new key.
    fn report(
        &self,
        work: impl FnOnce() -> Result<Option<ports::KeyId>, KeyringError>,
    ) -> Result<Option<String>, ()> {
        let reporter = self.reporter.lock().unwrap_or_else(PoisonError::into_inner);
        let made = work();
        if let Ok(Some(key)) = &made {
            tracing::info!(%key, "a new data key encrypts from now on");
        }
        let key = made.as_ref().ok().copied().flatten().map(|key| key.to_string());
        let result = made.map(|_| None).map_err(|error| JobFailure::Failed(error.to_string()));
        reporter.report(result).map(|()| key)
    }
}
