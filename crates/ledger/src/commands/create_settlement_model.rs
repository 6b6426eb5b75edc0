//! `POST /settlementModels`, `PUT /settlementModels/{name}` (hub-semantics 4.5).

use super::{fees, settle};
use crate::change::{CreateSettlementModel, SetSettlementModelActive};
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;
use crate::registry::SETTLEMENT_MODELS_MAX;

/// Refuses account kinds that only the hub can have, because every participant gets the accounts.
impl Decide for CreateSettlementModel {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let model = &self.model;
        let missing = fees::missing_accounts(context.state, model);
        let registry = &mut context.state.registry;
        if registry.model_mut(&model.name).is_some() {
            return AdminOutcome::SettlementModelExists;
        }
        if model.ledger_account.is_of_hub() || model.settlement_account.is_of_hub() {
            return AdminOutcome::AccountKindWrong;
        }
        let is_full = registry.models().len() == SETTLEMENT_MODELS_MAX;
        if is_full || !context.state.accounts.has_room_for(missing.len()) {
            return AdminOutcome::RegistryFull;
        }
        registry.add_model(model.clone());
        fees::open_accounts(context.state, missing);
        settle::choose_modes(context.state);
        AdminOutcome::Accepted
    }
}

impl Decide for SetSettlementModelActive {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        match context.state.registry.model_mut(&self.name) {
            None => AdminOutcome::SettlementModelNotFound,
            Some(model) => {
                model.active = self.active;
                settle::choose_modes(context.state);
                AdminOutcome::Accepted
            }
        }
    }
}
