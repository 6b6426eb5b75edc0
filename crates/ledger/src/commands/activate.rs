//! New rules decide from here on. Rules only go forward, and only to what this binary knows.

use crate::context::Context;
use crate::outcome::Outcome;
use crate::state::RULES_VERSION;

pub(super) fn activate(context: &mut Context<'_>, rules_version: u32) -> Outcome {
    if !(context.state.rules_version..=RULES_VERSION).contains(&rules_version) {
        return Outcome::RulesVersionRefused;
    }
    context.state.rules_version = rules_version;
    Outcome::Accepted
}
