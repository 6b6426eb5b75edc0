//! `PUT /settlements/{id}` with ABORTED (hub-semantics 5.5): undoes what net recipients lost, and
//! returns the windows, which can then be settled again.

use alloc::vec::Vec;

use super::advance_settlement::{hub_account, model_of, report};
use crate::accounts::Posting;
use crate::change::AbortSettlement;
use crate::context::{Context, Decide};
use crate::ids::{AccountId, SettlementId};
use crate::money::Amount;
use crate::outcome::AdminOutcome;
use crate::settlement::{SettlementAccount, SettlementState, WindowState};
use crate::state::State;

impl Decide for AbortSettlement {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let book = &mut context.state.settlement;
        if book.is_archived_settlement(self.settlement) {
            return AdminOutcome::SettlementArchived;
        }
        let Some(entry) = book.settlements.get_mut(&self.settlement) else {
            return AdminOutcome::SettlementNotFound;
        };
        match entry.settlement.state {
            SettlementState::Aborted => {
                entry.settlement.reason.clone_from(&self.reason);
                return AdminOutcome::Accepted;
            }
            SettlementState::PsTransfersCommitted
            | SettlementState::Settling
            | SettlementState::Settled => return AdminOutcome::SettlementCommitted,
            SettlementState::PendingSettlement
            | SettlementState::PsTransfersRecorded
            | SettlementState::PsTransfersReserved => {}
        }
        let committed =
            |row: &SettlementAccount| row.state == SettlementState::PsTransfersCommitted;
        if entry.accounts.iter().any(committed) {
            return AdminOutcome::SettlementAccountCommitted;
        }
        give_back(context, self.settlement);
        end(context.state, self);
        context.state.settlement.archive(&mut context.effects.archived);
        AdminOutcome::Accepted
    }
}

/// Reverses the moves of the accounts that are reserved.
fn give_back(context: &mut Context<'_>, id: SettlementId) {
    if !model_of(context.state, id).auto_position_reset {
        return;
    }
    let entry = context.state.settlement.settlement(id).expect("it was found");
    let moved = |row: &&SettlementAccount| {
        row.state == SettlementState::PsTransfersReserved && row.net < Amount::ZERO
    };
    let moved = entry.accounts.iter().filter(moved);
    let moved: Vec<_> = moved.map(|row| (row.account, -row.net, row.cap_raise)).collect();
    for (account, amount, cap_raise) in moved {
        let hub = hub_account(context.state, account);
        context.post_apart(Posting { debit: hub, credit: account, amount });
        lower_cap(context.state, account, cap_raise);
        report(context, account, cap_raise != Amount::ZERO);
    }
}

fn lower_cap(state: &mut State, account: AccountId, cap_raise: Amount) {
    let held = state.accounts.get(account).expect("it is in a settlement");
    let (owner, currency) = (held.owner, held.currency);
    let currency_accounts = state.registry.get_mut(owner).accounts_in_mut(currency);
    if let Some(cap) =
        currency_accounts.and_then(|currency_accounts| currency_accounts.net_debit_cap.as_mut())
    {
        cap.value = cap.value.checked_sub(cap_raise).expect("a cap is in the range of the ledger");
    }
}

fn end(state: &mut State, command: &AbortSettlement) {
    let (stamp, reason) = (state.stamp, command.reason.as_str());
    let book = &mut state.settlement;
    let entry = book.settlements.get_mut(&command.settlement).expect("it was found");
    for row in &mut entry.accounts {
        row.state = SettlementState::Aborted;
        row.reason = reason.into();
        row.changed = stamp;
        row.cap_raise = Amount::ZERO;
    }
    entry.settlement.state = SettlementState::Aborted;
    entry.settlement.reason = reason.into();
    entry.settlement.changed = stamp;
    let contents = entry.settlement.contents.clone();
    let to = (WindowState::Aborted, command.settlement);
    book.set_contents(&contents, to, (reason, stamp));
}
