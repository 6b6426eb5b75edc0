//! Changes of the party directory (hub-semantics 2.2). The kernel orders them and owes the answer
//! to the sender. The directory itself is a read model that applies the accepted changes.

use crate::command::ChangeParties;
use crate::context::{Context, Decide, NoticeContext};
use crate::ids::ParticipantIndex;
use crate::notice::NoticeKind;
use crate::outcome::PartiesOutcome;

impl Decide for ChangeParties {
    type Outcome = PartiesOutcome;

    fn decide(&self, context: &mut Context<'_>) -> PartiesOutcome {
        let Some((recipient, _)) = context.state.registry.find(&self.source) else {
            return PartiesOutcome::RegistrarNotFound;
        };
        let outcome = PartiesOutcome::Accepted;
        if recipient != ParticipantIndex::HUB {
            let about = NoticeContext {
                transfer: None,
                source: context.log_index,
                outcome: outcome.into(),
                at: context.state.stamp,
                trace: self.trace,
            };
            context.enqueue_notice(recipient, NoticeKind::PartiesChanged, about);
        }
        outcome
    }
}
