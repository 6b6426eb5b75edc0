//! Writes the durable mark once a second ([`journal::DurableMarkWriter`]), on a thread of its own
//! that the sequencer never waits for. With the mark, a start detects a truncated log.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use journal::{DurableFrames, DurableMarkWriter, MARK};
use ports::Disk;

use crate::CliError;

/// Interval of the mark. It does not cover records that became durable after the last write.
const INTERVAL: Duration = Duration::from_secs(1);

/// The thread. It writes a last mark and ends when this is dropped.
pub(crate) struct DurableMarkThread {
    stop: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DurableMarkThread {
    pub(crate) fn start<D>(disk: D, frames: DurableFrames<D>) -> Result<Self, CliError>
    where
        D: Disk + Send + 'static,
        D::File: Send,
        DurableFrames<D>: Send,
    {
        let (stop, waiting) = sync_channel(1);
        let marker = DurableMarkWriter::new(disk, frames);
        let thread = thread::Builder::new()
            .name("mark".into())
            .spawn(move || write_until_dropped(marker, &waiting))
            .map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for DurableMarkThread {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread reports its errors itself.
            let _ended = thread.join();
        }
    }
}

fn write_until_dropped<D: Disk>(mut marker: DurableMarkWriter<D>, waiting: &Receiver<()>) {
    let mut is_failing = false;
    loop {
        let received = waiting.recv_timeout(INTERVAL);
        match marker.note() {
            Ok(()) => is_failing = false,
            Err(error) if !is_failing => {
                is_failing = true;
                tracing::warn!(
                    file = MARK,
                    %error,
                    "cannot be written. The log is not affected; until the file is written, a \
                     truncated log cannot be detected"
                );
            }
            Err(_) => {}
        }
        if received != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
