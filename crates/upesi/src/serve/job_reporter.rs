//! The status of background jobs.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ledger::LogIndex;
use operations::{BackgroundJob, DiskStatus};

use crate::data::archive::before_now;
use crate::serve::segments::JobFailure;

/// Selects the status of a job.
type Field = fn(&mut DiskStatus) -> &mut Option<BackgroundJob>;

/// Publishes the status of a job, and logs its failures and recoveries. A first failure may be an
/// instant between two jobs, such as a segment that is being archived; a second one in a row is an
/// error.
pub(crate) struct JobReporter {
    name: &'static str,
    /// The error that was logged as one.
    logged: RefCell<Option<String>>,
    storage: Arc<Mutex<DiskStatus>>,
    field: Field,
}

impl JobReporter {
    pub(crate) fn new(name: &'static str, storage: &Arc<Mutex<DiskStatus>>, field: Field) -> Self {
        *field(&mut lock(storage)) = Some(BackgroundJob::default());
        Self { name, logged: RefCell::default(), storage: Arc::clone(storage), field }
    }

    pub(crate) fn report(&self, result: Result<Option<LogIndex>, JobFailure>) -> Result<(), ()> {
        let mut storage = lock(&self.storage);
        let job = (self.field)(&mut storage).get_or_insert_default();
        match result {
            Ok(log_index) => {
                if job.failing.take().is_some() {
                    tracing::info!(job = self.name, "works again");
                }
                self.logged.take();
                job.last_done = Some(before_now(Duration::ZERO));
                job.log_index = log_index.map_or(job.log_index, |log_index| log_index.0);
                Ok(())
            }
            Err(JobFailure::Stopped) => Ok(()),
            Err(JobFailure::Failed(error)) => {
                if job.failing.is_none() {
                    tracing::info!(job = self.name, %error, "failed once; it is retried");
                } else if self.logged.borrow().as_ref() != Some(&error) {
                    tracing::error!(job = self.name, %error, "failed; it is retried");
                    self.logged.replace(Some(error.clone()));
                }
                job.failing = Some(error);
                Err(())
            }
        }
    }
}

fn lock(storage: &Mutex<DiskStatus>) -> MutexGuard<'_, DiskStatus> {
    storage.lock().unwrap_or_else(PoisonError::into_inner)
}
