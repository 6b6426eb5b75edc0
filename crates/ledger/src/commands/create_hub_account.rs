//! `POST /participants/Hub/accounts` (hub-semantics 4.1).

use super::settle;
use crate::accounts::NewAccount;
use crate::change::CreateHubAccount;
use crate::context::{Context, Decide};
use crate::ids::ParticipantIndex;
use crate::outcome::AdminOutcome;

impl Decide for CreateHubAccount {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let (currency, kind) = (self.currency, self.kind);
        let state = &mut *context.state;
        if !kind.is_of_hub() || kind.name().is_none() {
            return AdminOutcome::AccountKindNotForHub;
        }
        if !state.accounts.has_room_for(4) {
            return AdminOutcome::RegistryFull;
        }
        let hub = state.registry.get(ParticipantIndex::HUB);
        let exists = hub
            .accounts
            .iter()
            .filter_map(|id| state.accounts.get(*id))
            .any(|account| account.kind == kind && account.currency == currency);
        if exists {
            return AdminOutcome::AccountExists;
        }
        let owner = ParticipantIndex::HUB;
        let new = NewAccount { owner, kind, currency, active: true };
        let id = state.accounts.open(new, state.stamp);
        state.registry.get_mut(ParticipantIndex::HUB).accounts.push(id);
        settle::choose_modes(state);
        AdminOutcome::Accepted
    }
}
