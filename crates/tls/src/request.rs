//! Faults of requests for certificates, and summaries of certificates.

/// The reason why a certificate cannot be issued, or an issued one is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnrolmentFault {
    /// The text is not a request.
    #[error("must be a certificate signing request in PEM")]
    NotARequest,
    /// The key is of another kind, or too short.
    #[error("must have a key of RSA with 2048 to 8192 bits, of P-256 or of P-384")]
    Key,
    /// The signature of the request is missing, of another key, or with a short hash.
    #[error("must be signed with its own key, with SHA-256 or a longer hash")]
    Signature,
    /// The subject has no common name, or several.
    #[error("must have one common name (CN) in its subject")]
    NoName,
    /// The text is not a certificate.
    #[error("must be a certificate in PEM, with those of authorities below the root")]
    NotACertificate,
    /// The certificate is of another key than the request.
    #[error("is not of the key of the request")]
    OtherKey,
    /// The certificate has another name.
    #[error("must have the name of the participant as its common name, and no other name")]
    OtherName,
    /// The certificate is not for clients, or of an authority.
    #[error("must be for clients (extended key usage clientAuth), and not of an authority")]
    Purpose,
    /// The certificate, or that of the authority, has expired.
    #[error("has expired")]
    Expired,
    /// The certificate is not valid yet.
    #[error("is not valid yet")]
    NotYetValid,
    /// The operating system gives no random bytes.
    #[error("cannot be issued: the operating system gives no random bytes")]
    NoRandomBytes,
    /// The program was built without TLS.
    #[error("needs a program that was built with TLS")]
    Unavailable,
}

/// Names and validity of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateSummary {
    /// Its subject, at most 128 characters.
    pub subject: String,
    /// Its issuer, at most 128 characters.
    pub issuer: String,
    /// Its serial number, in hexadecimal.
    pub serial: String,
    /// Seconds since 1970 from which it is valid.
    pub not_before: i64,
    /// Seconds since 1970 until which it is valid.
    pub not_after: i64,
}
