//! Alerts to operators and participants about liquidity: a position that reaches its alarm
//! threshold, a changed net debit cap, a position moved by a settlement.
//!
//! An alert is owed until a record finishes it, like a notice. It is sent outside the protocol, as
//! a webhook or an e-mail. The alarm of a participant and currency is raised once: it is cleared
//! when the position is 95 % of the threshold or less, and can be raised again then.
//!
//! Bounds: at most [`ALERTS_MAX`] alerts; the oldest one is dropped and counted.

use alloc::collections::{BTreeMap, VecDeque};

use crate::field::{VarInt, numbered, stored};
use crate::ids::{AlertId, LogIndex, ParticipantIndex, Stamp};
use crate::money::{Amount, Currency};

/// Maximum number of alerts that are owed.
pub const ALERTS_MAX: usize = 10_000;

numbered! {
    /// The kind of an alert.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum AlertKind: u8 {
        /// The position has reached the alarm threshold of the net debit cap.
        ThresholdReached = 1,
        /// The position is below the threshold again.
        ThresholdCleared = 2,
        /// The net debit cap has changed, by the operator or by a settlement.
        NetDebitCapChanged = 3,
        /// A settlement has moved the position.
        SettlementPositionChange = 4,
    }
}

stored! {
    /// An alert that is owed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Alert {
        /// Its number.
        pub id: AlertId,
        /// Its kind.
        pub kind: AlertKind,
        /// The participant.
        pub participant: ParticipantIndex,
        /// The currency.
        pub currency: Currency,
        /// The position at the time of the alert.
        pub position: Amount as VarInt,
        /// The net debit cap, once set.
        pub net_debit_cap: Option<Amount>,
        /// When it was raised.
        pub at: Stamp,
        /// The record that raised it.
        pub record: LogIndex,
    }
}

stored! {
    /// A participant's alarm in one currency, while its position is at or above the threshold.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct LiquidityAlarm {
        /// The participant.
        pub participant: ParticipantIndex,
        /// The currency.
        pub currency: Currency,
        /// When it was raised.
        pub raised: Stamp,
        /// The position at that time.
        pub position: Amount as VarInt,
    }
}

stored! {
    /// Numbers of alerts.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct AlertNumbers {
        /// The newest alert.
        pub last: AlertId,
        /// Number of alerts that were dropped because too many were owed.
        pub dropped: u64,
    }
}

/// Alarms and owed alerts.
#[derive(Clone, Debug, Default)]
pub struct Alerts {
    pub(crate) numbers: AlertNumbers,
    pub(crate) owed: VecDeque<Alert>,
    pub(crate) alarms: BTreeMap<(ParticipantIndex, Currency), LiquidityAlarm>,
}

impl Alerts {
    /// The newest number, and the count of dropped alerts.
    #[must_use]
    pub const fn numbers(&self) -> &AlertNumbers {
        &self.numbers
    }

    /// The alerts that are owed, oldest first.
    pub fn owed(&self) -> impl ExactSizeIterator<Item = &Alert> {
        self.owed.iter()
    }

    /// The raised alarms, by participant and currency.
    pub fn alarms(&self) -> impl Iterator<Item = &LiquidityAlarm> {
        self.alarms.values()
    }

    /// The alarm of a participant in a currency, if it is raised.
    #[must_use]
    pub fn alarm(&self, of: (ParticipantIndex, Currency)) -> Option<&LiquidityAlarm> {
        self.alarms.get(&of)
    }

    /// Adds an alert with the next number.
    pub(crate) fn add(&mut self, alert: Alert) {
        self.numbers.last = AlertId(self.numbers.last.0 + 1);
        if self.owed.len() == ALERTS_MAX {
            self.owed.pop_front();
            self.numbers.dropped += 1;
        }
        self.owed.push_back(Alert { id: self.numbers.last, ..alert });
    }

    pub(crate) fn finish(&mut self, ids: &[AlertId]) {
        self.owed.retain(|alert| !ids.contains(&alert.id));
    }
}
