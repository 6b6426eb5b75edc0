//! The scheme's two forms of time as text: `DateTime` in bodies, HTTP dates in headers.
//!
//! Both are parsed and formatted without locale, zone table or leap-second rules. Nothing here
//! reads a clock.

use http::HeaderValue;

/// Last second of a four-digit year: 9999-12-31T23:59:59Z.
const SECONDS_MAX: u64 = 253_402_300_799;
const DAY_SECONDS: u64 = 86_400;
const DAY_NAMES: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const LONG_DAY_NAMES: [&[u8]; 7] =
    [b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday", b"Sunday"];
const MONTH_NAMES: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses FSPIOP `DateTime`: `YYYY-MM-DDThh:mm:ss.fff`, then `Z` or `±hh:mm` (hub-semantics 1.6).
///
/// Returns milliseconds since 1970-01-01T00:00:00Z. Earlier times are 0, because all of them are
/// past for the hub. `None` for anything outside the pattern or the calendar.
#[must_use]
pub fn parse_date_time(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if !(24..=29).contains(&bytes.len()) {
        return None;
    }
    let (moment, zone) = bytes.split_at(23);
    let days = parse_days(&moment[..10])?;
    if moment[10] != b'T' || moment[13] != b':' || moment[16] != b':' || moment[19] != b'.' {
        return None;
    }
    let hour = below(number(&moment[11..13])?, 24)?;
    let minute = below(number(&moment[14..16])?, 60)?;
    let second = below(number(&moment[17..19])?, 60)?;
    let local = days * 86_400 + hour * 3_600 + minute * 60 + second;
    let seconds = local - parse_offset(zone)?;
    Some(u64::try_from(seconds * 1_000 + number(&moment[20..23])?).unwrap_or(0))
}

/// Whether `text` is a calendar date `YYYY-MM-DD` from the year 1000 on.
pub(crate) fn is_date(text: &str) -> bool {
    parse_days(text.as_bytes()).is_some()
}

/// The time as FSPIOP `DateTime` in UTC with whole seconds, `YYYY-MM-DDThh:mm:ss.000Z`, used in
/// every `completedTimestamp` from the hub. Times after the year 9999 become its end.
#[must_use]
pub fn date_time_whole_seconds(millis: u64) -> [u8; 24] {
    let civil = Civil::at(millis / 1_000);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    put(&mut text[0..4], civil.year);
    put(&mut text[5..7], civil.month);
    put(&mut text[8..10], civil.day);
    put(&mut text[11..13], civil.second_of_day / 3_600);
    put(&mut text[14..16], civil.second_of_day / 60 % 60);
    put(&mut text[17..19], civil.second_of_day % 60);
    text
}

/// The time as a `Date` header (IMF-fixdate, RFC 9110). Times after 9999 become its end.
#[must_use]
pub fn date_header(millis: u64) -> HeaderValue {
    let seconds = (millis / 1_000).min(SECONDS_MAX);
    let civil = Civil::at(seconds);
    let mut text = *b"Thu, 00 Jan 0000 00:00:00 GMT";
    text[0..3].copy_from_slice(DAY_NAMES[(seconds / DAY_SECONDS % 7) as usize]);
    put(&mut text[5..7], civil.day);
    text[8..11].copy_from_slice(MONTH_NAMES[civil.month as usize - 1]);
    put(&mut text[12..16], civil.year);
    put(&mut text[17..19], civil.second_of_day / 3_600);
    put(&mut text[20..22], civil.second_of_day / 60 % 60);
    put(&mut text[23..25], civil.second_of_day % 60);
    HeaderValue::from_bytes(&text).expect("a date is visible ASCII")
}

/// Whether `text` is an HTTP date of an existing day after the year 999: an IMF-fixdate, with a day
/// of one or two digits, or one of the two obsolete forms that recipients must accept (RFC 9110,
/// 5.6.7). The name of the day need not match the date.
#[must_use]
pub fn is_http_date(text: &[u8]) -> bool {
    http_date_seconds(text).is_some()
}

fn http_date_seconds(text: &[u8]) -> Option<i64> {
    fixdate_seconds(text).or_else(|| rfc850_seconds(text)).or_else(|| asctime_seconds(text))
}

/// `ddd, D[D] Mmm YYYY hh:mm:ss GMT`, in seconds since 1970.
fn fixdate_seconds(text: &[u8]) -> Option<i64> {
    let (name, rest) = text.split_first_chunk::<3>()?;
    let rest = rest.strip_prefix(b", ")?;
    let digits = if rest.get(1)? == &b' ' { 1 } else { 2 };
    let (day, rest) = rest.split_at_checked(digits)?;
    let rest: &[u8; 22] = rest.try_into().ok()?;
    let is_whole = rest[0] == b' ' && rest[4] == b' ' && rest[9] == b' ' && rest.ends_with(b" GMT");
    let days = days_since_1970(number(&rest[5..9])?, month(&rest[1..4])?, number(day)?)?;
    let seconds = seconds_of_day(&rest[10..18])?;
    (is_whole && DAY_NAMES.contains(&name)).then_some(days * 86_400 + seconds)
}

/// `Dddddd, DD-Mmm-YY hh:mm:ss GMT`, in seconds since 1970; years below 70 are of this century.
fn rfc850_seconds(text: &[u8]) -> Option<i64> {
    let comma = memchr::memchr(b',', text)?;
    let (name, rest) = text.split_at(comma);
    let rest: &[u8; 24] = rest.try_into().ok()?;
    let is_whole = rest.starts_with(b", ") && rest[4] == b'-' && rest[8] == b'-';
    let is_whole = is_whole && rest[11] == b' ' && rest.ends_with(b" GMT");
    let year = number(&rest[9..11])?;
    let year = if year < 70 { 2_000 + year } else { 1_900 + year };
    let days = days_since_1970(year, month(&rest[5..8])?, number(&rest[2..4])?)?;
    let seconds = seconds_of_day(&rest[12..20])?;
    (is_whole && LONG_DAY_NAMES.contains(&name)).then_some(days * 86_400 + seconds)
}

/// `ddd Mmm DD hh:mm:ss YYYY`, the day padded with a blank, in seconds since 1970.
fn asctime_seconds(text: &[u8]) -> Option<i64> {
    let text: &[u8; 24] = text.try_into().ok()?;
    let (name, _) = text.split_first_chunk::<3>()?;
    let is_whole = [3, 7, 10, 19].iter().all(|&at| text[at] == b' ');
    let day = text[8..10].strip_prefix(b" ").unwrap_or(&text[8..10]);
    let days = days_since_1970(number(&text[20..])?, month(&text[4..7])?, number(day)?)?;
    let seconds = seconds_of_day(&text[11..19])?;
    (is_whole && DAY_NAMES.contains(&name)).then_some(days * 86_400 + seconds)
}

/// `hh:mm:ss`, with leap seconds allowed.
fn seconds_of_day(text: &[u8]) -> Option<i64> {
    let part = |at: usize, end: i64| number(&text[at..at + 2]).filter(|it| *it < end);
    let is_whole = text[2] == b':' && text[5] == b':';
    is_whole.then_some(part(0, 24)? * 3_600 + part(3, 60)? * 60 + part(6, 61)?)
}

fn month(name: &[u8]) -> Option<i64> {
    let at = MONTH_NAMES.iter().position(|known| *known == name)?;
    Some(at as i64 + 1)
}

/// Milliseconds from `now_ms` to the time in `Retry-After`, in either form: seconds, or an HTTP
/// date accepted by [`is_http_date`]. 0 for a past time, `None` for anything else.
#[must_use]
pub fn retry_after_ms(value: &[u8], now_ms: u64) -> Option<u64> {
    let value = value.trim_ascii();
    if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
        let seconds = value.iter().fold(0_u64, |sum, digit| {
            sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        });
        return Some(seconds.saturating_mul(1_000));
    }
    let at = u64::try_from(http_date_seconds(value)?).unwrap_or(0).saturating_mul(1_000);
    Some(at.saturating_sub(now_ms))
}

/// A time split into calendar fields, in the proleptic Gregorian calendar.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl Civil {
    /// Counts years from 1 March, so that the leap day is the last of its year.
    fn at(seconds: u64) -> Self {
        let seconds = seconds.min(SECONDS_MAX);
        let days = seconds / DAY_SECONDS + 719_468;
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        Self {
            year: era * 400 + year_of_era + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            second_of_day: seconds % DAY_SECONDS,
        }
    }
}

/// Days from 1970-01-01 to the date `YYYY-MM-DD`; `None` unless the day exists after the year 999.
fn parse_days(date: &[u8]) -> Option<i64> {
    let date: &[u8; 10] = date.try_into().ok()?;
    if date[4] != b'-' || date[7] != b'-' {
        return None;
    }
    days_since_1970(number(&date[..4])?, number(&date[5..7])?, number(&date[8..])?)
}

/// `None` unless the day exists after the year 999.
fn days_since_1970(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if year < 1_000 || !(1..=length).contains(&day) {
        return None;
    }
    let (year, month_from_march) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(365 * year + leap_days + (153 * month_from_march + 2) / 5 + day - 1 - 719_468)
}

/// Seconds east of Greenwich. The pattern allows an offset up to 19:59.
fn parse_offset(zone: &[u8]) -> Option<i64> {
    match zone {
        b"Z" => Some(0),
        [sign @ (b'+' | b'-'), hours @ .., b':', tens, ones] if hours.len() == 2 => {
            let hours = below(number(hours)?, 20)?;
            let minutes = below(number(&[*tens, *ones])?, 60)?;
            let offset = hours * 3_600 + minutes * 60;
            Some(if *sign == b'-' { -offset } else { offset })
        }
        _ => None,
    }
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |sum, digit| {
        digit.is_ascii_digit().then(|| sum * 10 + i64::from(digit - b'0'))
    })
}

fn below(value: i64, end: i64) -> Option<i64> {
    (value < end).then_some(value)
}

fn put(slot: &mut [u8], mut value: u64) {
    for digit in slot.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect_file;
    use proptest::prelude::*;

    use super::*;
    use crate::test_table;

    /// An input is the kind of text, and the text.
    #[test]
    fn times_match_their_expected_values() {
        test_table::check(&expect_file!["test_tables/times.txt"], |input| {
            let (place, value) = test_table::first_word(input);
            match place {
                "body" => format!("{:?}", parse_date_time(value)),
                "retry" => format!("{:?}", retry_after_ms(value.as_bytes(), 784_111_777_000)),
                "date" => is_http_date(value.as_bytes()).to_string(),
                other => panic!("{other:?} contains no time"),
            }
        });
    }

    #[test]
    fn moments_are_written_in_both_forms() {
        for (millis, body, header) in [
            (0, "1970-01-01T00:00:00.000Z", "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_887_151_999, "1994-11-15T08:12:31.000Z", "Tue, 15 Nov 1994 08:12:31 GMT"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z", "Tue, 29 Feb 2000 00:00:00 GMT"),
            (u64::MAX, "9999-12-31T23:59:59.000Z", "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(date_time_whole_seconds(millis), *body.as_bytes());
            assert_eq!(date_header(millis), header);
        }
    }

    proptest! {
        #[test]
        fn written_moments_are_read_back(seconds in 0..=SECONDS_MAX) {
            let text = date_time_whole_seconds(seconds * 1_000);
            let text = std::str::from_utf8(&text).expect("ASCII");
            prop_assert_eq!(parse_date_time(text), Some(seconds * 1_000));
            prop_assert!(is_http_date(date_header(seconds * 1_000).as_bytes()));
        }
    }
}
