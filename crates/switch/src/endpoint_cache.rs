//! Endpoints of participants: the registered values, parsed once per change of
//! the registry.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use fspiop::egress_policy::CallTarget;
use fspiop::endpoint::EndpointType;
use ledger::ParticipantIndex;
use node::ParticipantsView;

/// Targets by participant and endpoint type, filled on first use.
#[derive(Default)]
pub(crate) struct EndpointCache {
    targets: HashMap<(ParticipantIndex, EndpointType), Option<Option<Rc<CallTarget>>>>,
}

impl EndpointCache {
    /// The register changed.
    pub(crate) fn clear(&mut self) {
        self.targets.clear();
    }

    /// A participant's endpoint of this type: `None` if none is registered, and an unusable target
    /// if the registered value cannot be called. Without an endpoint for errors of look-ups and
    /// registrations, the endpoint of the result is used, with `/error` appended to the path.
    pub(crate) fn find(
        &mut self,
        view: &ParticipantsView,
        participant: ParticipantIndex,
        endpoint: EndpointType,
    ) -> Option<Option<Rc<CallTarget>>> {
        self.targets
            .entry((participant, endpoint))
            .or_insert_with(|| {
                let endpoints = &view.get(participant)?.endpoints;
                let value = |endpoint: EndpointType| {
                    let named = endpoints.iter().find(|(name, _)| name == endpoint.as_str());
                    named.map(|(_, value)| value.as_str())
                };
                let value = value(endpoint).map(Cow::Borrowed).or_else(|| {
                    let answer = value(endpoint.of_answer()?)?;
                    Some(Cow::Owned(with_error(answer)))
                })?;
                Some(CallTarget::parse(&value).ok().map(Rc::new))
            })
            .clone()
    }
}

fn with_error(value: &str) -> String {
    match value.split_once('?') {
        None => format!("{value}/error"),
        Some((path, query)) => format!("{path}/error?{query}"),
    }
}
