//! `PUT /settlements/{id}` and its longer paths: moves accounts of a settlement to their next state
//! (hub-semantics 5.4).
//!
//! An account moves one step relative to the state that the settlement had before the request. The
//! settlement follows when all of its accounts have moved. Under a model that resets positions,
//! net recipients lose their credit when they are reserved, and net senders their debt when they
//! are committed. The counterpart is the hub's HUB_MULTILATERAL_SETTLEMENT account, which is then
//! back at its former balance.

use alloc::collections::BTreeSet;
use alloc::format;
use alloc::vec::Vec;

use super::check_liquidity::alert;
use crate::accounts::{AccountKind, Posting};
use crate::alerts::AlertKind;
use crate::change::{AccountStep, AdvanceSettlement, SettlementModel};
use crate::context::{Context, Decide};
use crate::ids::{AccountId, ParticipantIndex, SettlementId};
use crate::money::{Amount, Currency};
use crate::outcome::AdminOutcome;
use crate::settlement::{SettlementState, WindowState};
use crate::state::{ChangeResult, State, StepResult};

impl Decide for AdvanceSettlement {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        let book = &context.state.settlement;
        let before = match book.settlement(self.settlement) {
            Some(entry) => entry.settlement.state,
            None if book.is_archived_settlement(self.settlement) => {
                return AdminOutcome::SettlementArchived;
            }
            None => return AdminOutcome::SettlementNotFound,
        };
        let owners = owners(context.state, self.settlement);
        let mut seen = BTreeSet::new();
        let mut results = Vec::with_capacity(self.steps.len());
        for one in &self.steps {
            let result = match check(context.state, (self.settlement, &owners), one) {
                Err(refused) => refused,
                Ok(()) if !seen.insert(one.account) => StepResult::Repeated,
                Ok(()) => step(context, (self.settlement, before), one),
            };
            results.push(result);
        }
        follow(context.state, self.settlement);
        context.state.settlement.archive(&mut context.effects.archived);
        context.effects.results.push((context.log_index, ChangeResult::Advanced(results)));
        AdminOutcome::Accepted
    }
}

/// Number of a participant in the settlement API: 1 for the hub.
pub(crate) const fn participant_number(index: ParticipantIndex) -> u32 {
    index.0 + 1
}

/// The participants with accounts in a settlement, by their number in the settlement API.
fn owners(state: &State, id: SettlementId) -> BTreeSet<u32> {
    let entry = state.settlement.settlement(id).expect("it was found");
    entry.accounts.iter().map(|row| owner(state, row.account)).collect()
}

fn owner(state: &State, account: AccountId) -> u32 {
    let account = state.accounts.get(account).expect("a settlement has accounts that exist");
    participant_number(account.owner)
}

/// Whether the step names an account of the settlement, and its owner.
fn check(
    state: &State,
    (id, owners): (SettlementId, &BTreeSet<u32>),
    step: &AccountStep,
) -> Result<(), StepResult> {
    let entry = state.settlement.settlement(id).expect("it was found");
    if !owners.contains(&step.participant) {
        return Err(StepResult::ParticipantNotFound);
    }
    if entry.account(step.account).is_none() {
        return Err(StepResult::AccountNotFound);
    }
    if owner(state, step.account) != step.participant {
        return Err(StepResult::ParticipantMismatch);
    }
    Ok(())
}

fn step(
    context: &mut Context<'_>,
    (id, before): (SettlementId, SettlementState),
    step: &AccountStep,
) -> StepResult {
    let stamp = context.state.stamp;
    let entry = context.state.settlement.settlements.get_mut(&id).expect("it was found");
    let row = entry.account_mut(step.account).expect("it was found");
    if row.state == step.state {
        row.reason.clone_from(&step.reason);
        row.external_reference.clone_from(&step.external_reference);
        return StepResult::Updated;
    }
    let from = match before {
        SettlementState::Settling => SettlementState::PsTransfersCommitted,
        state => state,
    };
    if row.state != from || before.next() != Some(step.state) {
        return StepResult::NotAllowed;
    }
    row.state = step.state;
    row.reason.clone_from(&step.reason);
    row.external_reference.clone_from(&step.external_reference);
    row.changed = stamp;
    let net = row.net;
    let model = model_of(context.state, id);
    if model.auto_position_reset {
        let liquidity_check = model.liquidity_check;
        move_position(context, (id, liquidity_check), (step.account, net, step.state));
    }
    StepResult::Moved
}

/// Moves the position of an account that has reached a state.
fn move_position(
    context: &mut Context<'_>,
    (id, liquidity_check): (SettlementId, bool),
    (account, net, reached): (AccountId, Amount, SettlementState),
) {
    let hub = hub_account(context.state, account);
    match reached {
        SettlementState::PsTransfersReserved if net < Amount::ZERO => {
            let is_raised = liquidity_check && raise_cap(context.state, id, (account, -net));
            context.post_apart(Posting { debit: account, credit: hub, amount: -net });
            report(context, account, is_raised);
        }
        SettlementState::PsTransfersCommitted if Amount::ZERO < net => {
            context.post_apart(Posting { debit: hub, credit: account, amount: net });
            report(context, account, false);
        }
        _ => {}
    }
}

/// Adds the alerts about a position that a settlement has moved, and about its net debit cap if
/// that has changed too. Other accounts have no alerts.
pub(super) fn report(context: &mut Context<'_>, account: AccountId, is_cap_changed: bool) {
    let held = context.state.accounts.get(account).expect("it is in a settlement");
    if held.kind != AccountKind::Position {
        return;
    }
    let of = (held.owner, held.currency);
    alert(context, AlertKind::SettlementPositionChange, of);
    if is_cap_changed {
        alert(context, AlertKind::NetDebitCapChanged, of);
    }
}

/// Raises the net debit cap if the position would exceed it. Returns whether it did.
fn raise_cap(state: &mut State, id: SettlementId, (account, amount): (AccountId, Amount)) -> bool {
    let held = state.accounts.get(account).expect("it is in a settlement");
    let (owner, currency) = (held.owner, held.currency);
    let after = held.value.checked_add(amount).expect("a position is in the range of the ledger");
    let participant = state.registry.get_mut(owner);
    let currency_accounts =
        participant.accounts_in_mut(currency).filter(|it| it.position == account);
    let Some(cap) =
        currency_accounts.and_then(|it| it.net_debit_cap.as_mut()).filter(|cap| cap.value < after)
    else {
        return false;
    };
    cap.value = cap.value.checked_add(amount).expect("a cap is in the range of the ledger");
    let entry = state.settlement.settlements.get_mut(&id).expect("it was found");
    entry.account_mut(account).expect("it was found").cap_raise = amount;
    true
}

/// Moves the settlement, and the contents of its windows, after its accounts.
fn follow(state: &mut State, id: SettlementId) {
    let stamp = state.stamp;
    let entry = state.settlement.settlements.get_mut(&id).expect("it was found");
    let settlement = &mut entry.settlement;
    let Some(next) = settlement.state.next() else { return };
    let all = entry.accounts.iter().all(|row| row.state == next);
    let some = entry.accounts.iter().any(|row| row.state == SettlementState::Settled);
    if all {
        settlement.state = next;
        settlement.changed = stamp;
        settlement.reason = format!("All settlement accounts are {}", next.name());
    } else if some && settlement.state == SettlementState::PsTransfersCommitted {
        settlement.state = SettlementState::Settling;
        settlement.changed = stamp;
        settlement.reason = "Some settlement accounts are SETTLED".into();
    }
    if some {
        settle_contents(state, id);
    }
}

/// Marks the contents with settled accounts only.
fn settle_contents(state: &mut State, id: SettlementId) {
    let book = &state.settlement;
    let entry = book.settlement(id).expect("it was found");
    let is_settled = |account| {
        let row = entry.account(account).expect("the settlement has all accounts of its contents");
        row.state == SettlementState::Settled
    };
    let contents = entry.settlement.contents.iter().copied();
    let settled: Vec<_> = contents
        .filter(|content| {
            let mut sums = book.content_sums(&state.accounts, *content);
            sums.all(|sums| is_settled(sums.account))
        })
        .collect();
    let reason = ("All settlement window content is SETTLED", state.stamp);
    state.settlement.set_contents(&settled, (WindowState::Settled, id), reason);
}

pub(super) fn model_of(state: &State, id: SettlementId) -> &SettlementModel {
    let entry = state.settlement.settlement(id).expect("it was found");
    let mut models = state.registry.models().iter();
    models.find(|model| model.name == entry.settlement.model).expect("models are never removed")
}

/// The hub's counterpart of net settlement in the currency of an account.
pub(super) fn hub_account(state: &State, account: AccountId) -> AccountId {
    let currency: Currency = state.accounts.get(account).expect("it is in a settlement").currency;
    let hub = state.registry.get(ParticipantIndex::HUB);
    let mut accounts = hub.accounts.iter().filter_map(|id| state.accounts.get(*id));
    let kind = AccountKind::HubMultilateralSettlement;
    let found = accounts.find(|it| it.kind == kind && it.currency == currency);
    found.expect("participants join after the hub has its accounts").id
}
