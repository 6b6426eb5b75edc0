//! Records each decision when it is made: its inputs, its postings and the notices it created.
//!
//! A [`DecisionRecorder`] observes a batch ([`crate::State::apply_watched`]) and passes each
//! decision about a transfer, a bulk, a quote, a transaction request or a movement of funds to a
//! [`DecisionSink`]. It decides nothing. A command names the rows ([`Command::rows`]) and accounts
//! that it concerns. Their number is not bounded. A resend is answered from the stored row, so its
//! decision has no inputs.
//!
//! Costs: a few look-ups per message. Buffers are reused, so only their growth allocates.

use alloc::vec::Vec;

use crate::accounts::AccountKind;
use crate::command::{Command, Prepare};
use crate::command_scope::CommandScope;
use crate::commands::reconciliation_account;
use crate::decision::{
    BalanceChange, Decision, DecisionInputs, FeeAccount, HubAccount, OwedNotice, PartyInputs,
};
use crate::ids::{AccountId, LogIndex, NoticeId, ParticipantIndex, TransferId};
use crate::money::{Amount, Currency};
use crate::outcome::Outcome;
use crate::state::{ApplyStep, Effects, State};
use crate::transfers::TransferLocation;

/// Receives decisions in the order of the log.
pub trait DecisionSink {
    /// Receives a decision.
    fn record_decision(&mut self, decision: &Decision);

    /// Receives the end of a delivery: the record at `log_index` ends that of an owed notice.
    fn record_delivery(&mut self, notice: NoticeId, log_index: LogIndex);
}

/// Observes batches.
#[derive(Clone, Debug, Default)]
pub struct DecisionRecorder {
    /// Subject of the current command; empty if it needs no record.
    rows: Vec<TransferId>,
    log_index: LogIndex,
    /// Number of notices that the batch created before the command.
    notices_before: usize,
    inputs: Inputs,
    owed: Vec<OwedNotice>,
}

/// The accounts that the current command concerns.
#[derive(Clone, Debug, Default)]
struct Inputs {
    /// Whether the decision depends on them.
    is_needed: bool,
    parties: Vec<PartyInputs>,
    fees: Vec<FeeAccount>,
    hub: Vec<HubAccount>,
}

impl DecisionRecorder {
    /// Observes one step of a batch.
    pub fn observe(
        &mut self,
        step: ApplyStep<'_>,
        state: &State,
        effects: &Effects,
        sink: &mut impl DecisionSink,
    ) {
        match step {
            ApplyStep::Opened | ApplyStep::DeadlinesFired => {}
            ApplyStep::Expiring(id) => {
                self.begin(LogIndex(state.log_index.0 + 1), effects, [id]);
                self.inputs.add_open(state, &id);
            }
            ApplyStep::Expired(_) => {
                self.end((Outcome::Expired, None), state, effects, sink);
                // The last item in flight ends its bulk, which alone has notices.
                let new = effects.notices[self.notices_before..].first();
                if let Some(bulk) =
                    new.and_then(|notice| notice.transfer).filter(TransferId::is_bulk)
                {
                    self.begin_bulk(bulk);
                    self.end((Outcome::Expired, None), state, effects, sink);
                }
            }
            ApplyStep::Before(log_index, Command::FinishDeliveries(ends)) => {
                let owed = ends.iter().filter(|end| state.outbox.owes(end.notice));
                owed.for_each(|end| sink.record_delivery(end.notice, log_index));
            }
            ApplyStep::Before(log_index, command) | ApplyStep::ItemBefore(log_index, command) => {
                self.begin(log_index, effects, command.subject().copied());
                self.add(state, command);
            }
            ApplyStep::After(_, command, outcome) | ApplyStep::ItemAfter(_, command, outcome) => {
                if let CommandScope::Bulk(id, _) = command.scope() {
                    self.begin_bulk(*id);
                }
                let returned = reserved_and_expired(state, command, outcome);
                self.end((outcome, returned), state, effects, sink);
            }
        }
    }

    fn begin(
        &mut self,
        log_index: LogIndex,
        effects: &Effects,
        rows: impl IntoIterator<Item = TransferId>,
    ) {
        (self.log_index, self.notices_before) = (log_index, effects.notices.len());
        self.begin_rows(rows);
    }

    /// Begins the decision about a bulk, after those about its items. They create no notice.
    fn begin_bulk(&mut self, bulk: TransferId) {
        self.begin_rows([bulk]);
    }

    fn begin_rows(&mut self, rows: impl IntoIterator<Item = TransferId>) {
        self.rows.clear();
        self.rows.extend(rows);
        self.inputs.is_needed = false;
        self.inputs.parties.clear();
        self.inputs.fees.clear();
        self.inputs.hub.clear();
    }

    fn add(&mut self, state: &State, command: &Command) {
        match command.scope() {
            CommandScope::Bulk(..) | CommandScope::Deliveries(_) | CommandScope::Nothing => {}
            CommandScope::Exchange(_) => self.rows.extend(command.payments()),
            CommandScope::NewTransfer(prepare) => self.inputs.add_new(state, prepare),
            CommandScope::OpenTransfer(id) => self.inputs.add_open(state, id),
            CommandScope::Funds(funds) => {
                if state.transfers.find(&funds.id) == TransferLocation::Absent {
                    let owner = state.registry.find(&funds.name).map(|(index, _)| index);
                    self.inputs.add_funds(state, owner, funds.currency);
                }
            }
            CommandScope::Adjustment(adjustment) => {
                if state.transfers.find(&adjustment.id) == TransferLocation::Absent {
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
        (outcome, returned): (Outcome, Option<Amount>),
        state: &State,
        effects: &Effects,
        sink: &mut impl DecisionSink,
    ) {
        let Self { rows, inputs, owed, .. } = self;
        let Some(first) = rows.first() else { return };
        inputs.record_changes(state);
        returned.into_iter().for_each(|amount| inputs.add_reserved(amount));
        let inputs = inputs.is_needed.then(|| inputs.take(state));
        let owed = core::mem::take(owed);
        let mut decision =
            Decision { transfer: *first, log_index: self.log_index, outcome, inputs, owed };
        let new = &effects.notices[self.notices_before..];
        let is_refused = outcome != Outcome::Accepted;
        for row in rows.drain(..) {
            if is_refused && row.is_payment() {
                continue;
            }
            decision.transfer = row;
            decision.owed.clear();
            let own = new.iter().filter(|notice| notice.transfer == Some(row));
            decision.owed.extend(own.map(|notice| OwedNotice {
                notice: notice.id,
                recipient: state.registry.get(notice.recipient).name,
                kind: notice.kind,
                outcome: notice.outcome,
            }));
            sink.record_decision(&decision);
        }
        self.owed = decision.owed;
        if let Some(DecisionInputs { parties, fees, hub, .. }) = decision.inputs {
            (self.inputs.parties, self.inputs.fees, self.inputs.hub) = (parties, fees, hub);
        }
    }
}

impl Inputs {
    /// Adds the inputs of a prepare, unless it is a resend or its sender is not a participant.
    fn add_new(&mut self, state: &State, prepare: &Prepare) {
        let is_new = state.transfers.find(&prepare.id) == TransferLocation::Absent;
        if !is_new || state.registry.sender(&prepare.source).is_none() {
            return;
        }
        self.is_needed = true;
        for party in [&prepare.payer, &prepare.payee] {
            if let Some((index, _)) = state.registry.find(party) {
                self.add_party(state, index, prepare.currency);
            }
        }
        self.add_hub_account(state, AccountKind::InFlight, prepare.currency);
    }

    /// Adds the inputs of a transfer in flight.
    fn add_open(&mut self, state: &State, id: &TransferId) {
        let TransferLocation::Reserved(slot) = state.transfers.find(id) else { return };
        let open = state.transfers.reserved(slot);
        let account = state.accounts.get(open.payer_account).expect("it was reserved there");
        self.is_needed = true;
        for party in [open.payer, open.payee] {
            self.add_party(state, party, account.currency);
        }
        if let Some(fee) = state.fees.pending(id) {
            let payer = state.accounts.get(fee.from).map(|account| account.owner);
            let party = u32::from(payer != Some(open.payer));
            for (party, account) in [(party, fee.from), (1 - party, fee.to)] {
                self.fees.push(FeeAccount { party, balance: current_balance(state, account) });
            }
        }
        self.add_hub_account(state, AccountKind::InFlight, account.currency);
    }

    fn add_funds(&mut self, state: &State, owner: Option<ParticipantIndex>, currency: Currency) {
        self.is_needed = true;
        owner.into_iter().for_each(|owner| self.add_party(state, owner, currency));
        self.add_hub_account(state, AccountKind::Outflow, currency);
        self.add_hub_account(state, AccountKind::HubReconciliation, currency);
    }

    /// Adds a participant's accounts in a currency, once.
    fn add_party(&mut self, state: &State, index: ParticipantIndex, currency: Currency) {
        let participant = state.registry.get(index);
        let Some(accounts) = participant.accounts_in(currency) else { return };
        if self.parties.iter().any(|party| party.position.account == accounts.position) {
            return;
        }
        let position =
            state.accounts.get(accounts.position).expect("its accounts in a currency exist");
        self.parties.push(PartyInputs {
            name: participant.name,
            currency,
            active: participant.active,
            account_active: position.active,
            position: current_balance(state, accounts.position),
            settlement: current_balance(state, accounts.settlement),
            net_debit_cap: accounts.net_debit_cap.map(|cap| cap.value),
            owed: state.outbox.owed_to(index),
        });
    }

    /// Adds an account of the hub, if it has one.
    fn add_hub_account(&mut self, state: &State, kind: AccountKind, currency: Currency) {
        let account = match kind {
            AccountKind::HubReconciliation => reconciliation_account(state, currency),
            kind => state.accounts.internal_of(currency, kind),
        };
        let account =
            account.map(|id| HubAccount { kind, currency, balance: current_balance(state, id) });
        self.hub.extend(account);
    }

    fn record_changes(&mut self, state: &State) {
        let update = |balance: &mut BalanceChange| {
            balance.change = change_of(balance, state.accounts.value(balance.account))
        };
        for party in &mut self.parties {
            update(&mut party.position);
            update(&mut party.settlement);
        }
        self.fees.iter_mut().for_each(|account| update(&mut account.balance));
        self.hub.iter_mut().for_each(|account| update(&mut account.balance));
    }

    /// Restores the balances as they were while the payer's `amount` was reserved.
    fn add_reserved(&mut self, amount: Amount) {
        let add = |balance: &mut BalanceChange, more: Amount| {
            balance.change =
                balance.change.checked_add(more).expect("it was that within the decision");
        };
        self.parties.iter_mut().take(1).for_each(|payer| add(&mut payer.position, amount));
        let in_flight = |account: &&mut HubAccount| account.kind == AccountKind::InFlight;
        let in_flight = self.hub.iter_mut().filter(in_flight);
        in_flight.for_each(|account| add(&mut account.balance, -amount));
    }

    /// Returns the inputs, with only those accounts of fees and of the hub that changed.
    fn take(&mut self, state: &State) -> DecisionInputs {
        let mut fees = core::mem::take(&mut self.fees);
        fees.retain(|account| account.balance.change != Amount::ZERO);
        let mut hub = core::mem::take(&mut self.hub);
        hub.retain(|account| account.balance.change != Amount::ZERO);
        DecisionInputs {
            hub_name: state.hub,
            lane_capacity: state.settings.lane_capacity,
            parties: core::mem::take(&mut self.parties),
            fees,
            hub,
        }
    }
}

/// The amount that a prepare reserved and that came back within the same decision, because its
/// deadline had already passed.
fn reserved_and_expired(state: &State, command: &Command, outcome: Outcome) -> Option<Amount> {
    let (Command::Prepare(prepare), Outcome::PrepareReserved) = (command, outcome) else {
        return None;
    };
    (prepare.expiration_ms <= state.stamp.millis()).then_some(prepare.amount)
}

fn current_balance(state: &State, account: AccountId) -> BalanceChange {
    BalanceChange { account, before: state.accounts.value(account), change: Amount::ZERO }
}

fn change_of(balance: &BalanceChange, after: Amount) -> Amount {
    after.checked_sub(balance.before).expect("balances are far from the ledger's range")
}
