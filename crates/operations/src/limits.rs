//! Net debit caps: `/participants/limits`, `/participants/{name}/limits` and
//! `/participants/{name}/initialPositionAndLimits` (hub-semantics 4.1, 4.3).

use fspiop::{ErrorCode, Refusal};
use http::StatusCode;
use ledger::{Amount, Currency, NetDebitCap, Participant, SetInitialPositionAndLimits, SetLimit};

use crate::body::{CURRENCY, Choice, Decimal, Object, Optional, body};
use crate::body_reader::refuse;
use crate::participants::NAME;
use crate::request::{AdminRequest, ONLY_CURRENCY};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{LimitResponse, NET_DEBIT_CAP, NetDebitCapResponse};
use crate::route::{Parameter, routes};

const TYPE: Parameter<String> =
    Parameter::text("type", "Only this type; the only one is `NET_DEBIT_CAP`.");

routes! {
    "/participants/limits" {
        read GET listAllCaps = list_all, "List the caps of all participants" {
            text: "Without those whose POSITION account is inactive.",
            query: [ONLY_CURRENCY, TYPE],
            responses: [200: Vec<NetDebitCapResponse> = "Caps with their participants."],
            refusals: [400 MALFORMED_SYNTAX],
        }
    }
    "/participants/{name}/limits" [NAME] {
        read GET listCaps = list, "List the caps of a participant" {
            query: [ONLY_CURRENCY, TYPE],
            responses: [200: Vec<NetDebitCapResponse> = "Caps."],
            refusals: [400 ID_NOT_FOUND, 400 MALFORMED_SYNTAX],
        }
        change PUT changeCap = update(NetDebitCapUpdate), "Change a cap" {
            permission: Finance,
            records: SetLimit,
            text: "Applies from the next prepare.",
            example: {
                "currency": "XOF",
                "limit": {"type": "NET_DEBIT_CAP", "value": 100000, "alarmPercentage": 10}
            },
            responses: [200: NetDebitCapResponse = "The cap after the change."],
        }
    }
    "/participants/{name}/initialPositionAndLimits" [NAME] {
        change POST setInitialCap = set_initial(InitialPositionAndLimits),
        "Set initial cap and position" {
            permission: Finance,
            records: SetInitialPositionAndLimits,
            text: "Possible once per currency; activates the accounts.",
            example: {"currency": "XOF", "limit": {"type": "NET_DEBIT_CAP", "value": 100000}},
            responses: [201: () = "Set."],
        }
    }
}

/// The only type of limit.
/// The highest alarm threshold, in percent of the cap.
const PERCENT_MAX: Amount = Amount::from_units(100 * 10_000);

const NET_DEBIT: Choice<()> = Choice(&[(NET_DEBIT_CAP, ())]);

body! {
    Closed NetDebitCapUpdate {
        currency: Currency = CURRENCY,
        limit: NetDebitCapWithAlarm = Object::<NetDebitCapWithAlarm>::RULE,
    }
}

body! {
    Closed NetDebitCapWithAlarm {
        _kind as "type": () = NET_DEBIT,
        value: Amount = Decimal::FromZero,
        alarm_percentage: Amount = Decimal::FromZero,
    }
}

body! {
    Closed InitialPositionAndLimits {
        currency: Currency = CURRENCY,
        limit: NetDebitCapValue = Object::<NetDebitCapValue>::RULE,
        initial_position: Option<Amount> = Optional(Decimal::Any),
    }
}

body! {
    Closed NetDebitCapValue {
        _kind as "type": () = NET_DEBIT,
        value: Amount = Decimal::FromZero,
    }
}

/// `GET /participants/limits`: the caps of all participants.
async fn list_all(request: &AdminRequest<'_>) -> HandlerResult {
    let filter = Filter::of(request)?;
    let caps = request.query_state(move |state| {
        let is_active = |participant: &Participant, currency| {
            let accounts = participant.accounts_in(currency);
            let position = accounts.and_then(|accounts| state.accounts().get(accounts.position));
            position.is_some_and(|position| position.active)
        };
        let all = state.registry().iter();
        all.flat_map(|(_, participant)| {
            let caps = filter.net_debit_caps(participant);
            let caps = caps.filter(move |(currency, _)| is_active(participant, *currency));
            caps.map(|(currency, cap)| NetDebitCapResponse {
                name: Some(participant.name.to_string()),
                currency: currency.to_string(),
                limit: LimitResponse::of(&cap),
            })
        })
        .collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&caps.await?))
}

/// `GET /participants/{name}/limits`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let filter = Filter::of(request)?;
    let name = request.path(&NAME)?;
    let caps = request.query_participant(name, move |_, participant| {
        let caps = filter.net_debit_caps(participant);
        caps.map(|(currency, cap)| cap_response(currency, cap)).collect::<Vec<_>>()
    });
    Ok(AdminResponse::ok(&caps.await?))
}

/// `PUT /participants/{name}/limits`: applies from the next prepare.
async fn update(request: &AdminRequest<'_>, body: NetDebitCapUpdate) -> HandlerResult {
    let NetDebitCapUpdate { currency, limit } = body;
    let NetDebitCapWithAlarm { value, alarm_percentage, .. } = limit;
    if PERCENT_MAX < alarm_percentage {
        return Err(refuse(ErrorCode::VALIDATION, "limit.alarmPercentage", "must be at most 100"));
    }
    let name = request.path(&NAME)?;
    let cap = NetDebitCap { value, alarm_percentage };
    request.change(SetLimit { name, currency, net_debit_cap: value, alarm_percentage }).await?;
    Ok(AdminResponse::ok(&cap_response(currency, cap)))
}

/// `POST /participants/{name}/initialPositionAndLimits`: once per currency; activates the
/// accounts.
async fn set_initial(request: &AdminRequest<'_>, body: InitialPositionAndLimits) -> HandlerResult {
    let (currency, net_debit_cap) = (body.currency, body.limit.value);
    let position = body.initial_position.unwrap_or(Amount::ZERO);
    let name = request.path(&NAME)?;
    let change = SetInitialPositionAndLimits { name, currency, net_debit_cap, position };
    request.change(change).await?;
    Ok(AdminResponse::empty(StatusCode::CREATED))
}

/// The currency and type that the query selects.
#[derive(Clone, Copy)]
struct Filter {
    currency: Option<Currency>,
    kind_exists: bool,
}

impl Filter {
    fn of(request: &AdminRequest<'_>) -> Result<Self, Refusal> {
        let kind_exists = request.query(&TYPE)?.is_none_or(|kind| kind == NET_DEBIT_CAP);
        Ok(Self { currency: request.query(&ONLY_CURRENCY)?, kind_exists })
    }

    fn net_debit_caps(
        self,
        participant: &Participant,
    ) -> impl Iterator<Item = (Currency, NetDebitCap)> {
        participant
            .by_currency
            .iter()
            .filter(move |accounts| self.kind_exists && self.selects(accounts.currency))
            .filter_map(|accounts| Some((accounts.currency, accounts.net_debit_cap?)))
    }

    fn selects(self, currency: Currency) -> bool {
        self.currency.is_none_or(|wanted| wanted == currency)
    }
}

fn cap_response(currency: Currency, cap: NetDebitCap) -> NetDebitCapResponse {
    NetDebitCapResponse {
        name: None,
        currency: currency.to_string(),
        limit: LimitResponse::of(&cap),
    }
}
