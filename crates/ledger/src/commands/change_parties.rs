//! Changes of the party directory (hub-semantics 2.2). The kernel orders them and owes the
//! answer; the directory itself is a read model that applies those that were accepted.

use crate::command::ChangeParties;
use crate::context::{Context, Subject};
use crate::ids::{ParticipantIndex, TransferId};
use crate::notice::NoticeKind;
use crate::outcome::Outcome;

pub(super) fn change(context: &mut Context<'_>, change: &ChangeParties) -> Outcome {
    let register = &context.state.register;
    let known = register.find(&change.source).is_some();
    let recipient = register.find(&change.notify).map(|(index, _)| index);
    let recipient = recipient.filter(|index| *index != ParticipantIndex::HUB);
    let (outcome, kind) = match known {
        true => (Outcome::Accepted, NoticeKind::PartiesChanged),
        false => (Outcome::RegistrarNotFound, NoticeKind::PartiesRefused),
    };
    if let Some(recipient) = recipient {
        let about = Subject {
            transfer: TransferId::NONE,
            source: context.position,
            outcome,
            at: context.state.stamp,
            trace: change.trace,
        };
        context.owe(recipient, kind, about);
    }
    outcome
}
