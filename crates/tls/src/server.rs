//! The TLS side of a listener.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::CryptoProvider;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::version::{TLS12, TLS13};
use rustls::{HandshakeKind, RootCertStore, ServerConfig, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, UnixTime};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificate::{self, CertificateFacts, split_chain};
use crate::chain_limit::ChainLimit;
use crate::fault::{HandshakeCounts, HandshakeFault};
use crate::file::{
    CERTIFICATES_BYTES_MAX, CRL_BYTES_MAX, CertificateStatus, ClientCertificates, FileToRead,
    KEY_BYTES_MAX, MinimumVersion, OCSP_BYTES_MAX, ReloadOutcome, ServerFiles, TlsFileError,
};

/// Versions of TLS.
const FROM_12: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];
const FROM_13: &[&SupportedProtocolVersion] = &[&TLS13];

/// The certificate, trust and revocation lists of a listener, for any thread.
#[derive(Debug)]
pub struct ServerTls {
    files: ServerFiles,
    /// The files as last read, to recognise changes.
    content: Mutex<Content>,
    loaded: RwLock<Loaded>,
    generation: AtomicU64,
    has_failed: AtomicBool,
    counts: HandshakeCounts,
}

/// The bytes of the files.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
    crl: Option<Vec<u8>>,
    ocsp: Option<Vec<u8>>,
}

/// The parts that come from one reading of the files.
#[derive(Clone, Debug)]
struct Loaded {
    config: Arc<ServerConfig>,
    verifier: Option<Arc<dyn ClientCertVerifier>>,
    status: Arc<[CertificateStatus]>,
}

/// A connection after its handshake.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// The client's certificate, if it presented one.
    pub peer: Option<Peer>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

/// A failed handshake.
#[derive(Debug)]
pub struct Rejected {
    /// Why it failed.
    pub fault: HandshakeFault,
    /// The connection of a client that sent HTTP, of which nothing was read.
    pub plain: Option<TcpStream>,
}

/// The verified certificate of a client.
#[derive(Clone, Debug)]
pub struct Peer {
    chain: Vec<CertificateDer<'static>>,
    facts: CertificateFacts,
    expires: i64,
    generation: u64,
}

impl ServerTls {
    /// Reads the files of a listener for the first time.
    ///
    /// # Errors
    /// The first file that is missing, too large, damaged, readable by others, expired, not valid
    /// yet, or that does not fit to the others.
    pub fn open(files: ServerFiles) -> Result<Self, TlsFileError> {
        let content = read_files(&files)?;
        let loaded = RwLock::new(load(&files, &content)?);
        let content = Mutex::new(content);
        let (generation, has_failed) = (AtomicU64::new(0), AtomicBool::new(false));
        let counts = HandshakeCounts::default();
        Ok(Self { files, content, loaded, generation, has_failed, counts })
    }

    /// Reads the files again. If they have changed and can be used, later handshakes use them.
    ///
    /// Do not call it on a thread that serves messages.
    ///
    /// # Errors
    /// As [`ServerTls::open`]; nothing has changed then.
    pub fn reload(&self) -> Result<ReloadOutcome, TlsFileError> {
        let mut before = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        let reloaded = read_files(&self.files).and_then(|content| {
            if *before == content {
                return Ok(ReloadOutcome::Unchanged);
            }
            let loaded = load(&self.files, &content)?;
            *self.loaded.write().unwrap_or_else(PoisonError::into_inner) = loaded;
            *before = content;
            self.generation.fetch_add(1, Ordering::Release);
            Ok(ReloadOutcome::Replaced)
        });
        self.has_failed.store(reloaded.is_err(), Ordering::Relaxed);
        reloaded
    }

    /// Makes a handshake within a time, and counts its result.
    ///
    /// # Errors
    /// Why it failed. The client got an alert, unless it had closed the connection or sent HTTP.
    pub async fn accept(&self, stream: TcpStream, time: Duration) -> Result<Accepted, Rejected> {
        let (accepted, plain) = match timeout(time, self.handshake(stream)).await {
            Ok(Ok(accepted)) => (Ok(accepted), None),
            Ok(Err((fault, plain))) => (Err(fault), plain),
            Err(_) => (Err(HandshakeFault::TimedOut), None),
        };
        match accepted {
            Ok(accepted) => {
                self.counts.succeeded(accepted.is_resumed);
                Ok(accepted)
            }
            Err(fault) => {
                self.counts.failed(fault);
                Err(Rejected { fault, plain })
            }
        }
    }

    async fn handshake(
        &self,
        stream: TcpStream,
    ) -> Result<Accepted, (HandshakeFault, Option<TcpStream>)> {
        let mut first = [0];
        if matches!(stream.peek(&mut first).await, Ok(1) if first[0].is_ascii_uppercase()) {
            return Err((HandshakeFault::PlainHttp, Some(stream)));
        }
        let generation = self.generation();
        let accepted = TlsAcceptor::from(self.loaded().config).accept(stream).await;
        let stream = accepted.map_err(|error| (HandshakeFault::from(&error), None))?;
        self.describe(stream, generation).map_err(|fault| (fault, None))
    }

    fn describe(
        &self,
        stream: TlsStream<TcpStream>,
        generation: u64,
    ) -> Result<Accepted, HandshakeFault> {
        let (_, session) = stream.get_ref();
        let is_resumed = session.handshake_kind() == Some(HandshakeKind::Resumed);
        let chain = session.peer_certificates();
        let peer = chain.map(|chain| Peer::read(chain, generation)).transpose()?;
        // The certificate of a resumed session was verified when the session began.
        if peer.as_ref().is_some_and(|peer| peer.expires <= now()) {
            return Err(HandshakeFault::Expired);
        }
        Ok(Accepted { stream, peer, is_resumed })
    }

    /// Counts a handshake that the caller ended.
    pub fn count_evicted(&self) {
        self.counts.failed(HandshakeFault::Evicted);
    }

    /// Counts a connection that the caller closed before its handshake.
    pub fn count_limited(&self) {
        self.counts.failed(HandshakeFault::RateLimited);
    }

    /// The handshakes since the start.
    #[must_use]
    pub fn counts(&self) -> &HandshakeCounts {
        &self.counts
    }

    /// Rises whenever files were replaced. One atomic load.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Verifies the certificate of an open connection again if files were replaced since.
    ///
    /// # Errors
    /// Why the certificate would not be accepted any more.
    pub fn verify_again(&self, peer: &mut Peer) -> Result<(), HandshakeFault> {
        let generation = self.generation();
        if peer.generation == generation {
            return Ok(());
        }
        let verifier = self.loaded().verifier.ok_or(HandshakeFault::Untrusted)?;
        let [certificate, issuers @ ..] = &*peer.chain else {
            return Err(HandshakeFault::NoCertificate);
        };
        let verified = verifier.verify_client_cert(certificate, issuers, UnixTime::now());
        verified.map_err(|error| HandshakeFault::from(&error))?;
        peer.generation = generation;
        Ok(())
    }

    /// Verifies a chain in DER, one certificate after the other, as that of a client would be.
    ///
    /// # Errors
    /// Why a client with this chain would be refused.
    pub fn verify_chain(&self, chain: &[u8]) -> Result<(), HandshakeFault> {
        let chain = split_chain(chain).map_err(|_| HandshakeFault::InvalidCertificate)?;
        let verifier = self.loaded().verifier.ok_or(HandshakeFault::Untrusted)?;
        let [certificate, issuers @ ..] = &*chain else {
            return Err(HandshakeFault::NoCertificate);
        };
        let verified = verifier.verify_client_cert(certificate, issuers, UnixTime::now());
        verified.map(drop).map_err(|error| HandshakeFault::from(&error))
    }

    /// The authorities of clients in PEM; `None` if clients need no certificate.
    #[must_use]
    pub fn client_authorities(&self) -> Option<String> {
        let content = self.content.lock().unwrap_or_else(PoisonError::into_inner);
        content.client_ca.as_ref().map(|pem| String::from_utf8_lossy(pem).into_owned())
    }

    /// The loaded certificates and revocation lists.
    #[must_use]
    pub fn status(&self) -> Arc<[CertificateStatus]> {
        self.loaded().status
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

    fn loaded(&self) -> Loaded {
        self.loaded.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Peer {
    fn read(chain: &[CertificateDer<'_>], generation: u64) -> Result<Self, HandshakeFault> {
        let facts = chain.iter().map(certificate::read).collect::<Option<Vec<_>>>();
        let facts = facts.ok_or(HandshakeFault::InvalidCertificate)?;
        let expires = facts.iter().map(|facts| facts.not_after).min();
        let expires = expires.ok_or(HandshakeFault::NoCertificate)?;
        let chain = chain.iter().map(|der| der.clone().into_owned()).collect();
        let facts = facts.into_iter().next().ok_or(HandshakeFault::NoCertificate)?;
        Ok(Self { chain, facts, expires, generation })
    }

    /// The subject, at most 128 characters, for messages.
    #[must_use]
    pub fn subject(&self) -> &str {
        &self.facts.subject
    }

    /// The common name of the subject, if there is exactly one.
    #[must_use]
    pub fn common_name(&self) -> Option<&str> {
        self.facts.common_name.as_deref()
    }

    /// The DNS names of the certificate.
    #[must_use]
    pub fn dns_names(&self) -> &[String] {
        &self.facts.dns_names
    }

    /// The URIs of the certificate.
    #[must_use]
    pub fn uris(&self) -> &[String] {
        &self.facts.uris
    }

    /// Seconds since 1970 until which the certificate and the others of its chain are valid.
    #[must_use]
    pub fn expires(&self) -> i64 {
        self.expires
    }
}

fn read_files(files: &ServerFiles) -> Result<Content, TlsFileError> {
    let optional = |path: &Option<PathBuf>, setting, bytes_max| {
        path.as_ref().map(|path| to_read(files, setting, path).read(bytes_max)).transpose()
    };
    Ok(Content {
        certificate: to_read(files, "tls_certificate_file", &files.certificate)
            .read(CERTIFICATES_BYTES_MAX)?,
        key: to_read(files, "tls_key_file", &files.key).read_secret(KEY_BYTES_MAX)?,
        client_ca: optional(&files.client_ca, "tls_client_ca_file", CERTIFICATES_BYTES_MAX)?,
        crl: optional(&files.crl, "tls_crl_file", CRL_BYTES_MAX)?,
        ocsp: optional(&files.ocsp, "tls_ocsp_file", OCSP_BYTES_MAX)?,
    })
}

fn to_read<'a>(files: &ServerFiles, setting: &'static str, path: &'a Path) -> FileToRead<'a> {
    FileToRead { section: files.section, setting, path }
}

fn load(files: &ServerFiles, content: &Content) -> Result<Loaded, TlsFileError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut status = Vec::new();
    let file = to_read(files, "tls_certificate_file", &files.certificate);
    let chain = certificates(&file, &content.certificate, ("certificate", &mut status))?;
    check_validity(&file, &chain)?;
    let key_file = to_read(files, "tls_key_file", &files.key);
    let key = PrivateKeyDer::from_pem_slice(&content.key).map_err(|_| {
        key_file.failed("contains no PEM block of a private key without a password")
    })?;
    let verifier = client_verifier(files, content, (&provider, &mut status))?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions(files.minimum))
        .map_err(|error| file.failed(error.to_string()))?;
    let builder = match &verifier {
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
        None => builder.with_no_client_auth(),
    };
    let ocsp = content.ocsp.clone().unwrap_or_default();
    let mut config = builder
        .with_single_cert_with_ocsp(chain, key, ocsp)
        .map_err(|error| key_file.failed(key_fault(&error, &files.certificate)))?;
    config.alpn_protocols = files.protocols.iter().map(|name| name.to_vec()).collect();
    config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()
        .map_err(|error| key_file.failed(error.to_string()))?;
    Ok(Loaded { config: Arc::new(config), verifier, status: status.into() })
}

pub(crate) fn versions(minimum: MinimumVersion) -> &'static [&'static SupportedProtocolVersion] {
    match minimum {
        MinimumVersion::Tls12 => FROM_12,
        MinimumVersion::Tls13 => FROM_13,
    }
}

/// The end of the validity of a chain: that of its first certificate to expire.
pub(crate) fn expiry(chain: &[CertificateDer<'_>]) -> Option<i64> {
    let facts = chain.iter().map(certificate::read).collect::<Option<Vec<_>>>()?;
    facts.iter().map(|facts| facts.not_after).min()
}

pub(crate) fn key_fault(error: &rustls::Error, certificate: &Path) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => {
            format!("is not the key of the certificate in {}", certificate.display())
        }
        error => error.to_string(),
    }
}

/// Reads PEM certificates, at least one, and adds them to the shown ones.
pub(crate) fn certificates(
    file: &FileToRead<'_>,
    content: &[u8],
    (kind, status): (&'static str, &mut Vec<CertificateStatus>),
) -> Result<Vec<CertificateDer<'static>>, TlsFileError> {
    let damaged = || file.failed("contains a damaged certificate");
    let mut found = Vec::new();
    for certificate in CertificateDer::pem_slice_iter(content) {
        let certificate = certificate.map_err(|_| damaged())?;
        let facts = certificate::read(&certificate).ok_or_else(damaged)?;
        status.push(CertificateStatus { kind, subject: facts.subject, expires: facts.not_after });
        found.push(certificate);
    }
    match found.is_empty() {
        true => Err(file.failed("contains no certificate in PEM")),
        false => Ok(found),
    }
}

pub(crate) fn check_validity(
    file: &FileToRead<'_>,
    chain: &[CertificateDer<'_>],
) -> Result<(), TlsFileError> {
    let now = now();
    for facts in chain.iter().filter_map(certificate::read) {
        if facts.not_after <= now {
            return Err(file.failed(format!("the certificate of {} has expired", facts.subject)));
        }
        if now < facts.not_before {
            let subject = facts.subject;
            return Err(file.failed(format!("the certificate of {subject} is not valid yet")));
        }
    }
    Ok(())
}

fn client_verifier(
    files: &ServerFiles,
    content: &Content,
    (provider, status): (&Arc<CryptoProvider>, &mut Vec<CertificateStatus>),
) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsFileError> {
    let (Some(path), Some(bundle)) = (&files.client_ca, &content.client_ca) else {
        return Ok(None);
    };
    let file = to_read(files, "tls_client_ca_file", path);
    let mut roots = RootCertStore::empty();
    let authorities = certificates(&file, bundle, ("client_ca", status))?;
    let now = now();
    if authorities.iter().filter_map(certificate::read).all(|facts| facts.not_after <= now) {
        return Err(file.failed("every certificate has expired"));
    }
    for authority in authorities {
        roots.add(authority).map_err(|error| file.failed(error.to_string()))?;
    }
    let crl = files.crl.as_ref().map(|path| to_read(files, "tls_crl_file", path));
    let lists = revocation_lists(crl.as_ref().zip(content.crl.as_deref()), status)?;
    let builder = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    let builder = match files.client_certificates {
        ClientCertificates::Required => builder,
        ClientCertificates::Optional => builder.allow_unauthenticated(),
    };
    let built = builder.with_crls(lists).build();
    let built = built.map_err(|error| file.failed(error.to_string()))?;
    Ok(Some(Arc::new(ChainLimit(built))))
}

/// Reads PEM revocation lists, at least one, and adds them to the shown ones.
pub(crate) fn revocation_lists(
    file: Option<(&FileToRead<'_>, &[u8])>,
    status: &mut Vec<CertificateStatus>,
) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsFileError> {
    let Some((file, content)) = file else { return Ok(Vec::new()) };
    let damaged = || file.failed("contains a damaged revocation list");
    let mut lists = Vec::new();
    for list in CertificateRevocationListDer::pem_slice_iter(content) {
        let list = list.map_err(|_| damaged())?;
        let facts = certificate::read_crl(&list).ok_or_else(damaged)?;
        let expires = facts.next_update.unwrap_or(i64::MAX);
        status.push(CertificateStatus { kind: "crl", subject: facts.issuer, expires });
        lists.push(list);
    }
    match lists.is_empty() {
        true => Err(file.failed("contains no revocation list in PEM")),
        false => Ok(lists),
    }
}

pub(crate) fn now() -> i64 {
    UnixTime::now().as_secs().cast_signed()
}
