//! Wall-clock times in the formats of FSPIOP, formatted once per second.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;

/// Formats times, and caches the text of the last second.
pub(crate) struct Clock {
    date: Second<29>,
    completed: Second<19>,
    expiration: Second<19>,
}

struct Second<const LENGTH: usize> {
    format: &'static str,
    second: u64,
    text: [u8; LENGTH],
}

impl Clock {
    pub(crate) fn new() -> Self {
        let iso = "%Y-%m-%dT%H:%M:%S";
        Self {
            date: Second::new("%a, %d %b %Y %H:%M:%S GMT"),
            completed: Second::new(iso),
            expiration: Second::new(iso),
        }
    }

    /// Appends the value of a `Date` header (RFC 7231).
    pub(crate) fn push_date(&mut self, out: &mut Vec<u8>, millis: u64) {
        out.extend_from_slice(self.date.text(millis / 1_000));
    }

    /// Appends a `completedTimestamp` (FSPIOP `DateTime`, three decimals).
    pub(crate) fn push_completed(&mut self, out: &mut Vec<u8>, millis: u64) {
        push_iso(out, self.completed.text(millis / 1_000), millis);
    }

    /// Appends an `expiration` (FSPIOP `DateTime`, three decimals).
    pub(crate) fn push_expiration(&mut self, out: &mut Vec<u8>, millis: u64, ahead: Duration) {
        let millis = millis + ahead.as_millis() as u64;
        push_iso(out, self.expiration.text(millis / 1_000), millis);
    }
}

/// Milliseconds since the epoch.
pub(crate) fn millis_now() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| elapsed.as_millis() as u64)
}

impl<const LENGTH: usize> Second<LENGTH> {
    fn new(format: &'static str) -> Self {
        Self { format, second: u64::MAX, text: [0; LENGTH] }
    }

    fn text(&mut self, second: u64) -> &[u8; LENGTH] {
        if self.second != second {
            self.second = second;
            let moment = Timestamp::from_second(second as i64).unwrap_or(Timestamp::UNIX_EPOCH);
            let text = moment.strftime(self.format).to_string();
            self.text.copy_from_slice(text.as_bytes());
        }
        &self.text
    }
}

fn push_iso(out: &mut Vec<u8>, second: &[u8; 19], millis: u64) {
    out.extend_from_slice(second);
    let millis = (millis % 1_000) as u16;
    let digit = |power: u16| b'0' + (millis / power % 10) as u8;
    out.extend_from_slice(&[b'.', digit(100), digit(10), digit(1), b'Z']);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_formats_of_the_specification() {
        let mut clock = Clock::new();
        for (millis, date, completed, expiration) in [
            (
                1_767_261_600_007,
                "Thu, 01 Jan 2026 10:00:00 GMT",
                "2026-01-01T10:00:00.007Z",
                "2026-01-01T10:01:00.007Z",
            ),
            (
                951_782_399_999,
                "Mon, 28 Feb 2000 23:59:59 GMT",
                "2000-02-28T23:59:59.999Z",
                "2000-02-29T00:00:59.999Z",
            ),
        ] {
            let mut texts = [Vec::new(), Vec::new(), Vec::new()];
            clock.push_date(&mut texts[0], millis);
            clock.push_completed(&mut texts[1], millis);
            clock.push_expiration(&mut texts[2], millis, Duration::from_secs(60));
            let texts = texts.map(|text| String::from_utf8(text).expect("ASCII"));
            assert_eq!(texts, [date, completed, expiration]);
        }
    }
}
