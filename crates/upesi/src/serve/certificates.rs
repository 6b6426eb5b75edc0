//! TLS files of the listeners and of calls, and the hub's signing key: opened at the start, read
//! again on SIGHUP and once a minute.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use metrics::{Labels, Number};
use tls::{
    CERTIFICATES_BYTES_MAX, CertificateStatus, ClientFiles, ClientTls, HandshakeCounts,
    ParticipantAuthority, ReloadOutcome, ServerFiles, ServerTls, TlsFileError, statuses,
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
    /// Of connections to brokers.
    brokers: Vec<BrokerFiles>,
    /// The key of the hub's signatures.
    pub(super) signing_key: Option<SigningKeyFile>,
    /// The last error of each, so that a timer reports it once.
    reported: Mutex<[String; 5]>,
    reading: Mutex<Option<JoinHandle<()>>>,
}

/// Files that the Kafka library reads; the hub only shows when their certificates end.
#[derive(Debug)]
struct BrokerFiles {
    section: &'static str,
    /// By kind.
    files: Vec<(&'static str, PathBuf)>,
    status: Mutex<Vec<CertificateStatus>>,
}

impl BrokerFiles {
    fn open((section, files): (&'static str, Vec<(&'static str, PathBuf)>)) -> Self {
        let opened = Self { section, files, status: Mutex::default() };
        opened.read();
        opened
    }

    /// Whether the library reads them again while the hub runs. The client of the log reads its
    /// files once.
    fn is_read_again(&self) -> bool {
        self.section == "events" && !self.files.is_empty()
    }

    /// Reads them. One that cannot be read is left out: its connection reports it.
    fn read(&self) {
        let of = |(kind, path): &(&'static str, PathBuf)| {
            let mut content = Vec::new();
            let file = File::open(path).map(|file| file.take(CERTIFICATES_BYTES_MAX as u64));
            let read = file.and_then(|mut file| file.read_to_end(&mut content));
            read.map_or_else(|_| Vec::new(), |_| statuses(kind, &content))
        };
        let status = self.files.iter().flat_map(of).collect();
        *self.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn samples(&self) -> Vec<(Labels, Number)> {
        let status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.iter().map(|status| sample(self.section, status)).collect()
    }
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
        let brokers = [config.kafka.access(), config.events.access()];
        let brokers = brokers.iter().map(|access| BrokerFiles::open(access.certificate_files()));
        let brokers = brokers.collect();
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
            brokers,
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
        let has_files = has_files || self.brokers.iter().any(BrokerFiles::is_read_again);
        if has_files && !is_reading {
            let certificates = Arc::clone(self);
            *reading = Some(tokio::task::spawn_blocking(move || certificates.read_again(reason)));
        }
    }

    fn read_again(&self, reason: ReloadReason) {
        if let Some(key) = &self.signing_key {
            key.reload_and_report(reason == ReloadReason::Signal);
        }
        self.brokers.iter().filter(|it| it.is_read_again()).for_each(BrokerFiles::read);
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
        let authority = self.authority.iter().flat_map(|it| statuses("ca", it.pem().as_bytes()));
        let authority = authority.map(|status| sample("enrolment", &status));
        let brokers = self.brokers.iter().flat_map(BrokerFiles::samples);
        self.all().flat_map(of).chain(authority).chain(brokers).take(SHOWN_MAX).collect()
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

#[cfg(all(test, feature = "tls"))]
mod tests {
    use std::fs;

    use tls::authority::{Authority, CertificateRequest};

    use super::*;

    /// The Kafka library reads the files of the log once, those of events again.
    #[test]
    fn certificates_of_connections_to_brokers_are_shown() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = |name: &str| directory.path().join(name);
        let write = |name: &str, issued: &Authority| {
            let node = issued.issue(&CertificateRequest::new(name, &[], 1));
            fs::write(file("ca.pem"), issued.pem()).expect("writes");
            fs::write(file("node.pem"), node.certificate).expect("writes");
        };
        write("node-1", &Authority::new("brokers"));
        let (ca, node) = (file("ca.pem"), file("node.pem"));
        let files = format!("tls = true\nca = {ca:?}\ncertificate = {node:?}\nkey = {node:?}\n");
        let text = format!("[kafka]\n{files}[events]\nbrokers = \"b:9092\"\n{files}");
        let config: Config = toml::from_str(&text).expect("a good file");
        let certificates = Certificates::open(&config).expect("opens");
        let shown = || -> Vec<_> {
            let all = certificates.expiries().into_iter();
            let line = |(labels, expires): (Labels, Number)| {
                assert!(1.7e9 < expires.to_f64(), "{labels:?} {expires}");
                labels.iter().map(|(_, value)| &**value).collect::<Vec<_>>().join(" ")
            };
            all.map(line).collect()
        };
        let of = |section: &str, name: &str, ca: &str| {
            [format!("{section} ca CN={ca}"), format!("{section} certificate CN={name}")]
        };
        let kafka = of("kafka", "node-1", "brokers");
        assert_eq!(shown(), [kafka.clone(), of("events", "node-1", "brokers")].concat());
        write("node-2", &Authority::new("others"));
        certificates.read_again(ReloadReason::Timer);
        assert_eq!(shown(), [kafka, of("events", "node-2", "others")].concat());
        fs::remove_file(file("ca.pem")).expect("removes");
        fs::write(file("node.pem"), "no certificate").expect("writes");
        certificates.read_again(ReloadReason::Timer);
        assert_eq!(shown().len(), 2, "those of the log");
    }
}
