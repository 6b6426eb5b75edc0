//! The clients of the nodes: FSPs that pay and answer, and an operator that onboards them. A client
//! without an answer retries, at any node.

use delivery::AttemptResult;
use ledger::{
    Amount, Change, Digest, FundsDirection, MoveFunds, Notice, NoticeKind, Outcome, State,
    TransferId,
};

use super::{ClusterSimulation, Event, Machine, NODES};
use crate::parameters::{EPOCH_US, SECOND};
use crate::random::spread16;
use crate::transfers::{
    MessageVariant, OPERATOR, PlannedResponse, Request, TransferDraw, TransferPlan, administer,
    number_of,
};

/// How long a sender waits for an answer.
const ANSWER_US: u64 = 2 * SECOND;
const UNIT: i128 = 10_000;
/// Separates the RNG stream of the settlement workload from that of the run. With this number, no
/// seed that had found a bug before gets the workload.
pub(super) const STREAM: u64 = 0x006e_6574_7465_668c;

impl ClusterSimulation {
    pub(super) fn send(&mut self, request: Request) {
        self.waiting.insert(key_of(request));
        let at = self.random.below(NODES as u64) as usize;
        let wait = self.net();
        self.after(wait, Event::Arrive(at, request));
        let wait = self.random.between((ANSWER_US, 2 * ANSWER_US));
        self.after(wait, Event::Again(request));
    }

    pub(super) fn arrive(&mut self, at: usize, request: Request) {
        let machine = &self.machines[at];
        let is_serving = machine.up.as_ref().is_some_and(|up| up.node.is_live());
        if !is_serving || machine.is_leaving {
            return;
        }
        if self.now < machine.paused_until {
            let wait = machine.paused_until - self.now;
            return self.after(wait, Event::Arrive(at, request));
        }
        let command = match request.message {
            MessageVariant::Prepare { transfer, .. } => {
                self.actors.prepare(&self.plans[transfer as usize], request)
            }
            MessageVariant::Response { transfer, .. } => {
                self.actors.respond(&self.plans[transfer as usize], request)
            }
            MessageVariant::Change(number) => administer(&self.changes[number as usize]),
            // These runs have no such workloads.
            _ => return,
        };
        self.up(at).outbox_driver.request(request, command);
        self.mail_soon(at, 1);
    }

    pub(super) fn receive_answer(&mut self, request: Request, outcome: Option<Outcome>) {
        if outcome.is_none() || !self.waiting.remove(&key_of(request)) {
            return;
        }
        if let MessageVariant::Change(number) = request.message
            && !self.has_begun
            && number == self.answered
        {
            self.answered += 1;
            self.run_operator_step();
        }
    }

    /// The operator onboards all participants, one change at a time; then traffic begins.
    pub(super) fn run_operator_step(&mut self) {
        if self.answered as usize == self.changes.len() && !self.funded {
            self.funded = true;
            self.fund();
        }
        if self.answered as usize == self.changes.len() {
            self.has_begun = true;
            self.after(0, Event::NewTransfer);
            self.settle_later();
            let traffic = self.parameters.interval_us * u64::from(self.transfers);
            return self.after(traffic + 10 * SECOND, Event::CheckRest);
        }
        self.send(Request { from: OPERATOR, message: MessageVariant::Change(self.answered) });
    }

    /// The operator settles, until the faults stop. The state is that of the node which has applied
    /// most records.
    pub(super) fn settle(&mut self) {
        if self.calm_since.is_some() {
            return;
        }
        let state = newest_state(&self.machines);
        let currencies = &self.actors.currencies;
        if let Some(change) = state.and_then(|state| self.settlement.next(state, currencies)) {
            self.changes.push(change);
            let number = self.changes.len() as u32 - 1;
            self.send(Request { from: OPERATOR, message: MessageVariant::Change(number) });
        }
        self.settle_later();
    }

    fn settle_later(&mut self) {
        if let Some(wait) = self.settlement.wait() {
            self.after(wait, Event::Settlement);
        }
    }

    pub(super) fn fund(&mut self) {
        let state = newest_state(&self.machines).expect("a node has answered");
        let mut changes = Vec::new();
        for fsp in 0..self.parameters.fsps {
            for currency in 0..self.parameters.currencies {
                let (name, currency) = (self.actors.name(fsp), self.actors.currency(currency));
                let accounts =
                    state.registry().find(&name).and_then(|one| one.1.accounts_in(currency));
                let account = accounts.expect("it was brought in").settlement;
                let amount = Amount::from_units(100_000 * UNIT);
                let mut bytes = [0; 17];
                bytes[1..].copy_from_slice(&spread16(self.random.next()));
                let id = TransferId::from_bytes(bytes).expect("the first byte is that of a UUID");
                let (direction, hash) = (FundsDirection::In, Digest([1; 32]));
                let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
                changes.push(Change::MoveFunds(funds));
            }
        }
        self.changes.extend(changes);
    }

    pub(super) fn new_transfer(&mut self) {
        if self.plans.len() as u32 == self.transfers {
            return;
        }
        let draw = TransferDraw {
            number: self.plans.len() as u32,
            now_ms: (EPOCH_US + self.now) / 1_000,
            lifetime_ms: self.parameters.lifetime_ms,
            amount: self.parameters.amount,
            odd_per_mille: self.parameters.odd_per_mille,
        };
        let plan = TransferPlan::draw(&mut self.random, &self.actors, &draw);
        let message = MessageVariant::Prepare { transfer: draw.number, variant: 0 };
        let request = Request { from: plan.payer, message };
        self.plans.push(plan);
        self.counts.transfers += 1;
        self.send(request);
        let wait = self.random.around(self.parameters.interval_us);
        self.after(wait, Event::NewTransfer);
    }

    /// An FSP receives a callback, and answers it or not.
    pub(super) fn receive(&mut self, (at, epoch): (usize, u32), notice: Box<Notice>) {
        let is_calm = self.calm_since.is_some();
        let (result, is_received) = match self.random.below(1_000) {
            _ if is_calm => (AttemptResult::Status(200), true),
            0..5 => (AttemptResult::TimedOut, true),
            5..10 => (AttemptResult::ConnectFailed, false),
            10..20 => (AttemptResult::Status(503), true),
            _ => (AttemptResult::Status(200), true),
        };
        if is_received {
            self.invariants.received(&notice, (at, epoch));
            if notice.kind == NoticeKind::Prepare {
                self.answer_prepare(&notice);
            }
        }
        let wait = match result {
            AttemptResult::TimedOut => self.parameters.attempt_us,
            _ => self.net(),
        };
        self.after(wait, Event::Attempted(at, epoch, notice, result));
    }

    pub(super) fn answer_prepare(&mut self, notice: &Notice) {
        let Some(id) = &notice.transfer else { return };
        let transfer = number_of(id);
        let plan = &self.plans[transfer as usize];
        if plan.response == PlannedResponse::Silent || !self.payees_asked.insert(transfer) {
            return;
        }
        let late = match plan.response {
            PlannedResponse::Late => self.parameters.lifetime_ms.1 * 1_000,
            _ => 0,
        };
        let request = Request {
            from: plan.payee,
            message: MessageVariant::Response { transfer, variant: 0 },
        };
        self.waiting.insert(key_of(request));
        let ends = self.parameters.think_us;
        let wait = late + self.random.between(ends);
        self.after(wait, Event::Again(request));
    }
}

fn newest_state(machines: &[Machine]) -> Option<&State> {
    let up = machines.iter().filter_map(|machine| machine.up.as_ref());
    let states = up.map(|up| up.node.replica().sequencer().state());
    states.max_by_key(|state| state.log_index())
}

/// Which message of whom it is, however often it is sent.
pub(super) fn key_of(request: Request) -> (u8, u32, u32) {
    match request.message {
        MessageVariant::Prepare { transfer, .. } => (request.from, 1, transfer),
        MessageVariant::Response { transfer, .. } => (request.from, 2, transfer),
        MessageVariant::Change(number) => (request.from, 3, number),
        MessageVariant::GetTransfer { transfer } => (request.from, 4, transfer),
        MessageVariant::Unplanned(number) => (request.from, 5, number),
        MessageVariant::PrepareBulk { bulk, .. } => (request.from, 6, bulk),
        MessageVariant::RespondBulk { bulk, .. } => (request.from, 7, bulk),
        MessageVariant::GetBulk { bulk } => (request.from, 8, bulk),
    }
}
