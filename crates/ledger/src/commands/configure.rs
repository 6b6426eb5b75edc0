//! Settings that decide about money or notices.

use crate::change::Configure;
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;

impl Decide for Configure {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        context.state.settings = self.settings;
        AdminOutcome::Accepted
    }
}
