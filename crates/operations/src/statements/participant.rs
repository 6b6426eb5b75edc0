//! `GET /participants/{name}/statement`: the accounts of a participant over a period.
//!
//! The backend applies the records of the log from the newest snapshot before the period to its
//! end, on a separate thread. It limits concurrent statements and answers further requests 503.

use fspiop::{ErrorCode, Refusal};
use ledger::{Currency, FspName, LogIndex, SettlementId, Stamp, WindowId, WindowState};

use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::participants::NAME;
use crate::request::{AdminRequest, ONLY_CURRENCY};
use crate::response::HandlerResult;
use crate::route::{Parameter, routes};
use crate::schema;
use crate::settlement_data::find_window;
use crate::settlement_queries::{MOMENT_FORM, given, number, read_moment};
use crate::settlements;
use crate::statements::json::AnyForm;
use crate::statements::{FORMAT, STATEMENT_ENTRIES_MAX, respond, window_not_found};

/// A request for the statement of a participant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParticipantStatementRequest {
    /// The participant.
    pub participant: FspName,
    /// Only accounts in this currency.
    pub currency: Option<Currency>,
    /// The period.
    pub period: StatementPeriod,
    /// Which entries it has.
    pub detail: EntryDetail,
}

/// The period of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementPeriod {
    /// Records with stamps from the first time on, and before the second one.
    Times {
        /// `None`: from the first record.
        from: Option<Stamp>,
        /// `None`: to the newest record.
        to: Option<Stamp>,
    },
    /// Records after the first one, up to the second one.
    Records {
        /// The record after which the opening balances hold.
        after: LogIndex,
        /// The last record; `None`: to the newest record.
        until: Option<LogIndex>,
    },
    /// The records while a settlement window was open, and the one that closed it.
    Window(WindowId),
}

/// Which entries a statement has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EntryDetail {
    /// Transfers are summed per window and direction.
    #[default]
    Summed,
    /// Each transfer is an entry.
    Each,
}

impl EntryDetail {
    /// The details with their names.
    pub const ALL: [(&'static str, Self); 2] = [("summed", Self::Summed), ("each", Self::Each)];
}

/// Why a participant has no statement of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StatementRefusal {
    /// It would have more than [`STATEMENT_ENTRIES_MAX`] entries.
    #[error(
        "the statement has more than {STATEMENT_ENTRIES_MAX} entries; choose a shorter period, one \
         currency, or entries=summed"
    )]
    TooLarge,
    /// The window has never been open.
    #[error("window {0} does not exist")]
    WindowNotFound(u32),
}

const FROM: Parameter<Stamp> = Parameter::new(
    "from",
    "First time of the period [default: that of the first record].",
    schema::date_time,
    |text| stamp("from", text),
);

const TO: Parameter<Stamp> = Parameter::new(
    "to",
    "Time before which the period ends [default: the newest record].",
    schema::date_time,
    |text| stamp("to", text),
);

const WINDOW: Parameter<u32> = number!("windowId", "The time while this window was open.");
const SETTLEMENT: Parameter<u32> =
    number!("settlementId", "From the opening of this settlement's oldest window on.");

const ENTRIES: Parameter<EntryDetail> = Parameter::new(
    "entries",
    "`summed` (default): transfers per window and direction. `each`: each transfer.",
    || schema::one_of(&schema::names(&EntryDetail::ALL)),
    |text| {
        let found = EntryDetail::ALL.iter().find(|(name, _)| *name == text);
        let known = schema::names(&EntryDetail::ALL).join(", ");
        let wrong =
            || refuse(ErrorCode::MALFORMED_SYNTAX, "entries", &format!("must be one of [{known}]"));
        found.map(|(_, detail)| *detail).ok_or_else(wrong)
    },
);

routes! {
    "/participants/{name}/statement" [NAME] {
        guarded GET participantStatement = show, "Statement of a participant" {
            text: "\
                Opening balance, entries and closing balance of each account, computed from the \
                log. The period is given by `from` and `to`, by `windowId` or by `settlementId`; \
                without them it is the whole log. A record belongs to it if its time is `from` or \
                later, and before `to`. Concurrent requests are limited; retry after a 503.",
            query: [ONLY_CURRENCY, FROM, TO, WINDOW, SETTLEMENT, ENTRIES, FORMAT],
            responses: [200: AnyForm = "The statement."],
            refusals: [400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND, 400 VALIDATION, 500 INTERNAL_SERVER],
        }
    }
}

/// `GET /participants/{name}/statement`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let participant = request.path(&NAME)?;
    let format = given(request, &FORMAT)?.unwrap_or_default();
    let wanted = ParticipantStatementRequest {
        participant,
        currency: given(request, &ONLY_CURRENCY)?,
        detail: given(request, &ENTRIES)?.unwrap_or_default(),
        period: period(request).await?,
    };
    request.query_participant(participant, |_, _| ()).await?;
    let computed = request.backend.participant_statement(wanted).await;
    let statement = computed
        .map_err(outcome_errors::from_unavailable)?
        .map_err(|refusal| Refusal::new(ErrorCode::VALIDATION, &refusal.to_string()))?;
    respond(&statement, format)
}

/// The requested period; refuses more than one.
async fn period(request: &AdminRequest<'_>) -> Result<StatementPeriod, Refusal> {
    let (from, to) = (given(request, &FROM)?, given(request, &TO)?);
    let (window, settlement) = (given(request, &WINDOW)?, given(request, &SETTLEMENT)?);
    match (from.is_some() || to.is_some(), window, settlement) {
        (false, Some(window), None) => of_window(request, WindowId(window)).await,
        (false, None, Some(settlement)) => of_settlement(request, SettlementId(settlement)).await,
        (_, None, None) if from.zip(to).is_some_and(|(from, to)| to <= from) => {
            Err(Refusal::new(ErrorCode::VALIDATION, "\"to\" must be later than \"from\""))
        }
        (_, None, None) => Ok(StatementPeriod::Times { from, to }),
        _ => {
            let detail = "choose one period: from and to, windowId, or settlementId";
            Err(Refusal::new(ErrorCode::VALIDATION, detail))
        }
    }
}

async fn of_window(request: &AdminRequest<'_>, id: WindowId) -> Result<StatementPeriod, Refusal> {
    let window = find_window(request, id).await?.ok_or_else(|| window_not_found(id))?;
    let until = (window.state != WindowState::Open).then_some(window.closed);
    Ok(StatementPeriod::Records { after: window.opened, until })
}

async fn of_settlement(
    request: &AdminRequest<'_>,
    id: SettlementId,
) -> Result<StatementPeriod, Refusal> {
    let data = settlements::find(request, id).await?;
    let opened = data.windows.values().map(|entry| entry.window.opened).min();
    Ok(StatementPeriod::Records {
        after: opened.unwrap_or(LogIndex(0)),
        until: Some(data.at.log_index),
    })
}

fn stamp(name: &str, text: &str) -> Result<Stamp, Refusal> {
    let wrong = || refuse(ErrorCode::MALFORMED_SYNTAX, name, MOMENT_FORM);
    read_moment(text).map(Stamp::from_millis).ok_or_else(wrong)
}
