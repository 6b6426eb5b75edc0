//! Where participants are reached: the registered endpoint values, taken apart once per change of
//! the register.

use std::collections::HashMap;
use std::rc::Rc;

use fspiop::endpoint::EndpointType;
use fspiop::reach::Target;
use ledger::ParticipantIndex;
use node::View;

/// Targets by participant and endpoint type, filled as they are asked for.
#[derive(Default)]
pub(crate) struct AddressBook {
    targets: HashMap<(ParticipantIndex, EndpointType), Option<Option<Rc<Target>>>>,
}

impl AddressBook {
    /// The register changed.
    pub(crate) fn clear(&mut self) {
        self.targets.clear();
    }

    /// Where a participant wants calls of this type: `None` if it has not said so, and nowhere
    /// if what it has said cannot be called.
    pub(crate) fn find(
        &mut self,
        view: &View,
        participant: ParticipantIndex,
        endpoint: EndpointType,
    ) -> Option<Option<Rc<Target>>> {
        self.targets
            .entry((participant, endpoint))
            .or_insert_with(|| {
                let endpoints = &view.get(participant)?.endpoints;
                let (_, value) = endpoints.iter().find(|(name, _)| name == endpoint.as_str())?;
                Some(Target::parse(value).ok().map(Rc::new))
            })
            .clone()
    }
}
