//! `POST /participants`: a new participant, or a further currency for a known one
//! (hub-semantics 4.3).
//!
//! Parties of a transfer are compared without regard to case (3.3, 3.6). Two names that differ only
//! in case cannot both join, because one could answer for the other.

use alloc::vec::Vec;

use crate::accounts::{AccountKind, NewAccount};
use crate::change::{CreateParticipant, SettlementModel};
use crate::context::{Context, Decide};
use crate::ids::{AccountId, ParticipantIndex};
use crate::money::Currency;
use crate::outcome::AdminOutcome;
use crate::registry::{CurrencyAccounts, PARTICIPANTS_MAX};
use crate::rules::FEES;
use crate::state::State;

impl Decide for CreateParticipant {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let (name, currency) = (&self.name, self.currency);
        let state = &mut *context.state;
        let known = state.registry.find(name).map(|(index, participant)| {
            (index, participant.accounts_in(currency).is_some() || index == ParticipantIndex::HUB)
        });
        let differs_by_case = known.is_none() && state.registry.has_alike(name);
        if differs_by_case || matches!(known, Some((_, true))) {
            return AdminOutcome::ParticipantCurrencyExists;
        }
        if !hub_is_ready(state, currency) {
            return AdminOutcome::HubAccountsMissing;
        }
        let models = match state.rules_version {
            ..FEES => state.registry.models_for(currency),
            FEES.. => state.registry.models_serving(currency),
        };
        if !models.iter().any(serves_transfers) {
            return AdminOutcome::SettlementModelMissing;
        }
        let registry_full = known.is_none() && state.registry.len() == PARTICIPANTS_MAX;
        if registry_full || !state.accounts.has_room_for(2 * models.len()) {
            return AdminOutcome::RegistryFull;
        }
        let owner = match known {
            Some((index, _)) => index,
            None => state.registry.add(*name, state.stamp),
        };
        open_accounts(state, owner, currency, &models);
        AdminOutcome::Accepted
    }
}

fn serves_transfers(model: &SettlementModel) -> bool {
    model.ledger_account == AccountKind::Position
        && model.settlement_account == AccountKind::Settlement
}

fn hub_is_ready(state: &State, currency: Currency) -> bool {
    let hub = state.registry.get(ParticipantIndex::HUB);
    let has = |kind| {
        let accounts = hub.accounts.iter().filter_map(|id| state.accounts.get(*id));
        accounts.into_iter().any(|account| account.kind == kind && account.currency == currency)
    };
    has(AccountKind::HubReconciliation) && has(AccountKind::HubMultilateralSettlement)
}

/// Opens each account kind of the models once, inactive until limits are set.
fn open_accounts(
    state: &mut State,
    owner: ParticipantIndex,
    currency: Currency,
    models: &[SettlementModel],
) {
    let mut opened: Vec<(AccountKind, AccountId)> = Vec::new();
    for kind in models.iter().flat_map(|model| [model.ledger_account, model.settlement_account]) {
        if opened.iter().all(|(known, _)| *known != kind) {
            let new = NewAccount { owner, kind, currency, active: false };
            opened.push((kind, state.accounts.open(new, state.stamp)));
        }
    }
    let of = |kind| {
        let account = opened.iter().find(|(known, _)| *known == kind);
        account.expect("a model that serves transfers has both kinds").1
    };
    let accounts = CurrencyAccounts {
        currency,
        position: of(AccountKind::Position),
        settlement: of(AccountKind::Settlement),
        net_debit_cap: None,
    };
    let participant = state.registry.get_mut(owner);
    participant.by_currency.push(accounts);
    participant.accounts.extend(opened.iter().map(|(_, id)| *id));
}
