//! `POST /settlementModels`, `PUT /settlementModels/{name}` (hub-semantics 4.5).

use crate::command::SettlementModel;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::register::SETTLEMENT_MODELS_MAX;

/// A model names accounts that every participant gets, so none that only the hub can have.
pub(super) fn create(context: &mut Context<'_>, model: &SettlementModel) -> Outcome {
    let register = &mut context.state.register;
    if register.model_mut(&model.name).is_some() {
        return Outcome::SettlementModelExists;
    }
    if model.ledger_account.is_of_hub() || model.settlement_account.is_of_hub() {
        return Outcome::AccountKindWrong;
    }
    if register.models().len() == SETTLEMENT_MODELS_MAX {
        return Outcome::RegisterFull;
    }
    register.add_model(model.clone());
    Outcome::Accepted
}

pub(super) fn set_active(context: &mut Context<'_>, name: &str, active: bool) -> Outcome {
    match context.state.register.model_mut(name) {
        None => Outcome::SettlementModelNotFound,
        Some(model) => {
            model.active = active;
            Outcome::Accepted
        }
    }
}
