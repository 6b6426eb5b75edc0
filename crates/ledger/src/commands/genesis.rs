//! The first record: the hub becomes a participant, and the maps get their key.

use super::settle;
use crate::command::Genesis;
use crate::context::Context;
use crate::hashing::KeyedHashing;
use crate::ids::ParticipantIndex;
use crate::notice::Outbox;
use crate::outcome::Outcome;
use crate::quotes::Quotes;
use crate::registry::Registry;
use crate::transaction_requests::TransactionRequests;
use crate::transfers::Transfers;

pub(super) fn begin(context: &mut Context<'_>, genesis: &Genesis) -> Outcome {
    let keyed = KeyedHashing::new(genesis.seed);
    let state = &mut *context.state;
    state.hub = genesis.hub;
    state.registry = Registry::new(keyed);
    state.transfers = Transfers::new(keyed);
    state.quotes = Quotes::new(keyed);
    state.requests = TransactionRequests::new(keyed);
    state.outbox = Outbox::new();
    let hub = state.registry.add(genesis.hub, state.stamp);
    assert_eq!(hub, ParticipantIndex::HUB, "the hub is the first participant");
    settle::begin(state, context.log_index);
    context.effects.registry_changed = true;
    Outcome::Accepted
}
