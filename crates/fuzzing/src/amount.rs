//! Amounts, compared with decimals of any length that are added digit by digit.
//!
//! Accepted texts are those of the published pattern (FSPIOP `Amount`; for operators a plain
//! decimal). The text, digits, order, sums and differences of an amount equal those of the
//! reference, to the last digit and beyond every range.

use std::cmp::Ordering;
use std::sync::LazyLock;

use ledger::{Amount, SCALE};
use regex::Regex;

/// Longest text that is tried, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// The pattern that FSPIOP publishes.
static PUBLISHED: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = "^([0]|([1-9][0-9]{0,17}))([.][0-9]{0,3}[1-9])?$";
    Regex::new(pattern).expect("a pattern")
});

/// The pattern for operators.
static PLAIN: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("^-?[0-9]{1,18}([.][0-9]{1,4})?$").expect("a pattern"));

/// Two texts, the second on a line of its own.
pub fn amount(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (one, other) = text.split_once('\n').unwrap_or((text, "1"));
    if TEXT_BYTES_MAX < one.len() || TEXT_BYTES_MAX < other.len() {
        return;
    }
    let [one, other] = [one, other].map(read);
    let (Some((one, first)), Some((other, second))) = (one, other) else { return };
    assert_eq!(one.cmp(&other), first.cmp(&second), "order of {first:?} and {second:?}");
    assert_eq!(one.checked_add(other), first.plus(&second).fitting());
    assert_eq!(one.checked_sub(other), first.plus(&second.negated()).fitting());
    double_until_it_does_not_fit(one, first);
}

/// Reads a text in both ways, each time as both do.
fn read(text: &str) -> Option<(Amount, Decimal)> {
    let published = Amount::parse(text);
    // The patterns' `$` would also match before a final line break; such a text is refused.
    assert_eq!(published.is_some(), PUBLISHED.is_match(text), "{text:?} as published");
    let plain = Amount::parse_decimal(text);
    assert_eq!(plain.is_some(), PLAIN.is_match(text), "{text:?} as a decimal");
    if let Some(published) = published {
        assert_eq!(plain, Some(published), "{text:?} is the same either way");
    }
    let amount = plain?;
    let decimal = Decimal::of(text);
    assert_eq!(Some(amount), decimal.fitting(), "{text:?}");
    assert_eq!(amount.to_string(), decimal.text(), "{text:?}");
    assert_eq!(amount.precision() as usize, decimal.precision(), "{text:?}");
    Some((amount, decimal))
}

fn double_until_it_does_not_fit(mut amount: Amount, mut decimal: Decimal) {
    for _ in 0..i128::BITS {
        decimal = decimal.plus(&decimal);
        let doubled = amount.checked_add(amount);
        assert_eq!(doubled, decimal.fitting(), "{decimal:?}");
        let Some(doubled) = doubled else { return };
        assert_eq!(doubled.to_string(), decimal.text());
        amount = doubled;
    }
    assert_eq!(amount, Amount::ZERO, "everything else grows out of range");
}

/// A decimal with four places and any number of digits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    /// Ten-thousandths; the lowest digit first, none at the end that is zero.
    digits: Vec<u8>,
}

impl Decimal {
    /// The value of a valid text.
    fn of(text: &str) -> Self {
        let unsigned = text.trim_start_matches('-');
        let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
        let scaled = format!("{whole}{fraction:0<4}");
        let digits = scaled.bytes().rev().map(|byte| byte - b'0').collect();
        Self::new(text.starts_with('-'), digits)
    }

    fn new(negative: bool, mut digits: Vec<u8>) -> Self {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Self { negative: negative && !digits.is_empty(), digits }
    }

    fn negated(&self) -> Self {
        Self::new(!self.negative, self.digits.clone())
    }

    fn plus(&self, other: &Self) -> Self {
        if self.negative == other.negative {
            return Self::new(self.negative, added(&self.digits, &other.digits));
        }
        let (larger, smaller) = match magnitude(&self.digits, &other.digits) {
            Ordering::Less => (other, self),
            _ => (self, other),
        };
        Self::new(larger.negative, subtracted(&larger.digits, &smaller.digits))
    }

    /// The amount, if the ledger's range has it: 128 bits of ten-thousandths.
    fn fitting(&self) -> Option<Amount> {
        let sign = if self.negative { "-" } else { "" };
        let units = format!("{sign}{}", shown(&self.digits, 1));
        units.parse().ok().map(Amount::from_units)
    }

    /// Without zeros at the end of the fraction, and without a point when it has none.
    fn text(&self) -> String {
        let digits = shown(&self.digits, 1 + SCALE as usize);
        let (whole, fraction) = digits.split_at(digits.len() - SCALE as usize);
        let fraction = fraction.trim_end_matches('0');
        let (sign, point) = (["", "-"][usize::from(self.negative)], !fraction.is_empty());
        format!("{sign}{whole}{}{fraction}", ["", "."][usize::from(point)])
    }

    /// Digits of the text, but for a zero before the point.
    fn precision(&self) -> usize {
        let text = self.text().replace('-', "");
        text.strip_prefix("0.").unwrap_or(&text).replace('.', "").len()
    }

    fn cmp(&self, other: &Self) -> Ordering {
        match (self.negative, other.negative) {
            (false, false) => magnitude(&self.digits, &other.digits),
            (true, true) => magnitude(&other.digits, &self.digits),
            (mine, others) => others.cmp(&mine),
        }
    }
}

/// The digits in reading order, with zeros in front up to a width.
fn shown(digits: &[u8], width: usize) -> String {
    let text: String = digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
    format!("{text:0>width$}")
}

fn magnitude(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.iter().rev().cmp(other.iter().rev()))
}

fn added(one: &[u8], other: &[u8]) -> Vec<u8> {
    let mut carry = 0;
    let mut sum = Vec::new();
    for at in 0..one.len().max(other.len()) {
        let digit = carry + one.get(at).unwrap_or(&0) + other.get(at).unwrap_or(&0);
        sum.push(digit % 10);
        carry = digit / 10;
    }
    sum.push(carry);
    sum
}

/// The difference of a larger and a smaller one.
fn subtracted(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut borrowed = 0;
    let mut difference = Vec::new();
    for (at, digit) in larger.iter().enumerate() {
        let taken = borrowed + smaller.get(at).unwrap_or(&0);
        borrowed = u8::from(*digit < taken);
        difference.push(digit + 10 * borrowed - taken);
    }
    assert_eq!(borrowed, 0, "the larger one comes first");
    difference
}
