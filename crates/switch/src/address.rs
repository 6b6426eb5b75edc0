//! Where participants are reached: the registered endpoint values, taken apart once per change of
//! the register.

use std::collections::HashMap;
use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use ledger::ParticipantIndex;
use node::View;

/// An endpoint value taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// `host:port`.
    pub(crate) authority: String,
    /// What follows: a template, or the base of a path.
    pub(crate) path: String,
}

impl Target {
    /// Takes `http://host[:port][/path]` apart. Other schemes are not called.
    pub(crate) fn parse(value: &str) -> Option<Self> {
        let rest = value.trim().strip_prefix("http://")?;
        let (authority, path) = rest.find('/').map_or((rest, ""), |at| rest.split_at(at));
        let usable = !authority.is_empty()
            && authority.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._:[]".contains(&b));
        let port = |text: &str| text.parse::<u16>().is_ok();
        let authority = match authority.rsplit_once(':') {
            Some((_, after)) if port(after) => authority.to_owned(),
            Some((_, after)) if !after.ends_with(']') => return None,
            _ => format!("{authority}:80"),
        };
        usable.then(|| Self { authority, path: path.to_owned() })
    }
}

/// Targets by participant and endpoint type, filled as they are asked for.
#[derive(Default)]
pub(crate) struct AddressBook {
    targets: HashMap<(ParticipantIndex, EndpointType), Option<Rc<Target>>>,
}

impl AddressBook {
    /// The register changed.
    pub(crate) fn clear(&mut self) {
        self.targets.clear();
    }

    /// Where a participant wants calls of this type, if it has said so in a usable way.
    pub(crate) fn find(
        &mut self,
        view: &View,
        participant: ParticipantIndex,
        endpoint: EndpointType,
    ) -> Option<Rc<Target>> {
        self.targets
            .entry((participant, endpoint))
            .or_insert_with(|| {
                let endpoints = &view.get(participant)?.endpoints;
                let (_, value) = endpoints.iter().find(|(name, _)| name == endpoint.as_str())?;
                Target::parse(value).map(Rc::new)
            })
            .clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_apart_or_refused() {
        for (value, expected) in [
            (
                "http://a.example:3000/x/{{transferId}}",
                Some(("a.example:3000", "/x/{{transferId}}")),
            ),
            ("http://a.example", Some(("a.example:80", ""))),
            ("http://127.0.0.1:9/", Some(("127.0.0.1:9", "/"))),
            ("http://[::1]:9/p", Some(("[::1]:9", "/p"))),
            ("https://a.example/", None),
            ("http://", None),
            ("http://a:b/", None),
            ("http://user@host/", None),
            ("http://{{host}}/", None),
        ] {
            let target = Target::parse(value);
            let found = target.as_ref().map(|t| (t.authority.as_str(), t.path.as_str()));
            assert_eq!(found, expected, "{value}");
        }
    }
}
