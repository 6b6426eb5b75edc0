//! The types of this crate in a build without TLS: none of them can have a value.

use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::net::TcpStream as BlockingTcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use tokio::net::TcpStream;

use crate::fault::{HandshakeCounts, HandshakeFault};
use crate::file::{
    AuthorityFiles, CertificateStatus, ClientFiles, FileToRead, ReloadOutcome, ServerFiles,
    TlsFileError,
};
use crate::request::{CertificateSummary, EnrolmentFault};

/// A connection of a listener.
pub type TlsStream<S> = S;
/// A connection of a call.
pub type ClientTlsStream<S> = S;

/// False: this build has no TLS.
#[must_use]
pub const fn is_http2(_stream: &ClientTlsStream<TcpStream>) -> bool {
    false
}

/// A TLS connection over a blocking socket.
#[derive(Debug)]
pub struct BlockingTlsStream(Infallible);

/// The TLS side of a listener.
#[derive(Debug)]
pub struct ServerTls(Infallible);

/// A connection after its handshake.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// The client's certificate.
    pub peer: Option<Peer>,
    /// Whether an earlier session was resumed.
    pub is_resumed: bool,
}

/// A failed handshake.
#[derive(Debug)]
pub struct Rejected {
    /// Why it failed.
    pub fault: HandshakeFault,
    /// The connection of a client that sent HTTP.
    pub plain: Option<TcpStream>,
}

/// The verified certificate of a client.
#[derive(Clone, Debug)]
pub struct Peer(Infallible);

impl ServerTls {
    /// Fails.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub fn open(files: ServerFiles) -> Result<Self, TlsFileError> {
        let path = &files.certificate;
        let file = FileToRead { section: files.section, setting: "tls_certificate_file", path };
        Err(file.failed("this program was built without tls; build it with --features tls"))
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub fn reload(&self) -> Result<ReloadOutcome, TlsFileError> {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub async fn accept(&self, _stream: TcpStream, _time: Duration) -> Result<Accepted, Rejected> {
        match self.0 {}
    }

    /// Not possible.
    pub fn count_limited(&self) {
        match self.0 {}
    }

    /// Not possible.
    pub fn count_evicted(&self) {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn counts(&self) -> &HandshakeCounts {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn generation(&self) -> u64 {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub fn verify_again(&self, _peer: &mut Peer) -> Result<(), HandshakeFault> {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub fn verify_chain(&self, _chain: &[u8]) -> Result<(), HandshakeFault> {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn client_authorities(&self) -> Option<String> {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn status(&self) -> Arc<[CertificateStatus]> {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn section(&self) -> &'static str {
        match self.0 {}
    }
}

/// A certificate signing request.
#[derive(Clone, Debug)]
pub struct SigningRequest(Infallible);

impl SigningRequest {
    /// Fails.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub fn from_pem(_text: &str) -> Result<Self, EnrolmentFault> {
        Err(EnrolmentFault::Unavailable)
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub fn from_der(_der: Vec<u8>) -> Result<Self, EnrolmentFault> {
        Err(EnrolmentFault::Unavailable)
    }

    /// Not possible.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn common_name(&self) -> &str {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn key(&self) -> &str {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub fn chain_from_pem(&self, _text: &str, _name: &str) -> Result<Vec<u8>, EnrolmentFault> {
        match self.0 {}
    }
}

/// None: this build has no TLS.
#[must_use]
pub fn statuses(_kind: &'static str, _pem: &[u8]) -> Vec<CertificateStatus> {
    Vec::new()
}

/// Fails.
///
/// # Errors
/// Always: this build has no TLS.
pub fn split_chain(_chain: &[u8]) -> Result<Vec<CertificateDer<'static>>, EnrolmentFault> {
    Err(EnrolmentFault::Unavailable)
}

/// Fails.
///
/// # Errors
/// Always: this build has no TLS.
pub fn summarize(_chain: &[u8]) -> Result<CertificateSummary, EnrolmentFault> {
    Err(EnrolmentFault::Unavailable)
}

/// The authority that signs requests of participants.
#[derive(Debug)]
pub struct ParticipantAuthority(Infallible);

impl ParticipantAuthority {
    /// Fails.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub fn open(files: &AuthorityFiles) -> Result<Self, TlsFileError> {
        let (section, path) = (files.section, &*files.certificate);
        let file = FileToRead { section, setting: "ca_certificate_file", path };
        Err(file.failed("this program was built without tls; build it with --features tls"))
    }

    /// Not possible.
    #[must_use]
    pub fn pem(&self) -> &str {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub fn issue(
        &self,
        _request: &SigningRequest,
        _to: (&str, u32),
    ) -> Result<Vec<u8>, EnrolmentFault> {
        match self.0 {}
    }
}

impl Peer {
    /// Not possible.
    #[must_use]
    pub fn subject(&self) -> &str {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn common_name(&self) -> Option<&str> {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn dns_names(&self) -> &[String] {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn uris(&self) -> &[String] {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn expires(&self) -> i64 {
        match self.0 {}
    }
}

/// The TLS side of calls.
#[derive(Debug)]
pub struct ClientTls(Infallible);

impl ClientTls {
    /// Not possible.
    #[must_use]
    pub fn generation(&self) -> u64 {
        match self.0 {}
    }

    /// Fails.
    ///
    /// # Errors
    /// Always: this build has no TLS.
    pub fn open(files: ClientFiles) -> Result<Self, TlsFileError> {
        let path = files.certificate.map(|(path, _)| path).or(files.ca).or(files.ca_directory);
        let path = path.unwrap_or_default();
        let file =
            FileToRead { section: files.section, setting: "tls_certificate_file", path: &path };
        Err(file.failed("this program was built without tls; build it with --features tls"))
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub fn reload(&self) -> Result<ReloadOutcome, TlsFileError> {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub fn connect_blocking(
        &self,
        _to: (&str, &str),
        _stream: BlockingTcpStream,
    ) -> Result<BlockingTlsStream, HandshakeFault> {
        match self.0 {}
    }

    /// Not possible.
    ///
    /// # Errors
    /// None.
    pub async fn connect(
        &self,
        _to: (&str, &str),
        _stream: TcpStream,
    ) -> Result<ClientTlsStream<TcpStream>, HandshakeFault> {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn status(&self) -> Arc<[CertificateStatus]> {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn section(&self) -> &'static str {
        match self.0 {}
    }

    /// Not possible.
    #[must_use]
    pub fn counts(&self) -> &HandshakeCounts {
        match self.0 {}
    }
}

impl BlockingTlsStream {
    /// Not possible.
    #[must_use]
    pub fn socket(&self) -> &BlockingTcpStream {
        match self.0 {}
    }
}

impl Read for BlockingTlsStream {
    fn read(&mut self, _bytes: &mut [u8]) -> io::Result<usize> {
        match self.0 {}
    }
}

impl Write for BlockingTlsStream {
    fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
        match self.0 {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.0 {}
    }
}
