//! A bound on the certificates that a client sends, checked before a path to an authority is built.
//! Authorities with one name cost a signature for each possible path: 7 of them cost 10 times as
//! much as a chain without them.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme,
};
use rustls_pki_types::{CertificateDer, UnixTime};

/// Maximum number of certificates in the chain of a client, with its own.
pub const CHAIN_CERTIFICATES_MAX: usize = 4;
/// Maximum size of the certificates in the chain of a client, in bytes.
pub const CHAIN_BYTES_MAX: usize = 32 << 10;

/// The chain of a client exceeds a bound.
#[derive(Debug, thiserror::Error)]
#[error("the chain has more than {CHAIN_CERTIFICATES_MAX} certificates or {CHAIN_BYTES_MAX} bytes")]
pub(crate) struct ChainTooLong;

/// Refuses long chains, and passes others to another verifier.
#[derive(Debug)]
pub(crate) struct ChainLimit(pub(crate) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for ChainLimit {
    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let bytes = issuers.iter().fold(certificate.len(), |bytes, issuer| bytes + issuer.len());
        if CHAIN_CERTIFICATES_MAX <= issuers.len() || CHAIN_BYTES_MAX < bytes {
            let error = CertificateError::Other(OtherError(Arc::new(ChainTooLong)));
            return Err(Error::InvalidCertificate(error));
        }
        self.0.verify_client_cert(certificate, issuers, now)
    }

    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        self.0.requires_raw_public_keys()
    }
}
