//! Which messages must carry a signature, and which the hub signs.

use fspiop::Resource;
use http::Method;

/// What the operator has switched on, by resource. Nothing is by default, as in the reference
/// (`JWS_VALIDATE`, `JWS_SIGN`, hub-semantics 1.7). Its two switches for PUT /parties are
/// [`Resource::Parties`] here: that resource has no other message with a body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Resources whose inbound messages are refused unless their signature verifies.
    pub validate: Vec<Resource>,
    /// Resources whose messages the hub signs when it makes them itself.
    pub sign: Vec<Resource>,
}

impl Policy {
    /// Whether an inbound message is refused unless its signature verifies.
    ///
    /// Never for a method without a body: signers of the scheme cannot sign such a message.
    #[must_use]
    pub fn requires(&self, method: &Method, resource: Resource) -> bool {
        self.validate.contains(&resource) && has_body(method)
    }

    /// Whether the hub signs a message of its own.
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
        let policies = [&off, &transfers, &quotes];
        for (method, resource, required, signed) in [
            (Method::GET, Resource::Transfers, [false; 3], [false; 3]),
            (Method::DELETE, Resource::Transfers, [false; 3], [false; 3]),
            (Method::POST, Resource::Transfers, [false, true, false], [false; 3]),
            (Method::PUT, Resource::Transfers, [false, true, false], [false; 3]),
            (Method::PATCH, Resource::Transfers, [false, true, false], [false; 3]),
            (Method::PUT, Resource::Quotes, [false; 3], [false, false, true]),
            (Method::GET, Resource::Quotes, [false; 3], [false; 3]),
            (Method::PUT, Resource::Parties, [false; 3], [false; 3]),
        ] {
            let found = policies.map(|policy| policy.requires(&method, resource));
            assert_eq!(found, required, "{method} {resource:?}");
            let found = policies.map(|policy| policy.signs(&method, resource));
            assert_eq!(found, signed, "{method} {resource:?}");
        }
    }
}
