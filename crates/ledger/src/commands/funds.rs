//! Funds in and out (hub-semantics 4.4; ruling 18 for what may leave).

use crate::accounts::{AccountKind, Posting};
use crate::command::{EndFundsOut, FundsDirection, MoveFunds};
use crate::context::Context;
use crate::ids::{AccountId, Digest, FspName, ParticipantIndex, Position, TransferId};
use crate::money::{Amount, Currency};
use crate::outcome::Outcome;
use crate::state::State;
use crate::transfers::{Ended, Found, Outflow};

/// A movement of funds that ends: whose, and the record that began it.
struct Movement {
    id: TransferId,
    participant: ParticipantIndex,
    record: Position,
}

/// Funds in commit at once; funds out are reserved, or recorded as aborted for want of funds.
pub(super) fn start(context: &mut Context<'_>, funds: &MoveFunds) -> Outcome {
    assert!(Amount::ZERO <= funds.amount, "the amount of a movement of funds is never negative");
    let (participant, settlement) =
        match settlement_account(context.state, &funds.name, funds.account) {
            Ok(found) => found,
            Err(outcome) => return outcome,
        };
    if context.state.books.get(settlement).is_none_or(|held| held.currency != funds.currency) {
        return Outcome::CurrencyMismatch;
    }
    if context.state.transfers.find(&funds.id) != Found::Nothing {
        return Outcome::FundsIdInUse;
    }
    let Some(reconciliation) = reconciliation_account(context.state, funds.currency) else {
        return Outcome::HubAccountsMissing;
    };
    match funds.direction {
        FundsDirection::In => {
            let amount = funds.amount;
            context.post(Posting { debit: reconciliation, credit: settlement, amount });
            let record = context.position;
            end(context, Movement { id: funds.id, participant, record }, Outcome::Accepted);
            Outcome::Accepted
        }
        FundsDirection::Out => reserve(context, funds, participant, settlement),
    }
}

/// Ends a reserved outflow: the money leaves, or is given back.
pub(super) fn end_outflow(context: &mut Context<'_>, command: &EndFundsOut) -> Outcome {
    let state = &mut *context.state;
    let (participant, settlement) = match settlement_account(state, &command.name, command.account)
    {
        Ok(found) => found,
        Err(outcome) => return outcome,
    };
    let owned = |flow: &Outflow| flow.participant == participant && flow.settlement == settlement;
    if !state.transfers.outflow(&command.id).is_some_and(owned) {
        return Outcome::FundsOutNotReserved;
    }
    let flow = state.transfers.take_outflow(&command.id).expect("it was found just now");
    let currency = state.books.get(settlement).expect("it was found just now").currency;
    let to = match command.commit {
        true => reconciliation_account(state, currency).expect("it was there at the reservation"),
        false => settlement,
    };
    let posting = state.books.outflow_end(to, flow.amount);
    context.post(posting);
    let ended = if command.commit { Outcome::Accepted } else { Outcome::FundsOutAborted };
    end(context, Movement { id: command.id, participant, record: flow.record }, ended);
    Outcome::Accepted
}

fn reserve(
    context: &mut Context<'_>,
    funds: &MoveFunds,
    participant: ParticipantIndex,
    settlement: AccountId,
) -> Outcome {
    let state = &mut *context.state;
    if spare(state, participant, settlement) < funds.amount {
        let record = context.position;
        end(context, Movement { id: funds.id, participant, record }, Outcome::FundsInsufficient);
        return Outcome::FundsInsufficient;
    }
    let posting = state.books.outflow(settlement, funds.amount);
    let outflow = Outflow {
        participant,
        settlement,
        amount: funds.amount,
        record: context.position,
        reserved_at: state.stamp,
    };
    state.transfers.reserve_outflow(funds.id, outflow);
    context.post(posting);
    Outcome::Accepted
}

/// What a participant can take out: its cover, less what it owes.
fn spare(state: &State, participant: ParticipantIndex, settlement: AccountId) -> Amount {
    let cover = -state.books.value(settlement);
    if !state.settings.funds_out_covers_position {
        return cover;
    }
    let holdings = &state.register.get(participant).holdings;
    let holding = holdings.iter().find(|holding| holding.settlement == settlement);
    let position = holding.map_or(Amount::ZERO, |holding| state.books.value(holding.position));
    cover.checked_sub(position.max(Amount::ZERO)).expect("a balance difference is in range")
}

fn end(context: &mut Context<'_>, movement: Movement, outcome: Outcome) {
    let completed = context.state.stamp;
    context.state.transfers.end(Ended {
        id: movement.id,
        payer: Some(movement.participant),
        payee: Some(ParticipantIndex::HUB),
        hash: Digest::default(),
        prepare: movement.record,
        answer: None,
        outcome,
        completed,
    });
}

fn settlement_account(
    state: &State,
    name: &FspName,
    id: AccountId,
) -> Result<(ParticipantIndex, AccountId), Outcome> {
    let (index, participant) = state.register.find(name).ok_or(Outcome::ParticipantNotFound)?;
    if !participant.accounts.contains(&id) {
        return Err(Outcome::AccountNotFound);
    }
    let account = state.books.get(id).ok_or(Outcome::AccountNotFound)?;
    if account.kind != AccountKind::Settlement {
        return Err(Outcome::AccountKindWrong);
    }
    if !account.active {
        return Err(Outcome::AccountInactive);
    }
    Ok((index, id))
}

fn reconciliation_account(state: &State, currency: Currency) -> Option<AccountId> {
    let hub = state.register.get(ParticipantIndex::HUB);
    let mut accounts = hub.accounts.iter().filter_map(|id| state.books.get(*id));
    accounts
        .find(|held| held.kind == AccountKind::HubReconciliation && held.currency == currency)
        .map(|account| account.id)
}
