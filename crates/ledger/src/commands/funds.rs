//! Funds in and out (hub-semantics 4.4; ruling 18 for what may leave). A participant or an account
//! that is switched off gets and gives none.
//!
//! A request that was recorded is recognised by its digest: sent again, it moves nothing and is
//! answered like the first time.

use crate::accounts::{AccountKind, Posting};
use crate::command::{EndFundsOut, FundsDirection, MoveFunds};
use crate::context::Context;
use crate::ids::{AccountId, Digest, FspName, ParticipantIndex, Position, TransferId};
use crate::money::{Amount, Currency};
use crate::outcome::Outcome;
use crate::state::State;
use crate::transfers::{Answer, AnswerKind, Ended, Found, Outflow};

/// A movement of funds that ends: whose, how much, and the record that began it.
struct Movement {
    id: TransferId,
    participant: ParticipantIndex,
    amount: Amount,
    currency: Currency,
    record: Position,
    hash: Digest,
    end: Option<Answer>,
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
    if let Some(outcome) = known(context.state, funds) {
        return outcome;
    }
    let Some(reconciliation) = reconciliation_account(context.state, funds.currency) else {
        return Outcome::HubAccountsMissing;
    };
    match funds.direction {
        FundsDirection::In => {
            let amount = funds.amount;
            context.post(Posting { debit: reconciliation, credit: settlement, amount });
            end(context, movement(context, funds, participant), Outcome::Accepted);
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
        return match is_resent_end(state, command) {
            true => Outcome::FundsRepeated,
            false => Outcome::FundsOutNotReserved,
        };
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
    let movement = Movement {
        id: command.id,
        participant,
        amount: flow.amount,
        currency,
        record: flow.record,
        hash: flow.hash,
        end: Some(answer(command, context.position)),
    };
    end(context, movement, ended);
    Outcome::Accepted
}

/// What becomes of a movement whose id is known already.
fn known(state: &State, funds: &MoveFunds) -> Option<Outcome> {
    let stored = match state.transfers.find(&funds.id) {
        Found::Nothing => return None,
        Found::Ended(at) => Some(state.transfers.ended(at).hash),
        Found::Outflow => state.transfers.outflow(&funds.id).map(|flow| flow.hash),
        Found::Active(_) => None,
    };
    Some(match stored == Some(funds.hash) {
        true => Outcome::FundsRepeated,
        false => Outcome::FundsModified,
    })
}

/// Whether an outflow ended by this very request.
fn is_resent_end(state: &State, command: &EndFundsOut) -> bool {
    let Found::Ended(at) = state.transfers.find(&command.id) else { return false };
    let ended = state.transfers.ended(at);
    let is_funds = ended.payee == Some(ParticipantIndex::HUB);
    let same = |taken: Answer| taken.hash == command.hash;
    is_funds && ended.answer.is_some_and(same)
}

fn answer(command: &EndFundsOut, position: Position) -> Answer {
    let kind = if command.commit { AnswerKind::Fulfil } else { AnswerKind::Abort };
    Answer { kind, hash: command.hash, position }
}

/// A movement that begins, and ends at once.
fn movement(context: &Context<'_>, funds: &MoveFunds, participant: ParticipantIndex) -> Movement {
    let MoveFunds { id, amount, currency, hash, .. } = *funds;
    Movement { id, participant, amount, currency, record: context.position, hash, end: None }
}

fn reserve(
    context: &mut Context<'_>,
    funds: &MoveFunds,
    participant: ParticipantIndex,
    settlement: AccountId,
) -> Outcome {
    if spare(context.state, participant, settlement) < funds.amount {
        end(context, movement(context, funds, participant), Outcome::FundsInsufficient);
        return Outcome::FundsInsufficient;
    }
    let state = &mut *context.state;
    let posting = state.books.outflow(settlement, funds.amount);
    let outflow = Outflow {
        participant,
        settlement,
        amount: funds.amount,
        hash: funds.hash,
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
    context.end(Ended {
        id: movement.id,
        payer: Some(movement.participant),
        payee: Some(ParticipantIndex::HUB),
        amount: movement.amount,
        currency: movement.currency,
        hash: movement.hash,
        prepare: movement.record,
        answer: movement.end,
        outcome,
        completed,
        changed: context.position,
    });
}

fn settlement_account(
    state: &State,
    name: &FspName,
    id: AccountId,
) -> Result<(ParticipantIndex, AccountId), Outcome> {
    let (index, participant) = state.register.find(name).ok_or(Outcome::ParticipantNotFound)?;
    if !participant.active {
        return Err(Outcome::ParticipantInactive);
    }
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

/// The hub's account that funds of a currency come from and go to.
pub(crate) fn reconciliation_account(state: &State, currency: Currency) -> Option<AccountId> {
    let hub = state.register.get(ParticipantIndex::HUB);
    let mut accounts = hub.accounts.iter().filter_map(|id| state.books.get(*id));
    accounts
        .find(|held| held.kind == AccountKind::HubReconciliation && held.currency == currency)
        .map(|account| account.id)
}
