//! The model of liquidity alarms and of the alerts that are owed. An alarm is raised when the
//! position reaches the alarm percentage of the net debit cap, and cleared 5 % below that.

use std::collections::BTreeMap;

use ledger::{
    ALERTS_MAX, AccountKind, AlertId, AlertKind, CheckLiquidity, Currency, FinishAlerts, LogIndex,
    Outcome, Stamp, State,
};

use super::settlement::SETTLEMENT_RULES;
use super::{Model, Money, Predict};

/// An alert: kind, participant, currency, position, cap, time and record.
type Alert = (AlertKind, u32, Currency, Money, Option<Money>, Stamp, LogIndex);

/// Alarms by participant and currency, and alerts by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Alerts {
    alarms: BTreeMap<(u32, Currency), (Stamp, Money)>,
    owed: BTreeMap<u64, Alert>,
    newest: u64,
    dropped: u64,
}

impl Alerts {
    pub(super) fn compare(&self, state: &State) {
        let kept = state.alerts();
        let numbers = kept.numbers();
        assert_eq!((numbers.last.0, numbers.dropped), (self.newest, self.dropped), "alerts");
        let alarms = kept
            .alarms()
            .map(|it| ((it.participant.0, it.currency), (it.raised, it.position.units())));
        assert!(alarms.eq(self.alarms.iter().map(|(key, value)| (*key, *value))), "{self:?}");
        let owed = kept.owed().map(|it| {
            let cap = it.net_debit_cap.map(|cap| cap.units());
            let position = it.position.units();
            let alert = (it.kind, it.participant.0, it.currency, position, cap, it.at, it.record);
            (it.id.0, alert)
        });
        assert!(owed.eq(self.owed.iter().map(|(id, alert)| (*id, *alert))), "{self:?}");
    }

    fn add(&mut self, alert: Alert) {
        self.newest += 1;
        self.owed.insert(self.newest, alert);
        if ALERTS_MAX < self.owed.len() {
            self.owed.pop_first();
            self.dropped += 1;
        }
    }
}

impl Model {
    /// An alert about a participant's position and cap in a currency. Earlier rules know no alerts.
    pub(super) fn alert(&mut self, kind: AlertKind, participant: u32, currency: Currency) {
        if self.rules < SETTLEMENT_RULES {
            return;
        }
        let Some((position, cap)) = self.scheme.liquidity(participant, currency) else { return };
        let cap = cap.map(|(cap, _)| cap);
        let (stamp, record) = (self.stamp, LogIndex(self.log_index));
        self.alerts.add((kind, participant, currency, position, cap, stamp, record));
    }

    /// The alerts about a position that a settlement has moved.
    pub(super) fn alert_settlement(&mut self, account: usize, is_cap_changed: bool) {
        let held = &self.scheme.accounts[account];
        if held.kind != AccountKind::Position {
            return;
        }
        let (owner, currency) = (held.owner as u32, held.currency);
        self.alert(AlertKind::SettlementPositionChange, owner, currency);
        if is_cap_changed {
            self.alert(AlertKind::NetDebitCapChanged, owner, currency);
        }
    }
}

impl Predict for CheckLiquidity {
    fn predict(&self, model: &mut Model) -> Outcome {
        let Some(participant) = model.scheme.participant_number(&self.name) else {
            return Outcome::ParticipantNotFound;
        };
        let Some((position, cap)) = model.scheme.liquidity(participant, self.currency) else {
            return Outcome::AccountNotFound;
        };
        let Some((cap, percentage)) = cap else { return Outcome::LimitsMissing };
        let key = (participant, self.currency);
        let is_raised = model.alerts.alarms.contains_key(&key);
        // Ten-thousandths of a percent; a percentage beyond every amount is never reached.
        let threshold = cap.checked_mul(percentage).map_or(Money::MAX, |it| it / 1_000_000);
        let bound = if is_raised { threshold / 100 * 95 } else { threshold };
        let reaches = 0 < position && bound <= position;
        if reaches == is_raised || model.rules < SETTLEMENT_RULES {
            return Outcome::LiquidityUnchanged;
        }
        if reaches {
            model.alerts.alarms.insert(key, (model.stamp, position));
            model.alert(AlertKind::ThresholdReached, participant, self.currency);
        } else {
            model.alerts.alarms.remove(&key);
            model.alert(AlertKind::ThresholdCleared, participant, self.currency);
        }
        Outcome::Accepted
    }
}

impl Predict for FinishAlerts {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.alerts.owed.retain(|id, _| !self.alerts.contains(&AlertId(*id)));
        Outcome::Accepted
    }
}
