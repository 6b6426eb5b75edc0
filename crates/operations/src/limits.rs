//! Net debit caps: `/participants/limits`, `/participants/{name}/limits` and
//! `/participants/{name}/initialPositionAndLimits` (hub-semantics 4.1, 4.3).

use fspiop::Refusal;
use http::StatusCode;
use ledger::{Amount, Currency, NetDebitCap, Participant, SetInitialPositionAndLimits, SetLimit};

use crate::body::{CURRENCY, Choice, Decimal, Object, Optional, body};
use crate::participants::NAME;
use crate::request::{AdminRequest, ONLY_CURRENCY};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{CapResponse, LimitResponse, NET_DEBIT_CAP};
use crate::route::{Parameter, routes};

const TYPE: Parameter<String> =
    Parameter::text("type", "Only this type; the only one is `NET_DEBIT_CAP`.");

routes! {
    "/participants/limits" {
        read GET listAllCaps = list_all, "List the caps of all participants" {
            query: [ONLY_CURRENCY, TYPE],
            answers: [200: Vec<CapResponse> = "Caps with their participants."],
            refusals: [400 MALFORMED_SYNTAX],
        }
    }
    "/participants/{name}/limits" [NAME] {
        read GET listCaps = list, "List the caps of a participant" {
            query: [ONLY_CURRENCY, TYPE],
            answers: [200: Vec<CapResponse> = "Caps."],
            refusals: [400 ID_NOT_FOUND, 400 MALFORMED_SYNTAX],
        }
        change PUT changeCap = update(NewCap), "Change a cap" {
            records: SetLimit,
            text: "Applies from the next prepare.",
            example: {
                "currency": "XOF",
                "limit": {"type": "NET_DEBIT_CAP", "value": 100000, "alarmPercentage": 10}
            },
            answers: [200: CapResponse = "The cap after the change."],
        }
    }
    "/participants/{name}/initialPositionAndLimits" [NAME] {
        change POST setInitialCap = set_initial(InitialPositionAndLimits),
        "Set initial cap and position" {
            records: SetInitialPositionAndLimits,
            text: "Possible once per currency; activates the accounts.",
            example: {"currency": "XOF", "limit": {"type": "NET_DEBIT_CAP", "value": 100000}},
            answers: [201: () = "Set."],
        }
    }
}

/// The only type of limit.
const NET_DEBIT: Choice<()> = Choice(&[(NET_DEBIT_CAP, ())]);

body! {
    Closed NewCap {
        currency: Currency = CURRENCY,
        limit: AlarmedCap = Object::<AlarmedCap>::RULE,
    }
}

body! {
    Closed AlarmedCap {
        _kind as "type": () = NET_DEBIT,
        value: Amount = Decimal::FromZero,
        alarm_percentage: Amount = Decimal::FromZero,
    }
}

body! {
    Closed InitialPositionAndLimits {
        currency: Currency = CURRENCY,
        limit: Cap = Object::<Cap>::RULE,
        initial_position: Option<Amount> = Optional(Decimal::Any),
    }
}

body! {
    Closed Cap {
        _kind as "type": () = NET_DEBIT,
        value: Amount = Decimal::FromZero,
    }
}

/// `GET /participants/limits`: the caps of all participants.
async fn list_all(call: &AdminRequest<'_>) -> HandlerResult {
    let filter = Filter::of(call)?;
    let caps = call.ask(move |state| {
        let all = state.register().iter();
        all.flat_map(|(_, participant)| {
            filter.caps(participant).map(|(currency, limit)| CapResponse {
                name: Some(participant.name.to_string()),
                currency: currency.to_string(),
                limit: LimitResponse::of(&limit),
            })
        })
        .collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&caps.await?))
}

/// `GET /participants/{name}/limits`.
async fn list(call: &AdminRequest<'_>) -> HandlerResult {
    let filter = Filter::of(call)?;
    let name = call.path(&NAME)?;
    let caps = call.of_participant(name, move |_, participant| {
        let caps = filter.caps(participant);
        caps.map(|(currency, limit)| shape(currency, limit)).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&caps.await?))
}

/// `PUT /participants/{name}/limits`: applies from the next prepare.
async fn update(call: &AdminRequest<'_>, body: NewCap) -> HandlerResult {
    let NewCap { currency, limit: AlarmedCap { value, alarm_percentage, .. } } = body;
    let name = call.path(&NAME)?;
    let limit = NetDebitCap { value, alarm_percentage };
    call.change(SetLimit { name, currency, limit: value, alarm_percentage }).await?;
    Ok(AdminResponse::ok(&shape(currency, limit)))
}

/// `POST /participants/{name}/initialPositionAndLimits`: once per currency; activates the
/// accounts.
async fn set_initial(call: &AdminRequest<'_>, body: InitialPositionAndLimits) -> HandlerResult {
    let (currency, limit) = (body.currency, body.limit.value);
    let position = body.initial_position.unwrap_or(Amount::ZERO);
    let name = call.path(&NAME)?;
    let change = SetInitialPositionAndLimits { name, currency, limit, position };
    call.change(change).await?;
    Ok(AdminResponse::empty(StatusCode::CREATED))
}

/// The currency and type that the query selects.
#[derive(Clone, Copy)]
struct Filter {
    currency: Option<Currency>,
    kind_exists: bool,
}

impl Filter {
    fn of(call: &AdminRequest<'_>) -> Result<Self, Refusal> {
        let kind_exists = call.query(&TYPE)?.is_none_or(|kind| kind == NET_DEBIT_CAP);
        Ok(Self { currency: call.query(&ONLY_CURRENCY)?, kind_exists })
    }

    fn caps(self, participant: &Participant) -> impl Iterator<Item = (Currency, NetDebitCap)> {
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

fn shape(currency: Currency, limit: NetDebitCap) -> CapResponse {
    CapResponse { name: None, currency: currency.to_string(), limit: LimitResponse::of(&limit) }
}
