//! `/oracles`: the registry of oracles (hub-semantics 6.1). A record for operators: no decision
//! about a transfer looks at it.

use crate::command::{Oracle, OracleUpdate};
use crate::context::Context;
use crate::ids::OracleId;
use crate::outcome::Outcome;
use crate::register::{ORACLES_MAX, Register};

/// One oracle per type and currency; without a currency it is one more of its type.
pub(super) fn create(context: &mut Context<'_>, oracle: &Oracle) -> Outcome {
    let register = &mut context.state.register;
    if is_taken(register, oracle, OracleId(0)) {
        return Outcome::OracleExists;
    }
    if register.oracles().len() == ORACLES_MAX {
        return Outcome::RegisterFull;
    }
    register.add_oracle(oracle.clone());
    Outcome::Accepted
}

pub(super) fn update(context: &mut Context<'_>, id: OracleId, update: &OracleUpdate) -> Outcome {
    let register = &mut context.state.register;
    let Some(known) = register.oracle_mut(id).cloned() else { return Outcome::OracleNotFound };
    let changed = Oracle {
        id_type: update.id_type.clone().unwrap_or(known.id_type),
        endpoint: update.endpoint.clone().unwrap_or(known.endpoint),
        currency: update.currency.or(known.currency),
        default: update.default.unwrap_or(known.default),
    };
    if is_taken(register, &changed, id) {
        return Outcome::OracleExists;
    }
    *register.oracle_mut(id).expect("it was found just now") = changed;
    Outcome::Accepted
}

/// Afterwards there is no oracle of this number, whether or not there was one before.
pub(super) fn delete(context: &mut Context<'_>, id: OracleId) -> Outcome {
    context.state.register.remove_oracle(id);
    Outcome::Accepted
}

/// Whether another oracle than `except` has this type and currency.
fn is_taken(register: &Register, oracle: &Oracle, except: OracleId) -> bool {
    register.oracles().iter().any(|(id, known)| {
        *id != except && known.id_type == oracle.id_type && known.currency == oracle.currency
    })
}
