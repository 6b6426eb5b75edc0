//! Results as one page of HTML that needs nothing else: tables, charts, checks, settings.
//!
//! The page takes any number of results, so a sweep can put its runs beside each other.

use std::fmt::Write;

use crate::bench_report::{BenchReport, Window};
use crate::chart::{Axis, Bar, Lines, Series, bars, escape, histogram, number};
use crate::report::Latency;

pub(crate) const STYLE: &str = "
body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;color:#222}
h1{font-size:1.6em}h2{font-size:1.15em;margin-top:2em}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:.25em .5em;border-bottom:1px solid #ddd;text-align:right}
th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto}.grid{stroke:#e3e3e3}.label{font-size:12px;fill:#555}
.legend span{margin-right:1.2em;font-size:13px}
.legend .key{display:inline-block;width:1.8em;height:.6em;margin-right:.4em}
.void{background:#d1495b;color:#fff;padding:.6em 1em}.bad{color:#b00020}
pre{background:#f6f6f6;padding:1em;overflow:auto}
";

/// The page of these results.
#[must_use]
pub fn report(results: &[BenchReport]) -> String {
    let mut page = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">");
    let title = title(results);
    let _ = write!(page, "<title>{0}</title><style>{STYLE}</style><h1>{0}</h1>", escape(&title));
    for result in results.iter().filter(|result| !result.valid) {
        let why = result.invalid_because.first().map_or("", |why| why);
        let _ = write!(page, "<p class=\"void\">VOID: {}: {}</p>", name(result), escape(why));
    }
    page += &table(results);
    section(&mut page, "Rate over time", &rates(results).svg());
    for result in results.iter().take(if results.len() == 1 { 1 } else { 0 }) {
        section(&mut page, "Latency over time", &latencies_over_time(result).svg());
    }
    section(&mut page, "Latency by percentile", &percentiles(results).svg());
    section(&mut page, "Latency histogram", &histograms(results, results.iter().map(name)));
    section(&mut page, "CPU time per unit", &cpu(results));
    for result in results {
        details(&mut page, &name(result), result);
    }
    page + "</html>\n"
}

/// Rates second by second, a line for each result.
pub(crate) fn rates(results: &[BenchReport]) -> Lines<'static> {
    let points = |result: &BenchReport| {
        let seconds = whole_seconds(result).iter();
        seconds.map(|it| (f64::from(it.second) + 0.5, it.ended as f64)).collect()
    };
    let series = results.iter();
    Lines {
        x_label: "seconds after the start of the measured part",
        y_label: "units a second",
        x_axis: Axis::Linear,
        series: series.map(|it| Series { name: name(it), points: points(it) }).collect(),
    }
}

/// Latency over quantile, a line for each result.
pub(crate) fn percentiles(results: &[BenchReport]) -> Lines<'static> {
    let series = results.iter();
    // The slowest of all has no place on this axis; the table has it.
    let points = |result: &BenchReport| {
        result.distribution_ms.iter().copied().filter(|&(quantile, _)| quantile < 1.0).collect()
    };
    Lines {
        x_label: "percentile, whole measured part",
        y_label: "milliseconds",
        x_axis: Axis::Nines,
        series: series.map(|it| Series { name: name(it), points: points(it) }).collect(),
    }
}

/// How many units took how long, a chart for each result under its name.
pub(crate) fn histograms(results: &[BenchReport], names: impl Iterator<Item = String>) -> String {
    let mut charts = String::new();
    for (result, name) in results.iter().zip(names) {
        let chart = histogram(&result.histogram_ms, "milliseconds");
        if !chart.is_empty() {
            let _ = write!(charts, "<h3>{}</h3>{chart}", escape(&name));
        }
    }
    charts
}

/// CPU time of switch and harness, a bar for each result.
pub(crate) fn cpu(results: &[BenchReport]) -> String {
    let bar = |result: &BenchReport| Bar {
        name: name(result),
        parts: vec![
            ("switch", result.summary.switch_cpu_ms_per_tx),
            ("harness (DFSPs and driver)", result.harness_cpu_ms_per_tx),
        ],
    };
    bars(&results.iter().map(bar).collect::<Vec<_>>(), "ms")
}

/// A row for each result.
pub(crate) fn table(results: &[BenchReport]) -> String {
    let mut table = String::from(
        "<table><tr><th>run<th>offered/s<th>achieved/s<th>dropped<th>p50<th>p95<th>p99<th>p99.9\
         <th>max ms<th>switch ms CPU<th>valid",
    );
    for result in results {
        let Window { rate_per_s, latency_ms, .. } = result.best_window();
        let Latency { p50, p95, p99, p999, max, .. } = latency_ms;
        let offered = result.offered_per_s.map_or("closed loop".to_owned(), number);
        let _ = write!(
            table,
            "<tr><td>{}<td>{offered}<td>{}<td>{}",
            escape(&name(result)),
            number(*rate_per_s),
            result.dropped
        );
        for value in [p50, p95, p99, p999, max] {
            let _ = write!(table, "<td>{}", number(*value));
        }
        let valid = if result.valid { "yes" } else { "<b class=\"bad\">VOID</b>" };
        let _ = write!(table, "<td>{}<td>{valid}", number(result.summary.switch_cpu_ms_per_tx));
    }
    table + "</table><p>Latency and rate of the steady part of each run.</p>"
}

/// A short name that tells runs of one page apart.
pub(crate) fn name(result: &BenchReport) -> String {
    match (result.offered_per_s, result.summary.concurrency) {
        (Some(rate), _) => format!("{} at {rate}/s", result.scenario),
        (None, Some(concurrency)) => format!("{}, {concurrency} in flight", result.scenario),
        (None, None) => result.scenario.to_owned(),
    }
}

fn title(results: &[BenchReport]) -> String {
    match results {
        [one] => format!("Upesi bench: {}", name(one)),
        _ => format!("Upesi bench: {} runs", results.len()),
    }
}

pub(crate) fn section(page: &mut String, title: &str, content: &str) {
    if !content.is_empty() {
        let _ = write!(page, "<h2>{}</h2>{content}", escape(title));
    }
}

fn latencies_over_time(result: &BenchReport) -> Lines<'static> {
    let seconds = whole_seconds(result);
    let series = |name: &str, of: fn(&crate::records::Second) -> f64| Series {
        name: name.to_owned(),
        points: seconds.iter().map(|it| (f64::from(it.second) + 0.5, of(it))).collect(),
    };
    Lines {
        x_label: "seconds after the start of the measured part",
        y_label: "milliseconds",
        x_axis: Axis::Linear,
        series: vec![series("p50", |it| it.p50_ms), series("p99", |it| it.p99_ms)],
    }
}

/// Without a last second that is not whole, which would look like a fall.
fn whole_seconds(result: &BenchReport) -> &[crate::records::Second] {
    let seconds = &result.seconds_one_by_one;
    let whole = (result.summary.seconds.floor() as usize).clamp(1, seconds.len().max(1));
    seconds.get(..whole).unwrap_or(seconds)
}

/// Everything that is known of a run.
pub(crate) fn details(page: &mut String, name: &str, result: &BenchReport) {
    let _ = write!(page, "<h2>{}</h2><p>{}</p>", escape(name), escape(result.unit));
    let _ = write!(page, "<pre>{}</pre>", escape(&result.to_string()));
    let mut short = result.clone();
    short.seconds_one_by_one.clear();
    short.distribution_ms.clear();
    short.histogram_ms.clear();
    let json = serde_json::to_string_pretty(&short).expect("a report has only plain members");
    let _ = write!(
        page,
        "<details><summary>All figures</summary><pre>{}</pre></details>",
        escape(&json)
    );
}
