//! `PUT /participants/{name}` and `PUT /participants/{name}/accounts/{id}`.

use crate::accounts::AccountKind;
use crate::context::Context;
use crate::ids::{AccountId, FspName};
use crate::outcome::Outcome;

pub(super) fn participant(context: &mut Context<'_>, name: &FspName, active: bool) -> Outcome {
    match context.state.register.find_mut(name) {
        None => Outcome::ParticipantNotFound,
        Some((_, participant)) => {
            participant.active = active;
            Outcome::Accepted
        }
    }
}

pub(super) fn account(
    context: &mut Context<'_>,
    name: &FspName,
    id: AccountId,
    active: bool,
) -> Outcome {
    let state = &mut *context.state;
    let Some((_, participant)) = state.register.find(name) else {
        return Outcome::ParticipantNotFound;
    };
    if !participant.accounts.contains(&id) {
        return Outcome::AccountNotFound;
    }
    if state.books.get(id).is_none_or(|account| account.kind != AccountKind::Position) {
        return Outcome::AccountKindWrong;
    }
    state.books.set_active(id, active);
    Outcome::Accepted
}
