//! Why a handshake failed.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why a handshake failed. The name of each is a label of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeFault {
    /// The client sent no certificate.
    NoCertificate,
    /// No trusted authority issued the client's certificate.
    Untrusted,
    /// The client's certificate, or one of its chain, has expired.
    Expired,
    /// The client's certificate is not valid yet.
    NotYetValid,
    /// A revocation list names the client's certificate.
    Revoked,
    /// No revocation list covers the client's certificate.
    UnknownRevocation,
    /// The certificate of a called host does not contain its name.
    WrongName,
    /// The client sent too many certificates, or too large ones.
    LongChain,
    /// The client's certificate is damaged, or not for clients.
    InvalidCertificate,
    /// The client offers no version or cipher suite that is allowed.
    Incompatible,
    /// The client does not trust the hub, or refused it for another reason.
    RefusedByPeer,
    /// The client closed the connection.
    Closed,
    /// The handshake took too long.
    TimedOut,
    /// Too many handshakes were in progress, and this one had waited longest.
    Evicted,
    /// The address of the client made too many handshakes in a second.
    RateLimited,
    /// The client speaks HTTP without TLS.
    PlainHttp,
    /// The bytes are not TLS, or break its rules.
    Malformed,
}

/// Handshakes of a listener, by result.
#[derive(Debug, Default)]
pub struct HandshakeCounts {
    complete: AtomicU64,
    resumed: AtomicU64,
    failed: [AtomicU64; HandshakeFault::ALL.len()],
}

impl HandshakeCounts {
    #[cfg(feature = "rustls")]
    pub(crate) fn succeeded(&self, is_resumed: bool) {
        let count = if is_resumed { &self.resumed } else { &self.complete };
        count.fetch_add(1, Ordering::Relaxed);
    }

    #[cfg(feature = "rustls")]
    pub(crate) fn failed(&self, fault: HandshakeFault) {
        self.failed[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Each result with its number: `complete`, `resumed`, and the labels of faults.
    pub fn by_result(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let succeeded = [("complete", get(&self.complete)), ("resumed", get(&self.resumed))];
        let failed = HandshakeFault::ALL.into_iter().zip(&self.failed);
        succeeded.into_iter().chain(failed.map(move |(fault, count)| (fault.label(), get(count))))
    }
}

impl HandshakeFault {
    /// All faults, in the order of their declaration.
    pub const ALL: [Self; 17] = [
        Self::NoCertificate,
        Self::Untrusted,
        Self::Expired,
        Self::NotYetValid,
        Self::Revoked,
        Self::UnknownRevocation,
        Self::WrongName,
        Self::LongChain,
        Self::InvalidCertificate,
        Self::Incompatible,
        Self::RefusedByPeer,
        Self::Closed,
        Self::TimedOut,
        Self::Evicted,
        Self::RateLimited,
        Self::PlainHttp,
        Self::Malformed,
    ];

    /// The label of a metric.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NoCertificate => "no_certificate",
            Self::Untrusted => "untrusted",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Revoked => "revoked",
            Self::UnknownRevocation => "unknown_revocation",
            Self::WrongName => "wrong_name",
            Self::LongChain => "long_chain",
            Self::InvalidCertificate => "invalid_certificate",
            Self::Incompatible => "incompatible",
            Self::RefusedByPeer => "refused_by_peer",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
            Self::Evicted => "evicted",
            Self::RateLimited => "rate_limited",
            Self::PlainHttp => "plain_http",
            Self::Malformed => "malformed",
        }
    }

    /// The fault as part of a message.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NoCertificate => "no certificate was presented",
            Self::Untrusted => "the certificate was not issued by a trusted authority",
            Self::Expired => "the certificate has expired",
            Self::NotYetValid => "the certificate is not valid yet",
            Self::Revoked => "the certificate is revoked",
            Self::UnknownRevocation => "no revocation list covers the certificate",
            Self::WrongName => "the certificate does not contain the name of the host",
            Self::LongChain => "the chain of certificates is too long",
            Self::InvalidCertificate => "the certificate is invalid",
            Self::Incompatible => "no common version or cipher suite",
            Self::RefusedByPeer => "the other side refused the handshake",
            Self::Closed => "the connection was closed",
            Self::TimedOut => "the handshake took too long",
            Self::Evicted => "too many handshakes are in progress",
            Self::RateLimited => "too many handshakes of this address",
            Self::PlainHttp => "the other side does not use TLS",
            Self::Malformed => "the other side does not speak TLS correctly",
        }
    }
}

#[cfg(feature = "rustls")]
mod of_rustls {
    use rustls::{CertificateError, Error};

    use super::HandshakeFault;
    use crate::chain_limit::ChainTooLong;

    impl From<&Error> for HandshakeFault {
        fn from(error: &Error) -> Self {
            match error {
                Error::NoCertificatesPresented => Self::NoCertificate,
                Error::InvalidCertificate(error) => of_certificate(error),
                Error::PeerIncompatible(_) | Error::NoApplicationProtocol => Self::Incompatible,
                Error::AlertReceived(_) => Self::RefusedByPeer,
                _ => Self::Malformed,
            }
        }
    }

    impl From<&std::io::Error> for HandshakeFault {
        fn from(error: &std::io::Error) -> Self {
            use std::io::ErrorKind::{TimedOut, WouldBlock};

            let source = error.get_ref().and_then(|source| source.downcast_ref::<Error>());
            let otherwise = match error.kind() {
                // A blocking socket reports its timeout as either of both.
                TimedOut | WouldBlock => Self::TimedOut,
                _ => Self::Closed,
            };
            source.map_or(otherwise, Self::from)
        }
    }

    fn of_certificate(error: &CertificateError) -> HandshakeFault {
        use CertificateError as E;
        match error {
            E::Expired | E::ExpiredContext { .. } => HandshakeFault::Expired,
            E::NotValidYet | E::NotValidYetContext { .. } => HandshakeFault::NotYetValid,
            E::Revoked => HandshakeFault::Revoked,
            E::UnknownRevocationStatus => HandshakeFault::UnknownRevocation,
            E::NotValidForName | E::NotValidForNameContext { .. } => HandshakeFault::WrongName,
            E::Other(error) if error.0.is::<ChainTooLong>() => HandshakeFault::LongChain,
            E::UnknownIssuer | E::BadSignature => HandshakeFault::Untrusted,
            _ => HandshakeFault::InvalidCertificate,
        }
    }
}
