//! `POST /settlementModels`, `PUT /settlementModels/{name}` (hub-semantics 4.5).

use crate::command::SettlementModel;
use crate::context::Context;
use crate::outcome::Outcome;
use crate::register::SETTLEMENT_MODELS_MAX;

pub(super) fn create(context: &mut Context<'_>, model: &SettlementModel) -> Outcome {
    let register = &mut context.state.register;
    if register.model_mut(&model.name).is_some() {
        return Outcome::SettlementModelExists;
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
