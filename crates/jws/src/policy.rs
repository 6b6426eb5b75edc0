//! The messages that need a signature, and those that the hub signs.

use fspiop::Resource;
use http::Method;

/// Settings of the operator, by resource. By default nothing is verified or signed, as in the
/// reference (`JWS_VALIDATE`, `JWS_SIGN`, hub-semantics 1.7). Its two switches for PUT /parties are
/// [`Resource::Parties`] here: that resource has no other message with a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Resources with inbound messages that are refused unless their signature verifies.
    pub validate: Vec<Resource>,
    /// Resources with messages that the hub signs if it makes them itself.
    pub sign: Vec<Resource>,
    /// Whether a DELETE of a validated resource may be unsigned, for signers that do not sign
    /// messages without a body. If it has a signature, that must be valid.
    pub unsigned_delete: bool,
}

/// The requirement for the signature of an inbound message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureRequirement {
    /// It is not checked.
    Nothing,
    /// It must be valid if present.
    GoodIfPresent,
    /// It must be present and valid.
    Good,
}

impl Policy {
    /// The requirement for the signature of an inbound message. None for a GET, as in the reference
    /// (hub-semantics 1.7).
    #[must_use]
    pub fn demands(&self, method: &Method, resource: Resource) -> SignatureRequirement {
        match *method {
            _ if !self.validate.contains(&resource) => SignatureRequirement::Nothing,
            Method::GET => SignatureRequirement::Nothing,
            Method::DELETE if self.unsigned_delete => SignatureRequirement::GoodIfPresent,
            _ => SignatureRequirement::Good,
        }
    }

    /// Whether the hub signs its own message.
    #[must_use]
    pub fn signs(&self, method: &Method, resource: Resource) -> bool {
        self.sign.contains(&resource) && has_body(method)
    }
}

fn has_body(method: &Method) -> bool {
    matches!(*method, Method::POST | Method::PUT | Method::PATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switches_decide() {
        let off = Policy::default();
        let transfers = Policy { validate: vec![Resource::Transfers], ..Policy::default() };
        let quotes = Policy { sign: vec![Resource::Quotes], ..Policy::default() };
        let lenient = Policy { unsigned_delete: true, ..transfers.clone() };
        let policies = [&off, &transfers, &quotes, &lenient];
        let (nothing, never) = ([SignatureRequirement::Nothing; 4], [false; 4]);
        let good = [
            SignatureRequirement::Nothing,
            SignatureRequirement::Good,
            SignatureRequirement::Nothing,
            SignatureRequirement::Good,
        ];
        let delete = [
            SignatureRequirement::Nothing,
            SignatureRequirement::Good,
            SignatureRequirement::Nothing,
            SignatureRequirement::GoodIfPresent,
        ];
        for (method, resource, demanded, signed) in [
            (Method::GET, Resource::Transfers, nothing, never),
            (Method::DELETE, Resource::Transfers, delete, never),
            (Method::POST, Resource::Transfers, good, never),
            (Method::PUT, Resource::Transfers, good, never),
            (Method::PATCH, Resource::Transfers, good, never),
            (Method::PUT, Resource::Quotes, nothing, [false, false, true, false]),
            (Method::GET, Resource::Quotes, nothing, never),
            (Method::PUT, Resource::Parties, nothing, never),
        ] {
            let found = policies.map(|policy| policy.demands(&method, resource));
            assert_eq!(found, demanded, "{method} {resource:?}");
            let found = policies.map(|policy| policy.signs(&method, resource));
            assert_eq!(found, signed, "{method} {resource:?}");
        }
    }
}
