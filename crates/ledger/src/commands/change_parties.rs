//! Changes of the party directory (hub-semantics 2.2). The kernel orders them and owes the answer
//! to the sender, and a message to each FSP that loses an entry. The directory itself is a read
//! model that applies the accepted changes.

use crate::change::{AssignParties, RegisterParties};
use crate::command::{ChangeParties, TraceId};
use crate::context::{Context, Decide, NoticeContext};
use crate::ids::{FspName, ParticipantIndex};
use crate::notice::NoticeKind;
use crate::outcome::{AdminOutcome, PartiesOutcome};
use crate::parties::{PartyBinding, distinct_fsps};

/// No callback is sent: an operator is answered by the admin API.
impl Decide for RegisterParties {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        match are_served(&self.parties, context) {
            true => AdminOutcome::Accepted,
            false => AdminOutcome::ParticipantNotFound,
        }
    }
}

impl Decide for AssignParties {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        if !are_served(&self.parties, context) {
            return AdminOutcome::ParticipantNotFound;
        }
        // An operator's request has no trace; the number of its record identifies it.
        let trace = u128::from(context.log_index.0).to_be_bytes();
        for fsp in distinct_fsps(&self.former) {
            enqueue_notice(context, &fsp, trace);
        }
        AdminOutcome::Accepted
    }
}

impl Decide for ChangeParties {
    type Outcome = PartiesOutcome;

    fn decide(&self, context: &mut Context<'_>) -> PartiesOutcome {
        if context.state.registry.find(&self.source).is_none() {
            return PartiesOutcome::RegistrarNotFound;
        }
        enqueue_notice(context, &self.source, self.trace);
        for fsp in distinct_fsps(self.view().former) {
            if fsp != self.source {
                enqueue_notice(context, &fsp, self.trace);
            }
        }
        PartiesOutcome::Accepted
    }
}

/// Whether the FSP of each entry is a participant.
fn are_served(parties: &[PartyBinding], context: &Context<'_>) -> bool {
    let registry = &context.state.registry;
    parties.iter().all(|party| {
        registry.find(&party.fsp).is_some_and(|(index, _)| index != ParticipantIndex::HUB)
    })
}

/// Owes a participant the message about the change. The hub and unknown names get none.
fn enqueue_notice(context: &mut Context<'_>, recipient: &FspName, trace: TraceId) {
    let Some((recipient, _)) = context.state.registry.find(recipient) else { return };
    if recipient == ParticipantIndex::HUB {
        return;
    }
    let about = NoticeContext {
        transfer: None,
        source: context.log_index,
        outcome: PartiesOutcome::Accepted.into(),
        at: context.state.stamp,
        trace,
    };
    context.enqueue_notice(recipient, NoticeKind::PartiesChanged, about);
}
