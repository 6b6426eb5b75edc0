//! Activates a newer version of the rules, if this program supports it.

use super::{fees, settle};
use crate::change::Activate;
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;
use crate::rules::{FEES, rules_known};

impl Decide for Activate {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        if !(context.state.rules_version..=rules_known()).contains(&self.rules_version) {
            return AdminOutcome::RulesVersionRefused;
        }
        let before = core::mem::replace(&mut context.state.rules_version, self.rules_version);
        if (before..self.rules_version).contains(&(FEES - 1)) {
            fees::begin(context.state);
        }
        settle::begin(context.state, context.log_index);
        AdminOutcome::Accepted
    }
}
