//! TLS files of the listeners and of calls, and the hub's signing key: opened at the start, read
//! again on SIGHUP and once a minute.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Labels, Number};
use tls::{
    CertificateStatus, ClientFiles, ClientTls, HandshakeCounts, ParticipantAuthority,
    ReloadOutcome, ServerFiles, ServerTls, TlsFileError,
};
use tokio::task::JoinHandle;

use crate::CliError;
use crate::cli::stdout;
use crate::config::traces::variable;
use crate::config::{AlertReceivers, Config};
use crate::serve::signatures::SigningKeyFile;

/// Interval of reading the files again.
pub(super) const RELOAD_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of certificates and revocation lists in the metrics.
const SHOWN_MAX: usize = 100;

/// Files that are read again.
trait TlsFiles {
    fn section(&self) -> &'static str;
    fn reload(&self) -> Result<ReloadOutcome, TlsFileError>;
    fn status(&self) -> Arc<[CertificateStatus]>;
    fn has_failed(&self) -> bool;
    fn counts(&self) -> &HandshakeCounts;
}

macro_rules! tls_files {
    ($($type:ty),*) => {
        $(impl TlsFiles for $type {
            fn section(&self) -> &'static str {
                self.section()
            }

            fn reload(&self) -> Result<ReloadOutcome, TlsFileError> {
                self.reload()
            }

            fn status(&self) -> Arc<[CertificateStatus]> {
                self.status()
            }

            fn has_failed(&self) -> bool {
                self.has_failed()
            }

            fn counts(&self) -> &HandshakeCounts {
                self.counts()
            }
        })*
    };
}

tls_files!(ServerTls, ClientTls);

/// TLS of the listeners and of calls, and the hub's signing key.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    pub(super) fspiop: Option<Arc<ServerTls>>,
    pub(super) admin: Option<Arc<ServerTls>>,
    pub(super) calls: Option<Arc<ClientTls>>,
    /// Of webhooks.
    pub(super) alerts: Option<Arc<ClientTls>>,
    /// Of the export of traces.
    pub(super) traces: Option<Arc<ClientTls>>,
    /// The authority that signs requests of participants.
    pub(super) authority: Option<Arc<ParticipantAuthority>>,
    /// The key of the hub's signatures.
    pub(super) signing_key: Option<SigningKeyFile>,
    /// The last error of each, so that a timer reports it once.
    reported: Mutex<[String; 5]>,
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
    pub(crate) fn open(config: &Config) -> Result<Arc<Self>, CliError> {
        let fspiop = config.fspiop_tls().map(open).transpose()?.map(Arc::new);
        let admin = config.admin_tls().map(open).transpose()?.map(Arc::new);
        let calls = open_calls(config)?;
        let alerts = config.alerts_tls().map(open_client).transpose()?;
        let is_traced = config.traces.export(&variable, "")?.is_some();
        let traces = is_traced.then(|| open_client(config.traces_tls())).transpose()?;
        let authority = config.participant_authority();
        let authority = authority.map(|files| ParticipantAuthority::open(&files)).transpose();
        let authority = authority.map_err(|error| CliError::new(error.to_string()))?.map(Arc::new);
        let signing_key = SigningKeyFile::of_hub(config)?;
        let reported = Mutex::default();
        let reading = Mutex::default();
        Ok(Arc::new(Self {
            fspiop,
            admin,
            calls,
            alerts,
            traces,
            authority,
            signing_key,
            reported,
            reading,
        }))
    }

    fn all(&self) -> impl Iterator<Item = &dyn TlsFiles> {
        let listeners = [&self.fspiop, &self.admin].into_iter().flatten();
        let listeners = listeners.map(|listener| &**listener as &dyn TlsFiles);
        let calls = [&self.calls, &self.alerts, &self.traces].into_iter().flatten();
        listeners.chain(calls.map(|calls| &**calls as &dyn TlsFiles))
    }

    /// Begins to read the files again on another thread, unless that is in progress.
    pub(super) fn reload(self: &Arc<Self>, reason: ReloadReason) {
        let mut reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let is_reading = reading.as_ref().is_some_and(|task| !task.is_finished());
        let has_files = self.all().next().is_some() || self.signing_key.is_some();
        if has_files && !is_reading {
            let certificates = Arc::clone(self);
            *reading = Some(tokio::task::spawn_blocking(move || certificates.read_again(reason)));
        }
    }

    fn read_again(&self, reason: ReloadReason) {
        if let Some(key) = &self.signing_key {
            key.reload_and_report(reason == ReloadReason::Signal);
        }
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        for (files, reported) in self.all().zip(&mut *reported) {
            match files.reload() {
                Ok(outcome) => {
                    reported.clear();
                    let is_asked = reason == ReloadReason::Signal && !files.status().is_empty();
                    if outcome == ReloadOutcome::Replaced || is_asked {
                        stdout::print_message(describe(files));
                    }
                }
                Err(error) => {
                    let error = named(error).to_string();
                    if reason == ReloadReason::Signal || *reported != error {
                        tracing::error!(%error, "the TLS files read before stay in use");
                    }
                    *reported = error;
                }
            }
        }
    }

    /// The receivers of alerts, with the TLS of webhooks.
    pub(crate) fn receivers(&self, config: &Config) -> Result<AlertReceivers, CliError> {
        config.alerts.receivers(self.alerts.clone())
    }

    /// Handshakes by listener and result. A library makes those of the export of traces.
    pub(super) fn handshakes(&self) -> Vec<(Labels, Number)> {
        let of = |files: &dyn TlsFiles| -> Vec<_> {
            let section = files.section();
            let sample = |(result, count): (&'static str, u64)| {
                let labels = vec![("listener", section.into()), ("result", result.into())];
                (labels, Number::Integer(count.into()))
            };
            files.counts().by_result().map(sample).collect()
        };
        self.all().filter(|files| files.section() != "traces").flat_map(of).collect()
    }

    /// Whether the files of a listener could not be used when they were last read.
    pub(super) fn failures(&self) -> Vec<(Labels, Number)> {
        let sample = |files: &dyn TlsFiles| {
            let labels = vec![("listener", files.section().into())];
            (labels, Number::Integer(files.has_failed().into()))
        };
        self.all().map(sample).collect()
    }

    /// Whether the signing key could not be used when it was last read; no sample without one.
    pub(super) fn signing_key_failures(&self) -> Vec<(Labels, Number)> {
        let key = self.signing_key.iter();
        key.map(|key| (Vec::new(), Number::Integer(key.has_failed().into()))).collect()
    }

    /// When each loaded certificate and revocation list expires.
    pub(crate) fn expiries(&self) -> Vec<(Labels, Number)> {
        let of = |files: &dyn TlsFiles| {
            let section = files.section();
            let shown: Vec<_> = files.status().iter().map(|it| sample(section, it)).collect();
            shown
        };
        self.all().flat_map(of).take(SHOWN_MAX).collect()
    }
}

fn open(files: ServerFiles) -> Result<ServerTls, CliError> {
    ServerTls::open(files).map_err(|error: TlsFileError| CliError::new(error.to_string()))
}

/// The files of calls. A program without TLS has none.
fn open_calls(config: &Config) -> Result<Option<Arc<ClientTls>>, CliError> {
    let files = config.calls_tls();
    let is_set = files.certificate.is_some() || files.ca.is_some();
    let is_set = is_set || files.ca_directory.is_some() || files.crl.is_some();
    if !tls::IS_AVAILABLE && !is_set {
        return Ok(None);
    }
    open_client(files).map(Some)
}

fn open_client(files: ClientFiles) -> Result<Arc<ClientTls>, CliError> {
    ClientTls::open(files).map(Arc::new).map_err(|error| CliError::new(named(error).to_string()))
}

/// The error with the name of the setting, which is an older one for webhooks.
fn named(mut error: TlsFileError) -> TlsFileError {
    if error.setting == "alerts.tls_ca_file" {
        error.setting = "alerts.ca".into();
    }
    error
}

fn sample(section: &'static str, status: &CertificateStatus) -> (Labels, Number) {
    let subject = status.subject.clone().into();
    let labels =
        vec![("listener", section.into()), ("kind", status.kind.into()), ("subject", subject)];
    (labels, Number::Integer(status.expires.max(0).into()))
}

fn describe(files: &dyn TlsFiles) -> String {
    let status = files.status();
    let count = |kind| status.iter().filter(|it| it.kind == kind).count();
    let own = status.iter().find(|it| it.kind == "certificate");
    format!(
        "{}: certificate of {}, {} authorities and {} revocation lists loaded",
        files.section(),
        own.map_or("none", |it| &*it.subject),
        count("client_ca") + count("ca"),
        count("crl"),
    )
}
