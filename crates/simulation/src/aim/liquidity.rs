//! How runs reach the outcomes of liquidity alarms and of adjustments.

use ledger::{
    AdjustBalance, AdminOutcome, Amount, Change, CheckLiquidity, Digest, FinishAlerts, State,
};

use super::{By, Reach, Reached, Situation, UNAIMED};
use crate::random::spread32;

/// Units that an adjustment adds to a balance; the next one takes them back.
const SOME: i128 = 10_000;

impl Reach for CheckLiquidity {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::AccountNotFound, By::Nothing(UNAIMED)),
        (AdminOutcome::LimitsMissing, By::Nothing(UNAIMED)),
        (AdminOutcome::LiquidityUnchanged, By::Aim(check_twice)),
        (AdminOutcome::Accepted, By::Aim(check_all)),
    ];
}

impl Reach for FinishAlerts {
    const REACHED: Reached = &[(AdminOutcome::Accepted, By::Aim(finish_oldest))];
}

impl Reach for AdjustBalance {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::AccountNotFound, By::Nothing(UNAIMED)),
        (AdminOutcome::AccountKindWrong, By::Nothing(UNAIMED)),
        (AdminOutcome::CurrencyMismatch, By::Aim(in_another_currency)),
        (AdminOutcome::FundsRepeated, By::Aim(twice)),
        (AdminOutcome::FundsModified, By::Aim(twice_otherwise)),
        (
            AdminOutcome::HubAccountsMissing,
            By::Nothing("participants have accounts only where the hub has them"),
        ),
        (AdminOutcome::Accepted, By::Aim(there_and_back)),
    ];
}

/// Checks every participant, so that one whose position has crossed its threshold is found.
fn check_all(situation: &mut Situation<'_>) -> Vec<Change> {
    let currency = situation.currency();
    let participants = situation.state.into_iter().flat_map(|state| state.registry().iter());
    participants.map(|(_, it)| CheckLiquidity { name: it.name, currency }.into()).collect()
}

fn check_twice(situation: &mut Situation<'_>) -> Vec<Change> {
    let check = CheckLiquidity { name: situation.name, currency: situation.currency() };
    vec![check.clone().into(), check.into()]
}

fn finish_oldest(situation: &mut Situation<'_>) -> Vec<Change> {
    let owed = situation.state.into_iter().flat_map(|state: &State| state.alerts().owed());
    let alerts = owed.take(3).map(|alert| alert.id).collect();
    vec![FinishAlerts { alerts }.into()]
}

/// An adjustment of the POSITION account of the drawn participant; `None` while it has no such
/// account.
fn adjustment(situation: &mut Situation<'_>, units: i128) -> Option<AdjustBalance> {
    let name = situation.name;
    let (currency, (account, _)) = (situation.currency(), situation.accounts_in(&name)?);
    let id = situation.outcome_workload.fresh_id();
    let hash = Digest(spread32(situation.outcome_workload.random.next()));
    Some(AdjustBalance { id, name, account, currency, amount: Amount::from_units(units), hash })
}

fn in_another_currency(situation: &mut Situation<'_>) -> Vec<Change> {
    let currency = situation.unused_currency();
    let wrong = adjustment(situation, SOME).map(|it| AdjustBalance { currency, ..it });
    wrong.map(Change::from).into_iter().collect()
}

fn twice(situation: &mut Situation<'_>) -> Vec<Change> {
    let Some(one) = adjustment(situation, 0) else { return Vec::new() };
    vec![one.clone().into(), one.into()]
}

fn twice_otherwise(situation: &mut Situation<'_>) -> Vec<Change> {
    let Some(one) = adjustment(situation, 0) else { return Vec::new() };
    let hash = Digest(spread32(situation.outcome_workload.random.next()));
    vec![one.clone().into(), AdjustBalance { hash, ..one }.into()]
}

fn there_and_back(situation: &mut Situation<'_>) -> Vec<Change> {
    let changes = [SOME, -SOME].map(|units| adjustment(situation, units).map(Change::from));
    changes.into_iter().flatten().collect()
}
