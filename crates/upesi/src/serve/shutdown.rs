//! The stop request, and a deadline for an orderly stop. If a part does not stop in time, the
//! process exits.

use std::process::exit;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use tokio::sync::watch;

use crate::serve::logging;
use crate::serve::watchdog::EXIT_CODE;

/// Exits the process unless it is dropped in time. Nothing acknowledged is lost: every answered
/// request is in the log, and owed notices are owed again after the next start.
#[must_use]
pub(crate) struct Deadline {
    _done: SyncSender<()>,
}

impl Deadline {
    /// `what` must stop within `timeout`.
    pub(crate) fn begin(what: &'static str, timeout: Duration) -> Self {
        let (done, waiting) = sync_channel(0);
        let wait = move || {
            if waiting.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
                tracing::error!(
                    part = what,
                    seconds = timeout.as_secs(),
                    "did not stop in time; the process exits now. All acknowledged records are in \
                     the log"
                );
                logging::flush();
                exit(EXIT_CODE);
            }
        };
        // Without the thread, the stop has no deadline.
        let _thread = thread::Builder::new().name("stopping".into()).spawn(wait);
        Self { _done: done }
    }
}

/// Waits for the stop request. A dropped sender counts as one.
pub(crate) async fn until_stopped(mut stopping: watch::Receiver<bool>) {
    let _stopped = stopping.wait_for(|stop| *stop).await;
}
