//! Rows of alerts and alarms.

use super::{StateBuilder, TableRow};
use crate::alerts::{Alert, LiquidityAlarm};
use crate::field::{InvalidState, Row};
use crate::state::State;

impl TableRow for Alert {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.alerts.owed()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_participants([self.participant])?;
        let alerts = &mut builder.alerts;
        let last = alerts.owed.back().map(|alert| alert.id);
        if Some(self.id) <= last || alerts.numbers.last < self.id {
            return Err(InvalidState("an alert has an invalid number"));
        }
        alerts.owed.push_back(self);
        Ok(())
    }
}

impl TableRow for LiquidityAlarm {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.alerts.alarms()
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.check_participants([self.participant])?;
        let key = (self.participant, self.currency);
        let alarms = &mut builder.alerts.alarms;
        if alarms.last_key_value().is_some_and(|(last, _)| key <= *last) {
            return Err(InvalidState("alarms are out of order"));
        }
        alarms.insert(key, self);
        Ok(())
    }
}
