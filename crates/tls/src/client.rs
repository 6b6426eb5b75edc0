//! The TLS side of calls.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream as BlockingTcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rustls::client::WebPkiServerVerifier;
use rustls::crypto::CryptoProvider;
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::fault::{HandshakeCounts, HandshakeFault};
use crate::file::{
    AUTHORITY_FILES_MAX, CERTIFICATES_BYTES_MAX, CRL_BYTES_MAX, CertificateStatus, ClientFiles,
    FileToRead, KEY_BYTES_MAX, ReloadOutcome, TlsFileError,
};
use crate::server::{
    certificates, check_validity, expiry, key_fault, now, revocation_lists, versions,
};

/// The certificate of the hub and the trusted authorities of calls, for any thread.
#[derive(Debug)]
pub struct ClientTls {
    files: ClientFiles,
    /// The files as last read, to recognise changes.
    content: Mutex<Content>,
    loaded: RwLock<Arc<Loaded>>,
    generation: AtomicU64,
    has_failed: AtomicBool,
    counts: HandshakeCounts,
}

/// The bytes of the files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    certificate: Option<(Vec<u8>, Vec<u8>)>,
    ca: Option<Vec<u8>>,
    crl: Option<Vec<u8>>,
    /// By the name of the participant.
    participants: Vec<(String, PathBuf, Vec<u8>)>,
}

/// The parts that come from one reading of the files.
#[derive(Debug)]
struct Loaded {
    others: Arc<ClientConfig>,
    participants: HashMap<String, Arc<ClientConfig>>,
    status: Arc<[CertificateStatus]>,
}

/// The files of calls, in PEM.
pub struct ClientPem {
    /// The certificate that is presented, and its private key.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// Trusted authorities; `None` for those of the system.
    pub ca: Option<Vec<u8>>,
}

/// A TLS connection over a blocking socket, after its handshake.
#[derive(Debug)]
pub struct BlockingTlsStream(StreamOwned<ClientConnection, BlockingTcpStream>);

impl ClientTls {
    /// Reads the files for the first time, and the authorities of the system if no file names any.
    ///
    /// # Errors
    /// The first file that is missing, too large, damaged, readable by others, expired, not valid
    /// yet, or that does not fit to the others.
    pub fn open(files: ClientFiles) -> Result<Self, TlsFileError> {
        let content = read_files(&files)?;
        let loaded = RwLock::new(Arc::new(load(&files, &content)?));
        let (content, has_failed) = (Mutex::new(content), AtomicBool::new(false));
        let (generation, counts) = (AtomicU64::new(0), HandshakeCounts::default());
        Ok(Self { files, content, loaded, generation, has_failed, counts })
    }

    /// Reads the files again. If they have changed and can be used, later connections use them.
    ///
    /// Do not call it on a thread that serves messages.
    ///
    /// # Errors
    /// As [`ClientTls::open`]; nothing has changed then.
    pub fn reload(&self) -> Result<ReloadOutcome, TlsFileError> {
        let mut before = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let reloaded = read_files(&self.files).and_then(|content| {
            if *before == content {
                return Ok(ReloadOutcome::Unchanged);
            }
            let loaded = Arc::new(load(&self.files, &content)?);
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
            *before = content;
            self.generation.fetch_add(1, Ordering::Release);
            Ok(ReloadOutcome::Replaced)
        });
        self.has_failed.store(reloaded.is_err(), Ordering::Relaxed);
        reloaded
    }

    /// Makes a handshake with a participant's host, whose certificate must contain the host's name
    /// or address. The caller limits its time.
    ///
    /// # Errors
    /// Why it failed.
    pub async fn connect(
        &self,
        (participant, host): (&str, &str),
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, HandshakeFault> {
        let connected = handshake(self.config(participant), host, stream).await;
        self.count(connected)
    }

    /// Makes a handshake over a blocking socket, whose timeouts limit each read and each write.
    ///
    /// # Errors
    /// Why it failed.
    pub fn connect_blocking(
        &self,
        (participant, host): (&str, &str),
        stream: BlockingTcpStream,
    ) -> Result<BlockingTlsStream, HandshakeFault> {
        let connected = blocking_handshake(self.config(participant), host, stream);
        self.count(connected)
    }

    /// The configuration of hosts without authorities of their own, for a library that makes the
    /// handshakes itself. It does not count them here.
    #[must_use]
    pub fn shared_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.loaded().others)
    }

    /// The files as last read, in PEM, for a library that reads them itself.
    #[must_use]
    pub fn pem(&self) -> ClientPem {
        let content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        ClientPem { certificate: content.certificate.clone(), ca: content.ca.clone() }
    }

    /// The loaded certificates.
    #[must_use]
    pub fn status(&self) -> Arc<[CertificateStatus]> {
        Arc::clone(&self.loaded().status)
    }

    /// Rises whenever files were replaced, so that callers close older connections. One atomic
    /// load.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Whether the last attempt to read the files failed.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    /// Section of the configuration.
    #[must_use]
    pub fn section(&self) -> &'static str {
        self.files.section
    }

    /// The handshakes since the start.
    #[must_use]
    pub fn counts(&self) -> &HandshakeCounts {
        &self.counts
    }

    /// The configuration for calls to a participant.
    fn config(&self, participant: &str) -> Arc<ClientConfig> {
        let loaded = self.loaded();
        Arc::clone(loaded.participants.get(participant).unwrap_or(&loaded.others))
    }

    /// Counts the result of a handshake: a stream, and whether its session was resumed.
    fn count<S>(&self, connected: Result<(S, bool), HandshakeFault>) -> Result<S, HandshakeFault> {
        match &connected {
            Ok((_, is_resumed)) => self.counts.succeeded(*is_resumed),
            Err(fault) => self.counts.failed(*fault),
        }
        connected.map(|(stream, _)| stream)
    }

    fn loaded(&self) -> Arc<Loaded> {
        Arc::clone(&self.loaded.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Whether the called host chose HTTP/2 by ALPN.
#[must_use]
pub fn is_http2(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.alpn_protocol() == Some(b"h2")
}

async fn handshake(
    config: Arc<ClientConfig>,
    host: &str,
    stream: TcpStream,
) -> Result<(TlsStream<TcpStream>, bool), HandshakeFault> {
    let connected = TlsConnector::from(config).connect(server_name(host)?, stream).await;
    let stream = connected.map_err(|error| HandshakeFault::from(&error))?;
    let is_resumed = check_session(stream.get_ref().1)?;
    Ok((stream, is_resumed))
}

fn blocking_handshake(
    config: Arc<ClientConfig>,
    host: &str,
    stream: BlockingTcpStream,
) -> Result<(BlockingTlsStream, bool), HandshakeFault> {
    let session = ClientConnection::new(config, server_name(host)?);
    let session = session.map_err(|error| HandshakeFault::from(&error))?;
    let mut stream = StreamOwned::new(session, stream);
    while stream.conn.is_handshaking() {
        let moved = stream.conn.complete_io(&mut stream.sock);
        moved.map_err(|error| HandshakeFault::from(&error))?;
    }
    let is_resumed = check_session(&stream.conn)?;
    Ok((BlockingTlsStream(stream), is_resumed))
}

fn server_name(host: &str) -> Result<ServerName<'static>, HandshakeFault> {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    ServerName::try_from(host).map_err(|_| HandshakeFault::InvalidCertificate)
}

/// Whether a session was resumed. Its certificate was verified when the session began, so its
/// expiry is checked again.
fn check_session(session: &ClientConnection) -> Result<bool, HandshakeFault> {
    match session.peer_certificates().and_then(expiry) {
        Some(expires) if now() < expires => {
            Ok(session.handshake_kind() == Some(HandshakeKind::Resumed))
        }
        _ => Err(HandshakeFault::Expired),
    }
}

impl BlockingTlsStream {
    /// The socket, for its timeouts.
    #[must_use]
    pub fn socket(&self) -> &BlockingTcpStream {
        &self.0.sock
    }
}

impl Read for BlockingTlsStream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.0.read(bytes)
    }
}

impl Write for BlockingTlsStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

fn to_read<'a>(files: &ClientFiles, setting: &'static str, path: &'a Path) -> FileToRead<'a> {
    FileToRead { section: files.section, setting, path }
}

fn read_files(files: &ClientFiles) -> Result<Content, TlsFileError> {
    let certificate = match &files.certificate {
        None => None,
        Some((certificate, key)) => Some((
            to_read(files, "tls_certificate_file", certificate).read(CERTIFICATES_BYTES_MAX)?,
            to_read(files, "tls_key_file", key).read_secret(KEY_BYTES_MAX)?,
        )),
    };
    let ca = files.ca.as_ref();
    let ca = ca.map(|path| to_read(files, "tls_ca_file", path).read(CERTIFICATES_BYTES_MAX));
    let crl = files.crl.as_ref();
    let crl = crl.map(|path| to_read(files, "tls_crl_file", path).read(CRL_BYTES_MAX));
    let participants = files.ca_directory.as_deref();
    let participants = participants.map(|path| read_directory(files, path));
    Ok(Content {
        certificate,
        ca: ca.transpose()?,
        crl: crl.transpose()?,
        participants: participants.transpose()?.unwrap_or_default(),
    })
}

/// Reads the files `NAME.pem` of a directory. Other files are ignored.
fn read_directory(
    files: &ClientFiles,
    directory: &Path,
) -> Result<Vec<(String, PathBuf, Vec<u8>)>, TlsFileError> {
    let file = to_read(files, "tls_ca_directory", directory);
    let failed = |error: std::io::Error| file.failed(error.to_string());
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let Some(name) = name.and_then(|name| name.strip_suffix(".pem")) else { continue };
        if name.is_empty() || name.starts_with('.') {
            continue;
        }
        if AUTHORITY_FILES_MAX <= found.len() {
            return Err(file.failed(format!("more than {AUTHORITY_FILES_MAX} files")));
        }
        let (name, file) = (name.to_owned(), to_read(files, "tls_ca_directory", &path));
        let content = file.read(CERTIFICATES_BYTES_MAX)?;
        found.push((name, path, content));
    }
    found.sort();
    Ok(found)
}

fn load(files: &ClientFiles, content: &Content) -> Result<Loaded, TlsFileError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut status = Vec::new();
    let own = own_certificate(files, content, &mut status)?;
    let crl = files.crl.as_ref().map(|path| to_read(files, "tls_crl_file", path));
    let lists = revocation_lists(crl.as_ref().zip(content.crl.as_deref()), &mut status)?;
    let config = |roots| client_config(files, (&provider, roots, &lists), own.as_ref());
    let others = match (&files.ca, &content.ca) {
        (Some(path), Some(content)) => {
            roots(&to_read(files, "tls_ca_file", path), content, &mut status)?
        }
        _ => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            roots
        }
    };
    let others = config(others)?;
    let mut participants = HashMap::new();
    for (name, path, content) in &content.participants {
        let file = to_read(files, "tls_ca_directory", path);
        participants.insert(name.clone(), config(roots(&file, content, &mut status)?)?);
    }
    Ok(Loaded { others, participants, status: status.into() })
}

fn roots(
    file: &FileToRead<'_>,
    content: &[u8],
    status: &mut Vec<CertificateStatus>,
) -> Result<RootCertStore, TlsFileError> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(file, content, ("ca", status))? {
        roots.add(authority).map_err(|error| file.failed(error.to_string()))?;
    }
    Ok(roots)
}

type RevocationList = CertificateRevocationListDer<'static>;

/// The chain and the key of the hub.
type OwnCertificate = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

fn own_certificate(
    files: &ClientFiles,
    content: &Content,
    status: &mut Vec<CertificateStatus>,
) -> Result<Option<OwnCertificate>, TlsFileError> {
    let (Some((path, key_path)), Some((chain, key))) = (&files.certificate, &content.certificate)
    else {
        return Ok(None);
    };
    let file = to_read(files, "tls_certificate_file", path);
    let chain = certificates(&file, chain, ("certificate", status))?;
    check_validity(&file, &chain)?;
    let file = to_read(files, "tls_key_file", key_path);
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|_| file.failed("contains no PEM block of a private key without a password"))?;
    Ok(Some((chain, key)))
}

fn client_config(
    files: &ClientFiles,
    (provider, roots, lists): (&Arc<CryptoProvider>, RootCertStore, &[RevocationList]),
    own: Option<&OwnCertificate>,
) -> Result<Arc<ClientConfig>, TlsFileError> {
    let path = files.certificate.as_ref().map_or(Path::new(""), |(_, key)| key);
    let file = to_read(files, "tls_key_file", path);
    let builder = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(versions(files.minimum))
        .map_err(|error| file.failed(error.to_string()))?;
    let builder = match lists.is_empty() {
        true => builder.with_root_certificates(roots),
        false => builder.with_webpki_verifier(verifier(files, (provider, roots, lists))?),
    };
    let mut config = match (own, &files.certificate) {
        (Some((chain, key)), Some((certificate, _))) => builder
            .with_client_auth_cert(chain.clone(), key.clone_key())
            .map_err(|error| file.failed(key_fault(&error, certificate)))?,
        _ => builder.with_no_client_auth(),
    };
    config.alpn_protocols = files.protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

/// A verifier that also consults revocation lists.
fn verifier(
    files: &ClientFiles,
    (provider, roots, lists): (&Arc<CryptoProvider>, RootCertStore, &[RevocationList]),
) -> Result<Arc<WebPkiServerVerifier>, TlsFileError> {
    let file = to_read(files, "tls_crl_file", files.crl.as_deref().unwrap_or(Path::new("")));
    WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider))
        .with_crls(lists.iter().cloned())
        .build()
        .map_err(|error| file.failed(error.to_string()))
}
