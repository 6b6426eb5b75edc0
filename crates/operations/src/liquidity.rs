//! `GET /liquidity`: how much of its net debit cap each participant uses. An addition to the
//! reference's API.
//!
//! Costs: a query visits every participant, and every transfer in flight up to
//! [`IN_FLIGHT_READ_MAX`]. Bounds: a response has at most [`ROWS_MAX`] rows.

use std::collections::HashMap;

use fspiop::{ErrorCode, Refusal};
use ledger::{
    AccountId, Amount, Currency, CurrencyAccounts, FspName, NetDebitCap, Participant,
    ParticipantIndex, Stamp, State,
};
use serde_json::json;

use crate::backend::PositionTrend;
use crate::body_reader::refuse;
use crate::outcome_errors;
use crate::request::{AdminRequest, ONLY_CURRENCY, participant_name};
use crate::response::{AdminResponse, HandlerResult};
use crate::responses::{JsonNumber, Timestamp};
use crate::route::{Parameter, routes};
use crate::schema::{self, response_type};
use crate::settlement_queries::read_number;

/// Maximum number of rows in a response.
const ROWS_MAX: usize = 1_000;
/// Number of rows without `limit`.
const ROWS_DEFAULT: usize = 100;
/// Maximum number of transfers in flight up to which `reserved` is computed. Reading them delays
/// the sequencer by less than 1 ms.
const IN_FLIGHT_READ_MAX: usize = 20_000;
/// Ten-thousandths of a percent in the whole.
const WHOLE: i128 = 100 * 10_000;
/// Microseconds of an hour.
const HOUR_US: i128 = 3_600 * 1_000_000;
/// The furthest forecast. A trend of one hour does not predict more than a week.
const FORECAST_MAX_US: u64 = 7 * 24 * 3_600 * 1_000_000;
/// Ten-thousandths of a percent in the step to which `percentUsed` is rounded down: 0.01 %.
const STEP: i128 = 100;

const PARTICIPANT: Parameter<FspName> =
    Parameter::new("participant", "Only this participant.", schema::some_text, participant_name);

const LIMIT: Parameter<usize> = Parameter::new(
    "limit",
    "Maximum number of rows; 100 by default.",
    || json!({"type": "integer", "minimum": 1, "maximum": ROWS_MAX}),
    row_limit,
)
.example("2");

routes! {
    "/liquidity" {
        read GET listLiquidity = list, "Show positions, caps and headroom" {
            text: "\
                One row per participant and currency with a net debit cap, highest `percentUsed` \
                first. `effectiveCap` is the net debit cap or the liquidity cover, whichever is \
                lower: a transfer that takes the position beyond it is refused. `limitedBy` is \
                `cap` or `cover`, and `cap` if both are equal. `headroom` is `effectiveCap` less \
                `position`. `position` includes `reserved`, the part that belongs to transfers in \
                flight, which is absent while more than 20,000 transfers are in flight. \
                `percentUsed` is the position in percent of the net debit cap, rounded down to \
                0.01; it is 0 for a position that is not positive, and 100 for a positive one if \
                the cap is 0. The alarm compares it with `alarmPercentage`. `alarmSince` is \
                present while the alarm is raised. `trendPerHour` is the change of the position \
                per hour by transfers, from one sample a minute over the last hour; changes by \
                the operator and by settlements are left out. It is absent until two samples \
                exist after a start. `capReachedAt` is the time at which the position would reach \
                `effectiveCap` by this trend; it is absent if the trend is unknown or not \
                positive, if the headroom is used up already, and beyond seven days.",
            query: [PARTICIPANT, ONLY_CURRENCY, LIMIT],
            responses: [200: Vec<LiquidityResponse> = "Rows, highest `percentUsed` first."],
            refusals: [400 ID_NOT_FOUND, 400 MALFORMED_SYNTAX, 400 VALIDATION],
        }
    }
}

response_type! {
    /// The liquidity of a participant in a currency.
    struct LiquidityResponse as "Liquidity" {
        participant: String,
        currency: String = schema::currency(),
        position: JsonNumber,
        #[serde(skip_serializing_if = "Option::is_none")]
        reserved: Option<JsonNumber>,
        liquidity_cover: JsonNumber,
        net_debit_cap: JsonNumber,
        effective_cap: JsonNumber,
        limited_by: &'static str = schema::one_of(&["cap", "cover"]),
        headroom: JsonNumber,
        percent_used: JsonNumber,
        alarm_percentage: JsonNumber,
        #[serde(skip_serializing_if = "Option::is_none")]
        alarm_since: Option<Timestamp>,
        #[serde(skip_serializing_if = "Option::is_none")]
        trend_per_hour: Option<JsonNumber>,
        #[serde(skip_serializing_if = "Option::is_none")]
        cap_reached_at: Option<Timestamp>,
    }
}

/// The liquidity of a participant in a currency, as copied from the state.
#[derive(Clone, Copy, Debug)]
struct Liquidity {
    participant: ParticipantIndex,
    name: FspName,
    currency: Currency,
    account: AccountId,
    position: Amount,
    cover: Amount,
    cap: NetDebitCap,
    alarm_since: Option<Stamp>,
}

impl Liquidity {
    /// `None` without a net debit cap: the accounts were never activated.
    fn of(
        state: &State,
        (index, participant): (ParticipantIndex, &Participant),
        accounts: &CurrencyAccounts,
    ) -> Option<Self> {
        let value = |account| state.accounts().get(account).map(|account| account.value);
        let currency = accounts.currency;
        let alarm = state.alerts().alarm((index, currency));
        Some(Self {
            participant: index,
            name: participant.name,
            currency,
            account: accounts.position,
            position: value(accounts.position)?,
            cover: -value(accounts.settlement)?,
            cap: accounts.net_debit_cap?,
            alarm_since: alarm.map(|alarm| alarm.raised),
        })
    }

    /// The highest position: the net debit cap or the liquidity cover.
    fn effective_cap(&self) -> Amount {
        if self.is_limited_by_cover() { self.cover } else { self.cap.value }
    }

    fn is_limited_by_cover(&self) -> bool {
        self.cover < self.cap.value
    }

    fn headroom(&self) -> Amount {
        Amount::from_units(self.effective_cap().units() - self.position.units())
    }

    /// In percent of the net debit cap, as the alarm is.
    fn used(&self) -> Amount {
        let (position, limit) = (self.position.units(), self.cap.value.units());
        let used = match (0 < position, 0 < limit) {
            (false, _) => 0,
            (true, false) => WHOLE,
            (true, true) => position.checked_mul(WHOLE).map_or(i128::MAX, |used| used / limit),
        };
        Amount::from_units(used / STEP * STEP)
    }

    /// The time at which the effective cap is reached by a trend.
    fn forecast(&self, trend: &PositionTrend) -> Option<Stamp> {
        let (headroom, per_hour) = (self.headroom().units(), trend.per_hour.units());
        if headroom <= 0 || per_hour <= 0 {
            return None;
        }
        let ahead = headroom.checked_mul(HOUR_US)? / per_hour;
        let ahead = u64::try_from(ahead).ok().filter(|ahead| *ahead <= FORECAST_MAX_US)?;
        Some(Stamp(trend.at.0.checked_add(ahead)?))
    }

    fn response(
        &self,
        reserved: Option<&Reserved>,
        trend: Option<PositionTrend>,
    ) -> LiquidityResponse {
        let of_account = |sums: &Reserved| sums.get(&self.account).copied().unwrap_or_default();
        LiquidityResponse {
            participant: self.name.to_string(),
            currency: self.currency.to_string(),
            position: JsonNumber(self.position),
            reserved: reserved.map(of_account).map(Amount::from_units).map(JsonNumber),
            liquidity_cover: JsonNumber(self.cover),
            net_debit_cap: JsonNumber(self.cap.value),
            effective_cap: JsonNumber(self.effective_cap()),
            limited_by: if self.is_limited_by_cover() { "cover" } else { "cap" },
            headroom: JsonNumber(self.headroom()),
            percent_used: JsonNumber(self.used()),
            alarm_percentage: JsonNumber(self.cap.alarm_percentage),
            alarm_since: self.alarm_since.map(Timestamp),
            trend_per_hour: trend.map(|trend| JsonNumber(trend.per_hour)),
            cap_reached_at: trend.and_then(|trend| self.forecast(&trend)).map(Timestamp),
        }
    }
}

/// Units of transfers in flight by the payer's POSITION account.
type Reserved = HashMap<AccountId, i128>;

/// `GET /liquidity`.
async fn list(request: &AdminRequest<'_>) -> HandlerResult {
    let wanted = request.query(&PARTICIPANT)?;
    let currency = request.query(&ONLY_CURRENCY)?;
    let limit = request.query(&LIMIT)?.unwrap_or(ROWS_DEFAULT);
    let found = request.query_state(move |state| {
        let rows = rows(state, wanted.as_ref(), currency)?;
        Some((rows, reserved(state)))
    });
    let (mut rows, reserved) = found.await?.ok_or_else(outcome_errors::participant_not_found)?;
    rows.sort_by_key(|row| (-row.used().units(), row.participant, row.currency));
    rows.truncate(limit);
    let response = |row: &Liquidity| {
        let trend = request.backend.position_trend((row.participant, row.currency));
        row.response(reserved.as_ref(), trend)
    };
    Ok(AdminResponse::ok(&rows.iter().map(response).collect::<Vec<_>>()))
}

/// The rows of all participants, or of one; `None` if it is unknown.
fn rows(
    state: &State,
    wanted: Option<&FspName>,
    currency: Option<Currency>,
) -> Option<Vec<Liquidity>> {
    let one = match wanted {
        Some(name) => Some(state.registry().find(name)?),
        None => None,
    };
    let all = wanted.is_none().then(|| state.registry().iter()).into_iter().flatten();
    let rows = all.chain(one).flat_map(|member| {
        let accounts = member.1.by_currency.iter();
        accounts
            .filter(move |it| currency.is_none_or(|wanted| it.currency == wanted))
            .filter_map(move |accounts| Liquidity::of(state, member, accounts))
    });
    Some(rows.collect())
}

/// `None` if too many transfers are in flight.
fn reserved(state: &State) -> Option<Reserved> {
    if IN_FLIGHT_READ_MAX < state.reserved_transfer_count() {
        return None;
    }
    let mut sums = Reserved::new();
    for transfer in state.in_flight() {
        *sums.entry(transfer.payer_account).or_default() += transfer.amount.units();
    }
    Some(sums)
}

fn row_limit(text: &str) -> Result<usize, Refusal> {
    match read_number("limit", text)? as usize {
        limit if (1..=ROWS_MAX).contains(&limit) => Ok(limit),
        _ => Err(refuse(ErrorCode::VALIDATION, "limit", "is out of range")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whole units.
    fn amount(whole: i128) -> Amount {
        Amount::from_units(whole * 10_000)
    }

    fn row(position: i128, cover: i128, cap: i128) -> Liquidity {
        Liquidity {
            participant: ParticipantIndex(1),
            name: FspName::new("dfsp1").expect("a name"),
            currency: Currency::parse("USD").expect("a currency"),
            account: AccountId(7),
            position: amount(position),
            cover: amount(cover),
            cap: NetDebitCap { value: amount(cap), alarm_percentage: amount(80) },
            alarm_since: None,
        }
    }

    #[test]
    fn effective_cap_is_the_lower_of_cap_and_cover() {
        let check = |position: i128, cover: i128, cap: i128, expected: [&str; 3]| {
            let row = row(position, cover, cap);
            let found = [row.effective_cap(), row.headroom(), row.used()];
            let found = found.map(|it| it.to_string());
            assert_eq!(found, expected, "{position} {cover} {cap}");
            assert_eq!(row.is_limited_by_cover(), cover < cap, "{cover} {cap}");
        };
        check(0, 5_000, 1_000, ["1000", "1000", "0"]);
        check(250, 5_000, 1_000, ["1000", "750", "25"]);
        check(1, 5_000, 3, ["3", "2", "33.33"]);
        check(250, 500, 1_000, ["500", "250", "25"]);
        check(250, 1_000, 1_000, ["1000", "750", "25"]);
        check(-250, 500, 1_000, ["500", "750", "0"]);
        check(1_500, 5_000, 1_000, ["1000", "-500", "150"]);
        check(0, 0, 1_000, ["0", "0", "0"]);
        check(5, 0, 1_000, ["0", "-5", "0.5"]);
        check(5, -3, 1_000, ["-3", "-8", "0.5"]);
        check(5, 1_000, 0, ["0", "-5", "100"]);
    }

    #[test]
    fn forecast_follows_the_trend() {
        const HOUR: u64 = 3_600 * 1_000_000;
        let check = |position: i128, per_hour: i128, hours: Option<u64>| {
            let trend = PositionTrend { per_hour: amount(per_hour), at: Stamp(5) };
            let expected = hours.map(|hours| Stamp(5 + hours * HOUR));
            assert_eq!(row(position, 500, 1_000).forecast(&trend), expected, "{position}");
        };
        check(0, 500, Some(1));
        check(400, 50, Some(2));
        check(-500, 10, Some(100));
        check(400, 0, None);
        check(400, -50, None);
        check(500, 50, None);
        check(600, 50, None);
        check(332, 1, Some(168));
        check(331, 1, None);
    }
}
