//! Changes of the party directory (hub-semantics 2.2). The kernel orders them and owes the answer
//! to the sender; the directory itself is a read model that applies those that were accepted.

use crate::command::ChangeParties;
use crate::context::{Context, Decide, Subject};
use crate::ids::ParticipantIndex;
use crate::notice::NoticeKind;
use crate::outcome::PartiesOutcome;

impl Decide for ChangeParties {
    type Outcome = PartiesOutcome;

    fn decide(&self, context: &mut Context<'_>) -> PartiesOutcome {
        let Some((recipient, _)) = context.state.register.find(&self.source) else {
            return PartiesOutcome::RegistrarNotFound;
        };
        let outcome = PartiesOutcome::Accepted;
        if recipient != ParticipantIndex::HUB {
            let about = Subject {
                transfer: None,
                source: context.position,
                outcome: outcome.into(),
                at: context.state.stamp,
                trace: self.trace,
            };
            context.owe(recipient, NoticeKind::PartiesChanged, about);
        }
        outcome
    }
}
