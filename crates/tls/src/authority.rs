//! Certificate authorities for tests and demonstrations, with P-256 keys in memory.
//!
//! A real scheme has an authority of its own. Nothing here protects the key of an authority.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams,
    SanType, SerialNumber,
};
use time::{Duration, OffsetDateTime};

const VALID: &str = "the parts of a certificate are valid";

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// PEM of the authorities between this one and the root.
    chain: String,
}

/// A certificate to issue.
#[derive(Clone, Debug)]
pub struct CertificateRequest {
    /// Common name of the subject.
    pub common_name: String,
    /// DNS names and IP addresses.
    pub hosts: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    /// Days, counted from now, in which it is valid.
    pub valid_days: Range<i64>,
    /// Serial number.
    pub serial: u64,
    /// Its purpose.
    pub purpose: Purpose,
}

/// The connections that a certificate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Clients and servers.
    Both,
    /// Clients only.
    Client,
    /// Servers only.
    Server,
}

/// An issued certificate, in PEM.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The certificate, then those of authorities below the root.
    pub certificate: String,
    /// Its private key.
    pub key: String,
}

impl Authority {
    /// A root authority.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let issuer = CertifiedIssuer::self_signed(authority(name), key()).expect(VALID);
        Self { issuer, chain: String::new() }
    }

    /// An authority that this one has issued a certificate for.
    #[must_use]
    pub fn intermediate(&self, name: &str) -> Self {
        let issuer = CertifiedIssuer::signed_by(authority(name), key(), &self.issuer);
        let issuer = issuer.expect(VALID);
        let chain = format!("{}{}", issuer.pem(), self.chain);
        Self { issuer, chain }
    }

    /// The certificate of the authority, in PEM.
    #[must_use]
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Its private key, in PEM.
    #[must_use]
    pub fn key_pem(&self) -> String {
        self.issuer.key().serialize_pem()
    }

    /// Issues a certificate.
    #[must_use]
    pub fn issue(&self, request: &CertificateRequest) -> Issued {
        let key = key();
        let mut params = request.params();
        params.serial_number = Some(SerialNumber::from(request.serial));
        params.not_before = in_days(request.valid_days.start);
        params.not_after = in_days(request.valid_days.end);
        let certificate = params.signed_by(&key, &self.issuer).expect(VALID);
        let certificate = format!("{}{}", certificate.pem(), self.chain);
        Issued { certificate, key: key.serialize_pem() }
    }

    /// A revocation list with these serial numbers, in PEM, valid for 7 days.
    #[must_use]
    pub fn revocation_list(&self, serials: &[u64]) -> String {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: in_days(-1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: in_days(-1),
            next_update: in_days(7),
            crl_number: SerialNumber::from(serials.len() as u64 + 1),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params.signed_by(&self.issuer).and_then(|list| list.pem()).expect(VALID)
    }
}

impl CertificateRequest {
    /// A certificate for clients and servers, for 30 days, from yesterday.
    #[must_use]
    pub fn new(common_name: &str, hosts: &[&str], serial: u64) -> Self {
        let hosts = hosts.iter().map(|&host| host.to_owned()).collect();
        let common_name = common_name.to_owned();
        let (uris, purpose) = (Vec::new(), Purpose::Both);
        Self { common_name, hosts, uris, valid_days: -1..30, serial, purpose }
    }

    /// The same for one purpose.
    #[must_use]
    pub fn only_for(self, purpose: Purpose) -> Self {
        Self { purpose, ..self }
    }

    /// A request for the certificate, to be signed by another authority, and its private key, both
    /// in PEM. Validity and serial number are the authority's.
    #[must_use]
    pub fn to_sign(&self) -> (String, String) {
        let key = key();
        let request = self.params().serialize_request(&key).and_then(|request| request.pem());
        (request.expect(VALID), key.serialize_pem())
    }

    /// The subject, its names and purposes.
    fn params(&self) -> CertificateParams {
        let mut params = CertificateParams::new(self.hosts.clone()).expect(VALID);
        params.distinguished_name.push(DnType::CommonName, &*self.common_name);
        let uri = |uri: &String| SanType::URI(uri.as_str().try_into().expect(VALID));
        params.subject_alt_names.extend(self.uris.iter().map(uri));
        let (client, server) =
            (ExtendedKeyUsagePurpose::ClientAuth, ExtendedKeyUsagePurpose::ServerAuth);
        params.extended_key_usages = match self.purpose {
            Purpose::Both => vec![client, server],
            Purpose::Client => vec![client],
            Purpose::Server => vec![server],
        };
        params
    }
}

impl Issued {
    /// Writes `NAME.pem` and, readable by the owner only, `NAME.key` into a directory. Existing
    /// files are replaced at once.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn write(&self, directory: &Path, name: &str) -> io::Result<(PathBuf, PathBuf)> {
        let certificate = directory.join(format!("{name}.pem"));
        let key = directory.join(format!("{name}.key"));
        write_at_once(&certificate, &self.certificate)?;
        write_at_once(&key, &self.key)?;
        Ok((certificate, key))
    }
}

/// Writes a file that only the owner can read, and replaces an existing one at once.
///
/// # Errors
/// If the file cannot be written.
pub fn write_at_once(path: &Path, content: &str) -> io::Result<()> {
    let next = path.with_extension("next");
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&next)?;
    file.write_all(content.as_bytes())?;
    fs::rename(next, path)
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.not_before = in_days(-1);
    params.not_after = in_days(3_650);
    params
}

fn key() -> KeyPair {
    KeyPair::generate().expect("the system has random bytes")
}

fn in_days(days: i64) -> OffsetDateTime {
    OffsetDateTime::now_utc() + Duration::days(days)
}
