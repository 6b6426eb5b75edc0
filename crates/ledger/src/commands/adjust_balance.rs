//! `POST /participants/{name}/accounts/{id}/adjustments`: the operator corrects a POSITION or
//! SETTLEMENT account against the hub's reconciliation account. A positive amount raises the
//! balance: the participant owes more, or has less on deposit.
//!
//! Disabled participants and accounts can be adjusted: their balances may have to be closed.

use super::funds::reconciliation_account;
use crate::accounts::{AccountKind, Posting};
use crate::change::AdjustBalance;
use crate::context::{Context, Decide};
use crate::ids::ParticipantIndex;
use crate::money::Amount;
use crate::outcome::{AdminOutcome, Outcome};
use crate::state::State;
use crate::transfers::{FinalTransfer, TransferLocation};

impl Decide for AdjustBalance {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        adjust(context, self).unwrap_or_else(|refusal| refusal)
    }
}

fn adjust(
    context: &mut Context<'_>,
    command: &AdjustBalance,
) -> Result<AdminOutcome, AdminOutcome> {
    let state = &*context.state;
    let participant = check_account(state, command)?;
    if let Some(known) = known(state, command) {
        return Err(known);
    }
    let reconciliation =
        reconciliation_account(state, command.currency).ok_or(AdminOutcome::HubAccountsMissing)?;
    let (debit, credit, amount) = match command.amount < Amount::ZERO {
        true => (reconciliation, command.account, -command.amount),
        false => (command.account, reconciliation, command.amount),
    };
    context.post_apart(Posting { debit, credit, amount });
    let completed = context.state.stamp;
    context.finalize(FinalTransfer {
        id: command.id,
        payer: Some(participant),
        payee: Some(ParticipantIndex::HUB),
        amount: command.amount,
        currency: command.currency,
        hash: command.hash,
        prepare: context.log_index,
        response: None,
        outcome: Outcome::Accepted,
        completed,
        changed: context.log_index,
    });
    Ok(AdminOutcome::Accepted)
}

fn check_account(state: &State, command: &AdjustBalance) -> Result<ParticipantIndex, AdminOutcome> {
    let found = state.registry.find(&command.name);
    let (index, participant) = found.ok_or(AdminOutcome::ParticipantNotFound)?;
    let account = state.accounts.get(command.account);
    let account = account.filter(|it| participant.accounts.contains(&it.id));
    let account = account.ok_or(AdminOutcome::AccountNotFound)?;
    match account.kind {
        AccountKind::Position | AccountKind::Settlement => {}
        AccountKind::HubReconciliation
        | AccountKind::HubMultilateralSettlement
        | AccountKind::InterchangeFee
        | AccountKind::InterchangeFeeSettlement
        | AccountKind::HubFee
        | AccountKind::InFlight
        | AccountKind::Outflow
        | AccountKind::Opening => return Err(AdminOutcome::AccountKindWrong),
    }
    match account.currency == command.currency {
        true => Ok(index),
        false => Err(AdminOutcome::CurrencyMismatch),
    }
}

/// The outcome of an adjustment with a known id.
fn known(state: &State, command: &AdjustBalance) -> Option<AdminOutcome> {
    let is_same = match state.transfers.find(&command.id) {
        TransferLocation::Absent => return None,
        TransferLocation::Final(at) => state.transfers.final_transfer(at).hash == command.hash,
        TransferLocation::Outflow | TransferLocation::Reserved(_) => false,
    };
    Some(if is_same { AdminOutcome::FundsRepeated } else { AdminOutcome::FundsModified })
}
