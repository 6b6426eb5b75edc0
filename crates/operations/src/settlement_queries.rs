//! Query parameters of the lists of windows and settlements, and the texts that name them.
//!
//! A blank parameter counts as absent. A text names the parameters in the order of the request.

use fspiop::{DESCRIPTION_CHARS_MAX, ErrorCode, Refusal};
use ledger::{SettlementState, WindowState};
use serde_json::{Value, json};

use crate::body_reader::refuse;
use crate::request::AdminRequest;
use crate::route::{Parameter, parameter, parameters};
use crate::schema;
use crate::settlement_responses::{SETTLEMENT_STATES, WINDOW_STATES};

/// The end of a text that portals recognise as an empty list.
const NOT_FOUND: &str = " not found";

/// Declares a parameter that is a number.
macro_rules! number {
    ($name:literal, $text:literal) => {
        Parameter::new($name, $text, $crate::settlement_queries::number_schema, |text| {
            $crate::settlement_queries::read_number($name, text)
        })
    };
}

pub(crate) use number;

/// Declares a parameter that is a date and time.
macro_rules! moment {
    ($name:literal, $text:literal) => {
        Parameter::new($name, $text, schema::date_time, |text| {
            let wrong = || refuse(ErrorCode::MALFORMED_SYNTAX, $name, MOMENT_FORM);
            read_moment(text).ok_or_else(wrong)
        })
    };
}

/// Error text for an invalid date.
pub(crate) const MOMENT_FORM: &str = "must be a date and time as in RFC 3339";

pub(crate) const PARTICIPANT_ID: Parameter<u32> =
    number!("participantId", "Number of a participant in the settlement API.");
pub(crate) const ACCOUNT_ID: Parameter<u32> = number!("accountId", "Number of an account.");
pub(crate) const WINDOW_ID: Parameter<u32> = number!("settlementWindowId", "Number of a window.");

pub(crate) const FROM: Parameter<u64> = moment!("fromDateTime", "Created at this time or later.");
pub(crate) const TO: Parameter<u64> = moment!("toDateTime", "Created at this time or before.");
pub(crate) const WINDOW_FROM: Parameter<u64> =
    moment!("fromSettlementWindowDateTime", "With a window created at this time or later.");
pub(crate) const WINDOW_TO: Parameter<u64> =
    moment!("toSettlementWindowDateTime", "With a window created at this time or before.");

/// `None` for a state in which no window ever is.
pub(crate) const WINDOW_STATE: Parameter<Option<WindowState>> = Parameter::new(
    "state",
    "State of the windows. None is ever PROCESSING or FAILED.",
    || schema::one_of(&WINDOW_STATES),
    |text| match WindowState::parse(text) {
        None if !WINDOW_STATES.contains(&text) => Err(unknown_state(&WINDOW_STATES)),
        state => Ok(state),
    },
)
.example("\"OPEN\"");

pub(crate) const SETTLEMENT_STATE: Parameter<SettlementState> = Parameter::new(
    "state",
    "State of the settlements.",
    || schema::one_of(&SETTLEMENT_STATES),
    |text| SettlementState::parse(text).ok_or_else(|| unknown_state(&SETTLEMENT_STATES)),
)
.example("\"PENDING_SETTLEMENT\"");

/// A number in a path or in a query.
pub(crate) fn read_number(name: &str, text: &str) -> Result<u32, Refusal> {
    match text.parse::<u32>() {
        Ok(number) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
        _ => Err(refuse(ErrorCode::MALFORMED_SYNTAX, name, "must be an integer")),
    }
}

/// The schema of a number in a path or in a query.
pub(crate) fn number_schema() -> Value {
    json!({"type": "integer", "minimum": 0, "maximum": u32::MAX})
}

/// A date, or a date and time of RFC 3339, as milliseconds since 1970.
pub(crate) fn read_moment(text: &str) -> Option<u64> {
    // An unescaped plus is a space in a query.
    let text = text.replace(' ', "+");
    let (date, time) = text.split_once(['T', 't']).unwrap_or((&text, "00:00:00Z"));
    let (clock, rest) = time.split_at_checked(8)?;
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (fraction, zone) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(digits(rest)),
        None => ("0", rest),
    };
    let millis = fraction.get(..3.min(fraction.len()))?;
    fspiop::time::parse_date_time(&format!("{date}T{clock}.{millis:0<3}{}", zone.to_uppercase()))
}

fn unknown_state(states: &[&str]) -> Refusal {
    let what = format!("must be one of [{}]", states.join(", "));
    refuse(ErrorCode::MALFORMED_SYNTAX, "state", &what)
}

/// A parameter of the query, unless it is blank.
pub(crate) fn given<T>(
    request: &AdminRequest<'_>,
    wanted: &Parameter<T>,
) -> Result<Option<T>, Refusal> {
    match parameter(request.query, wanted.info.name) {
        None => Ok(None),
        Some(text) if text.is_empty() => Ok(None),
        Some(text) => (wanted.read)(&text).map(Some),
    }
}

/// The parameters that a request gives, of those with these names, as a JSON text.
///
/// Refuses a request with none of them.
pub(crate) fn filters(request: &AdminRequest<'_>, names: &[&str]) -> Result<String, Refusal> {
    let pairs = parameters(request.query)
        .filter(|(name, value)| names.contains(&name.as_str()) && !value.is_empty());
    let member = |(name, value): (String, String)| {
        let is_number = name.ends_with("Id");
        let value = if is_number { value } else { Value::from(value).to_string() };
        format!("\"{name}\":{value}")
    };
    let members: Vec<_> = pairs.map(member).collect();
    if members.is_empty() {
        let detail = format!("Use at least one parameter: {}", names.join(", "));
        return Err(Refusal::new(ErrorCode::VALIDATION, &detail));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

/// An empty list: 400, 3100. The filters are cut so that the text ends with "not found".
pub(crate) fn nothing_found(before: &str, filters: &str) -> Refusal {
    let code = ErrorCode::VALIDATION;
    let fixed = code.describe(before).chars().count() + NOT_FOUND.len();
    let room = DESCRIPTION_CHARS_MAX.saturating_sub(fixed);
    let shown = match filters.chars().count() <= room {
        true => filters.to_owned(),
        false => filters.chars().take(room.saturating_sub(2)).chain("…}".chars()).collect(),
    };
    Refusal::new(code, &format!("{before}{shown}{NOT_FOUND}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_in_the_forms_of_rfc_3339() {
        for (text, expected) in [
            ("2026-01-01T10:00:00.000Z", Some(1_767_261_600_000)),
            ("2026-01-01T10:00:00Z", Some(1_767_261_600_000)),
            ("2026-01-01T10:00:00.1234567Z", Some(1_767_261_600_123)),
            ("2026-01-01T12:00:00.5+02:00", Some(1_767_261_600_500)),
            ("2026-01-01T12:00:00 02:00", Some(1_767_261_600_000)),
            ("2026-01-01", Some(1_767_225_600_000)),
            ("2026-01-01T10:00:00", None),
            ("2026-13-01T10:00:00Z", None),
            ("2026-01-01T10:00", None),
            ("2026-01-01T10:00:0ä", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(read_moment(text), expected, "{text}");
        }
    }

    #[test]
    fn texts_of_empty_lists_end_with_not_found() {
        let before = "settlementWindow by filters: ";
        let short = nothing_found(before, "{state:OPEN}").description;
        assert_eq!(
            short,
            "Generic validation error - settlementWindow by filters: {state:OPEN} not found"
        );
        let long = format!("{{state:{}}}", "ä".repeat(200));
        let long = nothing_found(before, &long).description;
        assert!(long.ends_with("ä…} not found"), "{long}");
        assert_eq!(long.chars().count(), DESCRIPTION_CHARS_MAX);
    }

    #[test]
    fn every_state_has_its_name_in_the_lists() {
        for name in SETTLEMENT_STATES {
            assert_eq!(SettlementState::parse(name).map(SettlementState::name), Some(name));
        }
        for name in &WINDOW_STATES[..5] {
            assert_eq!(WindowState::parse(name).map(WindowState::name), Some(*name));
        }
    }
}
