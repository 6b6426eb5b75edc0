//! Settings that decide about money or notices.

use crate::command::Settings;
use crate::context::Context;
use crate::outcome::Outcome;

pub(super) fn configure(context: &mut Context<'_>, settings: Settings) -> Outcome {
    context.state.settings = settings;
    Outcome::Accepted
}
