//! Records each decision when it is made: its inputs, its postings and the notices it created.
//!
//! A [`DecisionRecorder`] observes a batch ([`crate::State::apply_watched`]) and passes each
//! decision about a transfer or a movement of funds to a [`DecisionSink`]. It decides nothing. A
//! command names the rows ([`Command::rows`]) and accounts that it concerns. Their number is not
//! bounded. A resend is answered from the stored row, so its decision has no inputs.
//!
//! Costs: a few look-ups per message. Buffers are reused, so only their growth allocates.

use alloc::vec::Vec;

use crate::accounts::AccountKind;
use crate::command::{Command, Prepare};
use crate::command_scope::CommandScope;
use crate::commands::reconciliation_account;
use crate::decision::{
    BalanceChange, Decision, DecisionInputs, HubAccount, OwedNotice, PartyInputs,
};
use crate::ids::{AccountId, LogIndex, NoticeId, ParticipantIndex, TransferId};
use crate::money::{Amount, Currency};
use crate::outcome::Outcome;
use crate::state::{ApplyStep, Effects, State};
use crate::transfers::Found;

/// Receives decisions in the order of the log.
pub trait DecisionSink {
    /// Receives a decision.
    fn decided(&mut self, decided: &Decision);

    /// Receives the end of a delivery: the record at `log_index` ends that of an owed notice.
    fn delivered(&mut self, notice: NoticeId, log_index: LogIndex);
}

/// Observes batches.
#[derive(Clone, Debug, Default)]
pub struct DecisionRecorder {
    /// Subject of the current command; empty if it needs no record.
    rows: Vec<TransferId>,
    log_index: LogIndex,
    /// Number of notices that the batch created before the command.
    noticed: usize,
    inputs: Inputs,
    owed: Vec<OwedNotice>,
}

/// The accounts that the current command concerns.
#[derive(Clone, Debug, Default)]
struct Inputs {
    /// Whether the decision depends on them.
    is_looked_at: bool,
    sides: Vec<PartyInputs>,
    hub: Vec<HubAccount>,
}

impl DecisionRecorder {
    /// Observes one step of a batch.
    pub fn watch(
        &mut self,
        moment: ApplyStep<'_>,
        state: &State,
        effects: &Effects,
        listener: &mut impl DecisionSink,
    ) {
        match moment {
            ApplyStep::Opened | ApplyStep::DeadlinesFired => {}
            ApplyStep::Expiring(id) => {
                self.begin(LogIndex(state.log_index.0 + 1), effects, [id]);
                self.inputs.add_open(state, &id);
            }
            ApplyStep::Expired(_) => self.end((Outcome::Expired, None), state, effects, listener),
            ApplyStep::Before(log_index, Command::FinishDeliveries(ends)) => {
                let owed = ends.iter().filter(|end| state.outbox.owes(end.notice));
                owed.for_each(|end| listener.delivered(end.notice, log_index));
            }
            ApplyStep::Before(log_index, command) => {
                self.begin(log_index, effects, command.rows().copied());
                self.add(state, command.about());
            }
            ApplyStep::After(_, command, outcome) => {
                let back = reserved_for_no_time(state, command, outcome);
                self.end((outcome, back), state, effects, listener);
            }
        }
    }

    fn begin(
        &mut self,
        log_index: LogIndex,
        effects: &Effects,
        rows: impl IntoIterator<Item = TransferId>,
    ) {
        (self.log_index, self.noticed) = (log_index, effects.notices.len());
        self.rows.clear();
        self.rows.extend(rows);
        self.inputs.is_looked_at = false;
        self.inputs.sides.clear();
        self.inputs.hub.clear();
    }

    fn add(&mut self, state: &State, about: CommandScope<'_>) {
        match about {
            CommandScope::Deliveries(_) | CommandScope::Nothing => {}
            CommandScope::NewTransfer(prepare) => self.inputs.add_new(state, prepare),
            CommandScope::OpenTransfer(id) => self.inputs.add_open(state, id),
            CommandScope::Funds(funds) => {
                if state.transfers.find(&funds.id) == Found::Nothing {
                    let owner = state.registry.find(&funds.name).map(|(index, _)| index);
                    self.inputs.add_funds(state, owner, funds.currency);
                }
            }
            CommandScope::Adjustment(adjustment) => {
                if state.transfers.find(&adjustment.id) == Found::Nothing {
                    let owner = state.registry.find(&adjustment.name).map(|(index, _)| index);
                    self.inputs.add_funds(state, owner, adjustment.currency);
                }
            }
            CommandScope::Outflow(end) => {
                let Some(flow) = state.transfers.outflow(&end.id) else { return };
                let account = state.accounts.get(flow.settlement).expect("it was reserved there");
                self.inputs.add_funds(state, Some(flow.participant), account.currency);
            }
            CommandScope::DeadLetter(notice) => {
                let letter = state.outbox.dead().get(&notice);
                self.rows.extend(letter.and_then(|letter| letter.notice.transfer));
            }
        }
    }

    /// Records the decision for each row that it concerns. `returned` is an amount that it reserved
    /// and that is already back.
    fn end(
        &mut self,
        (outcome, back): (Outcome, Option<Amount>),
        state: &State,
        effects: &Effects,
        listener: &mut impl DecisionSink,
    ) {
        let Self { rows, inputs, owed, .. } = self;
        let Some(first) = rows.first() else { return };
        inputs.look_again(state);
        back.into_iter().for_each(|amount| inputs.hold(amount));
        let numbers = inputs.is_looked_at.then(|| inputs.take(state));
        let owed = core::mem::take(owed);
        let mut decided =
            Decision { transfer: *first, log_index: self.log_index, outcome, numbers, owed };
        let new = &effects.notices[self.noticed..];
        for row in rows.drain(..) {
            decided.transfer = row;
            decided.owed.clear();
            let own = new.iter().filter(|notice| notice.transfer == Some(row));
            decided.owed.extend(own.map(|notice| OwedNotice {
                notice: notice.id,
                recipient: state.registry.get(notice.recipient).name,
                kind: notice.kind,
                outcome: notice.outcome,
            }));
            listener.decided(&decided);
        }
        self.owed = decided.owed;
        if let Some(DecisionInputs { sides, hub, .. }) = decided.numbers {
            (self.inputs.sides, self.inputs.hub) = (sides, hub);
        }
    }
}

impl Inputs {
    /// Adds the inputs of a prepare, unless it is a resend or its sender is not a participant.
    fn add_new(&mut self, state: &State, prepare: &Prepare) {
        let is_new = state.transfers.find(&prepare.id) == Found::Nothing;
        if !is_new || state.registry.sender(&prepare.source).is_none() {
            return;
        }
        self.is_looked_at = true;
        for party in [&prepare.payer, &prepare.payee] {
            if let Some((index, _)) = state.registry.find(party) {
                self.add_side(state, index, prepare.currency);
            }
        }
        self.add_hub(state, AccountKind::InFlight, prepare.currency);
    }

    /// Adds the inputs of a transfer in flight.
    fn add_open(&mut self, state: &State, id: &TransferId) {
        let Found::Reserved(slot) = state.transfers.find(id) else { return };
        let open = state.transfers.active(slot);
        let account = state.accounts.get(open.payer_account).expect("it was reserved there");
        self.is_looked_at = true;
        for party in [open.payer, open.payee] {
            self.add_side(state, party, account.currency);
        }
        self.add_hub(state, AccountKind::InFlight, account.currency);
    }

    fn add_funds(&mut self, state: &State, owner: Option<ParticipantIndex>, currency: Currency) {
        self.is_looked_at = true;
        owner.into_iter().for_each(|owner| self.add_side(state, owner, currency));
        self.add_hub(state, AccountKind::Outflow, currency);
        self.add_hub(state, AccountKind::HubReconciliation, currency);
    }

    /// Adds a participant's accounts in a currency, once.
    fn add_side(&mut self, state: &State, index: ParticipantIndex, currency: Currency) {
        let participant = state.registry.get(index);
        let Some(holding) = participant.holding(currency) else { return };
        if self.sides.iter().any(|side| side.position.account == holding.position) {
            return;
        }
        let position = state.accounts.get(holding.position).expect("a holding has its accounts");
        self.sides.push(PartyInputs {
            name: participant.name,
            currency,
            active: participant.active,
            account_active: position.active,
            position: held(state, holding.position),
            settlement: held(state, holding.settlement),
            cap: holding.limit.map(|limit| limit.value),
            owed: state.outbox.owed_to(index),
        });
    }

    /// Adds an account of the hub, if it has one.
    fn add_hub(&mut self, state: &State, kind: AccountKind, currency: Currency) {
        let account = match kind {
            AccountKind::HubReconciliation => reconciliation_account(state, currency),
            kind => state.accounts.internal_of(currency, kind),
        };
        let account = account.map(|id| HubAccount { kind, currency, held: held(state, id) });
        self.hub.extend(account);
    }

    fn look_again(&mut self, state: &State) {
        let look = |held: &mut BalanceChange| {
            held.change = change_of(held, state.accounts.value(held.account))
        };
        for side in &mut self.sides {
            look(&mut side.position);
            look(&mut side.settlement);
        }
        self.hub.iter_mut().for_each(|account| look(&mut account.held));
    }

    /// Restores the balances as they were while the payer's `amount` was reserved.
    fn hold(&mut self, amount: Amount) {
        let add = |held: &mut BalanceChange, more: Amount| {
            held.change = held.change.checked_add(more).expect("it was that within the decision");
        };
        self.sides.iter_mut().take(1).for_each(|payer| add(&mut payer.position, amount));
        let in_flight = |account: &&mut HubAccount| account.kind == AccountKind::InFlight;
        let in_flight = self.hub.iter_mut().filter(in_flight);
        in_flight.for_each(|account| add(&mut account.held, -amount));
    }

    /// Returns the inputs, with only those of the hub's accounts that changed.
    fn take(&mut self, state: &State) -> DecisionInputs {
        let mut hub = core::mem::take(&mut self.hub);
        hub.retain(|account| account.held.change != Amount::ZERO);
        DecisionInputs {
            hub_name: state.hub,
            lane_capacity: state.settings.lane_capacity,
            sides: core::mem::take(&mut self.sides),
            hub,
        }
    }
}

/// The amount that a prepare reserved and that came back within the same decision, because its
/// deadline had already passed.
fn reserved_for_no_time(state: &State, command: &Command, outcome: Outcome) -> Option<Amount> {
    let (Command::Prepare(prepare), Outcome::PrepareReserved) = (command, outcome) else {
        return None;
    };
    (prepare.expiration_ms <= state.stamp.millis()).then_some(prepare.amount)
}

fn held(state: &State, account: AccountId) -> BalanceChange {
    BalanceChange { account, before: state.accounts.value(account), change: Amount::ZERO }
}

fn change_of(held: &BalanceChange, after: Amount) -> Amount {
    after.checked_sub(held.before).expect("balances are far from the ledger's range")
}
