//! The jumps of positions in the effects are the changes that operators and settlements make.

use alloc::collections::BTreeMap;

use crate::*;

type Positions = BTreeMap<AccountId, Amount>;

/// The positions before the only command of a batch, if it is an operator's.
pub(super) fn before(state: &State, commands: &[Command]) -> Option<(Positions, u64)> {
    let [Command::Administer(_)] = commands else { return None };
    Some((positions(state), state.counters().expired))
}

fn positions(state: &State) -> Positions {
    let accounts = (1..).map_while(|id| state.accounts().get(AccountId(id)));
    let positions = accounts.filter(|account| account.kind == AccountKind::Position);
    positions.map(|account| (account.id, account.value)).collect()
}

/// Compares the changes of all positions with the jumps. Deadlines that fire move positions too.
pub(super) fn compare(
    (state, commands): (&State, &[Command]),
    before: Option<(Positions, u64)>,
    effects: &Effects,
) {
    if !commands.iter().any(|command| matches!(command, Command::Administer(_))) {
        assert_eq!(effects.position_jumps, [], "transfers make no jumps");
    }
    let outflows = state.reservations().filter(|it| it.payee_account.is_none());
    assert_eq!(state.funds_out_in_progress().count(), outflows.count());
    let Some((before, expired)) = before else { return };
    if state.counters().expired != expired {
        return;
    }
    for (account, after) in positions(state) {
        let jumps = effects.position_jumps.iter().filter(|(id, _)| *id == account);
        let jumps: i128 = jumps.map(|(_, amount)| amount.units()).sum();
        let before = before.get(&account).map_or(0, |value| value.units());
        assert_eq!(jumps, after.units() - before, "account {}", account.0);
    }
}
