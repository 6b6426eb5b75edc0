//! `/v2/settlements`: creates, lists and shows settlements, and moves their accounts
//! (hub-semantics 5.3 to 5.5).
//!
//! An account that cannot be moved does not refuse the others: its fault is in the answer, which
//! is 200.
//!
//! Costs: a list finds the numbers of its settlements first and then copies one at a time, so that
//! no query holds the sequencer's thread for long.

use std::collections::BTreeSet;

use fspiop::{ErrorCode, Refusal};
use ledger::{
    ACCOUNTS_MAX, AbortSettlement, AccountId, AccountStep, AdminOutcome, AdvanceSettlement,
    ArchiveKind, ChangeResult, CreateSettlement, Currency, Settlement, SettlementBook,
    SettlementId, SettlementState, StepResult, WINDOWS_MAX, WindowId,
};

use crate::body::{AnyText, Custom, List, NUMBER, Optional, Text, body};
use crate::outcome_errors;
use crate::request::{AdminRequest, ONLY_CURRENCY};
use crate::response::{AdminResponse, HandlerResult};
use crate::route::{Parameter, routes};
use crate::schema;
use crate::settlement_data::{
    ArchiveQuery, SettlementData, list_archived, participant_number, settlements_in,
};
use crate::settlement_queries::{
    ACCOUNT_ID, FROM, PARTICIPANT_ID, SETTLEMENT_STATE, TO, WINDOW_FROM, WINDOW_ID, WINDOW_TO,
    filters, given, nothing_found, number_schema, read_number,
};
use crate::settlement_responses::{AnsweredStep, SETTLEMENT_STATES, SettlementResponse};
use crate::settlement_windows::REASON_CHARACTERS_MAX;

/// Longest name of a model in a request, in characters. No model has a longer one.
const MODEL_CHARACTERS_MAX: usize = 60;
/// Longest external reference of an account, in characters.
const REFERENCE_CHARACTERS_MAX: usize = 50;

/// The settlement in a path.
pub(crate) const ID: Parameter<SettlementId> =
    Parameter::new("id", "The settlement.", number_schema, |text| {
        read_number("id", text).map(SettlementId)
    })
    .example("1");

/// The settlement in a longer path.
const SID: Parameter<SettlementId> =
    Parameter::new("sid", "The settlement.", number_schema, |text| {
        read_number("sid", text).map(SettlementId)
    })
    .example("1");

/// The participant in a path.
const PID: Parameter<u32> =
    Parameter::new("pid", "Number of the participant in the settlement.", number_schema, |text| {
        read_number("pid", text)
    })
    .example("2");

/// The account in a path.
const AID: Parameter<AccountId> =
    Parameter::new("aid", "Number of the account.", number_schema, |text| {
        read_number("aid", text).map(AccountId)
    })
    .example("1");

routes! {
    "/v2/settlements" {
        read GET listSettlements = list, "List settlements" {
            dry_run: true,
            text: "\
                Requires at least one parameter. Of settlements that became final long ago, at \
                most the newest 1,000 before `toDateTime` are listed. A list without settlements \
                is answered 400 with 3100 and a text that ends with `not found`. The parameters \
                `participantId`, `accountId` and `currency` select settlements with such an \
                account.",
            query: [
                SETTLEMENT_STATE, FROM, TO, ONLY_CURRENCY, WINDOW_ID, WINDOW_FROM, WINDOW_TO,
                PARTICIPANT_ID, ACCOUNT_ID
            ],
            responses: [200: Vec<SettlementResponse> = "Settlements, oldest first."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX],
        }
        change POST createSettlement = create(NewSettlement), "Create a settlement" {
            permission: Finance,
            dry_run: true,
            records: CreateSettlement,
            text: "\
                Nets the contents of closed windows that the model serves. A content is in one \
                settlement at a time. Windows of an aborted settlement can be settled again.",
            example: {
                "settlementModel": "DEFAULTDEFERREDNET",
                "reason": "end of the day",
                "settlementWindows": [{"id": 1}]
            },
            responses: [200: SettlementResponse = "The settlement."],
        }
    }
    "/v2/settlements/{id}" [ID] {
        read GET showSettlement = show, "Show a settlement" {
            dry_run: true,
            responses: [200: SettlementResponse = "The settlement."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX],
        }
        change PUT updateSettlement = update(SettlementUpdate), "Move accounts, or abort" {
            permission: Finance,
            dry_run: true,
            records: AdvanceSettlement,
            or_records: AbortSettlement,
            text: "\
                With `participants`: moves accounts to their next state. Each account is moved on \
                its own; the answer shows these accounts, and for each that was not moved its \
                `errorInformation`. A repeated request changes nothing. With `state` ABORTED and \
                `reason`: aborts the settlement, unless an account is committed.",
            example: {"participants": [{"id": 2, "accounts": [{
                "id": 6,
                "state": "PS_TRANSFERS_RECORDED",
                "reason": "end of the day",
                "externalReference": "advice 4711"
            }]}]},
            responses: [200: SettlementResponse = "The accounts, or the aborted settlement."],
        }
    }
    "/v2/settlements/{sid}/participants/{pid}" [SID, PID] {
        read GET showSettlementParticipant = show_participant, "Show a participant's accounts" {
            dry_run: true,
            responses: [200: SettlementResponse = "The participant's accounts in the settlement."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX],
        }
        change PUT updateSettlementParticipant = update_participant(ParticipantUpdate),
            "Move a participant's accounts"
        {
            permission: Finance,
            dry_run: true,
            records: AdvanceSettlement,
            example: {"accounts": [
                {"id": 6, "state": "PS_TRANSFERS_RECORDED", "reason": "end of the day"}
            ]},
            responses: [200: SettlementResponse = "The accounts."],
        }
    }
    "/v2/settlements/{sid}/participants/{pid}/accounts/{aid}" [SID, PID, AID] {
        read GET showSettlementAccount = show_account, "Show an account in a settlement" {
            dry_run: true,
            responses: [200: SettlementResponse = "The account in the settlement."],
            refusals: [400 VALIDATION, 400 MALFORMED_SYNTAX],
        }
        change PUT updateSettlementAccount = update_account(Step), "Move an account" {
            permission: Finance,
            dry_run: true,
            records: AdvanceSettlement,
            example: {"state": "PS_TRANSFERS_RECORDED", "reason": "end of the day"},
            responses: [200: SettlementResponse = "The account."],
        }
    }
}

/// The state of an account in a request.
const STATE: Custom<SettlementState> = Custom {
    take: |form, name| {
        let Some(raw) = form.raw(name) else { return Ok(None) };
        let text = serde_json::from_str::<String>(raw).unwrap_or_default();
        let wrong = || {
            let known = SETTLEMENT_STATES.join(", ");
            form.malformed(name, &format!("must be one of [{known}]"))
        };
        SettlementState::parse(&text).map(Some).ok_or_else(wrong)
    },
    schema: || schema::one_of(&SETTLEMENT_STATES),
};

body! {
    Open NewSettlement {
        settlement_model: String = Text(MODEL_CHARACTERS_MAX),
        reason: String = Text(REASON_CHARACTERS_MAX),
        settlement_windows: Vec<WindowNumber> = List::<WindowNumber>::of(1..=WINDOWS_MAX),
    }
}

body! {
    Open WindowNumber {
        id: u32 = NUMBER,
    }
}

body! {
    Open SettlementUpdate {
        participants: Option<Vec<ParticipantSteps>> =
            Optional(List::<ParticipantSteps>::of(0..=ACCOUNTS_MAX)),
        state: Option<String> = Optional(Text(REASON_CHARACTERS_MAX)),
        reason: Option<String> = Optional(Text(REASON_CHARACTERS_MAX)),
        external_reference: Option<String> = Optional(AnyText(REFERENCE_CHARACTERS_MAX)),
    }
}

body! {
    Open ParticipantSteps {
        id: u32 = NUMBER,
        accounts: Vec<NumberedStep> = List::<NumberedStep>::of(0..=ACCOUNTS_MAX),
    }
}

body! {
    Open ParticipantUpdate {
        accounts: Vec<NumberedStep> = List::<NumberedStep>::of(0..=ACCOUNTS_MAX),
    }
}

body! {
    Open NumberedStep {
        id: u32 = NUMBER,
        state: SettlementState = STATE,
        reason: String = Text(REASON_CHARACTERS_MAX),
        external_reference: Option<String> = Optional(AnyText(REFERENCE_CHARACTERS_MAX)),
    }
}

body! {
    Open Step {
        state: SettlementState = STATE,
        reason: String = Text(REASON_CHARACTERS_MAX),
        external_reference: Option<String> = Optional(AnyText(REFERENCE_CHARACTERS_MAX)),
    }
}

/// The selection of a list.
#[derive(Clone, Copy)]
struct Wanted {
    state: Option<SettlementState>,
    from_ms: Option<u64>,
    to_ms: Option<u64>,
    currency: Option<Currency>,
    window: Option<WindowId>,
    window_from_ms: Option<u64>,
    window_to_ms: Option<u64>,
    participant: Option<u32>,
    account: Option<AccountId>,
}

impl Wanted {
    fn of(request: &AdminRequest<'_>) -> Result<Self, Refusal> {
        Ok(Self {
            state: given(request, &SETTLEMENT_STATE)?,
            from_ms: given(request, &FROM)?,
            to_ms: given(request, &TO)?,
            currency: given(request, &ONLY_CURRENCY)?,
            window: given(request, &WINDOW_ID)?.map(WindowId),
            window_from_ms: given(request, &WINDOW_FROM)?,
            window_to_ms: given(request, &WINDOW_TO)?,
            participant: given(request, &PARTICIPANT_ID)?,
            account: given(request, &ACCOUNT_ID)?.map(AccountId),
        })
    }

    fn has(&self, settlement: &Settlement) -> bool {
        self.state.is_none_or(|state| state == settlement.state)
            && is_within(settlement.created.millis(), (self.from_ms, self.to_ms))
    }

    /// Whether it has such windows and accounts.
    fn has_rows(&self, data: &SettlementData) -> bool {
        let dates = (self.window_from_ms, self.window_to_ms);
        let has_window = data.windows.values().any(|entry| {
            self.window.is_none_or(|wanted| wanted == entry.window.id)
                && is_within(entry.window.created.millis(), dates)
        });
        let has_account = data.entry.accounts.iter().any(|row| {
            let owner = data.owner(row.account);
            self.account.is_none_or(|wanted| wanted == row.account)
                && self.currency.is_none_or(|wanted| wanted == owner.currency)
                && self.participant.is_none_or(|wanted| wanted == owner.participant)
        });
        has_window && has_account
    }

    /// The settlements that are not in memory; all of them are final.
    fn archive(&self, book: &SettlementBook) -> ArchiveQuery {
        ArchiveQuery {
            kind: ArchiveKind::Settlement,
            newest: book.numbers().settlement.0,
            here: book.settlements().map(|entry| entry.settlement.id.0).collect(),
            from_ms: self.from_ms,
            to_ms: self.to_ms,
        }
    }
}

fn is_within(moment: u64, (from, to): (Option<u64>, Option<u64>)) -> bool {
    from.is_none_or(|from| from <= moment) && to.is_none_or(|to| moment <= to)
}

/// `GET /v2/settlements`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let wanted = Wanted::of(request)?;
    let names = [
        "state",
        "fromDateTime",
        "toDateTime",
        "currency",
        "settlementWindowId",
        "fromSettlementWindowDateTime",
        "toSettlementWindowDateTime",
        "participantId",
        "accountId",
    ];
    let filters = filters(request, &names)?;
    let found = request.query_state(move |state| {
        let book = state.settlement();
        let all = book.settlements().filter(|entry| wanted.has(&entry.settlement));
        let ids: Vec<_> = all.map(|entry| entry.settlement.id).collect();
        (ids, wanted.archive(book))
    });
    let (ids, archive) = found.await?;
    let mut shown = Vec::new();
    if wanted.state.is_none_or(SettlementState::is_final) {
        let entries = settlements_in(list_archived(request, &archive).await?);
        for entry in entries.rev().filter(|entry| wanted.has(&entry.settlement)) {
            let data = SettlementData::of_archived(request, entry).await?;
            shown.extend(wanted.has_rows(&data).then(|| SettlementResponse::of(&data)));
        }
    }
    for id in ids {
        if let Some(data) =
            SettlementData::load(request, id).await?.filter(|it| wanted.has_rows(it))
        {
            shown.push(SettlementResponse::of(&data));
        }
    }
    if shown.is_empty() {
        let before = "No settlements found matching the provided parameters: ";
        return Err(nothing_found(before, &filters));
    }
    Ok(AdminResponse::ok(&shown))
}

/// `POST /v2/settlements`.
async fn create(request: &AdminRequest<'_>, body: NewSettlement) -> HandlerResult {
    let NewSettlement { settlement_model: model, reason, settlement_windows } = body;
    let windows = settlement_windows.iter().map(|window| WindowId(window.id)).collect();
    let change = CreateSettlement { model: model.clone(), reason: reason.clone(), windows };
    let (outcome, result) = request.decide(reason, change).await?;
    let detail = match (outcome, result) {
        (AdminOutcome::Accepted, Some(ChangeResult::Created(id))) => {
            return Ok(AdminResponse::ok(&SettlementResponse::of(&find(request, id).await?)));
        }
        (AdminOutcome::SettlementModelNotFound, _) => {
            format!("Settlement model not found: {model}")
        }
        (AdminOutcome::WindowsInapplicable, Some(ChangeResult::Inapplicable(windows))) => {
            let windows: Vec<_> = windows.iter().map(|window| window.0.to_string()).collect();
            format!("Inapplicable windows {}", windows.join(", "))
        }
        (other, _) => return Err(outcome_errors::of_result(other)),
    };
    Err(Refusal::new(ErrorCode::VALIDATION, &detail))
}

/// `GET /v2/settlements/{id}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let data = find(request, request.path(&ID)?).await?;
    Ok(AdminResponse::ok(&SettlementResponse::of(&data)))
}

/// `GET /v2/settlements/{sid}/participants/{pid}`.
async fn show_participant(request: &AdminRequest<'_>) -> HandlerResult {
    let data = of_participant(request).await?;
    let participant = request.path(&PID)?;
    let is_shown = |account| data.owner(account).participant == participant;
    Ok(AdminResponse::ok(&SettlementResponse::of_accounts(&data, &is_shown)))
}

/// `GET /v2/settlements/{sid}/participants/{pid}/accounts/{aid}`.
async fn show_account(request: &AdminRequest<'_>) -> HandlerResult {
    let account = request.path(&AID)?;
    let data = of_participant(request).await?;
    let (sid, pid) = (data.entry.settlement.id.0, request.path(&PID)?);
    let is_owner = request.query_state(move |state| {
        let owner = state.accounts().get(account).map(|account| account.owner);
        owner.is_some_and(|owner| participant_number(owner) == pid)
    });
    if !is_owner.await? {
        return Err(invalid(&format!(
            "Provided account ID '{}' does not match any position account for participant \
             '{pid}' in settlement '{sid}'",
            account.0
        )));
    }
    if data.entry.account(account).is_none() {
        let detail = format!("Account ID '{}' is not part of settlement '{sid}'", account.0);
        return Err(invalid(&detail));
    }
    Ok(AdminResponse::ok(&SettlementResponse::of_accounts(&data, &|other| other == account)))
}

/// The settlement in the path, which must have an account of the participant in the path.
async fn of_participant(request: &AdminRequest<'_>) -> Result<SettlementData, Refusal> {
    let (id, participant) = (request.path(&SID)?, request.path(&PID)?);
    let data = find(request, id).await?;
    let mut rows = data.entry.accounts.iter();
    if rows.any(|row| data.owner(row.account).participant == participant) {
        return Ok(data);
    }
    let id = id.0;
    let detail = format!("Participant with ID '{participant}' is not part of settlement '{id}'");
    Err(invalid(&detail))
}

/// `PUT /v2/settlements/{id}`.
async fn update(request: &AdminRequest<'_>, body: SettlementUpdate) -> HandlerResult {
    let id = request.path(&ID)?;
    let SettlementUpdate { participants, state, reason, external_reference } = body;
    let has_others = state.is_some() || reason.is_some() || external_reference.is_some();
    match (participants, state, reason) {
        (Some(_), _, _) if has_others => {
            let detail = "No other properties are allowed when participants is provided";
            Err(invalid(detail))
        }
        (Some(participants), _, _) => {
            let accounts = participants.into_iter().map(|it| (it.id, it.accounts));
            advance(request, id, accounts.collect()).await
        }
        (None, Some(state), Some(reason)) if state == SettlementState::Aborted.name() => {
            abort(request, id, reason).await
        }
        (None, None, None) | (None, Some(_), Some(_)) => {
            Err(invalid("Invalid request payload input"))
        }
        (None, _, _) => {
            Err(Refusal::new(ErrorCode::MISSING_ELEMENT, "State and reason are mandatory"))
        }
    }
}

/// `PUT /v2/settlements/{sid}/participants/{pid}`.
async fn update_participant(request: &AdminRequest<'_>, body: ParticipantUpdate) -> HandlerResult {
    let (id, participant) = (request.path(&SID)?, request.path(&PID)?);
    advance(request, id, vec![(participant, body.accounts)]).await
}

/// `PUT /v2/settlements/{sid}/participants/{pid}/accounts/{aid}`.
async fn update_account(request: &AdminRequest<'_>, body: Step) -> HandlerResult {
    let (id, participant) = (request.path(&SID)?, request.path(&PID)?);
    let Step { state, reason, external_reference } = body;
    let step = NumberedStep { id: request.path(&AID)?.0, state, reason, external_reference };
    advance(request, id, vec![(participant, vec![step])]).await
}

/// Moves accounts, and answers with them.
async fn advance(
    request: &AdminRequest<'_>,
    id: SettlementId,
    participants: Vec<(u32, Vec<NumberedStep>)>,
) -> HandlerResult {
    let requested: Vec<_> = participants
        .iter()
        .map(|(participant, steps)| {
            let accounts = steps.iter().map(|step| AccountId(step.id));
            (*participant, accounts.collect::<Vec<_>>())
        })
        .collect();
    let steps: Vec<_> = participants
        .into_iter()
        .flat_map(|(participant, steps)| steps.into_iter().map(move |it| it.of(participant)))
        .collect();
    if ACCOUNTS_MAX < steps.len() {
        return Err(invalid(&format!("at most {ACCOUNTS_MAX} accounts are allowed")));
    }
    let change = AdvanceSettlement { settlement: id, steps: steps.clone() };
    let decided = request.decide(request.identity.reason.clone(), change).await?;
    if !matches!(decided.0, AdminOutcome::Accepted | AdminOutcome::SettlementArchived) {
        return Err(outcome_errors::of_result(decided.0));
    }
    let data = find(request, id).await?;
    let results = match decided {
        (AdminOutcome::SettlementArchived, _) => results_of_final(&data, &steps),
        (_, Some(ChangeResult::Advanced(results))) => results,
        (other, _) => return Err(outcome_errors::of_result(other)),
    };
    let answered = answered(requested, results);
    Ok(AdminResponse::ok(&SettlementResponse::advanced(&data, &answered)))
}

/// The results of steps on a final settlement in the cold store, which does not change: a repeated
/// request is answered as before.
fn results_of_final(data: &SettlementData, steps: &[AccountStep]) -> Vec<StepResult> {
    let mut seen = BTreeSet::new();
    let accounts = data.entry.accounts.iter();
    let owners: BTreeSet<_> = accounts.map(|row| data.owner(row.account).participant).collect();
    let mut result = |step: &AccountStep| match data.entry.account(step.account) {
        _ if !owners.contains(&step.participant) => StepResult::ParticipantNotFound,
        None => StepResult::AccountNotFound,
        Some(_) if data.owner(step.account).participant != step.participant => {
            StepResult::ParticipantMismatch
        }
        Some(_) if !seen.insert(step.account) => StepResult::Repeated,
        Some(row) if row.state == step.state => StepResult::Updated,
        Some(_) => StepResult::NotAllowed,
    };
    steps.iter().map(&mut result).collect()
}

impl NumberedStep {
    fn of(self, participant: u32) -> AccountStep {
        AccountStep {
            participant,
            account: AccountId(self.id),
            state: self.state,
            reason: self.reason,
            external_reference: self.external_reference.unwrap_or_default(),
        }
    }
}

/// The accounts of the request with their results, which are in the same order.
fn answered(
    requested: Vec<(u32, Vec<AccountId>)>,
    results: Vec<StepResult>,
) -> Vec<(u32, Vec<AnsweredStep>)> {
    let mut results = results.into_iter();
    let mut step = |account| {
        let result = results.next().expect("each step has a result");
        AnsweredStep { account, result }
    };
    let mut of_participant = |(participant, accounts): (u32, Vec<AccountId>)| {
        (participant, accounts.into_iter().map(&mut step).collect())
    };
    requested.into_iter().map(&mut of_participant).collect()
}

async fn abort(request: &AdminRequest<'_>, id: SettlementId, reason: String) -> HandlerResult {
    let change = AbortSettlement { settlement: id, reason: reason.clone() };
    let (outcome, _) = request.decide(reason, change).await?;
    let detail = match outcome {
        AdminOutcome::Accepted => {
            let data = find(request, id).await?;
            return Ok(AdminResponse::ok(&SettlementResponse::aborted(&data)));
        }
        AdminOutcome::SettlementCommitted | AdminOutcome::SettlementArchived => {
            let data = find(request, id).await?;
            let state = data.entry.settlement.state;
            if state == SettlementState::Aborted {
                return Ok(AdminResponse::ok(&SettlementResponse::aborted(&data)));
            }
            let (id, state) = (id.0, state.name());
            format!("State change is not allowed for settlement '{id}' in state '{state}'")
        }
        AdminOutcome::SettlementAccountCommitted => format!(
            "At least one settlement transfer is committed for settlement '{}'. Aborting is not \
             allowed.",
            id.0
        ),
        other => return Err(outcome_errors::of_result(other)),
    };
    Err(invalid(&detail))
}

/// The settlement; refuses an unknown one.
pub(crate) async fn find(
    request: &AdminRequest<'_>,
    id: SettlementId,
) -> Result<SettlementData, Refusal> {
    let found = SettlementData::load(request, id).await?;
    found.ok_or_else(|| invalid(&format!("Settlement with ID '{}' not found", id.0)))
}

fn invalid(detail: &str) -> Refusal {
    Refusal::new(ErrorCode::VALIDATION, detail)
}
