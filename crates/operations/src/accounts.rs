//! `/participants/{name}/accounts` and `/participants/{name}/positions` (hub-semantics 4.1).

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{AccountId, AccountKind, Change, CreateHubAccount, SetAccountActive};

use crate::answer::{Answer, Reply};
use crate::call::{Call, participant_name};
use crate::form::{Form, refuse};
use crate::participants::show_with;
use crate::refusals;
use crate::shapes::{AccountShape, PositionShape, of_participant};

/// Types that `POST /participants/{name}/accounts` knows.
pub(crate) const KINDS: [(&str, AccountKind); 7] = [
    ("POSITION", AccountKind::Position),
    ("SETTLEMENT", AccountKind::Settlement),
    ("HUB_RECONCILIATION", AccountKind::HubReconciliation),
    ("HUB_MULTILATERAL_SETTLEMENT", AccountKind::HubMultilateralSettlement),
    ("INTERCHANGE_FEE", AccountKind::InterchangeFee),
    ("INTERCHANGE_FEE_SETTLEMENT", AccountKind::InterchangeFeeSettlement),
    ("HUB_FEE", AccountKind::HubFee),
];

/// `GET /participants/{name}/accounts`.
pub(crate) async fn list(call: &Call<'_>, name: &str) -> Reply {
    let name = participant_name(name)?;
    let found = call.ask(move |state| {
        of_participant(state, &name, |participant| AccountShape::all(state, participant))
    });
    Ok(Answer::ok(&found.await?.ok_or_else(refusals::participant_not_found)?))
}

/// `POST /participants/{name}/accounts`: only the hub gets its accounts one by one.
pub(crate) async fn create(call: &Call<'_>, name: &str) -> Reply {
    let mut form = call.form()?;
    let currency = form.required("currency", Form::currency)?;
    let kind = form.required("type", |form, name| form.choice(name, &KINDS))?;
    form.finish()?;
    let name = participant_name(name)?;
    let is_hub = call.ask(move |state| {
        let known = *state.hub() == name || state.register().find(&name).is_some();
        known.then(|| *state.hub() == name)
    });
    if !is_hub.await?.ok_or_else(refusals::participant_not_found)? {
        let detail = "only accounts of the Hub are created one by one";
        return Err(Refusal::new(ErrorCode::GENERIC_CLIENT, detail));
    }
    call.change(Change::CreateHubAccount(CreateHubAccount { currency, kind })).await?;
    show_with(call, name, StatusCode::CREATED).await
}

/// `PUT /participants/{name}/accounts/{id}`: switches a POSITION account on or off.
pub(crate) async fn update(call: &Call<'_>, name: &str, account: &str) -> Reply {
    let active = call.is_active()?;
    let account = account_id(account)?;
    let name = participant_name(name)?;
    call.change(Change::SetAccountActive(SetAccountActive { name, account, active })).await?;
    Ok(Answer::empty(StatusCode::OK))
}

/// `GET /participants/{name}/positions`: one object with `currency`, else an array.
pub(crate) async fn positions(call: &Call<'_>, name: &str) -> Reply {
    let wanted = call.currency()?;
    let name = participant_name(name)?;
    let found = call.ask(move |state| {
        of_participant(state, &name, |participant| {
            participant
                .holdings
                .iter()
                .filter(|holding| wanted.is_none_or(|currency| holding.currency == currency))
                .filter_map(|holding| PositionShape::of(state, holding))
                .collect::<Vec<_>>()
        })
    });
    let found = found.await?.ok_or_else(refusals::participant_not_found)?;
    match (wanted, found.first()) {
        (None, _) => Ok(Answer::ok(&found)),
        (Some(_), Some(position)) => Ok(Answer::ok(position)),
        (Some(_), None) => Ok(Answer::ok(&serde_json::Map::new())),
    }
}

/// The number of an account in a path.
pub(crate) fn account_id(text: &str) -> Result<AccountId, Refusal> {
    match text.parse::<u32>() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(AccountId(number)),
        _ => Err(refuse(ErrorCode::MALFORMED_SYNTAX, "id", "must be an integer")),
    }
}
