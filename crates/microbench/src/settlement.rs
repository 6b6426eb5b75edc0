//! The settlement of one large window by the kernel alone: `upesi-bench settlement
//! --window-transfers`.
//!
//! A thousand participants pay each other at random. The transfers pass the kernel, as in a switch,
//! and are evicted when they are final. Then the window is closed and settled. There is no log, so
//! that a step costs only its decision.

use std::time::Duration;

use ledger::{
    AccountStep, AdvanceSettlement, Change, CloseWindow, Command, CreateSettlement, Eviction,
    Outcome, SettlementId, SettlementState, Stamp, State, WindowId,
};

use crate::kernel::Kernel;
use crate::measure::time;
use crate::workload::{Spread, Workload, administer, delivered};
use crate::{BATCH_LARGE, PartProgress, ProgressSink};

/// The default model, which each log has from the start.
const MODEL: &str = "DEFAULTDEFERREDNET";
const STATES: [SettlementState; 4] = [
    SettlementState::PsTransfersRecorded,
    SettlementState::PsTransfersReserved,
    SettlementState::PsTransfersCommitted,
    SettlementState::Settled,
];

/// A settled window: its size, and the duration of each step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledWindow {
    /// Transfers in it.
    pub transfers: u64,
    /// Accounts in its settlement.
    pub accounts: usize,
    /// Name and duration of each step, in order.
    pub steps: Vec<(&'static str, Duration)>,
}

/// Commits this number of transfers in one window, and settles it.
///
/// # Panics
///
/// The kernel refuses a transfer or a step, or leaves a position.
pub fn settle_window(transfers: u64, progress: ProgressSink<'_>) -> SettledWindow {
    let mut workload = Workload::new(Spread::Uniform, 0);
    let mut kernel = Kernel::new(&workload);
    let mut done = 0;
    while done < transfers {
        let pairs = (transfers - done).min(BATCH_LARGE as u64);
        commit(&mut workload, &mut kernel, pairs as usize);
        done += pairs;
        progress(PartProgress { items: "transfers in the window", done, all: transfers });
    }
    let reason = || "bench".to_owned();
    let close = Change::CloseWindow(CloseWindow { window: WindowId(1), reason: reason() });
    let windows = vec![WindowId(1)];
    let create = Change::CreateSettlement(CreateSettlement {
        model: MODEL.into(),
        windows,
        reason: reason(),
    });
    let mut steps = vec![("close", step(&mut kernel, close))];
    steps.push(("create", step(&mut kernel, create)));
    for state in STATES {
        let advance = Change::AdvanceSettlement(advance(&kernel.state, state));
        steps.push((state.name(), step(&mut kernel, advance)));
    }
    let book = kernel.state.settlement();
    let settlement = book.settlement(SettlementId(1)).expect("it was created");
    assert_eq!(settlement.settlement.state, SettlementState::Settled);
    SettledWindow { transfers, accounts: settlement.accounts.len(), steps }
}

/// Commits and delivers transfers, and evicts them.
fn commit(workload: &mut Workload, kernel: &mut Kernel, pairs: usize) {
    let mut owed = Vec::new();
    for batch in workload.batches(pairs, BATCH_LARGE) {
        kernel.apply_and_deliver(&batch, &mut owed);
    }
    kernel.apply(&[Command::FinishDeliveries(delivered(&owed))]);
    let counters = kernel.state.counters();
    assert!(counters.refused == 0 && counters.reserved == counters.committed, "{counters:?}");
    let visible = kernel.state.log_index();
    let completed_before = Stamp(u64::MAX);
    kernel.state.evict(Eviction { visible, completed_before, rows_max: usize::MAX }, &mut |_| {});
}

/// Decides one step, which must be accepted.
fn step(kernel: &mut Kernel, change: Change) -> Duration {
    let command = [administer(change)];
    let took = time(|| kernel.apply(&command));
    assert!(matches!(kernel.outcomes(), [Outcome::Accepted]), "{:?}", kernel.outcomes());
    took.wall
}

/// The step of all accounts of the settlement.
fn advance(state: &State, to: SettlementState) -> AdvanceSettlement {
    let settlement = state.settlement().settlement(SettlementId(1)).expect("it was created");
    let one = |row: &ledger::SettlementAccount| AccountStep {
        participant: participant_number(state, row.account),
        account: row.account,
        state: to,
        reason: "bench".into(),
        external_reference: String::new(),
    };
    AdvanceSettlement {
        settlement: SettlementId(1),
        steps: settlement.accounts.iter().map(one).collect(),
    }
}

/// Number of the owner in the settlement API: 1 for the hub.
fn participant_number(state: &State, account: ledger::AccountId) -> u32 {
    state.accounts().get(account).expect("it is in a settlement").owner.0 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_is_settled_with_all_its_accounts() {
        let mut last = 0;
        let settled = settle_window(20_000, &mut |part| last = part.done);
        assert_eq!((settled.transfers, last), (20_000, 20_000));
        assert_eq!(settled.accounts, 1_000);
        let names: Vec<_> = settled.steps.iter().map(|(name, _)| *name).collect();
        assert_eq!(
            names,
            [
                "close",
                "create",
                "PS_TRANSFERS_RECORDED",
                "PS_TRANSFERS_RESERVED",
                "PS_TRANSFERS_COMMITTED",
                "SETTLED",
            ]
        );
    }
}
