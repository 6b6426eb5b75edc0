//! Latency breakdown: events with a start, an end and a label, drawn as a waterfall.
//!
//! A waterfall shows the difference between *total* (first start to last end) and *sum* (time in
//! which at least one event was in progress): the **gap**, in which no stage was active. Waits
//! ([`SpanKind::Wait`]) are drawn, and do not affect these figures.
//!
//! Phases: [`spans::parse`] reads the format of the public tool (a JSON object per line or one
//! array, of `start`, `end`, `label`), [`figures`] adds up, and [`page::page`] makes a page of one
//! or many, with the median of each stage. [`viewer::page`] makes one of any results that the
//! viewer can draw. Costs: a sort, and one pass over the sorted events.
//! Bounds: [`spans::EVENTS_MAX`] events of [`spans::LABEL_CHARS_MAX`].
#![warn(missing_docs)]

pub mod page;
pub mod spans;
pub mod text;
pub mod viewer;

pub use spans::{ParseError, Span, SpanKind, Unit};

/// The totals of a waterfall, in the unit of its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of events that count.
    pub events: usize,
    /// Time in which at least one of them was in progress.
    pub sum: u64,
    /// Time from the first start to the last end, excluded events included.
    pub total: u64,
}

impl Figures {
    /// Time in which no counted event was in progress.
    #[must_use]
    pub fn gap(&self) -> u64 {
        self.total - self.sum
    }
}

/// `N Events / S Sum / T Total / G Gap`.
#[must_use]
pub fn summary(sums: &Figures, unit: Unit) -> String {
    format!(
        "{} Event{} / {} Sum / {} Total / {} Gap",
        sums.events,
        if sums.events == 1 { "" } else { "s" },
        unit.show(sums.sum),
        unit.show(sums.total),
        unit.show(sums.gap())
    )
}

/// Computes the totals of sorted events (see [`spans::sort`]).
#[must_use]
pub fn figures(events: &[Span]) -> Figures {
    let Some((first, last)) = ends(events) else { return Figures::default() };
    let gap: u64 = gaps(events).iter().map(|(start, end)| end - start).sum();
    let count = counted(events).count();
    Figures { events: count, sum: last - first - gap, total: last - first }
}

/// The intervals in which no counted event was in progress. The events must be sorted.
#[must_use]
pub fn gaps(events: &[Span]) -> Vec<(u64, u64)> {
    let Some((first, last)) = ends(events) else { return Vec::new() };
    let mut gaps = Vec::new();
    let mut right = first;
    for event in counted(events) {
        if right < event.start {
            gaps.push((right, event.start));
        }
        right = right.max(event.end);
    }
    if right < last {
        gaps.push((right, last));
    }
    gaps
}

fn counted(events: &[Span]) -> impl Iterator<Item = &Span> {
    events.iter().filter(|event| event.kind == SpanKind::Work)
}

/// First start and last end.
fn ends(events: &[Span]) -> Option<(u64, u64)> {
    let mut spanned = events.iter().filter(|event| event.kind != SpanKind::Wait);
    let first = spanned.next()?;
    Some((first.start, spanned.fold(first.end, |last, event| last.max(event.end))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(spans: &[(u64, u64)], expected: (u64, u64), expected_gaps: &[(u64, u64)]) {
        let event = |(start, end): &(u64, u64)| Span::new(*start, *end, "x");
        let mut events: Vec<_> = spans.iter().map(event).collect();
        spans::sort(&mut events);
        let found = figures(&events);
        assert_eq!((found.sum, found.total), expected, "{spans:?}");
        assert_eq!(gaps(&events), expected_gaps, "{spans:?}");
        assert_eq!(found.gap(), expected_gaps.iter().map(|gap| gap.1 - gap.0).sum::<u64>());
    }

    #[test]
    fn sum_counts_overlapping_time_once() {
        check(&[], (0, 0), &[]);
        check(&[(5, 5)], (0, 0), &[]);
        check(&[(5, 9)], (4, 4), &[]);
        check(&[(0, 10), (2, 4)], (10, 10), &[]);
        check(&[(0, 4), (2, 6)], (6, 6), &[]);
        check(&[(0, 4), (4, 6)], (6, 6), &[]);
        check(&[(10, 12), (0, 4)], (6, 12), &[(4, 10)]);
        check(&[(0, 1), (5, 6), (2, 3)], (3, 6), &[(1, 2), (3, 5)]);
    }

    /// Checks the totals of a file when events whose labels start with these prefixes are excluded.
    fn check_file(text: &str, left_out: &[&str], expected: &str) {
        let mut events = spans::parse(text).expect("the file is good");
        let is_left_out = |event: &Span| left_out.iter().any(|prefix| event.begins_with(prefix));
        for event in &mut events {
            if is_left_out(event) {
                event.kind = SpanKind::LeftOut;
            }
        }
        assert_eq!(summary(&figures(&events), Unit::Milliseconds), expected, "{left_out:?}");
    }

    /// Computed by hand: `Whole` covers 100 to 400. Without it, 120 to 150, 140 to 160 and 200 to
    /// 230 are covered, which is 70; the total remains 300.
    #[test]
    fn figures_match_those_of_the_public_tool() {
        let lines = include_str!("../fixtures/payment.ndjson");
        let array = format!("[{}]", lines.trim().replace('\n', ","));
        for text in [lines, &array] {
            check_file(text, &[], "5 Events / 300 ms Sum / 300 ms Total / 0 ms Gap");
            check_file(text, &["WHOLE"], "4 Events / 70 ms Sum / 300 ms Total / 230 ms Gap");
            check_file(text, &["prepare"], "3 Events / 300 ms Sum / 300 ms Total / 0 ms Gap");
            let [whole, fulfil] = ["whole", "Fulfil_Receive"];
            check_file(text, &[whole, fulfil], "3 Events / 40 ms Sum / 300 ms Total / 260 ms Gap");
            let most = [whole, "prepare", "fulfil receive"];
            check_file(text, &most, "1 Event / 0 ms Sum / 300 ms Total / 300 ms Gap");
            check_file(text, &[""], "0 Events / 0 ms Sum / 300 ms Total / 300 ms Gap");
        }
    }

    #[test]
    fn waits_do_not_affect_figures() {
        let wait = |start, end| Span { kind: SpanKind::Wait, ..Span::new(start, end, "wait") };
        let mut events = vec![Span::new(5, 9, "a"), Span::new(12, 13, "b")];
        let (sums, between) = (figures(&events), gaps(&events));
        events.extend([wait(1, 5), wait(9, 12), wait(13, 40)]);
        spans::sort(&mut events);
        assert_eq!((figures(&events), gaps(&events)), (sums, between));
    }
}
