//! The settlement workload: an operator who closes windows and settles them at random moments.
//!
//! Settlements advance with all accounts at once, participant by participant, or account by
//! account. Steps are repeated, skipped, and asked for the wrong participant. Some settlements are
//! aborted. Models are added and switched while transfers run: net multilateral and net bilateral
//! ones, and gross ones, per currency. Models and rules of interchange fees are added and switched
//! too, and most transfers name a rule. In some runs the operator creates and aborts settlements
//! over the same windows, so that old settlements are archived.
//!
//! The workload exists in some runs only, and has its own RNG stream. It serves one node and three
//! nodes alike: it reads a state of the hub, which may be old, and names the next changes.

use ledger::{
    AbortSettlement, AccountId, AccountKind, AccountStep, AdvanceSettlement, Amount, Change,
    CloseWindow, CreateFeeRule, CreateSettlement, CreateSettlementModel, Currency, Fee,
    FeeConditions, FeePayer, FeeRule, FeeRuleId, Rounding, SetFeeRuleActive,
    SetSettlementModelActive, SettlementId, SettlementModel, SettlementState,
    SettlementWithAccounts, State, Window, WindowId, WindowState,
};
use model::Model;
use ports::ColdStore;

use crate::event::Event;
use crate::random::{Arrivals, Random, mix};
use crate::simulation::SimulationRun;

/// Separates the RNG stream of this workload from that of the run. With this number, no seed that
/// had found a bug before gets the workload, so those seeds still find it.
pub(crate) const STREAM: u64 = 0x0073_6574_746c_f4ba;
/// Settlements that may be under way before another one is created.
const UNDER_WAY: usize = 3;

/// An operator who settles.
#[derive(Debug)]
pub(crate) struct SettlementWorkload {
    random: Random,
    pub(crate) arrivals: Arrivals,
    /// The operator mostly creates and aborts settlements.
    churns: bool,
}

impl SettlementWorkload {
    /// The operator of a run, with a stream of random numbers of its own.
    pub(crate) fn new(seed: u64, stream: u64, (per_mille, chaos_us): (u32, u64)) -> Self {
        let mut random = Random::new(mix(seed ^ stream));
        let mut arrivals = Arrivals::draw(&mut random, per_mille, (20, 150), chaos_us);
        let churns = random.chance(150);
        if churns && arrivals.is_active() {
            arrivals = Arrivals::draw(&mut random, 1_000, (500, 700), chaos_us);
        }
        Self { random, arrivals, churns }
    }

    /// How long it is until the next act, if there is one.
    pub(crate) fn wait(&mut self) -> Option<u64> {
        self.arrivals.next(&mut self.random)
    }

    /// The next change, as far as the state has something to settle.
    pub(crate) fn next(&mut self, state: &State, currencies: &[Currency]) -> Option<Change> {
        if self.churns && self.random.chance(800) {
            return self.churn(state);
        }
        match self.random.below(45) {
            0 | 1 => Some(self.add_model(currencies)),
            2 => self.switch_model(state),
            3..8 => Some(self.close(state)),
            8..13 => self.create(state),
            13 => Some(self.create_wrongly(state)),
            14 | 15 => self.abort(state),
            16 | 17 => Some(self.add_fee_model(currencies)),
            18 | 19 => Some(self.add_fee_rule(state, currencies)),
            20 => Some(self.switch_fee_rule(state)),
            _ => self.advance(state),
        }
    }

    /// A model of transfers: its currency gives it its name.
    fn add_model(&mut self, currencies: &[Currency]) -> Change {
        let currency = self.random.pick(currencies);
        let (kind, net, multilateral) = match self.random.below(4) {
            0 => ("MULTI", true, true),
            1 | 2 => ("BILATERAL", true, false),
            _ => ("GROSS", false, false),
        };
        // Participants have no accounts of the latter type, as if they had joined before the model.
        let accounts = [AccountKind::Settlement, AccountKind::InterchangeFeeSettlement];
        let at = usize::from(!net && self.random.chance(200));
        let model = SettlementModel {
            name: format!("{kind}{currency}"),
            net,
            multilateral,
            deferred: net || self.random.chance(500),
            currency: Some(currency),
            liquidity_check: self.random.chance(700),
            auto_position_reset: self.random.chance(800),
            ledger_account: AccountKind::Position,
            settlement_account: accounts[at],
            active: true,
        };
        CreateSettlementModel { model }.into()
    }

    /// A model of fees, in one currency or in all of them.
    fn add_fee_model(&mut self, currencies: &[Currency]) -> Change {
        let currency = self.random.chance(300).then(|| self.random.pick(currencies));
        let code = currency.map_or_else(|| "ALL".to_owned(), |currency| currency.to_string());
        let model = SettlementModel {
            name: format!("FEES{code}"),
            net: true,
            multilateral: self.random.chance(500),
            deferred: true,
            currency,
            liquidity_check: self.random.chance(700),
            auto_position_reset: self.random.chance(800),
            ledger_account: AccountKind::InterchangeFee,
            settlement_account: AccountKind::InterchangeFeeSettlement,
            active: true,
        };
        CreateSettlementModel { model }.into()
    }

    /// One of six rules, or one that exists.
    fn add_fee_rule(&mut self, state: &State, currencies: &[Currency]) -> Change {
        let count = state.fees().rules().len() as u64;
        let number = self.random.below((count + 1).min(6));
        let fee = match self.random.below(3) {
            0 => Fee::Fixed { amount: Amount::from_units(1_234) },
            _ => Fee::Percentage {
                parts_per_million: 1 + self.random.below(100_000) as u32,
                decimals: self.random.below(5) as u32,
                rounding: self.random.pick(Rounding::ALL),
            },
        };
        let rule = FeeRule {
            name: format!("rule {number}"),
            currency: self.random.chance(300).then(|| self.random.pick(currencies)),
            conditions: FeeConditions::default(),
            fee,
            payer: self.random.pick(FeePayer::ALL),
            active: self.random.chance(900),
        };
        CreateFeeRule { rule: Box::new(rule) }.into()
    }

    /// Mostly switches a rule on. Some do not exist.
    fn switch_fee_rule(&mut self, state: &State) -> Change {
        let count = state.fees().rules().len() as u64;
        let rule = FeeRuleId(self.random.below(count + 2) as u32);
        SetFeeRuleActive { rule, active: self.random.chance(700) }.into()
    }

    /// Gross models are mostly inactive, so that windows have transfers.
    fn switch_model(&mut self, state: &State) -> Option<Change> {
        let models = state.registry().models();
        let own: Vec<_> = models.iter().filter(|model| model.currency.is_some()).collect();
        let at = self.random.below(own.len().max(1) as u64) as usize;
        let model = own.get(at)?;
        let active = self.random.chance(if model.net { 700 } else { 300 });
        Some(SetSettlementModelActive { name: model.name.clone(), active }.into())
    }

    /// Closes the open window, or asks for an older or unknown one.
    fn close(&mut self, state: &State) -> Change {
        let open = state.settlement().numbers().window.0;
        let window = match self.random.below(10) {
            0 => self.random.below(u64::from(open) + 1) as u32,
            1 => open + 1,
            _ => open,
        };
        CloseWindow { window: WindowId(window), reason: "end of the window".into() }.into()
    }

    /// Settles some windows by a model that serves one of their contents.
    fn create(&mut self, state: &State) -> Option<Change> {
        let book = state.settlement();
        let under_way = book.settlements().filter(|it| !is_final(it.settlement.state)).count();
        if UNDER_WAY <= under_way && self.random.chance(900) {
            return None;
        }
        let free: Vec<_> = book.windows().map(|it| &it.window).filter(|it| is_free(it)).collect();
        let at = self.random.below(free.len().max(1) as u64) as usize;
        let contents = free.get(at)?.contents.iter();
        let contents: Vec<_> = contents.filter(|it| is_unsettled(it.state)).collect();
        let content = contents[self.random.below(contents.len() as u64) as usize];
        let serves = |model: &&SettlementModel| {
            let of = (content.kind, content.currency);
            model.net && state.registry().is_served(model, of)
        };
        let models: Vec<_> = state.registry().models().iter().filter(serves).collect();
        let model = models.get(self.random.below(models.len().max(1) as u64) as usize)?;
        let more = 1 + self.random.below(3) as usize;
        let windows = free[at..].iter().take(more).map(|window| window.id).collect();
        let reason = "daily settlement".into();
        Some(CreateSettlement { model: model.name.clone(), reason, windows }.into())
    }

    /// Settles by any model, or by none, any windows, the open one and unknown ones included.
    fn create_wrongly(&mut self, state: &State) -> Change {
        let models = state.registry().models();
        let at = self.random.below(models.len() as u64 + 1) as usize;
        let model = models.get(at).map_or_else(|| "NONE".to_owned(), |model| model.name.clone());
        let open = u64::from(state.settlement().numbers().window.0);
        let count = self.random.below(3);
        let windows = (0..count).map(|_| WindowId(self.random.below(open + 2) as u32)).collect();
        CreateSettlement { model, reason: "by mistake".into(), windows }.into()
    }

    fn advance(&mut self, state: &State) -> Option<Change> {
        let book = state.settlement();
        if self.random.chance(30) {
            // Unknown, archived or final.
            let newest = u64::from(book.numbers().settlement.0);
            let settlement = SettlementId(self.random.below(newest + 2) as u32);
            return Some(AdvanceSettlement { settlement, steps: Vec::new() }.into());
        }
        let mut entry = self.under_way(state)?;
        if self.random.chance(50) {
            entry = book.settlements().next_back()?;
        }
        let before = entry.settlement.state;
        let next = before.next().unwrap_or(SettlementState::Settled);
        let state_of_step = match self.random.below(20) {
            0 => before,
            1 => next.next().unwrap_or(SettlementState::Settling),
            2 => SettlementState::Aborted,
            _ => next,
        };
        let mut steps = Vec::new();
        for account in self.accounts(state, entry, next) {
            steps.push(self.step(state, account, state_of_step));
        }
        if self.random.chance(50) {
            steps.extend(steps.first().cloned());
        }
        Some(AdvanceSettlement { settlement: entry.settlement.id, steps }.into())
    }

    /// All accounts of a settlement, those of one participant, or the next one that is to move.
    fn accounts(
        &mut self,
        state: &State,
        entry: &SettlementWithAccounts,
        next: SettlementState,
    ) -> Vec<AccountId> {
        let all: Vec<_> = entry.accounts.iter().map(|row| row.account).collect();
        let waiting = entry.accounts.iter().filter(|row| row.state != next);
        let waiting: Vec<_> = waiting.map(|row| row.account).collect();
        match self.random.below(4) {
            0 | 1 => all,
            2 => {
                let owner = |id: AccountId| state.accounts().get(id).map(|account| account.owner);
                let first = waiting.first().or(all.first()).copied().and_then(owner);
                all.into_iter().filter(|id| owner(*id) == first).collect()
            }
            _ => waiting.into_iter().take(1).collect(),
        }
    }

    /// A step of an account, sometimes of another one, or of another participant.
    fn step(&mut self, state: &State, account: AccountId, to: SettlementState) -> AccountStep {
        let account = match self.random.chance(20) {
            true => AccountId(self.random.below(20) as u32),
            false => account,
        };
        let owner = state.accounts().get(account).map_or(0, |account| account.owner.0);
        let other = u32::from(self.random.chance(20));
        AccountStep {
            participant: owner + 1 + other,
            account,
            state: to,
            reason: format!("{} by the bank", to.name()),
            external_reference: if other == 0 { String::new() } else { "reference".into() },
        }
    }

    /// Aborts a settlement under way, or any other one.
    fn abort(&mut self, state: &State) -> Option<Change> {
        let book = state.settlement();
        let has_committed = |entry: &&SettlementWithAccounts| {
            let is_committed = |state| state == SettlementState::PsTransfersCommitted;
            !is_committed(entry.settlement.state)
                && entry.accounts.iter().any(|row| is_committed(row.state))
        };
        let settlement = match self.random.below(6) {
            0 => {
                let newest = u64::from(book.numbers().settlement.0);
                SettlementId(self.random.below(newest + 2) as u32)
            }
            1 | 2 => book.settlements().find(has_committed)?.settlement.id,
            3 => book.settlements().next_back()?.settlement.id,
            _ => self.under_way(state)?.settlement.id,
        };
        Some(AbortSettlement { settlement, reason: "a participant has not paid".into() }.into())
    }

    /// Aborts the newest settlement, or settles its windows again. Looks for archived ones too.
    fn churn(&mut self, state: &State) -> Option<Change> {
        let book = state.settlement();
        if self.random.chance(100) {
            let settlement = SettlementId(1 + self.random.below(5) as u32);
            let reason = "long ago".into();
            return Some(match self.random.chance(500) {
                true => AbortSettlement { settlement, reason }.into(),
                false => AdvanceSettlement { settlement, steps: Vec::new() }.into(),
            });
        }
        match book.settlements().find(|it| !is_final(it.settlement.state)) {
            Some(entry) => {
                let (settlement, reason) = (entry.settlement.id, "once more".into());
                Some(AbortSettlement { settlement, reason }.into())
            }
            None if book.windows().any(|it| is_free(&it.window)) => self.create(state),
            None => Some(self.close(state)),
        }
    }

    /// A settlement that is not final.
    fn under_way<'a>(&mut self, state: &'a State) -> Option<&'a SettlementWithAccounts> {
        let all = state.settlement().settlements();
        let all: Vec<_> = all.filter(|it| !is_final(it.settlement.state)).collect();
        let at = self.random.below(all.len().max(1) as u64) as usize;
        all.get(at).copied()
    }
}

fn is_final(state: SettlementState) -> bool {
    matches!(state, SettlementState::Settled | SettlementState::Aborted)
}

fn is_unsettled(state: WindowState) -> bool {
    matches!(state, WindowState::Closed | WindowState::Aborted)
}

fn is_free(window: &Window) -> bool {
    window.contents.iter().any(|content| is_unsettled(content.state))
}

/// Counts of what a run has settled, from the state at its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettlementCounts {
    /// Windows that were closed.
    pub windows_closed: u64,
    /// Settlements that were settled and are not archived.
    pub settled: u64,
    /// Settlements that were aborted and are not archived.
    pub aborted: u64,
    /// Settlements that were archived.
    pub archived: u64,
    /// Windows and settlements that were read back from the archive.
    pub read_back: u64,
    /// Transfers that a gross model settled when they were committed.
    pub at_once: u64,
    /// Fees that were charged.
    pub fees: u64,
}

impl SettlementCounts {
    pub(crate) fn of(state: &State, model: &Model) -> Self {
        let book = state.settlement();
        let count = |state| {
            book.settlements().filter(|entry| entry.settlement.state == state).count() as u64
        };
        Self {
            windows_closed: u64::from(book.numbers().window.0.saturating_sub(1)),
            settled: count(SettlementState::Settled),
            aborted: count(SettlementState::Aborted),
            archived: book.numbers().archived_settlements.rows,
            read_back: 0,
            at_once: model.settled_at_once,
            fees: model.fees_charged,
        }
    }
}

impl SimulationRun {
    /// Schedules the next act, if the run has this workload.
    pub(crate) fn schedule_settlement(&mut self) {
        if let Some(wait) = self.settlement_workload.wait() {
            self.env.after(wait, Event::Settlement);
        }
    }

    /// The store has what the model archived, once it is complete.
    pub(crate) fn check_archive(&mut self) {
        if self.store.mark().log_index.0 < self.external.seen() {
            return;
        }
        for row in self.external.model.archived() {
            let number = row.number();
            let found = ColdStore::settlements(&self.store, row.kind(), number..=number, 1);
            assert_eq!(found.expect("a store in memory is read"), [row], "the archive");
            self.env.counts.settlement.read_back += 1;
        }
    }

    pub(crate) fn run_settlement_step(&mut self) {
        if self.env.calm {
            return;
        }
        let state = self.hub.as_ref().map(|hub| hub.sequencer().state());
        let currencies = &self.actors.currencies;
        let change = state.and_then(|state| self.settlement_workload.next(state, currencies));
        if let Some(change) = change {
            self.ask_for_change(change);
        }
        self.schedule_settlement();
    }
}
