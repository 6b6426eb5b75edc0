//! `POST .../initialPositionAndLimits` and `PUT .../limits` (hub-semantics 4.3).

use crate::context::Context;
use crate::ids::FspName;
use crate::money::{Amount, Currency};
use crate::outcome::Outcome;
use crate::register::Limit;

/// Warning threshold of a cap that was set without one, in percent.
const ALARM_PERCENTAGE: Amount = Amount::from_units(10 * 10_000);

pub(super) struct Initial {
    pub(super) limit: Amount,
    pub(super) position: Amount,
}

/// Sets cap and position once, and switches the accounts on.
pub(super) fn initial(
    context: &mut Context<'_>,
    name: &FspName,
    currency: Currency,
    initial: Initial,
) -> Outcome {
    let state = &mut *context.state;
    let Some((_, participant)) = state.register.find_mut(name) else {
        return Outcome::ParticipantNotFound;
    };
    let Some(holding) = participant.holding_mut(currency) else {
        return Outcome::AccountNotFound;
    };
    if holding.limit.is_some() {
        return Outcome::LimitsExist;
    }
    holding.limit = Some(Limit { value: initial.limit, alarm_percentage: ALARM_PERCENTAGE });
    let holding = *holding;
    let accounts = participant.accounts.clone();
    for id in accounts {
        if state.books.get(id).is_some_and(|account| account.currency == currency) {
            state.books.set_active(id, true);
        }
    }
    if initial.position != Amount::ZERO {
        let posting = state.books.opening(holding.position, initial.position);
        context.post(posting);
    }
    Outcome::Accepted
}

/// Changes a cap; the next prepare is decided with it.
pub(super) fn change(
    context: &mut Context<'_>,
    name: &FspName,
    currency: Currency,
    limit: Limit,
) -> Outcome {
    let Some((_, participant)) = context.state.register.find_mut(name) else {
        return Outcome::ParticipantNotFound;
    };
    let Some(holding) = participant.holding_mut(currency) else {
        return Outcome::AccountNotFound;
    };
    if holding.limit.is_none() {
        return Outcome::LimitsMissing;
    }
    holding.limit = Some(limit);
    Outcome::Accepted
}
