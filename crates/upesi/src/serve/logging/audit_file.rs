//! The file of the audit trail: appended to, and opened again on request.
//!
//! An entry that cannot be written, for example to a full disk, becomes a message instead. It is
//! counted, and [`AuditFile::report`] logs the failure.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing_appender::non_blocking::NonBlocking;
use tracing_subscriber::fmt::MakeWriter;

use crate::CliError;

/// Minimum time between two messages about failures.
const REPORT_TIME: Duration = Duration::from_secs(60);

/// Entries of this process that could not be written to the file.
static FAILED: AtomicU64 = AtomicU64::new(0);

/// The file, shared by its clones. One call of `write` is one entry.
#[derive(Clone)]
pub(super) struct AuditFile {
    path: Arc<PathBuf>,
    state: Arc<Mutex<FileState>>,
    /// Takes the entries that the file does not take.
    messages: NonBlocking,
}

struct FileState {
    file: File,
    /// The last entry was written in part, without its line end.
    is_torn: bool,
    failures: Failures,
}

/// Failures since the last message about them.
#[derive(Default)]
struct Failures {
    unreported: u64,
    error: Option<io::Error>,
    reported: Option<Instant>,
    /// The last entry was written.
    is_over: bool,
}

/// Number of entries that could not be written to the file.
pub(crate) fn failed() -> u64 {
    FAILED.load(Ordering::Relaxed)
}

impl AuditFile {
    pub(super) fn open(path: &Path, messages: NonBlocking) -> Result<Self, CliError> {
        let file = open_to_append(path).map_err(|error| {
            CliError::new(format!("logging.audit_file: {}: {error}", path.display()))
        })?;
        let state = FileState { file, is_torn: false, failures: Failures::default() };
        let state = Arc::new(Mutex::new(state));
        Ok(Self { path: Arc::new(path.to_owned()), state, messages })
    }

    pub(super) fn reopen(&self) -> io::Result<()> {
        let file = open_to_append(&self.path)?;
        let mut state = self.state();
        (state.file, state.is_torn) = (file, false);
        Ok(())
    }

    /// Logs new failures, at most one message a minute, and the end of them.
    pub(super) fn report(&self) {
        let now = Instant::now();
        let path = self.path.display();
        // Logged without the lock, because the layers of the file take it.
        let due = self.state().failures.take_report(now);
        match due {
            Some(Report::Failed { entries, error }) => tracing::error!(
                %path, entries, %error,
                "logging.audit_file: audit entries are not written to it; they are messages"
            ),
            Some(Report::Recovered) => {
                tracing::info!(%path, "logging.audit_file: audit entries are written again");
            }
            None => {}
        }
    }

    fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`AuditFile::report`] logs.
enum Report {
    Failed { entries: u64, error: io::Error },
    Recovered,
}

impl Failures {
    fn add(&mut self, error: io::Error) {
        FAILED.fetch_add(1, Ordering::Relaxed);
        self.unreported += 1;
        self.error = Some(error);
        self.is_over = false;
    }

    fn take_report(&mut self, now: Instant) -> Option<Report> {
        let is_due = self.reported.is_none_or(|last| REPORT_TIME <= now - last);
        if let Some(error) = self.error.take_if(|_| is_due || self.is_over) {
            self.reported = Some(now);
            return Some(Report::Failed { entries: std::mem::take(&mut self.unreported), error });
        }
        let is_recovered = self.is_over && self.reported.take().is_some();
        is_recovered.then_some(Report::Recovered)
    }
}

impl FileState {
    /// Appends an entry, after the line end that an entry before it lacks.
    fn append(&mut self, entry: &[u8]) -> io::Result<()> {
        if self.is_torn {
            self.write_counted(b"\n")?;
            self.is_torn = false;
        }
        self.write_counted(entry)?;
        self.failures.is_over = true;
        Ok(())
    }

    fn write_counted(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.file.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    rest = &rest[written..];
                    self.is_torn = !rest.is_empty();
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn open_to_append(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

impl Write for AuditFile {
    /// Writes one entry, to the messages if the file does not take it.
    fn write(&mut self, entry: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        let Err(error) = state.append(entry) else { return Ok(entry.len()) };
        state.failures.add(error);
        drop(state);
        self.messages.write_all(entry)?;
        Ok(entry.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for AuditFile {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}
