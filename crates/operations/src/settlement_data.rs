//! Windows and settlements for responses: copies of their rows, from memory or the cold store, and
//! the owners of their accounts.
//!
//! Costs: a copy shares the sums of closed windows with the state. A row that has left memory is
//! one read of the store. A list reads [`LISTED_MAX`] of them at most.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use fspiop::Refusal;
use ledger::{
    AccountId, AccountKind, ArchiveKind, ArchivedSettlement, Currency, ParticipantIndex,
    SettlementId, SettlementWithAccounts, State, Window, WindowContent, WindowId, WindowState,
    WindowWithSums,
};

use crate::backend::{ARCHIVED_MAX, Unavailable};
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::statements::LogPoint;

/// Maximum number of archived windows or settlements that a list reads.
const LISTED_MAX: usize = 1_000;

/// The owner, type and currency of an account; they never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AccountOwner {
    /// Number of the participant in the settlement API: 1 for the hub.
    pub(crate) participant: u32,
    pub(crate) kind: AccountKind,
    pub(crate) currency: Currency,
}

impl AccountOwner {
    fn of(state: &State, id: AccountId) -> Option<Self> {
        let account = state.accounts().get(id)?;
        let participant = participant_number(account.owner);
        Some(Self { participant, kind: account.kind, currency: account.currency })
    }
}

/// Number of a participant in the settlement API.
pub(crate) const fn participant_number(index: ParticipantIndex) -> u32 {
    index.0 + 1
}

/// The place of a row.
enum Found<T> {
    Here(T),
    Archived,
    Nowhere,
}

/// The window with this number, if it exists.
pub(crate) async fn find_window(
    request: &AdminRequest<'_>,
    id: WindowId,
) -> Result<Option<Window>, Refusal> {
    let found = request.query_state(move |state| match state.settlement().window(id) {
        Some(entry) => Found::Here(entry.window.clone()),
        None if state.settlement().is_archived_window(id) => Found::Archived,
        None => Found::Nowhere,
    });
    match found.await? {
        Found::Here(window) => Ok(Some(window)),
        Found::Archived => Ok(Some(archived_window(request, id).await?.window)),
        Found::Nowhere => Ok(None),
    }
}

/// The window with this number with its sums, and the record up to which the state was queried.
/// The open one has its sums so far.
pub(crate) async fn find_window_with_sums(
    request: &AdminRequest<'_>,
    id: WindowId,
) -> Result<Option<(WindowWithSums, LogPoint)>, Refusal> {
    let found = request.query_state(move |state| {
        let book = state.settlement();
        let found = match book.window(id) {
            Some(entry) if entry.window.state == WindowState::Open => {
                let accounts = book.open_accounts().into();
                Found::Here(WindowWithSums { accounts, ..entry.clone() })
            }
            Some(entry) => Found::Here(entry.clone()),
            None if book.is_archived_window(id) => Found::Archived,
            None => Found::Nowhere,
        };
        (found, LogPoint::of(state))
    });
    let (found, at) = found.await?;
    match found {
        Found::Here(window) => Ok(Some((window, at))),
        Found::Archived => Ok(Some((archived_window(request, id).await?, at))),
        Found::Nowhere => Ok(None),
    }
}

async fn archived_window(
    request: &AdminRequest<'_>,
    WindowId(id): WindowId,
) -> Result<WindowWithSums, Refusal> {
    let rows = archived(request, ArchiveKind::Window, id..=id).await?;
    windows_in(rows).next().ok_or_else(unreadable)
}

async fn archived_settlement(
    request: &AdminRequest<'_>,
    SettlementId(id): SettlementId,
) -> Result<SettlementWithAccounts, Refusal> {
    let rows = archived(request, ArchiveKind::Settlement, id..=id).await?;
    settlements_in(rows).next().ok_or_else(unreadable)
}

/// The rows of the cold store that a list shows.
pub(crate) struct ArchiveQuery {
    pub(crate) kind: ArchiveKind,
    /// The newest number.
    pub(crate) newest: u32,
    /// The numbers that are in memory.
    pub(crate) here: BTreeSet<u32>,
    pub(crate) from_ms: Option<u64>,
    pub(crate) to_ms: Option<u64>,
}

/// Archived rows that were created within the dates, newest first: those among the newest
/// [`LISTED_MAX`] rows before the last date.
pub(crate) async fn list_archived(
    request: &AdminRequest<'_>,
    query: &ArchiveQuery,
) -> Result<Vec<ArchivedSettlement>, Refusal> {
    let mut found = Vec::new();
    let mut upper = newest_until(request, query).await?;
    for _ in 0..LISTED_MAX / ARCHIVED_MAX {
        let lower = upper.saturating_sub(ARCHIVED_MAX as u32 - 1).max(1);
        if upper < lower {
            break;
        }
        let rows = archived(request, query.kind, lower..=upper).await?;
        let is_early =
            |row: &ArchivedSettlement| query.from_ms.is_some_and(|from| created_ms(row) < from);
        let is_last = rows.first().is_some_and(is_early);
        let rows = rows.into_iter().rev();
        found.extend(rows.filter(|row| !query.here.contains(&row.number()) && !is_early(row)));
        if is_last {
            break;
        }
        upper = lower - 1;
    }
    Ok(found)
}

/// The newest number that was created until the last date. Numbers rise with the date of creation.
async fn newest_until(request: &AdminRequest<'_>, query: &ArchiveQuery) -> Result<u32, Refusal> {
    let Some(to_ms) = query.to_ms else { return Ok(query.newest) };
    let (mut known, mut later) = (0, query.newest + 1);
    while known + 1 < later {
        let number = known + (later - known) / 2;
        let rows = archived(request, query.kind, number..=number).await?;
        // A row that is not stored yet is newer than all that are.
        match rows.first().is_some_and(|row| created_ms(row) <= to_ms) {
            true => known = number,
            false => later = number,
        }
    }
    Ok(known)
}

fn created_ms(row: &ArchivedSettlement) -> u64 {
    match row {
        ArchivedSettlement::Window(entry) => entry.window.created.millis(),
        ArchivedSettlement::Settlement(entry) => entry.settlement.created.millis(),
    }
}

/// The stored rows with numbers in a range.
async fn archived(
    request: &AdminRequest<'_>,
    kind: ArchiveKind,
    numbers: RangeInclusive<u32>,
) -> Result<Vec<ArchivedSettlement>, Refusal> {
    request.backend.archived(kind, numbers).await.map_err(outcome_errors::from_unavailable)
}

pub(crate) fn windows_in(
    rows: Vec<ArchivedSettlement>,
) -> impl DoubleEndedIterator<Item = WindowWithSums> {
    rows.into_iter().filter_map(|row| match row {
        ArchivedSettlement::Window(entry) => Some(entry),
        ArchivedSettlement::Settlement(_) => None,
    })
}

pub(crate) fn settlements_in(
    rows: Vec<ArchivedSettlement>,
) -> impl DoubleEndedIterator<Item = SettlementWithAccounts> {
    rows.into_iter().filter_map(|row| match row {
        ArchivedSettlement::Settlement(entry) => Some(entry),
        ArchivedSettlement::Window(_) => None,
    })
}

/// The store lacks a row that it must have.
fn unreadable() -> Refusal {
    outcome_errors::from_unavailable(Unavailable::Unreadable)
}

/// A settlement with its windows.
#[derive(Debug)]
pub(crate) struct SettlementData {
    pub(crate) entry: SettlementWithAccounts,
    pub(crate) windows: BTreeMap<WindowId, WindowWithSums>,
    /// The record up to which the state was queried.
    pub(crate) at: LogPoint,
    owners: BTreeMap<AccountId, AccountOwner>,
}

impl SettlementData {
    /// The settlement with this number, if it exists.
    pub(crate) async fn load(
        request: &AdminRequest<'_>,
        id: SettlementId,
    ) -> Result<Option<Self>, Refusal> {
        let found = request.query_state(move |state| match state.settlement().settlement(id) {
            Some(entry) => Found::Here(Self::copy(state, entry.clone())),
            None if state.settlement().is_archived_settlement(id) => Found::Archived,
            None => Found::Nowhere,
        });
        let mut data = match found.await? {
            Found::Here(data) => data,
            Found::Nowhere => return Ok(None),
            Found::Archived => {
                let entry = archived_settlement(request, id).await?;
                return Self::of_archived(request, entry).await.map(Some);
            }
        };
        data.add_archived_windows(request).await?;
        Ok(Some(data))
    }

    /// A settlement from the cold store with its windows.
    pub(crate) async fn of_archived(
        request: &AdminRequest<'_>,
        entry: SettlementWithAccounts,
    ) -> Result<Self, Refusal> {
        let mut data = request.query_state(move |state| Self::copy(state, entry)).await?;
        data.add_archived_windows(request).await?;
        Ok(data)
    }

    /// Adds the windows that have left memory.
    async fn add_archived_windows(&mut self, request: &AdminRequest<'_>) -> Result<(), Refusal> {
        let windows: BTreeSet<_> =
            self.entry.settlement.contents.iter().map(|(window, _)| *window).collect();
        for window in windows {
            if let Entry::Vacant(absent) = self.windows.entry(window) {
                absent.insert(archived_window(request, window).await?);
            }
        }
        Ok(())
    }

    /// The settlement with the rows around it that are in memory.
    fn copy(state: &State, entry: SettlementWithAccounts) -> Self {
        let windows = entry.settlement.contents.iter().filter_map(|(window, _)| {
            let window = state.settlement().window(*window)?;
            Some((window.window.id, window.clone()))
        });
        let owners = entry
            .accounts
            .iter()
            .filter_map(|row| Some((row.account, AccountOwner::of(state, row.account)?)));
        let at = LogPoint::of(state);
        Self { windows: windows.collect(), at, owners: owners.collect(), entry }
    }

    /// The owner of an account of the settlement.
    pub(crate) fn owner(&self, account: AccountId) -> AccountOwner {
        *self.owners.get(&account).expect("the owners of all its accounts are copied")
    }

    /// The windows and contents that have sums of one of these accounts.
    pub(crate) fn contents_of(
        &self,
        is_wanted: &dyn Fn(AccountId) -> bool,
    ) -> Vec<(&WindowWithSums, Vec<&WindowContent>)> {
        let mut found: Vec<(&WindowWithSums, Vec<&WindowContent>)> = Vec::new();
        for (window, content) in &self.entry.settlement.contents {
            let Some(entry) = self.windows.get(window) else { continue };
            let mut contents = entry.window.contents.iter();
            let Some(content) = contents.find(|it| it.id == *content) else { continue };
            if !self.has_sums(entry, content, is_wanted) {
                continue;
            }
            match found.last_mut() {
                Some((last, contents)) if last.window.id == *window => contents.push(content),
                _ => found.push((entry, vec![content])),
            }
        }
        found
    }

    fn has_sums(
        &self,
        window: &WindowWithSums,
        content: &WindowContent,
        is_wanted: &dyn Fn(AccountId) -> bool,
    ) -> bool {
        let is_in = |account: AccountId| {
            let owner = self.owners.get(&account);
            owner.is_some_and(|it| (it.kind, it.currency) == (content.kind, content.currency))
        };
        window.accounts.iter().any(|sums| is_in(sums.account) && is_wanted(sums.account))
    }
}
