//! `POST /participants/Hub/accounts` (hub-semantics 4.1).

use crate::accounts::{AccountKind, NewAccount};
use crate::context::Context;
use crate::ids::ParticipantIndex;
use crate::money::Currency;
use crate::outcome::Outcome;

pub(super) fn create(context: &mut Context<'_>, currency: Currency, kind: AccountKind) -> Outcome {
    let state = &mut *context.state;
    if !kind.is_of_hub() || kind.name().is_none() {
        return Outcome::AccountKindNotForHub;
    }
    if !state.books.has_room_for(4) {
        return Outcome::RegisterFull;
    }
    let hub = state.register.get(ParticipantIndex::HUB);
    let exists = hub
        .accounts
        .iter()
        .filter_map(|id| state.books.get(*id))
        .any(|account| account.kind == kind && account.currency == currency);
    if exists {
        return Outcome::AccountExists;
    }
    let owner = ParticipantIndex::HUB;
    let new = NewAccount { owner, kind, currency, active: true };
    let id = state.books.open(new, state.stamp);
    state.register.get_mut(ParticipantIndex::HUB).accounts.push(id);
    Outcome::Accepted
}
