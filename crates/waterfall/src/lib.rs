//! Where time went: events with a start, an end and a label, drawn as a waterfall.
//!
//! The point of a waterfall is the difference between *total* (first start to last end) and *sum*
//! (time in which at least one event was under way): the **gap**, in which nobody worked.
//!
//! Phases: [`events::parse`] reads the format of the public tool (a JSON object per line or one
//! array, of `start`, `end`, `label`), [`figures`] adds up, [`svg::draw`] draws one waterfall, and
//! [`page::page`] makes a page of many, with the median of each stage. Costs: a sort, and one pass
//! over the sorted events. Bounds: [`events::EVENTS_MAX`] events of [`events::LABEL_CHARS_MAX`].
#![warn(missing_docs)]

pub mod events;
pub mod page;
pub mod svg;

pub use events::{Event, ParseError, Unit};

/// What a waterfall adds up to, in the unit of its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of events.
    pub events: usize,
    /// Time in which at least one event was under way.
    pub sum: u64,
    /// From the first start to the last end.
    pub total: u64,
}

impl Figures {
    /// Time in which no event was under way.
    #[must_use]
    pub fn gap(&self) -> u64 {
        self.total - self.sum
    }
}

/// Adds up events that are in order (see [`events::sort`]).
#[must_use]
pub fn figures(events: &[Event]) -> Figures {
    let Some(first) = events.first() else { return Figures::default() };
    let mut sum = 0;
    let mut right = first.start;
    for event in events {
        if right < event.end {
            sum += event.end - event.start.max(right);
            right = event.end;
        }
    }
    Figures { events: events.len(), sum, total: right - first.start }
}

/// The spans between events, in which nobody worked; the events must be in order.
#[must_use]
pub fn gaps(events: &[Event]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut right = events.first().map_or(0, |first| first.start);
    for event in events {
        if right < event.start {
            gaps.push((right, event.start));
        }
        right = right.max(event.end);
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spans: &[(u64, u64)], expected: (u64, u64), expected_gaps: &[(u64, u64)]) {
        let event = |(start, end): &(u64, u64)| Event::new(*start, *end, "x");
        let mut events: Vec<_> = spans.iter().map(event).collect();
        events::sort(&mut events);
        let found = figures(&events);
        assert_eq!((found.sum, found.total), expected, "{spans:?}");
        assert_eq!(gaps(&events), expected_gaps, "{spans:?}");
        assert_eq!(found.gap(), expected_gaps.iter().map(|gap| gap.1 - gap.0).sum::<u64>());
    }

    #[test]
    fn sum_counts_what_is_covered_once() {
        check(&[], (0, 0), &[]);
        check(&[(5, 5)], (0, 0), &[]);
        check(&[(5, 9)], (4, 4), &[]);
        check(&[(0, 10), (2, 4)], (10, 10), &[]);
        check(&[(0, 4), (2, 6)], (6, 6), &[]);
        check(&[(0, 4), (4, 6)], (6, 6), &[]);
        check(&[(10, 12), (0, 4)], (6, 12), &[(4, 10)]);
        check(&[(0, 1), (5, 6), (2, 3)], (3, 6), &[(1, 2), (3, 5)]);
    }
}
