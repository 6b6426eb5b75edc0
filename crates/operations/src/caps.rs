//! Net debit caps: `/participants/limits`, `/participants/{name}/limits` and
//! `/participants/{name}/initialPositionAndLimits` (hub-semantics 4.1, 4.3).

use fspiop::Refusal;
use http::StatusCode;
use ledger::{Amount, Change, Currency, Limit, Participant, SetInitialPositionAndLimits, SetLimit};

use crate::answer::{Answer, Reply};
use crate::call::{Call, participant_name};
use crate::form::Form;
use crate::refusals;
use crate::shapes::{CapShape, LimitShape, NET_DEBIT_CAP, of_participant};

/// `GET /participants/limits`: the caps of all participants.
pub(crate) async fn list_all(call: &Call<'_>) -> Reply {
    let filter = Filter::of(call)?;
    let caps = call.ask(move |state| {
        let all = state.register().iter();
        all.flat_map(|(_, participant)| {
            filter.caps(participant).map(|(currency, limit)| CapShape {
                name: Some(participant.name.to_string()),
                currency: currency.to_string(),
                limit: LimitShape::of(&limit),
            })
        })
        .collect::<Vec<_>>()
    });
    Ok(Answer::ok(&caps.await?))
}

/// `GET /participants/{name}/limits`.
pub(crate) async fn list(call: &Call<'_>, name: &str) -> Reply {
    let filter = Filter::of(call)?;
    let name = participant_name(name)?;
    let caps = call.ask(move |state| {
        of_participant(state, &name, |participant| {
            filter.caps(participant).map(|(currency, limit)| shape(currency, limit)).collect()
        })
    });
    let caps: Vec<CapShape> = caps.await?.ok_or_else(refusals::participant_not_found)?;
    Ok(Answer::ok(&caps))
}

/// `PUT /participants/{name}/limits`: in force with the next prepare.
pub(crate) async fn update(call: &Call<'_>, name: &str) -> Reply {
    let mut form = call.form()?;
    let currency = form.required("currency", Form::currency)?;
    let mut cap = form.required("limit", Form::object)?;
    let value = cap_value(&mut cap)?;
    let alarm_percentage = cap.required("alarmPercentage", Form::decimal_from_zero)?;
    cap.finish()?;
    form.finish()?;
    let name = participant_name(name)?;
    let limit = Limit { value, alarm_percentage };
    call.change(Change::SetLimit(SetLimit { name, currency, limit: value, alarm_percentage }))
        .await?;
    Ok(Answer::ok(&shape(currency, limit)))
}

/// `POST /participants/{name}/initialPositionAndLimits`: once per currency; switches the
/// accounts on.
pub(crate) async fn set_initial(call: &Call<'_>, name: &str) -> Reply {
    let mut form = call.form()?;
    let currency = form.required("currency", Form::currency)?;
    let mut cap = form.required("limit", Form::object)?;
    let limit = cap_value(&mut cap)?;
    cap.finish()?;
    let position = form.decimal("initialPosition")?.unwrap_or(Amount::ZERO);
    form.finish()?;
    let name = participant_name(name)?;
    call.change(Change::SetInitialPositionAndLimits(SetInitialPositionAndLimits {
        name,
        currency,
        limit,
        position,
    }))
    .await?;
    Ok(Answer::empty(StatusCode::CREATED))
}

/// What the query asks for.
#[derive(Clone, Copy)]
struct Filter {
    currency: Option<Currency>,
    kind_exists: bool,
}

impl Filter {
    fn of(call: &Call<'_>) -> Result<Self, Refusal> {
        let kind_exists = call.parameter("type").is_none_or(|kind| kind == NET_DEBIT_CAP);
        Ok(Self { currency: call.currency()?, kind_exists })
    }

    fn caps(self, participant: &Participant) -> impl Iterator<Item = (Currency, Limit)> {
        participant
            .holdings
            .iter()
            .filter(move |holding| self.kind_exists && self.takes(holding.currency))
            .filter_map(|holding| Some((holding.currency, holding.limit?)))
    }

    fn takes(self, currency: Currency) -> bool {
        self.currency.is_none_or(|wanted| wanted == currency)
    }
}

/// Type and value of a cap.
fn cap_value(cap: &mut Form<'_>) -> Result<Amount, Refusal> {
    cap.required("type", |cap, name| cap.choice(name, &[(NET_DEBIT_CAP, ())]))?;
    cap.required("value", Form::decimal_from_zero)
}

fn shape(currency: Currency, limit: Limit) -> CapShape {
    CapShape { name: None, currency: currency.to_string(), limit: LimitShape::of(&limit) }
}
