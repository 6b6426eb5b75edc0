//! TLS of the hub's listeners and calls: certificates, trusted authorities, revocation lists,
//! reloading, and the names in a client's certificate.
//!
//! [`ServerTls`] holds the files of one listener. [`ServerTls::accept`] makes one handshake with
//! the files as last read. [`ServerTls::reload`] reads them again: later handshakes use the new
//! ones, open connections stay. A file that cannot be used changes nothing and is reported.
//!
//! [`ClientTls`] does the same for calls.
//!
//! Sessions of listeners are resumed by tickets whose keys change every 6 hours and with each
//! change of a file, so that a revoked certificate cannot resume a session. A resumed session has
//! the certificate of the first one. There is no early data, no renegotiation and no compression of
//! certificates.
//!
//! Costs: a connection takes a read lock once. Bounds: [`CERTIFICATES_BYTES_MAX`] and the other
//! limits of files; a client's messages of a handshake have at most 64 KiB, and its chain at most 8
//! certificates and 32 KiB.
//!
//! Other crates use the libraries for TLS only to hand [`ClientTls`] to a client library. Without
//! the feature `rustls` no file can be opened ([`IS_AVAILABLE`]).

#![warn(missing_docs)]

#[cfg(feature = "authority")]
pub mod authority;
#[cfg(feature = "rustls")]
mod certificate;
#[cfg(feature = "rustls")]
mod chain_limit;
#[cfg(feature = "rustls")]
mod client;
#[cfg(feature = "rustls")]
mod enrolment;
mod fault;
mod file;
mod request;
#[cfg(feature = "rustls")]
mod server;
#[cfg(all(test, feature = "authority"))]
mod tests;
#[cfg(not(feature = "rustls"))]
mod unavailable;

/// Whether this build supports TLS.
pub const IS_AVAILABLE: bool = cfg!(feature = "rustls");

#[cfg(feature = "rustls")]
pub use certificate::{split_chain, statuses, summarize};
#[cfg(feature = "rustls")]
pub use chain_limit::{CHAIN_BYTES_MAX, CHAIN_CERTIFICATES_MAX};
#[cfg(feature = "rustls")]
pub use client::{BlockingTlsStream, ClientPem, ClientTls, is_http2};
#[cfg(feature = "rustls")]
pub use enrolment::{ParticipantAuthority, SigningRequest};
pub use fault::{HandshakeCounts, HandshakeFault};
pub use file::{
    AUTHORITY_FILES_MAX, AuthorityFiles, CERTIFICATES_BYTES_MAX, CRL_BYTES_MAX, CertificateStatus,
    ClientCertificates, ClientFiles, KEY_BYTES_MAX, MinimumVersion, OCSP_BYTES_MAX, ReloadOutcome,
    ServerFiles, TlsFileError,
};
pub use request::{CertificateSummary, EnrolmentFault};
#[cfg(feature = "rustls")]
pub use server::{Accepted, Peer, Rejected, ServerTls};
#[cfg(feature = "rustls")]
pub use tokio_rustls::client::TlsStream as ClientTlsStream;
#[cfg(feature = "rustls")]
pub use tokio_rustls::server::TlsStream;
#[cfg(not(feature = "rustls"))]
pub use unavailable::{
    Accepted, BlockingTlsStream, ClientTls, ClientTlsStream, ParticipantAuthority, Peer, Rejected,
    ServerTls, SigningRequest, TlsStream, is_http2, split_chain, statuses, summarize,
};
