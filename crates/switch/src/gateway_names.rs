//! Senders known by a header of a gateway that authenticated them.
//!
//! The header is believed only on connections from the networks of gateways; from any other address
//! each request is refused. `X-Forwarded-Client-Cert` is read as Envoy writes it: one certificate,
//! whose fields are separated by semicolons. Any other header has the name itself.

use fspiop::Refusal;
use http::{HeaderMap, HeaderName};
use ledger::FspName;

use crate::caller_names::{CertificateField, CertificateNames, NAMES_MAX, refuse};
use crate::counters::Counters;

/// The header in which Envoy describes the certificate of its client.
const FORWARDED_CERTIFICATE: &str = "x-forwarded-client-cert";

/// How a sender is known by a gateway's header.
#[derive(Clone, Debug)]
pub struct GatewayCallers {
    /// The header with the name.
    pub header: HeaderName,
    /// The form of the name, and the fields of a forwarded certificate.
    pub names: CertificateNames,
}

impl GatewayCallers {
    /// The names that a gateway's header allows, at most [`NAMES_MAX`].
    ///
    /// # Errors
    /// 403, 3000: the client is not a gateway, or its header is missing, repeated or unreadable.
    pub(crate) fn read(
        &self,
        headers: &HeaderMap,
        is_gateway: bool,
        counters: &Counters,
    ) -> Result<Vec<FspName>, Refusal> {
        if !is_gateway {
            counters.callers_outside_gateways.add(1);
            return Err(refuse("the client's address is not that of a gateway"));
        }
        let header = &self.header;
        let failed = |what: &str| {
            counters.callers_without_gateway_name.add(1);
            refuse(&format!("the gateway's header {header} {what}"))
        };
        let mut values = headers.get_all(header).iter();
        let value = match (values.next(), values.next()) {
            (Some(value), None) => value.to_str().map_err(|_| failed("is not text"))?,
            (None, _) => return Err(failed("is missing")),
            (Some(_), Some(_)) => return Err(failed("is repeated")),
        };
        let names: Vec<_> = match header.as_str() {
            FORWARDED_CERTIFICATE => {
                let read = self.of_certificate(value);
                read.ok_or_else(|| failed("does not describe one certificate"))?
            }
            _ => self.names.pattern.name(value).into_iter().collect(),
        };
        match names.is_empty() {
            true => {
                counters.callers_unknown.add(1);
                Err(refuse(&format!("the gateway's header {header} names no participant")))
            }
            false => Ok(names),
        }
    }

    /// `None` if the value describes several certificates, or cannot be read.
    fn of_certificate(&self, value: &str) -> Option<Vec<FspName>> {
        let parts = unquoted_parts(value, ';')?;
        let mut names = Vec::new();
        for field in &self.names.fields {
            let key = match field {
                CertificateField::CommonName => "Subject",
                CertificateField::DnsName => "DNS",
                CertificateField::Uri => "URI",
            };
            let prefix = format!("{key}=");
            for value in parts.iter().filter_map(|part| part.strip_prefix(&prefix)) {
                let value = match field {
                    CertificateField::CommonName => common_name(value),
                    CertificateField::DnsName | CertificateField::Uri => Some(value),
                };
                names.extend(value.and_then(|value| self.names.pattern.name(value)));
            }
        }
        names.truncate(NAMES_MAX);
        Some(names)
    }
}

/// The parts of a value without their quotes. `None` if a comma outside of quotes begins another
/// certificate, or a quote is escaped or not closed.
fn unquoted_parts(value: &str, separator: char) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for character in value.chars() {
        match character {
            '\\' => return None,
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => return None,
            _ if character == separator && !is_quoted => parts.push(String::new()),
            _ => parts.last_mut()?.push(character),
        }
    }
    (!is_quoted).then_some(parts)
}

/// The common name of a subject as in RFC 2253, if there is exactly one. No part has an escaped
/// comma, because a value with a backslash is not read.
fn common_name(subject: &str) -> Option<&str> {
    let mut names = subject.split(',').filter_map(|part| part.trim_start().strip_prefix("CN="));
    names.next().filter(|_| names.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_certificate_is_one_with_readable_fields() {
        let fields =
            vec![CertificateField::CommonName, CertificateField::DnsName, CertificateField::Uri];
        let names = CertificateNames::new(fields, "{fsp}").expect("a pattern");
        let callers =
            GatewayCallers { header: HeaderName::from_static(FORWARDED_CERTIFICATE), names };
        let check = |value: &str, expected: Option<&[&str]>| {
            let names = callers.of_certificate(value);
            let names = names.as_ref().map(|names| names.iter().map(FspName::as_str).collect());
            assert_eq!(names, expected.map(<[&str]>::to_vec), "{value}");
        };
        check("By=spiffe://hub;Hash=ab;Subject=\"CN=bank-a,O=Bank\"", Some(&["bank-a"]));
        check("Subject=\"O=Bank, CN=a\";DNS=b;DNS=c", Some(&["a", "b", "c"]));
        check("Subject=\"O=x/CN=bank-a\"", Some(&[]));
        check("Subject=\"O=x+CN=bank-a\"", Some(&[]));
        check("Subject=\"CN=a,CN=b\"", Some(&[]));
        check("Hash=ab", Some(&[]));
        check("", Some(&[]));
        check("URI=bank-a", Some(&["bank-a"]));
        check("URI=bank-a,URI=bank-b", None);
        check("Subject=\"CN=a\\\",CN=b\"", None);
        check("Subject=\"CN=a", None);
    }
}
