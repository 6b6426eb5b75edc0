//! Interchange fees: the accounts for them, their computation at the prepare, and their posting at
//! the commit (settlement-and-bulk 1.8).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::settle::account_of;
use crate::accounts::{AccountKind, NewAccount, Posting};
use crate::change::SettlementModel;
use crate::context::Context;
use crate::fees::{FeePayer, PendingFee};
use crate::ids::FeeRuleId;
use crate::money::{Amount, Currency};
use crate::rules::FEES;
use crate::state::State;
use crate::transfers::ReservedTransfer;

/// The accounts of a new model of INTERCHANGE_FEE that participants with its currency lack. They
/// are active once the participant's limits are set, like its other accounts.
pub(super) fn missing_accounts(state: &State, model: &SettlementModel) -> Vec<NewAccount> {
    let mut missing = Vec::new();
    if state.rules_version < FEES || model.ledger_account != AccountKind::InterchangeFee {
        return missing;
    }
    for (owner, participant) in state.registry.iter() {
        for held in &participant.by_currency {
            let currency = held.currency;
            if model.currency.is_some_and(|only| only != currency) {
                continue;
            }
            let lacks = |kind: &AccountKind| account_of(state, owner, (*kind, currency)).is_none();
            let active = held.net_debit_cap.is_some();
            let new = |kind| NewAccount { owner, kind, currency, active };
            let kinds = BTreeSet::from([model.ledger_account, model.settlement_account]);
            missing.extend(kinds.into_iter().filter(lacks).map(new));
        }
    }
    missing
}

/// Opens the accounts of the models that were created under earlier rules, as far as there is room.
pub(super) fn begin(state: &mut State) {
    for model in state.registry.models().to_vec() {
        let missing = missing_accounts(state, &model);
        if state.accounts.has_room_for(missing.len()) {
            open_accounts(state, missing);
        }
    }
}

pub(super) fn open_accounts(state: &mut State, missing: Vec<NewAccount>) {
    for new in missing {
        let id = state.accounts.open(new, state.stamp);
        state.registry.get_mut(new.owner).accounts.push(id);
    }
}

/// Computes the fee of a transfer that is being reserved. A rule that is no longer active, a fee of
/// zero, and participants without accounts for fees leave the transfer without one.
pub(super) fn reserve(
    state: &mut State,
    transfer: &ReservedTransfer,
    (rule, currency): (FeeRuleId, Currency),
) {
    let Some(found) = state.fees.rule(rule).filter(|found| found.serves(currency)) else { return };
    let amount = found.fee_of(transfer.amount);
    let (from, to) = match found.payer {
        FeePayer::Payer => (transfer.payer, transfer.payee),
        FeePayer::Payee => (transfer.payee, transfer.payer),
    };
    let account = |owner| account_of(state, owner, (AccountKind::InterchangeFee, currency));
    let (Some(from), Some(to)) = (account(from), account(to)) else { return };
    if from != to && amount != Amount::ZERO {
        state.fees.pending.insert(transfer.id, PendingFee { rule, from, to, amount });
    }
}

/// Posts the fee of a committed transfer, and adds it to the open window.
pub(super) fn charge(context: &mut Context<'_>, fee: &PendingFee) {
    let PendingFee { from, to, amount, .. } = *fee;
    context.post(Posting { debit: from, credit: to, amount });
    let state = &mut *context.state;
    let open = &mut state.settlement.open;
    open.add(from, to, amount);
    let currency = state.accounts.get(from).expect("the fee was reserved for it").currency;
    if is_netted_in_pairs(state, currency) {
        state.settlement.open.add_pair(from, to, amount);
    }
}

/// Whether a bilateral model settles fees in a currency.
fn is_netted_in_pairs(state: &State, currency: Currency) -> bool {
    let content = (AccountKind::InterchangeFee, currency);
    let is_bilateral = |model: &SettlementModel| {
        model.active && model.net && !model.multilateral && state.registry.is_served(model, content)
    };
    state.registry.models().iter().any(is_bilateral)
}
