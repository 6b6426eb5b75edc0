//! The treasurer: a third operator, who gives participants further currencies and looks after
//! the accounts in each, so that what is done in one currency meets another in every state.
//!
//! A step depends on what the hub holds at the moment: accounts are opened, then begun with a cap
//! while those in other currencies are not there, off, begun or reserved from; then caps and
//! their alarms change, POSITION accounts go off and on, funds come in and leave. An outflow is
//! ended through its own SETTLEMENT account or through that of another currency, which must
//! refuse.
//!
//! Some caps it sets where the position stands, or beside it, or at nothing. Transfers that are
//! drawn next are then paid from there, of no amount or next to none, also in its own currencies:
//! what passes at the very edge of cap and cover is seen.
//!
//! Only some runs have one, and what it does comes from dice of its own: a run without it is,
//! event for event, the run that its seed gave before there were treasurers.

use ledger::{
    AccountId, AccountKind, Amount, Change, CreateHubAccount, CreateParticipant, Currency,
    CurrencyAccounts, EndFundsOut, FspName, FundsDirection, MoveFunds, SetAccountActive,
    SetInitialPositionAndLimits, SetLimit, TransferId,
};

use crate::event::Event;
use crate::random::{Arrivals, Random, mix, spread16};
use crate::simulation_run::SimulationRun;
use crate::transfers::{Anomaly, TransferPlan};
use crate::workload_operator::request_hash;

/// What sets its dice apart from those of the run. This number gives none of the seeds that
/// found something a treasurer, so that they still find it.
const DICE: u64 = 0x7472_6561_7307;
/// Currencies that only the treasurer brings in.
pub(crate) const CURRENCIES: [&str; 2] = ["UGX", "RWF"];
/// Transfers that are paid from an account whose cap was set to its edge.
const AT_EDGE: usize = 4;
/// Participants that it looks after: few, so that each gets far.
const CLIENTS: u64 = 2;
const UNIT: i128 = 10_000;

#[derive(Debug)]
pub(crate) struct CurrencyWorkload {
    random: Random,
    pub(crate) visits: Arrivals,
    /// Outflows that it asked for; some stay after they were ended, to be ended again.
    outflows: Vec<MoveFunds>,
    /// Who pays next, in which currency, of next to nothing.
    edges: Vec<(u8, Currency)>,
}

impl CurrencyWorkload {
    pub(crate) fn new(seed: u64, chaos_us: u64) -> Self {
        let mut random = Random::new(mix(seed ^ DICE));
        let visits = Arrivals::draw(&mut random, 250, (20, 100), chaos_us);
        Self { random, visits, outflows: Vec::new(), edges: Vec::new() }
    }
}

impl SimulationRun {
    /// The treasurer comes in, if the run has one.
    pub(crate) fn seat_treasurer(&mut self) {
        if let Some(wait) = self.treasurer.visits.next(&mut self.treasurer.random) {
            self.desk.after(wait, Event::Treasurer);
        }
    }

    /// The treasurer asks for the next step in one currency of one participant.
    pub(crate) fn treasurer_acts(&mut self) {
        if self.desk.calm {
            return;
        }
        let client = self.treasurer.random.below(CLIENTS) as u8;
        let currency = self.currency_of_treasurer();
        for change in self.next_step(client, currency) {
            self.ask_for_change(change);
        }
        self.seat_treasurer();
    }

    /// One of its own, or one of the run's.
    fn currency_of_treasurer(&mut self) -> Currency {
        let random = &mut self.treasurer.random;
        match random.chance(600) {
            true => Currency::parse(random.pick(&CURRENCIES)).expect("three letters"),
            false => random.pick(&self.cast.currencies),
        }
    }

    fn next_step(&mut self, client: u8, currency: Currency) -> Vec<Change> {
        let name = self.cast.name(client);
        if self.hub.is_none() {
            return Vec::new();
        }
        let found = self.holdings(&name).into_iter().find(|held| held.currency == currency);
        let Some(held) = found else { return open(name, currency) };
        let step = self.treasurer.random.below(10);
        let change = match (held.limit, step) {
            (None, 0 | 1) => self.switch(name, &held),
            (None, _) => self.begin(name, currency),
            (Some(_), 0) => self.change_cap(name, currency),
            (Some(_), 1) => self.cap_at_edge((client, name), &held),
            (Some(_), 2) => self.switch(name, &held),
            (Some(_), 3 | 4) => self.ask_to_move((name, currency), &held, FundsDirection::In),
            (Some(_), 5 | 6) => self.ask_to_move((name, currency), &held, FundsDirection::Out),
            (Some(_), _) => return self.end_some_outflow().into_iter().collect(),
        };
        vec![change]
    }

    /// An account that is off goes on; one that is on mostly stays so, or nobody could pay.
    fn switch(&mut self, name: FspName, held: &CurrencyAccounts) -> Change {
        let active = !self.is_on(held.position) || self.treasurer.random.chance(700);
        SetAccountActive { name, account: held.position, active }.into()
    }

    fn begin(&mut self, name: FspName, currency: Currency) -> Change {
        let mut others = self.holdings(&name).into_iter();
        let is_beside = others.any(|held| held.currency != currency && !self.is_on(held.position));
        self.desk.tally.begun_beside += u64::from(is_beside);
        let position = self.treasurer.random.pick(&[0, 0, -700, 1_300]);
        let (limit, position) = (Amount::from_units(60_000 * UNIT), Amount::from_units(position));
        SetInitialPositionAndLimits { name, currency, limit, position }.into()
    }

    fn change_cap(&mut self, name: FspName, currency: Currency) -> Change {
        let random = &mut self.treasurer.random;
        let limit = Amount::from_units(i128::from(random.between((0, 80_000))) * UNIT);
        // From 0 to 100 percent, with all its digits.
        let alarm_percentage = Amount::from_units(random.between((0, 1_000_000)).into());
        SetLimit { name, currency, limit, alarm_percentage }.into()
    }

    /// What is paid from there next is paid at the edge.
    fn cap_at_edge(&mut self, (client, name): (u8, FspName), held: &CurrencyAccounts) -> Change {
        let found = self.state().and_then(|state| state.books().get(held.position));
        let position = found.map_or(Amount::ZERO, |account| account.value).units();
        let random = &mut self.treasurer.random;
        let limit = random.pick(&[0, position - 1, position, position, position + 1]);
        self.treasurer.edges.extend([(client, held.currency); AT_EDGE]);
        let (limit, alarm_percentage) = (Amount::from_units(limit.max(0)), Amount::ZERO);
        SetLimit { name, currency: held.currency, limit, alarm_percentage }.into()
    }

    /// An ordinary transfer becomes one of those, if any is wanted.
    pub(crate) fn move_to_edge(&mut self, script: &mut TransferPlan) {
        if script.twist != Anomaly::None {
            return;
        }
        let Some((client, currency)) = self.treasurer.edges.pop() else { return };
        script.amount = Amount::from_units(self.treasurer.random.pick(&[0, 0, 1, 2]));
        script.currency = self.cast.number_of(currency);
        // The other client has its currencies too.
        (script.payer, script.payee) = (client, 1 - client);
    }

    fn ask_to_move(
        &mut self,
        (name, currency): (FspName, Currency),
        held: &CurrencyAccounts,
        direction: FundsDirection,
    ) -> Change {
        let random = &mut self.treasurer.random;
        let amount = Amount::from_units(i128::from(random.between((1, 5_000))) * UNIT);
        let mut bytes = [0; 17];
        bytes[1..].copy_from_slice(&spread16(random.next()));
        let id = TransferId::from_bytes(bytes).expect("the first byte is that of a UUID");
        let (account, hash) = (held.settlement, request_hash(id, 0));
        let funds = MoveFunds { id, name, account, direction, currency, amount, hash };
        if direction == FundsDirection::Out {
            self.treasurer.outflows.push(funds.clone());
        }
        Change::MoveFunds(funds)
    }

    /// Ends an outflow, through its own account or through that of another currency.
    fn end_some_outflow(&mut self) -> Option<Change> {
        let known = self.treasurer.outflows.len() as u64;
        let at = self.treasurer.random.below(known.max(1)) as usize;
        let MoveFunds { id, name, account, .. } = *self.treasurer.outflows.get(at)?;
        let commit = self.treasurer.random.chance(500);
        let hash = request_hash(id, 1 + u8::from(commit));
        let end = |account| Change::EndFundsOut(EndFundsOut { id, name, account, commit, hash });
        if self.treasurer.random.chance(400) {
            let other = self.other_settlement(&name, account)?;
            self.desk.tally.ends_astray += 1;
            return Some(end(other));
        }
        if self.treasurer.random.chance(700) {
            self.treasurer.outflows.swap_remove(at);
        }
        Some(end(account))
    }

    /// The participant's SETTLEMENT in another currency than that of its `account`.
    fn other_settlement(&mut self, name: &FspName, account: AccountId) -> Option<AccountId> {
        let settlements = self.holdings(name).into_iter().map(|held| held.settlement);
        let others: Vec<_> = settlements.filter(|other| *other != account).collect();
        let at = self.treasurer.random.below(others.len().max(1) as u64) as usize;
        others.get(at).copied()
    }

    fn holdings(&self, name: &FspName) -> Vec<CurrencyAccounts> {
        let found = self.state().and_then(|state| state.register().find(name));
        found.map_or_else(Vec::new, |(_, participant)| participant.holdings.clone())
    }

    fn is_on(&self, account: AccountId) -> bool {
        let found = self.state().and_then(|state| state.books().get(account));
        found.is_some_and(|account| account.active)
    }
}

/// The hub's accounts in a currency, which may be there, and a participant's.
fn open(name: FspName, currency: Currency) -> Vec<Change> {
    let kinds = [AccountKind::HubReconciliation, AccountKind::HubMultilateralSettlement];
    let of_hub = kinds.map(|kind| Change::CreateHubAccount(CreateHubAccount { currency, kind }));
    of_hub.into_iter().chain([CreateParticipant { name, currency }.into()]).collect()
}
