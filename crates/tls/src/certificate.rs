//! Reads certificates and revocation lists: their names and their validity.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateRevocationListDer};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;
use x509_parser::revocation_list::CertificateRevocationList;
use x509_parser::x509::X509Name;

use crate::file::CertificateStatus;
use crate::request::{CertificateSummary, EnrolmentFault};

/// Maximum length of a shown subject. A longer one is cut.
const SUBJECT_CHARS_MAX: usize = 128;

/// The parts of a certificate that the hub uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CertificateFacts {
    pub(crate) subject: String,
    /// `None` if there are several, or zero.
    pub(crate) common_name: Option<String>,
    pub(crate) dns_names: Vec<String>,
    pub(crate) uris: Vec<String>,
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

/// The parts of a revocation list that the hub uses.
pub(crate) struct CrlFacts {
    pub(crate) issuer: String,
    pub(crate) next_update: Option<i64>,
}

/// Reads a certificate; `None` if it is damaged.
pub(crate) fn read(der: &CertificateDer<'_>) -> Option<CertificateFacts> {
    let (rest, certificate) = X509Certificate::from_der(der).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let names = certificate.subject_alternative_name().ok()?;
    let names = names.map_or(&[][..], |extension| &extension.value.general_names);
    let mut facts = CertificateFacts {
        subject: shown(certificate.subject()),
        common_name: common_name(certificate.subject()),
        dns_names: Vec::new(),
        uris: Vec::new(),
        not_before: certificate.validity().not_before.timestamp(),
        not_after: certificate.validity().not_after.timestamp(),
    };
    for name in names {
        match name {
            GeneralName::DNSName(name) => facts.dns_names.push((*name).to_owned()),
            GeneralName::URI(uri) => facts.uris.push((*uri).to_owned()),
            _ => {}
        }
    }
    Some(facts)
}

/// Reads a revocation list; `None` if it is damaged.
pub(crate) fn read_crl(der: &CertificateRevocationListDer<'_>) -> Option<CrlFacts> {
    let (_, list) = CertificateRevocationList::from_der(der).ok()?;
    let next_update = list.next_update().map(|time| time.timestamp());
    Some(CrlFacts { issuer: shown(list.issuer()), next_update })
}

/// Subject and end of each certificate in PEM of a file for another library. Those that cannot be
/// read are left out.
#[must_use]
pub fn statuses(kind: &'static str, pem: &[u8]) -> Vec<CertificateStatus> {
    let found = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok);
    let status = |facts: CertificateFacts| CertificateStatus {
        kind,
        subject: facts.subject,
        expires: facts.not_after,
    };
    found.filter_map(|certificate| read(&certificate)).map(status).collect()
}

/// The certificates of a chain in DER, one after the other.
///
/// # Errors
/// [`EnrolmentFault::NotACertificate`] if one is damaged.
pub fn split_chain(chain: &[u8]) -> Result<Vec<CertificateDer<'static>>, EnrolmentFault> {
    let (mut rest, mut found) = (chain, Vec::new());
    while !rest.is_empty() {
        let (after, _) =
            X509Certificate::from_der(rest).map_err(|_| EnrolmentFault::NotACertificate)?;
        let one = &rest[..rest.len() - after.len()];
        found.push(CertificateDer::from(one.to_vec()));
        rest = after;
    }
    Ok(found)
}

/// Subject, issuer, serial number and validity of the first certificate of a chain in DER.
///
/// # Errors
/// [`EnrolmentFault::NotACertificate`] if it is damaged.
pub fn summarize(chain: &[u8]) -> Result<CertificateSummary, EnrolmentFault> {
    let (_, parsed) =
        X509Certificate::from_der(chain).map_err(|_| EnrolmentFault::NotACertificate)?;
    Ok(CertificateSummary {
        subject: shown(parsed.subject()),
        issuer: shown(parsed.issuer()),
        serial: parsed.raw_serial().iter().map(|byte| format!("{byte:02x}")).collect(),
        not_before: parsed.validity().not_before.timestamp(),
        not_after: parsed.validity().not_after.timestamp(),
    })
}

pub(crate) fn common_name(name: &X509Name<'_>) -> Option<String> {
    let mut names = name.iter_common_name();
    let first = names.next()?.as_str().ok()?;
    names.next().is_none().then(|| first.to_owned())
}

pub(crate) fn shown(name: &X509Name<'_>) -> String {
    let text = name.to_string();
    match text.chars().any(char::is_control) || SUBJECT_CHARS_MAX < text.chars().count() {
        true => text.chars().filter(|c| !c.is_control()).take(SUBJECT_CHARS_MAX).collect(),
        false => text,
    }
}
