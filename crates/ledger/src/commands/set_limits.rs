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
        let Some(currency_accounts) = participant.accounts_in_mut(self.currency) else {
            return AdminOutcome::AccountNotFound;
        };
        if currency_accounts.net_debit_cap.is_some() {
            return AdminOutcome::LimitsExist;
        }
        currency_accounts.net_debit_cap =
            Some(NetDebitCap { value: self.net_debit_cap, alarm_percentage: ALARM_PERCENTAGE });
        let currency_accounts = *currency_accounts;
        let accounts = participant.accounts.clone();
        for id in accounts {
            if state.accounts.get(id).is_some_and(|account| account.currency == self.currency) {
                state.accounts.set_active(id, true);
            }
        }
        if self.position != Amount::ZERO {
            let posting = state.accounts.opening(currency_accounts.position, self.position);
            context.post_apart(posting);
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
        let Some(currency_accounts) = participant.accounts_in_mut(self.currency) else {
            return AdminOutcome::AccountNotFound;
        };
        if currency_accounts.net_debit_cap.is_none() {
            return AdminOutcome::LimitsMissing;
        }
        let (value, alarm_percentage) = (self.net_debit_cap, self.alarm_percentage);
        currency_accounts.net_debit_cap = Some(NetDebitCap { value, alarm_percentage });
        let position = currency_accounts.position;
        context.state.settlement.forget_cap_raises(position);
        alert(context, AlertKind::NetDebitCapChanged, (index, self.currency));
        AdminOutcome::Accepted
    }
}
