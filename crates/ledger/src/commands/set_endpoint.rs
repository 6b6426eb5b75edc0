//! `POST /participants/{name}/endpoints`: in force with the next message.

use crate::context::Context;
use crate::ids::FspName;
use crate::outcome::Outcome;

pub(super) fn set(
    context: &mut Context<'_>,
    name: &FspName,
    endpoint: &str,
    value: &str,
) -> Outcome {
    let Some((_, participant)) = context.state.register.find_mut(name) else {
        return Outcome::ParticipantNotFound;
    };
    match participant.set_endpoint(endpoint, value) {
        true => Outcome::Accepted,
        false => Outcome::RegisterFull,
    }
}
