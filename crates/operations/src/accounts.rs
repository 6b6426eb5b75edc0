//! `/participants/{name}/accounts` and `/participants/{name}/positions` (hub-semantics 4.1).

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{AccountId, AccountKind, CreateHubAccount, Currency, SetAccountActive};
use serde_json::json;

use crate::body::{Activity, CURRENCY, Choice, body};
use crate::body_reader::refuse;
use crate::funds::{Funds, start};
use crate::outcome_errors;
use crate::participants::{NAME, show_with};
use crate::request::{self, AdminRequest};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{AccountResponse, ParticipantResponse, PositionResponse};
use crate::route::{Parameter, routes};
use crate::schema::{self, OneOrAll};

/// Account types that `POST /participants/{name}/accounts` accepts.
const KINDS: [(&str, AccountKind); 7] = [
    ("POSITION", AccountKind::Position),
    ("SETTLEMENT", AccountKind::Settlement),
    ("HUB_RECONCILIATION", AccountKind::HubReconciliation),
    ("HUB_MULTILATERAL_SETTLEMENT", AccountKind::HubMultilateralSettlement),
    ("INTERCHANGE_FEE", AccountKind::InterchangeFee),
    ("INTERCHANGE_FEE_SETTLEMENT", AccountKind::InterchangeFeeSettlement),
    ("HUB_FEE", AccountKind::HubFee),
];

/// The account in a path.
pub(crate) const ACCOUNT: Parameter<AccountId> = Parameter::new(
    "id",
    "Account number, as in the list of accounts.",
    || json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
    account_id,
)
.example("1");

/// The query parameter `currency` of positions.
const CURRENCY_OF_ONE: Parameter<Currency> = Parameter::new(
    "currency",
    "Only this currency: one object, empty if the participant does not have it.",
    schema::currency,
    request::ONLY_CURRENCY.read,
);

routes! {
    "/participants/{name}/positions" [NAME] {
        read GET listPositions = positions, "List the positions of a participant" {
            query: [CURRENCY_OF_ONE],
            responses: [200: OneOrAll<PositionResponse> = "Positions."],
            refusals: [400 ID_NOT_FOUND, 400 MALFORMED_SYNTAX],
        }
    }
    "/participants/{name}/accounts" [NAME] {
        read GET listAccounts = list, "List the accounts of a participant" {
            responses: [200: Vec<AccountResponse> = "Accounts with their balances."],
            refusals: [400 ID_NOT_FOUND],
        }
        change POST createHubAccount = create(NewAccount), "Create an account of the hub" {
            records: CreateHubAccount,
            text: "For `Hub` only: participants get all their accounts when they are created.",
            path_example: ("name" = "Hub"),
            example: {"currency": "XOF", "type": "HUB_RECONCILIATION"},
            responses: [201: ParticipantResponse = "The hub after the change."],
            refusals: [400 GENERIC_CLIENT, 400 ID_NOT_FOUND],
        }
    }
    "/participants/{name}/accounts/{id}" [NAME, ACCOUNT] {
        change POST moveFunds = start(Funds), "Record funds in, or reserve funds out" {
            permission: Finance,
            records: MoveFunds,
            text: "\
                Applies to the SETTLEMENT account. A funds-out request without enough cover is \
                answered 202 and recorded as aborted; the account shows it. An identical request, \
                apart from white space, gets 202 again and moves no funds. A different request \
                with a used `transferId` gets 400 with 3106.",
            example: {
                "transferId": "b51ec534-ee48-4575-b6a9-ead2955b8069",
                "externalReference": "advice 4711",
                "action": "recordFundsIn",
                "reason": "deposit",
                "amount": {"amount": 250000, "currency": "XOF"},
                "extensionList": {"extension": [{"key": "branch", "value": "12"}]}
            },
            responses: [202: () = "Recorded and applied."],
        }
        change PUT switchAccount = update(Activity), "Activate or deactivate a POSITION account" {
            records: SetAccountActive,
            example: {"isActive": true},
            responses: [200: () = "Changed."],
        }
    }
}

body! {
    Closed NewAccount {
        currency: Currency = CURRENCY,
        kind as "type": AccountKind = Choice(&KINDS),
    }
}

/// `GET /participants/{name}/accounts`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&NAME)?;
    Ok(AdminResponse::ok(&request.query_participant(name, AccountResponse::all).await?))
}

/// `POST /participants/{name}/accounts`: creates an account of the hub.
async fn create(request: &AdminRequest<'_>, body: NewAccount) -> HandlerResult {
    let NewAccount { currency, kind } = body;
    let name = request.path(&NAME)?;
    let is_hub = request.query_state(move |state| {
        let known = *state.hub() == name || state.registry().find(&name).is_some();
        known.then(|| *state.hub() == name)
    });
    if !is_hub.await?.ok_or_else(outcome_errors::participant_not_found)? {
        let detail = "only accounts of the Hub can be created with this request";
        return Err(Refusal::new(ErrorCode::GENERIC_CLIENT, detail));
    }
    request.change(CreateHubAccount { currency, kind }).await?;
    show_with(request, name, StatusCode::CREATED).await
}

/// `PUT /participants/{name}/accounts/{id}`: activates or deactivates a POSITION account.
async fn update(request: &AdminRequest<'_>, body: Activity) -> HandlerResult {
    let (account, name) = (request.path(&ACCOUNT)?, request.path(&NAME)?);
    let active = body.is_active;
    request.change(SetAccountActive { name, account, active }).await?;
    Ok(AdminResponse::empty(StatusCode::OK))
}

/// `GET /participants/{name}/positions`: one object with `currency`, otherwise an array.
async fn positions(request: &AdminRequest<'_>) -> HandlerResult {
    let wanted = request.query(&CURRENCY_OF_ONE)?;
    let name = request.path(&NAME)?;
    let found = request.query_participant(name, move |state, participant| {
        let by_currency = participant.by_currency.iter();
        by_currency
            .filter(|accounts| wanted.is_none_or(|currency| accounts.currency == currency))
            .filter_map(|accounts| PositionResponse::of(state, accounts))
            .collect::<Vec<_>>()
    });
    let found = found.await?;
    match (wanted, found.first()) {
        (None, _) => Ok(AdminResponse::ok(&found)),
        (Some(_), Some(position)) => Ok(AdminResponse::ok(position)),
        (Some(_), None) => Ok(AdminResponse::ok(&serde_json::Map::new())),
    }
}

/// The number of an account in a path.
fn account_id(text: &str) -> Result<AccountId, Refusal> {
    match text.parse::<u32>() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(AccountId(number)),
        _ => Err(refuse(ErrorCode::MALFORMED_SYNTAX, "id", "must be an integer")),
    }
}
