//! Changes of the party directory (hub-semantics 2.2). The kernel orders them and owes the answer
//! to the sender; the directory itself is a read model that applies those that were accepted.

use crate::command::ChangeParties;
use crate::context::{Context, Subject};
use crate::ids::ParticipantIndex;
use crate::notice::NoticeKind;
use crate::outcome::Outcome;

pub(super) fn change(context: &mut Context<'_>, change: &ChangeParties) -> Outcome {
    let Some((recipient, _)) = context.state.register.find(&change.source) else {
        return Outcome::RegistrarNotFound;
    };
    let outcome = Outcome::Accepted;
    if recipient != ParticipantIndex::HUB {
        let about = Subject {
            transfer: None,
            source: context.position,
            outcome,
            at: context.state.stamp,
            trace: change.trace,
        };
        context.owe(recipient, NoticeKind::PartiesChanged, about);
    }
    outcome
}
