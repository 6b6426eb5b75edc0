//! Notes once a second how far the log is durable ([`journal::Marker`]), on a thread of its own
//! that the sequencer never waits for; so that a start tells a log whose end somebody cut off from
//! one that ends there.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use journal::{DurableFrames, DurableMarkWriter, MARK};
use ports::Disk;

use crate::CliError;

/// Between two notes: what became durable after the last one is not covered.
const EVERY: Duration = Duration::from_secs(1);

/// The thread; it ends, after a last note, when this is dropped.
pub(crate) struct DurableMarkThread {
    alarm: Option<SyncSender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl DurableMarkThread {
    pub(crate) fn start<D>(disk: D, frames: DurableFrames<D>) -> Result<Self, CliError>
    where
        D: Disk + Send + 'static,
        D::File: Send,
        DurableFrames<D>: Send,
    {
        let (alarm, waiting) = sync_channel(1);
        let marker = DurableMarkWriter::new(disk, frames);
        let thread = thread::Builder::new()
            .name("mark".into())
            .spawn(move || note_until_told(marker, &waiting))
            .map_err(|error| CliError::new(format!("cannot start a thread: {error}")))?;
        Ok(Self { alarm: Some(alarm), thread: Some(thread) })
    }
}

impl Drop for DurableMarkThread {
    fn drop(&mut self) {
        self.alarm = None;
        if let Some(thread) = self.thread.take() {
            // What it had to say it has said.
            let _ended = thread.join();
        }
    }
}

fn note_until_told<D: Disk>(mut marker: DurableMarkWriter<D>, waiting: &Receiver<()>) {
    let mut is_failing = false;
    loop {
        let told = waiting.recv_timeout(EVERY);
        match marker.note() {
            Ok(()) => is_failing = false,
            Err(error) if !is_failing => {
                is_failing = true;
                ports::log_line(format_args!(
                    "{MARK}: cannot be written: {error}. The log is not affected; until the file \
                     is written, a truncated log cannot be detected"
                ));
            }
            Err(_) => {}
        }
        if told != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}
