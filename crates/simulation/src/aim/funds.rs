//! How runs reach the outcomes of movements of funds.

use ledger::{
    AdminOutcome, Amount, Change, Digest, EndFundsOut, FspName, FundsDirection, MoveFunds,
    SetParticipantActive,
};

use super::{By, Reach, Reached, Situation, UNAIMED};
use crate::random::spread32;

/// Units of funds that the outcome workload moves.
const SOME: i128 = 10_000;

impl Reach for MoveFunds {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::ParticipantInactive, By::Aim(while_switched_off)),
        (AdminOutcome::AccountNotFound, By::Nothing(UNAIMED)),
        (AdminOutcome::AccountKindWrong, By::SharedAim),
        (AdminOutcome::AccountInactive, By::Aim(into_an_account_that_is_off)),
        (AdminOutcome::CurrencyMismatch, By::Aim(in_another_currency)),
        (AdminOutcome::FundsRepeated, By::Aim(twice)),
        (AdminOutcome::FundsModified, By::Aim(twice_otherwise)),
        (
            AdminOutcome::HubAccountsMissing,
            By::Nothing("participants have accounts only where the hub has them"),
        ),
        (AdminOutcome::FundsInsufficient, By::Aim(too_much_out)),
        (AdminOutcome::Accepted, By::Chance),
    ];
}

impl Reach for EndFundsOut {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::ParticipantInactive, By::SharedAim),
        (AdminOutcome::AccountNotFound, By::Nothing(UNAIMED)),
        (AdminOutcome::AccountKindWrong, By::Nothing(UNAIMED)),
        (AdminOutcome::AccountInactive, By::Nothing("the account rarely goes off meanwhile")),
        (AdminOutcome::FundsRepeated, By::Chance),
        (AdminOutcome::FundsOutNotReserved, By::Aim(end_of_nothing)),
        (AdminOutcome::Accepted, By::Aim(out_and_back)),
    ];
}

/// Some funds in or out of the SETTLEMENT account of a participant; `None` while it has none.
fn funds(
    situation: &mut Situation<'_>,
    name: FspName,
    (direction, units): (FundsDirection, i128),
) -> Option<MoveFunds> {
    let (currency, (_, account)) = (situation.currency(), situation.accounts_in(&name)?);
    let id = situation.outcome_workload.fresh_id();
    let hash = Digest(spread32(situation.outcome_workload.random.next()));
    let amount = Amount::from_units(units);
    Some(MoveFunds { id, name, account, direction, currency, amount, hash })
}

/// One in, to the participant that is drawn.
fn funds_in(situation: &mut Situation<'_>) -> Option<MoveFunds> {
    funds(situation, situation.name, (FundsDirection::In, SOME))
}

fn end_of(funds: &MoveFunds, commit: bool) -> Change {
    let &MoveFunds { id, name, account, hash, .. } = funds;
    EndFundsOut { id, name, account, commit, hash }.into()
}

fn while_switched_off(situation: &mut Situation<'_>) -> Vec<Change> {
    let name = situation.outcome_workload.newcomer(false);
    let Some(funds) = funds(situation, name, (FundsDirection::In, SOME)) else { return Vec::new() };
    let switch = |active| SetParticipantActive { name, active }.into();
    let end = end_of(&funds, false);
    vec![switch(false), funds.into(), end, switch(true)]
}

fn into_an_account_that_is_off(situation: &mut Situation<'_>) -> Vec<Change> {
    let name = situation.outcome_workload.newcomer(false);
    let funds = funds(situation, name, (FundsDirection::In, SOME));
    funds.map(Change::from).into_iter().collect()
}

fn in_another_currency(situation: &mut Situation<'_>) -> Vec<Change> {
    let currency = situation.unused_currency();
    let funds = funds_in(situation).map(|funds| MoveFunds { currency, ..funds });
    funds.map(Change::from).into_iter().collect()
}

fn twice(situation: &mut Situation<'_>) -> Vec<Change> {
    let Some(funds) = funds_in(situation) else { return Vec::new() };
    vec![funds.clone().into(), funds.into()]
}

fn twice_otherwise(situation: &mut Situation<'_>) -> Vec<Change> {
    let Some(funds) = funds_in(situation) else { return Vec::new() };
    let hash = Digest(spread32(situation.outcome_workload.random.next()));
    vec![funds.clone().into(), MoveFunds { hash, ..funds }.into()]
}

fn too_much_out(situation: &mut Situation<'_>) -> Vec<Change> {
    let too_much = (FundsDirection::Out, u64::MAX.into());
    let funds = funds(situation, situation.name, too_much);
    funds.map(Change::from).into_iter().collect()
}

fn end_of_nothing(situation: &mut Situation<'_>) -> Vec<Change> {
    funds_in(situation).map(|funds| end_of(&funds, true)).into_iter().collect()
}

/// Reserved funds that are given back.
fn out_and_back(situation: &mut Situation<'_>) -> Vec<Change> {
    let funds = funds(situation, situation.name, (FundsDirection::Out, SOME));
    funds.map_or_else(Vec::new, |funds| {
        let end = end_of(&funds, false);
        vec![funds.into(), end]
    })
}
