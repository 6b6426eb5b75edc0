//! Response types of the settlement API (hub-semantics 5.3 and 5.4).

use fspiop::ErrorCode;
use ledger::{AccountId, SettlementAccount, StepResult, Window, WindowContent, WindowWithSums};

use crate::responses::{JsonNumber, Timestamp};
use crate::schema::{self, response_type};
use crate::settlement_data::SettlementData;

/// The names of the states of windows. PROCESSING and FAILED never occur.
pub(crate) const WINDOW_STATES: [&str; 7] =
    ["OPEN", "CLOSED", "PENDING_SETTLEMENT", "SETTLED", "ABORTED", "PROCESSING", "FAILED"];

/// The names of the states of settlements.
pub(crate) const SETTLEMENT_STATES: [&str; 7] = [
    "PENDING_SETTLEMENT",
    "PS_TRANSFERS_RECORDED",
    "PS_TRANSFERS_RESERVED",
    "PS_TRANSFERS_COMMITTED",
    "SETTLING",
    "SETTLED",
    "ABORTED",
];

response_type! {
    /// A settlement window.
    pub(crate) struct WindowResponse as "SettlementWindow" {
        settlement_window_id: u32,
        state: &'static str = schema::one_of(&WINDOW_STATES),
        reason: String,
        created_date: Timestamp,
        changed_date: Timestamp,
        /// The answer to a close has none.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<Vec<ContentResponse>>,
    }
}

response_type! {
    /// The part of a window with one account type and currency.
    pub(crate) struct ContentResponse {
        id: u32,
        state: &'static str = schema::one_of(&WINDOW_STATES),
        ledger_account_type: Option<&'static str>,
        currency_id: String = schema::currency(),
        created_date: Timestamp,
        changed_date: Timestamp,
        /// The last settlement that took it.
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_id: Option<u32>,
    }
}

impl WindowResponse {
    pub(crate) fn of(window: &Window) -> Self {
        let content = window.contents.iter().map(ContentResponse::of).collect();
        Self { content: Some(content), ..Self::bare(window) }
    }

    /// Without its contents.
    pub(crate) fn bare(window: &Window) -> Self {
        Self {
            settlement_window_id: window.id.0,
            state: window.state.name(),
            reason: window.reason.clone(),
            created_date: Timestamp(window.created),
            changed_date: Timestamp(window.changed),
            content: None,
        }
    }
}

impl ContentResponse {
    fn of(content: &WindowContent) -> Self {
        Self {
            id: content.id.0,
            state: content.state.name(),
            ledger_account_type: content.kind.name(),
            currency_id: content.currency.to_string(),
            created_date: Timestamp(content.created),
            changed_date: Timestamp(content.changed),
            settlement_id: content.settlement.map(|id| id.0),
        }
    }
}

response_type! {
    /// A settlement. The answer to a change has only the members that it concerns.
    pub(crate) struct SettlementResponse as "Settlement" {
        id: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_model: Option<String>,
        state: &'static str = schema::one_of(&SETTLEMENT_STATES),
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        created_date: Option<Timestamp>,
        #[serde(skip_serializing_if = "Option::is_none")]
        changed_date: Option<Timestamp>,
        #[serde(skip_serializing_if = "Option::is_none")]
        settlement_windows: Option<Vec<WindowInSettlement>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        participants: Option<Vec<ParticipantInSettlement>>,
    }
}

response_type! {
    /// A window in a settlement, with the contents that the settlement took.
    struct WindowInSettlement {
        id: u32,
        state: &'static str = schema::one_of(&WINDOW_STATES),
        reason: String,
        created_date: Timestamp,
        changed_date: Timestamp,
        content: Vec<ContentResponse>,
    }
}

response_type! {
    /// A participant in a settlement.
    struct ParticipantInSettlement {
        id: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        accounts: Option<Vec<AccountInSettlement>>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_information: Option<Fault>,
    }
}

response_type! {
    /// An account in a settlement; one that the settlement does not have shows its fault only.
    struct AccountInSettlement {
        id: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<&'static str> = schema::one_of(&SETTLEMENT_STATES),
        #[serde(skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        external_reference: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        created_date: Option<Timestamp>,
        #[serde(skip_serializing_if = "Option::is_none")]
        net_settlement_amount: Option<NetAmount>,
        #[serde(skip_serializing_if = "Option::is_none")]
        error_information: Option<Fault>,
    }
}

response_type! {
    /// Above zero if the participant pays in, below zero if it is paid.
    struct NetAmount {
        amount: JsonNumber,
        currency: String = schema::currency(),
    }
}

response_type! {
    /// The reason why an account was not moved.
    struct Fault {
        error_code: String,
        error_description: String,
    }
}

/// One account of a request, and its result.
#[derive(Debug)]
pub(crate) struct AnsweredStep {
    pub(crate) account: AccountId,
    pub(crate) result: StepResult,
}

impl SettlementResponse {
    /// The whole settlement.
    pub(crate) fn of(data: &SettlementData) -> Self {
        let settlement = &data.entry.settlement;
        Self {
            settlement_model: Some(settlement.model.clone()),
            reason: Some(settlement.reason.clone()),
            created_date: Some(Timestamp(settlement.created)),
            changed_date: Some(Timestamp(settlement.changed)),
            settlement_windows: Some(windows(data, &|_| true)),
            participants: Some(participants(data, &|_| true)),
            ..Self::bare(data)
        }
    }

    /// Some accounts of the settlement, with their windows.
    pub(crate) fn of_accounts(data: &SettlementData, is_shown: &dyn Fn(AccountId) -> bool) -> Self {
        Self {
            settlement_windows: Some(windows(data, is_shown)),
            participants: Some(participants(data, is_shown)),
            ..Self::bare(data)
        }
    }

    /// The answer to an abort.
    pub(crate) fn aborted(data: &SettlementData) -> Self {
        Self { reason: Some(data.entry.settlement.reason.clone()), ..Self::bare(data) }
    }

    /// The answer to a request that moves accounts: these accounts, by participant, and the
    /// windows of those that were moved or updated.
    pub(crate) fn advanced(data: &SettlementData, steps: &[(u32, Vec<AnsweredStep>)]) -> Self {
        let is_changed = |account: AccountId| {
            let mut all = steps.iter().flat_map(|(_, steps)| steps);
            all.any(|step| step.account == account && step.result.fault().is_none())
        };
        let participants = steps.iter().map(|(id, steps)| answered(data, *id, steps)).collect();
        Self {
            created_date: Some(Timestamp(data.entry.settlement.created)),
            settlement_windows: Some(windows(data, &is_changed)),
            participants: Some(participants),
            ..Self::bare(data)
        }
    }

    fn bare(data: &SettlementData) -> Self {
        Self {
            id: data.entry.settlement.id.0,
            settlement_model: None,
            state: data.entry.settlement.state.name(),
            reason: None,
            created_date: None,
            changed_date: None,
            settlement_windows: None,
            participants: None,
        }
    }
}

fn windows(data: &SettlementData, is_shown: &dyn Fn(AccountId) -> bool) -> Vec<WindowInSettlement> {
    let window = |(entry, contents): (&WindowWithSums, Vec<&WindowContent>)| {
        let window = &entry.window;
        // The settlement that shows a content is the one that it names.
        let content =
            |content| ContentResponse { settlement_id: None, ..ContentResponse::of(content) };
        WindowInSettlement {
            id: window.id.0,
            state: window.state.name(),
            reason: window.reason.clone(),
            created_date: Timestamp(window.created),
            changed_date: Timestamp(window.changed),
            content: contents.into_iter().map(content).collect(),
        }
    };
    data.contents_of(is_shown).into_iter().map(window).collect()
}

/// The participants in order of number, each with its accounts.
fn participants(
    data: &SettlementData,
    is_shown: &dyn Fn(AccountId) -> bool,
) -> Vec<ParticipantInSettlement> {
    let rows = data.entry.accounts.iter().filter(|row| is_shown(row.account));
    let mut rows: Vec<_> = rows.map(|row| (data.owner(row.account).participant, row)).collect();
    rows.sort_by_key(|(participant, row)| (*participant, row.account));
    let participant = |rows: &[(u32, &SettlementAccount)]| {
        let account = |(_, row): &(u32, &SettlementAccount)| AccountInSettlement {
            created_date: None,
            ..account(data, row)
        };
        let accounts = rows.iter().map(account).collect();
        let (id, error_information) = (rows[0].0, None);
        ParticipantInSettlement { id, accounts: Some(accounts), error_information }
    };
    rows.chunk_by(|left, right| left.0 == right.0).map(participant).collect()
}

fn account(data: &SettlementData, row: &SettlementAccount) -> AccountInSettlement {
    let reference = row.external_reference.clone();
    let currency = data.owner(row.account).currency.to_string();
    AccountInSettlement {
        id: row.account.0,
        state: Some(row.state.name()),
        reason: Some(row.reason.clone()),
        external_reference: Some(reference).filter(|reference| !reference.is_empty()),
        created_date: Some(Timestamp(row.changed)),
        net_settlement_amount: Some(NetAmount { amount: JsonNumber(row.net), currency }),
        error_information: None,
    }
}

/// The accounts of a request that belong to one participant.
fn answered(data: &SettlementData, id: u32, steps: &[AnsweredStep]) -> ParticipantInSettlement {
    let is_unknown = |step: &AnsweredStep| step.result == StepResult::ParticipantNotFound;
    if steps.iter().any(is_unknown) {
        let error_information = StepResult::ParticipantNotFound.fault();
        return ParticipantInSettlement { id, accounts: None, error_information };
    }
    let accounts = steps.iter().map(|step| answered_account(data, step)).collect();
    ParticipantInSettlement { id, accounts: Some(accounts), error_information: None }
}

/// The account as it is now; only its fault if the participant has no such account there.
fn answered_account(data: &SettlementData, step: &AnsweredStep) -> AccountInSettlement {
    let error_information = step.result.fault();
    match data.entry.account(step.account) {
        Some(row) if step.result.shows_account() => {
            AccountInSettlement { error_information, ..account(data, row) }
        }
        _ => AccountInSettlement {
            id: step.account.0,
            state: None,
            reason: None,
            external_reference: None,
            created_date: None,
            net_settlement_amount: None,
            error_information,
        },
    }
}

/// The words of the result of a step.
trait StepWords {
    /// Its fault; `None` if the account was moved or updated.
    fn fault(self) -> Option<Fault>;

    /// Whether the answer shows the account.
    fn shows_account(self) -> bool;
}

impl StepWords for StepResult {
    fn fault(self) -> Option<Fault> {
        let detail = match self {
            Self::Moved | Self::Updated => return None,
            Self::ParticipantNotFound => "Participant not found",
            Self::AccountNotFound => "Account not found",
            Self::ParticipantMismatch => "Participant and account mismatch",
            Self::Repeated => "Account already processed once",
            Self::NotAllowed => "State change not allowed",
        };
        let code = ErrorCode::GENERIC_CLIENT;
        Some(Fault { error_code: code.to_string(), error_description: code.describe(detail) })
    }

    fn shows_account(self) -> bool {
        matches!(self, Self::Moved | Self::Updated | Self::NotAllowed)
    }
}
