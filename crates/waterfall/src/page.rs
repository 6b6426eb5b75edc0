//! A page of many waterfalls: the median one drawn whole, a strip with one line for each, and a
//! table of the stages. One HTML file that needs nothing else.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::svg::{Groups, Style, draw, escape, opacity, summary};
use crate::{Event, Kind, figures};

/// Width of the strip, pixels.
const STRIP: f64 = 1_240.0;
/// Height of a line of it.
const LINE: f64 = 7.0;

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
    let title = escape(waterfalls.title);
    let mut html = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>body{{font:14px system-ui,sans-serif;max-width:1300px;margin:2em auto;\
         color:#222}}table{{border-collapse:collapse}}td,th{{padding:3px 12px;text-align:right;\
         border-bottom:1px solid #ddd}}td:first-child,th:first-child{{text-align:left}}\
         svg{{max-width:100%;height:auto}}</style></head><body><h1>{title}</h1>"
    );
    for note in waterfalls.notes {
        let _written = write!(html, "<p>{}</p>", escape(note));
    }
    if let Some(median) = median_run(waterfalls.runs) {
        let run = &waterfalls.runs[median];
        let sums = figures(run);
        let heading = match waterfalls.runs.len() {
            1 => "The transfer".to_owned(),
            runs => format!("The median of {runs}: number {}", median + 1),
        };
        let _written = write!(
            html,
            "<h2>{heading}</h2><p>{}. Hatched: the gap, in which nobody worked; grey below it: \
             waits, which are no part of the figures.</p>{}",
            summary(&sums, waterfalls.style.unit),
            draw(run, waterfalls.style)
        );
    }
    if 1 < waterfalls.runs.len() {
        html.push_str(&strip(waterfalls));
    }
    html.push_str(&table(waterfalls));
    html.push_str("</body></html>\n");
    html
}

/// One thin line for each run, all to the same scale.
fn strip(waterfalls: &Waterfalls<'_>) -> String {
    let longest = waterfalls.runs.iter().map(|run| figures(run).total).max().unwrap_or(0).max(1);
    let height = LINE * waterfalls.runs.len() as f64;
    let mut svg = format!(
        "<h2>All of them, one line each</h2><svg viewBox=\"0 0 {STRIP} {height}\" \
         width=\"{STRIP}\" height=\"{height}\">"
    );
    let mut groups = Groups::default();
    for (line, run) in waterfalls.runs.iter().enumerate() {
        let first = run.iter().find(|event| event.kind != Kind::Wait).map_or(0, |one| one.start);
        let scale = |at: u64| STRIP * (at - first) as f64 / longest as f64;
        for event in run.iter().filter(|event| event.kind != Kind::Wait) {
            let (from, to) = (scale(event.start), scale(event.end));
            let _written = write!(
                svg,
                "<rect x=\"{from:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{}\" \
                 fill=\"{}\" fill-opacity=\"{}\"><title>{}: {}</title></rect>",
                LINE * line as f64,
                (to - from).max(0.5),
                LINE - 1.0,
                groups.colour(&event.label),
                opacity(event),
                escape(&event.label),
                waterfalls.style.unit.show(event.end - event.start)
            );
        }
    }
    svg.push_str("</svg>");
    let longest = waterfalls.style.unit.show(longest);
    let _written = write!(svg, "<p>Full width: {longest}.</p>");
    svg
}

fn table(waterfalls: &Waterfalls<'_>) -> String {
    let unit = waterfalls.style.unit;
    let mut html = "<h2>Stages</h2><table><tr><th>stage</th><th>seen</th><th>p50</th><th>p99</th>\
                    <th>longest</th></tr>"
        .to_owned();
    for stage in rows(waterfalls.runs) {
        let _written = write!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&stage.label),
            stage.runs,
            unit.show(stage.p50),
            unit.show(stage.p99),
            unit.show(stage.max)
        );
    }
    html.push_str("</table>");
    html
}

/// The smallest value that is not below `percent` of them.
fn percentile(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Unit;

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
        for part in ["T &amp; T", "one &lt;second&gt; apart", "The median of 3: number 2"] {
            assert!(page.contains(part), "{part}");
        }
        assert_eq!(page.matches("<rect x=\"0.0\"").count(), 3, "a line for each");
    }
}
