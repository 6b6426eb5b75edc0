//! Which messages must carry a signature, and which the hub signs.

use fspiop::Resource;
use http::Method;

/// What the operator has switched on. Everything is off by default, as in the reference
/// (`JWS_VALIDATE`, `JWS_SIGN` and their variants for PUT /parties, hub-semantics 1.7).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Whether signatures of inbound messages are verified at all.
    pub validate: bool,
    /// Whether that includes PUT /parties and its error form, whose senders often do not sign.
    pub validate_put_parties: bool,
    /// Whether messages the hub makes itself are signed.
    pub sign: bool,
    /// Whether that includes PUT /parties and its error form.
    pub sign_put_parties: bool,
    /// Resources that are neither verified nor signed.
    pub exempt: Vec<Resource>,
}

impl Policy {
    /// Whether an inbound message is refused unless its signature verifies.
    ///
    /// Never for a method without a body: signers of the scheme cannot sign such a message.
    #[must_use]
    pub fn requires(&self, method: &Method, resource: Resource) -> bool {
        self.validate && self.covers(method, resource, self.validate_put_parties)
    }

    /// Whether the hub signs a message of its own.
    #[must_use]
    pub fn signs(&self, method: &Method, resource: Resource) -> bool {
        self.sign && self.covers(method, resource, self.sign_put_parties)
    }

    fn covers(&self, method: &Method, resource: Resource, put_parties: bool) -> bool {
        let has_body = matches!(*method, Method::POST | Method::PUT | Method::PATCH);
        let switched_off = *method == Method::PUT && resource == Resource::Parties && !put_parties;
        has_body && !switched_off && !self.exempt.contains(&resource)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_switches_decide() {
        let off = Policy::default();
        let on = Policy { validate: true, sign: true, ..Policy::default() };
        let parties = Policy { validate_put_parties: true, sign_put_parties: true, ..on.clone() };
        let exempt = Policy { exempt: vec![Resource::Quotes], ..parties.clone() };
        for (method, resource, expected) in [
            (Method::GET, Resource::Transfers, [false, false, false, false]),
            (Method::DELETE, Resource::Participants, [false, false, false, false]),
            (Method::POST, Resource::Transfers, [false, true, true, true]),
            (Method::PUT, Resource::Transfers, [false, true, true, true]),
            (Method::PATCH, Resource::Transfers, [false, true, true, true]),
            (Method::POST, Resource::Quotes, [false, true, true, false]),
            (Method::PUT, Resource::Quotes, [false, true, true, false]),
            (Method::POST, Resource::Participants, [false, true, true, true]),
            (Method::PUT, Resource::Parties, [false, false, true, true]),
        ] {
            let policies = [&off, &on, &parties, &exempt];
            let required = policies.map(|policy| policy.requires(&method, resource));
            let signed = policies.map(|policy| policy.signs(&method, resource));
            assert_eq!((required, signed), (expected, expected), "{method} {resource:?}");
        }
    }

    #[test]
    fn verifying_and_signing_are_switched_apart() {
        let verifying = Policy { validate: true, ..Policy::default() };
        let signing = Policy { sign: true, ..Policy::default() };
        let put = |policy: &Policy| {
            let (method, resource) = (&Method::PUT, Resource::Transfers);
            (policy.requires(method, resource), policy.signs(method, resource))
        };
        assert_eq!((put(&verifying), put(&signing)), ((true, false), (false, true)));
    }
}
