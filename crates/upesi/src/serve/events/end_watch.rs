//! Wakes the clients that follow the events when records become durable.
//!
//! The writer of the log only stores a number. One thread reads that number at a
//! short interval, as long as a client follows. Timers of the runtime would be late by up to 2 ms.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use ledger::LogIndex;
use tokio::sync::watch;

use super::replay::EventSource;

/// Interval of the checks.
const POLL: Duration = Duration::from_micros(250);

/// The end of the durable log, for any number of clients.
pub(super) struct EndWatch {
    end: watch::Sender<LogIndex>,
    /// Whether the thread runs.
    is_running: Mutex<bool>,
}

impl EndWatch {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { end: watch::Sender::default(), is_running: Mutex::new(false) })
    }

    /// The end of the log from now on. `None` if there is no thread to be had.
    pub(super) fn subscribe(
        self: &Arc<Self>,
        source: &EventSource,
    ) -> Option<watch::Receiver<LogIndex>> {
        let receiver = self.end.subscribe();
        let mut is_running = self.lock();
        if !*is_running {
            let (watch, log) = (Arc::clone(self), source.clone());
            let thread = thread::Builder::new().name("event-ends".into());
            thread.spawn(move || watch.run(&log)).ok()?;
            *is_running = true;
        }
        Some(receiver)
    }

    /// Checks until no client follows.
    fn run(&self, source: &EventSource) {
        loop {
            let end = source.log.frames.end();
            self.end.send_if_modified(|known| std::mem::replace(known, end) != end);
            let mut is_running = self.lock();
            if self.end.receiver_count() == 0 {
                *is_running = false;
                return;
            }
            drop(is_running);
            thread::sleep(POLL);
        }
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.is_running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
