//! Who sends a request: the names in the client's certificate, compared with `FSPIOP-Source`.
//!
//! The names are read once per connection. A request is compared after the checks of its headers
//! and before its body is read, so that nothing of an impostor's message is recorded or forwarded.
//! Names are compared byte by byte.
//!
//! A certificate is valid for as long as its connection is open only if it has not expired and a
//! change of the listener's files, such as a new revocation list, still accepts it.
//!
//! Costs: nothing without TLS; otherwise a comparison of names, a clock reading and, with a policy,
//! one look-up of the participant.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::FspName;
use tls::{HandshakeFault, Peer, ServerTls};

use crate::directory::Directory;
use crate::thread::Thread;

/// Maximum number of names of a certificate that are compared. Others are ignored.
const NAMES_MAX: usize = 16;
/// The place of the participant's name in a pattern.
const PLACEHOLDER: &str = "{fsp}";

/// How the hub knows the sender of a request.
#[derive(Clone, Debug, Default)]
pub enum CallerPolicy {
    /// `FSPIOP-Source` is believed.
    #[default]
    Anyone,
    /// `FSPIOP-Source` must be a name in the client's certificate.
    Certificate(CertificateNames),
}

/// Names of participants in certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    fields: Vec<CertificateField>,
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

/// The client of a connection with a certificate.
pub(crate) struct Caller {
    tls: Arc<ServerTls>,
    peer: RefCell<Peer>,
    /// Names that it may send in.
    names: Vec<FspName>,
}

impl CertificateNames {
    /// Names in these fields that match a pattern with one `{fsp}`, such as `{fsp}.dfsp.example`.
    /// `None` if the pattern has none or several.
    #[must_use]
    pub fn new(fields: Vec<CertificateField>, pattern: &str) -> Option<Self> {
        let (before, after) = pattern.split_once(PLACEHOLDER)?;
        let is_single = !after.contains(PLACEHOLDER);
        is_single.then(|| Self { fields, before: before.to_owned(), after: after.to_owned() })
    }

    /// The names of participants in a certificate.
    fn read(&self, peer: &Peer) -> Vec<FspName> {
        let values = self.fields.iter().flat_map(|field| match field {
            CertificateField::CommonName => peer.common_name().into_iter().collect(),
            CertificateField::DnsName => peer.dns_names().iter().map(String::as_str).collect(),
            CertificateField::Uri => peer.uris().iter().map(String::as_str).collect::<Vec<_>>(),
        });
        values.filter_map(|value| self.name(value)).take(NAMES_MAX).collect()
    }

    fn name(&self, value: &str) -> Option<FspName> {
        FspName::new(value.strip_prefix(&*self.before)?.strip_suffix(&*self.after)?)
    }
}

impl CallerPolicy {
    /// Whether senders are identified.
    pub(crate) fn identifies(&self) -> bool {
        !matches!(self, Self::Anyone)
    }
}

impl Caller {
    pub(crate) fn new(tls: &Arc<ServerTls>, peer: Peer, policy: &CallerPolicy) -> Self {
        let names = match policy {
            CallerPolicy::Anyone => Vec::new(),
            CallerPolicy::Certificate(names) => names.read(&peer),
        };
        Self { tls: Arc::clone(tls), peer: RefCell::new(peer), names }
    }
}

/// The check of senders, of one thread.
pub(crate) struct CallerCheck {
    policy: CallerPolicy,
    thread: Rc<Thread>,
    directory: Rc<Directory>,
}

impl CallerCheck {
    pub(crate) fn new(
        policy: CallerPolicy,
        thread: &Rc<Thread>,
        directory: &Rc<Directory>,
    ) -> Self {
        Self { policy, thread: Rc::clone(thread), directory: Rc::clone(directory) }
    }

    /// Whether senders must be participants that are identified.
    pub(crate) fn identifies(&self) -> bool {
        self.policy.identifies()
    }

    /// Compares the sender of a request with the client of its connection.
    ///
    /// # Errors
    /// 403, 3000 if the client may not send in this name, or its certificate is no longer valid.
    pub(crate) fn check(&self, caller: Option<&Caller>, source: &FspName) -> Result<(), Refusal> {
        let Some(caller) = caller else {
            return match self.identifies() {
                false => Ok(()),
                true => Err(refuse("the client has no certificate")),
            };
        };
        self.check_certificate(caller)?;
        if !self.identifies() || caller.names.contains(source) {
            return Ok(());
        }
        let counters = &self.thread.counters;
        let text = match &*caller.names {
            [] => {
                counters.callers_unknown.add(1);
                format!("the certificate {} names no participant", caller.peer.borrow().subject())
            }
            names => {
                counters.callers_refused.add(1);
                let names: Vec<_> = names.iter().map(FspName::as_str).collect();
                format!("FSPIOP-Source is {source}, but the certificate is of {}", names.join(", "))
            }
        };
        Err(refuse(&text))
    }

    /// Refuses a sender that is not a participant. Its name was compared before.
    ///
    /// # Errors
    /// 403, 3000.
    pub(crate) fn check_registered(&self, source: &FspName) -> Result<(), Refusal> {
        if self.directory.sender(source).is_some() {
            return Ok(());
        }
        self.thread.counters.callers_unknown.add(1);
        Err(refuse(&format!("the certificate is of {source}, which is not a participant")))
    }

    fn check_certificate(&self, caller: &Caller) -> Result<(), Refusal> {
        let mut peer = caller.peer.borrow_mut();
        let fault = match peer.expires() <= (self.thread.wall_ms() / 1_000).cast_signed() {
            true => Some(HandshakeFault::Expired),
            false => caller.tls.verify_again(&mut peer).err(),
        };
        let Some(fault) = fault else { return Ok(()) };
        self.thread.counters.callers_invalid.add(1);
        Err(refuse(fault.text()))
    }
}

fn refuse(text: &str) -> Refusal {
    Refusal { status: StatusCode::FORBIDDEN, ..Refusal::new(ErrorCode::GENERIC_CLIENT, text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_is_the_part_of_a_value_that_the_pattern_leaves_out() {
        let check = |pattern: &str, value: &str, expected: Option<&str>| {
            let names = CertificateNames::new(Vec::new(), pattern).expect("a pattern");
            let name = names.name(value);
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
            assert_eq!(CertificateNames::new(Vec::new(), pattern), None, "{pattern}");
        }
    }
}
