//! The files of a listener, and errors about them.

#[cfg(feature = "rustls")]
use std::fs::File;
#[cfg(feature = "rustls")]
use std::io::Read;
#[cfg(feature = "rustls")]
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Maximum size of a file with certificates.
pub const CERTIFICATES_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a private key.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Maximum size of a file with revocation lists.
pub const CRL_BYTES_MAX: usize = 16 << 20;
/// Maximum number of files with authorities of single participants.
pub const AUTHORITY_FILES_MAX: usize = 10_000;
/// Maximum size of an OCSP response.
pub const OCSP_BYTES_MAX: usize = 64 << 10;

/// The files of a listener. Their settings are named `section.tls_..._file` in errors.
#[derive(Clone, Debug)]
pub struct ServerFiles {
    /// Section of the configuration, such as `fspiop`.
    pub section: &'static str,
    /// PEM: the certificate, then the certificates of its issuers without the root.
    pub certificate: PathBuf,
    /// PEM: the private key of the certificate, without a password, not readable by others.
    pub key: PathBuf,
    /// PEM: authorities of client certificates. Without them, none is requested.
    pub client_ca: Option<PathBuf>,
    /// Whether a client needs a certificate.
    pub client_certificates: ClientCertificates,
    /// PEM: revocation lists, at least one of each authority that issues certificates of clients.
    pub crl: Option<PathBuf>,
    /// DER: an OCSP response about the certificate, sent with it.
    pub ocsp: Option<PathBuf>,
    /// The lowest version of TLS.
    pub minimum: MinimumVersion,
    /// Protocols that may be agreed on, by their names of ALPN. The hub prefers the first.
    pub protocols: &'static [&'static [u8]],
}

/// The files of calls. Their settings are named `section.tls_..._file` in errors.
#[derive(Clone, Debug)]
pub struct ClientFiles {
    /// Section of the configuration, such as `endpoints`.
    pub section: &'static str,
    /// PEM: the certificate that is presented, and its private key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// PEM: trusted authorities; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// Directory with `NAME.pem`: the only authorities that are trusted for this participant.
    pub ca_directory: Option<PathBuf>,
    /// PEM: revocation lists, at least one of each authority that issues certificates of hosts.
    pub crl: Option<PathBuf>,
    /// The lowest version of TLS.
    pub minimum: MinimumVersion,
    /// Protocols that are offered, by their names of ALPN, the preferred one first.
    pub protocols: &'static [&'static [u8]],
}

/// The files of the authority that signs requests of participants. Their settings are named
/// `section.ca_..._file` in errors.
#[derive(Clone, Debug)]
pub struct AuthorityFiles {
    /// Section of the configuration, such as `enrolment`.
    pub section: &'static str,
    /// PEM: the certificate of the authority, then those of its issuers.
    pub certificate: PathBuf,
    /// PEM: its private key, without a password, not readable by others.
    pub key: PathBuf,
}

/// Whether clients of a listener with authorities need a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// A client without one is refused.
    Required,
    /// A client may have none; one that is presented must be valid.
    Optional,
}

/// The lowest version of TLS that is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimumVersion {
    /// TLS 1.2, with forward secrecy and authenticated encryption only.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

/// An error about a file.
#[derive(Debug, thiserror::Error)]
#[error("{setting}: {}: {reason}", path.display())]
pub struct TlsFileError {
    /// Name of the setting, such as `fspiop.tls_key_file`.
    pub setting: String,
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

/// The result of reading files again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadOutcome {
    /// No file has changed.
    Unchanged,
    /// The new files are in use.
    Replaced,
}

/// A loaded certificate or revocation list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateStatus {
    /// `certificate`, `client_ca`, `ca` or `crl`.
    pub kind: &'static str,
    /// Subject of a certificate, issuer of a revocation list.
    pub subject: String,
    /// Seconds since 1970 until which it is valid.
    pub expires: i64,
}

/// A file to read.
pub(crate) struct FileToRead<'a> {
    pub(crate) section: &'static str,
    /// The setting without its section.
    pub(crate) setting: &'static str,
    pub(crate) path: &'a Path,
}

impl FileToRead<'_> {
    pub(crate) fn failed(&self, reason: impl Into<String>) -> TlsFileError {
        TlsFileError {
            setting: format!("{}.{}", self.section, self.setting),
            path: self.path.to_owned(),
            reason: reason.into(),
        }
    }
}

#[cfg(feature = "rustls")]
impl FileToRead<'_> {
    /// The content of the file, at most `bytes_max` bytes.
    pub(crate) fn read(&self, bytes_max: usize) -> Result<Vec<u8>, TlsFileError> {
        let file = File::open(self.path).map_err(|error| self.failed(error.to_string()))?;
        self.read_open(&file, bytes_max)
    }

    /// The content of a file that others may not read.
    pub(crate) fn read_secret(&self, bytes_max: usize) -> Result<Vec<u8>, TlsFileError> {
        let file = File::open(self.path).map_err(|error| self.failed(error.to_string()))?;
        let metadata = file.metadata().map_err(|error| self.failed(error.to_string()))?;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o007 != 0 {
            return Err(self.failed(format!(
                "private key readable by all users (mode {mode:03o}); chmod 600 it, and replace \
                 the key if others could have read it"
            )));
        }
        self.read_open(&file, bytes_max)
    }

    fn read_open(&self, file: &File, bytes_max: usize) -> Result<Vec<u8>, TlsFileError> {
        let mut content = Vec::new();
        let read = file.take(bytes_max as u64 + 1).read_to_end(&mut content);
        read.map_err(|error| self.failed(error.to_string()))?;
        if bytes_max < content.len() {
            return Err(self.failed(format!("larger than {bytes_max} bytes")));
        }
        Ok(content)
    }
}
