//! Funds in and out (hub-semantics 4.4; ruling 18 for the available funds). A disabled participant
//! or account neither receives nor pays.
//!
//! A recorded request is recognised by its digest: a resend moves nothing and gets the first
//! result.

use crate::accounts::{AccountKind, Posting};
use crate::change::{EndFundsOut, FundsDirection, MoveFunds};
use crate::context::{Context, Decide};
use crate::ids::{AccountId, Digest, FspName, LogIndex, ParticipantIndex, TransferId};
use crate::money::{Amount, Currency};
use crate::outcome::{AdminOutcome, Outcome};
use crate::state::State;
use crate::transfers::{FinalTransfer, Outflow, RecordedResponse, ResponseKind, TransferLocation};

/// A finished movement of funds: participant, amount, and the record that created it.
struct FundsMovement {
    id: TransferId,
    participant: ParticipantIndex,
    amount: Amount,
    currency: Currency,
    record: LogIndex,
    hash: Digest,
    end: Option<RecordedResponse>,
}

/// Funds in commit at once. Funds out are reserved, or recorded as aborted if funds are
/// insufficient.
impl Decide for MoveFunds {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        start(context, self).unwrap_or_else(|refusal| refusal)
    }
}

/// Ends a reserved outflow: the money leaves, or is returned.
impl Decide for EndFundsOut {
    type Outcome = AdminOutcome;

    fn decide(&self, context: &mut Context<'_>) -> AdminOutcome {
        end_outflow(context, self).unwrap_or_else(|refusal| refusal)
    }
}

fn start(context: &mut Context<'_>, funds: &MoveFunds) -> Result<AdminOutcome, AdminOutcome> {
    assert!(Amount::ZERO <= funds.amount, "the amount of a movement of funds is never negative");
    let (participant, settlement) = settlement_account(context.state, &funds.name, funds.account)?;
    if context
        .state
        .accounts
        .get(settlement)
        .is_none_or(|account| account.currency != funds.currency)
    {
        return Err(AdminOutcome::CurrencyMismatch);
    }
    if let Some(outcome) = outcome_of_known(context.state, funds) {
        return Err(outcome);
    }
    let reconciliation = reconciliation_account(context.state, funds.currency)
        .ok_or(AdminOutcome::HubAccountsMissing)?;
    match funds.direction {
        FundsDirection::In => {
            let amount = funds.amount;
            context.post(Posting { debit: reconciliation, credit: settlement, amount });
            end(context, movement(context, funds, participant), Outcome::Accepted);
            Ok(AdminOutcome::Accepted)
        }
        FundsDirection::Out => Ok(reserve(context, funds, participant, settlement)),
    }
}

fn end_outflow(
    context: &mut Context<'_>,
    command: &EndFundsOut,
) -> Result<AdminOutcome, AdminOutcome> {
    let state = &mut *context.state;
    let (participant, settlement) = settlement_account(state, &command.name, command.account)?;
    let owned = |flow: &Outflow| flow.participant == participant && flow.settlement == settlement;
    if !state.transfers.outflow(&command.id).is_some_and(owned) {
        return Err(match is_resent_end(state, command) {
            true => AdminOutcome::FundsRepeated,
            false => AdminOutcome::FundsOutNotReserved,
        });
    }
    let flow = state.transfers.take_outflow(&command.id).expect("it was found just now");
    let currency = state.accounts.get(settlement).expect("it was found just now").currency;
    let to = match command.commit {
        true => reconciliation_account(state, currency).expect("it was there at the reservation"),
        false => settlement,
    };
    let posting = state.accounts.outflow_end(to, flow.amount);
    context.post(posting);
    let ended = if command.commit { Outcome::Accepted } else { Outcome::FundsOutAborted };
    let movement = FundsMovement {
        id: command.id,
        participant,
        amount: flow.amount,
        currency,
        record: flow.record,
        hash: flow.hash,
        end: Some(recorded_end(command, context.log_index)),
    };
    end(context, movement, ended);
    Ok(AdminOutcome::Accepted)
}

/// The outcome of a movement with a known id.
fn outcome_of_known(state: &State, funds: &MoveFunds) -> Option<AdminOutcome> {
    let stored = match state.transfers.find(&funds.id) {
        TransferLocation::Absent => return None,
        TransferLocation::Final(at) => Some(state.transfers.final_transfer(at).hash),
        TransferLocation::Outflow => state.transfers.outflow(&funds.id).map(|flow| flow.hash),
        TransferLocation::Reserved(_) => None,
    };
    Some(match stored == Some(funds.hash) {
        true => AdminOutcome::FundsRepeated,
        false => AdminOutcome::FundsModified,
    })
}

/// Whether this same request ended the outflow.
fn is_resent_end(state: &State, command: &EndFundsOut) -> bool {
    let TransferLocation::Final(at) = state.transfers.find(&command.id) else { return false };
    let ended = state.transfers.final_transfer(at);
    let is_funds = ended.payee == Some(ParticipantIndex::HUB);
    let same = |taken: RecordedResponse| taken.hash == command.hash;
    is_funds && ended.response.is_some_and(same)
}

fn recorded_end(command: &EndFundsOut, log_index: LogIndex) -> RecordedResponse {
    let kind = if command.commit { ResponseKind::Fulfil } else { ResponseKind::Abort };
    RecordedResponse { kind, hash: command.hash, log_index }
}

/// A movement that starts and ends at once.
fn movement(
    context: &Context<'_>,
    funds: &MoveFunds,
    participant: ParticipantIndex,
) -> FundsMovement {
    let MoveFunds { id, amount, currency, hash, .. } = *funds;
    FundsMovement { id, participant, amount, currency, record: context.log_index, hash, end: None }
}

fn reserve(
    context: &mut Context<'_>,
    funds: &MoveFunds,
    participant: ParticipantIndex,
    settlement: AccountId,
) -> AdminOutcome {
    if available_funds(context.state, participant, settlement) < funds.amount {
        end(context, movement(context, funds, participant), Outcome::FundsInsufficient);
        return AdminOutcome::FundsInsufficient;
    }
    let state = &mut *context.state;
    let posting = state.accounts.outflow(settlement, funds.amount);
    let outflow = Outflow {
        participant,
        settlement,
        amount: funds.amount,
        hash: funds.hash,
        record: context.log_index,
        reserved_at: state.stamp,
    };
    state.transfers.reserve_outflow(funds.id, outflow);
    context.post(posting);
    AdminOutcome::Accepted
}

/// The funds that a participant can take out: its liquidity cover less its position.
fn available_funds(state: &State, participant: ParticipantIndex, settlement: AccountId) -> Amount {
    let liquidity_cover = -state.accounts.value(settlement);
    if !state.settings.funds_out_covers_position {
        return liquidity_cover;
    }
    let mut by_currency = state.registry.get(participant).by_currency.iter();
    let found = by_currency.find(|accounts| accounts.settlement == settlement);
    let position = found.map_or(Amount::ZERO, |accounts| state.accounts.value(accounts.position));
    liquidity_cover
        .checked_sub(position.max(Amount::ZERO))
        .expect("a balance difference is in range")
}

fn end(context: &mut Context<'_>, movement: FundsMovement, outcome: Outcome) {
    let completed = context.state.stamp;
    context.finalize(FinalTransfer {
        id: movement.id,
        payer: Some(movement.participant),
        payee: Some(ParticipantIndex::HUB),
        amount: movement.amount,
        currency: movement.currency,
        hash: movement.hash,
        prepare: movement.record,
        response: movement.end,
        outcome,
        completed,
        changed: context.log_index,
    });
}

fn settlement_account(
    state: &State,
    name: &FspName,
    id: AccountId,
) -> Result<(ParticipantIndex, AccountId), AdminOutcome> {
    let (index, participant) =
        state.registry.find(name).ok_or(AdminOutcome::ParticipantNotFound)?;
    if !participant.active {
        return Err(AdminOutcome::ParticipantInactive);
    }
    if !participant.accounts.contains(&id) {
        return Err(AdminOutcome::AccountNotFound);
    }
    let account = state.accounts.get(id).ok_or(AdminOutcome::AccountNotFound)?;
    if account.kind != AccountKind::Settlement {
        return Err(AdminOutcome::AccountKindWrong);
    }
    if !account.active {
        return Err(AdminOutcome::AccountInactive);
    }
    Ok((index, id))
}

/// The hub's counterpart account for funds of a currency.
pub(crate) fn reconciliation_account(state: &State, currency: Currency) -> Option<AccountId> {
    let hub = state.registry.get(ParticipantIndex::HUB);
    let mut accounts = hub.accounts.iter().filter_map(|id| state.accounts.get(*id));
    accounts
        .find(|account| {
            account.kind == AccountKind::HubReconciliation && account.currency == currency
        })
        .map(|account| account.id)
}
