//! Changes of the party directory (hub-semantics 2.2). The kernel orders them and owes the answer
//! to the sender. The directory itself is a read model that applies the accepted changes.

use crate::change::RegisterParties;
use crate::command::ChangeParties;
use crate::context::{Context, Decide, NoticeContext};
use crate::ids::{FspName, ParticipantIndex};
use crate::notice::NoticeKind;
use crate::outcome::{AdminOutcome, PartiesOutcome};

/// No callback is sent: an operator is answered by the admin API.
impl Decide for RegisterParties {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let registry = &context.state.registry;
        let is_fsp = |name: &FspName| {
            registry.find(name).is_some_and(|(index, _)| index != ParticipantIndex::HUB)
        };
        match self.parties.iter().all(|party| is_fsp(&party.fsp)) {
            true => AdminOutcome::Accepted,
            false => AdminOutcome::ParticipantNotFound,
        }
    }
}

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
