//! Windows and settlements for metrics, by state.

use std::collections::BTreeMap;

use ledger::{SettlementState, Stamp, State, WindowState};
use metrics::{Labels, Number};

/// Numbers of windows and settlements. Settled windows and final settlements are left out, because
/// old ones are not in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct SettlementValues {
    windows: BTreeMap<&'static str, u64>,
    settlements: BTreeMap<&'static str, u64>,
    /// When the open window was opened.
    opened: Option<Stamp>,
    /// When the oldest window that is closed and not settled was closed.
    oldest_closed: Option<Stamp>,
}

/// The states that are counted. A state without windows or settlements has the value 0.
const WINDOW_STATES: [WindowState; 4] =
    [WindowState::Open, WindowState::Closed, WindowState::PendingSettlement, WindowState::Aborted];
const SETTLEMENT_STATES: [SettlementState; 5] = [
    SettlementState::PendingSettlement,
    SettlementState::PsTransfersRecorded,
    SettlementState::PsTransfersReserved,
    SettlementState::PsTransfersCommitted,
    SettlementState::Settling,
];

impl SettlementValues {
    pub(super) fn of(state: &State) -> Self {
        let mut values = Self {
            windows: WINDOW_STATES.iter().map(|state| (state.name(), 0)).collect(),
            settlements: SETTLEMENT_STATES.iter().map(|state| (state.name(), 0)).collect(),
            ..Self::default()
        };
        for window in state.settlement().windows().map(|window| &window.window) {
            match window.state {
                WindowState::Settled => continue,
                WindowState::Open => values.opened = Some(window.created),
                WindowState::Closed | WindowState::PendingSettlement | WindowState::Aborted => {
                    let closed = window.contents.first().map_or(window.changed, |it| it.created);
                    let oldest = values.oldest_closed.get_or_insert(closed);
                    *oldest = closed.min(*oldest);
                }
            }
            count(&mut values.windows, window.state.name());
        }
        for settlement in state.settlement().settlements() {
            count(&mut values.settlements, settlement.settlement.state.name());
        }
        values
    }

    /// Windows by state.
    pub(crate) fn windows(&self) -> Vec<(Labels, Number)> {
        by_state(&self.windows)
    }

    /// Settlements by state.
    pub(crate) fn settlements(&self) -> Vec<(Labels, Number)> {
        by_state(&self.settlements)
    }

    /// Age of the open window, in whole seconds; `None` before the first one.
    pub(crate) fn open_seconds(&self, now: Stamp) -> Option<u64> {
        self.opened.map(|opened| age_seconds(opened, now))
    }

    /// Time since the oldest window that is not settled was closed; 0 without one.
    pub(crate) fn unsettled_seconds(&self, now: Stamp) -> u64 {
        self.oldest_closed.map_or(0, |closed| age_seconds(closed, now))
    }
}

/// Counts a state that is among the counted ones.
fn count(counts: &mut BTreeMap<&'static str, u64>, state: &str) {
    if let Some(count) = counts.get_mut(state) {
        *count += 1;
    }
}

fn by_state(counts: &BTreeMap<&'static str, u64>) -> Vec<(Labels, Number)> {
    let sample = |(state, count): (&&'static str, &u64)| {
        (vec![("state", (*state).into())], Number::Integer((*count).into()))
    };
    counts.iter().map(sample).collect()
}

fn age_seconds(since: Stamp, now: Stamp) -> u64 {
    now.0.saturating_sub(since.0) / 1_000_000
}
