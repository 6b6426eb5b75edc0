//! Settlement of a committed transfer: it is added to the open window, or settled at once by a
//! gross model (hub-semantics 5.2 and 5.6).
//!
//! Costs: two rows of sums per commit.

use crate::accounts::{AccountKind, Posting, SettlementMode};
use crate::change::SettlementModel;
use crate::context::Context;
use crate::ids::{AccountId, LogIndex, ParticipantIndex};
use crate::money::Currency;
use crate::rules::SETTLEMENT;
use crate::state::State;
use crate::transfers::ReservedTransfer;

/// Opens the first window, once the rules in force know settlement.
pub(super) fn begin(state: &mut State, record: LogIndex) {
    if state.rules_version < SETTLEMENT || state.settlement.numbers().window.0 != 0 {
        return;
    }
    state.settlement.open_window("Initial window".into(), state.stamp, record);
    choose_modes(state);
}

/// Chooses for each currency how its transfers are settled, after a change of models, currencies
/// or rules.
pub(crate) fn choose_modes(state: &mut State) {
    let is_known = SETTLEMENT <= state.rules_version;
    let models = state.registry.models();
    state.accounts.set_settlement_modes(|currency| match is_known {
        true => mode(models, currency),
        false => SettlementMode::Off,
    });
}

/// An own gross model settles at once; a default one does if no net model names the currency. A
/// gross model whose accounts of both kinds are the same has nothing to move, and settles nothing.
fn mode(models: &[SettlementModel], currency: Currency) -> SettlementMode {
    let active = || {
        let kind = AccountKind::Position;
        models.iter().filter(move |model| model.active && model.ledger_account == kind)
    };
    let own = || active().filter(|model| model.currency == Some(currency));
    let defaults = || active().filter(|model| model.currency.is_none());
    let is_gross =
        |model: &&SettlementModel| !model.net && model.settlement_account != model.ledger_account;
    let gross = own().find(is_gross).or_else(|| {
        let has_net = own().any(|model| model.net);
        defaults().filter(|_| !has_net).find(is_gross)
    });
    if let Some(model) = gross {
        return SettlementMode::Gross(model.settlement_account);
    }
    let is_bilateral = |model: &SettlementModel| model.net && !model.multilateral;
    // Default models serve a currency without an own one only.
    let in_pairs = match own().next() {
        Some(_) => own().any(is_bilateral),
        None => defaults().any(is_bilateral),
    };
    match in_pairs {
        true => SettlementMode::DeferredInPairs,
        false => SettlementMode::Deferred,
    }
}

/// Adds a committed transfer to the open window, or settles it.
pub(super) fn add_committed(context: &mut Context<'_>, transfer: &ReservedTransfer) {
    let (payer, payee) = (transfer.payer_account, transfer.payee_account);
    let state = &mut *context.state;
    let open = &mut state.settlement.open;
    match state.accounts.settlement_mode(payer) {
        SettlementMode::Off => {}
        SettlementMode::Deferred => open.add(payer, payee, transfer.amount),
        SettlementMode::DeferredInPairs => {
            open.add(payer, payee, transfer.amount);
            open.add_pair(payer, payee, transfer.amount);
        }
        SettlementMode::Gross(kind) => settle_gross(context, transfer, kind),
    }
}

/// Moves both sides from POSITION to the accounts of the gross model. Participants without such an
/// account settle with the window.
fn settle_gross(context: &mut Context<'_>, transfer: &ReservedTransfer, kind: AccountKind) {
    let (payer, payee, amount) = (transfer.payer_account, transfer.payee_account, transfer.amount);
    let state = &mut *context.state;
    let currency = state.accounts.get(payer).expect("it was reserved there").currency;
    let find = |index| account_of(state, index, (kind, currency));
    let (Some(from), Some(to)) = (find(transfer.payer), find(transfer.payee)) else {
        state.settlement.open.add(payer, payee, amount);
        return;
    };
    context.post(Posting { debit: from, credit: payer, amount });
    context.post(Posting { debit: payee, credit: to, amount });
}

pub(super) fn account_of(
    state: &State,
    owner: ParticipantIndex,
    (kind, currency): (AccountKind, Currency),
) -> Option<AccountId> {
    let accounts = state.registry.get(owner).accounts.iter();
    let mut accounts = accounts.filter_map(|id| state.accounts.get(*id));
    accounts.find(|it| it.kind == kind && it.currency == currency).map(|account| account.id)
}
