//! The scheme's two forms of time as text: `DateTime` in bodies, IMF-fixdate in headers.
//!
//! Both are read and written by hand: each is one fixed form, and no locale, zone table or
//! leap-second rule is involved. Nothing here reads a clock.

use http::HeaderValue;

/// Last second that four digits of a year can show: 9999-12-31T23:59:59Z.
const SECONDS_MAX: u64 = 253_402_300_799;
const DAY_SECONDS: u64 = 86_400;
const DAY_NAMES: [&[u8; 3]; 7] = [b"Thu", b"Fri", b"Sat", b"Sun", b"Mon", b"Tue", b"Wed"];
const MONTH_NAMES: [&[u8; 3]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];

/// Parses FSPIOP `DateTime`: `YYYY-MM-DDThh:mm:ss.fff`, then `Z` or `±hh:mm` (hub-semantics 1.6).
///
/// Returns milliseconds since 1970-01-01T00:00:00Z; moments before that are 0, for to the hub
/// they are all equally past. `None` for anything outside the pattern, calendar included.
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

/// The moment as FSPIOP `DateTime` in UTC with whole seconds, `YYYY-MM-DDThh:mm:ss.000Z`: the
/// form of every hub-made `completedTimestamp`. Moments after the year 9999 read as its end.
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

/// The moment as a `Date` header (IMF-fixdate, RFC 9110). Moments after 9999 read as its end.
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

/// Whether `text` is an IMF-fixdate in GMT of a day that exists after the year 999, under the name
/// of that day.
#[must_use]
pub fn is_imf_fixdate(text: &[u8]) -> bool {
    let Ok(text) = <&[u8; 29]>::try_from(text) else {
        return false;
    };
    let separators = text[3] == b','
        && [4, 7, 11, 16].iter().all(|&at| text[at] == b' ')
        && text[19] == b':'
        && text[22] == b':'
        && text.ends_with(b" GMT");
    separators
        && days_of_fixdate(text).is_some_and(|days| {
            text.starts_with(DAY_NAMES[days.rem_euclid(DAY_NAMES.len() as i64) as usize])
        })
        && number(&text[17..19]).is_some_and(|hour| hour < 24)
        && number(&text[20..22]).is_some_and(|minute| minute < 60)
        && number(&text[23..25]).is_some_and(|second| second <= 60)
}

/// Days from 1970-01-01 to the date of `ddd, DD Mmm YYYY`.
fn days_of_fixdate(text: &[u8; 29]) -> Option<i64> {
    let month = MONTH_NAMES.iter().position(|name| &text[8..11] == *name)?;
    let mut date = *b"0000-00-00";
    date[..4].copy_from_slice(&text[12..16]);
    put(&mut date[5..7], month as u64 + 1);
    date[8..].copy_from_slice(&text[5..7]);
    parse_days(&date)
}

/// A moment taken apart, in the proleptic Gregorian calendar.
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

/// Days from 1970-01-01 to the date `YYYY-MM-DD`; `None` unless such a day exists after 999.
fn parse_days(date: &[u8]) -> Option<i64> {
    let date: &[u8; 10] = date.try_into().ok()?;
    if date[4] != b'-' || date[7] != b'-' || date[0] == b'0' {
        return None;
    }
    let year = number(&date[..4])?;
    let month = number(&date[5..7])?;
    let day = number(&date[8..])?;
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 => 28 + i64::from(leap),
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    let (year, month_from_march) =
        if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    Some(365 * year + leap_days + (153 * month_from_march + 2) / 5 + day - 1 - 719_468)
}

/// Seconds east of Greenwich; the pattern lets an offset reach 19:59.
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
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn date_times_parse_to_milliseconds() {
        for (text, millis) in [
            ("1970-01-01T00:00:00.000Z", 0),
            ("1970-01-01T00:00:00.001Z", 1),
            ("1969-12-31T23:59:59.999Z", 0),
            ("1000-01-01T00:00:00.000Z", 0),
            ("2000-02-29T00:00:00.000Z", 951_782_400_000),
            ("2016-05-24T08:38:08.699-04:00", 1_464_093_488_699),
            ("2016-05-24T12:38:08.699+00:00", 1_464_093_488_699),
            ("2016-05-25T01:38:08.699+13:00", 1_464_093_488_699),
            ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
        ] {
            assert_eq!(parse_date_time(text), Some(millis), "{text}");
        }
    }

    #[test]
    fn date_times_outside_the_pattern_are_refused() {
        for text in [
            "",
            "2016-05-24T08:38:08Z",
            "2016-05-24T08:38:08.69Z",
            "2016-05-24T08:38:08.6999Z",
            "2016-05-24T08:38:08.699",
            "2016-05-24T08:38:08.699z",
            "2016-05-24t08:38:08.699Z",
            "2016-05-24 08:38:08.699Z",
            "2016-05-24T08:38:08,699Z",
            "2016-05-24T24:00:00.000Z",
            "2016-05-24T08:60:08.699Z",
            "2016-05-24T08:38:60.699Z",
            "2016-05-24T08:38:08.699+0400",
            "2016-05-24T08:38:08.699+04",
            "2016-05-24T08:38:08.699+20:00",
            "2016-05-24T08:38:08.699+04:60",
            "2016-13-24T08:38:08.699Z",
            "2016-00-24T08:38:08.699Z",
            "2016-05-32T08:38:08.699Z",
            "2016-04-31T08:38:08.699Z",
            "2015-02-29T08:38:08.699Z",
            "1900-02-29T08:38:08.699Z",
            "0999-05-24T08:38:08.699Z",
            "+016-05-24T08:38:08.699Z",
            "2016-05-24T08:38:08.699Zé",
        ] {
            assert_eq!(parse_date_time(text), None, "{text}");
        }
    }

    #[test]
    fn fixdates_are_told_from_other_dates() {
        for (text, valid) in [
            ("Tue, 15 Nov 1994 08:12:31 GMT", true),
            ("Fri, 31 Dec 9999 23:59:59 GMT", true),
            ("Thu, 29 Feb 1996 08:12:31 GMT", true),
            ("Wed, 31 Dec 1969 23:59:59 GMT", true),
            ("Mon, 15 Nov 1994 08:12:31 GMT", false),
            ("Tue, 31 Feb 1994 08:12:31 GMT", false),
            ("Thu, 31 Nov 1994 08:12:31 GMT", false),
            ("Wed, 29 Feb 1995 08:12:31 GMT", false),
            ("Tue, 15 Nov 1994 08:12:31 UTC", false),
            ("Tue, 15 Nov 1994 08:12:31 gmt", false),
            ("Tuesday, 15-Nov-94 08:12:31 GMT", false),
            ("Tue Nov 15 08:12:31 1994", false),
            ("Tue, 15 Nov 1994 24:12:31 GMT", false),
            ("Tue, 32 Nov 1994 08:12:31 GMT", false),
            ("Tue, 00 Nov 1994 08:12:31 GMT", false),
            ("Tue, 15 nov 1994 08:12:31 GMT", false),
            ("Die, 15 Nov 1994 08:12:31 GMT", false),
            ("Tue,15 Nov 1994 08:12:31 GMT ", false),
            ("2016-05-24T08:38:08.699Z", false),
            ("", false),
        ] {
            assert_eq!(is_imf_fixdate(text.as_bytes()), valid, "{text}");
        }
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
            prop_assert!(is_imf_fixdate(date_header(seconds * 1_000).as_bytes()));
        }

        #[test]
        fn parsing_never_panics(text in "[0-9TZ:.+-]{20,30}|\\PC{0,32}") {
            let _ = parse_date_time(&text);
            let _ = is_imf_fixdate(text.as_bytes());
        }
    }
}
