//! Keys in PEM, for verification and signing.

use std::fmt;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ledger::Digest;
use rustls_pki_types::pem::{PemObject, SectionKind};

pub use crate::der::KeyKind;

use crate::base64_hash::{CHUNK_BYTES, encode};
use crate::crypto::{Hash, Private, Public, fingerprint, hasher};
use crate::der;

/// Minimum size of an RSA modulus, in bits (FSPIOP signature, section on algorithms).
pub const RSA_BITS_MIN: usize = 2_048;
/// Maximum size of an RSA modulus, in bits. Verifying takes sixteen times as long as with the
/// minimum.
pub const RSA_BITS_MAX: usize = 8_192;
/// Maximum length of the text of a key or certificate, in bytes.
pub const KEY_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Characters per line of PEM.
const PEM_LINE: usize = 64;

/// A signature algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// RSA PKCS#1 v1.5 with SHA-256: the algorithm of the scheme.
    Rs256,
    /// RSA PKCS#1 v1.5 with SHA-384.
    Rs384,
    /// RSA PKCS#1 v1.5 with SHA-512.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
}

impl Algorithm {
    /// Every algorithm that can be verified.
    pub const ALL: [Self; 4] = [Self::Rs256, Self::Rs384, Self::Rs512, Self::Es256];

    /// The value of `alg`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == text)
    }

    /// The digest of the signed text: the encoded protected header, a dot, the encoded payload.
    pub(crate) fn digest(self, protected: &[u8], payload: &[u8]) -> Hash {
        let mut hasher = hasher(self);
        hasher.update(protected);
        hasher.update(b".");
        let mut buffer = [0; CHUNK_BYTES / 3 * 4];
        for chunk in payload.chunks(CHUNK_BYTES) {
            hasher.update(encode(chunk, &mut buffer));
        }
        hasher.finish()
    }
}

/// The reasons why a text is not a suitable key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Longer than [`KEY_TEXT_BYTES_MAX`].
    #[error("the text is longer than 65536 bytes")]
    TooLong,
    /// A PEM block is broken.
    #[error("the text is not PEM: a block has no end or holds more than base64")]
    NotPem,
    /// No block that could be a public key.
    #[error("the text holds no PEM block PUBLIC KEY or CERTIFICATE")]
    NoPublicKey,
    /// No block that could be a private key.
    #[error("the text holds no PEM block PRIVATE KEY, RSA PRIVATE KEY or EC PRIVATE KEY")]
    NoPrivateKey,
    /// A private key instead of a public one: it must not leave its owner.
    #[error("the text holds a private key; only the public key belongs here")]
    Private,
    /// More than one key; a certificate may be followed by those of its issuers.
    #[error("the text holds more than one key")]
    Several,
    /// The content does not match the label.
    #[error("the key is damaged: its DER encoding cannot be read")]
    Damaged,
    /// A kind of key that the scheme does not use.
    #[error("the key is neither RSA nor on the curve P-256")]
    Unsupported,
    /// An RSA key outside the bounds.
    #[error("the RSA key has {bits} bits; 2048 to 8192 are accepted")]
    Size {
        /// Bits of its modulus.
        bits: usize,
    },
    /// A participant has the maximum number of keys.
    #[error("a participant has at most 4 keys at a time")]
    TooMany,
    /// A ring has the maximum number of participants.
    #[error("keys of at most 10000 participants are held")]
    Full,
    /// Built without the feature `signatures`.
    #[error("this build has no signatures: build it with --features signatures")]
    Absent,
}

/// A participant's public key. Cheap to clone.
#[derive(Clone)]
pub struct VerificationKey(Arc<Verifier>);

struct Verifier {
    fingerprint: Digest,
    kind: KeyKind,
    der: Vec<u8>,
    public: Public,
}

impl VerificationKey {
    /// Reads a PEM text: a public key (`PUBLIC KEY`), or a certificate. Only the key of a
    /// certificate is used; neither its validity nor its issuer is checked. Issuers' certificates
    /// may follow it.
    ///
    /// # Errors
    /// Any [`KeyError`] about a public key.
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let blocks = blocks(text)?;
        if blocks.iter().any(|(kind, _)| is_private(*kind)) {
            return Err(KeyError::Private);
        }
        let is_public =
            |kind: &SectionKind| matches!(kind, SectionKind::PublicKey | SectionKind::Certificate);
        let mut keys = blocks.iter().filter(|(kind, _)| is_public(kind));
        let (first, der) = keys.next().ok_or(KeyError::NoPublicKey)?;
        let is_issuer = |kind: SectionKind| {
            *first == SectionKind::Certificate && kind == SectionKind::Certificate
        };
        if keys.any(|(kind, _)| !is_issuer(*kind)) {
            return Err(KeyError::Several);
        }
        match first {
            SectionKind::Certificate => {
                Self::from_der(der::key_of_certificate(der).ok_or(KeyError::Damaged)?)
            }
            _ => Self::from_der(der),
        }
    }

    /// SHA-256 of the key (its `SubjectPublicKeyInfo`): the same for a key and for a certificate
    /// that contains it.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        self.0.fingerprint
    }

    /// Whether signatures by `algorithm` can be verified with this key.
    #[must_use]
    pub fn fits(&self, algorithm: Algorithm) -> bool {
        self.0.public.fits(algorithm)
    }

    pub(crate) fn verifies(&self, algorithm: Algorithm, hash: &Hash, signature: &[u8]) -> bool {
        self.0.public.verifies(algorithm, hash, signature)
    }

    /// The key: its `SubjectPublicKeyInfo`, in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.0.der
    }

    /// The kind of the key.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.0.kind
    }

    /// The key in PEM, `PUBLIC KEY`.
    #[must_use]
    pub fn to_pem(&self) -> String {
        pem("PUBLIC KEY", &self.0.der)
    }

    /// Reads a `SubjectPublicKeyInfo`.
    ///
    /// # Errors
    /// [`KeyError::Damaged`], [`KeyError::Unsupported`] and [`KeyError::Size`].
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let kind = der::kind(der).ok_or(KeyError::Damaged)?;
        if let KeyKind::Rsa { bits } = kind {
            check_bits(bits)?;
        }
        let public = Public::parse(kind, der)?;
        let (fingerprint, der) = (Digest(fingerprint(der)), der.to_vec());
        Ok(Self(Arc::new(Verifier { fingerprint, kind, der, public })))
    }
}

impl fmt::Debug for VerificationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.0.kind {
            KeyKind::Rsa { .. } => "RSA",
            _ => "P-256",
        };
        write!(f, "{kind} {}", self.0.fingerprint)
    }
}

/// The hub's private key.
pub struct SigningKey(Private);

impl SigningKey {
    /// Reads a PEM text: PKCS#8 (`PRIVATE KEY`), PKCS#1 (`RSA PRIVATE KEY`) or SEC1 (`EC PRIVATE
    /// KEY`), without a password.
    ///
    /// # Errors
    /// [`KeyError::NoPrivateKey`], also for an encrypted key; [`KeyError::Several`];
    /// [`KeyError::Unsupported`] for a key that is damaged, of another kind or outside the size
    /// limits; [`KeyError::TooLong`] and [`KeyError::NotPem`].
    pub fn from_pem(text: &[u8]) -> Result<Self, KeyError> {
        let blocks = blocks(text)?;
        let mut keys = blocks.iter().filter(|(kind, _)| is_private(*kind));
        let (kind, der) = keys.next().ok_or(KeyError::NoPrivateKey)?;
        if keys.next().is_some() {
            return Err(KeyError::Several);
        }
        let key = Self(Private::parse(*kind, der)?);
        // The library's own limits may change; those of the scheme do not.
        key.verification_key()?;
        Ok(key)
    }

    /// A new key for this algorithm, in PEM: on P-256 for ES256, else RSA of 2,048 bits, which
    /// takes about a tenth of a second.
    ///
    /// # Errors
    /// [`KeyError::Absent`] if the library cannot make keys.
    pub fn generate(algorithm: Algorithm) -> Result<String, KeyError> {
        let der = Private::generate(algorithm).ok_or(KeyError::Absent)?;
        Ok(pem("PRIVATE KEY", &der))
    }

    /// RS256 for an RSA key, ES256 for one on P-256, as in the reference.
    #[must_use]
    pub const fn algorithm(&self) -> Algorithm {
        self.0.algorithm()
    }

    /// The matching public key.
    ///
    /// # Errors
    /// [`KeyError::Size`] for an RSA key outside the limits, which [`SigningKey::from_pem`]
    /// rejects.
    pub fn verification_key(&self) -> Result<VerificationKey, KeyError> {
        VerificationKey::from_der(&self.0.public_der()?)
    }

    /// `None` only if the cryptographic library fails, for lack of memory or randomness.
    pub(crate) fn sign(&self, hash: &Hash) -> Option<Vec<u8>> {
        self.0.sign(hash)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.algorithm().as_str())
    }
}

/// A PEM block.
#[must_use]
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut pem = String::with_capacity(text.len() + text.len() / PEM_LINE + 64);
    pem.push_str(&format!("-----BEGIN {label}-----\n"));
    for (at, character) in text.char_indices() {
        if 0 < at && at % PEM_LINE == 0 {
            pem.push('\n');
        }
        pem.push(character);
    }
    pem.push_str(&format!("\n-----END {label}-----\n"));
    pem
}

fn check_bits(bits: usize) -> Result<(), KeyError> {
    if (RSA_BITS_MIN..=RSA_BITS_MAX).contains(&bits) {
        Ok(())
    } else {
        Err(KeyError::Size { bits })
    }
}

fn blocks(text: &[u8]) -> Result<Vec<(SectionKind, Vec<u8>)>, KeyError> {
    if KEY_TEXT_BYTES_MAX < text.len() {
        return Err(KeyError::TooLong);
    }
    <(SectionKind, Vec<u8>)>::pem_slice_iter(text)
        .collect::<Result<_, _>>()
        .map_err(|_| KeyError::NotPem)
}

/// The keys of the blocks `PUBLIC KEY` of a text.
pub(crate) fn public_keys(text: &[u8]) -> Result<Vec<VerificationKey>, KeyError> {
    let blocks = blocks(text)?.into_iter();
    let keys = blocks.filter(|(kind, _)| *kind == SectionKind::PublicKey);
    keys.map(|(_, der)| VerificationKey::from_der(&der)).collect()
}

const fn is_private(kind: SectionKind) -> bool {
    matches!(kind, SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey)
}
