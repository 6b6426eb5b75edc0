//! Invariants of the balances, from the state alone. They hold after every batch.

use std::collections::BTreeMap;

use ledger::{AccountKind, Amount, Currency, SettlementState, SettlementWithAccounts, State};

/// Panics unless each currency sums to zero, each settlement nets to zero, and the hub's account of
/// net settlement holds the movements of settlements under way, and nothing of final ones.
pub(crate) fn check_balance(state: &State) {
    for (currency, sum) in state.accounts().sums() {
        assert_eq!(sum, Amount::ZERO, "the accounts of {currency} do not sum to zero");
    }
    let mut moved: BTreeMap<Currency, i128> = BTreeMap::new();
    for entry in state.settlement().settlements() {
        let net: i128 = entry.accounts.iter().map(|row| row.net.units()).sum();
        assert_eq!(net, 0, "the nets of {:?} do not sum to zero", entry.settlement.id);
        add_moved(state, entry, &mut moved);
    }
    let kind = AccountKind::HubMultilateralSettlement;
    for account in state.accounts().iter().filter(|account| account.kind == kind) {
        let moved = moved.get(&account.currency).copied().unwrap_or(0);
        let held = account.value.units();
        assert_eq!(held, moved, "the hub's account of net settlement in {}", account.currency);
    }
}

/// The amounts that a settlement has moved on accounts of the hub.
fn add_moved(state: &State, entry: &SettlementWithAccounts, moved: &mut BTreeMap<Currency, i128>) {
    let models = state.registry().models();
    let model = models.iter().find(|model| model.name == entry.settlement.model);
    if !model.expect("models are never removed").auto_position_reset {
        return;
    }
    let mut own: BTreeMap<Currency, i128> = BTreeMap::new();
    for row in &entry.accounts {
        let account = state.accounts().get(row.account).expect("its accounts exist");
        let net = row.net.units();
        let from = match net < 0 {
            true => SettlementState::PsTransfersReserved,
            false => SettlementState::PsTransfersCommitted,
        };
        let has_moved = from <= row.state && row.state != SettlementState::Aborted;
        *own.entry(account.currency).or_default() += if has_moved { net } else { 0 };
    }
    if entry.settlement.state == SettlementState::Settled {
        let is_zero = own.values().all(|sum| *sum == 0);
        assert!(is_zero, "the movements of {:?} do not sum to zero", entry.settlement.id);
    }
    for (currency, sum) in own {
        *moved.entry(currency).or_default() += sum;
    }
}
