//! A request to the admin API that made no change. Its record is its only effect.

use crate::change::RecordAudit;
use crate::context::{Context, Decide};
use crate::outcome::AdminOutcome;

impl Decide for RecordAudit {
    type Outcome = AdminOutcome;

    fn decide(&self, _context: &mut Context<'_>) -> AdminOutcome {
        AdminOutcome::Accepted
    }
}
