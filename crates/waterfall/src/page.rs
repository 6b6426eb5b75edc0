//! A page of many waterfalls: the median one drawn whole, a strip with one line for each, and a
//! table of the stages. One HTML file that needs nothing else.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::svg::{Groups, Style, draw, opacity, summary};
use crate::{Event, Kind, Unit, figures, viewer};

/// Some waterfalls and what to say of them.
#[derive(Clone, Debug)]
pub struct Waterfalls<'a> {
    /// Title of the page.
    pub title: &'a str,
    /// What was measured and how: one line each.
    pub notes: &'a [String],
    /// The events of each, in order (see [`crate::events::sort`]).
    pub runs: &'a [Vec<Event>],
    /// How they are drawn.
    pub style: &'a Style,
}

/// One stage over all runs, in the unit of the events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StageFigures {
    /// Its label.
    pub label: String,
    /// Runs that have it.
    pub runs: usize,
    /// Median of the time it took.
    pub p50: u64,
    /// 99th percentile.
    pub p99: u64,
    /// Longest.
    pub max: u64,
}

/// All rows of a table: the stages of all runs, in the order in which they first appear, then the
/// gap, then what waited.
#[must_use]
pub fn rows(runs: &[Vec<Event>]) -> Vec<StageFigures> {
    let mut rows = labelled(runs, |kind| kind != Kind::Wait);
    rows.push(gap(runs));
    rows.extend(labelled(runs, |kind| kind == Kind::Wait));
    rows
}

fn labelled(runs: &[Vec<Event>], is_wanted: impl Fn(Kind) -> bool) -> Vec<StageFigures> {
    let mut order: Vec<(&str, Kind)> = Vec::new();
    let mut spans: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for event in runs.iter().flatten().filter(|event| is_wanted(event.kind)) {
        let of_label = spans.entry(&event.label).or_insert_with(|| {
            order.push((&event.label, event.kind));
            Vec::new()
        });
        of_label.push(event.end - event.start);
    }
    let figures = |(label, kind)| {
        let suffix = if kind == Kind::LeftOut { " (not counted)" } else { "" };
        stage_figures(&format!("{label}{suffix}"), spans.remove(label).unwrap_or_default())
    };
    order.into_iter().map(figures).collect()
}

/// The gap of each run, as if it were a stage.
fn gap(runs: &[Vec<Event>]) -> StageFigures {
    let spans = runs.iter().map(|run| figures(run).gap()).collect();
    stage_figures("gap: nobody worked", spans)
}

fn stage_figures(label: &str, mut spans: Vec<u64>) -> StageFigures {
    spans.sort_unstable();
    let [p50, p99] = [50, 99].map(|percent| percentile(&spans, percent));
    let max = spans.last().copied().unwrap_or_default();
    StageFigures { label: label.to_owned(), runs: spans.len(), p50, p99, max }
}

/// Number of the run whose total is the median of all, if there is one.
#[must_use]
pub fn median_run(runs: &[Vec<Event>]) -> Option<usize> {
    let mut totals: Vec<_> =
        runs.iter().enumerate().map(|(at, run)| (figures(run).total, at)).collect();
    totals.sort_unstable();
    totals.get(totals.len() / 2).map(|(_, at)| *at)
}

/// The whole page.
#[must_use]
pub fn page(waterfalls: &Waterfalls<'_>) -> String {
    let Waterfalls { title, notes, runs, style } = *waterfalls;
    let shown = |time| style.unit.show(time);
    let median = median_run(runs).map(|at| Median {
        heading: match runs.len() {
            1 => "The transfer".to_owned(),
            count => format!("The median of {count}: number {}", at + 1),
        },
        summary: summary(&figures(&runs[at]), style.unit),
        picture: draw(&runs[at], style),
    });
    let stages = rows(runs).into_iter().map(|stage| {
        let [p50, p99, max] = [stage.p50, stage.p99, stage.max].map(shown);
        [stage.label, stage.runs.to_string(), p50, p99, max]
    });
    let strip = (1 < runs.len()).then(|| Strip::of(runs, style.unit));
    viewer::page("waterfall", &Page { title, notes, median, strip, stages: stages.collect() })
}

/// The data of a page.
#[derive(Serialize)]
struct Page<'a> {
    title: &'a str,
    notes: &'a [String],
    median: Option<Median>,
    strip: Option<Strip<'a>>,
    stages: Vec<[String; 5]>,
}

#[derive(Serialize)]
struct Median {
    heading: String,
    summary: String,
    /// An SVG document.
    picture: String,
}

/// One thin line for each run, all to the same scale.
#[derive(Serialize)]
struct Strip<'a> {
    longest: u64,
    full_width: String,
    runs: Vec<Vec<Bar<'a>>>,
}

#[derive(Serialize)]
struct Bar<'a> {
    from: u64,
    to: u64,
    label: &'a str,
    took: String,
    colour: &'static str,
    opacity: &'static str,
}

impl<'a> Strip<'a> {
    fn of(runs: &'a [Vec<Event>], unit: Unit) -> Self {
        let longest = runs.iter().map(|run| figures(run).total).max().unwrap_or(0).max(1);
        let mut groups = Groups::default();
        let mut line = |run: &'a Vec<Event>| {
            let events = run.iter().filter(|event| event.kind != Kind::Wait);
            let first = events.clone().next().map_or(0, |one| one.start);
            let bar = |event: &'a Event| Bar {
                from: event.start - first,
                to: event.end - first,
                label: &event.label,
                took: unit.show(event.end - event.start),
                colour: groups.colour(&event.label),
                opacity: opacity(event),
            };
            events.map(bar).collect()
        };
        let runs = runs.iter().map(&mut line).collect();
        Self { longest, full_width: unit.show(longest), runs }
    }
}

/// The smallest value that is not below `percent` of them.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs() -> Vec<Vec<Event>> {
        (1..=3)
            .map(|run| vec![Event::new(0, 10 * run, "a: x"), Event::new(40, 45 + run, "b: y")])
            .collect()
    }

    #[test]
    fn stages_have_their_percentiles_over_all_runs() {
        let mut runs = runs();
        runs[1].push(Event { kind: Kind::Wait, ..Event::new(30, 40, "b: wait") });
        runs[2].push(Event { kind: Kind::LeftOut, ..Event::new(30, 33, "c") });
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
            figures("gap: nobody worked", 3, [20, 30, 30]),
            figures("b: wait", 1, [10, 10, 10]),
        ];
        assert_eq!(rows(&runs), expected);
    }

    #[test]
    fn the_median_run_is_in_the_middle_of_their_totals() {
        assert_eq!(median_run(&runs()), Some(1));
        assert_eq!(median_run(&[]), None);
    }

    #[test]
    fn a_page_shows_the_median_and_all_lines() {
        let style = Style { unit: Unit::Microseconds, colours: Vec::new() };
        let runs = runs();
        let notes = ["one <second> apart".to_owned()];
        let page = page(&Waterfalls { title: "T & T", notes: &notes, runs: &runs, style: &style });
        for part in ["T & T", "one \\u003csecond> apart", "The median of 3: number 2"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("{\"from\":0,").count(), 3, "a line for each");
    }
}
