//! `/v2/settlementWindows`: lists, shows and closes settlement windows (hub-semantics 5.2).
//!
//! A close is complete when it is answered: the window has its sums, and the next one is open.
//!
//! Costs: a list copies the windows that match its state and dates. It looks for participant and
//! currency in their sums, outside the sequencer's thread.

use std::collections::BTreeSet;

use fspiop::{ErrorCode, Refusal};
use ledger::{
    AccountId, AdminOutcome, ArchiveKind, ChangeResult, CloseWindow, Currency, SettlementBook,
    State, Window, WindowId, WindowState, WindowWithSums,
};

use crate::body::{Choice, Text, body};
use crate::outcome_errors;
use crate::request::{AdminRequest, ONLY_CURRENCY};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::settlement_data::{
    ArchiveQuery, find_window, list_archived, participant_number, windows_in,
};
use crate::settlement_queries::{
    FROM, PARTICIPANT_ID, TO, WINDOW_STATE, filters, given, nothing_found, number_schema,
    read_number,
};
use crate::settlement_responses::WindowResponse;

/// Longest reason of a change in the settlement API, in characters.
pub(crate) const REASON_CHARACTERS_MAX: usize = 1_024;

/// The window in a path.
pub(crate) const ID: Parameter<WindowId> =
    Parameter::new("id", "The window.", number_schema, |text| {
        read_number("id", text).map(WindowId)
    })
    .example("1");

routes! {
    "/v2/settlementWindows" {
        read GET listSettlementWindows = list, "List settlement windows" {
            dry_run: true,
            text: "\
                Requires at least one parameter. Windows are sorted by the date of their last \
                change, newest first. A list without windows is answered 400 with 3100 and a text \
                that ends with `not found`. Of windows that were settled long ago, at most the \
                newest 1,000 before `toDateTime` are listed. `participantId` and `currency` \
                select windows with transfers of the participant and in the currency.",
            query: [PARTICIPANT_ID, WINDOW_STATE, FROM, TO, ONLY_CURRENCY],
            responses: [200: Vec<WindowResponse> = "Windows, newest change first."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX],
        }
    }
    "/v2/settlementWindows/{id}" [ID] {
        read GET showSettlementWindow = show, "Show a settlement window" {
            dry_run: true,
            responses: [200: WindowResponse = "The window."],
            refusals: [400 MALFORMED_SYNTAX, 500 INTERNAL_SERVER],
        }
        change POST closeSettlementWindow = close(WindowClosure), "Close a settlement window" {
            permission: Finance,
            dry_run: true,
            records: CloseWindow,
            text: "\
                The open window is closed with its sums, and the next one is opened in the same \
                step. The closed window can be settled at once.",
            example: {"state": "CLOSED", "reason": "end of the day"},
            responses: [200: WindowResponse = "The new open window, without `content`."],
        }
    }
}

body! {
    Open WindowClosure {
        _state as "state": () = Choice(&[("CLOSED", ())]),
        reason: String = Text(REASON_CHARACTERS_MAX),
    }
}

/// The selection of a list.
#[derive(Clone, Copy)]
struct Wanted {
    state: Option<Option<WindowState>>,
    from_ms: Option<u64>,
    to_ms: Option<u64>,
    participant: Option<u32>,
    currency: Option<Currency>,
}

impl Wanted {
    fn of(request: &AdminRequest<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            state: given(request, &WINDOW_STATE)?,
            from_ms: given(request, &FROM)?,
            to_ms: given(request, &TO)?,
            participant: given(request, &PARTICIPANT_ID)?,
            currency: given(request, &ONLY_CURRENCY)?,
        })
    }

    fn has(&self, window: &Window) -> bool {
        let created = window.created.millis();
        self.state.is_none_or(|state| state == Some(window.state))
            && self.from_ms.is_none_or(|from| from <= created)
            && self.to_ms.is_none_or(|to| created <= to)
    }

    /// The windows that are not in memory; all of them are settled.
    fn archive(&self, book: &SettlementBook) -> ArchiveQuery {
        ArchiveQuery {
            kind: ArchiveKind::Window,
            newest: book.numbers().window.0,
            here: book.windows().map(|entry| entry.window.id.0).collect(),
            from_ms: self.from_ms,
            to_ms: self.to_ms,
        }
    }

    /// The accounts of which a window must have sums; `None` if any window will do.
    fn accounts(&self, state: &State) -> Option<BTreeSet<AccountId>> {
        if self.participant.is_none() && self.currency.is_none() {
            return None;
        }
        let participants = state.registry().iter().filter(|(index, _)| {
            self.participant.is_none_or(|number| participant_number(*index) == number)
        });
        let accounts = participants.flat_map(|(_, participant)| &participant.accounts);
        let has_currency = |id: &&AccountId| {
            let account = state.accounts().get(**id);
            let currency = account.map(|account| account.currency);
            self.currency.is_none_or(|wanted| currency == Some(wanted))
        };
        Some(accounts.filter(has_currency).copied().collect())
    }
}

/// `GET /v2/settlementWindows`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let wanted = Wanted::of(request)?;
    let names = ["participantId", "state", "fromDateTime", "toDateTime", "currency"];
    let filters = filters(request, &names)?;
    let (mut windows, accounts, archive) = request
        .query_state(move |state| {
            let windows: Vec<_> = candidates(state.settlement(), &wanted).collect();
            (windows, wanted.accounts(state), wanted.archive(state.settlement()))
        })
        .await?;
    if wanted.state.is_none_or(|state| state == Some(WindowState::Settled)) {
        windows.extend(windows_in(list_archived(request, &archive).await?));
    }
    windows.retain(|entry| {
        let mut sums = entry.accounts.iter();
        accounts.as_ref().is_none_or(|accounts| sums.any(|it| accounts.contains(&it.account)))
    });
    if windows.is_empty() {
        let filters = filters.replace('"', "");
        return Err(nothing_found("settlementWindow by filters: ", &filters));
    }
    let newest = |entry: &WindowWithSums| (entry.window.changed, entry.window.id);
    windows.sort_by_key(|entry| std::cmp::Reverse(newest(entry)));
    let shown: Vec<_> = windows.iter().map(|entry| WindowResponse::of(&entry.window)).collect();
    Ok(AdminResponse::ok(&shown))
}

/// The windows that match state and dates, the open one with the sums that it has so far.
fn candidates<'s>(
    book: &'s SettlementBook,
    wanted: &'s Wanted,
) -> impl Iterator<Item = WindowWithSums> + 's {
    book.windows().filter(|entry| wanted.has(&entry.window)).map(|entry| {
        let mut entry = entry.clone();
        if entry.window.state == WindowState::Open {
            entry.accounts = book.open_accounts().into();
        }
        entry
    })
}

/// `GET /v2/settlementWindows/{id}`: 500, 2001 for an unknown window, as in the reference.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let id = request.path(&ID)?;
    match find_window(request, id).await? {
        Some(window) => Ok(AdminResponse::ok(&WindowResponse::of(&window))),
        None => {
            let detail = format!("No record for settlementWindowId: {} found", id.0);
            Err(Refusal::internal(&detail))
        }
    }
}

/// `POST /v2/settlementWindows/{id}`.
async fn close(request: &AdminRequest<'_>, body: WindowClosure) -> HandlerResult {
    let window = request.path(&ID)?;
    let reason = body.reason;
    let (outcome, result) = request.decide(reason.clone(), CloseWindow { window, reason }).await?;
    if let (AdminOutcome::Accepted, Some(ChangeResult::Opened(next))) = (outcome, result)
        && let Some(next) = find_window(request, next).await?
    {
        return Ok(AdminResponse::ok(&WindowResponse::bare(&next)));
    }
    Err(refusal(outcome, window))
}

fn refusal(outcome: AdminOutcome, WindowId(id): WindowId) -> Refusal {
    let what = match outcome {
        AdminOutcome::WindowNotFound => "does not exist",
        AdminOutcome::WindowNotOpen => "is not open",
        AdminOutcome::WindowEmpty => "is empty",
        other => return outcome_errors::of_result(other),
    };
    Refusal::new(ErrorCode::VALIDATION, &format!("Window {id} {what}"))
}
