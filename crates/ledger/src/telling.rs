//! What can be told of a decision later, without making it again: the numbers it was made on, what
//! it moved, and what the hub owed from then on.
//!
//! A [`Teller`] looks on while a batch is decided ([`crate::State::apply_watched`]) and hands each
//! decision about a transfer, or about a movement of funds, to a [`Listener`]. It decides nothing.
//! Numbers are those of decisions that were made on numbers: a resend is answered from what is
//! stored, so that none are told.
//!
//! Costs: a few look-ups for a message; nothing is allocated and nothing is kept between batches.

use crate::accounts::AccountKind;
use crate::change::{Change, EndFundsOut, MoveFunds, Redeliver};
use crate::command::{Command, Prepare};
use crate::commands::reconciliation_account;
use crate::ids::{AccountId, FspName, NoticeId, ParticipantIndex, Position, TransferId};
use crate::money::{Amount, Currency};
use crate::notice::NoticeKind;
use crate::outcome::Outcome;
use crate::state::{Effects, Moment, State};
use crate::transfers::Found;

/// One decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// What it was about: a transfer or a movement of funds.
    pub transfer: TransferId,
    /// The record decided on; of an expiry, the first one of the batch that met the deadline.
    pub position: Position,
    /// What was decided.
    pub outcome: Outcome,
    /// The numbers it was made on; `None` for one that looks at none.
    pub numbers: Option<Numbers>,
}

/// The numbers around a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// Of all amounts.
    pub currency: Currency,
    /// Payer and payee, or whose funds they are; `None` for one without such accounts.
    pub sides: [Option<Side>; 2],
    /// The hub's accounts that it may have moved.
    pub hub: [Option<(AccountKind, Held)>; 2],
    /// The hub's name.
    pub hub_name: FspName,
    /// How many notices may be owed to one participant before prepares for it are refused.
    pub lane_capacity: u32,
}

/// One participant's part of the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    /// Its name.
    pub name: FspName,
    /// Whether it may send and receive.
    pub active: bool,
    /// Whether its POSITION account may be used.
    pub account_active: bool,
    /// Its POSITION.
    pub position: Held,
    /// Its SETTLEMENT: the negated cover.
    pub settlement: Held,
    /// Its net debit cap, once set.
    pub cap: Option<Amount>,
    /// Notices owed to it before the decision.
    pub owed: u32,
}

/// A balance around a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Of which account.
    pub account: AccountId,
    /// Before the decision.
    pub before: Amount,
    /// And after it.
    pub after: Amount,
}

/// A notice that a decision made the hub owe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owed {
    /// The notice.
    pub notice: NoticeId,
    /// To whom.
    pub recipient: FspName,
    /// What it says.
    pub kind: NoticeKind,
    /// What it reports.
    pub outcome: Outcome,
}

/// Hears what is told, in the order of the log.
pub trait Listener {
    /// A decision, and what it made the hub owe.
    fn decided(&mut self, decided: &Decided, owed: impl Iterator<Item = Owed>);

    /// The record at `position` says how a delivery of a notice ended that was owed.
    fn delivered(&mut self, notice: NoticeId, position: Position);
}

/// Looks on.
#[derive(Clone, Debug, Default)]
pub struct Teller {
    /// The decision under way, and how many notices its batch had made owed before it.
    under_way: Option<(Decided, usize)>,
}

impl Teller {
    /// Sees one moment of a batch.
    pub fn watch(
        &mut self,
        moment: Moment<'_>,
        state: &State,
        effects: &Effects,
        listener: &mut impl Listener,
    ) {
        match moment {
            Moment::Opened | Moment::DeadlinesFired => {}
            Moment::Expiring(id) => {
                let at = Position(state.position.0 + 1);
                self.begin(id, at, of_open(state, &id), effects);
            }
            Moment::Expired(_) => self.end((Outcome::Expired, None), state, effects, listener),
            Moment::Before(position, Command::FinishDeliveries(ends)) => {
                let owed = ends.iter().filter(|end| state.outbox.owes(end.notice));
                owed.for_each(|end| listener.delivered(end.notice, position));
            }
            Moment::Before(position, command) => {
                if let Some((id, numbers)) = subject(state, command) {
                    self.begin(id, position, numbers, effects);
                }
            }
            Moment::After(_, command, outcome) => {
                let back = ended_at_once(state, command, outcome);
                self.end((outcome, back), state, effects, listener);
            }
        }
    }

    fn begin(
        &mut self,
        transfer: TransferId,
        position: Position,
        numbers: Option<Numbers>,
        effects: &Effects,
    ) {
        // The outcome comes with the end.
        let decided = Decided { transfer, position, outcome: Outcome::Accepted, numbers };
        self.under_way = Some((decided, effects.notices.len()));
    }

    /// The decision is made. What it reserved may be `back` already.
    fn end(
        &mut self,
        (outcome, back): (Outcome, Option<Amount>),
        state: &State,
        effects: &Effects,
        listener: &mut impl Listener,
    ) {
        // It is heavy: whoever wants to keep it copies it.
        let Some((decided, noticed)) = &mut self.under_way else { return };
        decided.outcome = outcome;
        if let Some(numbers) = &mut decided.numbers {
            look_again(numbers, state);
            back.into_iter().for_each(|amount| hold(numbers, amount));
        }
        let id = decided.transfer;
        let new = effects.notices[*noticed..].iter().filter(|notice| notice.transfer == Some(id));
        let owed = new.map(|notice| Owed {
            notice: notice.id,
            recipient: state.register.get(notice.recipient).name,
            kind: notice.kind,
            outcome: notice.outcome,
        });
        listener.decided(decided, owed);
        self.under_way = None;
    }
}

/// What a command is about, if it is a transfer or a movement of funds, and the numbers that are
/// looked at for it.
fn subject(state: &State, command: &Command) -> Option<(TransferId, Option<Numbers>)> {
    match command {
        Command::Prepare(prepare) => Some((prepare.id, of_new(state, prepare))),
        Command::Fulfil(fulfil) => Some((fulfil.id, of_open(state, &fulfil.id))),
        Command::Abort(abort) => Some((abort.id, of_open(state, &abort.id))),
        Command::Administer(administer) => match &administer.change {
            Change::MoveFunds(funds) => Some((funds.id, of_funds(state, funds))),
            Change::EndFundsOut(end) => Some((end.id, of_outflow(state, end))),
            Change::Redeliver(Redeliver { notice }) => {
                let transfer = state.outbox.dead().get(notice)?.notice.transfer?;
                Some((transfer, None))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Of a prepare by a participant that is not a resend.
fn of_new(state: &State, prepare: &Prepare) -> Option<Numbers> {
    state.register.sender(&prepare.source)?;
    if state.transfers.find(&prepare.id) != Found::Nothing {
        return None;
    }
    let parties = [&prepare.payer, &prepare.payee];
    let parties = parties.map(|name| state.register.find(name).map(|(index, _)| index));
    Some(numbers(state, prepare.currency, parties, &[AccountKind::InFlight]))
}

/// Of a transfer that is in flight.
fn of_open(state: &State, id: &TransferId) -> Option<Numbers> {
    let Found::Active(slot) = state.transfers.find(id) else { return None };
    let open = state.transfers.active(slot);
    let currency = state.books.get(open.payer_account)?.currency;
    let parties = [Some(open.payer), Some(open.payee)];
    Some(numbers(state, currency, parties, &[AccountKind::InFlight]))
}

const OF_FUNDS: [AccountKind; 2] = [AccountKind::Outflow, AccountKind::HubReconciliation];

/// Of a movement of funds that is not a resend.
fn of_funds(state: &State, funds: &MoveFunds) -> Option<Numbers> {
    if state.transfers.find(&funds.id) != Found::Nothing {
        return None;
    }
    let owner = state.register.find(&funds.name).map(|(index, _)| index);
    Some(numbers(state, funds.currency, [owner, None], &OF_FUNDS))
}

/// Of an outflow that is reserved.
fn of_outflow(state: &State, end: &EndFundsOut) -> Option<Numbers> {
    let flow = state.transfers.outflow(&end.id)?;
    let currency = state.books.get(flow.settlement)?.currency;
    Some(numbers(state, currency, [Some(flow.participant), None], &OF_FUNDS))
}

fn numbers(
    state: &State,
    currency: Currency,
    [one, other]: [Option<ParticipantIndex>; 2],
    kinds: &[AccountKind],
) -> Numbers {
    let side = |index| side(state, index, currency);
    let hub = |at: usize| {
        let kind = *kinds.get(at)?;
        let account = match kind {
            AccountKind::HubReconciliation => reconciliation_account(state, currency)?,
            _ => state.books.internal_of(currency, kind)?,
        };
        Some((kind, held(state, account)))
    };
    Numbers {
        currency,
        // A payer that is its own payee is told once.
        sides: [one.and_then(side), other.filter(|other| Some(*other) != one).and_then(side)],
        hub: [hub(0), hub(1)],
        hub_name: state.hub,
        lane_capacity: state.settings.lane_capacity,
    }
}

fn side(state: &State, index: ParticipantIndex, currency: Currency) -> Option<Side> {
    let participant = state.register.get(index);
    let holding = participant.holding(currency)?;
    Some(Side {
        name: participant.name,
        active: participant.active,
        account_active: state.books.get(holding.position)?.active,
        position: held(state, holding.position),
        settlement: held(state, holding.settlement),
        cap: holding.limit.map(|limit| limit.value),
        owed: state.outbox.owed_to(index),
    })
}

fn look_again(numbers: &mut Numbers, state: &State) {
    let look = |held: &mut Held| held.after = state.books.value(held.account);
    for side in numbers.sides.iter_mut().flatten() {
        look(&mut side.position);
        look(&mut side.settlement);
    }
    for (_, held) in numbers.hub.iter_mut().flatten() {
        look(held);
    }
}

/// What a prepare reserved that met its deadline within its own decision, and so holds no more.
fn ended_at_once(state: &State, command: &Command, outcome: Outcome) -> Option<Amount> {
    let (Command::Prepare(prepare), Outcome::PrepareReserved) = (command, outcome) else {
        return None;
    };
    (prepare.expiration_ms <= state.stamp.millis()).then_some(prepare.amount)
}

/// The numbers as they are while the payer's amount is reserved.
fn hold(numbers: &mut Numbers, amount: Amount) {
    let add = |held: &mut Held, more: Amount| {
        held.after = held.after.checked_add(more).expect("it was that within the decision");
    };
    numbers.sides[0].iter_mut().for_each(|payer| add(&mut payer.position, amount));
    for (kind, held) in numbers.hub.iter_mut().flatten() {
        if *kind == AccountKind::InFlight {
            add(held, -amount);
        }
    }
}

fn held(state: &State, account: AccountId) -> Held {
    let before = state.books.value(account);
    Held { account, before, after: before }
}
