//! `/participants/{name}/keys`: the public keys by which a participant's messages are verified, in
//! force with the next message. The kernel keeps them, and does not know what a signature is.

use crate::context::Context;
use crate::ids::{Digest, FspName};
use crate::outcome::Outcome;
use crate::register::{KEYS_MAX, Key};

/// A key that the participant has already stays as it is.
pub(super) fn add(context: &mut Context<'_>, name: &FspName, id: Digest, der: &[u8]) -> Outcome {
    let added = context.state.stamp;
    let Some((_, participant)) = context.state.register.find_mut(name) else {
        return Outcome::ParticipantNotFound;
    };
    if participant.keys.iter().any(|key| key.id == id) {
        return Outcome::Accepted;
    }
    if participant.keys.len() == KEYS_MAX {
        return Outcome::KeysFull;
    }
    participant.keys.push(Key { id, der: der.into(), added });
    Outcome::Accepted
}

pub(super) fn remove(context: &mut Context<'_>, name: &FspName, id: Digest) -> Outcome {
    let Some((_, participant)) = context.state.register.find_mut(name) else {
        return Outcome::ParticipantNotFound;
    };
    let Some(at) = participant.keys.iter().position(|key| key.id == id) else {
        return Outcome::KeyNotFound;
    };
    participant.keys.remove(at);
    Outcome::Accepted
}
