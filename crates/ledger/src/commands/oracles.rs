//! `/oracles`: the registry of oracles (hub-semantics 6.1). A record for the edge, not used in
//! decisions about transfers.

use crate::change::{CreateOracle, DeleteOracle, Oracle, UpdateOracle};
use crate::context::{Context, Decide};
use crate::ids::OracleId;
use crate::outcome::AdminOutcome;
use crate::registry::{ORACLES_MAX, Registry};

/// One oracle per type and currency. An oracle without a currency is another one of its type.
impl Decide for CreateOracle {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let oracle = &self.oracle;
        let registry = &mut context.state.registry;
        if is_taken(registry, oracle, OracleId(0)) {
            return AdminOutcome::OracleExists;
        }
        if registry.oracles().len() == ORACLES_MAX {
            return AdminOutcome::RegistryFull;
        }
        registry.add_oracle(oracle.clone());
        AdminOutcome::Accepted
    }
}

impl Decide for UpdateOracle {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let (id, update) = (self.id, &self.update);
        let registry = &mut context.state.registry;
        let Some(known) = registry.oracle_mut(id).cloned() else {
            return AdminOutcome::OracleNotFound;
        };
        let changed = Oracle {
            id_type: update.id_type.clone().unwrap_or(known.id_type),
            endpoint: update.endpoint.clone().unwrap_or(known.endpoint),
            currency: update.currency.or(known.currency),
            default: update.default.unwrap_or(known.default),
        };
        if is_taken(registry, &changed, id) {
            return AdminOutcome::OracleExists;
        }
        *registry.oracle_mut(id).expect("it was found just now") = changed;
        AdminOutcome::Accepted
    }
}

/// Succeeds whether or not the oracle existed.
impl Decide for DeleteOracle {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        context.state.registry.remove_oracle(self.id);
        AdminOutcome::Accepted
    }
}

/// Whether another oracle than `except` has this type and currency.
fn is_taken(registry: &Registry, oracle: &Oracle, except: OracleId) -> bool {
    registry.oracles().iter().any(|(id, known)| {
        *id != except && known.id_type == oracle.id_type && known.currency == oracle.currency
    })
}
