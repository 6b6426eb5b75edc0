//! Raises or clears the alarm of a participant whose position has crossed its threshold. A driver
//! asks for the check when it sees a crossing; the kernel decides with the position of this record.

use crate::alerts::{Alert, AlertKind, LiquidityAlarm};
use crate::change::{CheckLiquidity, FinishAlerts};
use crate::context::{Context, Decide};
use crate::ids::{AlertId, ParticipantIndex};
use crate::money::Currency;
use crate::outcome::AdminOutcome;
use crate::registry::CurrencyAccounts;
use crate::rules::SETTLEMENT;
use crate::state::State;

impl State {
    /// The alert that a check of this participant and currency would raise; `None` if the position
    /// has not crossed its threshold.
    #[must_use]
    pub fn alarm_change(
        &self,
        participant: ParticipantIndex,
        accounts: &CurrencyAccounts,
    ) -> Option<AlertKind> {
        let cap = accounts.net_debit_cap?;
        if self.rules_version < SETTLEMENT {
            return None;
        }
        let is_raised = self.alerts.alarm((participant, accounts.currency)).is_some();
        let position = self.accounts.value(accounts.position);
        match (is_raised, cap.alarms_at(position, is_raised)) {
            (false, true) => Some(AlertKind::ThresholdReached),
            (true, false) => Some(AlertKind::ThresholdCleared),
            (false, false) | (true, true) => None,
        }
    }
}

impl Decide for CheckLiquidity {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let state = &mut *context.state;
        let Some((index, participant)) = state.registry.find(&self.name) else {
            return AdminOutcome::ParticipantNotFound;
        };
        let Some(currency_accounts) = participant.accounts_in(self.currency) else {
            return AdminOutcome::AccountNotFound;
        };
        if currency_accounts.net_debit_cap.is_none() {
            return AdminOutcome::LimitsMissing;
        }
        let Some(kind) = state.alarm_change(index, currency_accounts) else {
            return AdminOutcome::LiquidityUnchanged;
        };
        let position = state.accounts.value(currency_accounts.position);
        let key = (index, self.currency);
        if kind == AlertKind::ThresholdCleared {
            state.alerts.alarms.remove(&key);
        } else {
            let (participant, currency) = key;
            let alarm = LiquidityAlarm { participant, currency, raised: state.stamp, position };
            state.alerts.alarms.insert(key, alarm);
        }
        alert(context, kind, key);
        AdminOutcome::Accepted
    }
}

/// Removes alerts that were sent, or that have no receiver.
impl Decide for FinishAlerts {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        context.state.alerts.finish(&self.alerts);
        AdminOutcome::Accepted
    }
}

/// Adds an alert with the position and the cap of this moment. Earlier rules know no alerts.
pub(super) fn alert(
    context: &mut Context<'_>,
    kind: AlertKind,
    (participant, currency): (ParticipantIndex, Currency),
) {
    let state = &mut *context.state;
    if state.rules_version < SETTLEMENT {
        return;
    }
    let Some(currency_accounts) = state.registry.get(participant).accounts_in(currency) else {
        return;
    };
    state.alerts.add(Alert {
        id: AlertId(0),
        kind,
        participant,
        currency,
        position: state.accounts.value(currency_accounts.position),
        net_debit_cap: currency_accounts.net_debit_cap.map(|cap| cap.value),
        at: state.stamp,
        record: context.log_index,
    });
}
