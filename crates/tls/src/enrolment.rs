//! Certificates of participants: requests for them, an authority that signs them, and checks of
//! certificates that another authority has signed.
//!
//! Nothing of a request but its key is used. An issued certificate has the name of the participant
//! as its only name, and is for clients only.

use std::sync::Arc;

use rcgen::string::{Ia5String, PrintableString};
use rcgen::{
    CertificateParams, DistinguishedName, DnType, DnValue, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384,
    PKCS_RSA_SHA256, PublicKeyData, SerialNumber, SignatureAlgorithm,
};
use rustls::SignatureScheme;
use rustls::crypto::CryptoProvider;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};
use time::{Duration, OffsetDateTime};
use x509_parser::asn1_rs::Tag;
use x509_parser::certificate::X509Certificate;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry as oids;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::{SubjectPublicKeyInfo as KeyInfo, X509Name};

use crate::certificate;
use crate::file::{
    AuthorityFiles, CERTIFICATES_BYTES_MAX, FileToRead, KEY_BYTES_MAX, TlsFileError,
};
use crate::request::EnrolmentFault;
use crate::server::{certificates, check_validity, now};

/// Smallest and largest key of RSA, in bits.
const RSA_BITS: std::ops::RangeInclusive<usize> = 2_048..=8_192;
/// Time before the issue from which a certificate is valid, for clocks that are late.
const EARLIER: Duration = Duration::minutes(5);

/// A certificate signing request with a valid signature.
#[derive(Clone, Debug)]
pub struct SigningRequest {
    der: Vec<u8>,
    common_name: String,
    key: String,
}

impl SigningRequest {
    /// Reads a request in PEM.
    ///
    /// # Errors
    /// The reason why it cannot be signed.
    pub fn from_pem(text: &str) -> Result<Self, EnrolmentFault> {
        let text = text.replace("NEW CERTIFICATE REQUEST", "CERTIFICATE REQUEST");
        let der = CertificateSigningRequestDer::from_pem_slice(text.as_bytes());
        Self::from_der(der.map_err(|_| EnrolmentFault::NotARequest)?.to_vec())
    }

    /// Reads a request in DER.
    ///
    /// # Errors
    /// The reason why it cannot be signed.
    pub fn from_der(der: Vec<u8>) -> Result<Self, EnrolmentFault> {
        let (rest, request) =
            X509CertificationRequest::from_der(&der).map_err(|_| EnrolmentFault::NotARequest)?;
        if !rest.is_empty() {
            return Err(EnrolmentFault::NotARequest);
        }
        let info = &request.certification_request_info;
        let key = kind_of(&info.subject_pki)?;
        if !is_signed(&request) {
            return Err(EnrolmentFault::Signature);
        }
        let common_name = certificate::common_name(&info.subject);
        let common_name = common_name.ok_or(EnrolmentFault::NoName)?;
        Ok(Self { common_name, key, der })
    }

    /// The request in DER.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The only common name of its subject.
    #[must_use]
    pub fn common_name(&self) -> &str {
        &self.common_name
    }

    /// The kind of its key, such as `RSA 2048` or `P-256`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Its public key, a `SubjectPublicKeyInfo` in DER.
    fn public_key(&self) -> Vec<u8> {
        let parsed = X509CertificationRequest::from_der(&self.der);
        let key = parsed.map(|(_, it)| it.certification_request_info.subject_pki.raw.to_vec());
        key.unwrap_or_default()
    }

    /// Reads a certificate that another authority has issued for this request, with its chain, in
    /// PEM. Returns the chain in DER, one certificate after the other.
    ///
    /// # Errors
    /// The reason why it does not fit the request and the name.
    pub fn chain_from_pem(&self, text: &str, name: &str) -> Result<Vec<u8>, EnrolmentFault> {
        let chain = CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>();
        let chain = chain.map_err(|_| EnrolmentFault::NotACertificate)?;
        let first = chain.first().ok_or(EnrolmentFault::NotACertificate)?;
        let all_are_read = chain.iter().all(|it| certificate::read(it).is_some());
        if !all_are_read {
            return Err(EnrolmentFault::NotACertificate);
        }
        let (_, parsed) =
            X509Certificate::from_der(first).map_err(|_| EnrolmentFault::NotACertificate)?;
        if parsed.public_key().raw != self.public_key() {
            return Err(EnrolmentFault::OtherKey);
        }
        check_certificate(&parsed, first, name)?;
        Ok(chain.iter().flat_map(|it| it.iter().copied()).collect())
    }
}

/// The kind of a key, if it is accepted.
fn kind_of(key: &KeyInfo<'_>) -> Result<String, EnrolmentFault> {
    let curve = key.algorithm.parameters.as_ref().and_then(|it| it.as_oid().ok());
    let is = |oid: &oids::Oid<'_>| key.algorithm.algorithm == *oid;
    if is(&oids::OID_KEY_TYPE_EC_PUBLIC_KEY) {
        return match curve {
            Some(curve) if curve == oids::OID_EC_P256 => Ok("P-256".to_owned()),
            Some(curve) if curve == oids::OID_NIST_EC_P384 => Ok("P-384".to_owned()),
            _ => Err(EnrolmentFault::Key),
        };
    }
    match key.parsed() {
        Ok(PublicKey::RSA(rsa)) if is(&oids::OID_PKCS1_RSAENCRYPTION) => match rsa.key_size() {
            bits if RSA_BITS.contains(&bits) => Ok(format!("RSA {bits}")),
            _ => Err(EnrolmentFault::Key),
        },
        _ => Err(EnrolmentFault::Key),
    }
}

/// Whether a request is signed with its own key, with SHA-256 or a longer hash.
fn is_signed(request: &X509CertificationRequest<'_>) -> bool {
    let schemes = [
        (oids::OID_PKCS1_SHA256WITHRSA, SignatureScheme::RSA_PKCS1_SHA256),
        (oids::OID_PKCS1_SHA384WITHRSA, SignatureScheme::RSA_PKCS1_SHA384),
        (oids::OID_PKCS1_SHA512WITHRSA, SignatureScheme::RSA_PKCS1_SHA512),
        (oids::OID_SIG_ECDSA_WITH_SHA256, SignatureScheme::ECDSA_NISTP256_SHA256),
        (oids::OID_SIG_ECDSA_WITH_SHA384, SignatureScheme::ECDSA_NISTP384_SHA384),
    ];
    let used = &request.signature_algorithm.algorithm;
    let Some((_, scheme)) = schemes.iter().find(|(oid, _)| oid == used) else { return false };
    let known = provider().signature_verification_algorithms.mapping;
    let Some((_, algorithms)) = known.iter().find(|(it, _)| it == scheme) else { return false };
    let info = &request.certification_request_info;
    let key = &info.subject_pki.subject_public_key.data;
    let signature = &request.signature_value.data;
    algorithms.iter().any(|it| it.verify_signature(key, info.raw, signature).is_ok())
}

/// Checks names, purpose and validity of a certificate of a participant.
fn check_certificate(
    parsed: &X509Certificate<'_>,
    der: &CertificateDer<'_>,
    name: &str,
) -> Result<(), EnrolmentFault> {
    let facts = certificate::read(der).ok_or(EnrolmentFault::NotACertificate)?;
    let mut others = facts.dns_names.iter().chain(&facts.uris);
    if facts.common_name.as_deref() != Some(name) || others.any(|other| other != name) {
        return Err(EnrolmentFault::OtherName);
    }
    let purposes = parsed.extended_key_usage().map_err(|_| EnrolmentFault::NotACertificate)?;
    let is_for_clients = purposes.is_some_and(|it| it.value.client_auth || it.value.any);
    if parsed.is_ca() || !is_for_clients {
        return Err(EnrolmentFault::Purpose);
    }
    match now() {
        now if facts.not_after <= now => Err(EnrolmentFault::Expired),
        now if now < facts.not_before => Err(EnrolmentFault::NotYetValid),
        _ => Ok(()),
    }
}

/// The authority that signs requests of participants.
pub struct ParticipantAuthority {
    issuer: Issuer<'static, KeyPair>,
    /// The certificates in PEM, as configured.
    pem: String,
    /// The authorities below the root, in DER, which a client has to present.
    below_root: Vec<u8>,
    expires: i64,
}

impl std::fmt::Debug for ParticipantAuthority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ParticipantAuthority").field("expires", &self.expires).finish()
    }
}

impl ParticipantAuthority {
    /// Reads the certificate and the key of the authority.
    ///
    /// # Errors
    /// The first file that is missing, too large, damaged, readable by others, expired, or that
    /// does not fit to the other.
    pub fn open(files: &AuthorityFiles) -> Result<Self, TlsFileError> {
        let (section, path) = (files.section, &*files.certificate);
        let file = FileToRead { section, setting: "ca_certificate_file", path };
        let content = file.read(CERTIFICATES_BYTES_MAX)?;
        let chain = certificates(&file, &content, ("ca", &mut Vec::new()))?;
        check_validity(&file, &chain)?;
        let first = chain.first().ok_or_else(|| file.failed("contains no certificate in PEM"))?;
        let damaged = || file.failed("contains a damaged certificate");
        let (_, parsed) = X509Certificate::from_der(first).map_err(|_| damaged())?;
        if !parsed.is_ca() {
            return Err(file.failed("the first certificate is not of an authority"));
        }
        let path = &*files.key;
        let key_file = FileToRead { section, setting: "ca_key_file", path };
        let key = String::from_utf8(key_file.read_secret(KEY_BYTES_MAX)?).unwrap_or_default();
        let key = KeyPair::from_pem(&key)
            .map_err(|_| key_file.failed("contains no private key in PEM (PKCS#8)"))?;
        if key.subject_public_key_info() != parsed.public_key().raw {
            let certificate = files.certificate.display();
            return Err(
                key_file.failed(format!("is not the key of the certificate in {certificate}"))
            );
        }
        let issuer = issuer_of(&parsed, key);
        let issuer = issuer.ok_or_else(|| file.failed("its subject has a text of a rare kind"))?;
        let is_below = |der: &&CertificateDer<'_>| !is_root(der);
        let below_root = chain.iter().filter(is_below).flat_map(|der| der.to_vec()).collect();
        let expires = parsed.validity().not_after.timestamp();
        let pem = String::from_utf8(content).map_err(|_| damaged())?;
        Ok(Self { issuer, pem, below_root, expires })
    }

    /// Its certificates, in PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// Issues a certificate with this name, for the key of the request. It is valid for a number of
    /// days, but not longer than the authority. Returns the chain in DER.
    ///
    /// # Errors
    /// [`EnrolmentFault::Expired`] if the authority has expired; [`EnrolmentFault::Key`] if the
    /// key cannot be certified.
    pub fn issue(
        &self,
        request: &SigningRequest,
        (name, days): (&str, u32),
    ) -> Result<Vec<u8>, EnrolmentFault> {
        let now = OffsetDateTime::now_utc();
        let end = OffsetDateTime::from_unix_timestamp(self.expires);
        let end = end.map_err(|_| EnrolmentFault::Expired)?;
        if end <= now {
            return Err(EnrolmentFault::Expired);
        }
        let key = RequestKey::read(&request.public_key()).ok_or(EnrolmentFault::Key)?;
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.serial_number = Some(SerialNumber::from(serial_number()?));
        params.not_before = now - EARLIER;
        params.not_after = end.min(now + Duration::days(days.into()));
        params.is_ca = IsCa::ExplicitNoCa;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        let issued = params.signed_by(&key, &self.issuer).map_err(|_| EnrolmentFault::Key)?;
        Ok([issued.der(), &*self.below_root].concat())
    }
}

/// The subject, the key identifier and the key of an authority. `None` if its subject cannot be
/// written as it is.
fn issuer_of(parsed: &X509Certificate<'_>, key: KeyPair) -> Option<Issuer<'static, KeyPair>> {
    let mut params = CertificateParams::default();
    params.distinguished_name = copied(parsed.subject())?;
    let identifier = parsed.iter_extensions().find_map(|it| match it.parsed_extension() {
        ParsedExtension::SubjectKeyIdentifier(identifier) => Some(identifier.0.to_vec()),
        _ => None,
    });
    if let Some(identifier) = identifier {
        params.key_identifier_method = KeyIdMethod::PreSpecified(identifier);
    }
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Some(Issuer::new(params, key))
}

/// The same name, with the same kinds of texts: verifiers compare bytes.
fn copied(name: &X509Name<'_>) -> Option<DistinguishedName> {
    let mut copy = DistinguishedName::new();
    for set in name.iter_rdn() {
        let mut attributes = set.iter();
        let attribute = attributes.next()?;
        let oid: Vec<u64> = attribute.attr_type().iter()?.collect();
        let kind = DnType::from_oid(&oid);
        let text = attribute.as_str().ok()?;
        let value = match attribute.attr_value().tag() {
            Tag::Utf8String => DnValue::Utf8String(text.to_owned()),
            Tag::PrintableString => DnValue::PrintableString(PrintableString::try_from(text).ok()?),
            Tag::Ia5String => DnValue::Ia5String(Ia5String::try_from(text).ok()?),
            _ => return None,
        };
        if attributes.next().is_some() || copy.get(&kind).is_some() {
            return None;
        }
        copy.push(kind, value);
    }
    Some(copy)
}

/// The public key of a request.
struct RequestKey {
    bits: Vec<u8>,
    algorithm: &'static SignatureAlgorithm,
}

impl RequestKey {
    fn read(der: &[u8]) -> Option<Self> {
        let (_, key) = KeyInfo::from_der(der).ok()?;
        let algorithm = match &*kind_of(&key).ok()? {
            "P-256" => &PKCS_ECDSA_P256_SHA256,
            "P-384" => &PKCS_ECDSA_P384_SHA384,
            _ => &PKCS_RSA_SHA256,
        };
        Some(Self { bits: key.subject_public_key.data.to_vec(), algorithm })
    }
}

impl PublicKeyData for RequestKey {
    fn der_bytes(&self) -> &[u8] {
        &self.bits
    }

    fn algorithm(&self) -> &'static SignatureAlgorithm {
        self.algorithm
    }
}

fn is_root(der: &CertificateDer<'_>) -> bool {
    let parsed = X509Certificate::from_der(der);
    parsed.is_ok_and(|(_, it)| it.subject().as_raw() == it.issuer().as_raw())
}

/// A positive number of 127 random bits.
fn serial_number() -> Result<Vec<u8>, EnrolmentFault> {
    let mut bytes = [0; 16];
    let filled = provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| EnrolmentFault::NoRandomBytes)?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(bytes.to_vec())
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}
