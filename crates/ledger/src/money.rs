//! Money: exact decimals with four places, never a float.

use core::fmt;
use core::ops::Neg;

/// Decimal places kept for every currency.
pub const SCALE: u32 = 4;
const UNIT: i128 = 10_i128.pow(SCALE);
/// Total digits the ledger accepts in an amount (integer and fraction together).
pub const PRECISION_MAX: u32 = 18;

/// A signed amount in ten-thousandths of the currency's unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

impl Amount {
    /// Zero.
    pub const ZERO: Self = Self(0);

    /// An amount of `units` ten-thousandths.
    #[must_use]
    pub const fn from_units(units: i128) -> Self {
        Self(units)
    }

    /// The amount in ten-thousandths.
    #[must_use]
    pub const fn units(self) -> i128 {
        self.0
    }

    /// Parses an FSPIOP `Amount`: up to 18 digits, then up to four decimals without a trailing
    /// zero; no sign, exponent or leading zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) if fraction.ends_with(|c| ('1'..='9').contains(&c)) => {
                (whole, fraction)
            }
            Some(_) => return None,
            None => (text, ""),
        };
        let canonical = whole == "0" || !whole.starts_with('0');
        if !canonical || whole.len() > 18 {
            return None;
        }
        Self::from_digits(whole, fraction)
    }

    /// Parses a plain decimal of the admin API: optional sign, digits, at most four decimals,
    /// trailing zeros allowed.
    #[must_use]
    pub fn parse_decimal(text: &str) -> Option<Self> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.len() > 18 || (digits.contains('.') && fraction.is_empty()) {
            return None;
        }
        let amount = Self::from_digits(whole, fraction)?;
        Some(if negative { -amount } else { amount })
    }

    fn from_digits(whole: &str, fraction: &str) -> Option<Self> {
        if whole.is_empty() || fraction.len() > SCALE as usize {
            return None;
        }
        let mut units: i128 = 0;
        for byte in whole.bytes().chain(fraction.bytes()) {
            if !byte.is_ascii_digit() {
                return None;
            }
            units = units * 10 + i128::from(byte - b'0');
        }
        let missing = SCALE - fraction.len() as u32;
        Some(Self(units * 10_i128.pow(missing)))
    }

    /// Digits of the canonical text, without sign and point (FSPIOP precision).
    #[must_use]
    pub fn precision(self) -> u32 {
        // Arithmetic on 64 bits is many times faster, and nearly every amount fits.
        match u64::try_from(self.0) {
            Ok(units) => precision_of(units),
            Err(_) => self.precision_of_large(),
        }
    }

    fn precision_of_large(self) -> u32 {
        let mut units = self.0.unsigned_abs();
        let mut scale = SCALE;
        while scale > 0 && units.is_multiple_of(10) {
            units /= 10;
            scale -= 1;
        }
        units.checked_ilog10().map_or(1, |log| log + 1).max(scale)
    }

    /// Sum, or `None` beyond the range of the ledger.
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Some(Self(sum)),
            None => None,
        }
    }

    /// Difference, or `None` beyond the range of the ledger.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(difference) => Some(Self(difference)),
            None => None,
        }
    }
}

fn precision_of(mut units: u64) -> u32 {
    let mut scale = SCALE;
    while scale > 0 && units.is_multiple_of(10) {
        units /= 10;
        scale -= 1;
    }
    units.checked_ilog10().map_or(1, |log| log + 1).max(scale)
}

impl Neg for Amount {
    type Output = Self;

    fn neg(self) -> Self {
        Self(-self.0)
    }
}

impl fmt::Display for Amount {
    /// Canonical text: no trailing zeros, no point without decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let units = self.0.unsigned_abs();
        let unit = UNIT.unsigned_abs();
        let (whole, mut fraction) = (units / unit, units % unit);
        if fraction == 0 {
            return write!(f, "{sign}{whole}");
        }
        let mut width = SCALE as usize;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            width -= 1;
        }
        write!(f, "{sign}{whole}.{fraction:0width$}")
    }
}

/// An ISO 4217 alphabetic code: three upper-case letters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The code for no currency.
    pub const NONE: Self = Self(*b"XXX");

    /// Parses three upper-case letters. Whether the scheme supports the currency is checked
    /// elsewhere.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::from_bytes(text.as_bytes().try_into().ok()?)
    }

    /// Reads the stored form; `None` unless it is three capital letters.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 3]) -> Option<Self> {
        bytes.iter().all(u8::is_ascii_uppercase).then_some(Self(bytes))
    }

    /// The code as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.0).expect("a currency code is ASCII")
    }

    /// The stored form.
    #[must_use]
    pub const fn to_bytes(self) -> [u8; 3] {
        self.0
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn amounts_parse_exactly_and_print_canonically() {
        for (text, units) in [
            ("0", 0),
            ("1", 10_000),
            ("0.1", 1_000),
            ("123.4567", 1_234_567),
            ("999999999999999999.9999", 9_999_999_999_999_999_999_999),
        ] {
            let amount = Amount::parse(text).expect(text);
            assert_eq!(amount.units(), units);
            assert_eq!(amount.to_string(), text);
        }
    }

    #[test]
    fn amounts_outside_the_pattern_are_refused() {
        for text in [
            "",
            ".",
            "1.",
            ".5",
            "01",
            "00",
            "1.50",
            "1.00001",
            "-1",
            "+1",
            "1e3",
            "1,5",
            "1 ",
            "1000000000000000000",
        ] {
            assert_eq!(Amount::parse(text), None, "{text}");
        }
    }

    #[test]
    fn admin_decimals_allow_a_sign_and_trailing_zeros() {
        assert_eq!(Amount::parse_decimal("10000.00"), Some(Amount::from_units(100_000_000)));
        assert_eq!(Amount::parse_decimal("-1.5"), Some(Amount::from_units(-15_000)));
        assert_eq!(Amount::parse_decimal("-0"), Some(Amount::ZERO));
        let longest = Amount::from_units(9_999_999_999_999_999_999_999);
        assert_eq!(Amount::parse_decimal("-999999999999999999.9999"), Some(-longest));
        for text in ["1.00001", "--1", "", "-", "1.", ".5", ".", "1x", "1000000000000000000"] {
            assert_eq!(Amount::parse_decimal(text), None, "{text}");
        }
    }

    #[test]
    fn negative_amounts_print_with_a_sign() {
        for (units, text) in [(-15_000, "-1.5"), (-1, "-0.0001"), (-10_000, "-1"), (-10, "-0.001")]
        {
            assert_eq!(Amount::from_units(units).to_string(), text);
        }
    }

    #[test]
    fn sums_and_differences_are_checked() {
        let [one, most] = [1, i128::MAX].map(Amount::from_units);
        assert_eq!(one.checked_add(one), Some(Amount::from_units(2)));
        assert_eq!(one.checked_sub(one), Some(Amount::ZERO));
        assert_eq!(most.checked_add(one), None);
        assert_eq!((-most).checked_sub(one), Some(Amount::from_units(i128::MIN)));
        assert_eq!(Amount::from_units(i128::MIN).checked_sub(one), None);
    }

    #[test]
    fn currency_is_three_capital_letters() {
        let currency = Currency::parse("USD").expect("it is one");
        assert_eq!((currency.as_str(), currency.to_bytes()), ("USD", *b"USD"));
        assert_eq!([currency.to_string(), alloc::format!("{currency:?}")], ["USD", "USD"]);
        for text in ["", "US", "USDX", "usd", "U5D", "\u{c4}X"] {
            assert_eq!(Currency::parse(text), None, "{text}");
        }
    }

    #[test]
    fn precision_counts_the_digits_of_the_canonical_text() {
        for (text, digits) in [
            ("0", 1),
            ("1", 1),
            ("10", 2),
            ("0.0001", 4),
            ("12.34", 4),
            ("99999999999999.9999", 18),
            ("100000000000000.0001", 19),
            // These units do not fit in 64 bits.
            ("1844674407370955.1615", 20),
            ("1844674407370955.1616", 20),
            ("100000000000000000", 18),
            ("999999999999999999.9", 19),
            ("999999999999999999.9999", 22),
        ] {
            let amount = Amount::parse(text).expect(text);
            assert_eq!(amount.precision(), digits, "{text}");
            assert_eq!((-amount).precision(), digits, "-{text}");
        }
    }
}
