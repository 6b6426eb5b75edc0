//! Positions in the stream of events.

use std::fmt::{self, Display, Formatter};

use ledger::LogIndex;

/// A position in the stream of events: after an event, or after all events of a record.
///
/// As text it is `RECORD.NUMBER`, the id of the event, or `RECORD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The record.
    pub record: LogIndex,
    /// The event within the record, from 1; [`Position::LAST`] for all of them.
    pub number: u32,
}

impl Position {
    /// The number of a position after all events of its record.
    pub const LAST: u32 = u32::MAX;

    /// The position after all events of a record. Record 0 is the beginning.
    #[must_use]
    pub const fn after(record: LogIndex) -> Self {
        Self { record, number: Self::LAST }
    }

    /// Reads `RECORD` or `RECORD.NUMBER`: digits without sign and leading zeros.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (record, number) = match text.split_once('.') {
            None => (text, None),
            Some((record, number)) => (record, Some(number)),
        };
        let record = LogIndex(read(record)?);
        let Some(number) = number else { return Some(Self::after(record)) };
        let number = u32::try_from(read(number)?).ok().filter(|it| (1..Self::LAST).contains(it))?;
        Some(Self { record, number })
    }
}

impl Default for Position {
    fn default() -> Self {
        Self::after(LogIndex(0))
    }
}

impl Display for Position {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.number {
            Self::LAST => write!(f, "{}", self.record.0),
            number => write!(f, "{}.{number}", self.record.0),
        }
    }
}

fn read(digits: &str) -> Option<u64> {
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_short = digits == "0" || !digits.starts_with('0');
    if is_plain && is_short { digits.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_as_written() {
        for (text, record, number) in
            [("0", 0, Position::LAST), ("7", 7, Position::LAST), ("7.1", 7, 1), ("70.12", 70, 12)]
        {
            let position = Position { record: LogIndex(record), number };
            assert_eq!(Position::parse(text), Some(position), "{text}");
            assert_eq!(position.to_string(), text);
        }
        for text in ["", ".", "1.", ".1", "01", "1.01", "1.0", "-1", "+1", "1.2.3", "1.4294967295"]
        {
            assert_eq!(Position::parse(text), None, "{text}");
        }
        assert_eq!(Position::parse("18446744073709551616"), None, "more than 64 bits");
    }

    #[test]
    fn a_record_ends_after_its_events() {
        let at = |text| Position::parse(text).expect("a position");
        assert!(at("6") < at("7.1") && at("7.1") < at("7.2") && at("7.2") < at("7"));
    }
}
