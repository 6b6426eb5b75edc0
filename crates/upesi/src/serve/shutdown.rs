//! An orderly stop that a part holds up ends all the same: nobody has to kill the process.

use std::process::exit;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use crate::serve::watchdog::EXIT_CODE;

/// Ends the process unless it is dropped in time. Nothing acknowledged is lost by that: what was
/// answered is in the log, and notices that were owed are owed again.
#[must_use]
pub(crate) struct Deadline {
    _done: SyncSender<()>,
}

impl Deadline {
    /// `what` must have ended within `patience`.
    pub(crate) fn begin(what: &'static str, patience: Duration) -> Self {
        let (done, waiting) = sync_channel(0);
        let wait = move || {
            if waiting.recv_timeout(patience) == Err(RecvTimeoutError::Timeout) {
                ports::log_line(format_args!(
                    "{what} did not stop within {} s; the process ends without: what was \
                     acknowledged is in the log",
                    patience.as_secs()
                ));
                exit(EXIT_CODE);
            }
        };
        // Without the thread the stop is as patient as its slowest part.
        let _thread = thread::Builder::new().name("stopping".into()).spawn(wait);
        Self { _done: done }
    }
}
