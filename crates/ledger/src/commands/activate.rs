//! New rules decide from here on. Rules only go forward, and only to what this program knows.

use crate::context::Context;
use crate::outcome::Outcome;
use crate::rules::rules_known;

pub(super) fn activate(context: &mut Context<'_>, rules_version: u32) -> Outcome {
    if !(context.state.rules_version..=rules_known()).contains(&rules_version) {
        return Outcome::RulesVersionRefused;
    }
    context.state.rules_version = rules_version;
    Outcome::Accepted
}
