//! Makes the events of each step of a replay.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    Account, AccountId, Administer, Amount, ApplyStep, ArchivedSettlement, Change, Command,
    Currency, Effects, FinalTransfer, FinishedDelivery, FspName, FundsDirection, LogIndex, Outcome,
    ParticipantIndex, Prepare, QuoteContent, ResponseEnd, SettlementId, SettlementState, State,
    StatePart, TransferChange, TransferId, Window, WindowId, WindowState,
};

use crate::event::{
    AdminRequestEvent, ChangeEvent, DeliveryEvent, Event, EventData, FundsEvent, NoticeEvent,
    PositionEvent, QuoteEvent, QuoteStep, SettlementEvent, TransferEvent, TransferStep,
    WindowEvent,
};
use crate::position::Position;

/// Observes a replay and makes its events.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    /// The position of the last event.
    position: Position,
    /// Effects of the batch that have been seen.
    seen: SeenEffects,
    /// The last balance of each account, by its number.
    balances: Vec<Amount>,
    windows: BTreeMap<WindowId, WindowState>,
    settlements: BTreeMap<SettlementId, SettlementState>,
    /// Deliveries that the current record ends.
    deliveries: Vec<DeliveryEvent>,
    events: Vec<Event>,
}

/// Numbers of effects of the batch that earlier steps made.
#[derive(Clone, Copy, Debug, Default)]
struct SeenEffects {
    notices: usize,
    rows: usize,
    archived: usize,
}

/// The cause of changes of balances.
#[derive(Clone, Copy)]
struct Cause {
    transfer: Option<TransferId>,
    outcome: Outcome,
}

impl EventRecorder {
    /// A recorder for a replay that continues from a state.
    #[must_use]
    pub fn new(state: &State) -> Self {
        let mut recorder = Self {
            position: Position::after(state.log_index()),
            seen: SeenEffects::default(),
            balances: Vec::new(),
            windows: BTreeMap::new(),
            settlements: BTreeMap::new(),
            deliveries: Vec::new(),
            events: Vec::new(),
        };
        for account in state.accounts().iter() {
            recorder.set_balance(account.id, account.value);
        }
        let book = state.settlement();
        let windows = book.windows().map(|it| (it.window.id, it.window.state));
        recorder.windows.extend(windows);
        let settlements = book.settlements().map(|it| (it.settlement.id, it.settlement.state));
        recorder.settlements.extend(settlements);
        recorder
    }

    /// Takes the events since the last call.
    pub fn take(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Observes a step.
    pub fn observe(&mut self, step: ApplyStep<'_>, state: &State, effects: &Effects) {
        match step {
            ApplyStep::Opened => {
                self.seen = SeenEffects::default();
                self.begin(LogIndex(state.log_index().0 + 1));
            }
            ApplyStep::Expiring(_) | ApplyStep::DeadlinesFired | ApplyStep::ItemBefore(..) => {}
            ApplyStep::Expired(id) => self.record_expiry(id, state, effects),
            ApplyStep::Before(log_index, command) => {
                self.begin(log_index);
                self.read_deliveries(command.finished_deliveries(), state);
            }
            ApplyStep::ItemAfter(_, command, outcome) => {
                self.record(command, outcome, (state, effects));
            }
            ApplyStep::After(_, command, outcome) => {
                self.record(command, outcome, (state, effects));
                self.deliveries.clear();
            }
        }
        if !matches!(step, ApplyStep::Before(..)) {
            self.seen = SeenEffects {
                notices: effects.notices.len(),
                rows: effects.final_rows.len(),
                archived: effects.archived.len(),
            };
        }
    }

    /// Begins a record. The first one of a batch has the expiries before it too.
    fn begin(&mut self, record: LogIndex) {
        if self.position.record != record || self.position.number == Position::LAST {
            self.position = Position { record, number: 0 };
        }
    }

    fn add(&mut self, state: &State, data: EventData) {
        self.position.number += 1;
        let (position, stamp) = (self.position, state.stamp());
        self.events.push(Event { position, stamp, data });
    }

    fn record_expiry(&mut self, id: TransferId, state: &State, effects: &Effects) {
        let cause = Cause { transfer: Some(id), outcome: Outcome::Expired };
        self.record_ends(cause, state, effects);
        self.record_notices(false, state, effects);
    }

    fn record(
        &mut self,
        command: &Command,
        outcome: Outcome,
        (state, effects): (&State, &Effects),
    ) {
        if outcome == Outcome::Repeated {
            return;
        }
        let cause = Cause { transfer: command.rows().next().copied(), outcome };
        match command {
            Command::Prepare(prepare) => self.record_prepare(prepare, cause, (state, effects)),
            Command::Fulfil(_) | Command::Abort(_) => self.record_ends(cause, state, effects),
            Command::Administer(administer) => {
                self.record_change(administer, cause, (state, effects));
            }
            Command::Genesis(_) => self.record_settlement(state, effects),
            // The items of a bulk have steps of their own.
            Command::Tick
            | Command::FinishDeliveries(_)
            | Command::ChangeParties(_)
            | Command::PrepareBulk(_)
            | Command::FulfilBulk(_)
            | Command::AbortBulk(_)
            | Command::RecordRequestToPay(_) => {}
            Command::RecordQuote(quote) => self.record_quote(&quote.quote, state),
            Command::RecordQuoteAnswer(answer) => self.record_quote(&answer.quote, state),
        }
        let is_resent = matches!(
            command.change().and_then(|change| change.decided().about_transfer()),
            Some(TransferChange::Redeliver(_))
        );
        self.record_notices(is_resent, state, effects);
        for delivery in std::mem::take(&mut self.deliveries) {
            self.add(state, EventData::Delivery(delivery));
        }
    }

    fn record_prepare(
        &mut self,
        prepare: &Prepare,
        cause: Cause,
        (state, effects): (&State, &Effects),
    ) {
        let event = |step, outcome| TransferEvent {
            transfer: prepare.id,
            step,
            outcome,
            payer: prepare.payer,
            payee: prepare.payee,
            amount: prepare.amount,
            currency: prepare.currency,
            prepare: state.log_index(),
        };
        if cause.outcome == Outcome::PrepareReserved {
            let reserved = event(TransferStep::Reserved, cause.outcome);
            self.add(state, EventData::Transfer(reserved));
            if let Some((payer, _)) = state.registry().find(&prepare.payer) {
                self.compare_balances((payer, prepare.currency), cause, state);
            }
            // Its deadline had been reached already.
            self.record_ends(Cause { outcome: Outcome::Expired, ..cause }, state, effects);
        } else if effects.final_rows[self.seen.rows..].iter().any(|row| row.id == prepare.id) {
            let refused = event(TransferStep::Refused, cause.outcome);
            self.add(state, EventData::Transfer(refused));
        }
    }

    /// Records the step of a quote, if this record made one: a resend makes none.
    fn record_quote(&mut self, id: &TransferId, state: &State) {
        let Some(row) = state.quote(id) else { return };
        let now = state.log_index();
        let step = match &row.answer {
            Some(answer) if answer.record == now => match answer.content {
                QuoteContent::Offer(_) => QuoteStep::Answered,
                QuoteContent::Error => QuoteStep::Failed,
            },
            _ if row.request == now => QuoteStep::Requested,
            _ => return,
        };
        let event = QuoteEvent {
            quote: row.id,
            transaction: row.transaction,
            step,
            payer: name(state, row.source),
            payee: name(state, row.destination),
            request: row.request,
        };
        self.add(state, EventData::Quote(event));
    }

    /// Records the transfers that the step has ended. A row that only took a late response has
    /// another outcome than the step.
    fn record_ends(&mut self, cause: Cause, state: &State, effects: &Effects) {
        for row in &effects.final_rows[self.seen.rows..] {
            if row.outcome != cause.outcome {
                continue;
            }
            if let Some(event) = ended_transfer(row, state) {
                self.add(state, EventData::Transfer(event));
            }
            for party in [row.payer, row.payee].into_iter().flatten() {
                self.compare_balances((party, row.currency), cause, state);
            }
        }
    }

    /// Records the balances of a participant in a currency that have changed.
    fn compare_balances(
        &mut self,
        (owner, currency): (ParticipantIndex, Currency),
        cause: Cause,
        state: &State,
    ) {
        for id in &state.registry().get(owner).accounts {
            let account = state.accounts().get(*id).filter(|it| it.currency == currency);
            account.into_iter().for_each(|account| self.compare_balance(account, cause, state));
        }
    }

    fn compare_balance(&mut self, account: &Account, cause: Cause, state: &State) {
        let before = self.balances.get(account.id.0 as usize).copied().unwrap_or(Amount::ZERO);
        if before == account.value {
            return;
        }
        self.set_balance(account.id, account.value);
        if account.kind.is_of_hub() {
            return;
        }
        let event = PositionEvent {
            participant: name(state, account.owner),
            account: account.id,
            account_kind: account.kind,
            currency: account.currency,
            before,
            after: account.value,
            transfer: cause.transfer,
            outcome: cause.outcome,
        };
        self.add(state, EventData::Position(event));
    }

    fn set_balance(&mut self, id: AccountId, value: Amount) {
        let at = id.0 as usize;
        if self.balances.len() <= at {
            self.balances.resize(at + 1, Amount::ZERO);
        }
        self.balances[at] = value;
    }

    fn record_notices(&mut self, is_resent: bool, state: &State, effects: &Effects) {
        for notice in &effects.notices[self.seen.notices..] {
            let event = NoticeEvent {
                notice: notice.id,
                recipient: name(state, notice.recipient),
                message: notice.kind,
                outcome: notice.outcome,
                transfer: notice.transfer,
                is_resent,
            };
            self.add(state, EventData::Notice(event));
        }
    }

    /// Reads the notices whose delivery ends, each once, before the record removes them.
    fn read_deliveries(&mut self, ends: &[FinishedDelivery], state: &State) {
        let mut known = BTreeSet::new();
        for end in ends {
            let Some(notice) = state.notice(end.notice) else { continue };
            if known.insert(end.notice) {
                self.deliveries.push(DeliveryEvent {
                    notice: end.notice,
                    recipient: name(state, notice.recipient),
                    message: notice.kind,
                    transfer: notice.transfer,
                    result: end.result,
                    attempts: end.attempts,
                    status: end.status,
                });
            }
        }
    }

    fn record_change(
        &mut self,
        administer: &Administer,
        cause: Cause,
        (state, effects): (&State, &Effects),
    ) {
        let decided = administer.change.decided();
        if cause.outcome == Outcome::Accepted {
            let funds = decided.about_transfer().and_then(|change| funds_of(change, state));
            funds.into_iter().for_each(|event| self.add(state, EventData::Funds(event)));
            let touches = |part| decided.declaration().touches.contains(&part);
            if touches(StatePart::Balances) {
                state.accounts().iter().for_each(|it| self.compare_balance(it, cause, state));
            }
            if touches(StatePart::Windows) || touches(StatePart::Settlements) {
                self.record_settlement(state, effects);
            }
        }
        self.add(state, change_event(administer, cause.outcome));
    }

    /// Records the windows and settlements whose state has changed.
    fn record_settlement(&mut self, state: &State, effects: &Effects) {
        let archived = &effects.archived[self.seen.archived..];
        let book = state.settlement();
        let gone = archived.iter().filter_map(|row| match row {
            ArchivedSettlement::Window(entry) => Some(&entry.window),
            ArchivedSettlement::Settlement(_) => None,
        });
        let windows: BTreeMap<WindowId, &Window> =
            book.windows().map(|it| &it.window).chain(gone).map(|it| (it.id, it)).collect();
        for (id, window) in windows {
            if self.windows.insert(id, window.state) != Some(window.state) {
                let event = WindowEvent { window: id, state: window.state };
                self.add(state, EventData::Window(event));
            }
        }
        let gone = archived.iter().filter_map(|row| match row {
            ArchivedSettlement::Settlement(entry) => Some(entry),
            ArchivedSettlement::Window(_) => None,
        });
        let settlements = book.settlements().chain(gone).map(|it| &it.settlement);
        for settlement in settlements {
            let (id, state_now) = (settlement.id, settlement.state);
            if self.settlements.insert(id, state_now) != Some(state_now) {
                let model = settlement.model.clone();
                let event = SettlementEvent { settlement: id, model, state: state_now };
                self.add(state, EventData::Settlement(event));
            }
        }
        for row in archived {
            match row {
                ArchivedSettlement::Window(entry) => {
                    self.windows.remove(&entry.window.id);
                }
                ArchivedSettlement::Settlement(entry) => {
                    self.settlements.remove(&entry.settlement.id);
                }
            }
        }
    }
}

fn name(state: &State, index: ParticipantIndex) -> FspName {
    state.registry().get(index).name
}

/// The event of a transfer that has ended; `None` for a movement of funds.
fn ended_transfer(row: &FinalTransfer, state: &State) -> Option<TransferEvent> {
    let step = match ResponseEnd::of(row.outcome) {
        Some(end) if end.commits() => TransferStep::Committed,
        Some(_) => TransferStep::Aborted,
        None => TransferStep::Expired,
    };
    Some(TransferEvent {
        transfer: row.id,
        step,
        outcome: row.outcome,
        payer: name(state, row.payer?),
        payee: name(state, row.payee?),
        amount: row.amount,
        currency: row.currency,
        prepare: row.prepare,
    })
}

/// The event of an accepted movement of funds.
fn funds_of(change: TransferChange<'_>, state: &State) -> Option<FundsEvent> {
    let (id, participant, direction) = match change {
        TransferChange::MoveFunds(funds) => {
            let direction = match funds.direction {
                FundsDirection::In => "IN",
                FundsDirection::Out => "OUT",
            };
            (funds.id, funds.name, direction)
        }
        TransferChange::EndFundsOut(end) => (end.id, end.name, "OUT"),
        TransferChange::AdjustBalance(adjustment) => (adjustment.id, adjustment.name, "ADJUSTMENT"),
        TransferChange::Redeliver(_) | TransferChange::DropDeadLetter(_) => return None,
    };
    let view = state.view(&id)?;
    Some(FundsEvent {
        transfer: id,
        participant,
        state: view.state,
        direction,
        amount: view.amount,
        currency: view.currency,
    })
}

fn change_event(administer: &Administer, outcome: Outcome) -> EventData {
    let Administer { actor, reason, change } = administer;
    match change {
        Change::RecordAudit(request) => EventData::AdminRequest(AdminRequestEvent {
            method: request.method.clone(),
            status: request.status,
            code: request.code,
            requests: request.requests,
            actor: actor.clone(),
            path: request.path.clone(),
        }),
        change => EventData::Change(ChangeEvent {
            change: change.declaration().name,
            outcome,
            actor: actor.clone(),
            reason: reason.clone(),
        }),
    }
}
