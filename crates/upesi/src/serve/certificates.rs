//! TLS files of the listeners: opened at the start, read again on SIGHUP and once a minute.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Labels, Number};
use tls::{CertificateStatus, ReloadOutcome, ServerFiles, ServerTls, TlsFileError};
use tokio::task::JoinHandle;

use crate::CliError;
use crate::cli::stdout;
use crate::config::Config;

/// Interval of reading the files again.
pub(super) const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of certificates and revocation lists in the metrics.
const SHOWN_MAX: usize = 100;

/// TLS of the listeners.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    pub(super) fspiop: Option<Arc<ServerTls>>,
    pub(super) admin: Option<Arc<ServerTls>>,
    /// The last error of each listener, so that a timer reports it once.
    reported: Mutex<[String; 2]>,
    reading: Mutex<Option<JoinHandle<()>>>,
}

/// Why the files are read again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReloadReason {
    Signal,
    Timer,
}

impl Certificates {
    /// Reads the files. Fails if one cannot be used.
    pub(super) fn open(config: &Config) -> Result<Arc<Self>, CliError> {
        let fspiop = config.fspiop_tls().map(open).transpose()?.map(Arc::new);
        let admin = config.admin_tls().map(open).transpose()?.map(Arc::new);
        Ok(Arc::new(Self { fspiop, admin, ..Self::default() }))
    }

    fn listeners(&self) -> impl Iterator<Item = &Arc<ServerTls>> {
        [&self.fspiop, &self.admin].into_iter().flatten()
    }

    /// Begins to read the files again on another thread, unless that is in progress.
    pub(super) fn reload(self: &Arc<Self>, reason: ReloadReason) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reading = reading.as_ref().is_some_and(|task| !task.is_finished());
        if self.listeners().next().is_some() && !is_reading {
            let certificates = Arc::clone(self);
            *reading = Some(tokio::task::spawn_blocking(move || certificates.read_again(reason)));
        }
    }

    fn read_again(&self, reason: ReloadReason) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        for (listener, reported) in self.listeners().zip(&mut *reported) {
            match listener.reload() {
                Ok(outcome) => {
                    reported.clear();
                    if outcome == ReloadOutcome::Replaced || reason == ReloadReason::Signal {
                        stdout::print_message(describe(listener));
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if reason == ReloadReason::Signal || *reported != error {
                        tracing::error!(%error, "the TLS files read before stay in use");
                    }
                    *reported = error;
                }
            }
        }
    }

    /// Handshakes by listener and result.
    pub(super) fn handshakes(&self) -> Vec<(Labels, Number)> {
        let of = |listener: &Arc<ServerTls>| -> Vec<_> {
            let section = listener.section();
            let sample = |(result, count): (&'static str, u64)| {
                let labels = vec![("listener", section.into()), ("result", result.into())];
                (labels, Number::Integer(count.into()))
            };
            listener.counts().by_result().map(sample).collect()
        };
        self.listeners().flat_map(of).collect()
    }

    /// Whether the files of a listener could not be used when they were last read.
    pub(super) fn failures(&self) -> Vec<(Labels, Number)> {
        let sample = |listener: &Arc<ServerTls>| {
            let labels = vec![("listener", listener.section().into())];
            (labels, Number::Integer(listener.has_failed().into()))
        };
        self.listeners().map(sample).collect()
    }

    /// When each loaded certificate and revocation list expires.
    pub(super) fn expiries(&self) -> Vec<(Labels, Number)> {
        let of = |listener: &Arc<ServerTls>| {
            let section = listener.section();
            let shown: Vec<_> = listener.status().iter().map(|it| sample(section, it)).collect();
            shown
        };
        self.listeners().flat_map(of).take(SHOWN_MAX).collect()
    }
}

/// Checks the files as [`Certificates::open`] does.
pub(crate) fn check(config: &Config) -> Result<(), CliError> {
    Certificates::open(config).map(drop)
}

fn open(files: ServerFiles) -> Result<ServerTls, CliError> {
    ServerTls::open(files).map_err(|error: TlsFileError| CliError::new(error.to_string()))
}

fn sample(section: &'static str, status: &CertificateStatus) -> (Labels, Number) {
    let subject = status.subject.clone().into();
    let labels =
        vec![("listener", section.into()), ("kind", status.kind.into()), ("subject", subject)];
    (labels, Number::Integer(status.expires.max(0).into()))
}

fn describe(listener: &ServerTls) -> String {
    let status = listener.status();
    let count = |kind| status.iter().filter(|it| it.kind == kind).count();
    let subject = status.first().map_or("", |it| &*it.subject);
    format!(
        "{}: certificate of {subject}, {} authorities of clients and {} revocation lists loaded",
        listener.section(),
        count("client_ca"),
        count("crl"),
    )
}
