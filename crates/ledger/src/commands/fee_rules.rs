//! `POST /interchangeFeeRules`, `PUT /interchangeFeeRules/{id}`.

use crate::accounts::AccountKind;
use crate::change::{CreateFeeRule, SetFeeRuleActive, SettlementModel};
use crate::context::{Context, Decide};
use crate::fees::{FEE_RULES_MAX, FeeRule};
use crate::outcome::AdminOutcome;
use crate::registry::Registry;
use crate::rules::FEES;

impl Decide for CreateFeeRule {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let state = &mut *context.state;
        let rules = &mut state.fees.rules;
        if rules.iter().any(|rule| rule.name == self.rule.name) {
            return AdminOutcome::FeeRuleExists;
        }
        // Earlier rules know no fees.
        if state.rules_version < FEES || !is_settled(&state.registry, &self.rule) {
            return AdminOutcome::SettlementModelMissing;
        }
        if rules.len() == FEE_RULES_MAX {
            return AdminOutcome::RegistryFull;
        }
        rules.push((*self.rule).clone());
        AdminOutcome::Accepted
    }
}

/// Whether an active model settles the fees of the rule, net and deferred. Fees are never settled
/// with each transfer.
fn is_settled(registry: &Registry, rule: &FeeRule) -> bool {
    let settles = |model: &SettlementModel| {
        let kind = AccountKind::InterchangeFee;
        let serves = rule.currency.is_none_or(|only| registry.is_served(model, (kind, only)));
        model.active && model.net && model.deferred && model.ledger_account == kind && serves
    };
    registry.models().iter().any(settles)
}

impl Decide for SetFeeRuleActive {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        match context.state.fees.rule_mut(self.rule) {
            None => AdminOutcome::FeeRuleNotFound,
            Some(rule) => {
                rule.active = self.active;
                AdminOutcome::Accepted
            }
        }
    }
}
