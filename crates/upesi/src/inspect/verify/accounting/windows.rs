//! Windows and settlements by this account: from the commits and the commands, never from the
//! kernel's sums. Only reference data, such as models and the owners of accounts, is looked up.
//!
//! Memory: an account in each window that is not settled, and in each settlement that is not final.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    AccountId, AccountKind, AdvanceSettlement, Amount, ContentId, CreateSettlement, Currency,
    LogIndex, ParticipantIndex, SettlementId, SettlementModel, SettlementState, State, WindowId,
};

/// The first rules with settlement.
const SETTLEMENT_RULES: u32 = 2;

/// Counts of windows and settlements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct WindowCounts {
    /// Commits that were added to a window.
    pub(super) added: u64,
    pub(super) closed: u64,
    pub(super) settled: u64,
    pub(super) settlements: u64,
    pub(super) settlements_settled: u64,
    pub(super) settlements_aborted: u64,
}

/// The windows and settlements.
#[derive(Default)]
pub(super) struct Windows {
    counts: WindowCounts,
    /// The open window; 0 before the first one.
    open: WindowId,
    /// The net of each account in it: paid less received.
    nets: BTreeMap<AccountId, Amount>,
    /// Closed windows that are not settled.
    closed: BTreeMap<WindowId, ClosedWindow>,
    last: SettlementId,
    /// Settlements that are not final.
    settlements: BTreeMap<SettlementId, OpenSettlement>,
}

struct ClosedWindow {
    nets: BTreeMap<AccountId, Amount>,
    contents: Vec<Content>,
}

struct Content {
    id: ContentId,
    of: ContentKey,
    /// The settlement that has it.
    taken: Option<SettlementId>,
    is_settled: bool,
}

/// Account type and currency.
type ContentKey = (AccountKind, Currency);

struct OpenSettlement {
    state: SettlementState,
    resets_positions: bool,
    contents: Vec<(WindowId, ContentId)>,
    accounts: BTreeMap<AccountId, Account>,
    /// Sum of the movements between its accounts and the hub, per currency.
    moved: BTreeMap<Currency, Amount>,
}

struct Account {
    net: Amount,
    state: SettlementState,
}

/// A movement between an account and the hub's HUB_MULTILATERAL_SETTLEMENT account.
pub(super) struct Movement {
    pub(super) account: AccountId,
    /// Added to the account, and taken from the hub's.
    pub(super) amount: Amount,
}

/// The account type to which transfers of a currency are settled at once, if a gross model serves
/// it: an own one, or a default one if no net model names the currency (hub-semantics 5.6).
pub(super) fn gross_account(state: &State, currency: Currency) -> Option<AccountKind> {
    let serves =
        |model: &&SettlementModel| model.active && model.ledger_account == AccountKind::Position;
    let models: Vec<_> = state.registry().models().iter().filter(serves).collect();
    let own = models.iter().filter(|model| model.currency == Some(currency));
    let default = models.iter().filter(|model| model.currency.is_none());
    let is_net = own.clone().any(|model| model.net);
    // With one account type for both there is nothing to move.
    let is_gross =
        |model: &&&SettlementModel| !model.net && model.settlement_account != model.ledger_account;
    let default = default.filter(|_| !is_net);
    own.chain(default).find(is_gross).map(|model| model.settlement_account)
}

/// A participant's account of a type and currency.
pub(super) fn account_of(
    state: &State,
    owner: ParticipantIndex,
    of: ContentKey,
) -> Option<AccountId> {
    let accounts = state.registry().get(owner).accounts.iter();
    let mut of_kind = accounts.filter(|id| key_of(state, **id) == Some(of));
    of_kind.next().copied()
}

fn key_of(state: &State, account: AccountId) -> Option<ContentKey> {
    state.accounts().get(account).map(|account| (account.kind, account.currency))
}

fn add(sum: &mut Amount, amount: Amount) -> Result<(), String> {
    *sum = sum.checked_add(amount).ok_or("a sum leaves the range of the ledger")?;
    Ok(())
}

impl Windows {
    pub(super) const fn counts(&self) -> WindowCounts {
        self.counts
    }

    /// Opens the first window, once these rules know settlement.
    pub(super) fn begin(&mut self, rules_version: u32) {
        if self.open == WindowId(0) && SETTLEMENT_RULES <= rules_version {
            self.open = WindowId(1);
        }
    }

    /// Whether there is an open window.
    pub(super) const fn are_open(&self) -> bool {
        self.open.0 != 0
    }

    /// A committed transfer that is settled later.
    pub(super) fn add(
        &mut self,
        (payer, payee): (AccountId, AccountId),
        amount: Amount,
    ) -> Result<(), String> {
        self.counts.added += 1;
        self.add_fee((payer, payee), amount)
    }

    /// A fee, which is settled later.
    pub(super) fn add_fee(
        &mut self,
        (payer, payee): (AccountId, AccountId),
        amount: Amount,
    ) -> Result<(), String> {
        add(self.nets.entry(payer).or_default(), amount)?;
        add(self.nets.entry(payee).or_default(), -amount)
    }

    /// The window was closed by the record `at`.
    pub(super) fn close(
        &mut self,
        (id, at): (WindowId, LogIndex),
        state: &State,
    ) -> Result<(), String> {
        if id != self.open {
            return Err(format!("window {} was closed, but window {} is open", id.0, self.open.0));
        }
        self.compare_open(state, id)?;
        let nets = std::mem::take(&mut self.nets);
        let mut totals: BTreeMap<ContentKey, Amount> = BTreeMap::new();
        for (account, net) in &nets {
            let of = key_of(state, *account).ok_or("a window has sums of a missing account")?;
            add(totals.entry(of).or_default(), *net)?;
        }
        for ((_, currency), total) in &totals {
            if *total != Amount::ZERO {
                let id = id.0;
                return Err(format!("the nets of window {id} sum to {total} {currency}, not to 0"));
            }
        }
        let book = state.settlement();
        let window = &book.window(id).ok_or("a window is missing that was just closed")?.window;
        let keys = window.contents.iter().map(|content| (content.kind, content.currency));
        if !keys.eq(totals.into_keys()) || window.closed != at {
            return Err(format!("window {} has other contents than its transfers", id.0));
        }
        let content = |content: &ledger::WindowContent| {
            let (id, of) = (content.id, (content.kind, content.currency));
            Content { id, of, taken: None, is_settled: false }
        };
        let contents = window.contents.iter().map(content).collect();
        self.closed.insert(id, ClosedWindow { nets, contents });
        self.counts.closed += 1;
        self.open = WindowId(id.0 + 1);
        Ok(())
    }

    /// Compares the nets of the open window with the kernel's sums; `id` is its number there.
    pub(super) fn compare_open(&self, state: &State, id: WindowId) -> Result<(), String> {
        let sums = state.settlement().sums(id);
        for sums in sums {
            let (own, account) = (self.nets.get(&sums.account), sums.account.0);
            let kernel = sums.paid.checked_add(-sums.received);
            if own.copied() != kernel {
                return Err(format!(
                    "account {account} has another net in window {} than its transfers: paid {}, \
                     received {}",
                    id.0, sums.paid, sums.received
                ));
            }
        }
        match sums.len() == self.nets.len() {
            true => Ok(()),
            false => Err(format!("window {} lacks the sums of an account", id.0)),
        }
    }

    /// A settlement was created.
    pub(super) fn create(
        &mut self,
        change: &CreateSettlement,
        state: &State,
    ) -> Result<(), String> {
        let models = state.registry().models();
        let model = models.iter().find(|model| model.name == change.model);
        let model = model.ok_or("a settlement has an unknown model")?;
        let id = SettlementId(self.last.0 + 1);
        let windows: BTreeSet<WindowId> = change.windows.iter().copied().collect();
        let (mut contents, mut nets) = (Vec::new(), BTreeMap::<AccountId, Amount>::new());
        for number in windows {
            let window = self.closed.get_mut(&number);
            let window = window.ok_or(format!("window {} cannot be settled", number.0))?;
            let free = window.contents.iter_mut().filter(|content| {
                content.taken.is_none() && !content.is_settled && serves(models, model, content.of)
            });
            for content in free {
                content.taken = Some(id);
                contents.push((number, content.id));
                let own = window.nets.iter();
                for (account, net) in own.filter(|(it, _)| key_of(state, **it) == Some(content.of))
                {
                    add(nets.entry(*account).or_default(), *net)?;
                }
            }
        }
        let kernel = state.settlement().settlement(id);
        let kernel = kernel.ok_or(format!("settlement {} is missing", id.0))?;
        let kernel_nets = kernel.accounts.iter().map(|row| (row.account, row.net));
        if kernel.settlement.contents != contents || !kernel_nets.eq(nets.clone()) {
            return Err(format!("settlement {} has other contents or nets", id.0));
        }
        let state = SettlementState::PendingSettlement;
        let account = |(id, net)| (id, Account { net, state });
        let accounts = nets.into_iter().map(account).collect();
        let (resets_positions, moved) = (model.auto_position_reset, BTreeMap::new());
        let open = OpenSettlement { state, resets_positions, contents, accounts, moved };
        self.settlements.insert(id, open);
        self.last = id;
        self.counts.settlements += 1;
        Ok(())
    }

    /// Accounts of a settlement moved to their next state.
    pub(super) fn advance(
        &mut self,
        change: &AdvanceSettlement,
        state: &State,
    ) -> Result<Vec<Movement>, String> {
        let id = change.settlement;
        // A final settlement only takes new reasons.
        let Some(open) = self.settlements.get_mut(&id) else { return self.check_final(id) };
        let (mut movements, mut seen) = (Vec::new(), BTreeSet::new());
        for step in &change.steps {
            let owner = state.accounts().get(step.account).map(|account| account.owner.0 + 1);
            let Some(account) = open.accounts.get_mut(&step.account) else { continue };
            if owner != Some(step.participant) || !seen.insert(step.account) {
                continue;
            }
            let Some((from, to)) = step_after(open.state) else { continue };
            if account.state != from || step.state != to {
                continue;
            }
            account.state = to;
            let amount = match to {
                SettlementState::PsTransfersReserved if account.net < Amount::ZERO => -account.net,
                SettlementState::PsTransfersCommitted if Amount::ZERO < account.net => -account.net,
                _ => continue,
            };
            if open.resets_positions {
                movements.push(Movement { account: step.account, amount });
            }
        }
        open.count(&movements, state)?;
        open.follow();
        let (reached, is_settled) = (open.state, open.state == SettlementState::Settled);
        self.settle_contents(id, state)?;
        if is_settled {
            self.counts.settlements_settled += 1;
            self.end(id)?;
        }
        compare_state(state, id, reached)?;
        Ok(movements)
    }

    /// A settlement was aborted.
    pub(super) fn abort(
        &mut self,
        id: SettlementId,
        state: &State,
    ) -> Result<Vec<Movement>, String> {
        let Some(open) = self.settlements.get_mut(&id) else { return self.check_final(id) };
        let is_committed =
            |account: &Account| account.state >= SettlementState::PsTransfersCommitted;
        if open.accounts.values().any(is_committed) {
            return Err(format!("settlement {} was aborted after a commit", id.0));
        }
        let is_moved = |account: &Account| {
            account.state == SettlementState::PsTransfersReserved && account.net < Amount::ZERO
        };
        let moved = open.accounts.iter().filter(|(_, it)| open.resets_positions && is_moved(it));
        let back = moved.map(|(id, it)| Movement { account: *id, amount: it.net });
        let movements: Vec<_> = back.collect();
        open.count(&movements, state)?;
        for (window, content) in &open.contents {
            let contents = self.closed.get_mut(window).map(|window| &mut window.contents);
            let mut contents = contents.into_iter().flatten();
            if let Some(content) = contents.find(|it| it.id == *content) {
                content.taken = None;
            }
        }
        self.counts.settlements_aborted += 1;
        self.end(id)?;
        compare_state(state, id, SettlementState::Aborted)?;
        Ok(movements)
    }

    fn check_final(&self, id: SettlementId) -> Result<Vec<Movement>, String> {
        match SettlementId(0) < id && id <= self.last {
            true => Ok(Vec::new()),
            false => Err(format!("settlement {} was never created", id.0)),
        }
    }

    /// Settles the contents of which all accounts are settled: each once.
    fn settle_contents(&mut self, id: SettlementId, state: &State) -> Result<(), String> {
        let open = &self.settlements[&id];
        let is_settled = |account: &AccountId| {
            let account = open.accounts.get(account);
            account.is_none_or(|account| account.state == SettlementState::Settled)
        };
        let some = open.accounts.values().any(|it| it.state == SettlementState::Settled);
        for (number, content) in open.contents.iter().filter(|_| some) {
            let Some(window) = self.closed.get_mut(number) else { continue };
            let ClosedWindow { nets, contents } = window;
            let content = contents.iter_mut().find(|it| it.id == *content);
            let content = content.ok_or("a settlement has a content that no window has")?;
            let mut own = nets.keys().filter(|it| key_of(state, **it) == Some(content.of));
            if !own.all(is_settled) {
                continue;
            }
            if content.taken != Some(id) {
                return Err(format!("content {} is settled twice", content.id.0));
            }
            content.is_settled = true;
        }
        let before = self.closed.len();
        self.closed.retain(|_, window| !window.contents.iter().all(|it| it.is_settled));
        self.counts.settled += (before - self.closed.len()) as u64;
        Ok(())
    }

    /// The end of a settlement: the hub's account is back at its former balance.
    fn end(&mut self, id: SettlementId) -> Result<(), String> {
        let ended = self.settlements.remove(&id).ok_or("it has ended before")?;
        match ended.moved.into_iter().find(|(_, sum)| *sum != Amount::ZERO) {
            None => Ok(()),
            Some((currency, sum)) => Err(format!(
                "settlement {} has ended, and the hub's account is {sum} {currency} away from \
                 its former balance",
                id.0
            )),
        }
    }
}

impl OpenSettlement {
    fn count(&mut self, movements: &[Movement], state: &State) -> Result<(), String> {
        for Movement { account, amount } in movements {
            let (_, currency) = key_of(state, *account).ok_or("a settled account is missing")?;
            add(self.moved.entry(currency).or_default(), *amount)?;
        }
        Ok(())
    }

    /// It moves when all accounts have moved.
    fn follow(&mut self) {
        let Some((_, next)) = step_after(self.state) else { return };
        if self.accounts.values().all(|account| account.state == next) {
            self.state = next;
        } else if self.accounts.values().any(|it| it.state == SettlementState::Settled) {
            self.state = SettlementState::Settling;
        }
    }
}

/// From which state to which an account may move, by the state of its settlement (hub-semantics
/// 5.4).
const fn step_after(state: SettlementState) -> Option<(SettlementState, SettlementState)> {
    use SettlementState::*;
    match state {
        PendingSettlement => Some((PendingSettlement, PsTransfersRecorded)),
        PsTransfersRecorded => Some((PsTransfersRecorded, PsTransfersReserved)),
        PsTransfersReserved => Some((PsTransfersReserved, PsTransfersCommitted)),
        PsTransfersCommitted | Settling => Some((PsTransfersCommitted, Settled)),
        Settled | Aborted => None,
    }
}

/// Whether a model settles an account type in a currency: it names the currency, or it names none
/// and no active model of the account type names it (hub-semantics 5.2).
fn serves(models: &[SettlementModel], model: &SettlementModel, of: ContentKey) -> bool {
    let (kind, currency) = of;
    let names = |other: &SettlementModel| {
        other.active && other.ledger_account == kind && other.currency == Some(currency)
    };
    let is_fitting = match model.currency {
        Some(own) => own == currency,
        None => !models.iter().any(names),
    };
    model.ledger_account == kind && is_fitting
}

/// Compares the state of a settlement, unless the kernel has archived it.
fn compare_state(state: &State, id: SettlementId, own: SettlementState) -> Result<(), String> {
    let kernel = state.settlement().settlement(id).map(|entry| entry.settlement.state);
    match kernel.is_none_or(|kernel| kernel == own) {
        true => Ok(()),
        false => Err(format!("settlement {} is {} by this account", id.0, own.name())),
    }
}
