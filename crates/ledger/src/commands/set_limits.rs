//! `POST .../initialPositionAndLimits` and `PUT .../limits` (hub-semantics 4.3).

use super::check_liquidity::alert;
use crate::alerts::AlertKind;
use crate::change::{SetInitialPositionAndLimits, SetLimit};
use crate::context::{Context, Decide};
use crate::money::Amount;
use crate::outcome::AdminOutcome;
use crate::registry::NetDebitCap;

/// Default warning threshold of a net debit cap, in percent.
const ALARM_PERCENTAGE: Amount = Amount::from_units(10 * 10_000);

/// Sets net debit cap and position once, and enables the accounts.
impl Decide for SetInitialPositionAndLimits {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let state = &mut *context.state;
        let Some((_, participant)) = state.registry.find_mut(&self.name) else {
            return AdminOutcome::ParticipantNotFound;
        };
        let Some(holding) = participant.holding_mut(self.currency) else {
            return AdminOutcome::AccountNotFound;
        };
        if holding.limit.is_some() {
            return AdminOutcome::LimitsExist;
        }
        holding.limit = Some(NetDebitCap { value: self.limit, alarm_percentage: ALARM_PERCENTAGE });
        let holding = *holding;
        let accounts = participant.accounts.clone();
        for id in accounts {
            if state.accounts.get(id).is_some_and(|account| account.currency == self.currency) {
                state.accounts.set_active(id, true);
            }
        }
        if self.position != Amount::ZERO {
            let posting = state.accounts.opening(holding.position, self.position);
            context.post(posting);
        }
        AdminOutcome::Accepted
    }
}

/// Changes a net debit cap; the next prepare is decided with it.
impl Decide for SetLimit {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let Some((index, participant)) = context.state.registry.find_mut(&self.name) else {
            return AdminOutcome::ParticipantNotFound;
        };
        let Some(holding) = participant.holding_mut(self.currency) else {
            return AdminOutcome::AccountNotFound;
        };
        if holding.limit.is_none() {
            return AdminOutcome::LimitsMissing;
        }
        let (value, alarm_percentage) = (self.limit, self.alarm_percentage);
        holding.limit = Some(NetDebitCap { value, alarm_percentage });
        let position = holding.position;
        context.state.settlement.forget_cap_raises(position);
        alert(context, AlertKind::NetDebitCapChanged, (index, self.currency));
        AdminOutcome::Accepted
    }
}
