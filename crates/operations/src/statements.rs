//! Statements of windows and settlements, as JSON, CSV or ISO 20022 camt.053. An addition to the
//! reference's API.
//!
//! Both come from rows in memory or in the cold store; no record is read from the log. The
//! statement of a participant does need the log ([`participant`]).
//!
//! Costs: a copy of the sums of the windows, of which there are at most one per account and
//! window. A statement has [`STATEMENT_ENTRIES_MAX`] entries at most; a larger one is refused.

mod camt053;
mod csv;
mod json;
mod participant;
mod statement;
mod windows;

use bytes::Bytes;
use fspiop::{ErrorCode, Refusal};
use ledger::{FspName, WindowId};

pub use self::participant::{
    EntryDetail, ParticipantStatementRequest, StatementPeriod, StatementRefusal,
};
pub use self::statement::{
    AccountStatement, Balance, Entry, LogPoint, STATEMENT_ENTRIES_MAX, SettlementPart, Statement,
    StatementError, StatementSubject, Total,
};

use crate::body_reader::refuse;
use crate::request::{AdminRequest, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema;
use crate::settlement_queries::given;
use crate::settlement_windows::ID as WINDOW;
use crate::settlements::{self, ID as SETTLEMENT};
use crate::statements::json::{AnyForm, StatementResponse};
use crate::statements::windows::{statement_of_settlement, statement_of_window};

/// The form of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatementFormat {
    /// JSON.
    #[default]
    Json,
    /// CSV, RFC 4180.
    Csv,
    /// ISO 20022 camt.053.001.08.
    Camt053,
}

impl StatementFormat {
    /// The forms with their names.
    pub const ALL: [(&'static str, Self); 3] =
        [("json", Self::Json), ("csv", Self::Csv), ("camt053", Self::Camt053)];

    /// Reads a name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Csv => "csv",
            Self::Camt053 => "camt053",
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json; charset=utf-8",
            Self::Csv => "text/csv; charset=utf-8",
            Self::Camt053 => "application/xml; charset=utf-8",
        }
    }
}

/// The query parameter `format`.
const FORMAT: Parameter<StatementFormat> = Parameter::new(
    "format",
    "`json` (default), `csv`, or `camt053` for ISO 20022 camt.053.001.08.",
    || schema::one_of(&schema::names(&StatementFormat::ALL)),
    |text| {
        let known = schema::names(&StatementFormat::ALL).join(", ");
        let wrong =
            || refuse(ErrorCode::MALFORMED_SYNTAX, "format", &format!("must be one of [{known}]"));
        StatementFormat::parse(text).ok_or_else(wrong)
    },
);

/// The query parameter `participant`.
const ONLY_PARTICIPANT: Parameter<FspName> = Parameter::new(
    "participant",
    "Only the accounts of this participant.",
    schema::some_text,
    participant_name,
);

/// The statement of a participant.
pub(crate) use self::participant::RESOURCES as OF_PARTICIPANTS;

routes! {
    "/v2/settlementWindows/{id}/statement" [WINDOW] {
        read GET windowStatement = window, "Statement of a settlement window" {
            text: "\
                The sums and counts of the transfers that each account paid and received, and its \
                net. The statement of the open window has the sums so far. `from` is the record \
                that opened the window, `to` the one that closed it.",
            query: [FORMAT, ONLY_PARTICIPANT],
            responses: [200: AnyForm = "The statement."],
            refusals: [400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND, 400 VALIDATION, 500 INTERNAL_SERVER],
        }
    }
    "/v2/settlements/{id}/statement" [SETTLEMENT] {
        read GET settlementStatement = settlement, "Statement of a settlement" {
            text: "\
                The net of each account, from its sums in each window, with its state and \
                reference. `from` is the record that opened the oldest window; the state is that \
                after the record `to`.",
            query: [FORMAT, ONLY_PARTICIPANT],
            responses: [200: AnyForm = "The statement."],
            refusals: [400 MALFORMED_SYNTAX, 400 ID_NOT_FOUND, 400 VALIDATION, 500 INTERNAL_SERVER],
        }
    }
}

/// `GET /v2/settlementWindows/{id}/statement`.
async fn window(request: &AdminRequest<'_>) -> HandlerResult {
    let statement = statement_of_window(request, request.path(&WINDOW)?).await?;
    answer(request, statement).await
}

/// `GET /v2/settlements/{id}/statement`.
async fn settlement(request: &AdminRequest<'_>) -> HandlerResult {
    let data = settlements::find(request, request.path(&SETTLEMENT)?).await?;
    let statement = statement_of_settlement(request, &data).await?;
    answer(request, statement).await
}

/// The refusal of a statement of an unknown window.
fn window_not_found(WindowId(id): WindowId) -> Refusal {
    Refusal::new(ErrorCode::VALIDATION, &format!("settlement window {id} not found"))
}

/// Answers with a statement in the requested form, of the requested participant.
async fn answer(request: &AdminRequest<'_>, mut statement: Statement) -> HandlerResult {
    let format = given(request, &FORMAT)?.unwrap_or_default();
    if let Some(name) = given(request, &ONLY_PARTICIPANT)? {
        request.query_participant(name, |_, _| ()).await?;
        statement.retain_participant(name.as_str());
    }
    respond(&statement, format)
}

/// Refuses a statement with too many entries.
fn must_have_at_most(max: usize, entries: usize) -> Result<(), Refusal> {
    if max < entries {
        let detail =
            format!("the statement has more than {max} entries; add the parameter participant");
        return Err(Refusal::new(ErrorCode::VALIDATION, &detail));
    }
    Ok(())
}

/// A response with a statement.
fn respond(statement: &Statement, format: StatementFormat) -> HandlerResult {
    must_have_at_most(STATEMENT_ENTRIES_MAX, statement.entry_count())?;
    let written = statement.write(format).map_err(|error| match error {
        StatementError::Digits(_) | StatementError::Empty => {
            Refusal::new(ErrorCode::VALIDATION, &error.to_string())
        }
        error => Refusal::internal(&error.to_string()),
    })?;
    Ok(AdminResponse::of_media(format.media_type(), written))
}

impl Statement {
    /// Writes the statement in a form.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn write(&self, format: StatementFormat) -> Result<Bytes, StatementError> {
        self.check()?;
        Ok(match format {
            StatementFormat::Json => {
                let response = StatementResponse::of(self)?;
                serde_json::to_vec(&response).expect("a statement is always writable").into()
            }
            StatementFormat::Csv => csv::write(self)?.into(),
            StatementFormat::Camt053 => camt053::write(self)?.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_beyond_its_bound_is_refused() {
        assert!(must_have_at_most(2, 2).is_ok());
        let refusal = must_have_at_most(2, 3).expect_err("it is too large");
        let expected = Refusal::new(
            ErrorCode::VALIDATION,
            "the statement has more than 2 entries; add the parameter participant",
        );
        assert_eq!(format!("{refusal:?}"), format!("{expected:?}"));
    }
}
