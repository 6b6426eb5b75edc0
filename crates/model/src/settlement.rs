//! The model of settlement (hub-semantics 5, settlement-and-bulk 1, and the rulings).
//!
//! It keeps every committed transfer of a window. It sums them when the window is closed, and nets
//! them again when a settlement is created. Nothing is summed at the commit.

use std::collections::{BTreeMap, BTreeSet};

use ledger::{
    AbortSettlement, AccountId, AccountKind, AccountSums, AdvanceSettlement, Amount,
    ArchivedSettlement, ChangeResult, CloseWindow, ContentId, CreateSettlement, Currency, Effects,
    LogIndex, Outcome, PAIRS_MAX, PairSums, SETTLEMENTS_MAX, SettlementAccount, SettlementId,
    SettlementModel, SettlementState, SettlementWithAccounts, Stamp, State, StepResult,
    WINDOWS_MAX, WindowContent, WindowId, WindowState, WindowWithSums,
};

use super::{Model, Money, Predict};

/// The first version of the rules with settlement.
pub(super) const SETTLEMENT_RULES: u32 = 2;
/// Number of settled windows, and of final settlements, that are not archived.
const KEPT: usize = 100;

/// A committed transfer or its fee, between two accounts.
#[derive(Clone, Copy, Debug)]
struct Committed {
    payer: usize,
    payee: usize,
    amount: Money,
    /// Whether a bilateral model served its currency.
    in_pairs: bool,
}

#[derive(Clone, Debug)]
struct Window {
    state: WindowState,
    reason: String,
    created: Stamp,
    changed: Stamp,
    opened: u64,
    closed: u64,
    transfers: Vec<Committed>,
    /// The sums at the close.
    sums: (Vec<AccountSums>, Vec<PairSums>),
    contents: Vec<Content>,
    is_archived: bool,
}

#[derive(Clone, Debug)]
struct Content {
    id: u32,
    kind: AccountKind,
    currency: Currency,
    state: WindowState,
    settlement: Option<u32>,
    created: Stamp,
    changed: Stamp,
}

#[derive(Clone, Debug)]
struct Settlement {
    model: String,
    state: SettlementState,
    reason: String,
    created: Stamp,
    changed: Stamp,
    record: u64,
    /// Numbers of windows and contents.
    contents: Vec<(u32, u32)>,
    /// By account, see [`super::scheme::Scheme`].
    accounts: BTreeMap<usize, Row>,
    /// Sum of its movements on accounts of the hub.
    moved: Money,
    is_archived: bool,
}

/// An account in a settlement.
#[derive(Clone, Debug)]
struct Row {
    net: Money,
    state: SettlementState,
    reason: String,
    reference: String,
    changed: Stamp,
    cap_raise: Money,
}

/// All windows and settlements, by number.
#[derive(Clone, Debug, Default)]
pub(super) struct Settlements {
    windows: BTreeMap<u32, Window>,
    settlements: BTreeMap<u32, Settlement>,
    newest_content: u32,
    /// Windows and settlements that the current batch changed.
    touched: (BTreeSet<u32>, BTreeSet<u32>),
    /// Windows and settlements that it archived.
    archived: (Vec<WindowWithSums>, Vec<SettlementWithAccounts>),
    results: Vec<(LogIndex, ChangeResult)>,
}

impl Window {
    fn row(&self, id: u32) -> WindowWithSums {
        let content = |content: &Content| WindowContent {
            id: ContentId(content.id),
            kind: content.kind,
            currency: content.currency,
            state: content.state,
            settlement: content.settlement.map(SettlementId),
            created: content.created,
            changed: content.changed,
        };
        let window = ledger::Window {
            id: WindowId(id),
            state: self.state,
            reason: self.reason.clone(),
            created: self.created,
            changed: self.changed,
            opened: LogIndex(self.opened),
            closed: LogIndex(self.closed),
            contents: self.contents.iter().map(content).collect(),
        };
        let (accounts, pairs) = self.sums.clone();
        WindowWithSums { window, accounts: accounts.into(), pairs: pairs.into() }
    }

    /// 5.2: a window is in a settlement while one of its contents is. It is settled when all are.
    fn follow(&mut self, reason: &str, stamp: Stamp) {
        let count = |state| self.contents.iter().filter(|content| content.state == state).count();
        let settled = count(WindowState::Settled);
        let next = if 0 < count(WindowState::PendingSettlement) {
            WindowState::PendingSettlement
        } else if 0 < count(WindowState::Aborted) {
            WindowState::Aborted
        } else if settled == self.contents.len() {
            WindowState::Settled
        } else if 0 < settled {
            WindowState::PendingSettlement
        } else {
            WindowState::Closed
        };
        if next != self.state {
            (self.state, self.changed) = (next, stamp);
            self.reason = reason.to_owned();
        }
    }
}

impl Settlement {
    fn row(&self, id: u32) -> SettlementWithAccounts {
        let account = |(at, row): (&usize, &Row)| SettlementAccount {
            account: number(*at),
            net: Amount::from_units(row.net),
            state: row.state,
            reason: row.reason.clone(),
            external_reference: row.reference.clone(),
            changed: row.changed,
            cap_raise: Amount::from_units(row.cap_raise),
        };
        let contents = self.contents.iter();
        let settlement = ledger::Settlement {
            id: SettlementId(id),
            model: self.model.clone(),
            state: self.state,
            reason: self.reason.clone(),
            created: self.created,
            changed: self.changed,
            record: LogIndex(self.record),
            contents: contents.map(|(window, id)| (WindowId(*window), ContentId(*id))).collect(),
        };
        let accounts = self.accounts.iter().map(account).collect();
        SettlementWithAccounts { settlement, accounts }
    }

    fn is_final(&self) -> bool {
        matches!(self.state, SettlementState::Settled | SettlementState::Aborted)
    }

    fn all_are(&self, state: SettlementState) -> bool {
        self.accounts.values().all(|row| row.state == state)
    }

    fn some_are(&self, state: SettlementState) -> bool {
        self.accounts.values().any(|row| row.state == state)
    }
}

impl Settlements {
    /// Begins a batch.
    pub(super) fn begin(&mut self) {
        self.touched = Default::default();
        self.archived = Default::default();
        self.results.clear();
    }

    /// Compares what the batch changed.
    pub(super) fn compare(&self, state: &State, effects: &Effects) {
        assert_eq!(effects.results, self.results, "results of changes");
        let (mut windows, mut settlements) = (Vec::new(), Vec::new());
        for row in &effects.archived {
            match row {
                ArchivedSettlement::Window(row) => windows.push(row.clone()),
                ArchivedSettlement::Settlement(row) => settlements.push(row.clone()),
            }
        }
        assert_eq!((windows, settlements), self.archived, "archived by the batch");
        self.compare_numbers(state);
        self.touched.0.iter().for_each(|id| self.compare_window(state, *id));
        self.touched.1.iter().for_each(|id| self.compare_settlement(state, *id));
    }

    /// Compares all windows and settlements.
    pub(super) fn compare_in_full(&self, state: &State) {
        self.compare_numbers(state);
        self.windows.keys().for_each(|id| self.compare_window(state, *id));
        self.settlements.keys().for_each(|id| self.compare_settlement(state, *id));
        let book = state.settlement();
        let sums = self.open().map(sums_of).unwrap_or_default();
        assert_eq!(book.open_accounts(), sums.0, "sums of the open window");
        assert_eq!(book.open_pairs(), sums.1, "sums per pair of the open window");
    }

    fn compare_numbers(&self, state: &State) {
        let (book, kept) = (state.settlement(), state.settlement().numbers());
        let newest = (kept.window.0, kept.content.0, kept.settlement.0);
        let expected = (self.windows.len(), self.newest_content, self.settlements.len());
        assert_eq!(newest, (expected.0 as u32, expected.1, expected.2 as u32), "newest numbers");
        let archived = self.windows.values().filter(|window| window.is_archived).count();
        assert_eq!(kept.archived_windows.rows, archived as u64, "archived windows");
        assert_eq!(book.windows().count() + archived, self.windows.len(), "windows in memory");
        let archived = self.settlements.values().filter(|it| it.is_archived).count();
        assert_eq!(kept.archived_settlements.rows, archived as u64, "archived settlements");
        let in_memory = book.settlements().count();
        assert_eq!(in_memory + archived, self.settlements.len(), "settlements in memory");
    }

    fn compare_window(&self, state: &State, id: u32) {
        let own = &self.windows[&id];
        let expected = (!own.is_archived).then(|| own.row(id));
        assert_eq!(state.settlement().window(WindowId(id)), expected.as_ref(), "window {id}");
    }

    fn compare_settlement(&self, state: &State, id: u32) {
        let own = &self.settlements[&id];
        let expected = (!own.is_archived).then(|| own.row(id));
        let kept = state.settlement().settlement(SettlementId(id));
        assert_eq!(kept, expected.as_ref(), "settlement {id}");
        let net: Money = own.accounts.values().map(|row| row.net).sum();
        assert_eq!(net, 0, "the nets of settlement {id} sum to zero");
        assert!(
            !own.is_final() || own.moved == 0,
            "settlement {id} has moved {} too much",
            own.moved
        );
    }

    fn open(&self) -> Option<&Window> {
        self.windows.last_key_value().map(|(_, window)| window)
    }

    fn window_mut(&mut self, id: u32) -> &mut Window {
        self.touched.0.insert(id);
        self.windows.get_mut(&id).expect("the window exists")
    }

    fn settlement_mut(&mut self, id: u32) -> &mut Settlement {
        self.touched.1.insert(id);
        self.settlements.get_mut(&id).expect("the settlement exists")
    }

    fn open_next(&mut self, reason: String, stamp: Stamp, record: u64) -> u32 {
        let id = self.windows.len() as u32 + 1;
        let window = Window {
            state: WindowState::Open,
            reason,
            created: stamp,
            changed: stamp,
            opened: record,
            closed: 0,
            transfers: Vec::new(),
            sums: Default::default(),
            contents: Vec::new(),
            is_archived: false,
        };
        self.windows.insert(id, window);
        self.touched.0.insert(id);
        id
    }

    /// Contents of a window that a settlement can take, of account types and currencies that its
    /// model serves.
    fn applicable(&self, id: u32, serves: impl Fn(&Content) -> bool) -> Vec<(u32, u32)> {
        let window = self.windows.get(&id).filter(|window| !window.is_archived);
        let contents = window.map(|window| &window.contents[..]).unwrap_or_default().iter();
        let is_free = |content: &&Content| {
            matches!(content.state, WindowState::Closed | WindowState::Aborted)
        };
        let free = contents.filter(is_free).filter(|content| serves(content));
        free.map(|content| (id, content.id)).collect()
    }

    /// Sets the state of contents; their windows follow.
    fn set_contents(
        &mut self,
        contents: &[(u32, u32)],
        (state, settlement): (WindowState, u32),
        (reason, stamp): (&str, Stamp),
    ) {
        for (window, id) in contents {
            if self.windows[window].is_archived {
                continue;
            }
            let window = self.window_mut(*window);
            let mut all = window.contents.iter_mut();
            let content = all.find(|content| content.id == *id).expect("it was taken");
            if content.state != state {
                (content.state, content.changed) = (state, stamp);
                content.settlement = Some(settlement);
            }
        }
        for (window, _) in contents {
            if !self.windows[window].is_archived {
                self.window_mut(*window).follow(reason, stamp);
            }
        }
    }

    /// 5.4: a content is settled when all of its accounts are.
    fn settle_contents(&mut self, id: u32, stamp: Stamp, kinds: &[(AccountKind, Currency)]) {
        let settlement = &self.settlements[&id];
        let is_settled = |(number, content): &&(u32, u32)| {
            let window = &self.windows[number];
            let content = window.contents.iter().find(|it| it.id == *content);
            let content = content.expect("it was taken");
            let of_content = |account: &usize| kinds[*account] == (content.kind, content.currency);
            let transfers = window.transfers.iter();
            let mut accounts = transfers.flat_map(|it| [it.payer, it.payee]).filter(of_content);
            accounts.all(|at| settlement.accounts[&at].state == SettlementState::Settled)
        };
        let settled: Vec<_> = settlement.contents.iter().filter(is_settled).copied().collect();
        let reason = ("All settlement window content is SETTLED", stamp);
        self.set_contents(&settled, (WindowState::Settled, id), reason);
    }

    /// A cap that the operator sets is no longer lowered by an abort.
    pub(super) fn forget_cap_raises(&mut self, account: usize) {
        for (id, settlement) in &mut self.settlements {
            if let Some(row) = settlement.accounts.get_mut(&account)
                && !settlement.is_archived
                && row.cap_raise != 0
            {
                row.cap_raise = 0;
                self.touched.1.insert(*id);
            }
        }
    }

    /// All settled windows and final settlements but the newest ones leave memory.
    fn archive(&mut self) {
        let is_settled = |window: &Window| window.state == WindowState::Settled;
        let kept = self.windows.iter().filter(|(_, it)| !it.is_archived && is_settled(it));
        let settled: Vec<u32> = kept.map(|(id, _)| *id).collect();
        for id in &settled[..settled.len().saturating_sub(KEPT)] {
            let window = self.window_mut(*id);
            window.is_archived = true;
            let row = window.row(*id);
            self.archived.0.push(row);
        }
        let kept = self.settlements.iter().filter(|(_, it)| !it.is_archived && it.is_final());
        let ended: Vec<u32> = kept.map(|(id, _)| *id).collect();
        for id in &ended[..ended.len().saturating_sub(KEPT)] {
            let settlement = self.settlement_mut(*id);
            settlement.is_archived = true;
            let row = settlement.row(*id);
            self.archived.1.push(row);
        }
    }

    /// The settlement, unless it is unknown or archived.
    fn known(&self, id: SettlementId) -> Result<&Settlement, Outcome> {
        match self.settlements.get(&id.0) {
            None => Err(Outcome::SettlementNotFound),
            Some(settlement) if settlement.is_archived => Err(Outcome::SettlementArchived),
            Some(settlement) => Ok(settlement),
        }
    }
}

/// The sums of a window, per account and per pair, in order of their first transfer.
fn sums_of(window: &Window) -> (Vec<AccountSums>, Vec<PairSums>) {
    let mut accounts: Vec<AccountSums> = Vec::new();
    let mut at: BTreeMap<usize, usize> = BTreeMap::new();
    let mut pairs: Vec<PairSums> = Vec::new();
    let mut pair_at: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for transfer in &window.transfers {
        for account in [transfer.payer, transfer.payee] {
            at.entry(account).or_insert_with(|| {
                let (paid, received) = (Amount::ZERO, Amount::ZERO);
                let account = number(account);
                let (paid_count, received_count) = (0, 0);
                accounts.push(AccountSums { account, paid, received, paid_count, received_count });
                accounts.len() - 1
            });
        }
        let payer = &mut accounts[at[&transfer.payer]];
        payer.paid = plus(payer.paid, transfer.amount);
        payer.paid_count += 1;
        let payee = &mut accounts[at[&transfer.payee]];
        payee.received = plus(payee.received, transfer.amount);
        payee.received_count += 1;
        let key = (transfer.payer, transfer.payee);
        if !transfer.in_pairs || (pairs.len() == PAIRS_MAX && !pair_at.contains_key(&key)) {
            continue;
        }
        let at = *pair_at.entry(key).or_insert_with(|| {
            let (payer, payee) = (number(transfer.payer), number(transfer.payee));
            pairs.push(PairSums { payer, payee, amount: Amount::ZERO, count: 0 });
            pairs.len() - 1
        });
        pairs[at].amount = plus(pairs[at].amount, transfer.amount);
        pairs[at].count += 1;
    }
    (accounts, pairs)
}

fn plus(sum: Amount, by: Money) -> Amount {
    Amount::from_units(sum.units() + by)
}

/// The number of an account.
fn number(at: usize) -> AccountId {
    AccountId(at as u32 + 1)
}

/// The state that follows, for an account of a settlement in this state (5.4).
fn step_after(state: SettlementState) -> Option<(SettlementState, SettlementState)> {
    use SettlementState::*;
    match state {
        PendingSettlement => Some((PendingSettlement, PsTransfersRecorded)),
        PsTransfersRecorded => Some((PsTransfersRecorded, PsTransfersReserved)),
        PsTransfersReserved => Some((PsTransfersReserved, PsTransfersCommitted)),
        PsTransfersCommitted | Settling => Some((PsTransfersCommitted, Settled)),
        Settled | Aborted => None,
    }
}

impl Model {
    /// The windows and settlements that were archived, as the cold store keeps them.
    pub fn archived(&self) -> impl Iterator<Item = ArchivedSettlement> {
        let Settlements { windows, settlements, .. } = &self.settlement;
        let windows = windows.iter().filter(|(_, window)| window.is_archived);
        let windows = windows.map(|(id, window)| ArchivedSettlement::Window(window.row(*id)));
        let settlements = settlements.iter().filter(|(_, it)| it.is_archived);
        let settlements = settlements.map(|(id, it)| ArchivedSettlement::Settlement(it.row(*id)));
        windows.chain(settlements)
    }

    /// Opens the first window, under rules with settlement.
    pub(super) fn begin_settlement(&mut self) {
        if SETTLEMENT_RULES <= self.rules && self.settlement.windows.is_empty() {
            self.settlement.open_next("Initial window".into(), self.stamp, self.log_index);
        }
    }

    /// A transfer is committed: it joins the open window, or is settled at once (1.7).
    pub(super) fn settle_committed(&mut self, parties: [usize; 2], amount: Money) {
        if self.rules < SETTLEMENT_RULES {
            return;
        }
        let [payer, payee] = parties;
        let currency = self.scheme.accounts[payer].currency;
        let gross = self.scheme.gross_kind(currency);
        let accounts = gross.map(|kind| parties.map(|it| self.scheme.account_of_kind(it, kind)));
        if let Some([Some(from), Some(to)]) = accounts {
            self.scheme.add(payer, -amount);
            self.scheme.add(from, amount);
            self.scheme.add(payee, amount);
            self.scheme.add(to, -amount);
            self.settled_at_once += 1;
            return;
        }
        // A participant that joined before the gross model has no accounts for it.
        let content = (AccountKind::Position, currency);
        let in_pairs = gross.is_none() && self.scheme.is_netted_in_pairs(content);
        self.join_window(Committed { payer, payee, amount, in_pairs });
    }

    /// A fee joins the open window.
    pub(super) fn add_to_window(&mut self, [payer, payee]: [usize; 2], amount: Money) {
        let account = &self.scheme.accounts[payer];
        let in_pairs = self.scheme.is_netted_in_pairs((account.kind, account.currency));
        self.join_window(Committed { payer, payee, amount, in_pairs });
    }

    fn join_window(&mut self, committed: Committed) {
        let open = self.settlement.windows.values_mut().last().expect("a window is always open");
        open.transfers.push(committed);
    }

    pub(super) fn add_result(&mut self, result: ChangeResult) {
        self.settlement.results.push((LogIndex(self.log_index), result));
    }

    fn check_close(&self, id: u32) -> Result<(), Outcome> {
        let windows = &self.settlement.windows;
        let window = windows.get(&id).ok_or(Outcome::WindowNotFound)?;
        let in_memory = windows.values().filter(|window| !window.is_archived).count();
        if window.state != WindowState::Open {
            Err(Outcome::WindowNotOpen)
        } else if window.transfers.is_empty() {
            Err(Outcome::WindowEmpty)
        } else if WINDOWS_MAX <= in_memory {
            Err(Outcome::RegistryFull)
        } else {
            Ok(())
        }
    }

    /// 5.2: closes a window with one content per account type and currency.
    fn close_window(&mut self, close: &CloseWindow) {
        let kinds = self.scheme.kinds();
        let (stamp, record, book) = (self.stamp, self.log_index, &mut self.settlement);
        let first = book.newest_content;
        let window = book.window_mut(close.window.0);
        let transfers = window.transfers.iter();
        let parts: BTreeSet<_> = transfers.map(|transfer| kinds[transfer.payer]).collect();
        let content = |(id, (kind, currency))| {
            let (state, settlement) = (WindowState::Closed, None);
            let (created, changed) = (stamp, stamp);
            Content { id, kind, currency, state, settlement, created, changed }
        };
        window.contents = (first + 1..).zip(parts).map(content).collect();
        window.sums = sums_of(window);
        window.state = WindowState::Closed;
        window.reason.clone_from(&close.reason);
        (window.changed, window.closed) = (stamp, record);
        let added = window.contents.len() as u32;
        book.newest_content += added;
        let next = book.open_next(close.reason.clone(), stamp, record);
        self.add_result(ChangeResult::Opened(WindowId(next)));
    }

    /// The net of each account over the transfers of contents.
    fn nets(&self, contents: &[(u32, u32)]) -> BTreeMap<usize, Money> {
        let mut nets: BTreeMap<usize, Money> = BTreeMap::new();
        for (window, id) in contents {
            let window = &self.settlement.windows[window];
            let content = window.contents.iter().find(|content| content.id == *id);
            let content = content.expect("it was found");
            for transfer in &window.transfers {
                let account = &self.scheme.accounts[transfer.payer];
                if (account.kind, account.currency) == (content.kind, content.currency) {
                    *nets.entry(transfer.payer).or_default() += transfer.amount;
                    *nets.entry(transfer.payee).or_default() -= transfer.amount;
                }
            }
        }
        nets
    }

    fn create_settlement(&mut self, create: &CreateSettlement) -> Outcome {
        let Some(model) = self.scheme.model(&create.model) else {
            return Outcome::SettlementModelNotFound;
        };
        if !(model.net && model.deferred) {
            return Outcome::SettlementModelGross;
        }
        let windows: BTreeSet<u32> = create.windows.iter().map(|window| window.0).collect();
        let serves =
            |content: &Content| self.scheme.is_served_by(model, (content.kind, content.currency));
        let found = windows.iter().map(|id| (*id, self.settlement.applicable(*id, serves)));
        let found: Vec<_> = found.collect();
        let none = found.iter().filter(|(_, contents)| contents.is_empty());
        let none: Vec<_> = none.map(|(id, _)| WindowId(*id)).collect();
        if found.is_empty() || !none.is_empty() {
            self.add_result(ChangeResult::Inapplicable(none));
            return Outcome::WindowsInapplicable;
        }
        let settlements = self.settlement.settlements.values();
        if SETTLEMENTS_MAX <= settlements.filter(|it| !it.is_archived).count() {
            return Outcome::RegistryFull;
        }
        let contents = found.into_iter().flat_map(|(_, contents)| contents).collect();
        self.add_settlement(create, contents);
        Outcome::Accepted
    }

    fn add_settlement(&mut self, create: &CreateSettlement, contents: Vec<(u32, u32)>) {
        let (stamp, state) = (self.stamp, SettlementState::PendingSettlement);
        let row = |(account, net)| {
            let (reason, reference) = (create.reason.clone(), String::new());
            (account, Row { net, state, reason, reference, changed: stamp, cap_raise: 0 })
        };
        let accounts = self.nets(&contents).into_iter().map(row).collect();
        let book = &mut self.settlement;
        let id = book.settlements.len() as u32 + 1;
        let pending = (WindowState::PendingSettlement, id);
        book.set_contents(&contents, pending, (&create.reason, stamp));
        let settlement = Settlement {
            model: create.model.clone(),
            state,
            reason: create.reason.clone(),
            created: stamp,
            changed: stamp,
            record: self.log_index,
            contents,
            accounts,
            moved: 0,
            is_archived: false,
        };
        book.settlements.insert(id, settlement);
        book.touched.1.insert(id);
        self.add_result(ChangeResult::Created(SettlementId(id)));
    }

    /// 1.5: one account of the request, in a settlement that had this state before the request.
    fn step(
        &mut self,
        (id, before): (u32, SettlementState),
        step: &ledger::AccountStep,
        processed: &mut BTreeSet<usize>,
    ) -> StepResult {
        let at = (step.account.0 as usize).wrapping_sub(1);
        let owner = |at: usize| self.scheme.accounts[at].owner as u32 + 1;
        let accounts = &self.settlement.settlements[&id].accounts;
        if accounts.keys().all(|at| owner(*at) != step.participant) {
            return StepResult::ParticipantNotFound;
        }
        if !accounts.contains_key(&at) {
            return StepResult::AccountNotFound;
        }
        if owner(at) != step.participant {
            return StepResult::ParticipantMismatch;
        }
        if !processed.insert(at) {
            return StepResult::Repeated;
        }
        let stamp = self.stamp;
        let row = self.settlement.settlement_mut(id).accounts.get_mut(&at);
        let row = row.expect("it was found");
        let moves = row.state != step.state;
        if moves && step_after(before) != Some((row.state, step.state)) {
            return StepResult::NotAllowed;
        }
        row.reason.clone_from(&step.reason);
        row.reference.clone_from(&step.external_reference);
        if !moves {
            return StepResult::Updated;
        }
        (row.state, row.changed) = (step.state, stamp);
        let net = row.net;
        self.reset_position(id, (at, net), step.state);
        StepResult::Moved
    }

    fn model_of(&self, id: u32) -> &SettlementModel {
        let name = &self.settlement.settlements[&id].model;
        self.scheme.model(name).expect("models are never removed")
    }

    /// 1.6: recipients lose their credit when reserved, senders their debt when committed.
    fn reset_position(&mut self, id: u32, (at, net): (usize, Money), reached: SettlementState) {
        let model = self.model_of(id);
        let (resets, checks) = (model.auto_position_reset, model.liquidity_check);
        let is_due = match reached {
            SettlementState::PsTransfersReserved => net < 0,
            SettlementState::PsTransfersCommitted => 0 < net,
            _ => false,
        };
        if !resets || !is_due {
            return;
        }
        let is_cap_changed = net < 0 && checks && self.scheme.exceeds_cap(at, -net);
        if is_cap_changed {
            self.scheme.raise_cap(at, -net);
            let row = self.settlement.settlement_mut(id).accounts.get_mut(&at);
            row.expect("it is in the settlement").cap_raise = -net;
        }
        self.move_settled(id, at, -net);
        self.alert_settlement(at, is_cap_changed);
    }

    /// Moves a position of a settlement, against the hub's account.
    fn move_settled(&mut self, id: u32, at: usize, by: Money) {
        let currency = self.scheme.accounts[at].currency;
        let hub = self.scheme.hub_account(currency, AccountKind::HubMultilateralSettlement);
        self.scheme.add(at, by);
        self.scheme.add(hub.expect("participants join after it is opened"), -by);
        self.settlement.settlement_mut(id).moved -= by;
    }

    /// 5.4: the settlement moves when all of its accounts have moved.
    fn follow_accounts(&mut self, id: u32) {
        let (stamp, kinds) = (self.stamp, self.scheme.kinds());
        let settlement = &self.settlement.settlements[&id];
        let Some((_, next)) = step_after(settlement.state) else { return };
        let some_are_settled = settlement.some_are(SettlementState::Settled);
        let moved = if settlement.all_are(next) {
            Some((next, format!("All settlement accounts are {}", next.name())))
        } else if some_are_settled && settlement.state != SettlementState::Settling {
            Some((SettlementState::Settling, "Some settlement accounts are SETTLED".into()))
        } else {
            None
        };
        if let Some((state, reason)) = moved {
            let settlement = self.settlement.settlement_mut(id);
            (settlement.state, settlement.reason, settlement.changed) = (state, reason, stamp);
        }
        if some_are_settled {
            self.settlement.settle_contents(id, stamp, &kinds);
        }
    }

    /// 5.5, as intended: recipients get their credit back, and their caps are lowered again.
    fn abort_settlement(&mut self, abort: &AbortSettlement) {
        let (id, stamp) = (abort.settlement.0, self.stamp);
        let accounts = self.settlement.settlements[&id].accounts.clone();
        let is_reserved = |row: &Row| row.state == SettlementState::PsTransfersReserved;
        if self.model_of(id).auto_position_reset {
            for (at, row) in accounts.iter().filter(|(_, row)| is_reserved(row) && row.net < 0) {
                self.move_settled(id, *at, row.net);
                self.scheme.raise_cap(*at, -row.cap_raise);
                self.alert_settlement(*at, row.cap_raise != 0);
            }
        }
        let settlement = self.settlement.settlement_mut(id);
        for row in settlement.accounts.values_mut() {
            (row.state, row.changed, row.cap_raise) = (SettlementState::Aborted, stamp, 0);
            row.reason.clone_from(&abort.reason);
        }
        (settlement.state, settlement.changed) = (SettlementState::Aborted, stamp);
        settlement.reason.clone_from(&abort.reason);
        let contents = settlement.contents.clone();
        let aborted = (WindowState::Aborted, id);
        self.settlement.set_contents(&contents, aborted, (&abort.reason, stamp));
        self.settlement.archive();
    }
}

impl Predict for CloseWindow {
    fn predict(&self, model: &mut Model) -> Outcome {
        match model.check_close(self.window.0) {
            Err(outcome) => outcome,
            Ok(()) => {
                model.close_window(self);
                Outcome::Accepted
            }
        }
    }
}

impl Predict for CreateSettlement {
    fn predict(&self, model: &mut Model) -> Outcome {
        model.create_settlement(self)
    }
}

impl Predict for AdvanceSettlement {
    fn predict(&self, model: &mut Model) -> Outcome {
        let before = match model.settlement.known(self.settlement) {
            Ok(settlement) => (self.settlement.0, settlement.state),
            Err(outcome) => return outcome,
        };
        let mut processed = BTreeSet::new();
        let steps = self.steps.iter();
        let results = steps.map(|step| model.step(before, step, &mut processed)).collect();
        model.follow_accounts(self.settlement.0);
        model.settlement.archive();
        model.add_result(ChangeResult::Advanced(results));
        Outcome::Accepted
    }
}

impl Predict for AbortSettlement {
    fn predict(&self, model: &mut Model) -> Outcome {
        use SettlementState::*;
        let settlement = match model.settlement.known(self.settlement) {
            Ok(settlement) => settlement,
            Err(outcome) => return outcome,
        };
        match settlement.state {
            PsTransfersCommitted | Settling | Settled => return Outcome::SettlementCommitted,
            Aborted => {
                let settlement = model.settlement.settlement_mut(self.settlement.0);
                settlement.reason.clone_from(&self.reason);
            }
            _ if settlement.some_are(PsTransfersCommitted) => {
                return Outcome::SettlementAccountCommitted;
            }
            _ => model.abort_settlement(self),
        }
        Outcome::Accepted
    }
}
