//! Comparisons of JSON values as the language of rules defines them.

use std::cmp::Ordering;

use serde_json::Value;

/// The order of two numbers, or of texts that are numbers, such as amounts; exact at any length.
pub(super) fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    Some(Decimal::of(a)?.cmp(&Decimal::of(b)?))
}

/// `==` of the language: a number is equal to a text with the same value.
pub(super) fn loosely_equal(a: &Value, b: &Value) -> bool {
    let has_number = a.is_number() || b.is_number();
    a == b || has_number && compare(a, b) == Some(Ordering::Equal)
}

/// Equality of the content; numbers are equal by value.
pub(super) fn deeply_equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(_), Value::Number(_)) => loosely_equal(a, b),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| deeply_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let same = |(name, value)| b.get(name).is_some_and(|other| deeply_equal(value, other));
            a.len() == b.len() && a.iter().all(same)
        }
        (a, b) => a == b,
    }
}

/// Equality of texts, numbers, booleans and null. Lists and objects equal nothing.
pub(super) fn same_scalar(a: &Value, b: &Value) -> bool {
    !a.is_array() && !a.is_object() && deeply_equal(a, b)
}

/// A decimal number in parts without leading and trailing zeros.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    whole: String,
    fraction: String,
}

impl Decimal {
    fn of(value: &Value) -> Option<Self> {
        match value {
            Value::Number(number) => Self::parse(&number.to_string()),
            Value::String(text) => Self::parse(text.trim()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let mut digits = whole.bytes().chain(fraction.bytes());
        if whole.is_empty() || !digits.all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let is_zero = whole.is_empty() && fraction.is_empty();
        Some(Self {
            is_negative: text.starts_with('-') && !is_zero,
            whole: whole.to_owned(),
            fraction: fraction.to_owned(),
        })
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = |one: &Self| (one.whole.len(), one.whole.clone(), one.fraction.clone());
        match (self.is_negative, other.is_negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (false, false) => size(self).cmp(&size(other)),
            (true, true) => size(other).cmp(&size(self)),
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
