//! The model of funds in and out (hub-semantics 4.4; ruling 18 for what may leave). A request on
//! record is known by its digest: sent again it moves nothing.

use ledger::{
    AccountId, AccountKind, AdminOutcome, Amount, Cause, Change, Currency, Digest, EndFundsOut,
    FspName, FundsDirection, MoveFunds, Outcome, Position, SetParticipantActive, Stamp,
    TransferState, TransferView,
};

use super::{Model, Money, Predict};
use crate::aim::{By, Reach, Reached, Situation};
use crate::random::spread32;

/// Units of funds that the examiner moves.
const SOME: i128 = 10_000;

/// A movement of funds, whatever became of it.
#[derive(Clone, Debug)]
pub(super) struct Movement {
    /// Place of the account; none for one that moved nothing.
    account: usize,
    amount: Money,
    currency: Currency,
    hash: Digest,
    /// The record that began it.
    begun: u64,
    changed: Stamp,
    fate: Fate,
    /// Digest of the request that ended it.
    end: Option<Digest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Reserved,
    Done,
    /// It never was reserved: too little to take it from.
    Insufficient,
    GivenBack,
}

impl Movement {
    pub(super) fn is_reserved(&self) -> bool {
        self.fate == Fate::Reserved
    }

    /// What a GET of it would find.
    pub(super) fn view(&self) -> TransferView {
        let cause = |outcome| Some(Cause { outcome, record: Position(self.begun) });
        let (state, cause) = match self.fate {
            Fate::Reserved => (TransferState::Reserved, None),
            Fate::Done => (TransferState::Committed, None),
            Fate::Insufficient => (TransferState::Aborted, cause(Outcome::FundsInsufficient)),
            Fate::GivenBack => (TransferState::Aborted, cause(Outcome::FundsOutAborted)),
        };
        let (amount, currency) = (Amount::from_units(self.amount), self.currency);
        let (changed, prepare) = (self.changed, Position(self.begun));
        TransferView { state, amount, currency, changed, prepare, answer: None, cause }
    }
}

impl Model {
    pub(super) fn move_funds(&mut self, funds: &MoveFunds) -> Outcome {
        let account = match self.settlement_account(&funds.name, funds.account) {
            Ok(account) => account,
            Err(outcome) => return outcome,
        };
        if self.scheme.accounts[account].currency != funds.currency {
            return Outcome::CurrencyMismatch;
        }
        if let Some(outcome) = self.known_movement(funds) {
            return outcome;
        }
        let hub = |kind| self.scheme.hub_account(funds.currency, kind);
        let Some(reconciliation) = hub(AccountKind::HubReconciliation) else {
            return Outcome::HubAccountsMissing;
        };
        let amount = funds.amount.units();
        let fate = match funds.direction {
            FundsDirection::In => {
                self.scheme.add(account, -amount);
                self.scheme.add(reconciliation, amount);
                Fate::Done
            }
            FundsDirection::Out if self.spare(account) < amount => Fate::Insufficient,
            FundsDirection::Out => {
                self.scheme.add(account, amount);
                Fate::Reserved
            }
        };
        let MoveFunds { currency, hash, .. } = *funds;
        let (begun, changed) = (self.position, self.stamp);
        let movement =
            Movement { account, amount, currency, hash, begun, changed, fate, end: None };
        self.movements.insert(funds.id, movement);
        if fate == Fate::Insufficient { Outcome::FundsInsufficient } else { Outcome::Accepted }
    }

    pub(super) fn end_funds_out(&mut self, end: &EndFundsOut) -> Outcome {
        let account = match self.settlement_account(&end.name, end.account) {
            Ok(account) => account,
            Err(outcome) => return outcome,
        };
        let Some(movement) = self.movements.get_mut(&end.id) else {
            return Outcome::FundsOutNotReserved;
        };
        if !movement.is_reserved() || movement.account != account {
            let again = movement.end == Some(end.hash);
            return if again { Outcome::FundsRepeated } else { Outcome::FundsOutNotReserved };
        }
        movement.changed = self.stamp;
        movement.end = Some(end.hash);
        movement.fate = if end.commit { Fate::Done } else { Fate::GivenBack };
        let amount = movement.amount;
        let to = match end.commit {
            true => {
                let currency = self.scheme.accounts[account].currency;
                let hub = self.scheme.hub_account(currency, AccountKind::HubReconciliation);
                hub.expect("it was there when the outflow was reserved")
            }
            false => account,
        };
        self.scheme.add(to, -amount);
        self.given_back += u64::from(!end.commit);
        Outcome::Accepted
    }

    /// What becomes of a movement whose id was used before.
    fn known_movement(&self, funds: &MoveFunds) -> Option<Outcome> {
        let movement = self.movements.get(&funds.id);
        if movement.is_none() && !self.transfers.contains_key(&funds.id) {
            return None;
        }
        Some(match movement.is_some_and(|known| known.hash == funds.hash) {
            true => Outcome::FundsRepeated,
            false => Outcome::FundsModified,
        })
    }

    /// Cover, less what is owed.
    fn spare(&self, account: usize) -> Money {
        let cover = -self.scheme.accounts[account].value;
        let owed = match self.settings.funds_out_covers_position {
            true => self.scheme.position_beside(account).max(0),
            false => 0,
        };
        cover - owed
    }

    fn settlement_account(&self, name: &FspName, id: AccountId) -> Result<usize, Outcome> {
        if self.scheme.is_switched_off(name) {
            return Err(Outcome::ParticipantInactive);
        }
        let account = self.scheme.account_of(name, id)?;
        match &self.scheme.accounts[account] {
            held if held.kind != AccountKind::Settlement => Err(Outcome::AccountKindWrong),
            held if !held.active => Err(Outcome::AccountInactive),
            _ => Ok(account),
        }
    }
}

impl Predict for MoveFunds {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.move_funds(self)
    }
}

impl Predict for EndFundsOut {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.end_funds_out(self)
    }
}

impl Reach for MoveFunds {
    const REACHED: Reached = &[
        (AdminOutcome::ParticipantNotFound, By::SharedAim),
        (AdminOutcome::ParticipantInactive, By::Aim(while_switched_off)),
        (AdminOutcome::AccountNotFound, By::Nothing(super::UNAIMED)),
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
        (AdminOutcome::ParticipantInactive, By::Chance),
        (AdminOutcome::AccountNotFound, By::Nothing(super::UNAIMED)),
        (AdminOutcome::AccountKindWrong, By::Nothing(super::UNAIMED)),
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
    let (currency, (_, account)) = (situation.currency(), situation.holding(&name)?);
    let id = situation.examiner.fresh_id();
    let hash = Digest(spread32(situation.examiner.random.next()));
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
    let name = situation.examiner.newcomer(false);
    let Some(funds) = funds(situation, name, (FundsDirection::In, SOME)) else { return Vec::new() };
    let switch = |active| SetParticipantActive { name, active }.into();
    vec![switch(false), funds.into(), switch(true)]
}

fn into_an_account_that_is_off(situation: &mut Situation<'_>) -> Vec<Change> {
    let name = situation.examiner.newcomer(false);
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
    let hash = Digest(spread32(situation.examiner.random.next()));
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
