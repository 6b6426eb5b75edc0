//! `/settlementModels` (hub-semantics 4.5).

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{
    AccountKind, AdminOutcome, Change, CreateSettlementModel, SetSettlementModelActive,
    SettlementModel,
};

use crate::answer::{Answer, Reply};
use crate::call::Call;
use crate::form::Form;
use crate::refusals;
use crate::shapes::SettlementModelShape;

pub(crate) const GRANULARITIES: [(&str, bool); 2] = [("GROSS", false), ("NET", true)];
pub(crate) const INTERCHANGES: [(&str, bool); 2] = [("BILATERAL", false), ("MULTILATERAL", true)];
pub(crate) const DELAYS: [(&str, bool); 2] = [("IMMEDIATE", false), ("DEFERRED", true)];
pub(crate) const LEDGER_ACCOUNTS: [(&str, AccountKind); 2] =
    [("INTERCHANGE_FEE", AccountKind::InterchangeFee), ("POSITION", AccountKind::Position)];
pub(crate) const SETTLEMENT_ACCOUNTS: [(&str, AccountKind); 2] = [
    ("SETTLEMENT", AccountKind::Settlement),
    ("INTERCHANGE_FEE_SETTLEMENT", AccountKind::InterchangeFeeSettlement),
];

/// `GET /settlementModels`.
pub(crate) async fn list(call: &Call<'_>) -> Reply {
    Ok(Answer::ok(&call.ask(SettlementModelShape::all).await?))
}

/// `POST /settlementModels`: 201 and nothing more.
pub(crate) async fn create(call: &Call<'_>) -> Reply {
    let mut form = call.form()?;
    let model = read(&mut form)?;
    form.finish()?;
    if !is_legal(&model) {
        let detail = "this combination of granularity, interchange and delay does not exist";
        return Err(Refusal::new(ErrorCode::VALIDATION, detail));
    }
    call.change(Change::CreateSettlementModel(CreateSettlementModel { model })).await?;
    Ok(Answer::empty(StatusCode::CREATED))
}

/// `GET /settlementModels/{name}`.
pub(crate) async fn show(call: &Call<'_>, name: &str) -> Reply {
    let name = name.to_owned();
    match call.ask(move |state| SettlementModelShape::find(state, &name)).await? {
        Some(model) => Ok(Answer::ok(&model)),
        None => Err(not_found()),
    }
}

/// `PUT /settlementModels/{name}`: whether participants created from now on get its accounts.
pub(crate) async fn update(call: &Call<'_>, name: &str) -> Reply {
    let active = call.is_active()?;
    if !is_name_length(name) {
        return Err(not_found());
    }
    call.change(Change::SetSettlementModelActive(SetSettlementModelActive {
        name: name.to_owned(),
        active,
    }))
    .await?;
    show(call, name).await
}

fn read(form: &mut Form<'_>) -> Result<SettlementModel, Refusal> {
    let name = form.required("name", |form, name| {
        form.word(name, 2..=30, |character| character.is_ascii_alphanumeric())
    })?;
    let choose = |form: &mut Form<'_>, name: &str, choices: &[(&str, bool)]| {
        form.required(name, |form, name| form.choice(name, choices))
    };
    let net = choose(form, "settlementGranularity", &GRANULARITIES)?;
    let multilateral = choose(form, "settlementInterchange", &INTERCHANGES)?;
    let deferred = choose(form, "settlementDelay", &DELAYS)?;
    form.drop_null("currency");
    let currency = form.currency("currency")?;
    let liquidity_check = form.required("requireLiquidityCheck", Form::flag)?;
    let ledger_account =
        form.required("ledgerAccountType", |form, name| form.choice(name, &LEDGER_ACCOUNTS))?;
    let auto_position_reset = form.required("autoPositionReset", Form::flag)?;
    let settlement_account = form
        .required("settlementAccountType", |form, name| form.choice(name, &SETTLEMENT_ACCOUNTS))?;
    Ok(SettlementModel {
        name,
        net,
        multilateral,
        deferred,
        currency,
        liquidity_check,
        auto_position_reset,
        ledger_account,
        settlement_account,
        active: true,
    })
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
    refusals::of_outcome(AdminOutcome::SettlementModelNotFound)
        .expect("a missing settlement model is a refusal")
}
