//! `/settlementModels` (hub-semantics 4.5).

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{
    AccountKind, AdminOutcome, CreateSettlementModel, Currency, SetSettlementModelActive,
    SettlementModel,
};

use crate::body::{Activity, CURRENCY, Choice, Custom, FLAG, Optional, PatternText, Rule, body};
use crate::outcome_errors;
use crate::request::AdminRequest;
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::SettlementModelResponse;
use crate::route::{Parameter, routes};
use crate::schema;

pub(crate) const GRANULARITIES: [(&str, bool); 2] = [("GROSS", false), ("NET", true)];
pub(crate) const INTERCHANGES: [(&str, bool); 2] = [("BILATERAL", false), ("MULTILATERAL", true)];
pub(crate) const DELAYS: [(&str, bool); 2] = [("IMMEDIATE", false), ("DEFERRED", true)];
const LEDGER_ACCOUNTS: [(&str, AccountKind); 2] =
    [("INTERCHANGE_FEE", AccountKind::InterchangeFee), ("POSITION", AccountKind::Position)];
const SETTLEMENT_ACCOUNTS: [(&str, AccountKind); 2] = [
    ("SETTLEMENT", AccountKind::Settlement),
    ("INTERCHANGE_FEE_SETTLEMENT", AccountKind::InterchangeFeeSettlement),
];

/// The model in a path.
const NAME: Parameter<String> =
    Parameter::some_text("name", "The model.").example("\"DEFERREDNET\"");

routes! {
    "/settlementModels" {
        read GET listSettlementModels = list, "List settlement models" {
            dry_run: true,
            responses: [200: Vec<SettlementModelResponse> = "Models, oldest first."],
        }
        change POST createSettlementModel = create(NewSettlementModel), "Add a settlement model" {
            permission: Finance,
            records: CreateSettlementModel,
            text: "\
                Legal combinations: IMMEDIATE with GROSS and BILATERAL; DEFERRED with GROSS and \
                BILATERAL; DEFERRED with NET and either. Any other combination gets 3100.",
            example: {
                "name": "DEFERREDNET",
                "settlementGranularity": "NET",
                "settlementInterchange": "MULTILATERAL",
                "settlementDelay": "DEFERRED",
                "currency": "XOF",
                "requireLiquidityCheck": true,
                "ledgerAccountType": "POSITION",
                "autoPositionReset": true,
                "settlementAccountType": "SETTLEMENT"
            },
            responses: [201: () = "Added."],
        }
    }
    "/settlementModels/{name}" [NAME] {
        read GET showSettlementModel = show, "Show a settlement model" {
            dry_run: true,
            responses: [200: SettlementModelResponse = "The model."],
            refusals: [400 ID_NOT_FOUND],
        }
        change PUT switchSettlementModel = update(Activity), "Activate or deactivate a model" {
            permission: Finance,
            records: SetSettlementModelActive,
            text: "An active model creates its accounts for new participants.",
            example: {"isActive": true},
            responses: [200: SettlementModelResponse = "The model after the change."],
        }
    }
}

body! {
    Closed NewSettlementModel {
        name: String = PatternText(
            2..=30,
            |character| character.is_ascii_alphanumeric(),
            "^[A-Za-z0-9]+$",
        ),
        settlement_granularity: bool = Choice(&GRANULARITIES),
        settlement_interchange: bool = Choice(&INTERCHANGES),
        settlement_delay: bool = Choice(&DELAYS),
        currency: Option<Currency> = Optional(Custom {
            take: |reader, name| {
                reader.drop_null(name);
                CURRENCY.take(reader, name)
            },
            schema: schema::currency_or_null,
        }),
        require_liquidity_check: bool = FLAG,
        ledger_account_type: AccountKind = Choice(&LEDGER_ACCOUNTS),
        auto_position_reset: bool = FLAG,
        settlement_account_type: AccountKind = Choice(&SETTLEMENT_ACCOUNTS),
    }
}

/// `GET /settlementModels`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    Ok(AdminResponse::ok(&request.query_state(SettlementModelResponse::all).await?))
}

/// `POST /settlementModels`: 201 without a body.
async fn create(request: &AdminRequest<'_>, body: NewSettlementModel) -> HandlerResult {
    let model = SettlementModel {
        name: body.name,
        net: body.settlement_granularity,
        multilateral: body.settlement_interchange,
        deferred: body.settlement_delay,
        currency: body.currency,
        liquidity_check: body.require_liquidity_check,
        auto_position_reset: body.auto_position_reset,
        ledger_account: body.ledger_account_type,
        settlement_account: body.settlement_account_type,
        active: true,
    };
    if !is_legal(&model) {
        let detail = "invalid combination of granularity, interchange and delay";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    }
    request.change(CreateSettlementModel { model }).await?;
    Ok(AdminResponse::empty(StatusCode::CREATED))
}

/// `GET /settlementModels/{name}`.
async fn show(request: &AdminRequest<'_>) -> HandlerResult {
    let name = request.path(&NAME)?;
    match request.query_state(move |state| SettlementModelResponse::find(state, &name)).await? {
        Some(model) => Ok(AdminResponse::ok(&model)),
        None => Err(not_found()),
    }
}

/// `PUT /settlementModels/{name}`: activates or deactivates the model.
async fn update(request: &AdminRequest<'_>, body: Activity) -> HandlerResult {
    let name = request.path(&NAME)?;
    if !is_name_length(&name) {
        return Err(not_found());
    }
    let active = body.is_active;
    request.change(SetSettlementModelActive { name, active }).await?;
    show(request).await
}

const fn is_legal(model: &SettlementModel) -> bool {
    match (model.deferred, model.net, model.multilateral) {
        (false, net, multilateral) => !net && !multilateral,
        (true, false, multilateral) => !multilateral,
        (true, true, _) => true,
    }
}

const fn is_name_length(name: &str) -> bool {
    2 <= name.len() && name.len() <= 30
}

fn not_found() -> Refusal {
    outcome_errors::from_outcome(AdminOutcome::SettlementModelNotFound)
        .expect("a missing settlement model is a refusal")
}
