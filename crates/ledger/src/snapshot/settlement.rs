//! Rows of windows and settlements.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::{MISSING_ACCOUNT, StateBuilder, TOO_LARGE, TableRow};
use crate::accounts::{AccountKind, Accounts};
use crate::field::{Field, InvalidState, Row};
use crate::ids::{AccountId, ContentId, SettlementId, WindowId};
use crate::money::{Amount, Currency};
use crate::settlement::{
    AccountSums, OpenSums, PAIRS_MAX, PairSums, Settlement, SettlementAccount, SettlementBook,
    SettlementNumbers, SettlementWithAccounts, Window, WindowState, WindowWithSums,
};
use crate::state::State;

const OUT_OF_ORDER: InvalidState = InvalidState("windows or settlements are out of order");
const STRAY: InvalidState = InvalidState("a row belongs to no window or settlement");

/// The rows so far, in order.
#[derive(Debug, Default)]
pub(super) struct SettlementRows {
    windows: Vec<Window>,
    accounts: BTreeMap<WindowId, Vec<AccountSums>>,
    pairs: BTreeMap<WindowId, Vec<PairSums>>,
    settlements: BTreeMap<SettlementId, SettlementWithAccounts>,
}

impl TableRow for Window {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.settlement.windows().map(|entry| &entry.window)
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let rows = &mut builder.settlement;
        if rows.windows.last().is_some_and(|last| self.id <= last.id) {
            return Err(OUT_OF_ORDER);
        }
        rows.windows.push(self);
        Ok(())
    }
}

/// A row with the number of its window or settlement.
struct Numbered<'a, N, T>(N, &'a T);

impl<N: Field, T: Field> Row for Numbered<'_, N, T> {
    fn write_row(&self, to: &mut impl crate::field::ByteSink) {
        self.0.write(to);
        self.1.write(to);
    }
}

impl TableRow for (WindowId, AccountSums) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        let book = &state.settlement;
        let ids = book.windows().map(|entry| entry.window.id);
        ids.flat_map(move |id| book.sums(id).iter().map(move |sums| Numbered(id, sums)))
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        builder.settlement.accounts.entry(self.0).or_default().push(self.1);
        Ok(())
    }
}

impl TableRow for (WindowId, PairSums) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        let book = &state.settlement;
        let ids = book.windows().map(|entry| entry.window.id);
        ids.flat_map(move |id| book.pairs(id).iter().map(move |sums| Numbered(id, sums)))
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let pairs = builder.settlement.pairs.entry(self.0).or_default();
        pairs.push(self.1);
        match pairs.len() <= PAIRS_MAX {
            true => Ok(()),
            false => Err(InvalidState("a window has too many pairs")),
        }
    }
}

impl TableRow for Settlement {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.settlement.settlements().map(|entry| &entry.settlement)
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let known = builder.catalogue.models.iter().any(|model| model.name == self.model);
        let settlements = &mut builder.settlement.settlements;
        if settlements.last_key_value().is_some_and(|(last, _)| self.id <= *last) {
            return Err(OUT_OF_ORDER);
        }
        if !known {
            return Err(InvalidState("a settlement has an unknown model"));
        }
        let entry = SettlementWithAccounts { settlement: self, accounts: Vec::new() };
        settlements.insert(entry.settlement.id, entry);
        Ok(())
    }
}

impl TableRow for (SettlementId, SettlementAccount) {
    fn all(state: &State) -> impl IntoIterator<Item = impl Row> {
        state.settlement.settlements().flat_map(|entry| {
            let id = entry.settlement.id;
            entry.accounts.iter().map(move |account| Numbered(id, account))
        })
    }

    fn restore(self, builder: &mut StateBuilder) -> Result<(), InvalidState> {
        let entry = builder.settlement.settlements.get_mut(&self.0).ok_or(STRAY)?;
        if entry.accounts.last().is_some_and(|last| self.1.account <= last.account) {
            return Err(OUT_OF_ORDER);
        }
        entry.accounts.push(self.1);
        Ok(())
    }
}

impl SettlementRows {
    /// The book, once all rows are added.
    pub(super) fn finish(
        mut self,
        numbers: SettlementNumbers,
        accounts: &Accounts,
    ) -> Result<SettlementBook, InvalidState> {
        self.check_numbers(&numbers)?;
        let mut book = SettlementBook { numbers, ..SettlementBook::default() };
        for window in core::mem::take(&mut self.windows) {
            let sums = self.accounts.remove(&window.id).unwrap_or_default();
            let pairs = self.pairs.remove(&window.id).unwrap_or_default();
            check_sums(accounts, &sums, &pairs)?;
            if window.state == WindowState::Open {
                book.open = open_sums(&sums, &pairs)?;
                let (accounts, pairs) = Default::default();
                book.windows.insert(window.id, WindowWithSums { window, accounts, pairs });
            } else {
                check_contents(accounts, &window, &sums)?;
                let (accounts, pairs) = (sums.into(), pairs.into());
                book.windows.insert(window.id, WindowWithSums { window, accounts, pairs });
            }
        }
        if !self.accounts.is_empty() || !self.pairs.is_empty() {
            return Err(STRAY);
        }
        book.settlements = self.settlements;
        check_settlements(&book, accounts)?;
        Ok(book)
    }

    /// Only the last window is open; numbers are at most the newest.
    fn check_numbers(&self, numbers: &SettlementNumbers) -> Result<(), InvalidState> {
        let open = self.windows.iter().filter(|window| window.state == WindowState::Open);
        let open: Vec<_> = open.map(|window| window.id).collect();
        let last = self.windows.last().map(|window| window.id);
        let contents = self.windows.iter().flat_map(|window| &window.contents);
        let fits = match last {
            None => numbers.window == WindowId(0),
            Some(last) => open == [last] && last == numbers.window,
        };
        let newest = self.settlements.last_key_value().map(|(id, _)| *id);
        let kept = self.windows.len() as u64 + numbers.archived_windows.rows;
        let settlements = self.settlements.len() as u64 + numbers.archived_settlements.rows;
        let counted =
            kept == u64::from(numbers.window.0) && settlements == u64::from(numbers.settlement.0);
        let mut ids = contents.clone().map(|content| content.id);
        let are_new = ids.all(|id| ContentId(0) < id && id <= numbers.content);
        let unique: BTreeSet<_> = contents.clone().map(|content| content.id).collect();
        let are_unique = unique.len() == contents.count();
        match fits && counted && are_new && are_unique && newest <= Some(numbers.settlement) {
            true => Ok(()),
            false => Err(InvalidState("the numbers of windows or settlements do not fit")),
        }
    }
}

fn open_sums(sums: &[AccountSums], pairs: &[PairSums]) -> Result<OpenSums, InvalidState> {
    let mut open = OpenSums::default();
    for row in sums {
        if !open.restore(*row) {
            return Err(InvalidState("a window has two sums of an account"));
        }
    }
    pairs.iter().for_each(|row| open.push_pair(*row));
    Ok(open)
}

type Nets = BTreeMap<(AccountKind, Currency), Amount>;

/// Sums are of accounts that exist, not negative, and net to zero.
fn check_sums(
    accounts: &Accounts,
    sums: &[AccountSums],
    pairs: &[PairSums],
) -> Result<Nets, InvalidState> {
    let mut nets = Nets::new();
    let mut seen = BTreeSet::new();
    for row in sums {
        let account = accounts.get(row.account).ok_or(MISSING_ACCOUNT)?;
        if !seen.insert(row.account) {
            return Err(InvalidState("a window has two sums of an account"));
        }
        if row.paid < Amount::ZERO || row.received < Amount::ZERO {
            return Err(InvalidState("a sum of a window is negative"));
        }
        let net = row.paid.checked_sub(row.received).ok_or(TOO_LARGE)?;
        let total = nets.entry((account.kind, account.currency)).or_default();
        *total = total.checked_add(net).ok_or(TOO_LARGE)?;
    }
    let known = |id: AccountId| seen.contains(&id);
    let mut known_pairs = BTreeSet::new();
    for pair in pairs {
        if !known(pair.payer) || !known(pair.payee) || pair.amount < Amount::ZERO {
            return Err(InvalidState("a pair of a window has no sums"));
        }
        if !known_pairs.insert((pair.payer, pair.payee)) {
            return Err(InvalidState("a window has a pair twice"));
        }
    }
    match nets.values().all(|net| *net == Amount::ZERO) {
        true => Ok(nets),
        false => Err(InvalidState("the nets of a window do not sum to zero")),
    }
}

/// A closed window has one content per account type and currency of its sums.
fn check_contents(
    accounts: &Accounts,
    window: &Window,
    sums: &[AccountSums],
) -> Result<(), InvalidState> {
    let nets = check_sums(accounts, sums, &[])?;
    let contents: BTreeSet<_> =
        window.contents.iter().map(|content| (content.kind, content.currency)).collect();
    let fits = contents.len() == window.contents.len() && contents.into_iter().eq(nets.into_keys());
    match fits {
        true => Ok(()),
        false => Err(InvalidState("the contents of a window do not fit its sums")),
    }
}

/// Settlements have the accounts of their contents, in accounts that exist.
fn check_settlements(book: &SettlementBook, accounts: &Accounts) -> Result<(), InvalidState> {
    for entry in book.settlements() {
        if entry.accounts.iter().any(|row| accounts.get(row.account).is_none()) {
            return Err(MISSING_ACCOUNT);
        }
        let contents = entry.settlement.contents.iter();
        let sums = contents.flat_map(|content| book.content_sums(accounts, *content));
        if sums.into_iter().any(|sums| entry.account(sums.account).is_none()) {
            return Err(InvalidState("a settlement lacks an account of its windows"));
        }
    }
    let settlements = &book.settlements;
    let contents = book.windows().flat_map(|entry| &entry.window.contents);
    let mut pending = contents.filter(|content| content.state == WindowState::PendingSettlement);
    let has_settlement = |content: &crate::settlement::WindowContent| {
        content.settlement.is_some_and(|id| settlements.contains_key(&id))
    };
    match pending.all(has_settlement) {
        true => Ok(()),
        false => Err(STRAY),
    }
}
