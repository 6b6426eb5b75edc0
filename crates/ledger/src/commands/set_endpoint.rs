//! `POST /participants/{name}/endpoints`: takes effect with the next message.

use crate::change::SetEndpoint;
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;

impl Decide for SetEndpoint {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let Some((_, participant)) = context.state.registry.find_mut(&self.name) else {
            return AdminOutcome::ParticipantNotFound;
        };
        match participant.set_endpoint(&self.endpoint, &self.value) {
            true => AdminOutcome::Accepted,
            false => AdminOutcome::RegistryFull,
        }
    }
}
