//! The currency workload: an operator that gives participants further currencies and manages the
//! accounts in each. So each action in one currency meets every state of the accounts in another.
//!
//! A step depends on the current state of the hub. Accounts are opened. They get their first cap
//! while those in other currencies are missing, inactive, without a cap or reserved from. Then caps
//! and their alarms change, POSITION accounts are switched off and on, and funds are moved in and
//! out. An outflow is ended through its own SETTLEMENT account or through that of another currency,
//! which must refuse.
//!
//! Some caps are set to the position, next to it, or to zero. The next transfers are then paid from
//! that account, of a zero or tiny amount, also in the workload's own currencies. This tests the
//! exact limits of cap and cover.
//!
//! The workload exists in some runs only, and has its own RNG stream. A run without it is the same,
//! event for event, as before the workload existed.

use ledger::{
    AccountId, AccountKind, Amount, Change, CreateHubAccount, CreateParticipant, Currency,
    CurrencyAccounts, EndFundsOut, FspName, FundsDirection, MoveFunds, SetAccountActive,
    SetInitialPositionAndLimits, SetLimit, TransferId,
};

use crate::event::Event;
use crate::random::{Arrivals, Random, mix, spread16};
use crate::simulation::SimulationRun;
use crate::transfers::{Anomaly, TransferPlan};
use crate::workload::operator::request_hash;

/// Separates the RNG stream of this workload from that of the run. With this number, no seed that
/// had found a bug before gets the workload, so those seeds still find it.
const STREAM: u64 = 0x7472_6561_7307;
/// Currencies that only this workload uses.
pub(crate) const CURRENCIES: [&str; 2] = ["UGX", "RWF"];
/// Transfers that are paid from an account whose cap was set to its edge.
const AT_EDGE: usize = 4;
/// Participants that it looks after: few, so that each gets far.
const CLIENTS: u64 = 2;
const UNIT: i128 = 10_000;

#[derive(Debug)]
pub(crate) struct CurrencyWorkload {
    random: Random,
    pub(crate) arrivals: Arrivals,
    /// Outflows that it asked for; some stay after they were ended, to be ended again.
    outflows: Vec<MoveFunds>,
    /// Payers and currencies of the next payments of a tiny amount.
    edge_payments: Vec<(u8, Currency)>,
}

impl CurrencyWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ STREAM));
        let arrivals = Arrivals::draw(&mut random, 250, (20, 100), chaos_us);
        Self { random, arrivals, outflows: Vec::new(), edge_payments: Vec::new() }
    }
}

impl SimulationRun {
    /// Schedules the next act, if the run has this workload.
    pub(crate) fn schedule_currencies(&mut self) {
        if let Some(wait) = self.currency_workload.arrivals.next(&mut self.currency_workload.random)
        {
            self.env.after(wait, Event::Currencies);
        }
    }

    /// Requests the next step in one currency of one participant.
    pub(crate) fn run_currency_step(&mut self) {
        if self.env.calm {
            return;
        }
        let client = self.currency_workload.random.below(CLIENTS) as u8;
        let currency = self.draw_currency();
        for change in self.next_step(client, currency) {
            self.ask_for_change(change);
        }
        self.schedule_currencies();
    }

    /// One of its own, or one of the run's.
    fn draw_currency(&mut self) -> Currency {
        let random = &mut self.currency_workload.random;
        match random.chance(600) {
            true => Currency::parse(random.pick(&CURRENCIES)).expect("three letters"),
            false => random.pick(&self.actors.currencies),
        }
    }

    fn next_step(&mut self, client: u8, currency: Currency) -> Vec<Change> {
        let name = self.actors.name(client);
        if self.hub.is_none() {
            return Vec::new();
        }
        let found = self
            .currency_accounts(&name)
            .into_iter()
            .find(|accounts| accounts.currency == currency);
        let Some(accounts) = found else { return open(name, currency) };
        let step = self.currency_workload.random.below(10);
        let change = match (accounts.net_debit_cap, step) {
            (None, 0 | 1) => self.switch(name, &accounts),
            (None, _) => self.begin(name, currency),
            (Some(_), 0) => self.change_cap(name, currency),
            (Some(_), 1) => self.cap_at_edge((client, name), &accounts),
            (Some(_), 2) => self.switch(name, &accounts),
            (Some(_), 3 | 4) => self.ask_to_move((name, currency), &accounts, FundsDirection::In),
            (Some(_), 5 | 6) => self.ask_to_move((name, currency), &accounts, FundsDirection::Out),
            (Some(_), _) => return self.end_some_outflow().into_iter().collect(),
        };
        vec![change]
    }

    /// Switches an inactive account on. An active one mostly stays active, so that payments remain
    /// possible.
    fn switch(&mut self, name: FspName, accounts: &CurrencyAccounts) -> Change {
        let active = !self.is_on(accounts.position) || self.currency_workload.random.chance(700);
        SetAccountActive { name, account: accounts.position, active }.into()
    }

    fn begin(&mut self, name: FspName, currency: Currency) -> Change {
        let mut others = self.currency_accounts(&name).into_iter();
        let other_is_off =
            others.any(|accounts| accounts.currency != currency && !self.is_on(accounts.position));
        self.env.counts.begun_while_off += u64::from(other_is_off);
        let position = self.currency_workload.random.pick(&[0, 0, -700, 1_300]);
        let (net_debit_cap, position) =
            (Amount::from_units(60_000 * UNIT), Amount::from_units(position));
        SetInitialPositionAndLimits { name, currency, net_debit_cap, position }.into()
    }

    fn change_cap(&mut self, name: FspName, currency: Currency) -> Change {
        let random = &mut self.currency_workload.random;
        let net_debit_cap = Amount::from_units(i128::from(random.between((0, 80_000))) * UNIT);
        // From 0 to 100 percent, with all its digits.
        let alarm_percentage = Amount::from_units(random.between((0, 1_000_000)).into());
        SetLimit { name, currency, net_debit_cap, alarm_percentage }.into()
    }

    /// Sets the cap close to the position; the next payments from the account test the cap.
    fn cap_at_edge(
        &mut self,
        (client, name): (u8, FspName),
        accounts: &CurrencyAccounts,
    ) -> Change {
        let found = self.state().and_then(|state| state.accounts().get(accounts.position));
        let position = found.map_or(Amount::ZERO, |account| account.value).units();
        let random = &mut self.currency_workload.random;
        let units = random.pick(&[0, position - 1, position, position, position + 1]);
        self.currency_workload.edge_payments.extend([(client, accounts.currency); AT_EDGE]);
        let (net_debit_cap, alarm_percentage) = (Amount::from_units(units.max(0)), Amount::ZERO);
        SetLimit { name, currency: accounts.currency, net_debit_cap, alarm_percentage }.into()
    }

    /// An ordinary transfer becomes one of those, if any is wanted.
    pub(crate) fn move_to_edge(&mut self, plan: &mut TransferPlan) {
        if plan.anomaly != Anomaly::None {
            return;
        }
        let Some((client, currency)) = self.currency_workload.edge_payments.pop() else { return };
        plan.amount = Amount::from_units(self.currency_workload.random.pick(&[0, 0, 1, 2]));
        plan.currency = self.actors.number_of(currency);
        // The other client has its currencies too.
        (plan.payer, plan.payee) = (client, 1 - client);
    }

    fn ask_to_move(
        &mut self,
        (name, currency): (FspName, Currency),
        accounts: &CurrencyAccounts,
        direction: FundsDirection,
    ) -> Change {
        let random = &mut self.currency_workload.random;
        let amount = Amount::from_units(i128::from(random.between((1, 5_000))) * UNIT);
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&spread16(random.next()));
        let id = TransferId::from_bytes(bytes).expect("the first byte is that of a UUID");
        let (account, hash) = (accounts.settlement, request_hash(id, 0));
        let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
        if direction == FundsDirection::Out {
            self.currency_workload.outflows.push(funds.clone());
        }
        Change::MoveFunds(funds)
    }

    /// Ends an outflow, through its own account or through that of another currency.
    fn end_some_outflow(&mut self) -> Option<Change> {
        let known = self.currency_workload.outflows.len() as u64;
        let at = self.currency_workload.random.below(known.max(1)) as usize;
        let MoveFunds { id, name, account, .. } = *self.currency_workload.outflows.get(at)?;
        let commit = self.currency_workload.random.chance(500);
        let hash = request_hash(id, 1 + u8::from(commit));
        let end = |account| Change::EndFundsOut(EndFundsOut { id, name, account, commit, hash });
        if self.currency_workload.random.chance(400) {
            let other = self.other_settlement(&name, account)?;
            self.env.counts.ends_misaddressed += 1;
            return Some(end(other));
        }
        if self.currency_workload.random.chance(700) {
            self.currency_workload.outflows.swap_remove(at);
        }
        Some(end(account))
    }

    /// The participant's SETTLEMENT in another currency than that of its `account`.
    fn other_settlement(&mut self, name: &FspName, account: AccountId) -> Option<AccountId> {
        let settlements =
            self.currency_accounts(name).into_iter().map(|accounts| accounts.settlement);
        let others: Vec<_> = settlements.filter(|other| *other != account).collect();
        let at = self.currency_workload.random.below(others.len().max(1) as u64) as usize;
        others.get(at).copied()
    }

    fn currency_accounts(&self, name: &FspName) -> Vec<CurrencyAccounts> {
        let found = self.state().and_then(|state| state.registry().find(name));
        found.map_or_else(Vec::new, |(_, participant)| participant.by_currency.clone())
    }

    fn is_on(&self, account: AccountId) -> bool {
        let found = self.state().and_then(|state| state.accounts().get(account));
        found.is_some_and(|account| account.active)
    }
}

/// The hub's accounts in a currency, which may be there, and a participant's.
fn open(name: FspName, currency: Currency) -> Vec<Change> {
    let kinds = [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement];
    let of_hub = kinds.map(|kind| Change::CreateHubAccount(CreateHubAccount { currency, kind }));
    of_hub.into_iter().chain([CreateParticipant { name, currency }.into()]).collect()
}
