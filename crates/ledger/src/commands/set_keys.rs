//! `/participants/{name}/keys`: the public keys that verify a participant's messages. Changes take
//! effect with the next message. The kernel stores the keys but verifies no signatures.

use crate::change::{AddKey, RemoveKey};
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;
use crate::registry::{KEYS_MAX, PublicKey};

/// A key that the participant already has is not changed.
impl Decide for AddKey {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let added = context.state.stamp;
        let Some((_, participant)) = context.state.registry.find_mut(&self.name) else {
            return AdminOutcome::ParticipantNotFound;
        };
        if participant.keys.iter().any(|key| key.id == self.id) {
            return AdminOutcome::Accepted;
        }
        if participant.keys.len() == KEYS_MAX {
            return AdminOutcome::KeysFull;
        }
        participant.keys.push(PublicKey { id: self.id, der: self.key.as_slice().into(), added });
        AdminOutcome::Accepted
    }
}

impl Decide for RemoveKey {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let Some((_, participant)) = context.state.registry.find_mut(&self.name) else {
            return AdminOutcome::ParticipantNotFound;
        };
        let Some(at) = participant.keys.iter().position(|key| key.id == self.id) else {
            return AdminOutcome::KeyNotFound;
        };
        participant.keys.remove(at);
        AdminOutcome::Accepted
    }
}
