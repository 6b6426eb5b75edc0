//! Names of participants in certificates, tokens and headers of gateways.

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::FspName;
use tls::Peer;

/// Maximum number of names of a certificate that are compared. Others are ignored.
pub(crate) const NAMES_MAX: usize = 16;
/// The place of the participant's name in a pattern.
const PLACEHOLDER: &str = "{fsp}";

/// Names of participants in certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    pub(crate) fields: Vec<CertificateField>,
    pub(crate) pattern: NamePattern,
}

/// The form of a text that contains the name of a participant, such as `{fsp}.dfsp.example`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    before: String,
    after: String,
}

/// A field of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateField {
    /// The common name of the subject, if there is exactly one.
    CommonName,
    /// The DNS names.
    DnsName,
    /// The URIs.
    Uri,
}

impl NamePattern {
    /// A pattern with one `{fsp}`. `None` if it has none or several.
    #[must_use]
    pub fn new(pattern: &str) -> Option<Self> {
        let (before, after) = pattern.split_once(PLACEHOLDER)?;
        let is_single = !after.contains(PLACEHOLDER);
        is_single.then(|| Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// The name in a text of this form.
    pub(crate) fn name(&self, value: &str) -> Option<FspName> {
        FspName::new(value.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?)
    }
}

impl CertificateNames {
    /// Names in these fields that match a [pattern](NamePattern::new). `None` if it is invalid.
    #[must_use]
    pub fn new(fields: Vec<CertificateField>, pattern: &str) -> Option<Self> {
        NamePattern::new(pattern).map(|pattern| Self { fields, pattern })
    }

    /// The names of participants in a certificate.
    pub(crate) fn read(&self, peer: &Peer) -> Vec<FspName> {
        let values = self.fields.iter().flat_map(|field| match field {
            CertificateField::CommonName => peer.common_name().into_iter().collect(),
            CertificateField::DnsName => peer.dns_names().iter().map(String::as_str).collect(),
            CertificateField::Uri => peer.uris().iter().map(String::as_str).collect::<Vec<_>>(),
        });
        values.filter_map(|value| self.pattern.name(value)).take(NAMES_MAX).collect()
    }
}

/// 403, 3000.
pub(crate) fn refuse(text: &str) -> Refusal {
    Refusal { status: StatusCode::FORBIDDEN, ..Refusal::new(ErrorCode::GENERIC_CLIENT, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_part_of_a_value_that_the_pattern_leaves_out() {
        let check = |pattern: &str, value: &str, expected: Option<&str>| {
            let name = NamePattern::new(pattern).expect("a pattern").name(value);
            assert_eq!(name.as_ref().map(FspName::as_str), expected, "{pattern} {value}");
        };
        check("{fsp}", "bank-a", Some("bank-a"));
        check("{fsp}", "", None);
        check("{fsp}", &"x".repeat(33), None);
        check("{fsp}.dfsp.example", "bank-a.dfsp.example", Some("bank-a"));
        check("{fsp}.dfsp.example", "bank-a", None);
        check("{fsp}.dfsp.example", ".dfsp.example", None);
        check("{fsp}.dfsp.example", "BANK-A.dfsp.example", Some("BANK-A"));
        check("{fsp}.dfsp.example", "a.dfsp.example.evil", None);
        check("spiffe://scheme/dfsp/{fsp}", "spiffe://scheme/dfsp/b", Some("b"));
        check("a{fsp}a", "a", None);
        for pattern in ["", "fsp", "{fsp}{fsp}"] {
            assert_eq!(NamePattern::new(pattern), None, "{pattern}");
        }
    }
}
