//! A page of several waterfalls: the median one in full, a strip with one line for each, and a
//! table of the stages. One self-contained HTML file, drawn by the viewer.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Span, SpanKind, Unit, figures, gaps, summary, viewer};

/// Waterfalls and their descriptions.
#[derive(Clone, Debug)]
pub struct Waterfalls<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// The measured quantity and the method: one line each.
    pub notes: &'a [String],
    /// The events of each, sorted (see [`crate::spans::sort`]).
    pub runs: &'a [Vec<Span>],
    /// The unit of all times.
    pub unit: Unit,
    /// Colours of events by prefix of the label (see [`Span::begins_with`]); the first match wins,
    /// and an empty prefix matches all. By default, the colour is that of the group: the text
    /// before the colon of the label.
    pub colours: &'a [(String, String)],
}

/// One stage over all runs, in the unit of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFigures {
    /// Its label.
    pub label: String,
    /// Runs that have it.
    pub runs: usize,
    /// Median of its duration.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Maximum.
    pub max: u64,
}

/// All rows of a table: the stages of all runs, in the order in which they first appear, then the
/// gap, then the waits.
#[must_use]
pub fn rows(runs: &[Vec<Span>]) -> Vec<StageFigures> {
    let mut rows = labelled(runs, |kind| kind != SpanKind::Wait);
    rows.push(gap(runs));
    rows.extend(labelled(runs, |kind| kind == SpanKind::Wait));
    rows
}

fn labelled(runs: &[Vec<Span>], is_wanted: impl Fn(SpanKind) -> bool) -> Vec<StageFigures> {
    let mut order: Vec<(&str, SpanKind)> = Vec::new();
    let mut spans: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for event in runs.iter().flatten().filter(|event| is_wanted(event.kind)) {
        let of_label = spans.entry(&event.label).or_insert_with(|| {
            order.push((&event.label, event.kind));
            Vec::new()
        });
        of_label.push(event.end - event.start);
    }
    let figures = |(label, kind)| {
        let suffix = if kind == SpanKind::LeftOut { " (not counted)" } else { "" };
        stage_figures(&format!("{label}{suffix}"), spans.remove(label).unwrap_or_default())
    };
    order.into_iter().map(figures).collect()
}

/// The gap of each run, as a stage.
fn gap(runs: &[Vec<Span>]) -> StageFigures {
    let spans = runs.iter().map(|run| figures(run).gap()).collect();
    stage_figures("gap: no stage active", spans)
}

fn stage_figures(label: &str, mut spans: Vec<u64>) -> StageFigures {
    spans.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| percentile(&spans, percent));
    let max = spans.last().copied().unwrap_or_default();
    StageFigures { label: label.to_owned(), runs: spans.len(), p50, p99, max }
}

/// Index of the run with the median total, if there is one.
#[must_use]
pub fn median_run(runs: &[Vec<Span>]) -> Option<usize> {
    let mut totals: Vec<_> =
        runs.iter().enumerate().map(|(at, run)| (figures(run).total, at)).collect();
    totals.sort_unstable();
    totals.get(totals.len() / 2).map(|(_, at)| *at)
}

/// Renders the page.
#[must_use]
pub fn page(waterfalls: &Waterfalls<'_>) -> String {
    let Waterfalls { title, notes, runs, unit, .. } = *waterfalls;
    let median = median_run(runs).map(|number| Median {
        heading: match runs.len() {
            1 => "The transfer".to_owned(),
            count => format!("The median of {count}: number {}", number + 1),
        },
        summary: summary(&figures(&runs[number]), unit),
        number,
        gaps: waterfalls.gaps(&runs[number]),
    });
    let stages = rows(runs).into_iter().map(|stage| {
        let [p50, p99, max] = [stage.p50, stage.p99, stage.max].map(|time| unit.show(time));
        [stage.label, stage.runs.to_string(), p50, p99, max]
    });
    let longest = runs.iter().map(|run| figures(run).total).max().unwrap_or(0).max(1);
    let page = Page {
        title,
        notes,
        median,
        longest,
        full_width: unit.show(longest),
        runs: runs.iter().map(|run| waterfalls.bars(run)).collect(),
        stages: stages.collect(),
    };
    viewer::page("waterfall", &page)
}

/// The data of a page.
#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    notes: &'a [String],
    median: Option<Median>,
    longest: u64,
    full_width: String,
    runs: Vec<Vec<Bar<'a>>>,
    stages: Vec<[String; 5]>,
}

#[derive(Serialize)]
struct Median {
    heading: String,
    summary: String,
    /// Its index among the runs.
    number: usize,
    /// Intervals in which no stage was active: start, end and duration.
    gaps: Vec<(u64, u64, String)>,
}

/// An event, with times relative to the first start of its run.
#[derive(Serialize)]
struct Bar<'a> {
    from: u64,
    to: u64,
    label: &'a str,
    took: String,
    kind: SpanKind,
    /// A colour other than that of its group.
    colour: Option<&'a str>,
}

impl<'a> Waterfalls<'a> {
    fn bars(&self, run: &'a [Span]) -> Vec<Bar<'a>> {
        let first = first_start(run);
        let bar = |event: &'a Span| Bar {
            from: event.start.saturating_sub(first),
            to: event.end.saturating_sub(first),
            label: &event.label,
            took: self.unit.show(event.end - event.start),
            kind: event.kind,
            colour: self.colour(event),
        };
        run.iter().map(bar).collect()
    }

    fn gaps(&self, run: &[Span]) -> Vec<(u64, u64, String)> {
        let first = first_start(run);
        let shown = |(from, to)| (from - first, to - first, self.unit.show(to - from));
        gaps(run).into_iter().map(shown).collect()
    }

    fn colour(&self, event: &Span) -> Option<&'a str> {
        let all = || self.colours.iter().rev().find(|(prefix, _)| prefix.is_empty());
        let fits = |prefix: &str| !prefix.is_empty() && event.begins_with(prefix);
        let chosen = self.colours.iter().find(|(prefix, _)| fits(prefix));
        chosen.or_else(all).map(|(_, colour)| &**colour)
    }
}

fn first_start(run: &[Span]) -> u64 {
    run.iter().find(|event| event.kind != SpanKind::Wait).map_or(0, |first| first.start)
}

/// The smallest value that at least `percent` per cent do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<Vec<Span>> {
        (1..=3)
            .map(|run| vec![Span::new(0, 10 * run, "a: x"), Span::new(40, 45 + run, "b: y")])
            .collect()
    }

    #[test]
    fn stage_percentiles_cover_all_runs() {
        let mut runs = runs();
        runs[1].push(Span { kind: SpanKind::Wait, ..Span::new(30, 40, "b: wait") });
        runs[2].push(Span { kind: SpanKind::LeftOut, ..Span::new(30, 33, "c") });
        let figures = |label: &str, runs, [p50, p99, max]: [u64; 3]| StageFigures {
            label: label.into(),
            runs,
            p50,
            p99,
            max,
        };
        let expected = [
            figures("a: x", 3, [20, 30, 30]),
            figures("b: y", 3, [7, 8, 8]),
            figures("c (not counted)", 1, [3, 3, 3]),
            figures("gap: no stage active", 3, [20, 30, 30]),
            figures("b: wait", 1, [10, 10, 10]),
        ];
        assert_eq!(rows(&runs), expected);
    }

    #[test]
    fn median_run_has_the_median_total() {
        assert_eq!(median_run(&runs()), Some(1));
        assert_eq!(median_run(&[]), None);
    }

    #[test]
    fn page_shows_the_median_and_all_lines() {
        let runs = runs();
        let notes = ["one <second> apart".to_owned()];
        let page = page(&waterfalls(&runs, &notes, &[]));
        for part in [
            "T & T",
            "one \\u003csecond> apart",
            "The median of 3: number 2",
            "\"gaps\":[[20,40,\"20 us\"]]",
            "2 Events / 27 us Sum / 47 us Total / 20 us Gap",
        ] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("{\"from\":0,").count(), 3, "a line for each");
    }

    /// Excluded events and waits are marked, and a wait does not move other bars.
    #[test]
    fn bars_have_their_times_kinds_and_colours() {
        let run = [
            Span { kind: SpanKind::Wait, ..Span::new(1, 7, "a: wait") },
            Span { kind: SpanKind::LeftOut, ..Span::new(5, 25, "Whole") },
            Span::new(5, 10, "a"),
        ];
        let colours = [("", "#111"), ("WHO", "#123456"), ("", "#222")];
        let colours = colours.map(|(prefix, colour)| (prefix.to_owned(), colour.to_owned()));
        let bars = serde_json::to_value(waterfalls(&[], &[], &colours).bars(&run)).expect("JSON");
        let bar = |place: [u64; 2], label: &str, took: &str, kind: &str, colour: &str| {
            let [from, to] = place;
            serde_json::json!({"from": from, "to": to, "label": label, "took": took, "kind": kind,
                "colour": colour})
        };
        let expected = serde_json::json!([
            bar([0, 2], "a: wait", "6 us", "Wait", "#222"),
            bar([0, 20], "Whole", "20 us", "LeftOut", "#123456"),
            bar([0, 5], "a", "5 us", "Work", "#222"),
        ]);
        assert_eq!(bars, expected);
    }

    fn waterfalls<'a>(
        runs: &'a [Vec<Span>],
        notes: &'a [String],
        colours: &'a [(String, String)],
    ) -> Waterfalls<'a> {
        Waterfalls { title: "T & T", notes, runs, unit: Unit::Microseconds, colours }
    }

    #[test]
    fn empty_waterfalls_make_a_page() {
        assert!(page(&waterfalls(&[Vec::new()], &[], &[])).contains("0 Events"));
    }
}
