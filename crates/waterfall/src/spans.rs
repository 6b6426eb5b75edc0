//! Events and their exchange format: newline-delimited JSON objects or one JSON array of `{"start":
//! integer, "end": integer, "label": text}`. Times of the public tool are milliseconds; ours are
//! usually nanoseconds, so the unit is given separately.

use std::fmt::Write;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Maximum number of events in a file.
pub const EVENTS_MAX: usize = 100_000;
/// Maximum number of characters of a label.
pub const LABEL_CHARS_MAX: usize = 1_000;
/// Largest bound up to which each integer has its own floating-point value: 2 to the power of 53.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// An activity with a start and an end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Start, in the unit of the file.
    pub start: u64,
    /// End, not before the start.
    pub end: u64,
    /// Its name; not blank.
    pub label: String,
    /// Its effect on the figures; not part of a file.
    #[serde(skip)]
    pub kind: SpanKind,
}

/// The effect of an event on the figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum SpanKind {
    /// Work: included in count and sum.
    #[default]
    Work,
    /// Excluded from count and sum, as in the public tool; included in the total.
    LeftOut,
    /// A wait: not included in any figure or file.
    Wait,
}

impl Span {
    /// An event that counts.
    #[must_use]
    pub fn new(start: u64, end: u64, label: impl Into<String>) -> Self {
        Self { start, end, label: label.into(), kind: SpanKind::Work }
    }

    /// Whether its label starts with a prefix by the rules of the public tool: case is ignored, and
    /// a run of characters other than letters, digits, full stops and hyphens counts as one space.
    #[must_use]
    pub fn begins_with(&self, prefix: &str) -> bool {
        plain(&self.label).starts_with(&plain(prefix))
    }
}

fn plain(text: &str) -> String {
    let is_kept = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    let words: Vec<_> = text.split(|c| !is_kept(c)).filter(|word| !word.is_empty()).collect();
    words.join(" ").to_ascii_lowercase()
}

/// Times are integers, also if written as `2.0` or `2e3`.
#[derive(Deserialize)]
struct Read {
    #[serde(deserialize_with = "whole")]
    start: u64,
    #[serde(deserialize_with = "whole")]
    end: u64,
    label: String,
}

fn whole<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let number = serde_json::Number::deserialize(deserializer)?;
    let small = |number: &f64| number.fract() == 0.0 && (0.0..=WHOLE_MAX).contains(number);
    let of_fraction = || number.as_f64().filter(small).map(|number| number as u64);
    number
        .as_u64()
        .or_else(of_fraction)
        .ok_or_else(|| D::Error::custom(format!("{number} is not a whole number of at least 0")))
}

/// The unit of `start` and `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds, as in the public tool.
    Milliseconds,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

impl Unit {
    /// Parses `ms`, `us` or `ns`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "ms" => Some(Self::Milliseconds),
            "us" => Some(Self::Microseconds),
            "ns" => Some(Self::Nanoseconds),
            _ => None,
        }
    }

    /// Formats a duration: milliseconds remain, finer units become microseconds.
    #[must_use]
    pub fn show(self, duration: u64) -> String {
        match self {
            Self::Milliseconds => format!("{duration} ms"),
            Self::Microseconds => format!("{duration} us"),
            Self::Nanoseconds => format!("{}.{} us", duration / 1_000, duration % 1_000 / 100),
        }
    }
}

/// The reason why a text is not a list of events.
#[derive(Debug, thiserror::Error)]
pub enum ParseError {
    /// Invalid JSON, or not an event.
    #[error("event {number}: {reason}; expected {{\"start\": 0, \"end\": 5, \"label\": \"text\"}}")]
    Malformed {
        /// Number of the event, from 1.
        number: usize,
        /// The problem.
        reason: String,
    },
    /// More events than [`EVENTS_MAX`].
    #[error("more than {EVENTS_MAX} events")]
    TooMany,
}

/// Parses events and sorts them. A byte order mark at the start is ignored.
///
/// # Errors
///
/// [`ParseError`] names the first invalid event.
pub fn parse(text: &str) -> Result<Vec<Span>, ParseError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let values: Vec<serde_json::Value> = match text.trim_start().starts_with('[') {
        true => serde_json::from_str(text).map_err(|error| malformed(1, &error.to_string()))?,
        false => serde_json::Deserializer::from_str(text)
            .into_iter()
            .take(EVENTS_MAX + 1)
            .enumerate()
            .map(|(at, value)| value.map_err(|error| malformed(at + 1, &error.to_string())))
            .collect::<Result<_, _>>()?,
    };
    if EVENTS_MAX < values.len() {
        return Err(ParseError::TooMany);
    }
    let numbered = values.into_iter().enumerate();
    let events: Result<Vec<_>, _> = numbered.map(|(at, value)| event(at + 1, value)).collect();
    let mut events = events?;
    sort(&mut events);
    Ok(events)
}

fn event(number: usize, value: serde_json::Value) -> Result<Span, ParseError> {
    let Read { start, end, label } =
        serde_json::from_value(value).map_err(|error| malformed(number, &error.to_string()))?;
    if end < start {
        return Err(malformed(number, "the end is before the start"));
    }
    if label.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}').is_empty() {
        return Err(malformed(number, "blank label"));
    }
    let length = label.chars().count();
    if LABEL_CHARS_MAX < length {
        let reason = format!("its label has {length} characters, above {LABEL_CHARS_MAX}");
        return Err(malformed(number, &reason));
    }
    Ok(Span::new(start, end, label))
}

fn malformed(number: usize, reason: &str) -> ParseError {
    ParseError::Malformed { number, reason: reason.to_owned() }
}

/// Sorts events for a waterfall: by start, the longer first, then by label.
pub fn sort(events: &mut [Span]) {
    events.sort_by(|one, other| {
        let by_span = one.start.cmp(&other.start).then(other.end.cmp(&one.end));
        by_span.then_with(|| one.label.cmp(&other.label))
    });
}

/// Writes one JSON object per line, as read by [`parse`]. Waits are omitted.
#[must_use]
pub fn write(events: &[Span]) -> String {
    let mut text = String::new();
    for event in events.iter().filter(|event| event.kind != SpanKind::Wait) {
        let line = serde_json::to_string(event).expect("an event is always writable");
        writeln!(text, "{line}").expect("text grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_formats_are_parsed_in_order() {
        let lines = "{\"start\":5,\"end\":6,\"label\":\"b\"}\n{\"start\":0,\"end\":9,\"label\":\"a\",\"more\":1}\n";
        let array = r#"[{"start":5,"end":6,"label":"b"}, {"start":0,"end":9,"label":"a"}]"#;
        let expected = [Span::new(0, 9, "a"), Span::new(5, 6, "b")];
        let marked = format!("\u{feff}{lines}");
        for text in [lines, array, &marked] {
            let events = parse(text).expect("it is good");
            assert_eq!(events, expected);
            assert_eq!(parse(&write(&events)).expect("what was written can be read"), expected);
        }
        assert!(parse("").expect("no events").is_empty());
    }

    #[test]
    fn order_is_start_then_longest_then_label() {
        let mut events = [(3, 4, "c"), (0, 1, "b"), (0, 5, "z"), (0, 1, "a")]
            .map(|(start, end, label)| Span::new(start, end, label));
        sort(&mut events);
        let labels = events.map(|event| event.label);
        assert_eq!(labels, ["z", "a", "b", "c"]);
    }

    #[test]
    fn parse_error_names_the_problem() {
        for (text, wanted) in [
            ("{\"start\":1,\"end\":0,\"label\":\"x\"}", "event 1: the end is before the start"),
            ("{\"start\":1,\"end\":2,\"label\":\"\"}", "event 1: blank label"),
            ("{\"start\":1,\"end\":2,\"label\":\" \\t\"}", "event 1: blank label"),
            ("{\"start\":-1,\"end\":2,\"label\":\"x\"}", "event 1: -1 is not a whole number"),
            ("{\"start\":1.5,\"end\":2,\"label\":\"x\"}", "event 1: 1.5 is not a whole number"),
            ("{\"start\":1e30,\"end\":2,\"label\":\"x\"}", "event 1: 1e+30 is not a whole"),
            ("{\"start\":\"1\",\"end\":2,\"label\":\"x\"}", "event 1: invalid type"),
            ("{\"start\":1,\"end\":2,\"label\":\"x\"}\n{\"end\":2}", "event 2: missing field"),
            ("{\"start\":1,\"end\":2,\"label\":\"x\"} nonsense", "event 2: expected"),
            ("[1]", "event 1: invalid type"),
        ] {
            let said = parse(text).expect_err("it is bad").to_string();
            assert!(said.starts_with(wanted), "{text}: {said}");
        }
    }

    #[test]
    fn integers_may_have_a_zero_fraction() {
        let events = parse("{\"start\":2.0,\"end\":3e3,\"label\":\"a\"}").expect("it is good");
        assert_eq!(events, [Span::new(2, 3_000, "a")]);
        let large = format!("{{\"start\":0,\"end\":{},\"label\":\"a\"}}", u64::MAX);
        assert_eq!(parse(&large).expect("valid"), [Span::new(0, u64::MAX, "a")]);
    }

    #[test]
    fn prefix_ignores_case_and_punctuation() {
        let event = Span::new(0, 1, "Whole: the_transfer 1.5");
        for (prefix, expected) in [
            ("WHOLE", true),
            ("whole: the", true),
            ("whole the-", false),
            (" <Whole> THE/transfer", true),
            ("whole: the transfer 1.", true),
            ("transfer", false),
            ("", true),
        ] {
            assert_eq!(event.begins_with(prefix), expected, "{prefix}");
        }
    }

    #[test]
    fn waits_are_not_written() {
        let wait = Span { kind: SpanKind::Wait, ..Span::new(1, 2, "a: wait") };
        let left_out = Span { kind: SpanKind::LeftOut, ..Span::new(2, 3, "b") };
        assert_eq!(write(&[wait, left_out]), "{\"start\":2,\"end\":3,\"label\":\"b\"}\n");
    }

    #[test]
    fn durations_are_shown_in_microseconds_when_finer() {
        assert_eq!(Unit::Nanoseconds.show(12_345), "12.3 us");
        assert_eq!(Unit::Microseconds.show(7), "7 us");
        assert_eq!(Unit::Milliseconds.show(7), "7 ms");
        assert_eq!(Unit::parse("s"), None);
    }
}
